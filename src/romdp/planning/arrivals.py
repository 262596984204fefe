"""Transitions as the planner wants them: by arrival state, and only rows that say something.

A row of weights (counts or chances) is divided by its own total. A row of zeros is a pair that
nothing is known about: any law is plausible there.
"""

from abc import ABC, abstractmethod
from typing import Any, NoReturn, TypeAlias

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import entry
from romdp.planning import dense, sparse
from romdp.planning.iteration import Floats, Task
from romdp.planning.plan import Plan

Transitions: TypeAlias = NDArray[Any] | scipy.sparse.sparray | scipy.sparse.spmatrix
"""Weights of shape (S, A, S), or sparse ones of shape (S * A, S)."""


class Arrivals(ABC):
    """Transitions by arrival state; `gather` makes them.

    Attributes
    ----------
    shape : tuple of int
        (n_states, n_actions).
    totals : ndarray of float64, shape (n_states, n_actions)
        Sum of each row of weights; zero for rows that were left out.
    """

    shape: tuple[int, int]
    totals: Floats

    @abstractmethod
    def solve_balls(self, task: Task, widths: Floats, spread: Floats) -> Plan:
        """Run extended value iteration inside L1 balls."""

    @abstractmethod
    def solve_intervals(self, task: Task, slopes: Floats, offsets: Floats) -> Plan:
        """Run extended value iteration inside intervals."""

    def _refuse(self, bad: int, row: NDArray[Any]) -> NoReturn:
        """Raise the error of a bad row."""
        wrong = row[~((row >= 0) & (row < np.inf))]
        raise InvalidInputError(
            f"{entry('transitions', divmod(bad, self.shape[1]))} holds {wrong[0]}; counts and "
            "chances must be finite and not negative"
        )


class DenseArrivals(Arrivals):
    """Transitions of an array (S, A, S)."""

    def __init__(self, weights: NDArray[Any], known: NDArray[np.bool_]) -> None:
        self.shape = n_states, _ = known.shape
        rows = np.ascontiguousarray(weights).reshape(-1, n_states)
        self._panels, self._pairs, totals, bad = dense.arrange(rows, known.reshape(-1))
        if bad >= 0:
            self._refuse(bad, rows[bad])
        self.totals = totals.reshape(self.shape)

    def solve_balls(self, task: Task, widths: Floats, spread: Floats) -> Plan:
        """Run extended value iteration inside L1 balls."""
        dense.iterate_balls(task, self._panels, self._pairs, widths.reshape(-1), spread)
        return Plan.of(task)

    def solve_intervals(self, task: Task, slopes: Floats, offsets: Floats) -> Plan:
        """Run extended value iteration inside intervals."""
        lowers, rooms = dense.find_intervals(
            self._panels, self._pairs, slopes.reshape(-1), offsets.reshape(-1)
        )
        dense.iterate_intervals(task, lowers, rooms, self._pairs)
        return Plan.of(task)


class SparseArrivals(Arrivals):
    """Transitions of a sparse array (S * A, S)."""

    def __init__(self, weights: Any, known: NDArray[np.bool_]) -> None:
        self.shape = n_states, _ = known.shape
        matrix = scipy.sparse.csr_array(weights)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()
        rows = sparse.Rows(matrix.indptr, matrix.indices, matrix.data)
        self._lists, self._pairs, totals, bad = sparse.arrange(rows, known.reshape(-1), n_states)
        if bad >= 0:
            self._refuse(bad, matrix.data[matrix.indptr[bad] : matrix.indptr[bad + 1]])
        self.totals = totals.reshape(self.shape)

    def solve_balls(self, task: Task, widths: Floats, spread: Floats) -> Plan:
        """Run extended value iteration inside L1 balls."""
        sparse.iterate_balls(task, self._lists, self._pairs, widths.reshape(-1), spread)
        return Plan.of(task)

    def solve_intervals(self, task: Task, slopes: Floats, offsets: Floats) -> Plan:
        """Run extended value iteration inside intervals."""
        starts, rows, chances = self._lists
        slope = slopes.reshape(-1)[self._pairs]
        offset = np.minimum(offsets.reshape(-1)[self._pairs], 1.0)
        halves = slope[rows] * np.sqrt(np.maximum(chances * (1.0 - chances), 0.0)) + offset[rows]
        lowers = np.maximum(chances - halves, 0.0)
        rooms = np.minimum(chances + halves, 1.0) - lowers
        lists = sparse.Lists(starts, rows, lowers)
        sparse.iterate_intervals(task, lists, rooms, self._pairs, offset)
        return Plan.of(task)


def sizes(transitions: Transitions | Arrivals) -> tuple[int, int]:
    """Return the number of states and of actions that transitions are about."""
    if isinstance(transitions, Arrivals):
        return transitions.shape
    array: Any = transitions  # SciPy's sparse base class does not declare its shape
    shape: tuple[int, ...] = array.shape
    if len(shape) == 3 and shape[0] == shape[2] and min(shape) > 0:
        return shape[0], shape[1]
    if scipy.sparse.issparse(transitions) and len(shape) == 2 and min(shape) > 0:
        n_actions, rest = divmod(shape[0], shape[1])
        if rest == 0:
            return shape[1], n_actions
    raise InvalidInputError(
        f"transitions has shape {shape}; it must be (S, A, S), or sparse of shape (S * A, S)"
    )


def gather(transitions: Transitions, known: NDArray[np.bool_] | None = None) -> Arrivals:
    """Arrange transitions by arrival state.

    Parameters
    ----------
    transitions : ndarray, shape (S, A, S), or sparse array, shape (S * A, S)
        Counts or chances; every row is divided by its own total.
    known : ndarray of bool, shape (S, A), optional
        Rows that matter; in the others any law is plausible, and leaving them out saves time.
    """
    shape = sizes(transitions)
    if known is None:
        known = np.ones(shape, np.bool_)
    elif known.shape != shape or known.dtype != np.bool_:
        raise InvalidInputError(
            f"known is {known.dtype} of shape {known.shape}; it must be bool of shape {shape}"
        )
    return arrange(transitions, np.ascontiguousarray(known))


def arrange(transitions: Transitions, known: NDArray[np.bool_]) -> Arrivals:
    """Arrange transitions whose `sizes` are those of ``known``; `gather` without its checks."""
    if isinstance(transitions, np.ndarray):
        return DenseArrivals(transitions, known)
    return SparseArrivals(transitions, known)
