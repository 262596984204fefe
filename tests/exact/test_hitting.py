import numpy as np
import pytest
from cases import MDPS, PROPERTY, all_policies, river, sparse_mdp
from hypothesis import given

from romdp.core.errors import InvalidInputError
from romdp.exact import hitting
from romdp.exact.chains import classes, period


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
    found = hitting.hitting_times(transition, longest=longest)
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
    found = hitting.hitting_times(transition, chances, longest=longest)
    expected = hitting.hitting_times(split, longest=longest)
    assert found[:, 0] == pytest.approx(expected[:-1, 0], rel=1e-9)
    whole = hitting.hitting_times(transition, longest=longest)
    assert np.array_equal(found[:, 1:], whole[:, 1:])


def test_a_hit_of_no_chance_never_comes():
    found = hitting.hitting_times(np.full((2, 1, 2), 0.5), chance=[0.0, 1.0])
    assert found.tolist() == [[np.inf, 2.0], [np.inf, 2.0]]
    found = hitting.hitting_times(np.full((2, 1, 2), 0.5), chance=[1e-320, 1e-3])
    assert found.tolist() == [[np.inf, 2000.0], [np.inf, 2000.0]]


@pytest.mark.parametrize("longest", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 0.02])
def test_hitting_times_of_many_states_solve_their_equation(longest, alpha):
    transition = np.random.default_rng(5).dirichlet(np.full(80, alpha), size=(80, 3))
    times = hitting.hitting_times(transition, longest=longest)
    before = times - np.diag(np.diag(times))
    ahead = 1 + np.einsum("xay,yt->xat", transition, before)
    target = ahead.max(axis=1) if longest else ahead.min(axis=1)
    assert np.abs(times / target - 1).max() < 1e-11
    if not longest:
        assert times.max() < 1e4


def test_a_sparse_matrix_gives_the_same_times(monkeypatch):
    rng = np.random.default_rng(8)
    transition, _ = sparse_mdp(rng, 60, 2, 0.04, False)
    transition = 0.9 * transition
    transition[np.arange(60), :, (np.arange(60) + 1) % 60] += 0.1  # so that all is reached
    assert (transition > 0).mean() < 0.1
    whole = hitting.hitting_times(transition)
    monkeypatch.setattr(hitting, "SPARSE", 0.0)
    assert hitting.hitting_times(transition) == pytest.approx(whole, rel=1e-12)


def test_the_river_takes_very_long_for_those_who_dawdle():
    n = 100
    transition, _ = river(n)
    longest = hitting.hitting_times(transition, longest=True)
    # Against the stream, by hand: the time from x to x + 1 is t = (1 + 0.9 t') / 0.05.
    steps = [1 / 0.05]
    for _ in range(n - 2):
        steps.append((1 + 0.9 * steps[-1]) / 0.05)
    assert longest[0, n - 1] == pytest.approx(sum(steps), rel=1e-11)
    assert longest[0, n - 1] > 1e120
    shortest = hitting.hitting_times(transition)
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
    longest = hitting.hitting_times(transition, longest=True)
    assert longest[0, 279] == np.inf
    assert not np.isnan(longest).any()
    assert np.isfinite(hitting.hitting_times(transition)).all()


def test_a_ring_is_walked_around():
    ring = np.roll(np.eye(7), 1, axis=1)[:, None, :]
    times = hitting.hitting_times(ring)
    gap = np.arange(7)[None, :] - np.arange(7)[:, None]
    assert np.array_equal(times, np.where(gap > 0, gap, gap + 7))


def test_reaching_with_some_chance_is_not_enough():
    # From 0 one gets to 1 or falls into 2 for ever; 1 goes to 0.
    transition = np.array([[[0.0, 0.5, 0.5]], [[1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]]])
    inf = np.inf
    expected = [[inf, inf, 3.0], [1.0, inf, 4.0], [inf, inf, 1.0]]
    assert hitting.hitting_times(transition) == pytest.approx(np.array(expected))
    assert hitting.hitting_times(transition, longest=True) == pytest.approx(np.array(expected))


def test_an_action_that_risks_a_trap_is_not_taken():
    # The fast way may end in the trap 2; the slow way is sure.
    transition = np.zeros((3, 2, 3))
    transition[0, 0] = [0.0, 0.9, 0.1]
    transition[0, 1] = [0.9, 0.1, 0.0]
    transition[1, :, 0] = 1.0
    transition[2, :, 2] = 1.0
    assert hitting.hitting_times(transition)[:, 1] == pytest.approx([10.0, 11.0, np.inf])


@pytest.mark.parametrize(
    ("chance", "message"),
    [
        ([0.5, 1.5], r"chance\[1\] is 1.5; pass probabilities in \[0, 1\]"),
        ([-0.1, 1.0], r"chance\[0\] is -0.1"),
        ([0.5], r"chance has shape \(1,\); it must be \(2,\)"),
        ([0.5, np.nan], r"chance\[1\] is nan"),
    ],
)
def test_bad_chances(chance, message):
    with pytest.raises(InvalidInputError, match=message):
        hitting.hitting_times(np.full((2, 1, 2), 0.5), chance)


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
    found = hitting.can_avoid(transition)
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
        found = hitting._distances(*hitting._graph(transition), target)
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
        graph = hitting._graph(transition)
        assert np.array_equal(hitting._endangered(*graph, target, trap), marked)


@given(MDPS)
@PROPERTY
def test_periodic_policy_is_found_by_trying_all(mdp):
    transition, _ = mdp
    if hitting.can_avoid(transition).any():
        return
    states = np.arange(len(transition))
    periods = [period(matrix, states) for _, matrix in all_policies(transition)]
    assert hitting.has_periodic_policy(transition) is (max(periods) > 1)


def test_periodic_policy_among_many_actions_and_a_case_too_large():
    # Two halves that alternate, unless action 1 in state 0 is taken; many actions are alike.
    transition = np.zeros((30, 3, 30))
    transition[:15, :, 15:] = transition[15:, :, :15] = 1 / 15
    transition[0, 1, :15], transition[0, 1, 15:] = 0.0, 0.0
    transition[0, 1] = 1 / 30
    assert hitting.has_periodic_policy(transition)
    assert not hitting.has_periodic_policy(transition[:, [1, 1, 1]])
    transition[:, 2] = 0.0
    transition[np.arange(30), 2, (np.arange(30) + 1) % 30] = 1.0
    assert hitting.has_periodic_policy(transition) is None
    transition[4, :, 4] += 1.0  # one state that may always stay settles it
    transition[4] /= 2
    assert hitting.has_periodic_policy(transition) is False
