"""What all value iterations share: ranking the states, one backup, and when to stop.

One sweep replaces the values ``u`` by ``L u``, the best reward plus expected value of each
state. Whatever ``u`` is, the optimal gain lies between the smallest and the largest entry of
``L u - u`` (Puterman 1994, section 8.5), so the stopping rule only asks how far these are
apart: a warm start can make the iteration shorter and never wrong.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.compiled import kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LOW, HIGH, SPAN, SWEEPS, _MARK = range(5)
"""Entries of a task's ``progress``."""

_UNDAMPED = 32  # sweeps before a model that has not converged is treated as a periodic one
_DAMPING = 0.75
_TIE = 1e-12  # actions this close are equally good: rounding must not choose between them
_BEFORE: Floats = np.array([-np.inf, np.inf, 0.0, 0.0, np.inf])  # the first sweep


class Task(NamedTuple):
    """What an iteration works on; the compiled loops overwrite all but the rewards."""

    rewards: Floats  # (S, A)
    values: Floats  # (S,): the start, then the result
    policy: Integers  # (S,): written after the last sweep
    order: Integers  # (S,): states from the best to the worst
    expected: Floats  # (S * A,): expected value of the next state, by pair
    progress: Floats  # the bounds of the gain, the span of the values, the sweeps done
    precision: float
    max_sweeps: int


def new_task(rewards: Floats, values: Floats, precision: float, max_sweeps: int) -> Task:
    """Prepare an iteration from ``values``, which it will overwrite."""
    return Task(
        rewards,
        values,
        np.empty(values.size, np.int64),
        np.arange(values.size),
        np.empty(rewards.size),
        _BEFORE.copy(),
        precision,
        max_sweeps,
    )


@kernel
def rank(values: Floats, order: Integers) -> None:
    """Sort the states in ``order`` from the best to the worst value, equal ones by index.

    Values change little from sweep to sweep, so the last order is nearly right and insertion
    sort nearly linear; where it is not, a merge sort takes over. Both give the same order.
    """
    n_states = order.size
    budget = 8 * n_states
    for i in range(1, n_states):
        state = order[i]
        value = values[state]
        j = i
        while j > 0:
            other = order[j - 1]
            if values[other] > value or (values[other] == value and other < state):
                break
            order[j] = other
            j -= 1
        order[j] = state
        budget -= i - j
        if budget < 0:
            order[:] = np.argsort(-values, kind="mergesort")
            return


@kernel
def advance(task: Task) -> bool:
    """Finish a sweep: back up the values, and say whether that was the last one.

    The new values are centred: the smallest is zero.
    """
    rewards, expected = task.rewards, task.expected
    values, progress = task.values, task.progress
    # ``u + tau (L u - u)`` is value iteration on the model that stays where it is with chance
    # ``1 - tau``, which is never periodic (Puterman 1994, section 8.5.4). The bounds of the gain
    # are those of ``L u - u`` all the same. Only a model that is slow to converge pays for it.
    step = 1.0 if progress[SWEEPS] < _UNDAMPED else _DAMPING
    n_states, n_actions = rewards.shape
    low, high = np.inf, -np.inf
    smallest, largest = np.inf, -np.inf
    for state in range(n_states):
        best = -np.inf
        for action in range(n_actions):
            best = max(best, rewards[state, action] + expected[state * n_actions + action])
        change = best - values[state]
        value = best if step == 1.0 else values[state] + step * change
        values[state] = value
        low, high = min(low, change), max(high, change)
        smallest, largest = min(smallest, value), max(largest, value)
    for state in range(n_states):
        values[state] -= smallest
    progress[LOW], progress[HIGH], progress[SPAN] = low, high, largest - smallest
    progress[SWEEPS] += 1
    done = high - low < task.precision or progress[SWEEPS] >= task.max_sweeps
    if done or _stuck(n_states, progress):
        _greedy(rewards, expected, task.policy)
        return True
    return False


@kernel
def _stuck(n_states: int, progress: Floats) -> bool:
    """Whether the bounds have stopped to approach each other: there is no single gain.

    News travels one state a sweep, so a connected model may well stand still for S sweeps.
    """
    if progress[SWEEPS] % (500 + 8 * n_states) != 0:
        return False
    gap = progress[HIGH] - progress[LOW]
    stands_still = bool(gap > 0.999 * progress[_MARK])
    progress[_MARK] = gap
    return stands_still


@kernel
def _greedy(rewards: Floats, expected: Floats, policy: Integers) -> None:
    """Write the best action of every state into ``policy``, the lowest among equals."""
    n_states, n_actions = rewards.shape
    for state in range(n_states):
        pair = state * n_actions
        best = -np.inf
        for action in range(n_actions):
            best = max(best, rewards[state, action] + expected[pair + action])
        enough = best - _TIE * max(1.0, abs(best))
        for action in range(n_actions - 1, -1, -1):
            if rewards[state, action] + expected[pair + action] >= enough:
                policy[state] = action


@kernel
def blend(task: Task, spread: Floats) -> None:
    """Let each pair jump to a uniformly drawn state with chance ``spread``; empty means never."""
    if spread.size == 0:
        return
    mean = task.values.mean()
    for pair in range(spread.size):
        task.expected[pair] += spread[pair] * (mean - task.expected[pair])
