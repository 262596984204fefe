import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_blocks import kinds, random_labels, seeds, walk

from romdp.clustering.likelihood.blockmodel import make_blocks, make_rule, score
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import read_reward_law
from romdp.clustering.likelihood.splitting import (
    add_slot,
    drop_slot,
    relabel,
    split_group,
    stack_profiles,
    unsplit,
)
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.worlds.random import random_romdp
from romdp.worlds.simulator import simulate


@pytest.fixture(params=["bernoulli", "uniform"])
def data(request):
    world = random_romdp(3, 2, 18, seed=2, reward_law=request.param)
    counts = Counts.from_trajectory(simulate(world, "uniform", 20_000, seed=0))
    law = read_reward_law(counts)
    return world, Links.of(counts), law, make_rule(law)


def test_two_states_in_one_group_are_cut_apart(data):
    world, links, law, rule = data
    truth = Partition(world.labels).labels
    joined = np.where(truth == 2, 1, truth)
    blocks = make_blocks(links, law.parts, joined, 2)
    cut = add_slot(blocks)
    rise = split_group(links, law, rule, cut, 1, np.random.default_rng(0))
    assert rise > 100
    assert Partition(cut.labels) == Partition(truth)
    assert score(rule, cut) - score(rule, blocks) == pytest.approx(rise, rel=1e-9)


def test_a_true_group_loses_by_a_cut_and_the_cut_can_be_taken_back(data):
    world, links, law, rule = data
    blocks = make_blocks(links, law.parts, Partition(world.labels).labels, 3)
    cut = add_slot(blocks)
    assert split_group(links, law, rule, cut, 0, np.random.default_rng(0)) < 0
    assert cut.size[3] > 0
    unsplit(links, law, cut, 0)
    for mine, theirs in zip(drop_slot(cut), blocks, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_a_single_observation_cannot_be_cut(data):
    _, links, law, rule = data
    blocks = add_slot(make_blocks(links, law.parts, np.minimum(np.arange(18), 1), 2))
    assert split_group(links, law, rule, blocks, 0, np.random.default_rng(0)) == -np.inf


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
