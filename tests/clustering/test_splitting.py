import numpy as np
import pytest

from romdp.clustering.likelihood.blockmodel import make_blocks, make_rule, score
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import read_reward_law
from romdp.clustering.likelihood.splitting import add_slot, drop_slot, split_group, unsplit
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.worlds.random import random_romdp
from romdp.worlds.simulator import simulate


@pytest.fixture(params=["bernoulli", "uniform"])
def data(request):
    world = random_romdp(3, 2, 18, seed=2, reward_law=request.param)
    counts = Counts.from_trajectory(simulate(world, "uniform", 20_000, seed=0))
    law = read_reward_law(counts)
    return world, Links.of(counts), law, make_rule(law, counts.n_transitions)


def test_two_states_in_one_group_are_cut_apart(data):
    world, links, law, rule = data
    truth = Partition(world.labels).labels
    joined = np.where(truth == 2, 1, truth)
    blocks = make_blocks(links, law.parts, joined, 2)
    cut = add_slot(blocks)
    gain = split_group(links, law, rule, cut, 1, np.random.default_rng(0))
    assert gain > 100
    assert Partition(cut.labels) == Partition(truth)
    assert score(rule, cut) - score(rule, blocks) == pytest.approx(gain, rel=1e-9)


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
