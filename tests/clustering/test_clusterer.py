"""Singletons, Known, the ways to combine clusterers, and the evidence they read."""

from dataclasses import FrozenInstanceError, dataclass, field, replace

import numpy as np
import pytest

import romdp
from romdp.clustering import offline
from romdp.clustering.clusterer import (
    Chain,
    Evidence,
    Known,
    Singletons,
    Spaced,
    group_counts,
    group_triples,
)
from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import END, UNKNOWN, Trajectory
from romdp.data.triples import Triples

RNG = np.random.default_rng(0)


def evidence(n_observations=4, **facts):
    return Evidence(Counts.zeros(n_observations, 2), **facts)


@dataclass(frozen=True)
class Says:
    """A clusterer that answers with what it was made with, and notes what it was shown."""

    labels: tuple
    needs: frozenset = frozenset({"counts"})
    shown: list = field(default_factory=list)

    def regroup(self, evidence, previous, rng):
        self.shown.append((evidence, previous))
        return Partition(self.labels)


def test_singletons_are_the_identity():
    for previous in (Partition.trivial(4), Partition.singletons(4), Partition.unseen(4)):
        assert Singletons().regroup(evidence(), previous, RNG) == Partition.singletons(4)


@pytest.mark.parametrize(("n_met", "n_groups"), [(0, 512), (256, 512), (257, 1024), (3000, 5000)])
def test_singletons_leave_out_what_is_far_beyond_what_was_met(n_met, n_groups):
    met = replace(evidence(), n_met=n_met)
    found = Singletons().regroup(met, Partition.singletons(5000), RNG)
    expected = np.where(np.arange(5000) < n_groups, np.arange(5000), -1)
    np.testing.assert_array_equal(found.labels, expected)
    assert Singletons().regroup(met, found, RNG) is found


def test_known_is_what_it_was_told():
    labels = np.array([3, 3, 1, -1])
    known = Known(labels)
    labels[0] = 0  # the caller's array is not kept
    answer = known.regroup(evidence(), Partition.singletons(4), RNG)
    assert answer == Partition([0, 0, 1, -1])
    assert known == Known(Partition([0, 0, 1, -1]))


def test_known_refuses_another_world():
    with pytest.raises(InvalidInputError, match="has 2 observations, the world has 4"):
        Known([0, 1]).regroup(evidence(), Partition.singletons(4), RNG)


def test_a_chain_hands_on_the_grouping():
    first, second = Says((0, 0, 1, 2)), Says((0, 0, 1, 1), frozenset({"triples"}))
    chain = Chain(first, second)
    start = Partition.singletons(4)
    shown = evidence(step=9, last_step=5)
    assert chain.regroup(shown, start, RNG) == Partition([0, 0, 1, 1])
    assert first.shown == [(shown, start)]
    assert second.shown == [(shown, Partition([0, 0, 1, 2]))]
    assert chain.needs == {"counts", "triples"}
    assert chain == Chain(first, second)
    with pytest.raises(FrozenInstanceError):
        chain.clusterers = ()


def test_a_chain_rewrites_the_triples_in_the_new_groups():
    """Observations 1 and 2 of three groups become one; the triples follow."""
    previous = Partition([0, 0, 1, 2])  # the triples are in these three groups
    triples = Triples(
        [0, 1, 2], [1, 2, 0], [0, 1, 0], [2, 0, 1], [5, 6, 7], n_observations=3, n_actions=2
    )
    second = Says((0, 0, 1, 1))
    chain = Chain(Says((0, 0, 1, 1)), second)
    shown = evidence(triples=triples, step=9, last_step=5)
    chain.regroup(shown, previous, RNG)
    seen = second.shown[0][0]
    assert seen.triples == triples.relabel(Partition([0, 1, 1]))
    assert seen.triples.count.sum() == 18
    assert (seen.counts, seen.step, seen.last_step) == (shown.counts, 9, 5)


def test_a_chain_leaves_the_triples_alone_while_the_grouping_stays():
    triples = Triples([0], [1], [0], [2], [5], n_observations=3, n_actions=2)
    previous = Partition([0, 0, 1, 2])
    second = Says((0, 0, 1, 2))
    Chain(Says((0, 0, 1, 2)), second).regroup(evidence(triples=triples), previous, RNG)
    assert second.shown[0][0].triples is triples


