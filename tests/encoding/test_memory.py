"""`Memory`: a state machine that runs over logs, is asked step by step, and lives in files."""

import numpy as np
import pytest

from romdp.core.errors import InvalidInputError, StorageError
from romdp.data.trajectory import Trajectory
from romdp.encoding.memory import Memory, check_memory


def some_log(seed=0, n=400):
    rng = np.random.default_rng(seed)
    lengths = rng.multinomial(n - 40, np.full(40, 1 / 40)) + 1
    ended = rng.random(40) < 0.5
    shown, done = rng.integers(5, size=n), rng.integers(3, size=n)
    return Trajectory(shown, done, lengths=lengths, terminated=ended, n_observations=5, n_actions=3)


def some_machine(seed=0):
    seen = some_log(seed)
    states = np.random.default_rng(seed + 1).integers(4, size=seen.n_steps)
    return Memory.of(states, seen, letters=np.array([0, 1, 1, 2, 2])), seen


def plain_run(memory, observations, actions, begins):
    """The kernel's twin: one call of `step` per observation."""
    state, found = -1, []
    for t, shown in enumerate(observations):
        before = -1 if begins[t] else state
        state = memory.step(before, actions[t - 1] if t and not begins[t] else 0, shown)
        found.append(state)
    return found


@pytest.mark.parametrize("seed", range(5))
def test_running_is_stepping(seed):
    memory, seen = some_machine(seed)
    begins = np.isin(np.arange(seen.n_steps), seen.starts)
    shown = np.where(np.arange(seen.n_steps) % 50 == 7, -1, seen.observations)
    found = memory.run(shown, seen.actions, begins)
    assert found.tolist() == plain_run(memory, shown, seen.actions, begins)
    assert memory.n_states > 1


def test_a_machine_follows_the_states_that_it_is_made_of():
    seen = some_log(n=4000)
    counter = np.zeros(seen.n_steps, np.int64)  # how often observation 0 was seen, up to twice
    for t, shown in enumerate(seen.observations):
        before = 0 if seen.ages[t] == 0 else counter[t - 1]
        counter[t] = min(before + (shown == 0), 2)
    memory = Memory.of(counter, seen)
    assert (memory.run_over(seen) == counter).all()
    assert memory.visits.tolist() == np.bincount(counter).tolist()


def test_laws_are_what_followed():
    memory, seen = some_machine()
    states = memory.run_over(seen)
    over = seen.next_observations == -2
    state, action = states[over][0], seen.actions[over][0]
    sizes = memory.n_observations
    every = np.arange(sizes + 1)
    same = np.full(sizes + 1, 1)
    chances = np.exp(memory.log_probabilities(state * same, action * same, every))
    assert chances.sum() == pytest.approx(1.0)
    here = (states == state) & (seen.actions == action) & (seen.next_observations != -1)
    ended, n = (here & over).sum(), here.sum()
    assert abs(chances[5] - ended / n) < 1 / n


def test_a_memory_comes_back_from_its_arrays():
    memory, seen = some_machine()
    back = Memory.from_arrays(memory.arrays())
    assert back.n_states == memory.n_states
    assert (back.run_over(seen) == memory.run_over(seen)).all()
    followed = memory.run_over(seen)[:-1], seen.actions[:-1], seen.observations[1:]
    assert (back.log_probabilities(*followed) == memory.log_probabilities(*followed)).all()


@pytest.mark.parametrize("name", ["keys", "law_keys", "targets", "letters", "visits"])
def test_a_damaged_memory_is_refused(name):
    memory, _ = some_machine()
    arrays = memory.arrays()
    arrays[name] = arrays[name][::-1].copy() if "keys" in name else arrays[name] + 10**9
    if name == "visits":
        arrays[name] = arrays[name][:1]
    with pytest.raises(StorageError, match="memory is damaged"):
        Memory.from_arrays(arrays)


@pytest.mark.parametrize("memory", [-1, 1.5, "all", None])
def test_what_is_no_memory_is_refused(memory):
    with pytest.raises(InvalidInputError, match="memory"):
        check_memory(memory)
