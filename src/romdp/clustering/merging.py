"""Greedy merging: the two groups whose union costs least become one, again and again."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.blockmodel import (
    Blocks,
    Rule,
    cell_term,
    copy_blocks,
    group_term,
    grouping_term,
    reward_term,
    row_term,
)
from romdp.compiled import kernel


class Merges(NamedTuple):
    """What greedy merging did, merge by merge: ``second[i]`` became part of ``first[i]``."""

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    gain: NDArray[np.float64]  # what the merge added to the score


@kernel
def _pair(rule: Rule, x: int, y: int) -> float:
    """Gain of two cells becoming one."""
    if x == 0 or y == 0:
        return 0.0
    return cell_term(rule, x + y) - cell_term(rule, x) - cell_term(rule, y)


@kernel
def _shared(
    rule: Rule, blocks: Blocks, alive: NDArray[np.int64], n_alive: int, k: int, m: int
) -> float:
    """Gain of the cells between groups k, m and all others when k and m become one."""
    moves = blocks.moves
    value = 0.0
    for i in range(n_alive):
        t = alive[i]
        if t == k or t == m:
            continue
        for a in range(moves.shape[1]):
            value += _pair(rule, moves[k, a, t], moves[m, a, t])
            value += _pair(rule, moves[t, a, k], moves[t, a, m])
    return value


@kernel
def _own(rule: Rule, blocks: Blocks, k: int, m: int, n_groups: int) -> float:
    """Gain of everything that concerns k and m alone, with ``n_groups`` groups in all."""
    moves, out, pay = blocks.moves, blocks.out, blocks.pay
    value = group_term(rule, blocks.into[k] + blocks.into[m], blocks.size[k] + blocks.size[m])
    value -= group_term(rule, blocks.into[k], blocks.size[k])
    value -= group_term(rule, blocks.into[m], blocks.size[m])
    nothing = np.zeros(pay.shape[2])
    for a in range(moves.shape[1]):
        inner = moves[k, a, k] + moves[k, a, m] + moves[m, a, k] + moves[m, a, m]
        value += cell_term(rule, inner)
        value -= cell_term(rule, moves[k, a, k]) + cell_term(rule, moves[k, a, m])
        value -= cell_term(rule, moves[m, a, k]) + cell_term(rule, moves[m, a, m])
        value += row_term(rule, out[k, a] + out[m, a], n_groups)
        value -= row_term(rule, out[k, a], n_groups) + row_term(rule, out[m, a], n_groups)
        if rule.reward_code != 0:
            value += reward_term(rule, pay[k, a], pay[m, a])
            value -= reward_term(rule, pay[k, a], nothing)
            value -= reward_term(rule, pay[m, a], nothing)
    return value


@kernel
def _fewer(
    rule: Rule, blocks: Blocks, alive: NDArray[np.int64], n_alive: int, n_placed: int
) -> float:
    """Gain, the same for every merge, of having one group less to lead to."""
    value = grouping_term(rule, n_placed, n_alive - 1) - grouping_term(rule, n_placed, n_alive)
    if rule.integrated:
        for i in range(n_alive):
            for a in range(blocks.out.shape[1]):
                total = blocks.out[alive[i], a]
                value += row_term(rule, total, n_alive - 1) - row_term(rule, total, n_alive)
    return value


@kernel
def merge_gain(rule: Rule, blocks: Blocks, k: int, m: int) -> float:
    """By how much the score rises when groups k and m become one."""
    n_slots = blocks.size.size
    alive = np.empty(n_slots, np.int64)
    n_alive = 0
    n_placed = 0
    for s in range(n_slots):
        if blocks.size[s] > 0:
            alive[n_alive] = s
            n_alive += 1
            n_placed += blocks.size[s]
    value = _shared(rule, blocks, alive, n_alive, k, m)
    value += _own(rule, blocks, k, m, n_alive - 1)
    return value + _fewer(rule, blocks, alive, n_alive, n_placed)


@kernel
def _unite(blocks: Blocks, k: int, m: int) -> None:
    """Add the counts of group m to those of group k; the labels stay."""
    blocks.moves[k] += blocks.moves[m]
    blocks.moves[m] = 0
    blocks.moves[:, :, k] += blocks.moves[:, :, m]
    blocks.moves[:, :, m] = 0
    blocks.out[k] += blocks.out[m]
    blocks.out[m] = 0
    blocks.into[k] += blocks.into[m]
    blocks.into[m] = 0
    blocks.size[k] += blocks.size[m]
    blocks.size[m] = 0
    blocks.pay[k] += blocks.pay[m]
    blocks.pay[m] = 0.0


@kernel
def _merge(
    rule: Rule,
    blocks: Blocks,
    n_last: int,
    slack: float,
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    gain: NDArray[np.float64],
) -> int:
    n_slots, n_actions = blocks.out.shape
    moves = blocks.moves
    alive = np.empty(n_slots, np.int64)
    n_alive = 0
    n_placed = 0
    for s in range(n_slots):
        if blocks.size[s] > 0:
            alive[n_alive] = s
            n_alive += 1
            n_placed += blocks.size[s]
    # Gains of all pairs k < m (in the order of `alive`). The rows' normalisation depends a little
    # on the number of groups: pairs are ranked with it held fixed; the gain reported is exact.
    n_ranked = n_alive
    shared = np.zeros((n_slots, n_slots))
    own = np.zeros((n_slots, n_slots))
    for i in range(n_alive):
        for j in range(i + 1, n_alive):
            k, m = alive[i], alive[j]
            shared[k, m] = _shared(rule, blocks, alive, n_alive, k, m)
            own[k, m] = _own(rule, blocks, k, m, n_ranked)
    done = 0
    total = 0.0
    highest = 0.0
    while n_alive > max(n_last, 1) and total >= highest - slack:
        best = -np.inf
        k, m = -1, -1
        for i in range(n_alive):
            for j in range(i + 1, n_alive):
                value = shared[alive[i], alive[j]] + own[alive[i], alive[j]]
                if value > best:
                    best = value
                    k, m = alive[i], alive[j]
        gain[done] = _shared(rule, blocks, alive, n_alive, k, m)
        gain[done] += _own(rule, blocks, k, m, n_alive - 1)
        gain[done] += _fewer(rule, blocks, alive, n_alive, n_placed)
        first[done], second[done] = k, m
        total += gain[done]
        highest = max(highest, total)
        done += 1
        for i in range(n_alive):
            p = alive[i]
            if p == k or p == m:
                continue
            for j in range(i + 1, n_alive):
                q = alive[j]
                if q == k or q == m:
                    continue
                change = 0.0
                for a in range(n_actions):
                    change -= _pair(rule, moves[p, a, k], moves[q, a, k])
                    change -= _pair(rule, moves[p, a, m], moves[q, a, m])
                    change -= _pair(rule, moves[k, a, p], moves[k, a, q])
                    change -= _pair(rule, moves[m, a, p], moves[m, a, q])
                    x, y = moves[p, a, k] + moves[p, a, m], moves[q, a, k] + moves[q, a, m]
                    change += _pair(rule, x, y)
                    x, y = moves[k, a, p] + moves[m, a, p], moves[k, a, q] + moves[m, a, q]
                    change += _pair(rule, x, y)
                shared[p, q] += change
        _unite(blocks, k, m)
        kept = 0
        for i in range(n_alive):
            if alive[i] != m:
                alive[kept] = alive[i]
                kept += 1
        n_alive = kept
        for i in range(n_alive):
            p, q = min(alive[i], k), max(alive[i], k)
            if p != q:
                shared[p, q] = _shared(rule, blocks, alive, n_alive, p, q)
                own[p, q] = _own(rule, blocks, p, q, n_ranked)
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
    gain = np.empty(n_slots)
    done = _merge(rule, copy_blocks(blocks), n_last, slack, first, second, gain)
    return Merges(first[:done], second[:done], gain[:done])


def apply_merges(
    labels: NDArray[np.int64], n_groups: int, merges: Merges, n_merges: int
) -> tuple[NDArray[np.int64], int]:
    """Carry out the first ``n_merges`` merges; returns the labels, compact, and their number."""
    parent = np.arange(n_groups)
    for k, m in zip(merges.first[:n_merges], merges.second[:n_merges], strict=True):
        parent[parent == m] = k
    kept, compact = np.unique(parent, return_inverse=True)
    return np.where(labels >= 0, compact[labels], -1), len(kept)
