"""The value iterations: one model, the best model inside L1 balls, the best inside intervals.

A model is ``transitions`` (S, A, S), or sparse of shape (S * A, S), and ``rewards`` (S, A). Each
row of transitions holds counts or probabilities and is divided by its own total. A row of zeros is
a pair that nothing is known about: any law is plausible, so the best state is reached from there.

`value_iteration` solves one model, `extended_value_iteration` the best one inside L1 balls
around the rows, and `interval_value_iteration` the best one inside an interval for every
probability. All three are the same iteration and differ only in the law that a pair may choose. The
optimist's law is found by moving probability in the order of the values (see ``dense`` and
``sparse``).

They maximise the average reward unless they are given another objective. The transitions then have
one more column, for the end of the episode, after which nothing is earned.
"""

from math import sqrt
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Bools, Floats
from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError
from romdp.core.validation import (
    LARGEST_REWARD,
    entry,
    first_index,
    real_array,
    real_number,
    whole_number,
)
from romdp.data.counts import Counts
from romdp.data.transitions import refuse_damaged_sparse
from romdp.exact.objectives import AVERAGE, Objective
from romdp.planning.backup import Arrivals, Iteration, Plan, new_iteration
from romdp.planning.dense import DenseArrivals
from romdp.planning.sparse import SparseArrivals

Transitions: TypeAlias = NDArray[Any] | scipy.sparse.sparray | scipy.sparse.spmatrix
"""Weights of shape (S, A, S), or sparse ones of shape (S * A, S)."""

MAX_SWEEPS = 100_000
"""An iteration gives up after this many sweeps unless it is told otherwise."""

_EVERYWHERE = 2.0  # an L1 ball of this width holds every law


def extended_value_iteration(
    transitions: Transitions | Arrivals,
    rewards: ArrayLike,
    widths: ArrayLike,
    precision: float,
    *,
    start: ArrayLike | None = None,
    max_sweeps: int = MAX_SWEEPS,
    objective: Objective = AVERAGE,
) -> Plan:
    """Find the best policy of the best model whose rows lie within L1 balls.

    This is the extended value iteration of Jaksch, Ortner and Auer (2010, figure 2). In every
    sweep each pair adds half its width to the best state and takes as much from the worst ones.
    It stops when ``L u - u`` has a span below ``precision`` (UCRL2: ``1 / sqrt(t)``).

    Parameters
    ----------
    transitions : ndarray, shape (S, A, S), sparse array, shape (S * A, S), or `Arrivals`
        Counts or probabilities; each row is divided by its own total.
    rewards : array_like, shape (S, A)
        Optimistic mean rewards.
    widths : array_like, shape (S, A)
        The largest L1 distance from the estimate; from 2 on any law is plausible.
    precision : float
        The gain is found to within half of this.
    start : array_like, shape (S,), optional
        Values to begin with, such as those of the last plan. They change how many sweeps are
        needed, but nothing that is guaranteed.
    max_sweeps : int, optional
        The iteration gives up after this many.
    objective : Objective, optional
        What is maximised. Under another one than the average the transitions have S + 1 columns,
        of which the last is the end of the episode, and ``precision`` bounds how much a sweep may
        still change the values.

    Returns
    -------
    Plan
        The plan with the optimistic gain. At width 0 a model may have no single gain; its plan
        has ``converged=False``.

    Examples
    --------
    >>> counts = np.array([[[8, 2], [5, 5]], [[9, 1], [2, 8]]])
    >>> rewards = np.array([[0.0, 0.1], [0.0, 1.0]])
    >>> plan = extended_value_iteration(counts, rewards, np.full((2, 2), 0.2), 1e-6)
    >>> plan.policy, round(plan.gain, 4)
    (array([1, 1]), 0.8714)
    """
    shape = sizes(transitions, objective)
    task = _task(shape, rewards, start, precision, max_sweeps, objective)
    widths = _of_pairs(widths, "widths", shape, low=0.0)
    model = _arranged(transitions, widths < _EVERYWHERE)
    return model.solve_balls(task, widths)


