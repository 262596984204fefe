"""Plain twins of the compiled planners, and the linear programs behind their optimism."""

import itertools

import numpy as np
from scipy.optimize import linprog


def rank(values):
    return sorted(range(len(values)), key=lambda state: (-values[state], state))


def ball_law(row, width, values):
    """The law in the L1 ball around a row that expects most."""
    order = rank(values)
    law = np.zeros(len(values))
    if row.sum() == 0 or width >= 2:
        law[order[0]] = 1.0
        return law
    law[:] = row / row.sum()
    moved = min(width / 2, 1 - law[order[0]])
    law[order[0]] += moved
    for state in reversed(order):
        taken = min(law[state], moved) if state != order[0] else 0.0
        law[state] -= taken
        moved -= taken
    return law


def interval_law(row, slope, offset, values):
    """The law within intervals around a row's chances that expects most."""
    if row.sum() == 0:
        return ball_law(row, 2, values)
    lower, upper = interval(row / row.sum(), slope, offset)
    law = lower.copy()
    for state in rank(values):
        law[state] += min(upper[state] - lower[state], max(0.0, 1 - law.sum()))
    return law


def interval(chances, slope, offset):
    half = slope * np.sqrt(chances * (1 - chances)) + offset
    return np.maximum(0, chances - half), np.minimum(1, chances + half)


def iterate(best_law, rewards, precision, start=None, max_sweeps=32):
    """Value iteration; ``best_law(state, action, values)`` is what the optimist picks.

    Returns the policy, the bounds of the gain, the values and the sweeps.
    """
    n_states, n_actions = rewards.shape
    values = np.zeros(n_states) if start is None else start - start.min()
    sweeps, change = 0, np.array([-np.inf, np.inf])
    while sweeps < max_sweeps and np.ptp(change) >= precision:
        sweeps += 1
        backed_up = np.array(
            [
                [rewards[s, a] + best_law(s, a, values) @ values for a in range(n_actions)]
                for s in range(n_states)
            ]
        )
        change = backed_up.max(axis=1) - values
        values = backed_up.max(axis=1)
        values = values - values.min()
    best = backed_up.max(axis=1, keepdims=True)
    policy = np.argmax(backed_up >= best - 1e-12 * np.maximum(1, np.abs(best)), axis=1)
    return policy, change.min(), change.max(), values, sweeps


def ball_program(law, width, values):
    """Largest expected value within an L1 ball, by linear programming."""
    n = len(values)
    # Variables: the new law q, and bounds e >= |q - law|.
    above = np.hstack([np.eye(n), -np.eye(n)])
    below = np.hstack([-np.eye(n), -np.eye(n)])
    budget = np.concatenate([np.zeros(n), np.ones(n)])
    solution = linprog(
        np.concatenate([-values, np.zeros(n)]),
        A_ub=np.vstack([above, below, budget]),
        b_ub=np.concatenate([law, -law, [width]]),
        A_eq=[np.concatenate([np.ones(n), np.zeros(n)])],
        b_eq=[1.0],
    )
    return -solution.fun


def interval_program(lower, upper, values):
    """Largest expected value within intervals, by linear programming."""
    bounds = np.stack([lower, upper], axis=1)
    solution = linprog(-values, A_eq=[np.ones(len(values))], b_eq=[1.0], bounds=bounds)
    return -solution.fun


def best_gain(transition, rewards):
    """Largest gain over all deterministic policies of a unichain model, by linear solves."""
    n_states, n_actions = rewards.shape
    states = np.arange(n_states)
    best = -np.inf
    for policy in itertools.product(range(n_actions), repeat=n_states):
        chain = transition[states, policy]
        system = np.vstack([chain.T - np.eye(n_states), np.ones(n_states)])
        law = np.linalg.lstsq(system, np.append(np.zeros(n_states), 1.0), rcond=None)[0]
        best = max(best, law @ rewards[states, policy])
    return best