def test_a_chain_drops_triples_that_cannot_follow():
    """A grouping that splits a group cannot be told from triples in the old groups."""
    triples = Triples([0], [1], [0], [1], [5], n_observations=2, n_actions=2)
    second = Says((0, 1, 2, 2))
    chain = Chain(Says((0, 1, 2, 2)), second)
    chain.regroup(evidence(triples=triples), Partition([0, 0, 1, 1]), RNG)
    assert second.shown[0][0].triples is None


def test_a_chain_lets_observations_without_a_group_be():
    """The triples are in groups, and those of an observation without one are not among them."""
    previous = Partition([-1, 0, 1, 0])
    triples = Triples([0], [1], [0], [1], [5], n_observations=2, n_actions=2)
    second = Says((-1, 0, 0, 0))
    chain = Chain(Says((-1, 0, 0, 0)), second)
    chain.regroup(evidence(triples=triples), previous, RNG)
    assert second.shown[0][0].triples == triples.relabel(Partition([0, 0]))


def test_triples_keep_the_numbers_of_the_groups():
    """An observation that gets a group can change the order in which groups first appear."""
    triples = Triples([0], [1], [0], [1], [5], n_observations=2, n_actions=2)
    second = Says((0, 1, 0, 2))
    chain = Chain(Says((0, 1, 0, 2)), second)
    chain.regroup(evidence(triples=triples), Partition([-1, 0, 1, -1]), RNG)
    seen = second.shown[0][0].triples
    assert (seen.previous, seen.middle, seen.next, seen.count) == ([1], [0], [0], [5])
    assert seen.n_observations == 3


def test_an_empty_chain_is_refused():
    with pytest.raises(InvalidInputError, match="at least one clusterer"):
        Chain()


def test_a_spaced_clusterer_is_asked_once_a_power():
    inner = Says((0, 0, 1, 1))
    spaced = Spaced(inner, growth=2.0)
    previous = Partition.singletons(4)
    asked = []
    for step in range(1, 65):
        before = len(inner.shown)
        spaced.regroup(evidence(step=step, last_step=step - 1), previous, RNG)
        if len(inner.shown) > before:
            asked.append(step)
    assert asked == [1, 2, 4, 8, 16, 32, 64]
    # An epoch that jumps over several powers asks once, one inside a power not at all.
    assert spaced.regroup(evidence(step=500, last_step=70), previous, RNG) == Partition(
        [0, 0, 1, 1]
    )
    assert spaced.regroup(evidence(step=500, last_step=300), previous, RNG) is previous
    assert spaced.needs == inner.needs


def test_a_spaced_clusterer_may_be_asked_more_often_early():
    spaced = Spaced(Says((0, 0, 1, 1)), growth=4.0, early_growth=2.0)
    due = [step for step in range(1, 257) if spaced.is_due(evidence(step=step, last_step=step - 1))]
    assert due == [1, 2, 4, 8, 16, 64, 256]  # four observations: early ends at step 24


def test_observations_are_states_while_what_follows_is_certain():
    inner = Says((0, 0, 0, -1))
    spaced = Spaced(inner, growth=2.0, or_states=True)

    def regroup(step, moves, previous):
        moves = np.array(moves)[:, None]
        counts = romdp.Counts(moves.sum(axis=2), moves, *np.zeros((2, 4, 1)))
        given = Evidence(counts, step=step, last_step=step - 1, n_met=3)
        return spaced.regroup(given, previous, RNG)

    ring = [[0, 9, 0, 0], [0, 0, 9, 0], [9, 0, 0, 0], [0, 0, 0, 0]]
    views = [[3, 3, 3, 0], [3, 3, 3, 0], [3, 3, 3, 0], [0, 0, 0, 0]]
    states = regroup(32, ring, Partition.unseen(4))
    assert states == Partition([0, 1, 2, -1])
    assert regroup(33, views, states) == states  # it is not due
    assert not inner.shown
    assert regroup(64, views, states) == Partition([0, 0, 0, -1])


