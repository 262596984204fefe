"""The block model: groups of observations, the counts between them, and how likely they are.

A group s under action a leads to group t with some probability p[s, a, t]; t shows its member y
with some probability of y's own; (s, a) pays by some law. All of these are unknown and integrated
out: Dirichlet(alpha) for moves (alpha is fitted to the data: small where moves are nearly
certain; staying in s has a parameter of its own, which is larger in worlds where many actions
change nothing), Dirichlet(1) for emission, and a Dirichlet law that is fitted to all rewards, or
normal-gamma, for rewards. With n[s, a, t] the transitions between groups, the log likelihood splits
into one term per cell n[s, a, t], one per row (s, a), one per group (what it emits, and its place
among the groupings) and one per (s, a) for rewards.

A grouping of Y observations into S groups has the prior probability
S! prod(size!) / (Y! binom(Y - 1, S - 1)): every list of sizes is equally likely, and S! of them
name the same groups in another order. Without it, chance differences between rarely seen
observations would pay for groups of their own. What does not depend on the grouping is left out.

A *term* is what one part adds to the score; a *rise* is by how much a term, or the score, goes up
when something is added or merged.
"""

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN, RewardLaw
from romdp.core.compiled import kernel

ALPHAS = tuple(2.0 ** (-i / 2) for i in range(22))
"""The Dirichlet parameters of moves that are tried: from 1 down to about 0.0007."""

STAYS = (1.0, 4.0, 16.0, 64.0, 256.0)
"""What the parameter of staying may be, in alphas."""

_TABLE_SIZE = 4096  # counts below this are looked up
_SMALL_RISE = 16  # factors up to which a product is faster than two gamma functions


class Rule(NamedTuple):
    """How a grouping is scored."""

    alpha: float  # Dirichlet parameter of moves to other groups
    stay: float  # and of staying
    table: NDArray[np.float64]  # the cell term of small counts
    stay_table: NDArray[np.float64]  # the same of cells (s, a, s)
    gammas: NDArray[np.float64]  # log_gamma(n) of small n, from 1 on
    reward_code: int
    reward_prior: NDArray[np.float64]
    reward_table: NDArray[np.float64]  # (n_levels + 1, N): of levels paid n times, of n rewards;
    # Gaussian (1, N): the part of the term that depends on n alone


class Blocks(NamedTuple):
    """A grouping with everything that its score needs.

    A group may be empty. Observations with label -1 are left out of all counts.
    """

    labels: NDArray[np.int64]  # (Y,)
    moves: NDArray[np.int64]  # (S, A, S): n[s, a, t]
    out: NDArray[np.int64]  # (S, A): moves summed over the last axis
    into: NDArray[np.int64]  # (S,): moves summed over the first two
    size: NDArray[np.int64]  # (S,): members
    pay: NDArray[np.float64]  # (S, A, n_parts): reward parts


def make_rule(law: RewardLaw, alpha: float = 0.5, stays: float = 1.0) -> Rule:
    """Build the rule for one value of alpha; the parameter of staying is ``stays`` times that."""
    stay = stays * alpha
    return Rule(alpha, stay, _table(alpha), _table(stay), _gammas(), *_reward_part(law))


@lru_cache(maxsize=1)
def _gammas() -> NDArray[np.float64]:
    return np.array([0.0, *(log_gamma(float(n)) for n in range(1, _TABLE_SIZE))])


def _reward_part(law: RewardLaw) -> tuple[int, NDArray[np.float64], NDArray[np.float64]]:
    """Return what a rule says about rewards: the law, its prior and its tables."""
    weights = [*law.prior, law.prior.sum()] if law.code == CATEGORICAL else []
    table = np.empty((len(weights) or int(law.code == GAUSSIAN), _TABLE_SIZE))
    for weight, row in zip(weights, table, strict=False):
        _fill_table(weight, row)
    if law.code == GAUSSIAN:
        _fill_gaussian(law.prior, table[0])
    return law.code, law.prior, table


@lru_cache(maxsize=len(ALPHAS) * len(STAYS))
def _table(alpha: float) -> NDArray[np.float64]:
    table = np.empty(_TABLE_SIZE)
    _fill_table(alpha, table)
    return table


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
def _fill_table(alpha: float, table: NDArray[np.float64]) -> None:
    base = log_gamma(alpha)
    for n in range(table.size):
        table[n] = log_gamma(n + alpha) - base if n > 0 else 0.0


