"""The tables of finished runs: packed by workers, joined into shards, read and verified.

A run has tables of its figures, its epochs, its groupings and, where it has episodes, their
returns. The table of groupings has one row per grouping; the row of epoch 0 holds the true hidden
states. A worker packs the tables of its run. Later the tables of a block of about a thousand runs
are joined into one shard each, with columns before them that say which run a row belongs to. A
shard is named by a hash of its content, so that the same runs give the same files, in whatever
order and wherever they were done.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import StorageError
from romdp.core.storage import check_directory, write_bytes
from romdp.core.validation import choice
from romdp.experiments.directory import RunDirectory, delete_checkpoint
from romdp.experiments.index import KINDS, MOST_GROUPINGS, RETURNS, Contents, Index, Row, Shard
from romdp.experiments.specification import RunSpec
from romdp.playing.run import Run

if TYPE_CHECKING:
    import pyarrow

_RUN = {
    "run": "int64",
    "agent": "string",
    "world": "string",
    "n_observations": "int64",
    "seed": "int64",
}
_COLUMNS = {
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
    "groups": {"epoch": "int64", "step": "int64", "labels": "labels"},
    RETURNS: {"step": "int64", "return": "double", "length": "int64"},
}
_NAMED = ("agent", "world", "n_observations", "seed")
_LOADED = {
    "figures": (*_NAMED, "step", "regret", "pseudo_regret", "n_clusters"),
    RETURNS: (*_NAMED, *_COLUMNS[RETURNS]),
}


@cache
def schema(kind: str, joined: bool = False) -> "pyarrow.Schema":
    """Return the columns of a table of one run, or of a shard that joins many."""
    import pyarrow as pa

    columns = (_RUN if joined else {}) | _COLUMNS[kind]
    lists = pa.list_(pa.int32())
    return pa.schema(
        [(name, lists if t == "labels" else pa.type_for_alias(t)) for name, t in columns.items()]
    )


def pack_tables(run: Run, hidden_states: NDArray[np.int64]) -> dict[str, bytes]:
    """Return the tables of a run, each as bytes in Arrow's stream format."""
    starts = run.epochs.start
    if len(starts):
        n_clusters = run.epochs.n_clusters[np.searchsorted(starts, run.steps - 1, "right") - 1]
    else:  # an agent that does not think in epochs
        n_clusters = np.full(run.steps.size, run.partition.n_clusters)
    groupings = run.groupings or ((1, run.partition),)
    if len(groupings) > MOST_GROUPINGS:
        chosen = np.rint(np.linspace(0, len(groupings) - 1, MOST_GROUPINGS)).astype(np.int64)
        groupings = tuple(groupings[i] for i in chosen)
    epochs = np.array([number for number, _ in groupings])
    figures = {name: getattr(run, name) for name in ("regret", "pseudo_regret", "reward")}
    return {
        "figures": pack("figures", {"step": run.steps, "n_clusters": n_clusters, **figures}),
        "epochs": pack(
            "epochs",
            {
                "epoch": np.arange(1, len(starts) + 1),
                **{name: run.epochs[name] for name in run.epochs.dtype.names},
            },
        ),
        "groups": pack_groupings(
            np.concatenate(([0], epochs)),
            np.concatenate(([0], starts[epochs - 1] if len(starts) else np.zeros_like(epochs))),
            np.stack([hidden_states, *(partition.labels for _, partition in groupings)]),
        ),
        RETURNS: pack(RETURNS, {name: run.returns[name] for name in _COLUMNS[RETURNS]}),
    }


def pack_groupings(
    epoch: NDArray[np.int64], step: NDArray[np.int64], labels: NDArray[np.int64]
) -> bytes:
    """Pack the table of groupings; ``labels`` has one row per grouping."""
    import pyarrow

    ends = np.arange(len(labels) + 1, dtype=np.int32) * labels.shape[1]
    values = pyarrow.array(labels.ravel().astype(np.int32))
    lists = pyarrow.ListArray.from_arrays(pyarrow.array(ends), values)
    return pack("groups", {"epoch": epoch, "step": step, "labels": lists})


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
    """Read what `pack` gave."""
    import pyarrow

    try:
        table = pyarrow.ipc.open_stream(content).read_all()
    except (pyarrow.ArrowException, OSError, ValueError, TypeError) as error:
        what = (str(error).splitlines() or ["unreadable"])[0]
        raise StorageError(f"the table of {kind} is damaged: {what}") from error
    if table.schema != schema(kind):
        raise StorageError(f"the table of {kind} is damaged: it has other columns")
    return table


