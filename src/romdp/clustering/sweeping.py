"""Sweeps: one observation after the other goes to the group where the score is highest."""

import math

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.blockmodel import Blocks, Rule, cell_term, group_term, reward_term, row_term
from romdp.clustering.links import Links
from romdp.compiled import kernel

EXACT_LIMIT = 8
"""Up to this many groups all are compared exactly; beyond, the best few by a linear estimate."""

_SHORTLIST = 4
_NO_GROUP = -1


@kernel
def _gather(
    links: Links,
    labels: NDArray[np.int64],
    y: int,
    leads: NDArray[np.int64],  # (A, S)
    comes: NDArray[np.int64],  # (S, A)
    loops: NDArray[np.int64],  # (A,)
    lead_list: NDArray[np.int64],
    come_list: NDArray[np.int64],
) -> tuple[int, int]:
    """Count where an observation leads and from where it is reached, in groups.

    The two lists name the entries that are not zero, as flat indices.
    """
    n_actions, n_groups = leads.shape
    n_leads = 0
    for a in range(n_actions):
        cell = y * n_actions + a
        for i in range(links.out_start[cell], links.out_start[cell + 1]):
            target = links.out_target[i]
            if target == y:
                loops[a] += links.out_count[i]
                continue
            t = labels[target]
            if t >= 0:
                if leads[a, t] == 0:
                    lead_list[n_leads] = a * n_groups + t
                    n_leads += 1
                leads[a, t] += links.out_count[i]
    n_comes = 0
    for i in range(links.in_start[y], links.in_start[y + 1]):
        source = links.in_cell[i] // n_actions
        if source == y:
            continue
        s = labels[source]
        if s >= 0:
            a = links.in_cell[i] - source * n_actions
            if comes[s, a] == 0:
                come_list[n_comes] = s * n_actions + a
                n_comes += 1
            comes[s, a] += links.in_count[i]
    return n_leads, n_comes


@kernel
def _shift(
    blocks: Blocks,
    parts: NDArray[np.float64],
    y: int,
    group: int,
    sign: int,
    leads: NDArray[np.int64],
    comes: NDArray[np.int64],
    loops: NDArray[np.int64],
    lead_list: NDArray[np.int64],
    come_list: NDArray[np.int64],
    reached: int,
) -> None:
    """Take an observation out of its group (sign -1) or put it in (+1).

    The row sums of those that lead to it, and the column sums of those it leads to, are the
    same wherever it is placed: they are left alone.
    """
    n_actions, n_groups = leads.shape
    for i in range(lead_list.size):
        a, t = divmod(lead_list[i], n_groups)
        blocks.moves[group, a, t] += sign * leads[a, t]
        blocks.out[group, a] += sign * leads[a, t]
    for i in range(come_list.size):
        s, a = divmod(come_list[i], n_actions)
        blocks.moves[s, a, group] += sign * comes[s, a]
    for a in range(n_actions):
        blocks.moves[group, a, group] += sign * loops[a]
        blocks.out[group, a] += sign * loops[a]
        for k in range(parts.shape[2]):
            blocks.pay[group, a, k] += sign * parts[y, a, k]
    blocks.into[group] += sign * reached
    blocks.size[group] += sign


@kernel
def _gain(
    rule: Rule,
    blocks: Blocks,
    parts: NDArray[np.float64],
    y: int,
    group: int,
    n_groups: int,
    leads: NDArray[np.int64],
    comes: NDArray[np.int64],
    loops: NDArray[np.int64],
    lead_list: NDArray[np.int64],
    come_list: NDArray[np.int64],
    led: NDArray[np.int64],
    reached: int,
    nothing: NDArray[np.float64],
) -> float:
    """By how much the score rises when an observation that is in no group joins this one."""
    n_actions, n_slots = leads.shape
    moves = blocks.moves
    value = 0.0
    for i in range(lead_list.size):
        a, t = divmod(lead_list[i], n_slots)
        if t != group:
            before = moves[group, a, t]
            value += cell_term(rule, before + leads[a, t]) - cell_term(rule, before)
    for i in range(come_list.size):
        s, a = divmod(come_list[i], n_actions)
        if s != group:
            before = moves[s, a, group]
            value += cell_term(rule, before + comes[s, a]) - cell_term(rule, before)
    for a in range(n_actions):
        more = leads[a, group] + comes[group, a] + loops[a]
        if more > 0:
            before = moves[group, a, group]
            value += cell_term(rule, before + more) - cell_term(rule, before)
        if led[a] > 0:
            before = blocks.out[group, a]
            value += row_term(rule, before + led[a], n_groups) - row_term(rule, before, n_groups)
        if rule.reward_code != 0:
            value += reward_term(rule, blocks.pay[group, a], parts[y, a])
            value -= reward_term(rule, blocks.pay[group, a], nothing)
    value += group_term(rule, blocks.into[group] + reached, blocks.size[group] + 1)
    value -= group_term(rule, blocks.into[group], blocks.size[group])
    return value


