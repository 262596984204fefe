"""The worst that the counts allow: value iteration against an adversary inside L1 balls.

The mirror image of extended value iteration (Jaksch, Ortner and Auer 2010, figure 2): every pair
moves half its width of probability to the worst state, away from the best ones. Whatever the values
``u`` are, the policy that is greedy for them earns at least the smallest entry of ``L u - u`` in
every model inside the balls, so the gain that is returned is a true lower bound even where the
iteration was cut short.
"""

from dataclasses import dataclass

import numpy as np

from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.validation import freeze

_DAMPING = 0.75  # a chain that goes round in circles must not keep the values from settling


@dataclass(frozen=True, slots=True, eq=False)
class WorstCase:
    """What is certain in every model inside the balls.

    Attributes
    ----------
    gain : float
        Average reward that ``policy`` earns at least.
    policy : ndarray of int64, shape (n_states,)
        The policy that is worth most in its worst model, or the one that was asked about.
    sweeps : int
        Sweeps of value iteration.
    """

    gain: float
    policy: Ints
    sweeps: int


@kernel
def _expected_worst(law: Floats, width: float, values: Floats, order: Ints) -> float:
    """Expect the values under the worst law in the ball; ``order`` goes from worst to best."""
    worst = order[0]
    moved = min(width / 2.0, 1.0 - law[worst])
    total: float = moved * values[worst]
    for i in range(order.size - 1, -1, -1):
        state = order[i]
        taken = min(moved, law[state]) if state != worst else 0.0
        moved -= taken
        total += (law[state] - taken) * values[state]
    return total


@kernel
def _iterate(
    transition: Floats,
    reward: Floats,
    width: Floats,
    fixed: Ints,
    precision: float,
    most_sweeps: int,
    policy: Ints,
) -> tuple[float, int]:
    n_states, n_actions = reward.shape
    values = np.zeros(n_states)
    best = np.empty(n_states)
    low = -np.inf
    sweeps = 0
    while sweeps < most_sweeps:
        order = np.argsort(values)
        for s in range(n_states):
            best[s] = -np.inf
            for a in range(n_actions):
                if fixed[s] >= 0 and a != fixed[s]:
                    continue
                worth = reward[s, a] + _expected_worst(transition[s, a], width[s, a], values, order)
                if worth > best[s] + 1e-12:
                    best[s] = worth
                    policy[s] = a
        sweeps += 1
        change = best - values
        low = change.min()
        if change.max() - low < precision:
            break
        values += _DAMPING * change
        values -= values.min()
    return low, sweeps


def robust_value_iteration(
    transition: Floats,
    reward: Floats,
    width: Floats,
    policy: Ints | None = None,
    *,
    precision: float = 1e-5,
    most_sweeps: int = 10_000,
) -> WorstCase:
    """Find the policy whose worst model is best, or the worst model of a given policy.

    Parameters
    ----------
    transition : ndarray, shape (S, A, S)
        Estimated laws.
    reward : ndarray, shape (S, A)
        The lowest plausible mean rewards.
    width : ndarray, shape (S, A)
        Largest L1 distance of the true law from its estimate.
    policy : ndarray of int, shape (S,), optional
        The policy to judge; by default the best one is looked for.
    precision : float
        The iteration stops when the gain is at most this far below the best bound.
    most_sweeps : int
        The iteration gives up after this many sweeps; the gain is a lower bound all the same.

    Examples
    --------
    >>> laws = np.array([[[0.8, 0.2], [0.5, 0.5]], [[0.9, 0.1], [0.2, 0.8]]])
    >>> rewards = np.array([[0.0, 0.1], [0.0, 1.0]])
    >>> worst = robust_value_iteration(laws, rewards, np.full((2, 2), 0.2))
    >>> worst.policy, round(worst.gain, 3)
    (array([1, 1]), 0.614)
    """
    n_states = len(reward)
    fixed = np.full(n_states, -1) if policy is None else np.array(policy, np.int64)
    chosen = np.zeros(n_states, np.int64)
    gain, sweeps = _iterate(
        np.array(transition, np.float64),
        np.array(reward, np.float64),
        np.array(width, np.float64),
        fixed,
        precision,
        most_sweeps,
        chosen,
    )
    return WorstCase(float(gain), freeze(chosen), int(sweeps))
