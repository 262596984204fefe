"""Counts of a stretch of a log: Arrow reads the rows, DuckDB links and counts them.

Names become numbers while the rows are read, and an episode becomes a digest of its name. DuckDB
then knows which row follows which in every episode, whatever lies between them in the file; rows
that do not fit into memory wait on disk. A few episodes, chosen by their digests, are kept row by
row as held-out episodes. What is counted and what is held out depends on the log alone, not on
batches, files or workers.
"""

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError, WriteError
from romdp.core.validation import whole_number
from romdp.logs.reading.columns import Columns, Place, flags, numbers, ordered, propensities
from romdp.logs.reading.names import Ints, Names, coded, digests, mix
from romdp.logs.reading.pieces import BATCH_ROWS, Piece

BLOCK = 100
"""Without an episode column, this many rows in a row are held out or counted together."""

_MEMORY = "2GB"  # DuckDB may use so much before it spills to disk
_MOST_THREADS = 8
_SCRATCH = "romdp-log-"  # begins the names of folders for rows that do not fit into memory
# Sums of whole numbers do not depend on the order in which threads add them up.
_UNIT = 2.0**52  # parts of a reward from [0, 1]
_INVERSE_UNIT = 2.0**32  # parts of 1 / propensity

Table = dict[str, NDArray[Any]]
"""Columns by name."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a log is counted; the same for all of its stretches.

    Attributes
    ----------
    columns
        Which column is what.
    seed
        Decides which episodes are held out.
    holdout
        The share of episodes to hold out, at most.
    most_held
        The number of rows to hold out, at most.
    max_observations, max_actions
        How many different ones there may be.
    sort
        Whether rows are sorted by the order column first.
    threads
        How many threads count; None: one for each core.
    """

    columns: Columns
    seed: int = 0
    holdout: float = 0.2
    most_held: int = 2_000_000
    max_observations: int = 1_000_000
    max_actions: int = 10_000
    sort: bool = False
    threads: int | None = None

    @property
    def has_episodes(self) -> bool:
        """Whether the log is made of episodes, named or told apart by their ends."""
        return self.columns.episode is not None or self.columns.terminated is not None

    def observations(self) -> Names:
        """Return what numbers observations."""
        return Names(self.columns.observation, self.max_observations, "observation")

    def actions(self) -> Names:
        """Return what numbers actions."""
        return Names(self.columns.action or "", self.max_actions, "action")


class Places(NamedTuple):
    """Where the rows of a stretch lie: its files, and the first row of each."""

    labels: list[str]
    first_rows: list[int]

    def error(self, row: int, column: str | None, text: str) -> InvalidInputError:
        """Make the error for a row of the log."""
        file = bisect_right(self.first_rows, row) - 1
        return Place(self.labels[file], 0).error(row - self.first_rows[file], str(column), text)


@dataclass(frozen=True)
class Stretch:
    """What is kept of a stretch of a log.

    Attributes
    ----------
    places
        Where its rows lie.
    n_rows
        How many there are.
    observations, actions
        The names behind the numbers in the tables below.
    reward_range
        The smallest and the largest reward; zeros if there are no rewards.
    limit
        Episodes whose digest is below are held out.
    moves
        Counted transitions: ``o``, ``a``, ``next`` and how often, ``n``.
    pairs
        One row per ``o`` and ``a``: counted rows ``n``, sums of rewards scaled to [0, 1] and of
        their squares, ``paid`` and ``squares``; sums of 1 / propensity over all rows, ``inverse``.
    episodes
        One row per episode ``e``, in the order of first rows, ``began``: the ``first``
        observation, what was ``seen``, ``done`` and ``paid`` in the last row, whether the episode
        is ``over``, and the places of its first and last rows, ``since`` and ``until``.
    held
        The rows held out, one episode after the other: ``e``, ``o``, ``a``, ``r``, ``p``.
    """

    places: Places
    n_rows: int
    observations: list[Any]
    actions: list[Any]
    reward_range: tuple[float, float]
    limit: int
    moves: Table
    pairs: Table
    episodes: Table
    held: Table


