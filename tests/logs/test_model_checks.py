"""What a model says against itself: its checks, and the tests of independence behind them."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import romdp
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.logs.model import LatentModel
from romdp.logs.model.checks import check_model
from romdp.logs.model.evaluation import (
    HeldOut,
    PermutationTest,
    PolicyValue,
    Prediction,
    _beyond_luck,
    alike_test,
    markov_test,
)

EVEN = np.full((3, 2, 3), 300)
CLEAR = np.array([[[800, 50, 50], [50, 800, 50]], [[50, 50, 800], [800, 50, 50]],
                  [[50, 800, 50], [50, 50, 800]]])  # fmt: skip


def model_of(transitions, *, certainty=1.0, held_out=None, visits=None):
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
    )


def answers(model):
    return {check.name: check for check in check_model(model)}


def test_nothing_to_complain_about():
    held_out = HeldOut(
        n_episodes=50,
        n_steps=2000,
        prediction=Prediction(-1.0, -1.2, 0.2, 0.01),
        value=None,
        markov=PermutationTest(0.001, 0.5, 1900),
        alike=PermutationTest(0.0, 0.4, 1950),
    )
    model = model_of(CLEAR, held_out=held_out)
    assert all(check.ok for check in model.checks)
    assert model.warnings == ()
    assert str(model.checks[0]).startswith("yes observations are placed surely")


def test_without_held_out_episodes_three_questions_stay_open():
    open_ = [check.name for check in model_of(CLEAR).checks if check.ok is None]
    assert open_ == [
        "the observations of a state are alike",
        "the hidden states are Markov",
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


def test_rank_is_in_doubt_where_the_noise_could_hide_it():
    assert answers(model_of(CLEAR))["transition matrices have full rank"].ok
    assert answers(model_of(EVEN))["transition matrices have full rank"].ok is None


@pytest.mark.parametrize(
    ("test", "ok"),
    [
        (PermutationTest(0.05, 0.01, 1000), False),
        (PermutationTest(0.05, 0.3, 1000), True),
        (PermutationTest(0.0001, 0.01, 50_000), True),  # sure, but next to nothing
    ],
)
def test_markov(test, ok):
    held_out = HeldOut(50, 2000, None, None, test)
    assert answers(model_of(CLEAR, held_out=held_out))["the hidden states are Markov"].ok is ok


@pytest.mark.parametrize(
    ("test", "ok"),
    [
        (PermutationTest(0.005, 0.01, 20_000), False),
        (PermutationTest(0.005, 0.3, 20_000), True),
        (PermutationTest(0.0001, 0.01, 50_000), True),
    ],
)
def test_alike(test, ok):
    held_out = HeldOut(50, 2000, None, None, None, alike=test)
    found = answers(model_of(CLEAR, held_out=held_out))["the observations of a state are alike"]
    assert found.ok is ok
    assert ("different states were put together" in found.text) is not ok


@pytest.mark.parametrize(
    ("gain", "error", "ok"),
    [(0.1, 0.01, True), (-0.1, 0.01, False), (0.1, 0.2, None), (1e-5, 1e-7, None)],
)
def test_prediction(gain, error, ok):
    held_out = HeldOut(50, 2000, Prediction(-1.0, -1.0 - gain, gain, error), None, None)
    found = answers(model_of(CLEAR, held_out=held_out))
    assert found["hidden states predict better than single observations"].ok is ok


def test_notes_of_the_held_out_episodes_are_warnings():
    model = model_of(CLEAR, held_out=HeldOut(2, 9, None, None, None, ("too few",)))
    assert model.warnings == ("too few",)
    assert "too few" in str(model)


def test_values_of_mixed_states_are_marked():
    value = PolicyValue(0.7, 0.6, 0.8, 0.7, 0.4, 0.5, 100.0)
    words = "do not rely on these gains"
    for p_value, is_marked in ((0.01, True), (0.5, False)):
        alike = PermutationTest(0.01, p_value, 1000)
        model = model_of(CLEAR, held_out=HeldOut(50, 2000, None, value, None, alike=alike))
        assert (words in str(model)) is is_marked


WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=30, seed=2)
TRUTH = Partition(WORLD.labels)


def episodes(seed, n_episodes, length=40, policy="uniform"):
    seen = romdp.simulate(WORLD, policy, n_episodes * length, seed=seed)
    return Trajectory(
        seen.observations, seen.actions, seen.rewards, np.full(n_episodes, length),
        n_observations=30, n_actions=2,
    )  # fmt: skip


def test_information_is_that_of_the_definition():
    """The mean of the permutations is what the plain sum exceeds; alone it is the plain sum."""
    rng = np.random.default_rng(1)
    stratum, first = rng.integers(0, 3, 400), rng.integers(0, 4, 400)
    second = (first + rng.integers(0, 2, 400)) % 5
    joint = Counter(zip(stratum, first, second, strict=True))
    by_first, by_second = (Counter(zip(stratum, column, strict=True)) for column in (first, second))
    alone = Counter(stratum)
    plain = sum(
        n * math.log(n * alone[s] / by_first[s, x] / by_second[s, y])
        for (s, x, y), n in joint.items()
    )
    found = _beyond_luck(stratum, first, second, rng)
    assert (found.p_value, found.n_steps) == (0.01, 400)
    # By chance it is about (4 - 1)(5 - 1) / 2 nats in each of three strata, give or take 3 each.
    assert plain - 400 * found.information == pytest.approx(18, abs=6)


def test_the_markov_test_accepts_states_and_rejects_mixtures():
    """A true grouping fails at 0.01 with chance 0.01; the seed is fixed."""
    circle = 0.8 * np.roll(np.eye(3), 1, axis=1) + 0.2 / 3
    labels = np.repeat(np.arange(3), 4)
    emission = (labels == np.arange(3)[:, None]) / 4
    world = romdp.ROMDP(np.stack([circle, circle], axis=1), np.full((3, 2), 0.5), emission)
    walk = romdp.simulate(world, "uniform", 8000, seed=0)
    held = Trajectory(walk.observations, walk.actions, walk.rewards, np.full(200, 40))
    rng = np.random.default_rng(0)
    good = markov_test(Partition(labels), held, rng)
    assert good.p_value > 0.01
    assert abs(good.information) < 0.002
    # Two of the three states in one group: the past tells which it was.
    bad = markov_test(Partition(np.minimum(labels, 1)), held, rng)
    assert bad.p_value == 0.01
    assert bad.information > 0.1
    assert markov_test(TRUTH, episodes(1, 1, 20), rng) is None


def test_the_test_of_likeness_accepts_states_and_rejects_mixtures():
    """A true grouping fails at 0.01 with chance 0.01; the seed is fixed."""
    rng = np.random.default_rng(0)
    # The behaviour follows the observation inside each state; that must not matter.
    held = episodes(3, 150, policy=rng.dirichlet([0.5, 0.5], 30))
    good = alike_test(TRUTH, held, rng)
    assert good.p_value > 0.01
    assert abs(good.information) < 0.01
    bad = alike_test(Partition(np.minimum(TRUTH.labels, 1)), held, rng)
    assert bad.p_value == 0.01
    assert bad.information > 0.002 + abs(good.information)
    assert bad.n_steps == 150 * 39
    single = alike_test(Partition.singletons(30), held, rng)
    assert single.information == pytest.approx(0.0, abs=1e-12)
    assert alike_test(TRUTH, episodes(1, 1, 20), rng) is None
