"""A finished or half-finished run directory, read and checked, as plain arrays."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import StorageError
from romdp.core.storage import check_directory
from romdp.experiments.directory import RunDirectory
from romdp.experiments.specification import Experiment, RunSpec
from romdp.experiments.store import TABLES, Columns, StoredRun
from romdp.experiments.watching import last_line
from romdp.playing.episodes import mean_return_by_step

Panel = tuple[str, int]
"""A world and its number of observations: runs of one panel are drawn together."""


@dataclass(frozen=True, eq=False)
class EpochGrouping:
    """A grouping and when it came: the number of the epoch, the step at which that began."""

    epoch: int
    step: int
    labels: NDArray[np.int64] = field(repr=False)


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
    hidden_state: NDArray[np.int64] | None = field(repr=False)
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