def value_iteration(
    transitions: Transitions | Arrivals,
    rewards: ArrayLike,
    precision: float,
    *,
    start: ArrayLike | None = None,
    max_sweeps: int = MAX_SWEEPS,
    objective: Objective = AVERAGE,
) -> Plan:
    """Find the best policy of one model: extended value iteration with no width.

    Parameters
    ----------
    transitions, rewards, precision, start, max_sweeps, objective
        As for `extended_value_iteration`.

    Returns
    -------
    Plan

    Examples
    --------
    A chain that goes back and forth is periodic, which does no harm:

    >>> plan = value_iteration(np.array([[[0, 1]], [[1, 0]]]), np.array([[0.0], [1.0]]), 1e-9)
    >>> round(plan.gain, 6), plan.converged
    (0.5, True)
    """
    shape = sizes(transitions, objective)
    task = _task(shape, rewards, start, precision, max_sweeps, objective)
    model = _arranged(transitions, np.ones(shape, np.bool_))
    return model.solve_balls(task, np.zeros(shape))


def interval_value_iteration(
    transitions: Transitions | Arrivals,
    rewards: ArrayLike,
    slopes: ArrayLike,
    offsets: ArrayLike,
    precision: float,
    *,
    start: ArrayLike | None = None,
    max_sweeps: int = MAX_SWEEPS,
    objective: Objective = AVERAGE,
) -> Plan:
    """Find the best policy of the best model whose probabilities lie within intervals.

    A probability estimated as ``p`` may be off by ``slope * sqrt(p (1 - p)) + offset`` and lies
    within [0, 1]; the probabilities of a row sum to one. An optimist starts from the lower ends and
    fills up the best state first, then the next.

    Parameters
    ----------
    transitions, rewards, precision, start, max_sweeps, objective
        As for `extended_value_iteration`.
    slopes, offsets : array_like, shape (S, A)
        They give the intervals of a pair; with an offset of 1 or more any law is plausible.

    Returns
    -------
    Plan

    Examples
    --------
    >>> counts = np.array([[[8, 2], [5, 5]], [[9, 1], [2, 8]]])
    >>> rewards = np.array([[0.0, 0.1], [0.0, 1.0]])
    >>> offsets = np.full((2, 2), 0.1)
    >>> plan = interval_value_iteration(counts, rewards, np.zeros((2, 2)), offsets, 1e-6)
    >>> round(plan.gain, 4)
    0.8714
    """
    shape = sizes(transitions, objective)
    task = _task(shape, rewards, start, precision, max_sweeps, objective)
    slopes = _of_pairs(slopes, "slopes", shape, low=0.0)
    offsets = _of_pairs(offsets, "offsets", shape, low=0.0)
    return _arranged(transitions, offsets < 1.0).solve_intervals(task, slopes, offsets)


def support_value_iteration(
    transitions: Transitions | Arrivals,
    rewards: ArrayLike,
    doubt: float,
    precision: float,
    *,
    start: ArrayLike | None = None,
    max_sweeps: int = MAX_SWEEPS,
    objective: Objective = AVERAGE,
) -> Plan:
    """Find the best policy of the best model inside time-uniform intervals (UCRL3).

    The intervals around the probabilities are those of `romdp.TimeUniform`. A pair moves to states
    it has seen, to the best state, and to others only where leaving them out would matter.

    Parameters
    ----------
    transitions, rewards, precision, start, max_sweeps, objective
        As for `extended_value_iteration`, but transitions must be counts.
    doubt : float
        log(1 / d), where d is the probability that any bound on one pair may fail.

    Returns
    -------
    Plan

    Examples
    --------
    >>> counts = np.array([[[80, 20], [50, 50]], [[90, 10], [20, 80]]])
    >>> rewards = np.array([[0.0, 0.1], [0.0, 1.0]])
    >>> round(support_value_iteration(counts, rewards, doubt=5.0, precision=1e-6).gain, 4)
    0.9327
    """
    shape = sizes(transitions, objective)
    task = _task(shape, rewards, start, precision, max_sweeps, objective)
    doubt = real_number(doubt, "doubt", 0.0, open_low=True)
    return _arranged(transitions, np.ones(shape, np.bool_)).solve_time_uniform(task, doubt)


def _arranged(transitions: Transitions | Arrivals, known: Bools) -> Arrivals:
    """Arrange the rows that say anything, unless that was done before."""
    return transitions if isinstance(transitions, Arrivals) else arrange(transitions, known)


@kernel
def _inside(array: Floats, low: float, high: float) -> bool:
    """Whether every entry is finite and within [low, high]."""
    n_bad = 0
    for x in array.flat:
        n_bad += not (low <= x <= high and abs(x) < np.inf)
    return n_bad == 0


def _of_pairs(
    value: ArrayLike,
    name: str,
    shape: tuple[int, int],
    low: float = -np.inf,
    high: float = np.inf,
) -> Floats:
    """Check an array that has one number per pair."""
    array = value if _is_plain(value, shape) else real_array(value, name, shape)
    if not _inside(array, low, high):
        bad = ~((array >= low) & (array <= high) & np.isfinite(array))
        index = first_index(bad)
        raise InvalidInputError(
            f"{entry(name, index)} is {array[index]:g}; it must be finite and lie in "
            f"[{low:g}, {high:g}]"
        )
    return array


