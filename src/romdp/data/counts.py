"""What is kept of the steps: visits, transitions and rewards of every pair; they add up.

The transitions are an array while that is cheap and a sparse matrix beyond; what a caller may
ask does not depend on which. The end of an episode is one more place that a step may lead to, and
where episodes begin is counted beside it. Counts of observations become counts of groups with
`Counts.group`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Bools, Floats, Ints
from romdp.core.errors import InvalidInputError, TooLargeError
from romdp.core.validation import (
    LARGEST_REWARD,
    check,
    entry,
    first_index,
    flag,
    freeze,
    how_many,
    real_array,
    refuse,
    takes,
    whole_array,
)
from romdp.data.partition import Partition
from romdp.data.trajectory import END, Trajectory
from romdp.data.transitions import (
    Sparse,
    Transitions,
    append_end,
    check_groups,
    checked_sparse,
    compress,
    group_dense,
    group_observations,
    group_pairs,
    group_sparse,
    is_large,
    refuse_large,
    refuse_negative_sparse,
    sparse_rows,
    transition_arrays,
    transitions_from_arrays,
)

_PAIR_LIMIT = 2**28  # pairs (observation, action): each of three arrays then takes 2 GiB
LARGEST = 2**53
"""Of a count: exact as a float, and sums of many of them do not overflow."""

_NEGATIVE = "it must not be negative"

PER_PAIR = ("visits", "reward_sums", "reward_squares", "ends")
"""The fields of `Counts` that hold one number for each pair (observation, action)."""

_PLAIN = (*PER_PAIR, "starts")


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Counts:
    """How often each pair (observation, action) was visited, where it led and what it paid.

    Parameters
    ----------
    visits : array_like of int, shape (n_observations, n_actions)
        Steps taken from each pair.
    transitions : array_like of int, shape (n_observations, n_actions, n_observations)
        Steps that led from each pair to each observation; or a SciPy sparse array of shape
        (n_observations * n_actions, n_observations). A step whose next observation is unknown, or
        that ended an episode, counts in ``visits`` and not here.
    reward_sums, reward_squares : array_like, shape (n_observations, n_actions)
        Sum of the rewards of each pair, and of their squares.
    ends : array_like of int, shape (n_observations, n_actions), optional
        Steps of each pair that ended an episode; by default none did.
    starts : array_like of int, shape (n_observations,), optional
        Episodes that began with each observation; by default none is known.

    Notes
    -----
    The arrays are checked, copied and made read-only; `Counts.from_cells` wraps arrays as they are.

    Examples
    --------
    >>> counts = Counts.from_trajectory(Trajectory([0, 1, 0, 2], [0, 0, 1, 0], [1, 0, 1, 1]))
    >>> counts
    Counts(4 steps, 3 observations, 2 actions, dense)
    >>> counts.group(Partition([0, 0, 1])).transitions[:, 0]
    array([[2, 0],
           [0, 0]])
    """

    visits: Ints
    transitions: Transitions
    reward_sums: Floats
    reward_squares: Floats
    ends: Ints
    starts: Ints

    def __init__(
        self,
        visits: ArrayLike,
        transitions: "ArrayLike | Sparse",
        reward_sums: ArrayLike,
        reward_squares: ArrayLike,
        ends: ArrayLike | None = None,
        starts: ArrayLike | None = None,
    ) -> None:
        shape = ("n_observations", "n_actions")
        checked = whole_array(visits, "visits", shape, 0, LARGEST)
        n_observations, n_actions = checked.shape
        moved: Transitions
        if isinstance(transitions, scipy.sparse.sparray | scipy.sparse.spmatrix):
            moved = checked_sparse(transitions, n_observations, n_actions)
        else:
            full = (n_observations, n_actions, n_observations)
            moved = whole_array(transitions, "transitions", full, 0, LARGEST)
        sums = real_array(reward_sums, "reward_sums", checked.shape)
        squares = real_array(reward_squares, "reward_squares", checked.shape)
        refuse(squares < 0, "reward_squares", squares, _NEGATIVE)
        most = LARGEST_REWARD * np.maximum(checked, 1)
        must = f"no reward may be larger than {LARGEST_REWARD:g}"
        refuse(np.abs(sums) > most, "reward_sums", sums, must)
        refuse(squares / LARGEST_REWARD > most, "reward_squares", squares, must)
        bad = (checked == 0) & ((sums != 0) | (squares != 0))
        if bad.any():
            where = entry("visits", first_index(bad))
            raise InvalidInputError(f"{where} is 0, but there are rewards; nothing can be paid")
        ended, begun = np.zeros_like(checked), np.zeros(n_observations, np.int64)
        if ends is not None:
            ended = whole_array(ends, "ends", checked.shape, 0, LARGEST)
        if starts is not None:
            begun = whole_array(starts, "starts", begun.shape, 0, LARGEST)
        self._set(checked, moved, sums, squares, ended, begun)
        self._check_visits()

    def _set(self, visits: Ints, transitions: Transitions, *rest: NDArray[Any]) -> None:
        """Fill the fields, in the order of `from_parts`; what is passed becomes read-only."""
        if isinstance(transitions, np.ndarray):
            freeze(transitions)
        else:
            for part in (transitions.data, transitions.indices, transitions.indptr):
                freeze(part)
        object.__setattr__(self, "transitions", transitions)
        for name, array in zip(_PLAIN, (visits, *rest), strict=True):
            object.__setattr__(self, name, freeze(array))

    @classmethod
    def from_parts(
        cls,
        visits: Ints,
        transitions: Transitions,
        reward_sums: Floats,
        reward_squares: Floats,
        ends: Ints,
        starts: Ints,
    ) -> "Counts":
        """Wrap arrays that are new and known to be right; they become read-only."""
        counts = object.__new__(Counts)
        counts._set(visits, transitions, reward_sums, reward_squares, ends, starts)
        return counts

    @classmethod
    def from_cells(
        cls,
        n_observations: int,
        n_actions: int,
        visits: Ints,
        transitions: Ints | tuple[Ints, Ints],
        reward_sums: Floats,
        reward_squares: Floats,
        ends: Ints,
        starts: Ints,
    ) -> "Counts":
        """Look at flat arrays that somebody else owns and may go on changing.

        Nothing is copied (except keys and counts). Sizes, dtypes and keys are checked, counts not.
        The owner's arrays stay writable; through these counts they are read-only. `copy` takes a
        snapshot.

        Parameters
        ----------
        n_observations, n_actions : int
            The sizes.
        visits, reward_sums, reward_squares, ends : ndarray, shape (n_observations * n_actions,)
            One entry per cell ``observation * n_actions + action``; int64, float64, float64, int64.
        transitions : ndarray of int64, or a pair of them
            One entry per ``cell * n_observations + next_observation``; or such keys, each once,
            and the count of each.
        starts : ndarray of int64, shape (n_observations,)
            As for `Counts`.
        """
        cells, pairs = n_observations * n_actions, (n_observations, n_actions)
        per_pair: tuple[NDArray[Any], ...] = (visits, reward_sums, reward_squares, ends)
        dtypes = (np.int64, np.float64, np.float64, np.int64)
        for name, array, dtype in zip(PER_PAIR, per_pair, dtypes, strict=True):
            _check_cells(name, array, cells, dtype)
        _check_cells("starts", starts, n_observations, np.int64)
        moved: Transitions
        if isinstance(transitions, tuple):
            _check_keys(*transitions, cells * n_observations)
            rows, columns = np.divmod(transitions[0], n_observations)
            moved = sparse_rows(rows, columns, transitions[1], (cells, n_observations))
        else:
            _check_cells("transitions", transitions, cells * n_observations, np.int64)
            moved = transitions.reshape(*pairs, n_observations)
        plain = zip(PER_PAIR, (array.reshape(pairs) for array in per_pair), strict=True)
        return cls.from_parts(transitions=moved, starts=starts.view(), **dict(plain))

    @classmethod
    def zeros(cls, n_observations: int, n_actions: int, *, sparse: bool | None = None) -> "Counts":
        """Make counts of no steps; sparse or not as asked, by default as the size demands."""
        n_observations = how_many(n_observations, "n_observations")
        n_actions = how_many(n_actions, "n_actions")
        check(sparse, "sparse", None, flag)
        pairs = (n_observations, n_actions)
        if n_observations * n_actions > _PAIR_LIMIT:
            raise TooLargeError(
                f"{n_observations:,} observations with {n_actions:,} actions are more than "
                f"{_PAIR_LIMIT:,} pairs; number the observations that occur from 0 without gaps"
            )
        transitions: Transitions
        if is_large(*pairs) if sparse is None else sparse:
            transitions = scipy.sparse.csr_array(
                (n_observations * n_actions, n_observations), dtype=np.int64
            )
        else:
            refuse_large(*pairs)
            transitions = np.zeros((*pairs, n_observations), np.int64)
        none = np.zeros(pairs, np.int64)
        starts = np.zeros(n_observations, np.int64)
        return cls.from_parts(
            none, transitions, np.zeros(pairs), np.zeros(pairs), none.copy(), starts
        )

    @classmethod
    @takes(trajectory=Trajectory)
    def from_trajectory(cls, trajectory: Trajectory, *, sparse: bool | None = None) -> "Counts":
        """Count the steps of a trajectory; one without rewards counts as having paid nothing."""
        sizes = (trajectory.n_observations, trajectory.n_actions)
        zeros, following = cls.zeros(*sizes, sparse=sparse), trajectory.next_observations
        n_cells, rewards = zeros.visits.size, trajectory.rewards
        cells = trajectory.observations * sizes[1] + trajectory.actions
        visits = np.bincount(cells, minlength=n_cells)
        sums, squares = np.zeros((2, n_cells))
        if rewards is not None:
            with np.errstate(over="ignore"):
                sums = np.bincount(cells, rewards, n_cells).astype(np.float64, copy=False)
                squares = np.bincount(cells, rewards**2, n_cells).astype(np.float64, copy=False)
        moved = following >= 0
        keys = cells[moved] * sizes[0] + following[moved]
        counted: Ints | tuple[Ints, Ints]
        if zeros.is_sparse:
            counted = np.unique(keys, return_counts=True)
        else:
            counted = np.bincount(keys, minlength=n_cells * sizes[0])
        ends = np.bincount(cells[following == END], minlength=n_cells)
        starts = np.bincount(trajectory.first_observations, minlength=sizes[0])
        return cls.from_cells(*sizes, visits, counted, sums, squares, ends, starts)

    @property
    def n_observations(self) -> int:
        """Number of observations, or of groups."""
        return len(self.visits)

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.visits.shape[1])

    @property
    def n_steps(self) -> int:
        """Number of steps counted."""
        return int(self.visits.sum())

    @property
    def n_transitions(self) -> int:
        """Number of steps counted of which it is known where they led."""
        return int(self.transitions.sum())

    @property
    def is_sparse(self) -> bool:
        """Whether the transitions are a sparse matrix."""
        return not isinstance(self.transitions, np.ndarray)

    @property
    def reward_means(self) -> Floats:
        """Mean reward of each pair; 0 where it was never visited."""
        return self.reward_sums / np.maximum(self.visits, 1)

    @property
    def has_ends(self) -> bool:
        """Whether some step ended an episode."""
        return bool(self.ends.any())

    def outcomes(self) -> Transitions:
        """Return the transitions with one more column: the end of an episode, a place like others.

        Sparse if the transitions are.

        Examples
        --------
        >>> seen = Trajectory([0, 1, 0], [0, 0, 0], lengths=[2, 1], terminated=[True, False])
        >>> Counts.from_trajectory(seen).outcomes()[:, 0].tolist()
        [[0, 1, 0], [0, 0, 1]]
        """
        return append_end(self.transitions, self.ends)

    def restarted(self) -> Any:
        """Return the transitions of somebody who goes on for ever: an end leads to the starts.

        Each end counts as leading to where episodes begin, in shares of one step; without any,
        these are the transitions. Sparse if the transitions are.

        Examples
        --------
        >>> seen = Trajectory([0, 1, 0], [0, 0, 0], lengths=[2, 1], terminated=[True, False])
        >>> Counts.from_trajectory(seen).restarted()[:, 0].tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        """
        if not self.has_ends:
            return self.transitions
        starts = self.starts if self.starts.any() else self.visits.sum(axis=1)
        shares = starts / starts.sum()
        if isinstance(self.transitions, np.ndarray):
            return self.transitions + self.ends[..., None] * shares
        ends = scipy.sparse.csr_array(self.ends.reshape(-1, 1).astype(np.float64))
        again = ends @ scipy.sparse.csr_array(shares[None])
        return scipy.sparse.csr_array(self.transitions + again)

    def copy(self) -> "Counts":
        """Return counts with arrays of their own, which follow no owner of `from_cells`."""
        plain = {name: array.copy() for name, array in self._plain().items()}
        return self.from_parts(transitions=self.transitions.copy(), **plain)

    def _plain(self) -> dict[str, NDArray[Any]]:
        """Return all fields but the transitions."""
        return {name: getattr(self, name) for name in _PLAIN}

    def matrix(self) -> Sparse:
        """Return the transitions as a sparse matrix, one row per pair, however they are kept."""
        if isinstance(self.transitions, np.ndarray):
            return compress(self.transitions.reshape(-1, self.n_observations))
        return self.transitions

    def sparse(self) -> "Counts":
        """Return the same counts with sparse transitions."""
        if self.is_sparse:
            return self
        return self.from_parts(transitions=self.matrix(), **self._plain())

    def dense(self) -> "Counts":
        """Return the same counts with the transitions as an array, if that is not too large."""
        if isinstance(self.transitions, np.ndarray):
            return self
        refuse_large(self.n_observations, self.n_actions)
        shape = (self.n_observations, self.n_actions, self.n_observations)
        transitions = self.transitions.toarray().reshape(shape)
        return self.from_parts(transitions=transitions, **self._plain())

    @property
    def reward_unit(self) -> float:
        """The size of rewards, a power of two: to divide by it is exact; 1 if all are 0 or 1."""
        if np.array_equal(self.reward_squares, self.reward_sums):
            return 1.0
        size = np.sqrt((self.reward_squares / np.maximum(self.visits, 1)).max(initial=0.0))
        return float(2.0 ** np.rint(np.log2(size))) if size > 0.0 else 1.0

    def in_units(self, unit: float) -> "Counts":
        """Return the same counts with rewards divided by a unit."""
        sums, squares = self.reward_sums / unit, self.reward_squares / unit / unit
        plain = self._plain() | {"reward_sums": sums, "reward_squares": squares}
        return self.from_parts(transitions=self.transitions, **plain)

    def group(self, partition: Partition, transitions: "Transitions | None" = None) -> "Counts":
        """Count groups instead of observations.

        What happened at observations without a group is left out. A step that led into one
        keeps its visit and its reward and loses its transition, as if truncated. The transitions
        become an array as soon as there are few enough groups. If every observation is a group
        of its own the result is these counts themselves, not a copy.

        Parameters
        ----------
        partition
            The groups.
        transitions
            The transitions of the groups, if somebody has added them up already.
        """
        check_groups(partition, self.n_observations)
        if partition.is_identity:
            return self
        if transitions is None:
            transitions = self.group_transitions(partition)
        size, labels = partition.n_clusters, partition.labels
        grouped = {name: group_pairs(getattr(self, name), labels, size) for name in PER_PAIR}
        starts = group_observations(self.starts, labels, size)
        return self.from_parts(transitions=transitions, starts=starts, **grouped)

    def met(self) -> Ints:
        """List the observations that were visited or reached."""
        met: Bools = np.asarray(self.visits.any(axis=1))
        met[self.matrix().indices] = True
        return np.flatnonzero(met)

    def restrict(self, chosen: Ints) -> "Counts":
        """Keep some observations alone, renumbered in the order given."""
        labels = np.full(self.n_observations, -1)
        labels[chosen] = np.arange(len(chosen))
        return self.group(Partition(labels))

    def group_transitions(self, partition: Partition) -> Transitions:
        """Add the transitions up to those of groups."""
        n_groups, n_actions, labels = partition.n_clusters, self.n_actions, partition.labels
        if isinstance(self.transitions, np.ndarray):
            transitions = np.zeros((n_groups, n_actions, n_groups), np.int64)
            group_dense(self.transitions, self.visits, labels, transitions)
            return transitions
        large = is_large(n_groups, n_actions)
        return group_sparse(self.transitions, labels, n_groups, n_actions, large)

    def __add__(self, other: "Counts") -> "Counts":
        if not isinstance(other, Counts):
            return NotImplemented
        mine, theirs = self._comparable(other)
        sums = {name: array + getattr(other, name) for name, array in self._plain().items()}
        return self.from_parts(transitions=mine + theirs, **sums)

    def __sub__(self, other: "Counts") -> "Counts":
        """Leave out steps that were counted before."""
        if not isinstance(other, Counts):
            return NotImplemented
        mine, theirs = self._comparable(other)
        left = {name: array - getattr(other, name) for name, array in self._plain().items()}
        for name in ("visits", "ends", "starts"):
            refuse(left[name] < 0, name, left[name], _NEGATIVE)
        transitions = mine - theirs
        if isinstance(transitions, np.ndarray):
            refuse(transitions < 0, "transitions", transitions, _NEGATIVE)
        else:
            refuse_negative_sparse(transitions, self.n_actions)
            transitions.eliminate_zeros()
        # What rounding leaves of a sum whose terms have all gone must not pass for a reward.
        for name, least in (("reward_sums", -np.inf), ("reward_squares", 0.0)):
            left[name] = np.where(left["visits"] > 0, np.maximum(left[name], least), 0.0)
        counts = self.from_parts(transitions=transitions, **left)
        counts._check_visits()
        return counts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        if not all(np.array_equal(a, getattr(other, name)) for name, a in self._plain().items()):
            return False
        moved, also = self._comparable(other)
        if isinstance(moved, np.ndarray):
            return np.array_equal(moved, also)
        return bool((moved != also).nnz == 0)

    __hash__ = None  # type: ignore[assignment]  # equal by content, which may be a changing view

    def __repr__(self) -> str:
        return (
            f"Counts({self.n_steps:,} steps, {self.n_observations:,} observations, "
            f"{self.n_actions} actions, {'sparse' if self.is_sparse else 'dense'})"
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return plain arrays for a checkpoint, as `from_arrays` takes them."""
        return {**self._plain(), **transition_arrays(self.transitions)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Counts":
        """Rebuild counts from what `arrays` returned; they are checked like any input."""
        try:
            visits, *rest = (arrays[name] for name in _PLAIN)
            return cls(visits, transitions_from_arrays(arrays, visits.shape), *rest)
        except KeyError as error:
            raise InvalidInputError(f"the arrays of the counts lack {error}") from None

    def _comparable(self, other: "Counts") -> tuple[Any, Any]:
        """Return the transitions of both in one form: arrays if both are, else sparse."""
        if self.visits.shape != other.visits.shape:
            raise InvalidInputError(
                f"one has {self.n_observations} observations and {self.n_actions} actions, the "
                f"other {other.n_observations} and {other.n_actions}; the sizes must agree"
            )
        if self.is_sparse or other.is_sparse:
            return self.matrix(), other.matrix()
        return self.transitions, other.transitions

    def _check_visits(self) -> None:
        """Check that no pair has led to more places than it was visited."""
        if isinstance(self.transitions, np.ndarray):
            led = self.transitions.sum(axis=2)
        else:
            led = self.transitions.sum(axis=1).reshape(self.visits.shape)
        bad = led + self.ends > self.visits
        if bad.any():
            index = first_index(bad)
            raise InvalidInputError(
                f"{entry('visits', index)} is {self.visits[index]}, but {led[index]} transitions "
                f"and {self.ends[index]} ends start there; visits must be at least the sum of both"
            )


def _check_keys(keys: Ints, count: Ints, n_keys: int) -> None:
    _check_cells("transitions", count, keys.size, np.int64)
    _check_cells("transitions", keys, keys.size, np.int64)
    if keys.size and not 0 <= keys.min() <= keys.max() < n_keys:
        raise InvalidInputError(f"transitions must have keys from 0 to {n_keys - 1}")


def _check_cells(name: str, array: NDArray[Any], size: int, dtype: type) -> None:
    if array.shape != (size,) or array.dtype != dtype:
        raise InvalidInputError(
            f"{name} has shape {array.shape} and {array.dtype} entries; it must have shape "
            f"({size},) and {np.dtype(dtype)} entries"
        )
