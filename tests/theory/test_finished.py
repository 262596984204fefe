import json
from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from cases import draw, tiny

import romdp
from romdp.core.errors import InvalidInputError
from romdp.data.partition import Partition
from romdp.theory import Magnitude, epoch_counts, run_bound
from romdp.theory.regret import auxiliary_diameter

COLUMNS = [("start", np.int64), ("length", np.int64), ("n_clusters", np.int64)]


@dataclass(frozen=True)
class Played:
    epochs: Any
    groupings: Any


def played(lengths, groupings):
    starts = np.cumsum([0, *lengths[:-1]])
    rows = list(zip(starts, lengths, [0] * len(lengths), strict=True))
    return Played(np.array(rows, COLUMNS).view(np.recarray), groupings)


FINEST = Partition.singletons(4)
PARTLY = Partition([0, 1, 0, 2])
TRUTH = Partition([0, 1, 0, 1])


def test_with_counts_it_is_the_sum_of_the_theorem():
    world = tiny()
    run = played([2, 5, 20], ((1, FINEST), (3, PARTLY)))
    rng = np.random.default_rng(0)
    visits = [rng.integers(5, size=(s, 2)) for s in (4, 4, 3)]
    counts = [rng.integers(9, size=(s, 2)) for s in (4, 4, 3)]
    expected = 0.0
    for k, (start, partition) in enumerate(((0, FINEST), (2, FINEST), (7, PARTLY))):
        diameter = auxiliary_diameter(world, partition)
        inner = sum(
            nu / sqrt(max(1, n)) for nu, n in zip(visits[k].flat, counts[k].flat, strict=True)
        )
        size = partition.n_clusters
        expected += diameter * sqrt(size * log(max(1, start) / 0.1)) * inner
    found = run_bound(world, run, 0.1, visits=visits, counts=counts)
    assert float(found.bound) == pytest.approx(expected)
    assert found["thm:regret"] == found.bound
    assert "with the counts given" in str(found)


def test_without_counts_it_is_the_smaller_of_two_worst_cases():
    world = tiny()
    run = played([1, 1, 2, 30], ((1, FINEST), (4, TRUTH)))
    found = run_bound(world, run, 0.1)
    first, second = found.stretches
    d_y, d_x = world.assumptions().observable_diameter, world.hidden.diameter()
    logs = [log(10), log(10), log(20)]
    apart = sum(
        d_y * sqrt(4 * g) * sqrt(min(4, n) * n) for g, n in zip(logs, (1, 1, 2), strict=True)
    )
    together = d_y * sqrt(4 * logs[-1]) * (sqrt(2) + 1) * sqrt(4 * 2 * 4)
    assert float(first.bound) == pytest.approx(min(apart, together))
    apart = d_x * sqrt(2 * log(40)) * sqrt(2 * 30)
    together = d_x * sqrt(2 * log(40)) * (sqrt(2) + 1) * sqrt(2 * 2 * 30)
    assert float(second.bound) == pytest.approx(min(apart, together))
    assert (first.first, first.last, first.steps, first.n_groups) == (1, 3, 4, 4)
    assert (second.first, second.last, second.steps, second.n_groups) == (4, 4, 30, 2)
    assert second.diameter == pytest.approx(d_x)
    spread = sqrt(d_y * 4 + d_x * 30)
    assert float(found["sqrt(sum D nu)"]) == pytest.approx(spread)
    assert "worst case under the doubling rule" in str(found)


def test_many_epochs_of_one_grouping_use_the_lemma_of_jaksch():
    world = tiny()
    run = played([50] * 100, ((1, TRUTH),))
    together = sqrt(2 * log(4950 / 0.1)) * (sqrt(2) + 1) * sqrt(2 * 2 * 5000)
    bound = run_bound(world, run, 0.1).bound
    assert float(bound) == pytest.approx(world.hidden.diameter() * together)


@pytest.mark.parametrize("seed", range(5))
def test_the_worst_case_is_never_below_the_sum_with_counts(seed):
    """Simulate any sequence under the doubling rule: the closed form must hold it."""
    world, rng = draw(seed, 2, 2, 4), np.random.default_rng(seed)
    totals, lengths, visits, counts = np.zeros((4, 2), int), [], [], []
    for _ in range(40):
        table, now = rng.integers(2, size=4), np.zeros((4, 2), int)
        while True:
            s = rng.choice(4, p=[0.7, 0.2, 0.06, 0.04])
            now[s, table[s]] += 1
            if now[s, table[s]] >= max(1, totals[s, table[s]]):
                break
        lengths.append(int(now.sum()))
        visits.append(now)
        counts.append(totals.copy())
        totals += now
    run = played(lengths, ((1, FINEST),))
    exact = run_bound(world, run, 0.1, visits=visits, counts=counts).bound
    assert exact <= run_bound(world, run, 0.1).bound


def test_groups_that_mix_hidden_states_count_with_their_length():
    world = tiny()
    run = played([1, 10, 100], ((1, FINEST), (2, Partition([0, 0, 1, 2]))))
    found = run_bound(world, run, 0.1)
    assert found.stretches[1].diameter is None
    assert (found.stretches[1].first, found.stretches[1].last) == (2, 3)
    assert found.stretches[1].bound == Magnitude.of(110)
    assert found["steps with mixed groups"] == 110
    assert float(found.bound) == pytest.approx(float(found.stretches[0].bound) + 110)
    assert "mixed groups" in str(found)