def test_a_spaced_clusterer_is_asked_when_many_are_without_a_group():
    inner = Says((0, 0, 0, 0))
    spaced = Spaced(inner, growth=1e9)
    some = Partition([0, 0, -1, -1])
    for met, asked in ((49, 0), (50, 1)):
        counts = romdp.Counts(
            np.array([[500], [500], [met], [0]]), np.zeros((4, 1, 4), int), *np.zeros((2, 4, 1))
        )
        spaced.regroup(Evidence(counts, step=2_000, last_step=1_999), some, RNG)
        assert len(inner.shown) == asked
    many = Partition(np.r_[np.zeros(400, int), -1])
    visits = np.r_[np.ones(400, int), 99][:, None]
    for more, asked in ((0, 1), (1, 2)):
        counts = romdp.Counts(
            visits + more * (many.labels < 0)[:, None],
            np.zeros((401, 1, 401), int),
            *np.zeros((2, 401, 1)),
        )
        spaced.regroup(Evidence(counts, step=2_000, last_step=1_999), many, RNG)
        assert len(inner.shown) == asked


def test_a_spaced_agent_regroups_seldom():
    inner = Says((0, 0, 0, 1, 1, 1, 2, 2, 2))
    agent = romdp.Agent(clusterer=Spaced(inner, growth=4.0))
    world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    run = romdp.play(agent, world, 2000, seed=0)
    assert len(inner.shown) <= 6 < len(run.epochs)
    assert run.partition == Partition(inner.labels)


@pytest.mark.parametrize("growth", [1.0, 0.5, np.inf, np.nan, "2"])
def test_a_growth_of_one_or_less_is_refused(growth):
    with pytest.raises(InvalidInputError, match="growth"):
        Spaced(Singletons(), growth)


def test_chain_rewrites_counts_of_groups_too():
    """An agent that counts by the paper's rule shows counts of groups, not of observations."""

    @dataclass(frozen=True)
    class Merge:
        needs = frozenset({"counts"})

        def regroup(self, evidence, previous, rng):
            assert evidence.counts.n_observations == previous.n_clusters
            return previous.merge(Partition([0, 1, 2, 2]))

    fine = Partition([0, 0, 1, 2])
    counts = Counts.zeros(3, 2)
    found = Chain(Merge(), Merge()).regroup(Evidence(counts), fine, np.random.default_rng(0))
    assert found == Partition([0, 0, 1, 1])


SEEN = Trajectory([0, 1, 2, 3, 0, 1, 2], [0, 1, 0, 1, 0, 1, 0], n_observations=4)
GROUPS = Partition([0, 0, 1, 1])


def test_observations_and_groups_are_both_understood():
    counts, triples = Counts.from_trajectory(SEEN), Triples.from_trajectory(SEEN)
    fine = Evidence(counts, triples)
    coarse = Evidence(counts.group(GROUPS), triples.relabel(GROUPS))
    assert group_counts(fine, GROUPS) == group_counts(coarse, GROUPS)
    assert group_triples(fine, GROUPS) == group_triples(coarse, GROUPS)
    assert group_triples(fine, GROUPS).n_observations == 2


def test_other_sizes_are_refused():
    evidence = Evidence(Counts.from_trajectory(SEEN), Triples.from_trajectory(SEEN))
    for read in (group_counts, group_triples):
        with pytest.raises(InvalidInputError, match="have 4 observations"):
            read(evidence, Partition([0, 1, 1]))


def test_missing_triples_are_an_error():
    with pytest.raises(InvalidInputError, match="no triples"):
        group_triples(Evidence(Counts.from_trajectory(SEEN)), GROUPS)


def test_a_trajectory_of_vectors_ends_where_it_says(monkeypatch):
    given = []
    find = offline.find_states
    monkeypatch.setattr(offline, "find_states", lambda *some: given.append(some[0]) or find(*some))
    rng = np.random.default_rng(0)
    states = np.arange(300) % 3  # of episodes of three steps, each shown near its own corner
    vectors = np.eye(3)[states] + rng.normal(0, 0.05, (300, 3))
    terminated = np.arange(100) % 2 == 0
    seen = Trajectory(vectors, np.zeros(300, int), lengths=np.full(100, 3), terminated=terminated)
    romdp.cluster(seen)
    assert given[0].next_observations[2::3].tolist() == np.where(terminated, END, UNKNOWN).tolist()
