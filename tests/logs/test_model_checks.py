"""What a model says against itself: its checks, and the tests of independence behind them."""

from dataclasses import replace

import numpy as np
import pytest

import romdp
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.logs.model import LatentModel
from romdp.logs.model.checks import check_model
from romdp.logs.model.evaluation import HeldOut, Prediction
from romdp.logs.model.independence import Independence, run_tests
from romdp.logs.model.safety import Safety

CLEAR = np.array([[[800, 50, 50], [50, 800, 50]], [[50, 50, 800], [800, 50, 50]],
                  [[50, 800, 50], [50, 50, 800]]])  # fmt: skip


def safety_of(*tests):
    nothing, even = np.full(3, -1), np.full((3, 2), 0.5)
    return Safety(nothing, even, 0.1, "held-out episodes", 0.1, 0.0, 0.2, 50.0, tests)


def model_of(transitions, *, certainty=1.0, held_out=None, visits=None, tests=()):
    visits = transitions.sum(axis=2) if visits is None else visits
    sums = visits * np.array([0.2, 0.7])
    return LatentModel(
        partition=Partition([0, 1, 2]),
        observation_names=("a", "b", "c"),
        action_names=("go", "stay"),
        counts=Counts(visits, transitions, sums, sums, starts=[5, 0, 0]),
        visits=visits.sum(axis=1),
        reward_range=(0.0, 1.0),
        log_odds=np.full(3, 9.0),
        certainty=np.full(3, certainty),
        held_out=held_out,
        safety=safety_of(*tests),
    )


def answers(model):
    return {check.name: check for check in check_model(model)}


def test_nothing_to_complain_about():
    held_out = HeldOut(
        n_episodes=50,
        n_steps=2000,
        prediction=Prediction(-1.0, -1.2, 0.2, 0.01),
        value=None,
    )
    passed = [outcome(kind, 0.5, 0.0) for kind in ("memory", "alike", "drift", "choice")]
    model = model_of(CLEAR, held_out=held_out, tests=passed)
    assert all(check.ok for check in model.checks)
    assert model.warnings == ()
    assert str(model.checks[0]).startswith("yes observations are placed surely")


def outcome(kind, p_value, size):
    return Independence("the action before", "the reward", kind, size, p_value, 1000)


def test_without_rows_the_questions_stay_open():
    open_ = [check.name for check in model_of(CLEAR).checks if check.ok is None]
    assert open_ == [
        "the observations of a state are alike",
        "the hidden states are Markov",
        "the world stayed the same",
        "whoever wrote the log chose by what was seen",
        "hidden states predict better than single observations",
    ]


def test_doubtful_placings():
    found = answers(model_of(CLEAR, certainty=0.6))["observations are placed surely"]
    assert found.ok is False
    assert "3 of 3 observations (100.0% of the steps)" in found.text
    unknown = answers(model_of(CLEAR, certainty=np.nan))["observations are placed surely"]
    assert unknown.ok is None


def test_rarely_tried_and_recommended():
    transitions = CLEAR.copy()
    transitions[1, 1] = [1, 1, 1]  # pays most, and was tried three times
    model = model_of(transitions)
    found = answers(model)
    assert found["every action was tried in every state"].ok is False
    assert "'stay' in state 1 (3 times)" in found["every action was tried in every state"].text
    assert model.policy[1] == 1
    assert found["the policy rests on experience"].ok is False
    assert "state 1: 'stay', 3 times" in found["the policy rests on experience"].text
    assert replace(model, rare=3).checks[1].ok
    assert len(model.warnings) == 2


def test_states_that_fall_apart():
    apart = np.zeros((3, 2, 3), int)
    apart[0, :, 0] = apart[1, :, 1] = apart[2, :, 2] = 500
    found = answers(model_of(apart))
    assert found["every state leads to every other"].ok is False
    assert "3 parts" in found["every state leads to every other"].text
    assert found["the policy has one long-run gain"].ok is False
    assert model_of(apart).gain == pytest.approx(0.7)
    one_way = CLEAR.copy()
    one_way[1:, :, 0] = 0
    assert "never come back to 1" in answers(model_of(one_way))[
        "every state leads to every other"
    ].text  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "name", "advice"),
    [
        ("memory", "the hidden states are Markov", "let states look back"),
        ("alike", "the observations of a state are alike", "gather more rows"),
        ("drift", "the world stayed the same", "shorter stretch"),
        ("choice", "whoever wrote the log chose by what was seen", "column that they looked at"),
    ],
)
@pytest.mark.parametrize(
    ("p_value", "size", "ok"),
    [(1e-6, 0.01, False), (0.3, 0.01, True), (1e-6, 1e-5, True)],  # the last: next to nothing
)
def test_what_fails_is_named_with_what_to_do(kind, name, advice, p_value, size, ok):
    found = answers(model_of(CLEAR, tests=[outcome(kind, p_value, size)]))[name]
    assert found.ok is ok
    assert (advice in found.text) is not ok
    assert "the action before tells" in found.text


