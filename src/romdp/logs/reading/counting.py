"""Count a log: stretches of it in parallel, joined in their order."""

import copy
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import accumulate, groupby
from typing import Any

from romdp.core.errors import InvalidInputError
from romdp.core.validation import choice, real_number, whole_number
from romdp.logs.reading.closing import ENDS, LogCounts, finish
from romdp.logs.reading.columns import Columns, Place, kind_of
from romdp.logs.reading.episodes import ACTION_BITS, OBSERVATION_BITS
from romdp.logs.reading.partial import LogSettings, Partial
from romdp.logs.reading.pieces import BATCH_ROWS, CsvPiece, ParquetPiece, Piece, TablePiece
from romdp.logs.reading.sorting import Sorter
from romdp.logs.reading.sources import open_source

_Job = tuple[list[Piece], LogSettings, int, int, Callable[[int], object] | None]

_SMALL = 500_000  # rows below which a second worker would only cost
_MOST_WORKERS = 8
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

    Memory is bounded by the numbers of distinct transitions, of episodes and of rows held out.

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
        Sort each episode by the order column first; the rows pass through temporary files.
    seed
        Decides which episodes are held out.
    workers
        How many threads read at a time; by default as many as there are cores.
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
    if sort and columns.order is None:
        raise InvalidInputError("sort=True needs an order column to sort by; name it as order")
    if sort and columns.terminated is not None and columns.episode is None:
        raise InvalidInputError(
            "sort=True needs an episode column: without one, episodes are told apart by the rows "
            "that end them, which must be in order already"
        )
    if ends != "truncated" and columns.terminated is not None:
        raise InvalidInputError(
            f"column {columns.terminated!r} tells how episodes end; leave ends out"
        )
    settings = LogSettings(
        columns,
        whole_number(seed, "seed", 0, 2**62),
        real_number(holdout, "holdout", 0.0, 1.0, open_high=True),
        whole_number(most_held, "most_held", 0),
        whole_number(max_observations, "max_observations", 1, 2**OBSERVATION_BITS - 1),
        whole_number(max_actions, "max_actions", 1, 2**ACTION_BITS - 1),
    )
    batch_rows = whole_number(batch_rows, "batch_rows", 1)
    pieces = open_source(data)
    check_columns(pieces, columns)
    if sort:
        whole = count_sorted(pieces, settings, batch_rows, progress)
    elif client is not None:
        n_stretches = STRETCHES_PER_WORKER * max(1, len(client.scheduler_info()["workers"]))
        if columns.episode is None and columns.terminated is not None:
            n_stretches = 1  # where an episode begins is known only by the rows before
        stretches = share_out(pieces, n_stretches, columns.episode is not None)
        whole = count_on_cluster(client, stretches, settings, batch_rows)
    else:
        whole = _counted(pieces, settings, workers, batch_rows, progress)
    return finish(whole, ends, as_numbers=_all_csv(pieces))


def read_rows(data: Any, columns: Columns, workers: int | None = None) -> LogCounts:
    """Keep all rows of a log, as held-out episodes."""
    settings = LogSettings(columns, holdout=_ALL, most_held=2**62)
    pieces = open_source(data)
    check_columns(pieces, columns)
    return finish(_counted(pieces, settings, workers), as_numbers=_all_csv(pieces))


def _counted(
    pieces: list[Piece],
    settings: LogSettings,
    workers: int | None,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int], object] | None = None,
) -> Partial:
    """Count the stretches in parallel and join them."""
    columns = settings.columns
    n_workers = _n_workers(workers)
    if columns.episode is None and columns.terminated is not None:
        n_workers = 1  # where an episode begins is known only by the rows before
    stretches = share_out(pieces, n_workers, columns.episode is not None)
    first, *rest = _in_parallel(
        [(part, settings, row, batch_rows, progress) for part, row in stretches]
    )
    for part in rest:
        first.join(part)
    return first


def _all_csv(pieces: Sequence[Piece]) -> bool:
    return all(isinstance(piece, CsvPiece) for piece in pieces)


def _in_parallel(jobs: list[_Job]) -> list[Partial]:
    """Count stretches at the same time; an error in one ends the others."""
    if len(jobs) == 1:
        return [count_stretch(*jobs[0])]
    stop = threading.Event()

    def work(job: _Job) -> Partial:
        pieces, settings, row, batch_rows, progress = job

        def tell(n_rows: int) -> None:
            if stop.is_set():
                raise _StoppedError
            if progress is not None:
                progress(n_rows)

        try:
            return count_stretch(pieces, settings, row, batch_rows, tell)
        except BaseException:
            stop.set()  # nobody needs what the others would find
            raise

    with ThreadPoolExecutor(len(jobs)) as pool:
        futures = [pool.submit(work, job) for job in jobs]
        try:
            errors = [future.exception() for future in futures]
        except BaseException:  # interrupted while waiting
            stop.set()
            raise
    for error in errors:
        if error is not None and not isinstance(error, _StoppedError):
            raise error
    return [future.result() for future in futures]


