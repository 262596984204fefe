"""Counting by key: a plain array while the keys are few, an open hash table beyond.

Both look the same to a kernel, which calls `add` with a key; a hash table that has become
too full asks its owner to grow it before the next key. A plain array has no keys (None), and
since numba compiles a kernel for each type, it then costs one addition and no test.

The compiled simulator and a recorder in somebody's own loop count steps here too, one at a time.
Their arrays are flat: a cell is ``observation * n_actions + action``.
"""

from typing import Self

import numpy as np

from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.errors import TooLargeError

DENSE_LIMIT = 2**24
"""Up to this many possible keys the counts are a plain array (128 MiB at most)."""

_EMPTY = -1
_SMALLEST_TABLE = 2**12


@kernel
def add(keys: Ints | None, counts: Ints, journal: Ints, key: int) -> None:
    """Count one key. ``keys`` is None for a plain array; a hash table must have a free slot.

    Keys are 0 or more, and lie in the array where there is one; -1 marks a free slot.

    ``journal[0]`` is the number of slots taken. If the journal is longer, ``journal[1]`` is the
    number of keys added since somebody last looked, and these keys follow while they fit.
    """
    if journal.size > 1:
        journal[1] += 1
        if journal[1] < journal.size - 1:
            journal[journal[1] + 1] = key
    if keys is None:
        counts[key] += 1
    else:
        slot = _slot(keys, key)
        if keys[slot] == _EMPTY:
            keys[slot] = key
            journal[0] += 1
        counts[slot] += 1


@kernel
def is_full(keys: Ints | None, journal: Ints) -> bool:
    """Say whether a hash table must grow before the next key; a plain array never is full."""
    if keys is None:
        return False
    full: bool = 3 * keys.size < 4 * (journal[0] + 1)
    return full


@kernel
def _slot(keys: Ints, key: int) -> np.int64:
    """Find the slot of a key, or the free one where it belongs (linear probing)."""
    mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(32)
    mask = np.int64(keys.size - 1)
    slot = np.int64(mixed & np.uint64(mask))
    while keys[slot] != key and keys[slot] != _EMPTY:
        slot = (slot + 1) & mask
    return slot


@kernel
def _move(old_keys: Ints, old_counts: Ints, keys: Ints, counts: Ints) -> None:
    for i in range(old_keys.size):
        if old_keys[i] != _EMPTY:
            slot = _slot(keys, old_keys[i])
            keys[slot] = old_keys[i]
            counts[slot] += old_counts[i]


@kernel
def _add_many(keys: Ints | None, counts: Ints, journal: Ints, new: Ints, start: int) -> int:
    """Count keys from ``start`` on until all are counted or the table is full."""
    for i in range(start, new.size):
        if is_full(keys, journal):
            return i
        add(keys, counts, journal, new[i])
    return new.size


@kernel
def _number_many(
    keys: Ints, numbers: Ints, journal: Ints, wanted: Ints, start: int, found: Ints
) -> int:
    """Find the numbers of keys from ``start`` on until all are found or the table is full."""
    for i in range(start, wanted.size):
        if is_full(keys, journal):
            return i
        slot = _slot(keys, wanted[i])
        if keys[slot] == _EMPTY:
            keys[slot] = wanted[i]
            numbers[slot] = journal[0]
            journal[0] += 1
        found[i] = numbers[slot]
    return wanted.size


