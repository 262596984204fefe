"""The profile of an observation: where it leads and from where it is reached, counted by group.

By how much the score rises when an observation joins a group depends on its profile and on what
it pays.
"""

from typing import NamedTuple

import numpy as np

from romdp.clustering.likelihood.blockmodel import (
    Blocks,
    Rule,
    gaussian_term,
    log_rising,
    member_rise,
    reward_rise,
    row_mass,
)
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN
from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel

N_LEADS, N_COMES, N_TRIED, REACHED = range(4)
"""Places in `Profile.totals`: the lengths of the three lists, and how often it was reached."""


class Profile(NamedTuple):
    """The profile of one observation at a time; all zero between uses.

    Transitions from and to observations without a group do not count.
    """

    leads: Ints  # (A, S): to groups, without itself
    comes: Ints  # (S, A): from groups, without itself
    loops: Ints  # (A,): to itself
    led: Ints  # (A,): all that leave it
    lead_list: Ints  # (A * S, 2): indices of what is not zero in `leads`
    come_list: Ints  # (S * A, 2): and in `comes`
    tried: Ints  # (A,): the actions that led somewhere or were paid
    totals: Ints  # (4,): see `N_LEADS`, `N_COMES`, `N_TRIED` and `REACHED`


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
        np.empty(n_actions, np.int64),
        np.zeros(4, np.int64),
    )


@kernel
def fill_profile(links: Links, parts: Floats, labels: Ints, y: int, profile: Profile) -> None:
    """Fill in the profile of observation y."""
    n_actions = links.n_actions
    n_leads = 0
    n_tried = 0
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
        tried = profile.led[a] > 0
        for k in range(parts.shape[2]):
            tried |= parts[y, a, k] != 0.0
        if tried:
            profile.tried[n_tried] = a
            n_tried += 1
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
    profile.totals[N_TRIED] = n_tried
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
    for i in range(profile.totals[N_TRIED]):
        profile.loops[profile.tried[i]] = 0
        profile.led[profile.tried[i]] = 0


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
def shift(blocks: Blocks, parts: Floats, y: int, group: int, sign: int, profile: Profile) -> None:
    """Put an observation in a group (sign +1) or take it out (-1); -1 is no group here."""
    for i in range(profile.totals[N_LEADS]):
        a, t = profile.lead_list[i, 0], profile.lead_list[i, 1]
        blocks.moves[group, a, t] += sign * profile.leads[a, t]
    for i in range(profile.totals[N_COMES]):
        s, a = profile.come_list[i, 0], profile.come_list[i, 1]
        blocks.moves[s, a, group] += sign * profile.comes[s, a]
    for i in range(profile.totals[N_TRIED]):
        a = profile.tried[i]
        blocks.moves[group, a, group] += sign * profile.loops[a]
        blocks.out[group, a] += sign * profile.led[a]
        for k in range(parts.shape[2]):
            blocks.pay[group, a, k] += sign * parts[y, a, k]
    blocks.into[group] += sign * profile.totals[REACHED]
    blocks.size[group] += sign


