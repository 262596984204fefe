"""What theory says about a world: constants, the worst policy, the table."""

import json
import math
from math import log, log2, sqrt

import numpy as np
import pytest
from cases import TRANSITION, draw, one_way, tiny

from romdp import MDP, ROMDP
from romdp.core.errors import InvalidInputError, StructureError, UnknownNameError
from romdp.theory import Magnitude, bounds
from romdp.theory.concentration import (
    OpenConstants,
    enough_samples,
    error_constant,
    rank_samples,
    worst,
)
from romdp.theory.table import Row, Table
from romdp.theory.views import hidden_policy_views, policy_rows, views

# The tiny world by hand: X = 2, A = 2, Y = 4; delta = 0.1, N = 1000, C_2 = 3.
DELTA, STEPS, C = 0.1, 1000, 3.0


def value(theory, name):
    return float(theory[name])


@pytest.fixture(scope="module")
def theory():
    return bounds(tiny(), DELTA, STEPS, c2=C)


def return_time():
    """The longest expected return over the four deterministic policies, from their laws."""
    world = tiny()
    return max(1 / world.hidden.stationary(p).min() for p in np.ndindex(2, 2))


def test_constants(theory):
    assert (theory["X"], theory["A"], theory["Y"]) == (2, 2, 4)
    assert theory["O_min"] == theory["alpha_p"] == 0.25
    assert theory["tau_M"] == pytest.approx(return_time()) == pytest.approx(1 + 0.7 / 0.1)
    assert theory["D_X"] == pytest.approx(1 / 0.7)  # from state 1 by its better action
    assert theory["D_pomdp"] == pytest.approx(1 + 0.8 / 0.7)  # from (0, 1) back to state 0
    assert theory["gamma_r"] == pytest.approx(0.3)
    assert theory["gamma_r (best)"] == pytest.approx(1.0)
    assert theory["gamma_p"] == pytest.approx(1.0)
    assert theory["gamma_p (best)"] == pytest.approx(1.0)
    largest = max(
        abs(TRANSITION[0, a, 0] - TRANSITION[1, b, 0]) for a in range(2) for b in range(2)
    )
    assert theory["theta (all policies)"] == pytest.approx(largest)
    assert theory["theta"] == pytest.approx(largest)
    assert theory["G"] == 1.0
    assert theory["G / (1 - theta)"] == pytest.approx(1 / (1 - largest))


def test_times_until_observations_are_grouped(theory):
    tau, alpha, n_actions, n_observations = return_time(), 0.25, 2, 4
    ay = n_actions * n_observations
    assert value(theory, "N_first") == pytest.approx(ay * tau / 0.25 * C * log(10) / 0.75**2)
    assert value(theory, "N_last") == pytest.approx(ay * tau / 0.25**3 * C * log(10))
    for which, chance in (("first", 0.75), ("last", 0.25)):
        samples = 4 * C * log(10) / chance**2
        length = 4 * tau / alpha * (samples + log(2 * 2 / DELTA))
        assert value(theory, f"N_bar(y) {which}") == pytest.approx(samples)
        assert value(theory, f"nu_bar(y) {which}") == pytest.approx(length)
        assert value(theory, f"K_{which}") == pytest.approx(ay * log2(length) + 1)
        assert value(theory, f"N_{which} (4 A Y nu)") == pytest.approx(4 * ay * length)
        samples = 4 * C**2 * log(2 * 4**1.5 / DELTA) / chance**2
        slack = 2 * tau / alpha * log(2 * 2 / DELTA)
        length = (sqrt(slack) + sqrt(slack + 4 * tau / alpha * samples)) ** 2
        assert value(theory, f"N_{which} (solved)") == pytest.approx(4 * ay * length)


def test_until_the_spectral_step_works(theory):
    ay = 2 * 4
    needed = max(float(n) + float(m) for n, m in zip(theory["N_bar"], theory["N_0"], strict=True))
    length = value(theory, "nu_bar_sm")
    by_hand = 4 * return_time() / 0.25 * (needed + log(2 * 2 / DELTA))
    assert length <= by_hand * (1 + 1e-9)  # one policy need not have both the worst
    assert length >= by_hand / 2
    assert value(theory, "K_sm") == pytest.approx(ay * log2(length) + 1)
    assert value(theory, "N_sm") == pytest.approx(4 * ay * length)
    for which in ("first", "last"):
        later = max(value(theory, "N_sm"), value(theory, f"N_{which} (4 A Y nu)"))
        assert value(theory, f"N_{which} (valid)") == pytest.approx(later)


