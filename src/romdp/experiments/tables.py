"""The tables of finished runs: their figures, their epochs and their groupings.

A worker packs the three tables of its run. Later the tables of about a thousand runs are joined
into shards, with columns before them that say which run a row belongs to. The table of groupings
has one row per grouping; the row of epoch 0 holds the true hidden states.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import StorageError
from romdp.data.partition import Partition
from romdp.experiments.specification import RunSpec
from romdp.playing.run import Run, log_spaced

if TYPE_CHECKING:
    import pyarrow

KINDS = ("figures", "epochs", "groups")
"""The three tables of a run."""

MOST_GROUPINGS = 202
"""How many groupings of a run are kept: the first, the last and 200 between them."""

_COLUMNS = {
    "run": {
        "run": "int64",
        "agent": "string",
        "world": "string",
        "n_observations": "int64",
        "seed": "int64",
    },
    "figures": {
        "step": "int64",
        "regret": "double",
        "pseudo_regret": "double",
        "n_clusters": "int64",
        "reward": "double",
    },
    "epochs": {
        "epoch": "int64",
        "start": "int64",
        "length": "int64",
        "n_clusters": "int64",
        "gain": "double",
        "sweeps": "int64",
    },
    "groups": {"epoch": "int64", "step": "int64", "labels": "list<int32>"},
}


@cache
def schema(kind: str, joined: bool = False) -> "pyarrow.Schema":
    """Return the columns of a table of one run, or of a shard that joins many."""
    import pyarrow

    def column_type(name: str) -> Any:
        if name == "list<int32>":
            return pyarrow.list_(pyarrow.int32())
        return pyarrow.type_for_alias(name)

    columns = (_COLUMNS["run"] if joined else {}) | _COLUMNS[kind]
    return pyarrow.schema([(name, column_type(what)) for name, what in columns.items()])


def pack_tables(run: Run, hidden_states: NDArray[np.int64]) -> dict[str, bytes]:
    """Return the three tables of a run, each as bytes in Arrow's stream format."""
    return {
        "figures": pack("figures", _figures(run)),
        "epochs": pack(
            "epochs",
            {
                "epoch": np.arange(1, len(run.epochs) + 1),
                **{name: run.epochs[name] for name in run.epochs.dtype.names},
            },
        ),
        "groups": pack("groups", _groups(run, hidden_states)),
    }


def _figures(run: Run) -> dict[str, NDArray[Any]]:
    """Return the figures at log-spaced steps."""
    if len(run.epochs):
        epoch = np.searchsorted(run.epochs.start, run.steps - 1, side="right") - 1
        n_clusters = run.epochs.n_clusters[epoch]
    else:  # an agent that does not think in epochs
        n_clusters = np.full(run.steps.size, run.partition.n_clusters)
    return {
        "step": run.steps,
        "regret": run.regret,
        "pseudo_regret": run.pseudo_regret,
        "n_clusters": n_clusters,
        "reward": run.reward,
    }


def _groups(run: Run, hidden_states: NDArray[np.int64]) -> dict[str, Any]:
    """Return the hidden states as epoch 0, then the groupings; 200 between first and last."""
    groupings = run.groupings or ((1, run.partition),)
    if len(groupings) > MOST_GROUPINGS:
        chosen = np.rint(np.linspace(0, len(groupings) - 1, MOST_GROUPINGS)).astype(np.int64)
        groupings = tuple(groupings[i] for i in chosen)
    epochs = np.array([number for number, _ in groupings])
    starts = run.epochs.start[epochs - 1] if len(run.epochs) else np.zeros_like(epochs)
    return grouping_columns(
        np.concatenate(([0], epochs)),
        np.concatenate(([0], starts)),
        np.stack([hidden_states, *(partition.labels for _, partition in groupings)]),
    )


