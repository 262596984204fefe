import numpy as np
import pytest
from cases import accuracy, chain
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

import romdp
from romdp.clustering.states import _told_apart, find_states
from romdp.encoding import Encoder
from romdp.encoding.choosing import Candidate, Judge, _choose, learn_encoding
from romdp.encoding.codebook import Codebook
from romdp.encoding.directions import LinearMap
from romdp.encoding.encoder import make_steps
from romdp.encoding.scoring import score_with_age


def fitted(seen, **settings):
    return Encoder(**settings).fit(seen.vectors, actions=seen.actions, rewards=seen.rewards)


def test_codes_of_clean_vectors_are_the_states():
    seen = chain(3000)
    codes = fitted(seen).predict(seen.vectors)
    table = np.zeros((codes.max() + 1, 4))
    np.add.at(table, (codes, seen.states), 1)
    assert table.max(axis=1).sum() / len(codes) > 0.98


def test_the_view_is_chosen_by_what_it_predicts():
    seen = chain(6000, n_noise=12, rotate=True)
    encoding = fitted(seen).encoding_
    assert encoding.view in ("white", "actions", "apart")
    assert encoding.scores[encoding.view][0] == max(mean for mean, _ in encoding.scores.values())
    assert encoding.scores["plain"][0] < 0.5 * encoding.scores[encoding.view][0]


def test_codes_that_are_states_already_are_not_grouped_again():
    steps, asked = chain(500).steps, []

    def group(some, codes):
        asked.append(some)
        return np.arange(codes.max() + 1)

    first = learn_encoding(steps, np.random.default_rng(0), group=group)
    assert first.tells_states
    assert asked
    asked.clear()
    again = learn_encoding(steps, np.random.default_rng(1), previous=first, group=group)
    assert again.tells_states
    assert not asked
    decoder = find_states(steps, romdp.Likelihood(), np.random.default_rng(2), previous=again)
    assert decoder.states.tolist() == list(range(decoder.encoding.n_codes))


def test_codes_apart_are_given_up_only_if_they_are_several_states_each():
    seen = chain(4000, n_states=6)
    steps = make_steps(seen.vectors, seen.actions, seen.rewards)
    rng = np.random.default_rng(0)
    split = 30 * seen.states + rng.integers(30, size=4000)  # pure, and far too many
    nothing, book = LinearMap(np.zeros(6), np.eye(6)), Codebook(np.zeros((1, 6)), np.ones(1))

    def candidate(name, codes):
        codes = np.unique(codes, return_inverse=True)[1]
        return Candidate(name, nothing, book, codes, *score_with_age(codes, steps))

    merged = np.where(seen.states == 5, 2, seen.states)
    best, mixed = candidate("actions", seen.states), candidate("apart", merged)
    assert best.score.mean > mixed.score.mean > 0.3 * best.score.mean
    assert _choose([best, mixed], 0.3, Judge(steps, None, False)) is best
    fragments = candidate("apart", split)
    assert best.score.exceeds(fragments.score) > 2
    assert _choose([best, fragments], 0.1, Judge(steps, None, False)) is fragments


def test_it_has_the_manners_of_scikit_learn():
    encoder = Encoder(n_codes=5, seed=3)
    twin = clone(encoder)
    assert twin.get_params() == encoder.get_params()
    assert repr(encoder) == "Encoder(n_codes=5, seed=3)"
    assert encoder.set_params(n_codes=6).n_codes == 6
    seen = chain(500)
    shown = encoder.fit_transform(seen.vectors, actions=seen.actions)
    assert shown.shape == (500, len(encoder.get_feature_names_out()))
    assert encoder.n_features_in_ == 4
    with pytest.raises(ValueError, match="Invalid parameter 'codes'"):
        encoder.set_params(codes=3)
    with pytest.raises(romdp.ROMDPError, match="not fitted"):
        twin.predict(seen.vectors)


def test_names_of_columns_are_kept():
    pandas = pytest.importorskip("pandas")
    seen = chain(500)
    frame = pandas.DataFrame(seen.vectors, columns=["a", "b", "c", "d"])
    encoder = Encoder().fit(frame, actions=seen.actions)
    assert encoder.feature_names_in_.tolist() == ["a", "b", "c", "d"]


