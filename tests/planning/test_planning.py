import numpy as np
import planning_twins as twins
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from romdp.core.errors import InvalidInputError
from romdp.planning import (
    by_arrival,
    extended_value_iteration,
    interval_value_iteration,
    value_iteration,
)
from romdp.planning.backup import new_iteration


def as_sparse(transitions):
    return scipy.sparse.csr_array(transitions.reshape(-1, transitions.shape[-1]))


STORAGES = {"dense": lambda weights: weights, "sparse": as_sparse}


@pytest.fixture(params=STORAGES)
def store(request):
    return STORAGES[request.param]


def random_counts(rng, n_states, n_actions, samples=20):
    """Counts of random laws; some pairs were never tried."""
    laws = rng.dirichlet(np.full(n_states, 0.5), size=(n_states, n_actions))
    return rng.multinomial(rng.integers(0, samples, (n_states, n_actions)), laws)


def expected_values(solve, weights, values):
    """What each pair expects of the next state under the optimist's law."""
    model = by_arrival(weights)
    task = new_iteration(np.zeros(model.shape), values - values.min(), 1e-300, 1)
    solve(model, task)
    return task.expected.reshape(model.shape) + values.min()


# The inner maximisation.


@pytest.mark.parametrize("seed", range(20))
def test_a_ball_is_searched_as_by_linear_programming(seed, store):
    rng = np.random.default_rng(seed)
    n_states = int(rng.integers(1, 9))
    weights = random_counts(rng, n_states, 2, 30)
    widths = rng.choice([0.0, 0.1, 0.5, 1.0, 1.9, 2.0, 3.0], size=(n_states, 2))
    values = rng.choice([rng.random(n_states), rng.integers(0, 3, n_states)]).astype(float)
    found = expected_values(
        lambda model, task: model.solve_balls(task, widths), store(weights), values
    )
    for pair in np.ndindex(n_states, 2):
        row = weights[pair]
        if row.sum() == 0:
            assert found[pair] == pytest.approx(values.max(), abs=1e-12)
        else:
            best = twins.ball_program(row / row.sum(), widths[pair], values)
            assert found[pair] == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_intervals_are_searched_as_by_linear_programming(seed, store):
    rng = np.random.default_rng(seed)
    n_states = int(rng.integers(1, 9))
    weights = random_counts(rng, n_states, 2, 30)
    slopes = rng.choice([0.0, 0.2, 1.0], size=(n_states, 2))
    offsets = rng.choice([0.0, 0.01, 0.1, 0.4, 1.0, 2.0], size=(n_states, 2))
    values = rng.choice([rng.random(n_states), rng.integers(0, 3, n_states)]).astype(float)
    found = expected_values(
        lambda model, task: model.solve_intervals(task, slopes, offsets), store(weights), values
    )
    for pair in np.ndindex(n_states, 2):
        row = weights[pair]
        if row.sum() == 0:
            assert found[pair] == pytest.approx(values.max(), abs=1e-12)
        else:
            lower, upper = twins.interval(row / row.sum(), slopes[pair], offsets[pair])
            best = twins.interval_program(lower, upper, values)
            assert found[pair] == pytest.approx(best, abs=1e-9)


# The whole iteration.


def assert_equals_twin(plan, twin):
    policy, low, high, values, sweeps = twin
    assert plan.sweeps == sweeps
    assert plan.policy.tolist() == policy.tolist()
    np.testing.assert_allclose(plan.values, values, atol=1e-9)
    assert plan.gain == pytest.approx((low + high) / 2, abs=1e-9)
    assert plan.gap == pytest.approx(high - low, abs=1e-9)
    assert plan.span == pytest.approx(np.ptp(values), abs=1e-9)


@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 2**32), st.booleans())
@settings(max_examples=60)
def test_balls_agree_with_the_plain_twin(n_states, n_actions, seed, warm):
    rng = np.random.default_rng(seed)
    weights = random_counts(rng, n_states, n_actions)
    rewards = rng.random((n_states, n_actions))
    widths = rng.random((n_states, n_actions)) * 2.5
    start = rng.random(n_states) if warm else None
    twin = twins.iterate(
        lambda s, a, values: twins.ball_law(weights[s, a], widths[s, a], values),
        rewards,
        1e-3,
        start,
    )
    for stored in (weights, weights.astype(float), as_sparse(weights)):
        plan = extended_value_iteration(stored, rewards, widths, 1e-3, start=start, max_sweeps=32)
        assert_equals_twin(plan, twin)