def grouping_columns(
    epoch: NDArray[np.int64], step: NDArray[np.int64], labels: NDArray[np.int64]
) -> dict[str, Any]:
    """Return the columns of the table of groupings; ``labels`` has one row per grouping."""
    import pyarrow

    ends = np.arange(len(labels) + 1, dtype=np.int32) * labels.shape[1]
    values = pyarrow.array(labels.ravel().astype(np.int32))
    return {
        "epoch": epoch,
        "step": step,
        "labels": pyarrow.ListArray.from_arrays(pyarrow.array(ends), values),
    }


def pack(kind: str, columns: Mapping[str, Any]) -> bytes:
    """Return one table of a run as bytes in Arrow's stream format."""
    import pyarrow

    wanted = schema(kind)
    arrays = [
        column if isinstance(column, pyarrow.Array) else pyarrow.array(column, field.type)
        for column, field in ((columns[field.name], field) for field in wanted)
    ]
    sink = pyarrow.BufferOutputStream()
    options = pyarrow.ipc.IpcWriteOptions(compression="zstd", use_threads=False)
    with pyarrow.ipc.new_stream(sink, wanted, options=options) as stream:
        stream.write_batch(pyarrow.record_batch(arrays, schema=wanted))
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpack(kind: str, content: bytes) -> "pyarrow.Table":
    """Read what `pack_tables` gave."""
    import pyarrow

    try:
        table = pyarrow.ipc.open_stream(content).read_all()
    except (pyarrow.ArrowException, OSError, ValueError, TypeError) as error:
        raise StorageError(f"the table of {kind} is damaged: {_first_line(error)}") from error
    if table.schema != schema(kind):
        raise StorageError(f"the table of {kind} is damaged: it has other columns")
    return table


def name_columns(numbers: Sequence[int], runs: Sequence[RunSpec]) -> dict[str, list[Any]]:
    """Return what names the runs, column by column."""
    return {
        "run": list(numbers),
        "agent": [run.agent for run in runs],
        "world": [run.world for run in runs],
        "n_observations": [run.n_observations for run in runs],
        "seed": [run.replicate for run in runs],
    }


def join(
    kind: str, numbers: Sequence[int], runs: Sequence[RunSpec], tables: "Sequence[pyarrow.Table]"
) -> "pyarrow.Table":
    """Put the tables of several runs below each other, each row with what names its run."""
    import pyarrow

    which = pyarrow.array(np.repeat(np.arange(len(runs)), [table.num_rows for table in tables]))
    wanted = schema(kind, joined=True)
    named = [
        pyarrow.array(column, wanted.field(name).type).take(which)
        for name, column in name_columns(numbers, runs).items()
    ]
    body = pyarrow.concat_tables([schema(kind).empty_table(), *tables])
    return pyarrow.Table.from_arrays(
        [*named, *(column.combine_chunks() for column in body.columns)], schema=wanted
    )


def to_parquet(table: "pyarrow.Table") -> bytes:
    """Return the bytes of a Parquet file; the same table gives the same bytes."""
    import pyarrow
    import pyarrow.parquet

    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(table.combine_chunks(), sink, compression="zstd")
    content: bytes = sink.getvalue().to_pybytes()
    return content


def from_parquet(kind: str, content: bytes) -> "pyarrow.Table":
    """Read a shard."""
    import pyarrow
    import pyarrow.parquet

    try:
        # One file, not a dataset: a folder named `seed=1` above it must not add a column.
        table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content)).read()
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise StorageError(f"it is damaged: {_first_line(error)}") from error
    if table.schema.remove_metadata() != schema(kind, joined=True):
        raise StorageError("it does not have the columns of a table of romdp")
    return table.cast(schema(kind, joined=True))  # Parquet names the entries of lists differently


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["unreadable"])[0]


def step_grid(steps: int) -> NDArray[np.int64]:
    """Return the steps at which every run of an experiment has figures."""
    grid = log_spaced(steps)
    return grid if grid[-1] == steps else np.append(grid, steps)