def test_separation(theory):
    tau, ya = return_time(), log(4 * 2 / DELTA)
    reward = log(2 * 4 * 2 * STEPS / DELTA) / 1.0**2

    def steps(samples):
        return 4 * tau / 0.25 * (samples + ya)

    for which in ("S = Y", "S = min(X A, Y)"):  # here both are 4
        assert value(theory, f"N_r (56), {which}") == pytest.approx(steps(56 * reward))
        assert value(theory, f"N_r (112), {which}") == pytest.approx(steps(112 * reward))
        assert value(theory, f"N_p (112), {which}") == pytest.approx(steps(4 * 112 * reward))
        epochs = 2 * 4 * log(steps(56 * reward))
        assert value(theory, f"K_r,p, {which}") == pytest.approx(epochs)


def test_found_and_regret(theory):
    tau = return_time()
    found = 2 * 4**2 * tau / 1.0**2 * log(1 / DELTA)
    assert value(theory, "N_X") == pytest.approx(found)
    assert value(theory, "N_X (best)") == pytest.approx(found)
    d_x, d_y = theory["D_X"], theory["D_Y"]
    root = sqrt(2 * STEPS * log(STEPS / DELTA))
    assert value(theory, "UCRL2 on observations") == pytest.approx(34 * d_y * 4 * root)
    assert value(theory, "UCRL2 on hidden states") == pytest.approx(34 * d_x * 2 * root)
    after = 34 * d_x * 2 * sqrt(2 * (STEPS - found) * log(STEPS / DELTA))
    before = min(found, 34 * d_y * 4 * sqrt(2 * found * log(found / DELTA)))
    assert value(theory, "SL-UCRL") == pytest.approx(before + after)
    pomdp = theory["D_pomdp"] * 2**1.5 * sqrt(2 * 4 * STEPS)
    assert value(theory, "POMDP") == pytest.approx(pomdp)


def test_both_readings_of_the_gap():
    theory = bounds(draw(4), DELTA, STEPS)
    scale = 2 * 8**2 * theory["tau_M"] * log(1 / DELTA)  # before N_last: it is far larger here
    for end in ("", " (best)"):
        gap = max(theory[f"gamma_r{end}"], theory[f"gamma_p{end}"])
        assert value(theory, f"N_X{end}") == pytest.approx(scale / gap**2)
    assert theory["N_X (best)"] < theory["N_X"] < theory["N_last"]


def test_regret_as_a_function_of_steps(theory):
    curves = theory.regret([1, STEPS, 1e9])
    for name, curve in curves.items():
        assert curve[1] == pytest.approx(value(theory, name))
        assert (np.diff(curve) > 0).all() or name == "SL-UCRL"
    with pytest.raises(InvalidInputError, match=r"steps\[1\] is 0"):
        theory.regret([1, 0])


def test_needs_of_one_observation(theory):
    assert theory.needs(3).steps == theory["N_first (4 A Y nu)"]
    assert theory.needs(1).samples == theory["N_bar(y) last"]
    assert theory.needs(3).length < theory.needs(0).length < theory.needs(1).length
    with pytest.raises(InvalidInputError, match="observation is 4"):
        theory.needs(4)


def test_the_constant_of_the_lemma_is_used_unless_given(theory):
    default = bounds(tiny(), DELTA, STEPS)
    assert default["C_2"] == max(default["C_O"])
    assert "C_O" in next(row.note for row in default.rows if row.name == "C_2")
    assert float(theory["C_2"]) == pytest.approx(C)
    assert next(row.note for row in theory.rows if row.name == "C_2") == "assumed"
    ratio = float(default["N_last"] / theory["N_last"])
    assert ratio == pytest.approx(float(default["C_2"]) / C)
    by_hand = float(default["C_2"]) * sqrt(log(2 * 4**1.5 / DELTA) / STEPS)
    assert value(default, "B_O") == pytest.approx(by_hand)
    assert max(default["B_O^(l)"]) == default["B_O"]


def test_monotone_in_delta_and_constants():
    loose, strict = bounds(tiny(), 0.1, c2=C), bounds(tiny(), 0.01, c2=C)
    for name in ("N_first", "N_last", "N_sm", "N_X", "SL-UCRL", "N_p (112), S = Y"):
        assert loose[name] < strict[name]
    assert bounds(tiny(), c1=0.5)["N_sm"] > bounds(tiny(), c1=1.0)["N_sm"]


def test_a_policy_makes_alpha_exact():
    world = tiny()
    assert bounds(world, policy=[0, 1, 1, 1], c2=C)["alpha_p"] == pytest.approx(0.4)
    hidden = bounds(world, policy=np.array([0, 1])[world.labels], c2=C)
    assert hidden["alpha_p"] == 1.0
    assert hidden["omega_min"] == (1.0, 1.0)
    never = bounds(world, policy=[0, 0, 0, 0], c2=C)
    assert never["omega_min"][1] is None
    assert "the given policy" in never.title