@given(st.integers(1, 7), st.integers(1, 4), st.integers(0, 2**32))
@settings(max_examples=60)
def test_intervals_agree_with_the_plain_twin(n_states, n_actions, seed):
    rng = np.random.default_rng(seed)
    weights = random_counts(rng, n_states, n_actions)
    rewards = rng.random((n_states, n_actions))
    slopes = rng.random((n_states, n_actions))
    offsets = rng.random((n_states, n_actions)) ** 3
    twin = twins.iterate(
        lambda s, a, values: twins.interval_law(weights[s, a], slopes[s, a], offsets[s, a], values),
        rewards,
        1e-3,
    )
    for stored in (weights, as_sparse(weights)):
        plan = interval_value_iteration(stored, rewards, slopes, offsets, 1e-3, max_sweeps=32)
        assert_equals_twin(plan, twin)


def test_several_panels_agree_with_the_plain_twin():
    rng = np.random.default_rng(3)
    weights = random_counts(rng, 190, 6, 400)  # 1,140 rows: three panels, the last not full
    rewards = rng.random((190, 6))
    widths = rng.random((190, 6)) * 2.2
    twin = twins.iterate(
        lambda s, a, values: twins.ball_law(weights[s, a], widths[s, a], values),
        rewards,
        1e-300,
        max_sweeps=2,
    )
    for stored in (weights, as_sparse(weights)):
        plan = extended_value_iteration(stored, rewards, widths, 1e-300, max_sweeps=2)
        assert_equals_twin(plan, twin)


@pytest.mark.parametrize("seed", range(10))
def test_width_zero_finds_the_best_gain_of_all_policies(seed, store):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(4, 0.3), size=(4, 3))
    rewards = rng.random((4, 3))
    exact = twins.best_gain(transition, rewards)
    plan = value_iteration(store(transition), rewards, 1e-9)
    assert plan.converged
    assert plan.gain == pytest.approx(exact, abs=1e-9)
    states = np.arange(4)
    chosen = transition[states, plan.policy][:, None], rewards[states, plan.policy][:, None]
    assert twins.best_gain(*chosen) == pytest.approx(exact, abs=1e-9)
    same = extended_value_iteration(store(transition), rewards, np.zeros((4, 3)), 1e-9)
    assert same.gain == plan.gain


@pytest.mark.parametrize("seed", range(10))
def test_optimism_holds_when_the_truth_is_inside(seed, store):
    rng = np.random.default_rng(seed)
    truth = rng.dirichlet(np.ones(4), size=(4, 2))
    rewards = rng.random((4, 2))
    gain = twins.best_gain(truth, rewards)
    estimate = rng.dirichlet(np.ones(4), size=(4, 2))
    precision = 1e-4
    widths = np.abs(estimate - truth).sum(axis=-1)
    ball = extended_value_iteration(store(estimate), rewards, widths, precision)
    offsets = np.abs(estimate - truth).max(axis=-1)
    slopes = np.zeros((4, 2))
    box = interval_value_iteration(store(estimate), rewards, slopes, offsets, precision)
    for plan in (ball, box):
        assert plan.converged
        assert plan.gain >= gain - precision / 2


def test_an_estimate_without_widths_may_be_too_low():
    truth = np.array([[[0.0, 1.0]], [[0.0, 1.0]]])
    estimate = np.array([[[0.5, 0.5]], [[0.5, 0.5]]])
    rewards = np.array([[0.0], [1.0]])
    assert value_iteration(estimate, rewards, 1e-9).gain == pytest.approx(0.5)
    widths = np.abs(truth - estimate).sum(axis=-1)
    assert extended_value_iteration(estimate, rewards, widths, 1e-9).gain == pytest.approx(1.0)