class _StoppedError(Exception):
    """Ends the counting of a stretch because that of another failed."""


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


def share_out(
    pieces: Sequence[Piece], n_workers: int, may_guess: bool
) -> list[tuple[list[Piece], int]]:
    """Split the pieces into stretches of about the same weight, each with its first row.

    Where the rows before a piece are not known and matter (``may_guess`` is false), there is
    only one stretch.
    """
    known = all(piece.n_rows is not None for piece in pieces)
    small = known and sum(piece.n_rows or 0 for piece in pieces) < _SMALL
    if small or not (known or may_guess):
        n_workers = 1
    rows = [0, *accumulate(piece.n_rows or 0 for piece in pieces)]
    ends = list(accumulate(piece.weight for piece in pieces))
    middle = [
        (end - piece.weight / 2) / max(ends[-1], 1) for end, piece in zip(ends, pieces, strict=True)
    ]
    owners = [min(int(m * n_workers), n_workers - 1) for m in middle]
    stretches = []
    for _, group in groupby(range(len(pieces)), lambda i: owners[i]):
        members = list(group)
        stretches.append((_neighbours([pieces[i] for i in members]), rows[members[0]]))
    return stretches


def _neighbours(pieces: list[Piece]) -> list[Piece]:
    """Put row groups of one Parquet file that follow each other together."""
    joined: list[Piece] = []
    for piece in pieces:
        last = joined[-1] if joined else None
        if (
            isinstance(piece, ParquetPiece)
            and isinstance(last, ParquetPiece)
            and piece.path == last.path
            and piece.first_row == last.first_row + (last.n_rows or 0)
        ):
            rows = (last.n_rows or 0) + (piece.n_rows or 0)
            joined[-1] = replace(last, n_rows=rows, groups=last.groups + piece.groups)
        else:
            joined.append(piece)
    return joined


def count_stretch(
    pieces: Sequence[Piece],
    settings: LogSettings,
    row: int = 0,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int], object] | None = None,
) -> Partial:
    """Count pieces that follow each other; ``row`` rows come before the first."""
    partial = Partial(settings, pieces[0].label)
    for piece in pieces:
        at = piece.first_row
        for batch in piece.batches(settings.columns.wanted, batch_rows):
            partial.take(batch, Place(piece.label, at), row)
            at += batch.num_rows
            row += batch.num_rows
            if progress is not None:
                progress(batch.num_rows)
    return partial


def count_sorted(
    pieces: Sequence[Piece],
    settings: LogSettings,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int], object] | None = None,
) -> Partial:
    """Count pieces whose rows are in no order, sorting each episode first."""
    partial = Partial(settings, pieces[0].label)
    with Sorter(partial) as sorter:
        for piece in pieces:
            at = piece.first_row
            for batch in piece.batches(settings.columns.wanted, batch_rows):
                sorter.put(batch, Place(piece.label, at))
                at += batch.num_rows
                if progress is not None:
                    progress(batch.num_rows)
        sorter.drain()
    return partial


def _n_workers(workers: int | None) -> int:
    if workers is None:
        return min(_MOST_WORKERS, os.cpu_count() or 1)
    return whole_number(workers, "workers", 1)


STRETCHES_PER_WORKER = 4
"""More than one, so that a slow worker does not keep the others waiting."""


def count_on_cluster(
    client: Any,
    stretches: Sequence[tuple[list[Piece], int]],
    settings: LogSettings,
    batch_rows: int,
) -> Partial:
    """Count stretches in parallel and join neighbours pairwise until one is left.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    stretches
        Pieces and first row of each, in order; see `romdp.logs.reading.counting.share_out`.
    settings, batch_rows
        As for `count_stretch`.
    """
    if any(isinstance(piece, TablePiece) for pieces, _ in stretches for piece in pieces):
        raise InvalidInputError("a cluster counts files; write the table to a folder first")
    parts = [
        client.submit(count_stretch, pieces, settings, row, batch_rows, pure=False)
        for pieces, row in stretches
    ]
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [
            client.submit(joined, *pair, pure=False) if len(pair) == 2 else pair[0]
            for pair in pairs
        ]
    whole: Partial = parts[0].result()
    return whole


def joined(first: Partial, second: Partial) -> Partial:
    """Join two stretches and leave both as they are: a cluster may ask again."""
    return copy.deepcopy(first).join(copy.deepcopy(second))
