"""Histories grouped by their futures."""

from itertools import combinations

import numpy as np
import pytest
from scipy.special import gammaln

from romdp import Partition, simulate, worlds
from romdp.clustering import futures
from romdp.clustering.histories import learn_memory
from romdp.core.errors import InvalidInputError
from romdp.data.trajectory import Trajectory


def random_machine(seed, n_episodes=1500, length=25, n_states=7, n_events=14):
    """Sequences of a random deterministic machine; returns them and what it knows at each step."""
    rng = np.random.default_rng(seed)
    shown = rng.dirichlet(np.full(n_events, 0.3), n_states)
    leads = rng.integers(n_states, size=(n_states, n_events))
    state = np.zeros(n_episodes, np.int64)
    events, laws = [], []
    for _ in range(length):
        draws = rng.random((n_episodes, 1))
        event = np.minimum((shown[state].cumsum(axis=1) < draws).sum(axis=1), n_events - 1)
        state = leads[state, event]
        events.append(event)
        laws.append(shown[state])
    flat = np.stack(events, axis=1).ravel()
    lengths = np.full(n_episodes, length)
    seen = Trajectory(flat, 0 * flat, lengths=lengths, n_observations=n_events)
    return seen, np.stack(laws, axis=1).reshape(len(flat), n_events)


def corridor(length, n_episodes, seed):
    """A cue, then a corridor, and at its end the action that the cue named pays; three views."""
    rng = np.random.default_rng(seed)
    cue = rng.integers(2, size=n_episodes)
    shown = np.full((n_episodes, length + 2), 2)
    shown[:, 0] = cue
    actions = rng.integers(2, size=shown.shape)
    rewards = np.zeros(shown.shape)
    rewards[:, -1] = actions[:, -1] == cue
    lengths = np.full(n_episodes, length + 2)
    ended = np.ones(n_episodes, np.bool_)
    seen = Trajectory(shown.ravel(), actions.ravel(), rewards.ravel(), lengths, terminated=ended)
    return seen, cue


@pytest.mark.parametrize("seed", range(2))
def test_a_random_machine_is_found(seed):
    """Nine tenths of the gap from the last event to the truth are closed, on other sequences."""
    seen, laws = random_machine(seed)
    held = np.arange(seen.n_steps) >= 4 * seen.n_steps // 5
    memory = learn_memory(seen.part(0, int((~held).sum())), None)
    assert memory is not None
    assert memory.n_states <= 14
    known = held & (seen.next_observations >= 0)
    after = seen.next_observations[known]
    truth = np.log(laws[known, after]).mean()
    pairs = np.full((14, 14), 0.5)
    counted = ~held & (seen.next_observations >= 0)
    np.add.at(pairs, (seen.observations[counted], seen.next_observations[counted]), 1.0)
    pairs /= pairs.sum(axis=1, keepdims=True)
    last = np.log(pairs[seen.observations[known], after]).mean()
    states = memory.run_over(seen)[known]
    found = memory.log_probabilities(states, seen.actions[known], after).mean()
    assert (found - last) / (truth - last) > 0.9


@pytest.mark.parametrize("length", [5, 10])
def test_a_cue_is_carried_through_a_corridor(length):
    seen, cue = corridor(length, 1500, seed=length)
    memory = learn_memory(seen, None)
    assert memory is not None
    at_end = memory.run_over(seen).reshape(len(cue), -1)[:, -1]
    assert not set(at_end[cue == 0].tolist()) & set(at_end[cue == 1].tolist())


def test_what_is_further_back_is_forgotten():
    seen, cue = corridor(5, 500, seed=0)
    memory = learn_memory(seen, 2)
    assert memory is not None
    at_end = memory.run_over(seen).reshape(len(cue), -1)[:, -1]
    assert len(set(at_end.tolist())) == 1


