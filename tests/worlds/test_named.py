"""Random and named worlds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import romdp
from romdp.core.errors import InvalidInputError, TooLargeError, UnknownNameError
from romdp.exact.mdp import MDP
from romdp.worlds.named import (
    combination_lock,
    deterministic_romdp,
    grid,
    random_mdp,
    random_romdp,
    river_swim,
    symmetric_block,
    twins,
)

MAKERS = [random_romdp, random_mdp, deterministic_romdp]
seeds = st.integers(0, 10**9)


@given(seeds, st.integers(1, 6), st.integers(1, 4), st.integers(0, 40))
def test_every_state_has_an_observation(seed, n_states, n_actions, more):
    for make in (random_romdp, deterministic_romdp):
        world = make(n_states, n_actions, n_states + more, seed)
        assert (world.n_states, world.n_actions) == (n_states, n_actions)
        assert world.n_observations == n_states + more
        assert set(world.labels.tolist()) == set(range(n_states))
        assert world.emission.sum(axis=1) == pytest.approx(np.ones(n_states))


@pytest.mark.parametrize("make", MAKERS)
def test_the_same_arguments_give_the_same_world(make):
    assert make(seed=4) == make(seed=4)
    assert make(seed=4) != make(seed=5)
    assert make(seed=(4, 1)) != make(seed=4)
    assert make(seed=np.random.SeedSequence(4)) == make(seed=4)


@pytest.mark.parametrize("make", [random_romdp, deterministic_romdp])
def test_the_hidden_mdp_does_not_depend_on_the_observations(make):
    worlds = [make(n_observations=count, seed=7) for count in (5, 10, 30, 100, 1_000)]
    assert {world.hidden for world in worlds} == {worlds[0].hidden}
    assert make(n_observations=30, seed=7).n_observations == 30


def test_nor_on_how_they_are_shown():
    one, other = random_romdp(seed=1), random_romdp(seed=1, emission_concentration=50.0)
    assert one.hidden == other.hidden
    assert np.array_equal(one.labels, other.labels)
    assert not np.array_equal(one.observation_chance, other.observation_chance)


def test_a_random_mdp_is_drawn_as_the_hidden_one():
    assert random_mdp(5, 4, seed=3) == random_romdp(5, 4, 30, seed=3).hidden


def test_concentration_of_the_transitions():
    """Rows of Dirichlet(c) have E sum p^2 = (1 + c) / (1 + c X); within 5 standard errors."""
    for concentration in (0.1, 1.0, 10.0):
        squares = (random_mdp(20, 50, 0, concentration=concentration).transition ** 2).sum(axis=-1)
        expected = (1 + concentration) / (1 + 20 * concentration)
        error = squares.std() / np.sqrt(squares.size)
        assert squares.mean() == pytest.approx(expected, abs=5 * error)


def test_concentration_of_the_emission():
    """As above, over some 50 observations for each of 200 states."""
    for concentration in (0.2, 1.0, 5.0):
        world = random_romdp(200, 1, 10_000, 0, emission_concentration=concentration)
        squares = np.bincount(world.labels, world.observation_chance**2)
        sizes = np.bincount(world.labels)
        excess = squares - (1 + concentration) / (1 + sizes * concentration)
        assert excess.mean() == pytest.approx(0, abs=5 * excess.std() / np.sqrt(200))


def test_rewards_are_uniform_with_a_bias_of_the_state():
    world = random_mdp(2_000, 3, 0, reward_bias=0.5)
    assert world.reward.min() >= 0
    assert world.reward.max() <= 1
    assert (np.ptp(world.reward, axis=1) <= 0.5).all()
    # Two actions of a state share its bias: covariance 0.5^2 / 12, within 5 standard errors.
    product = (world.reward[:, 0] - 0.5) * (world.reward[:, 1] - 0.5)
    assert product.mean() == pytest.approx(0.25 / 12, abs=5 * product.std() / np.sqrt(2_000))
    all_bias = random_mdp(5, 3, 0, reward_bias=1.0).reward
    assert (np.ptp(all_bias, axis=1) == 0).all()


def test_observations_are_dealt_fairly():
    """Sizes of 5 states among 100,000 observations; 6 standard deviations from 20,000."""
    sizes = np.bincount(random_romdp(n_observations=100_000, seed=2).labels)
    assert np.abs(sizes - 20_000).max() < 6 * np.sqrt(100_000 * 0.2 * 0.8)


@pytest.mark.parametrize("concentration", [1e-3, 1e-6, 1e-300])
def test_tiny_concentrations_still_make_a_world(concentration):
    for seed in range(20):
        world = random_romdp(
            seed=seed, concentration=concentration, emission_concentration=concentration
        )
        assert np.isfinite(world.transition).all()
        assert (world.observation_chance > 0).all()


def test_deterministic_moves_are_certain_and_reach_everything():
    for seed in range(20):
        world = deterministic_romdp(7, 3, 20, seed)
        assert set(np.unique(world.transition)) == {0.0, 1.0}
        cycle = world.transition[:, 0].argmax(axis=1)
        seen, x = set(), 0
        while x not in seen:
            seen.add(x)
            x = cycle[x]
        assert len(seen) == 7
        assert world.hidden.diameter() <= 6
        equal = 1 / np.bincount(world.labels)[world.labels]
        assert np.array_equal(world.observation_chance, equal)


def test_whole_floats_will_do():
    assert random_romdp(5.0, 4.0, 1e2, 1) == random_romdp(5, 4, 100, 1)
    assert deterministic_romdp(5.0, 3.0, 2e1) == deterministic_romdp(5, 3, 20)
    assert random_mdp(3.0, 2.0) == random_mdp(3, 2)


def test_reward_laws_are_passed_on():
    assert random_romdp(reward_law="beta").reward_law == "beta"
    assert random_mdp(reward_law="uniform").reward_law == "uniform"
    assert deterministic_romdp(reward_law="deterministic").reward_law == "deterministic"
    assert isinstance(random_mdp(), MDP)


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (random_romdp, {"n_states": 0}, "n_states is 0; pass a whole number >= 1"),
        (random_romdp, {"n_states": 2.5}, "n_states is 2.5"),
        (random_romdp, {"n_states": "5"}, "n_states is '5'"),
        (random_romdp, {"n_actions": -1}, "n_actions is -1"),
        (random_romdp, {"n_observations": 4}, "n_observations is 4, fewer than the 5 hidden"),
        (random_romdp, {"n_observations": 0}, "n_observations is 0"),
        (random_romdp, {"concentration": 0}, "concentration is 0; pass a finite number above 0"),
        (random_romdp, {"concentration": np.nan}, "concentration is nan"),
        (random_romdp, {"emission_concentration": -1}, "emission_concentration is -1"),
        (random_romdp, {"reward_bias": 1.5}, "reward_bias is 1.5"),
        (random_romdp, {"seed": -1}, "seed is -1"),
        (random_romdp, {"seed": None}, "seed is None"),
        (random_mdp, {"n_states": 0}, "n_states is 0"),
        (random_mdp, {"seed": "x"}, "seed is 'x'"),
        (deterministic_romdp, {"n_observations": 3}, "n_observations is 3, fewer than the 5"),
        (deterministic_romdp, {"n_actions": 0}, "n_actions is 0"),
        (deterministic_romdp, {"seed": 1.5}, "seed is 1.5"),
    ],
)
def test_bad_arguments(make, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        make(**arguments)


@pytest.mark.parametrize("make", MAKERS)
def test_a_wrong_reward_law(make):
    with pytest.raises(UnknownNameError, match="did you mean 'uniform'"):
        make(reward_law="unifrom")


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (random_romdp, {"n_states": 100_000, "n_observations": 100_000}),
        (random_romdp, {"n_observations": 10**15}),
        (random_mdp, {"n_states": 10**18}),
        (random_mdp, {"n_actions": 10**12}),
        (deterministic_romdp, {"n_states": 200_000, "n_observations": 200_000}),
        (romdp.worlds.river_swim, {"n_states": 10**6}),
        (romdp.worlds.combination_lock, {"horizon": 10**6}),
        (romdp.worlds.grid, {"views": 10**12}),
        (romdp.worlds.symmetric_block, {"n_observations": 10**13}),
    ],
)
def test_a_world_that_does_not_fit_is_refused_with_its_size(make, sizes):
    """Version 0.1 ended in NumPy's traceback, or took all memory first."""
    with pytest.raises(TooLargeError, match=r"would take [\d,]+ GiB, and this machine has"):
        make(**sizes)


