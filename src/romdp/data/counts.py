"""What is kept of the steps: visits, transitions and rewards of every pair; they add up.

The transitions are an array while that is cheap and a sparse matrix beyond; what a caller may
ask does not depend on which. Counts of observations become counts of groups with
`Counts.group`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import InvalidInputError, TooLargeError
from romdp.core.validation import (
    entry,
    first_index,
    freeze,
    real_array,
    whole_array,
    whole_number,
)
from romdp.data.counting import count_steps
from romdp.data.partition import Partition
from romdp.data.tally import Tally
from romdp.data.trajectory import Trajectory
from romdp.data.transitions import (
    Floats,
    Ints,
    Sparse,
    Transitions,
    check_groups,
    checked_ends,
    checked_sparse,
    compress,
    end_arrays,
    ends_from_arrays,
    group_dense,
    group_ends,
    group_pairs,
    group_sparse,
    is_large,
    refuse_large,
    refuse_negative,
    refuse_negative_sparse,
    sparse_rows,
    transition_arrays,
    transitions_from_arrays,
    with_end,
)

_PAIR_LIMIT = 2**28  # pairs (observation, action): each of three arrays then takes 2 GiB
_LARGEST = 2**53  # of a count: exact as a float, and sums of many of them do not overflow


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Counts:
    """How often each pair (observation, action) was visited, where it led and what it paid.

    Parameters
    ----------
    visits : array_like of int, shape (n_observations, n_actions)
        Steps taken from each pair.
    transitions : array_like of int, shape (n_observations, n_actions, n_observations)
        Steps that led from each pair to each observation; or a SciPy sparse array of shape
        (n_observations * n_actions, n_observations). A step whose next observation is unknown
        counts in ``visits`` and not here.
    reward_sums, reward_squares : array_like, shape (n_observations, n_actions)
        Sum of the rewards of each pair, and of their squares.
    ends : sparse array of int, shape (n_observations * n_actions, n_observations + 1), optional
        Steps of each pair that ended an episode, by the observation that the restart showed; the
        last column is for restarts that are unknown. ``transitions`` holds the others too, since
        an end is also read as leading to its restart. None: no episode ended.

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
    ends: "Sparse | None"

    def __init__(
        self,
        visits: ArrayLike,
        transitions: "ArrayLike | Sparse",
        reward_sums: ArrayLike,
        reward_squares: ArrayLike,
        ends: "Sparse | None" = None,
    ) -> None:
        shape = ("n_observations", "n_actions")
        checked = whole_array(visits, "visits", shape, 0, _LARGEST)
        n_observations, n_actions = checked.shape
        moved: Transitions
        if isinstance(transitions, scipy.sparse.sparray | scipy.sparse.spmatrix):
            moved = checked_sparse(transitions, n_observations, n_actions)
        else:
            full = (n_observations, n_actions, n_observations)
            moved = whole_array(transitions, "transitions", full, 0, _LARGEST)
        sums = real_array(reward_sums, "reward_sums", checked.shape)
        squares = real_array(reward_squares, "reward_squares", checked.shape)
        refuse_negative("reward_squares", squares)
        bad = (checked == 0) & ((sums != 0) | (squares != 0))
        if bad.any():
            where = entry("visits", first_index(bad))
            raise InvalidInputError(f"{where} is 0, but there are rewards; nothing can be paid")
        if ends is not None:
            ends = checked_ends(ends, n_observations, n_actions)
        self._set(checked, moved, sums, squares, ends)
        self._check_visits()
        self._check_ends()

    def _set(
        self,
        visits: Ints,
        transitions: Transitions,
        sums: Floats,
        squares: Floats,
        ends: "Sparse | None",
    ) -> None:
        """Fill the fields; what is passed becomes read-only."""
        if ends is not None and ends.nnz == 0:
            ends = None
        for matrix in (transitions, ends):
            if isinstance(matrix, np.ndarray):
                freeze(matrix)
            elif matrix is not None:
                for part in (matrix.data, matrix.indices, matrix.indptr):
                    freeze(part)
        object.__setattr__(self, "ends", ends)
        object.__setattr__(self, "visits", freeze(visits))
        object.__setattr__(self, "transitions", transitions)
        object.__setattr__(self, "reward_sums", freeze(sums))
        object.__setattr__(self, "reward_squares", freeze(squares))

    @classmethod
    def from_parts(
        cls,
        visits: Ints,
        transitions: Transitions,
        sums: Floats,
        squares: Floats,
        ends: "Sparse | None",
    ) -> "Counts":
        """Wrap arrays that are new and known to be right; they become read-only."""
        counts = object.__new__(cls)
        counts._set(visits, transitions, sums, squares, ends)
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
        ends: "Sparse | None" = None,
    ) -> "Counts":
        """Look at flat arrays that somebody else owns and may go on changing.

        Nothing is copied (except keys and counts), and sizes and dtypes are checked, values not.
        The owner's arrays stay writable; through these counts they are read-only. `copy` takes a
        snapshot.

        Parameters
        ----------
        n_observations, n_actions : int
            The sizes.
        visits, reward_sums, reward_squares : ndarray, shape (n_observations * n_actions,)
            One entry per cell ``observation * n_actions + action``; int64, float64, float64.
        transitions : ndarray of int64, or a pair of them
            One entry per ``cell * n_observations + next_observation``; or such keys, each once,
            and the count of each.
        ends : sparse array, optional
            As for `Counts`.
        """
        cells, pairs = n_observations * n_actions, (n_observations, n_actions)
        for name, array, dtype in (
            ("visits", visits, np.int64),
            ("reward_sums", reward_sums, np.float64),
            ("reward_squares", reward_squares, np.float64),
        ):
            _check_cells(name, array, cells, dtype)
        moved: Transitions
        if isinstance(transitions, tuple):
            rows, columns = np.divmod(transitions[0], n_observations)
            moved = sparse_rows(rows, columns, transitions[1], (cells, n_observations))
        else:
            _check_cells("transitions", transitions, cells * n_observations, np.int64)
            moved = transitions.reshape(*pairs, n_observations)
        return cls.from_parts(
            visits.reshape(pairs),
            moved,
            reward_sums.reshape(pairs),
            reward_squares.reshape(pairs),
            ends,
        )

    @classmethod
    def zeros(cls, n_observations: int, n_actions: int, *, sparse: bool | None = None) -> "Counts":
        """Make counts of no steps; sparse or not as asked, by default as the size demands."""
        n_observations = whole_number(n_observations, "n_observations", 1)
        n_actions = whole_number(n_actions, "n_actions", 1)
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
        return cls.from_parts(
            np.zeros(pairs, np.int64), transitions, np.zeros(pairs), np.zeros(pairs), None
        )

    @classmethod
    def from_trajectory(cls, trajectory: Trajectory, *, sparse: bool | None = None) -> "Counts":
        """Count the steps of a trajectory; one without rewards counts as having paid nothing.

        Where the transitions are sparse, memory is bounded by the number of distinct ones.
        """
        sizes = (trajectory.n_observations, trajectory.n_actions)
        zeros = cls.zeros(*sizes, sparse=sparse)
        visits = zeros.visits.ravel().copy()
        sums, squares = np.zeros(visits.size), np.zeros(visits.size)
        tally = Tally(visits.size * sizes[0], hashed=zeros.is_sparse)
        done = 0
        while done < trajectory.n_steps:
            tally.make_room()
            done = count_steps(
                done,
                trajectory.observations,
                trajectory.actions,
                trajectory.rewards,
                trajectory.next_observations,
                *sizes,
                visits,
                sums,
                squares,
                tally.keys,
                tally.counts,
                tally.journal,
            )
        if trajectory.rewards is not None and not np.isfinite(squares).all():
            raise InvalidInputError(
                f"the squares of rewards up to {np.abs(trajectory.rewards).max():g} are too "
                "large for a float; rescale the rewards"
            )
        counted = tally.counts if tally.is_dense else tally.items(ordered=False)
        return cls.from_cells(*sizes, visits, counted, sums, squares, _ends_of(trajectory))

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
    def ended(self) -> Ints:
        """Number of steps of each pair that ended an episode."""
        if self.ends is None:
            return np.zeros(self.visits.shape, np.int64)
        return np.asarray(self.ends.sum(axis=1), np.int64).reshape(self.visits.shape)

    def outcomes(self) -> Transitions:
        """Return the transitions with the end of an episode as an outcome of its own.

        It is the last of ``n_observations + 1`` columns, and a step that ended an episode is not
        among the transitions to its restart. Sparse if the transitions are.

        Examples
        --------
        >>> seen = Trajectory([0, 1, 0], [0, 0, 0], lengths=[2, 1], final_observations=[0, -1],
        ...                   terminated=[True, False])
        >>> counts = Counts.from_trajectory(seen)
        >>> counts.transitions[:, 0].tolist(), counts.outcomes()[:, 0].tolist()
        ([[0, 1], [1, 0]], [[0, 1, 0], [0, 0, 1]])
        """
        return with_end(self.transitions, self.ends)

    def copy(self) -> "Counts":
        """Return counts with arrays of their own, which follow no owner of `from_cells`."""
        return self.from_parts(
            self.visits.copy(),
            self.transitions.copy(),
            self.reward_sums.copy(),
            self.reward_squares.copy(),
            None if self.ends is None else self.ends.copy(),
        )

    def matrix(self) -> Sparse:
        """Return the transitions as a sparse matrix, one row per pair, however they are kept."""
        if isinstance(self.transitions, np.ndarray):
            return compress(self.transitions.reshape(-1, self.n_observations))
        return self.transitions

    def sparse(self) -> "Counts":
        """Return the same counts with sparse transitions."""
        if self.is_sparse:
            return self
        return self.from_parts(
            self.visits, self.matrix(), self.reward_sums, self.reward_squares, self.ends
        )

    def dense(self) -> "Counts":
        """Return the same counts with the transitions as an array, if that is not too large."""
        if isinstance(self.transitions, np.ndarray):
            return self
        refuse_large(self.n_observations, self.n_actions)
        shape = (self.n_observations, self.n_actions, self.n_observations)
        transitions = self.transitions.toarray().reshape(shape)
        return self.from_parts(
            self.visits, transitions, self.reward_sums, self.reward_squares, self.ends
        )

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
        visits = np.zeros((partition.n_clusters, self.n_actions), np.int64)
        sums, squares = np.zeros(visits.shape), np.zeros(visits.shape)
        group_pairs(self.visits, partition.labels, visits)
        group_pairs(self.reward_sums, partition.labels, sums)
        group_pairs(self.reward_squares, partition.labels, squares)
        ends = self.ends
        if ends is not None:
            (pairs, restarts), labels = ends.tocoo().coords, partition.labels
            size, actions = partition.n_clusters, self.n_actions
            ends = group_ends(pairs, restarts, ends.data, labels, size, actions)
        return Counts.from_parts(visits, transitions, sums, squares, ends)

    def met(self) -> Ints:
        """List the observations that were visited or reached."""
        met: NDArray[np.bool_] = np.asarray(self.visits.any(axis=1))
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
        return self.from_parts(
            self.visits + other.visits,
            mine + theirs,
            self.reward_sums + other.reward_sums,
            self.reward_squares + other.reward_squares,
            _added(self.ends, other.ends),
        )

    def __sub__(self, other: "Counts") -> "Counts":
        """Leave out steps that were counted before."""
        if not isinstance(other, Counts):
            return NotImplemented
        mine, theirs = self._comparable(other)
        visits = self.visits - other.visits
        refuse_negative("visits", visits)
        transitions = mine - theirs
        if isinstance(transitions, np.ndarray):
            refuse_negative("transitions", transitions)
        else:
            refuse_negative_sparse(transitions, self.n_actions)
            transitions.eliminate_zeros()
        # What rounding leaves of a sum whose terms have all gone must not pass for a reward.
        left = visits > 0
        sums = np.where(left, self.reward_sums - other.reward_sums, 0.0)
        squares = np.where(left, np.maximum(self.reward_squares - other.reward_squares, 0.0), 0.0)
        ends = self.ends
        if other.ends is not None:
            ends = _added(self.ends, -other.ends)
            refuse_negative_sparse(ends, self.n_actions, "ends")
            ends.eliminate_zeros()
        counts = self.from_parts(visits, transitions, sums, squares, ends)
        counts._check_visits()
        return counts

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Counts):
            return NotImplemented
        if not (
            np.array_equal(self.visits, other.visits)
            and np.array_equal(self.reward_sums, other.reward_sums)
            and np.array_equal(self.reward_squares, other.reward_squares)
        ):
            return False
        mine, theirs = self.ends, other.ends
        if mine is None or theirs is None:
            if mine is not theirs:
                return False
        elif (mine - theirs).count_nonzero():
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
        arrays: dict[str, NDArray[Any]] = {
            "visits": self.visits,
            "reward_sums": self.reward_sums,
            "reward_squares": self.reward_squares,
        }
        return {**arrays, **transition_arrays(self.transitions), **end_arrays(self.ends)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> "Counts":
        """Rebuild counts from what `arrays` returned; they are checked like any input."""
        try:
            visits, sums, squares = (
                arrays[name] for name in ("visits", "reward_sums", "reward_squares")
            )
            moved = transitions_from_arrays(arrays, visits.shape)
            return cls(visits, moved, sums, squares, ends_from_arrays(arrays, visits.shape))
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
        """Check that no pair has led to more observations than it was visited."""
        if isinstance(self.transitions, np.ndarray):
            led = self.transitions.sum(axis=2)
        else:
            led = self.transitions.sum(axis=1).reshape(self.visits.shape)
        bad = led > self.visits
        if bad.any():
            index = first_index(bad)
            raise InvalidInputError(
                f"{entry('visits', index)} is {self.visits[index]}, but {led[index]} transitions "
                "start there; visits must be at least the sum of transitions over the last axis"
            )

    def _check_ends(self) -> None:
        """Check that no more steps ended than were taken, or led to the restart."""
        if self.ends is None:
            return
        bad = self.ended > self.visits
        if bad.any():
            index = first_index(bad)
            raise InvalidInputError(
                f"{entry('visits', index)} is {self.visits[index]}, but {self.ended[index]} steps "
                "ended an episode there"
            )
        outcomes = self.outcomes()
        values = outcomes if isinstance(outcomes, np.ndarray) else outcomes.data
        if (values < 0).any():
            raise InvalidInputError(
                "ends holds more restarts than transitions has; an end with a known restart is "
                "counted in both"
            )


def _ends_of(trajectory: Trajectory) -> "Sparse | None":
    """Count the ends of episodes by pair and restart."""
    ended = np.flatnonzero(trajectory.terminated)
    if not ended.size:
        return None
    n_observations, n_actions = trajectory.n_observations, trajectory.n_actions
    last = (trajectory.starts + trajectory.lengths - 1)[ended]
    restarts = trajectory.final_observations[ended]
    return sparse_rows(
        trajectory.observations[last] * n_actions + trajectory.actions[last],
        np.where(restarts < 0, n_observations, restarts),
        np.ones(ended.size, np.int64),
        (n_observations * n_actions, n_observations + 1),
    )


def _added(one: "Sparse | None", other: "Sparse | None") -> Any:
    """Add up ends, of which there may be none."""
    if one is None or other is None:
        return one if other is None else other
    return one + other


def _check_cells(name: str, array: NDArray[Any], size: int, dtype: type) -> None:
    if array.shape != (size,) or array.dtype != dtype:
        raise InvalidInputError(
            f"{name} has shape {array.shape} and {array.dtype} entries; it must have shape "
            f"({size},) and {np.dtype(dtype)} entries"
        )
