"""Splits: a group is cut in two along the direction in which its members differ most."""

import numpy as np

from romdp.clustering.clusterer import Slices
from romdp.clustering.likelihood.blockmodel import Blocks, Rule, row_term, zero_blocks
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.merging import pair_rise, rise_given, row_fewer
from romdp.clustering.likelihood.profiles import (
    N_COMES,
    N_LEADS,
    clear,
    empty_profile,
    fill_profile,
    put,
    take_out,
)
from romdp.clustering.likelihood.rewardlaw import GAUSSIAN, RewardLaw
from romdp.clustering.likelihood.sweeping import choose_sides
from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel

_MOST_MEMBERS = 2000  # that the direction is found from, and that choose their side at once
_POWER_STEPS = 12
_SWEEPS = 8


def add_slot(blocks: Blocks) -> Blocks:
    """Copy the blocks, with one more group that is empty."""
    n_slots, n_actions = blocks.out.shape
    larger = zero_blocks(blocks.labels.copy(), n_slots + 1, n_actions, blocks.pay.shape[2])
    larger.moves[:-1, :, :-1] = blocks.moves
    for new, old in zip(larger[2:], blocks[2:], strict=True):
        new[:-1] = old
    return larger


def drop_slot(blocks: Blocks) -> Blocks:
    """Copy the blocks without the last group, which must be empty."""
    n_slots, n_actions = blocks.out.shape
    smaller = zero_blocks(blocks.labels.copy(), n_slots - 1, n_actions, blocks.pay.shape[2])
    smaller.moves[:] = blocks.moves[:-1, :, :-1]
    for new, old in zip(smaller[2:], blocks[2:], strict=True):
        new[:] = old[:-1]
    return smaller


def split_group(
    links: Links,
    law: RewardLaw,
    rule: Rule,
    blocks: Blocks,
    group: int,
    rng: np.random.Generator,
    fewer: float,
) -> Slices[float]:
    """Cut a group in two, in place: part of it moves to the last group, which must be empty.

    The cut starts along the direction in which members differ most, then every member chooses its
    side. Returns by how much the score rises, exactly; -inf where the group cannot be cut.
    ``fewer`` is `all_fewer` of the groups before the cut, the empty one counted.
    """
    members = rng.permutation(np.flatnonzero(blocks.labels == group))
    if len(members) < 2:
        return -np.inf
    direction = rng.standard_normal(min(len(members), _MOST_MEMBERS))
    if not _cut(links, law.parts, rule, blocks, members, direction):
        return -np.inf
    new = blocks.size.size - 1
    if len(members) <= _MOST_MEMBERS:
        choose_sides(links, law.parts, rule, blocks, members, group, new, _SWEEPS)
    else:
        for _ in range(_SWEEPS):
            moved = 0
            for first in range(0, len(members), _MOST_MEMBERS):
                yield
                some = members[first : first + _MOST_MEMBERS]
                moved += choose_sides(links, law.parts, rule, blocks, some, group, new, 1)
            if moved == 0:
                break
    return float(_rise_of_cut(links, rule, blocks, members, group, fewer))


def unsplit(links: Links, law: RewardLaw, blocks: Blocks, group: int) -> None:
    """Take a cut back."""
    new = blocks.size.size - 1
    relabel(links, law.parts, blocks, np.flatnonzero(blocks.labels == new), group)


@kernel
def _cut(
    links: Links, parts: Floats, rule: Rule, blocks: Blocks, members: Ints, direction: Floats
) -> bool:
    """Move members to the last group along the direction in which the first of them differ most."""
    shown = members[: direction.size]
    turn_to_leading(residuals(links, parts, rule.reward_code, blocks, shown), direction)
    if np.count_nonzero(direction > 0) in (0, direction.size):
        return False
    relabel(links, parts, blocks, shown[direction > 0], blocks.size.size - 1)
    return True


@kernel
def _rise_of_cut(
    links: Links, rule: Rule, blocks: Blocks, members: Ints, group: int, fewer: float
) -> float:
    """By how much the score has risen since some members of a group moved to the last one."""
    new, n_groups = blocks.size.size - 1, int(np.count_nonzero(blocks.size))
    for a in range(blocks.out.shape[1]):  # `fewer` is that of the group before the cut
        total = blocks.out[group, a] + blocks.out[new, a]
        fewer -= row_term(rule, total, n_groups - 1) - row_term(rule, total, n_groups)
    fewer += row_fewer(rule, blocks, group, n_groups) + row_fewer(rule, blocks, new, n_groups)
    shared = _shared_with(links, rule, blocks, members, group, new)
    return -shared - rise_given(rule, blocks, group, new, n_groups, fewer)


@kernel
def _shared_with(
    links: Links, rule: Rule, blocks: Blocks, members: Ints, group: int, new: int
) -> float:
    """By how much the cells between the two groups and all others rise when these become one.

    Only transitions of members are looked at: a group's column is scattered in memory.
    """
    moves, labels = blocks.moves, blocks.labels
    n_slots, n_actions = blocks.out.shape
    value = 0.0
    for a in range(n_actions):
        for t in range(n_slots):
            if t not in (group, new):
                value += pair_rise(rule, moves[group, a, t], moves[new, a, t])
    counted = np.zeros(n_slots * n_actions, np.bool_)
    for y in members:
        for i in range(links.in_start[y], links.in_start[y + 1]):
            source = links.in_cell[i] // n_actions
            s = labels[source]
            a = links.in_cell[i] - source * n_actions
            if labels[y] == new and s not in (-1, group, new) and not counted[s * n_actions + a]:
                counted[s * n_actions + a] = True
                value += pair_rise(rule, moves[s, a, group], moves[s, a, new])
    return value