@pytest.mark.parametrize("width", [0.0, 0.05, 0.6])
def test_a_warm_start_changes_no_guarantee(width):
    rng = np.random.default_rng(8)
    weights = rng.integers(0, 9, (12, 3, 12)) * (rng.random((12, 3, 12)) < 0.4)
    rewards, widths = rng.random((12, 3)), np.full((12, 3), width)
    exact = extended_value_iteration(weights, rewards, widths, 1e-11)
    for start in (exact.values, exact.values + 5.0, rng.normal(size=12) * 100, -exact.values):
        plan = extended_value_iteration(weights, rewards, widths, 1e-4, start=start)
        assert plan.converged
        assert plan.gap < 1e-4
        assert abs(plan.gain - exact.gain) <= plan.gap / 2 + 1e-11
    assert extended_value_iteration(weights, rewards, widths, 1e-4, start=exact.values).sweeps == 1


# Corners.


def test_equal_actions_go_to_the_lowest(store):
    rng = np.random.default_rng(2)
    one = rng.integers(1, 9, (200, 1, 200))
    weights = np.repeat(one, 5, axis=1)
    rewards = np.repeat(rng.random((200, 1)), 5, axis=1)
    plan = extended_value_iteration(store(weights), rewards, np.full((200, 5), 0.3), 1e-6)
    assert not plan.policy.any()
    rewards[7, 3] += 0.01
    plan = extended_value_iteration(store(weights), rewards, np.full((200, 5), 0.3), 1e-6)
    assert np.flatnonzero(plan.policy).tolist() == [7]
    assert plan.policy[7] == 3


def test_one_state(store):
    weights = np.full((1, 3, 1), 4)
    plan = extended_value_iteration(
        store(weights), np.array([[0.2, 0.7, 0.7]]), np.full((1, 3), 0.4), 1e-6
    )
    assert (plan.policy.tolist(), plan.gain, plan.span, plan.sweeps) == ([1], 0.7, 0.0, 1)


@pytest.mark.parametrize("n_states", [2, 3, 20])
def test_periodic_rings_converge(n_states, store):
    ring = np.roll(np.eye(n_states), 1, axis=1)[:, None]
    rewards = np.zeros((n_states, 1))
    rewards[0] = 1.0
    plan = value_iteration(store(ring), rewards, 1e-6)
    assert plan.converged
    assert plan.gain == pytest.approx(1 / n_states, abs=1e-6)


def test_news_may_travel_far(store):
    n_states = 700  # a corridor: for as many sweeps nothing seems to happen
    forward = np.eye(n_states, k=1)
    forward[-1, -1] = 1.0
    rewards = np.zeros((n_states, 1))
    rewards[-1] = 1.0
    plan = value_iteration(store(forward[:, None]), rewards, 1e-3)
    assert plan.converged
    assert plan.gain == pytest.approx(1.0, abs=1e-3)


def test_parts_without_a_way_between_them_end_without_converging(store):
    apart = np.eye(3)[:, None]
    rewards = np.array([[0.0], [0.5], [1.0]])
    plan = value_iteration(store(apart), rewards, 1e-6)
    assert not plan.converged
    assert plan.gap == pytest.approx(1.0)
    assert plan.sweeps < 2000
    # The smallest width builds a bridge.
    bridged = extended_value_iteration(store(apart), rewards, np.full((3, 1), 0.01), 1e-6)
    assert bridged.converged
    assert bridged.gain == pytest.approx(1.0, abs=1e-6)


def test_pairs_never_tried_lead_to_the_best_state(store):
    weights = np.zeros((3, 2, 3), np.int64)
    weights[:, 0] = [[5, 0, 0], [0, 5, 0], [0, 0, 5]]
    rewards = np.array([[0.1, 0.0], [0.2, 0.0], [0.9, 0.0]])
    for widths in (np.zeros((3, 2)), np.full((3, 2), [0.0, 9.0])):
        plan = extended_value_iteration(store(weights), rewards, widths, 1e-6)
        assert plan.gain == pytest.approx(0.9, abs=1e-6)
        assert plan.policy.tolist() == [1, 1, 0]


def test_nothing_known_at_all(store):
    rewards = np.array([[0.3, 1.0], [0.3, 0.2]])
    widths = np.full((2, 2), 2.0)
    for weights in (np.zeros((2, 2, 2)), np.ones((2, 2, 2))):
        plan = extended_value_iteration(store(weights), rewards, widths, 1e-6)
        assert plan.gain == pytest.approx(1.0, abs=1e-6)
        assert plan.policy.tolist() == [1, 0]


