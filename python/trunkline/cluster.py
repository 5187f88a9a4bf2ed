"""Runs an experiment by an executor: processes of this machine, Dask, or whatever else gives a ``concurrent.futures.Executor``.

    from distributed import Client
    results = trunkline.cluster.run(exp, Client("scheduler:8786").get_executor(), out="/shared/results")

The runs are cut into parts of some seconds. A worker makes a part and writes it into a directory of its own below ``out``, which all
workers must see; only a few numbers travel. A part that is lost with its worker is made again, and what it had finished is not. At the
end all parts are put together, to the byte as if one process had made them.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, as_completed
from pathlib import Path

from ._trunkline import VERSION, Experiment, ExperimentError, Results, RunError

__all__ = ["make_part", "run"]

#: Packets over links that a CPU simulates in ten seconds, about.
WORK = 10e6


def make_part(text: str, part: str, out: str) -> int:
    """What a worker does: makes a part of an experiment's runs, or what is missing of it, on one CPU. Returns how many runs it has."""
    return len(Experiment.parse(text).run(jobs=1, out=out, begin="resume", part=part))


def run(
    experiment: Experiment,
    executor: Executor,
    out: str | os.PathLike[str],
    *,
    parts: int | None = None,
    retries: int = 2,
    progress: Callable[[int, int], object] | None = None,
) -> Results:
    """Runs an experiment by an executor; its results are in a directory of its id in ``out``.

    ``parts``: how many there are; without it, so many that each takes about ten seconds. ``retries``: how often a part that failed is tried
    again. ``progress`` gets the parts that are done, and all of them. The same call goes on with what an interrupted one has left.
    Raises RunError if a part fails for good: it names the part, and what is finished is kept.
    """
    runs = len(experiment.points()) * experiment.runs
    if parts is None:
        parts = min(runs, math.ceil(experiment.work() / WORK))
    if not 1 <= parts <= 1_000_000:
        raise ValueError(f"parts is {parts}; allowed: 1 to 1000000")
    parts = min(parts, runs)
    text = experiment.to_toml()
    # What is left of another experiment, or of another version, is not gone on with.
    name = hashlib.sha256(f"{VERSION}\n{parts}\n{text}".encode()).hexdigest()[:16]
    place = Path(out) / f".parts-{experiment.id}-{name}"
    tries = dict.fromkeys(range(1, parts + 1), 0)
    waiting: dict[Future[int], int] = {}

    def submit(part: int) -> None:
        waiting[executor.submit(make_part, text, f"{part}/{parts}", str(place / str(part)))] = part

    try:
        for part in tries:
            submit(part)
        done = 0
        while waiting:
            for future in as_completed(list(waiting)):
                part = waiting.pop(future)
                try:
                    future.result()
                except ExperimentError:
                    raise
                except (Exception, CancelledError) as error:
                    tries[part] += 1
                    if tries[part] > retries:
                        raise RunError(f"part {part}/{parts} failed {tries[part]} times: {error}") from error
                    submit(part)
                else:
                    done += 1
                    if progress is not None:
                        progress(done, parts)
    finally:
        for future in waiting:
            future.cancel()
    results = Results.merge([place / str(part) for part in tries], out, begin="force")
    _remove(place)
    return results


def _remove(place: Path) -> None:
    """Removes parts that are in the results now."""
    import shutil

    shutil.rmtree(place, ignore_errors=True)
