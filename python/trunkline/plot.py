"""Plots of results by Vega-Altair, which a notebook shows and ``chart.save("x.html")`` keeps."""

from __future__ import annotations

from typing import Any

import altair as alt

from ._trunkline import Results

__all__ = ["metric", "series"]

#: Multiples in which people read base units.
_SCALES = {"bit/s": (1e6, "Mbit/s"), "s": (1e-3, "ms"), "B": (1e3, "kB")}


def _scaled(unit: str) -> tuple[float, str]:
    return _SCALES.get(unit, (1.0, "" if unit == "1" else unit))


def _title(name: str, unit: str) -> str:
    return f"{name} ({unit})" if unit else name


def _axes(results: Results) -> dict[str, str]:
    """Axes of the sweep, and what their values are in; texts have none."""
    units = results.runs.units
    names = [name for name in results.runs.column_names if name.startswith("point.")]
    return {name.removeprefix("point."): units.get(name, "") for name in names}


def metric(results: Results, name: str, *, x: str | None = None, color: str | None = None) -> alt.LayerChart | alt.FacetChart:
    """A metric over an axis of the sweep (the last, if none is said): the mean of the runs, its 95 % interval, and every run.

    ``color``: another axis. Points of the axes that are neither are drawn in the same place.
    """
    axes = _axes(results)
    for axis in (x, color):
        if axis is not None and axis not in axes:
            raise KeyError(f"the sweep has no axis {axis!r}; allowed: {', '.join(axes) or 'none'}")
    columns = results.runs.to_dict()
    if name not in columns or name.startswith(("point.", "label.")):
        raise KeyError(f"no run has the metric {name!r}")
    x = x or next(reversed(axes), None)
    factor, unit = _scaled(results.runs.units.get(name, "1"))
    is_number = x is not None and axes[x] != ""
    along_factor, along_unit = _scaled(axes[x] or "1") if x else (1.0, "")

    def place(row: int) -> Any:
        value: Any = columns[f"point.{x}"][row] if x else ""
        return value / along_factor if is_number and value is not None else value

    values = [
        {"x": place(row), "color": columns[f"point.{color}"][row] if color else "", "y": value / factor}
        for row, value in enumerate(columns[name])
        if value is not None
    ]
    along = alt.X("x:Q" if is_number else "x:N", title=_title(x, along_unit) if x else "")
    base = alt.Chart({"values": values}).encode(along)
    if color is not None:
        base = base.encode(alt.Color("color:N", title=color))
    up = alt.Y("mean(y):Q", title=_title(name, unit))
    mean = base.mark_line(point=True).encode(up) if is_number else base.mark_point(filled=True, size=80).encode(up)
    interval = base.mark_errorbar(extent="ci").encode(alt.Y("y:Q", title=_title(name, unit)))
    runs = base.mark_point(opacity=0.35, size=20).encode(alt.Y("y:Q"))
    return alt.layer(runs, interval, mean)


def series(results: Results, *names: str, point: dict[str, str] | None = None, seed: int | None = None) -> alt.Chart:
    """What one run recorded over time; the first run of the point, if no seed is said, and of the first point, if none is said."""
    if results.series is None:
        raise ValueError("nothing was recorded over time; the experiment's [series] says what is")
    columns = results.series.to_dict()
    known = list(dict.fromkeys(columns["name"]))
    unknown = [name for name in names if name not in known]
    if unknown:
        raise KeyError(f"{unknown[0]!r} was not recorded; allowed: {', '.join(known)}")

    def label(axis: str, row: int) -> Any:
        return columns.get(f"label.{axis}", columns.get(f"point.{axis}", [None]))[row]

    axes = _axes(results)
    wanted = {**({axis: label(axis, 0) for axis in axes}), **(point or {})}
    rows = [
        row
        for row in range(len(columns["time"]))
        if all(label(axis, row) == value for axis, value in wanted.items())
        and (not names or columns["name"][row] in names)
    ]
    if not rows:
        raise KeyError(f"there is no point {point}")
    seed = columns["seed"][rows[0]] if seed is None else seed
    values = [
        {"time": columns["time"][row], "name": _title(columns["name"][row], unit), "value": columns["value"][row] / factor}
        for row in rows
        for factor, unit in [_scaled(columns["unit"][row])]
        if columns["seed"][row] == seed and columns["value"][row] is not None
    ]
    chart: alt.Chart = alt.Chart({"values": values}).mark_line()
    chart = chart.encode(alt.X("time:Q", title="time (s)"), alt.Y("value:Q", title=""), alt.Color("name:N", title=""))
    return chart