def bounds_of(table: "pyarrow.Table", numbers: Sequence[int]) -> NDArray[np.int64]:
    """Return where the rows of each run begin in a joined table, and where the last one ends."""
    column = table["run"].to_numpy()
    return np.append(np.searchsorted(column, np.asarray(numbers, np.int64)), len(column))


def find_mismatches(
    kind: str,
    numbers: Sequence[int],
    runs: Sequence[RunSpec],
    table: "pyarrow.Table",
    grid: NDArray[np.int64],
) -> dict[int, str]:
    """Compare a joined table with what the experiment says of its runs.

    Parameters
    ----------
    kind
        Which table it is.
    numbers, runs
        The runs that it must hold, in this order, and nothing else.
    table
        The table.
    grid
        The steps at which every run has figures.

    Returns
    -------
    dict
        For the runs that do not match, by their place in ``runs``: in what they do not.
    """
    bounds = bounds_of(table, numbers)
    lengths = np.diff(bounds)
    which = np.repeat(np.arange(len(runs)), lengths)
    found: dict[int, str] = {}

    def blame(rows: NDArray[np.bool_], what: str) -> None:
        for place in np.unique(which[rows]):
            found.setdefault(int(place), what)

    if any(table[name].null_count for name in table.column_names):
        return dict.fromkeys(range(len(runs)), f"its {kind} have gaps")
    expected = name_columns(numbers, runs)
    for name, column in expected.items():
        same = np.asarray(table[name].combine_chunks().to_numpy(zero_copy_only=False))
        values = np.array(column, same.dtype)[which]
        blame(same != values, f"its {kind} belong to another {name}")
    columns = {name: table[name].to_numpy() for name in _COLUMNS[kind] if name != "labels"}
    place = np.arange(len(which)) - bounds[which]  # of a row among those of its run
    sizes = np.array([run.n_observations for run in runs], np.int64)[which]
    if kind == "figures":
        for number in np.flatnonzero(lengths != len(grid)):
            found.setdefault(int(number), f"it has {lengths[number]} figures, not {len(grid)}")
        wanted = grid[np.minimum(place, len(grid) - 1)]
        blame(columns["step"] != wanted, "its figures are not taken at the steps of the experiment")
        for name in ("reward", "regret", "pseudo_regret"):
            values = columns[name]
            unknown = np.bincount(which[np.isnan(values)], minlength=len(runs)) == lengths
            # Rewards lie in [0, 1]: no figure is farther from zero than its step.
            possible = np.abs(values) <= wanted * (1 + 1e-9)
            if name != "reward":  # where the gain is not known, neither is the regret
                possible |= unknown[which]
            blame(~possible, f"its {name} is not a possible number")
        groups = columns["n_clusters"]
        blame((groups < 0) | (groups > sizes), "it has more groups than observations")
    elif kind == "epochs":
        start, length = columns["start"], columns["length"]
        blame(columns["epoch"] != place + 1, "its epochs are not numbered from 1")
        before = np.where(place > 0, np.roll(start + length, 1), 0)
        blame((start != before) | (length < 0), "its epochs do not follow each other")
        last = place == lengths[which] - 1
        blame(last & (start + length != grid[-1]), "its epochs do not end with the run")
    else:
        for number in np.flatnonzero(lengths < 2):
            found.setdefault(int(number), "it has no grouping")
        epoch = columns["epoch"]
        before = np.where(place > 0, np.roll(epoch, 1), 0)
        blame((epoch < before) | ((place == 0) & (epoch != 0)), "its groupings are not in order")
        labels = table["labels"].combine_chunks()
        counts = labels.value_lengths().to_numpy()
        blame(counts != sizes, "its groupings are of another number of observations")
        values = labels.flatten().to_numpy(zero_copy_only=False)
        rows = np.repeat(np.arange(len(which)), counts)
        wrong = ~((values >= -1) & (values < sizes[rows]))
        blame(np.bincount(rows[wrong], minlength=len(which)) > 0, "it has impossible labels")
    return found


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