@pytest.mark.parametrize("n_states", [2, 3, 6, 12])
def test_river_swim_pays_for_swimming_right(n_states):
    """Always right is optimal, and its gain follows from detailed balance."""
    world = river_swim(n_states)
    right = world.transition[:, 1]
    share = np.ones(n_states)
    for x in range(n_states - 1):
        share[x + 1] = share[x] * right[x, x + 1] / right[x + 1, x]
    share /= share.sum()
    assert world.hidden.optimal_policy.tolist() == [1] * n_states
    assert world.hidden.gain == pytest.approx(share[-1], abs=1e-12)


def test_river_swim_as_described():
    world = river_swim(4, 10)
    left, right = world.transition[:, 0], world.transition[:, 1]
    assert left.argmax(axis=1).tolist() == [0, 0, 1, 2]
    assert (left.max(axis=1) == 1).all()
    assert right[0].tolist() == [0.4, 0.6, 0, 0]
    assert right[1] == pytest.approx([0.05, 0.6, 0.35, 0])
    assert right[3].tolist() == [0, 0, 0.4, 0.6]
    assert world.reward[0].tolist() == [0.005, 0]
    assert world.reward[3].tolist() == [0, 1]
    assert np.count_nonzero(world.reward) == 2
    assert np.bincount(world.labels).tolist() == [3, 3, 2, 2]
    assert world.initial.tolist() == [1, 0, 0, 0]
    assert river_swim(4).labels.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("horizon", [1, 2, 5, 9, 10, 15])
