"""A finished or half-finished run directory, read and checked, and curves over its seeds.

A curve is the middle of several runs and how far they scatter, in two stated ways.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import Any

import numpy as np

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.randomness import generator
from romdp.core.storage import check_directory
from romdp.core.validation import choice
from romdp.experiments.directory import RunDirectory
from romdp.experiments.specification import Experiment, RunSpec
from romdp.experiments.store import TABLES, Columns, StoredRun
from romdp.experiments.summary import RESAMPLES
from romdp.experiments.watching import last_line
from romdp.playing.episodes import mean_return_by_step

Panel = tuple[str, int]
"""A world and its number of observations: runs of one panel are drawn together."""


@dataclass(frozen=True, eq=False)
class EpochGrouping:
    """A grouping and when it came: the number of the epoch, the step at which that began."""

    epoch: int
    step: int
    labels: Ints = field(repr=False)


@dataclass(frozen=True, eq=False)
class Record:
    """One run as it is stored.

    Attributes
    ----------
    agent, world, n_observations, seed
        Which run it is; ``seed`` is the number of the replicate.
    curves
        The columns step, regret, pseudo_regret, n_clusters, reward and mean_return, the last as
        `mean_return_by_step` averages it.
    epochs
        The columns epoch, start, length, n_clusters, gain and sweeps.
    groups
        The columns epoch, step and labels of the groupings, oldest first.
    hidden_state
        The true state of every observation; None where it is not known, or where every
        observation is a state of its own and there is nothing to find.
    facts
        Wall time, exactness and the like.
    """

    agent: str
    world: str
    n_observations: int
    seed: int
    curves: Columns = field(repr=False)
    epochs: Columns = field(repr=False)
    groups: Columns = field(repr=False)
    hidden_state: Ints | None = field(repr=False)
    facts: Mapping[str, Any] = field(repr=False)

    @property
    def panel(self) -> Panel:
        """The world and its number of observations."""
        return self.world, self.n_observations

    @property
    def groupings(self) -> tuple[EpochGrouping, ...]:
        """The groupings, oldest first; made when they are asked for."""
        rows = zip(self.groups["epoch"], self.groups["step"], self.groups["labels"], strict=True)
        return tuple(EpochGrouping(int(e), int(t), row.astype(np.int64)) for e, t, row in rows)


@dataclass(frozen=True, eq=False)
class Results:
    """What a run directory holds.

    Attributes
    ----------
    directory
        The directory, with its experiment.
    records
        The finished runs: by panel, then agent, then seed, in the experiment's order.
    missing
        The names of runs that are not finished and have not failed.
    failures
        For runs that failed: their name and the last line of their error.
    damaged
        For runs that are left out because they do not fit their checksum: their
        name and what is wrong.
    """

    directory: RunDirectory
    records: tuple[Record, ...]
    missing: tuple[str, ...]
    failures: tuple[tuple[str, str], ...]
    damaged: tuple[tuple[str, str], ...] = ()

    @property
    def experiment(self) -> Experiment:
        """What was compared."""
        return self.directory.experiment

    @cached_property
    def agents(self) -> tuple[str, ...]:
        """The agents that have at least one run."""
        present = {record.agent for record in self.records}
        return tuple(name for name in self.experiment.agents if name in present)

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """The panels that have at least one run."""
        return tuple(dict.fromkeys(record.panel for record in self.records))

    @cached_property
    def _by_agent_and_panel(self) -> dict[tuple[str, Panel], tuple[Record, ...]]:
        found: dict[tuple[str, Panel], list[Record]] = {}
        for record in self.records:
            found.setdefault((record.agent, record.panel), []).append(record)
        return {key: tuple(records) for key, records in found.items()}

    def of(self, agent: str, panel: Panel) -> tuple[Record, ...]:
        """Return the runs of one agent in one panel, by seed."""
        return self._by_agent_and_panel.get((agent, panel), ())


def read_results(path: str | os.PathLike[str]) -> Results:
    """Read a run directory and verify it.

    Raises
    ------
    StorageError
        If the directory is missing or foreign, if its experiment was edited, or if it has no
        finished run that is sound; the message says which.
    """
    check_directory(path, "the directory that `romdp compare` wrote")
    directory = RunDirectory.open(path)
    experiment = directory.experiment
    stored = directory.contents(TABLES)
    failures = tuple((run.id, last_line(error)) for run, error in stored.failed.items())
    damaged = tuple((run.id, what) for run, what in stored.damaged.items())
    if not stored.finished:
        why = f" ({len(failures)} failed: {failures[0][1]})" if failures else ""
        why += f" ({len(damaged)} damaged: {damaged[0][0]}: {damaged[0][1]})" if damaged else ""
        raise StorageError(f"{path} has no finished run{why}; go on with: romdp resume {path}")
    records = [_record(run, found) for run, found in stored.finished.items()]
    worlds = {spec.label: place for place, spec in enumerate(experiment.worlds)}
    agents = {name: place for place, name in enumerate(experiment.agents)}
    records.sort(key=lambda r: (worlds[r.world], r.n_observations, agents[r.agent], r.seed))
    known = stored.finished.keys() | stored.failed.keys() | stored.damaged.keys()
    missing = tuple(run.id for run in experiment.runs if run not in known)
    return Results(directory, tuple(records), missing, failures, damaged)


def _record(run: RunSpec, found: StoredRun) -> Record:
    figures, groups = found.tables["figures"], found.tables["groups"]
    averages = mean_return_by_step(found.tables["returns"], figures["step"])
    truth = groups["labels"][0].astype(np.int64)
    is_known = truth.min() >= 0 and len(np.unique(truth)) < run.n_observations
    return Record(
        agent=run.agent,
        world=run.world,
        n_observations=run.n_observations,
        seed=run.replicate,
        curves=figures | {"mean_return": averages},
        epochs=found.tables["epochs"],
        groups={name: column[1:] for name, column in groups.items()},
        hidden_state=truth if is_known else None,
        facts=found.facts,
    )


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

    step: Ints
    middle: Floats
    low: Floats
    high: Floats
    n_runs: int


def curve(record: Record, measure: str) -> Floats:
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


def common_steps(records: Sequence[Record]) -> Ints:
    """Return the steps at which every one of the runs has figures."""
    if not records:
        raise InvalidInputError("records is empty; pass at least one run")
    grids = {r.curves["step"].tobytes(): r.curves["step"] for r in records}  # mostly a single one
    steps: Ints = reduce(np.intersect1d, grids.values())
    return steps.astype(np.int64)


def aligned(records: Sequence[Record], measure: str) -> Floats:
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


def _changes(record: Record) -> Ints:
    """Return the points at which the number of groups is a new one, and the last point."""
    groups = record.curves["n_clusters"]
    changes = np.flatnonzero(np.diff(groups)) + 1
    return np.unique(np.concatenate(([0], changes, [len(groups) - 1])))
