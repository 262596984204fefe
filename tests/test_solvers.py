import itertools

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from scipy.optimize import linprog

from romdp import solvers
from romdp.chains import classes, gain_and_bias, period
from romdp.errors import InvalidInputError


def sparse_mdp(rng, n_states, n_actions, density, whole_rewards):
    """Draw an MDP with random supports; with whole rewards many actions tie."""
    shape = (n_states, n_actions, n_states)
    weights = rng.integers(1, 4, shape) * (rng.random(shape) < density)
    weights = weights.astype(float)
    lucky = rng.integers(n_states, size=shape[:2])
    weights[np.arange(n_states)[:, None], np.arange(n_actions), lucky] += 1
    reward = rng.integers(0, 2, shape[:2]) if whole_rewards else rng.random(shape[:2])
    return weights / weights.sum(axis=2, keepdims=True), reward.astype(float)


PROPERTY = settings(max_examples=80, deadline=None)  # compiling takes a while the first time
MDPS = st.builds(
    lambda seed, n_states, n_actions, density, whole: sparse_mdp(
        np.random.default_rng(seed), n_states, n_actions, density, whole
    ),
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    st.booleans(),
)


def all_policies(transition):
    n_states, n_actions, _ = transition.shape
    for actions in itertools.product(range(n_actions), repeat=n_states):
        yield np.array(actions), transition[np.arange(n_states), actions]


def river(n_states, left=0.005, sure_left=False):
    """Swim left with the stream or right against it; right is better and far away."""
    transition = np.zeros((n_states, 2, n_states))
    for x in range(n_states):
        down, up = max(x - 1, 0), min(x + 1, n_states - 1)
        for action, (p_down, p_stay) in enumerate([(0.9, 0.05), (0.05, 0.6)]):
            transition[x, action, down] += p_down
            transition[x, action, x] += p_stay
            transition[x, action, up] += 1 - p_down - p_stay
    if sure_left:
        transition[:, 0] = 0.0
        transition[np.arange(n_states), 0, np.maximum(np.arange(n_states) - 1, 0)] = 1.0
    reward = np.zeros((n_states, 2))
    reward[0, 0], reward[-1, 1] = left, 1.0
    return transition, reward


# --- policy iteration ---


@given(MDPS)
@PROPERTY
def test_gain_is_the_best_of_all_policies(mdp):
    transition, reward = mdp
    states = np.arange(len(reward))
    best = np.full(len(reward), -np.inf)
    for actions, matrix in all_policies(transition):
        best = np.maximum(best, gain_and_bias(matrix, reward[states, actions])[0])
    found = solvers.policy_iteration(transition, reward)
    assert found.gain == pytest.approx(best, abs=1e-9)
    own_gain, own_bias = gain_and_bias(
        transition[states, found.policy], reward[states, found.policy]
    )
    assert found.gain == pytest.approx(own_gain, abs=1e-12)
    assert found.bias == pytest.approx(own_bias, abs=1e-9)
    assert found.residual < 1e-9


@given(MDPS)
@PROPERTY
def test_solution_solves_the_optimality_equations(mdp):
    transition, reward = mdp
    found = solvers.policy_iteration(transition, reward)
    gains = transition @ found.gain
    assert gains.max(axis=1) == pytest.approx(found.gain, abs=1e-10)
    totals = np.where(gains > found.gain[:, None] - 1e-10, reward + transition @ found.bias, -1e9)
    assert totals.max(axis=1) == pytest.approx(found.gain + found.bias, abs=1e-9)


