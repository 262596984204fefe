"""Plain twins of the compiled block model, and small random data to compare them on."""

import math

import numpy as np
from hypothesis import strategies as st

from romdp.clustering.likelihood.blockmodel import Rule
from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN
from romdp.data.counts import Counts
from romdp.data.trajectory import Trajectory


def x_log_x(x):
    return x * math.log(x) if x > 0 else 0.0


def reward_score(rule: Rule, pay):
    """Log marginal (or penalised maximal) likelihood of one pair's rewards."""
    if rule.reward_code == CATEGORICAL:
        visits = pay.sum()
        if visits == 0:
            return 0.0
        if rule.integrated:
            half = 0.5 * len(pay)
            inner = sum(math.lgamma(c + 0.5) - math.lgamma(0.5) for c in pay)
            return inner + math.lgamma(half) - math.lgamma(visits + half)
        inner = sum(x_log_x(c) for c in pay) - x_log_x(visits)
        return inner - rule.cost * (np.count_nonzero(pay) - 1)
    if rule.reward_code == GAUSSIAN:
        visits, total, squares = pay
        if visits == 0:
            return 0.0
        weight, shape, rate = rule.reward_prior
        if rule.integrated:
            new_shape = shape + visits / 2
            new_rate = rate + (squares - total**2 / (weight + visits)) / 2
            return (
                math.lgamma(new_shape)
                - math.lgamma(shape)
                + shape * math.log(rate)
                - new_shape * math.log(new_rate)
                + 0.5 * math.log(weight / (weight + visits))
                - visits / 2 * math.log(2 * math.pi)
            )
        spread = max(squares - total**2 / visits, 0.0)
        return -visits / 2 * math.log((spread + rate) / (visits + 1)) - 2 * rule.cost
    return 0.0


def plain_score(rule: Rule, counts: Counts, parts, labels):
    """Score of a grouping straight from its definition, term by term."""
    placed = np.flatnonzero(labels >= 0)
    groups = np.unique(labels[placed])
    n_groups, n_placed = len(groups), len(placed)
    transitions = counts.dense().transitions
    value = -math.lgamma(n_placed + 1) - math.log(math.comb(n_placed - 1, n_groups - 1))
    for s in groups:
        mine = np.flatnonzero(labels == s)
        value += math.lgamma(len(mine) + 1)
        reached = transitions[placed][:, :, mine].sum()
        if rule.integrated:
            value += math.lgamma(len(mine)) - math.lgamma(reached + len(mine))
        else:
            value += rule.cost - x_log_x(reached)
        for a in range(counts.n_actions):
            value += reward_score(rule, parts[mine, a].sum(axis=0))
            row = [transitions[mine, a][:, labels == t].sum() for t in groups]
            total = sum(row)
            if rule.integrated:
                mass = rule.alpha * n_groups
                value += math.lgamma(mass) - math.lgamma(total + mass)
                value += sum(math.lgamma(n + rule.alpha) - math.lgamma(rule.alpha) for n in row)
            elif total > 0:
                value += sum(x_log_x(n) for n in row) - x_log_x(total)
                value -= rule.cost * (np.count_nonzero(row) - 1)
    return value


def walk(seed, n_observations=7, n_actions=2, steps=60, rewards="bernoulli"):
    """Counts of a random walk without any structure."""
    rng = np.random.default_rng(seed)
    pay = {
        "bernoulli": lambda: rng.integers(2, size=steps).astype(float),
        "categorical": lambda: rng.choice([-1.0, 0.5, 2.0], size=steps),
        "gaussian": lambda: rng.standard_normal(steps),
        "none": lambda: np.zeros(steps),
    }[rewards]()
    return Counts.from_trajectory(
        Trajectory(
            rng.integers(n_observations, size=steps),
            rng.integers(n_actions, size=steps),
            pay,
            n_observations=n_observations,
            n_actions=n_actions,
        )
    )


seeds = st.integers(0, 10_000)
kinds = st.sampled_from(["bernoulli", "categorical", "gaussian", "none"])


def random_labels(seed, n_observations, n_groups, unplaced=0):
    """Labels in which every group has a member; the first few observations have none."""
    rng = np.random.default_rng([seed, 1])
    extra = rng.integers(n_groups, size=n_observations - n_groups - unplaced)
    labels = rng.permutation(np.concatenate([np.arange(n_groups), extra]))
    return np.concatenate([np.full(unplaced, -1), labels])
