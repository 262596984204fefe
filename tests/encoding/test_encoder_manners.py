"""An encoder among the transformers of scikit-learn: names of columns, frames, files."""

import numpy as np
import pytest
import scipy.sparse
from cases import chain
from sklearn import config_context
from sklearn.base import clone
from sklearn.kernel_approximation import RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import romdp
from romdp.core.errors import StorageError
from romdp.core.storage import read_arrays, write_arrays
from romdp.encoding import Encoder
from romdp.encoding.views import VIEWS

SEEN = chain(500)
NAMES = ["a", "b", "c", "d"]


DO_NOT_APPLY = {
    "check_complex_data": "one message refuses all entries that are no real numbers",
    "check_dtype_object": "bad data is a ValueError of romdp's own, not a TypeError",
    "check_estimators_empty_data_messages": "no rows and no columns are refused in one message",
}
"""Estimator checks that fail, each with the reason: they ask for scikit-learn's own words."""


def fitted(vectors=SEEN.vectors, **settings):
    return Encoder(**{"views": "standard"} | settings).fit(vectors, actions=SEEN.actions)


def saved(encoder, tmp_path, **settings):
    encoder.save(tmp_path / "encoder.npz")
    return Encoder.load(tmp_path / "encoder.npz", **settings)


@pytest.fixture
def frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(SEEN.vectors, columns=NAMES, index=np.arange(500) + 7)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of checks that are skipped
def test_estimator_checks():
    results = check_estimator(
        Encoder(), expected_failed_checks=DO_NOT_APPLY, on_fail=None, on_skip=None
    )
    failed = {found["check_name"] for found in results if found["status"] == "failed"}
    allowed = {found["check_name"] for found in results if found["status"] == "xfail"}
    assert not failed
    assert allowed == set(DO_NOT_APPLY)  # a check that passes is not listed
    assert sum(found["status"] == "passed" for found in results) >= 40


def test_sparse_vectors_are_refused():
    with pytest.raises(romdp.ROMDPError, match=r"sparse, which is not supported; pass its toarray"):
        fitted(scipy.sparse.csr_array(SEEN.vectors))


def test_frames_must_have_the_columns_of_fit(frame, tmp_path):
    encoder = fitted(frame)
    codes = encoder.predict(frame)
    np.testing.assert_array_equal(encoder.predict(SEEN.vectors), codes)  # no names, nothing to ask
    for asked in (encoder, saved(encoder, tmp_path)):
        np.testing.assert_array_equal(asked.predict(frame), codes)
        with pytest.raises(romdp.ROMDPError, match="in another order"):
            asked.predict(frame[["b", "a", "c", "d"]])
        with pytest.raises(romdp.ROMDPError, match=r"fit did not see 'z'; there is no 'd'$"):
            asked.transform(frame.rename(columns={"d": "z"}))
        with pytest.raises(romdp.ROMDPError, match="of fit: there is no 'a', 'b'"):
            asked.transform(frame[["c", "d"]])


def test_only_names_that_are_texts_are_kept_and_a_later_fit_forgets_them(frame):
    encoder = fitted(frame)
    assert encoder.feature_names_in_.tolist() == NAMES
    encoder.fit(SEEN.vectors, actions=SEEN.actions)
    assert not hasattr(encoder, "feature_names_in_")
    assert not hasattr(fitted(frame.set_axis(range(4), axis=1)), "feature_names_in_")
    lists = frame[[]].assign(picture=list(SEEN.vectors))
    encoder = fitted(lists)
    assert encoder.n_features_in_ == 4
    assert not hasattr(encoder, "feature_names_in_")


def test_columns_of_arrow_tables_have_names():
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(dict(zip(NAMES, SEEN.vectors.T, strict=True)))
    assert fitted(table).feature_names_in_.tolist() == NAMES
    broken = table.set_column(1, "b", [np.full(500, np.nan)])
    with pytest.raises(romdp.ROMDPError, match="column 'b' holds nan in row 0"):
        fitted(broken)


