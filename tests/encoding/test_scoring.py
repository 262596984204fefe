import numpy as np
from encoding_worlds import chain

from romdp.encoding.scoring import score


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
