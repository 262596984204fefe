import copy
import pickle
import tracemalloc

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from scipy import stats

from romdp.core.errors import InvalidInputError, MisuseError, ROMDPError, UnknownNameError
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP
from romdp.worlds.environments import _BLOCK, ROMDPEnv, _cumulated
from romdp.worlds.named import random_mdp, random_romdp

FALSE_ALARM = 1e-6  # chance that a test of a law fails on a right simulator, at a fresh seed


def small_world(reward_law: str = "bernoulli") -> ROMDP:
    return ROMDP.from_labels(
        transition=[
            [[0.7, 0.3, 0.0], [0.1, 0.2, 0.7]],
            [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]],
            [[0.25, 0.25, 0.5], [1.0, 0.0, 0.0]],
        ],
        reward=[[0.2, 0.5], [0.9, 0.0], [1.0, 0.35]],
        labels=[0, 1, 0, 2, 1, 2, 2],
        observation_chance=[0.3, 0.6, 0.7, 0.1, 0.4, 0.2, 0.7],
        reward_law=reward_law,
        initial=[0.5, 0.0, 0.5],
    )


def walk(env: ROMDPEnv, steps: int, seed: int) -> tuple[np.ndarray, ...]:
    """Act at random; returns hidden states and actions, and the next observations and rewards."""
    _, info = env.reset(seed=seed)
    actions = np.random.default_rng(seed).integers(env.action_space.n, size=steps)
    seen = []
    for action in actions.tolist():
        before = info["hidden_state"]
        observation, reward, _, _, info = env.step(action)
        seen.append((before, action, observation, reward))
    states, actions, observations, rewards = (
        np.array(column) for column in zip(*seen, strict=True)
    )
    return states, actions, observations, rewards


def chance_of(counts: np.ndarray, law: np.ndarray) -> float:
    """p-value of counts under a law; an outcome of probability zero must not occur at all."""
    assert counts[law == 0].sum() == 0
    if (law > 0).sum() == 1:
        return 1.0
    possible = law > 0
    return float(stats.chisquare(counts[possible], counts.sum() * law[possible]).pvalue)


@pytest.mark.parametrize("law", ["bernoulli", "uniform", "beta", "deterministic"])
def test_check_env_passes(law: str) -> None:
    check_env(ROMDPEnv(small_world(law), reveal_hidden_state=True), skip_render_check=True)


def test_spaces_and_never_ending() -> None:
    env = ROMDPEnv(small_world())
    assert env.observation_space == gymnasium.spaces.Discrete(7)
    assert env.action_space == gymnasium.spaces.Discrete(2)
    env.reset(seed=0)
    for _ in range(3 * _BLOCK):
        observation, reward, terminated, truncated, info = env.step(1)
        assert type(observation) is int
        assert type(reward) is float
        assert terminated is False
        assert truncated is False
        assert info == {}


def test_hidden_state_is_the_label_of_what_is_seen() -> None:
    world = small_world()
    env = ROMDPEnv(world, reveal_hidden_state=True)
    observation, info = env.reset(seed=3)
    for action in [0, 1] * 200:
        assert info == {"hidden_state": world.labels[observation]}
        observation, _, _, _, info = env.step(action)


def test_moves_and_views_follow_the_world() -> None:
    world = small_world()
    env = ROMDPEnv(world, reveal_hidden_state=True)
    states, actions, observations, _ = walk(env, 40_000, seed=1)
    chances = []
    for x in range(3):
        for a in range(2):
            counts = np.bincount(observations[(states == x) & (actions == a)], minlength=7)
            law = world.transition[x, a, world.labels] * world.observation_chance
            chances.append(chance_of(counts, law))
    assert min(chances) > FALSE_ALARM / len(chances)


def test_reward_and_next_view_are_drawn_apart() -> None:
    # If a step used one random number for both, this would see it.
    world = small_world("uniform")
    env = ROMDPEnv(world, reveal_hidden_state=True)
    states, actions, observations, rewards = walk(env, 40_000, seed=2)
    there = (states == 0) & (actions == 0)
    high = rewards[there] > 0.2
    table = np.array(
        [np.bincount(observations[there][high == side], minlength=7) for side in (False, True)]
    )
    assert stats.chi2_contingency(table[:, table.sum(0) > 0]).pvalue > FALSE_ALARM