@given(st.integers(0, 10**6))
@PROPERTY
def test_gain_agrees_with_relative_value_iteration(seed):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.full(6, 0.3), size=(6, 3))
    reward = rng.random((6, 3))
    # Staying put half the time changes no gain and takes the periods away.
    lazy = (transition + np.eye(6)[:, None]) / 2
    values = np.zeros(6)
    for _ in range(5000):
        change = (reward + lazy @ values).max(axis=1) - values
        values = values + change - change[0]
        if np.ptp(change) < 1e-11:
            break
    assert np.ptp(change) < 1e-11
    assert solvers.policy_iteration(transition, reward).gain == pytest.approx(change, abs=1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_gain_agrees_with_the_linear_programme(seed):
    # Multichain dual (Puterman 1994, section 9.3): least sum of g with g >= P g, g + h >= r + P h.
    transition, reward = sparse_mdp(np.random.default_rng(seed), 6, 2, 0.1, False)
    flow = np.repeat(np.eye(6), 2, axis=0) - transition.reshape(12, 6)
    stay = np.repeat(np.eye(6), 2, axis=0)
    upper = -np.block([[flow, np.zeros((12, 6))], [stay, flow]])
    limits = -np.concatenate([np.zeros(12), reward.ravel()])
    cost = np.concatenate([np.ones(6), np.zeros(6)])
    programme = linprog(cost, upper, limits, bounds=(None, None), method="highs")
    assert programme.success
    assert solvers.policy_iteration(transition, reward).gain == pytest.approx(
        programme.x[:6], abs=1e-7
    )


@pytest.mark.parametrize("sure_left", [False, True])
def test_the_long_river_is_swum_to_its_end(sure_left):
    transition, reward = river(200, sure_left=sure_left)
    found = solvers.policy_iteration(transition, reward)
    assert found.policy.tolist() == [1] * 200
    # Under "right" the stationary law falls by 1/7 per state from the last one.
    assert found.gain == pytest.approx(np.full(200, 6 / 7), abs=1e-12)
    assert found.residual < 1e-9


@pytest.mark.parametrize("rarity", [1e-3, 1e-6, 1e-9, 1e-12])
def test_rare_ways_between_two_halves(rarity):
    transition = np.zeros((4, 2, 4))
    for x, a in itertools.product(range(4), range(2)):
        half = 2 * (x // 2)
        transition[x, a, half : half + 2] = [0.25, 0.75] if a else [0.5, 0.5]
    transition[1, 1] = [0.5, 0.5 - rarity, rarity, 0.0]
    reward = np.array([[0.1, 0.1], [0.2, 0.1], [0.5, 0.6], [0.9, 0.3]])
    found = solvers.policy_iteration(transition, reward)
    assert found.policy[1] == 1  # it costs now, and pays for ever
    assert np.ptp(found.gain) < 1e-9


def test_a_gain_that_depends_on_the_start():
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 2] = 1.0
    transition[1, :, 1] = transition[2, :, 2] = 1.0
    reward = np.array([[1.0, 0.0], [0.2, 0.1], [0.6, 0.7]])
    found = solvers.policy_iteration(transition, reward)
    assert found.gain.tolist() == [0.7, 0.2, 0.7]
    assert found.policy.tolist() == [1, 0, 1]


def test_ties_go_to_the_lowest_action():
    rng = np.random.default_rng(0)
    transition = np.repeat(rng.dirichlet(np.ones(5), size=(5, 1)), 4, axis=1)
    reward = np.tile([0.1, 0.5, 0.5, 0.2], (5, 1))
    assert solvers.policy_iteration(transition, reward).policy.tolist() == [1] * 5
    # Two ways of equal worth, found from a start that prefers the second.
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 2] = 1.0
    transition[1, :, 0] = transition[2, :, 0] = 1.0
    reward = np.array([[0.0, 0.5], [0.5, 0.5], [0.0, 0.0]])
    assert solvers.policy_iteration(transition, reward).policy.tolist() == [0, 0, 0]


def test_one_state():
    found = solvers.policy_iteration(np.ones((1, 2, 1)), np.array([[0.25, 0.75]]))
    assert (found.gain.tolist(), found.bias.tolist(), found.policy.tolist()) == ([0.75], [0], [1])


# --- hitting times ---


