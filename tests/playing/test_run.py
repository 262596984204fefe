"""Runs: what they hold, how they print, how they are scored, and their episodes."""

from dataclasses import replace

import gymnasium
import numpy as np
import pytest
from matplotlib import pyplot

import romdp
from romdp.agents.recipes import UCRL2
from romdp.core.errors import StorageError
from romdp.data.partition import Partition
from romdp.exact.romdp import ROMDP
from romdp.planning import Plan
from romdp.playing import play
from romdp.playing.baselines.learner import Learner
from romdp.playing.episodes import (
    RETURN_COLUMNS,
    Episodes,
    learning_curve,
    mean_return,
    success_rate,
)
from romdp.playing.run import EPOCH_COLUMNS, log_spaced
from romdp.worlds import random_romdp
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.wrappers import VocabularyWrapper

WORLD = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)


@pytest.fixture(autouse=True)
def no_figure_stays():
    yield
    pyplot.close("all")


@pytest.fixture(scope="module")
def run():
    class Merges:
        """Nine groups at first, three after 100 steps."""

        needs = frozenset()

        def regroup(self, evidence, previous, rng):
            return romdp.Partition(WORLD.labels) if evidence.step > 100 else previous

    return romdp.play(romdp.Agent(Merges(), name="merges"), WORLD, 1000, seed=0)


@pytest.mark.parametrize("steps", [1, 2, 9, 10, 11, 99, 100, 12_345, 10**6])
def test_the_grid_does_not_depend_on_its_end(steps):
    longest = log_spaced(10**7)
    np.testing.assert_array_equal(log_spaced(steps), longest[longest <= steps])


def test_the_grid_is_twenty_a_decade():
    grid = log_spaced(10**6)
    assert (np.diff(grid) > 0).all()
    assert {1, 10, 100, 1000, 10**4, 10**5, 10**6} <= set(grid.tolist())
    for low in (100, 1000, 10**4, 10**5):
        assert ((grid >= low) & (grid < 10 * low)).sum() == 20


def test_tables_hold_the_figures(run):
    frame, table = run.to_pandas(), run.to_arrow()
    columns = ["step", "reward", "regret", "pseudo_regret", "n_clusters"]
    assert list(frame.columns) == table.column_names == columns
    for name, figure in [("step", run.steps), ("reward", run.reward), ("regret", run.regret)]:
        np.testing.assert_array_equal(frame[name], figure)
        np.testing.assert_array_equal(table[name].to_numpy(), figure)
    np.testing.assert_array_equal(frame["pseudo_regret"], run.pseudo_regret)


def test_the_table_has_the_number_of_groups_that_each_step_was_played_with(run):
    frame = run.to_pandas()
    change = next(epoch.start for epoch in run.epochs if epoch.n_clusters == 3)
    assert 100 <= change < 1000
    np.testing.assert_array_equal(frame["n_clusters"], np.where(run.steps <= change, 9, 3))
    assert [partition.n_clusters for _, partition in run.groupings] == [9, 3]
    number = run.groupings[1][0]
    assert run.epochs.start[number - 1] == change
    assert run.partition == romdp.Partition(WORLD.labels)


def test_a_step_belongs_to_the_epoch_in_which_it_was_taken(run):
    """The fifth step ends an epoch of nine groups; the next one has three."""
    rows = np.array([(0, 5, 9, 0.5, 1, True), (5, 5, 3, 0.5, 1, True)], EPOCH_COLUMNS)
    cut = replace(run, steps=np.array([1, 4, 5, 6, 10]), epochs=rows.view(np.recarray))
    figures = {name: np.zeros(5) for name in ("reward", "regret", "pseudo_regret")}
    assert replace(cut, **figures).to_pandas()["n_clusters"].tolist() == [9, 9, 9, 3, 3]


