import numpy as np
import pytest

from romdp.data.counts import Counts
from romdp.logs.model.estimate import estimate, gain_bounds
from romdp.planning.confidence import Hoeffding


def test_means_and_shares():
    counts = Counts([[4, 2], [6, 1]], [[[3, 1], [0, 2]], [[2, 4], [1, 0]]], [[1, 2], [3, 0]],
                    [[1, 2], [3, 0]])  # fmt: skip
    found = estimate(counts, np.array([1, 0]))
    np.testing.assert_allclose(found.mdp.transition[0], [[0.75, 0.25], [0, 1]])
    np.testing.assert_allclose(found.mdp.transition[1], [[1 / 3, 2 / 3], [1, 0]])
    np.testing.assert_allclose(found.mdp.reward, [[0.25, 1.0], [0.5, 0.0]])
    np.testing.assert_array_equal(found.policy, found.mdp.optimal_policy)
    np.testing.assert_allclose(found.gains, found.mdp.gain)


def test_an_action_that_was_never_tried_is_never_recommended():
    visits = np.array([[5, 0], [0, 5]])
    transitions = np.zeros((2, 2, 2), int)
    transitions[0, 0, 1] = transitions[1, 1, 0] = 5
    zeros = np.zeros((2, 2))
    found = estimate(Counts(visits, transitions, zeros, zeros), np.array([1, 0]))
    np.testing.assert_array_equal(found.policy, [0, 1])  # all pay nothing: a tie
    np.testing.assert_array_equal(found.mdp.transition[0, 1], [1, 0])
    assert found.mdp.reward[0, 1] == 0


def test_a_step_that_always_ends_the_episode_leads_to_a_start():
    visits = np.array([[5], [4], [3]])
    transitions = np.zeros((3, 1, 3), int)
    transitions[0, 0, 1] = 5
    transitions[1, 0, 2] = 4
    zeros = np.zeros((3, 1))
    found = estimate(Counts(visits, transitions, zeros, zeros), np.array([3, 1, 0]))
    np.testing.assert_allclose(found.mdp.transition[2, 0], [0.75, 0.25, 0])
    nobody = estimate(Counts(visits, transitions, zeros, zeros), np.zeros(3, int))
    np.testing.assert_allclose(nobody.mdp.transition[2, 0], visits[:, 0] / 12)


def test_a_state_in_which_nobody_acted_restarts():
    visits = np.array([[5, 5], [0, 0]])
    transitions = np.zeros((2, 2, 2), int)
    transitions[0, 0, 1] = transitions[0, 1, 0] = 5
    sums = np.array([[5, 1], [0, 0]])
    found = estimate(Counts(visits, transitions, sums, sums), np.array([2, 0]))
    np.testing.assert_allclose(found.mdp.transition[1], [[1, 0], [1, 0]])
    assert found.policy[0] == 0
    np.testing.assert_allclose(found.gains, 0.5)


@pytest.mark.parametrize("scale", [0.0, 0.05, 1.0])
def test_gains_are_in_order(scale):
    rng = np.random.default_rng(1)
    transitions = rng.integers(1, 2000, (4, 3, 4))
    visits = transitions.sum(axis=2)
    sums = rng.random((4, 3)) * visits
    counts = Counts(visits, transitions, sums, sums)
    found = estimate(counts, np.ones(4, int))
    open_ = gain_bounds(counts, found, Hoeffding(scale=scale), 0.05)
    low, middle, high = open_.pessimistic.gain, found.mdp.gain, open_.optimistic_gain
    assert low <= middle + 1e-4
    assert middle <= high + 1e-2
    assert open_.cautious.gain >= low - 1e-6
    if scale == 0.0:
        assert low == pytest.approx(middle, abs=1e-4)
    else:
        assert low < middle < high
