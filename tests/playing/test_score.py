import numpy as np
import pytest

from romdp.agents.recipes import UCRL2
from romdp.data.partition import Partition
from romdp.exact.romdp import ROMDP
from romdp.playing import play
from romdp.playing.baselines.score import Score
from romdp.playing.run import EPOCH_COLUMNS
from romdp.worlds.random import random_romdp

WORLD = random_romdp(3, 2, 7, seed=4)


def filled(score, action=1, state=2):
    """Take one action in one hidden state until the end, each step paying a quarter."""
    while score.step < score.steps:
        score.taken[state, action] += 1
        score.reward[0] += 0.25
        score.step += 1
        if score.step == score.due:
            score.note()
    return score.run


@pytest.mark.parametrize("steps", [1, 2, 10, 100, 137, 1000])
def test_figures_are_taken_where_those_of_an_agent_are(steps):
    run = filled(Score("q-learning", WORLD, steps, 0))
    assert run.steps.tolist() == play(UCRL2(), WORLD, steps).steps.tolist()


def test_regrets_are_those_of_the_definition():
    run = filled(Score("q-learning", WORLD, 90, 5))
    gain = WORLD.hidden.gain
    assert np.allclose(run.reward, 0.25 * run.steps, rtol=0, atol=1e-12)
    assert np.allclose(run.regret, run.steps * (gain - 0.25), rtol=0, atol=1e-12)
    expected = run.steps * (gain - WORLD.reward[2, 1])
    assert np.allclose(run.pseudo_regret, expected, rtol=0, atol=1e-12)


def test_a_run_has_one_epoch_and_no_groups():
    score = Score("dqn", WORLD, 90, 5)
    score.gain = 0.5
    run = filled(score)
    assert run.epochs.dtype == EPOCH_COLUMNS
    assert run.epochs.tolist() == [(0, 90, 7, 0.5, 0)]
    assert run.partition == Partition.singletons(7)
    assert run.groupings == ((1, run.partition),)
    assert (run.agent, run.seed) == ("dqn", 5)
    assert run.to_arrow()["n_clusters"].to_pylist() == [7] * run.steps.size


def test_the_callback_hears_every_figure():
    heard = []
    run = filled(Score("dqn", WORLD, 50, 0, heard.append))
    assert [epoch.length for epoch in heard] == run.steps.tolist()
    assert [epoch.pseudo_regret for epoch in heard] == run.pseudo_regret.tolist()
    assert [epoch.regret for epoch in heard] == run.regret.tolist()
    assert {epoch.n_clusters for epoch in heard} == {7}


def test_without_a_single_gain_regrets_are_unknown():
    stay = np.eye(2)[:, None, :]
    world = ROMDP(stay, [[0.2], [0.9]], np.eye(2))
    run = filled(Score("dqn", world, 10, 0), action=0, state=1)
    assert np.isnan(run.regret).all()
    assert np.isnan(run.pseudo_regret).all()
    assert run.reward[-1] == 2.5
