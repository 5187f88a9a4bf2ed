from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import trunkline as tl

pytest.importorskip("altair")


def values_of(chart: Any) -> list[dict[str, Any]]:
    (values,) = chart.to_dict()["datasets"].values()
    found: list[dict[str, Any]] = values
    return found


def test_a_metric_is_drawn_with_every_run_and_its_unit(dumbbell: tl.Experiment, tmp_path: Path) -> None:
    from trunkline import plot

    results = dumbbell.run()
    chart = plot.metric(results, "all.goodput")
    values = values_of(chart)
    assert [value["x"] for value in values] == [1.0, 1.0, 3.0, 3.0]
    assert all(9 < value["y"] < 10 for value in values), "Mbit/s"
    assert "all.goodput (Mbit/s)" in chart.to_json()
    assert plot.metric(results, "all.goodput", color="others").to_dict()
    plot.metric(results, "all.goodput").save(tmp_path / "chart.html")
    assert (tmp_path / "chart.html").stat().st_size > 1000
    with pytest.raises(KeyError, match="no run has the metric 'nothing'"):
        plot.metric(results, "nothing")
    with pytest.raises(KeyError, match="allowed: others"):
        plot.metric(results, "all.goodput", x="rate")


def test_a_series_is_that_of_one_run(dumbbell: tl.Experiment) -> None:
    from trunkline import plot

    results = dumbbell.run()
    values = values_of(plot.series(results, "wan.queue.packets", point={"others": "3"}, seed=2))
    assert [value["time"] for value in values] == [float(second) for second in range(1, 11)]
    both = values_of(plot.series(results))
    assert len(both) == 20 and {value["name"] for value in both} == {"wan.queue.packets", "agent.0.cwnd (kB)"}
    with pytest.raises(KeyError, match="allowed: wan.queue.packets, agent.0.cwnd"):
        plot.series(results, "nothing")
    with pytest.raises(KeyError, match="no point"):
        plot.series(results, point={"others": "9"})
    with pytest.raises(ValueError, match="series"):
        plot.series(dumbbell.set("series.of", ["wan.drops"]).set("runs", 1).quick().set("series.every", "100 s").run())