def _is_plain(value: ArrayLike, shape: tuple[int, ...]) -> TypeGuard[Floats]:
    """Whether an array can be used as it is: a planner is called too often to copy them all.

    A read-only array is copied, because the kernels would be compiled again for it.
    """
    return (
        isinstance(value, np.ndarray)
        and value.dtype == np.float64
        and value.shape == shape
        and value.flags.carray
    )


def _task(
    shape: tuple[int, int],
    rewards: ArrayLike,
    start: ArrayLike | None,
    precision: float,
    max_sweeps: int,
    objective: Objective,
) -> Iteration:
    """Check what an iteration begins with; for the average the smallest of the values is 0."""
    values = np.zeros(shape[0]) if start is None else real_array(start, "start", shape[:1])
    if objective.is_average:
        values -= values.min()
    # The usual case first: a planner of few states spends its time on checks.
    if not (isinstance(precision, float) and 0.0 < precision < np.inf):
        precision = real_number(precision, "precision", 0.0, open_low=True)
    if max_sweeps != MAX_SWEEPS:
        max_sweeps = whole_number(max_sweeps, "max_sweeps", 1)
    rewards = _of_pairs(rewards, "rewards", shape, -LARGEST_REWARD, LARGEST_REWARD)
    return new_iteration(rewards, values, precision, max_sweeps, objective)


def sizes(transitions: Transitions | Arrivals, objective: Objective = AVERAGE) -> tuple[int, int]:
    """Return the numbers of states and actions of transitions."""
    if isinstance(transitions, Arrivals):
        return transitions.shape
    array: Any = transitions  # SciPy's sparse base class does not declare its shape
    shape: tuple[int, ...] = array.shape
    n_states = shape[-1] - (0 if objective.is_average else 1)  # without the end of an episode
    if len(shape) == 3 and shape[0] == n_states and min(shape) > 0:
        return n_states, shape[1]
    if scipy.sparse.issparse(transitions) and len(shape) == 2 and shape[0] > 0 and n_states > 0:
        n_actions, rest = divmod(shape[0], n_states)
        if rest == 0:
            refuse_damaged_sparse(transitions)
            return n_states, n_actions
    columns = "S" if objective.is_average else "S + 1"
    raise InvalidInputError(
        f"transitions has shape {shape}; it must be (S, A, {columns}), or sparse of shape "
        f"(S * A, {columns})"
    )


def by_arrival(
    transitions: Transitions, known: Bools | None = None, objective: Objective = AVERAGE
) -> Arrivals:
    """Arrange transitions by arrival state.

    Parameters
    ----------
    transitions : ndarray, shape (S, A, S), or sparse array, shape (S * A, S)
        Counts or probabilities; every row is divided by its own total.
    known : ndarray of bool, shape (S, A), optional
        The rows that matter. In the others any law is plausible, and leaving them out saves time.
    objective : Objective, optional
        Under another one than the average there is one more column, the end of an episode.
    """
    shape = sizes(transitions, objective)
    if known is None:
        known = np.ones(shape, np.bool_)
    elif known.shape != shape or known.dtype != np.bool_:
        raise InvalidInputError(
            f"known is {known.dtype} of shape {known.shape}; it must be bool of shape {shape}"
        )
    return arrange(transitions, np.ascontiguousarray(known))


def outcomes(counts: Counts, objective: Objective) -> Any:
    """Return what the steps of each pair led to, as the objective reads it.

    The average reads the end of an episode as the starts. To the others it is the last column.
    """
    return counts.restarted() if objective.is_average else counts.outcomes()


def precision_at(t: int, objective: Objective) -> float:
    """Return how exactly to plan at step ``t``: UCRL2's ``1 / sqrt(t)`` for the average.

    A sum under a discount d may be off by ``d / (1 - d)`` times the precision, so it is a tenth of
    ``1 - d``.
    """
    if objective.is_average or objective.horizon is not None:
        return 1.0 / sqrt(t)
    return 0.1 * (1.0 - objective.rate)


def arrange(transitions: Transitions, known: Bools) -> Arrivals:
    """Arrange transitions whose sizes are those of ``known``: `by_arrival` without its checks."""
    if isinstance(transitions, np.ndarray):
        return DenseArrivals(transitions, known)
    return SparseArrivals(transitions, known)
