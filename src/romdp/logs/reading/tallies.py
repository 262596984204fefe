"""Logs that somebody else has counted: a table of counts, made by SQL, Dask, Spark or Polars.

The query that makes one is in the guide to logs. A row says how often an observation and an action
were followed by the same next observation, or by the end of the episode:

============================  =====================================================================
``observation``, ``action``   What was seen and done; ``action`` may be missing.
``next_observation``          What the same episode showed next; null in its last row.
``terminated``                Whether the episode ended for good there; may be missing.
``n``                         How many rows of the log these are.
``starts``                    How many of them are the first of their episode.
``reward_sum``                The sum of their rewards, ``reward_squares`` that of the squares and
                              ``reward_min``, ``reward_max`` the extremes; all may be missing.
============================  =====================================================================
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import freeze
from romdp.data.tally import DENSE_LIMIT
from romdp.logs.reading.closing import LogCounts, count_cells
from romdp.logs.reading.names import Floats, Ints
from romdp.logs.reading.pieces import BATCH_ROWS, Wanted
from romdp.logs.reading.sources import open_source
from romdp.logs.reading.stretches import Table

_REWARDS = ("reward_sum", "reward_squares", "reward_min", "reward_max")


def read_counts(data: Any, seed: int = 0) -> LogCounts:
    """Read a table of counts.

    Parameters
    ----------
    data
        A Parquet, CSV or Arrow file, several of them, or a table in memory. Counts of parts of a
        log may stand below each other; they add up.
    seed
        A table of counts does not say which episode followed which. Where an episode terminated,
        the observation that the restart showed is drawn from all starts.
    """
    table = _Table(data)
    n, starts = table.whole("n", 1), table.whole("starts", 0)
    table.refuse(starts > n, "starts", "is larger than n: no row can begin two episodes")
    seen, after = table.names("observation"), table.names("next_observation", missing=True)
    names = sorted({x for x in (*seen, *after) if x is not None})
    done = table.names("action") if "action" in table.columns else [0] * len(seen)
    acts = sorted(set(done))
    place = {name: i for i, name in enumerate(names)}
    number = {name: i for i, name in enumerate(acts)}
    o = np.array([place[x] for x in seen], np.int64)
    a = np.array([number[x] for x in done], np.int64)
    o2 = np.array([-1 if x is None else place[x] for x in after], np.int64)
    over = np.zeros(len(o), np.bool_)
    if "terminated" in table.columns:
        over = table.whole("terminated", 0, 1).astype(np.bool_)
        table.refuse(
            over & (o2 >= 0),
            "terminated",
            "does not go with a next observation: an episode that ended has none",
        )
    sizes = (len(names), len(acts))
    first = np.bincount(o, starts, sizes[0]).astype(np.int64)
    reward_range, paid, squares = table.rewards(n)
    pairs = {"o": o, "a": a, "n": n, "paid": paid, "squares": squares}
    final = {name: values[over] for name, values in pairs.items()}
    restarts = _restarts(final, first, sizes, seed)
    moved = o2 >= 0
    moves = {"o": o[moved], "a": a[moved], "next": o2[moved], "n": n[moved]}
    moves = {name: np.concatenate([moves[name], restarts[name]]) for name in moves}
    counts = count_cells(sizes, pairs, moves)
    ends = count_cells(sizes, final, restarts) if over.any() else None
    return LogCounts(
        counts=counts.dense() if sizes[0] ** 2 * sizes[1] <= DENSE_LIMIT else counts,
        held_out=None,
        starts=freeze(first),
        observation_names=tuple(names),
        action_names=tuple(acts),
        reward_range=reward_range,
        n_rows=int(n.sum()),
        n_episodes=max(1, int(starts.sum())),
        ends=ends,
    )


def _restarts(final: Table, starts: Ints, sizes: tuple[int, int], seed: int) -> Table:
    """Draw where episodes began again after those that ended in these rows."""
    cells, where = np.unique(final["o"] * sizes[1] + final["a"], return_inverse=True)
    drawn = np.zeros((len(cells), sizes[0]), np.int64)
    if starts.sum():
        rng = np.random.default_rng(seed)
        total = np.bincount(where, final["n"], len(cells)).astype(np.int64)
        for row, n in zip(drawn, total, strict=True):
            row[:] = rng.multinomial(n, starts / starts.sum())
    rows, following = np.nonzero(drawn)
    left = cells[rows]
    return {
        "o": left // sizes[1],
        "a": left % sizes[1],
        "next": following,
        "n": drawn[rows, following],
    }


class _Table:
    """The columns of a table of counts, checked."""

    def __init__(self, data: Any) -> None:
        import pyarrow as pa

        pieces = open_source(data)
        self.label = pieces[0].label
        parts = []
        for piece in pieces:
            columns = tuple(piece.types)
            for name in ("observation", "next_observation", "n", "starts"):
                if name not in columns:
                    raise InvalidInputError(
                        f"{piece.label} has no column {name!r}, so it is no table of counts; the "
                        "guide to logs has the query that makes one"
                    )
            wanted = Wanted((), (), others=columns)
            parts += [pa.Table.from_batches([b]) for b in piece.batches(wanted, BATCH_ROWS)]
        if not any(part.num_rows for part in parts):
            raise InvalidInputError(f"{self.label} holds no counts; there is nothing to learn from")
        self._table = pa.concat_tables(parts, promote_options="default")
        self.columns = self._table.column_names

    def refuse(self, bad: NDArray[np.bool_], column: str, text: str) -> None:
        """Raise for the first row that is bad."""
        if bad.any():
            row = int(np.argmax(bad))
            value = self._table.column(column)[row].as_py()
            raise InvalidInputError(
                f"row {row + 1:,} of {self.label}, column {column!r}: {value!r} {text}"
            )

    def names(self, column: str, *, missing: bool = False) -> list[Any]:
        """Return a column of names."""
        values = self._table.column(column).to_pylist()
        if not missing:
            absent = np.array([value is None for value in values])
            self.refuse(absent, column, "cannot name anything; the value is missing")
        return values  # type: ignore[no-any-return]

    def numbers(self, column: str) -> Floats:
        """Return a column of finite numbers."""
        try:
            values = np.array(self._table.column(column).to_pylist(), np.float64)
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"column {column!r} of {self.label} must hold numbers"
            ) from None
        self.refuse(~np.isfinite(values), column, "is not a finite number")
        return values

    def whole(self, column: str, low: int, high: int = 2**53) -> Ints:
        """Return a column of whole numbers."""
        values = self.numbers(column)
        bad = (values != np.floor(values)) | (values < low) | (values > high)
        self.refuse(bad, column, f"is no whole number from {low} to {high}")
        return values.astype(np.int64)

    def rewards(self, n: Ints) -> tuple[tuple[float, float] | None, Floats, Floats]:
        """Return the range, and sums and squares of rewards scaled to [0, 1]."""
        present = [name for name in _REWARDS if name in self.columns]
        if not present:
            return None, np.zeros(len(n)), np.zeros(len(n))
        if len(present) < len(_REWARDS):
            lacks = next(name for name in _REWARDS if name not in present)
            raise InvalidInputError(f"{self.label} has no column {lacks!r} beside {present[0]!r}")
        sums, squares, least, most = (self.numbers(name) for name in _REWARDS)
        self.refuse(least > most, "reward_min", "is larger than reward_max")
        slack = 1e-9 * np.maximum(1.0, np.abs(sums))
        bad = (sums < n * least - slack) | (sums > n * most + slack)
        self.refuse(bad, "reward_sum", "does not lie between n times reward_min and reward_max")
        low, high = float(least.min()), float(most.max())
        span = high - low if high > low else 1.0
        unit = np.clip((sums - n * low) / span, 0.0, n)
        second = (squares - 2.0 * low * sums + n * low * low) / span**2
        return (low, high), unit, np.clip(second, unit**2 / n, n)
