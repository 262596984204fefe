import subprocess
import sys

import pytest
from romdp.baselines import BASELINES, QLearning, baseline, play_baseline

import romdp
from romdp.core.errors import InvalidInputError, UnknownNameError

WORLD = romdp.worlds.random_romdp(3, 2, 7, seed=4)


def test_the_catalogue_knows_each_by_its_own_name():
    assert sorted(BASELINES) == ["dqn", "q-learning"]
    assert all(kind.name == name for name, kind in BASELINES.items())


def test_settings_reach_the_baseline():
    assert baseline("q-learning", memory=50) == QLearning(memory=50)
    run = play_baseline("q-learning", WORLD, 500, seed=3, optimism=2.0)
    expected = QLearning(optimism=2.0).play(WORLD, 500, 3)
    assert run.reward.tolist() == expected.reward.tolist()
    assert run.agent == "q-learning"


def test_the_callback_is_called():
    heard = []
    run = play_baseline("q-learning", WORLD, 500, callback=heard.append)
    assert [epoch.length for epoch in heard] == run.steps.tolist()


def test_unknown_names_are_answered_with_the_nearest():
    with pytest.raises(UnknownNameError, match="did you mean 'q-learning'"):
        play_baseline("qlearning", WORLD, 10)
    with pytest.raises(UnknownNameError, match=r"setting of q-learning 'optimsm'.*'optimism'"):
        play_baseline("q-learning", WORLD, 10, optimsm=1.0)


def test_what_is_no_world_is_refused():
    with pytest.raises(InvalidInputError, match="world is a str"):
        play_baseline("q-learning", "river-swim", 10)


def test_the_catalogue_is_light():
    code = "import romdp.baselines as b, sys; b.BASELINES; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