def test_pictures_and_features_of_the_user():
    seen = chain(600)
    pictures = np.clip(100 * seen.vectors + 50, 0, 255).astype(np.uint8).reshape(600, 2, 2)
    encoder = Encoder().fit(pictures, actions=seen.actions)
    assert encoder.predict(pictures).shape == (600,)
    scaler = StandardScaler().fit(seen.vectors)
    encoder = Encoder(features=scaler).fit(seen.vectors, actions=seen.actions)
    assert encoder.predict(seen.vectors).shape == (600,)
    doubled = Encoder(features=lambda rows: np.hstack([rows, rows**2]))
    doubled.fit(seen.vectors, actions=seen.actions)
    assert doubled.encoding_.n_features == 8


def test_features_may_be_sparse_and_their_errors_are_not_hidden():
    seen = chain(500)

    def sparse(rows):
        return csr_array(rows)

    encoder = Encoder(features=sparse).fit(seen.vectors, actions=seen.actions)
    plain = Encoder().fit(seen.vectors, actions=seen.actions)
    np.testing.assert_array_equal(encoder.predict(seen.vectors), plain.predict(seen.vectors))
    with pytest.raises(ZeroDivisionError):
        Encoder(features=lambda rows: 1 / 0).fit(seen.vectors)
    with pytest.raises(NotFittedError):
        Encoder(features=StandardScaler()).fit(seen.vectors)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (3, "features is 3; pass an object with transform, a function or a torch.nn.Module"),
        (StandardScaler, "features is <class .*; pass an object"),
        (lambda rows: rows[1:], "returns 499 rows for 500 vectors"),
        (lambda rows: rows[:, 0], "what features returns has shape"),
    ],
)
def test_features_that_cannot_serve_are_refused(features, message):
    with pytest.raises(romdp.ROMDPError, match=message):
        Encoder(features=features).fit(chain(500).vectors)


@pytest.mark.torch
def test_a_network_of_pytorch_serves_as_features():
    import torch

    torch.manual_seed(0)
    seen = chain(1500)
    seen.vectors.setflags(write=False)  # as those of a trajectory are
    network = torch.nn.Sequential(torch.nn.Linear(4, 24), torch.nn.ReLU(), torch.nn.Dropout(0.5))
    network[0].eval()
    encoder = Encoder(features=network)
    codes = fitted(seen, features=network).predict(seen.vectors)
    assert [part.training for part in network] == [False, True, True]  # as they were
    np.testing.assert_array_equal(fitted(seen, features=network).predict(seen.vectors), codes)
    log = romdp.Trajectory(seen.vectors, seen.actions, seen.rewards)
    assert accuracy(np.asarray(romdp.cluster(log, encoder=encoder).labels), seen.states) > 0.9
    assert fitted(seen, features=network.double()).encoding_.n_features == 24
    for answer in ((1, 2), torch.zeros(())):
        network.forward = lambda rows, answer=answer: answer
        with pytest.raises(romdp.ROMDPError, match="not a tensor with one row"):
            encoder.fit(seen.vectors)


def test_a_saved_encoder_answers_the_same(tmp_path):
    seen = chain(600)
    encoder = fitted(seen)
    encoder.save(tmp_path / "encoder.npz")
    again = Encoder.load(tmp_path / "encoder.npz")
    np.testing.assert_array_equal(again.predict(seen.vectors), encoder.predict(seen.vectors))
    assert again.encoding_.scores == encoder.encoding_.scores
    with pytest.raises(romdp.ROMDPError, match="leave out features"):
        Encoder.load(tmp_path / "encoder.npz", features=StandardScaler())


def test_the_same_seed_gives_the_same_codes():
    seen = chain(800, n_noise=3)
    np.testing.assert_array_equal(
        fitted(seen).predict(seen.vectors), fitted(seen).predict(seen.vectors)
    )


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (np.array([[0.0, np.nan], [1.0, 2.0]]), "column 1 holds nan in row 0"),
        (np.array([[0.0, 1.0], [np.inf, 2.0]]), "column 0 holds inf in row 1"),
        ([[1.0, 2.0], [3.0]], "row 1 has 1 numbers and row 0 has 2|different lengths"),
        (np.arange(5), "shape"),
        (np.empty((3, 0)), "nothing in it"),
        ([["a", "b"], ["c", "d"]], "made of numbers"),
    ],
)
def test_bad_vectors_are_refused_with_the_place(vectors, message):
    with pytest.raises(romdp.ROMDPError, match=message):
        Encoder().fit(vectors)


def test_bad_settings_are_refused():
    with pytest.raises(romdp.ROMDPError, match="did you mean 'white'"):
        Encoder(views=["whyte"]).fit(np.random.default_rng(0).random((50, 2)))
    encoder = Encoder().fit(np.random.default_rng(0).random((50, 2)))
    with pytest.raises(romdp.ROMDPError, match="X has 3 features, but Encoder is expecting 2"):
        encoder.predict(np.zeros((1, 3)))


