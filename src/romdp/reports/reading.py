"""A finished or half-finished run directory, read and checked, as plain arrays."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import StorageError
from romdp.core.storage import read_json
from romdp.experiments.directory import RunDirectory
from romdp.experiments.specification import Experiment, RunSpec
from romdp.experiments.tables import EPOCHS, FACTS, FIGURES, GROUPS

_FIGURES = ("step", "regret", "pseudo_regret", "n_clusters", "reward")
_EPOCHS = ("epoch", "start", "length", "n_clusters", "gain", "sweeps")
_GROUPS = ("epoch", "step", "observation", "group", "hidden_state")
_FACTS = ("seconds", "exact", "refines", "steps_to_exact")

Columns = dict[str, NDArray[Any]]
Panel = tuple[str, int]
"""A world and its number of observations: runs of one panel are drawn together."""


@dataclass(frozen=True, eq=False)
class Grouping:
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
        The columns step, regret, pseudo_regret, n_clusters and reward.
    epochs
        The columns epoch, start, length, n_clusters, gain and sweeps.
    groupings
        The groupings, oldest first.
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
    groupings: tuple[Grouping, ...] = field(repr=False)
    hidden_state: NDArray[np.int64] | None = field(repr=False)
    facts: Mapping[str, Any] = field(repr=False)

    @property
    def panel(self) -> Panel:
        """The world and its number of observations."""
        return self.world, self.n_observations


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
    """

    directory: RunDirectory
    records: tuple[Record, ...]
    missing: tuple[str, ...]
    failures: tuple[tuple[str, str], ...]

    @property
    def experiment(self) -> Experiment:
        """What was compared."""
        return self.directory.experiment

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that have at least one run."""
        present = {record.agent for record in self.records}
        return tuple(name for name in self.experiment.agents if name in present)

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The panels that have at least one run."""
        return tuple(dict.fromkeys(record.panel for record in self.records))

    def of(self, agent: str, panel: Panel) -> tuple[Record, ...]:
        """Return the runs of one agent in one panel, by seed."""
        return tuple(r for r in self.records if r.agent == agent and r.panel == panel)


def read_results(path: str | os.PathLike[str]) -> Results:
    """Read a run directory.

    Raises
    ------
    StorageError
        Where the directory is missing, foreign or damaged, or has no finished run; the message
        says which.
    """
    if not Path(path).is_dir():
        problem = "is a file" if Path(path).exists() else "does not exist"
        raise StorageError(f"{path} {problem}; pass the directory that `romdp compare` wrote")
    directory = RunDirectory.open(path)
    experiment = directory.experiment
    missing = set(directory.missing)
    failed = [run for run in directory.failed if run in missing]
    failures = tuple((run.id, _last_line(directory.error_file(run))) for run in failed)
    done = [run for run in experiment.runs if run not in missing]
    if not done:
        why = f" ({len(failures)} failed: {failures[0][1]})" if failures else ""
        raise StorageError(f"{path} has no finished run{why}; go on with: romdp resume {path}")
    worlds = [spec.label for spec in experiment.worlds]
    done.sort(
        key=lambda run: (
            worlds.index(run.world),
            run.n_observations,
            experiment.agents.index(run.agent),
            run.replicate,
        )
    )
    return Results(
        directory,
        tuple(_read_record(directory, run) for run in done),
        tuple(r.id for r in experiment.runs if r in missing and r not in failed),
        failures,
    )


def _read_record(directory: RunDirectory, run: RunSpec) -> Record:
    facts_file = directory.file(run, FACTS)
    facts = read_json(facts_file)
    if not isinstance(facts, dict) or not all(name in facts for name in _FACTS):
        raise _damage(facts_file, f"it does not say all of {', '.join(_FACTS)}")
    curves = _read_table(directory.file(run, FIGURES), _FIGURES)
    if not len(curves["step"]):
        raise _damage(directory.file(run, FIGURES), "it holds no rows")
    groupings, hidden_state = _read_groupings(directory.file(run, GROUPS), run.n_observations)
    return Record(
        agent=run.agent,
        world=run.world,
        n_observations=run.n_observations,
        seed=run.replicate,
        curves=curves,
        epochs=_read_table(directory.file(run, EPOCHS), _EPOCHS),
        groupings=groupings,
        hidden_state=hidden_state,
        facts=facts,
    )


def _read_table(path: Path, wanted: tuple[str, ...]) -> Columns:
    import pyarrow
    import pyarrow.parquet

    try:
        # One file, not a dataset: a folder named `seed=1` above it must not add a column.
        table = pyarrow.parquet.ParquetFile(path).read(columns=list(wanted))
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise _damage(path, (str(error).splitlines() or ["unreadable"])[0]) from error
    for name in wanted:
        if name not in table.column_names:
            raise _damage(path, f"the column {name!r} is missing")
    columns: Columns = {name: table.column(name).to_numpy() for name in wanted}
    for name, values in columns.items():
        if values.dtype.kind not in "iuf":
            raise _damage(path, f"the column {name!r} does not hold numbers")
    return columns


def _read_groupings(
    path: Path, n_observations: int
) -> tuple[tuple[Grouping, ...], NDArray[np.int64] | None]:
    """Cut the table into its groupings, each a block that lists every observation in order."""
    columns = _read_table(path, _GROUPS)
    if len(columns["epoch"]) == 0 or len(columns["epoch"]) % n_observations:
        raise _damage(path, f"it is not made of blocks of {n_observations} rows")
    blocks = {name: column.reshape(-1, n_observations) for name, column in columns.items()}
    for number, observations in enumerate(blocks["observation"]):
        if not np.array_equal(observations, np.arange(n_observations)):
            raise _damage(path, f"block {number} does not list every observation in order")
    groupings = tuple(
        Grouping(int(epoch[0]), int(step[0]), labels.astype(np.int64))
        for epoch, step, labels in zip(
            blocks["epoch"], blocks["step"], blocks["group"], strict=True
        )
    )
    truth = blocks["hidden_state"][0].astype(np.int64)
    known = bool((truth >= 0).all()) and len(np.unique(truth)) < n_observations
    return groupings, truth if known else None


def _damage(path: Path, what: str) -> StorageError:
    return StorageError(f"{path} is damaged: {what}. Delete it and go on with `romdp resume`")


def _last_line(path: Path) -> str:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    return next((line.strip() for line in reversed(lines) if line.strip()), "no message")
