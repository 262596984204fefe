import numpy as np
import pytest

import romdp
from romdp.clustering.clusterer import Evidence
from romdp.clustering.overlap import Overlap, overlapping
from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.planning.confidence import Bernstein, Hoeffding
from romdp.worlds import random_romdp, simulate


def _plain(counts, reward_widths, transition_widths):
    """Components of the graph, by the definition."""
    size = counts.n_observations
    dense = counts.dense()
    totals = dense.transitions.sum(axis=2, keepdims=True)
    laws = dense.transitions / np.maximum(totals, 1)
    component = np.arange(size)
    for i in range(size):
        for j in range(i):
            known = (totals[i, :, 0] > 0) & (totals[j, :, 0] > 0)
            gap = np.abs(laws[i] - laws[j]).sum(axis=1)
            far = (gap > transition_widths[i] + transition_widths[j]) & known
            means = np.abs(counts.reward_means[i] - counts.reward_means[j])
            paid = (counts.visits[i] > 0) & (counts.visits[j] > 0)
            unlike = (means > reward_widths[i] + reward_widths[j]) & paid
            if not far.any() and not unlike.any():
                component[component == component[i]] = component[j]
    return Partition(component)


def _world_counts(steps, seed=0, n_observations=12):
    world = random_romdp(4, 2, n_observations, seed=seed, emission_concentration=20.0)
    return world, Counts.from_trajectory(simulate(world, "uniform", steps, seed=seed))


