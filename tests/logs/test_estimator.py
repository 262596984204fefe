import copy
import subprocess
import sys

import numpy as np
import pytest

import romdp
from romdp.core.errors import InvalidInputError, MisuseError
from romdp.data.trajectory import Trajectory
from romdp.logs import HiddenStates

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
    with pytest.raises(InvalidInputError, match="reward, which must be a number"):
        HiddenStates().fit([["a", "x", "1"], ["b", "y", "much"]])
    with pytest.raises(InvalidInputError, match=r"X\[1\] is a list, X\[0\] a Trajectory"):
        HiddenStates().fit([SEEN, [1]])


def test_rows_of_names():
    names = np.array([f"page {i}" for i in range(12)])
    rows = np.column_stack([names[SEEN.observations], SEEN.actions.astype(str), SEEN.rewards])
    found = HiddenStates().fit(rows)
    np.testing.assert_array_equal(found.labels_, HiddenStates().fit(SEEN).labels_)
    assert found.model_.observation_names[0] == "page 0"
    assert found.score(rows) == pytest.approx(HiddenStates().fit(ROWS).score(ROWS), abs=1e-9)


def test_what_a_terminated_episode_led_to_counts():
    """Two rooms in turn; only what follows the ends of episodes tells that room 2 leads to 0."""
    seen = Trajectory([0, 1, 2] * 50, [0] * 150, None, [3] * 50, [0] * 50)
    cut = Trajectory(seen.observations, seen.actions, None, seen.lengths)
    assert HiddenStates().fit(seen).model_.counts.n_transitions == 150
    assert HiddenStates().fit(cut).model_.counts.n_transitions == 100
    found = HiddenStates(n_states=3).fit(seen)
    assert found.score(seen) > -0.1
    np.testing.assert_allclose(found.score(seen), found.score(list(seen.episodes())))


def test_scikit_learn_is_not_needed():
    code = """
import sys
sys.modules["sklearn"] = None
import romdp
seen = romdp.simulate(romdp.worlds.random_romdp(2, 2, 6, seed=0), "uniform", 2000, seed=0)
states = romdp.HiddenStates(n_states=2)
try:
    states.predict(seen)
except romdp.core.errors.MisuseError as error:
    print(error)
states.fit(list(seen.episodes())).score(seen)
print(states, states.get_params()["n_states"], [m for m in sys.modules if "sklearn" in m])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "this HiddenStates is not fitted yet; call fit first",
        "HiddenStates(n_states=2) 2 ['sklearn']",
    ]
