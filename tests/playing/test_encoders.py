"""Spaces of observations and actions, and environments that step many copies at once."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import romdp
from romdp.core.errors import InvalidInputError
from romdp.encoding.observations import Numbering

SPACES = [
    spaces.Discrete(1),
    spaces.Discrete(7),
    spaces.Discrete(5, start=-2),
    spaces.MultiDiscrete([2, 3, 4]),
    spaces.MultiDiscrete([2, 3], start=[1, -1]),
    spaces.MultiDiscrete([[2, 3], [1, 4]]),
    spaces.MultiBinary(4),
    spaces.MultiBinary([2, 2]),
    spaces.Tuple([spaces.Discrete(3), spaces.MultiBinary(2), spaces.Discrete(2, start=1)]),
    spaces.Dict({"b": spaces.Discrete(3), "a": spaces.MultiDiscrete([2, 2])}),
    spaces.Tuple([spaces.Dict({"x": spaces.Discrete(2)}), spaces.Tuple([spaces.Discrete(4)])]),
]


def plain(element):
    """An element as nested tuples, so that two can be compared."""
    if isinstance(element, dict):
        return tuple((key, plain(element[key])) for key in sorted(element))
    if isinstance(element, tuple):
        return tuple(plain(part) for part in element)
    return np.asarray(element).tolist(), np.shape(element)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_numbers_and_elements_are_one_to_one(space):
    numbering = Numbering(space, "observation")
    elements = [numbering.decode(number) for number in range(numbering.size)]
    assert all(element in space for element in elements)
    assert [numbering.encode(element) for element in elements] == list(range(numbering.size))
    assert len({repr(plain(element)) for element in elements}) == numbering.size


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_whatever_a_space_samples_has_a_number(space):
    numbering = Numbering(space, "observation")
    space.seed(0)
    for _ in range(200):
        element = space.sample()
        number = numbering.encode(element)
        assert 0 <= number < numbering.size
        assert plain(numbering.decode(number)) == plain(element)


def test_the_sizes_are_products():
    assert [Numbering(space, "action").size for space in SPACES] == [
        1, 7, 5, 24, 6, 24, 16, 16, 24, 12, 8
    ]  # fmt: skip


def test_numbers_of_any_kind_will_do():
    numbering = Numbering(spaces.Discrete(5), "observation")
    assert {numbering.encode(kind(3)) for kind in (int, np.int32, np.uint8, np.array)} == {3}


@pytest.mark.parametrize(
    ("space", "element"),
    [
        (spaces.Discrete(3), 3),
        (spaces.Discrete(3), -1),
        (spaces.Discrete(3), None),
        (spaces.Discrete(3), 1.5),
        (spaces.Discrete(3), np.nan),
        (spaces.Discrete(3), "two"),
        (spaces.Discrete(3, start=1), 0),
        (spaces.MultiDiscrete([2, 3]), [1, 3]),
        (spaces.MultiDiscrete([2, 3]), [-1, 0]),
        (spaces.MultiDiscrete([2, 3]), [1]),
        (spaces.MultiDiscrete([2, 3]), [1, 1, 1]),
        (spaces.MultiDiscrete([2, 3]), [0.5, 1]),
        (spaces.MultiBinary(2), [0, 2]),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]), (0,)),
        (spaces.Tuple([spaces.Discrete(2), spaces.Discrete(2)]), (0, 5)),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": 0}),
        (spaces.Dict({"a": spaces.Discrete(2)}), 0),
    ],
    ids=str,
)
def test_an_element_outside_is_refused(space, element):
    with pytest.raises(InvalidInputError, match="observation"):
        Numbering(space, "observation").encode(element)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 1, (2,)),
        spaces.Text(5),
        spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1)]),
        spaces.Sequence(spaces.Discrete(2)),
    ],
    ids=str,
)
def test_spaces_that_cannot_be_numbered_are_refused(space):
    with pytest.raises(InvalidInputError, match=r"action space .* enumerable.*VocabularyWrapper"):
        Numbering(space, "action")


def test_spaces_that_are_too_large_are_refused():
    for space in (spaces.MultiDiscrete([1000] * 5), spaces.MultiBinary(64), spaces.Discrete(2**40)):
        with pytest.raises(InvalidInputError, match="too many to number"):
            Numbering(space, "observation")


class Corridor(gymnasium.Env):
    """Cells 0 to 3 in a row; the step out of the last one pays 1 and ends the episode."""

    observation_space = spaces.Discrete(4)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.cell = 0
        return 0, {}

    def step(self, action):
        last = self.cell == 3
        self.cell = min(self.cell + 1, 3)
        return self.cell, float(last), last, False, {}


def played(mode, n=3, steps=30, limit=None):
    def make():
        return Corridor() if limit is None else gymnasium.wrappers.TimeLimit(Corridor(), limit)

    env = SyncVectorEnv([make for _ in range(n)], autoreset_mode=mode)
    playing = romdp.epochs(romdp.PSRL(), env, steps, seed=0)
    for _ in playing:
        pass
    return playing


def moves(playing):
    return playing.state.recorder.counts.dense().transitions.sum(axis=1)


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_no_step_is_invented_or_lost_at_a_restart(mode):
    playing = played(mode, steps=48)
    counted = moves(playing)
    assert playing.run.steps[-1] == 48
    assert set(zip(*np.nonzero(counted), strict=True)) == {(0, 1), (1, 2), (2, 3)}
    returns = playing.run.returns
    assert (returns["return"] == 1.0).all()
    assert (returns["length"] == 4).all()
    ends = playing.state.recorder.counts.ends.sum(axis=1)
    assert ends.tolist() == [0, 0, 0, len(returns)]
    assert playing.run.reward[-1] == len(returns) >= 10


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_cut_episode_leads_nowhere(mode):
    playing = played(mode, steps=42, limit=2)
    assert set(zip(*np.nonzero(moves(playing)), strict=True)) == {(0, 1)}
    assert (playing.run.returns["length"] == 2).all()
    assert playing.run.reward[-1] == 0.0


def test_a_vector_of_one_is_an_environment():
    lake = romdp.play(romdp.PSRL(), gymnasium.make("FrozenLake-v1"), 300, seed=0)
    mode = AutoresetMode.SAME_STEP
    vector = gymnasium.make_vec("FrozenLake-v1", 1, vector_kwargs={"autoreset_mode": mode})
    one = romdp.play(romdp.PSRL(), vector, 300, seed=0)
    np.testing.assert_array_equal(one.returns, lake.returns)
    for column in ("start", "length", "n_clusters"):
        np.testing.assert_array_equal(one.epochs[column], lake.epochs[column])


def test_experience_is_pooled():
    vector = gymnasium.make_vec("FrozenLake-v1", 4, is_slippery=False)
    run = romdp.play(romdp.LCPSRL(), vector, 8_000, seed=0)
    assert run.mean_return > 0.5
    state, path = 0, []
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    state, _ = env.reset(seed=0)
    for _ in range(20):
        state, reward, over, *_ = env.step(run.policy.act(state))
        path.append(int(state))
        if over:
            break
    assert reward == 1.0, path


def test_observations_of_several_parts_are_taken_apart():
    vector = gymnasium.make_vec("Blackjack-v1", 3)
    run = romdp.play(romdp.PSRL(), vector, 200, seed=0, reward_range=(-1, 1))
    assert run.policy.act((12, 3, 0)) in (0, 1)
    assert len(run.returns) > 50


def test_a_vector_with_continuous_actions_is_refused():
    with pytest.raises(romdp.ROMDPError, match=r"action space is Box.*TransformAction"):
        romdp.play(romdp.PSRL(), gymnasium.make_vec("Pendulum-v1", 2), 10)
