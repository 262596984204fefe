import numpy as np
import pytest

import romdp
from romdp.clustering.clusterer import Clusterer, Evidence, finish
from romdp.clustering.likelihood import Likelihood
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import read_reward_law
from romdp.clustering.likelihood.search import Search
from romdp.clustering.offline import cluster
from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.worlds.named import (
    combination_lock,
    deterministic_romdp,
    grid,
    random_romdp,
    river_swim,
    symmetric_block,
)
from romdp.worlds.simulator import simulate


def counts_of(world, steps, seed=0):
    return Counts.from_trajectory(simulate(world, "uniform", steps, seed))


def rng(seed=0):
    return np.random.default_rng(seed)


# Each world and length was chosen with room to spare: at half the steps all are exact as well.
@pytest.mark.parametrize(
    ("world", "steps"),
    [
        (random_romdp(5, 4, 30, seed=0, emission_concentration=20), 10_000),
        (random_romdp(10, 4, 60, seed=0, emission_concentration=20), 60_000),
        (random_romdp(5, 4, 30, seed=1, reward_law="uniform", emission_concentration=20), 10_000),
        (river_swim(6, 36), 20_000),
        (combination_lock(4, 3, 24), 6_000),
        (grid(["....", ".#..", "..#G"], views=4, slip=0.1), 20_000),
        (grid(["....", ".#..", "..#G"], views=4, slip=0.0), 20_000),
        (deterministic_romdp(30, 3, 90), 20_000),
        (random_romdp(12, 3, 12, seed=0), 10_000),  # no hidden structure: nothing may be merged
    ],
)
def test_the_hidden_states_and_their_number_are_found(world, steps):
    fit = Likelihood().fit(counts_of(world, steps), rng())
    assert fit.partition == Partition(world.labels)


def test_sparse_counts_give_the_same_fit():
    counts = counts_of(random_romdp(3, 2, 15, seed=1), 3_000)
    dense, sparse = (Likelihood().fit(each, rng()) for each in (counts, counts.sparse()))
    assert dense.partition == sparse.partition
    assert dense.score == sparse.score


def test_the_same_generator_state_gives_the_same_fit():
    counts = counts_of(symmetric_block(60, 3.0), 900)
    first, again = (Likelihood().fit(counts, rng(3)) for _ in range(2))
    assert first.partition == again.partition
    np.testing.assert_array_equal(first.log_odds, again.log_odds)


def test_the_symmetric_block_world_is_grouped_at_ten_visits():
    """The genie misplaces 1.5% here; 8 worlds of 100 with over 6% have a chance below 1e-6."""
    world = symmetric_block(100, 4.0)
    errors = [
        Likelihood(n_states=2)
        .fit(counts_of(world, 1_000, seed), rng())
        .partition.misclassification(Partition(world.labels))
        for seed in range(8)
    ]
    assert np.mean(errors) < 0.06


def test_a_given_number_of_states():
    counts = counts_of(random_romdp(4, 3, 24, seed=3, emission_concentration=20), 10_000)
    for n_states in (2, 4, 6):
        assert Likelihood(n_states=n_states).fit(counts, rng()).n_groups == n_states


def test_unseen_observations_have_no_group_and_rare_ones_a_low_certainty():
    world = random_romdp(4, 3, 24, seed=3, emission_concentration=20)
    seen = simulate(world, "uniform", 10_000, seed=0)
    # Observation 24 is seen once, at the very end; 25 never.
    longer = Trajectory(
        np.append(seen.observations, 24),
        np.append(seen.actions, 0),
        np.append(seen.rewards, 1.0),
        n_observations=26,
        n_actions=3,
    )
    fit = Likelihood().fit(Counts.from_trajectory(longer), rng())
    assert fit.n_groups == 4
    assert fit.partition.labels[25] == -1
    assert np.isnan(fit.certainty[25])
    assert fit.partition.labels[24] >= 0
    assert fit.certainty[24] < 0.95
    assert fit.log_odds[24] < 5 < np.sort(fit.log_odds[:24])[2]


