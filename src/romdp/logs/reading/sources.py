"""Where logged decisions come from: files, folders, globs and tables.

A source is a list of pieces in the order of their rows: files, or a table in memory. Arrow opens
them all, and hands out their rows batch by batch.
"""

import glob
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.validation import as_path
from romdp.logs.reading.xes import TIME, read_xes

BATCH_ROWS = 2**18
"""Rows that are looked at together, at most."""

_FORMATS = {
    "Parquet": (".parquet", ".pq"),
    "CSV": tuple(f"{name}{packed}" for name in (".csv", ".tsv") for packed in ("", ".gz", ".bz2")),
    "Arrow": (".arrow", ".feather", ".ipc"),
    "JSON lines": (".jsonl", ".ndjson"),
    "XES": (".xes", ".xes.gz"),
}
SUFFIXES = tuple(suffix for suffixes in _FORMATS.values() for suffix in suffixes)
"""The names of files that can be read end in one of these."""

_AHEAD = 2  # batches that are read before they are asked for
_BLOCK = 2**23  # bytes of text that are parsed at a time
_HEADER = 2**16  # bytes in which the header line of a CSV file ends
_CELL = re.compile(r"column #(\d+): Row #(\d+): .*invalid value '(.*)'", re.DOTALL)
_BYTES = re.compile(r"column #(\d+): .*invalid UTF8")
_ROW = re.compile(r"CSV parse error: Row #(\d+): (.*)", re.DOTALL)
_TWICE = re.compile(r"multiple columns named (.*)")
_JSON = re.compile(r"JSON parse error: (.*) in row (\d+)", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """A file, or a table in memory.

    Attributes
    ----------
    label
        What messages call it.
    format
        "Parquet", "CSV", "Arrow", "JSON lines", "XES" or "table".
    path
        Where the file is; None if it was read into a table already.
    table
        The table, or a stream of batches that can be read once.
    """

    label: str
    format: str
    path: Path | None = None
    table: Any = field(default=None, repr=False)

    @property
    def is_csv(self) -> bool:
        """Whether rows are lines of text, which may be read as any type."""
        return self.format == "CSV"

    @property
    def is_stream(self) -> bool:
        """Whether it can be read only once."""
        return self.table is not None and not hasattr(self.table, "num_rows")

    @property
    def types(self) -> dict[str, Any]:
        """Arrow types by column, None where several share the name."""
        with reading(self):
            schema = self.table.schema if self.path is None else self._open().schema
            types: dict[str, Any] = {}
            for name, arrow_type in zip(schema.names, schema.types, strict=True):
                types[name] = None if name in types else arrow_type
        return types

    @property
    def n_rows(self) -> int | None:
        """How many rows there are; None if only reading tells."""
        if self.path is None:
            return None if self.is_stream else int(self.table.num_rows)
        if self.format not in ("Parquet", "Arrow"):
            return None
        with reading(self):
            return int(self._open().count_rows())

    def types_read(self, as_text: Sequence[str], as_numbers: Sequence[str]) -> dict[str, Any]:
        """Return the types as which columns are read: files of text leave a choice.

        What a first block of lines suggests never decides whether names or numbers are read.
        """
        import pyarrow as pa

        types = self.types
        chosen: dict[str, Any] = dict.fromkeys(as_text, pa.string()) if self.is_csv else {}
        if self.is_csv or self.format == "JSON lines":
            chosen |= {
                name: pa.list_(pa.float64()) if is_list(types.get(name)) else pa.float64()
                for name in as_numbers
            }
        return types | {name: kind for name, kind in chosen.items() if types.get(name)}

    def batches(self, types: Mapping[str, Any], size: int, coded: bool = True) -> Iterator[Any]:
        """Read some columns, as these types, in Arrow record batches of at most ``size`` rows.

        ``coded``: text may come with a dictionary.
        """
        import pyarrow as pa

        with reading(self, list(self.types)):
            yield from self._open(pa.schema(list(types.items())), coded).to_batches(
                columns=list(types),
                batch_size=size,
                batch_readahead=_AHEAD,
                fragment_readahead=1,
                use_threads=self.format == "Parquet",  # else a message cannot name the row
            )

    def _open(self, schema: Any = None, coded: bool = False) -> Any:
        import pyarrow as pa
        import pyarrow.dataset as ds
        from pyarrow import csv, fs

        if self.path is None:
            return ds.dataset(self.table)
        form: Any = "ipc"
        if self.is_csv:
            form = ds.CsvFileFormat(
                parse_options=csv.ParseOptions(delimiter=_separator(self)),
                read_options=csv.ReadOptions(use_threads=False, block_size=_BLOCK),
                convert_options=csv.ConvertOptions(null_values=[""], strings_can_be_null=True),
            )
        elif self.format == "JSON lines":
            form = "json"
        elif self.format == "Parquet":
            texts = [x.name for x in schema or () if coded and pa.types.is_string(x.type)]
            form = ds.ParquetFileFormat(dictionary_columns=texts)
            schema = None  # the file has one, in which these columns are dictionaries now
        return ds.dataset(str(self.path), schema, form, fs.LocalFileSystem())


def _separator(piece: Piece) -> str:
    """Return what separates the columns of a CSV file: the one that its header holds most of."""
    import pyarrow as pa

    with pa.input_stream(str(piece.path), compression="detect") as file:
        header = re.sub(rb'"[^"]*"', b"", file.read(_HEADER)).partition(b"\n")[0]
    if b"\0" in header:  # Arrow would happily parse a Parquet file as one strange line of text
        raise InvalidInputError(f"{piece.label} is not a CSV file as its name says: it is no text")
    return max(",;\t", key=lambda mark: header.count(mark.encode()))


def is_list(arrow_type: Any) -> bool:
    """Say whether a column holds a list of numbers in each row."""
    import pyarrow.types as t

    return arrow_type is not None and any(
        ask(arrow_type) for ask in (t.is_list, t.is_large_list, t.is_fixed_size_list)
    )


@contextmanager
def reading(piece: Piece, columns: Sequence[str] = ()) -> Iterator[None]:
    """Turn what Arrow says about a piece into an error for people."""
    import pyarrow as pa

    try:
        yield
    except (InvalidInputError, StorageError):
        raise
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"the header of {piece.label} is not UTF-8; save it as UTF-8"
        ) from error
    except (pa.ArrowInvalid, pa.ArrowKeyError, pa.ArrowNotImplementedError) as error:
        raise InvalidInputError(_words(str(error), piece, columns)) from error
    except OSError as error:
        if error.errno is None:  # what was read, not the reading
            raise InvalidInputError(_words(str(error), piece, columns)) from error
        raise StorageError(f"cannot read {piece.label}: {error.strerror or error}") from error