@kernel
def _fill_gaussian(prior: NDArray[np.float64], table: NDArray[np.float64]) -> None:
    for n in range(table.size):
        table[n] = _by_visits(prior, float(n))


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
def row_terms(rule: Rule, n_groups: int, most: int) -> NDArray[np.float64]:
    """Look up the row terms of small totals, up to ``most``."""
    table = np.zeros(min(most + 1, rule.table.size))
    mass = row_mass(rule, n_groups)
    base = log_gamma(mass)
    for total in range(1, table.size):
        table[total] = base - log_gamma(total + mass)
    return table


@kernel
def group_term(rule: Rule, reached: int, size: int) -> float:
    """Return the term of one group's emission and size; 0 for an empty group."""
    if size == 0:
        return 0.0
    gammas = rule.gammas
    if reached + size < gammas.size and size + 1 < gammas.size:
        value: float = gammas[size] - gammas[reached + size] + gammas[size + 1]
        return value
    chosen = log_gamma(size + 1.0)
    return log_gamma(float(size)) - log_gamma(float(reached + size)) + chosen


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
def _by_visits(prior: NDArray[np.float64], visits: float) -> float:
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
    value = known[0, n] if n < known.shape[1] else _by_visits(prior, visits)
    return float(value - (prior[1] + 0.5 * visits) * math.log(prior[2] + 0.5 * spread))


@kernel
def reward_term(
    rule: Rule, pay: NDArray[np.float64], more: NDArray[np.float64], times: int
) -> float:
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
    if size > 0:
        return math.log(size * (size + 1.0)) - log_rising(float(reached + size), more + 1.0)
    return group_term(rule, reached + more, size + 1) - group_term(rule, reached, size)


@kernel
def reward_rise(rule: Rule, pay: NDArray[np.float64], more: NDArray[np.float64]) -> float:
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
def _count_blocks(links: Links, parts: NDArray[np.float64], blocks: Blocks) -> None:
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


def make_blocks(
    links: Links, parts: NDArray[np.float64], labels: NDArray[np.int64], n_groups: int
) -> Blocks:
    """Count the transitions and rewards of groups; ``labels`` is copied."""
    blocks = zero_blocks(labels.astype(np.int64), n_groups, *parts.shape[1:])
    _count_blocks(links, parts, blocks)
    return blocks


def zero_blocks(labels: NDArray[np.int64], n_groups: int, n_actions: int, n_parts: int) -> Blocks:
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


class Filled(NamedTuple):
    """What a score reads of the blocks, without the cells that are empty.

    Terms that are the same under every rule of a search are added up once.
    """

    n_groups: int  # that are not empty
    same: float  # the terms of groups, rewards and the grouping itself
    cells: NDArray[np.int64]  # counts of cells between two groups
    stays: NDArray[np.int64]  # and from a group to itself
    rows: NDArray[np.int64]  # totals of rows


@kernel
def list_filled(rule: Rule, blocks: Blocks) -> Filled:
    """List what is not empty; the rule matters for its rewards alone."""
    n_slots, n_actions = blocks.out.shape
    n_groups, n_placed, n_rows, n_filled = 0, 0, 0, 0
    for s in range(n_slots):
        n_placed += blocks.size[s]
        n_groups += blocks.size[s] > 0
        for a in range(n_actions):
            n_rows += blocks.out[s, a] > 0
    value = grouping_term(n_placed, n_groups)
    cells = np.empty(max(64, 4 * n_rows), np.int64)
    stays, rows = np.empty(n_rows, np.int64), np.empty(n_rows, np.int64)
    n_rows = 0
    for s in range(n_slots):
        value += group_term(rule, blocks.into[s], blocks.size[s])
        for a in range(n_actions):
            value += reward_term(rule, blocks.pay[s, a], blocks.pay[s, a], 0)
            left = blocks.out[s, a]
            if left == 0:
                continue
            rows[n_rows], stays[n_rows] = left, blocks.moves[s, a, s]
            left -= stays[n_rows]
            n_rows += 1
            t = 0
            while left > 0:
                n = blocks.moves[s, a, t]
                if n > 0 and t != s:
                    if n_filled == cells.size:
                        longer = np.empty(2 * n_filled, np.int64)
                        longer[:n_filled] = cells
                        cells = longer
                    cells[n_filled] = n
                    n_filled += 1
                    left -= n
                t += 1
    return Filled(n_groups, value, cells[:n_filled], stays, rows)


