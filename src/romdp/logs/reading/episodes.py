"""What is known of a log so far: open episodes with their last rows, and totals of pairs.

Nothing tells where an episode of a log ends, so all stay open until the last row was read. An
episode is known by a digest of its name, which takes eight bytes whatever the name is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError
from romdp.data.tally import add, is_full
from romdp.logs.reading.columns import Place
from romdp.logs.reading.names import Floats, Ints

_EMPTY = -1
_SMALLEST = 2**10
_MOST_PAIRS = 2**28  # each of three arrays then takes 2 GiB


@kernel
def _number(digests: Ints, keys: Ints, numbers: Ints, n_known: int, out: Ints) -> int:
    """Look the digests up in an open hash table, numbering new ones from ``n_known`` on."""
    mask = keys.size - 1
    for i in range(digests.size):
        slot = digests[i] & mask
        while keys[slot] != _EMPTY and keys[slot] != digests[i]:
            slot = (slot + 1) & mask
        if keys[slot] == _EMPTY:
            keys[slot] = digests[i]
            numbers[slot] = n_known
            n_known += 1
        out[i] = numbers[slot]
    return n_known


def grown(array: NDArray[Any], size: int, fill: float) -> NDArray[Any]:
    """Return the array itself if it is long enough, else a longer one that begins with it."""
    if size <= len(array):
        return array
    longer = np.full(max(size, 2 * len(array)), fill, array.dtype)
    longer[: len(array)] = array
    return longer


class Episodes:
    """The episodes met so far.

    Attributes
    ----------
    digests
        What each is known by, in the order of their numbers.
    first
        The observation of the first counted row of each, -1 before it came.
    last
        The last counted row of each (see `romdp.logs.reading.partial`), -1 before it came.
    over
        Whether each has ended for good.
    """

    def __init__(self) -> None:
        self.n_known = 0
        self._keys = np.full(_SMALLEST, _EMPTY, np.int64)
        self._numbers = np.zeros(_SMALLEST, np.int64)
        self._digests = np.empty(0, np.int64)
        self.first = np.empty(0, np.int64)
        self.last = np.empty(0, np.int64)
        self.over = np.empty(0, np.bool_)

    def __len__(self) -> int:
        return self.n_known

    @property
    def digests(self) -> Ints:
        """What each episode is known by."""
        return self._digests[: self.n_known]

    def number(self, digests: Ints) -> Ints:
        """Return the number of each digest; new ones are numbered in turn."""
        self._make_room(self.n_known + len(digests))
        out = np.empty(len(digests), np.int64)
        self.n_known = _number(digests, self._keys, self._numbers, self.n_known, out)
        self._digests[out] = digests
        return out

    def _make_room(self, most: int) -> None:
        self._digests = grown(self._digests, most, _EMPTY)
        self.first = grown(self.first, most, _EMPTY)
        self.last = grown(self.last, most, _EMPTY)
        self.over = grown(self.over, most, False)
        size = self._keys.size
        while size < 2 * most:
            size *= 2
        if size > self._keys.size:
            self._keys = np.full(size, _EMPTY, np.int64)
            self._numbers = np.zeros(size, np.int64)
            known = self.digests
            _number(known, self._keys, self._numbers, 0, np.empty(len(known), np.int64))


OBSERVATION_BITS, ACTION_BITS = 24, 15
"""A transition is one key: observation, action and next observation side by side."""


@kernel
def link(
    observations: Ints,
    actions: Ints,
    episodes: Ints,
    first: Ints,
    last: Ints,
    keys: Ints,
    counts: Ints,
    used: Ints,
    start: int,
) -> int:
    """Count where each row's predecessor led, until the table is full; return where it stopped."""
    for i in range(start, observations.size):
        if is_full(keys, used):
            return i
        episode = episodes[i]
        before = last[episode]
        if before >= 0:
            add(keys, counts, used, (before << OBSERVATION_BITS) | observations[i])
        else:
            first[episode] = observations[i]
        last[episode] = (observations[i] << ACTION_BITS) | actions[i]
    return observations.size


@kernel
def out_of_order(
    who: Ints, order: NDArray[Any], begun: NDArray[np.bool_], first: Any, last: Any
) -> int:
    """Return the first row that does not come after its predecessor, or -1."""
    for i in range(who.size):
        w = who[i]
        if begun[w]:
            if not order[i] > last[w]:
                return i
        else:
            begun[w] = True
            first[w] = order[i]
        last[w] = order[i]
    return -1


@kernel
def mark_ends(whose: Ints, terminated: NDArray[np.bool_], over: NDArray[np.bool_]) -> int:
    """Note which episodes are over; return the first row that comes after an end, or -1."""
    for i in range(whose.size):
        if over[whose[i]]:
            return i
        over[whose[i]] = terminated[i]
    return -1


def renamed(keys: Ints, observations: Ints, actions: Ints) -> Ints:
    """Translate keys to the numbers of another stretch."""
    seen, done = unpacked(keys >> OBSERVATION_BITS)
    rows = (observations[seen] << ACTION_BITS) | actions[done]
    new: Ints = (rows << OBSERVATION_BITS) | observations[keys & (2**OBSERVATION_BITS - 1)]
    return new


def unpacked(rows: Ints) -> tuple[Ints, Ints]:
    """Return observation and action of rows as `Episodes.last` keeps them."""
    return rows >> ACTION_BITS, rows & (2**ACTION_BITS - 1)


