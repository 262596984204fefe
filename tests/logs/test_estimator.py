import copy

import numpy as np
import pytest

import romdp
from romdp.errors import InvalidInputError, MisuseError
from romdp.logs import HiddenStates
from romdp.trajectory import Trajectory

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
SEEN = romdp.simulate(WORLD, "uniform", 10_000, seed=0)
ROWS = np.column_stack([SEEN.observations, SEEN.actions, SEEN.rewards])


def clone(estimator):
    """Build an equal one as scikit-learn's clone does, with its test of the constructor."""
    params = {name: copy.deepcopy(value) for name, value in estimator.get_params().items()}
    twin = type(estimator)(**params)
    for name, value in twin.get_params().items():
        assert value is params[name]
    return twin


def test_states_of_a_trajectory_and_of_rows_are_the_same():
    first = HiddenStates().fit(SEEN)
    assert first.n_states_ == 3
    truth = romdp.Partition(WORLD.labels)
    assert romdp.Partition(first.predict(np.arange(12))) == truth
    np.testing.assert_array_equal(first.labels_, first.predict(SEEN))
    again = HiddenStates().fit(ROWS)
    np.testing.assert_array_equal(again.labels_, first.labels_)
    np.testing.assert_array_equal(again.predict(ROWS[:9]), first.labels_[:9])
    np.testing.assert_array_equal(HiddenStates().fit_predict(ROWS), first.labels_)
    without = HiddenStates().fit(ROWS[:, :2])
    assert without.model_.reward_range is None


def test_parameters():
    estimator = HiddenStates(n_states=2, seed=5)
    assert estimator.get_params() == {
        "n_states": 2, "method": "likelihood", "unknown": "mark", "seed": 5,
    }  # fmt: skip
    assert repr(estimator) == "HiddenStates(n_states=2, seed=5)"
    assert repr(HiddenStates()) == "HiddenStates()"
    assert estimator.set_params(n_states=3) is estimator
    assert estimator.n_states == 3
    with pytest.raises(InvalidInputError, match="no parameter 'states'"):
        estimator.set_params(states=3)
    twin = clone(estimator.fit(SEEN))
    assert not hasattr(twin, "model_")
    assert twin.get_params() == estimator.get_params()


def test_nothing_is_checked_before_fit():
    estimator = HiddenStates(n_states=-1, unknown="whatever")
    with pytest.raises(InvalidInputError, match="unknown"):
        estimator.fit(SEEN)
    with pytest.raises(InvalidInputError, match="n_states"):
        estimator.set_params(unknown="mark").fit(SEEN)


def test_not_fitted_and_unknown():
    for ask in (HiddenStates().predict, HiddenStates().score):
        with pytest.raises(MisuseError, match="call fit first"):
            ask(SEEN)
    assert HiddenStates().fit(SEEN).predict([99]).tolist() == [-1]
    with pytest.raises(InvalidInputError, match=r"observations\[0\] is 99"):
        HiddenStates(unknown="error").fit(SEEN).predict([99])


def test_a_grid_search_finds_the_number_of_states():
    held = romdp.simulate(WORLD, "uniform", 10_000, seed=1)
    scores = {n: HiddenStates(n_states=n).fit(SEEN).score(held) for n in (2, 3)}
    assert scores[2] < scores[3]


def test_episodes_are_kept_apart():
    lengths = np.full(100, 100)
    by_lengths = HiddenStates().fit(ROWS, lengths=lengths)
    assert by_lengths.model_.counts.n_transitions == 9_900
    seen = Trajectory(SEEN.observations, SEEN.actions, SEEN.rewards, lengths)
    assert HiddenStates().fit(seen).model_.counts == by_lengths.model_.counts
    with pytest.raises(InvalidInputError, match="lengths sums to 99"):
        HiddenStates().fit(ROWS, lengths=[99])


@pytest.mark.parametrize("bad", [np.zeros(5), np.zeros((5, 4)), [[1, 2], [3]]])
def test_other_shapes_are_refused(bad):
    with pytest.raises(InvalidInputError, match="X "):
        HiddenStates().fit(bad)
    with pytest.raises(InvalidInputError, match="no two steps"):
        HiddenStates().fit(SEEN).score(ROWS[:1])