def test_first_states_follow_the_initial_law() -> None:
    world = small_world()
    env = ROMDPEnv(world)
    env.reset(seed=0)
    counts = np.bincount([env.reset()[0] for _ in range(20_000)], minlength=7)
    assert chance_of(counts, world.initial[world.labels] * world.observation_chance) > FALSE_ALARM


def test_bernoulli_rewards() -> None:
    world = small_world()
    states, actions, _, rewards = walk(ROMDPEnv(world, reveal_hidden_state=True), 20_000, seed=4)
    assert set(rewards) == {0.0, 1.0}
    chances = [
        chance_of(
            np.bincount(rewards[(states == x) & (actions == a)].astype(int), minlength=2),
            np.array([1 - world.reward[x, a], world.reward[x, a]]),
        )
        for x in range(3)
        for a in range(2)
    ]
    assert min(chances) > FALSE_ALARM / 6


@pytest.mark.parametrize("law", ["uniform", "beta"])
def test_rewards_with_a_density(law: str) -> None:
    world = small_world(law)
    states, actions, _, rewards = walk(ROMDPEnv(world, reveal_hidden_state=True), 20_000, seed=5)
    assert rewards.min() >= 0
    assert rewards.max() <= 1
    for x, a in np.ndindex(3, 2):
        mean = world.reward[x, a]
        drawn = rewards[(states == x) & (actions == a)]
        half = min(mean, 1 - mean)
        if half == 0:
            assert (drawn == mean).all()
        elif law == "uniform":
            target = stats.uniform(mean - half, 2 * half)
            assert stats.kstest(drawn, target.cdf).pvalue > FALSE_ALARM / 4
        else:
            target = stats.beta(2 * mean, 2 * (1 - mean))
            assert stats.kstest(drawn, target.cdf).pvalue > FALSE_ALARM / 4


def test_deterministic_rewards() -> None:
    world = small_world("deterministic")
    states, actions, _, rewards = walk(ROMDPEnv(world, reveal_hidden_state=True), 500, seed=6)
    assert (rewards == world.reward[states, actions]).all()


def outcomes(env: ROMDPEnv, steps: int = _BLOCK + 100) -> list[tuple[int, float]]:
    return [env.step(t % 2)[:2] for t in range(steps)]


@pytest.mark.parametrize("law", ["bernoulli", "beta"])
def test_same_seed_same_course(law: str) -> None:
    one, two = ROMDPEnv(small_world(law)), ROMDPEnv(small_world(law))
    two.reset(seed=9)
    outcomes(two, 17)  # what happened before a seeded reset does not matter
    assert one.reset(seed=7) == two.reset(seed=7)
    first = outcomes(one)
    assert outcomes(two) == first
    one.reset()
    assert outcomes(one) != first  # without a seed the stream goes on
    one.reset(seed=7)
    assert outcomes(one) == first
    one.reset(seed=8)
    assert outcomes(one) != first


def test_a_generator_that_is_set_is_used_from_the_next_reset_on() -> None:
    courses = []
    for warm in (0, 5):
        env = ROMDPEnv(small_world())
        env.reset(seed=warm)
        outcomes(env, warm)
        env.np_random = np.random.default_rng(11)
        env.reset()
        courses.append(outcomes(env))
    assert courses[0] == courses[1]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_goes_on_alike(copied) -> None:  # type: ignore[no-untyped-def]
    env = ROMDPEnv(small_world())
    env.reset(seed=0)
    outcomes(env, 10)
    other = copied(env)
    assert outcomes(env) == outcomes(other)
    assert env.reset() == other.reset()


def test_options_choose_the_first_hidden_state() -> None:
    env = ROMDPEnv(small_world(), reveal_hidden_state=True)
    for x in range(3):
        assert env.reset(options={"hidden_state": x})[1] == {"hidden_state": x}
    env.reset(seed=1)
    before = copy.deepcopy(env)
    with pytest.raises(InvalidInputError, match=r"hidden_state.*3.*from 0 to 2"):
        env.reset(seed=5, options={"hidden_state": 3})
    assert outcomes(env) == outcomes(before)


