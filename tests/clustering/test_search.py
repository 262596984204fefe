"""The search by likelihood and where it starts."""

import math
from itertools import product

import numpy as np
import pytest
from plain_blocks import plain_score, walk
from scipy.special import logsumexp

from romdp.clustering.clusterer import finish
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.method import _with_end
from romdp.clustering.likelihood.rewardlaw import read_reward_law
from romdp.clustering.likelihood.rules import rule_at
from romdp.clustering.likelihood.search import Search, _log_placings
from romdp.clustering.likelihood.starts import embed, k_means
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.worlds.named import combination_lock, random_romdp
from romdp.worlds.simulator import simulate


def search_of(counts, seed=0, **options):
    rng = np.random.default_rng(seed)
    return Search(Links.of(counts), read_reward_law(counts), rng, **options)


@pytest.fixture(scope="module")
def world():
    return random_romdp(4, 3, 40, seed=3, emission_concentration=20)


@pytest.fixture(scope="module")
def counts(world):
    return Counts.from_trajectory(simulate(world, "uniform", 30_000, seed=1))


def test_scores_along_the_search_are_those_of_the_labels(counts):
    search = search_of(counts)
    start = search.random(6)
    for grouping in (
        start,
        finish(search.climb(start)),
        finish(search.merge(start)),
        finish(search.split(start)),
    ):
        expected = plain_score(grouping.rule, counts, search.law.parts, grouping.labels)
        assert grouping.score == pytest.approx(expected, rel=1e-9)
        assert len(np.unique(grouping.labels)) == grouping.n_groups


def test_steps_do_not_change_what_they_start_from(counts):
    search = search_of(counts)
    start = search.random(6)
    labels, moves = start.labels.copy(), start.blocks.moves.copy()
    for step in (search.climb, search.merge, search.split, search.anneal, search.polish):
        finish(step(start))
        np.testing.assert_array_equal(start.labels, labels)
        np.testing.assert_array_equal(start.blocks.moves, moves)
    search.margins(start)
    np.testing.assert_array_equal(start.blocks.moves, moves)


@pytest.mark.parametrize("has_end", [False, True])
def test_margins_compare_with_the_second_best_group_that_is_no_end(has_end):
    """Joining the end of an episode, which leads nowhere, is much like a group of one's own."""
    world = random_romdp(3, 2, 9, seed=2)
    seen = simulate(world, "uniform", 3000, seed=0)
    lengths, over = np.full(300, 10), np.ones(300, np.bool_)
    episodes = Trajectory(
        seen.observations, seen.actions, seen.rewards, lengths, terminated=over, n_observations=9
    )
    counts = _with_end(Counts.from_trajectory(episodes))
    search = search_of(counts)
    grouping = search.grouping(np.append(world.labels, 3), 4)
    found = search.margins(grouping, has_end)[:-1, 0]

    def score(y, group):
        labels = np.append(world.labels, 3)
        labels[y] = group
        return plain_score(grouping.rule, counts, search.law.parts, labels)

    groups = 3 if has_end else 4
    scores = np.array([[score(y, group) for group in range(groups)] for y in range(9)])
    best, second = np.sort(scores, axis=1)[:, :-3:-1].T
    np.testing.assert_allclose(found, best - second, atol=1e-6)


def test_a_split_is_judged_by_the_rule_of_one_more_group():
    """Under the rule of the groups before it, whose alpha is higher, this split costs 2.4."""
    lock = combination_lock(4, 3, 24, seed=0)
    counts = Counts.from_trajectory(simulate(lock, "uniform", 400, seed=0))
    met = counts.met()
    dials = lock.labels[met]
    search = search_of(counts.restrict(met))
    merged = search.grouping(np.minimum(dials, 2), 3)  # the last two as one
    split = finish(search.split(merged))
    assert split.rule.alpha < merged.rule.alpha
    assert split.score > merged.score + 4.0
    assert Partition(split.labels) == Partition(dials)