@kernel
def _log_laws(rule: Rule, blocks: Blocks, toward: NDArray[np.float64]) -> None:
    """Estimate log p[s, a, t] for a first ranking of the groups."""
    n_slots, n_actions = blocks.out.shape
    alpha = rule.alpha if rule.integrated else 0.5
    for s in range(n_slots):
        for a in range(n_actions):
            base = math.log(blocks.out[s, a] + alpha * n_slots)
            for t in range(n_slots):
                toward[s, a, t] = math.log(blocks.moves[s, a, t] + alpha) - base


@kernel
def _rank(
    rule: Rule,
    blocks: Blocks,
    parts: NDArray[np.float64],
    y: int,
    old: int,
    toward: NDArray[np.float64],
    from_there: NDArray[np.float64],
    leads: NDArray[np.int64],
    comes: NDArray[np.int64],
    loops: NDArray[np.int64],
    lead_list: NDArray[np.int64],
    come_list: NDArray[np.int64],
    reached: int,
    nothing: NDArray[np.float64],
    estimate: NDArray[np.float64],
    shortlist: NDArray[np.int64],
) -> int:
    """Put the groups that look best for an observation on the shortlist, its own one first."""
    n_actions, n_slots = leads.shape
    for g in range(n_slots):
        estimate[g] = -reached * math.log(blocks.into[g] + blocks.size[g] + 1.0)
        estimate[g] += math.log(blocks.size[g] + 1.0)
        if rule.reward_code != 0:
            for a in range(n_actions):
                if parts[y, a].any():
                    estimate[g] += reward_term(rule, blocks.pay[g, a], parts[y, a])
                    estimate[g] -= reward_term(rule, blocks.pay[g, a], nothing)
        for a in range(n_actions):
            estimate[g] += loops[a] * toward[g, a, g]
    for i in range(lead_list.size):
        a, t = divmod(lead_list[i], n_slots)
        weight = float(leads[a, t])
        row = from_there[a, t]
        for g in range(n_slots):
            estimate[g] += weight * row[g]
    for i in range(come_list.size):
        s, a = divmod(come_list[i], n_actions)
        weight = float(comes[s, a])
        row = toward[s, a]
        for g in range(n_slots):
            estimate[g] += weight * row[g]
    used = 0
    if old >= 0:
        shortlist[0] = old
        estimate[old] = -np.inf
        used = 1
    while used < shortlist.size:
        best = np.argmax(estimate)
        shortlist[used] = best
        estimate[best] = -np.inf
        used += 1
    return used


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
    allowed
        The groups to choose from. An observation outside of them is left where it is, unless it
        has no group.
    temperature, draws
        0: the best group; the score never falls. Above 0: a group drawn with log chances
        proportional to gain / temperature, from one uniform number per entry of ``order``.
    margins
        Empty, or shape (Y, 2): filled with the gain of the best group over the second best, and
        with the chance of the best one given all other labels. With margins nothing is moved.

    The last member of a group stays: only a merge removes a group.
    """
    n_slots, n_actions = blocks.out.shape
    labels = blocks.labels
    n_groups = 0
    is_allowed = np.zeros(n_slots, np.bool_)
    for g in range(n_slots):
        if blocks.size[g] > 0:
            n_groups += 1
    for g in allowed:
        is_allowed[g] = True
        if blocks.size[g] == 0:
            n_groups += 1  # it is about to be filled
    leads = np.zeros((n_actions, n_slots), np.int64)
    comes = np.zeros((n_slots, n_actions), np.int64)
    loops = np.zeros(n_actions, np.int64)
    led = np.zeros(n_actions, np.int64)
    lead_list = np.empty(n_actions * n_slots, np.int64)
    come_list = np.empty(n_actions * n_slots, np.int64)
    nothing = np.zeros(parts.shape[2])
    ranked = allowed.size == n_slots and n_slots > EXACT_LIMIT
    n_laws = n_slots if ranked else 0
    toward = np.empty((n_laws, n_actions, n_laws))
    from_there = np.empty((n_actions, n_laws, n_laws))
    estimate = np.empty(n_laws)
    candidates = np.empty(_SHORTLIST + 1, np.int64) if ranked else allowed
    if ranked:
        _log_laws(rule, blocks, toward)
        for s in range(n_slots):
            for a in range(n_actions):
                for t in range(n_slots):
                    from_there[a, t, s] = toward[s, a, t]
    gains = np.empty(max(candidates.size, 1))
    measure = margins.size > 0
    moved = 0
    for index in range(order.size):
        y = order[index]
        old = labels[y]
        if old >= 0 and not is_allowed[old]:
            continue
        alone = old >= 0 and blocks.size[old] == 1
        if alone and not measure:
            continue
        n_leads, n_comes = _gather(links, labels, y, leads, comes, loops, lead_list, come_list)
        reached = np.int64(0)
        for a in range(n_actions):
            led[a] = loops[a]
            reached += loops[a]
        for i in range(n_leads):
            a, t = divmod(lead_list[i], n_slots)
            led[a] += leads[a, t]
            if old < 0:
                blocks.into[t] += leads[a, t]
        for i in range(n_comes):
            s, a = divmod(come_list[i], n_actions)
            reached += comes[s, a]
            if old < 0:
                blocks.out[s, a] += comes[s, a]
        out_list, in_list = lead_list[:n_leads], come_list[:n_comes]
        if old >= 0:
            _shift(
                blocks, parts, y, old, -1, leads, comes, loops, out_list, in_list, reached
            )
        if ranked:
            _rank(
                rule, blocks, parts, y, old, toward, from_there, leads, comes, loops, out_list,
                in_list, reached, nothing, estimate, candidates,
            )
        best = _NO_GROUP
        best_gain = -np.inf
        old_gain = -np.inf
        for c in range(candidates.size):
            g = candidates[c]
            gains[c] = _gain(
                rule, blocks, parts, y, g, n_groups, leads, comes, loops, out_list, in_list, led,
                reached, nothing,
            )
            if g == old:
                old_gain = gains[c]
            if gains[c] > best_gain:
                best, best_gain = g, gains[c]
        if measure:
            second = -np.inf
            total = 0.0
            for c in range(candidates.size):
                total += math.exp(gains[c] - best_gain)
                if candidates[c] != best:
                    second = max(second, gains[c])
            margins[y, 0] = best_gain - second
            margins[y, 1] = 1.0 / total
            best = old
        elif temperature > 0.0:
            total = 0.0
            for c in range(candidates.size):
                total += math.exp((gains[c] - best_gain) / temperature)
            left = draws[index] * total
            for c in range(candidates.size):
                left -= math.exp((gains[c] - best_gain) / temperature)
                if left <= 0.0:
                    best = candidates[c]
                    break
        elif old_gain > best_gain - 1e-9:
            best = old  # rounding must not make an observation wander
        _shift(blocks, parts, y, best, 1, leads, comes, loops, out_list, in_list, reached)
        labels[y] = best
        moved += best != old
        for i in range(n_leads):
            a, t = divmod(lead_list[i], n_slots)
            leads[a, t] = 0
        for i in range(n_comes):
            s, a = divmod(come_list[i], n_actions)
            comes[s, a] = 0
        loops[:] = 0
    return moved


@kernel
def relabel(
    links: Links,
    parts: NDArray[np.float64],
    blocks: Blocks,
    members: NDArray[np.int64],
    group: int,
) -> None:
    """Move observations that have a group to another one, whatever the score says."""
    n_slots, n_actions = blocks.out.shape
    leads = np.zeros((n_actions, n_slots), np.int64)
    comes = np.zeros((n_slots, n_actions), np.int64)
    loops = np.zeros(n_actions, np.int64)
    lead_list = np.empty(n_actions * n_slots, np.int64)
    come_list = np.empty(n_actions * n_slots, np.int64)
    for y in members:
        n_leads, n_comes = _gather(
            links, blocks.labels, y, leads, comes, loops, lead_list, come_list
        )
        out_list, in_list = lead_list[:n_leads], come_list[:n_comes]
        reached = comes.sum() + loops.sum()
        old = blocks.labels[y]
        _shift(blocks, parts, y, old, -1, leads, comes, loops, out_list, in_list, reached)
        _shift(blocks, parts, y, group, 1, leads, comes, loops, out_list, in_list, reached)
        blocks.labels[y] = group
        leads[:] = 0
        comes[:] = 0
        loops[:] = 0


@kernel
def _fill_profiles(
    links: Links,
    labels: NDArray[np.int64],
    members: NDArray[np.int64],
    n_slots: int,
    profiles: NDArray[np.float64],
) -> None:
    n_actions = links.n_actions
    leads = np.zeros((n_actions, n_slots), np.int64)
    comes = np.zeros((n_slots, n_actions), np.int64)
    loops = np.zeros(n_actions, np.int64)
    lead_list = np.empty(n_actions * n_slots, np.int64)
    come_list = np.empty(n_actions * n_slots, np.int64)
    half = n_actions * n_slots
    for row in range(members.size):
        y = members[row]
        n_leads, n_comes = _gather(links, labels, y, leads, comes, loops, lead_list, come_list)
        for i in range(n_leads):
            a, t = divmod(lead_list[i], n_slots)
            profiles[row, lead_list[i]] = leads[a, t]
            leads[a, t] = 0
        for i in range(n_comes):
            s, a = divmod(come_list[i], n_actions)
            profiles[row, half + come_list[i]] = comes[s, a]
            comes[s, a] = 0
        loops[:] = 0


def group_profiles(
    links: Links,
    labels: NDArray[np.int64],
    members: NDArray[np.int64],
    n_slots: int,
) -> NDArray[np.float64]:
    """Count where observations lead, (a, t), then from where they are reached, (s, a)."""
    profiles = np.zeros((len(members), 2 * links.n_actions * n_slots))
    _fill_profiles(links, labels, members, n_slots, profiles)
    return profiles
