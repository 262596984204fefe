"""The summary of an experiment as text."""

from collections.abc import Mapping, Sequence
from typing import Any

_UNKNOWN = "-"
_HEADER = (
    *("agent", "regret", "95% interval", "IQM", "pseudo-regret", "95% interval", "slope"),
    *("groups", "exact", "after", "seconds"),
)


def format_summary(summary: Mapping[str, Any]) -> str:
    """Lay the final figures out as tables, one for each world.

    Below each table stand the paired differences from its first agent.
    """
    runs = summary["runs"]
    parts = [
        f"{runs['finished']} of {runs['all']} runs of {summary['steps']:,} steps; "
        f"{summary['confidence']} for all optimistic agents."
    ]
    for cell in summary["cells"]:
        parts.append(_cell(cell))
    parts.append(
        "Means over seeds; intervals are bootstrap 95% over seeds; IQM: interquartile mean of the "
        "regret; slope: of\nthe pseudo-regret against sqrt(step) over the last decade; exact: "
        "share of runs that end with the true\ngrouping, and (median) the step after which they "
        "had it; seconds: wall time of a run."
    )
    return "\n\n".join(parts)


def _cell(cell: Mapping[str, Any]) -> str:
    title = f"{cell['world']}, {cell['n_observations']} observations"
    if not cell["agents"]:
        return f"{title}: no run is finished"
    rows = [_HEADER, *(_row(figures) for figures in cell["agents"])]
    lines = [title, *_columns(rows)]
    first = cell["agents"][0]["agent"]
    compared = [pair for pair in cell["differences"] if pair["agents"][0] == first]
    if compared:
        lines.append("pseudo-regret on the same worlds, paired by seed:")
        lines += [f"  {_difference(pair)}" for pair in compared]
    return "\n".join(lines)


def _row(figures: Mapping[str, Any]) -> tuple[str, ...]:
    regret, pseudo = figures["regret"], figures["pseudo_regret"]
    return (
        f"{figures['agent']} ({figures['seeds']})",
        _number(regret["mean"]),
        _interval(regret["mean_interval"]),
        _number(regret["interquartile_mean"]),
        _number(pseudo["mean"]),
        _interval(pseudo["mean_interval"]),
        _number(figures["slope"]["mean"], 2),
        _number(figures["n_clusters"]["mean"], 1),
        f"{100 * figures['exact']:.0f}%",
        _number(figures["steps_to_exact"], 0),
        _number(figures["seconds"], 1),
    )


def _difference(pair: Mapping[str, Any]) -> str:
    first, second = pair["agents"]
    figures = pair["pseudo_regret"]
    interval = _interval(figures["mean_interval"])
    return (
        f"{first} - {second}: {_number(figures['mean'])} {interval}, "
        f"{first} better on {pair['first_is_better']} of {pair['pairs']}"
    )


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align cells: the first column to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]


def _number(value: float | None, digits: int = 1) -> str:
    return _UNKNOWN if value is None else f"{value:,.{digits}f}"


def _interval(ends: Sequence[float | None]) -> str:
    low, high = ends
    return _UNKNOWN if low is None or high is None else f"[{_number(low)}, {_number(high)}]"
