"""Sweeps: one observation after the other goes to the group where the score is highest.

By how much the score rises when an observation joins a group depends on its *profile* alone:
where it leads and from where it is reached, counted by group, and what it pays.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.likelihood.blockmodel import (
    Blocks,
    Rule,
    cell_rise,
    member_rise,
    reward_rise,
    row_rise,
)
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN, NO_REWARD
from romdp.core.compiled import kernel

EXACT_LIMIT = 8
"""Up to this many groups all are compared exactly; beyond, the best few by a linear estimate.

Draws are always among all groups."""

N_LEADS, N_COMES, REACHED = range(3)
"""Places in `Profile.totals`: the lengths of the two lists, and how often it was reached."""

_SHORTLIST = 5
_ROUNDING = 1e-9


class Profile(NamedTuple):
    """The profile of one observation at a time; all zero between uses.

    Transitions from and to observations without a group do not count.
    """

    leads: NDArray[np.int64]  # (A, S): to groups, without itself
    comes: NDArray[np.int64]  # (S, A): from groups, without itself
    loops: NDArray[np.int64]  # (A,): to itself
    led: NDArray[np.int64]  # (A,): all that leave it
    lead_list: NDArray[np.int64]  # (A * S, 2): indices of what is not zero in `leads`
    come_list: NDArray[np.int64]  # (S * A, 2): and in `comes`
    totals: NDArray[np.int64]  # (3,): see `N_LEADS`, `N_COMES` and `REACHED`


@kernel
def empty_profile(n_groups: int, n_actions: int) -> Profile:
    """Make a profile in which nothing is counted yet."""
    return Profile(
        np.zeros((n_actions, n_groups), np.int64),
        np.zeros((n_groups, n_actions), np.int64),
        np.zeros(n_actions, np.int64),
        np.zeros(n_actions, np.int64),
        np.empty((n_actions * n_groups, 2), np.int64),
        np.empty((n_actions * n_groups, 2), np.int64),
        np.zeros(3, np.int64),
    )


@kernel
def gather(links: Links, labels: NDArray[np.int64], y: int, profile: Profile) -> None:
    """Fill in the profile of observation y."""
    n_actions = links.n_actions
    n_leads = 0
    reached = 0
    for a in range(n_actions):
        cell = y * n_actions + a
        for i in range(links.out_start[cell], links.out_start[cell + 1]):
            target = links.out_target[i]
            count = links.out_count[i]
            if target == y:
                profile.loops[a] += count
                profile.led[a] += count
                reached += count
                continue
            t = labels[target]
            if t >= 0:
                if profile.leads[a, t] == 0:
                    profile.lead_list[n_leads, 0] = a
                    profile.lead_list[n_leads, 1] = t
                    n_leads += 1
                profile.leads[a, t] += count
                profile.led[a] += count
    n_comes = 0
    for i in range(links.in_start[y], links.in_start[y + 1]):
        source = links.in_cell[i] // n_actions
        if source == y:
            continue
        s = labels[source]
        if s >= 0:
            a = links.in_cell[i] - source * n_actions
            if profile.comes[s, a] == 0:
                profile.come_list[n_comes, 0] = s
                profile.come_list[n_comes, 1] = a
                n_comes += 1
            profile.comes[s, a] += links.in_count[i]
            reached += links.in_count[i]
    profile.totals[N_LEADS] = n_leads
    profile.totals[N_COMES] = n_comes
    profile.totals[REACHED] = reached


@kernel
def clear(profile: Profile) -> None:
    """Set the profile back to zero, in time proportional to what it holds."""
    for i in range(profile.totals[N_LEADS]):
        a, t = profile.lead_list[i, 0], profile.lead_list[i, 1]
        profile.leads[a, t] = 0
    for i in range(profile.totals[N_COMES]):
        s, a = profile.come_list[i, 0], profile.come_list[i, 1]
        profile.comes[s, a] = 0
    profile.loops[:] = 0
    profile.led[:] = 0


@kernel
def announce(blocks: Blocks, profile: Profile) -> None:
    """Count the transitions between the groups and an observation that is about to join one.

    The row sums of those that lead to it, and the column sums of those it leads to, are the
    same wherever it goes; so `shift` and `join_rise` leave them alone.
    """
    for i in range(profile.totals[N_LEADS]):
        a, t = profile.lead_list[i, 0], profile.lead_list[i, 1]
        blocks.into[t] += profile.leads[a, t]
    for i in range(profile.totals[N_COMES]):
        s, a = profile.come_list[i, 0], profile.come_list[i, 1]
        blocks.out[s, a] += profile.comes[s, a]


@kernel
def shift(
    blocks: Blocks, parts: NDArray[np.float64], y: int, group: int, sign: int, profile: Profile
) -> None:
    """Put an observation in a group (sign +1) or take it out (-1)."""
    n_actions = profile.loops.size
    for i in range(profile.totals[N_LEADS]):
        a, t = profile.lead_list[i, 0], profile.lead_list[i, 1]
        blocks.moves[group, a, t] += sign * profile.leads[a, t]
    for i in range(profile.totals[N_COMES]):
        s, a = profile.come_list[i, 0], profile.come_list[i, 1]
        blocks.moves[s, a, group] += sign * profile.comes[s, a]
    for a in range(n_actions):
        blocks.moves[group, a, group] += sign * profile.loops[a]
        blocks.out[group, a] += sign * profile.led[a]
        for k in range(parts.shape[2]):
            blocks.pay[group, a, k] += sign * parts[y, a, k]
    blocks.into[group] += sign * profile.totals[REACHED]
    blocks.size[group] += sign


@kernel
def join_rise(
    rule: Rule,
    blocks: Blocks,
    parts: NDArray[np.float64],
    y: int,
    group: int,
    n_groups: int,
    profile: Profile,
) -> float:
    """By how much the score rises when an observation in no group joins this one.

    ``n_groups`` is the number of groups afterwards, the same for all that are compared.
    """
    n_actions = profile.loops.size
    moves = blocks.moves
    value = 0.0
    for i in range(profile.totals[N_LEADS]):
        a, t = profile.lead_list[i, 0], profile.lead_list[i, 1]
        if t != group:
            value += cell_rise(rule, moves[group, a, t], profile.leads[a, t])
    for i in range(profile.totals[N_COMES]):
        s, a = profile.come_list[i, 0], profile.come_list[i, 1]
        if s != group:
            value += cell_rise(rule, moves[s, a, group], profile.comes[s, a])
    for a in range(n_actions):
        more = profile.leads[a, group] + profile.comes[group, a] + profile.loops[a]
        if more > 0:
            value += cell_rise(rule, moves[group, a, group], more)
        if profile.led[a] > 0:
            value += row_rise(rule, blocks.out[group, a], profile.led[a], n_groups)
        if rule.reward_code != NO_REWARD and parts[y, a].any():
            value += reward_rise(rule, blocks.pay[group, a], parts[y, a])
    return value + member_rise(blocks.into[group], profile.totals[REACHED], blocks.size[group])


class Laws(NamedTuple):
    """Estimates under which the score of a placing is linear in the observation's counts."""

    toward: NDArray[np.float64]  # (S, A, S): log p[s, a, t]
    back: NDArray[np.float64]  # (A, S, S): the same, [a, t, s]
    pay: NDArray[np.float64]  # (A, n_parts, S): log likelihood of each reward part


