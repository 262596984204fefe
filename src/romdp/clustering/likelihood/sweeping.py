"""Sweeps: one observation after the other goes to the group where the score is highest."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.likelihood.blockmodel import Blocks, Rule
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.profiles import (
    Profile,
    announce,
    clear,
    empty_profile,
    gain,
    gather,
    shift,
)
from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN, NO_REWARD
from romdp.core.compiled import kernel

EXACT_LIMIT = 8
"""Up to this many groups all are compared exactly; beyond, the best few by a linear estimate.

Draws are always among all groups."""

_SHORTLIST = 5
_ROUNDING = 1e-9


class Laws(NamedTuple):
    """Estimates under which the score of a placing is linear in the observation's counts."""

    toward: NDArray[np.float64]  # (S, A, S): log p[s, a, t]
    back: NDArray[np.float64]  # (A, S, S): the same, [a, t, s]
    pay: NDArray[np.float64]  # (A, n_parts, S): log likelihood of each reward part


@kernel
def _estimate_laws(rule: Rule, blocks: Blocks, laws: Laws) -> None:
    """Fill in the laws of the groups as they are."""
    n_slots, n_actions = blocks.out.shape
    alpha = rule.alpha if rule.integrated else 0.5
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
        estimate[g] = math.log(size) - profile.used[2] * math.log(blocks.into[g] + size)
        for a in range(n_actions):
            estimate[g] += profile.loops[a] * laws.toward[g, a, g]
    if rule.reward_code != NO_REWARD:
        for a in range(n_actions):
            for k in range(parts.shape[2]):
                if parts[y, a, k] != 0.0:
                    for g in range(n_slots):
                        estimate[g] += parts[y, a, k] * laws.pay[a, k, g]
    for i in range(profile.used[0]):
        a, t = profile.lead_list[i, 0], profile.lead_list[i, 1]
        weight = float(profile.leads[a, t])
        for g in range(n_slots):
            estimate[g] += weight * laws.back[a, t, g]
    for i in range(profile.used[1]):
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
    candidates: NDArray[np.int64], gains: NDArray[np.float64], temperature: float, uniform: float
) -> int:
    """Draw a group with log chances proportional to gain / temperature."""
    highest = gains.max()
    total = 0.0
    for c in range(candidates.size):
        total += math.exp((gains[c] - highest) / temperature)
    left = uniform * total
    for c in range(candidates.size):
        left -= math.exp((gains[c] - highest) / temperature)
        if left <= 0.0:
            return int(candidates[c])
    return int(candidates[np.argmax(gains)])


@kernel
def _measure(gains: NDArray[np.float64], margin: NDArray[np.float64]) -> None:
    """Note by how much the best gain exceeds the second best, and the best one's chance."""
    best = np.argmax(gains)
    second = -np.inf
    total = 0.0
    for c in range(gains.size):
        total += math.exp(gains[c] - gains[best])
        if c != best:
            second = max(second, gains[c])
    margin[0] = gains[best] - second
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
        proportional to gain / temperature, from one uniform number per entry of ``order``.
    margins
        Empty, or shape (Y, 2): then nothing moves, and for each observation visited the gain of
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
    gains = np.empty(candidates.size)
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
        new_gain = -np.inf
        for c in range(candidates.size):
            gains[c] = gain(rule, blocks, parts, y, candidates[c], n_groups, profile)
            if candidates[c] == old:
                new_gain = gains[c]
        if measure:
            _measure(gains, margins[y])
        elif temperature > 0.0:
            new = _draw(candidates, gains, temperature, draws[index])
        else:
            for c in range(candidates.size):
                # Rounding must not make an observation wander between equals.
                if gains[c] > new_gain + _ROUNDING:
                    new, new_gain = candidates[c], gains[c]
        shift(blocks, parts, y, new, 1, profile)
        labels[y] = new
        moved += new != old
        clear(profile)
    return moved
