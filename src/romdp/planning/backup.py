"""What all value iterations share: ranking the states, one sweep, when to stop, and the plan.

One sweep replaces the values ``u`` by ``L u``, the best reward plus expected value of each
state. Whatever ``u`` is, the optimal gain lies between the smallest and the largest entry of
``L u - u`` (Puterman 1994, section 8.5), so the stopping rule only asks how far these are
apart: a warm start can make the iteration shorter and never wrong.

Under another objective than the average the end of an episode is one more place to arrive at. It
is the last entry of the values, it has no actions, and nothing is earned there.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError
from romdp.core.validation import entry, freeze
from romdp.exact.objectives import AVERAGE, Objective

Integers = Ints

LOW, HIGH, SPAN, SWEEPS, _MARK, _OFFSET = range(6)
"""Entries of a task's ``progress``."""

UNDAMPED = 32
"""Sweeps before a model that has not converged is treated as a periodic one."""

_DAMPING = 0.75
_TIE = 1e-12  # actions this close are equally good: rounding must not choose between them
_SLACK = 10.0  # of near-optimistic supports; UCRL3's choice
_BEFORE: Floats = np.array([-np.inf, np.inf, 0.0, 0.0, np.inf, 0.0])  # the first sweep


class Iteration(NamedTuple):
    """What an iteration works on; the compiled loops overwrite all but the rewards."""

    rewards: Floats  # (S, A)
    values: Floats  # (S,): the start, then the result; one more entry for the end of an episode
    policy: Integers  # (1, S): written after the last sweep; with a horizon (H, S)
    order: Integers  # entries of the values from the best to the worst
    expected: Floats  # (S * A,): expected value of the next state, by pair
    progress: Floats  # the bounds of the gain, the span of the values, the sweeps done
    precision: float
    max_sweeps: int
    discount: float  # 1 for the average, and with a horizon
    horizon: int  # 0 for none


