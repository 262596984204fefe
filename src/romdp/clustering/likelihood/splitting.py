"""Splits: a group is cut in two along the direction in which its members differ most."""

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.likelihood.blockmodel import Blocks, Rule, zero_blocks
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.merging import merge_rise
from romdp.clustering.likelihood.rewardlaw import GAUSSIAN, RewardLaw
from romdp.clustering.likelihood.sweeping import clear, empty_profile, gather, shift, sweep
from romdp.core.compiled import kernel

_MOST_MEMBERS = 2000  # that the direction is found from
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
) -> float:
    """Cut a group in two, in place: part of it moves to the last group, which must be empty.

    The cut starts along the direction in which members differ most, then every member chooses its
    side. Returns by how much the score rises, exactly; -inf where the group cannot be cut.
    """
    members = np.flatnonzero(blocks.labels == group)
    if len(members) < 2:
        return -np.inf
    shown = members
    if len(members) > _MOST_MEMBERS:
        shown = np.sort(rng.choice(members, _MOST_MEMBERS, replace=False))
    side = _direction(_residuals(links, law, blocks, shown), rng) > 0
    if side.all() or not side.any():
        return -np.inf
    new = blocks.size.size - 1
    relabel(links, law.parts, blocks, shown[side], new)
    both = np.array([group, new])
    for _ in range(_SWEEPS):
        order = rng.permutation(members)
        if not sweep(
            links, law.parts, rule, blocks, order, both, 0.0, np.empty(0), np.empty((0, 2))
        ):
            break
    return -float(merge_rise(rule, blocks, group, new))


def unsplit(links: Links, law: RewardLaw, blocks: Blocks, group: int) -> None:
    """Take a cut back."""
    new = blocks.size.size - 1
    relabel(links, law.parts, blocks, np.flatnonzero(blocks.labels == new), group)


def _residuals(
    links: Links, law: RewardLaw, blocks: Blocks, members: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Compare each member's counts with those of its group: (count - expected) / root."""
    n_slots, n_actions = blocks.out.shape
    flat = stack_profiles(links, blocks.labels, members, n_slots)
    half = n_slots * n_actions
    leads = flat[:, :half].reshape(-1, n_actions, n_slots)
    columns = [_excess(leads), _excess(flat[:, half:])]
    pay = law.parts[members]
    if law.code == GAUSSIAN:
        visits, sums = pay[..., 0], pay[..., 1]
        mean = sums.sum(axis=0) / np.maximum(visits.sum(axis=0), 1.0)
        columns.append((sums - visits * mean) / np.sqrt(visits + 1.0))
    elif law.code:
        columns.append(_excess(pay))
    return np.concatenate([block.reshape(len(members), -1) for block in columns], axis=1)


def _excess(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Subtract what members would have if each were like the group as a whole (last axis)."""
    law = counts.sum(axis=0)
    law = law / np.maximum(law.sum(axis=-1, keepdims=True), 1.0)
    expected = counts.sum(axis=-1, keepdims=True) * law
    excess: NDArray[np.float64] = (counts - expected) / np.sqrt(expected + 0.5)
    return excess


def _direction(residuals: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.float64]:
    """Find the leading left singular vector, by power iteration."""
    vector = rng.standard_normal(len(residuals))
    for _ in range(_POWER_STEPS):
        vector = residuals @ (vector @ residuals)
        norm = float(np.linalg.norm(vector))
        if norm == 0.0:
            break
        vector = vector / norm
    return vector


@kernel
def relabel(
    links: Links,
    parts: NDArray[np.float64],
    blocks: Blocks,
    members: NDArray[np.int64],
    group: int,
) -> None:
    """Move observations that have a group to another one, whatever the score says."""
    profile = empty_profile(*blocks.out.shape)
    for y in members:
        gather(links, blocks.labels, y, profile)
        shift(blocks, parts, y, blocks.labels[y], -1, profile)
        shift(blocks, parts, y, group, 1, profile)
        blocks.labels[y] = group
        clear(profile)


@kernel
def stack_profiles(
    links: Links, labels: NDArray[np.int64], members: NDArray[np.int64], n_groups: int
) -> NDArray[np.float64]:
    """Stack profiles: one row per member, the entries (a, t) of `leads`, then (s, a) of `comes`."""
    half = links.n_actions * n_groups
    stacked = np.zeros((members.size, 2 * half))
    profile = empty_profile(n_groups, links.n_actions)
    for row in range(members.size):
        gather(links, labels, members[row], profile)
        stacked[row, :half] = profile.leads.ravel()
        stacked[row, half:] = profile.comes.ravel()
        clear(profile)
    return stacked
