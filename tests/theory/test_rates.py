"""Rates of grouping, bounds on the regret, and the limit that no agent beats."""

import math
import sys
from dataclasses import replace
from itertools import product
from math import log, log2, sqrt

import numpy as np
import pytest
from cases import draw, tiny
from hypothesis import given
from hypothesis import strategies as st

import romdp
from romdp import MDP, ROMDP
from romdp.core.errors import InvalidInputError
from romdp.data.partition import Partition
from romdp.exact.hitting import hitting_times
from romdp.theory.lower_bound import bernoulli_divergence, cost_of_deviation
from romdp.theory.rates import Rates
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

# C = 3, f = 0.25, tau = 7, alpha = 0.1, X = 2, A = 3, Y = 5, delta = 0.1.
C, F, TAU, ALPHA, X, A, Y, DELTA = 3.0, 0.25, 7.0, 0.1, 2, 3, 5, 0.1
RATES = Rates(C, TAU, ALPHA, X, A, Y, DELTA)


def test_samples():
    printed = RATES.samples_to_group(F)
    assert float(printed) == pytest.approx(4 * C * log(1 / DELTA) / F**2)
    solved = float(RATES.samples_to_group_solved(F))
    assert 2 * C * sqrt(log(2 * Y**1.5 / DELTA) / solved) == pytest.approx(F)  # eq:BO is f / 2


def test_epoch_lengths():
    printed = RATES.epoch_length(50.0)
    assert float(printed) == pytest.approx(4 * TAU / ALPHA * (50 + log(X * A / DELTA)))
    solved = float(RATES.epoch_length_solved(50.0))
    left = solved * ALPHA / (4 * TAU) - sqrt(solved * ALPHA * log(X * A / DELTA) / (2 * TAU))
    assert left == pytest.approx(50)
    assert float(printed) < solved < 2 * float(printed)


def test_epochs_and_steps():
    length = Magnitude.of(1024)
    assert float(RATES.epochs_until(length)) == pytest.approx(A * Y * log2(1024) + 1)
    assert float(RATES.epochs_until(Magnitude.of(0.5))) == pytest.approx(1)
    assert float(RATES.steps_until(length)) == pytest.approx(4 * A * Y * 1024)


def test_first_and_last():
    first = RATES.first_grouped(0.05, 0.5)
    assert float(first) == pytest.approx(A * Y * TAU / 0.05 * C * log(1 / DELTA) / 0.5**2)
    last = RATES.last_grouped(0.05)
    assert float(last) == pytest.approx(A * Y * TAU / 0.05**3 * C * log(1 / DELTA))


def test_separation():
    samples = RATES.separating_samples(56, 0.2, 4, 1000)
    assert float(samples) == pytest.approx(56 * log(2 * 4 * A * 1000 / DELTA) / 0.2**2)
    steps = RATES.separating_steps(samples)
    by_hand = 4 * TAU / ALPHA * (float(samples) + log(Y * A / DELTA))
    assert float(steps) == pytest.approx(by_hand)
    assert RATES.separating_samples(56, 0.0, 4, 1000).is_infinite


def test_the_factor_112_makes_the_two_widths_as_large_as_the_gap():
    visits = float(RATES.separating_samples(112, 0.2, 4, 1000))
    assert 2 * sqrt(28 * log(2 * 4 * A * 1000 / DELTA) / visits) == pytest.approx(0.2)


def test_all_found_has_three_cases():
    unit = A * TAU / 0.2**2 * log(1 / DELTA)
    by_observations, by_groups = unit * Y**2, unit * 4**2
    for last, expected in (
        (1.0, by_groups),
        ((by_groups + by_observations) / 2, (by_groups + by_observations) / 2),
        (1e9, by_observations),
    ):
        found = RATES.all_found(0.2, Magnitude.of(last), 4)
        assert float(found) == pytest.approx(expected)


def test_an_unbounded_return_time_makes_everything_infinite():
    infinite = replace(RATES, tau=float("inf"))
    assert infinite.epoch_length(50.0).is_infinite
    assert infinite.epoch_length_solved(50.0).is_infinite
    assert RATES.epochs_until(Magnitude.of(float("inf"))).is_infinite
    assert infinite.last_grouped(0.05).is_infinite


def test_tiny_chances_overflow():
    assert RATES.last_grouped(1e-110).overflows


def brute_force(law, reward, values, aim, resolution=300):
    """Least divergence over a grid of laws on three states; the reward is then the least enough."""
    first, second = np.meshgrid(*[np.arange(1, resolution)] * 2, indexing="ij")
    third = resolution - first - second
    inside = third > 0
    laws = np.stack([first[inside], second[inside], third[inside]], axis=1) / resolution
    means = np.maximum(reward, aim - laws @ values)
    laws, means = laws[means < 1], means[means < 1]
    divergence = (law * np.log(law / laws)).sum(axis=1)
    coins = reward * np.log(reward / means) + (1 - reward) * np.log((1 - reward) / (1 - means))
    return (divergence + coins).min()


