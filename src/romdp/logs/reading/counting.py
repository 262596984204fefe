"""Count a log, here or on a cluster."""

from collections.abc import Callable, Sequence
from itertools import accumulate, groupby
from typing import Any

from romdp.core.errors import InvalidInputError
from romdp.core.validation import choice, real_number, whole_number
from romdp.logs.reading.closing import ENDS, LogCounts, finish
from romdp.logs.reading.columns import Columns, Place, kind_of
from romdp.logs.reading.joining import join
from romdp.logs.reading.pieces import BATCH_ROWS, CsvPiece, Piece, TablePiece
from romdp.logs.reading.sources import open_source
from romdp.logs.reading.stretches import LogSettings, Stretch, count_stretch

MOST_OBSERVATIONS, MOST_ACTIONS = 2**24 - 1, 2**15 - 1
"""So many fit into the columns of numbers that are counted."""

STRETCHES_PER_WORKER = 4
"""More than one, so that a slow worker of a cluster does not keep the others waiting."""

_ALL = 1.0 - 2.0**-53  # a share of episodes that is all of them


def count_logs(
    data: Any,
    columns: Columns,
    *,
    holdout: float = 0.2,
    most_held: int = 2_000_000,
    ends: str = "truncated",
    sort: bool = False,
    seed: int = 0,
    workers: int | None = None,
    batch_rows: int = BATCH_ROWS,
    max_observations: int = 1_000_000,
    max_actions: int = 10_000,
    progress: Callable[[int], object] | None = None,
    client: Any = None,
) -> LogCounts:
    """Count a log in one pass over its rows.

    Memory is bounded by the numbers of distinct transitions, of episodes and of rows held out;
    other rows spill to temporary files if they are many.

    Parameters
    ----------
    data
        See `romdp.logs.reading.sources.open_source`.
    columns
        Which column is what.
    holdout
        The share of episodes to hold out. Without an episode column, of stretches of 100 rows.
    most_held
        The number of rows to hold out, at most.
    ends
        What the last row of an episode leads to: ``"truncated"``, nothing is known of it;
        ``"restart"``, the first observation of the episode that began next. A column
        ``terminated`` tells it of each episode.
    sort
        Sort each episode by the order column first.
    seed
        Decides which episodes are held out.
    workers
        How many threads count; by default as many as there are cores, at most eight.
    batch_rows
        Rows to look at together. It changes the speed and the memory, not the result.
    max_observations, max_actions
        More different ones are refused.
    progress
        Called with the number of rows of every batch that was counted; not by a cluster.
    client
        A ``distributed.Client``: count on its cluster, whose workers must see the files.

    Examples
    --------
    >>> table = {"page": ["a", "b", "a"], "offer": [0, 1, 0], "paid": [1.5, 3.0, 1.5]}
    >>> log = count_logs(table, Columns("page", "offer", "paid"), holdout=0)
    >>> log.observation_names, log.reward_range
    (('a', 'b'), (1.5, 3.0))
    >>> log.counts.transitions[:, :, 0]
    array([[0, 0],
           [0, 1]])
    """
    choice(ends, "ends", ENDS)
    _check_sort(sort, columns)
    if ends != "truncated" and columns.terminated is not None:
        raise InvalidInputError(
            f"column {columns.terminated!r} tells how episodes end; leave ends out"
        )
    settings = LogSettings(
        columns,
        whole_number(seed, "seed", 0, 2**62),
        real_number(holdout, "holdout", 0.0, 1.0, open_high=True),
        whole_number(most_held, "most_held", 0),
        whole_number(max_observations, "max_observations", 1, MOST_OBSERVATIONS),
        whole_number(max_actions, "max_actions", 1, MOST_ACTIONS),
        sort,
        None if workers is None else whole_number(workers, "workers", 1),
    )
    batch_rows = whole_number(batch_rows, "batch_rows", 1)
    pieces = open_source(data)
    check_columns(pieces, columns)
    if client is not None and not sort:
        stretches = _count_on_cluster(client, pieces, settings, batch_rows)
    else:
        stretches = [count_stretch(pieces, settings, 0, batch_rows, progress)]
    return _finished(stretches, pieces, settings, ends)


def read_rows(
    data: Any, columns: Columns, workers: int | None = None, *, sort: bool = False
) -> LogCounts:
    """Keep all rows of a log, as held-out episodes."""
    _check_sort(sort, columns)
    settings = LogSettings(columns, holdout=_ALL, most_held=2**62, sort=sort, threads=workers)
    pieces = open_source(data)
    check_columns(pieces, columns)
    return _finished([count_stretch(pieces, settings)], pieces, settings)