def plain_policy_times(matrix, target):
    """Expected first-passage times of one chain; inf where it may never get there."""
    n = len(matrix)
    without = matrix.copy()
    without[:, target] = 0.0
    reach = np.linalg.matrix_power(np.eye(n) + (matrix > 0), n) > 0  # who can get where
    moved = np.linalg.matrix_power(np.eye(n) + (without > 0), n) > 0
    hits = np.array([(matrix[moved[x], target] > 0).any() for x in range(n)])
    sure = np.array([hits[moved[x]].all() for x in range(n)])
    assert (~hits | reach[:, target]).all()
    times = np.full(n, np.inf)
    inner = without[np.ix_(sure, sure)]
    times[sure] = np.linalg.solve(np.eye(sure.sum()) - inner, np.ones(sure.sum()))
    return times


def plain_hitting_times(transition, longest):
    n = len(transition)
    worst = np.full((n, n), 0.0 if longest else np.inf)
    for _, matrix in all_policies(transition):
        times = np.column_stack([plain_policy_times(matrix, target) for target in range(n)])
        worst = np.maximum(worst, times) if longest else np.minimum(worst, times)
    return worst


@pytest.mark.parametrize("longest", [False, True])
@given(mdp=MDPS)
@PROPERTY
def test_hitting_times_are_the_best_of_all_policies(longest, mdp):
    transition, _ = mdp
    found = solvers.hitting_times(transition, longest=longest)
    assert found == pytest.approx(plain_hitting_times(transition, longest), rel=1e-9)


@pytest.mark.parametrize("longest", [False, True])
@given(mdp=MDPS)
@PROPERTY
def test_hits_by_chance_equal_a_split_state(longest, mdp):
    # State 0 shows one of two faces; to hit the first is to reach a state of its own.
    transition, _ = mdp
    chance = 0.3
    split = np.concatenate([transition, transition[:1]])
    split = np.concatenate([split, split[:, :, :1] * (1 - chance)], axis=2)
    split[:, :, 0] *= chance
    chances = np.ones(len(transition))
    chances[0] = chance
    found = solvers.hitting_times(transition, chances, longest=longest)
    expected = solvers.hitting_times(split, longest=longest)
    assert found[:, 0] == pytest.approx(expected[:-1, 0], rel=1e-9)
    whole = solvers.hitting_times(transition, longest=longest)
    assert np.array_equal(found[:, 1:], whole[:, 1:])


def test_a_hit_of_no_chance_never_comes():
    found = solvers.hitting_times(np.full((2, 1, 2), 0.5), chance=[0.0, 1.0])
    assert found.tolist() == [[np.inf, 2.0], [np.inf, 2.0]]
    found = solvers.hitting_times(np.full((2, 1, 2), 0.5), chance=[1e-320, 1e-3])
    assert found.tolist() == [[np.inf, 2000.0], [np.inf, 2000.0]]


@pytest.mark.parametrize("longest", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 0.02])
def test_hitting_times_of_many_states_solve_their_equation(longest, alpha):
    transition = np.random.default_rng(5).dirichlet(np.full(80, alpha), size=(80, 3))
    times = solvers.hitting_times(transition, longest=longest)
    before = times - np.diag(np.diag(times))
    ahead = 1 + np.einsum("xay,yt->xat", transition, before)
    target = ahead.max(axis=1) if longest else ahead.min(axis=1)
    assert np.abs(times / target - 1).max() < 1e-11
    if not longest:
        assert times.max() < 1e4


@pytest.mark.parametrize("longest", [False, True])
def test_sweeps_and_policy_iteration_agree(longest):
    transition = np.random.default_rng(6).dirichlet(np.ones(25), size=(25, 3))
    targets = np.arange(25)
    pairs = transition.reshape(-1, 25)
    swept = solvers._sweep(pairs, np.ones((25, 25)), targets, longest)
    everywhere, way = np.ones(25, bool), np.ones(25, np.int64)
    for target in range(25):
        direct = solvers._passage_times(transition, pairs, target, way, everywhere, longest)
        assert swept[:, target] == pytest.approx(direct, rel=1e-11)


