import io

import joblib
import numpy as np
import pandas as pd
import pytest
from cases import accuracy, chain

import romdp
from romdp.core.errors import InvalidInputError, MisuseError
from romdp.data.trajectory import Trajectory
from romdp.logs import HiddenStates

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
SEEN = romdp.simulate(WORLD, "uniform", 10_000, seed=0)
STEPS = {"actions": SEEN.actions, "rewards": SEEN.rewards}
NAMES = np.array([f"page {i:02d}" for i in range(12)])


def test_states_of_a_trajectory_and_of_names_are_the_same():
    first = HiddenStates().fit(SEEN)
    assert first.n_states_ == 3
    truth = romdp.Partition(WORLD.labels)
    assert romdp.Partition(first.predict(np.arange(12))) == truth
    np.testing.assert_array_equal(first.labels_, first.predict(SEEN))
    for shown in (SEEN.observations, NAMES[SEEN.observations].tolist()):
        again = HiddenStates().fit(shown, **STEPS)
        np.testing.assert_array_equal(again.labels_, first.labels_)
        np.testing.assert_array_equal(again.predict(shown[:9]), first.labels_[:9])
        np.testing.assert_array_equal(HiddenStates().fit_predict(shown, **STEPS), first.labels_)
    assert again.model_.observation_names[0] == "page 00"
    assert HiddenStates().fit(shown, actions=SEEN.actions).model_.reward_range is None


def test_names_may_lie_in_several_columns():
    two = np.stack([NAMES[SEEN.observations // 4], NAMES[SEEN.observations % 4]], axis=1)
    first = HiddenStates().fit(SEEN)
    for shown in (two, pd.DataFrame(two, columns=["a", "b"])):
        found = HiddenStates().fit(shown, **STEPS)
        np.testing.assert_array_equal(found.labels_, first.labels_)
        np.testing.assert_array_equal(found.predict(shown[:5]), first.labels_[:5])


def test_vectors_are_encoded_first():
    world = chain(3000, n_noise=2)
    states = HiddenStates().fit(world.vectors, actions=world.actions, rewards=world.rewards)
    assert accuracy(states.labels_, world.states) > 0.97
    assert states.n_features_in_ == 6
    chances = states.predict_proba(world.vectors)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_array_equal(chances.argmax(axis=1), states.labels_)
    held = chain(1000, n_noise=2, seed=1)
    assert states.score(held.vectors, actions=held.actions) > -1.5  # 4 states at random: worse
    with pytest.raises(InvalidInputError, match="expecting 6 features"):
        states.predict(world.vectors[:, :4])
    again = joblib.load(_dumped(states))
    np.testing.assert_array_equal(again.predict(world.vectors), states.labels_)


def _dumped(value):
    file = io.BytesIO()
    joblib.dump(value, file)
    file.seek(0)
    return file


def test_how_probable_states_are():
    states = HiddenStates().fit(SEEN)
    found = states.predict_proba([0, 1, 99])
    assert found.shape == (3, 3)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found[0].argmax() == states.predict([0])[0]
    model = states.model_
    np.testing.assert_allclose(found[:2].max(axis=1), model.certainty[:2])
    np.testing.assert_allclose(found[2], model.share)
    np.testing.assert_array_equal(model.predict_proba(0), found[0])
    one = HiddenStates(n_states=1).fit(SEEN)
    assert one.predict_proba([0]).tolist() == [[1.0]]


def test_nothing_is_checked_before_fit():
    estimator = HiddenStates(n_states=-1, unknown="whatever")
    with pytest.raises(InvalidInputError, match="unknown"):
        estimator.fit(SEEN)
    with pytest.raises(InvalidInputError, match="n_states"):
        estimator.set_params(unknown="mark").fit(SEEN)
    assert repr(HiddenStates(n_states=2, seed=5)) == "HiddenStates(n_states=2, seed=5)"


def test_not_fitted_and_unknown():
    for ask in (HiddenStates().predict, HiddenStates().score, HiddenStates().predict_proba):
        with pytest.raises(MisuseError, match="call fit first"):
            ask(SEEN)
    assert HiddenStates().fit(SEEN).predict([99]).tolist() == [-1]
    with pytest.raises(InvalidInputError, match=r"observations\[0\] is 99"):
        HiddenStates(unknown="error").fit(SEEN).predict([99])


def test_a_grid_search_finds_the_number_of_states():
    held = romdp.simulate(WORLD, "uniform", 10_000, seed=1)
    scores = {n: HiddenStates(n_states=n).fit(SEEN).score(held) for n in (2, 3)}
    assert scores[2] < scores[3]
    by_names = HiddenStates(n_states=3).fit(NAMES[SEEN.observations], **STEPS)
    shown = NAMES[held.observations]
    assert by_names.score(shown, actions=held.actions) == pytest.approx(scores[3], abs=1e-3)


def test_episodes_are_kept_apart():
    lengths = np.full(100, 100)
    by_lengths = HiddenStates().fit(SEEN.observations, **STEPS, lengths=lengths)
    assert by_lengths.model_.counts.n_transitions == 9_900
    seen = Trajectory(SEEN.observations, SEEN.actions, SEEN.rewards, lengths)
    assert HiddenStates().fit(seen).model_.counts == by_lengths.model_.counts
    with pytest.raises(InvalidInputError, match="lengths sums to 99"):
        HiddenStates().fit(SEEN.observations, lengths=[99])
    with pytest.raises(InvalidInputError, match="lengths of its own"):
        HiddenStates().fit(seen, lengths=lengths)


@pytest.mark.parametrize(
    ("shown", "steps", "words"),
    [
        ([[1, 2], [3]], {}, "inhomogeneous"),
        ([1.5, np.nan], {}, "NaN"),
        ([[1.0, np.inf]] * 30, {}, "infinity"),
        ([1, 2, 1], {"actions": [0, 1]}, r"actions has shape \(2,\); pass one for each of the 3"),
        ([1, 2, 1], {"rewards": [0, np.nan, 1]}, "row 2 .*'reward': nan"),
        ([SEEN, [1]], {}, r"X\[1\] is a list, X\[0\] a Trajectory"),
        ([1], {}, "1 sample"),
    ],
)
def test_what_cannot_be_used_is_named(shown, steps, words):
    with pytest.raises(InvalidInputError, match=words):
        HiddenStates().fit(shown, **steps)


def test_a_single_step_has_no_score():
    with pytest.raises(InvalidInputError, match="no two steps"):
        HiddenStates().fit(SEEN).score([1])


def test_what_an_episode_led_to_counts():
    """Two rooms in turn; only what follows the ends of episodes tells that room 2 leads to 0."""
    seen = Trajectory([0, 1, 2] * 50, [0] * 150, None, [3] * 50, [0] * 50)
    cut = Trajectory(seen.observations, seen.actions, None, seen.lengths)
    assert HiddenStates().fit(seen).model_.counts.n_transitions == 150
    assert HiddenStates().fit(cut).model_.counts.n_transitions == 100
    found = HiddenStates(n_states=3).fit(seen)
    assert found.score(seen) > -0.1
    np.testing.assert_allclose(found.score(seen), found.score(list(seen.episodes())))
