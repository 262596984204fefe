"""Sweeps: one observation after the other goes to the group where the score is highest."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.likelihood.blockmodel import Blocks, Rule, member_rise, row_mass, row_terms
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.profiles import (
    N_COMES,
    N_LEADS,
    REACHED,
    Profile,
    empty_profile,
    join_rises,
    put,
    take_out,
)
from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN, NO_REWARD
from romdp.clustering.likelihood.rules import Rules, climb_rules, rule_at
from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel

EXACT_LIMIT = 8
"""Up to this many groups all are compared exactly; beyond, the best few by a linear estimate.

Draws are always among all groups."""

_SHORTLIST = 5
_VISITS_PER_CELL = 30  # an exact rise takes as long as the estimates of so many cells
_STRIP = 16  # columns that are turned together
_ROUNDING = 1e-9


class Laws(NamedTuple):
    """Estimates under which the score of a placing is linear in the observation's counts."""

    toward: NDArray[np.float32]  # (S, A, S): log p[s, a, t]; rough, to be read faster
    back: NDArray[np.float32]  # (A, S, S): the same, [a, t, s]
    inner: Floats  # (A, S): log p[s, a, s]
    size: Floats  # (S,): what one more member that is never reached adds
    shown: Floats  # (S,): and what it loses each time that it is reached
    pay: Floats  # (A, n_parts, S): log likelihood of each reward part
    rows: Floats  # `row_terms`, which are exact


@kernel
def estimate_laws(rule: Rule, blocks: Blocks, n_visits: int) -> Laws:
    """Estimate the laws of the groups as they are.

    They are empty, and all groups are compared exactly, up to `EXACT_LIMIT` groups, and where so
    few observations are to be visited that the estimates would take longer.
    """
    n_slots, n_actions = blocks.out.shape
    if n_slots <= EXACT_LIMIT or _VISITS_PER_CELL * n_visits <= n_slots * n_actions:
        n_slots = 0
    laws = Laws(
        np.empty((n_slots, n_actions, n_slots), np.float32),
        np.empty((n_actions, n_slots, n_slots), np.float32),
        np.empty((n_actions, n_slots)),
        np.empty(n_slots),
        np.log(blocks.into[:n_slots] + 0.25 * rule.emission * (blocks.size[:n_slots] + 1.0)),
        np.zeros((n_actions, blocks.pay.shape[2], n_slots)),
        row_terms(rule, blocks.size.size, 2 * blocks.out.max()),
    )
    for s in range(n_slots):
        laws.size[s] = member_rise(rule, blocks.into[s], 0, blocks.size[s])
    base = np.log(blocks.out + row_mass(rule, n_slots))
    unlikely = math.log(rule.alpha)
    for a in range(n_actions):
        for first in range(0, n_slots, _STRIP):  # strips of columns, for the cache's sake
            for s in range(n_slots):
                for t in range(first, min(first + _STRIP, n_slots)):
                    n = blocks.moves[s, a, t]
                    value = (math.log(n + rule.alpha) if n > 0 else unlikely) - base[s, a]
                    laws.toward[s, a, t] = value
                    laws.back[a, t, s] = value
        for s in range(n_slots):
            stays = math.log(blocks.moves[s, a, s] + rule.stay) - base[s, a]
            laws.toward[s, a, s] = laws.back[a, s, s] = laws.inner[a, s] = stays
            _estimate_pay(rule, blocks.pay[s, a], laws.pay[a, :, s])
    return laws


@kernel
def _estimate_pay(rule: Rule, paid: Floats, law: Floats) -> None:
    """Fill in the log likelihood of each reward part of a pair."""
    if rule.reward_code == CATEGORICAL:
        visits = paid.sum() + rule.reward_prior.sum()
        for k in range(paid.size):
            law[k] = math.log((paid[k] + rule.reward_prior[k]) / visits)
    elif rule.reward_code == GAUSSIAN:
        # log density of N(mean, variance), as weights of (1, reward, reward^2)
        weight, rate = rule.reward_prior[0], rule.reward_prior[2]
        mean = paid[1] / (paid[0] + weight)
        variance = (rate + max(paid[2] - mean * paid[1], 0.0)) / (1.0 + paid[0])
        law[0] = -0.5 * (math.log(variance) + mean * mean / variance)
        law[1] = mean / variance
        law[2] = -0.5 / variance