def test_an_mdp_shows_its_states() -> None:
    mdp = random_mdp(4, 2, seed=0)
    env = ROMDPEnv(mdp, reveal_hidden_state=True)
    assert isinstance(mdp, MDP)
    observation, info = env.reset(seed=0)
    assert observation == info["hidden_state"]
    assert env.observation_space.n == 4


def test_a_world_by_name() -> None:
    env = ROMDPEnv("random-romdp", n_states=3, n_actions=2, n_observations=8, world_seed=4)
    assert env.world == random_romdp(3, 2, 8, seed=4)


def test_one_observation_one_action_one_state() -> None:
    env = ROMDPEnv(ROMDP([[[1.0]]], [[0.5]], [[1.0]], reward_law="deterministic"))
    assert env.reset(seed=0) == (0, {})
    assert env.step(0) == (0, 0.5, False, False, {})


@pytest.mark.parametrize("action", [np.int64(1), np.int8(1), np.array(1), np.array([1]), 1.0])
def test_kinds_of_action(action: object) -> None:
    env, plain = ROMDPEnv(small_world()), ROMDPEnv(small_world())
    env.reset(seed=0)
    plain.reset(seed=0)
    assert [env.step(action) for _ in range(50)] == [plain.step(1) for _ in range(50)]


@pytest.mark.parametrize("action", [2, -1, 0.5, "1", None, np.array([0, 1]), float("nan"), [0]])
def test_bad_actions_are_refused_and_change_nothing(action: object) -> None:
    env = ROMDPEnv(small_world())
    env.reset(seed=0)
    before = copy.deepcopy(env)
    with pytest.raises(InvalidInputError, match="action is"):
        env.step(action)
    assert outcomes(env) == outcomes(before)


def test_step_before_reset() -> None:
    with pytest.raises(MisuseError, match="reset"):
        ROMDPEnv(small_world()).step(0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"world": 3}, "world is 3"),
        ({"world": "river-swin"}, "river-swim"),
        ({"world": "river-swim", "n_stats": 3}, "n_stats"),
        ({"world": "river-swim", "world_seed": 3}, "world_seed"),
        ({"world": "random-romdp", "seed": 3}, "world_seed"),
        ({"world": "random-romdp", "world_seed": -1}, "seed"),
        ({"world": small_world(), "n_states": 3}, "n_states: only"),
        ({"world": small_world(), "world_seed": 3}, "world_seed: only"),
    ],
)
def test_bad_arguments(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ROMDPError, match=message):
        ROMDPEnv(**arguments)


def test_an_unknown_world_has_its_own_error() -> None:
    with pytest.raises(UnknownNameError):
        ROMDPEnv("nowhere")


@pytest.mark.parametrize(
    "law", [[0.5, 0.5, 0.0, 0.0], [0.1] * 10 + [0.0], [0.0, 1 / 3, 1 / 3, 0.0, 1 / 3], [1.0]]
)
def test_impossible_outcomes_are_out_of_reach(law: list[float]) -> None:
    cumulated = _cumulated(np.array(law))
    last = max(i for i, chance in enumerate(law) if chance > 0)
    edges = [0.0, *cumulated, np.nextafter(1.0, 0.0)]
    drawn = {int(np.searchsorted(cumulated, u, side="right")) for u in edges if u < 1.0}
    assert drawn == {i for i, chance in enumerate(law) if chance > 0}
    assert cumulated[last] == 1.0


def test_memory_grows_with_observations_not_with_their_square() -> None:
    rng = np.random.default_rng(0)
    world = ROMDP.from_labels(
        rng.dirichlet(np.ones(50), (50, 4)), rng.random((50, 4)), np.arange(100_000) % 50
    )
    tracemalloc.start()
    env = ROMDPEnv(world)
    env.reset(seed=0)
    env.step(0)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10e6  # X * A * Y numbers alone would be 160 MB
