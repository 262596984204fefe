"""The final figures of an experiment: with intervals, paired on the same worlds, and as text."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from textwrap import wrap
from typing import Any

import numpy as np

from romdp.core.arrays import Floats, Ints
from romdp.core.randomness import generator
from romdp.core.text import columns, interval, number, plain
from romdp.core.validation import takes
from romdp.exact.romdp import as_romdp
from romdp.experiments.directory import RunDirectory
from romdp.experiments.specification import Experiment
from romdp.experiments.worlds import EnvironmentWorld, WorldSpec
from romdp.theory.lower_bound import lower_bound

RESAMPLES = 2_000
"""Of the runs, for a bootstrap: they fix the end of a 95% interval to some hundredths of it."""

_AT_ONCE = 100  # resamples that are held in memory
_MOST_WORLDS, _MOST_STATES = 100, 50  # of which the limit is computed
_MEANING = {
    "interval": f"95% percentile bootstrap over seeds, {RESAMPLES:,} resamples with a fixed seed",
    "interquartile_mean": "mean of what is left without the lowest and the highest quarter",
    "slope": "of the pseudo-regret against sqrt(step), least squares over the last decade",
    "limit": "no agent that learns in every world has less regret asymptotically (Burnetas and "
    "Katehakis); mean over worlds",
    "over_limit": "mean pseudo-regret divided by the limit",
    "differences": "first agent minus second at the last step, on the same worlds (paired by seed)",
    "steps_to_exact": "median over the runs that end with the true grouping",
    "seconds": "wall time of a run; of its last part where it was resumed",
}


@takes(directory=RunDirectory)
def summarise(directory: RunDirectory) -> dict[str, Any]:
    """Return the final figures of all finished runs, as plain data for ``summary.json``.

    What is not a finite number, such as an interval over one seed, is None.

    Parameters
    ----------
    directory
        The run directory, finished or not.
    """
    experiment, contents = directory.experiment, directory.contents()
    finals: dict[tuple[str, str, int], dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for run, found in contents.finished.items():
        finals[run.agent, run.world, run.n_observations][run.replicate] = found.facts
    cells = []
    for spec, n_observations in experiment.cells:
        by_agent = {
            agent: finals[agent, spec.label, n_observations]
            for agent in experiment.agents
            if finals[agent, spec.label, n_observations]
        }
        constant = limit_constant(experiment, spec, n_observations)
        limit = None if constant is None else constant * np.log(experiment.steps)
        cells.append(
            {
                "world": spec.label,
                "n_observations": n_observations,
                "limit": limit,
                "agents": [_figures(agent, finals, limit) for agent, finals in by_agent.items()],
                "differences": [
                    _difference(pair, by_agent[pair[0]], by_agent[pair[1]])
                    for pair in combinations(by_agent, 2)
                    if set(by_agent[pair[0]]) & set(by_agent[pair[1]])
                ],
            }
        )
    summary: dict[str, Any] = plain(
        {
            "kind": "romdp summary",
            "version": 1,
            "steps": experiment.steps,
            "seeds": experiment.seeds,
            "confidence": str(experiment.settings),
            "objective": experiment.objective,
            "runs": {
                "all": len(experiment.runs),
                "finished": len(contents.finished),
                "failed": [run.id for run in contents.failed],
                "missing": [run.id for run in experiment.runs if run not in contents.finished],
            },
            "cells": cells,
            "meaning": _MEANING,
        }
    )
    return summary


def limit_constant(experiment: Experiment, spec: WorldSpec, n_observations: int) -> float | None:
    """Return the mean of `romdp.theory.lower_bound` over the worlds that the seeds draw.

    A hundred worlds are enough for the mean. None if a world has more than fifty hidden states,
    where the bound takes long, or if it has no bound, or is not known exactly.
    """
    if isinstance(spec, EnvironmentWorld):
        return None
    size = None if experiment.observations is None else n_observations
    found = []
    for replicate in range(min(experiment.seeds, _MOST_WORLDS)):
        world = as_romdp(spec.make(size, replicate))
        if world.n_states > _MOST_STATES:
            return None
        limit = lower_bound(world)
        if limit is None:
            return None
        found.append(limit)
    return float(np.mean(found))


def slope(step: Ints, figure: Floats) -> float:
    """Fit ``figure = a + b sqrt(step)`` over the last decade of steps and return b.

    Examples
    --------
    >>> step = np.array([1, 10, 40, 90, 100])
    >>> round(slope(step, 3 + 2 * np.sqrt(step)), 6)
    2.0
    """
    last = step >= step[-1] / 10
    root, value = np.sqrt(step[last]), figure[last]
    root = root - root.mean()
    spread = float(root @ root)
    return float(root @ (value - value.mean()) / spread) if spread > 0 else float("nan")


def interquartile_mean(values: Floats) -> Floats:
    """Return the mean of the middle half of the last axis.

    Examples
    --------
    >>> float(interquartile_mean(np.array([0.0, 1.0, 2.0, 900.0])))
    1.5
    """
    size = values.shape[-1]
    cut = size // 4
    middle: Floats = np.sort(values, axis=-1)[..., cut : size - cut].mean(axis=-1)
    return middle


def bootstrap(values: Floats, *statistics: Callable[[Floats], Floats]) -> list[list[float]]:
    """Return a 95% percentile interval for each statistic of the last axis; NaN for one value.

    All statistics see the same resamples.
    """
    size = values.size
    if size < 2:
        return [[float("nan")] * 2 for _ in statistics]
    rng = generator(0)
    found: list[list[Floats]] = [[] for _ in statistics]
    for _ in range(RESAMPLES // _AT_ONCE):
        resampled = values[rng.integers(size, size=(_AT_ONCE, size))]
        for statistic, parts in zip(statistics, found, strict=True):
            parts.append(statistic(resampled))
    return [np.quantile(np.concatenate(parts), [0.025, 0.975]).tolist() for parts in found]


def _mean(values: Floats) -> Floats:
    means: Floats = values.mean(axis=-1)
    return means


def _spread(values: Sequence[Any] | Floats) -> dict[str, Any]:
    array = np.asarray(values, np.float64)
    of_mean, of_middle = bootstrap(array, _mean, interquartile_mean)
    return {
        "mean": float(array.mean()),
        "mean_interval": of_mean,
        "interquartile_mean": float(interquartile_mean(array)),
        "interquartile_mean_interval": of_middle,
    }


def _figures(
    agent: str, finals: Mapping[int, Mapping[str, Any]], limit: float | None
) -> dict[str, Any]:
    """Return the figures of one agent in one world."""

    def column(name: str) -> list[Any]:
        return [finals[seed][name] for seed in sorted(finals)]

    reached = [step for step in column("steps_to_exact") if step is not None]
    episodes = {}
    if all("episodes" in facts for facts in finals.values()):
        told = column("episodes")
        episodes = {
            "mean_return": _spread([one["mean_return"] for one in told]),
            "success_rate": _spread([one["success_rate"] for one in told]),
            "episodes": float(np.mean([one["number"] for one in told])),
        }
    pseudo = _spread(column("pseudo_regret"))
    return {
        "agent": agent,
        **episodes,
        "seeds": len(finals),
        "regret": _spread(column("regret")),
        "pseudo_regret": pseudo,
        "over_limit": pseudo["mean"] / limit if limit else None,
        "slope": _spread(column("slope")),
        "n_clusters": _spread(column("n_clusters")),
        "exact": float(np.mean(column("exact"))),
        "refines": float(np.mean(column("refines"))),
        "steps_to_exact": float(np.median(reached)) if reached else None,
        "seconds": float(np.mean(column("seconds"))),
    }


def _difference(
    pair: tuple[str, str],
    first: Mapping[int, Mapping[str, Any]],
    second: Mapping[int, Mapping[str, Any]],
) -> dict[str, Any]:
    """Compare two agents on the worlds that both have played."""
    shared = sorted(set(first) & set(second))

    def differences(figure: str) -> Floats:
        sides = ([side[seed][figure] for seed in shared] for side in (first, second))
        ours, theirs = (np.array(side, np.float64) for side in sides)
        return ours - theirs

    pseudo = differences("pseudo_regret")
    return {
        "agents": list(pair),
        "pairs": len(shared),
        "regret": _spread(differences("regret")),
        "pseudo_regret": _spread(pseudo),
        "first_is_better": int((pseudo < 0).sum()),
    }


_HEADER = (
    *("agent", "regret", "95% interval", "IQM", "pseudo-regret", "95% interval", "/ C log N"),
    *("slope", "groups", "exact", "after", "seconds"),
)

_RETURN_HEADER = (
    *("agent", "return", "95% interval", "IQM", "success", "95% interval", "episodes", "groups"),
    "seconds",
)


_REGRET_LEGEND = (
    "/ C log N: the pseudo-regret as a multiple of the asymptotic lower bound; slope: of the "
    "pseudo-regret against sqrt(step) over the last decade; exact: share of runs that end with the "
    "true grouping, and (median) the step after which they had it"
)
_RETURN_LEGEND = (
    "return: of the episodes that end in the last fifth of the steps; success: share of these that "
    "paid anything, where none costs anything"
)


def format_summary(summary: Mapping[str, Any]) -> str:
    """Lay the final figures out as tables, one for each world.

    Below each table stand the paired differences from its first agent.
    """
    runs = summary["runs"]
    parts = [
        f"{runs['finished']} of {runs['all']} runs of {summary['steps']:,} steps; "
        f"{summary['confidence']} for all optimistic agents.\n"
        f"Objective: {summary['objective']}."
    ]
    for cell in summary["cells"]:
        parts.append(_cell(cell))
    return "\n\n".join([*parts, "\n".join(wrap(legend(summary), 100))])


def legend(summary: Mapping[str, Any]) -> str:
    """Explain the columns of the tables."""
    by_returns = [_has_returns(cell) for cell in summary["cells"] if cell["agents"]]
    text = "Means over seeds; intervals are bootstrap 95% over seeds; IQM: interquartile mean"
    if any(by_returns):
        text += f"; {_RETURN_LEGEND}"
    if not all(by_returns):
        text += f"; {_REGRET_LEGEND}"
    return f"{text}; seconds: wall time of a run."


def _has_returns(cell: Mapping[str, Any]) -> bool:
    return all("mean_return" in figures for figures in cell["agents"])


def _cell(cell: Mapping[str, Any]) -> str:
    title = f"{cell['world']}, {cell['n_observations']} observations"
    if not cell["agents"]:
        return f"{title}: no run is finished"
    headings, rows = rows_of(cell)
    lines = [title, *columns([headings, *rows], "<>")]
    first = cell["agents"][0]["agent"]
    compared = [pair for pair in cell["differences"] if pair["agents"][0] == first]
    if compared and not _has_returns(cell):
        lines.append("pseudo-regret on the same worlds, paired by seed:")
        lines += [f"  {_difference_line(pair)}" for pair in compared]
    return "\n".join(lines)


def rows_of(cell: Mapping[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the headings of a world's table, and a row for each of its agents."""
    if _has_returns(cell):
        return _RETURN_HEADER, [_return_row(figures) for figures in cell["agents"]]
    return _HEADER, [_row(figures) for figures in cell["agents"]]