@kernel
def _score_filled(rule: Rule, filled: Filled) -> float:
    value = filled.same
    for n in filled.cells:
        value += cell_term(rule, n)
    for n in filled.stays:
        value += stay_term(rule, n)
    mass = row_mass(rule, filled.n_groups)
    base = log_gamma(mass)
    for total in filled.rows:
        value += base - log_gamma(total + mass)
    return value


@kernel
def score(rule: Rule, blocks: Blocks) -> float:
    """Score a grouping from its blocks; empty groups do not count."""
    return _score_filled(rule, list_filled(rule, blocks))


class Rules(NamedTuple):
    """The rules that `best_rule` chooses from: by alpha, and by what staying has of it."""

    alphas: NDArray[np.float64]  # (n_alphas,)
    stays: NDArray[np.float64]  # (n_stays,): in alphas
    tables: NDArray[np.float64]  # (n_alphas, table size): of each `Rule`
    stay_tables: NDArray[np.float64]  # (n_alphas, n_stays, table size)
    gammas: NDArray[np.float64]
    reward_code: int
    reward_prior: NDArray[np.float64]
    reward_table: NDArray[np.float64]


def make_rules(law: RewardLaw) -> Rules:
    """Build all rules for one law of rewards."""
    tables, stay_tables = _all_tables()
    alphas, stays, gammas = np.array(ALPHAS), np.array(STAYS), _gammas()
    return Rules(alphas, stays, tables, stay_tables, gammas, *_reward_part(law))


@lru_cache(maxsize=1)
def _all_tables() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    stay_tables = [[_table(stay * alpha) for stay in STAYS] for alpha in ALPHAS]
    return np.array([_table(alpha) for alpha in ALPHAS]), np.array(stay_tables)


@kernel
def rule_at(rules: Rules, i: int, j: int) -> Rule:
    """Return one of the rules."""
    alpha = rules.alphas[i]
    return Rule(
        alpha,
        rules.stays[j] * alpha,
        rules.tables[i],
        rules.stay_tables[i, j],
        rules.gammas,
        rules.reward_code,
        rules.reward_prior,
        rules.reward_table,
    )


def place_of(rule: Rule) -> tuple[int, int]:
    """Return the indices of a rule among all."""
    return ALPHAS.index(rule.alpha), STAYS.index(rule.stay / rule.alpha)


def best_rule(rules: Rules, blocks: Blocks, near: Rule | None = None) -> tuple[Rule, float]:
    """Choose the rule under which a grouping scores best; returns both.

    The search begins at ``near``, the best rule of a similar grouping (see `climb_rules`).
    """
    i, j, highest = climb_rules(rules, blocks, *((0, 0) if near is None else place_of(near)))
    return rule_at(rules, i, j), highest


@kernel
def climb_rules(rules: Rules, blocks: Blocks, i: int, j: int) -> tuple[int, int, float]:
    """Go uphill from one rule, first in alpha and then in what staying has of it.

    Alpha stays at or above 1 / n_groups, the prior of Perks: below it, a state with many
    successors that is seen rarely would look better cut into pieces. The score has one maximum
    in alpha. Returns the indices of the rule that was reached, and the score.
    """
    last = 0
    while last + 1 < rules.alphas.size and rules.alphas[last + 1] * blocks.size.size >= 1.0:
        last += 1
    i = min(i, last)
    filled = list_filled(rule_at(rules, i, j), blocks)
    highest = _score_filled(rule_at(rules, i, j), filled)
    for axis in range(2):
        end = last if axis == 0 else rules.stays.size - 1
        for step in (1, -1):
            while 0 <= (i if axis == 0 else j) + step <= end:
                next_i, next_j = (i + step, j) if axis == 0 else (i, j + step)
                value = _score_filled(rule_at(rules, next_i, next_j), filled)
                if value <= highest:
                    break
                i, j, highest = next_i, next_j, value
    return i, j, highest