def test_epochs_are_a_table(run):
    assert run.epochs.dtype == np.dtype((np.record, EPOCH_COLUMNS))
    assert run.epochs.length.sum() == 1000
    np.testing.assert_array_equal(run.epochs["start"], run.epochs.start)


def test_a_picture_of_the_regret(run):
    axes = run.plot()
    thick, thin = axes.get_lines()
    np.testing.assert_array_equal(thick.get_xdata(), np.sqrt(run.steps))
    np.testing.assert_array_equal(thick.get_ydata(), run.pseudo_regret)
    np.testing.assert_array_equal(thin.get_ydata(), run.regret)
    assert run.plot(axes) is axes  # a second run on the same axes
    assert len(axes.get_lines()) == 4
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["merges", "merges"]


def test_a_picture_without_a_model_shows_the_reward():
    env = VocabularyWrapper(ROMDPEnv(WORLD), capacity=9)
    run = romdp.play(romdp.PSRL(), env, 50)
    axes = run.plot()
    (line,) = axes.get_lines()
    np.testing.assert_allclose(line.get_ydata(), run.reward / run.steps)
    assert axes.get_ylabel() == "reward per step"


def test_a_run_prints_its_last_figures(run):
    text = repr(run)
    assert "agent='merges'" in text
    assert "steps=1000" in text
    assert f"pseudo_regret={run.pseudo_regret[-1]:.6g}" in text
    assert "n_clusters=3" in text


def test_a_run_that_has_not_begun_can_be_looked_at():
    run = romdp.epochs(romdp.PSRL(), WORLD, 10).run
    assert repr(run) == "Run(agent='psrl', steps=0)"
    assert len(run.to_pandas()) == run.to_arrow().num_rows == 0
    run.plot()


SCORED = ROMDP(np.ones((1, 2, 1)), [[0.75, 0.25]], [[0.5, 0.3, 0.2]], reward_law="deterministic")


class Stubborn(Learner):
    """A baseline that takes one action for ever and believes that it earns a half."""

    name = "stubborn"

    def __init__(self):
        super().__init__(self, 3, 2, 0)

    def start(self, n_observations, n_actions, seed=0):
        state = Stubborn()
        state.gain = 0.5
        return state

    def action(self, observation, age=0):
        return 1

    def learn(self, observation, action, reward, following):
        self.step += 1

    def forget(self):
        pass

    def best_plan(self):
        zeros = np.zeros(3)
        return Plan(zeros.astype(int) + 1, 0.5, 0.0, 0, zeros, converged=True, gap=0.0)


@pytest.mark.parametrize("steps", [1, 2, 10, 100, 137, 1000])
def test_figures_are_taken_where_those_of_an_agent_are(steps):
    run = play(Stubborn(), SCORED, steps)
    assert run.steps.tolist() == play(UCRL2(), SCORED, steps).steps.tolist()


def test_regrets_are_those_of_the_definition():
    run = play(Stubborn(), SCORED, 90, seed=5)
    assert np.allclose(run.reward, 0.25 * run.steps, rtol=0, atol=1e-12)
    assert np.allclose(run.regret, run.steps * 0.5, rtol=0, atol=1e-12)
    assert np.allclose(run.pseudo_regret, run.steps * 0.5, rtol=0, atol=1e-12)


def test_a_run_of_a_learner_has_one_epoch_and_no_groups():
    run = play(Stubborn(), SCORED, 90, seed=5)
    assert run.epochs.dtype == EPOCH_COLUMNS
    assert run.epochs.tolist() == [(0, 90, 3, 0.5, 0, True)]
    assert run.partition == Partition.singletons(3)
    assert run.groupings == ((1, run.partition),)
    assert (run.agent, run.seed) == ("stubborn", 5)
    assert run.to_arrow()["n_clusters"].to_pylist() == [3] * run.steps.size
    assert run.policy.act(2) == 1


