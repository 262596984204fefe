import numpy as np
import pytest
from scipy.stats import kstest

from romdp.clustering.homogeneity import Homogeneity
from romdp.data.counts import Counts

LAWS = np.array(
    [
        [0.4, 0.3, 0.1, 0.1, 0.05, 0.05],
        [0.05, 0.05, 0.1, 0.2, 0.3, 0.3],
        [0.1, 0.1, 0.4, 0.3, 0.05, 0.05],
    ]
)


def _counts(visits, labels, rng, laws=LAWS, rewards=(0.2, 0.2, 0.2)):
    """Counts of six symbols that lead on as the hidden states that they belong to do."""
    moves = np.array([rng.multinomial(n, laws[x]) for n, x in zip(visits, labels, strict=True)])
    paid = [rng.binomial(n, rewards[x]) for n, x in zip(visits, labels, strict=True)]
    sums = np.array(paid, float)[:, None]
    return Counts(np.array(visits)[:, None], moves[:, None], sums, sums)


def _test(counts, level=1e-4, doubt=0.05, resolution=0.5):
    return Homogeneity(counts, resolution, level, doubt)


LABELS = [0, 0, 1, 1, 2, 2]


def test_symbols_of_one_state_pass_and_others_do_not():
    rng = np.random.default_rng(0)
    test = _test(_counts([3000] * 6, LABELS, rng))
    others = np.array([1, 2, 3, 4, 5])
    assert test.alike(0, others, 0).tolist() == [True, False, False, False, False]
    assert test.any_alike(0, np.array([0, 2, 3]))
    assert not test.any_alike(0, np.array([0, 2, 4]))


def test_what_was_hardly_seen_is_never_known_to_be_alike():
    rng = np.random.default_rng(0)
    for seen in (0, 1, 2, 5, 20):
        test = _test(_counts([3000, seen, 3000, 3000, 3000, 3000], LABELS, rng))
        assert not test.alike(0, np.array([1]), 0).any()
        assert not test.alike(0, np.array([0]), 1).any()


@pytest.mark.parametrize("visits", [30, 100, 300, 1000, 3000])
def test_different_states_are_never_called_alike(visits):
    # 100 trials at level 1e-4 at the distance that counts as none; these are twice as far, so
    # the chance of even one false alarm is below 1e-6.
    rng = np.random.default_rng(visits)
    laws = LAWS.copy()
    laws[2] = 0.4 * LAWS[0] + 0.6 * LAWS[2]
    for _ in range(100):
        test = _test(_counts([visits] * 6, LABELS, rng, laws))
        assert not test.alike(0, np.array([2, 3, 4, 5]), 0).any()


def test_chances_are_uniform_for_equal_laws():
    rng = np.random.default_rng(1)
    chances = [
        _test(_counts([400, 150, 5, 5, 5, 5], LABELS, rng))
        ._next(0)
        .compare(np.array([1]), np.array([0]))
        .p_values()[0, 0]
        for _ in range(400)
    ]
    # A right law gives a Kolmogorov distance above 0.12 once in 50,000 times (n = 400).
    assert kstest(chances, "uniform").statistic < 0.12


def test_true_groups_are_rarely_contradicted():
    rng = np.random.default_rng(2)
    wrong = 0
    for _ in range(200):
        test = _test(_counts([500, 200, 300, 300, 300, 300], LABELS, rng))
        wrong += bool(test.contradicted(np.array([1]), 0).any())
    # At most 5 % by construction (Bonferroni): more than 24 of 200 once in 10,000 times.
    assert wrong <= 24


def test_rewards_alone_contradict():
    rng = np.random.default_rng(3)
    laws = np.array([LAWS[0], LAWS[1], LAWS[0]])
    counts = _counts([2000] * 6, LABELS, rng, laws, rewards=(0.2, 0.2, 0.4))
    test = _test(counts)
    assert test.alike(0, np.array([4]), 0).all()
    assert test.contradicted(np.array([1, 4]), 0).tolist() == [False, True]


def test_what_came_before_alone_contradicts():
    # Symbols 0 and 1 lead to the same, but are entered from different symbols.
    moves = np.zeros((4, 1, 4), int)
    moves[:, 0] = [[0, 0, 500, 500], [0, 0, 500, 500], [900, 100, 0, 0], [100, 900, 0, 0]]
    zeros = np.zeros((4, 1))
    test = _test(Counts(moves.sum(axis=2), moves, zeros, zeros))
    assert test.contradicted(np.array([1]), 0).all()
    moves[2:, 0, :2] = 500
    test = _test(Counts(moves.sum(axis=2), moves, zeros, zeros))
    assert not test.contradicted(np.array([1]), 0).any()


def test_certain_laws_can_be_compared():
    moves = np.zeros((4, 1, 4), int)
    moves[[0, 1, 2, 3], 0, [2, 2, 3, 0]] = 1000
    ones = np.full((4, 1), 1000.0)
    test = _test(Counts(moves.sum(axis=2), moves, ones, ones))
    assert test.alike(0, np.array([1, 2]), 0).tolist() == [True, False]
    assert test.contradicted(np.array([1, 2]), 0).tolist() == [False, True]


def test_typical_difference_is_the_mean_over_pairs():
    rng = np.random.default_rng(5)
    test = _test(_counts([200_000] * 6, LABELS, rng), resolution=1.0)
    laws = LAWS[LABELS]
    pairs = [((laws[i] - laws[j]) ** 2).sum() for i in range(6) for j in range(i)]
    # Each law is known to 0.001 in length.
    assert test.tolerance(0) == pytest.approx(np.mean(pairs), abs=0.005)


def test_where_all_are_alike_the_difference_has_a_floor():
    rng = np.random.default_rng(6)
    test = _test(_counts([10**6] * 6, [0] * 6, rng))
    assert test.tolerance(0) > 0
    assert test.alike(0, np.arange(1, 6), 0).all()


def test_the_anchor_is_the_symbol_seen_most():
    rng = np.random.default_rng(7)
    test = _test(_counts([10, 50, 30, 20, 20, 20], LABELS, rng))
    assert test.anchor(0, np.array([0, 2, 3])) == 2


def test_sparse_counts_give_the_same_answers(monkeypatch):
    counts = _counts([800] * 6, LABELS, np.random.default_rng(8))
    dense, sparse = _test(counts), _test(counts.sparse())
    others = np.arange(1, 6)
    dense.contradicted(others, 0)  # reads all laws
    monkeypatch.setattr("romdp.clustering.homogeneity._DENSE", 0)
    assert dense.tolerance(0) == pytest.approx(sparse.tolerance(0))
    np.testing.assert_array_equal(dense.alike(0, others, 0), sparse.alike(0, others, 0))
    np.testing.assert_array_equal(dense.contradicted(others, 0), sparse.contradicted(others, 0))


def test_certain_laws_that_differ_contradict_once_seen_often():
    for visits, expected in ((2, False), (50, True)):
        moves = np.zeros((4, 1, 4), int)
        moves[[0, 1, 2, 3], 0, [2, 3, 0, 1]] = visits
        zeros = np.zeros((4, 1))
        laws = _test(Counts(moves.sum(axis=2), moves, zeros, zeros))._next(0)
        chance = laws.compare(np.array([1]), np.array([0])).p_values()[0, 0]
        assert (chance < 1e-3) == expected
