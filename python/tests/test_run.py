from __future__ import annotations

import html
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import trunkline as tl


def test_results_are_those_of_the_command_line_to_the_bit(file: Path, program: str, tmp_path: Path) -> None:
    ours = tl.Experiment.load(file).run()
    said = subprocess.run(
        [program, "lab", "run", file, "--out", tmp_path, "--json"], check=True, capture_output=True, text=True
    )
    theirs = [json.loads(line) for line in said.stdout.splitlines()]
    assert [point["digest"] for point in ours.points] == [point["digest"] for point in theirs]
    assert [point["metrics"] for point in ours.points] == [point["metrics"] for point in theirs]
    again = tl.Results.open(tmp_path / "dumbbell")
    assert again.runs.to_dict()["digest"] == ours.runs.to_dict()["digest"]


def test_tables_have_a_row_for_each_run_metric_and_value(dumbbell: tl.Experiment) -> None:
    results = dumbbell.run()
    runs = results.runs.to_dict()
    assert len(results) == len(results.runs) == 4
    assert runs["seed"] == [1, 2, 1, 2] and runs["point.others"] == [1.0, 1.0, 3.0, 3.0]
    assert results.runs.units["all.goodput"] == "bit/s"
    assert all(9e6 < value < 10e6 for value in runs["all.goodput"])
    assert len(results.metrics) > 40 and set(results.metrics.column_names) >= {"metric", "value", "unit", "seed"}
    assert results.series is not None
    assert len(results.series) == 4 * 2 * 10
    assert [(claim.text, claim.verdict) for claim in results.claims] == [("The link is full", "holds")]
    assert results.points[0]["metrics"]["all.goodput"]["mean"] > 9e6
    assert results.directory is None and results.failures == []
    assert "The link is full" in results.report()
    shown = results._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!DOCTYPE') or shown.startswith('<iframe srcdoc="<!DOCTYPE')
    assert html.unescape(shown).count(results.report()) == 1 and shown.count('"') == 6


def test_programs_for_tables_take_them(dumbbell: tl.Experiment) -> None:
    results = dumbbell.set("runs", 1).run()
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(results)
    assert table.num_rows == 2 and table.schema.field("all.goodput").metadata == {b"unit": b"bit/s"}
    # A stream can be taken more than once.
    assert pyarrow.table(results).equals(table)
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(results.series)
    assert frame.height == 2 * 2 * 10 and frame["time"].max() == 10.0


def test_results_are_kept_where_one_says_and_gone_on_with(dumbbell: tl.Experiment, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def stop(done: int, total: int, left: float | None) -> None:
        seen.append((done, total))
        if done == 2:
            raise KeyError("enough")

    with pytest.raises(KeyError, match="enough"):
        dumbbell.set("runs", 8).run(out=tmp_path, jobs=1, progress=stop)
    kept = len((tmp_path / "dumbbell" / "runs.jsonl").read_text().splitlines())
    assert 2 <= kept < 16 and seen[0] == (0, 16)
    with pytest.raises(tl.RunError, match='allowed: begin="resume" to go on with them'):
        dumbbell.run(out=tmp_path)
    with pytest.raises(tl.RunError, match='the experiment was another .* begin="force"'):
        dumbbell.set("duration", "9 s").run(out=tmp_path, begin="resume")
    whole = dumbbell.set("runs", 8).run(out=tmp_path, begin="resume", progress=lambda *told: seen.append(told[:2]))
    assert len(whole) == 16 and (kept, 16) in seen and whole.directory == tmp_path / "dumbbell"
    assert whole.points == dumbbell.set("runs", 8).run().points


def test_python_goes_on_meanwhile(dumbbell: tl.Experiment) -> None:
    turns, done = 0, threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.wait(0.001):
            turns += 1

    counter = threading.Thread(target=count)
    counter.start()
    try:
        dumbbell.set("duration", "100 s").run(jobs=1)
    finally:
        done.set()
        counter.join()
    assert turns > 3


def test_an_interrupt_ends_a_run_of_a_week(file: Path) -> None:
    code = f"import trunkline as tl; tl.Experiment.load({str(file)!r}).set('duration', '600000 s').set('series.every', '10000 s').run(progress=lambda *_: print('on', flush=True))"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "on\n"
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert "KeyboardInterrupt" in errors, errors
        assert time.monotonic() - began < 30
    finally:
        process.kill()
        process.wait()


def test_a_directory_that_cannot_be_written(dumbbell: tl.Experiment, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(tl.RunError, match="file"):
        dumbbell.run(out=tmp_path / "file")


@pytest.mark.parametrize(("arguments", "said"), [({"jobs": 0}, "jobs is 0; allowed: whole numbers from 1"), ({"jobs": -1}, "jobs is -1"), ({"jobs": 1.5}, "jobs is 1.5"), ({"begin": "anew"}, "allowed: fresh")])
def test_arguments_that_make_no_sense(dumbbell: tl.Experiment, arguments: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        dumbbell.run(**arguments)  # type: ignore[arg-type]


def test_progress_is_shown_without_a_terminal_too(dumbbell: tl.Experiment) -> None:
    assert len(dumbbell.set("runs", 1).run(progress=True)) == 2


FULL = """
import resource, signal, sys
import trunkline as tl
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    tl.Experiment.load(sys.argv[1]).set("runs", 20).run(out=sys.argv[2])
except tl.RunError as error:
    print(error)
"""


def test_a_disk_that_is_full(file: Path, tmp_path: Path) -> None:
    """As far as a file that may not grow is one."""
    said = subprocess.run([sys.executable, "-c", FULL, file, tmp_path], check=True, capture_output=True, text=True).stdout
    assert "runs.jsonl" in said and "File too large" in said, said
    with pytest.raises(tl.RunError):
        # What was written in half counts for nothing: it is gone on with.
        tl.Experiment.load(file).set("runs", 20).run(out=tmp_path)
    results = tl.Experiment.load(file).set("runs", 20).run(out=tmp_path, begin="resume")
    assert results.points == tl.Experiment.load(file).set("runs", 20).run().points