@kernel
def join_rises(
    rule: Rule,
    rows: Floats,
    blocks: Blocks,
    parts: Floats,
    y: int,
    groups: Ints,
    n_groups: int,
    profile: Profile,
    rises: Floats,
) -> None:
    """By how much the score rises when an observation in no group joins each of some groups.

    ``n_groups`` is the number of groups afterwards, the same for all that are compared; ``rows``
    is `row_terms` for it.
    """
    # This is where sweeps spend their time. Tables are read directly where counts are small:
    # calls would take most of it.
    moves, table, stayed, out = blocks.moves, rule.table, rule.stay_table, blocks.out
    reached, mass = profile.totals[REACHED], row_mass(rule, n_groups)
    gammas, weight = rule.gammas, rule.emission
    for c in range(groups.size):
        size, shown = blocks.size[groups[c]], blocks.into[groups[c]]
        mass_before, before = weight * size, 4 * shown + weight * size
        after = before + 4 * reached + weight
        if size > 0 and max(after, 4 * size + 8) < gammas.size:
            rises[c] = gammas[mass_before + weight] - gammas[mass_before]
            rises[c] += gammas[before] - gammas[after] + gammas[4 * size + 8] - gammas[4 * size + 4]
        else:
            rises[c] = member_rise(rule, shown, reached, size)
    for i in range(profile.totals[N_LEADS]):
        a, t = profile.lead_list[i, 0], profile.lead_list[i, 1]
        more = profile.leads[a, t]
        for c in range(groups.size):
            if groups[c] != t:
                n = moves[groups[c], a, t]
                if n + more < table.size:
                    rises[c] += table[n + more] - table[n]
                else:
                    rises[c] += log_rising(n + rule.alpha, float(more))
    for i in range(profile.totals[N_COMES]):
        s, a = profile.come_list[i, 0], profile.come_list[i, 1]
        more = profile.comes[s, a]
        for c in range(groups.size):
            if groups[c] != s:
                n = moves[s, a, groups[c]]
                if n + more < table.size:
                    rises[c] += table[n + more] - table[n]
                else:
                    rises[c] += log_rising(n + rule.alpha, float(more))
    for a in range(profile.loops.size):
        for c in range(groups.size):
            g = groups[c]
            more = profile.leads[a, g] + profile.comes[g, a] + profile.loops[a]
            if more > 0:
                n = moves[g, a, g]
                if n + more < stayed.size:
                    rises[c] += stayed[n + more] - stayed[n]
                else:
                    rises[c] += log_rising(n + rule.stay, float(more))
    for i in range(profile.totals[N_TRIED]):
        a = profile.tried[i]
        more = profile.led[a]
        for c in range(groups.size):
            n = out[groups[c], a]
            if n + more < rows.size:
                rises[c] += rows[n + more] - rows[n]
            else:
                rises[c] -= log_rising(n + mass, float(more))
        if rule.reward_code == CATEGORICAL:
            _add_level_rises(rule, blocks.pay, parts, y, a, groups, rises)
        elif rule.reward_code == GAUSSIAN and parts[y, a, 0] > 0.0:
            n, total, squares = parts[y, a, 0], parts[y, a, 1], parts[y, a, 2]
            for c in range(groups.size):
                g, pay = groups[c], blocks.pay
                visits, paid, paid_squares = pay[g, a, 0], pay[g, a, 1], pay[g, a, 2]
                rises[c] -= gaussian_term(rule, visits, paid, paid_squares)
                rises[c] += gaussian_term(rule, visits + n, paid + total, paid_squares + squares)


@kernel
def _add_level_rises(
    rule: Rule, pay: Floats, parts: Floats, y: int, a: int, groups: Ints, rises: Floats
) -> None:
    """Add `reward_rise` of an action, where rewards take a few levels."""
    table = rule.reward_table
    n_levels = parts.shape[2]
    joining = 0.0
    for k in range(n_levels):
        joining += parts[y, a, k]
    for c in range(groups.size):
        g = groups[c]
        visits = 0.0
        for k in range(n_levels):
            visits += pay[g, a, k]
        if visits + joining >= table.shape[1]:
            rises[c] += reward_rise(rule, pay[g, a], parts[y, a])
            continue
        rises[c] -= table[n_levels, int(visits + joining)] - table[n_levels, int(visits)]
        for k in range(n_levels):
            more = parts[y, a, k]
            if more > 0:
                paid = pay[g, a, k]
                rises[c] += table[k, int(paid + more)] - table[k, int(paid)]


@kernel
def take_out(links: Links, parts: Floats, blocks: Blocks, y: int, profile: Profile) -> None:
    """Gather the profile of an observation and take it out of its group, if it has one."""
    fill_profile(links, parts, blocks.labels, y, profile)
    if blocks.labels[y] >= 0:
        shift(blocks, parts, y, blocks.labels[y], -1, profile)
    else:
        announce(blocks, profile)


@kernel
def put(parts: Floats, blocks: Blocks, y: int, group: int, profile: Profile) -> None:
    """Put an observation that was taken out into a group."""
    shift(blocks, parts, y, group, 1, profile)
    blocks.labels[y] = group
    clear(profile)