def test_a_single_view_is_named_without_a_list():
    seen = chain(500)
    encoder = fitted(seen, views="plain")
    assert encoder.encoding_.view == "plain"
    assert encoder.get_params()["views"] == "plain"
    for views, message in [("whyte", "did you mean 'white'"), (3, "views is 3"), ([3], "'3'")]:
        with pytest.raises(romdp.ROMDPError, match=message):
            fitted(seen, views=views)


def test_a_single_step_is_refused():
    seen = chain(500)
    with pytest.raises(romdp.ROMDPError, match="two steps or more"):
        Encoder().fit(seen.vectors[:1], actions=seen.actions[:1])
    with pytest.raises(romdp.ROMDPError, match="two steps or more"):
        romdp.cluster(romdp.Trajectory(seen.vectors[:1], seen.actions[:1]))
    assert Encoder().fit(seen.vectors[:2], actions=seen.actions[:2], lengths=[1, 1]).encoding_


def test_numbers_of_any_size_are_told_apart_or_refused():
    seen = chain(500)
    codes = fitted(seen).predict(seen.vectors)
    for scale in (1e-149, 1e90):
        scaled = scale * seen.vectors
        encoder = Encoder().fit(scaled, actions=seen.actions, rewards=seen.rewards)
        np.testing.assert_array_equal(encoder.predict(scaled), codes)
        assert (encoder.predict(np.zeros((1, 4))) >= 0).all()
    with pytest.raises(romdp.ROMDPError, match="multiply the vectors"):
        Encoder().fit(1e-200 * seen.vectors, actions=seen.actions)
    full = np.array([[-128], [127]] * 20, np.int8)  # the widest that fits
    assert Encoder().fit(full).encoding_


def test_more_columns_than_rows_and_constant_columns():
    rng = np.random.default_rng(0)
    vectors = np.hstack([rng.random((40, 60)), np.ones((40, 2))])
    encoder = Encoder().fit(vectors, actions=rng.integers(2, size=40))
    assert encoder.encoding_.constant == (60, 61)
    assert np.isfinite(encoder.transform(vectors)).all()


def test_rows_are_grouped_by_their_hidden_state():
    seen = chain(6000, n_noise=8, rotate=True)
    partition = romdp.cluster(romdp.Trajectory(seen.vectors, seen.actions, seen.rewards))
    assert partition.n_observations == 6000
    assert accuracy(np.asarray(partition.labels), seen.states) > 0.95


def test_without_a_signal_nothing_is_grouped_and_a_warning_says_so():
    rng = np.random.default_rng(1)
    seen = romdp.Trajectory(rng.standard_normal((2000, 5)), rng.integers(3, size=2000))
    with pytest.warns(UserWarning, match="No signal"):
        assert romdp.cluster(seen).n_clusters == 1


def test_a_decoder_is_taught_what_is_new(monkeypatch):
    """A state that is met only in the last of many steps is a state as well."""
    monkeypatch.setattr("romdp.encoding.decoder.RECENT", 4000)
    early, late = chain(5000, n_states=3, spread=0.3), chain(2000, spread=0.3, seed=1)
    rng = np.random.default_rng(0)
    unmet = 0.3 * rng.standard_normal((5000, 1))
    vectors = np.vstack([np.hstack([early.vectors, unmet]), late.vectors])
    actions, rewards = (
        np.append(getattr(early, name), getattr(late, name)) for name in ("actions", "rewards")
    )
    steps = make_steps(vectors, actions, rewards, [5000, 2000])
    decoder = find_states(steps, romdp.Likelihood(), rng, romdp.Encoder(views=("standard",)))
    assert decoder.linear is not None
    assert accuracy(decoder.predict(late.vectors), late.states) > 0.9


def test_codes_that_overlap_are_told_apart_less_surely():
    rng = np.random.default_rng(0)
    states, labels = rng.integers(2, size=3000), np.array([0, 1])
    sure = []
    for noise in (0.1, 0.3, 0.5, 1.0):
        vectors = np.eye(2)[states] + noise * rng.standard_normal((3000, 2))
        encoder = romdp.Encoder(views=["plain"], n_codes=2)
        encoding = encoder.fit(vectors, actions=rng.integers(2, size=3000)).encoding_
        sure.append(_told_apart(encoding, labels, vectors).mean())
        assert _told_apart(encoding, np.zeros(2, int), vectors).tolist() == [1.0, 1.0]
    assert sure[0] > 0.999
    assert sure == sorted(sure, reverse=True)
    assert sure[-1] < 0.9