def _words(text: str, piece: Piece, columns: Sequence[str]) -> str:
    label = piece.label
    if (found := _CELL.search(text)) and int(found[1]) < len(columns):
        kind = "a number" if "to double" in text else "a value like those before it"
        remedy = "; write decimals with a point" if "," in found[3] else ""
        return (
            f"row {int(found[2]) - 1} of {label}, column {columns[int(found[1])]!r}: {found[3]!r} "
            f"is not {kind}{remedy}"
        )
    if found := _ROW.search(text):
        return f"row {int(found[1]) - 1} of {label} is broken: {found[2]}"
    if found := _TWICE.search(text):
        return f"{label} has two columns called {found[1]!r}; rename or drop one"
    if found := _JSON.search(text):
        return f"row {int(found[2]) + 1} of {label} is broken: {found[1]}"
    if "Empty CSV" in text:
        return f"{label} is empty: it has not even a header line"
    if found := _BYTES.search(text):
        name = f"column {columns[int(found[1])]!r} of " if columns else ""
        return f"{name}{label} holds text that is not UTF-8; save it as UTF-8"
    article = "an" if piece.format[0] in "AEIOU" else "a"
    reason = re.sub(r"^.*?(?:Invalid|IOError): ", "", text, flags=re.DOTALL)
    return (
        f"{label} is not {article} {piece.format} file as its name says, or it is damaged: {reason}"
    )


def open_source(data: Any) -> list[Piece]:
    """Find the pieces of whatever a caller passed.

    Parameters
    ----------
    data
        A path, a folder, a glob or a list of these; an Arrow table, batch or reader; a pandas or
        polars frame or anything else that speaks Arrow; a mapping from names to columns, of which
        some may be arrays of vectors; or pieces that were found before.
    """
    if isinstance(data, str | os.PathLike):
        data = [data]
    elif isinstance(data, list | tuple) and not data:
        raise InvalidInputError("the list of files is empty; pass at least one")
    if not isinstance(data, list | tuple):
        return [Piece("the table", "table", table=_table(data))]
    if all(isinstance(item, Piece) for item in data):
        return list(data)
    if not all(isinstance(item, str | os.PathLike) for item in data):
        raise InvalidInputError(
            f"cannot read logs from a {type(data).__name__} of {type(data[0]).__name__}s; pass a "
            "list of files, or a table"
        )
    files = [path for item in data for path in _paths(item)]
    seen: set[Path] = set()
    for file in files:
        if file.resolve() in seen:
            raise InvalidInputError(f"{file} is named twice; its rows would count twice")
        seen.add(file.resolve())
    return [_file(path) for path in files]


