import numpy as np
import pytest
from scipy.special import xlogy
from scipy.stats import chi2, kstest, ncx2

from romdp.clustering.clusterer import Evidence
from romdp.clustering.homogeneity import Homogeneity, JointTest, _two_samples
from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.exact.romdp import ROMDP
from romdp.worlds import random_romdp, simulate

LABELS = [0, 0, 1, 1, 2, 2]
MOVES = np.array([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6], [0.2, 0.7, 0.1]])
LAWS = MOVES[:, LABELS] * [0.6, 0.4, 0.5, 0.5, 0.7, 0.3]


def _counts(visits, labels, rng, laws=LAWS, rewards=(0.2, 0.2, 0.2)):
    """Counts of six observations, two of each of three hidden states, under one action."""
    moves = np.array([rng.multinomial(n, laws[x]) for n, x in zip(visits, labels, strict=True)])
    paid = [rng.binomial(n, rewards[x]) for n, x in zip(visits, labels, strict=True)]
    sums = np.array(paid, float)[:, None]
    return Counts(np.array(visits)[:, None], moves[:, None], sums, sums)


def _test(counts, level=1e-4, resolution=0.3):
    return JointTest(counts, level, resolution)


def _plain_alike(counts, level, resolution):
    """The test by its definition, pair by pair and view by view."""
    moves = counts.dense().transitions.astype(float)
    size, n_actions = moves.shape[:2]
    views = [*np.moveaxis(moves, 1, 0), moves.sum(axis=1).T]
    pairs = [[[_plain_chi2(x, y) for x in rows] for y in rows] for rows in views]
    actions = range(n_actions)
    pairs += [
        [[_plain_reward(counts, i, j, action) for i in range(size)] for j in range(size)]
        for action in actions
    ]
    typical = [max(_plain_typical(pair), 0.02) for pair in pairs]
    doubt = 1e-3 / len(pairs)
    alike = np.zeros((size, size), bool)
    for i in range(size):
        for j in range(size):
            parts = [pair[i][j] for pair in pairs]
            t, d, smaller = (sum(part[k] for part in parts) for k in range(3))
            excess = sum(
                w * part[3] * part[4] / (part[3] + part[4])
                for w, part in zip(typical, parts, strict=True)
                if part[3] * part[4]
            )
            objected = any(d > 0 and chi2.sf(least, d) <= doubt for _, d, least, *_ in parts)
            if i == j or d == 0 or objected:
                continue
            small = ncx2.cdf(max(t, d), d, resolution * excess) < level
            alike[i, j] = small and chi2.sf(smaller, d) > 1e-3
    return alike


def _plain_chi2(x, y):
    """Pearson's chi-square, its degrees of freedom, the smaller of its two forms, n and m."""
    n, m = x.sum(), y.sum()
    if n < 1 or m < 1:
        return 0.0, 0.0, 0.0, n, m
    seen = x + y > 0
    table = np.array([x[seen], y[seen]])
    expected = np.outer([n, m], table.sum(axis=0)) / (n + m)
    pearson = ((table - expected) ** 2 / expected).sum()
    ratio = 2 * xlogy(table, table / expected).sum()
    return pearson, seen.sum() - 1, min(pearson, ratio), n, m


def _plain_typical(pairs):
    total = weights = 0.0
    for i in range(len(pairs)):
        for j in range(i):
            t, d, _, n, m = pairs[i][j]
            if n >= 1 and m >= 1:
                weight = n / (n + 50) * m / (m + 50)
                total += weight * (t - d) * (1 / n + 1 / m)
                weights += weight
    return total / weights if weights else 0.0


def _plain_reward(counts, i, j, action):
    n, m = counts.visits[[i, j], action]
    gap = abs(counts.reward_means[i, action] - counts.reward_means[j, action])
    if n < 1 or m < 1:
        return 0.0, 0.0, 0.0, n, m
    if gap <= 1e-9:
        return 0.0, 1.0, 0.0, n, m
    mean = counts.reward_sums[[i, j], action].sum() / (n + m)
    variance = counts.reward_squares[[i, j], action].sum() / (n + m) - mean**2
    t = gap**2 / (variance * (1 / n + 1 / m))
    return t, 1.0, t, n, m


@pytest.mark.parametrize("steps", [200, 2000, 8000, 30_000])
@pytest.mark.parametrize("seed", range(3))
def test_the_test_agrees_with_its_definition(steps, seed):
    world = random_romdp(3, 2, 9, seed=seed)
    counts = Counts.from_trajectory(simulate(world, "uniform", steps, seed=seed))
    for level, resolution in ((1e-4, 0.3), (0.01, 0.6)):
        expected = _plain_alike(counts, level, resolution)
        for stored in (counts, counts.sparse()):
            np.testing.assert_array_equal(_test(stored, level, resolution).alike, expected)