def test_observations_that_were_never_met_change_nothing():
    world = random_romdp(4, 3, 24, seed=3, emission_concentration=20)
    seen = simulate(world, "uniform", 3_000, seed=0)
    few, many = (
        Counts.from_trajectory(
            Trajectory(
                seen.observations + shift,
                seen.actions,
                seen.rewards,
                n_observations=size,
                n_actions=3,
            )
        )
        for shift, size in ((0, 24), (7, 500))
    )
    mine, theirs = (Likelihood().fit(counts, rng()) for counts in (few, many))
    assert mine.score == theirs.score
    np.testing.assert_array_equal(theirs.partition.labels[7:31], mine.partition.labels)
    assert (np.delete(theirs.partition.labels, np.arange(7, 31)) == -1).all()
    np.testing.assert_array_equal(theirs.log_odds[7:31], mine.log_odds)
    again = Likelihood().regroup(Evidence(many), Partition.unseen(500), rng())
    assert again == theirs.partition


def test_the_report():
    counts = counts_of(random_romdp(4, 3, 24, seed=3, emission_concentration=20), 10_000)
    fit = Likelihood().fit(counts, rng())
    assert fit.blocks == counts.group(fit.partition)
    assert max(fit.score_curve, key=fit.score_curve.__getitem__) == fit.n_groups
    assert fit.score_curve[fit.n_groups] == pytest.approx(fit.score)
    assert fit.reward_law == "bernoulli"
    assert "24 observations in 4 groups" in repr(fit)
    with pytest.raises(ValueError, match="read-only"):
        fit.certainty[0] = 1.0


def test_regrouping_follows_the_data_from_nothing_to_the_truth():
    world = random_romdp(4, 3, 24, seed=3, emission_concentration=20)
    clusterer: Clusterer = Likelihood()
    assert clusterer.needs == {"counts"}
    partition = Partition.unseen(24)
    empty = Evidence(Counts.zeros(24, 3))
    assert clusterer.regroup(empty, partition, rng()) == partition
    for steps in (10, 100, 1_000, 10_000):
        partition = clusterer.regroup(Evidence(counts_of(world, steps)), partition, rng())
    assert partition == Partition(world.labels)


@pytest.mark.parametrize("wrong", ["trivial", "singletons"])
def test_regrouping_recovers_from_a_wrong_grouping(wrong):
    world = random_romdp(4, 3, 24, seed=3, emission_concentration=20)
    previous = getattr(Partition, wrong)(24)
    found = Likelihood().regroup(Evidence(counts_of(world, 10_000)), previous, rng())
    assert found == Partition(world.labels)


def test_many_groups_that_are_worth_less_than_one_are_given_up():
    """From 199 groups no single merge leads to the five states; 189 groups were left."""
    world = random_romdp(5, 4, 200, seed=3)
    previous = Partition(np.arange(200) % 199)
    few = Likelihood(choose_by_evidence=False)
    assert few.regroup(Evidence(counts_of(world, 2_000)), previous, rng()).n_clusters <= 5


def test_a_start_is_used_and_annealed_starts_help(monkeypatch):
    """At 15 visits and eta = 2 these spectral starts end lower than a climb from the truth."""
    world = symmetric_block(100, 2.0)
    counts = counts_of(world, 1_500)
    annealed = Likelihood(n_states=2).fit(counts, rng())
    helped = Likelihood(n_states=2).fit(counts, rng(), start=Partition(world.labels))
    monkeypatch.setattr("romdp.clustering.likelihood.method._STARTS", 0)
    alone = Likelihood(n_states=2).fit(counts, rng())
    assert min(helped.score, annealed.score) > alone.score + 1


