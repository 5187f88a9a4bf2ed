from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import trunkline as tl


def test_what_is_set_is_in_another_experiment(dumbbell: tl.Experiment) -> None:
    faster = dumbbell.set("links.wan.rate", "20 Mbit/s").set("runs", 1)
    assert (dumbbell.runs, faster.runs) == (2, 1)
    assert tomllib.loads(faster.to_toml())["links"]["wan"]["rate"] == "20 Mbit/s"
    assert tomllib.loads(dumbbell.to_toml())["links"]["wan"]["rate"] == "10 Mbit/s"
    assert dumbbell.points() == [{"others": "1"}, {"others": "3"}]
    assert (dumbbell.id, dumbbell.duration, dumbbell.seed) == ("dumbbell", 10.0, 1)


def test_a_dict_is_what_its_file_is(file: Path, dumbbell: tl.Experiment) -> None:
    same = tl.Experiment.from_dict(tomllib.loads(file.read_text()))
    assert same.points() == dumbbell.points()
    one = [experiment.set("runs", 1).run().points for experiment in (same, dumbbell)]
    assert one[0] == one[1]


def test_what_comes_with_the_package_is_there() -> None:
    included = tl.Experiment.included()
    assert len(included) > 50 and "bench-demo" in included
    assert tl.Experiment.load("bench-demo").quick().title


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("links.wan.rat", "1 Mbit/s", "rat"),
        ("links.wan.rate", "-5 Mbit/s", "allowed: a number with bit/s"),
        ("links.wan.loss", 1.5, "allowed: "),
        ("traffic.other.flows", 5, "swept by axis others"),
        ("runs", 0, "allowed: 1 to 10000"),
        ("duration", True, "duration"),
    ],
)
def test_a_mistake_says_what_where_and_what_is_allowed(
    dumbbell: tl.Experiment, path: str, value: Any, said: str
) -> None:
    with pytest.raises(tl.ExperimentError) as raised:
        dumbbell.set(path, value).check()
    assert said in str(raised.value)
    assert raised.value.mistakes and raised.value.mistakes[0]["problem"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1 << 70, None, object(), {1: 2}, b"x"])
def test_what_no_file_can_have_is_refused_with_its_path(dumbbell: tl.Experiment, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=r"^links\.wan\.loss"):
        dumbbell.set("links.wan.loss", value)


def test_a_table_that_holds_itself_is_refused(dumbbell: tl.Experiment) -> None:
    table: dict[str, Any] = {}
    table["table"] = table
    with pytest.raises(ValueError, match="deep at most"):
        dumbbell.set("links.wan.loss", table)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(tl.ExperimentError, match="no such file"):
        tl.Experiment.load(tmp_path / "nothing.toml")
    with pytest.raises(tl.ExperimentError, match="did you mean bench-demo"):
        tl.Experiment.load("bench-demoo")


def test_a_text_with_a_mistake_names_its_line() -> None:
    with pytest.raises(tl.ExperimentError) as raised:
        tl.Experiment.parse('id = "x"\ntitle = 5\n', name="mine.toml")
    assert "mine.toml:2" in str(raised.value)
    assert any(mistake["line"] == 2 for mistake in raised.value.mistakes)