@pytest.mark.parametrize(
    ("gain", "error", "ok"),
    [(0.1, 0.01, True), (-0.1, 0.01, False), (0.1, 0.2, None), (1e-5, 1e-7, None)],
)
def test_prediction(gain, error, ok):
    held_out = HeldOut(50, 2000, Prediction(-1.0, -1.0 - gain, gain, error), None)
    found = answers(model_of(CLEAR, held_out=held_out))
    assert found["hidden states predict better than single observations"].ok is ok


def test_notes_of_the_held_out_episodes_are_warnings():
    model = model_of(CLEAR, held_out=HeldOut(2, 9, None, None, ("too few",)))
    assert model.warnings == ("too few",)
    assert "too few" in str(model)


WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=30, seed=2)
TRUTH = Partition(WORLD.labels)


def episodes(seed, policy="uniform", length=40, n_episodes=200):
    seen = romdp.simulate(WORLD, policy, n_episodes * length, seed=seed)
    lengths = np.full(n_episodes, length)
    sizes = {"n_observations": 30, "n_actions": 2}
    return Trajectory(seen.observations, seen.actions, seen.rewards, lengths, **sizes)


def failed(seen, partition=TRUTH):
    tests = run_tests(seen, partition, True, np.random.default_rng(0))
    assert {test.kind for test in tests} == {"memory", "alike", "drift", "choice"}
    return {test.kind for test in tests if test.fails}


@pytest.mark.parametrize("seed", range(3))
def test_true_states_pass_whatever_the_logger_does_at_each_observation(seed):
    """One kind of tests fails with probability 0.01, three with 0.001: in three logs 4%."""
    habits = np.random.default_rng(seed).dirichlet([0.5, 0.5], 30)
    assert failed(episodes(seed, habits)) == set()


def test_who_acts_at_random_is_not_said_to_know_more():
    """Few observations, often the same twice in a row: 40 logs, of which two seem odd by luck.

    More than six do with probability 0.003.
    """
    cells, moves = np.arange(6), np.array([-1, 0, 1])
    odd = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        actions = rng.integers(3, size=2_000)
        slips = np.where(rng.random(2_000) < 0.2, rng.integers(6, size=2_000), moves[actions])
        places = np.append(0, np.cumsum(slips)[:-1]) % 6
        seen = Trajectory(places, actions, n_observations=6, n_actions=3)
        tests = run_tests(seen, Partition(cells), True, rng)
        odd += [test.p_value < 0.05 for test in tests if test.kind == "choice"]
    assert len(odd) == 40
    assert sum(odd) <= 6


def test_mixed_states_are_noticed():
    mixed = Partition(np.minimum(TRUTH.labels, 1))
    assert "alike" in failed(episodes(3), mixed)


def test_a_world_that_changes_is_noticed():
    first, second = episodes(0), episodes(1)
    turned = np.append(first.actions, 1 - second.actions)  # the actions swap what they do
    seen = np.append(first.observations, second.observations)
    paid = np.append(first.rewards, second.rewards)
    sizes = {"n_observations": 30, "n_actions": 2}
    assert "drift" in failed(Trajectory(seen, turned, paid, np.full(400, 40), **sizes))


@pytest.mark.parametrize("known", [False, True])
def test_something_that_lasts_and_is_not_shown_is_noticed(known):
    """A coin per episode decides which action pays; the logger may know it."""
    rng = np.random.default_rng(0)
    seen, coin = episodes(5), np.repeat(rng.integers(2, size=200), 40)
    actions = np.where(rng.random(len(coin)) < 0.8 * known, coin, seen.actions)
    paid = (rng.random(len(coin)) < np.where(actions == coin, 0.9, 0.1)).astype(float)
    sizes = {"n_observations": 30, "n_actions": 2}
    log = Trajectory(seen.observations, actions, paid, seen.lengths, **sizes)
    found = failed(log)
    assert "memory" in found
    assert ("choice" in found) is known


def test_something_that_nobody_knows_is_noticed_in_short_episodes():
    """A coin per episode of five steps turns what actions do; no table of cells would see it."""
    rng = np.random.default_rng(1)
    steps = 5 * 1_500
    states, coin = rng.integers(3, size=steps), np.repeat(rng.integers(2, size=1_500), 5)
    actions = rng.integers(2, size=steps)
    good = (states + actions) % 2
    for lasts in (True, False):
        there = coin if lasts else rng.permutation(coin)
        paid = (rng.random(steps) < 0.5 + 0.2 * (2 * (good == there) - 1)).astype(float)
        seen = Trajectory(10 * states + rng.integers(10, size=steps), actions, paid, [5] * 1_500)
        tests = run_tests(seen, Partition(np.arange(30) // 10), True, np.random.default_rng(0))
        found = {test.name for test in tests if test.fails}
        assert found == ({"how the steps before turned out"} if lasts else set())


def test_too_few_steps_are_not_tested():
    few = episodes(1, n_episodes=1, length=20)
    assert run_tests(few, TRUTH, True, np.random.default_rng(0)) == ()
