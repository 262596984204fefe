"""One belief, whoever asks: planners, logs, evaluation."""

import numpy as np

import romdp
from romdp.agents.planners import Posterior
from romdp.data.counts import Counts
from romdp.logs.model.draws import Draws
from romdp.planning.belief import Belief
from romdp.planning.priors import MovePrior


def seen(steps=2_000, seed=0):
    world = romdp.worlds.random_romdp(3, 2, 3, seed=seed)
    return Counts.from_trajectory(romdp.simulate(world, "uniform", steps, seed=seed))


def test_planners_and_logs_believe_the_same_of_the_same_counts():
    counts = seen()
    labels = romdp.Partition([0, 1, 2])
    from_log = Draws(counts, labels, (0.0, 1.0), "average").belief
    planner = Posterior()._believe(counts.sparse())
    assert from_log.moves == planner.moves
    np.testing.assert_array_equal(from_log.mean_weights(), planner.mean_weights())


def test_what_was_learned_elsewhere_is_taken_over():
    counts = seen()
    fixed = MovePrior(0.0, 3.0)
    belief = Belief.of(counts, counts.transitions, moves=fixed)
    assert belief.moves is fixed
    np.testing.assert_allclose(belief.mean_weights(), 3.0)
    assert belief.rewards == Belief.of(counts, counts.transitions).rewards


def test_draws_surround_what_is_expected():
    """10,000 draws; a false alarm (5.5 standard errors, 18 entries) has probability below 1e-6."""
    counts = seen(200)
    belief = Belief.of(counts, counts.transitions, moves=MovePrior(0.0, 1.0))
    rng = np.random.default_rng(0)
    laws = np.array([belief.draw_laws(rng) for _ in range(10_000)])
    expected = counts.transitions + 1.0 / 3
    expected /= expected.sum(axis=-1, keepdims=True)
    error = laws.std(axis=0) / 100.0 + 1e-6
    np.testing.assert_array_less(np.abs(laws.mean(axis=0) - expected), 5.5 * error)