def count_stretch(
    pieces: Sequence[Piece],
    settings: LogSettings,
    row: int = 0,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int], object] | None = None,
) -> Stretch | None:
    """Count pieces that follow each other; ``row`` rows come before. None if there are no rows."""
    columns = settings.columns
    reader = _Reader(settings, row)
    with _connection(settings.threads) as database:
        for piece in pieces:
            at = 0
            reader.places.labels.append(piece.label)
            reader.places.first_rows.append(reader.row)
            for batch in piece.batches(columns.wanted, batch_rows):
                if not batch.num_rows:
                    continue
                database.register("batch", reader.read(batch, Place(piece.label, at)))
                begin = "INSERT INTO rows" if reader.row > row else "CREATE TEMP TABLE rows AS"
                database.execute(f"{begin} SELECT * FROM batch")
                at += batch.num_rows
                reader.row += batch.num_rows
                if progress is not None:
                    progress(batch.num_rows)
        if reader.row == row:
            return None
        return _counted(database, reader, settings, reader.row - row)


class _Reader:
    """Checks batches and turns them into numbers: a table of rows for DuckDB."""

    def __init__(self, settings: LogSettings, row: int) -> None:
        self.columns = settings.columns
        self.row = row  # of the log, the next one to come
        self.places = Places([], [])
        self.has: tuple[str, ...] = ()  # the columns of the table
        self.observations, self.actions = settings.observations(), settings.actions()
        self.low, self.high = np.inf, -np.inf
        self.seed_word = mix(np.array([settings.seed]))[0]
        self._n_ended = 0

    def read(self, batch: Any, place: Place) -> Any:
        """Return the rows of a batch as an Arrow table of numbers."""
        import pyarrow as pa

        columns = self.columns
        seen = self.observations.encode(coded(batch, columns.observation, place))
        rows: Table = {"o": seen.astype(np.int32)}
        if columns.action is not None:
            done = self.actions.encode(coded(batch, columns.action, place))
            rows["a"] = done.astype(np.int16)
        if columns.reward is not None:
            rows["r"] = numbers(batch, columns.reward, place)
            self.low = min(self.low, float(rows["r"].min()))
            self.high = max(self.high, float(rows["r"].max()))
        if columns.order is not None:
            rows["t"] = ordered(batch, columns.order, place)
        if columns.terminated is not None:
            rows["over"] = flags(batch, columns.terminated, place)
        if columns.propensity is not None:
            rows["p"] = propensities(batch, columns.propensity, place)
        rows["e"] = self.rank(self._digests(batch, rows, place))
        self.has = tuple(rows)
        return pa.table(rows)

    def _digests(self, batch: Any, rows: Table, place: Place) -> Ints:
        """Return what the episode of every row is known by."""
        if self.columns.episode is not None:
            found = coded(batch, self.columns.episode, place)
            return found.replaced(digests(found))
        if self.columns.terminated is not None:  # each begins after the end of the last
            before = self._n_ended + np.cumsum(rows["over"]) - rows["over"]
            self._n_ended = int(before[-1]) + int(rows["over"][-1])
            return mix(before)
        return mix(np.arange(self.row, self.row + batch.num_rows) // BLOCK)

    def rank(self, digests: Ints) -> Ints:
        """Scramble digests by the seed; episodes of low rank are held out."""
        return mix(digests ^ self.seed_word)


@functools.cache
def _database(process: int) -> Any:
    """Open the database of a process: in memory, and on disk when that is full."""
    import duckdb

    folder = _scratch_folder()
    database = duckdb.connect(
        ":memory:", config={"memory_limit": _MEMORY, "temp_directory": folder}
    )
    atexit.register(database.close)
    return database


def _scratch_folder() -> str:
    """Make a folder that goes with this process, and remove those that killed processes left."""
    try:
        for left in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*"):
            _remove_if_left(left)
        folder = tempfile.mkdtemp(prefix=_SCRATCH)
    except OSError as error:
        raise WriteError(f"there is no room for temporary files: {error}") from error
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with contextlib.suppress(ImportError, OSError):  # where locks are not known, nobody removes it
        import fcntl

        # The lock ends with the process, in whatever way it ends.
        fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_SH)
    return folder


