"""Greedy merging: the two groups whose union costs least become one, again and again."""

from typing import NamedTuple

import numpy as np

from romdp.clustering.likelihood.blockmodel import (
    Blocks,
    Rule,
    cell_term,
    copy_blocks,
    group_term,
    grouping_term,
    log_gamma,
    reward_term,
    row_term,
    row_terms,
    stay_term,
)
from romdp.clustering.likelihood.rewardlaw import NO_REWARD
from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel


class Merges(NamedTuple):
    """What greedy merging did, merge by merge: ``second[i]`` became part of ``first[i]``."""

    first: Ints
    second: Ints
    rise: Floats  # what the merge added to the score


@kernel
def _row(rule: Rule, rows: Floats, total: int, n_groups: int) -> float:
    """Return `row_term`, looked up in `row_terms` where it is there."""
    if total < rows.size:
        value: float = rows[total]
        return value
    return row_term(rule, total, n_groups)


@kernel
def pair_rise(rule: Rule, x: int, y: int) -> float:
    """By how much the terms of two cells rise when they become one."""
    if x == 0 or y == 0:
        return 0.0
    return cell_term(rule, x + y) - cell_term(rule, x) - cell_term(rule, y)


@kernel
def _alone(rule: Rule, rows: Floats, blocks: Blocks, k: int, n_groups: int) -> float:
    """Return the terms that concern group k alone, with ``n_groups`` groups in all."""
    value = group_term(rule, blocks.into[k], blocks.size[k])
    for a in range(blocks.out.shape[1]):
        value += stay_term(rule, blocks.moves[k, a, k])
        value += _row(rule, rows, blocks.out[k, a], n_groups)
        value += reward_term(rule, blocks.pay[k, a], blocks.pay[k, a], 0)
    return value


@kernel
def _united(rule: Rule, rows: Floats, blocks: Blocks, k: int, m: int, n_groups: int) -> float:
    """Return the terms of k and m as one group, less those of the cells between the two."""
    moves, out, pay = blocks.moves, blocks.out, blocks.pay
    value = group_term(rule, blocks.into[k] + blocks.into[m], blocks.size[k] + blocks.size[m])
    for a in range(moves.shape[1]):
        inner = moves[k, a, k] + moves[k, a, m] + moves[m, a, k] + moves[m, a, m]
        value += stay_term(rule, inner)
        value -= cell_term(rule, moves[k, a, m]) + cell_term(rule, moves[m, a, k])
        value += _row(rule, rows, out[k, a] + out[m, a], n_groups)
        value += reward_term(rule, pay[k, a], pay[m, a], 1)
    return value


@kernel
def _unite_all(
    rule: Rule, rows: Floats, blocks: Blocks, alive: Ints, alone: Floats, own: Floats
) -> None:
    """Fill in `_united` less `_alone` of all pairs: the same sums, but action by action.

    This is where merging spends its time. Tables are read directly, which saves calls, and what
    leads back to a group, which is scattered in memory, is read once per group.
    """
    moves, out, pay, into, sizes = blocks.moves, blocks.out, blocks.pay, blocks.into, blocks.size
    cells, stayed, levels = rule.table, rule.stay_table, rule.reward_table
    n_groups, n_actions, n_levels = alive.size, moves.shape[1], levels.shape[0] - 1
    pays = rule.reward_code != NO_REWARD
    back = np.empty(n_groups, np.int64)
    values = np.empty(n_groups)
    for i in range(n_groups - 1):
        k = alive[i]
        for j in range(i + 1, n_groups):
            m = alive[j]
            values[j] = group_term(rule, into[k] + into[m], sizes[k] + sizes[m])
        for a in range(n_actions):
            stays, total = moves[k, a, k], out[k, a]
            for j in range(i + 1, n_groups):
                back[j] = moves[alive[j], a, k]
            for j in range(i + 1, n_groups):
                m = alive[j]
                ahead, behind, both = moves[k, a, m], back[j], total + out[m, a]
                inner = stays + ahead + behind + moves[m, a, m]
                value = values[j]
                value += stayed[inner] if inner < stayed.size else stay_term(rule, inner)
                if ahead < cells.size and behind < cells.size:
                    value -= cells[ahead] + cells[behind]
                else:
                    value -= cell_term(rule, ahead) + cell_term(rule, behind)
                value += rows[both] if both < rows.size else row_term(rule, both, n_groups)
                if pays and n_levels > 0:
                    gained, visits = 0.0, 0
                    for level in range(n_levels):
                        count = int(pay[k, a, level] + pay[m, a, level])
                        visits += count
                        gained += levels[level, count] if visits < levels.shape[1] else 0.0
                    if visits >= levels.shape[1]:
                        value += reward_term(rule, pay[k, a], pay[m, a], 1)
                    else:
                        value += gained - levels[n_levels, visits]
                elif pays:
                    value += reward_term(rule, pay[k, a], pay[m, a], 1)
                values[j] = value
        for j in range(i + 1, n_groups):
            own[k, alive[j]] = values[j] - alone[k] - alone[alive[j]]


