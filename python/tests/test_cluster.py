from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import trunkline as tl
from trunkline import cluster
from trunkline._store import Store


def bytes_of(directory: Path) -> dict[str, bytes]:
    names = ["experiment.toml", "runs.jsonl", "results.jsonl", "runs.parquet", "metrics.parquet", "series.parquet"]
    return {name: (directory / name).read_bytes() for name in names}


@pytest.fixture
def many(dumbbell: tl.Experiment) -> tl.Experiment:
    return dumbbell.set("runs", 6)


def test_processes_give_what_one_process_gives_to_the_byte(many: tl.Experiment, tmp_path: Path) -> None:
    whole = many.run(out=tmp_path / "whole")
    seen: list[tuple[int, int]] = []
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


def test_an_experiment_takes_an_executor(many: tl.Experiment, tmp_path: Path) -> None:
    told: list[tuple[int, int, float | None]] = []
    with ThreadPoolExecutor(2) as executor:
        results = many.run(executor=executor, out=tmp_path, progress=lambda *now: told.append(now))
        assert results.points == many.run().points
        assert told == [(1, 1, None)]
        for wrong in ({}, {"out": tmp_path, "jobs": 2}, {"out": tmp_path, "part": "1/2"}, {"out": tmp_path, "begin": "force"}):
            with pytest.raises(ValueError, match="with an executor out is needed"):
                many.run(executor=executor, **wrong)  # type: ignore[arg-type]


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


def kill(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_executor_that_is_gone_is_said(many: tl.Experiment, tmp_path: Path) -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        with pytest.raises(Exception, match="terminated abruptly"):
            executor.submit(kill).result()
        with pytest.raises(tl.RunError, match="part 1/4 cannot be given to the executor"):
            cluster.run(many, executor, tmp_path, parts=4)


def test_parts_that_nobody_puts_together_have_all_runs(many: tl.Experiment, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    with ThreadPoolExecutor(2) as executor:
        places = cluster.run_parts(many, executor, tmp_path, parts=5)
        assert places == cluster.run_parts(many, executor, tmp_path, parts=5), "nothing is made again"
    assert len(places) == 5
    together = polars.scan_parquet([f"{place}/runs.parquet" for place in places]).collect()
    assert sorted(together["digest"]) == sorted(many.run().runs.to_dict()["digest"])


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


def test_a_cluster_that_is_gone_is_said(many: tl.Experiment, tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    made = distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None, host="127.0.0.1"
    )
    client = distributed.Client(made)
    executor = client.get_executor()
    client.close()
    made.close()
    with pytest.raises(tl.RunError, match="part 1/2 cannot be given to the executor"):
        cluster.run(many, executor, tmp_path, parts=2)


def test_ray_gives_the_same(many: tl.Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray = pytest.importorskip("ray")
    # Paths of its sockets are short, or it does not start.
    with tempfile.TemporaryDirectory(prefix="ray") as scratch:
        ray.init(num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1", _temp_dir=scratch, log_to_driver=False)
        try:
            results = cluster.run(many, cluster.RayExecutor(), tmp_path / "out", parts=6)
            with cluster.RayExecutor() as executor:
                slow = executor.submit(time.sleep, 60.0)
                wrong = executor.submit(int, "seven")
                with pytest.raises(ValueError, match="seven"):
                    wrong.result()
                executor.shutdown(cancel_futures=True)
                assert slow.cancelled()
        finally:
            ray.shutdown()
    assert results.points == many.run().points


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An empty bucket of an S3 on loopback."""
    pytest.importorskip("obstore")
    server = pytest.importorskip("moto.server").ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    try:
        _, port = server.get_host_and_port()
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        request = urllib.request.Request(f"http://127.0.0.1:{port}/sweeps", method="PUT")
        urllib.request.urlopen(request).close()
        yield "s3://sweeps"
    finally:
        server.stop()


def test_s3_gives_the_same(many: tl.Experiment, tmp_path: Path, bucket: str) -> None:
    whole = many.run(out=tmp_path / "whole")
    out = f"{bucket}/of-today"
    with ThreadPoolExecutor(2) as executor:
        # One part is there already, from a call that was interrupted.
        with Unreliable(1) as unreliable:
            unreliable.lost = 1
            with pytest.raises(tl.RunError, match="the worker is gone"):
                cluster.run(many, unreliable, out, parts=2, retries=0)
        results = cluster.run(many, executor, out, parts=2)
    assert results.points == whole.points
    store = Store(out)
    assert store.complete("dumbbell") == "12"
    store.get("dumbbell", tmp_path / "copy")
    assert bytes_of(tmp_path / "copy") == bytes_of(tmp_path / "whole" / "dumbbell")
    store.get("", tmp_path / "rest")
    assert not any(tmp_path.glob("rest/.parts*")), "no part stays"


def test_an_s3_that_refuses_is_said(many: tl.Experiment, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with ThreadPoolExecutor(1) as executor:
        with pytest.raises(tl.RunError, match="s3://nobodys/x/.parts-dumbbell"):
            cluster.run(many, executor, "s3://nobodys/x")
        with pytest.raises(tl.RunError, match="gopher://host/x"):
            cluster.run(many, executor, "gopher://host/x")


def test_the_job_of_kubernetes_is_one_and_its_command_makes_a_part(
    many: tl.Experiment, tmp_path: Path, program: str
) -> None:
    validate = pytest.importorskip("kubernetes_validate")
    yaml = pytest.importorskip("yaml")
    file = Path(os.environ.get("TRUNKLINE_ROOT", Path(__file__).parents[2]), "examples/cluster/kubernetes.yaml")
    if not file.exists():
        pytest.skip("lacks the repository around the package: TRUNKLINE_ROOT says where it is")
    documents = list(yaml.safe_load_all(file.read_text()))
    for document in documents:
        validate.validate(document, validate.latest_version(), strict=True)
    (container,) = documents[1]["spec"]["template"]["spec"]["containers"]
    (line,) = container["args"]
    # The paths of its volumes are here, and its twelve runs are two of each of six parts.
    line = line.replace("/experiment/", f"{tmp_path}/").replace("/results/", f"{tmp_path}/results/").replace("/16", "/6")
    (tmp_path / "exp.toml").write_text(many.to_toml())
    (tmp_path / "trunkline").symlink_to(program)
    for index in range(6):
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "JOB_COMPLETION_INDEX": str(index)}
        subprocess.run([*container["command"], line], check=True, capture_output=True, env=environment)
    parts = sorted((tmp_path / "results" / "parts").iterdir())
    made = tl.Results.merge(parts, tmp_path / "all").points
    assert [point["digest"] for point in made] == [point["digest"] for point in many.run().points]