def test_climbing_and_polishing_never_lower_the_score(counts):
    search = search_of(counts)
    start = search.random(5)
    climbed = finish(search.climb(start))
    assert climbed.score >= start.score
    assert finish(search.polish(climbed)).score >= climbed.score


def test_the_truth_is_found_from_too_many_and_from_too_few_groups(world, counts):
    truth = Partition(world.labels)
    search = search_of(counts)
    assert Partition(finish(search.polish(finish(search.spectral(20)))).labels) == truth
    assert Partition(finish(search.polish(search.random(1))).labels) == truth


@pytest.mark.parametrize(("n_observations", "n_groups"), [(9, 2), (7, 3)])
def test_tempering_measures_the_sum_over_all_placings(n_observations, n_groups):
    counts = walk(3, n_observations=n_observations)
    search = search_of(counts)
    kept = {name: getattr(search.rules, name) for name in ("emissions", "emission_terms")}
    fixed = {name: np.full_like(all_of, all_of[2]) for name, all_of in kept.items()}
    search.rules = search.rules._replace(alphas=np.ones(1), stays=np.ones(1), **fixed)
    rule = rule_at(search.rules, 0, 0, 0)  # the only one: the sum is over placings alone
    scores = [
        plain_score(rule, counts, search.law.parts, np.array(labels))
        for labels in product(range(n_groups), repeat=n_observations)
        if len(set(labels)) == n_groups
    ]
    grouping, evidence = finish(search.temper(n_groups, slowness=50))
    assert grouping.n_groups == n_groups
    assert evidence == pytest.approx(logsumexp(scores) - math.lgamma(n_groups + 1), abs=0.1)
    assert max(scores) < evidence - 0.3  # the sum is not its largest term


@pytest.mark.parametrize(("n_placed", "n_groups", "ways"), [
    (1, 1, 1), (4, 2, 7), (5, 3, 25), (3, 3, 1), (6, 6, 1), (20, 19, 190),
])  # fmt: skip
def test_ways_to_part_observations_into_groups(n_placed, n_groups, ways):
    assert _log_placings(n_placed, n_groups) == pytest.approx(math.log(ways), abs=1e-9)


def test_tempering_copes_with_nearly_as_many_groups_as_observations():
    search = search_of(walk(0, n_observations=40))
    n_seen = len(search.seen)
    for n_groups in (n_seen - 6, n_seen - 1, n_seen):
        grouping, evidence = finish(search.temper(n_groups))
        assert grouping.n_groups == n_groups
        assert np.isfinite(evidence)


def test_the_evidence_for_one_group_is_its_score(counts):
    search = search_of(counts)
    grouping, evidence = finish(search.temper(1))
    assert evidence == pytest.approx(grouping.score, rel=1e-12)


def test_a_given_number_of_groups_is_kept(counts):
    for wanted in (1, 3, 7):
        search = search_of(counts, n_states=wanted)
        assert finish(search.polish(finish(search.spectral(12)))).n_groups == wanted
        assert finish(search.polish(search.random(2))).n_groups == wanted


def test_more_groups_than_observations_cannot_be_given():
    counts = walk(0, n_observations=5)
    search = search_of(counts, n_states=9)
    assert finish(search.polish(search.random(2))).n_groups == 5


def test_the_curve_has_its_top_where_the_search_ends(counts):
    search = search_of(counts)
    found = finish(search.polish(finish(search.spectral(20))))
    assert max(search.curve, key=search.curve.__getitem__) == found.n_groups
    assert search.curve[found.n_groups] == pytest.approx(found.score)


def test_a_warm_start_places_what_is_new(world, counts):
    search = search_of(counts)
    labels = Partition(world.labels).labels.copy()
    labels[::4] = -1
    warm = finish(search.warm(labels))
    assert Partition(warm.labels) == Partition(world.labels)


def test_no_more_groups_than_allowed(counts, monkeypatch):
    monkeypatch.setattr("romdp.clustering.likelihood.search.MOST_GROUPS", 2)
    search = search_of(counts)
    assert finish(search.polish(search.random(1))).n_groups == 2