@kernel
def row_fewer(rule: Rule, blocks: Blocks, k: int, n_groups: int) -> float:
    """By how much the rows of k rise if there is one group less to lead to than ``n_groups``."""
    value = 0.0
    for a in range(blocks.out.shape[1]):
        total = blocks.out[k, a]
        value += row_term(rule, total, n_groups - 1) - row_term(rule, total, n_groups)
    return value


@kernel
def all_fewer(rule: Rule, blocks: Blocks, n_groups: int) -> float:
    """By how much all rows rise if there is one group less to lead to than ``n_groups``."""
    value = 0.0
    for s in range(blocks.size.size):
        value += row_fewer(rule, blocks, s, n_groups)
    return value


@kernel
def rise_given(rule: Rule, blocks: Blocks, k: int, m: int, n_groups: int, fewer: float) -> float:
    """By how much the score rises when k and m become one, but for their cells with other groups.

    ``fewer`` is `all_fewer` of all groups.
    """
    n_placed = blocks.size.sum()
    value = grouping_term(n_placed, n_groups - 1) - grouping_term(n_placed, n_groups)
    none = np.empty(0)
    value += _united(rule, none, blocks, k, m, n_groups - 1) + fewer
    value -= _alone(rule, none, blocks, k, n_groups - 1)
    return value - _alone(rule, none, blocks, m, n_groups - 1)


@kernel
def _unite(blocks: Blocks, k: int, m: int) -> None:
    """Add the counts of group m to those of group k; the labels stay."""
    moves = blocks.moves
    for a in range(moves.shape[1]):
        for t in range(moves.shape[2]):
            moves[k, a, t] += moves[m, a, t]
            moves[m, a, t] = 0
        for s in range(moves.shape[0]):
            moves[s, a, k] += moves[s, a, m]
            moves[s, a, m] = 0
        blocks.out[k, a] += blocks.out[m, a]
        blocks.out[m, a] = 0
        for part in range(blocks.pay.shape[2]):
            blocks.pay[k, a, part] += blocks.pay[m, a, part]
            blocks.pay[m, a, part] = 0.0
    blocks.into[k] += blocks.into[m]
    blocks.into[m] = 0
    blocks.size[k] += blocks.size[m]
    blocks.size[m] = 0


@kernel
def _cell(table: Floats, alpha: float, n: int) -> float:
    """Return `cell_term`, given the table alone: a whole `Rule` takes ten times longer here."""
    if n < table.size:
        value: float = table[n]
        return value
    return log_gamma(n + alpha) - log_gamma(alpha)


@kernel
def _share_lines(table: Floats, alpha: float, lines: Ints, groups: Ints, shared: Floats) -> None:
    """Add, for all pairs of groups, by how much their cells rise when each pair becomes one.

    ``lines`` holds a cell of every group in each row. If there are two rows, these become one: what
    each contributed is taken away, and what they contribute together is added.
    """
    found, terms = np.empty(groups.size, np.int64), np.empty((3, groups.size))
    n_lines, n_found = lines.shape[0], 0
    last = n_lines - 1
    for place in range(groups.size):
        total = lines[0, place] + (lines[1, place] if last else 0)
        if total > 0:
            for line in range(n_lines):
                terms[line, n_found] = _cell(table, alpha, lines[line, place])
            terms[2, n_found] = _cell(table, alpha, total)
            found[n_found] = place
            n_found += 1
    for u in range(n_found):
        first, second = lines[0, found[u]], lines[last, found[u]]
        row = shared[groups[found[u]]]
        for v in range(u + 1, n_found):
            one, other = lines[0, found[v]], lines[last, found[v]]
            total = first + one + (second + other if last else 0)
            change = _cell(table, alpha, total) - terms[2, u] - terms[2, v]
            if last and first > 0 and one > 0:
                change -= _cell(table, alpha, first + one) - terms[0, u] - terms[0, v]
            if last and second > 0 and other > 0:
                change -= _cell(table, alpha, second + other) - terms[1, u] - terms[1, v]
            row[groups[found[v]]] += change


@kernel
def _share_with(rule: Rule, moves: Ints, alive: Ints, merged: Ints, shared: Floats) -> None:
    """Add, for all pairs of groups, by how much their cells with ``merged`` rise when they unite.

    If two groups are ``merged``, change it to what it is when these become one.
    """
    others = alive[alive != merged[0]]
    others = others[others != merged[-1]]
    lines = np.empty((merged.size, others.size), np.int64)
    for a in range(moves.shape[1]):
        for i in range(merged.size):
            for place in range(others.size):
                lines[i, place] = moves[others[place], a, merged[i]]
        _share_lines(rule.table, rule.alpha, lines, others, shared)
        for i in range(merged.size):
            for place in range(others.size):
                lines[i, place] = moves[merged[i], a, others[place]]
        _share_lines(rule.table, rule.alpha, lines, others, shared)


