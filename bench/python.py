#!/usr/bin/env python3
"""What the package costs: a run in process beside one of the program, an environment's steps, two workers of Dask beside one process, and the
memory of a sweep's client. Needs the package from a release build (`pip install './python[gym]' distributed`).

usage: bench/python.py [--program PATH] [--runs N] [--sweep N] [--json]
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import trunkline as tl
from trunkline.gym import SenderEnv

LINE = {
    "id": "line",
    "title": "One flow over a line",
    "duration": "60 s",
    "runs": 1,
    "nodes": {"a": "host", "b": "host"},
    "links": {"wan": {"ends": ["a", "b"], "rate": "10 Mbit/s", "delay": "10 ms", "queue": {"discipline": "tail-drop", "packets": 60}}},
    "traffic": {"bulk": {"kind": "bulk", "from": "a", "to": "b"}},
}


def seconds(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_process(program: str) -> dict[str, float]:
    """The same runs, one at a time, by the program and in this process."""
    experiment = tl.Experiment.load("two-offices").set("runs", 4)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "offices.toml")
        file.write_text(experiment.to_toml())
        command = [program, "lab", "run", file, "--jobs", "1", "--force", "--out", place]
        theirs = seconds(lambda: subprocess.run(command, check=True, capture_output=True))
        ours = seconds(lambda: experiment.run(jobs=1, out=place, begin="force"))
    return {"program_s": theirs, "in_process_s": ours, "in_process_to_program": ours / theirs}


def environment() -> dict[str, float]:
    """Steps of 10 ms simulated, one flow, one core; and the start of an episode."""
    sender = SenderEnv(tl.Experiment.from_dict(LINE), "bulk", step=0.01)
    action = np.zeros(1, np.float32)
    sender.reset(seed=1)

    def steps() -> None:
        for _ in range(5000):
            sender.step(action)

    rate = 5000 / seconds(steps)
    resets = [seconds(lambda: sender.reset(seed=seed)) for seed in range(20)]
    return {"steps_per_s": rate, "reset_ms": statistics.median(resets) * 1e3}


def start() -> dict[str, float]:
    command = [sys.executable, "-c", "import trunkline"]
    bare = statistics.median(seconds(lambda: subprocess.run([sys.executable, "-c", ""], check=True)) for _ in range(5))
    whole = statistics.median(seconds(lambda: subprocess.run(command, check=True)) for _ in range(5))
    return {"import_ms": (whole - bare) * 1e3}


def dask() -> dict[str, float]:
    """Sixteen parts of some seconds by two workers, beside two threads of this process."""
    from distributed import Client, LocalCluster

    experiment = tl.Experiment.load("two-offices").set("runs", 48)
    with tempfile.TemporaryDirectory() as place:
        ours = seconds(lambda: experiment.run(jobs=2, out=f"{place}/one"))
        made = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1")
        with made, Client(made) as client:
            # Workers import the package with their first task.
            client.run(lambda: __import__("trunkline"))
            theirs = seconds(lambda: tl.cluster.run(experiment, client.get_executor(), f"{place}/two", parts=16))
    return {"two_threads_s": ours, "two_workers_s": theirs, "dask_efficiency": ours / theirs}


def memory(runs: int) -> dict[str, float]:
    """The client's memory while a sweep of so many short runs is made by processes, in parts that nobody puts together."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    rates = [f"{rate} Mbit/s" for rate in range(1, 11)]
    tiny = {**LINE, "duration": "200 ms", "runs": runs // 10, "sweep": {"rate": {"paths": ["links.wan.rate"], "values": rates}}}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    with tempfile.TemporaryDirectory() as place, ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        took = seconds(lambda: tl.cluster.run_parts(tl.Experiment.from_dict(tiny), pool, place, parts=32))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"sweep_runs": runs, "sweep_s": took, "client_mb": after - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="trunkline", help="of the same build")
    parser.add_argument("--runs", type=int, default=5, help="each is the median of so many")
    parser.add_argument("--sweep", type=int, default=1000, help="runs of the sweep whose client is measured")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    parts = [lambda: in_process(given.program), environment, start, dask]
    found: dict[str, float] = {}
    for part in parts:
        rounds = [part() for _ in range(given.runs)]
        found |= {name: statistics.median(round_[name] for round_ in rounds) for name in rounds[0]}
        if "in_process_to_program" in rounds[0]:
            found["in_process_to_program_worst"] = max(round_["in_process_to_program"] for round_ in rounds)
    found |= memory(given.sweep)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:28} {value:10.3f}")


if __name__ == "__main__":
    main()
