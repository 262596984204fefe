"""The block model: groups of observations, the counts between them, and how likely they are.

A group s under action a leads to group t with some probability p[s, a, t]; t shows its member y
with some probability of y's own; (s, a) pays by some law. All of these are unknown and integrated
out: Dirichlet(alpha) for moves (alpha is fitted to the data: small where moves are nearly
certain; staying in s has a parameter of its own, which is larger in worlds where many actions
change nothing), Dirichlet(c) for emission (c is fitted, too: large where observations of a state
are shown equally often; with a fixed c single observations, which have none to learn, would be a
model of such a world that costs nothing), and a Dirichlet law that is fitted to all rewards, or
normal-gamma, for rewards. With n[s, a, t] the transitions between groups, the log likelihood splits
into one term per cell n[s, a, t], one per row (s, a), one per group (what it emits, and its place
among the groupings), one per (s, a) for rewards, and one per observation (how often it was shown),
which depends on c alone.

A grouping of Y observations into S groups has the prior probability
S! prod(size!) / (Y! binom(Y - 1, S - 1)): every list of sizes is equally likely, and S! of them
name the same groups in another order. Without it, chance differences between rarely seen
observations would pay for groups of their own. What does not depend on the grouping is left out.

A *term* is what one part adds to the score; a *rise* is by how much a term, or the score, goes up
when something is added or merged.
"""

import math
from typing import NamedTuple

import numpy as np

from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN
from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel

_SMALL_RISE = 16  # factors up to which a product is faster than two gamma functions


class Rule(NamedTuple):
    """How a grouping is scored."""

    alpha: float  # Dirichlet parameter of moves to other groups
    stay: float  # and of staying
    table: Floats  # the cell term of small counts
    stay_table: Floats  # the same of cells (s, a, s)
    emission: int  # Dirichlet parameter of emission, in quarters
    emission_term: float  # the terms of all observations, which depend on that alone
    gammas: Floats  # log_gamma(n / 4) of small n, from 1 on
    reward_code: int
    reward_prior: Floats
    reward_table: Floats  # (n_levels + 1, N): of levels paid n times, of n rewards;
    # Gaussian (1, N): the part of the term that depends on n alone


class Blocks(NamedTuple):
    """A grouping with everything that its score needs.

    A group may be empty. Observations with label -1 are left out of all counts.
    """

    labels: Ints  # (Y,)
    moves: Ints  # (S, A, S): n[s, a, t]
    out: Ints  # (S, A): moves summed over the last axis
    into: Ints  # (S,): moves summed over the first two
    size: Ints  # (S,): members
    pay: Floats  # (S, A, n_parts): reward parts


@kernel
def log_gamma(x: float) -> float:
    """Logarithm of the gamma function for x > 0, by Stirling's series; error below 1e-12."""
    product = 1.0
    while x < 10.0:
        product *= x
        x += 1.0
    r = 1.0 / (x * x)
    series = (1.0 / 12.0 - r * (1.0 / 360.0 - r * (1.0 / 1260.0 - r / 1680.0))) / x
    value = (x - 0.5) * math.log(x) - x + 0.9189385332046727 + series
    return value - math.log(product) if product != 1.0 else value


@kernel
def cell_term(rule: Rule, n: int) -> float:
    """Return the term of a cell between two groups; 0 for an empty one."""
    if n < rule.table.size:
        value: float = rule.table[n]
        return value
    return log_gamma(n + rule.alpha) - log_gamma(rule.alpha)


@kernel
def stay_term(rule: Rule, n: int) -> float:
    """Return the term of a cell from a group to itself; 0 for an empty one."""
    if n < rule.stay_table.size:
        value: float = rule.stay_table[n]
        return value
    return log_gamma(n + rule.stay) - log_gamma(rule.stay)


@kernel
def row_mass(rule: Rule, n_groups: int) -> float:
    """Return the sum of the parameters of one row."""
    return rule.alpha * (n_groups - 1) + rule.stay


@kernel
def row_term(rule: Rule, total: int, n_groups: int) -> float:
    """Return the term of one row (s, a) with ``total`` transitions; 0 for an empty one."""
    if total == 0:
        return 0.0
    mass = row_mass(rule, n_groups)
    return log_gamma(mass) - log_gamma(total + mass)


@kernel
def row_terms(rule: Rule, n_groups: int, most: int) -> Floats:
    """Look up the row terms of small totals, up to ``most``."""
    table = np.zeros(min(most + 1, rule.table.size))
    mass = row_mass(rule, n_groups)
    base = log_gamma(mass)
    for total in range(1, table.size):
        table[total] = base - log_gamma(total + mass)
    return table


@kernel
def _quarters(gammas: Floats, n: int) -> float:
    """Return log_gamma(n / 4), looked up if it is there."""
    if n < gammas.size:
        value: float = gammas[n]
        return value
    return log_gamma(0.25 * n)


@kernel
def group_term(rule: Rule, reached: int, size: int) -> float:
    """Return the term of one group's emission and size; 0 for an empty group."""
    if size == 0:
        return 0.0
    mass = rule.emission * size
    value = _quarters(rule.gammas, mass) - _quarters(rule.gammas, 4 * reached + mass)
    return value + _quarters(rule.gammas, 4 * (size + 1))


@kernel
def grouping_term(n_placed: int, n_groups: int) -> float:
    """Return the term of the number of groups: the part of the prior that is not in the sizes."""
    if n_groups == 0:
        return 0.0
    choices = (
        log_gamma(float(n_placed))
        - log_gamma(float(n_groups))
        - log_gamma(n_placed - n_groups + 1.0)
    )
    return log_gamma(n_groups + 1.0) - log_gamma(n_placed + 1.0) - choices


