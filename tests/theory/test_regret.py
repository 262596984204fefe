from itertools import product
from math import log, sqrt

import numpy as np
import pytest
from theory_worlds import draw, tiny

from romdp import MDP, ROMDP
from romdp.data.partition import Partition
from romdp.exact.hitting import hitting_times
from romdp.theory.regret import (
    as_singletons,
    auxiliary_diameter,
    corollary_bound,
    pomdp_bound,
    pomdp_diameter,
    two_phase_bound,
    ucrl_bound,
)
from romdp.theory.table import Magnitude


def test_ucrl_bound():
    by_hand = 34 * 5 * 6 * sqrt(3 * 1000 * log(1000 / 0.1))
    assert float(ucrl_bound(5.0, 6, 3, 1000, 0.1)) == pytest.approx(by_hand)
    assert ucrl_bound(0.0, 1, 3, 1000, 0.1) == ucrl_bound(1.0, 1, 3, 1000, 0.1)
    assert ucrl_bound(np.inf, 6, 3, 1000, 0.1).is_infinite


def test_pomdp_bound():
    assert float(pomdp_bound(5.0, 4, 3, 7, 100)) == pytest.approx(5 * 8 * sqrt(3 * 7 * 100))


def test_two_phase_bound():
    by_hand = 500 + 5 * 4 * sqrt(3 * 10_000)
    assert float(two_phase_bound(500, 5.0, 4, 3, 10_000)) == pytest.approx(by_hand)
    assert float(two_phase_bound(500, 5.0, 4, 3, 100)) == pytest.approx(100)


def corollary(found, steps):
    return float(corollary_bound(Magnitude.of(found), (5.0, 50.0), (2, 9), 3, steps, 0.1))


def test_corollary_before_and_after_the_states_are_found():
    late = 34 * 50 * 9 * sqrt(3 * 1e12 * log(1e12 / 0.1))
    assert late < 1e12
    assert corollary(1e12, 10) == pytest.approx(late)
    assert corollary(100, 10) == pytest.approx(100)
    after = 34 * 5 * 2 * sqrt(3 * (1000 - 100) * log(1000 / 0.1))
    assert corollary(100, 1000) == pytest.approx(100 + after)
    assert corollary(100, 100) == pytest.approx(100)
    assert corollary(0, 1000) == pytest.approx(34 * 5 * 2 * sqrt(3 * 1000 * log(1000 / 0.1)))


def test_bounds_grow_with_the_number_of_steps():
    values = [corollary(1000, n) for n in (1, 999, 1000, 1001, 10**6, 10**12)]
    assert values == sorted(values)


def pair_diameter_by_enumeration(moves):
    """Expected times between (x, a) pairs under every policy of pairs, from linear systems."""
    n_states, n_actions, _ = moves.shape
    pairs = list(product(range(n_states), range(n_actions)))
    best = np.full((len(pairs), len(pairs)), np.inf)
    for policy in product(range(n_actions), repeat=n_states):
        chain = np.zeros((len(pairs), len(pairs)))
        for i, (x, a) in enumerate(pairs):
            for z in range(n_states):
                chain[i, pairs.index((z, policy[z]))] += moves[x, a, z]
        for j, (x, a) in enumerate(pairs):
            if policy[x] != a:
                continue
            rest = [i for i in range(len(pairs)) if i != j]
            inner = chain[np.ix_(rest, rest)]
            best[rest, j] = np.minimum(
                best[rest, j], np.linalg.solve(np.eye(len(rest)) - inner, np.ones(len(rest)))
            )
    return best[~np.eye(len(pairs), dtype=bool)].max()


@pytest.mark.parametrize(("seed", "n_states", "n_actions"), [(0, 2, 2), (1, 3, 2), (2, 3, 1)])
def test_pomdp_diameter_by_brute_force(seed, n_states, n_actions):
    moves = draw(seed, n_states, n_actions).transition
    assert pomdp_diameter(moves) == pytest.approx(pair_diameter_by_enumeration(moves))


def test_pomdp_diameter_of_special_worlds():
    assert pomdp_diameter(np.ones((1, 1, 1))) == 0.0
    assert pomdp_diameter(np.ones((1, 2, 1))) == 1.0
    stuck = np.zeros((2, 1, 2))
    stuck[:, 0, 1] = 1.0
    assert pomdp_diameter(stuck) == np.inf


def explicit_diameter(world, labels):
    """The diameter of the auxiliary MDP, written out group by group."""
    n_groups = labels.max() + 1
    state = np.array([world.labels[labels == s][0] for s in range(n_groups)])
    chance = np.array([world.observation_chance[labels == s].sum() for s in range(n_groups)])
    moves = world.transition[state][:, :, state] * chance
    return MDP(moves, world.reward[state]).diameter()


@pytest.mark.parametrize("seed", range(6))
def test_auxiliary_diameter_is_that_of_the_explicit_mdp(seed):
    world = draw(seed, n_states=3, n_actions=2, n_observations=12)
    pieces = np.random.default_rng(seed).integers(3, size=12)
    partition = Partition(world.labels * 3 + pieces)
    times = hitting_times(world.transition)
    expected = explicit_diameter(world, partition.labels)
    assert auxiliary_diameter(world, partition) == pytest.approx(expected, rel=1e-8)
    assert auxiliary_diameter(world, partition, times) == pytest.approx(expected, rel=1e-8)
    np.testing.assert_array_equal(times, hitting_times(world.transition))  # left as it was


def test_auxiliary_diameter_at_both_ends():
    world = tiny()
    facts = world.assumptions()
    finest, coarsest = Partition.singletons(4), Partition(world.labels)
    assert auxiliary_diameter(world, finest) == pytest.approx(facts.observable_diameter)
    assert auxiliary_diameter(world, coarsest) == pytest.approx(facts.hidden_diameter)
    assert auxiliary_diameter(world, Partition.unseen(4)) == auxiliary_diameter(world, finest)


def test_auxiliary_diameter_with_states_that_never_return():
    world = ROMDP([[[0.0, 1.0]], [[0.0, 1.0]]], [[0.0], [1.0]], np.eye(2))
    assert auxiliary_diameter(world, Partition([0, 1])) == np.inf


def test_singletons_for_what_has_no_group():
    assert as_singletons(Partition([-1, 0, 0, -1])) == Partition([0, 1, 1, 2])