def _remove_if_left(folder: Path) -> None:
    """Remove the folder of a process that was killed; one in use, or somebody else's, stays."""
    with contextlib.suppress(ImportError, OSError):
        import fcntl

        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            if os.fstat(descriptor).st_uid == os.getuid():
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _connection(threads: int | None) -> Iterator[Any]:
    """Connect to the database; the tables of a connection are its own, and go when it closes."""
    import duckdb

    if threads is None:
        threads = min(_MOST_THREADS, os.cpu_count() or 1)
    with _database(os.getpid()).cursor() as connection:
        connection.execute(f"SET threads = {whole_number(threads, 'workers', 1)}")
        try:
            yield connection
        except (duckdb.IOException, duckdb.OutOfMemoryException) as error:
            raise WriteError(
                f"cannot keep the rows of the log in {tempfile.gettempdir()} ({error}); a large "
                "log needs about 40 bytes of disk per row"
            ) from error


# The rows and what every log has; columns that a log does not name hold the same everywhere.
_LOG = "CREATE OR REPLACE TEMP VIEW log AS SELECT *, {more} FROM {table}"
_DEFAULTS = {"a": "0::SMALLINT", "r": "0.0::DOUBLE", "t": "0", "over": "false", "p": "1.0::DOUBLE"}
# What comes before and after each row in its episode.
_LINKED = """
CREATE OR REPLACE TEMP VIEW linked AS
SELECT *, row_number() OVER w - 1 AS position, lead(o) OVER w AS next, lag(t) OVER w AS before,
    lag(over) OVER w AS late
FROM log WINDOW w AS ({partition} ORDER BY {order})
"""
# One long episode, sorted: its blocks are made of the sorted rows.
_SORTED = """
CREATE TEMP TABLE sorted AS SELECT position, o, a, r, t, over, p, rank AS e
FROM linked JOIN blocks ON position // {block} = number WHERE {right};
DROP TABLE rows
"""
# The check stands inside the expression, so that it sees last rows, too.
_MOVES = """
SELECT o, a, next, count(*) AS n
FROM (SELECT o, a, CASE WHEN {right} THEN coalesce(next, -1) END AS next
      FROM linked WHERE e >= $limit)
WHERE next >= 0 GROUP BY ALL
"""
_PAIRS = """
SELECT o, a, count(*) FILTER (e >= $limit) AS n,
    coalesce(sum(round(x * $unit)::BIGINT) FILTER (e >= $limit), 0) AS paid,
    coalesce(sum(round(x * x * $unit)::BIGINT) FILTER (e >= $limit), 0) AS squares, {inverse}
FROM (SELECT *, (r - $low) / $span AS x FROM log) GROUP BY ALL
"""
_INVERSE = f"sum(round(least(1 / p, 1e18) * {_INVERSE_UNIT})::HUGEINT) AS inverse"
_EPISODES = """
SELECT e, min(row) AS began, arg_min(o, {at}) AS first, arg_max(o, {at}) AS seen,
    arg_max(a, {at}) AS done, arg_max(r, {at}) AS paid, bool_or(over) AS over, min(t) AS since,
    max(t) AS until
FROM log GROUP BY e ORDER BY began
"""
_HELD = """
SELECT e, o, a, r, p FROM linked WHERE e < $limit AND {right} ORDER BY e, {order}
"""


