from dataclasses import replace

import numpy as np
from encoding_worlds import chain

from romdp.clustering.vectors import is_mixed
from romdp.encoding.scoring import memory_score, score, score_with_age
from romdp.encoding.steps import ENDED, Steps


def marks(codes, seen):
    return score(codes, seen.actions, seen.rewards, seen.steps.next_codes(codes))


def test_the_true_states_score_better_than_states_that_are_mixed():
    seen = chain(4000)
    true = marks(seen.states, seen)
    assert true.is_signal
    assert true.exceeds(marks(seen.states // 2, seen)) > 3


def test_predictable_noise_scores_nothing():
    seen = chain(4000, n_noise=1)
    noise = (seen.vectors[:, -1] > 0).astype(int) + (seen.vectors[:, -1] > 2)
    assert not marks(noise, seen).is_signal


def test_splitting_a_state_at_random_does_not_raise_the_score():
    seen = chain(4000)
    halves = 2 * seen.states + np.random.default_rng(0).integers(2, size=4000)
    assert marks(halves, seen).mean <= marks(seen.states, seen).mean


def test_without_actions_codes_are_judged_by_the_next_code():
    seen = chain(4000)
    nothing = np.zeros(4000, int)
    following = seen.steps.next_codes(seen.states)
    assert score(seen.states, nothing, None, following).is_signal


def test_the_code_before_adds_something_if_and_only_if_states_are_mixed():
    seen = chain(3000)
    after = seen.steps.next_codes
    pure = memory_score(seen.states, seen.actions, after(seen.states))
    assert not pure.is_signal  # a chance of 0.001 by its three standard errors
    mixed = np.minimum(seen.states, 2)
    assert memory_score(mixed, seen.actions, after(mixed)).mean > 0.02
    assert is_mixed(mixed, seen.steps)
    assert not is_mixed(seen.states, seen.steps)


def test_the_step_of_the_episode_counts_only_where_it_tells_something():
    """A right action at every step, and one that is right at all steps; codes do not show which."""
    rng = np.random.default_rng(0)
    ages, actions = np.tile(np.arange(5), 200), rng.integers(0, 2, 1000)
    following = np.where(ages < 4, np.arange(1, 1001), ENDED)
    for right, tells in ((ages % 2, True), (np.zeros(1000, int), False)):
        codes = np.zeros(1000, np.int64)
        codes[1:] = (actions == right)[:-1]
        steps = Steps(np.zeros((1000, 1)), actions, None, following, 2, ages)
        mark, stepwise = score_with_age(codes, steps)
        assert stepwise == tells
        assert mark.is_signal
        unknown, _ = score_with_age(codes, replace(steps, ages=None))
        assert unknown.is_signal != tells
        assert steps.last(7).ages.tolist() == [3, 4, 0, 1, 2, 3, 4]
    by_age = steps.by_age
    assert by_age.n_actions == 10
    np.testing.assert_array_equal(by_age.actions % 2, actions)
    assert len(np.unique(steps.with_ages(codes))) == 10
