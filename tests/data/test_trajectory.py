"""Trajectories: what they hold, where episodes end, what they refuse."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.storage import write_arrays
from romdp.data.trajectory import Trajectory


@st.composite
def trajectories(draw, n_observations=4, n_actions=3, with_rewards=None):
    lengths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    n_steps = sum(lengths)

    def numbers(low, high, size):
        return draw(st.lists(st.integers(low, high), min_size=size, max_size=size))

    has_rewards = draw(st.booleans()) if with_rewards is None else with_rewards
    return Trajectory(
        numbers(0, n_observations - 1, n_steps),
        numbers(0, n_actions - 1, n_steps),
        [value / 4 for value in numbers(-4, 8, n_steps)] if has_rewards else None,
        lengths,
        numbers(-1, n_observations - 1, len(lengths)),
        n_observations=n_observations,
        n_actions=n_actions,
    )


def steps_twin(seen):
    """Walk through a trajectory in plain Python: (previous or None, observation, action, next)."""
    steps, t = [], 0
    for length, final in zip(seen.lengths.tolist(), seen.final_observations.tolist(), strict=True):
        for i in range(length):
            previous = int(seen.observations[t - 1]) if i > 0 else None
            following = int(seen.observations[t + 1]) if i < length - 1 else final
            steps.append((previous, int(seen.observations[t]), int(seen.actions[t]), following))
            t += 1
    return steps


def test_defaults_are_one_episode_that_ends_in_the_unknown():
    seen = Trajectory([0, 4, 2], (1, 0, 1))
    assert (seen.n_steps, len(seen), seen.n_episodes) == (3, 3, 1)
    assert (seen.n_observations, seen.n_actions) == (5, 2)
    assert seen.rewards is None
    assert seen.lengths.tolist() == [3]
    assert seen.final_observations.tolist() == [-1]
    assert seen.next_observations.tolist() == [4, 2, -1]


def test_a_final_observation_counts_for_the_size():
    assert Trajectory([0], [0], final_observations=[6]).n_observations == 7
    seen = Trajectory([0], [0], n_observations=1e3, n_actions=np.int32(4))
    assert (seen.n_observations, seen.n_actions) == (1000, 4)
    assert isinstance(seen.n_actions, int)


@given(trajectories())
def test_next_observations_and_triples_against_a_plain_walk(seen):
    steps = steps_twin(seen)
    assert seen.next_observations.tolist() == [following for *_, following in steps]
    expected = [step for step in steps if step[0] is not None and step[3] >= 0]
    found = list(zip(*(column.tolist() for column in seen.triples()), strict=True))
    assert found == expected


@given(trajectories())
def test_episodes_put_together_are_the_trajectory(seen):
    episodes = list(seen.episodes())
    assert [len(episode) for episode in episodes] == seen.lengths.tolist()
    assert [episode.observations[0] for episode in episodes] == seen.observations[
        seen.starts
    ].tolist()
    assert all(np.shares_memory(episode.actions, seen.actions) for episode in episodes)
    assert Trajectory.concatenate(episodes) == seen


def test_concatenation_takes_the_largest_sizes():
    joined = Trajectory.concatenate(
        [Trajectory([0], [3]), Trajectory([5, 1], [0, 0], lengths=[1, 1])]
    )
    assert (joined.n_observations, joined.n_actions, joined.n_episodes) == (6, 4, 3)


def test_equality_sees_every_part():
    def make(**changes):
        parts = {"observations": [0, 1, 1], "actions": [0, 1, 0], "rewards": [0.0, 0.5, 1.0]}
        parts |= {"lengths": [2, 1], "final_observations": [0, -1], "n_observations": 3}
        return Trajectory(**(parts | changes))

    same = make()
    assert same == make()
    assert same != make(observations=[0, 1, 2])
    assert same != make(actions=[0, 1, 1])
    assert same != make(rewards=[0.0, 0.5, 0.9])
    assert same != make(rewards=None)
    assert make(rewards=None) == make(rewards=None)
    assert same != make(lengths=[1, 2])
    assert same != make(final_observations=[0, 0])
    assert same != make(n_observations=4)
    assert same != make(n_actions=3)
    assert same != "a trajectory"
    with pytest.raises(TypeError, match="unhashable"):
        hash(same)


def test_arrays_are_copied_and_read_only():
    observations = np.array([0, 1])
    seen = Trajectory(observations, [0, 0], [0.5, 0.5])
    observations[0] = 1
    assert seen.observations[0] == 0
    for array in (seen.observations, seen.rewards, seen.next_observations, seen.starts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_repr():
    seen = Trajectory(np.zeros(10_000, int), np.zeros(10_000, int), np.zeros(10_000))
    assert repr(seen) == (
        "Trajectory(10,000 steps, 1 episode, 1 observations, 1 actions, with rewards)"
    )


@given(seen=trajectories())
def test_saving_keeps_everything(tmp_path_factory, seen):
    path = tmp_path_factory.mktemp("seen") / "seen.npz"
    seen.save(path)
    assert Trajectory.load(path) == seen


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "seen.npz"
    with pytest.raises(StorageError, match="cannot read"):
        Trajectory.load(path)
    path.write_bytes(b"nothing of ours")
    with pytest.raises(StorageError, match="damaged"):
        Trajectory.load(path)
    write_arrays(path, "trajectory", 1, {"observations": np.array([0, -3])})
    with pytest.raises(StorageError, match="damaged"):
        Trajectory.load(path)
    bad = {"observations": np.array([0, -3]), "actions": np.array([0, 0])}
    write_arrays(path, "trajectory", 1, bad, {"n_observations": 2, "n_actions": 1})
    with pytest.raises(StorageError, match=r"observations\[1\] is -3"):
        Trajectory.load(path)
    write_arrays(path, "counts", 1, bad)
    with pytest.raises(StorageError, match="holds a counts"):
        Trajectory.load(path)


GOOD = {"observations": [0, 1, 2], "actions": [0, 1, 0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observations": [], "actions": []}, "no axis may be empty"),
        ({"observations": [0, -1, 2]}, r"observations\[1\] is -1"),
        ({"observations": [0.5, 1, 2]}, "observations holds float64"),
        ({"observations": "abc"}, "observations holds"),
        ({"observations": [[0, 1, 2]]}, "actions has 3 entries and observations 1"),
        ({"observations": [0, 1, 2**63 - 1]}, r"observations\[2\] is 9223372036854775807"),
        ({"actions": [0, 1]}, "actions has 2 entries and observations 3"),
        ({"actions": 0}, r"actions has shape \(\)"),
        ({"actions": [0, 1, -1]}, r"actions\[2\] is -1"),
        ({"actions": [True, False, True]}, "actions holds bool"),
        ({"rewards": [0, 1]}, "rewards has 2 entries and observations 3"),
        ({"rewards": [0, np.nan, 1]}, r"rewards\[1\] is nan"),
        ({"rewards": [0, np.inf, 1]}, r"rewards\[1\] is inf"),
        ({"rewards": ["a", "b", "c"]}, "rewards holds"),
        ({"lengths": [1, 1]}, "lengths sums to 2, but there are 3 steps"),
        ({"lengths": [0, 3]}, r"lengths\[0\] is 0"),
        ({"lengths": []}, "no axis may be empty"),
        ({"final_observations": [0, 1]}, r"final_observations has shape \(2,\); it must be \(1,\)"),
        ({"final_observations": [-2]}, r"final_observations\[0\] is -2"),
        ({"final_observations": [3], "n_observations": 3}, r"final_observations\[0\] is 3"),
        ({"n_observations": 2}, r"observations\[2\] is 2; entries must lie from 0 to 1"),
        ({"n_actions": 1}, r"actions\[1\] is 1"),
        ({"n_actions": 0}, "n_actions is 0"),
        ({"n_observations": 2.5}, "n_observations is 2.5"),
    ],
)
def test_bad_input_is_refused(changes, message):
    with pytest.raises(InvalidInputError, match=message):
        Trajectory(**(GOOD | changes))


def test_bad_concatenations_are_refused():
    with pytest.raises(InvalidInputError, match="nothing to concatenate"):
        Trajectory.concatenate([])
    with pytest.raises(InvalidInputError, match=r"trajectories\[1\] has no rewards"):
        Trajectory.concatenate([Trajectory([0], [0], [1.0]), Trajectory([0], [0])])
