import math
from collections import Counter

import numpy as np
import pytest

import romdp
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.logs.model.evaluation import _beyond_chance, alike_test, markov_test

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=30, seed=2)
TRUTH = Partition(WORLD.labels)


def episodes(seed, n_episodes, length=40, policy="uniform"):
    seen = romdp.simulate(WORLD, policy, n_episodes * length, seed=seed)
    return Trajectory(
        seen.observations, seen.actions, seen.rewards, np.full(n_episodes, length),
        n_observations=30, n_actions=2,
    )  # fmt: skip


def test_information_is_that_of_the_definition():
    """The mean of the permutations is what the plain sum exceeds; alone it is the plain sum."""
    rng = np.random.default_rng(1)
    stratum, first = rng.integers(0, 3, 400), rng.integers(0, 4, 400)
    second = (first + rng.integers(0, 2, 400)) % 5
    joint = Counter(zip(stratum, first, second, strict=True))
    by_first, by_second = (Counter(zip(stratum, column, strict=True)) for column in (first, second))
    alone = Counter(stratum)
    plain = sum(
        n * math.log(n * alone[s] / by_first[s, x] / by_second[s, y])
        for (s, x, y), n in joint.items()
    )
    found = _beyond_chance(stratum, first, second, rng)
    assert (found.p_value, found.n_steps) == (0.01, 400)
    # By chance it is about (4 - 1)(5 - 1) / 2 nats in each of three strata, give or take 3 each.
    assert plain - 400 * found.information == pytest.approx(18, abs=6)


def test_the_markov_test_accepts_states_and_rejects_mixtures():
    """A true grouping fails at 0.01 with chance 0.01; the seed is fixed."""
    circle = 0.8 * np.roll(np.eye(3), 1, axis=1) + 0.2 / 3
    labels = np.repeat(np.arange(3), 4)
    emission = (labels == np.arange(3)[:, None]) / 4
    world = romdp.ROMDP(np.stack([circle, circle], axis=1), np.full((3, 2), 0.5), emission)
    walk = romdp.simulate(world, "uniform", 8000, seed=0)
    held = Trajectory(walk.observations, walk.actions, walk.rewards, np.full(200, 40))
    rng = np.random.default_rng(0)
    good = markov_test(Partition(labels), held, rng)
    assert good.p_value > 0.01
    assert abs(good.information) < 0.002
    # Two of the three states in one group: the past tells which it was.
    bad = markov_test(Partition(np.minimum(labels, 1)), held, rng)
    assert bad.p_value == 0.01
    assert bad.information > 0.1
    assert markov_test(TRUTH, episodes(1, 1, 20), rng) is None


def test_the_test_of_likeness_accepts_states_and_rejects_mixtures():
    """A true grouping fails at 0.01 with chance 0.01; the seed is fixed."""
    rng = np.random.default_rng(0)
    # The behaviour follows the observation inside each state; that must not matter.
    held = episodes(3, 150, policy=rng.dirichlet([0.5, 0.5], 30))
    good = alike_test(TRUTH, held, rng)
    assert good.p_value > 0.01
    assert abs(good.information) < 0.01
    bad = alike_test(Partition(np.minimum(TRUTH.labels, 1)), held, rng)
    assert bad.p_value == 0.01
    assert bad.information > 0.002 + abs(good.information)
    assert bad.n_steps == 150 * 39
    single = alike_test(Partition.singletons(30), held, rng)
    assert single.information == pytest.approx(0.0, abs=1e-12)
    assert alike_test(TRUTH, episodes(1, 1, 20), rng) is None