@pytest.mark.parametrize("scale", [0.0, 0.01, 0.03, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("steps", [300, 30_000])
def test_components_agree_with_the_definition(scale, steps):
    _, counts = _world_counts(steps)
    widths = Hoeffding(scale=scale).widths(counts, steps, 0.05)
    expected = _plain(counts, *widths)
    assert Partition(overlapping(counts, *widths)) == expected
    assert Partition(overlapping(counts.sparse(), *widths)) == expected


def test_components_of_random_counts_agree_with_the_definition():
    rng = np.random.default_rng(0)
    for _ in range(30):
        moves = rng.poisson(rng.gamma(0.3, 5, size=(7, 2, 7)))
        visits = moves.sum(axis=2)
        sums = rng.binomial(visits, 0.5).astype(float)
        counts = Counts(visits, moves, sums, sums)
        widths = rng.uniform(0, 0.4, size=(7, 2)), rng.uniform(0, 1.1, size=(7, 2))
        assert Partition(overlapping(counts, *widths)) == _plain(counts, *widths)


@pytest.mark.parametrize("seed", range(4))
def test_hidden_states_are_found_and_only_when_all_are_told_apart(seed):
    accepted = []
    for steps in (100, 1000, 10_000, 300_000):
        world, counts = _world_counts(steps, seed)
        found = Overlap(4, Hoeffding(scale=0.1)).regroup(
            Evidence(counts, step=steps), Partition.singletons(12), np.random.default_rng(0)
        )
        # Either nothing or the truth.
        assert found in (Partition.singletons(12), Partition(world.labels))
        accepted.append(found.n_clusters == 4)
    assert accepted[-1]
    assert not accepted[0]


def test_groups_so_far_are_merged_and_stay_together():
    world, counts = _world_counts(300_000)
    truth = Partition(world.labels)
    pairs = np.arange(12)
    first = truth.members[0]
    pairs[first] = first[0]
    previous = Partition(pairs)
    overlap = Overlap(4, Hoeffding(scale=0.1))
    for evidence in (
        Evidence(counts, step=300_000),
        Evidence(counts.group(previous), step=300_000),
    ):
        assert overlap.regroup(evidence, previous, np.random.default_rng(0)) == truth


def test_only_groups_that_it_tells_apart_are_final():
    world, counts = _world_counts(300_000)
    truth, wrong = Partition(world.labels), Partition([0, 1, 2, 3] * 3)
    overlap = Overlap(4, Hoeffding(scale=0.1))
    rng = np.random.default_rng(0)
    for previous in (truth, wrong, Partition([0] * 12)):
        assert overlap.regroup(Evidence(counts, step=300_000), previous, rng) == truth
    # Groups that were counted as one cannot come apart, and early data tell nothing.
    of_groups = Evidence(counts.group(wrong), step=300_000)
    assert overlap.regroup(of_groups, wrong, rng) is wrong
    early = Evidence(_world_counts(300)[1], step=300)
    assert overlap.regroup(early, wrong, rng) is wrong


def test_another_number_of_states_is_never_accepted():
    _, counts = _world_counts(300_000)
    evidence = Evidence(counts, step=300_000)
    for n_states in (3, 5):
        found = Overlap(n_states, Hoeffding(scale=0.1)).regroup(
            evidence, Partition.singletons(12), np.random.default_rng(0)
        )
        assert found == Partition.singletons(12)


def test_the_factor_multiplies_the_widths():
    world, counts = _world_counts(300_000)
    evidence = Evidence(counts, step=300_000)
    rng = np.random.default_rng(0)
    start = Partition.singletons(12)
    assert Overlap(4, Hoeffding(), factor=1.0).regroup(evidence, start, rng) == start
    assert Overlap(4, Hoeffding(), factor=0.1).regroup(evidence, start, rng) == Partition(
        world.labels
    )


def test_an_observation_never_seen_joins_everything_and_so_nothing_happens():
    world, counts = _world_counts(300_000)
    padded = Partition(np.append(world.labels, 99))
    moves = np.zeros((13, 2, 13), int)
    moves[:12, :, :12] = counts.transitions
    pairs = [np.vstack([x, np.zeros((1, 2), x.dtype)]) for x in (counts.visits, counts.reward_sums)]
    wider = Counts(pairs[0], moves, pairs[1], pairs[1])
    overlap = Overlap(5, Hoeffding(scale=0.1))
    start = Partition.singletons(13)
    found = overlap.regroup(Evidence(wider, step=300_000), start, np.random.default_rng(0))
    assert found == start
    # Without a group it does not matter.
    unseen = Partition(np.append(np.arange(12), -1))
    found = Overlap(4, Hoeffding(scale=0.1)).regroup(
        Evidence(wider, step=300_000), unseen, np.random.default_rng(0)
    )
    assert found == Partition(np.append(world.labels, -1))
    assert padded.n_clusters == 5


def test_bad_settings_are_refused():
    with pytest.raises(InvalidInputError, match="n_states"):
        Overlap(0)
    with pytest.raises(InvalidInputError, match="factor"):
        Overlap(2, factor=-1)
    with pytest.raises(InvalidInputError, match="Bernstein"):
        Overlap(2, confidence=Bernstein())


def test_an_action_never_tried_tells_nothing_apart():
    """Two identical observations; the second action was tried at the first one alone."""
    moves = np.zeros((3, 2, 3), int)
    moves[:2, 0] = [0, 0, 500]
    moves[2, 0] = [250, 250, 0]
    moves[0, 1] = [0, 0, 500]
    visits = moves.sum(axis=2)
    counts = Counts(visits, moves, 0.9 * visits, 0.9 * visits)
    found = Overlap(2, Hoeffding(scale=0.001)).regroup(
        Evidence(counts, step=2000), Partition.singletons(3), np.random.default_rng(0)
    )
    assert found == Partition([0, 0, 1])


def test_time_uniform_intervals_join_what_they_cannot_tell_apart():
    """Three groups: two move alike, one does not; at first nothing is known."""
    laws = np.array([[0.9, 0.05, 0.05], [0.9, 0.05, 0.05], [0.1, 0.45, 0.45]])
    overlap = Overlap(n_states=2, confidence=romdp.TimeUniform())
    for n, expected in ((20, [0, 1, 2]), (2000, [0, 0, 1])):
        moves = np.rint(n * laws).astype(int)[:, None, :]
        zeros = np.zeros((3, 1))
        counts = romdp.Counts(moves.sum(axis=2), moves, zeros, zeros)
        found = overlap.regroup(
            romdp.Evidence(counts, step=3 * n + 1),
            romdp.Partition.singletons(3),
            np.random.default_rng(0),
        )
        assert found.labels.tolist() == expected


def test_time_uniform_intervals_of_rewards_tell_groups_apart():
    moves = np.full((3, 1, 3), 1000)
    sums = np.array([[300.0], [300.0], [2700.0]])
    counts = romdp.Counts(moves.sum(axis=2), moves, sums, sums)
    found = Overlap(2, romdp.TimeUniform()).regroup(
        romdp.Evidence(counts, step=9001), romdp.Partition.singletons(3), np.random.default_rng(0)
    )
    assert found.labels.tolist() == [0, 0, 1]


def test_the_factor_multiplies_the_widths_of_rewards():
    """Two observations that move alike and pay differently."""
    moves = np.full((2, 1, 2), 500)
    visits = moves.sum(axis=2)
    paid = np.array([[0.3], [0.6]]) * visits
    evidence = Evidence(Counts(visits, moves, paid, paid), step=2000)
    start, rng = Partition.singletons(2), np.random.default_rng(0)
    widths = Hoeffding(scale=0.4)
    assert Overlap(1, widths).regroup(evidence, start, rng).n_clusters == 1
    assert Overlap(1, widths, factor=0.1).regroup(evidence, start, rng) == start
