"""Logs that somebody else has counted: a table of counts, made by SQL, Dask, Spark or Polars.

The query that makes one is in the guide to logs. A row says how often an observation and an action
were followed by the same next observation, or by the end of the episode:

============================  =====================================================================
``observation``, ``action``   What was seen and done; ``action`` may be missing.
``next_observation``          What the same episode showed next; null in its last row.
``terminated``                Whether the episode came to its end there; may be missing.
``n``                         How many rows of the log these are.
``starts``                    How many of them are the first of their episode.
``reward_sum``                The sum of their rewards, ``reward_squares`` that of the squares and
                              ``reward_min``, ``reward_max`` the extremes; all may be missing.
============================  =====================================================================
"""

from typing import Any

import numpy as np

from romdp.core.errors import InvalidInputError
from romdp.core.validation import LARGEST_REWARD
from romdp.data.trajectory import END
from romdp.logs.reading.closing import LogCounts, check_ends, count_cells
from romdp.logs.reading.columns import Place, flags, names, numbers
from romdp.logs.reading.names import Floats, Ints, numbered
from romdp.logs.reading.sources import BATCH_ROWS, open_source
from romdp.logs.reading.stretches import scale

_NAMES = ("observation", "next_observation", "action", "terminated")
_REWARDS = ("reward_sum", "reward_squares", "reward_min", "reward_max")


def read_counts(data: Any, ends: str = "truncated") -> LogCounts:
    """Read a table of counts.

    Parameters
    ----------
    data
        A file, several of them, or a table in memory. Counts of parts of a log may stand below
        each other; they add up.
    ends
        As for `romdp.fit`, where there is no column ``terminated``.
    """
    batch, place, as_text = _read(data)
    columns = batch.schema.names
    check_ends(ends, "terminated" if "terminated" in columns else None)
    n, starts = _whole(batch, "n", place, 1), _whole(batch, "starts", place, 0)
    text = "{} is larger than n: no row can begin two episodes"
    place.refuse(starts > n, "starts", starts, text)
    seen, after = (
        names(batch, [name], place, missing)
        for name, missing in (("observation", "error"), ("next_observation", "drop"))
    )
    known, (o, o2) = numbered([seen.names(), after.names()], as_text)
    o, o2 = seen.replaced(o), after.replaced(o2)
    acts, a = [0], np.zeros(len(o), np.int64)
    if "action" in columns:
        done = names(batch, ["action"], place)
        acts, (a,) = numbered([done.names()], as_text)
        a = done.replaced(a)
    over = (o2 < 0) & (ends != "truncated")
    if "terminated" in columns:
        over = flags(batch, "terminated", place)
        text = "{} does not go with a next observation: an episode that ended has none"
        place.refuse(over & (o2 >= 0), "terminated", over, text)
    reward_range, paid, squares = _rewards(batch, place, n)
    cells, sizes = o * len(acts) + a, (len(known), len(acts))
    table = np.zeros((sizes[0] * sizes[1], 3))
    np.add.at(table, cells, np.stack([n, paid, squares], axis=1))
    moves = np.stack([cells, np.where(over, END, o2), n])
    return LogCounts(
        count_cells(sizes, table, moves, np.bincount(o, starts, sizes[0]).astype(np.int64)),
        None,
        tuple(known),
        tuple(acts),
        reward_range,
        int(n.sum()),
        max(1, int(starts.sum())),
    )


def _read(data: Any) -> tuple[Any, Place, bool]:
    """Return the whole table as a batch, where it lies, and whether names were text."""
    import pyarrow as pa

    pieces, parts = open_source(data), []
    for piece in pieces:
        types = piece.types_read(_NAMES, ("n", "starts", *_REWARDS))
        for name in ("observation", "next_observation", "n", "starts"):
            if types.get(name) is None:
                raise InvalidInputError(
                    f"{piece.label} has no column {name!r}, so it is no table of counts; the "
                    "guide to logs has the query that makes one"
                )
        present = [name for name in _REWARDS if name in types]
        for name in _REWARDS if present else ():
            if name not in types:
                raise InvalidInputError(
                    f"{piece.label} has no column {name!r} beside {present[0]!r}"
                )
        wanted = {
            name: types[name] for name in (*_NAMES, "n", "starts", *_REWARDS) if name in types
        }
        parts += [pa.Table.from_batches([part]) for part in piece.batches(wanted, BATCH_ROWS)]
    if not any(part.num_rows for part in parts):
        raise InvalidInputError(
            f"{pieces[0].label} holds no counts; there is nothing to learn from"
        )
    table = pa.concat_tables(parts, promote_options="permissive").combine_chunks()
    place = Place(pieces[0].label, 0)
    return table.to_batches()[0], place, all(piece.is_csv for piece in pieces)


def _whole(batch: Any, column: str, place: Place, low: int) -> Ints:
    """Return a column of whole numbers that floats can hold."""
    values = numbers(batch, column, place)
    bad = (values != np.floor(values)) | (values < low) | (values > 2**53)
    place.refuse(bad, column, values, f"{{}} is no whole number from {low} to {2**53}")
    text = f"{{}} is too many: the rows up to here add up to more than {2**53}"
    place.refuse(np.cumsum(values) > 2**53, column, values, text)
    return values.astype(np.int64)


def _rewards(
    batch: Any, place: Place, n: Ints
) -> tuple[tuple[float, float] | None, Floats, Floats]:
    """Return the range, and sums and squares of rewards scaled to [0, 1]."""
    if _REWARDS[0] not in batch.schema.names:
        return None, np.zeros(len(n)), np.zeros(len(n))
    sums, squares, least, most = (numbers(batch, name, place) for name in _REWARDS)
    place.refuse(least > most, "reward_min", least, "{} is larger than reward_max")
    slack = 1e-9 * np.maximum(1.0, np.abs(sums))
    bad = (sums < n * least - slack) | (sums > n * most + slack)
    place.refuse(bad, "reward_sum", sums, "{} does not lie between n times min and n times max")
    largest = np.maximum(np.abs(least), np.abs(most))
    text = f"{{:g}} lies too far from zero; rewards lie within {LARGEST_REWARD:g}"
    place.refuse(largest > LARGEST_REWARD, "reward_max", most, text)
    # At least that of n equal rewards, at most that of rewards which are all extreme.
    lowest, highest = sums**2 / n, (least + most) * sums - n * least * most
    rounding = 1e-9 * n * largest**2
    bad = (squares < lowest - rounding) | (squares > highest + rounding)
    place.refuse(bad, "reward_squares", squares, "{} is no sum of the squares of such rewards")
    reward_range = float(least.min()), float(most.max())
    low, span = scale(reward_range)
    unit = np.clip((sums - n * low) / span, 0.0, n)
    second = (squares - 2.0 * low * sums + n * low * low) / span**2
    return reward_range, unit, np.clip(second, unit**2 / n, unit)
