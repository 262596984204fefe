"""Has the column of the episode been forgotten? Rows of several users are often interleaved.

If they are, a row has little to do with the next one in the file, and much with the next one of
the same user. How much is measured in nats per row: what an observation tells about the next one
beyond what it tells about another row, taken at random. A column that nobody named is the episode
if rows linked by it tell at least twice as much as rows linked as they stand, and clearly so.
"""

import warnings
from collections.abc import Sequence

import numpy as np

from romdp.logs.reading.columns import Columns, Place, kind_of, names
from romdp.logs.reading.names import Ints
from romdp.logs.reading.sources import Piece

_LOOKED_AT = 20_000  # first rows: in them a gain of 0.02 nats is several standard errors
_SHUFFLES = 10
_CLEARLY = 5.0  # standard errors: one false alarm in millions of columns
_TWICE = 2.0  # fewer than half of the rows would be followed by one of the same episode


def warn_of_forgotten(pieces: Sequence[Piece], columns: Columns) -> None:
    """Warn if some column that nobody named seems to tell whose row it is."""
    if columns.episode is not None or columns.terminated is not None or pieces[0].is_stream:
        return
    wanted, types = columns.check(pieces[0]), pieces[0].types
    if columns.are_vectors(types):
        return
    more = [name for name, kind in types.items() if kind_of(kind) in ("text", "whole", "time")]
    more = [name for name in more if name not in wanted]
    read = {**wanted, **{name: pieces[0].types_read(more, ())[name] for name in more}}
    batch = next(pieces[0].batches(read, _LOOKED_AT), None)
    if batch is None or batch.num_rows < 2:
        return
    place, rng = Place("", 0), np.random.default_rng(0)
    seen = names(batch, columns.parts, place, "drop").codes
    order = np.arange(len(seen))
    if columns.order is not None:
        order = np.argsort(
            batch.column(columns.order).to_numpy(zero_copy_only=False), kind="stable"
        )
    plain, _ = _gain(seen[order], np.zeros(len(seen), np.int64), rng)
    for name in more:
        whose = names(batch, [name], place, "own").codes[order]
        if 2 * (int(whose.max()) + 1) > len(whose) or not whose.any():
            continue  # each row is an episode of its own, or all are one
        gain, error = _gain(seen[order], whose, rng)
        if gain > _TWICE * plain and gain - plain > _CLEARLY * error:
            warnings.warn(
                f"rows seem to belong to different episodes by column {name!r}: linked by it, an "
                f"observation tells {gain:.2g} nats about the next one, as the rows stand "
                f"{max(plain, 0.0):.2g}. If that is whose row it is, pass episode={name!r} (on the "
                f"command line --episode {name})",
                UserWarning,
                stacklevel=4,
            )
            return


def _gain(seen: Ints, whose: Ints, rng: np.random.Generator) -> tuple[float, float]:
    """Return what an observation tells about the next of the same kind, beyond chance, in nats.

    With its standard error; chance is what shuffled rows of the same kind tell.
    """
    own = np.lexsort((np.arange(len(seen)), whose))
    same = whose[own][1:] == whose[own][:-1]
    told = np.empty(1 + _SHUFFLES)
    for i in range(1 + _SHUFFLES):
        now = seen[own if i == 0 else np.lexsort((rng.random(len(seen)), whose))]
        both = np.flatnonzero(same & (now[1:] >= 0) & (now[:-1] >= 0))
        told[i] = _information(now[both], now[both + 1])
    return float(told[0] - told[1:].mean()), float(told[1:].std(ddof=1))


def _information(first: Ints, second: Ints) -> float:
    """Return the empirical mutual information of two columns, in nats per row."""
    joint = first * (int(second.max(initial=0)) + 1) + second
    sums = [float((n * np.log(n)).sum()) for n in map(_counts, (joint, first, second))]
    n = max(1, len(first))
    return float(sums[0] - sums[1] - sums[2] + n * np.log(n)) / n


def _counts(keys: Ints) -> Ints:
    return np.unique(keys, return_counts=True)[1]