def test_wide_balls_are_the_same_whether_left_out_or_not(store):
    rng = np.random.default_rng(5)
    weights = rng.integers(1, 5, (6, 2, 6))
    rewards, widths = rng.random((6, 2)), rng.random((6, 2)) * 4
    left_out = extended_value_iteration(store(weights), rewards, widths, 1e-6)
    kept = extended_value_iteration(by_arrival(store(weights)), rewards, widths, 1e-6)
    np.testing.assert_allclose(left_out.values, kept.values, atol=1e-12)


def test_weights_count_only_in_proportion(store):
    rng = np.random.default_rng(4)
    laws = rng.dirichlet(np.ones(5), size=(5, 2))
    rewards, widths = rng.random((5, 2)), np.full((5, 2), 0.3)
    one = extended_value_iteration(store(laws), rewards, widths, 1e-8)
    other = extended_value_iteration(store(laws * 1e7), rewards, widths, 1e-8)
    assert other.gain == pytest.approx(one.gain, abs=1e-12)


def test_many_states_with_few_ways_out():
    rng = np.random.default_rng(1)  # as a dense array this would take gigabytes
    n_states, n_actions, ways = 20_000, 3, 4
    rows = np.repeat(np.arange(n_states * n_actions), ways)
    columns = rng.integers(0, n_states, rows.size)
    weights = scipy.sparse.csr_array(
        (rng.integers(1, 50, rows.size), (rows, columns)), shape=(n_states * n_actions, n_states)
    )
    rewards = rng.random((n_states, n_actions))
    plan = extended_value_iteration(weights, rewards, np.full(rewards.shape, 0.2), 1e-2)
    assert plan.converged
    assert plan.gain > value_iteration(weights, rewards, 1e-2).gain


def test_the_same_call_gives_the_same_bits(store):
    rng = np.random.default_rng(9)
    weights, rewards = random_counts(rng, 40, 4), rng.random((40, 4))
    plans = [
        extended_value_iteration(store(weights), rewards, np.full((40, 4), 0.4), 1e-9)
        for _ in range(2)
    ]
    assert plans[0].values.tobytes() == plans[1].values.tobytes()
    assert plans[0].gain == plans[1].gain


def test_nothing_passed_in_is_changed_and_the_plan_is_frozen(store):
    rng = np.random.default_rng(9)
    weights, rewards = random_counts(rng, 5, 2), rng.random((5, 2))
    widths, start = np.full((5, 2), 0.4), rng.random(5)
    arrays = (weights, rewards, widths, start)
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    plan = extended_value_iteration(store(weights), rewards, widths, 1e-3, start=start)
    assert all(np.array_equal(*pair) for pair in zip(before, arrays, strict=True))
    with pytest.raises(ValueError, match="read-only"):
        plan.policy[0] = 1
    with pytest.raises(ValueError, match="read-only"):
        plan.values[0] = 1
    with pytest.raises(AttributeError):
        plan.gain = 2.0


def test_sweeps_are_capped():
    plan = value_iteration(np.eye(2)[:, None], np.array([[0.0], [1.0]]), 1e-6, max_sweeps=7)
    assert (plan.sweeps, plan.converged) == (7, False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rewards": [[0.0, np.nan], [0.0, 0.0]]}, r"rewards\[0, 1\] is nan"),
        ({"rewards": np.array([[0.0, 1.0], [np.inf, 0.0]])}, r"rewards\[1, 0\] is inf"),
        ({"rewards": np.zeros((2, 3))}, r"rewards has shape \(2, 3\)"),
        ({"widths": np.array([[0.0, 0.0], [-0.5, 0.0]])}, r"widths\[1, 0\] is -0.5"),
        ({"widths": np.zeros(2)}, r"widths has shape \(2,\)"),
        ({"precision": 0.0}, "precision is 0"),
        ({"start": [1.0, 2.0, 3.0]}, r"start has shape \(3,\)"),
        ({"start": [1.0, np.nan]}, r"start\[1\] is nan"),
        ({"max_sweeps": 0}, "max_sweeps is 0"),
    ],
)
def test_bad_input_is_named(change, message):
    valid = {
        "transitions": np.ones((2, 2, 2)),
        "rewards": np.zeros((2, 2)),
        "widths": np.zeros((2, 2)),
        "precision": 0.1,
    }
    extended_value_iteration(**valid)
    with pytest.raises(InvalidInputError, match=message):
        extended_value_iteration(**(valid | change))