def _check_sort(sort: bool, columns: Columns) -> None:
    """Refuse to sort where nothing says by what, or which rows belong together."""
    if sort and columns.order is None:
        raise InvalidInputError("sort=True needs an order column to sort by; name it as order")
    if sort and columns.terminated is not None and columns.episode is None:
        raise InvalidInputError(
            "sort=True needs an episode column: without one, episodes are told apart by the rows "
            "that end them, which must be in order already"
        )


def _finished(
    stretches: Sequence[Stretch | None],
    pieces: Sequence[Piece],
    settings: LogSettings,
    ends: str = "truncated",
) -> LogCounts:
    found = [stretch for stretch in stretches if stretch is not None]
    if not found:
        raise InvalidInputError(f"{pieces[0].label} holds no rows; there is nothing to learn from")
    all_csv = all(isinstance(piece, CsvPiece) for piece in pieces)
    return finish(join(found, settings), settings, ends, as_numbers=all_csv)


def check_columns(pieces: Sequence[Piece], columns: Columns) -> None:
    """Check that every file has the columns, and that they are of one kind in all of them."""
    first: tuple[str, dict[str, str]] | None = None
    for label, same in groupby(pieces, lambda piece: piece.label):
        kinds = columns.check(_readable(next(iter(same)), columns), label)
        if first is None:
            first = (label, kinds)
        for column, kind in kinds.items():
            if first[1][column] == "none":
                first[1][column] = kind  # a file without rows says nothing about it
            if kind not in ("none", first[1][column]):
                raise InvalidInputError(
                    f"column {column!r} holds {first[1][column]} values in {first[0]} and {kind} "
                    f"values in {label}; make it one type in all files"
                )


def _readable(piece: Piece, columns: Columns) -> dict[str, Any]:
    """Types as they will be read: in CSV files a name is text and a reward a number."""
    types = dict(piece.types)
    if isinstance(piece, CsvPiece):
        import pyarrow as pa

        for column in columns.wanted.names:
            if types.get(column) is not None:
                types[column] = pa.string()
        for column in columns.wanted.numbers:
            if types.get(column) is not None:
                types[column] = pa.float64()
        order = columns.order
        if order is not None and types.get(order) is not None and kind_of(types[order]) == "text":
            row, value = piece.odd_one(order)
            raise Place(piece.label, 0).error(
                row,
                order,
                f"{value!r} is no order in time: write whole numbers, or times such as "
                "2024-01-31 18:05:00, in all rows",
            )
    return types


def _count_on_cluster(
    client: Any, pieces: Sequence[Piece], settings: LogSettings, batch_rows: int
) -> list[Stretch | None]:
    """Count stretches of a log on a Dask cluster; a worker that dies is replaced by others."""
    if any(isinstance(piece, TablePiece) for piece in pieces):
        raise InvalidInputError("a cluster counts files; write the table to a folder first")
    columns = settings.columns
    n_stretches = STRETCHES_PER_WORKER * max(1, len(client.scheduler_info()["workers"]))
    if columns.episode is None and columns.terminated is not None:
        n_stretches = 1  # where an episode begins is known only by the rows before
    found = [
        client.submit(count_stretch, part, settings, row, batch_rows, pure=False)
        for part, row in share_out(pieces, n_stretches, columns.episode is not None)
    ]
    return [future.result() for future in found]


def share_out(
    pieces: Sequence[Piece], n_stretches: int, may_guess: bool
) -> list[tuple[list[Piece], int]]:
    """Split the pieces into stretches of about the same weight, each with its first row.

    Where the rows before a piece are not known and matter (``may_guess`` is false), there is
    only one stretch.
    """
    if not may_guess and any(piece.n_rows is None for piece in pieces):
        n_stretches = 1
    rows = [0, *accumulate(piece.n_rows or 0 for piece in pieces)]
    ends = list(accumulate(piece.weight for piece in pieces))
    middle = [
        (end - piece.weight / 2) / max(ends[-1], 1) for end, piece in zip(ends, pieces, strict=True)
    ]
    owners = [min(int(m * n_stretches), n_stretches - 1) for m in middle]
    stretches = []
    for _, group in groupby(range(len(pieces)), lambda i: owners[i]):
        members = list(group)
        stretches.append(([pieces[i] for i in members], rows[members[0]]))
    return stretches
