import random
import sys

import numpy as np
import pytest

from romdp.agents.recipes import UCRL2
from romdp.core.errors import InvalidInputError
from romdp.exact.romdp import ROMDP
from romdp.playing import play
from romdp.playing.baselines.by_name import baseline, play_baseline
from romdp.playing.baselines.dqn import DQN
from romdp.playing.online import Online
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.named import random_romdp

WORLD = random_romdp(3, 2, 7, seed=4)
QUICK = DQN(learning_starts=50, exploration_steps=200)


def without_torch(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)  # importing it now fails


@pytest.mark.parametrize("missing", ["torch", "stable_baselines3"])
def test_it_says_what_to_install(monkeypatch, missing):
    without_torch(monkeypatch, missing)
    monkeypatch.setitem(
        sys.modules, {"torch", "stable_baselines3"}.difference({missing}).pop(), sys
    )
    for attempt in (
        lambda: baseline("dqn"),
        lambda: play_baseline("dqn", WORLD, 10),
        lambda: play(DQN(), WORLD, 10),
    ):
        with pytest.raises(InvalidInputError, match=r"pip install 'romdp\[dqn\]'"):
            attempt()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learning_rate": 0}, "learning_rate is 0"),
        ({"discount": 1.0}, "discount is 1"),
        ({"exploration_floor": 1.5}, "exploration_floor is 1.5"),
        ({"exploration_steps": 0}, "exploration_steps is 0"),
        ({"target_interval": 2.5}, "target_interval is 2.5"),
        ({"train_interval": 0}, "train_interval is 0"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"buffer_size": 0}, "buffer_size is 0"),
        ({"learning_starts": -1}, "learning_starts is -1"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        DQN(**settings)


@pytest.mark.dqn
def test_a_seed_decides_everything():
    first, again, other = (play(QUICK, WORLD, 600, seed) for seed in (3, 3, 4))
    assert first.reward.tolist() == again.reward.tolist()
    assert first.pseudo_regret.tolist() == again.pseudo_regret.tolist()
    assert first.pseudo_regret.tolist() != other.pseudo_regret.tolist()


@pytest.mark.dqn
def test_a_longer_run_begins_like_a_shorter_one():
    short, long = (play(QUICK, WORLD, steps, seed=1) for steps in (303, 500))
    assert short.steps[-1] == 303  # though it trains every four steps
    common = np.isin(short.steps, long.steps)
    assert common.sum() == short.steps.size - 1
    assert long.pseudo_regret[: common.sum()].tolist() == short.pseudo_regret[common].tolist()


@pytest.mark.dqn
def test_the_world_is_the_one_that_agents_meet():
    """With one action nothing is decided, so all that differs is what the world draws."""
    world = random_romdp(4, 1, 9, seed=3)
    mine = play(QUICK, world, 300, seed=5)
    theirs = play(UCRL2(), world, 300, seed=5)
    assert mine.reward.tolist() == theirs.reward.tolist()
    assert np.allclose(mine.pseudo_regret, theirs.pseudo_regret, rtol=0, atol=1e-9)


@pytest.mark.dqn
def test_it_answers_like_any_agent():
    """In a loop of one's own, and in a Gymnasium environment, the same calls do."""
    run = play(QUICK, ROMDPEnv(WORLD), 300, seed=5)
    assert run.agent == "dqn"
    assert run.policy.table.shape == (7,)
    online = Online(QUICK, 7, 2, seed=5)
    for seen in range(60):
        online.act(seen % 7)
        online.observe(1.0, (seen + 1) % 7)
    assert online.n_steps == 60


@pytest.mark.dqn
def test_global_generators_are_given_back():
    import torch

    torch.set_num_threads(2)
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    play(QUICK, WORLD, 100)
    assert random.getstate() == states[0]
    assert np.array_equal(np.random.get_state()[1], states[1][1])  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), states[2])
    assert torch.get_num_threads() == 2


@pytest.mark.dqn
def test_the_network_is_the_one_of_the_paper(monkeypatch):
    import stable_baselines3
    import torch

    made = []

    class Watched(stable_baselines3.DQN):
        def __init__(self, *arguments, **settings):
            super().__init__(*arguments, **settings)
            made.append(self)

    monkeypatch.setattr(stable_baselines3, "DQN", Watched)
    play(DQN(discount=0.8, learning_rate=2e-3), WORLD, 103)
    (model,) = made
    layers = [part for part in model.q_net.modules() if isinstance(part, torch.nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in layers] == [
        (7, 30),  # observations one-hot
        (30, 30),
        (30, 30),
        (30, 2),
    ]
    assert isinstance(model.policy.optimizer, torch.optim.RMSprop)
    assert model.policy.optimizer.param_groups[0]["lr"] == 2e-3
    assert model.gamma == 0.8
    assert model.device.type == "cpu"
    assert model.replay_buffer.size() == 103


@pytest.mark.dqn
def test_it_learns():
    """Fixed seed: no false alarm. Two actions in one state, one pays and one does not."""
    world = ROMDP(np.ones((1, 2, 1)), [[0.1, 0.9]], [[0.5, 0.5]])
    run = play(DQN(learning_starts=50, exploration_steps=300, train_interval=1), world, 1000)
    half = np.searchsorted(run.steps, 500)
    late = (run.pseudo_regret[-1] - run.pseudo_regret[half]) / (1000 - run.steps[half])
    assert late < 0.08  # a coin would lose 0.4 a step