def test_prints_and_becomes_json():
    theory = bounds(draw(2), 0.05)
    names = [row.name for row in theory.rows]
    assert len(set(names)) == len(names)
    text = str(theory)
    for label in ("eq:firstlast", "eq:nl.condition1", "sec:rank", "cor:regret", "eq:prob.action"):
        assert label in text
    assert "C_1 = 1 assumed" in text
    content = json.loads(json.dumps(theory.to_dict(), allow_nan=False))
    assert set(content["quantities"]) == set(names)
    assert content["quantities"]["N_last"]["value"] == float(theory["N_last"])


def test_overflow_is_shown_and_is_not_infinity():
    theory = bounds(tiny(), 0.1, epsilon=0.001, g=0.01)
    assert theory["N_sm"].overflows
    assert "overflow (> 1e308)" in str(theory)
    content = json.loads(json.dumps(theory.to_dict(), allow_nan=False))["quantities"]
    assert content["N_sm"]["value"] == "overflow (> 1e308)"
    assert content["N_sm"]["log10"] > 308
    assert float(bounds(tiny(), 1e-300)["N_last"]) < np.inf


def test_worlds_that_break_the_assumptions_give_infinity_not_errors():
    cycle = ROMDP([[[0.0, 1.0]], [[1.0, 0.0]]], [[0.5], [0.5]], np.eye(2))
    stuck = ROMDP(np.eye(2)[:, None, :], [[0.0], [1.0]], np.eye(2))
    for world in (cycle, stuck):
        theory = bounds(world)
        assert theory["C_2"].is_infinite
        assert theory["N_last"].is_infinite
        assert "nan" not in str(theory).lower().split()
        json.dumps(theory.to_dict(), allow_nan=False)
    assert bounds(stuck)["SL-UCRL"].is_infinite


def test_a_single_hidden_state_and_an_mdp():
    single = ROMDP([[[1.0], [1.0]]], [[0.2, 0.4]], [[0.5, 0.5]])
    theory = bounds(single)
    assert theory["N_X"] == Magnitude.of(0)
    assert theory["SL-UCRL"] == theory["UCRL2 on hidden states"]
    mdp = MDP(TRANSITION, [[0.0, 0.5], [1.0, 0.2]])
    assert bounds(mdp)["D_Y"] == pytest.approx(bounds(mdp)["D_X"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"delta": 0.0}, "delta is 0"),
        ({"delta": 1.0}, "delta is 1"),
        ({"steps": 0}, "steps is 0"),
        ({"c1": 0.0}, "c1 is 0"),
        ({"c2": -1.0}, "c2 is -1"),
        ({"epsilon": 0.5}, "epsilon is 0.5"),
        ({"policy": [0, 1]}, "policy has shape"),
    ],
)
def test_refuses_what_makes_no_sense(arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        bounds(tiny(), **arguments)


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


TABLE = Table(
    "A title",
    (
        Row("One", "n", 12_345, "", "a count"),
        Row("One", "gap", 0.125, "cor:regret"),
        Row("Two", "huge", Magnitude.of(1e200) ** 2, "eq:BO", "too large"),
        Row("Two", "never", math.inf),
        Row("Two", "each", (0.5, None, Magnitude.of(math.inf))),
        Row("Two", "less", -3.5),
        Row("Two", "many", tuple(range(9))),
    ),
)


def test_prints_with_labels_in_a_column():
    assert str(TABLE).splitlines() == [
        "A title",
        "",
        "One",
        "  n      12,345                                    a count",
        "  gap    0.125                         cor:regret",
        "",
        "Two",
        "  huge   overflow (> 1e308): 10^400.0  eq:BO       too large",
        "  never  infinite",
        "  each   0.5, -, infinite",
        "  less   -3.5",
        "  many   0, 1, 2, 3, 4, 5, 6, 7, ...",
    ]


def test_json_has_no_nan_and_no_infinity():
    content = json.loads(json.dumps(TABLE.to_dict(), allow_nan=False))
    quantities = content["quantities"]
    assert quantities["n"] == {"value": 12_345, "label": "", "note": "a count"}
    assert quantities["huge"]["value"] == "overflow (> 1e308)"
    assert quantities["huge"]["log10"] == pytest.approx(400)
    assert quantities["never"]["value"] == "infinite"
    assert quantities["each"]["value"] == [0.5, None, "infinite"]


def test_lookup_suggests_the_nearest_name():
    assert TABLE["gap"] == 0.125
    with pytest.raises(UnknownNameError, match="did you mean 'gap'"):
        TABLE["gep"]