def test_the_kernel_is_the_chi_square_of_two_samples():
    rng = np.random.default_rng(0)
    rows = rng.poisson(rng.gamma(0.4, 4, size=(20, 12))).astype(np.int64)
    rows[3], rows[4] = 0, np.arange(12) == 5
    first, second = np.triu_indices(20, 1)
    starts = np.concatenate([[0], np.cumsum((rows > 0).sum(axis=1))])
    outcomes, counts = np.nonzero(rows)[1], rows[rows > 0]
    totals = rows.sum(axis=1).astype(float)
    found = _two_samples(first, second, starts, outcomes, counts, 1, 0, totals)
    expected = [_plain_chi2(rows[i], rows[j])[:3] for i, j in zip(first, second, strict=True)]
    np.testing.assert_allclose(np.transpose(found), expected, rtol=1e-9, atol=1e-9)


def test_rare_outcomes_do_not_tell_equal_laws_apart():
    """Pearson's chi-square alone has probabilities below 1e-6 in some 150 of these 5,000 pairs."""
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.full(20, 0.2))
    small, large = rng.multinomial(5, law, size=5000), rng.multinomial(20_000, law, size=5000)
    found = [_plain_chi2(x, y) for x, y in zip(small, large, strict=True)]
    pearson, degrees, smaller = np.transpose(found)[:3]
    assert (chi2.sf(pearson, degrees) < 1e-6).sum() > 50
    assert not (chi2.sf(smaller, degrees) < 1e-6).any()


def test_rare_rewards_do_not_tell_equal_means_apart():
    """Two zeros of ten where 985 of 1,000 pay: one pair in a hundred, not one in 10^5."""
    counts = Counts([[10000], [10]], [[[10000, 0]], [[10, 0]]], [[9850.0], [8]], [[9850.0], [8]])
    rewards = _test(counts)._views[-1]
    statistic, degrees, least = (float(x[0]) for x in rewards.compare(np.array([0]), np.array([1])))
    assert (degrees, statistic > 20, chi2.sf(least, degrees) > 0.01) == (1, True, True)


def test_groups_of_one_state_pass_and_others_do_not():
    test = _test(_counts([3000] * 6, LABELS, np.random.default_rng(0)))
    assert test.alike[0].tolist() == [False, True, False, False, False, False]
    assert Partition(test.classes(np.arange(6))) == Partition(LABELS)
    assert test.count_states(np.arange(6)) == (3, 3)
    assert test.count_states(np.array([0, 1, 4])) == (2, 2)


def test_what_was_hardly_seen_is_never_known_to_be_alike():
    rng = np.random.default_rng(0)
    laws = MOVES[:, LABELS] * [1.0, 0.0, 0.5, 0.5, 0.7, 0.3]  # and hardly ever reached
    for seen in (0, 1, 2, 5, 20):
        test = _test(_counts([3000, seen, 3000, 3000, 3000, 3000], LABELS, rng, laws))
        assert not test.alike[1].any()
    # Nor is it known to be different: the number of states is not certain.
    least, most = test.count_states(np.array([0, 1, 2, 3]))
    assert (least, most) == (2, 3)


@pytest.mark.parametrize("visits", [30, 100, 300, 1000, 3000])
def test_different_states_are_never_called_alike(visits):
    # 100 trials at level 1e-4 at the difference to be ruled out; these are farther apart, so the
    # chance of even one false alarm is below 1e-4.
    rng = np.random.default_rng(visits)
    laws = LAWS.copy()
    laws[2] = 0.3 * LAWS[0] + 0.7 * LAWS[2]
    for _ in range(100):
        test = _test(_counts([visits] * 6, LABELS, rng, laws))
        assert not test.alike[:2, 2:].any()


def test_chances_are_uniform_for_equal_laws():
    rng = np.random.default_rng(1)
    chances = []
    for _ in range(400):
        test = _test(_counts([400, 150, 5, 5, 5, 5], LABELS, rng))
        t, d, _ = test._views[0].compare(np.array([0]), np.array([1]))
        chances.append(chi2.sf(t[0], d[0]))
    # A right law gives a Kolmogorov distance above 0.12 once in 50,000 times (n = 400).
    assert kstest(chances, "uniform").statistic < 0.12


def test_rewards_alone_object():
    """States 0 and 2 move alike and are reached alike."""
    moves = np.array([[0.4, 0.2, 0.4], [0.15, 0.7, 0.15], [0.4, 0.2, 0.4]])
    laws = moves[:, LABELS] / 2
    for rewards, expected in (((0.2, 0.2, 0.4), False), ((0.2, 0.2, 0.2), True)):
        counts = _counts([2000] * 6, LABELS, np.random.default_rng(3), laws, rewards)
        assert _test(counts).alike[0, 4] == expected


