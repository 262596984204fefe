"""Tables in shards: the one who writes joins them, whoever reads verifies them.

The runs of an experiment are numbered, and each block of about a thousand shares three shards:
one of figures, one of epochs, one of groupings. A shard is named by a hash of its content, so
that the same runs give the same files, in whatever order and wherever they were done.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from romdp.core.errors import StorageError
from romdp.experiments.directory import RunDirectory, delete_checkpoint, write_bytes
from romdp.experiments.index import Contents, Index, Row, Shard
from romdp.experiments.specification import RunSpec
from romdp.experiments.tables import (
    KINDS,
    bounds_of,
    find_mismatches,
    from_parquet,
    join,
    schema,
    step_grid,
    to_parquet,
    unpack,
)

if TYPE_CHECKING:
    import pyarrow

_LOADED = (
    *("agent", "world", "n_observations", "seed"),
    *("step", "regret", "pseudo_regret", "n_clusters"),
)


@dataclass(frozen=True, eq=False)
class StoredRuns:
    """The finished runs of a directory that were found sound.

    Attributes
    ----------
    rows
        What the index says of them, in the experiment's order.
    tables
        Their tables by kind, joined in the same order.
    failed
        The runs that failed, with their errors.
    damaged
        The runs that do not match the manifest or the experiment, and in what they do not.
    """

    rows: tuple[Row, ...]
    tables: "Mapping[str, pyarrow.Table]" = field(repr=False)
    failed: Mapping[RunSpec, str]
    damaged: Mapping[RunSpec, str]


def load_runs(directory: str | os.PathLike[str]) -> "pyarrow.Table":
    """Read the figures of all finished runs of a run directory.

    Parameters
    ----------
    directory
        What ``romdp compare`` wrote, finished or not; version 0.1's directories are read too.

    Returns
    -------
    pyarrow.Table
        One row per run and stored step, with the columns agent, world, n_observations, seed, step,
        regret, pseudo_regret and n_clusters. Runs that are missing, failed or damaged are left
        out. ``load_runs(directory).to_pandas()`` gives a pandas frame.

    Raises
    ------
    StorageError
        If the directory is missing, foreign or damaged as a whole.
    """
    if not Path(directory).is_dir():
        problem = "is a file" if Path(directory).exists() else "does not exist"
        raise StorageError(f"{directory} {problem}; pass the directory that `romdp compare` wrote")
    stored = read_runs(RunDirectory.open(directory), ("figures",))
    return stored.tables["figures"].select(_LOADED).combine_chunks()


def read_runs(directory: RunDirectory, kinds: Sequence[str] = KINDS) -> StoredRuns:
    """Read the tables of all finished runs and verify them."""
    import pyarrow

    if directory.earlier:
        from romdp.experiments.earlier import read_earlier_runs

        return read_earlier_runs(directory, kinds)
    runs = directory.experiment.runs
    contents = directory.contents()
    damaged = dict.fromkeys(contents.damaged, "its row in the index is damaged")
    parts: dict[str, list[Any]] = {
        kind: [schema(kind, joined=True).empty_table()] for kind in kinds
    }
    if contents.rows:
        with directory.index() as index:
            for block in _Blocks(directory, index, contents, kinds):
                damaged |= block.damaged
                for kind in kinds:
                    parts[kind].append(block.tables[kind])
    return StoredRuns(
        tuple(r for n, r in contents.rows.items() if not r.failed and n not in damaged),
        {kind: pyarrow.concat_tables(tables) for kind, tables in parts.items()},
        {row.run: row.error for row in contents.rows.values() if row.error is not None},
        {runs[number]: what for number, what in sorted(damaged.items())},
    )


@dataclass(frozen=True, eq=False)
class _Block:
    """The sound runs of one block with their tables, and those that are damaged."""

    number: int
    numbers: list[int]
    tables: "dict[str, pyarrow.Table]"
    damaged: dict[int, str]


class _Blocks:
    """Reads the runs of an index block by block."""

    def __init__(
        self, directory: RunDirectory, index: Index, contents: Contents, kinds: Sequence[str]
    ) -> None:
        self._directory, self._index, self._contents = directory, index, contents
        self._kinds = kinds
        self._runs = directory.experiment.runs
        self._grid = step_grid(directory.experiment.steps)
        self.size = runs_per_shard(index)

    def __iter__(self) -> Iterator[_Block]:
        finished = [n for n, row in self._contents.rows.items() if not row.failed]
        for block in sorted({number // self.size for number in finished}):
            yield self.read(block, [n for n in finished if n // self.size == block])

    def read(self, block: int, finished: list[int]) -> _Block:
        """Read the finished runs of one block."""
        damaged: dict[int, str] = {}
        tables = {}
        for kind in self._kinds:
            table, bad = self._join(block, kind, finished)
            tables[kind] = table
            damaged |= bad
        for kind in self._kinds:
            sound = [number for number in finished if number not in damaged]
            table = _only(tables[kind], sound)
            found = find_mismatches(kind, sound, [self._runs[n] for n in sound], table, self._grid)
            if kind == "figures" and not found:
                found = self._compare_ends(sound, table)
            damaged |= {sound[place]: what for place, what in found.items()}
            tables[kind] = table
        sound = [number for number in finished if number not in damaged]
        return _Block(block, sound, {k: _only(t, sound) for k, t in tables.items()}, damaged)

    def _compare_ends(self, numbers: list[int], table: "pyarrow.Table") -> dict[int, str]:
        """Compare the last figures with those in the index."""
        last = bounds_of(table, numbers)[1:] - 1
        found = {}
        for name in ("regret", "pseudo_regret"):
            ends = table[name].to_numpy()[last]
            said = [self._contents.rows[number].facts[name] for number in numbers]
            noted = np.array([np.nan if value is None else value for value in said], np.float64)
            for place in np.flatnonzero((ends != noted) & ~(np.isnan(ends) & np.isnan(noted))):
                found[int(place)] = f"its {name} does not end as the index says"
        return found

    def _join(
        self, block: int, kind: str, finished: list[int]
    ) -> "tuple[pyarrow.Table, dict[int, str]]":
        """Join what waits with what is in the shard."""
        import pyarrow

        damaged: dict[int, str] = {}
        waiting = [n for n in finished if n in self._contents.waiting]
        read = {}
        for number, content in self._index.waiting_tables(waiting, kind):
            try:
                read[number] = unpack(kind, content)
            except StorageError as error:
                damaged[number] = str(error)
        table = join(kind, list(read), [self._runs[n] for n in read], list(read.values()))
        stored = [number for number in finished if number not in self._contents.waiting]
        if stored:
            try:
                shard = _only(self._read_shard(block, kind), stored)
            except StorageError as error:
                return table, damaged | dict.fromkeys(stored, str(error))
            present = set(np.unique(shard["run"].to_numpy()).tolist())
            if kind != "epochs":  # of which a run may have none
                lost = [number for number in stored if number not in present]
                damaged |= dict.fromkeys(lost, f"its {kind} are missing")
            table = pyarrow.concat_tables([table, shard])
            if read:
                table = table.take(np.argsort(table["run"].to_numpy(), kind="stable"))
        return table, damaged

    def _read_shard(self, block: int, kind: str) -> "pyarrow.Table":
        for shard in self._contents.shards:
            if (shard.block, shard.kind) == (block, kind):
                break
        else:
            raise StorageError(f"its {kind} are missing")
        path = self._directory.table_file(shard.file)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise StorageError(f"{path.name} cannot be read: {error.strerror}") from error
        if hashlib.sha256(content).hexdigest() != shard.sha256:
            raise StorageError(f"{path.name} was changed: its SHA-256 is not that of the manifest")
        try:
            return from_parquet(kind, content)
        except StorageError as error:
            raise StorageError(f"{path.name}: {error}") from error


def runs_per_shard(index: Index) -> int:
    """Return how many runs share a shard."""
    said = index.about().get("runs_per_shard", "")
    if not said.isdecimal() or int(said) < 1:
        raise StorageError(f"the index is damaged: runs_per_shard is {said!r}")
    return int(said)


def _only(table: "pyarrow.Table", numbers: Iterable[int]) -> "pyarrow.Table":
    """Keep the rows of these runs."""
    import pyarrow

    column = table["run"].to_numpy()
    kept = np.isin(column, np.fromiter(numbers, np.int64))
    return table if kept.all() else table.filter(pyarrow.array(kept))


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
        self._size = runs_per_shard(index)
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
        contents = self._index.contents()
        damaged = dict.fromkeys(contents.damaged, "its row in the index is damaged")
        for block in _Blocks(self._directory, self._index, contents, KINDS):
            damaged |= block.damaged
        self._index.forget(damaged)
        runs = self._directory.experiment.runs
        rows = contents.rows
        todo = [n for n in range(len(runs)) if n not in rows or rows[n].failed or n in damaged]
        self._left = Counter(number // self._size for number in todo)
        self._directory.delete_stale_files(runs[number] for number in todo)
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
        block = number // self._size
        self._left[block] -= 1
        if not self._left[block]:
            self._write_shards(block)

    def finish(self) -> None:
        """Write the shards of all runs that still wait."""
        for block in sorted({n // self._size for n in self._index.contents().waiting}):
            self._write_shards(block)
        self._delete_unused()

    def _write_shards(self, block: int) -> None:
        contents = self._index.contents()
        blocks = _Blocks(self._directory, self._index, contents, KINDS)
        finished = [
            n for n, row in contents.rows.items() if n // self._size == block and not row.failed
        ]
        if not any(number in contents.waiting for number in finished):
            return
        found = blocks.read(block, finished)
        files = {kind: to_parquet(found.tables[kind]) for kind in KINDS}
        shards = {}
        for kind, content in files.items():
            digest = hashlib.sha256(content).hexdigest()
            name = f"{kind}-{block:05}-{digest[:16]}.parquet"
            shards[kind] = Shard(name, block, kind, digest)
        self._index.announce(shards.values())
        for kind, content in files.items():
            write_bytes(self._directory.table_file(shards[kind].file), content)
        self._index.use(block, shards.values(), finished)
        self._index.forget(found.damaged)
        self._delete_unused()

    def _delete_unused(self) -> None:
        files = self._index.unused_files()
        for file in files:
            self._directory.table_file(file).unlink(missing_ok=True)
        self._index.drop(files)
