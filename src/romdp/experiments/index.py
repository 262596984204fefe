"""The index of a run directory: one SQLite file with a row for every run that ended.

A row is the mark that its run is stored. It holds the status, the final figures, facts and the
error, and is sealed by a hash of all of these, so that a damaged row is noticed. The tables of a
run wait beside it until they are joined with others into a shard; the index knows the SHA-256 of
every shard and of the experiment, which makes it the manifest of the directory too.
"""

import hashlib
import json
import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from romdp.core.errors import StorageError, WriteError
from romdp.core.storage import write_bytes
from romdp.experiments.specification import RunSpec

FILE = "runs.sqlite"
"""The name of the file in a run directory."""

RETURNS = "returns"
KINDS = ("figures", "epochs", "groups", RETURNS)
"""The tables of a run; only a run with episodes has returns."""

MOST_GROUPINGS = 202
"""How many groupings of a run are kept: the first, the last and 200 between them."""

FIGURES = ("regret", "pseudo_regret", "slope", "n_clusters")
FACTS = ("exact", "refines", "steps_to_exact", "gain", "seconds", "resumed")
ENVIRONMENT = ("machine", "versions")
EPISODES = "episodes"  # what runs with episodes have besides

_FORMAT = "romdp runs 2"
_COLUMNS = (
    *("number", "id", "agent", "world", "n_observations", "seed", "status"),
    *FIGURES,
    *FACTS,
    *("environment", "error"),
)
_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE environments (content TEXT PRIMARY KEY);
CREATE TABLE runs (
    number INTEGER PRIMARY KEY, id TEXT, agent TEXT, world TEXT, n_observations INTEGER,
    seed INTEGER, status TEXT, regret REAL, pseudo_regret REAL, slope REAL, n_clusters INTEGER,
    exact INTEGER, refines INTEGER, steps_to_exact INTEGER, gain REAL, seconds REAL,
    resumed INTEGER, environment INTEGER, error TEXT, seal TEXT
);
CREATE TABLE waiting (number INTEGER PRIMARY KEY,
    figures BLOB, epochs BLOB, groups BLOB, returns BLOB, seal TEXT);
