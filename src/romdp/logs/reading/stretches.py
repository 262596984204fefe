"""Counts of a stretch of a log, in one pass over its rows.

Names become numbers while rows are read, and an episode is known by a digest of its name. The last
row of each episode waits until the next one tells what it led to; then it is a step, which is
counted and forgotten. Steps of a few episodes, chosen by their digests, are kept as they are. What
is counted and what is kept depends on the log alone, not on batches, files or workers.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError
from romdp.core.validation import LARGEST_REWARD, real_number
from romdp.data.tally import Tally
from romdp.data.trajectory import END, UNKNOWN
from romdp.data.vocabulary import Vocabulary
from romdp.logs.reading.columns import (
    Columns,
    Place,
    flags,
    names,
    numbers,
    ordered,
    propensities,
    vectors,
)
from romdp.logs.reading.names import Coded, Floats, Ints, digests, mix
from romdp.logs.reading.sorting import Sorter
from romdp.logs.reading.sources import BATCH_ROWS, Piece

BLOCK = 100
"""Without an episode column, this many rows in a row are held out or counted together."""

O_BITS, A_BITS = 24, 15
"""Numbers of observations and actions have so many bits."""

ENDED = 2**O_BITS - 1
"""What stands for the end of an episode where it is the number of an observation."""

_MANY_KEYS = 2**63 - 1
_LARGEST = 1e18  # of 1 / propensity

Rows = NDArray[Any]
"""Rows of a log; see `row_type`."""


def row_type(order: Any) -> Any:
    """Return the type of a row: its place in the log, what it shows, and what it led to.

    ``chain`` is the number of its episode and ``age`` its place there; episodes of low ``rank`` are
    kept. ``o`` is -1 where the observation is missing, and ``next`` as in `Trajectory`.
    """
    long, short = ("row", "age", "rank"), ("chain", "o", "a", "next")
    whole = [*((name, np.int64) for name in long), *((name, np.int32) for name in short)]
    return np.dtype(
        [*whole, ("r", np.float64), ("p", np.float64), ("over", np.bool_), ("t", order)]
    )


@dataclass(frozen=True, slots=True)
class LogSettings:
    """How a log is counted; the same for all of its stretches.

    Attributes
    ----------
    columns
        Which column is what.
    seed
        Decides which episodes are held out.
    holdout, most_held
        The share of episodes and the number of rows to hold out, at most.
    max_observations, max_actions
        How many different ones there may be.
    sort
        Whether rows are sorted by the order column first.
    missing
        What a missing observation is; see `romdp.logs.reading.columns.MISSING`.
    are_vectors
        Whether observations are vectors: each row is then an observation of its own.
    keep_all
        Whether all rows are kept, and none counted.
    shift
        What is subtracted from rewards before they are added up: one of them, so that no digits are
        lost. None: the first.
    """

    columns: Columns
    seed: int = 0
    holdout: float = 0.2
    most_held: int = 2_000_000
    max_observations: int = 1_000_000
    max_actions: int = 10_000
    sort: bool = False
    missing: str = "error"
    are_vectors: bool = False
    keep_all: bool = False
    shift: float | None = None

    @property
    def has_episodes(self) -> bool:
        """Whether the log is made of episodes, named or told apart by their ends."""
        return self.columns.episode is not None or self.columns.terminated is not None

    def refuse_many(self, n_observations: int, n_actions: int) -> None:
        """Refuse more different names than there may be."""
        for column, most, n, what in (
            (self.columns.shown, self.max_observations, n_observations, "observation"),
            (self.columns.action, self.max_actions, n_actions, "action"),
        ):
            if n > most:
                raise InvalidInputError(
                    f"column {column!r} holds more than {most:,} different {what}s. Is it an "
                    f"identifier or a time? Make it coarser, or raise max_{what}s if so many are "
                    "meant"
                )


class Places(NamedTuple):
    """Where the rows of a stretch lie: its files, and the first row of each."""

    labels: list[str]
    first_rows: list[int]

    def error(self, row: int, column: str | None, text: str) -> InvalidInputError:
        """Make the error for a row of the log."""
        file = bisect_right(self.first_rows, row) - 1
        return Place(self.labels[file], 0).error(row - self.first_rows[file], str(column), text)

    def check(self, before: Any, after: Any, columns: Columns) -> None:
        """Refuse rows that come before those they follow, or after the end of the episode."""
        late = before["over"] & (columns.episode is not None)
        wrong = late | (after["t"] < before["t"])
        if not wrong.any():
            return
        at = int(np.flatnonzero(wrong)[np.argmin(after["row"][wrong])])
        row, column = int(after["row"][at]), columns.order
        text = "a larger value came before in this episode, so the rows are not in order"
        remedy = "sort them, or pass sort=True (on the command line --sort)"
        if late[at]:
            column, text = columns.terminated, "this episode terminated in an earlier row"
            remedy = "give what follows an episode of its own"
        elif columns.episode is None:
            text = text.replace(" in this episode", "")
            remedy += "; if rows of several episodes are mixed, name the column that tells whose"
        raise self.error(row, column, f"{text}; {remedy}")


class Stretch:
    """What is kept of a stretch of a log.

    Parameters
    ----------
    settings
        How the log is counted.
    row
        How many rows come before.
    """

    def __init__(self, settings: LogSettings, row: int = 0) -> None:
        self.settings, self.row, self._first_row = settings, row, row
        self.places = Places([], [])
        self.observations, self.actions = Vocabulary(), Vocabulary()
        self.chains = Tally(_MANY_KEYS)  # numbers the digests of episodes
        self.pairs = Tally(_MANY_KEYS)  # numbers the pairs of observation and action
        self.moves = Tally(_MANY_KEYS)  # counts where they led
        self.visits = np.zeros(0, np.int64)
        self.totals = np.zeros((0, 3, 2))  # of rewards, squares, 1 / propensity; and of rounding
        self.low, self.high, self.shift = np.inf, -np.inf, settings.shift
        # What has a lower rank is kept.
        self.limit = _MANY_KEYS if settings.keep_all else share_limit(settings.holdout)
        self.first: Rows = np.zeros(0, row_type(np.int8))  # of each chain
        self.last = self.first
        self.kept: list[Rows] = []
        self.vectors: list[NDArray[Any]] = []
        self._seed_word = mix(np.array([settings.seed]))[0]
        self._n_ended = 0

    def read(self, batch: Any, place: Place) -> Rows:
        """Turn a batch into rows of numbers."""
        columns, n = self.settings.columns, batch.num_rows
        order = ordered(batch, columns.order, place) if columns.order else np.zeros(n, np.int8)
        rows = np.zeros(n, row_type(order.dtype))
        rows["t"], rows["p"], rows["next"] = order, 1.0, -1
        rows["row"] = np.arange(self.row, self.row + n)
        rows["o"] = self._seen(batch, place)
        if columns.action is not None:
            rows["a"] = self._number(names(batch, [columns.action], place), self.actions)
        if columns.reward is not None:
            rows["r"] = paid = numbers(batch, columns.reward, place)
            if self.shift is None:
                self.shift = float(paid[0])
            self.low = min(self.low, float(paid.min()))
            self.high = max(self.high, float(paid.max()))
        if columns.terminated is not None:
            rows["over"] = flags(batch, columns.terminated, place)
        if columns.propensity is not None:
            rows["p"] = propensities(batch, columns.propensity, place)
        found = self._digests(batch, rows["over"], place)
        rows["chain"], rows["rank"] = self.chains.number(found), mix(found ^ self._seed_word)
        self.row += n
        return rows

    def _seen(self, batch: Any, place: Place) -> Ints:
        """Return the number of what each row shows, -1 where that is missing and left out."""
        parts, missing = self.settings.columns.parts, self.settings.missing
        drop = 'pass missing="drop" to leave such rows out'
        if not self.settings.are_vectors:
            remedy = f'; {drop}, or "own" to make it a name (on the command line --missing)'
            return self._number(names(batch, parts, place, missing, remedy), self.observations)
        found = vectors(batch, parts, place)
        absent = np.isnan(found) if found.dtype.kind == "f" else np.zeros(found.shape, np.bool_)
        for row, column in np.argwhere(absent)[:1].tolist() if missing != "drop" else ():
            part = parts[min(column, len(parts) - 1)]
            raise place.error(row, part, f"a number is missing; {drop}")
        self.vectors.append(found)
        at = np.arange(self.row, self.row + len(found)) - self._first_row
        return np.where(absent.any(axis=1), -1, at)

    def _number(self, found: Coded, known: Vocabulary) -> Ints:
        numbers = np.array([known.encode(name) for name in found.names()], np.int64)
        self.settings.refuse_many(len(self.observations), len(self.actions))
        return found.replaced(numbers)

    def _digests(self, batch: Any, over: NDArray[np.bool_], place: Place) -> Ints:
        """Return what the episode of every row is known by."""
        columns = self.settings.columns
        if columns.episode is not None:
            found = names(batch, [columns.episode], place)
            return found.replaced(digests(found))
        before = self._n_ended + np.cumsum(over) - over  # each begins after the end of the last
        self._n_ended += int(over.sum())
        return mix(before)

    def take(self, rows: Rows) -> None:
        """Link rows to those before them, and count or keep what is a step then."""
        n_chains = len(self.chains)
        self.first, self.last = (_grown(each, rows, n_chains) for each in (self.first, self.last))
        here = np.zeros(n_chains, np.bool_)
        here[rows["chain"]] = True
        waiting = self.last[:n_chains][here & (self.last["row"][:n_chains] >= 0)]
        both = np.concatenate([waiting, rows])
        if not self.settings.has_episodes:  # a cluster knows how many rows came before
            both["age"][len(waiting) :] = self._first_row
        before, both["age"] = link(both["chain"].copy(), both["age"].copy(), n_chains)
        after = np.flatnonzero(before >= 0)
        earlier = before[after]
        told = [{name: both[name][at] for name in ("over", "t", "row")} for at in (earlier, after)]
        self.places.check(told[0], told[1], self.settings.columns)
        both["next"][earlier] = both["o"][after]
        if not self.settings.has_episodes:
            both["rank"] = mix(mix(both["age"] // BLOCK) ^ self._seed_word)
        begins = both[before < 0][len(waiting) :]
        self.first[begins["chain"]] = begins
        steps = np.zeros(len(both), np.bool_)
        steps[earlier] = True
        waits = both[~steps]
        self.last[waits["chain"]] = waits
        self.put(both, steps)

    def put(self, rows: Rows, steps: Any = True) -> None:
        """Count or keep those rows that are ``steps``; what has no observation is left out."""
        steps = (rows["o"] >= 0) & steps
        low = rows["rank"] < self.limit
        self._count(rows, np.flatnonzero(steps & ~low))
        self.kept.append(rows[steps & low])
        while not self.settings.keep_all and sum(map(len, self.kept)) > self.settings.most_held:
            self.lower(self.limit // 2)

    def lower(self, limit: int) -> None:
        """Count some of the steps that were kept."""
        kept, self.limit, self.kept = self.kept, limit, []
        for rows in kept:
            self.put(rows)

    def _count(self, rows: Rows, at: Ints) -> None:
        o, a, following = (rows[name][at].astype(np.int64) for name in ("o", "a", "next"))
        pairs = self._pairs(o << A_BITS | a)
        self.visits += np.bincount(pairs, minlength=len(self.visits))
        with np.errstate(over="ignore"):  # `scale` refuses such rewards
            gain, worth = (
                rows["r"][at] - (self.shift or 0.0),
                np.minimum(1 / rows["p"][at], _LARGEST),
            )
            add_up(pairs, np.stack([gain, gain * gain, worth], axis=1), self.totals)
        known = following != UNKNOWN
        led = np.where(following == END, ENDED, following)[known]
        self.moves.add(pairs[known] << O_BITS | led)

    def _pairs(self, keys: Ints) -> Ints:
        """Return the numbers of pairs, and make room for them."""
        pairs, size = self.pairs.number(keys), len(self.pairs)
        if size > len(self.visits):
            self.visits = np.append(self.visits, np.zeros(size, np.int64))
            self.totals = np.concatenate([self.totals, np.zeros((size, 3, 2))])
        return pairs

    @property
    def reward_range(self) -> tuple[float, float] | None:
        """The smallest and the largest reward; None without rewards."""
        return None if self.settings.columns.reward is None else (self.low, self.high)

    def scaled(self, rewards: Floats) -> Floats | None:
        """Scale rewards to [0, 1]; None without any."""
        if self.reward_range is None:
            return None
        low, span = scale(self.reward_range)
        return np.clip((rewards - low) / span, 0.0, 1.0)

    def sums(self) -> Floats:
        """Return visits, sums of scaled rewards and of their squares, and of 1 / propensity."""
        n, (gain, square, worth) = self.visits, self.totals.sum(axis=2).T
        low, span = scale(self.reward_range or (0.0, 1.0))
        move = low - (self.shift or 0.0)
        paid = np.clip((gain - n * move) / span, 0.0, n)
        squares = (square - 2.0 * move * gain + n * move**2) / span**2
        squares = np.clip(squares, paid**2 / np.maximum(n, 1), paid)  # of numbers in [0, 1]
        return np.stack([n, paid, squares, worth], axis=1)[: len(self.pairs)]

    def absorb(self, part: "Stretch") -> None:
        """Take over what was kept of the rows that come next, which were counted elsewhere."""
        vocabularies = ((self.observations, part.observations), (self.actions, part.actions))
        o, a = (
            np.array([own.encode(name) for name in theirs.names] or [0], np.int64)
            for own, theirs in vocabularies
        )
        self.settings.refuse_many(*map(len, (self.observations, self.actions)))
        later, n = self.row - part._first_row, len(part.chains)
        chains = self.chains.number(part.chains.by_number())
        first, last, kept = (
            rows.copy() for rows in (part.first[:n], part.last[:n], np.concatenate(part.kept))
        )
        self.first, self.last = (
            _grown(rows, first, len(self.chains)) for rows in (self.first, self.last)
        )
        goes_on = self.last["row"][chains] >= 0
        older = np.where(goes_on & self.settings.has_episodes, self.last["age"][chains] + 1, 0)
        for rows in (first, last, kept):
            rows["age"] += older[rows["chain"]]
            rows["chain"], rows["row"] = chains[rows["chain"]], rows["row"] + later
            for name in ("o", "next"):
                rows[name] = np.append(o, [END, UNKNOWN])[rows[name]]
            rows["a"] = a[rows["a"]]
        self.places.labels.extend(part.places.labels)
        self.places.first_rows.extend(row + later for row in part.places.first_rows)
        self.row += part.row - part._first_row

        steps = self.last[chains[goes_on]]
        self.places.check(steps, first[goes_on], self.settings.columns)
        steps["next"] = first["o"][goes_on]
        self.first[chains[~goes_on]], self.last[chains] = first[~goes_on], last
        self.lower(min(self.limit, part.limit))
        for rows in (steps, kept):
            self.put(rows)

        keys = part.pairs.by_number()
        pairs = self._pairs(o[keys >> A_BITS] << A_BITS | a[keys & (2**A_BITS - 1)])
        self.visits[pairs] += part.visits[: len(keys)]
        for totals in part.totals[: len(keys)].transpose(2, 0, 1):
            add_up(pairs, totals, self.totals)
        keys, count = part.moves.items(ordered=False)
        led = np.append(o, ENDED)[np.minimum(keys & ENDED, len(o))]
        self.moves.add(np.repeat(pairs[keys >> O_BITS] << O_BITS | led, count))


def join(parts: Sequence[Stretch]) -> Stretch:
    """Make one stretch of those that follow each other."""
    if len(parts) == 1:
        return parts[0]
    whole = Stretch(parts[0].settings)
    whole.low, whole.high = min(part.low for part in parts), max(part.high for part in parts)
    whole.shift = parts[0].shift
    for part in parts:
        whole.absorb(part)
    return whole


def count_stretch(
    pieces: Sequence[Piece],
    settings: LogSettings,
    row: int = 0,
    batch_rows: int = BATCH_ROWS,
    progress: Callable[[int], object] | None = None,
) -> Stretch:
    """Count pieces that follow each other; ``row`` rows come before."""
    stretch = Stretch(settings, row)
    with Sorter() if settings.sort else nullcontext() as sorter:
        for piece in pieces:
            first = stretch.row
            stretch.places.labels.append(piece.label)
            stretch.places.first_rows.append(first)
            for batch in piece.batches(settings.columns.check(piece), batch_rows):
                if batch.num_rows:
                    rows = stretch.read(batch, Place(piece.label, stretch.row - first))
                    (stretch.take if sorter is None else sorter.put)(rows)
                    if progress is not None:
                        progress(batch.num_rows)
        for rows in () if sorter is None else sorter.rest(batch_rows):
            stretch.take(rows)
    return stretch


def share_limit(share: float) -> int:
    """Return the rank below which lies such a share of episodes."""
    return min(_MANY_KEYS, int(real_number(share, "holdout", 0.0, 1.0) * 2.0**63))


def _grown(rows: Rows, like: Rows, size: int) -> Rows:
    """Make room for rows by chain; those that are not there yet have row -1."""
    if size <= len(rows):
        return rows
    more = np.zeros(max(size, 2 * len(rows)), like.dtype)
    more["row"] = -1
    more[: len(rows)] = rows
    return more


@kernel
def link(chains: Ints, ages: Ints, n_chains: int) -> tuple[Ints, Ints]:
    """Return the row before each in its chain, -1 for none, and the age of each.

    ``ages`` are those of the rows without one before.
    """
    latest, before = np.full(n_chains, -1), np.empty(chains.size, np.int64)
    for i in range(chains.size):
        before[i] = latest[chains[i]]
        if before[i] >= 0:
            ages[i] = ages[before[i]] + 1
        latest[chains[i]] = i
    return before, ages


@kernel
def add_up(cells: Ints, values: NDArray[np.float64], totals: NDArray[np.float64]) -> None:
    """Add columns of values to the totals of their cells, in whatever order.

    What rounding takes away is kept beside each total, so that the sum of both hardly depends on
    the order (Knuth's two-sum).
    """
    for i in range(cells.size):
        for k in range(values.shape[1]):
            old = totals[cells[i], k, 0]
            new = old + values[i, k]
            part = new - old
            totals[cells[i], k, 0] = new
            totals[cells[i], k, 1] += (old - (new - part)) + (values[i, k] - part)


def scale(reward_range: tuple[float, float]) -> tuple[float, float]:
    """Return what to subtract from rewards and what to divide them by."""
    low, high = reward_range
    if not np.isfinite(high - low) or high - low > LARGEST_REWARD:
        raise InvalidInputError(
            f"the rewards go from {low:g} to {high:g}, too far for floats; rescale them"
        )
    if 0 < high - low < 1e-150:
        raise InvalidInputError(
            f"the rewards differ by {high - low:g} at most, too little for floats to square; "
            "rescale them"
        )
    return low, high - low if high > low else 1.0