class Tally:
    """Counts of integer keys in [0, n_keys).

    Parameters
    ----------
    n_keys
        How many keys there could be; beyond `DENSE_LIMIT` only those that occur take memory
        (about 24 bytes each).
    hashed
        Whether to use a hash table; by default if the keys are too many for an array.
    """

    def __init__(self, n_keys: int, hashed: bool | None = None) -> None:
        if n_keys > np.iinfo(np.int64).max:
            raise TooLargeError(f"{n_keys:.3g} possible keys do not fit in 64 bits")
        self.n_keys = n_keys
        self.keys: Ints | None = None
        hashed = n_keys > DENSE_LIMIT if hashed is None else hashed
        self.counts = np.zeros(0 if hashed else n_keys, np.int64)
        self.journal = np.zeros(1, np.int64)
        if hashed:
            self._new_table(_SMALLEST_TABLE)

    @property
    def is_dense(self) -> bool:
        """Whether the counts are a plain array with one entry per key."""
        return self.keys is None

    def _new_table(self, size: int) -> Ints:
        self.keys = np.full(size, _EMPTY, np.int64)
        self.counts = np.zeros(size, np.int64)
        return self.keys

    def add(self, keys: Ints) -> None:
        """Count every key of an array."""
        done = 0
        while (done := _add_many(self.keys, self.counts, self.journal, keys, done)) < keys.size:
            self.make_room()

    def number(self, keys: Ints) -> Ints:
        """Return a number for each key, in the order of first appearance.

        A hash table that numbers keys does not count them.
        """
        assert self.keys is not None
        found, done = np.empty(keys.size, np.int64), 0
        while True:
            done = _number_many(self.keys, self.counts, self.journal, keys, done, found)
            if done == keys.size:
                return found
            self.make_room()

    def by_number(self) -> Ints:
        """Return the keys in the order of their numbers."""
        keys, numbers = self.items(ordered=False)
        return keys[np.argsort(numbers)]

    def __len__(self) -> int:
        """Return how many keys a hash table holds."""
        return int(self.journal[0])

    def make_room(self) -> None:
        """Double the hash table if it is full."""
        keys, counts = self.keys, self.counts
        if keys is not None and is_full(keys, self.journal):
            _move(keys, counts, self._new_table(2 * keys.size), self.counts)

    def take_notes(self, room: int) -> None:
        """From now on, remember the latest keys too, up to ``room`` of them."""
        self.journal = np.append(self.journal[0], np.zeros(1 + room, np.int64))

    def noted(self) -> Ints | None:
        """Return the keys added since the last call, in order, or None if they did not fit.

        Without `take_notes` there are none to return.
        """
        if self.journal.size == 1:
            return None
        number, self.journal[1] = int(self.journal[1]), 0
        return self.journal[2 : 2 + number].copy() if number <= self.journal.size - 2 else None

    def items(self, *, ordered: bool = True) -> tuple[Ints, Ints]:
        """Return the keys that occurred, ascending unless not ``ordered``, and their counts."""
        if self.keys is None:
            keys = np.flatnonzero(self.counts)
            return keys, self.counts[keys]
        taken = np.flatnonzero(self.keys != _EMPTY)
        order = taken[np.argsort(self.keys[taken])] if ordered else taken
        return self.keys[order], self.counts[order]

    def clear(self) -> None:
        """Forget everything."""
        if self.keys is not None:
            self.keys.fill(_EMPTY)
        self.counts.fill(0)
        self.journal[:2] = 0

    @classmethod
    def from_items(cls, n_keys: int, keys: Ints, counts: Ints, hashed: bool | None = None) -> Self:
        """Rebuild a tally from `items`."""
        tally = cls(n_keys, hashed)
        if tally.keys is None:
            tally.counts[keys] = counts
            return tally
        size = tally.keys.size
        while 3 * size < 4 * (keys.size + 1):
            size *= 2
        _move(keys, counts, tally._new_table(size), tally.counts)
        tally.journal[0] = keys.size
        return tally


@kernel
def count_step(
    cell: int,
    reward: float,
    next_owner: int,
    n_owners: int,
    visits: Ints,
    sums: Floats,
    squares: Floats,
    keys: Ints | None,
    pairs: Ints,
    journal: Ints,
) -> None:
    """Count a visit of ``cell`` (owner * n_actions + action), its reward and its successor.

    A negative ``next_owner`` is unknown: the step counts its reward and no transition. The owner
    and the action in ``cell`` are never unknown: `Simulator.run`, `Online` and `play` check both.
    """
    visits[cell] += 1
    sums[cell] += reward
    squares[cell] += reward * reward
    if next_owner >= 0:
        add(keys, pairs, journal, cell * n_owners + next_owner)


@kernel
def owner_of(owners: Ints | None, observation: int) -> int:
    """Return the group that an observation is counted under: itself unless there are ``owners``."""
    if owners is None:
        return observation
    return owners[observation] if observation >= 0 else observation


@kernel
def count_triple(
    previous: int,
    observation: int,
    next_observation: int,
    groups: Ints | None,
    n_groups: int,
    keys: Ints | None,
    triples: Ints,
    journal: Ints,
) -> int:
    """Count (previous group, group, next group); returns the previous group of the next step.

    ``groups`` is None while nobody watches triples; the kernel is then empty. A negative
    ``previous`` or ``next_observation`` is unknown, and a negative group is that of an
    observation without one: neither makes a triple.
    """
    if groups is None:
        return -1
    if next_observation < 0:
        return -1
    middle: int = groups[observation]
    following: int = groups[next_observation]
    if previous >= 0 and middle >= 0 and following >= 0:
        add(keys, triples, journal, (previous * n_groups + middle) * n_groups + following)
    return middle
