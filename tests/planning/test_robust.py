import numpy as np
import pytest

from romdp.exact.mdp import MDP
from romdp.planning import extended_value_iteration
from romdp.planning.robust import robust_value_iteration


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
