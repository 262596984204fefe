"""The rules by which a grouping is scored, its score, and the rule under which that is highest."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from romdp.clustering.likelihood.blockmodel import (
    Blocks,
    Rule,
    by_visits,
    cell_term,
    group_term,
    grouping_term,
    log_gamma,
    reward_term,
    row_mass,
    stay_term,
)
from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN, RewardLaw
from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel

ALPHAS = tuple(2.0 ** (-i / 2) for i in range(22))
"""The Dirichlet parameters of moves that are tried: from 1 down to about 0.0007."""

STAYS = (1.0, 4.0, 16.0, 64.0, 256.0)
"""What the parameter of staying may be, in alphas."""

EMISSIONS = tuple(2**i for i in range(11))
"""The Dirichlet parameters of emission that are tried, in quarters: from 1/4 up to 256."""

_TABLE_SIZE = 4096  # counts below this are looked up
_GAMMAS = 2**17  # quarters; emission adds up counts and parameters


@lru_cache(maxsize=1)
def _gammas() -> Floats:
    table = np.zeros(_GAMMAS)
    table[1:] = gammaln(0.25 * np.arange(1, _GAMMAS))
    return table


def _reward_part(law: RewardLaw) -> tuple[int, Floats, Floats]:
    """Return what a rule says about rewards: the law, its prior and its tables."""
    weights = [*law.prior, law.prior.sum()] if law.code == CATEGORICAL else []
    table = np.empty((len(weights) or int(law.code == GAUSSIAN), _TABLE_SIZE))
    for weight, row in zip(weights, table, strict=False):
        _fill_table(weight, row)
    if law.code == GAUSSIAN:
        _fill_gaussian(law.prior, table[0])
    return law.code, law.prior, table


@lru_cache(maxsize=len(ALPHAS) * len(STAYS))
def _table(alpha: float) -> Floats:
    table = np.empty(_TABLE_SIZE)
    _fill_table(alpha, table)
    return table


@kernel
def _fill_table(alpha: float, table: Floats) -> None:
    base = log_gamma(alpha)
    for n in range(table.size):
        table[n] = log_gamma(n + alpha) - base if n > 0 else 0.0


@kernel
def _fill_gaussian(prior: Floats, table: Floats) -> None:
    for n in range(table.size):
        table[n] = by_visits(prior, float(n))


class Filled(NamedTuple):
    """What a score reads of the blocks, without the cells that are empty.

    Terms that are the same under every rule of a search are added up once.
    """

    same: float  # the terms of rewards and the grouping itself
    into: Ints  # of groups that are not empty
    size: Ints
    cells: Ints  # counts of cells between two groups
    stays: Ints  # and from a group to itself
    rows: Ints  # totals of rows


@kernel
def list_filled(rule: Rule, blocks: Blocks) -> Filled:
    """List what is not empty; the rule matters for its rewards alone.

    A row of ``moves`` is read until its entries add up to its ``out``, as `_count_blocks` and
    `shift` see to; nothing else ends the walk.
    """
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
    used = blocks.size > 0
    return Filled(value, blocks.into[used], blocks.size[used], cells[:n_filled], stays, rows)


@kernel
def _emission_score(rule: Rule, filled: Filled) -> float:
    value = rule.emission_term
    for s in range(filled.size.size):
        value += group_term(rule, filled.into[s], filled.size[s])
    return value


@kernel
def score_filled(rule: Rule, filled: Filled) -> float:
    """Score a grouping from what `list_filled` lists of it; empty groups do not count."""
    value = filled.same + _emission_score(rule, filled)
    for n in filled.cells:
        value += cell_term(rule, n)
    for n in filled.stays:
        value += stay_term(rule, n)
    mass = row_mass(rule, filled.size.size)
    base = log_gamma(mass)
    for total in filled.rows:
        value += base - log_gamma(total + mass)
    return value


class Rules(NamedTuple):
    """The rules that `best_rule` chooses from: by alpha, what staying has of it, and emission."""

    alphas: Floats  # (n_alphas,)
    stays: Floats  # (n_stays,): in alphas
    tables: Floats  # (n_alphas, table size): of each `Rule`
    stay_tables: Floats  # (n_alphas, n_stays, table size)
    emissions: Ints
    emission_terms: Floats
    gammas: Floats
    reward_code: int
    reward_prior: Floats
    reward_table: Floats


def make_rules(law: RewardLaw, reached: Ints) -> Rules:
    """Build all rules for one law of rewards, given how often each observation was reached."""
    tables, stay_tables = _all_tables()
    alphas, stays, gammas = np.array(ALPHAS), np.array(STAYS), _gammas()
    times, how_many = np.unique(reached, return_counts=True)
    weights = 0.25 * np.array(EMISSIONS)
    terms = (gammaln(times + weights[:, None]) - gammaln(weights[:, None])) @ how_many
    rewards = _reward_part(law)
    emissions = np.array(EMISSIONS)
    return Rules(alphas, stays, tables, stay_tables, emissions, terms, gammas, *rewards)


@lru_cache(maxsize=1)
def _all_tables() -> tuple[Floats, Floats]:
    stay_tables = [[_table(stay * alpha) for stay in STAYS] for alpha in ALPHAS]
    return np.array([_table(alpha) for alpha in ALPHAS]), np.array(stay_tables)


@kernel
def rule_at(rules: Rules, i: int, j: int, e: int) -> Rule:
    """Return one of the rules."""
    alpha = rules.alphas[i]
    return Rule(
        alpha,
        rules.stays[j] * alpha,
        rules.tables[i],
        rules.stay_tables[i, j],
        rules.emissions[e],
        rules.emission_terms[e],
        rules.gammas,
        rules.reward_code,
        rules.reward_prior,
        rules.reward_table,
    )


def place_of(rule: Rule) -> tuple[int, int, int]:
    """Return the indices of a rule among all."""
    stays = STAYS.index(rule.stay / rule.alpha)
    return ALPHAS.index(rule.alpha), stays, EMISSIONS.index(rule.emission)


def best_rule(rules: Rules, blocks: Blocks, near: Rule | None = None) -> tuple[Rule, float]:
    """Choose the rule under which a grouping scores best; returns both.

    The search begins at ``near``, the best rule of a similar grouping (see `climb_rules`).
    """
    *at, highest = climb_rules(rules, blocks, *((0, 0) if near is None else place_of(near)[:2]))
    return rule_at(rules, *at), highest


@kernel
def climb_rules(rules: Rules, blocks: Blocks, i: int, j: int) -> tuple[int, int, int, float]:
    """Go uphill from one rule, first in alpha and then in what staying has of it.

    What the parameter of emission adds does not depend on these two, so that the best is chosen.

    Alpha stays at or above 1 / n_groups, the prior of Perks: below it, a state with many
    successors that is seen rarely would look better cut into pieces. The score has one maximum
    in alpha. Returns the indices of the rule that was reached, and the score.
    """
    last = 0
    while last + 1 < rules.alphas.size and rules.alphas[last + 1] * blocks.size.size >= 1.0:
        last += 1
    i = min(i, last)
    filled = list_filled(rule_at(rules, i, j, 0), blocks)
    best, highest = 0, -np.inf
    for e in range(rules.emissions.size):
        value = _emission_score(rule_at(rules, i, j, e), filled)
        if value > highest:
            best, highest = e, value
    highest = score_filled(rule_at(rules, i, j, best), filled)
    for axis in range(2):
        end = last if axis == 0 else rules.stays.size - 1
        for step in (1, -1):
            while 0 <= (i if axis == 0 else j) + step <= end:
                next_i, next_j = (i + step, j) if axis == 0 else (i, j + step)
                value = score_filled(rule_at(rules, next_i, next_j, best), filled)
                if value <= highest:
                    break
                i, j, highest = next_i, next_j, value
    return i, j, best, highest
