import numpy as np
import pytest

import romdp
from romdp.core.errors import StructureError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.logs.model.estimate import Estimate, estimate
from romdp.logs.model.evaluation import (
    _grouped_chances,
    clustered,
    compare_next,
    evaluate,
    log_score,
    policy_value,
    predict_next,
)

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=30, seed=2)
TRUTH = Partition(WORLD.labels)


def episodes(seed, n_episodes=300, length=40, policy="uniform"):
    seen = romdp.simulate(WORLD, policy, n_episodes * length, seed=seed)
    return Trajectory(
        seen.observations, seen.actions, seen.rewards, np.full(n_episodes, length),
        n_observations=30, n_actions=2,
    )  # fmt: skip


def counts_of(seen):
    return Counts.from_trajectory(seen)


def starts_of(seen, partition):
    return np.bincount(partition.labels[seen.observations[seen.starts]], minlength=3)


def test_chances_of_the_next_observation_sum_to_one():
    counts = counts_of(episodes(0, 20))
    labels = TRUTH.labels.copy()
    labels[7] = -1
    partition = Partition(labels)
    groups, chance = counts.group(partition), np.full(30, 1 / 30)
    for source in (3, 7):
        at = (np.full(30, source), np.ones(30, int), np.arange(30))
        chances = _grouped_chances(groups, partition.labels, chance, *at)
        assert chances.sum() == pytest.approx(1.0)
        visits = counts.visits.sum(axis=1)
        scores = [
            log_score(groups, partition.labels, visits, *(np.array([x]) for x in (source, 1, y)))
            for y in range(-1, 30)
        ]
        assert np.exp(scores).sum() == pytest.approx(1.0)


def test_true_states_foretell_better_than_observations_and_wrong_ones_worse():
    train, held = episodes(0), episodes(1)
    right = predict_next(counts_of(train), TRUTH, held)
    assert right.gain > 5 * right.gain_error > 0
    assert right.gain == pytest.approx(right.grouped - right.ungrouped)
    wrong = predict_next(counts_of(train), Partition(np.arange(30) % 3), held)
    assert wrong.gain < -5 * wrong.gain_error
    # No model predicts better than the truth does.
    law = WORLD.observable.transition
    following = held.next_observations
    known = following >= 0
    best = np.log(law[held.observations[known], held.actions[known], following[known]]).mean()
    assert right.grouped < best + 3 * 0.01
    assert right.grouped == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize("behaviour", ["uniform", "biased"])
def test_the_interval_covers_the_true_gain_as_often_as_it_says(behaviour):
    """Twenty fits; fewer than 15 hits at 95% coverage have a chance below 1e-4."""
    policy = "uniform"
    if behaviour == "biased":
        policy = np.tile([0.8, 0.2], (30, 1))
    hits, estimates = 0, []
    for seed in range(20):
        train, held = episodes(100 + seed, 100, policy=policy), episodes(seed, 60, policy=policy)
        groups = counts_of(train).group(TRUTH)
        found = estimate(groups, starts_of(train, TRUTH))
        true = WORLD.hidden.policy_gain(found.policy[_renumber()])
        value = policy_value(groups, found, TRUTH, held, (0.0, 1.0))
        hits += value.low <= true <= value.high
        estimates.append(value.estimate - true)
        assert 0 < value.agreement < 1
        assert value.effective_steps <= held.n_steps
    assert hits >= 15
    assert abs(np.mean(estimates)) < 4 * np.std(estimates) / np.sqrt(20)


def _renumber():
    """For each hidden state of the world, its number in the partition."""
    first = [int(np.argmax(WORLD.labels == x)) for x in range(3)]
    return TRUTH.labels[first]


def test_a_wrong_prediction_is_corrected():
    """Both parts of the estimator matter: with rewards halved the prediction is far off."""
    train, held = episodes(5, 1500), episodes(6, 1500)
    groups = counts_of(train).group(TRUTH)
    found = estimate(groups, starts_of(train, TRUTH))
    halved = romdp.MDP(found.mdp.transition, found.mdp.reward / 2)
    wrong = Estimate(halved, found.policy, found.gains / 2)
    right = policy_value(groups, found, TRUTH, held, (0.0, 1.0))
    value = policy_value(groups, wrong, TRUTH, held, (0.0, 1.0))
    assert value.predicted == pytest.approx(right.predicted / 2)
    assert value.estimate == pytest.approx(right.estimate, abs=0.03)


def test_values_are_in_units_of_the_reward():
    train, held = episodes(5, 100), episodes(6, 100)
    groups = counts_of(train).group(TRUTH)
    found = estimate(groups, starts_of(train, TRUTH))
    unit = policy_value(groups, found, TRUTH, held, (0.0, 1.0))
    scaled = policy_value(groups, found, TRUTH, held, (-5.0, 15.0))
    for name in ("estimate", "low", "high", "predicted", "logged"):
        assert getattr(scaled, name) == pytest.approx(-5 + 20 * getattr(unit, name))


def test_errors_are_over_episodes():
    """A hundred copies of ten values say as much as ten values do."""
    values = np.random.default_rng(0).normal(size=10)
    mean, error = clustered(values, np.ones(10), np.arange(10))
    assert error == pytest.approx(values.std(ddof=1) / np.sqrt(10))
    again = clustered(np.repeat(values, 100), np.ones(1000), np.repeat(np.arange(10), 100))
    assert again == pytest.approx((mean, error))
    assert clustered(values, np.ones(10), np.zeros(10, int))[1] == np.inf


def test_everything_at_once_and_what_is_missing_is_said():
    train, held = episodes(0), episodes(1, 50)
    rng = np.random.default_rng(0)
    full = evaluate(counts_of(train), starts_of(train, TRUTH), TRUTH, held, (0.0, 1.0), rng)
    assert full.prediction is not None
    assert full.value is not None
    assert full.markov is not None
    assert full.alike is not None
    assert full.notes == ()
    few = evaluate(counts_of(train), starts_of(train, TRUTH), TRUTH, episodes(1, 2), (0, 1), rng)
    assert few.prediction is None
    assert few.value is None
    assert "only 2 episodes" in few.notes[0]
    bare = evaluate(counts_of(train), starts_of(train, TRUTH), TRUTH, held, None, rng)
    assert bare.value is None


def test_a_policy_that_nobody_followed_has_no_value():
    train = episodes(0)
    held = Trajectory(
        np.arange(30).repeat(2), np.zeros(60, int), np.ones(60), np.full(6, 10),
        n_observations=30, n_actions=2,
    )  # fmt: skip
    groups = counts_of(train).group(TRUTH)
    found = estimate(groups, starts_of(train, TRUTH))
    other = Estimate(found.mdp, np.ones(3, np.int64), found.gains)
    with pytest.raises(StructureError, match="no held-out step"):
        policy_value(groups, other, TRUTH, held, (0.0, 1.0))


def test_two_groupings_are_compared_on_the_same_steps():
    train, held = episodes(0), episodes(1)
    wrong = Partition(np.arange(30) % 3)
    better, error = compare_next(counts_of(train), TRUTH, wrong, held)
    right, other = (predict_next(counts_of(train), p, held) for p in (TRUTH, wrong))
    assert better == pytest.approx(right.grouped - other.grouped)
    assert 0 < error < better
