"""Baselines in Gymnasium environments: they learn, and they have returns."""

import gymnasium
import numpy as np
import pytest

from romdp.playing.baselines import play_baseline


def test_q_learning_finds_its_way():
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    run = play_baseline("q-learning", env, 5_000, seed=0, floor=0.0)
    assert run.agent == "q-learning"
    assert run.returns["step"][-1] <= 5_000
    assert run.mean_return > 0.9  # greedy from 30% of the steps on, in a world without chance
    assert np.isnan(run.regret).all()
    again = play_baseline("q-learning", env, 5_000, seed=0, floor=0.0)
    np.testing.assert_array_equal(again.returns, run.returns)


def test_q_learning_plays_what_must_be_named():
    run = play_baseline("q-learning", gymnasium.make("Blackjack-v1"), 500, seed=0)
    assert len(run.returns) > 200


@pytest.mark.dqn
def test_dqn_plays_episodes():
    run = play_baseline("dqn", gymnasium.make("FrozenLake-v1"), 1_000, seed=0)
    assert len(run.returns) > 50
    assert run.returns["length"].sum() <= 1_000
