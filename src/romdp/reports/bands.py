"""Curves over seeds: the middle of several runs and how far they scatter, in two stated ways."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.randomness import generator
from romdp.core.validation import choice
from romdp.reports.reading import Record

MEASURES = {
    "regret": "regret",
    "pseudo_regret": "pseudo-regret",
    "reward_per_step": "reward per step",
    "n_clusters": "number of groups",
}
"""What can be drawn over the steps, and what it is called."""

BANDS = {
    "mean": "line: mean over seeds; band: 95% bootstrap interval of that mean",
    "median": "line: median over seeds; band: from the lower to the upper quartile",
}
"""The two kinds of band, and what to print beside a picture that has one."""

_RESAMPLES = 2000


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
    steps: NDArray[np.int64] = reduce(np.intersect1d, (r.curves["step"] for r in records))
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
        rows = generator(0, count).integers(count, size=(_RESAMPLES, count))
        weights = np.apply_along_axis(np.bincount, 1, rows, minlength=count) / count
        low, high = np.quantile(weights @ values, (0.025, 0.975), axis=0)
    else:
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75), axis=0)
    if count == 1:
        low = high = middle
    return Band(common_steps(records), middle, low, high, count)


def typical(records: Sequence[Record]) -> Record:
    """Return the run in the middle by final regret (the lower of two), to show as an example."""
    if not records:
        raise InvalidInputError("records is empty; pass at least one run")
    last = [float(curve(r, "regret")[-1]) for r in records]
    order = np.argsort(last, kind="stable")
    return records[int(order[(len(order) - 1) // 2])]
