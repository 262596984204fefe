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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from romdp.core.errors import StorageError, WriteError
from romdp.core.storage import write_atomic
from romdp.experiments.specification import RunSpec
from romdp.experiments.tables import KINDS

FILE = "runs.sqlite"
"""The name of the file in a run directory."""

FIGURES = ("regret", "pseudo_regret", "slope", "n_clusters")
FACTS = ("exact", "refines", "steps_to_exact", "gain", "seconds", "resumed")
ENVIRONMENT = ("machine", "versions")

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
    figures BLOB, epochs BLOB, groups BLOB, seal TEXT);
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


@dataclass(frozen=True)
class Shard:
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
        The numbers of runs whose row is damaged.
    waiting
        The numbers of runs whose tables are not in a shard yet.
    shards
        The shards in use.
    """

    rows: dict[int, Row]
    damaged: tuple[int, ...]
    waiting: frozenset[int]
    shards: tuple[Shard, ...]


class Index:
    """An open index.

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
        with self._guard():
            self._connection = _connect(path, writing)
            self._connection.text_factory = lambda text: text.decode("utf-8", "replace")
            if writing:
                # A commit then needs no sync: a kill loses nothing, a power failure perhaps the
                # last few runs, which are repeated.
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute("PRAGMA synchronous = NORMAL")
        self._environments: dict[str, int] = {}

    @staticmethod
    def create(path: Path, about: Mapping[str, str]) -> None:
        """Write an index that holds no run, whole or not at all.

        Parameters
        ----------
        path
            Where to.
        about
            Facts about the directory.
        """
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.executescript(_TABLES)
            connection.executemany(
                "INSERT INTO about VALUES (?, ?)", [("format", _FORMAT), *about.items()]
            )
            content = connection.serialize()
        write_atomic(path, lambda file: file.write(content))

    def close(self) -> None:
        """Close the file; the writer leaves one file and no journal."""
        if self._writing:
            with suppress(sqlite3.Error):  # somebody may be reading
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                if self._connection.execute("PRAGMA freelist_count").fetchone()[0] > 256:
                    self._connection.execute("VACUUM")
                self._connection.execute("PRAGMA journal_mode = DELETE")
        self._connection.close()

    def __enter__(self) -> "Index":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def about(self) -> dict[str, str]:
        """Return the facts about the directory, after a look at the file as a whole."""
        with self._guard():
            if self._connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("its pages do not fit together")
            found = dict(self._connection.execute("SELECT name, value FROM about").fetchall())
        if found.get("format") != _FORMAT:
            raise StorageError(
                f"{self._path} has the format {found.get('format')!r}; this romdp reads {_FORMAT!r}"
            )
        return found

    def contents(self) -> Contents:
        """Read everything but the tables that wait."""
        columns = ", ".join(_COLUMNS)
        rows: dict[int, Row] = {}
        damaged = []
        with self._guard(), self._snapshot() as connection:
            environments = dict(
                connection.execute("SELECT rowid, content FROM environments").fetchall()
            )
            for values in connection.execute(f"SELECT {columns}, seal FROM runs"):
                *entries, seal = values
                row = dict(zip(_COLUMNS, entries, strict=True))
                environment = environments.get(row["environment"])
                if seal == _seal(entries, environment) and self._is_ours(row):
                    rows[row["number"]] = self._row(row, environment)
                elif isinstance(row["number"], int) and 0 <= row["number"] < len(self._runs):
                    damaged.append(row["number"])
            waiting = connection.execute("SELECT number FROM waiting").fetchall()
            shards = connection.execute(
                "SELECT file, block, kind, sha256 FROM shards WHERE used ORDER BY block, kind"
            ).fetchall()
        return Contents(
            dict(sorted(rows.items())),
            tuple(damaged),
            frozenset(number for (number,) in waiting),
            tuple(Shard(str(f), int(b), str(k), str(s)) for f, b, k, s in shards),
        )

    def _is_ours(self, row: Mapping[str, Any]) -> bool:
        number = row["number"]
        if not 0 <= number < len(self._runs):
            return False
        run = self._runs[number]
        named = (row["agent"], row["world"], row["n_observations"], row["seed"])
        return named == (run.agent, run.world, run.n_observations, run.replicate)

    def _row(self, row: Mapping[str, Any], environment: str | None) -> Row:
        run = self._runs[row["number"]]
        if row["status"] == "failed":
            return Row(row["number"], run, {}, row["error"] or "no message")
        facts = {"id": row["id"], **{name: row[name] for name in (*FIGURES, *FACTS)}}
        for name in ("exact", "refines", "resumed"):
            facts[name] = bool(facts[name])
        return Row(row["number"], run, facts | json.loads(environment or "{}"))

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
        with self._transaction():
            self._put(number, "finished", facts)
            blobs = [tables[kind] for kind in KINDS]
            self._connection.execute(
                "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?, ?)",
                (number, *blobs, _seal_blobs(blobs)),
            )

    def store_error(self, number: int, error: str) -> None:
        """Keep the error of a run that failed."""
        text = error.encode("utf-8", "replace").decode()
        with self._transaction():
            self._put(number, "failed", {}, text)
            self._connection.execute("DELETE FROM waiting WHERE number = ?", (number,))

    def _put(
        self, number: int, status: str, facts: Mapping[str, Any], error: str | None = None
    ) -> None:
        run = self._runs[number]
        content, environment = None, None
        if status == "finished":
            content = json.dumps({name: facts[name] for name in ENVIRONMENT}, sort_keys=True)
            environment = self._environment(content)
        figures = [_plain(facts.get(name)) for name in (*FIGURES, *FACTS)]
        names = (run.id, run.agent, run.world, run.n_observations, run.replicate, status)
        entries = [number, *names, *figures, environment, error]
        self._connection.execute(
            f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * (len(entries) + 1))})",
            (*entries, _seal(entries, content)),
        )

    def _environment(self, content: str) -> int:
        """Return the number of a machine and its versions, which are kept once."""
        if content not in self._environments:
            self._connection.execute("INSERT OR IGNORE INTO environments VALUES (?)", (content,))
            found = self._connection.execute(
                "SELECT rowid FROM environments WHERE content = ?", (content,)
            )
            self._environments[content] = found.fetchone()[0]
        return self._environments[content]

    def forget(self, numbers: Iterable[int]) -> None:
        """Take runs out of the index, so that they are done again."""
        with self._transaction() as connection:
            for table in ("runs", "waiting"):
                connection.executemany(
                    f"DELETE FROM {table} WHERE number = ?", [(number,) for number in numbers]
                )

    def announce(self, shards: Iterable[Shard]) -> None:
        """Note shards before their files are written, so that none can be left unknown."""
        with self._transaction() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO shards VALUES (?, ?, ?, ?, 0)", _entries(shards)
            )

    def use(self, block: int, shards: Iterable[Shard], numbers: Iterable[int]) -> None:
        """Use these shards for a block of runs, whose tables then wait no longer."""
        with self._guard():
            self._connection.execute("PRAGMA synchronous = FULL")
        with self._transaction() as connection:
            connection.execute("UPDATE shards SET used = 0 WHERE block = ?", (block,))
            connection.executemany(
                "INSERT OR REPLACE INTO shards VALUES (?, ?, ?, ?, 1)", _entries(shards)
            )
            connection.executemany(
                "DELETE FROM waiting WHERE number = ?", [(number,) for number in numbers]
            )
        with self._guard():
            self._connection.execute("PRAGMA synchronous = NORMAL")

    def unused_files(self) -> list[str]:
        """Return the names of shards that are announced and not, or no longer, in use."""
        with self._guard():
            found = self._connection.execute("SELECT file FROM shards WHERE NOT used").fetchall()
        return [str(file) for (file,) in found]

    def drop(self, files: Iterable[str]) -> None:
        """Take shards out of the index whose files are gone."""
        with self._transaction() as connection:
            connection.executemany(
                "DELETE FROM shards WHERE file = ? AND NOT used", [(file,) for file in files]
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._guard():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        self._connection.execute("BEGIN")
        try:
            yield self._connection
        finally:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")

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


def _entries(shards: Iterable[Shard]) -> list[tuple[str, int, str, str]]:
    return [(shard.file, shard.block, shard.kind, shard.sha256) for shard in shards]


def _connect(path: Path, writing: bool) -> sqlite3.Connection:
    """Open the file; where nothing may be written, as one that never changes."""
    writable = os.access(path.parent, os.W_OK) and (not path.exists() or os.access(path, os.W_OK))
    mode = "mode=rwc" if writing else "mode=rw" if writable else "immutable=1"
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=30.0
    )


def _plain(value: Any) -> Any:
    """Turn a fact into a number that SQLite returns unchanged; what is not finite is None."""
    if value is None or not math.isfinite(value):
        return None
    return float(value) if isinstance(value, float) else int(value)


def _seal(entries: Sequence[Any], environment: str | None) -> str:
    text = json.dumps([*entries, environment], default=repr)
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _seal_blobs(blobs: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for blob in blobs:
        digest.update(hashlib.sha256(blob if isinstance(blob, bytes) else b"").digest())
    return digest.hexdigest()