def _counted(database: Any, reader: _Reader, settings: LogSettings, n_rows: int) -> Stretch:
    """Ask DuckDB for everything that is kept of the rows."""
    import duckdb
    import pyarrow as pa

    columns = settings.columns
    wrong = ["late"] if columns.episode is not None and columns.terminated is not None else []
    if columns.order is not None:
        wrong.append("t = before" if settings.sort else "t <= before")
    right = f"CASE WHEN {' OR '.join(wrong) or 'false'} THEN error('wrong') ELSE true END"
    order = "t, row" if settings.sort else "row"
    first_row = reader.places.first_rows[0]
    more = [f"rowid + {first_row} AS row"]
    more += [f"{value} AS {name}" for name, value in _DEFAULTS.items() if name not in reader.has]
    database.execute(_LOG.format(more=", ".join(more), table="rows"))
    try:
        if settings.sort and not settings.has_episodes:
            database.execute(_LINKED.format(partition="", order=order))
            blocks = np.arange(n_rows // BLOCK + 1)
            ranks = {"number": blocks, "rank": reader.rank(mix(blocks))}
            database.register("blocks", pa.table(ranks))
            database.execute(_SORTED.format(block=BLOCK, right=right))
            database.execute(_LOG.format(more="position AS row", table="sorted"))
            order = "row"
        database.execute(_LINKED.format(partition="PARTITION BY e", order=order))
        limit = _limit(database, settings)
        query = _HELD.format(right=right, order=order)
        held = database.execute(query, {"limit": limit}).fetchnumpy()
        moves = database.execute(_MOVES.format(right=right), {"limit": limit}).fetchnumpy()
    except duckdb.InvalidInputException as error:
        raise _first_wrong(database, reader.places, columns, wrong) from error
    reward_range = (0.0, 0.0) if columns.reward is None else (reader.low, reader.high)
    low, span = scale(reward_range)
    inverse = "0 AS inverse" if columns.propensity is None else _INVERSE
    constants = {"low": low, "span": span, "unit": _UNIT, "limit": limit}
    pairs = database.execute(_PAIRS.format(inverse=inverse), constants).fetchnumpy()
    for name, unit in (("paid", _UNIT), ("squares", _UNIT), ("inverse", _INVERSE_UNIT)):
        pairs[name] = pairs[name].astype(np.float64) / unit
    return Stretch(
        reader.places,
        n_rows,
        reader.observations.names,
        reader.actions.names or [0],
        reward_range,
        limit,
        moves,
        pairs,
        database.execute(_EPISODES.format(at=order.partition(",")[0])).fetchnumpy(),
        held,
    )


def _limit(database: Any, settings: LogSettings) -> int:
    """Hold fewer episodes out, each time half of them, until their rows are few enough."""
    limit = int(settings.holdout * 2.0**63)
    while limit:
        (found,) = database.execute("SELECT count(*) FROM log WHERE e < ?", [limit]).fetchone()
        if found <= settings.most_held:
            break
        limit //= 2
    return limit


def _first_wrong(
    database: Any, places: Places, columns: Columns, wrong: list[str]
) -> InvalidInputError:
    """Find the first row that is out of order, or that comes after the end of its episode."""
    query = "SELECT row, t = before, t < before FROM linked WHERE {} ORDER BY row LIMIT 1"
    row, same, less = database.execute(query.format(" OR ".join(wrong))).fetchone()
    if columns.order is not None and (same or less):
        return places.error(row, columns.order, disorder(same))
    return places.error(row, columns.terminated, AFTER_THE_END)


AFTER_THE_END = "this episode terminated in an earlier row; give what follows an episode of its own"
"""What is wrong with a row that comes after the end of its episode."""


def disorder(same: bool) -> str:
    """Say in words that a row is out of order, or has the same place as another."""
    if same:
        return (
            "the same value came before in this episode: a duplicate row? Remove duplicates, or "
            "name a column that tells the rows apart"
        )
    return (
        "a larger value came before in this episode, so the rows are not in order; sort them, or "
        "pass sort=True (on the command line --sort)"
    )


def scale(reward_range: tuple[float, float]) -> tuple[float, float]:
    """Return what to subtract from rewards and what to divide them by."""
    low, high = reward_range
    if not np.isfinite(high - low) or high - low > 1e150:
        raise InvalidInputError(
            f"the rewards go from {low:g} to {high:g}, too far for floats; rescale them"
        )
    if 0 < high - low < 1e-150:
        raise InvalidInputError(
            f"the rewards differ by {high - low:g} at most, too little for floats to square; "
            "rescale them"
        )
    return low, high - low if high > low else 1.0