@kernel
def _rank(
    rule: Rule,
    parts: Floats,
    y: int,
    old: int,
    profile: Profile,
    laws: Laws,
    estimate: Floats,
    shortlist: Ints,
) -> None:
    """List the groups that look best for an observation, its own one first.

    The estimate takes the laws as fixed: one multiplication per entry and group.
    """
    n_actions, n_slots = profile.leads.shape
    reached = float(profile.totals[REACHED])
    for g in range(n_slots):
        estimate[g] = laws.size[g] - reached * laws.shown[g]
    for a in range(n_actions):
        if profile.loops[a] > 0:
            weight = float(profile.loops[a])
            for g in range(n_slots):
                estimate[g] += weight * laws.inner[a, g]
    if rule.reward_code != NO_REWARD:
        for a in range(n_actions):
            for k in range(parts.shape[2]):
                if parts[y, a, k] != 0.0:
                    for g in range(n_slots):
                        estimate[g] += parts[y, a, k] * laws.pay[a, k, g]
    for i in range(profile.totals[N_LEADS]):
        a, t = profile.lead_list[i, 0], profile.lead_list[i, 1]
        weight = float(profile.leads[a, t])
        for g in range(n_slots):
            estimate[g] += weight * laws.back[a, t, g]
    for i in range(profile.totals[N_COMES]):
        s, a = profile.come_list[i, 0], profile.come_list[i, 1]
        weight = float(profile.comes[s, a])
        for g in range(n_slots):
            estimate[g] += weight * laws.toward[s, a, g]
    n_listed = 0
    if old >= 0:
        shortlist[0] = old
        estimate[old] = np.inf
        n_listed = 1
    for g in range(n_slots):
        full = n_listed == shortlist.size
        if g == old or (full and estimate[g] <= estimate[shortlist[n_listed - 1]]):
            continue
        place = n_listed - 1 if full else n_listed
        while place > 0 and estimate[g] > estimate[shortlist[place - 1]]:
            shortlist[place] = shortlist[place - 1]
            place -= 1
        shortlist[place] = g
        n_listed = min(n_listed + 1, shortlist.size)


@kernel
def _draw(rises: Floats, temperature: float, uniform: float) -> int:
    """Draw a group with log chances proportional to rise / temperature; ``rises`` are used up."""
    highest = rises.max()
    total = 0.0
    for group in range(rises.size):
        rises[group] = math.exp((rises[group] - highest) / temperature)
        total += rises[group]
    left = uniform * total
    for group in range(rises.size):
        left -= rises[group]
        if left <= 0.0:
            return group
    return int(np.argmax(rises))


@kernel
def _measure(rises: Floats, margin: Floats) -> None:
    """Note by how much the best rise exceeds the second best, and the best one's chance."""
    best = np.argmax(rises)
    second = -np.inf
    total = 0.0
    for c in range(rises.size):
        total += math.exp(rises[c] - rises[best])
        if c != best:
            second = max(second, rises[c])
    margin[0] = rises[best] - second
    margin[1] = 1.0 / total


@kernel
def sweep(
    links: Links, parts: Floats, rule: Rule, blocks: Blocks, laws: Laws, order: Ints, lead: Floats
) -> int:
    """Visit the observations in ``order`` and move each to the group where the score is highest.

    Parameters
    ----------
    links, parts, rule, blocks
        Transitions, reward parts, score and grouping; the grouping is changed in place, and its
        score never falls.
    laws
        From `estimate_laws`, not necessarily of the grouping as it is now.
    order
        The observations to visit.
    lead : shape (Y,)
        For each observation visited, by how much its group is better than the next best one is
        noted here; 0 if it has just moved.

    Returns
    -------
    How many observations changed their group.

    Notes
    -----
    The last member of a group stays: only a merge removes a group.
    """
    n_slots, n_actions = blocks.out.shape
    ranked = laws.toward.size > 0
    estimate = np.empty(n_slots)
    candidates = np.empty(_SHORTLIST, np.int64) if ranked else np.arange(n_slots)
    rises = np.empty(candidates.size)
    profile = empty_profile(n_slots, n_actions)
    moved = 0
    for y in order:
        old = blocks.labels[y]
        if old >= 0 and blocks.size[old] == 1:
            continue
        take_out(links, parts, blocks, y, profile)
        if ranked:
            _rank(rule, parts, y, old, profile, laws, estimate, candidates)
        join_rises(rule, laws.rows, blocks, parts, y, candidates, n_slots, profile, rises)
        new, best, second = (old if old >= 0 else candidates[0]), -np.inf, -np.inf
        for c in range(candidates.size):
            if candidates[c] == old:
                best = rises[c]
        for c in range(candidates.size):
            if candidates[c] != old:
                # Rounding must not make an observation wander between equals.
                if rises[c] > best + _ROUNDING:
                    new, best, second = candidates[c], rises[c], best
                else:
                    second = max(second, rises[c])
        lead[y] = best - second if new == old else 0.0
        moved += new != old
        put(parts, blocks, y, new, profile)
    return moved


