#!/bin/bash
# The runs of an experiment as an array of jobs, each on one CPU, and a job that puts them together when all are done:
#   array=$(sbatch --parsable --export=ALL,EXPERIMENT=exp.toml,OUT=/shared/exp slurm.sh)
#   sbatch --dependency="afterok:$array" --wrap "trunkline lab merge /shared/exp/parts/* --out /shared/exp"
# A part that is requeued goes on with what it has; the same command again makes what is missing.
#SBATCH --job-name=trunkline
#SBATCH --array=1-16
#SBATCH --cpus-per-task=1
#SBATCH --requeue
set -eu
exec trunkline lab run "$EXPERIMENT" --part "$SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT" --jobs 1 --resume --out "$OUT/parts/$SLURM_ARRAY_TASK_ID"