def is_event_log(pieces: Sequence[Piece]) -> bool:
    """Say whether a log is made of XES files alone."""
    return all(piece.format == "XES" for piece in pieces)


def has_times(pieces: Sequence[Piece]) -> bool:
    """Say whether every event tells when it happened."""
    tables = [piece.table for piece in pieces]
    return all(TIME in table.column_names and not table[TIME].null_count for table in tables)


def _table(data: Any) -> Any:
    import pyarrow as pa

    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    is_pandas = type(data).__module__.partition(".")[0] == "pandas"
    if is_pandas or isinstance(data, Mapping):
        columns: dict[Any, Any] = {}
        for name, values in data.items():
            if name in columns:
                raise InvalidInputError(
                    f"the table has two columns called {name!r}; rename or drop one"
                )
            columns[name] = _column(name, values, is_pandas)
        sizes = {name: len(values) for name, values in columns.items()}
        if len(set(sizes.values())) > 1:
            least, most = min(sizes, key=sizes.__getitem__), max(sizes, key=sizes.__getitem__)
            raise InvalidInputError(
                f"column {least!r} has {sizes[least]:,} rows and {most!r} {sizes[most]:,}; all "
                "columns of a table must be equally long"
            )
        return pa.table({str(name): values for name, values in columns.items()})
    if hasattr(data, "collect") and not hasattr(data, "__arrow_c_stream__"):
        data = data.collect()  # a lazy frame of polars
    if isinstance(data, pa.Table | pa.RecordBatchReader):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(data)
    raise InvalidInputError(
        f"cannot read logs from a {type(data).__name__}; pass a file, a folder, a glob, an Arrow "
        "table, a pandas or polars frame, a mapping of columns, or a romdp.Trajectory"
    )


def _column(name: Any, values: Any, is_pandas: bool) -> Any:
    """Read a column of a mapping or of pandas; arrays of vectors, or of pictures, become lists."""
    import pyarrow as pa

    if getattr(values, "ndim", 1) > 1 and len(values):
        rows = np.asarray(values).reshape(len(values), -1)
        rows = rows.astype(np.uint8) if rows.dtype == np.bool_ else rows
        return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    try:
        return pa.array(values, from_pandas=is_pandas)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"column {name!r} of the table cannot be read ({error}). If it mixes types, make it "
            "one type, such as text"
        ) from error


def _paths(data: str | os.PathLike[str]) -> list[Path]:
    path = as_path(data, "data")
    if path.is_file():
        return [path]
    if path.is_dir():
        # Folders of Parquet files hold marks such as _SUCCESS and .crc files.
        files = sorted(
            p
            for p in path.rglob("*")
            if p.is_file() and _format(p) and not re.search(r"(^|/)[._]", str(p.relative_to(path)))
        )
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
    if path.exists():
        raise InvalidInputError(f"{path} is a FIFO or a device; pass a file, a folder or a glob")
    raise InvalidInputError(f"there is no file {path}")


def _format(path: Path) -> str | None:
    name = path.name.lower()
    return next((form for form, suffixes in _FORMATS.items() if name.endswith(suffixes)), None)


def _file(path: Path) -> Piece:
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"the name {str(path)!r} is not UTF-8, so Arrow cannot open the file; rename it"
        ) from None
    form = _format(path)
    if form is None:
        remedy = ""
        if path.suffix.lower() in (".xlsx", ".xls", ".ods"):
            remedy = ". Save the sheet as CSV, or pass what pandas.read_excel returns"
        elif path.suffix.lower() == ".json":
            remedy = ". Write one object per line, and call it .jsonl"
        raise InvalidInputError(
            f"{path} has a name of an unknown kind; it must end in {', '.join(SUFFIXES)}{remedy}"
        )
    if form == "XES":
        return Piece(str(path), form, table=read_xes(path))
    return Piece(str(path), form, path)
