"""`HiddenStates` among scikit-learn's tools."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator

import romdp
from romdp.core.errors import InvalidInputError, MisuseError
from romdp.data.trajectory import Trajectory
from romdp.logs import HiddenStates

pytestmark = pytest.mark.slow

_COLUMNS = "it feeds {} columns; here they are observation, action and perhaps reward"
DO_NOT_APPLY = {
    "check_n_features_in": "columns are roles, not features, so there is no n_features_in_",
    "check_n_features_in_after_fitting": _COLUMNS.format("4"),
    "check_positive_only_tag_during_fit": _COLUMNS.format("10"),
    "check_estimators_dtypes": _COLUMNS.format("5"),
    "check_dtype_object": _COLUMNS.format("10"),
    "check_fit2d_1sample": _COLUMNS.format("10"),
    "check_fit2d_1feature": _COLUMNS.format("1"),
    "check_estimators_empty_data_messages": _COLUMNS.format("0"),
    "check_fit2d_predict1d": "predict takes a plain list of observations, on purpose",
}
"""Estimator checks that make no sense for steps of trajectories, each with the reason."""

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
_WALK = romdp.simulate(WORLD, "uniform", 6_000, seed=0)
SEEN = Trajectory(_WALK.observations, _WALK.actions, _WALK.rewards, [50] * 120)
EPISODES = list(SEEN.episodes())


@pytest.mark.slow
def test_estimator_checks():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of checks that are skipped, and that no mixin is used
        results = check_estimator(
            HiddenStates(), expected_failed_checks=DO_NOT_APPLY, on_fail=None, on_skip=None
        )
    by_status = {}
    for result in results:
        by_status.setdefault(result["status"], set()).add(result["check_name"])
    assert "failed" not in by_status, by_status["failed"]
    assert by_status["xfail"] == set(DO_NOT_APPLY)  # a check that passes is not listed
    assert len(by_status["passed"]) >= 25
    assert {"check_estimators_unfitted", "check_estimators_nan_inf", "check_estimators_pickle",
            "check_fit_idempotent", "check_complex_data"} <= by_status["passed"]  # fmt: skip


def test_clone():
    estimator = HiddenStates(n_states=3, seed=5, method="overlap")
    twin = clone(estimator.fit(SEEN))
    assert twin.get_params() == estimator.get_params()
    assert not hasattr(twin, "model_")


def test_the_error_of_an_unfitted_one_is_of_both_kinds():
    with pytest.raises(NotFittedError, match="call fit first") as caught:
        HiddenStates().predict(SEEN)
    assert isinstance(caught.value, MisuseError)


def test_a_grid_search_over_episodes_finds_the_number_of_states():
    """Folds are made of whole episodes: the list that is searched holds one trajectory each."""
    folds = KFold(3, shuffle=True, random_state=0)
    search = GridSearchCV(HiddenStates(), {"n_states": [2, 3, 6]}, cv=folds).fit(EPISODES)
    assert search.best_params_ == {"n_states": 3}
    best = search.best_estimator_
    assert best.model_.n_rows == 6_000
    assert best.model_.counts.n_transitions == 6_000 - 120  # none across episodes
    assert romdp.Partition(best.predict(range(12))) == romdp.Partition(WORLD.labels)
    train, test = next(folds.split(EPISODES))
    by_hand = HiddenStates(n_states=3).fit([EPISODES[i] for i in train])
    assert by_hand.score([EPISODES[i] for i in test]) == pytest.approx(
        search.cv_results_["split0_test_score"][1]
    )


def test_cross_validation_and_pipelines():
    scores = cross_val_score(HiddenStates(n_states=3), EPISODES, cv=4)
    assert np.isfinite(scores).all()
    # Pages with a version number at the end: the first step of the pipeline cuts it off.
    rng = np.random.default_rng(0)
    rows = np.column_stack([10 * SEEN.observations + rng.integers(0, 10, 6_000), SEEN.actions])

    def cut(rows):
        return np.column_stack([rows[:, 0] // 10, rows[:, 1]])

    pipeline = make_pipeline(FunctionTransformer(cut), HiddenStates())
    labels = pipeline.fit(rows).predict(rows)
    assert romdp.Partition(labels) == romdp.Partition(WORLD.labels[SEEN.observations])
    assert pipeline.score(rows) == HiddenStates().fit(cut(rows)).score(cut(rows))


@pytest.mark.parametrize(("value", "words"), [(np.nan, "NaN"), (np.inf, "inf")])
def test_what_is_no_number_is_named_by_its_place(value, words):
    rows = np.column_stack([SEEN.observations, SEEN.actions, SEEN.rewards])
    rows[7, 2] = value
    with pytest.raises(InvalidInputError, match=rf"X\[7, 2\] is {words}"):
        HiddenStates().fit(rows)
