from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import trunkline as tl

UNKNOWN = """
[unknown.buffer]
label = "packets in front of the link"
paths = ["links.wan.queue.packets"]
range = { from = 20, to = 200, scale = "log", whole = true }
why = "Not said."
[[claims]]
text = "The queue is long"
kind = "paper"
holds = "all(wan.queue.packets.mean > 40)"
"""


@pytest.fixture
def open_question(dumbbell: tl.Experiment) -> tl.Experiment:
    """A claim that holds with a large buffer."""
    text = dumbbell.set("runs", 2).set("duration", "4 s").to_toml()
    return tl.Experiment.parse('paper = "lee2002"\n' + text + UNKNOWN)


def test_what_a_paper_leaves_open_is_explained_as_on_the_command_line(
    open_question: tl.Experiment, tmp_path: Path, program: str
) -> None:
    done: list[int] = []
    answer = open_question.explain(settings=6, least=4, progress=lambda now, of, left: done.append(now))
    assert 0 in done and max(done) >= 6
    assert "trunkline" in repr(answer) and "The queue is long" in answer.report()
    assert answer._repr_html_().startswith("<iframe")
    file = tmp_path / "open.toml"
    file.write_text(open_question.to_toml())
    command: list[str | Path] = [program, "lab", "explain", file, "--settings", "6", "--at-least", "4", "--out", tmp_path / "out", "--json"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert answer.values == json.loads(printed.splitlines()[0])


def test_what_cannot_be_explained(dumbbell: tl.Experiment, open_question: tl.Experiment, tmp_path: Path) -> None:
    with pytest.raises(tl.ExperimentError, match="nothing that its paper leaves open"):
        dumbbell.explain()
    with pytest.raises(ValueError, match="settings is 3; allowed: whole numbers from 4"):
        open_question.explain(settings=3)
    open_question.explain(settings=4, out=tmp_path)
    with pytest.raises(tl.RunError, match="results here already"):
        open_question.explain(settings=4, out=tmp_path)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_question.explain(settings=4, progress=stop)


def test_how_far_two_results_agree(dumbbell: tl.Experiment) -> None:
    one = dumbbell.run()
    same = tl.agree(one, dumbbell.run()).values
    assert same["points"] == 2 and same["engines"] == ["sim", "sim"]
    assert all(row["ratio"] in (1.0, None) for row in same["rows"])
    slower = tl.agree(one, dumbbell.set("links.wan.rate", "5 Mbit/s").run())
    ratios = [row["ratio"] for row in slower.values["rows"] if row["metric"] == "agent.goodput"]
    assert ratios == pytest.approx([0.6, 0.6], rel=0.3)
    assert "agent.goodput" in slower.report()
    with pytest.raises(tl.ExperimentError, match="dumbbell and of other"):
        tl.agree(one, dumbbell.set("id", "other").run())
