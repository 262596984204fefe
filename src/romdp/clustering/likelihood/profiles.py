"""The profile of an observation: where it leads and from where it is reached, counted by group.

By how much the score rises when an observation joins a group depends on its profile and on what
it pays.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.likelihood.blockmodel import (
    Blocks,
    Rule,
    log_rising,
    member_rise,
    reward_rise,
    row_mass,
)
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import NO_REWARD
from romdp.core.compiled import kernel

N_LEADS, N_COMES, REACHED = range(3)
"""Places in `Profile.totals`: the lengths of the two lists, and how often it was reached."""


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
def fill_profile(links: Links, labels: NDArray[np.int64], y: int, profile: Profile) -> None:
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
    # Tables are read directly where counts are small: calls would take most of the time.
    moves, table, stayed = blocks.moves, rule.table, rule.stay_table
    leads, comes = profile.leads, profile.comes
    lead_list, come_list = profile.lead_list, profile.come_list
    value = 0.0
    for i in range(profile.totals[N_LEADS]):
        a, t = lead_list[i, 0], lead_list[i, 1]
        if t != group:
            n, more = moves[group, a, t], leads[a, t]
            if n + more < table.size:
                value += table[n + more] - table[n]
            else:
                value += log_rising(n + rule.alpha, float(more))
    for i in range(profile.totals[N_COMES]):
        s, a = come_list[i, 0], come_list[i, 1]
        if s != group:
            n, more = moves[s, a, group], comes[s, a]
            if n + more < table.size:
                value += table[n + more] - table[n]
            else:
                value += log_rising(n + rule.alpha, float(more))
    mass = row_mass(rule, n_groups)
    for a in range(profile.loops.size):
        n, more = moves[group, a, group], leads[a, group] + comes[group, a] + profile.loops[a]
        if more > 0:
            if n + more < stayed.size:
                value += stayed[n + more] - stayed[n]
            else:
                value += log_rising(n + rule.stay, float(more))
        if profile.led[a] > 0:
            value += -log_rising(blocks.out[group, a] + mass, float(profile.led[a]))
        if rule.reward_code != NO_REWARD and parts[y, a].any():
            value += reward_rise(rule, blocks.pay[group, a], parts[y, a])
    reached = profile.totals[REACHED]
    return value + member_rise(blocks.into[group], reached, blocks.size[group])


@kernel
def take_out(
    links: Links, parts: NDArray[np.float64], blocks: Blocks, y: int, profile: Profile
) -> None:
    """Gather the profile of an observation and take it out of its group, if it has one."""
    fill_profile(links, blocks.labels, y, profile)
    if blocks.labels[y] >= 0:
        shift(blocks, parts, y, blocks.labels[y], -1, profile)
    else:
        announce(blocks, profile)


@kernel
def put(parts: NDArray[np.float64], blocks: Blocks, y: int, group: int, profile: Profile) -> None:
    """Put an observation that was taken out into a group."""
    shift(blocks, parts, y, group, 1, profile)
    blocks.labels[y] = group
    clear(profile)
