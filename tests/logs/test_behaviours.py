"""Logs of behaviours that change, or that follow the observation: grouped rightly by default."""

import numpy as np
import pytest

import romdp
from romdp.core.errors import InvalidInputError
from romdp.logs import fit

N = 12_000
WORLDS = [
    romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=15, seed=seed)
    for seed in (1, 2, 3)
]


def leaning(action, strength=0.95):
    """A policy that nearly always takes one action, in all or in the marked observations."""
    chosen = np.broadcast_to(action, 15)
    rows = np.full((15, 2), 1 - strength)
    rows[np.arange(15), chosen] = strength
    return rows


def table(parts):
    seen = romdp.Trajectory.concatenate(parts)
    n = seen.n_steps
    return {
        "page": seen.observations,
        "offer": seen.actions,
        "paid": seen.rewards,
        "user": np.arange(n) // 40,
    }


def assert_found(world, log):
    model = fit(log, "page", "offer", "paid", "user")
    assert model.partition == romdp.Partition(world.labels)
    np.testing.assert_array_equal(model.act(range(15)), world.hidden.optimal_policy[world.labels])
    assert model.held_out.alike.p_value > 0.01 or model.held_out.alike.information < 5e-4


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_a_behaviour_that_changes_half_way(world):
    """First nearly always one action, then nearly always the other."""
    parts = [romdp.simulate(world, leaning(action), N // 2, seed=action) for action in (0, 1)]
    assert_found(world, table(parts))


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_a_behaviour_that_follows_the_observation_inside_a_state(world):
    """Half of every state's observations get one action, the other half the other."""
    turn = np.zeros(15, np.int64)
    for state in range(3):
        members = np.flatnonzero(world.labels == state)
        turn[members[::2]] = 1
    assert_found(world, table([romdp.simulate(world, leaning(turn), N, seed=0)]))


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_both_at_once(world):
    rng = np.random.default_rng(0)
    parts = [
        romdp.simulate(world, leaning(rng.integers(0, 2, 15), 0.9), N // 4, seed=i)
        for i in range(4)
    ]
    assert_found(world, table(parts))


def test_methods_that_need_one_fixed_policy_are_refused():
    parts = [romdp.simulate(WORLDS[0], leaning(a), 1000, seed=a) for a in (0, 1)]
    for method in ("tensor", "matrix"):
        with pytest.raises(InvalidInputError, match="holds only under one fixed policy"):
            fit(table(parts), "page", "offer", "paid", "user", method=method)
