"""Plain twins of the compiled block model, and small random data to compare them on."""

import math

import numpy as np
from hypothesis import strategies as st

from romdp.clustering.likelihood.blockmodel import Rule
from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN
from romdp.clustering.likelihood.rules import (
    EMISSIONS,
    _gammas,
    _reward_part,
    _table,
    list_filled,
    score_filled,
)
from romdp.data.counts import Counts
from romdp.data.trajectory import Trajectory


def make_rule(law, alpha=0.5, stays=1.0, emission=EMISSIONS[2]):
    """Build the rule for one value of alpha, which need not be one that the search tries."""
    tables = _table(alpha), _table(stays * alpha), emission, 0.0, _gammas()
    return Rule(alpha, stays * alpha, *tables, *_reward_part(law))


def score(rule, blocks):
    """Score a grouping by the kernels that the search uses."""
    return score_filled(rule, list_filled(rule, blocks))


def reward_score(rule: Rule, pay):
    """Log marginal likelihood of one pair's rewards."""
    if rule.reward_code == CATEGORICAL:
        prior = rule.reward_prior
        inner = sum(math.lgamma(c + w) - math.lgamma(w) for c, w in zip(pay, prior, strict=True))
        return inner + math.lgamma(prior.sum()) - math.lgamma(pay.sum() + prior.sum())
    if rule.reward_code == GAUSSIAN:
        visits, total, squares = pay
        weight, shape, rate = rule.reward_prior
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
    return 0.0


def plain_score(rule: Rule, counts: Counts, parts, labels, n_successors=None):
    """Score of a grouping straight from its definition, term by term.

    ``n_successors`` is the number of groups that a row is normalised by, if not that of ``labels``.
    """
    placed = np.flatnonzero(labels >= 0)
    groups = np.unique(labels[placed])
    n_groups, n_placed = len(groups), len(placed)
    mass = rule.alpha * ((n_groups if n_successors is None else n_successors) - 1) + rule.stay
    transitions = counts.dense().transitions
    value = -math.lgamma(n_placed + 1) - math.log(math.comb(n_placed - 1, n_groups - 1))
    value += math.lgamma(n_groups + 1) + rule.emission_term
    weight = rule.emission / 4
    for s in groups:
        mine = np.flatnonzero(labels == s)
        value += math.lgamma(len(mine) + 1)
        reached = transitions[placed][:, :, mine].sum()
        mass_shown = weight * len(mine)
        value += math.lgamma(mass_shown) - math.lgamma(reached + mass_shown)
        for a in range(counts.n_actions):
            value += reward_score(rule, parts[mine, a].sum(axis=0))
            row = [transitions[mine, a][:, labels == t].sum() for t in groups]
            value += math.lgamma(mass) - math.lgamma(sum(row) + mass)
            for t, n in zip(groups, row, strict=True):
                parameter = rule.stay if t == s else rule.alpha
                value += math.lgamma(n + parameter) - math.lgamma(parameter)
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