@kernel
def _estimate_laws(rule: Rule, blocks: Blocks, laws: Laws) -> None:
    """Fill in the laws of the groups as they are."""
    n_slots, n_actions = blocks.out.shape
    alpha = rule.alpha
    for s in range(n_slots):
        for a in range(n_actions):
            base = math.log(blocks.out[s, a] + alpha * n_slots)
            for t in range(n_slots):
                laws.toward[s, a, t] = math.log(blocks.moves[s, a, t] + alpha) - base
                laws.back[a, t, s] = laws.toward[s, a, t]
            paid = blocks.pay[s, a]
            if rule.reward_code == CATEGORICAL:
                visits = paid.sum() + 0.5 * paid.size
                for k in range(paid.size):
                    laws.pay[a, k, s] = math.log((paid[k] + 0.5) / visits)
            elif rule.reward_code == GAUSSIAN:
                # log density of N(mean, variance), as weights of (1, reward, reward^2)
                weight, rate = rule.reward_prior[0], rule.reward_prior[2]
                mean = paid[1] / (paid[0] + weight)
                variance = (rate + max(paid[2] - mean * paid[1], 0.0)) / (1.0 + paid[0])
                laws.pay[a, 0, s] = -0.5 * (math.log(variance) + mean * mean / variance)
                laws.pay[a, 1, s] = mean / variance
                laws.pay[a, 2, s] = -0.5 / variance


