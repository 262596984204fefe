"""Episodes that may go on: a number for each, and its last row so far.

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
