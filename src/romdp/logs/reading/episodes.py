"""Episodes that may go on: a number for each, and its last row so far.

Nothing tells where an episode of a log ends, so all stay open until the last row was read. An
episode is known by a digest of its name, which takes eight bytes whatever the name is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.compiled import kernel

Ints = NDArray[np.int64]

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
