"""Where logged decisions come from: files, folders, globs, tables and Minari datasets.

A source is a list of pieces in the order of their rows: files, or a table in memory.
"""

import glob
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from romdp.core.errors import InvalidInputError, StorageError
from romdp.data.trajectory import Trajectory
from romdp.logs.reading.pieces import ArrowPiece, CsvPiece, ParquetPiece, Piece, TablePiece, reading

_PARQUET = (".parquet", ".pq")
_CSV = (".csv", ".csv.gz", ".csv.bz2")
_ARROW = (".arrow", ".feather", ".ipc")
SUFFIXES = (*_PARQUET, *_CSV, *_ARROW)
"""The names of files that can be read end in one of these."""


def open_source(data: Any) -> list[Piece]:
    """Find the pieces of whatever a caller passed.

    Parameters
    ----------
    data
        A path, a folder, a glob or a list of these; an Arrow table, batch or reader; a pandas or
        polars frame or anything else that speaks Arrow; a mapping from names to columns.
    """
    if isinstance(data, str | os.PathLike):
        return [_file_piece(path) for path in _once(_paths(data))]
    if _is_list_of_paths(data):
        if not data:
            raise InvalidInputError("the list of files is empty; pass at least one")
        return [_file_piece(path) for path in _once([p for item in data for p in _paths(item)])]
    return [_table_piece(data)]


def _is_list_of_paths(data: Any) -> bool:
    return isinstance(data, list | tuple) and all(isinstance(x, str | os.PathLike) for x in data)


def _once(files: list[Path]) -> list[Path]:
    """Refuse a file that is named twice: its rows would count twice."""
    seen: set[Path] = set()
    for file in files:
        if file.resolve() in seen:
            raise InvalidInputError(f"{file} is named twice; its rows would count twice")
        seen.add(file.resolve())
    return files


def _table_piece(data: Any) -> Piece:
    import pyarrow as pa

    label = "the table"
    try:
        if isinstance(data, pa.RecordBatch):
            data = pa.Table.from_batches([data])
        elif isinstance(data, Mapping):
            data = pa.table(dict(data))
        elif type(data).__module__.partition(".")[0] == "pandas":
            _refuse_twins(list(data.columns))
            data = pa.Table.from_pandas(data, preserve_index=False)
        elif not isinstance(data, pa.Table | pa.RecordBatchReader):
            if hasattr(data, "collect") and not hasattr(data, "__arrow_c_stream__"):
                data = data.collect()  # a lazy frame of polars
            if not hasattr(data, "__arrow_c_stream__"):
                raise InvalidInputError(
                    f"cannot read logs from a {type(data).__name__}; pass a file, a folder, a "
                    "glob, an Arrow table, a pandas or polars frame, or a romdp.Trajectory"
                )
            data = pa.table(data)
    except (pa.ArrowException, OverflowError) as error:
        raise InvalidInputError(
            _mixed(data)
            or f"a column of the table cannot be read, perhaps because it mixes types: {error}"
        ) from error
    n_rows = data.num_rows if isinstance(data, pa.Table) else None
    return TablePiece(label, n_rows, table=data)


def _refuse_twins(names: list[Any]) -> None:
    for i, name in enumerate(names):
        if name in names[:i]:
            raise InvalidInputError(
                f"the table has two columns called {name!r}; rename or drop one"
            )


def _mixed(data: Any) -> str | None:
    """Name the first value that is of another type than the one at the top of its column."""
    for name in data:
        kinds: list[type] = []
        for row, value in enumerate(data[name]):
            if value is None or value != value:  # noqa: PLR0124 - not-a-number
                continue
            number = isinstance(value, int | float)
            kinds.append(float if number else type(value))
            if kinds[-1] is not kinds[0]:
                return (
                    f"row {row + 1:,} of the table, column {name!r}: {value!r} is of another type "
                    "than the values before it; make the column one type"
                )
    return None


def _paths(data: str | os.PathLike[str]) -> list[Path]:
    path = Path(data)
    if not os.fspath(data):
        raise InvalidInputError("the name of the log is empty; pass a file, a folder or a glob")
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
    if path.exists():
        raise InvalidInputError(f"{path} is a FIFO or a device; pass a file, a folder or a glob")
    raise InvalidInputError(f"there is no file {path}")


def _is_hidden(path: Path, folder: Path) -> bool:
    """Folders of Parquet files hold marks such as _SUCCESS and .crc files."""
    return any(part[0] in "._" for part in path.relative_to(folder).parts)


def _suffix(path: Path) -> str | None:
    return next((s for s in SUFFIXES if path.name.lower().endswith(s)), None)


def _file_piece(path: Path) -> Piece:
    suffix = _suffix(path)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"the name {str(path)!r} is not UTF-8, so Arrow cannot open the file; rename it"
        ) from None
    if suffix is None:
        raise InvalidInputError(
            f"{path} has a name of an unknown kind; it must end in {', '.join(SUFFIXES)}"
        )
    if suffix in _CSV:
        _refuse_binary(path)
        return CsvPiece(str(path), path=path)
    if suffix in _ARROW:
        return ArrowPiece(str(path), _arrow_rows(path), path=path)
    return ParquetPiece(str(path), _parquet_rows(path), path=path)


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
        reading(str(path), "Arrow"),
        pa.memory_map(str(path)) as file,
        pa.ipc.open_file(file) as reader,
    ):
        return sum(reader.get_batch(i).num_rows for i in range(reader.num_record_batches))


def _parquet_rows(path: Path) -> int:
    import pyarrow.parquet as pq

    with reading(str(path), "Parquet"), pq.ParquetFile(path) as file:
        return int(file.metadata.num_rows)


def is_minari(data: Any) -> bool:
    """Tell whether something looks like a Minari dataset; minari itself is not needed."""
    return hasattr(data, "iterate_episodes") and hasattr(data, "total_episodes")


def read_minari(dataset: Any) -> Trajectory:
    """Turn a dataset with discrete observations and actions into a trajectory.

    A terminated episode leads to the start of the next one, a truncated one to nothing known.
    """
    observations, actions, rewards, lengths, terminated = [], [], [], [], []
    for number, episode in enumerate(dataset.iterate_episodes()):
        seen, done = (
            _discrete(getattr(episode, name), name, number) for name in ("observations", "actions")
        )
        if len(done) == 0:
            continue
        observations.append(seen[: len(done)])
        actions.append(done)
        rewards.append(np.asarray(episode.rewards, np.float64))
        lengths.append(len(done))
        terminated.append(bool(np.asarray(episode.terminations)[-1]))
    if not lengths:
        raise InvalidInputError("the dataset holds no steps; there is nothing to learn from")
    starts = [int(seen[0]) for seen in observations]
    final = [
        following if ended else -1
        for following, ended in zip([*starts[1:], -1], terminated, strict=True)
    ]
    return Trajectory(
        np.concatenate(observations),
        np.concatenate(actions),
        np.concatenate(rewards),
        lengths,
        final,
    )


def _discrete(values: Any, name: str, episode: int) -> Any:
    array = np.asarray(values)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise InvalidInputError(
            f"{name} of episode {episode} are not whole numbers; only datasets with discrete "
            "observations and actions can be read"
        )
    return array