def join(
    kind: str, numbers: Sequence[int], runs: Sequence[RunSpec], tables: "Sequence[pyarrow.Table]"
) -> "pyarrow.Table":
    """Put the tables of several runs below each other, each row with what names its run."""
    import pyarrow

    which = pyarrow.array(np.repeat(np.arange(len(runs)), [table.num_rows for table in tables]))
    wanted = schema(kind, joined=True)
    names = [
        (number, run.agent, run.world, run.n_observations, run.replicate)
        for number, run in zip(numbers, runs, strict=True)
    ]
    named = [
        pyarrow.array([name[place] for name in names], wanted.field(place).type).take(which)
        for place in range(len(_RUN))
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


def bounds_of(table: "pyarrow.Table", numbers: Sequence[int]) -> NDArray[np.int64]:
    """Return where the rows of each run begin in a joined table, and where the last one ends."""
    column = table["run"].to_numpy()
    return np.append(np.searchsorted(column, np.asarray(numbers, np.int64)), len(column))


@dataclass(frozen=True, eq=False)
class StoredRuns:
    """The finished runs of a directory that were found sound.

    Attributes
    ----------
    rows
        What the index says about them, in the experiment's order.
    tables
        Their tables by kind, joined in the same order.
    failed
        The runs that failed, with their errors.
    damaged
        The runs that do not match the manifest, and in what way.
    """

    rows: tuple[Row, ...]
    tables: "Mapping[str, pyarrow.Table]" = field(repr=False)
    failed: Mapping[RunSpec, str]
    damaged: Mapping[RunSpec, str]


def load_runs(
    directory: str | os.PathLike[str], table: Literal["figures", "returns"] = "figures"
) -> "pyarrow.Table":
    """Read the figures of all finished runs of a run directory, or the returns of their episodes.

    Parameters
    ----------
    directory
        What ``romdp compare`` wrote, finished or not; version 0.1's directories are read too.
    table
        ``"figures"``, or ``"returns"`` for the episodes of runs in Gymnasium environments.

    Returns
    -------
    pyarrow.Table
        One row per run and stored step, with the columns agent, world, n_observations, seed, step,
        regret, pseudo_regret and n_clusters. Of returns, one row per run and finished episode, with
        step, return and length after the first four. Runs that are missing, failed or damaged are
        left out. ``load_runs(directory).to_pandas()`` gives a pandas frame.

    Raises
    ------
    StorageError
        If the directory is missing, foreign or damaged as a whole.
    """
    check_directory(directory, "the directory that `romdp compare` wrote")
    choice(table, "table", tuple(_LOADED))
    stored = read_runs(RunDirectory.open(directory), (table,))
    return stored.tables[table].select(_LOADED[table]).combine_chunks()


def read_runs(directory: RunDirectory, kinds: Sequence[str] = KINDS) -> StoredRuns:
    """Read the tables of all finished runs and verify them."""
    import pyarrow

    if directory.earlier:
        from romdp.experiments.earlier import read_earlier_runs

        return read_earlier_runs(directory, kinds)
    runs = directory.experiment.runs
    contents = directory.contents()
    damaged = dict(contents.damaged)
    parts: dict[str, list[Any]] = {k: [schema(k, joined=True).empty_table()] for k in kinds}
    if contents.rows:
        with directory.index() as index:
            for block in sorted({number // index.runs_per_shard for number in contents.rows}):
                tables, bad = _read_block(directory, index, contents, block, kinds)
                damaged |= bad
                for kind in kinds:
                    parts[kind].append(tables[kind])
    return StoredRuns(
        tuple(r for n, r in contents.rows.items() if not r.failed and n not in damaged),
        {kind: pyarrow.concat_tables(tables) for kind, tables in parts.items()},
        {row.run: row.error for row in contents.rows.values() if row.error is not None},
        {runs[number]: what for number, what in sorted(damaged.items())},
    )


def _read_block(
    directory: RunDirectory, index: Index, contents: Contents, block: int, kinds: Sequence[str]
) -> "tuple[dict[str, pyarrow.Table], dict[int, str]]":
    """Return the tables of the sound runs of a block, and which runs are damaged in what way."""
    import pyarrow

    runs, size = directory.experiment.runs, index.runs_per_shard
    finished = [n for n, row in contents.rows.items() if n // size == block and not row.failed]
    waiting = [number for number in finished if number in contents.waiting]
    stored = [number for number in finished if number not in contents.waiting]
    tables: dict[str, pyarrow.Table] = {}
    damaged: dict[int, str] = {}
    for kind in kinds:
        read = {}
        for number, content in index.waiting_tables(waiting, kind):
            try:
                read[number] = unpack(kind, content)
            except StorageError as error:
                damaged[number] = str(error)
        table = join(kind, list(read), [runs[n] for n in read], list(read.values()))
        # Where no run of a block has episodes there is no shard of returns.
        if stored and (kind != RETURNS or (block, kind) in contents.shards):
            try:
                shard = _read_shard(directory, contents, block, kind)
                shard = shard.filter(pyarrow.array(np.isin(shard["run"].to_numpy(), stored)))
                table = pyarrow.concat_tables([table, shard])
                # A run may have no epochs and no returns; figures and groupings it must have.
                must = kind not in ("epochs", RETURNS)
                lost = set(stored) - set(shard["run"].to_pylist()) if must else set()
                damaged |= dict.fromkeys(lost, f"its {kind} are missing")
            except StorageError as error:
                damaged |= dict.fromkeys(stored, str(error))
        tables[kind] = table
    sound = np.array([number for number in finished if number not in damaged], np.int64)
    for kind, table in tables.items():
        column = table["run"].to_numpy()
        kept = np.flatnonzero(np.isin(column, sound))
        kept = kept[np.argsort(column[kept], kind="stable")]
        if not np.array_equal(kept, np.arange(len(column))):
            tables[kind] = table.take(kept)
    return tables, damaged


def _read_shard(
    directory: RunDirectory, contents: Contents, block: int, kind: str
) -> "pyarrow.Table":
    import pyarrow
    import pyarrow.parquet

    shard = contents.shards.get((block, kind))
    if shard is None:
        raise StorageError(f"its {kind} are missing")
    path = directory.table_file(shard.file)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path.name} cannot be read: {error.strerror}") from error
    if hashlib.sha256(content).hexdigest() != shard.sha256:
        raise StorageError(f"{path.name} was changed: its SHA-256 is not that of the manifest")
    # One file, not a dataset: a folder named `seed=1` above it must not add a column.
    table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content)).read()
    return table.cast(schema(kind, joined=True))  # Parquet names the entries of lists differently


class Writer:
    """The one who writes to a run directory; it must hold the lock.

    Parameters
    ----------
    directory
        The directory, whose `RunDirectory.prepare` was called.
    index
        Its index, open for writing.
    """

    def __init__(self, directory: RunDirectory, index: Index) -> None:
        self._directory, self._index = directory, index
        self._left: Counter[int] = Counter()

    def begin(self) -> tuple[list[RunSpec], dict[RunSpec, str]]:
        """Say what is to be done: all runs that are missing, failed or damaged.

        Returns
        -------
        todo
            The runs to do.
        damaged
            Those among them that were stored and are damaged, and in what way.
        """
        contents, size = self._index.contents(), self._index.runs_per_shard
        damaged = dict(contents.damaged)
        for block in sorted({number // size for number in contents.rows}):
            damaged |= _read_block(self._directory, self._index, contents, block, KINDS)[1]
        self._index.forget(damaged)
        runs, rows = self._directory.experiment.runs, contents.rows
        todo = [n for n in range(len(runs)) if n not in rows or rows[n].failed or n in damaged]
        self._left = Counter(number // size for number in todo)
        used = [shard.file for shard in contents.shards.values()]
        self._directory.delete_stale_files([runs[number] for number in todo], used)
        return [runs[n] for n in todo], {runs[n]: what for n, what in sorted(damaged.items())}

    def store(self, run: RunSpec, facts: Mapping[str, Any], tables: Mapping[str, bytes]) -> None:
        """Keep a finished run."""
        number = self._directory.numbers[run]
        self._index.store(number, facts, tables)
        delete_checkpoint(self._directory.checkpoint(run))
        self._count(number)

    def store_error(self, run: RunSpec, error: str) -> None:
        """Keep the error of a run that failed."""
        number = self._directory.numbers[run]
        self._index.store_error(number, error)
        self._count(number)

    def _count(self, number: int) -> None:
        block = number // self._index.runs_per_shard
        self._left[block] -= 1
        if not self._left[block]:
            self._write_shards(block)

    def finish(self) -> None:
        """Write the shards of all runs that still wait."""
        size = self._index.runs_per_shard
        for block in sorted({number // size for number in self._index.contents().waiting}):
            self._write_shards(block)

    def _write_shards(self, block: int) -> None:
        contents = self._index.contents()
        waiting = [n for n in contents.waiting if n // self._index.runs_per_shard == block]
        if not waiting:
            return
        tables, damaged = _read_block(self._directory, self._index, contents, block, KINDS)
        shards = []
        for kind, table in tables.items():
            if kind == RETURNS and table.num_rows == 0:
                continue
            content = to_parquet(table)
            digest = hashlib.sha256(content).hexdigest()
            shards.append(Shard(f"{kind}-{block:05}-{digest[:16]}.parquet", block, kind, digest))
            path = self._directory.table_file(shards[-1].file)
            write_bytes(path, content)
        self._index.use(block, shards, waiting)
        self._index.forget(damaged)
        replaced = {shard.file for shard in contents.shards.values() if shard.block == block}
        for name in replaced - {shard.file for shard in shards}:
            self._directory.table_file(name).unlink(missing_ok=True)