def test_sweeps_of_a_sparse_matrix_in_blocks(monkeypatch):
    rng = np.random.default_rng(8)
    transition, _ = sparse_mdp(rng, 60, 2, 0.04, False)
    transition = 0.9 * transition
    transition[np.arange(60), :, (np.arange(60) + 1) % 60] += 0.1  # so that all is reached
    assert (transition > 0).mean() < 0.1
    whole = solvers.hitting_times(transition)
    monkeypatch.setattr(solvers, "_BLOCK", 60 * 2 * 7)
    assert solvers.hitting_times(transition) == pytest.approx(whole, rel=1e-10)
    monkeypatch.setattr(solvers, "_SWEEPS", 0)  # everything by policy iteration
    assert solvers.hitting_times(transition) == pytest.approx(whole, rel=1e-9)


def test_the_river_takes_very_long_for_those_who_dawdle():
    n = 200
    transition, _ = river(n)
    longest = solvers.hitting_times(transition, longest=True)
    # Against the stream, by hand: the time from x to x + 1 is t = (1 + 0.9 t') / 0.05.
    steps = [1 / 0.05]
    for _ in range(n - 2):
        steps.append((1 + 0.9 * steps[-1]) / 0.05)
    assert longest[0, n - 1] == pytest.approx(sum(steps), rel=1e-11)
    assert longest[0, n - 1] > 1e240
    shortest = solvers.hitting_times(transition)
    up = [1 / 0.35]
    for _ in range(n - 2):
        up.append((1 + 0.05 * up[-1]) / 0.35)
    assert shortest[0, n - 1] == pytest.approx(sum(up), rel=1e-11)
    down = [1 / 0.9]
    for _ in range(n - 2):
        down.append((1 + 0.05 * down[-1]) / 0.9)
    assert shortest[n - 1, 0] == pytest.approx(sum(down), rel=1e-11)


def test_times_beyond_the_largest_number_are_infinite():
    transition, _ = river(280)
    longest = solvers.hitting_times(transition, longest=True)
    assert longest[0, 279] == np.inf
    assert not np.isnan(longest).any()
    assert np.isfinite(solvers.hitting_times(transition)).all()


def test_a_ring_is_walked_around():
    ring = np.roll(np.eye(7), 1, axis=1)[:, None, :]
    times = solvers.hitting_times(ring)
    gap = np.arange(7)[None, :] - np.arange(7)[:, None]
    assert np.array_equal(times, np.where(gap > 0, gap, gap + 7))


def test_reaching_with_some_chance_is_not_enough():
    # From 0 one gets to 1 or falls into 2 for ever; 1 goes to 0.
    transition = np.array([[[0.0, 0.5, 0.5]], [[1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]]])
    inf = np.inf
    expected = [[inf, inf, 3.0], [1.0, inf, 4.0], [inf, inf, 1.0]]
    assert solvers.hitting_times(transition) == pytest.approx(np.array(expected))
    assert solvers.hitting_times(transition, longest=True) == pytest.approx(np.array(expected))


def test_an_action_that_risks_a_trap_is_not_taken():
    # The fast way may end in the trap 2; the slow way is sure.
    transition = np.zeros((3, 2, 3))
    transition[0, 0] = [0.0, 0.9, 0.1]
    transition[0, 1] = [0.9, 0.1, 0.0]
    transition[1, :, 0] = 1.0
    transition[2, :, 2] = 1.0
    assert solvers.hitting_times(transition)[:, 1] == pytest.approx([10.0, 11.0, np.inf])


@pytest.mark.parametrize(
    ("chance", "message"),
    [
        ([0.5, 1.5], r"chance\[1\] is 1.5; pass chances in \[0, 1\]"),
        ([-0.1, 1.0], r"chance\[0\] is -0.1"),
        ([0.5], r"chance has shape \(1,\); it must be \(2,\)"),
        ([0.5, np.nan], r"chance\[1\] is nan"),
    ],
)
def test_bad_chances(chance, message):
    with pytest.raises(InvalidInputError, match=message):
        solvers.hitting_times(np.full((2, 1, 2), 0.5), chance)