def test_what_came_before_alone_objects():
    """Observations 0 and 1 lead to the same, but are reached from different ones."""
    moves = np.zeros((4, 1, 4), int)
    moves[:, 0] = [[0, 0, 500, 500], [0, 0, 500, 500], [900, 100, 0, 0], [100, 900, 0, 0]]
    zeros = np.zeros((4, 1))
    assert not _test(Counts(moves.sum(axis=2), moves, zeros, zeros)).alike.any()
    moves[2:, 0, :2] = 500
    assert _test(Counts(moves.sum(axis=2), moves, zeros, zeros)).alike[0, 1]


def test_where_all_are_alike_the_typical_difference_has_a_floor():
    test = _test(_counts([10**6] * 6, [0] * 6, np.random.default_rng(6)))
    assert test.classes(np.arange(6)).size == 6
    assert test.alike.sum() == 30


def test_certain_moves_are_compared():
    """States 0 and 1 lead to observations 4 and 5 for sure, and these back to either."""
    moves = np.zeros((6, 1, 6), int)
    moves[:2, 0, 4] = moves[2:4, 0, 5] = 1000
    moves[4:, 0, :4] = [500, 500, 500, 500]
    moves[5, 0, :4] = [800, 800, 200, 200]
    zeros = np.zeros((6, 1))
    test = _test(Counts(moves.sum(axis=2), moves, zeros, zeros))
    assert Partition(test.classes(np.arange(6))) == Partition([0, 0, 1, 1, 2, 3])


# The clusterer.


def _regroup(homogeneity, counts, previous=None, step=None):
    start = Partition.singletons(counts.n_observations) if previous is None else previous
    evidence = Evidence(counts, step=step or counts.n_steps)
    return homogeneity.regroup(evidence, start, np.random.default_rng(0))


@pytest.mark.parametrize("seed", range(6))
def test_hidden_states_are_found_and_never_mixed(seed):
    """At delta = 0.05 over all looks; none of 200 other worlds was grouped wrongly."""
    world = random_romdp(4, 3, 20, seed=seed)
    truth = Partition(world.labels)
    found = Partition.singletons(20)
    for steps in (300, 1000, 3000, 10_000, 50_000):
        counts = Counts.from_trajectory(simulate(world, "uniform", steps, seed=seed))
        found = _regroup(Homogeneity(), counts, found)
        assert found.refines(truth)
    assert found == truth


def nearly_equal(n_observations, seed, columns=False):
    """A world whose states 0 and 1 move, and with ``columns`` are reached, nearly alike."""
    base = random_romdp(5, 4, n_observations, seed=seed)
    transition = base.transition.copy()
    transition[1] = 0.85 * transition[0] + 0.15 * transition[1]
    if columns:
        both = transition[..., 0] + transition[..., 1]
        share = 0.5 + 0.15 * (transition[..., 0] / both - 0.5)
        transition[..., 0], transition[..., 1] = share * both, (1 - share) * both
    return ROMDP(transition, base.reward, base.emission)


@pytest.mark.parametrize("columns", [False, True])
def test_nearly_equal_states_are_not_merged(columns):
    for seed in range(3):
        world = nearly_equal(15, seed, columns)
        for steps in (2000, 10_000, 40_000):
            counts = Counts.from_trajectory(simulate(world, "uniform", steps, seed=seed))
            assert _regroup(Homogeneity(), counts).refines(Partition(world.labels))


def test_the_level_falls_with_steps_and_groups():
    counts = _counts([600] * 6, LABELS, np.random.default_rng(0))
    early = JointTest.at_step(counts, 1, 0.3, 0.06)
    assert early._level == pytest.approx(0.01)
    late = JointTest.at_step(counts, 2**9, 0.3, 0.06)
    assert late._level == pytest.approx(0.0001)


def test_delta_and_resolution_decide_how_much_data_is_needed():
    counts = _counts([150] * 6, LABELS, np.random.default_rng(1))
    merged = [
        _regroup(Homogeneity(resolution, delta), counts).n_clusters
        for resolution, delta in ((0.5, 0.5), (0.5, 1e-12), (0.02, 0.5))
    ]
    assert merged[0] == 3
    assert merged[1] > 3
    assert merged[2] > 3


def test_a_known_number_of_states_is_never_undercut():
    counts = _counts([3000] * 6, LABELS, np.random.default_rng(0))
    assert _regroup(Homogeneity(n_states=3), counts).n_clusters == 3
    assert _regroup(Homogeneity(n_states=4), counts) == Partition.singletons(6)


