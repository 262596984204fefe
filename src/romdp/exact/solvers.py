"""The best policy of an MDP on plain arrays, exactly: policy iteration and backward induction.

``transition`` is (S, A, S) and ``reward`` (S, A), as in `romdp.exact.mdp.MDP`, which checks them.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from romdp.core.arrays import Floats, Ints
from romdp.exact.chains import gain_and_bias

_ROUNDING = 1e-13  # gains and (relative to their span) biases closer than this are equal


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The outcome of `policy_iteration`.

    Attributes
    ----------
    gain
        (S,) best average reward from each start state.
    bias
        (S,) bias of ``policy``, of mean zero under each of its stationary laws.
    policy
        (S,) an optimal action in each state; the lowest where several are.
    iterations
        How many policies were evaluated.
    residual
        The certificate: how far gain and bias are from solving the optimality equations. Where
        the gain is the same from all states, no policy's gain exceeds it by more than this.
    """

    gain: Floats
    bias: Floats
    policy: Ints
    iterations: int
    residual: float


class _Outlook(NamedTuple):
    """What one step of another action would do, under the gain and bias of a policy."""

    gain: Floats
    bias: Floats
    gains: Floats  # (S, A): expected gain after the action
    totals: Floats  # (S, A): reward and bias after it, -inf where the gain would fall
    residual: float
    tolerance: float


def _look_ahead(transition: Floats, reward: Floats, policy: Ints) -> _Outlook:
    """Evaluate a policy and look one step ahead."""
    states = np.arange(len(policy))
    gain, bias = gain_and_bias(transition[states, policy], reward[states, policy])
    gains = transition @ gain
    totals = reward + transition @ bias
    noise = float(np.abs(totals[states, policy] - gain - bias).max())
    totals[gains < gain[:, None] - _ROUNDING] = -np.inf
    residual = max(
        float(np.abs(gains.max(axis=1) - gain).max()),
        float(np.abs(totals.max(axis=1) - gain - bias).max()),
    )
    tolerance = _ROUNDING * max(1.0, float(np.ptp(bias))) + 4 * noise
    return _Outlook(gain, bias, gains, totals, residual, tolerance)


def _improved(ahead: _Outlook, policy: Ints) -> Ints:
    """Switch to better actions: for the gain, or where no gain can rise for the bias."""
    states = np.arange(len(policy))
    for values, tolerance in ((ahead.gains, _ROUNDING), (ahead.totals, ahead.tolerance)):
        better = values.max(axis=1) > values[states, policy] + tolerance
        if better.any():
            return np.where(better, values.argmax(axis=1), policy)
    return policy


def policy_iteration(transition: Floats, reward: Floats) -> Solution:
    """Find a policy of the largest average reward, from every start state.

    Howard's policy iteration for any finite MDP, also where policies have several recurrent
    classes or are periodic (Puterman 1994, chapter 9).

    Examples
    --------
    >>> moves = np.zeros((2, 2, 2))
    >>> moves[:, 0, 0] = moves[:, 1, 1] = 1.0  # action a leads to state a
    >>> policy_iteration(moves, np.array([[0.0, 0.0], [0.0, 1.0]])).policy
    array([1, 1])
    """
    policy = reward.argmax(axis=1)
    seen: set[bytes] = set()  # where rounding decides, a policy could come back
    while True:
        ahead = _look_ahead(transition, reward, policy)
        seen.add(policy.tobytes())
        improved = _improved(ahead, policy)
        if improved.tobytes() in seen:
            break
        policy = improved
    # The lowest action that solves the optimality equations, if all of them together still do.
    near = ahead.totals >= ahead.totals.max(axis=1, keepdims=True) - ahead.tolerance
    lowest = near.argmax(axis=1)
    if not np.array_equal(lowest, policy):
        other = _look_ahead(transition, reward, lowest)
        if other.residual <= max(ahead.residual, other.tolerance):
            return Solution(other.gain, other.bias, lowest, len(seen) + 1, other.residual)
    return Solution(ahead.gain, ahead.bias, policy, len(seen), ahead.residual)


def discounted_iteration(
    transition: Floats, reward: Floats, discount: float, ending: Floats
) -> tuple[Floats, Ints]:
    """Find a policy of the largest discounted sum of rewards, and its value from every state.

    ``ending`` holds the probability that a step of each pair ends the episode, after which nothing
    more is earned; else the step moves by ``transition``. Howard's policy iteration (Puterman 1994,
    section 6.4); the policy takes the lowest of equally good actions.

    Examples
    --------
    >>> discounted_iteration(np.ones((1, 2, 1)), np.array([[1.0, 0.5]]), 0.5, np.zeros((1, 2)))
    (array([2.]), array([0]))
    """
    policy = reward.argmax(axis=1)
    seen: set[bytes] = set()  # where rounding decides, a policy could come back
    while True:
        values = discounted_values(transition, reward, discount, ending, policy)
        totals = reward + discount * (1.0 - ending) * (transition @ values)
        best = totals.max(axis=1)
        tolerance = _ROUNDING * max(1.0, float(np.abs(values).max()))
        lowest = (totals >= best[:, None] - tolerance).argmax(axis=1)
        seen.add(policy.tobytes())
        better = best > totals[np.arange(len(policy)), policy] + tolerance
        improved = np.where(better, lowest, policy)
        if not better.any() or improved.tobytes() in seen:
            return values, lowest
        policy = improved


def discounted_values(
    transition: Floats, reward: Floats, discount: float, ending: Floats, policy: Ints
) -> Floats:
    """Return the discounted sum of rewards of a policy from every state, by a linear solve."""
    states = np.arange(len(policy))
    moves = (1.0 - ending[states, policy])[:, None] * transition[states, policy]
    system = np.eye(len(policy)) - discount * moves
    return np.asarray(np.linalg.solve(system, reward[states, policy]), np.float64)


def backward_induction(
    transition: Floats, reward: Floats, horizon: int, ending: Floats, policies: Ints | None = None
) -> tuple[Floats, Ints]:
    """Find what is best with ``horizon`` steps to go, or evaluate what ``policies`` does.

    Returns
    -------
    values, policies : shape (horizon, S)
        Row h is for the step h of an episode, so row 0 has all steps before it.
    """
    n_states = len(reward)
    values = np.zeros((horizon + 1, n_states))
    chosen = np.zeros((horizon, n_states), np.int64)
    for h in range(horizon - 1, -1, -1):
        totals = reward + (1.0 - ending) * (transition @ values[h + 1])
        if policies is None:
            tolerance = _ROUNDING * max(1.0, float(np.abs(totals).max()))
            chosen[h] = (totals >= totals.max(axis=1, keepdims=True) - tolerance).argmax(axis=1)
        else:
            chosen[h] = policies[h]
        values[h] = totals[np.arange(n_states), chosen[h]]
    return values[:-1], chosen