@kernel
def _rank(
    rule: Rule,
    blocks: Blocks,
    parts: NDArray[np.float64],
    y: int,
    old: int,
    profile: Profile,
    laws: Laws,
    estimate: NDArray[np.float64],
    shortlist: NDArray[np.int64],
) -> None:
    """List the groups that look best for an observation, its own one first.

    The estimate takes the laws as fixed: one multiplication per entry and group.
    """
    n_actions, n_slots = profile.leads.shape
    for g in range(n_slots):
        size = blocks.size[g] + 1.0
        estimate[g] = math.log(size) - profile.totals[REACHED] * math.log(blocks.into[g] + size)
        for a in range(n_actions):
            estimate[g] += profile.loops[a] * laws.toward[g, a, g]
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
    first = 0
    if old >= 0:
        shortlist[0] = old
        estimate[old] = -np.inf
        first = 1
    for place in range(first, shortlist.size):
        best = np.argmax(estimate)
        shortlist[place] = best
        estimate[best] = -np.inf


@kernel
def _draw(
    candidates: NDArray[np.int64], rises: NDArray[np.float64], temperature: float, uniform: float
) -> int:
    """Draw a group with log chances proportional to rise / temperature."""
    highest = rises.max()
    total = 0.0
    for c in range(candidates.size):
        total += math.exp((rises[c] - highest) / temperature)
    left = uniform * total
    for c in range(candidates.size):
        left -= math.exp((rises[c] - highest) / temperature)
        if left <= 0.0:
            return int(candidates[c])
    return int(candidates[np.argmax(rises)])


@kernel
def _measure(rises: NDArray[np.float64], margin: NDArray[np.float64]) -> None:
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
    links: Links,
    parts: NDArray[np.float64],
    rule: Rule,
    blocks: Blocks,
    order: NDArray[np.int64],
    allowed: NDArray[np.int64],
    temperature: float,
    draws: NDArray[np.float64],
    margins: NDArray[np.float64],
) -> int:
    """Visit the observations in ``order`` and place each; returns how many changed their group.

    Parameters
    ----------
    links, parts, rule, blocks
        Transitions, reward parts, score and grouping; the grouping is changed in place.
    order
        The observations to visit. One that has a group outside of ``allowed`` is left there.
    allowed
        The groups to choose from.
    temperature, draws
        0: the best group; the score never falls. Above 0: a group drawn with log chances
        proportional to rise / temperature, from one uniform number per entry of ``order``.
    margins
        Empty, or shape (Y, 2): then nothing moves, and for each observation visited by how much
        the best group over the second best is noted, and the chance of the best one given all
        other labels.

    Notes
    -----
    The last member of a group stays: only a merge removes a group.
    """
    n_slots, n_actions = blocks.out.shape
    labels = blocks.labels
    measure = margins.size > 0
    is_allowed = np.zeros(n_slots, np.bool_)
    for g in allowed:
        is_allowed[g] = True
    n_groups = 0
    for g in range(n_slots):
        if blocks.size[g] > 0 or is_allowed[g]:
            n_groups += 1
    ranked = allowed.size == n_slots and n_slots > EXACT_LIMIT and temperature == 0.0
    n_laws = n_slots if ranked else 0
    laws = Laws(
        np.empty((n_laws, n_actions, n_laws)),
        np.empty((n_actions, n_laws, n_laws)),
        np.zeros((n_actions, parts.shape[2], n_laws)),
    )
    estimate = np.empty(n_laws)
    candidates = np.empty(_SHORTLIST, np.int64) if ranked else allowed.copy()
    if ranked:
        _estimate_laws(rule, blocks, laws)
    rises = np.empty(candidates.size)
    profile = empty_profile(n_slots, n_actions)
    moved = 0
    for index in range(order.size):
        y = order[index]
        old = labels[y]
        if old >= 0 and (not is_allowed[old] or (blocks.size[old] == 1 and not measure)):
            continue
        gather(links, labels, y, profile)
        if old >= 0:
            shift(blocks, parts, y, old, -1, profile)
        else:
            announce(blocks, profile)
        if ranked:
            _rank(rule, blocks, parts, y, old, profile, laws, estimate, candidates)
        new = old
        new_rise = -np.inf
        for c in range(candidates.size):
            rises[c] = join_rise(rule, blocks, parts, y, candidates[c], n_groups, profile)
            if candidates[c] == old:
                new_rise = rises[c]
        if measure:
            _measure(rises, margins[y])
        elif temperature > 0.0:
            new = _draw(candidates, rises, temperature, draws[index])
        else:
            for c in range(candidates.size):
                # Rounding must not make an observation wander between equals.
                if rises[c] > new_rise + _ROUNDING:
                    new, new_rise = candidates[c], rises[c]
        shift(blocks, parts, y, new, 1, profile)
        labels[y] = new
        moved += new != old
        clear(profile)
    return moved
