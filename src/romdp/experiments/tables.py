"""A finished run as tables: its figures, its epochs, its groupings, and facts about it."""

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from romdp.data.partition import Partition
from romdp.experiments.specification import RunSpec
from romdp.playing.run import Run

if TYPE_CHECKING:
    import pyarrow

FIGURES, EPOCHS, GROUPS, FACTS = ".parquet", ".epochs.parquet", ".groups.parquet", ".json"
"""How the names of a run's files end."""

_MOST_GROUPINGS = 202  # the first, the last and 200 between them


def figures_table(spec: RunSpec, run: Run) -> "pyarrow.Table":
    """Return regret, pseudo-regret, reward and number of groups at log-spaced steps."""
    if len(run.epochs):
        epoch = np.searchsorted(run.epochs.start, run.steps - 1, side="right") - 1
        n_clusters = run.epochs.n_clusters[epoch]
    else:  # an agent that does not think in epochs
        n_clusters = np.full(run.steps.size, run.partition.n_clusters)
    return _table(
        spec,
        step=run.steps,
        regret=run.regret,
        pseudo_regret=run.pseudo_regret,
        n_clusters=n_clusters,
        reward=run.reward,
    )


def epochs_table(spec: RunSpec, run: Run) -> "pyarrow.Table":
    """Return one row an epoch."""
    return _table(
        spec,
        epoch=np.arange(1, len(run.epochs) + 1),
        start=run.epochs.start,
        length=run.epochs.length,
        n_clusters=run.epochs.n_clusters,
        gain=run.epochs.gain,
        sweeps=run.epochs.sweeps,
    )


def groups_table(spec: RunSpec, run: Run, hidden_states: NDArray[np.int64]) -> "pyarrow.Table":
    """Return one block of rows for each grouping; of very many, 200 between first and last."""
    kept = _spread(run.groupings) or [(1, run.partition)]
    n_observations = run.partition.n_observations
    epochs = np.array([number for number, _ in kept])
    starts = run.epochs.start[epochs - 1] if len(run.epochs) else np.zeros(len(kept))
    return _table(
        spec,
        epoch=np.repeat(epochs, n_observations),
        step=np.repeat(starts, n_observations),
        observation=np.tile(np.arange(n_observations), len(kept)),
        group=np.concatenate([partition.labels for _, partition in kept]),
        hidden_state=np.tile(hidden_states, len(kept)),
    )


def _spread(groupings: tuple[tuple[int, Partition], ...]) -> list[tuple[int, Partition]]:
    if len(groupings) <= _MOST_GROUPINGS:
        return list(groupings)
    chosen = np.rint(np.linspace(0, len(groupings) - 1, _MOST_GROUPINGS)).astype(np.int64)
    return [groupings[i] for i in chosen]


def grouping_facts(run: Run, hidden_states: NDArray[np.int64]) -> dict[str, Any]:
    """Score the final grouping against the truth.

    Returns
    -------
    dict
        ``exact``: it is the truth; ``refines``: no group mixes hidden states;
        ``steps_to_exact``: the step from which on it was the truth, None if it is not.
    """
    truth = Partition(hidden_states)
    exact = run.partition == truth
    since = None
    if exact:
        # A grouping is noted when it changes: the last one noted is the one that stayed.
        epoch = run.groupings[-1][0] if run.groupings else 1
        since = int(run.epochs.start[epoch - 1]) if len(run.epochs) else 0
    return {"exact": exact, "refines": run.partition.refines(truth), "steps_to_exact": since}


def _table(spec: RunSpec, **columns: NDArray[Any]) -> "pyarrow.Table":
    """Put what names the run before its columns; whole numbers are int64, others float64."""
    import pyarrow

    length = len(next(iter(columns.values())))
    names = {
        "agent": pyarrow.array([spec.agent] * length, pyarrow.string()),
        "world": pyarrow.array([spec.world] * length, pyarrow.string()),
        "n_observations": np.full(length, spec.n_observations, np.int64),
        "seed": np.full(length, spec.replicate, np.int64),
    }
    real = {"regret", "pseudo_regret", "reward", "gain"}
    typed = {
        name: np.ascontiguousarray(column, np.float64 if name in real else np.int64)
        for name, column in columns.items()
    }
    return pyarrow.table({**names, **typed})


def to_parquet(table: "pyarrow.Table") -> bytes:
    """Return the bytes of a Parquet file; the same table gives the same bytes."""
    import pyarrow.parquet

    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, compression="zstd")
    return file.getvalue()