@kernel
def log_rising(x: float, n: float) -> float:
    """Return log gamma(x + n) - log gamma(x) for a whole n: one logarithm where n is small."""
    if n > _SMALL_RISE:
        return log_gamma(x + n) - log_gamma(x)
    product = 1.0
    for i in range(int(n)):
        product *= x + i
    return math.log(product)


@kernel
def _level_rise(rule: Rule, level: int, paid: float, more: float) -> float:
    """By how much the term of a level, or of all rewards, rises when it is paid so often more."""
    n, table = int(paid + more), rule.reward_table
    if n < table.shape[1]:
        value: float = table[level, n] - table[level, int(paid)]
        return value
    weight = rule.reward_prior[level] if level < table.shape[0] - 1 else rule.reward_prior.sum()
    return log_rising(paid + weight, more)


@kernel
def by_visits(prior: Floats, visits: float) -> float:
    """Return the part of a Gaussian term that depends on the number of rewards alone."""
    weight, shape, rate = float(prior[0]), float(prior[1]), float(prior[2])
    return (
        log_gamma(shape + 0.5 * visits)
        - log_gamma(shape)
        + shape * math.log(rate)
        + 0.5 * math.log(weight / (weight + visits))
        - 0.9189385332046727 * visits
    )


@kernel
def gaussian_term(rule: Rule, visits: float, total: float, squares: float) -> float:
    """Return the term of Gaussian rewards with this sum and this sum of squares."""
    if visits < 0.5:
        return 0.0
    prior, known = rule.reward_prior, rule.reward_table
    spread = max(squares - total * total / (prior[0] + visits), 0.0)
    n = int(visits + 0.5)
    value = known[0, n] if 0 <= n < known.shape[1] else by_visits(prior, visits)
    return float(value - (prior[1] + 0.5 * visits) * math.log(prior[2] + 0.5 * spread))


@kernel
def reward_term(rule: Rule, pay: Floats, more: Floats, times: int) -> float:
    """Return the term of the rewards of one (s, a) whose parts are ``pay + times * more``."""
    if rule.reward_code == CATEGORICAL:
        value = 0.0
        visits = 0.0
        for k in range(pay.size):
            count = float(pay[k] + times * more[k])
            visits += count
            value += _level_rise(rule, k, 0.0, count)
        return value - _level_rise(rule, pay.size, 0.0, visits)
    if rule.reward_code == GAUSSIAN:
        return gaussian_term(
            rule,
            float(pay[0] + times * more[0]),
            float(pay[1] + times * more[1]),
            float(pay[2] + times * more[2]),
        )
    return 0.0


@kernel
def member_rise(rule: Rule, reached: int, more: int, size: int) -> float:
    """By how much the term of a group rises when one joins that was reached ``more`` times."""
    return group_term(rule, reached + more, size + 1) - group_term(rule, reached, size)


@kernel
def reward_rise(rule: Rule, pay: Floats, more: Floats) -> float:
    """By how much the term of rewards rises when ``more`` joins them."""
    if rule.reward_code == CATEGORICAL:
        value = 0.0
        visits = 0.0
        joining = 0.0
        for k in range(pay.size):
            visits += pay[k]
            joining += more[k]
            if more[k] > 0:
                value += _level_rise(rule, k, pay[k], more[k])
        return value - _level_rise(rule, pay.size, visits, joining)
    return reward_term(rule, pay, more, 1) - reward_term(rule, pay, more, 0)


@kernel
def _count_blocks(links: Links, parts: Floats, blocks: Blocks) -> None:
    # Labels are -1 or below the number of groups that `zero_blocks` made room for.
    labels = blocks.labels
    n_actions = links.n_actions
    for y in range(labels.size):
        s = labels[y]
        if s < 0:
            continue
        blocks.size[s] += 1
        for a in range(n_actions):
            for k in range(parts.shape[2]):
                blocks.pay[s, a, k] += parts[y, a, k]
            cell = y * n_actions + a
            for i in range(links.out_start[cell], links.out_start[cell + 1]):
                t = labels[links.out_target[i]]
                if t >= 0:
                    blocks.moves[s, a, t] += links.out_count[i]
                    blocks.out[s, a] += links.out_count[i]
                    blocks.into[t] += links.out_count[i]


def make_blocks(links: Links, parts: Floats, labels: Ints, n_groups: int) -> Blocks:
    """Count the transitions and rewards of groups; ``labels`` is copied."""
    blocks = zero_blocks(labels.astype(np.int64), n_groups, *parts.shape[1:])
    _count_blocks(links, parts, blocks)
    return blocks


def zero_blocks(labels: Ints, n_groups: int, n_actions: int, n_parts: int) -> Blocks:
    """Make blocks in which nothing is counted yet."""
    return Blocks(
        labels,
        np.zeros((n_groups, n_actions, n_groups), np.int64),
        np.zeros((n_groups, n_actions), np.int64),
        np.zeros(n_groups, np.int64),
        np.zeros(n_groups, np.int64),
        np.zeros((n_groups, n_actions, n_parts)),
    )


def copy_blocks(blocks: Blocks) -> Blocks:
    """Copy every array."""
    labels, moves, out, into, size, pay = blocks
    return Blocks(labels.copy(), moves.copy(), out.copy(), into.copy(), size.copy(), pay.copy())