def new_iteration(
    rewards: Floats,
    values: Floats,
    precision: float,
    max_sweeps: int,
    objective: Objective = AVERAGE,
) -> Iteration:
    """Prepare an iteration from ``values``, which it may overwrite."""
    progress, horizon = _BEFORE.copy(), 0
    if not objective.is_average:
        rewards = rewards - objective.zero_reward
        horizon = objective.horizon or 0
        values = np.zeros(values.size + 1) if horizon else np.append(values, 0.0)
        progress[_OFFSET] = -values.min()
        values += progress[_OFFSET]
    return Iteration(
        rewards,
        values,
        np.empty((max(1, horizon), len(rewards)), np.int64),
        np.arange(values.size),
        np.empty(rewards.size),
        progress,
        precision,
        max_sweeps,
        objective.rate,
        horizon,
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
            for k, other in enumerate(np.argsort(-values, kind="mergesort")):
                order[k] = other  # one by one: copying arrays takes numba 3 s longer to compile
            return


@kernel
def advance(task: Iteration) -> bool:
    """Finish a sweep: back up the values, and say whether that was the last one.

    The new values are centred: the smallest is zero.
    """
    if task.values.size > task.rewards.shape[0]:
        return _advance_sum(task)
    rewards, expected = task.rewards, task.expected
    values, progress = task.values, task.progress
    # ``u + tau (L u - u)`` is value iteration on the model that stays where it is with probability
    # ``1 - tau``, which is never periodic (Puterman 1994, section 8.5.4). The bounds of the gain
    # are those of ``L u - u`` all the same. Only a model that is slow to converge pays for it.
    step = 1.0 if progress[SWEEPS] < UNDAMPED else _DAMPING
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
        _greedy(rewards, expected, 1.0, task.policy[0])
        return True
    return False


@kernel
def _advance_sum(task: Iteration) -> bool:
    """Finish a sweep under a discounted or episodic objective, where nothing follows the end.

    The values are sums of rewards to come, plus an offset that makes the smallest of them zero,
    because the walks of the optimists count on that.
    """
    rewards, expected = task.rewards, task.expected
    values, progress = task.values, task.progress
    n_states, n_actions = rewards.shape
    offset = progress[_OFFSET]
    low = high = smallest = largest = 0.0  # those of the end
    for state in range(n_states):
        best = -np.inf
        for action in range(n_actions):
            following = task.discount * expected[state * n_actions + action]
            best = max(best, rewards[state, action] + following)
        value = best - task.discount * offset
        change = value - (values[state] - offset)
        values[state] = value
        low, high = min(low, change), max(high, change)
        smallest, largest = min(smallest, value), max(largest, value)
    for state in range(n_states):
        values[state] -= smallest
    values[n_states] = -smallest
    progress[_OFFSET] = -smallest
    progress[LOW], progress[HIGH], progress[SPAN] = low, high, largest - smallest
    progress[SWEEPS] += 1
    if task.horizon > 0:
        step = task.horizon - int(progress[SWEEPS])
        _greedy(rewards, expected, 1.0, task.policy[step])
        return step == 0
    if high - low < task.precision or progress[SWEEPS] >= task.max_sweeps:
        _greedy(rewards, expected, task.discount, task.policy[0])
        return True
    return False


@kernel
def _stuck(n_states: int, progress: Floats) -> bool:
    """Whether the bounds no longer approach each other: there is no single gain.

    News travels one state per sweep, so a connected model may well stand still for S sweeps.
    """
    if progress[SWEEPS] % (500 + 8 * n_states) != 0:
        return False
    gap = progress[HIGH] - progress[LOW]
    stands_still = bool(gap > 0.999 * progress[_MARK])
    progress[_MARK] = gap
    return stands_still


@kernel
def _greedy(rewards: Floats, expected: Floats, discount: float, policy: Integers) -> None:
    """Write the best action of every state into ``policy``, the lowest among equals."""
    n_states, n_actions = rewards.shape
    for state in range(n_states):
        pair = state * n_actions
        best = -np.inf
        for action in range(n_actions):
            best = max(best, rewards[state, action] + discount * expected[pair + action])
        enough = best - _TIE * max(1.0, abs(best))
        for action in range(n_actions - 1, -1, -1):
            if rewards[state, action] + discount * expected[pair + action] >= enough:
                policy[state] = action


def slack(totals: Floats) -> float:
    """Return what `widen` may leave out per state seen, as a share of the span of the values.

    As in UCRL3 it is ``10 / (largest N(s, a))^(2/3)``.
    """
    most = max(1.0, float(totals.max()))
    return float(_SLACK / most ** (2.0 / 3.0))


@kernel
def widen(
    task: Iteration, room: Floats, fits: float, missing: float, allowed: float, least: int
) -> tuple[float, int]:
    """Return what a support that is wide enough adds to the value that a row expects.

    The support holds the states that were seen, the best state, and as many of the other states,
    from the best on, as needed: what these could add at most if they were left out must not exceed
    ``allowed`` (the near-optimistic support of UCRL3). At least ``least`` unseen states are in it,
    the best state among them if it was not seen; their number is returned as well.

    ``room`` is what fits above the lower ends of the probabilities where a state was seen, else
    zero, ``fits`` what fits at any other state, and ``missing`` what the lower ends leave of one.
    What is added is beside the support that holds no unseen state but the best one.
    """
    order, values = task.order, task.values
    sums = np.empty(values.size + 1)  # of the values of unseen states, from the best on
    n_unseen, total, sums[0] = 0, 0.0, 0.0
    for i in range(values.size):  # nothing branches here: what was seen is hard to foresee
        is_unseen = room[order[i]] <= 0.0
        n_unseen += is_unseen
        total += is_unseen * values[order[i]]
        sums[n_unseen] = total
    news = int(room[order[0]] <= 0.0)
    # The more states are added, the less is left out: bisect.
    fewest, most = min(max(least, news), n_unseen), n_unseen
    while fewest < most:
        extra = (fewest + most) // 2
        full = int(min(float(n_unseen - extra), 1.0 / fits))  # 1 / 0 is no whole number
        outside = fits * (sums[extra + full] - sums[extra])
        if extra + full < n_unseen:  # the last one gets the rest of the probability
            outside += (1.0 - full * fits) * (sums[extra + full + 1] - sums[extra + full])
        if outside <= allowed:
            most = extra
        else:
            fewest = extra + 1
    if fewest == news:
        return 0.0, news
    added, before, after = 0.0, missing, missing  # what is left to the narrow support, the wide one
    seen = 0
    for i in range(values.size):
        if after <= 0.0 and before <= 0.0:
            break
        narrow = wide = room[order[i]]
        if narrow <= 0.0:
            narrow = fits if seen < news else 0.0
            wide = fits if seen < fewest else 0.0
            seen += 1
        narrow, wide = min(narrow, before), min(wide, after)
        before, after = before - narrow, after - wide
        added += (wide - narrow) * values[order[i]]
    return added, fewest


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A policy, and what its planner believes about it.

    Attributes
    ----------
    policy : ndarray of int64, shape (S,), or (H, S) with a horizon of H steps
        The action of every state, the lowest one among equals; row h is for step h of an episode.
    gain : float
        Average reward per step in the model that was solved (optimistic, sampled or known): the
        middle of its bounds. NaN under another objective than the average.
    span : float
        Largest minus smallest of ``values``.
    sweeps : int
        How many sweeps of value iteration were made.
    values : ndarray of float64, shape (S,)
        Values of the states, of which the smallest is zero; a start for the next plan. Under
        another objective than the average: the sums of rewards to come, 0 at the end of an episode.
    converged : bool
        Whether the bounds of the gain came closer than the precision that was asked for. If not,
        the model may have no single gain (parts that cannot reach each other) or need more sweeps;
        the policy is still the best one for ``values``.
    gap : float
        Distance between the bounds: ``gain`` is off by at most half of it. Under a discount d the
        values are off by at most ``d / (1 - d)`` times this.
    is_stuck : bool
        Whether everything was tried, and nothing that was seen is worth looking for.
    """

    policy: Integers = field(repr=False)
    gain: float
    span: float
    sweeps: int
    values: Floats = field(repr=False)
    converged: bool
    gap: float
    is_stuck: bool = False

    @classmethod
    def of(cls, task: Iteration) -> "Plan":
        """Read the plan off a finished iteration."""
        progress = task.progress.tolist()
        n_states = len(task.rewards)
        is_sum, is_staged = task.values.size > n_states, task.horizon > 0
        low, high = (0.0, 0.0) if is_staged else (progress[LOW], progress[HIGH])
        values = task.values
        if is_sum:
            values = values[:n_states] - progress[_OFFSET]
        return cls(
            policy=freeze(task.policy if is_staged else task.policy[0]),
            gain=np.nan if is_sum else (low + high) / 2.0,
            span=progress[SPAN],
            sweeps=int(progress[SWEEPS]),
            values=freeze(values),
            converged=high - low < task.precision,
            gap=high - low,
        )


class Arrivals(ABC):
    """Transitions by arrival state; `by_arrival` makes them.

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
    def solve_balls(self, task: Iteration, widths: Floats) -> Plan:
        """Run extended value iteration inside L1 balls."""

    @abstractmethod
    def solve_intervals(self, task: Iteration, slopes: Floats, offsets: Floats) -> Plan:
        """Run extended value iteration inside intervals."""

    @abstractmethod
    def solve_time_uniform(self, task: Iteration, doubt: float) -> Plan:
        """Run extended value iteration inside time-uniform intervals, on near-optimistic supports.

        ``doubt`` is log(1 / level), where the level is the probability that a pair's bounds may
        fail.
        """

    def _refuse(self, bad: int, row: NDArray[Any]) -> NoReturn:
        """Raise the error of a bad row."""
        wrong = row[~((row >= 0) & (row < np.inf))]
        raise InvalidInputError(
            f"{entry('transitions', divmod(bad, self.shape[1]))} holds {wrong[0]}; counts and "
            "probabilities must be finite and not negative"
        )
