import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_blocks import kinds, random_labels, seeds, walk

from romdp.clustering.likelihood.blockmodel import make_blocks, make_rule, score
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.profiles import (
    announce,
    clear,
    empty_profile,
    gain,
    gather,
    relabel,
    shift,
    stack_profiles,
)
from romdp.clustering.likelihood.rewardlaw import read_reward_law


@given(seeds, st.integers(0, 1))
def test_profiles_count_by_group(seed, unplaced):
    counts = walk(seed)
    labels = random_labels(seed, 7, 3, unplaced)
    stacked = stack_profiles(Links.of(counts), labels, np.arange(7), 3)
    transitions = counts.transitions.copy()
    transitions[np.arange(7), :, np.arange(7)] = 0
    member = np.array([labels == s for s in range(3)]).astype(np.int64)
    leads = np.einsum("yau,su->yas", transitions, member)
    comes = np.einsum("uay,su->ysa", transitions, member)
    np.testing.assert_array_equal(stacked[:, :6].reshape(7, 2, 3), leads)
    np.testing.assert_array_equal(stacked[:, 6:].reshape(7, 3, 2), comes)


@given(seeds, kinds, st.booleans(), st.booleans())
def test_gain_differences_are_score_differences(seed, kind, integrated, placed):
    counts = walk(seed, rewards=kind)
    law, links = read_reward_law(counts), Links.of(counts)
    rule = make_rule(law, counts.n_transitions, integrated=integrated, alpha=0.4)
    labels = random_labels(seed, 7, 3)
    y = int(np.flatnonzero(np.bincount(labels)[labels] > 1)[0])
    start = labels.copy()
    start[y] = labels[y] if placed else -1
    blocks = make_blocks(links, law.parts, start, 3)
    profile = empty_profile(3, 2)
    gather(links, blocks.labels, y, profile)
    if placed:
        shift(blocks, law.parts, y, labels[y], -1, profile)
    else:
        announce(blocks, profile)
    gains, scores = [], []
    for group in range(3):
        gains.append(gain(rule, blocks, law.parts, y, group, 3, profile))
        there = labels.copy()
        there[y] = group
        scores.append(score(rule, make_blocks(links, law.parts, there, 3)))
    np.testing.assert_allclose(np.diff(gains), np.diff(scores), atol=1e-8)


@given(seeds, kinds)
def test_relabel_keeps_the_blocks_right(seed, kind):
    counts = walk(seed, rewards=kind)
    law, links = read_reward_law(counts), Links.of(counts)
    labels = random_labels(seed, 7, 3)
    blocks = make_blocks(links, law.parts, labels, 3)
    relabel(links, law.parts, blocks, np.array([0, 3, 6]), 1)
    labels[[0, 3, 6]] = 1
    expected = make_blocks(links, law.parts, labels, 3)
    for mine, theirs in zip(blocks, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


def test_clear_leaves_nothing():
    counts = walk(1)
    profile = empty_profile(3, 2)
    gather(Links.of(counts), random_labels(1, 7, 3), 2, profile)
    assert profile.leads.sum() > 0
    clear(profile)
    for array in (profile.leads, profile.comes, profile.loops, profile.led):
        assert not array.any()


def test_used_counts_how_often_it_was_reached():
    counts = walk(1)
    profile = empty_profile(3, 2)
    gather(Links.of(counts), random_labels(1, 7, 3), 2, profile)
    assert profile.used[2] == counts.transitions[:, :, 2].sum()
    assert profile.led.sum() == pytest.approx(counts.transitions[2].sum())
