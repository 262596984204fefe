"""The runs of an experiment in one SQLite file: a row for every run that ended, tables and all.

A row holds the facts of a run as JSON (the final figures, or the error of a run that failed, and
the hash of the experiment), its tables, and a SHA-256 of all of these: a row that fits both is
trusted, any other run is done again.

The table of groupings has a row for each grouping that is kept; the row of epoch 0 holds the true
hidden states.
"""

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Ints
from romdp.core.errors import StorageError, WriteError
from romdp.core.storage import OLD, write_bytes
from romdp.experiments.specification import RunSpec
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


def tables_of(run: Run, hidden_states: Ints) -> dict[str, Columns]:
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


FILE = "runs.sqlite"
"""The name of the file in a run directory."""

_FORMAT = "romdp runs 3"
_BLOBS = ", ".join(f"{kind} BLOB" for kind in TABLES)
_CREATE = f"""
CREATE TABLE about (format TEXT, experiment TEXT);
CREATE TABLE runs (number INTEGER PRIMARY KEY, facts TEXT, {_BLOBS}, seal TEXT);
"""
_PAGE = 16_384  # bytes; a row of a short run has some 2,000, and the rest of its page is lost
_VALUES = ", ".join("?" * (len(TABLES) + 3))


@dataclass(frozen=True)
class StoredRun:
    """A run that is finished: its facts, and those of its tables that were asked for."""

    facts: Mapping[str, Any]
    tables: Mapping[str, Columns]


@dataclass(frozen=True)
class Contents:
    """What is stored at one moment, in the experiment's order.

    Attributes
    ----------
    finished
        The runs that are finished.
    failed
        The errors of runs that failed.
    damaged
        In what way the rows of runs are damaged.
    """

    finished: dict[RunSpec, StoredRun] = field(default_factory=dict)
    failed: dict[RunSpec, str] = field(default_factory=dict)
    damaged: dict[RunSpec, str] = field(default_factory=dict)


class Store:
    """An open store; use it in a ``with`` statement.

    Parameters
    ----------
    path
        The file.
    runs
        All runs of the experiment, in order: the number of a row is a place there.
    writing
        Whether this is the one process that writes.
    """

    def __init__(self, path: Path, runs: Sequence[RunSpec], *, writing: bool = False) -> None:
        self._path, self._runs, self._writing = path, runs, writing
        if path.is_symlink():
            raise StorageError(f"{path} is a symbolic link; romdp only uses the file itself")
        # Where nothing may be written, the file is opened as one that never changes.
        writable = os.access(path.parent, os.W_OK) and os.access(path, os.W_OK)
        mode = "mode=rw" if writing or writable else "immutable=1"
        with self._guard():
            self._connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=30.0
            )
            self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
            if writing:
                self._numbers = {run: number for number, run in enumerate(runs)}
                # A commit then needs no sync: a kill loses nothing, a power failure perhaps the
                # last few runs, which are repeated.
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")

    @staticmethod
    def create(path: Path, experiment: str) -> None:
        """Write a store that holds no run but the hash of its experiment, whole or not at all."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.execute(f"PRAGMA page_size = {_PAGE}")
            connection.executescript(_CREATE)
            connection.execute("INSERT INTO about VALUES (?, ?)", (_FORMAT, experiment))
            content = connection.serialize()
        write_bytes(path, content)

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writing:  # leave one file and no journal
            with suppress(sqlite3.Error):  # somebody may be reading
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()

    def experiment(self) -> str:
        """Return the hash of the experiment, after a look at the file as a whole."""
        with self._guard():
            if self._connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("its pages do not fit together")
            ((found, experiment),) = self._connection.execute("SELECT * FROM about").fetchall()
        if found != _FORMAT:
            raise StorageError(f"{self._path} {OLD}")
        return str(experiment)

    @cached_property
    def _experiment(self) -> str:
        ((experiment,),) = self._connection.execute("SELECT experiment FROM about").fetchall()
        return str(experiment)

    def read(self, kinds: Iterable[str] = ()) -> Contents:
        """Read all runs, with their tables of these kinds."""
        contents = Contents()
        wanted = tuple(kinds)
        with self._guard():
            rows = self._connection.execute("SELECT * FROM runs ORDER BY number")
            for number, facts, *blobs, seal in rows:
                if not 0 <= number < len(self._runs):
                    continue
                run, named = self._runs[number], dict(zip(TABLES, blobs, strict=True))
                try:
                    if seal != _seal(run, facts, blobs):
                        raise ValueError("its row does not fit its checksum")
                    told = dict(json.loads(facts))
                    if told.pop("experiment", self._experiment) != self._experiment:
                        raise ValueError("its row is of another experiment")
                    if "error" in told:
                        contents.failed[run] = told["error"]
                        continue
                    size = run.n_observations
                    tables = {kind: unpack(kind, named[kind], size) for kind in wanted}
                    contents.finished[run] = StoredRun(told, tables)
                except (ValueError, TypeError, RecursionError, zlib.error) as error:
                    contents.damaged[run] = str(error)
        return contents

    def put(self, run: RunSpec, facts: Mapping[str, Any], tables: Mapping[str, bytes]) -> None:
        """Keep a run that ended: finished, or failed if its facts name an ``error``."""
        blobs = [tables.get(kind, b"") for kind in TABLES]
        with self._guard():
            text = json.dumps({**facts, "experiment": self._experiment})
            row = (self._numbers[run], text, *blobs, _seal(run, text, blobs))
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.execute(f"INSERT OR REPLACE INTO runs VALUES ({_VALUES})", row)
                self._connection.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Turn what SQLite says into an error for people."""
        try:
            yield
        except sqlite3.OperationalError as error:
            what = "write" if self._writing else "read"
            kind = WriteError if self._writing else StorageError
            raise kind(f"cannot {what} {self._path}: {error}") from error
        except (sqlite3.Error, ValueError, OverflowError) as error:
            raise StorageError(
                f"{self._path} is damaged: {error}. Bring it back from a copy, or begin the "
                "experiment in another directory"
            ) from error


def _seal(run: RunSpec, facts: Any, blobs: Sequence[Any]) -> str | None:
    """Hash a row together with the name of its run; None for what `Store.put` never writes."""
    try:
        parts = [run.id.encode(), facts.encode(), *blobs]
        lengths = [len(part) for part in parts]
        return hashlib.sha256(b"".join([repr(lengths).encode(), *parts])).hexdigest()
    except (TypeError, AttributeError):
        return None