# --- what policies can avoid, and periods ---


def plain_avoiding(transition, target):
    inside = np.arange(len(transition)) != target
    while True:
        stays = (transition[:, :, ~inside] == 0).all(axis=2).any(axis=1)
        if np.array_equal(inside, inside & stays):
            return inside
        inside &= stays


@given(MDPS)
@PROPERTY
def test_can_avoid_equals_its_plain_form_and_decides_irreducibility(mdp):
    transition, _ = mdp
    found = solvers.can_avoid(transition)
    for target in range(len(transition)):
        assert np.array_equal(found[target], plain_avoiding(transition, target))
    irreducible = all(
        len(split.recurrent) == 1 and not split.transient.size
        for split in (classes(matrix) for _, matrix in all_policies(transition))
    )
    assert irreducible == (not found.any())


def plain_distances(transition, target):
    """Layer by layer, anew whenever a state without a sure way has been found."""
    n = len(transition)
    banned = np.zeros(n, bool)
    while True:
        fine = (transition[:, :, banned] == 0).all(axis=2)
        distance = np.full(n, -1)
        layer = np.arange(n) == target
        for steps in range(1, n + 2):
            near = ((transition[:, :, layer] > 0).any(axis=2) & fine).any(axis=1)
            layer = near & (distance < 0)
            distance[layer] = steps
        lost = (distance < 0) & (np.arange(n) != target)
        if np.array_equal(lost, banned):
            return distance
        banned = lost


@given(MDPS)
@PROPERTY
def test_distances_equal_their_plain_form(mdp):
    transition, _ = mdp
    for target in range(len(transition)):
        found = solvers._distances(*solvers._graph(transition), target)
        assert np.array_equal(found, plain_distances(transition, target))


@given(MDPS)
@PROPERTY
def test_endangered_states_are_those_that_can_get_into_the_trap(mdp):
    transition, _ = mdp
    for target in range(len(transition)):
        trap = plain_avoiding(transition, target)
        marked = trap.copy()
        for _ in range(len(transition)):
            through = marked & (np.arange(len(transition)) != target)
            marked |= (transition[:, :, through] > 0).any(axis=(1, 2))
        graph = solvers._graph(transition)
        assert np.array_equal(solvers._endangered(*graph, target, trap), marked)


@given(MDPS)
@PROPERTY
def test_periodic_policy_is_found_by_trying_all(mdp):
    transition, _ = mdp
    if solvers.can_avoid(transition).any():
        return
    states = np.arange(len(transition))
    periods = [period(matrix, states) for _, matrix in all_policies(transition)]
    exists, policy = solvers.periodic_policy(transition)
    assert exists == (max(periods) > 1)
    assert (policy is not None) == exists
    if policy is not None:
        assert period(transition[states, policy], states) > 1


def test_periodic_policy_among_many_actions_and_a_case_too_large():
    # Two halves that alternate, unless action 1 in state 0 is taken; many actions are alike.
    transition = np.zeros((30, 3, 30))
    transition[:15, :, 15:] = transition[15:, :, :15] = 1 / 15
    transition[0, 1, :15], transition[0, 1, 15:] = 0.0, 0.0
    transition[0, 1] = 1 / 30
    exists, policy = solvers.periodic_policy(transition)
    assert exists
    assert policy is not None
    assert policy[0] != 1
    transition[:, 2] = 0.0
    transition[np.arange(30), 2, (np.arange(30) + 1) % 30] = 1.0
    assert solvers.periodic_policy(transition) == (None, None)
    transition[4, :, 4] += 1.0  # one state that may always stay settles it
    transition[4] /= 2
    assert solvers.periodic_policy(transition) == (False, None)