@pytest.mark.parametrize("seed", range(5))
def test_noise_is_not_remembered(seed):
    """A gain of two standard errors by luck: about 2% for each of a few candidates."""
    rng = np.random.default_rng(seed)
    n = 8000
    seen = Trajectory(
        rng.integers(10, size=n),
        rng.integers(3, size=n),
        (rng.random(n) < 0.5).astype(float),
        np.full(n // 20, 20),
    )
    assert learn_memory(seen, None) is None


def test_drift_is_not_remembered():
    rng = np.random.default_rng(0)
    n = 8000
    late = np.arange(n) >= n // 2
    shown = np.where(rng.random(n) < np.where(late, 0.8, 0.2), 0, rng.integers(1, 6, size=n))
    seen = Trajectory(shown, rng.integers(2, size=n), lengths=np.full(n // 20, 20))
    memory = learn_memory(seen, None)
    assert memory is None or memory.gain < 0.1


@pytest.mark.parametrize("seed", range(3))
def test_a_world_whose_observations_tell_their_state_needs_no_memory(seed):
    world = worlds.random_romdp(n_states=4, n_actions=2, n_observations=20, seed=seed)
    seen = simulate(world, "uniform", 20_000, seed=seed)
    assert learn_memory(seen, None, Partition(world.labels)) is None


def test_a_state_can_look_no_further_back_than_episodes_are_long():
    seen = Trajectory([0, 1, 0, 1], [0, 0, 0, 0], lengths=[3, 1])
    with pytest.raises(InvalidInputError, match="longest episode has 3 steps"):
        learn_memory(seen, 3)


def test_so_many_states_at_most():
    seen, _ = random_machine(1, n_episodes=400)
    memory = learn_memory(seen, None, n_states=4)
    assert memory is not None
    assert memory.n_states <= 4


def plain_score(groups, lists, alpha, sizes):
    """The score that greedy merging raises, in plain NumPy."""
    value = 0.0
    for row in groups:
        value += (gammaln(row + alpha) - gammaln(alpha)).sum()
        for which in np.unique(lists):
            mass = alpha * (lists == which).sum()
            total = row[lists == which].sum()
            value += gammaln(mass) - gammaln(total + mass)
    return value + gammaln(np.array(sizes)).sum()


def plain_merging(table, lists, alpha):
    groups, members = list(table), [[i] for i in range(len(table))]

    def score(of):
        rows = [sum(table[i] for i in some) for some in of]
        return plain_score(np.array(rows), lists, alpha, [len(some) for some in of])

    while len(members) > 1:
        now, rivals = score(members), []
        for k, m in combinations(range(len(members)), 2):
            rest = [some for i, some in enumerate(members) if i not in (k, m)]
            rivals.append([members[k] + members[m], *rest])
        best = max(rivals, key=score)
        if score(best) <= now:
            break
        members = best
    labels = np.empty(len(groups), np.int64)
    for i, some in enumerate(members):
        labels[some] = i
    return Partition(labels)


@pytest.mark.parametrize("seed", range(4))
def test_merging_is_its_plain_twin(seed):
    rng = np.random.default_rng(seed)
    lists = np.array([0, 0, 0, 1, 1])
    kinds = rng.integers(3, size=12)
    table = rng.poisson(np.array([[9, 1, 1, 2, 9], [1, 9, 1, 9, 2], [1, 1, 9, 5, 5]])[kinds])
    alpha, sizes = 0.5, np.bincount(lists)
    cell, row = futures._tables(alpha, sizes)
    groups = table.astype(np.int64)
    sums = np.stack([groups[:, lists == which].sum(axis=1) for which in (0, 1)], axis=1)
    labels = np.arange(12)
    futures._merge(groups, sums, cell, row, alpha, sizes, 0, labels)
    assert Partition(labels) == plain_merging(table, lists, alpha)


def test_rows_join_the_group_in_which_they_are_most_probable():
    rng = np.random.default_rng(0)
    lists = np.zeros(4, np.int64)
    kinds = rng.integers(2, size=60)
    table = rng.poisson(np.array([[8, 1, 1, 1], [1, 1, 1, 8]])[kinds])
    rows, columns = np.nonzero(table)
    labels = futures.group_rows(rows, columns, table[rows, columns], lists, 60)
    assert Partition(labels) == Partition(kinds)


def test_what_matters_two_steps_on_is_kept():
    """Each event is mostly that of two steps before, so the last one tells only of the one after.

    Codes that are followed alike are told apart if what follows leads to different states.
    """
    rng = np.random.default_rng(0)
    shown = rng.integers(3, size=(400, 12))
    for t in range(2, 12):
        same = rng.random(400) < 0.9
        shown[same, t] = shown[same, t - 2]
    flat = shown.ravel()
    seen = Trajectory(flat, 0 * flat, lengths=np.full(400, 12))
    memory = learn_memory(seen, None)
    assert memory is not None
    at = memory.run_over(seen).reshape(400, 12)[:, 11]
    pairs = 3 * shown[:, 10] + shown[:, 11]
    assert Partition(at) == Partition(pairs)
    assert (memory.curve[:, 1] == np.sort(memory.curve[:, 1])).all()
