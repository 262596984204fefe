"""A grouping of observations: merge it with another, compare the two, relabel.

A group is a set of observations believed to come from one hidden state. An observation may have
no group yet (label -1). Groupings are ordered by `Partition.refines`; the finest grouping
coarser than two others is their `Partition.merge`, which is how partial groups found under
different policies meet (`fig:mappolicy`).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import connected_components

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError, TooLargeError
from romdp.core.text import listed
from romdp.core.validation import (
    check,
    check_memory,
    freeze,
    how_many,
    real_array,
    refuse,
    whole_array,
)

_Table: TypeAlias = "scipy.sparse.csr_array[np.int64, tuple[int, int]]"

_MATCHING_LIMIT = 2**24  # entries of the table of overlaps that the best matching is searched in


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Partition:
    """A grouping of the observations ``0, ..., n_observations - 1``.

    Two partitions are equal if they group alike, whatever the numbers used for the groups.

    Parameters
    ----------
    labels : array_like of int, shape (n_observations,)
        The group of each observation; any whole numbers >= 0, or -1 for "no group yet". They are
        renumbered by first appearance.

    Attributes
    ----------
    labels : ndarray of int64, shape (n_observations,)
        The group of each observation, 0 to ``n_clusters - 1``, or -1. Read-only.
    n_clusters : int
        Number of groups (the observations without one do not count).

    Examples
    --------
    >>> partition = Partition([7, 7, 3, -1, 3])
    >>> partition.labels
    array([ 0,  0,  1, -1,  1])
    >>> partition == Partition([0, 0, 9, -1, 9])
    True
    >>> partition
    Partition(5 observations in 2 groups of 2, 2; 1 in none)
    """

    labels: Ints
    n_clusters: int

    def __init__(self, labels: ArrayLike) -> None:
        given = whole_array(labels, "labels", ("n_observations",), -1, np.iinfo(np.int64).max)
        renumbered, n_clusters = _renumber(given)
        object.__setattr__(self, "labels", freeze(renumbered))
        object.__setattr__(self, "n_clusters", n_clusters)

    @classmethod
    def singletons(cls, n_observations: int) -> "Partition":
        """Put every observation in a group of its own."""
        return cls(np.arange(_checked_size(n_observations)))

    @classmethod
    def trivial(cls, n_observations: int) -> "Partition":
        """Put all observations in one group."""
        return cls(np.zeros(_checked_size(n_observations), np.int64))

    @classmethod
    def unseen(cls, n_observations: int) -> "Partition":
        """Put no observation in any group."""
        return cls(np.full(_checked_size(n_observations), -1))

    @property
    def n_observations(self) -> int:
        """Number of observations, with and without a group."""
        return len(self.labels)

    @property
    def is_identity(self) -> bool:
        """Whether every observation is a group of its own (and so its own label)."""
        return self.n_clusters == self.n_observations

    @cached_property
    def sizes(self) -> Ints:
        """Number of observations in each group."""
        return freeze(np.bincount(self.labels[self.labels >= 0], minlength=self.n_clusters))

    @cached_property
    def members(self) -> tuple[Ints, ...]:
        """The observations of each group, in increasing order.

        Examples
        --------
        >>> Partition([0, 1, 0, -1]).members
        (array([0, 2]), array([1]))
        """
        if self.n_clusters == 0:
            return ()
        order = np.argsort(self.labels, kind="stable")[np.count_nonzero(self.labels < 0) :]
        return tuple(freeze(group) for group in np.split(order, np.cumsum(self.sizes)[:-1]))

    def merge(self, other: "Partition") -> "Partition":
        """Find the finest grouping coarser than both.

        Observations are together if a chain of groups of either links them. An observation
        without a group in one takes the group that the other gives it.

        Examples
        --------
        >>> Partition([0, 0, 1, -1, -1]).merge(Partition([0, 1, 1, 2, -1])).labels
        array([ 0,  0,  0,  1, -1])
        """
        mine, theirs = self.labels, self._comparable(other).labels
        offset = self.n_clusters  # the nodes: my groups, then theirs; an observation is an edge
        both = (mine >= 0) & (theirs >= 0)
        n_nodes = offset + other.n_clusters
        if n_nodes == 0:
            return self
        links = _overlaps(mine[both], theirs[both] + offset, (n_nodes, n_nodes))
        _, component = connected_components(links, directed=False)
        node = np.where(mine >= 0, mine, np.where(theirs >= 0, theirs + offset, -1))
        return Partition(np.where(node >= 0, component[node], -1))

    def refines(self, other: "Partition") -> bool:
        """Tell whether every group of this partition lies inside one group of the other.

        An observation without a group refines anything; an observation with a group does not
        refine "no group". So this is a partial order, and both sides refine their merge.

        Examples
        --------
        >>> Partition([0, 1, 2, -1]).refines(Partition([0, 0, 1, 1]))
        True
        >>> Partition([0, 0, 1]).refines(Partition([0, 0, -1]))
        False
        """
        placed = self.labels >= 0
        mine, theirs = self.labels[placed], self._comparable(other).labels[placed]
        target = np.empty(self.n_clusters, np.int64)
        target[mine] = theirs  # some member's group: the others must agree with it
        return bool((target >= 0).all() and (target[mine] == theirs).all())

    def compose(self, groups: "Partition") -> "Partition":
        """Group the groups: observation y goes where ``groups`` puts the group of y.

        Examples
        --------
        >>> Partition([0, 0, 1, 2]).compose(Partition([0, 1, 0])).labels
        array([0, 0, 1, 0])
        """
        check(groups, "groups", Partition)
        if groups.n_observations != self.n_clusters:
            raise InvalidInputError(
                f"groups places {groups.n_observations} items, but this partition has "
                f"{self.n_clusters} groups; the two numbers must agree"
            )
        return Partition(np.where(self.labels >= 0, groups.labels[self.labels], -1))

    def among(self, places: Ints, n_observations: int) -> "Partition":
        """Take the grouping of some observations to all; the others have no group.

        ``places`` holds the number of each among all, ascending, so labels need not change.

        Examples
        --------
        >>> Partition([0, 1, 0]).among(np.array([1, 2, 4]), 5).labels
        array([-1,  0,  1, -1,  0])
        """
        labels = np.full(n_observations, -1, np.int64)
        labels[places] = self.labels
        wide = object.__new__(Partition)
        object.__setattr__(wide, "labels", freeze(labels))
        object.__setattr__(wide, "n_clusters", self.n_clusters)
        return wide

    def contingency(self, other: "Partition") -> _Table:
        """Count the observations in each pair of groups, one of each partition.

        Observations without a group in either are left out.

        Returns
        -------
        scipy.sparse.csr_array of int64, shape (self.n_clusters, other.n_clusters)
        """
        theirs = self._comparable(other).labels
        both = (self.labels >= 0) & (theirs >= 0)
        return _overlaps(self.labels[both], theirs[both], (self.n_clusters, other.n_clusters))

    def adjusted_rand_index(self, other: "Partition") -> float:
        """Measure agreement on pairs of observations, adjusted for chance (Hubert and Arabie 1985).

        1 for equal groupings, 0 on average for unrelated ones. Observations without a group in
        either partition are left out; where no pair can tell the two apart the index is 1.

        Examples
        --------
        >>> round(Partition([0, 0, 1, 1]).adjusted_rand_index(Partition([0, 0, 1, 2])), 4)
        0.5714
        """
        from sklearn.metrics import adjusted_rand_score  # slow to import

        theirs = self._comparable(other).labels
        both = (self.labels >= 0) & (theirs >= 0)
        return float(adjusted_rand_score(self.labels[both], theirs[both]))

    def misclassification(self, other: "Partition", weights: ArrayLike | None = None) -> float:
        """Measure the smallest share of observations to move to make the two groupings equal.

        Groups are matched one to one so that as much as possible agrees; what lies outside the
        matched pairs is wrong. An observation with a group in only one of the two is wrong (who
        does not answer is not right); one that has none in both is left out.

        Parameters
        ----------
        other : Partition
            A grouping of the same observations, say the truth.
        weights : array_like, shape (n_observations,), optional
            How much each observation counts; by default all count the same.

        Examples
        --------
        >>> Partition([0, 0, 1, 1]).misclassification(Partition([0, 0, 0, 1]))
        0.25
        >>> Partition([0, 0, 1, -1]).misclassification(Partition([0, 0, 1, 1]), [1, 1, 1, 0])
        0.0
        """
        from scipy.optimize import linear_sum_assignment

        mine, theirs = self.labels, self._comparable(other).labels
        shape = (self.n_clusters, other.n_clusters)
        weight = _checked_weights(weights, self.n_observations)
        total = float(weight[(mine >= 0) | (theirs >= 0)].sum())
        if total == 0:
            return 0.0
        if shape[0] * shape[1] > _MATCHING_LIMIT:
            raise TooLargeError(
                f"matching {shape[0]} with {shape[1]} groups needs a table of "
                f"{shape[0] * shape[1]:,} entries; compare by adjusted_rand_index instead"
            )
        both = (mine >= 0) & (theirs >= 0)
        cells = mine[both] * shape[1] + theirs[both]
        table = np.bincount(cells, weight[both], shape[0] * shape[1]).reshape(shape)
        agreed = float(table[linear_sum_assignment(table, maximize=True)].sum())
        return max(0.0, 1.0 - agreed / total)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return np.array_equal(self.labels, other.labels)

    def __hash__(self) -> int:
        return hash(self.labels.tobytes())

    def __repr__(self) -> str:
        largest = np.sort(self.sizes)[::-1]
        groups = f"{self.n_clusters} group{'' if self.n_clusters == 1 else 's'}"
        sizes = f" of {listed(largest.tolist())}" if len(largest) else ""
        n_unplaced = self.n_observations - int(self.sizes.sum())
        unplaced = f"; {n_unplaced} in none" if n_unplaced else ""
        return f"Partition({self.n_observations} observations in {groups}{sizes}{unplaced})"

    def _comparable(self, other: "Partition") -> "Partition":
        """Check that the other one groups the same observations, and return it."""
        check(other, "other", Partition)
        if other.n_observations != self.n_observations:
            raise InvalidInputError(
                f"the other partition has {other.n_observations} observations, this one "
                f"{self.n_observations}; both must group the same observations"
            )
        return other


def _checked_size(n_observations: int) -> int:
    check_memory("labels (n_observations)", how_many(n_observations, "n_observations"), copies=8)
    return int(n_observations)


def _renumber(labels: Ints) -> tuple[Ints, int]:
    """Give the labels numbers by first appearance, -1 kept, and count them."""
    placed = labels >= 0
    _, first, inverse = np.unique(labels[placed], return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    renumbered = np.full(len(labels), -1, np.int64)
    renumbered[placed] = rank[inverse]
    return renumbered, len(first)


def _overlaps(rows: Ints, columns: Ints, shape: tuple[int, int]) -> _Table:
    """Count equal (row, column) pairs in a sparse matrix."""
    ones = np.ones(len(rows), np.int64)
    table: _Table = scipy.sparse.coo_array((ones, (rows, columns)), shape=shape).tocsr()
    return table


def _checked_weights(weights: ArrayLike | None, n_observations: int) -> Floats:
    """Check the weights of the observations; without any, all weigh one."""
    if weights is None:
        return np.ones(n_observations)
    array = real_array(weights, "weights", (n_observations,))
    refuse(array < 0, "weights", array, "weights must not be negative")
    if not array.any():
        raise InvalidInputError("all weights are 0; at least one observation must count")
    return array