def test_observations_without_a_group_are_groups_of_their_own():
    world = tiny()
    one = run_bound(world, played([1, 9], ((1, Partition([0, -1, 0, -1])),)), 0.1)
    other = run_bound(world, played([1, 9], ((1, PARTLY),)), 0.1)
    assert one.bound == other.bound
    assert one.stretches[0].n_groups == 3


def test_a_real_run_stands_next_to_its_regret():
    world = draw(1, n_states=2, n_actions=2, n_observations=6)
    for agent in (romdp.UCRL2(), romdp.Oracle(world.labels)):
        run = romdp.play(agent, world, steps=2000, seed=0)
        found = run_bound(world, run)
        assert found["steps"] == 2000
        assert found["epochs"] == len(run.epochs)
        assert found["regret"] == run.regret[-1]
        assert found["pseudo_regret"] == run.pseudo_regret[-1]
        content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert content["stretches"][-1]["last_epoch"] == len(run.epochs)
        assert sum(part["steps"] for part in content["stretches"]) == 2000
        assert run.agent in found.title


class _Watching(romdp.Optimism):
    """A planner that notes the visits that it is shown: N_k(s, a) by another way."""

    seen: list

    def plan(self, counts, *rest):
        self.seen.append(counts.visits.copy())
        return super().plan(counts, *rest)


@pytest.mark.parametrize("counting", ["pooled", "paper"])
def test_the_counts_of_a_run_are_those_its_planner_was_shown(counting):
    world = draw(2, n_states=2, n_actions=2, n_observations=8)
    planner = _Watching(romdp.Hoeffding(0.1))
    object.__setattr__(planner, "seen", [])
    agent = replace(
        romdp.SLUCRL(2, romdp.Hoeffding(0.1), counting=counting), planner=planner, name="watched"
    )
    playing = romdp.epochs(agent, world, steps=20_000, seed=0)
    visits, counts = epoch_counts(playing)
    run = playing.run
    assert run.partition.n_clusters < 8  # groups did merge
    assert len(visits) == len(counts) == len(planner.seen) == len(run.epochs)
    for before, shown in zip(counts, planner.seen, strict=True):
        np.testing.assert_array_equal(before, shown)
    np.testing.assert_array_equal([nu.sum() for nu in visits], run.epochs.length)
    # With them the sum is exact: it lies below the worst case, and above what is left of it.
    exact = run_bound(world, run, visits=visits, counts=counts).bound
    assert exact < run_bound(world, run).bound


def test_it_says_which_runs_the_theorem_does_not_cover():
    world = draw(1, n_states=2, n_actions=2, n_observations=6)
    for agent, expected in (
        (romdp.SLUCRL(None, romdp.Hoeffding(), counting="paper"), ""),
        (romdp.SLUCRL(counting="paper"), "no confidence sets like the paper's"),
        (romdp.SLUCRL(), "its counts are pooled"),
        (romdp.SLUCRL(None, romdp.Hoeffding(0.1), counting="paper"), "scaled by 0.1"),
        (romdp.PSRL(), "pooled and it has no confidence sets"),
    ):
        run = romdp.play(agent, world, steps=50, seed=0)
        found = run_bound(world, run, agent=agent)
        assert bool(found.caveat) == bool(expected)
        assert expected in found.caveat
        assert found.caveat in found.title
    assert "not known" in run_bound(world, run).title


def test_long_histories_are_shortened_when_printed():
    world = draw(0, n_states=1, n_actions=1, n_observations=30)
    partitions = [Partition(np.maximum(np.arange(30) - k, 0)) for k in range(20)]
    run = played([1] * 20, tuple((k + 1, p) for k, p in enumerate(partitions)))
    found = run_bound(world, run)
    assert len(found.stretches) == 20
    assert str(found).count("steps, S = ") == 10
    assert len(found.to_dict()["stretches"]) == 20


def test_refuses_runs_of_other_worlds_and_incomplete_counts():
    world = tiny()
    with pytest.raises(InvalidInputError, match="epoch 1 has 5 observations"):
        run_bound(world, played([1], ((1, Partition.singletons(5)),)))
    run = played([1, 2], ((1, FINEST),))
    with pytest.raises(InvalidInputError, match="2 epochs; pass both"):
        run_bound(world, run, visits=[np.ones((4, 2))] * 2)
    with pytest.raises(InvalidInputError, match="visits is True"):
        run_bound(world, run, visits=True, counts=romdp.PSRL)
    with pytest.raises(InvalidInputError, match="2 epochs"):
        run_bound(world, run, visits=[np.ones((4, 2))], counts=[np.ones((4, 2))])
    with pytest.raises(InvalidInputError, match=r"counts\[1\] has shape"):
        run_bound(world, run, visits=[np.ones((4, 2))] * 2, counts=[np.ones((4, 2)), [[1, 2]]])
    with pytest.raises(InvalidInputError, match="no epochs"):
        run_bound(world, played([1], ()))
    with pytest.raises(InvalidInputError, match="delta is 2"):
        run_bound(world, run, 2)