@kernel
def choose_sides(
    links: Links,
    parts: Floats,
    rule: Rule,
    blocks: Blocks,
    members: Ints,
    one: int,
    other: int,
    n_sweeps: int,
) -> int:
    """Let the members of two groups move between these two, until none does.

    Returns how many moved in the last sweep.
    """
    profile = empty_profile(*blocks.out.shape)
    n_groups = int(np.count_nonzero(blocks.size))
    rows = row_terms(rule, n_groups, (blocks.out[one] + blocks.out[other]).max())
    sides, rises = np.array([one, other]), np.empty(2)
    moved = 0
    for _ in range(n_sweeps):
        moved = 0
        for y in members:
            old = blocks.labels[y]
            if blocks.size[old] == 1:
                continue
            take_out(links, parts, blocks, y, profile)
            join_rises(rule, rows, blocks, parts, y, sides, n_groups, profile, rises)
            here = 0 if old == one else 1
            moves = rises[1 - here] > rises[here] + _ROUNDING
            moved += moves
            put(parts, blocks, y, sides[1 - here] if moves else old, profile)
        if moved == 0:
            break
    return moved


@kernel
def draw_sweep(
    links: Links,
    parts: Floats,
    rule: Rule,
    blocks: Blocks,
    order: Ints,
    temperature: float,
    draws: Floats,
) -> None:
    """Move each observation to a group drawn with log chances proportional to rise / temperature.

    ``draws`` holds one uniform number per entry of ``order``. The last member of a group stays.
    """
    n_slots, n_actions = blocks.out.shape
    groups, rises = np.arange(n_slots), np.empty(n_slots)
    rows = row_terms(rule, n_slots, 2 * blocks.out.max())
    profile = empty_profile(n_slots, n_actions)
    for index in range(order.size):
        y = order[index]
        if blocks.size[blocks.labels[y]] == 1:
            continue
        take_out(links, parts, blocks, y, profile)
        join_rises(rule, rows, blocks, parts, y, groups, n_slots, profile, rises)
        put(parts, blocks, y, _draw(rises, temperature, draws[index]), profile)


@kernel
def cool(
    links: Links,
    parts: Floats,
    rules: Rules,
    at: tuple[int, int, int],
    blocks: Blocks,
    orders: Ints,
    temperatures: Floats,
    draws: Floats,
    scores: Floats,
) -> tuple[int, int, int]:
    """Draw one sweep per temperature, and choose the rule again after each.

    Rows of ``orders`` and ``draws`` belong to the temperatures, and so do the ``scores``, which
    are filled in. Returns the place of the last rule; ``at`` is that of the first.
    """
    i, j, e = at
    for k in range(temperatures.size):
        rule = rule_at(rules, i, j, e)
        draw_sweep(links, parts, rule, blocks, orders[k], temperatures[k], draws[k])
        i, j, e, scores[k] = climb_rules(rules, blocks, i, j)
    return i, j, e


@kernel
def measure_margins(
    links: Links,
    parts: Floats,
    rule: Rule,
    blocks: Blocks,
    members: Ints,
    groups: Ints,
    margins: Floats,
) -> None:
    """Note how sure each placing is, given all others, in the rows of ``margins``; nothing moves.

    A row holds by how much the best of the ``groups`` exceeds the second best, and the best one's
    chance.
    """
    n_slots, n_actions = blocks.out.shape
    rises = np.empty(groups.size)
    rows = row_terms(rule, n_slots, 2 * blocks.out.max())
    profile = empty_profile(n_slots, n_actions)
    for y in members:
        old = blocks.labels[y]
        take_out(links, parts, blocks, y, profile)
        join_rises(rule, rows, blocks, parts, y, groups, n_slots, profile, rises)
        _measure(rises, margins[y])
        put(parts, blocks, y, old, profile)
