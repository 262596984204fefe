"""Read a log, here or on a cluster: count it, or keep its rows."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np

from romdp.core.errors import InvalidInputError
from romdp.core.validation import check, choice, flag, function, whole_number
from romdp.logs.reading.closing import (
    LogCounts,
    LogRows,
    check_ends,
    close,
    finish,
    kept_rows,
)
from romdp.logs.reading.columns import MISSING, Columns, Place, kind_of, numbers
from romdp.logs.reading.sources import BATCH_ROWS, Piece, open_source
from romdp.logs.reading.stretches import A_BITS, ENDED, LogSettings, Stretch, count_stretch, join

STRETCHES_PER_WORKER = 4
"""More than one, so that a slow worker of a cluster does not keep the others waiting."""


def count_logs(
    data: Any,
    columns: Columns,
    *,
    holdout: float = 0.2,
    most_held: int = 2_000_000,
    ends: str = "truncated",
    missing: str = "error",
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
    where rows are sorted first, they wait in temporary files if they are many.

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
        ``"terminated"`` or ``"restart"``, its end. A column ``terminated`` tells it of each
        episode.
    missing
        What a row without an observation is: ``"error"``, refused; ``"drop"``, left out, and the
        episode is cut there; ``"own"``, an observation like others, called None.
    sort
        Sort each episode by the order column first.
    seed
        Decides which episodes are held out.
    workers
        How many threads read files; by default one for each core.
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
    check(columns, "columns", Columns)
    check(progress, "progress", None, function)
    check(client, "client", None, "submit")
    flag(sort, "sort")
    pieces = open_source(data)
    settings = LogSettings(
        columns,
        whole_number(seed, "seed", 0, 2**62),
        holdout,
        whole_number(most_held, "most_held", 0),
        whole_number(max_observations, "max_observations", 1, ENDED),
        whole_number(max_actions, "max_actions", 1, 2**A_BITS - 1),
        sort,
        missing,
    )
    if check_columns(pieces, columns):
        raise InvalidInputError(
            f"{columns.shown!r} holds vectors, which romdp.fit encodes before they are counted"
        )
    as_text = all(piece.is_csv for piece in pieces)
    whole = _read(pieces, settings, ends, workers, batch_rows, progress, client)
    return finish(whole, as_text)


def read_rows(
    data: Any,
    columns: Columns,
    *,
    ends: str = "truncated",
    missing: str = "error",
    sort: bool = False,
    workers: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> LogRows:
    """Keep all rows of a log, of names or of vectors; the arguments are as for `count_logs`."""
    pieces = open_source(data)
    settings = LogSettings(
        columns,
        max_observations=ENDED,
        max_actions=2**A_BITS - 1,
        sort=sort,
        missing=missing,
        are_vectors=check_columns(pieces, columns),
        keep_all=True,
    )
    as_text = all(piece.is_csv for piece in pieces)
    rows = kept_rows(_read(pieces, settings, ends, workers, BATCH_ROWS, progress), as_text)
    assert rows is not None
    return rows


def _read(
    pieces: Sequence[Piece],
    settings: LogSettings,
    ends: str,
    workers: int | None,
    batch_rows: int,
    progress: Callable[[int], object] | None,
    client: Any = None,
) -> Stretch:
    """Read a log and close all of its episodes."""
    columns = settings.columns
    check_ends(ends, columns.terminated)
    choice(settings.missing, "missing", MISSING)
    if settings.are_vectors and settings.missing == "own":
        raise InvalidInputError(
            'missing is "own", but observations are vectors, which have no names; pass "drop"'
        )
    if settings.sort and columns.order is None:
        raise InvalidInputError("sort=True needs an order column to sort by; name it as order")
    if settings.sort and columns.terminated is not None and columns.episode is None:
        raise InvalidInputError(
            "sort=True needs an episode column: without one, episodes are told apart by the rows "
            "that end them, which must be in order already"
        )
    whole_number(batch_rows, "batch_rows", 1)
    if client is not None and not settings.sort:
        parts = _on_cluster(client, pieces, settings, batch_rows)
    else:
        with _threads(workers):
            parts = [count_stretch(pieces, settings, 0, batch_rows, progress)]
    parts = [part for part in parts if len(part.chains)]
    if not parts:
        raise InvalidInputError(f"{pieces[0].label} holds no rows; there is nothing to learn from")
    whole = join(parts)
    close(whole, ends)
    if not len(whole.pairs) and not any(map(len, whole.kept)):
        raise InvalidInputError(f"column {columns.shown!r} is empty: every observation is missing")
    return whole


@contextmanager
def _threads(workers: int | None) -> Iterator[None]:
    """Let Arrow use so many threads."""
    import pyarrow as pa

    before = pa.cpu_count()
    pa.set_cpu_count(before if workers is None else whole_number(workers, "workers", 1))
    try:
        yield
    finally:
        pa.set_cpu_count(before)


def check_columns(pieces: Sequence[Piece], columns: Columns) -> bool:
    """Check that every file has the columns, and that they are of one kind in all of them.

    Returns whether observations are vectors.
    """
    first: dict[str, tuple[str, str]] = {}
    for piece in pieces:
        for column, arrow_type in columns.check(piece).items():
            kind = kind_of(arrow_type)
            known, label = first.get(column, ("none", ""))
            if known == "none":  # a file without rows says nothing about it
                first[column] = kind, piece.label
            elif kind not in ("none", known):
                raise InvalidInputError(
                    f"column {column!r} holds {known} values in {label} and {kind} values in "
                    f"{piece.label}; make it one type in all files"
                )
    return columns.are_vectors(pieces[0].types)


def _on_cluster(
    client: Any, pieces: Sequence[Piece], settings: LogSettings, batch_rows: int
) -> list[Stretch]:
    """Count stretches of a log on a Dask cluster; a worker that dies is replaced by others."""
    if any(piece.path is None for piece in pieces):
        raise InvalidInputError("a cluster counts files; write the table to a folder first")
    columns = settings.columns
    n_stretches = STRETCHES_PER_WORKER * max(1, len(client.scheduler_info()["workers"]))
    if columns.episode is None and columns.terminated is not None:
        n_stretches = 1  # where an episode begins is known only by the rows before
    if columns.reward is not None:
        settings = replace(settings, shift=_first_reward(pieces, columns))
    found = [
        client.submit(count_stretch, part, settings, row, batch_rows, pure=False)
        for part, row in share_out(pieces, n_stretches, columns.episode is not None)
    ]
    return [future.result() for future in found]


def _first_reward(pieces: Sequence[Piece], columns: Columns) -> float | None:
    reward = str(columns.reward)
    for piece in pieces:
        for batch in piece.batches({reward: columns.check(piece)[reward]}, 1):
            if batch.num_rows:
                return float(numbers(batch, reward, Place(piece.label, 0))[0])
    return None


def share_out(
    pieces: Sequence[Piece], n_stretches: int, may_guess: bool
) -> list[tuple[list[Piece], int]]:
    """Split the pieces into stretches of about as many each, with the first row of each.

    Where the rows before a piece are not known and matter (``may_guess`` is false), there is
    only one stretch.
    """
    rows = [piece.n_rows for piece in pieces]
    if not may_guess and None in rows:
        n_stretches = 1
    first = [0, *accumulate(n or 0 for n in rows)]
    parts = np.array_split(np.arange(len(pieces)), min(n_stretches, len(pieces)))
    return [([pieces[i] for i in part], first[part[0]]) for part in parts]