_NOTHING: NDArray[Any] = np.empty(0, np.int64)


class Orders:
    """The first and the last place of every episode so far, in the column of the order."""

    def __init__(self, column: str) -> None:
        self.column = column
        self._begun = np.zeros(0, np.bool_)
        self._first, self._last = _NOTHING, _NOTHING

    def check(self, who: Ints, order: NDArray[Any], n_episodes: int, place: Place) -> None:
        """Refuse a row that does not come after its predecessor."""
        self._make_room(n_episodes, order.dtype)
        row = out_of_order(who, order, self._begun, self._first, self._last)
        if row >= 0:
            same = order[row] == self._last[who[row]]
            raise place.error(row, self.column, disorder(same))

    def _make_room(self, n_episodes: int, dtype: np.dtype[Any]) -> None:
        if not len(self._first):
            self._first, self._last = np.empty(0, dtype), np.empty(0, dtype)
        self._begun = grown(self._begun, n_episodes, 0)
        self._first = grown(self._first, n_episodes, 0)
        self._last = grown(self._last, n_episodes, 0)

    def join(self, other: "Orders", episodes: Ints, label: str) -> None:
        """Go on with the next stretch, whose episodes have these numbers here."""
        begun = np.flatnonzero(other._begun[: len(episodes)])
        if not len(begun):
            return
        here, first = episodes[begun], other._first[begun]
        self._make_room(int(here.max()) + 1, first.dtype)
        both = self._begun[here]
        bad = both & ~(first > self._last[here])
        if bad.any():
            at = int(np.argmax(bad))
            same = first[at] == self._last[here[at]]
            raise InvalidInputError(
                f"an episode goes on in {label}, column {self.column!r}: {disorder(same)}"
            )
        self._first[here[~both]] = first[~both]
        self._last[here] = other._last[begun]
        self._begun[here] = True


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


@kernel
def count_rewards(
    observations: Ints,
    actions: Ints,
    rewards: Floats,
    shift: float,
    visits: Ints,
    sums: Floats,
    squares: Floats,
) -> None:
    """Count the pairs and add up what they paid, less the shift."""
    for i in range(observations.size):
        o, a = observations[i], actions[i]
        reward = rewards[i] - shift
        visits[o, a] += 1
        sums[o, a] += reward
        squares[o, a] += reward * reward


class Pairs:
    """Visits of every pair (observation, action), and what they paid.

    Rewards are added up as differences from ``shift``, a number near them, so that the squares
    of rewards far from zero keep their digits.

    Attributes
    ----------
    shift
        What is subtracted from every reward; the first reward.
    lowest, highest
        The smallest and the largest reward noted.
    """

    def __init__(self) -> None:
        self.shift = 0.0
        self.lowest, self.highest = np.inf, -np.inf
        self._visits = np.zeros((0, 0), np.int64)
        self._sums, self._squares = np.zeros((0, 0)), np.zeros((0, 0))

    def note(self, rewards: Floats) -> None:
        """Take notice of rewards that will be added, or held out."""
        if not self.lowest < np.inf:
            self.shift = float(rewards[0])
        self.lowest = min(self.lowest, float(rewards.min()))
        self.highest = max(self.highest, float(rewards.max()))

    def add(self, seen: Ints, done: Ints, paid: Floats) -> None:
        """Add rows; there must be room for them."""
        count_rewards(seen, done, paid, self.shift, self._visits, self._sums, self._squares)

    def make_room(self, n_observations: int, n_actions: int) -> None:
        """See to it that there is room for so many."""
        shape, old = (n_observations, n_actions), self._visits.shape
        if shape[0] <= old[0] and shape[1] <= old[1]:
            return
        if n_observations * n_actions > _MOST_PAIRS:
            raise InvalidInputError(
                f"{n_observations:,} observations with {n_actions:,} actions are more than "
                f"{_MOST_PAIRS:,} pairs; make the observations or the actions coarser"
            )
        size = [max(2 * o, s) if s > o else o for o, s in zip(old, shape, strict=True)]
        if size[0] * size[1] > _MOST_PAIRS:
            size = list(shape)
        self._visits = _enlarged(self._visits, size)
        self._sums = _enlarged(self._sums, size)
        self._squares = _enlarged(self._squares, size)

    def arrays(self, n_observations: int, n_actions: int) -> tuple[Ints, Floats, Floats]:
        """Return visits, and sums and squares of (reward - shift), of the first so many."""
        self.make_room(n_observations, n_actions)
        size = (slice(n_observations), slice(n_actions))
        return self._visits[size], self._sums[size], self._squares[size]

    def join(self, other: "Pairs", observations: Ints, actions: Ints) -> None:
        """Add other pairs; theirs are called by these numbers here."""
        if not self.lowest < np.inf:
            self.shift = other.shift
        visits, sums, squares = other.arrays(len(observations), len(actions))
        move = other.shift - self.shift  # what to add to a difference from the other's shift
        at = np.ix_(observations, actions)
        self._visits[at] += visits
        self._squares[at] += squares + 2.0 * move * sums + move * move * visits
        self._sums[at] += sums + move * visits
        self.lowest = min(self.lowest, other.lowest)
        self.highest = max(self.highest, other.highest)


def _enlarged(array: NDArray[Any], size: list[int]) -> NDArray[Any]:
    larger = np.zeros(size, array.dtype)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger
