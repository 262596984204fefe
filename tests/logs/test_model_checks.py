from dataclasses import replace

import numpy as np
import pytest

from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.logs.model import LatentModel
from romdp.logs.model.checks import check_model
from romdp.logs.model.evaluation import HeldOut, PermutationTest, PolicyValue, Prediction

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
        counts=Counts(visits, transitions, sums, sums),
        visits=visits.sum(axis=1),
        starts=np.array([5, 0, 0]),
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