@kernel
def residuals(
    links: Links, parts: Floats, reward_code: int, blocks: Blocks, members: Ints
) -> Floats:
    """Compare each member's counts with those of its group: (count - expected) / root.

    One row per member; a column for each (action, group) that some member leads to, for each
    (group, action) that leads to one, and for each reward part. Expected is what a member would
    have if it were like the group as a whole.
    """
    n_slots, n_actions = blocks.out.shape
    leading, coming = np.full(n_actions * n_slots, -1), np.full(n_slots * n_actions, -1)
    profile = empty_profile(n_slots, n_actions)
    n_columns = 0
    for y in members:
        fill_profile(links, parts, blocks.labels, y, profile)
        for i in range(profile.totals[N_LEADS]):
            column = profile.lead_list[i, 0] * n_slots + profile.lead_list[i, 1]
            if leading[column] < 0:
                leading[column] = n_columns
                n_columns += 1
        for i in range(profile.totals[N_COMES]):
            column = profile.come_list[i, 0] * n_actions + profile.come_list[i, 1]
            if coming[column] < 0:
                coming[column] = n_columns
                n_columns += 1
        clear(profile)
    n_parts = 0 if reward_code == 0 else parts.shape[2]
    found = np.zeros((members.size, n_columns + n_actions * n_parts))
    # Columns whose counts are compared as shares of their sum have the same number here.
    family = np.full(found.shape[1], n_actions)
    for column in range(leading.size):
        if leading[column] >= 0:
            family[leading[column]] = column // n_slots
    for row in range(members.size):
        fill_profile(links, parts, blocks.labels, members[row], profile)
        for i in range(profile.totals[N_LEADS]):
            a, t = profile.lead_list[i, 0], profile.lead_list[i, 1]
            found[row, leading[a * n_slots + t]] = profile.leads[a, t]
        for i in range(profile.totals[N_COMES]):
            s, a = profile.come_list[i, 0], profile.come_list[i, 1]
            found[row, coming[s * n_actions + a]] = profile.comes[s, a]
        clear(profile)
        for a in range(n_actions):
            for k in range(n_parts):
                column = n_columns + a * n_parts + k
                found[row, column] = parts[members[row], a, k]
                family[column] = n_actions + 1 + a
    if reward_code == GAUSSIAN:
        _excess(found[:, :n_columns], family[:n_columns], n_actions + 1)
        _reward_excess(found[:, n_columns:])
    else:
        _excess(found, family, 2 * n_actions + 1)
    return found


@kernel
def _excess(counts: Floats, family: Ints, n_families: int) -> None:
    """Subtract what each row would have if it were like all rows together, and scale."""
    n_rows, n_columns = counts.shape
    law, whole = np.zeros(n_columns), np.zeros(n_families)
    for row in range(n_rows):
        for c in range(n_columns):
            law[c] += counts[row, c]
            whole[family[c]] += counts[row, c]
    for c in range(n_columns):
        law[c] /= max(whole[family[c]], 1.0)
    for row in range(n_rows):
        whole[:] = 0.0
        for c in range(n_columns):
            whole[family[c]] += counts[row, c]
        for c in range(n_columns):
            expected = whole[family[c]] * law[c]
            counts[row, c] = (counts[row, c] - expected) / np.sqrt(expected + 0.5)


@kernel
def _reward_excess(parts: Floats) -> None:
    """Leave, of (visits, sum, sum of squares), how far the sum lies from the common mean."""
    for first in range(0, parts.shape[1], 3):
        visits, sums = parts[:, first], parts[:, first + 1]
        mean = sums.sum() / max(visits.sum(), 1.0)
        for row in range(parts.shape[0]):
            sums[row] = (sums[row] - visits[row] * mean) / np.sqrt(visits[row] + 1.0)
            visits[row] = 0.0
            parts[row, first + 2] = 0.0


@kernel
def turn_to_leading(matrix: Floats, vector: Floats) -> None:
    """Turn a vector into the leading left singular vector of a matrix, by power iteration."""
    n_rows, n_columns = matrix.shape
    turned = np.empty(n_columns)
    for _ in range(_POWER_STEPS):
        turned[:] = 0.0
        for row in range(n_rows):
            for c in range(n_columns):
                turned[c] += vector[row] * matrix[row, c]
        norm = 0.0
        for row in range(n_rows):
            value = 0.0
            for c in range(n_columns):
                value += matrix[row, c] * turned[c]
            vector[row] = value
            norm += value * value
        if norm == 0.0:
            break
        vector /= np.sqrt(norm)


@kernel
def relabel(links: Links, parts: Floats, blocks: Blocks, members: Ints, group: int) -> None:
    """Move observations that have a group to another one, whatever the score says."""
    profile = empty_profile(*blocks.out.shape)
    for y in members:
        take_out(links, parts, blocks, y, profile)
        put(parts, blocks, y, group, profile)
