"""Finished episodes: their returns, how they are averaged, and how they are kept."""

import gymnasium
import numpy as np
import pytest

import romdp
from romdp.core.errors import StorageError
from romdp.playing.episodes import (
    RETURN_COLUMNS,
    Episodes,
    learning_curve,
    mean_return,
    success_rate,
)
from romdp.worlds import random_romdp


def listed(*rows):
    episodes = Episodes()
    for row in rows:
        episodes.add(*row)
    return episodes


class Countdown(gymnasium.Env):
    """Episodes of 1, 2, 3, ... steps; the last step pays -3, the others 2; every third is cut."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        self.episode = 0

    def reset(self, *, seed=None, options=None):
        self.episode += 1
        self.left = self.episode
        return 0, {}

    def step(self, action):
        self.left -= 1
        over, cut = self.left == 0, self.episode % 3 == 0
        return self.left % 4, -3.0 if over else 2.0, over and not cut, over and cut, {}


def test_every_finished_episode_has_a_row():
    run = romdp.play(romdp.PSRL(), Countdown(), 12, seed=0, reward_range=(-3, 2))
    assert run.returns.dtype.names == ("step", "return", "length")
    assert run.returns["step"].tolist() == [1, 3, 6, 10]  # the fifth is under way
    assert run.returns["return"].tolist() == [-3, -1, 1, 3]
    assert run.returns.length.tolist() == [1, 2, 3, 4]
    assert run.mean_return == 3.0  # of those that end after step 9.6
    assert np.isnan(run.success_rate)  # some cost something
    assert "episodes=4, mean_return=3" in repr(run)


def test_a_world_without_ends_has_no_episodes():
    run = romdp.play(romdp.PSRL(), random_romdp(seed=0), 10)
    assert run.returns.dtype == RETURN_COLUMNS
    assert len(run.returns) == 0
    assert np.isnan(run.mean_return)
    assert np.isnan(run.success_rate)
    assert "episodes" not in repr(run)


def test_success_is_to_be_paid_where_an_episode_may_pay_nothing():
    returns = listed((10, 0.0, 10), (85, 0.0, 75), (90, 0.9, 5), (95, 1.0, 5), (99, 0.0, 4)).returns
    assert mean_return(returns, 100) == pytest.approx(1.9 / 4)
    assert success_rate(returns, 100) == 0.5
    assert np.isnan(success_rate(listed((90, 2.0, 90), (100, 1.0, 10)).returns, 100))
    assert np.isnan(mean_return(listed((80, 1.0, 80)).returns, 100))  # it ended too early


def test_the_curve_is_a_running_mean():
    values = np.arange(40.0)
    returns = listed(*((i + 1, v, 1) for i, v in enumerate(values))).returns
    step, curve = learning_curve(returns)
    assert step.tolist() == list(range(1, 41))
    means = [values[max(0, i - 9) : i + 1].mean() for i in range(40)]
    np.testing.assert_allclose(curve, means)
    many = listed(*((i + 1, 1.0, 1) for i in range(5000))).returns
    assert len(learning_curve(many)[0]) == 1000


def test_a_picture_of_episodes_is_a_learning_curve():
    run = romdp.play(romdp.PSRL(), Countdown(), 60, seed=0, reward_range=(-3, 2))
    axes = run.plot()
    (line,), (dots,) = axes.get_lines(), axes.collections
    np.testing.assert_array_equal(dots.get_offsets()[:, 1], run.returns["return"])
    np.testing.assert_array_equal(line.get_ydata(), learning_curve(run.returns)[1])


def test_episodes_are_kept_bit_by_bit():
    episodes = listed((3, 0.1 + 0.2, 3), (3, -1.0, 1), (9, float("1e300"), 5))
    again = Episodes.from_arrays(episodes.arrays(), 9)
    assert again.returns.tobytes() == episodes.returns.tobytes()


@pytest.mark.parametrize(
    "rows",
    [
        [(3, 0.0, 4)],  # longer than the run
        [(10, 0.0, 1)],  # after its end
        [(5, 0.0, 1), (3, 0.0, 1)],  # back in time
        [(3, 0.0, 0)],  # empty
    ],
)
def test_episodes_that_cannot_be_are_refused(rows):
    with pytest.raises(StorageError, match="episodes are not those of the steps played"):
        Episodes.from_arrays(listed(*rows).arrays(), 9)
    with pytest.raises(StorageError, match="missing"):
        Episodes.from_arrays({}, 9)