def test_the_callback_hears_every_figure_of_a_learner_and_may_end_the_run():
    heard = []
    run = play(Stubborn(), SCORED, 50, callback=heard.append)
    assert [epoch.length for epoch in heard] == run.steps.tolist()
    assert [epoch.pseudo_regret for epoch in heard] == run.pseudo_regret.tolist()
    assert [epoch.regret for epoch in heard] == run.regret.tolist()
    assert {epoch.n_clusters for epoch in heard} == {3}
    short = play(Stubborn(), SCORED, 50, callback=lambda epoch: epoch.length < 10)
    assert short.steps[-1] == 10


def test_what_was_learned_survives_an_exception():
    def fail(epoch):
        if epoch.start > 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        play(UCRL2(), SCORED, 10_000, callback=fail)
    assert 20 < caught.value.run.steps[-1] < 10_000
    assert caught.value.run.policy.act(0) in (0, 1)


def test_without_a_single_gain_regrets_are_unknown():
    world = ROMDP(np.tile(np.eye(2)[:, None, :], (1, 2, 1)), [[0.2, 0.2], [0.9, 0.9]], np.eye(2))
    run = play(UCRL2(), world, 10)
    assert np.isnan(run.regret).all()
    assert np.isnan(run.pseudo_regret).all()


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


def test_a_run_that_ends_no_better_than_it_began_says_so():
    run = replace(romdp.play(romdp.PSRL(), Countdown(), 100, reward_range=(-3, 2)), learned=None)
    flat = listed(*((step, 0.0, 5) for step in range(5, 101, 5))).returns
    assert "no more than the first ones (0)" in replace(run, returns=flat).warning
    better = listed(*((step, float(step > 10), 5) for step in range(5, 101, 5))).returns
    assert replace(run, returns=better).warning is None
    assert replace(run, returns=flat[:5]).warning is None  # too few to tell
    coins = listed(*((step, float(step % 2), 1) for step in range(1, 100))).returns
    coins["return"][-1] = 2.0  # better by what one such episode makes
    assert "as far as one can tell" in replace(run, returns=coins).warning


def test_the_policys_value_is_what_the_policy_earns_where_the_model_holds():
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    run = romdp.play(romdp.LCPSRL(), lake, 3_000, seed=1)
    assert run.policy_value == pytest.approx(1.0)
    assert run.policy_value == romdp.evaluate_policy(run.policy, lake, 3).mean
    assert run.warning is None
    assert "by the model" in run._repr_html_()


def test_a_run_that_lags_behind_its_policy_says_so():
    run = romdp.play(romdp.LCPSRL(), gymnasium.make("FrozenLake-v1", is_slippery=False), 3_000)
    behind = listed(*((step, float(step % 100 == 0), 10) for step in range(10, 3_001, 10))).returns
    warning = replace(run, returns=behind).warning
    assert "earned 0.1 on average, but by what was learned the policy earns 1." in warning


def test_where_nothing_is_counted_there_is_no_value_of_the_policy():
    world = random_romdp(seed=0)
    assert np.isnan(romdp.play(romdp.PSRL(), world, 10).policy_value)  # no episodes
    lake = gymnasium.make("FrozenLake-v1")
    assert np.isnan(romdp.play(romdp.baselines.QLearning(), lake, 100).policy_value)


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


def test_the_first_episodes_do_not_set_the_axis_of_a_learning_curve(run):
    early, late = [(4 * i, -1e6, 4) for i in range(1, 6)], [(20 + i, i / 100, 1) for i in range(90)]
    axes = replace(run, returns=listed(*early, *late).returns).plot()
    low, high = axes.get_ylim()
    assert -1 < low < 0.5
    assert 0.8 < high < 1
    replace(run, returns=listed(*((i, 7.0 + i % 2, 1) for i in range(1, 50))).returns).plot(axes)
    assert axes.get_ylim()[0] == low  # what was drawn before stays
    assert axes.get_ylim()[1] > 8


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
