from __future__ import annotations

import os
import signal
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import trunkline as tl
from trunkline import cluster


def bytes_of(directory: Path) -> dict[str, bytes]:
    names = ["experiment.toml", "runs.jsonl", "results.jsonl", "runs.parquet", "metrics.parquet", "series.parquet"]
    return {name: (directory / name).read_bytes() for name in names}


@pytest.fixture
def many(dumbbell: tl.Experiment) -> tl.Experiment:
    return dumbbell.set("runs", 6)


def test_processes_give_what_one_process_gives_to_the_byte(many: tl.Experiment, tmp_path: Path) -> None:
    whole = many.run(out=tmp_path / "whole")
    seen: list[tuple[int, int]] = []
    import multiprocessing

    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as executor:
        results = cluster.run(
            many, executor, tmp_path / "parts", parts=5, progress=lambda done, of: seen.append((done, of))
        )
    assert results.points == whole.points and seen == [(done, 5) for done in range(1, 6)]
    assert bytes_of(tmp_path / "parts" / "dumbbell") == bytes_of(tmp_path / "whole" / "dumbbell")
    assert [entry.name for entry in (tmp_path / "parts").iterdir()] == ["dumbbell"], "no part stays"


def test_parts_are_put_together_or_said_to_be_missing(many: tl.Experiment, tmp_path: Path) -> None:
    for part in (1, 2):
        assert len(many.run(out=tmp_path / str(part), part=f"{part}/3")) == 4
    with pytest.raises(tl.RunError, match="8 of 12 runs of dumbbell"):
        tl.Results.merge([tmp_path / "1", tmp_path / "2"], tmp_path / "all")
    many.run(out=tmp_path / "3", part="3/3")
    whole = tl.Results.merge([tmp_path / name for name in "123"], tmp_path / "all", begin="force")
    assert whole.points == many.run().points
    with pytest.raises(ValueError, match="N from 1 to M"):
        many.run(part="4/3")
    with pytest.raises(tl.RunError, match="no results here"):
        tl.Results.merge([tmp_path / "nothing"], tmp_path / "all")


class Unreliable(ThreadPoolExecutor):
    """Loses the first `lost` tasks, as a worker that dies does."""

    lost = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        if self.lost > 0:
            self.lost -= 1
            return super().submit(self.die)
        return super().submit(fn, *args, **kwargs)

    @staticmethod
    def die() -> None:
        raise OSError("the worker is gone")


def test_what_is_lost_is_made_again_but_not_for_ever(many: tl.Experiment, tmp_path: Path) -> None:
    with Unreliable(2) as executor:
        executor.lost = 3
        results = cluster.run(many, executor, tmp_path / "a", parts=4, retries=3)
        assert results.points == many.run().points
        executor.lost = 1000
        with pytest.raises(tl.RunError, match="part ./4 failed 3 times: the worker is gone"):
            cluster.run(many, executor, tmp_path / "b", parts=4)
        executor.lost = 0
        # What is kept is gone on with.
        assert cluster.run(many, executor, tmp_path / "b", parts=4).points == results.points


def test_a_part_is_about_ten_seconds(dumbbell: tl.Experiment, tmp_path: Path) -> None:
    assert 1e5 < dumbbell.work() < 3e5
    with pytest.raises(ValueError, match="parts is 0"):
        cluster.run(dumbbell, ThreadPoolExecutor(1), tmp_path, parts=0)


def die_once(text: str, part: str, out: str, mark: str) -> int:
    """Makes its part with one worker killed in the middle of all."""
    try:
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return cluster.make_part(text, part, out)
    os.kill(os.getpid(), signal.SIGKILL)
    return 0


def test_dask_gives_the_same_with_a_worker_killed(
    many: tl.Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    distributed = pytest.importorskip("distributed")
    mark = str(tmp_path / "killed")

    class Killing(ThreadPoolExecutor):
        def __init__(self, executor: Any) -> None:
            self.executor = executor

        def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
            future: Future[Any] = self.executor.submit(die_once, *args, mark)
            return future

    made = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    )
    with made, distributed.Client(made) as client:
        results = cluster.run(many, Killing(client.get_executor()), tmp_path / "out", parts=6)
    assert Path(mark).exists()
    assert results.points == many.run().points
