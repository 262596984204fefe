"""Where logged decisions come from: files, folders, globs and tables, read batch by batch.

A source is a list of pieces in the order of their rows. A piece is what one worker reads from its
beginning to its end: a file, some row groups of a Parquet file, or a table in memory.
"""

import glob
import itertools
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from romdp.errors import InvalidInputError, StorageError

BATCH_ROWS = 2**18
"""Rows that are looked at together, at most."""

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz", ".csv.bz2")
_ARROW = (".arrow", ".feather", ".ipc")
SUFFIXES = (*_PARQUET, *_CSV, *_ARROW)
"""The names of files that can be read end in one of these."""

_CSV_BLOCK = 2**23  # bytes that are parsed at a time
_CSV_CELL = re.compile(r"column #(\d+): Row #(\d+): .*invalid value '(.*)'", re.DOTALL)
_CSV_ROW = re.compile(r"CSV parse error: Row #(\d+): (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The columns to read: those that name things, those that are numbers, order and others."""

    names: tuple[str, ...]
    numbers: tuple[str, ...]
    order: str | None = None
    others: tuple[str, ...] = ()

    @property
    def all(self) -> list[str]:
        """Every column once."""
        order = () if self.order is None else (self.order,)
        return list(dict.fromkeys((*self.names, *self.numbers, *order, *self.others)))


@dataclass(frozen=True)
class Piece:
    """A part of a source.

    Attributes
    ----------
    label
        What messages call it.
    n_rows
        How many rows it has; None if only reading tells.
    first_row
        How many rows of the same file come before.
    """

    label: str
    n_rows: int | None = None
    first_row: int = 0

    @property
    def types(self) -> dict[str, Any]:
        """Arrow types by column."""
        raise NotImplementedError

    @property
    def weight(self) -> int:
        """How long it takes to read, in some unit."""
        return self.n_rows or 1

    def batches(self, wanted: Wanted, size: int) -> Iterator[Any]:
        """Read the wanted columns as Arrow record batches of at most ``size`` rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class TablePiece(Piece):
    """A table in memory, or a stream of batches that can be read once."""

    table: Any = field(default=None, repr=False)

    @property
    def types(self) -> dict[str, Any]:  # noqa: D102
        return _types(self.table.schema)

    def batches(self, wanted: Wanted, size: int) -> Iterator[Any]:  # noqa: D102
        import pyarrow as pa

        if isinstance(self.table, pa.Table):
            yield from self.table.select(wanted.all).to_batches(max_chunksize=size)
            return
        for batch in self.table:
            chosen = batch.select(wanted.all)
            for start in range(0, chosen.num_rows, size):
                yield chosen.slice(start, size)


@dataclass(frozen=True)
class ParquetPiece(Piece):
    """Some row groups of a Parquet file."""

    path: Path = Path()
    groups: tuple[int, ...] = ()

    @property
    def types(self) -> dict[str, Any]:  # noqa: D102
        import pyarrow.parquet as pq

        with _reading(self.label, "Parquet"), pq.ParquetFile(self.path) as file:
            return _types(file.schema_arrow)

    def batches(self, wanted: Wanted, size: int) -> Iterator[Any]:  # noqa: D102
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = self.types
        text = [c for c in wanted.names if pa.types.is_string(types[c])]
        with (
            _reading(self.label, "Parquet"),
            pq.ParquetFile(self.path, read_dictionary=text, pre_buffer=True) as file,
        ):
            yield from file.iter_batches(
                size, row_groups=list(self.groups), columns=wanted.all, use_threads=False
            )


@dataclass(frozen=True)
class CsvPiece(Piece):
    """A CSV file with a header line.

    Names are read as text, whatever they look like, and become whole numbers only if all of a
    column are: what a first block of lines suggests never decides.
    """

    path: Path = Path()

    @property
    def types(self) -> dict[str, Any]:  # noqa: D102
        with _reading(self.label, "CSV"), self._open(Wanted((), ())) as reader:
            return _types(reader.schema)

    @property
    def weight(self) -> int:  # noqa: D102
        return self.path.stat().st_size

    def _open(self, wanted: Wanted, size: int = 0) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        types = dict.fromkeys(wanted.numbers, pa.float64()) | dict.fromkeys(
            wanted.names, pa.string()
        )
        return csv.open_csv(
            self.path,
            read_options=csv.ReadOptions(use_threads=False, block_size=_CSV_BLOCK),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=wanted.all,
                null_values=[""],
                strings_can_be_null=True,
            ),
        )

    def batches(self, wanted: Wanted, size: int) -> Iterator[Any]:  # noqa: D102
        with (
            _reading(self.label, "CSV", list(self.types)),
            self._open(wanted) as reader,
        ):
            for batch in reader:
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)


@dataclass(frozen=True)
class ArrowPiece(Piece):
    """An Arrow IPC (Feather) file."""

    path: Path = Path()

    @property
    def types(self) -> dict[str, Any]:  # noqa: D102
        import pyarrow as pa

        with (
            _reading(self.label, "Arrow"),
            pa.memory_map(str(self.path)) as file,
            pa.ipc.open_file(file) as reader,
        ):
            return _types(reader.schema)

    def batches(self, wanted: Wanted, size: int) -> Iterator[Any]:  # noqa: D102
        import pyarrow as pa

        with (
            _reading(self.label, "Arrow"),
            pa.memory_map(str(self.path)) as file,
            pa.ipc.open_file(file) as reader,
        ):
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number).select(wanted.all)
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)


class _reading:  # noqa: N801 - reads as a word in a with statement
    """Turn what Arrow says about a file into an error for people."""

    def __init__(self, label: str, kind: str, columns: Sequence[str] = ()) -> None:
        self.label, self.kind, self.columns = label, kind, columns

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import pyarrow as pa

        if isinstance(error, InvalidInputError | StorageError) or error is None:
            return
        if isinstance(error, pa.ArrowInvalid | pa.ArrowKeyError | pa.ArrowNotImplementedError):
            raise InvalidInputError(self._words(str(error))) from error
        if isinstance(error, OSError):
            raise StorageError(f"cannot read {self.label}: {error}") from error

    def _words(self, text: str) -> str:
        cell, row = _CSV_CELL.search(text), _CSV_ROW.search(text)
        if cell and int(cell[1]) < len(self.columns):
            column = self.columns[int(cell[1])]
            return (
                f"row {int(cell[2]) - 1} of {self.label}, column {column!r}: {cell[3]!r} is not a "
                "number like those before it"
            )
        if row:
            return f"row {int(row[1]) - 1} of {self.label} is broken: {row[2]}"
        if "Empty CSV" in text:
            return f"{self.label} is empty: it has not even a header line"
        return f"{self.label} is not a {self.kind} file as its name says, or it is damaged: {text}"


def open_source(data: Any) -> list[Piece]:
    """Find the pieces of whatever a caller passed.

    Parameters
    ----------
    data
        A path, a folder, a glob or a list of these; an Arrow table, batch or reader; a pandas or
        polars frame or anything else that speaks Arrow; a mapping from names to columns.
    """
    if isinstance(data, str | os.PathLike):
        return [piece for path in _paths(data) for piece in _file_pieces(path)]
    if _is_list_of_paths(data):
        if not data:
            raise InvalidInputError("the list of files is empty; pass at least one")
        return [piece for item in data for piece in open_source(item)]
    return [_table_piece(data)]


def _is_list_of_paths(data: Any) -> bool:
    return isinstance(data, list | tuple) and all(isinstance(x, str | os.PathLike) for x in data)


def _table_piece(data: Any) -> Piece:
    import pyarrow as pa

    label = "the table"
    try:
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        elif isinstance(data, Mapping):
            data = pa.table(dict(data))
        elif type(data).__module__.partition(".")[0] == "pandas":
            data = pa.Table.from_pandas(data, preserve_index=False)
        elif not isinstance(data, pa.Table | pa.RecordBatchReader):
            if not hasattr(data, "__arrow_c_stream__"):
                raise InvalidInputError(
                    f"cannot read logs from a {type(data).__name__}; pass a file, a folder, a "
                    "glob, an Arrow table, a pandas or polars frame, or a romdp.Trajectory"
                )
            data = pa.table(data)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(
            f"a column of the table cannot be read, perhaps because it mixes types: {error}"
        ) from error
    n_rows = data.num_rows if isinstance(data, pa.Table) else None
    return TablePiece(label, n_rows, table=data)


def _paths(data: str | os.PathLike[str]) -> list[Path]:
    path = Path(data)
    if path.is_file():
        return [path]
    if path.is_dir():
        found = [p for p in path.rglob("*") if p.is_file() and not _is_hidden(p, path)]
        files = sorted(p for p in found if _suffix(p))
        if not files:
            raise InvalidInputError(
                f"the folder {path} holds no file that ends in {', '.join(SUFFIXES)}"
            )
        return files
    if glob.has_magic(str(data)):
        matches = sorted(Path(p) for p in glob.glob(str(data), recursive=True))
        if not matches:
            raise InvalidInputError(f"no file matches {data}")
        return [p for match in matches for p in _paths(match)]
    raise InvalidInputError(f"there is no file {path}")


def _is_hidden(path: Path, folder: Path) -> bool:
    """Folders of Parquet files hold marks such as _SUCCESS and .crc files."""
    return any(part[0] in "._" for part in path.relative_to(folder).parts)


def _suffix(path: Path) -> str | None:
    return next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)


def _file_pieces(path: Path) -> Iterable[Piece]:
    suffix = _suffix(path)
    if suffix is None:
        raise InvalidInputError(
            f"{path} has a name of an unknown kind; it must end in {', '.join(SUFFIXES)}"
        )
    if suffix in _CSV:
        _refuse_binary(path)
        return [CsvPiece(str(path), path=path)]
    if suffix in _ARROW:
        return [ArrowPiece(str(path), _arrow_rows(path), path=path)]
    return _parquet_pieces(path)


def _refuse_binary(path: Path) -> None:
    """Arrow would happily parse a Parquet file as one strange line of text."""
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
    if b"\0" in start and not path.name.lower().endswith((".gz", ".bz2")):
        raise InvalidInputError(f"{path} is not a CSV file as its name says: it is no text")


def _arrow_rows(path: Path) -> int:
    import pyarrow as pa

    with (
        _reading(str(path), "Arrow"),
        pa.memory_map(str(path)) as file,
        pa.ipc.open_file(file) as reader,
    ):
        return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))


def _parquet_pieces(path: Path) -> list[Piece]:
    """Make one piece of every row group: whoever reads them puts neighbours together."""
    import pyarrow.parquet as pq

    with _reading(str(path), "Parquet"), pq.ParquetFile(path) as file:
        meta = file.metadata
        sizes = [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
    starts = [0, *itertools.accumulate(sizes)][:-1]
    if not sizes:
        return [ParquetPiece(str(path), 0, path=path)]
    return [
        ParquetPiece(str(path), size, start, path, (i,))
        for i, (size, start) in enumerate(zip(sizes, starts, strict=True))
    ]


def _types(schema: Any) -> dict[str, Any]:
    return dict(zip(schema.names, schema.types, strict=True))