@pytest.mark.parametrize("rewards", ["bernoulli", "gaussian", "rare"])
@pytest.mark.parametrize(("n_states", "n_observations", "steps"), [(3, 60, 600), (5, 100, 4_000)])
def test_every_entrance_finds_the_same_groups(n_states, n_observations, steps, rewards):
    """Until version 0.3 `cluster` started from single observations, and kept them."""
    world = random_romdp(n_states, 4, n_observations, seed=1, emission_concentration=1e6)
    seen, draws = simulate(world, "uniform", steps, 1), rng(2)
    if rewards == "gaussian":
        seen = seen.changed(rewards=seen.rewards + 0.1 * draws.standard_normal(steps))
    elif rewards == "rare":
        paid = draws.random(steps) < 0.1
        seen = seen.changed(rewards=np.where(paid, draws.lognormal(0.0, 1.0, steps), 0.0))
    counts = Counts.from_trajectory(seen)
    found = Likelihood().fit(counts, rng(7)).partition
    assert found.misclassification(Partition(world.labels)) < 0.25
    assert cluster(seen, seed=7) == found
    assert romdp.fit(seen, seed=7).partition == found
    for nothing in (Partition.unseen(n_observations), Partition.singletons(n_observations)):
        assert Likelihood().regroup(Evidence(counts), nothing, rng(7)) == found


def test_few_visits_are_judged_by_the_evidence_of_all_placings():
    """At 4 visits one group scores best, and would misplace most of the observations."""
    world = random_romdp(4, 3, 200, seed=3)
    counts = counts_of(world, 800)
    assert Likelihood(choose_by_evidence=False).fit(counts, rng()).n_groups == 1
    fit = Likelihood().fit(counts, rng())
    assert 3 <= fit.n_groups <= 5
    placed = (fit.partition.labels >= 0) * 1.0
    assert fit.partition.misclassification(Partition(world.labels), placed) < 0.4
    again = Likelihood().regroup(Evidence(counts), Partition.trivial(200), rng())
    assert again.n_clusters > 1


def test_the_evidence_finds_no_groups_where_there_are_none():
    world = random_romdp(1, 3, 200, seed=0)
    for steps in (400, 1_100):
        counts = counts_of(world, steps)
        assert Likelihood().fit(counts, rng()).n_groups == 1
        assert Likelihood().regroup(Evidence(counts), Partition.trivial(200), rng()).n_clusters == 1