def test_transform_returns_a_frame_to_whoever_asks_for_one(frame):
    encoder = fitted(frame)
    plain = encoder.transform(frame)
    assert isinstance(plain, np.ndarray)
    assert encoder.set_output(transform="pandas") is encoder
    shown = encoder.set_output().transform(frame)  # None changes nothing
    assert shown.columns.tolist() == encoder.get_feature_names_out().tolist()
    assert shown.index.tolist() == frame.index.tolist()
    np.testing.assert_array_equal(shown.to_numpy(), plain)
    assert encoder.transform(SEEN.vectors).index.tolist() == list(range(500))
    again = clone(encoder).fit_transform(frame, actions=SEEN.actions)
    assert again.index.tolist() == frame.index.tolist()
    with config_context(transform_output="pandas"):
        assert hasattr(fitted(frame).transform(frame), "columns")
        assert isinstance(encoder.set_output(transform="default").transform(frame), np.ndarray)


def test_a_pipeline_sets_the_output_of_all_its_steps(frame):
    steps = make_pipeline(StandardScaler(), Encoder("standard")).set_output(transform="pandas")
    shown = steps.fit_transform(frame, encoder__actions=SEEN.actions)
    assert shown.columns.tolist() == steps[-1].get_feature_names_out().tolist()


def test_polars_frames_are_made_too():
    polars = pytest.importorskip("polars")
    encoder = fitted().set_output(transform="polars")
    shown = encoder.transform(SEEN.vectors)
    assert isinstance(shown, polars.DataFrame)
    assert shown.columns == encoder.get_feature_names_out().tolist()


@pytest.mark.parametrize(
    "settings",
    [
        {"views": VIEWS},
        {"views": ["plain", "apart"], "n_codes": np.int64(6), "seed": [3, 4]},
        {"views": "white", "seed": np.random.SeedSequence(np.array([5, 6])).spawn(2)[1]},
    ],
    ids=str,
)
def test_parameters_are_saved_with_what_was_learned(settings, tmp_path):
    encoder = fitted(**settings)
    again = saved(encoder, tmp_path)
    assert again.n_codes == encoder.n_codes
    assert again.n_features_in_ == 4
    assert isinstance(again.views, str) == isinstance(encoder.views, str)
    twin = clone(again).fit(SEEN.vectors, actions=SEEN.actions)  # with the same seed
    np.testing.assert_array_equal(twin.transform(SEEN.vectors), encoder.transform(SEEN.vectors))
    if settings == {"views": VIEWS}:
        assert repr(again) == "Encoder()"


def test_the_length_of_vectors_is_that_before_features(tmp_path):
    fourier = RBFSampler(n_components=40, random_state=0).fit(SEEN.vectors)
    encoder = fitted(features=fourier)
    for asked in (encoder, saved(encoder, tmp_path, features=fourier)):
        assert asked.n_features_in_ == 4
        assert asked.features is fourier
        with pytest.raises(romdp.ROMDPError, match="X has 3 features, but Encoder is expecting 4"):
            asked.predict(SEEN.vectors[:, :3])


@pytest.mark.parametrize(
    "change",
    [
        {"views": 3},
        {"views": ["whyte"]},
        {"views": [{}]},
        {"n_codes": "many"},
        {"seed": 5},
        {"seed": [-1, []]},
        {"seed": [1, [-1]]},
        {"seed": [1, ["x"]]},
        {"n_features_in": 5},
        {"feature_names_in": ["a"]},
        {"feature_names_in": [1, 2, 3, 4]},
    ],
    ids=str,
)
def test_crafted_parameters_are_refused(change, tmp_path):
    path = tmp_path / "encoder.npz"
    fitted().save(path)
    arrays, facts = read_arrays(path, "encoder", 2)
    write_arrays(path, "encoder", 2, arrays, facts | change)
    with pytest.raises(StorageError, match="is damaged"):
        Encoder.load(path)