def test_combination_lock_pays_once_a_round(horizon):
    """One prize in `horizon` steps; staying safe pays half as much."""
    world = combination_lock(horizon, seed=horizon)
    assert world.hidden.gain == pytest.approx(1 / horizon, abs=1e-12)
    assert set(np.unique(world.transition)) <= {0.0, 1.0}


def test_combination_lock_opens_with_its_secret_only():
    world = combination_lock(4, 3, seed=1)
    secret = world.hidden.optimal_policy
    for dial in range(4):
        for action in range(3):
            after = world.transition[dial, action].argmax()
            right = action == secret[dial]
            assert after == ((dial + 1) % 4 if right else 0)
            prize = 1.0 if right and dial == 3 else 0.0
            safe = 0.125 if dial == 0 and not right else 0.0
            assert world.reward[dial, action] == prize + safe
    secrets = {tuple(combination_lock(4, 3, seed=s).hidden.optimal_policy) for s in range(10)}
    assert len(secrets) > 5
    assert combination_lock(seed=3) == combination_lock(seed=3)
    assert combination_lock(3, 2, 7).labels.tolist() == [0, 1, 2, 0, 1, 2, 0]


def test_every_cell_of_the_room_can_be_reached():
    world = grid()
    assert np.isfinite(world.hidden.diameter())
    assert world.n_actions == 4
    assert (np.bincount(world.labels) == 5).all()
    assert 0 < world.hidden.gain < 1


def test_a_small_room_by_hand():
    """Cells 0 1 / 2 G in a square; without slipping a round is the way to G and one step more."""
    world = grid(["..", ".G"], views=2, slip=0.0, seed=3)
    north, east, south, west = (world.transition[:, a].argmax(axis=1) for a in range(4))
    assert north.tolist()[:3] == [0, 1, 0]
    assert east.tolist()[:3] == [1, 1, 3]
    assert south.tolist()[:3] == [2, 3, 2]
    assert west.tolist()[:3] == [0, 0, 2]
    assert world.transition[3] == pytest.approx(np.tile([1 / 3, 1 / 3, 1 / 3, 0], (4, 1)))
    assert world.reward.tolist() == [[0] * 4, [0] * 4, [0] * 4, [1] * 4]
    assert world.hidden.gain == pytest.approx(1 / (1 + (2 + 1 + 1) / 3))
    assert world.n_observations == 8