@pytest.mark.slow
def test_many_observations_are_grouped_from_the_most_frequent_on():
    """Only some are grouped first; the rest must join all the same (rare ones may be wrong)."""
    world = random_romdp(3, 2, 5_000, seed=0)
    counts = counts_of(world, 800_000)
    fit = Likelihood().fit(counts, rng())
    assert fit.n_groups == 3
    often = counts.visits.sum(axis=1) >= 50
    assert (fit.partition.labels[counts.visits.sum(axis=1) > 0] >= 0).all()
    assert fit.partition.misclassification(Partition(world.labels), often * 1.0) < 0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_states": 0}, "n_states is 0"),
        ({"n_states": 1025}, "n_states is 1025"),
        ({"reward_law": "poisson"}, "reward_law"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(InvalidInputError, match=message):
        Likelihood(**options)


def test_bad_data_are_refused():
    counts = counts_of(random_romdp(2, 2, 6, seed=0), 100)
    with pytest.raises(InvalidInputError, match="has 5 observations, the counts 6"):
        Likelihood().fit(counts, rng(), start=Partition.trivial(5))
    with pytest.raises(InvalidInputError, match="no observation was seen"):
        Likelihood().fit(Counts.zeros(4, 2), rng())


@pytest.mark.parametrize("n_states", [1, 2, 4])
def test_a_given_number_of_groups_is_kept(n_states):
    world = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    fit = Likelihood(n_states=n_states).fit(counts_of(world, 5000), rng())
    assert fit.n_groups == n_states


def test_noise_seen_a_few_times_is_one_group():
    """Chance groups of 5,000 observations, three visits each, are far worse than one group.

    Merging from forty of them does not reach one; version 0.1 found none alike.
    """
    rng = np.random.default_rng(1)
    observations = rng.permutation(np.repeat(np.arange(5_000), 3))
    seen = Trajectory(
        observations, rng.integers(0, 3, 15_000), rng.integers(0, 2, 15_000).astype(float)
    )
    with pytest.warns(UserWarning, match="too few"):
        assert cluster(seen, seed=0).n_clusters == 1


def test_an_end_tells_states_apart_and_a_restart_does_not():
    """Two states that differ in nothing but whether the episode ends there, ten views of each."""
    draw = np.random.default_rng(0)
    shown, last, views = [], [], np.arange(20).reshape(2, 10)
    for _ in range(600):
        state = int(draw.integers(2))
        shown.append(int(draw.choice(views[state])))
        last.append(state == 1)
    lengths = np.diff(np.flatnonzero([True, *last]))  # an episode ends at the second state
    n_steps = int(lengths.sum())
    ended = np.cumsum(lengths) - 1
    seen = Trajectory(
        shown[:n_steps],
        np.zeros(n_steps, int),
        lengths=lengths,
        final_observations=[*np.array(shown)[ended[:-1] + 1], -1],
        terminated=np.ones(lengths.size, bool),
        n_observations=20,
    )
    counts = Counts.from_trajectory(seen)
    truth = Partition(np.repeat([0, 1], 10))
    assert Likelihood().fit(counts, rng()).partition == truth
    assert Likelihood(n_states=2).fit(counts, rng()).partition == truth
    found = Likelihood().regroup(Evidence(counts), Partition.unseen(20), rng())
    assert found == truth


def ladders(each, n_rungs=18, n_ladders=10):
    """Count games like blackjack: climb a few rungs of a ladder, or stop and win or lose."""
    draws, n = rng(), n_rungs * n_ladders + 1  # the last one is the end
    moves, wins = np.zeros((n, 2, n), np.int64), np.zeros((n, 2))
    for place in range(n - 1):
        rung, ladder = divmod(place, n_ladders)
        for higher in rung + draws.integers(1, 11, each):
            moves[place, 1, higher * n_ladders + ladder if higher < n_rungs else n - 1] += 1
        moves[place, 0, n - 1] = each
        wins[place, 0] = draws.binomial(each, rung / n_rungs * (1.0 - 0.05 * ladder))
    return Counts(moves.sum(axis=2), moves, wins, wins)


def test_many_groups_that_mix_states_are_left():
    """From groups of two rungs no single split pays; merging single observations scores higher."""
    counts = ladders(200)
    place = np.arange(counts.n_observations - 1)
    two_rungs = Partition(np.append(place // 20 * 10 + place % 10, 90))
    found = Likelihood().regroup(Evidence(counts), two_rungs, rng())
    inner = counts.restrict(counts.met())
    search = Search(Links.of(inner), read_reward_law(inner), rng(), quick=True)
    stuck = finish(search.polish(finish(search.warm(two_rungs.labels))))
    assert finish(search.warm(found.labels)).score > stuck.score + 100.0


def test_one_group_for_want_of_data_says_so():
    """With one visit each nothing can be told, and with many visits one state is one state."""
    world = random_romdp(5, 4, 100, seed=0)
    few = simulate(world, "uniform", 120, seed=0)
    fit = Likelihood().fit(Counts.from_trajectory(few), rng())
    assert fit.n_groups == 1
    assert fit.abstains
    assert np.nanmax(fit.certainty) == 0.5
    assert "too few visits" in repr(fit)
    with pytest.warns(UserWarning, match="120 steps are too few to tell .* observations apart"):
        assert cluster(few).n_clusters == 1
    assert not Likelihood(n_states=1).fit(Counts.from_trajectory(few), rng()).abstains
    alike = simulate(random_romdp(1, 4, 10, seed=0), "uniform", 1_000, seed=0)
    fit = Likelihood().fit(Counts.from_trajectory(alike), rng())
    assert fit.n_groups == 1
    assert not fit.abstains
    assert np.nanmin(fit.certainty) == 1.0


def test_where_nothing_is_found_in_fifteen_visits_the_evidence_is_asked():
    """Single observations scored above one group and any merge of them, the truth 40 higher."""
    world = random_romdp(7, 5, 51, seed=30_037, emission_concentration=1e6)
    counts = Counts.from_trajectory(simulate(world, "uniform", 51 * 15, seed=30_037))
    found = Likelihood().fit(counts, rng()).partition
    assert found.misclassification(Partition(world.labels)) < 0.1