def _row(figures: Mapping[str, Any]) -> tuple[str, ...]:
    regret, pseudo = figures["regret"], figures["pseudo_regret"]
    return (
        f"{figures['agent']} ({figures['seeds']})",
        number(regret["mean"], 1),
        interval(regret["mean_interval"], 1),
        number(regret["interquartile_mean"], 1),
        number(pseudo["mean"], 1),
        interval(pseudo["mean_interval"], 1),
        number(figures["over_limit"], 1),
        number(figures["slope"]["mean"], 2),
        number(figures["n_clusters"]["mean"], 1),
        f"{100 * figures['exact']:.0f}%",
        number(figures["steps_to_exact"], 0),
        number(figures["seconds"], 1),
    )


def _return_row(figures: Mapping[str, Any]) -> tuple[str, ...]:
    found = figures["mean_return"]
    return (
        f"{figures['agent']} ({figures['seeds']})",
        number(found["mean"], 3),
        interval(found["mean_interval"], 3),
        number(found["interquartile_mean"], 3),
        number(figures["success_rate"]["mean"], 3),
        interval(figures["success_rate"]["mean_interval"], 3),
        number(figures["episodes"], 0),
        number(figures["n_clusters"]["mean"], 1),
        number(figures["seconds"], 1),
    )


def _difference_line(pair: Mapping[str, Any]) -> str:
    first, second = pair["agents"]
    figures = pair["pseudo_regret"]
    ends = interval(figures["mean_interval"], 1)
    return (
        f"{first} - {second}: {number(figures['mean'], 1)} {ends}, "
        f"{first} better on {pair['first_is_better']} of {pair['pairs']}"
    )
