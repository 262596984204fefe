import numpy as np
import pytest
from cases import chain

from romdp.clustering.states import is_mixed
from romdp.data.trajectory import END, UNKNOWN, Trajectory
from romdp.encoding.encoder import make_steps
from romdp.encoding.scoring import (
    both,
    by_age,
    earned,
    find_motives,
    last_steps,
    memory_score,
    score,
    score_with_age,
)


def marks(codes, seen):
    return score(codes, seen.steps)


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
    idle = seen.steps.changed(actions=np.zeros(4000, int), n_actions=1, rewards=None)
    assert score(seen.states, idle).is_signal


def test_the_code_before_adds_something_if_and_only_if_states_are_mixed():
    seen = chain(3000)
    pure = memory_score(seen.states, seen.steps)
    assert not pure.is_signal  # a chance of 0.001 by its three standard errors
    mixed = np.minimum(seen.states, 2)
    assert memory_score(mixed, seen.steps).mean > 0.02
    assert is_mixed(mixed, seen.steps)
    assert not is_mixed(seen.states, seen.steps)


def test_the_step_of_the_episode_counts_only_where_it_tells_something():
    """A right action at every step, and one that is right at all steps; codes do not show which."""
    rng = np.random.default_rng(0)
    ages, actions = np.tile(np.arange(5), 200), rng.integers(0, 2, 1000)
    for right, tells in ((ages % 2, True), (np.zeros(1000, int), False)):
        codes = np.zeros(1000, np.int64)
        codes[1:] = (actions == right)[:-1]
        steps = episodes_of_five(actions)
        mark, stepwise = score_with_age(codes, steps)
        assert stepwise == tells
        assert mark.is_signal
        assert score(codes, steps).is_signal != tells
        assert last_steps(steps, 7).ages.tolist() == [3, 4, 0, 1, 2, 3, 4]
    apart = by_age(steps)
    assert apart.n_actions == 10
    np.testing.assert_array_equal(apart.actions % 2, actions)
    np.testing.assert_array_equal(apart.actions // 2, ages)
    assert len(np.unique(both(codes, steps.ages))) == 10


def episodes_of_five(actions):
    """Return episodes of five steps that come to an end; what was seen is left to codes."""
    n = len(actions)
    lengths, over = np.full(n // 5, 5), np.ones(n // 5, np.bool_)
    return Trajectory(np.zeros((n, 1)), actions, lengths=lengths, terminated=over)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_step_must_add_much(seed):
    """Codes that show the step, but for a few; the step adds a little, and surely so."""
    rng = np.random.default_rng(seed)
    ages, actions = np.tile(np.arange(5), 400), rng.integers(0, 2, 2000)
    wrong = np.zeros(2000, np.bool_)
    for t in np.flatnonzero(ages):
        wrong[t] = (wrong[t - 1] and ages[t] > 1) or actions[t - 1] != ages[t - 1] % 2
    codes = np.where(rng.random(2000) < 0.01, 10, 2 * ages + wrong)
    codes = np.unique(codes, return_inverse=True)[1]
    steps = episodes_of_five(actions)
    alone, together = score(codes, steps), score(both(codes, steps.ages), steps)
    assert together.exceeds(alone) > 2
    for in_use in (False, True):
        mark, stepwise = score_with_age(codes, steps, in_use=in_use)
        assert not stepwise
        assert mark.mean == alone.mean


def driven(wise, n=4000, seed=0):
    """Walk along eight states; ``wise`` is how often the driver looks at the state and is right."""
    rng = np.random.default_rng(seed)
    right = np.array([0, 0, 1, 1, 0, 1, 0, 1])
    states, actions = np.zeros(n + 1, np.int64), rng.integers(2, size=n)
    looks = rng.random(n) < wise
    for t in range(n):
        actions[t] = right[states[t]] if looks[t] else actions[t]
        states[t + 1] = (states[t] + 1) % 8 if actions[t] == right[states[t]] else 0
    return states[:n], make_steps(np.eye(8)[states[:n]], actions, None)


def test_codes_do_not_gain_by_mixing_states_that_the_driver_tells_apart():
    states, steps = driven(wise=0.9)
    mixed = np.array([0, 1, 1, 2, 2, 3, 4, 5])[states]  # pairs with different right actions
    misled = score(mixed, steps)
    assert misled.exceeds(score(states, steps)) > 10  # the action tells what the driver saw
    motives = find_motives(steps, [mixed, states])
    fair = score(states, steps, motives)
    assert fair.exceeds(score(mixed, steps, motives)) > 3
    assert fair.mean == pytest.approx(score(states, steps).mean, abs=0.002)
    alike = np.array([0, 0, 1, 1, 2, 3, 4, 5])[states]  # pairs with the same right action
    assert fair.exceeds(score(alike, steps, motives)) > 3


def test_actions_that_have_nothing_to_do_with_what_is_seen_have_no_motives():
    states, steps = driven(wise=0.0)
    assert find_motives(steps, [states]) is None


def test_each_step_has_the_motive_of_its_state():
    states, steps = driven(wise=0.9)
    motives = find_motives(steps, [states])
    assert set(motives[states == 2]) == {4}  # nearly always action 1
    assert set(motives[states == 0]) == {2}  # nearly always action 0


def pushed(n=3000, seed=0):
    """A push sets the speed, which moves the place one step later; too far out, all is over."""
    rng = np.random.default_rng(seed)
    actions, over = rng.integers(2, size=n), np.zeros(n, np.bool_)
    places, speeds = np.zeros(n + 1, np.int64), np.zeros(n + 1, np.int64)
    for t in range(n):
        places[t + 1], speeds[t + 1] = places[t] + 2 * speeds[t] - 1, actions[t]
        if abs(places[t + 1]) > 3:
            places[t + 1], over[t] = 0, True
    last = np.flatnonzero(over | (np.arange(n) == n - 1))
    lengths, ended = np.diff(last, prepend=-1), over[last]
    steps = Trajectory(np.zeros((n, 1)), actions, np.ones(n), lengths, terminated=ended)
    return places[:n] + 3, speeds[:n], steps


def test_what_is_earned_is_the_return_of_the_next_steps_where_episodes_end():
    _, _, steps = pushed(300)
    later = np.zeros(301)
    for t in reversed(range(300)):
        led_to = int(steps.next_observations[t])
        later[t] = 1.0 + 0.9 * {END: 0.0, UNKNOWN: 10.0}.get(led_to, later[t + 1])
    np.testing.assert_allclose(earned(steps), later[:-1], atol=0.2)  # 40 steps ahead, not for ever
    endless = steps.changed(terminated=np.zeros(steps.n_episodes, np.bool_))
    np.testing.assert_array_equal(earned(endless), endless.rewards)
    assert earned(steps.changed(rewards=None)) is None


def test_codes_that_show_only_what_an_action_moves_at_once_are_not_enough():
    places, speeds, steps = pushed()
    assert score(both(places, speeds), steps).exceeds(score(speeds, steps)) > 5
    unpaid = steps.changed(rewards=None)
    more = score(both(places, speeds), unpaid).mean - score(speeds, unpaid).mean
    assert abs(more) < 0.02  # what the action moves at once says nothing about the place


def test_rewards_that_are_easy_to_predict_do_not_hide_that_states_are_mixed():
    seen = chain(3000)
    mixed = np.minimum(seen.states, 2)
    easy = seen.steps.changed(rewards=(mixed == 0).astype(float))
    assert score(mixed, easy).mean > 5
    assert is_mixed(mixed, easy)
    assert not is_mixed(seen.states, easy)
