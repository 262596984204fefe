"""The final figures of an experiment, with intervals, and differences on the same worlds."""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.randomness import generator
from romdp.core.text import plain
from romdp.experiments.directory import RunDirectory
from romdp.experiments.specification import RunSpec
from romdp.experiments.tables import FIGURES

Floats = NDArray[np.float64]

_RESAMPLES = 10_000
_MEANING = {
    "interval": "95% percentile bootstrap over seeds, 10,000 resamples with a fixed seed",
    "interquartile_mean": "mean of what is left without the lowest and the highest quarter",
    "slope": "of the pseudo-regret against sqrt(step), least squares over the last decade",
    "differences": "first agent minus second at the last step, on the same worlds (paired by seed)",
    "steps_to_exact": "median over the runs that end with the true grouping",
    "seconds": "wall time of a run; of its last part where it was resumed",
}


def summarise(directory: RunDirectory) -> dict[str, Any]:
    """Return the final figures of all finished runs, as plain data for ``summary.json``.

    What is not a finite number, such as an interval over one seed, is None.
    """
    experiment = directory.experiment
    done = [run for run in experiment.runs if directory.is_done(run)]
    finals = {run: _final(directory, run) for run in done}
    finished = set(done)
    cells = []
    for spec, n_observations in experiment.cells:
        by_agent = {
            agent: {
                run.replicate: finals[run]
                for run in done
                if (run.agent, run.world, run.n_observations) == (agent, spec.label, n_observations)
            }
            for agent in experiment.agents
        }
        cells.append(
            {
                "world": spec.label,
                "n_observations": n_observations,
                "agents": [_figures(agent, finals) for agent, finals in by_agent.items() if finals],
                "differences": [
                    _difference(pair, by_agent[pair[0]], by_agent[pair[1]])
                    for pair in combinations(experiment.agents, 2)
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
            "runs": {
                "all": len(experiment.runs),
                "finished": len(done),
                "failed": [run.id for run in directory.failed],
                "missing": [run.id for run in experiment.runs if run not in finished],
            },
            "cells": cells,
            "meaning": _MEANING,
        }
    )
    return summary


def _final(directory: RunDirectory, run: RunSpec) -> dict[str, Any]:
    """Read the last figures of a run and its facts."""
    import pyarrow.parquet

    columns = ["step", "regret", "pseudo_regret", "n_clusters"]
    table = pyarrow.parquet.read_table(directory.file(run, FIGURES), columns=columns)
    step, regret, pseudo_regret, n_clusters = (table[name].to_numpy() for name in columns)
    facts = directory.facts(run)
    return {
        "regret": regret[-1],
        "pseudo_regret": pseudo_regret[-1],
        "slope": slope(step, pseudo_regret),
        "n_clusters": n_clusters[-1],
        **{name: facts[name] for name in ("exact", "refines", "steps_to_exact", "seconds")},
    }


def slope(step: NDArray[np.int64], figure: Floats) -> float:
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


def bootstrap(values: Floats, statistic: Callable[[Floats], Floats]) -> list[float]:
    """Return a 95% percentile interval of a statistic of the last axis; NaN for one value."""
    if values.size < 2:
        return [float("nan")] * 2
    chosen = generator(0).integers(values.size, size=(_RESAMPLES, values.size))
    low, high = np.quantile(statistic(values[chosen]), [0.025, 0.975])
    return [float(low), float(high)]


def _mean(values: Floats) -> Floats:
    means: Floats = values.mean(axis=-1)
    return means


def _spread(values: Sequence[Any]) -> dict[str, Any]:
    array = np.asarray(values, np.float64)
    return {
        "mean": float(array.mean()),
        "mean_interval": bootstrap(array, _mean),
        "interquartile_mean": float(interquartile_mean(array)),
        "interquartile_mean_interval": bootstrap(array, interquartile_mean),
    }


def _figures(agent: str, finals: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of one agent in one world."""

    def column(name: str) -> list[Any]:
        return [finals[seed][name] for seed in sorted(finals)]

    reached = [step for step in column("steps_to_exact") if step is not None]
    return {
        "agent": agent,
        "seeds": len(finals),
        "regret": _spread(column("regret")),
        "pseudo_regret": _spread(column("pseudo_regret")),
        "slope": _spread(column("slope")),
        "n_clusters": _spread(column("n_clusters")),
        "exact": float(np.mean(column("exact"))),
        "refines": float(np.mean(column("refines"))),
        "steps_to_exact": float(np.median(reached)) if reached else None,
        "seconds": float(np.mean(column("seconds"))),
    }


def _difference(
    pair: tuple[str, str], first: dict[int, dict[str, Any]], second: dict[int, dict[str, Any]]
) -> dict[str, Any]:
    """Compare two agents on the worlds that both have played."""
    shared = sorted(set(first) & set(second))

    def differences(figure: str) -> Floats:
        return np.array([first[s][figure] - second[s][figure] for s in shared], np.float64)

    pseudo = differences("pseudo_regret")
    return {
        "agents": list(pair),
        "pairs": len(shared),
        "regret": _spread(differences("regret").tolist()),
        "pseudo_regret": _spread(pseudo.tolist()),
        "first_is_better": int((pseudo < 0).sum()),
    }