def test_held_out_transitions_are_predicted_by_plain_shares(world, counts):
    search = search_of(counts)
    kept, held = search.links.part(0.2, np.random.default_rng(0))
    assert kept.out_count.sum() + held.out_count.sum() == counts.transitions.sum()
    assert held.out_count.sum() == pytest.approx(0.2 * counts.transitions.sum(), rel=0.05)
    some = search.replace(kept, search.law)
    grouping = some.grouping(Partition(world.labels).labels, 4)
    found, rule, labels = some.predict(grouping, held), grouping.rule, grouping.labels
    shown, link = kept.in_totals() + 1, 17
    cell = np.searchsorted(held.out_start, link, side="right") - 1
    s, a, t = labels[cell // 3], cell % 3, labels[held.out_target[link]]
    weights = np.where(np.arange(4) == s, rule.stay, rule.alpha) + grouping.blocks.moves[s, a]
    share = shown[held.out_target[link]] / shown[labels == t].sum()
    assert found[link] == pytest.approx(np.log(weights[t] / weights.sum() * share))


def test_a_restricted_search_sees_the_chosen_observations_only(counts):
    chosen = np.array([7, 3, 11, 20])
    inner = search_of(counts).restrict(chosen)
    grouping = inner.grouping(np.array([0, 1, 1, 0]), 2)
    among = counts.transitions[chosen][:, :, chosen]
    assert grouping.blocks.moves.sum() == among.sum()
    assert grouping.blocks.moves[1, 2, 0] == among[1:3, 2][:, [0, 3]].sum()
    np.testing.assert_array_equal(inner.law.parts, search_of(counts).law.parts[chosen])


def test_the_core_is_everything_while_observations_are_few(counts):
    search = search_of(counts)
    np.testing.assert_array_equal(np.sort(search.core()), search.seen)


def test_the_embedding_is_the_truncated_singular_value_decomposition():
    counts = walk(2, n_observations=9, steps=300)
    transitions = counts.transitions.astype(float)
    out = transitions.reshape(9, -1)
    into = transitions.reshape(-1, 9).T
    matrix = np.concatenate([out, into], axis=1)
    rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
    scale = 1 / np.sqrt(rows + rows.mean())
    across = np.where(columns > 0, 1 / np.sqrt(columns + columns[columns > 0].mean()), 0)
    left, values, _ = np.linalg.svd(scale[:, None] * matrix * across, full_matrices=False)
    expected = left[:, :9] * values[:9] * scale[:, None]
    found = embed(Links.of(counts), np.arange(9), 9, np.random.default_rng(0))
    # Equal up to the sign of each direction.
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-10)


def test_the_embedding_separates_hidden_states():
    world = random_romdp(3, 4, 30, seed=0, emission_concentration=20)
    counts = Counts.from_trajectory(simulate(world, "uniform", 50_000, seed=0))
    rng = np.random.default_rng(0)
    points = embed(Links.of(counts), np.arange(30), 3, rng)
    found = k_means(points, np.ones(30), 3, rng, restarts=5)
    assert Partition(found) == Partition(world.labels)


def test_k_means_finds_far_clusters_and_needs_no_more_points_than_groups():
    rng = np.random.default_rng(0)
    points = np.repeat(np.eye(4) * 10, 25, axis=0) + 0.1 * rng.standard_normal((100, 4))
    labels = k_means(points, np.ones(100), 4, rng, restarts=3)
    assert Partition(labels) == Partition(np.repeat(np.arange(4), 25))
    assert len(np.unique(k_means(points[:3], np.ones(3), 10, rng))) <= 3


def test_weights_pull_the_centres():
    points = np.array([[0.0], [1.0], [10.0], [11.0], [30.0]])
    heavy = k_means(points, np.array([1.0, 1.0, 1.0, 1.0, 1e-9]), 2, np.random.default_rng(1), 10)
    assert Partition(heavy[:4]) == Partition([0, 0, 1, 1])
