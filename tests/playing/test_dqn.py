from itertools import pairwise

import numpy as np
import pytest

from romdp.agents.recipes import UCRL2
from romdp.core.errors import InvalidInputError
from romdp.data.trajectory import END
from romdp.exact.romdp import ROMDP
from romdp.playing import play
from romdp.playing.baselines.dqn import DQN, improve, table_of_values
from romdp.playing.online import Online
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.named import random_romdp

WORLD = random_romdp(3, 2, 7, seed=4)
QUICK = DQN(learning_starts=50, exploration_steps=200)


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


def test_a_seed_decides_everything():
    first, again, other = (play(QUICK, WORLD, 600, seed) for seed in (3, 3, 4))
    assert first.reward.tolist() == again.reward.tolist()
    assert first.pseudo_regret.tolist() == again.pseudo_regret.tolist()
    assert first.pseudo_regret.tolist() != other.pseudo_regret.tolist()


def test_a_longer_run_begins_like_a_shorter_one():
    short, long = (play(QUICK, WORLD, steps, seed=1) for steps in (303, 500))
    assert short.steps[-1] == 303  # though it trains every four steps
    common = np.isin(short.steps, long.steps)
    assert common.sum() == short.steps.size - 1
    assert long.pseudo_regret[: common.sum()].tolist() == short.pseudo_regret[common].tolist()


def test_the_world_is_the_one_that_agents_meet():
    """With one action nothing is decided, so all that differs is what the world draws."""
    world = random_romdp(4, 1, 9, seed=3)
    mine = play(QUICK, world, 300, seed=5)
    theirs = play(UCRL2(), world, 300, seed=5)
    assert mine.reward.tolist() == theirs.reward.tolist()
    assert np.allclose(mine.pseudo_regret, theirs.pseudo_regret, rtol=0, atol=1e-9)


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


@pytest.mark.torch
def test_a_gradient_step_is_that_of_pytorch():
    """Fifty steps of RMSprop on batches of repeated observations, ends among them."""
    import torch

    state = DQN().start(7, 3, seed=0)
    weights, squares, ahead = state._weights, np.zeros_like(state._weights), state._ahead
    parts, place = [], 0
    for wide, narrow in pairwise((7, 30, 30, 30, 3)):
        layer = torch.nn.Linear(wide, narrow).double()
        end = place + wide * narrow
        layer.weight.data = torch.tensor(weights[place:end].reshape(wide, narrow).T.copy())
        layer.bias.data = torch.tensor(weights[end : end + narrow].copy())
        place = end + narrow
        parts += [layer, torch.nn.ReLU()]
    network, shown = torch.nn.Sequential(*parts[:-1]), torch.eye(7, dtype=torch.float64)
    optimizer = torch.optim.RMSprop(network.parameters(), lr=3e-3)
    rng = np.random.default_rng(0)
    for _ in range(50):
        seen, actions = rng.integers(7, size=64), rng.integers(3, size=64)
        rewards, following = 20 * rng.random(64), rng.integers(-1, 7, size=64)
        following[following < 0] = END
        batch = np.stack([seen, actions, rewards, following]).astype(float)
        improve(weights, squares, ahead, 3, batch, 0.9, 3e-3)
        goals = rewards + 0.9 * np.where(following == END, 0.0, ahead[following])
        values = network(shown[seen]).gather(1, torch.tensor(actions)[:, None])[:, 0]
        loss = torch.nn.functional.smooth_l1_loss(values, torch.tensor(goals))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10)
        optimizer.step()
    found = table_of_values(weights, 7, 3)
    assert np.ptp(found) > 1.0  # it has learned something
    np.testing.assert_allclose(found, network(shown).detach().numpy(), rtol=0, atol=1e-12)


def test_the_slope_is_that_of_the_loss():
    """The first step of RMSprop goes against the sign of the loss's numerical derivative."""
    state = QUICK.start(4, 2, seed=1)
    weights, ahead = state._weights, state._ahead
    batch = np.array([[0, 2, 2], [1, 0, 0], [0.3, 0.9, 0.1], [1, 3, END]], float)

    def loss(these):
        values = table_of_values(these, 4, 2)[batch[0].astype(int), batch[1].astype(int)]
        worth = np.append(ahead[[1, 3]], 0.0)
        return np.mean((values - batch[2] - 0.9 * worth) ** 2) / 2  # all within Huber's square

    after = weights.copy()
    improve(after, np.zeros_like(weights), ahead, 2, batch, 0.9, 1e-3)
    rng = np.random.default_rng(0)
    for place in rng.choice(len(weights), 60, replace=False):
        nudge = np.zeros_like(weights)
        nudge[place] = 1e-5
        slope = (loss(weights + nudge) - loss(weights - nudge)) / 2e-5
        # the mean square begins at 0.01 of the square, so that a step has ten times the rate
        expected = -1e-2 * np.sign(slope) if abs(slope) > 1e-5 else None
        if expected is not None:
            assert after[place] - weights[place] == pytest.approx(expected, rel=1e-2)


def test_it_learns():
    """Fixed seed: no false alarm. Two actions in one state, one pays and one does not."""
    world = ROMDP(np.ones((1, 2, 1)), [[0.1, 0.9]], [[0.5, 0.5]])
    run = play(DQN(learning_starts=50, exploration_steps=300, train_interval=1), world, 1000)
    half = np.searchsorted(run.steps, 500)
    late = (run.pseudo_regret[-1] - run.pseudo_regret[half]) / (1000 - run.steps[half])
    assert late < 0.08  # a coin would lose 0.4 a step