@kernel
def _share_one(rule: Rule, moves: Ints, alive: Ints, k: int, shared: Floats) -> None:
    """Fill in by how much the cells with others rise when k and another group become one."""
    table, alpha = rule.table, rule.alpha
    added = np.zeros(moves.shape[0])
    for t in alive:
        if t == k:
            continue
        for a in range(moves.shape[1]):
            for leads in (True, False):
                x = moves[k, a, t] if leads else moves[t, a, k]
                if x == 0:
                    continue
                alone = _cell(table, alpha, x)
                for p in alive:
                    y = moves[p, a, t] if leads else moves[t, a, p]
                    if y > 0 and p not in (k, t):
                        together = _cell(table, alpha, x + y)
                        added[p] += together - alone - _cell(table, alpha, y)
    for p in alive:
        shared[min(p, k), max(p, k)] = added[p]


@kernel
def _best_pair(alive: Ints, shared: Floats, own: Floats) -> tuple[int, int]:
    """Return the pair whose union adds most; -1, -1 where no pair has a rise that is a number."""
    best = -np.inf
    k, m = -1, -1
    for i in range(alive.size):
        for j in range(i + 1, alive.size):
            value = shared[alive[i], alive[j]] + own[alive[i], alive[j]]
            if value > best:
                best = value
                k, m = alive[i], alive[j]
    return k, m


@kernel
def _merge(
    rule: Rule, blocks: Blocks, n_last: int, slack: float, first: Ints, second: Ints, rise: Floats
) -> int:
    # Each step takes a group away, so that the results have room for all: one row per slot.
    n_slots = blocks.size.size
    alive = np.flatnonzero(blocks.size)
    # Rises of all pairs k < m. The rows' normalisation depends a little on the number of groups:
    # pairs are ranked with that number held fixed; the rise reported is exact.
    n_ranked = alive.size
    rows = row_terms(rule, n_ranked, min(n_ranked * n_ranked, 2 * blocks.out.max()))
    alone = np.zeros(n_slots)
    for i in range(alive.size):
        alone[alive[i]] = _alone(rule, rows, blocks, int(alive[i]), n_ranked)
    shared = np.zeros((n_slots, n_slots))
    own = np.zeros((n_slots, n_slots))
    for i in range(alive.size):
        _share_with(rule, blocks.moves, alive, alive[i : i + 1], shared)
    _unite_all(rule, rows, blocks, alive, alone, own)
    done = 0
    total = 0.0
    highest = 0.0
    while alive.size > max(n_last, 1) and total >= highest - slack:
        k, m = _best_pair(alive, shared, own)
        if k < 0:  # no rise is a number: rewards whose squares overflow
            break
        fewer = all_fewer(rule, blocks, alive.size)
        rise[done] = shared[k, m] + rise_given(rule, blocks, k, m, alive.size, fewer)
        first[done], second[done] = k, m
        total += rise[done]
        highest = max(highest, total)
        done += 1
        _share_with(rule, blocks.moves, alive, np.array([k, m]), shared)
        _unite(blocks, k, m)
        alive = alive[alive != m]
        _share_one(rule, blocks.moves, alive, k, shared)
        alone[k] = _alone(rule, rows, blocks, k, n_ranked)
        for p in alive:
            if p != k:
                united = _united(rule, rows, blocks, min(p, k), max(p, k), n_ranked)
                own[min(p, k), max(p, k)] = united - alone[p] - alone[k]
    return done


def merge_greedily(rule: Rule, blocks: Blocks, n_last: int, slack: float) -> Merges:
    """Merge groups pair by pair, best first.

    Parameters
    ----------
    rule, blocks
        The score and the groups; ``blocks`` is not changed.
    n_last
        Stop at this many groups.
    slack
        Stop as soon as the score has fallen by more than this below its highest value.
    """
    n_slots = blocks.size.size
    first, second = np.empty(n_slots, np.int64), np.empty(n_slots, np.int64)
    rise = np.empty(n_slots)
    done = _merge(rule, copy_blocks(blocks), n_last, slack, first, second, rise)
    return Merges(first[:done], second[:done], rise[:done])


def apply_merges(labels: Ints, n_groups: int, merges: Merges, n_merges: int) -> tuple[Ints, int]:
    """Carry out the first ``n_merges`` merges; returns the labels, compact, and their number."""
    parent = np.arange(n_groups)
    for k, m in zip(merges.first[:n_merges], merges.second[:n_merges], strict=True):
        parent[parent == m] = k
    kept, compact = np.unique(parent, return_inverse=True)
    return np.where(labels >= 0, compact[labels], -1), len(kept)
