"""Runs an experiment by an executor: processes of this machine, Dask, Ray, or whatever else gives a ``concurrent.futures.Executor``.

    from distributed import Client
    results = trunkline.cluster.run(exp, Client("scheduler:8786").get_executor(), out="/shared/results")
    results = trunkline.cluster.run(exp, trunkline.cluster.RayExecutor(), out="s3://bucket/results")

The runs are cut into parts of some seconds. A worker makes a part and writes it below ``out``, a directory that all workers see or a place in
an object store; only a few numbers travel. A part that is lost with its worker is made again. At the end all parts are put together, to the
byte as if one process had made them.
"""

from __future__ import annotations

import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, as_completed
from pathlib import Path
from typing import Any

from ._store import Store, is_store
from ._trunkline import VERSION, Experiment, ExperimentError, Results, RunError

__all__ = ["RayExecutor", "make_part", "run", "run_parts"]

#: Packets over links that a CPU simulates in ten seconds, about.
WORK = 10e6


def make_part(text: str, part: str, out: str) -> int:
    """What a worker does: makes a part of an experiment's runs, or what is missing of it, on one CPU, into a directory or a place in a store.
    Returns how many runs it has."""
    experiment = Experiment.parse(text)
    if not is_store(out):
        return len(experiment.run(jobs=1, out=out, begin="resume", part=part))
    address, name = out.rsplit("/", 1)
    store = Store(address)
    complete = store.complete(name)
    if complete is not None:
        return int(complete)
    with tempfile.TemporaryDirectory(prefix="trunkline-part-") as directory:
        runs = len(experiment.run(jobs=1, out=directory, part=part))
        store.put(Path(directory), name, str(runs))
    return runs


def run(
    experiment: Experiment,
    executor: Executor,
    out: str | os.PathLike[str],
    *,
    parts: int | None = None,
    retries: int = 2,
    progress: Callable[[int, int], object] | None = None,
) -> Results:
    """Runs an experiment by an executor; its results are in a directory of its id in ``out``, a directory or an address such as
    ``s3://bucket/prefix`` (with the package obstore).

    ``parts``: how many there are; without it, so many that each takes about ten seconds. ``retries``: how often a part that failed is tried
    again. ``progress`` gets the parts that are done, and all of them. The same call goes on with what an interrupted one has left.
    Raises RunError if a part fails for good: it names the part, and what is finished is kept.
    """
    place, made = _make(experiment, executor, out, ".parts-{}-{}", parts, retries, progress)
    if not is_store(place):
        results = Results.merge([f"{place}/{part}" for part in made], out, begin="force")
        shutil.rmtree(place, ignore_errors=True)
        return results
    with tempfile.TemporaryDirectory(prefix="trunkline-parts-") as directory:
        local, store = Path(directory), Store(place)
        for part in made:
            store.get(str(part), local / str(part))
        results = Results.merge([local / str(part) for part in made], local / "all")
        Store(os.fspath(out)).put(local / "all" / experiment.id, experiment.id, str(len(results)))
        for part in made:
            store.remove(str(part))
    return results


def run_by(
    experiment: Experiment,
    executor: Executor,
    out: str | os.PathLike[str],
    progress: Callable[[int, int, float | None], object] | None,
) -> Results:
    """What ``Experiment.run`` does with an executor: ``progress`` gets parts in the place of runs."""
    return run(experiment, executor, out, progress=progress and (lambda done, of: progress(done, of, None)))


def run_parts(
    experiment: Experiment,
    executor: Executor,
    out: str | os.PathLike[str],
    *,
    parts: int | None = None,
    retries: int = 2,
    progress: Callable[[int, int], object] | None = None,
) -> list[str]:
    """The same, and nothing is put together: for a sweep whose results are larger than a machine's memory. Gives the place of each part, which
    has `runs.parquet` and the other tables of a directory of results; programs for tables read them together."""
    place, made = _make(experiment, executor, out, "{}-parts-{}", parts, retries, progress)
    return [f"{place}/{part}/{experiment.id}" for part in made]


def _make(
    experiment: Experiment,
    executor: Executor,
    out: str | os.PathLike[str],
    name: str,
    parts: int | None,
    retries: int,
    progress: Callable[[int, int], object] | None,
) -> tuple[str, range]:
    """Has all parts made, each below its number in a place of this name in ``out``. Gives the place and the numbers. What is left there of another
    experiment, or of another version, is not gone on with."""
    runs, text = len(experiment.points()) * experiment.runs, experiment.to_toml()
    if parts is None:
        parts = min(runs, math.ceil(experiment.work() / WORK))
    if not 1 <= parts <= 1_000_000:
        raise ValueError(f"parts is {parts}; allowed: 1 to 1000000")
    parts = min(parts, runs)
    identity = hashlib.sha256(f"{VERSION}\n{parts}\n{text}".encode()).hexdigest()[:16]
    place = f"{os.fspath(out).rstrip('/')}/{name.format(experiment.id, identity)}"
    if is_store(place):
        Store(place).complete("0")  # What is wrong with the place is said before anything is made.
    tries = dict.fromkeys(range(1, parts + 1), 0)
    waiting: dict[Future[int], int] = {}

    def submit(part: int) -> None:
        try:
            future = executor.submit(make_part, text, f"{part}/{parts}", f"{place}/{part}")
        except Exception as error:
            raise RunError(f"part {part}/{parts} cannot be given to the executor: {error}") from error
        waiting[future] = part

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
    return place, range(1, parts + 1)


class RayExecutor(Executor):
    """An executor whose calls are tasks of Ray, on the cluster that ``ray.init`` has joined. A task whose worker dies is tried again by
    ``run``; one that is cancelled is ended."""

    def __init__(self, **options: Any) -> None:
        """`options` are those of a task of Ray, such as `resources`."""
        import ray

        self._ray = ray
        self._task = ray.remote(_call).options(**{"num_cpus": 1, "max_retries": 0, **options})
        self._waiting: set[Future[Any]] = set()

    def submit(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Future[Any]:
        reference = self._task.remote(function, args, keywords)
        future: Future[Any] = reference.future()

        def ended(future: Future[Any]) -> None:
            self._waiting.discard(future)
            if future.cancelled():
                self._ray.cancel(reference, force=True)

        self._waiting.add(future)
        future.add_done_callback(ended)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        for future in list(self._waiting):
            if cancel_futures:
                future.cancel()
            elif wait:
                future.exception()


def _call(function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    return function(*args, **keywords)
