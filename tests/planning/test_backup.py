"""One backup by itself: bonuses, robust and plain, and where arrivals come from."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from planning_twins import rank as plain_rank

from romdp.core.errors import InvalidInputError
from romdp.exact.mdp import MDP
from romdp.planning import by_arrival, extended_value_iteration
from romdp.planning.backup import rank
from romdp.planning.dense import DenseArrivals
from romdp.planning.iteration import sizes
from romdp.planning.robust import robust_value_iteration
from romdp.planning.sparse import SparseArrivals

values_lists = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), min_size=1, max_size=40)


@given(values_lists, st.randoms(use_true_random=False))
def test_rank_sorts_by_value_then_index_from_any_order(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    found = np.array(order)
    rank(np.array(values), found)
    assert found.tolist() == plain_rank(values)


def test_rank_is_the_same_by_insertion_and_by_merging():
    values = np.random.default_rng(0).integers(0, 50, 2000).astype(float)
    shuffled = np.arange(2000)  # far from sorted: insertion runs out of its budget
    rank(values, shuffled)
    nearly = np.array(plain_rank(values))
    nearly[[10, 11]] = nearly[[11, 10]]
    rank(values, nearly)
    assert shuffled.tolist() == nearly.tolist() == plain_rank(values)


def random_model(seed, n_states=5, n_actions=3, width=0.3):
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.ones(n_states), (n_states, n_actions))
    return laws, rng.random((n_states, n_actions)), width * rng.random((n_states, n_actions))


@pytest.mark.parametrize("seed", range(5))
def test_the_worst_model_of_a_policy_is_the_best_one_of_its_losses(seed):
    """Extended value iteration on negated rewards, where a state has one action."""
    laws, rewards, widths = random_model(seed)
    policy = np.random.default_rng(seed).integers(0, 3, 5)
    states = np.arange(5)
    chosen = (laws[states, policy][:, None], -rewards[states, policy][:, None])
    plan = extended_value_iteration(*chosen, widths[states, policy][:, None], 1e-8)
    worst = robust_value_iteration(laws, rewards, widths, policy, precision=1e-8)
    assert worst.gain == pytest.approx(-plan.gain, abs=1e-6)
    np.testing.assert_array_equal(worst.policy, policy)


def test_without_widths_it_solves_the_mdp():
    laws, rewards, widths = random_model(7)
    mdp = MDP(laws, rewards)
    worst = robust_value_iteration(laws, rewards, 0 * widths, precision=1e-9)
    assert worst.gain == pytest.approx(mdp.gain, abs=1e-7)
    np.testing.assert_array_equal(worst.policy, mdp.optimal_policy)


def test_no_policy_has_a_better_worst_model():
    laws, rewards, widths = random_model(3, n_states=3, n_actions=2, width=0.8)
    best = robust_value_iteration(laws, rewards, widths, precision=1e-8)
    gains = [
        robust_value_iteration(laws, rewards, widths, np.array(p), precision=1e-8).gain
        for p in np.ndindex(2, 2, 2)
    ]
    assert best.gain == pytest.approx(max(gains), abs=1e-6)
    at = robust_value_iteration(laws, rewards, widths, best.policy, precision=1e-8)
    assert at.gain == pytest.approx(best.gain, abs=1e-6)


def test_the_worst_is_below_every_model_inside():
    laws, rewards, widths = random_model(4)
    worst = robust_value_iteration(laws, rewards, widths)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = rng.dirichlet(np.ones(5), (5, 3))
        share = np.minimum(1.0, widths / np.abs(other - laws).sum(axis=2))[:, :, None]
        inside = MDP(laws + share * (other - laws), rewards)
        assert inside.policy_gain(worst.policy) >= worst.gain - 1e-4


def test_a_circle_settles_and_a_vacuous_width_leaves_the_worst_reward():
    circle = np.roll(np.eye(4), 1, axis=1)[:, None]
    rewards = np.array([[0.0], [1.0], [0.0], [0.0]])
    assert robust_value_iteration(circle, rewards, np.zeros((4, 1))).gain == pytest.approx(
        0.25, abs=1e-4
    )
    anything = robust_value_iteration(circle, rewards + 0.1, np.full((4, 1), 2.0))
    assert anything.gain == pytest.approx(0.1, abs=1e-4)


def test_a_cut_iteration_still_gives_a_lower_bound():
    laws, rewards, widths = random_model(5)
    exact = robust_value_iteration(laws, rewards, widths, precision=1e-9).gain
    cut = robust_value_iteration(laws, rewards, widths, precision=1e-9, most_sweeps=2)
    assert cut.sweeps == 2
    assert cut.gain <= exact + 1e-9


def test_totals_are_the_sums_of_the_rows_that_are_known():
    counts = np.random.default_rng(0).integers(0, 9, (5, 3, 5))
    known = np.random.default_rng(1).random((5, 3)) < 0.5
    for weights, kind in (
        (counts, DenseArrivals),
        (counts.astype(float), DenseArrivals),
        (scipy.sparse.csr_array(counts.reshape(15, 5)), SparseArrivals),
        (scipy.sparse.coo_array(counts.reshape(15, 5)), SparseArrivals),
    ):
        assert isinstance(by_arrival(weights), kind)
        assert np.array_equal(by_arrival(weights).totals, counts.sum(axis=-1))
        assert np.array_equal(by_arrival(weights, known).totals, counts.sum(axis=-1) * known)


def test_sizes():
    assert sizes(np.zeros((3, 2, 3))) == (3, 2)
    assert sizes(scipy.sparse.csr_array((6, 3))) == (3, 2)
    assert sizes(by_arrival(np.ones((3, 2, 3)))) == (3, 2)


@pytest.mark.parametrize(
    "transitions",
    [
        np.zeros((3, 2)),
        np.zeros((3, 2, 4)),
        np.zeros((0, 2, 0)),
        np.zeros((3, 0, 3)),
        scipy.sparse.csr_array((7, 3)),
        scipy.sparse.csr_array((0, 3)),
    ],
)
def test_bad_shapes_are_refused(transitions):
    with pytest.raises(InvalidInputError, match=r"has shape .*must be \(S, A, S\)"):
        by_arrival(transitions)


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_bad_weights_are_named(value, is_sparse):
    weights = np.ones((3, 2, 3))
    weights[2, 1, 0] = value
    given = scipy.sparse.csr_array(weights.reshape(6, 3)) if is_sparse else weights
    with pytest.raises(InvalidInputError, match=rf"transitions\[2, 1\] holds {value}"):
        by_arrival(given)


def test_negative_counts_do_not_cancel():
    with pytest.raises(InvalidInputError, match="holds -4"):
        by_arrival(np.array([[[5, -4]], [[1, 1]]]))


def test_entries_given_twice_add_up():
    twice = scipy.sparse.csr_array(
        (np.array([1.0, 2.0, 1.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2)
    )
    assert by_arrival(twice).totals.tolist() == [[3.0], [1.0]]


@pytest.mark.parametrize("known", [np.ones((2, 3), bool), np.ones((3, 2))])
def test_a_bad_mask_is_refused(known):
    with pytest.raises(InvalidInputError, match=r"must be bool of shape \(3, 2\)"):
        by_arrival(np.ones((3, 2, 3)), known)
