"""The tables of a run: figures, epochs, groupings, and the returns of episodes where there are any.

The table of groupings has a row for each grouping that is kept; the row of epoch 0 holds the true
hidden states.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.playing.run import Run

Columns = dict[str, NDArray[Any]]

TABLES = {
    "figures": {
        "step": "<i8",
        "regret": "<f8",
        "pseudo_regret": "<f8",
        "n_clusters": "<i8",
        "reward": "<f8",
    },
    "epochs": {
        "epoch": "<i8",
        "start": "<i8",
        "length": "<i8",
        "n_clusters": "<i8",
        "gain": "<f8",
        "sweeps": "<i8",
    },
    "groups": {"epoch": "<i8", "step": "<i8", "labels": "<i4"},
    "returns": {"step": "<i8", "return": "<f8", "length": "<i8"},
}
"""The columns of each table and their types; a row of ``labels`` has one for each observation."""

_MOST_GROUPINGS = 202  # of a run: the first, the last and 200 between them


def tables_of(run: Run, hidden_states: NDArray[np.int64]) -> dict[str, Columns]:
    """Return the tables of a run."""
    starts = run.epochs.start
    if len(starts):
        n_clusters = run.epochs.n_clusters[np.searchsorted(starts, run.steps - 1, "right") - 1]
    else:  # an agent that does not think in epochs
        n_clusters = np.full(run.steps.size, run.partition.n_clusters)
    groupings = run.groupings or ((1, run.partition),)
    if len(groupings) > _MOST_GROUPINGS:
        chosen = np.rint(np.linspace(0, len(groupings) - 1, _MOST_GROUPINGS)).astype(np.int64)
        groupings = tuple(groupings[i] for i in chosen)
    epochs = np.array([number for number, _ in groupings])
    steps = starts[epochs - 1] if len(starts) else np.zeros_like(epochs)
    figures = {name: getattr(run, name) for name in ("regret", "pseudo_regret", "reward")}
    return {
        "figures": {"step": run.steps, "n_clusters": n_clusters, **figures},
        "epochs": {
            "epoch": np.arange(1, len(starts) + 1),
            **{name: run.epochs[name] for name in run.epochs.dtype.names},
        },
        "groups": {
            "epoch": np.append(0, epochs),
            "step": np.append(0, steps),
            "labels": np.stack([hidden_states, *(part.labels for _, part in groupings)]),
        },
        "returns": {name: run.returns[name] for name in TABLES["returns"]},
    }


def pack(tables: Mapping[str, Columns]) -> dict[str, bytes]:
    """Compress tables, each column by column."""
    return {
        kind: zlib.compress(
            b"".join(np.asarray(tables[kind][name], dtype).tobytes() for name, dtype in of.items())
        )
        for kind, of in TABLES.items()
    }


def unpack(kind: str, content: bytes, n_observations: int) -> Columns:
    """Read a table that `pack` compressed."""
    raw = zlib.decompress(content)
    widths = {name: n_observations if name == "labels" else 1 for name in TABLES[kind]}
    dtypes = {name: np.dtype(dtype) for name, dtype in TABLES[kind].items()}
    n_rows, rest = divmod(
        len(raw), sum(dtypes[name].itemsize * width for name, width in widths.items())
    )
    if rest:
        raise ValueError(f"the table of {kind} is damaged: its last row is not complete")
    columns, at = {}, 0
    for name, dtype in dtypes.items():
        columns[name] = np.ndarray(n_rows * widths[name], dtype, raw, at)
        at += columns[name].nbytes
    if kind == "groups":
        columns["labels"] = columns["labels"].reshape(n_rows, n_observations)
    return columns
