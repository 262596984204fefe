"""`HiddenStates` among scikit-learn's tools."""

import warnings

import numpy as np
import pandas as pd
import pytest
from cases import accuracy, chain
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import romdp
from romdp.core.errors import MisuseError
from romdp.data.trajectory import Trajectory
from romdp.logs import HiddenStates

pytestmark = pytest.mark.slow

DO_NOT_APPLY = {
    "check_fit1d": "one row of an array is the name of an observation, on purpose",
    "check_clustering": "its blobs are in no order, so there is nothing to find in time",
}
"""Estimator checks that make no sense for steps in time, each with the reason."""

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
    assert len(by_status["passed"]) >= 40
    assert {"check_estimators_unfitted", "check_estimators_nan_inf", "check_estimators_pickle",
            "check_fit_idempotent", "check_complex_data", "check_n_features_in",
            "check_estimators_dtypes"} <= by_status["passed"]  # fmt: skip


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
    pages = 10 * SEEN.observations + rng.integers(0, 10, 6_000)

    def cut(pages):
        return pages // 10

    pipeline = make_pipeline(FunctionTransformer(cut), HiddenStates())
    labels = pipeline.fit(pages, hiddenstates__actions=SEEN.actions).predict(pages)
    assert romdp.Partition(labels) == romdp.Partition(WORLD.labels[SEEN.observations])


def test_a_pipeline_from_raw_columns_to_states():
    world = chain(2000, n_noise=1)
    frame = pd.DataFrame(world.vectors * 100, columns=[f"sensor {i}" for i in range(5)])
    pipeline = make_pipeline(StandardScaler(), HiddenStates())
    labels = pipeline.fit(frame, hiddenstates__actions=world.actions).predict(frame)
    assert accuracy(labels, world.states) > 0.9
    assert pipeline.predict_proba(frame).shape == (2000, pipeline[-1].n_states_)
