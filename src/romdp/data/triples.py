"""Distinct triples of successive observations with their counts: what spectral methods read.

The triple of step t is (y_{t-1}, y_t, a_t, y_{t+1}): what came before, the middle with the action
taken there, and what came after (the three views of `lem:decomp`). Only the distinct ones are
kept, so that no array of n_observations cubed is ever needed.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from romdp.core.arrays import Ints
from romdp.core.errors import InvalidInputError
from romdp.core.validation import freeze, rectangular, takes, whole_array, whole_number
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.data.transitions import check_groups

_COLUMNS = ("previous", "middle", "action", "next", "count")
_LARGEST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Triples:
    """How often each triple (previous, middle, action, next) was seen.

    Parameters
    ----------
    previous, middle, action, next : array_like of int, shape (n_distinct,)
        The triples, in any order; equal ones are added up.
    count : array_like of int, shape (n_distinct,)
        How often each was seen; those with 0 are left out.
    n_observations, n_actions : int
        How many there are, those never seen included.

    Attributes
    ----------
    previous, middle, action, next, count : ndarray of int64
        Sorted by action, middle, previous, next, each triple once. Read-only.

    Examples
    --------
    >>> triples = Triples.from_trajectory(Trajectory([0, 1, 0, 1, 0, 2], [0, 1, 0, 1, 0, 0]))
    >>> triples
    Triples(4 samples, 3 distinct, 3 observations, 2 actions)
    >>> triples.select(1).count
    array([2])
    """

    previous: Ints
    middle: Ints
    action: Ints
    next: Ints
    count: Ints
    n_observations: int
    n_actions: int

    def __init__(
        self,
        previous: ArrayLike,
        middle: ArrayLike,
        action: ArrayLike,
        next: ArrayLike,
        count: ArrayLike,
        *,
        n_observations: int,
        n_actions: int,
    ) -> None:
        n_observations = whole_number(n_observations, "n_observations", 1)
        n_actions = whole_number(n_actions, "n_actions", 1)
        given = dict(zip(_COLUMNS, (previous, middle, action, next, count), strict=True))
        highest = dict.fromkeys(_COLUMNS, n_observations - 1)
        highest |= {"action": n_actions - 1, "count": _LARGEST}
        shape = (
            rectangular(previous, "previous").size,
        )  # an exact length, for there may be no triple at all
        columns = [whole_array(given[name], name, shape, 0, highest[name]) for name in _COLUMNS]
        self._set(_merge_equal(columns, n_observations, n_actions), n_observations, n_actions)

    def _set(self, columns: list[Ints], n_observations: int, n_actions: int) -> "Triples":
        """Fill the fields with columns that are sorted and distinct, and return this."""
        for name, column in zip(_COLUMNS, columns, strict=True):
            object.__setattr__(self, name, freeze(column))
        object.__setattr__(self, "n_observations", n_observations)
        object.__setattr__(self, "n_actions", n_actions)
        return self

    @classmethod
    @takes(trajectory=Trajectory)
    def from_trajectory(cls, trajectory: Trajectory) -> "Triples":
        """Count the triples of a trajectory, none of which crosses the end of an episode."""
        columns = list(trajectory.triples())
        columns.append(np.ones(len(columns[0]), np.int64))
        sizes = (trajectory.n_observations, trajectory.n_actions)
        return object.__new__(cls)._set(_merge_equal(columns, *sizes), *sizes)

    @classmethod
    def zeros(cls, n_observations: int, n_actions: int) -> "Triples":
        """Make a set of no triples."""
        return cls([], [], [], [], [], n_observations=n_observations, n_actions=n_actions)

    @property
    def n_distinct(self) -> int:
        """Number of distinct triples."""
        return len(self.count)

    @property
    def n_samples(self) -> int:
        """Number of triples seen."""
        return int(self.count.sum())

    def select(self, action: int) -> "Triples":
        """Return the triples with this action in the middle; they share the arrays."""
        action = whole_number(action, "action", 0, self.n_actions - 1)
        start, stop = np.searchsorted(self.action, [action, action + 1])
        columns = [column[start:stop] for column in self._columns()]
        return object.__new__(Triples)._set(columns, self.n_observations, self.n_actions)

    def relabel(self, partition: Partition) -> "Triples":
        """Return the triples of groups; one with an observation without a group is left out."""
        check_groups(partition, self.n_observations)
        if partition.is_identity:
            return self
        labels = partition.labels
        previous, middle, following = (
            labels[column] for column in (self.previous, self.middle, self.next)
        )
        kept = (previous >= 0) & (middle >= 0) & (following >= 0)
        columns = [
            column[kept] for column in (previous, middle, self.action, following, self.count)
        ]
        sizes = (partition.n_clusters, self.n_actions)
        return object.__new__(Triples)._set(_merge_equal(columns, *sizes), *sizes)

    def __add__(self, other: "Triples") -> "Triples":
        if not isinstance(other, Triples):
            return NotImplemented
        sizes = (self.n_observations, self.n_actions)
        if sizes != (other.n_observations, other.n_actions):
            raise InvalidInputError(
                f"one has {sizes[0]} observations and {sizes[1]} actions, the other "
                f"{other.n_observations} and {other.n_actions}; the sizes must agree"
            )
        columns = [
            np.concatenate(pair) for pair in zip(self._columns(), other._columns(), strict=True)
        ]
        return object.__new__(Triples)._set(_merge_equal(columns, *sizes), *sizes)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Triples):
            return NotImplemented
        sizes = (self.n_observations, self.n_actions)
        return sizes == (other.n_observations, other.n_actions) and all(
            np.array_equal(mine, theirs)
            for mine, theirs in zip(self._columns(), other._columns(), strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # equal by content, and too long to hash

    def __repr__(self) -> str:
        return (
            f"Triples({self.n_samples:,} samples, {self.n_distinct:,} distinct, "
            f"{self.n_observations:,} observations, {self.n_actions} actions)"
        )

    def _columns(self) -> list[Ints]:
        return [getattr(self, name) for name in _COLUMNS]


def _merge_equal(columns: list[Ints], n_observations: int, n_actions: int) -> list[Ints]:
    """Sort the triples and add up the counts of equal ones, leaving out those that are 0."""
    previous, middle, action, following, count = columns
    if n_actions * n_observations**3 <= _LARGEST:
        key = ((action * n_observations + middle) * n_observations + previous) * n_observations
        order = np.argsort(key + following, kind="stable")
    else:  # one key would overflow
        order = np.lexsort((following, previous, middle, action))
    order = order[count[order] > 0]
    if len(order) == 0:
        return [np.empty(0, np.int64) for _ in columns]
    ordered = [column[order] for column in columns]
    differs = np.ones(len(order), bool)
    differs[1:] = np.any([column[1:] != column[:-1] for column in ordered[:4]], axis=0)
    first = np.flatnonzero(differs)
    return [column[first] for column in ordered[:4]] + [np.add.reduceat(ordered[4], first)]
