import numpy as np
import pytest

from romdp.core.errors import InvalidInputError
from romdp.worlds.named import combination_lock, grid, river_swim, symmetric_block


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
    ],
)
def test_bad_arguments(make, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        make(**arguments)
