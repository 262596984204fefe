import numpy as np
import pytest
from cases import (
    deterministic_rows,
    draw,
    one_way,
    smallest_singular_value,
    tiny,
    views_by_enumeration,
)

from romdp import ROMDP
from romdp.core.errors import InvalidInputError, ROMDPError, UnknownNameError
from romdp.data.partition import Partition
from romdp.exact.chains import dobrushin, mixing
from romdp.theory import bounds
from romdp.theory.views import (
    action_share,
    contraction_of_all,
    hidden_policy_views,
    mixing_speed,
    partial_groups,
    policy_rows,
    views,
)


def check_against_enumeration(world, rows):
    for action, view in enumerate(views(world, rows)):
        if not (rows[:, action] > 0).any():
            assert view is None
            continue
        first, second, third, omega, pairs = views_by_enumeration(world, rows, action)
        rank = len(omega)
        assert view.n_states == rank
        assert view.omega == pytest.approx(omega.min(), rel=1e-9)
        for sigma, matrix in (
            (view.sigma_first, first),
            (view.sigma_second, second),
            (view.sigma_third, third),
            (view.sigma_pairs, pairs),
        ):
            assert sigma == pytest.approx(smallest_singular_value(matrix, rank), rel=1e-8)
        assert view.sigma == min(view.sigma_first, view.sigma_second, view.sigma_third)
        chain = np.einsum("xy,ya,xaz->xz", world.emission, rows, world.transition)
        assert view.speed == pytest.approx(mixing_speed(mixing(chain)))


@pytest.mark.parametrize("seed", range(4))
def test_singular_values_are_those_of_the_enumerated_views(seed):
    world = draw(seed)
    rng = np.random.default_rng(seed)
    check_against_enumeration(world, rng.dirichlet(np.ones(2), 8))
    check_against_enumeration(world, deterministic_rows(rng.integers(2, size=8), 2))
    check_against_enumeration(world, policy_rows(world, "uniform"))
    check_against_enumeration(world, policy_rows(world, np.zeros(8, int)))


def test_hidden_policies_are_observation_policies_spread_over_labels():
    world = draw(5)
    found = list(hidden_policy_views(world))
    assert len(found) == 2**3
    for index, policy in enumerate(np.ndindex(2, 2, 2)):
        rows = policy_rows(world, np.array(policy)[world.labels])
        for one, other in zip(found[index], views(world, rows), strict=True):
            assert (one is None) == (other is None)
            if one is not None:
                assert one.omega == pytest.approx(other.omega)
                assert one.sigma_first == pytest.approx(other.sigma_first)
                assert one.sigma_second == pytest.approx(other.sigma_second)
                assert one.sigma_third == pytest.approx(other.sigma_third)
                assert one.sigma_pairs == pytest.approx(other.sigma_pairs)
                assert one.speed == pytest.approx(other.speed)


def test_action_share_by_hand():
    world = tiny()  # labels 0, 1, 0, 1 with chances 0.6, 0.25, 0.4, 0.75
    assert action_share(world, policy_rows(world, [0, 1, 1, 1])) == pytest.approx(0.4)
    assert action_share(world, policy_rows(world, [0, 1, 0, 0])) == pytest.approx(0.25)
    assert action_share(world, policy_rows(world, [0, 1, 0, 1])) == pytest.approx(1.0)
    assert action_share(world, policy_rows(world, "uniform")) == pytest.approx(0.5)


def test_contraction_holds_for_every_policy_and_is_attained():
    world = draw(7, n_states=4, n_actions=3, n_observations=9)
    bound = contraction_of_all(world)
    rng = np.random.default_rng(0)
    chains = [world.hidden.chain(rng.dirichlet(np.ones(3), 4))[0] for _ in range(50)]
    assert max(dobrushin(chain) for chain in chains) <= bound
    worst = max(dobrushin(world.hidden.chain(p)[0]) for p in np.ndindex(3, 3, 3, 3))
    assert worst == pytest.approx(bound)


def test_a_periodic_chain_never_settles():
    world = ROMDP([[[0.0, 1.0]], [[1.0, 0.0]]], [[0.0], [1.0]], np.eye(2))
    (view,) = views(world, policy_rows(world, "uniform"))
    assert view.mixing is None
    assert view.speed == np.inf


def test_policies_are_checked():
    world = tiny()
    np.testing.assert_array_equal(
        policy_rows(world, "optimal").argmax(axis=1), world.hidden.optimal_policy[world.labels]
    )
    with pytest.raises(UnknownNameError, match="uniform"):
        policy_rows(world, "unifrom")
    with pytest.raises(InvalidInputError, match=r"policy\[2\] is 2"):
        policy_rows(world, [0, 1, 2, 0])
    with pytest.raises(ROMDPError, match="sums to"):
        policy_rows(world, np.full((4, 2), 0.4))


def test_where_v1_lacks_a_rank_the_bounds_are_infinite():
    """States 0 and 1, where action 0 is taken, come from state 2 in fixed proportions."""
    world = one_way()
    rows = policy_rows(world, np.array([0, 0, 1])[world.labels])
    view = views(world, rows)[0]
    assert (view.n_states, view.rank_first) == (2, 1)
    assert view.sigma_first == 0
    theory = bounds(world, policy=np.array([0, 0, 1])[world.labels])
    assert theory["X^(l) - rank(V_1)"] == (1, 0)
    assert theory["C_O"][0].is_infinite
    assert theory["N_bar"][0].is_infinite
    assert theory["N_last"].is_infinite
    fine = bounds(tiny())
    assert fine["X^(l) - rank(V_1)"] == (0, 0)
    assert not fine["N_last"].is_infinite


def test_the_partial_groups_of_a_policy():
    world = draw(0, n_states=3, n_actions=2, n_observations=9)
    policy = np.array([0, 1, 0, 0, 1, 1, 0, 1, 0])
    expected = Partition(world.labels * 2 + policy)
    assert partial_groups(world, policy) == expected
    assert expected.n_clusters <= 3 * 2
    assert partial_groups(world, "uniform") == Partition(world.labels)
    # One observation where both actions are taken joins the two groups of its state.
    rows = np.eye(2)[policy]
    rows[0] = 0.5
    joined = partial_groups(world, rows)
    for y in range(9):
        together = world.labels[y] == world.labels[0]
        assert (joined.labels[y] == joined.labels[0]) == together
    assert expected.refines(joined)


def test_an_action_that_cannot_be_decomposed_groups_nothing():
    world = one_way()
    found = partial_groups(world, np.array([0, 0, 1])[world.labels])
    assert found == Partition([0, 1, 2, 3, 4, 4])
