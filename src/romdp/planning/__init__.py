"""Value iteration and extended value iteration, compiled, on plain arrays.

A model is ``transitions`` (S, A, S), or sparse of shape (S * A, S), and ``rewards`` (S, A). Each
row of transitions holds counts or chances and is divided by its own total; a row of zeros is a
pair that nothing is known about, from where the best state is reached.

`value_iteration` solves one model, `extended_value_iteration` the best one inside L1 balls
around the rows, `interval_value_iteration` the best one inside an interval for every chance.
All are the same iteration and differ in the law a pair may choose; the optimist's law is found
by moving chance in the order of the values (see ``dense`` and ``sparse``).
"""

from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError
from romdp.core.validation import entry, first_index, real_array, real_number, whole_number
from romdp.planning.arrivals import Arrivals, Transitions, arrange, gather, sizes
from romdp.planning.iteration import Floats, Task, new_task
from romdp.planning.plan import Plan

__all__ = [
    "MAX_SWEEPS",
    "Arrivals",
    "Plan",
    "Transitions",
    "extended_value_iteration",
    "gather",
    "interval_value_iteration",
    "value_iteration",
]

MAX_SWEEPS = 100_000
"""Sweeps after which an iteration gives up unless it is told otherwise."""

_EVERYWHERE = 2.0  # an L1 ball of this width holds every law
_NO_SPREAD: Floats = np.empty(0)


def extended_value_iteration(
    transitions: Transitions | Arrivals,
    rewards: ArrayLike,
    widths: ArrayLike,
    precision: float,
    *,
    start: ArrayLike | None = None,
    max_sweeps: int = MAX_SWEEPS,
) -> Plan:
    """Find the best policy of the best model whose rows lie within L1 balls.

    Extended value iteration of Jaksch, Ortner and Auer (2010, figure 2): in every sweep each pair
    adds half its width to the best state and takes as much from the worst ones, and goes on until
    ``L u - u`` has a span below ``precision`` (UCRL2: ``1 / sqrt(t)``).

    Parameters
    ----------
    transitions : ndarray, shape (S, A, S), sparse array, shape (S * A, S), or `Arrivals`
        Counts or chances; see the module.
    rewards : array_like, shape (S, A)
        Rewards, already optimistic.
    widths : array_like, shape (S, A)
        Largest L1 distance from the estimate; at 2 and more any law is plausible.
    precision : float
        The gain is sought within half of this.
    start : array_like, shape (S,), optional
        Values to begin with, such as those of the last plan. They change the number of sweeps and
        not what is guaranteed.
    max_sweeps : int, optional
        When to give up.

    Returns
    -------
    Plan
        With the optimistic gain. At width 0 a model may have no single gain; its plan comes with
        ``converged=False``.

    Examples
    --------
    >>> counts = np.array([[[8, 2], [5, 5]], [[9, 1], [2, 8]]])
    >>> rewards = np.array([[0.0, 0.1], [0.0, 1.0]])
    >>> plan = extended_value_iteration(counts, rewards, np.full((2, 2), 0.2), 1e-6)
    >>> plan.policy, round(plan.gain, 4)
    (array([1, 1]), 0.8714)
    """
    shape = sizes(transitions)
    task = _task(shape, rewards, start, precision, max_sweeps)
    widths = _of_pairs(widths, "widths", shape, low=0.0)
    model = _arranged(transitions, widths < _EVERYWHERE)
    return model.solve_balls(task, widths, _NO_SPREAD)


def value_iteration(
    transitions: Transitions | Arrivals,
    rewards: ArrayLike,
    precision: float,
    *,
    spread: ArrayLike | None = None,
    start: ArrayLike | None = None,
    max_sweeps: int = MAX_SWEEPS,
) -> Plan:
    """Find the best policy of one model: extended value iteration with no width.

    Parameters
    ----------
    transitions, rewards, precision, start, max_sweeps
        As for `extended_value_iteration`.
    spread : array_like, shape (S, A), optional
        Chance that a pair jumps to a state drawn uniformly from all, whatever its row says: a law
        that is a few entries and a constant stays sparse.

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
    shape = sizes(transitions)
    task = _task(shape, rewards, start, precision, max_sweeps)
    jumps = _NO_SPREAD
    if spread is not None:
        jumps = _of_pairs(spread, "spread", shape, low=0.0, high=1.0).reshape(-1)
    return _arranged(transitions, np.ones(shape, np.bool_)).solve_balls(
        task, np.zeros(shape), jumps
    )


def interval_value_iteration(
    transitions: Transitions | Arrivals,
    rewards: ArrayLike,
    slopes: ArrayLike,
    offsets: ArrayLike,
    precision: float,
    *,
    start: ArrayLike | None = None,
    max_sweeps: int = MAX_SWEEPS,
) -> Plan:
    """Find the best policy of the best model whose chances lie within intervals.

    A chance estimated as ``p`` may be ``slope * sqrt(p (1 - p)) + offset`` off, and lies within
    [0, 1]; the chances of a row sum to one. An optimist starts at the lower ends and fills up the
    best state first, then the next.

    Parameters
    ----------
    transitions, rewards, precision, start, max_sweeps
        As for `extended_value_iteration`.
    slopes, offsets : array_like, shape (S, A)
        What makes the intervals of a pair; an offset of 1 or more makes any law plausible.

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
    shape = sizes(transitions)
    task = _task(shape, rewards, start, precision, max_sweeps)
    slopes = _of_pairs(slopes, "slopes", shape, low=0.0)
    offsets = _of_pairs(offsets, "offsets", shape, low=0.0)
    return _arranged(transitions, offsets < 1.0).solve_intervals(task, slopes, offsets)


def _arranged(transitions: Transitions | Arrivals, known: NDArray[np.bool_]) -> Arrivals:
    """Arrange the rows that leave anything to know, unless that is done."""
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
    """Check an array that has one number for each pair."""
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
    """Whether an array can be used as it is: a planner is called too often to copy it.

    A read-only one is copied, because the kernels would be compiled once more for it.
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
) -> Task:
    """Check what an iteration begins with; the smallest value is put at zero."""
    if start is None:
        values = np.zeros(shape[0])
    else:
        values = real_array(start, "start", shape[:1])
        values -= values.min()
    # The usual case first: a planner of few states spends its time on checks.
    if not (isinstance(precision, float) and 0.0 < precision < np.inf):
        precision = real_number(precision, "precision", 0.0, open_low=True)
    if max_sweeps != MAX_SWEEPS:
        max_sweeps = whole_number(max_sweeps, "max_sweeps", 1)
    return new_task(_of_pairs(rewards, "rewards", shape), values, precision, max_sweeps)
