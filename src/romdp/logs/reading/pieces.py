"""The parts of a source of rows: files and tables, read batch by batch."""

import contextlib
import datetime
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from romdp.core.errors import InvalidInputError, StorageError

BATCH_ROWS = 2**18
"""Rows that are looked at together, at most."""

_CSV_BLOCK = 2**23  # bytes that are parsed at a time
_CSV_CELL = re.compile(r"column #(\d+): Row #(\d+): .*invalid value '(.*)'", re.DOTALL)
_CSV_BYTES = re.compile(r"column #(\d+): .*invalid UTF8")
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
    """

    label: str
    n_rows: int | None = None

    @property
    def types(self) -> dict[str, Any]:
        """Arrow types by column, None where several share the name."""
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
    """A Parquet file."""

    path: Path = Path()

    @property
    def types(self) -> dict[str, Any]:  # noqa: D102
        import pyarrow.parquet as pq

        with reading(self.label, "Parquet"), pq.ParquetFile(self.path) as file:
            return _types(file.schema_arrow)

    def batches(self, wanted: Wanted, size: int) -> Iterator[Any]:  # noqa: D102
        import pyarrow as pa
        import pyarrow.parquet as pq

        types = self.types
        text = [c for c in wanted.names if pa.types.is_string(types[c])]
        with (
            reading(self.label, "Parquet"),
            pq.ParquetFile(self.path, read_dictionary=text, pre_buffer=True) as file,
        ):
            yield from file.iter_batches(size, columns=wanted.all)


@dataclass(frozen=True)
class CsvPiece(Piece):
    """A CSV file with a header line.

    Names are read as text, whatever they look like, and become whole numbers only if all of a
    column are: what a first block of lines suggests never decides.
    """

    path: Path = Path()

    @property
    def types(self) -> dict[str, Any]:  # noqa: D102
        with reading(self.label, "CSV"), self._open(Wanted((), ())) as reader:
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
            reading(self.label, "CSV", list(self.types)),
            self._open(wanted) as reader,
        ):
            for batch in reader:
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)

    def odd_one(self, column: str) -> tuple[int, str]:
        """Return row and value that made the first lines of a column text, not numbers or times."""
        with reading(self.label, "CSV"), self._open(Wanted((column,), ())) as reader:
            values = reader.read_next_batch().column(column).to_pylist()
        kinds = {row: _looks(value) for row, value in enumerate(values) if value is not None}
        top = next(iter(kinds))
        row = next((row for row, kind in kinds.items() if kind != kinds[top]), top)
        return row, values[row]


def _looks(text: str) -> str:
    for kind, read in (("number", float), ("time", datetime.datetime.fromisoformat)):
        with contextlib.suppress(ValueError):
            read(text)
            return kind
    return "text"


@dataclass(frozen=True)
class ArrowPiece(Piece):
    """An Arrow IPC (Feather) file."""

    path: Path = Path()

    @property
    def types(self) -> dict[str, Any]:  # noqa: D102
        import pyarrow as pa

        with (
            reading(self.label, "Arrow"),
            pa.memory_map(str(self.path)) as file,
            pa.ipc.open_file(file) as reader,
        ):
            return _types(reader.schema)

    def batches(self, wanted: Wanted, size: int) -> Iterator[Any]:  # noqa: D102
        import pyarrow as pa

        with (
            reading(self.label, "Arrow"),
            pa.memory_map(str(self.path)) as file,
            pa.ipc.open_file(file) as reader,
        ):
            for number in range(reader.num_record_batches):
                batch = reader.get_batch(number).select(wanted.all)
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)


class reading:  # noqa: N801 - reads as a word in a with statement
    """Turn what Arrow says about a file into an error for people."""

    def __init__(self, label: str, kind: str, columns: Sequence[str] = ()) -> None:
        self.label, self.kind, self.columns = label, kind, columns

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        import pyarrow as pa

        if isinstance(error, InvalidInputError | StorageError) or error is None:
            return
        if isinstance(error, UnicodeDecodeError):
            raise InvalidInputError(
                f"the header of {self.label} is not UTF-8; save it as UTF-8"
            ) from error
        if isinstance(error, pa.ArrowInvalid | pa.ArrowKeyError | pa.ArrowNotImplementedError):
            raise InvalidInputError(self._words(str(error))) from error
        if isinstance(error, OSError) and error.errno is None:  # what was read, not the reading
            raise InvalidInputError(self._words(str(error))) from error
        if isinstance(error, OSError):
            raise StorageError(f"cannot read {self.label}: {error}") from error

    def _words(self, text: str) -> str:
        cell, row = _CSV_CELL.search(text), _CSV_ROW.search(text)
        if cell and int(cell[1]) < len(self.columns):
            column = self.columns[int(cell[1])]
            kind = "a number" if "to double" in text else "a value like those before it"
            return (
                f"row {int(cell[2]) - 1} of {self.label}, column {column!r}: {cell[3]!r} is not "
                f"{kind}"
            )
        if row:
            return f"row {int(row[1]) - 1} of {self.label} is broken: {row[2]}"
        if "Empty CSV" in text:
            return f"{self.label} is empty: it has not even a header line"
        if (bad := _CSV_BYTES.search(text)) and int(bad[1]) < len(self.columns):
            name = self.columns[int(bad[1])]
            return f"column {name!r} of {self.label} holds text that is not UTF-8; save it as UTF-8"
        article = "an" if self.kind[0] in "AEIOU" else "a"
        return (
            f"{self.label} is not {article} {self.kind} file as its name says, or it is damaged: "
            f"{text}"
        )


def _types(schema: Any) -> dict[str, Any]:
    types: dict[str, Any] = {}
    for name, arrow_type in zip(schema.names, schema.types, strict=True):
        types[name] = None if name in types else arrow_type
    return types
