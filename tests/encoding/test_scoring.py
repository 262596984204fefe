import numpy as np
from encoding_worlds import chain

from romdp.clustering.vectors import is_mixed
from romdp.encoding.scoring import memory_score, score


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