def test_groups_so_far_stay_together_and_unseen_observations_stay_out():
    counts = _counts([3000] * 6, LABELS, np.random.default_rng(0))
    found = _regroup(Homogeneity(), counts, Partition([0, 1, 2, 2, 3, 4]))
    assert found == Partition(LABELS)
    found = _regroup(Homogeneity(), counts, Partition([0, 1, 2, 3, 4, -1]))
    assert found == Partition([0, 0, 1, 1, 2, -1])


def test_a_false_merge_comes_apart():
    counts = _counts([3000] * 6, LABELS, np.random.default_rng(0))
    for wrong in ([0, 0, 0, 0, 0, 0], [0, 1, 0, 1, 2, 2], [0, 0, 1, 1, 1, 2]):
        for homogeneity in (Homogeneity(), Homogeneity(n_states=3)):
            assert _regroup(homogeneity, counts, Partition(wrong)) == Partition(LABELS)
    # Counts of groups cannot be split.
    wrong = Partition([0, 1, 0, 1, 2, 2])
    assert _regroup(Homogeneity(), counts.group(wrong), wrong) == wrong
    # What only the reward of one action tells apart comes apart as well.
    laws = np.array([[0.4, 0.2, 0.4], [0.15, 0.7, 0.15], [0.4, 0.2, 0.4]])[:, LABELS] / 2
    counts = _counts([2000] * 6, LABELS, np.random.default_rng(3), laws, (0.2, 0.2, 0.4))
    assert _regroup(Homogeneity(), counts, Partition([0, 0, 1, 1, 0, 0])) == Partition(LABELS)


@pytest.mark.parametrize("seed", range(3))
def test_true_groups_stay_together(seed):
    """A true pair is told apart at one of the looks with probability 0.05 at most."""
    world = random_romdp(4, 3, 20, seed=seed)
    truth = Partition(world.labels)
    for steps in np.geomspace(3000, 100_000, 15).astype(int):
        counts = Counts.from_trajectory(simulate(world, "uniform", steps, seed=seed))
        assert truth.refines(_regroup(Homogeneity(), counts, truth))


def test_what_is_rare_joins_whom_it_resembles_for_the_time_being():
    rng = np.random.default_rng(0)
    for state in range(3):
        labels = [0, 0, 1, 1, 2, 2, state]
        laws = MOVES[:, labels] * [0.6, 0.4, 0.5, 0.5, 0.7, 0.3, 0.0]
        moves = np.array(
            [rng.multinomial(n, laws[x]) for n, x in zip([3000] * 6 + [9], labels, strict=True)]
        )
        moves[:, 6] = [round(2 * MOVES[x, state]) for x in labels]
        sums = np.zeros((7, 1))
        counts = Counts(moves.sum(axis=1, keepdims=True), moves[:, None], sums, sums)
        start = Partition([0, 0, 1, 1, 2, 2, 3])
        assert _regroup(Homogeneity(), counts, start) == Partition(labels)
        # It is judged anew at every look.
        assert _regroup(Homogeneity(), counts, Partition([0, 0, 1, 1, 2, 2, 1])) == Partition(
            labels
        )
        # Where all observations are alone there is nobody to join.
        singles = Partition.singletons(7)
        assert _regroup(Homogeneity(), counts, singles).labels[6] not in (0, 1, 2)
    assert _regroup(Homogeneity(n_states=4), counts, start) == start


def test_what_is_rare_joins_the_only_other_observation_of_its_state():
    """Once it has left its group, the other one is alone as well, and is a home all the same."""
    laws = MOVES[:, LABELS] * [0.6, 0.4, 0.5, 0.5, 0.993, 0.007]
    counts = _counts([3000] * 5 + [22], LABELS, np.random.default_rng(0), laws)
    assert _regroup(Homogeneity(), counts, Partition(LABELS)) == Partition(LABELS)


def test_a_group_of_which_all_is_rare_is_judged_anew():
    """The observations of a state that was left for good become rare together."""
    counts = _counts([9, 9, 3000, 3000, 3000, 3000], LABELS, np.random.default_rng(0))
    assert _regroup(Homogeneity(), counts, Partition(LABELS)).labels[2:].tolist() == [1, 1, 2, 2]


def test_nothing_seen_changes_nothing():
    assert _regroup(Homogeneity(), Counts.zeros(4, 2), step=1) == Partition.singletons(4)
    nothing = Partition.unseen(3)
    assert _regroup(Homogeneity(), Counts.zeros(3, 2), nothing, step=1) == nothing


def test_settings_are_checked():
    assert Homogeneity(resolution=1.0, n_states=1).n_states == 1
    for bad in (
        {"resolution": 0},
        {"resolution": 1.5},
        {"delta": 0},
        {"delta": 1},
        {"n_states": 0},
    ):
        with pytest.raises(InvalidInputError, match=next(iter(bad))):
            Homogeneity(**bad)
