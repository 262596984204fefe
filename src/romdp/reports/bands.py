"""Curves over seeds: the middle of several runs and how far they scatter, in two stated ways."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.randomness import generator
from romdp.core.validation import choice
from romdp.experiments.summary import RESAMPLES
from romdp.reports.reading import Record

MEASURES = {
    "regret": "regret",
    "pseudo_regret": "pseudo-regret",
    "mean_return": "mean return",
    "reward_per_step": "reward per step",
    "n_clusters": "number of groups",
}
"""What can be drawn over the steps, and what it is called; the first that is known comes first."""

BANDS = {
    "mean": "line: mean over seeds; band: 95% bootstrap interval of that mean",
    "median": "line: median over seeds; band: from the lower to the upper quartile",
}
"""The two kinds of band, and what to print beside a picture that has one."""

RETURN_NOTE = (
    "return: mean of the episodes that ended in the last fifth of the steps so far, of at least ten"
)
"""What to print beside a curve of mean returns."""

_NEAREST = 0.075  # bulbs are at least this far apart, as a share of the panel


@dataclass(frozen=True, eq=False)
class Band:
    """A middle curve and the band around it, at the steps that all runs have.

    Attributes
    ----------
    step, middle, low, high
        Arrays of one length; with a single run, low and high equal the middle.
    n_runs
        How many runs it is made of.
    """

    step: NDArray[np.int64]
    middle: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    n_runs: int


def curve(record: Record, measure: str) -> NDArray[np.float64]:
    """Return one measure of a run at its stored steps; NaN where it is not known."""
    choice(measure, "measure", MEASURES)
    columns = record.curves
    if measure == "reward_per_step":
        return np.asarray(columns["reward"] / columns["step"], np.float64)
    return np.asarray(columns[measure], np.float64)


def known_measures(records: Sequence[Record]) -> dict[str, str]:
    """Return the measures that some run knows: there may be no regret where there is no gain."""
    return {
        name: words
        for name, words in MEASURES.items()
        if any(np.isfinite(curve(record, name)).any() for record in records)
    }


def common_steps(records: Sequence[Record]) -> NDArray[np.int64]:
    """Return the steps at which every one of the runs has figures."""
    if not records:
        raise InvalidInputError("records is empty; pass at least one run")
    grids = {r.curves["step"].tobytes(): r.curves["step"] for r in records}  # mostly a single one
    steps: NDArray[np.int64] = reduce(np.intersect1d, grids.values())
    return steps.astype(np.int64)


def aligned(records: Sequence[Record], measure: str) -> NDArray[np.float64]:
    """Return a measure of several runs at their common steps, one row per run."""
    steps = common_steps(records)
    return np.stack([curve(r, measure)[np.searchsorted(r.curves["step"], steps)] for r in records])


def band(records: Sequence[Record], measure: str = "regret", kind: str = "mean") -> Band:
    """Summarise runs of one agent in one panel.

    Parameters
    ----------
    records
        The runs; they must not be empty.
    measure
        One of `MEASURES`.
    kind
        ``"mean"``: the mean over runs with the 95% percentile bootstrap interval of the mean
        (2,000 resamples of the runs, the same ones at every step; seeded, so that a picture
        drawn twice is the same). ``"median"``: the median with the lower and upper quartile.
    """
    choice(kind, "band", BANDS)
    values = aligned(records, measure)
    count = len(values)
    if kind == "mean":
        middle = values.mean(axis=0)
        weights = generator(0, count).multinomial(count, np.full(count, 1 / count), RESAMPLES)
        low, high = np.quantile(weights / count @ values, (0.025, 0.975), axis=0)
    else:
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    if count == 1:
        low = high = middle
    return Band(common_steps(records), middle, low, high, count)


def best_first(records: Sequence[Record]) -> list[Record]:
    """Order runs by final regret; in environments, which have no regret, by final return."""
    loss = np.array([curve(record, "regret")[-1] for record in records])
    if not np.isfinite(loss).any():
        loss = -np.array([curve(record, "mean_return")[-1] for record in records])
    return [records[i] for i in np.argsort(loss, kind="stable")]


def typical(records: Sequence[Record]) -> Record:
    """Return the run in the middle of `best_first` (the better of two), to show as an example."""
    if not records:
        raise InvalidInputError("records is empty; pass at least one run")
    return best_first(records)[(len(records) - 1) // 2]


def bulb_places(chosen: Mapping[str, Record]) -> dict[str, list[int]]:
    """Choose the points of typical runs at which a bulb shows the number of groups.

    There is one where the number changes, if there is room for it, and one at the end.

    Parameters
    ----------
    chosen
        One run per agent, all drawn in one panel: their regret against sqrt(step).

    Returns
    -------
    dict
        For every agent the numbers of its points, the last one first.
    """
    roots = {name: np.sqrt(record.curves["step"]) for name, record in chosen.items()}
    regrets = {name: curve(record, "regret") for name, record in chosen.items()}
    known = np.concatenate([values[np.isfinite(values)] for values in regrets.values()])
    low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    right = max(float(root[-1]) for root in roots.values())
    kept: dict[str, list[int]] = {name: [] for name in chosen}
    taken: list[tuple[float, float]] = []
    # Last points first: the final number of groups must not be crowded out.
    for latest in (True, False):
        for name, record in chosen.items():
            changes = _changes(record)
            for point in changes[-1:] if latest else changes[-2::-1]:
                x = float(roots[name][point]) / right
                y = float(regrets[name][point] - low) / ((high - low) or 1.0)
                crowded = any(np.hypot(x - a, y - b) < _NEAREST for a, b in taken)
                if np.isfinite(y) and not crowded:
                    taken.append((x, y))
                    kept[name].append(int(point))
    return kept


def _changes(record: Record) -> NDArray[np.int64]:
    """Return the points at which the number of groups is a new one, and the last point."""
    groups = record.curves["n_clusters"]
    changes = np.flatnonzero(np.diff(groups)) + 1
    return np.unique(np.concatenate(([0], changes, [len(groups) - 1])))