def test_walls_and_slipping():
    world = grid([".#.", "..G"], slip=0.2)
    assert world.n_states == 5
    east = world.transition[0, 1]
    assert east == pytest.approx([0.8 + 3 * 0.05, 0, 0.05, 0, 0])  # a wall to the east
    assert grid(slip=1.0).transition[0] == pytest.approx(
        np.tile(grid(slip=0.0).transition[0].mean(axis=0), (4, 1))
    )


def test_the_numbering_of_views_depends_on_the_seed():
    assert grid(seed=1) == grid(seed=1)
    assert not np.array_equal(grid(seed=1).labels, grid(seed=2).labels)
    assert grid(seed=1).hidden == grid(seed=2).hidden


@pytest.mark.parametrize("eta", [0.5, 1.0, 2.0, 4.0])
def test_symmetric_block_as_published(eta):
    world = symmetric_block(10, eta)
    clear = np.array([[eta, 1], [1, eta]]) / (1 + eta)
    assert world.transition[:, 0] == pytest.approx(clear)
    assert world.transition[:, 1] == pytest.approx(clear[::-1])
    assert world.transition[:, 2].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert not world.reward.any()
    assert np.bincount(world.labels).tolist() == [5, 5]
    assert (world.observation_chance == 0.2).all()
    assert (world.n_states, world.n_actions) == (2, 3)
    assert np.bincount(symmetric_block(11).labels).tolist() == [6, 5]


@pytest.mark.parametrize("mixing", [0.0, 0.1, 0.4])
def test_twins_differ_by_the_share_that_was_asked_for(mixing):
    world, plain = twins(6, 3, 30, mixing, seed=4), twins(6, 3, 30, 1.0, seed=4)
    apart = plain.transition[:4, :, -1] - plain.transition[:4, :, -2]
    assert world.transition[:4, :, -1] - world.transition[:4, :, -2] == pytest.approx(
        mixing * apart
    )
    apart = (plain.transition[-1] - plain.transition[-2])[:, :4]
    assert (world.transition[-1] - world.transition[-2])[:, :4] == pytest.approx(mixing * apart)
    assert world.reward[-1] - world.reward[-2] == pytest.approx(
        mixing * (plain.reward[-1] - plain.reward[-2])
    )
    assert np.array_equal(world.labels, plain.labels)
    assert np.array_equal(world.transition[:4, :, :4], plain.transition[:4, :, :4])


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (river_swim, {"n_states": 1}, "n_states is 1; pass a whole number >= 2"),
        (river_swim, {"n_observations": 5}, "n_observations is 5, fewer than the 6 hidden states"),
        (river_swim, {"n_observations": "6"}, "n_observations is '6'"),
        (combination_lock, {"horizon": 0}, "horizon is 0"),
        (combination_lock, {"n_actions": 1}, "n_actions is 1"),
        (combination_lock, {"n_observations": 4}, "n_observations is 4, fewer than the 5"),
        (combination_lock, {"seed": -3}, "seed is -3"),
        (grid, {"room": []}, "room must be rows of one length"),
        (grid, {"room": ["", ""]}, "room must be rows of one length"),
        (grid, {"room": ["..", ".G."]}, "room must be rows of one length"),
        (grid, {"room": ["..", ".X"]}, "room has the sign 'X'; use '.', '#' and one 'G'"),
        (grid, {"room": ["..", ".."]}, "exactly one goal"),
        (grid, {"room": ["GG", ".."]}, "exactly one goal"),
        (grid, {"room": ["#G"]}, "a free cell"),
        (grid, {"views": 0}, "views is 0"),
        (grid, {"slip": 1.5}, r"slip is 1.5; pass a finite number at least 0 and at most 1"),
        (grid, {"seed": "a"}, "seed is 'a'"),
        (symmetric_block, {"n_observations": 1}, "n_observations is 1"),
        (symmetric_block, {"eta": 0}, "eta is 0"),
        (symmetric_block, {"eta": np.inf}, "eta is inf"),
        (twins, {"n_states": 1}, "n_states is 1"),
        (twins, {"mixing": 1.1}, "mixing is 1.1"),
    ],
)
def test_bad_arguments_of_named_worlds(make, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        make(**arguments)
