"""The summary of an experiment as text."""

from collections.abc import Mapping
from typing import Any

from romdp.core.text import columns, interval, number

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
    lines = [title, *columns(rows, "<>")]
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
        number(regret["mean"], 1),
        interval(regret["mean_interval"], 1),
        number(regret["interquartile_mean"], 1),
        number(pseudo["mean"], 1),
        interval(pseudo["mean_interval"], 1),
        number(figures["slope"]["mean"], 2),
        number(figures["n_clusters"]["mean"], 1),
        f"{100 * figures['exact']:.0f}%",
        number(figures["steps_to_exact"], 0),
        number(figures["seconds"], 1),
    )


def _difference(pair: Mapping[str, Any]) -> str:
    first, second = pair["agents"]
    figures = pair["pseudo_regret"]
    ends = interval(figures["mean_interval"], 1)
    return (
        f"{first} - {second}: {number(figures['mean'], 1)} {ends}, "
        f"{first} better on {pair['first_is_better']} of {pair['pairs']}"
    )
