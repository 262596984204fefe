import copy
import pickle
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env
from scipy import stats

import romdp
from romdp.core.errors import InvalidInputError, ROMDPError
from romdp.worlds import (
    ActionMask,
    DistractedRing,
    Distraction,
    GaussianLock,
    HiddenState,
    RichObservation,
    ROMDPEnv,
    VectorObservation,
    VocabularyWrapper,
    random_romdp,
)

FALSE_ALARM = 1e-6  # chance that a test of a law fails on a right wrapper, at a fresh seed
TAXI = max(name for name in gymnasium.registry if name.startswith("Taxi-v"))
CLIFF = max(name for name in gymnasium.registry if name.startswith("CliffWalking-v"))
TOYS = ["FrozenLake-v1", CLIFF, TAXI]


class Cycle(gymnasium.Env[Any, Any]):
    """Shows the given observations in turn; action 1 goes back to the first."""

    def __init__(self, shown: list[Any], space: gymnasium.Space[Any]) -> None:
        self.shown, self.place = shown, 0
        self.observation_space, self.action_space = space, Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = 0
        return self.shown[0], {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place = 0 if action else (self.place + 1) % len(self.shown)
        return self.shown[self.place], 0.0, False, False, {}


@contextmanager
def wrapped_on_purpose() -> Iterator[None]:
    """Let pass the one thing that check_env says of every wrapper: that it is one."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*different from the unwrapped version.*")
        yield


def course(env: gymnasium.Env[Any, Any], steps: int, seed: int | None) -> list[Any]:
    """Walk along a fixed sequence of actions, with restarts; returns everything seen."""
    observation, _ = env.reset(seed=seed)
    actions = np.random.default_rng(0).integers(env.action_space.n, size=steps)
    seen = [observation]
    for action in actions.tolist():
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append((observation, float(reward), terminated, truncated))
        if terminated or truncated:
            seen.append(env.reset()[0])
    return seen


def observations(seen: list[Any]) -> list[int]:
    return [item[0] if isinstance(item, tuple) else item for item in seen]


@pytest.mark.parametrize("name", TOYS)
def test_rich_check_env(name: str) -> None:
    env = RichObservation(gymnasium.make(name), 4, seed=1)
    with wrapped_on_purpose():
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("name", TOYS)
def test_rich_keeps_the_world_and_the_truth(name: str) -> None:
    plain, rich = gymnasium.make(name), RichObservation(gymnasium.make(name), 7, seed=3)
    assert rich.observation_space == Discrete(plain.observation_space.n * 7)
    assert (np.bincount(rich.labels) == 7).all()
    before, after = course(plain, 500, seed=5), course(rich, 500, seed=5)
    assert rich.labels[observations(after)].tolist() == observations(before)
    rest = [[item[1:] for item in seen if isinstance(item, tuple)] for seen in (before, after)]
    assert rest[0] == rest[1]  # the wrapper's draws do not touch the environment's


def test_rich_numbers_tell_nothing() -> None:
    labels = RichObservation(gymnasium.make(TAXI), 10, seed=0).labels
    # A random permutation's rank correlation has standard deviation 1 / sqrt(4999).
    correlation = stats.spearmanr(np.arange(labels.size), labels).statistic
    assert abs(correlation) < 5 / np.sqrt(labels.size)  # false alarm: 6e-7
    other = RichObservation(gymnasium.make(TAXI), 10, seed=1).labels
    assert (labels != other).any()


def test_rich_views_are_equally_likely() -> None:
    rich = RichObservation(Cycle([0], Discrete(1)), 6, seed=2)
    counts = np.bincount(observations(course(rich, 20_000, seed=1)), minlength=6)
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


def test_rich_views_are_drawn_afresh_each_step() -> None:
    rich = RichObservation(Cycle([0], Discrete(1)), 2, seed=0)
    seen = np.array(observations(course(rich, 10_000, seed=3)))
    pairs = np.bincount(2 * seen[:-1] + seen[1:], minlength=4)
    assert stats.chisquare(pairs).pvalue > FALSE_ALARM


def test_rich_is_reproducible() -> None:
    one = RichObservation(gymnasium.make("FrozenLake-v1"), 10, seed=4)
    two = RichObservation(gymnasium.make("FrozenLake-v1"), 10, seed=4)
    first = course(one, 200, seed=6)
    assert course(two, 200, seed=6) == first
    assert course(one, 200, seed=6) == first
    assert course(one, 200, seed=None) != first
    assert course(one, 200, seed=7) != first
    other = RichObservation(gymnasium.make("FrozenLake-v1"), 10, seed=5)
    assert course(other, 200, seed=6) != first


def test_rich_draws_do_not_repeat_under_another_reset_seed() -> None:
    rich = RichObservation(Cycle([0], Discrete(1)), 1000, seed=0)
    courses = [observations(course(rich, 20, seed=seed)) for seed in (0, 1, 2**40, 2**40 + 1)]
    assert len({tuple(seen) for seen in courses}) == 4


def test_rich_with_a_space_that_starts_elsewhere() -> None:
    rich = RichObservation(Cycle([-2, -1, 0], Discrete(3, start=-2)), 5, seed=0)
    seen = observations(course(rich, 30, seed=0))
    shown = observations(course(Cycle([-2, -1, 0], Discrete(3, start=-2)), 30, seed=0))
    assert rich.labels[seen].tolist() == [number + 2 for number in shown]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_rich_copies_go_on_alike(copied: Any) -> None:
    env = RichObservation(gymnasium.make("FrozenLake-v1"), 10, seed=4)
    course(env, 20, seed=1)
    other = copied(env)
    assert course(env, 100, seed=None) == course(other, 100, seed=None)


def test_rich_is_made_again_from_its_spec() -> None:
    env = RichObservation(gymnasium.make("FrozenLake-v1"), 3, seed=4)
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    again = gymnasium.make(spec)
    assert (again.get_wrapper_attr("labels") == env.labels).all()
    assert course(again, 100, seed=2) == course(env, 100, seed=2)


def test_rich_truth_is_read_only() -> None:
    env = RichObservation(gymnasium.make("FrozenLake-v1"), 3)
    with pytest.raises(ValueError, match="read-only"):
        env.labels[0] = 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"per_state": 0}, "per_state is 0"),
        ({"per_state": 2.5}, "per_state is 2.5"),
        ({"per_state": 2, "seed": -1}, "seed is -1"),
        ({"per_state": 2, "seed": "x"}, "seed is 'x'"),
    ],
)
def test_rich_bad_arguments(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        RichObservation(gymnasium.make("FrozenLake-v1"), **arguments)


def test_rich_needs_discrete_observations() -> None:
    with pytest.raises(InvalidInputError, match=r"Tuple.*VocabularyWrapper"):
        RichObservation(gymnasium.make("Blackjack-v1"), 3)


def test_wrapper_check_env() -> None:
    env = VocabularyWrapper(gymnasium.make("Blackjack-v1"), capacity=1000)
    with wrapped_on_purpose():
        check_env(env, skip_render_check=True)


def test_wrapper_numbers_what_an_environment_shows() -> None:
    shown = [np.array([0, 1]), np.array([1, 1]), np.array([0, 1]), np.array([2, 0])]
    space = gymnasium.spaces.MultiDiscrete([3, 2])
    env = VocabularyWrapper(Cycle(shown, space), capacity=5)
    assert env.observation_space == Discrete(5)
    seen = [env.reset(seed=0)[0]] + [env.step(0)[0] for _ in range(5)]
    assert seen == [0, 1, 0, 2, 0, 1]
    assert env.reset(seed=1)[0] == 0  # numbers outlive a reset
    assert env.vocabulary.names == [(0, 1), (1, 1), (2, 0)]


def test_wrapper_full() -> None:
    env = VocabularyWrapper(Cycle(["a", "b"], gymnasium.spaces.Text(1)), capacity=1)
    env.reset(seed=0)
    with pytest.raises(ROMDPError, match="larger capacity"):
        env.step(0)


def test_wrapper_bad_capacity() -> None:
    with pytest.raises(InvalidInputError, match="capacity is 0"):
        VocabularyWrapper(gymnasium.make("Blackjack-v1"), capacity=0)


def test_wrapper_then_rich() -> None:
    inner = VocabularyWrapper(gymnasium.make("Blackjack-v1"), capacity=800)
    rich = RichObservation(inner, 3, seed=0)
    plain = VocabularyWrapper(gymnasium.make("Blackjack-v1"), capacity=800)
    seen, truth = course(rich, 300, seed=1), course(plain, 300, seed=1)
    assert rich.labels[observations(seen)].tolist() == observations(truth)
    again = gymnasium.make(rich.spec)
    assert course(again, 300, seed=1) == seen


def digit_like(n_classes: int, length: int = 5, members: int = 30) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(10 * k, 1, (members, length)) for k in range(n_classes)]


def vectors(seen: list[Any]) -> np.ndarray:
    return np.array([item[0] if isinstance(item, tuple) else item for item in seen])


def test_vector_check_env() -> None:
    classes = digit_like(16)
    with wrapped_on_purpose():
        check_env(VectorObservation(gymnasium.make("FrozenLake-v1"), classes, 1))
        inner = VectorObservation(gymnasium.make("FrozenLake-v1"), classes, 1)
        check_env(Distraction(inner, 3, seed=2))
        check_env(Distraction(GaussianLock(4), 3), skip_render_check=True)


def test_vectors_are_members_of_the_class() -> None:
    classes = digit_like(16)
    plain = course(gymnasium.make("FrozenLake-v1"), 500, seed=5)
    env = VectorObservation(gymnasium.make("FrozenLake-v1"), classes, seed=3)
    shown = course(env, 500, seed=5)
    for state, vector in zip(observations(plain), vectors(shown), strict=True):
        assert (classes[state] == vector).all(axis=1).any()
    rest = [[item[1:] for item in seen if isinstance(item, tuple)] for seen in (plain, shown)]
    assert rest[0] == rest[1]  # the wrapper's draws do not touch the environment's


def test_vector_members_are_equally_likely() -> None:
    classes = [np.arange(8.0)[:, None]]
    env = VectorObservation(Cycle([0], Discrete(1)), classes, seed=2)
    drawn = vectors(course(env, 20_000, seed=1)).ravel().astype(int)
    assert stats.chisquare(np.bincount(drawn, minlength=8)).pvalue > FALSE_ALARM
    again = env.show([0] * 20_000, seed=0).ravel().astype(int)
    assert stats.chisquare(np.bincount(again, minlength=8)).pvalue > FALSE_ALARM


def test_vector_hidden_state_is_for_scoring() -> None:
    space = Discrete(3, start=-2)
    env = VectorObservation(Cycle([-2, -1, 0], space), digit_like(3), reveal_hidden_state=True)
    infos = [env.reset(seed=0)[1]] + [env.step(0)[4] for _ in range(3)]
    assert [info["hidden_state"] for info in infos] == [0, 1, 2, 0]
    assert VectorObservation(Cycle([-2, -1, 0], space), digit_like(3)).reset(seed=0)[1] == {}
    world = ROMDPEnv(random_romdp(2, 2, 6), reveal_hidden_state=True)
    kept = VectorObservation(world, digit_like(6), reveal_hidden_state=True)
    vector, info = kept.reset(seed=0)
    assert info["hidden_state"] == world.world.labels[round(vector.mean() / 10)]


def test_distraction_keeps_what_was_shown() -> None:
    plain = vectors(course(GaussianLock(4), 300, seed=1))
    env = Distraction(GaussianLock(4), 5, sd=2.0, seed=7)
    seen = vectors(course(env, 300, seed=1))
    assert seen.shape == (len(plain), 13)
    assert np.allclose(env.rotation @ env.rotation.T, np.eye(13))
    assert abs(seen[:, :8] - plain).max() > 0.1
    assert np.allclose((seen @ env.rotation.T)[:, :8], plain)


def test_distraction_noise() -> None:
    env = Distraction(Cycle([np.zeros(1)], Box(-1, 1, (1,))), 40, 0.8, 3.0, seed=1)
    back = env.rotation.T
    noise = (vectors(course(env, 10_000, seed=2)) @ back)[:, 1:] / 3.0
    # Innovations are independent standard normal numbers, and the process is stationary.
    fresh = (noise[1:] - 0.8 * noise[:-1]) / 0.6
    assert stats.kstest(fresh.ravel(), "norm").pvalue > FALSE_ALARM
    assert stats.pearsonr(fresh[1:].ravel(), fresh[:-1].ravel()).pvalue > FALSE_ALARM
    assert stats.pearsonr(fresh[:, 0], fresh[:, 1]).pvalue > FALSE_ALARM
    firsts = np.array([(env.reset(seed=seed)[0] @ back)[1:] for seed in range(500)]) / 3.0
    assert stats.kstest(firsts.ravel(), "norm").pvalue > FALSE_ALARM


def test_distraction_for_scoring() -> None:
    lock = GaussianLock(4)
    env = Distraction(lock, 5, sd=2.0, seed=7)
    shown = env.show([0, 4, 11] * 500, seed=1) @ env.rotation.T
    assert np.allclose(shown[:, :8], lock.show([0, 4, 11] * 500, seed=1))
    assert stats.kstest(shown[:, 8:].ravel() / 2.0, "norm").pvalue > FALSE_ALARM
    disturbed = env.disturb(np.ones((2, 8)), seed=0) @ env.rotation.T
    assert np.allclose(disturbed[:, :8], 1)
    inside = Distraction(VectorObservation(Cycle([0, 1], Discrete(2)), digit_like(2)), 2)
    assert inside.show([0, 1, 1], seed=0).shape == (3, 7)


def test_distraction_of_bits_only_rotates() -> None:
    env = Distraction(DistractedRing(3, 9), 0, seed=1)
    shown = vectors(course(env, 50, seed=0)) @ env.rotation.T
    assert np.allclose(shown, vectors(course(DistractedRing(3, 9), 50, seed=0)))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda: VectorObservation(gymnasium.make("FrozenLake-v1"), digit_like(16), seed=4),
        lambda: Distraction(GaussianLock(4), 5, seed=4),
    ],
)
def test_vector_wrappers_are_reproducible(wrap: Any) -> None:
    one, two = wrap(), wrap()
    first = vectors(course(one, 200, seed=6))
    assert (vectors(course(two, 200, seed=6)) == first).all()
    assert (vectors(course(one, 200, seed=6)) == first).all()
    later = copy.deepcopy(one)
    other = vectors(course(one, 200, seed=None))
    assert other.shape != first.shape or (other != first).any()
    assert (vectors(course(later, 200, seed=None)) == other).all()


def test_distraction_is_made_again_from_its_spec() -> None:
    env = Distraction(gymnasium.make("romdp/GaussianLock-v0", horizon=4), 5, seed=4)
    spec = gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json())
    again = gymnasium.make(spec)
    assert (again.reset(seed=2)[0] == env.reset(seed=2)[0]).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda lake: VectorObservation(lake, digit_like(3)), "3 classes, but .* 16 numbers"),
        (lambda lake: VectorObservation(lake, [[1.0, 2.0]] * 16), r"classes\[0\] has shape"),
        (
            lambda lake: VectorObservation(lake, [*digit_like(15), np.ones((2, 3))]),
            r"classes\[15\] has vectors of length 3, classes\[0\] of 5",
        ),
        (lambda lake: VectorObservation(GaussianLock(4), digit_like(3)), "needs a Discrete one"),
        (lambda lake: Distraction(lake, 3), "needs a Box with one axis"),
        (lambda lake: Distraction(GaussianLock(4), -1), "n_numbers is -1"),
        (lambda lake: Distraction(GaussianLock(4), 1, correlation=1.0), "correlation is 1"),
        (lambda lake: Distraction(GaussianLock(4), 1, sd=-1), "sd is -1"),
    ],
)
def test_vector_wrappers_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        make(gymnasium.make("FrozenLake-v1"))


@pytest.fixture(scope="module")
def views() -> tuple[Any, Any]:
    """A lake with five views of each cell, and a run on it."""
    env = RichObservation(gymnasium.make("FrozenLake-v1", is_slippery=False), 5, seed=0)
    return env, romdp.play(romdp.LCPSRL(), env, 4_000, seed=0)


@pytest.mark.parametrize("what", ["policy", "model"])
def test_hidden_states_are_shown_in_place_of_observations(views: Any, what: str) -> None:
    env, run = views
    small = HiddenState(env, getattr(run, what))
    assert small.observation_space == Discrete(run.model.n_states + 1)
    with wrapped_on_purpose():
        check_env(small, skip_render_check=True)
    shown, info = small.reset(seed=3)
    for action in (1, 1, 2, 1, 2, 2):
        state = run.policy.state(info["observation"])
        assert shown == (state if state >= 0 else run.model.n_states)
        shown, _, over, _, info = small.step(action)
        if over:
            assert shown == run.model.n_states  # nobody acts there, so its state is unknown
            break


def test_hidden_states_of_vectors_and_of_a_log() -> None:
    lake = gymnasium.make("FrozenLake-v1")
    pictures = VectorObservation(lake, [np.eye(16)[[i]] for i in range(16)], seed=0)
    run = romdp.play(romdp.LCPSRL(), pictures, 1_500, seed=0)
    small = HiddenState(pictures, run.model)
    assert small.reset(seed=0)[0] == run.policy.state(np.eye(16)[0]) >= 0
    world = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    model = romdp.fit(romdp.simulate(world, "uniform", 5_000, seed=0))
    small = HiddenState(ROMDPEnv(world), model)
    shown, info = small.reset(seed=1)
    assert shown == model.predict(info["observation"])


def test_states_that_look_back_are_refused() -> None:
    table = {"seen": list("abab") * 30, "done": [0, 1] * 60, "episode": np.repeat(range(20), 6)}
    roles = {"observation": "seen", "action": "done", "episode": "episode"}
    model = romdp.fit(table, **roles, memory=2, holdout=0)
    with pytest.raises(InvalidInputError, match="look back"):
        HiddenState(gymnasium.make("FrozenLake-v1"), model)


@pytest.mark.parametrize("what", [None, "policy.npz", Discrete(3)])
def test_hidden_states_need_a_model(what: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"pass run\.policy, run\.model or a model"):
        HiddenState(gymnasium.make("FrozenLake-v1"), what)


class Gates(gymnasium.Env[int, int]):
    """Actions 3 to 6, of which the mask allows some; others are an error."""

    observation_space, action_space = Discrete(3), Discrete(4, start=3)
    masks = ([1, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, 0])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self.place, self.taken = 0, list[int]()
        return 0, {"action_mask": np.array(self.masks[0], np.int8)}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        mask = self.masks[self.place]
        assert mask[action - 3] or not any(mask)
        self.taken.append(int(action))
        self.place = (self.place + 1) % 3
        return self.place, 0.0, False, False, {"action_mask": np.array(self.masks[self.place])}


def test_an_action_that_is_not_allowed_does_what_the_next_allowed_one_does() -> None:
    env: Any = ActionMask(Gates())
    for chosen, taken in (([3, 3, 3], [3, 4, 3]), ([4, 6, 5], [6, 4, 5]), ([6, 5, 6], [6, 4, 6])):
        env.reset(seed=0)
        for action in chosen:
            env.step(action)
        assert env.unwrapped.taken == taken
    run = romdp.play(romdp.LCPSRL(), env, 300, seed=0)  # none of its actions is an error
    assert run.steps[-1] == 300
    plain = gymnasium.make("FrozenLake-v1")
    returns = [
        romdp.play(romdp.LCPSRL(), lake, 300, seed=0).returns for lake in (plain, ActionMask(plain))
    ]
    np.testing.assert_array_equal(*returns)


def test_masks_that_do_not_fit_are_refused() -> None:
    class Wrong(Gates):
        masks = ([1, 1], [1, 1], [1, 1])

    env: Any = ActionMask(Wrong())
    env.reset(seed=0)
    with pytest.raises(InvalidInputError, match=r"action_mask has shape \(2,\)"):
        env.step(3)
    with pytest.raises(InvalidInputError, match="needs a Discrete one"):
        ActionMask(gymnasium.make("Pendulum-v1"))
