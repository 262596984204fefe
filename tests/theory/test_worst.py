import numpy as np
import pytest
from theory_worlds import draw, one_way, tiny

from romdp import ROMDP
from romdp.core.errors import StructureError
from romdp.theory.concentration import enough_samples, error_constant, rank_samples
from romdp.theory.views import hidden_policy_views, policy_rows, views
from romdp.theory.worst import OpenConstants, worst

CHOICES = OpenConstants(delta=0.1, c1=1.0, g=1.0, epsilon=0.25)


def test_the_worst_over_all_hidden_policies():
    world = draw(3)
    found = worst(world, None, CHOICES, True, 8)
    assert "all 8 policies" in found.policies
    assert found.share == world.observation_chance.min()
    every = list(hidden_policy_views(world))
    assert found.mixing in [v.mixing for policy in every for v in policy if v]
    for action, constants in enumerate(found.actions):
        seen = [policy[action] for policy in every if policy[action]]
        assert constants.omega == min(v.omega for v in seen)
        assert constants.sigma_first == min(v.sigma_first for v in seen)
        assert constants.sigma_second == min(v.sigma_second for v in seen)
        assert constants.sigma_third == min(v.sigma_third for v in seen)
        assert constants.sigma_pairs == min(v.sigma_pairs for v in seen)
        assert constants.error_constant == max(error_constant(v, 8, 0.1) for v in seen)
        enough = [enough_samples(v, 8, 0.1, 1.0) for v in seen]
        rank = [rank_samples(v, 8, 0.1, 1.0, 0.25) for v in seen]
        assert constants.enough_samples == max(enough)
        assert constants.rank_samples == max(rank)
        assert constants.needed == max(e + r for e, r in zip(enough, rank, strict=True))
    assert found.error_constant == max(a.error_constant for a in found.actions)
    assert found.needed == max(a.needed for a in found.actions)


def test_a_rank_is_missing_if_any_policy_lacks_it():
    world = one_way()
    found = worst(world, None, CHOICES, True, 8)
    assert [a.missing_rank for a in found.actions] == [1, 0]
    # The same with the actions named the other way round: the order of policies does not matter.
    swapped = ROMDP(world.transition[:, ::-1], world.reward[:, ::-1], world.emission)
    found = worst(swapped, None, CHOICES, True, 8)
    assert [a.missing_rank for a in found.actions] == [0, 1]


def test_too_many_policies_give_way_to_the_uniform_one():
    world = draw(3)
    found = worst(world, None, CHOICES, True, 7)
    assert found.policies == "the uniform policy only (A^X = 10^0.9 are too many)"
    (first, second) = views(world, policy_rows(world, "uniform"))
    assert [a.omega for a in found.actions] == [first.omega, second.omega]
    assert found.share == world.observation_chance.min()


def test_a_given_policy_is_taken_as_it_is():
    world = tiny()
    found = worst(world, [0, 1, 1, 1], CHOICES, True, 1024)
    assert found.policies == "the given policy"
    assert found.share == pytest.approx(0.4)
    assert found.actions[0].omega == 1.0
    only = worst(world, [0, 0, 0, 0], CHOICES, True, 1024)
    assert only.actions[1] is None
    assert only.error_constant == only.actions[0].error_constant


def test_worlds_without_a_stationary_law():
    stuck = ROMDP(np.eye(2)[:, None, :], [[0.0], [1.0]], np.eye(2))
    found = worst(stuck, None, CHOICES, False, 1024)
    assert "not all ergodic" in found.policies
    assert found.mixing is None
    assert found.error_constant.is_infinite
    assert found.needed.is_infinite
    (nothing,) = found.actions
    assert nothing.omega == nothing.sigma_first == nothing.sigma_second == 0
    assert nothing.sigma_third == nothing.sigma_pairs == 0
    assert nothing.missing_rank == 2
    with pytest.raises(StructureError, match="recurrent classes"):
        worst(stuck, "uniform", CHOICES, False, 1024)