@pytest.mark.parametrize("seed", range(10))
def test_the_cost_is_the_least_on_a_grid(seed):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(3)) * 0.9 + 0.1 / 3
    values, reward = 2 * rng.random(3), rng.uniform(0.1, 0.8)
    worth = reward + law @ values
    most = 1 + values.max()
    aim = worth + rng.uniform(0.1, 0.6) * (most - worth)
    found, plain = (
        cost_of_deviation(law, reward, values, aim),
        brute_force(law, reward, values, aim),
    )
    assert found <= plain + 1e-9
    assert found == pytest.approx(plain, rel=0.03)  # the grid is coarse


def test_an_aim_beyond_everything_costs_infinitely_much():
    law, values = np.array([0.5, 0.5]), np.array([0.0, 1.0])
    assert cost_of_deviation(law, 0.5, values, 2.1) == math.inf
    assert cost_of_deviation(law, 0.5, values, 1.9) < math.inf


def test_a_bandit_has_the_bound_of_lai_and_robbins():
    """One state: rewards alone can deviate, and C is the sum of gap / kl(r, best)."""
    world = romdp.MDP(np.ones((1, 3, 1)), [[0.2, 0.5, 0.45]])
    expected = 0.3 / bernoulli_divergence(0.2, 0.5) + 0.05 / bernoulli_divergence(0.45, 0.5)
    assert romdp.theory.lower_bound(world) == pytest.approx(expected, rel=1e-6)


def test_unseen_states_are_possible():
    """A pair that never moves to the best state may still do so in another world.

    With chance q for the best state (worth 1) and mean reward u, the cost is -log((1 - q) (1 - u))
    under q + u = 1/2.
    """
    found = cost_of_deviation(np.array([1.0, 0.0]), 0.0, np.array([0.0, 1.0]), 0.5)
    shares = np.linspace(0, 0.5, 10_001)
    assert found == pytest.approx(np.min(-np.log((1 - shares) * (0.5 + shares))), abs=1e-6)


def test_observations_do_not_matter():
    one, other = (romdp.worlds.random_romdp(5, 4, y, seed=2) for y in (5, 50))
    assert romdp.theory.lower_bound(one) == pytest.approx(romdp.theory.lower_bound(other))
    assert romdp.theory.lower_bound(one) == pytest.approx(49.1, abs=0.1)


def test_a_world_without_choice_costs_nothing():
    assert romdp.theory.lower_bound(romdp.MDP([[[0.5, 0.5]], [[1.0, 0.0]]], [[0.2], [0.9]])) == 0


@pytest.mark.parametrize(
    "world",
    [
        romdp.worlds.river_swim(),
        romdp.worlds.combination_lock(4),
        romdp.MDP([[[0.0, 1.0]], [[1.0, 0.0]]], [[0.2], [0.9]]),  # periodic
        romdp.MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [[0.2], [0.9]], reward_law="uniform"),
    ],
    ids=["river", "lock", "periodic", "uniform"],
)
def test_no_bound_where_the_theorem_does_not_apply(world):
    assert romdp.theory.lower_bound(world) is None


numbers = st.floats(1e-100, 1e100)


@given(numbers, numbers, st.floats(-2, 2))
def test_arithmetic_is_that_of_plain_numbers(a, b, exponent):
    m, n = Magnitude.of(a), Magnitude.of(b)
    assert float(m * n) == pytest.approx(a * b, rel=1e-10)
    assert float(m * b) == float(b * m) == float(m * n)
    assert float(m / n) == pytest.approx(a / b, rel=1e-10)
    assert float(a / n) == pytest.approx(a / b, rel=1e-10)
    assert float(m + n) == float(m + b) == pytest.approx(a + b, rel=1e-10)
    assert float(m**exponent) == pytest.approx(a**exponent, rel=1e-10)
    assert float(m.sqrt()) == pytest.approx(math.sqrt(a), rel=1e-10)
    assert (m < n) == (m.log < n.log)


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_minus_stops_at_zero(a, b):
    assert float(Magnitude.of(a).minus(b)) == pytest.approx(max(0.0, a - b), abs=1e-8 * a)


def test_what_is_large_is_not_infinite():
    large = Magnitude.of(1e300) ** 3
    assert large.overflows
    assert not large.is_infinite
    assert float(large) == math.inf
    assert repr(large) == "overflow (> 1e308): 10^900.0"
    assert large.to_json() == "overflow (> 1e308)"
    assert float(large / (Magnitude.of(1e290) ** 3)) == pytest.approx(1e30, rel=1e-9)


def test_the_largest_float_is_not_too_large():
    largest = Magnitude.of(sys.float_info.max)
    assert not largest.overflows
    assert float(largest) == pytest.approx(sys.float_info.max, rel=1e-10)


def test_infinity_and_zero():
    infinite, zero = Magnitude.of(math.inf), Magnitude.of(0)
    assert infinite.is_infinite
    assert not infinite.overflows
    assert infinite.to_json() == repr(infinite) == "infinite"
    assert 1 / zero == infinite == infinite + infinite == infinite + 1 == infinite * 2
    assert zero * math.inf == infinite * 0 == zero + 0 == 1 / infinite == zero
    assert infinite / infinite == zero
    assert float(zero) == 0.0
    assert infinite.minus(5) == infinite
    assert infinite.minus(infinite) == zero
    assert Magnitude.of(5).minus(0) == Magnitude.of(5)
    assert max(zero, infinite, Magnitude.of(1)) == infinite


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_refuses_what_has_no_magnitude(value):
    with pytest.raises(InvalidInputError, match="number >= 0"):
        Magnitude.of(value)


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