CREATE TABLE shards (file TEXT PRIMARY KEY, block INTEGER, kind TEXT, sha256 TEXT, used INTEGER);
"""


@dataclass(frozen=True)
class Row:
    """A run that ended: finished with facts, or failed with an error."""

    number: int
    run: RunSpec
    facts: Mapping[str, Any]
    error: str | None = None

    @property
    def failed(self) -> bool:
        """Whether it failed."""
        return self.error is not None


class Shard(NamedTuple):
    """A file of joined tables."""

    file: str
    block: int
    kind: str
    sha256: str


@dataclass(frozen=True)
class Contents:
    """What an index says at one moment.

    Attributes
    ----------
    rows
        The runs that ended, by their number.
    damaged
        The numbers of runs whose row is damaged, with a message.
    waiting
        The numbers of runs whose tables are not in a shard yet.
    shards
        The shards by block and kind.
    """

    rows: dict[int, Row] = field(default_factory=dict)
    damaged: dict[int, str] = field(default_factory=dict)
    waiting: frozenset[int] = frozenset()
    shards: dict[tuple[int, str], Shard] = field(default_factory=dict)


class Index:
    """An open index; use it in a ``with`` statement.

    Parameters
    ----------
    path
        The file.
    runs
        All runs of the experiment, in order: a run's number is its place there.
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
                # A commit then needs no sync: a kill loses nothing, a power failure perhaps the
                # last few runs, which are repeated.
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
                self._make_room_for_returns()

    def _make_room_for_returns(self) -> None:
        """Add the column that indices had not at first; those of before stay readable."""
        columns = [row[1] for row in self._connection.execute("PRAGMA table_info(waiting)")]
        if columns and RETURNS not in columns:
            self._connection.execute(f"ALTER TABLE waiting ADD COLUMN {RETURNS} BLOB")

    @staticmethod
    def create(path: Path, about: Mapping[str, str]) -> None:
        """Write an index that holds no run but facts about its directory, whole or not at all."""
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.executescript(_TABLES)
            connection.executemany(
                "INSERT INTO about VALUES (?, ?)", [("format", _FORMAT), *about.items()]
            )
            content = connection.serialize()
        write_bytes(path, content)

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        if self._writing:  # leave one file and no journal
            with suppress(sqlite3.Error):  # somebody may be reading
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                if self._connection.execute("PRAGMA freelist_count").fetchone()[0] > 256:
                    self._connection.execute("VACUUM")
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()

    @cached_property
    def about(self) -> dict[str, str]:
        """The facts about the directory, after a look at the file as a whole."""
        with self._guard():
            if self._connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("its pages do not fit together")
            found = dict(self._connection.execute("SELECT name, value FROM about").fetchall())
        if found.get("format") != _FORMAT:
            raise StorageError(
                f"{self._path} has the format {found.get('format')!r}; this romdp reads {_FORMAT!r}"
            )
        return found

    @cached_property
    def runs_per_shard(self) -> int:
        """How many runs share a shard."""
        said = self.about.get("runs_per_shard", "")
        if not said.isdecimal() or int(said) < 1:
            raise StorageError(f"{self._path} is damaged: runs_per_shard is {said!r}")
        return int(said)

    def contents(self) -> Contents:
        """Read everything but the tables that wait."""
        rows: dict[int, Row] = {}
        damaged: dict[int, str] = {}
        with self._transaction("ROLLBACK") as connection:
            environments = dict(connection.execute("SELECT rowid, content FROM environments"))
            columns = ", ".join(_COLUMNS)
            for *entries, seal in connection.execute(f"SELECT {columns}, seal FROM runs"):
                found = dict(zip(_COLUMNS, entries, strict=True))
                environment = environments.get(found["environment"])
                number = found["number"]
                if not 0 <= number < len(self._runs):
                    continue
                run = self._runs[number]
                named = tuple(entries[2:6])
                ours = (run.agent, run.world, run.n_observations, run.replicate)
                if seal != _seal([*entries, environment]) or named != ours:
                    damaged[number] = "its row in the index is damaged"
                elif found["status"] == "failed":
                    rows[number] = Row(number, run, {}, found["error"] or "no message")
                else:
                    facts = {name: found[name] for name in ("id", *FIGURES, *FACTS)}
                    for name in ("exact", "refines", "resumed"):
                        facts[name] = bool(facts[name])
                    rows[number] = Row(number, run, facts | json.loads(environment or "{}"))
            waiting = connection.execute("SELECT number FROM waiting").fetchall()
            shards = [
                Shard(str(file), int(block), str(kind), str(sha256))
                for file, block, kind, sha256 in connection.execute(
                    "SELECT file, block, kind, sha256 FROM shards WHERE used"
                )
            ]
        return Contents(
            dict(sorted(rows.items())),
            damaged,
            frozenset(number for (number,) in waiting),
            {(shard.block, shard.kind): shard for shard in shards},
        )

    def waiting_tables(self, numbers: Iterable[int], kind: str) -> Iterator[tuple[int, bytes]]:
        """Yield the tables that wait; one that is damaged is given as no bytes."""
        with self._guard():
            for number in numbers:
                row = self._connection.execute(
                    f"SELECT {', '.join(KINDS)}, seal FROM waiting WHERE number = ?", (number,)
                ).fetchone()
                sound = row is not None and row[-1] == _seal_blobs(row[:-1])
                yield number, row[KINDS.index(kind)] if sound else b""

    def store(self, number: int, facts: Mapping[str, Any], tables: Mapping[str, bytes]) -> None:
        """Keep a finished run."""
        named = [*ENVIRONMENT, *([EPISODES] if EPISODES in facts else [])]
        content = json.dumps({name: facts[name] for name in named}, sort_keys=True)
        blobs = [tables[kind] for kind in KINDS]
        with self._transaction() as connection:
            # A machine and its versions are kept once.
            connection.execute("INSERT OR IGNORE INTO environments VALUES (?)", (content,))
            found = "SELECT rowid FROM environments WHERE content = ?"
            (environment,) = connection.execute(found, (content,)).fetchone()
            figures = [_stored(facts[name]) for name in (*FIGURES, *FACTS)]
            self._put(number, ["finished", *figures, environment, None], content)
            connection.execute(
                f"INSERT OR REPLACE INTO waiting (number, {', '.join(KINDS)}, seal) "
                f"VALUES ({', '.join('?' * (len(KINDS) + 2))})",
                (number, *blobs, _seal_blobs(blobs)),
            )

    def store_error(self, number: int, error: str) -> None:
        """Keep the error of a run that failed."""
        text = error.encode("utf-8", "replace").decode()
        nothing = [None] * (len(FIGURES) + len(FACTS) + 1)
        with self._transaction() as connection:
            self._put(number, ["failed", *nothing, text], None)
            connection.execute("DELETE FROM waiting WHERE number = ?", (number,))

    def _put(self, number: int, values: list[Any], environment: str | None) -> None:
        run = self._runs[number]
        names = (run.id, run.agent, run.world, run.n_observations, run.replicate)
        entries = [number, *names, *values]
        self._connection.execute(
            f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * (len(entries) + 1))})",
            (*entries, _seal([*entries, environment])),
        )

    def forget(self, numbers: Iterable[int]) -> None:
        """Take runs out of the index, so that they are done again."""
        gone = [(number,) for number in numbers]
        with self._transaction() as connection:
            connection.executemany("DELETE FROM runs WHERE number = ?", gone)
            connection.executemany("DELETE FROM waiting WHERE number = ?", gone)

    def use(self, block: int, shards: Iterable[Shard], numbers: Iterable[int]) -> None:
        """Use these shards for a block of runs, whose tables then wait no longer."""
        with self._guard():
            self._connection.execute("PRAGMA synchronous = FULL")
        with self._transaction() as connection:
            connection.execute("DELETE FROM shards WHERE block = ?", (block,))
            connection.executemany("INSERT INTO shards VALUES (?, ?, ?, ?, 1)", shards)
            gone = [(number,) for number in numbers]
            connection.executemany("DELETE FROM waiting WHERE number = ?", gone)
        with self._guard():
            self._connection.execute("PRAGMA synchronous = NORMAL")

    @contextmanager
    def _transaction(self, end: str = "COMMIT") -> Iterator[sqlite3.Connection]:
        """See one moment of the index; with ``"COMMIT"``, change it completely or not at all."""
        with self._guard():
            self._connection.execute("BEGIN IMMEDIATE" if end == "COMMIT" else "BEGIN")
            try:
                yield self._connection
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute(end)

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


def _stored(value: Any) -> Any:
    """Turn a fact into a number that SQLite returns unchanged; what is not finite is None."""
    if value is None or not math.isfinite(value):
        return None
    return float(value) if isinstance(value, float) else int(value)


def _seal(entries: Sequence[Any]) -> str:
    text = json.dumps(entries, default=repr)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _seal_blobs(blobs: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for blob in blobs:
        digest.update(hashlib.sha256(blob if isinstance(blob, bytes) else b"").digest())
    return digest.hexdigest()
