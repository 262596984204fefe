"""Places: other people's environments, restarted and rescaled, and compiled worlds."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit, TransformReward

import romdp
from romdp.core.errors import InvalidInputError
from romdp.playing.episodes import checked_range, unit_reward
from romdp.playing.places import CompiledPlace, DrivenPlace, place_for, step_limit
from romdp.worlds import random_mdp, random_romdp
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.wrappers import RichObservation, VectorObservation, VocabularyWrapper

WORLD = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)


class Script(gymnasium.Env):
    """An environment that says what it is told: rows (observation, reward, ended how)."""

    observation_space = spaces.Discrete(5)
    action_space = spaces.Discrete(2)

    def __init__(self, rows, restarts):
        self.rows, self.restarts = iter(rows), iter(restarts)
        self.actions, self.seeds = [], []

    def reset(self, *, seed=None, options=None):
        self.seeds.append(seed)
        return next(self.restarts), {}

    def step(self, action):
        self.actions.append(action)
        observation, reward, ended = next(self.rows)
        return observation, reward, "terminated" in ended, "truncated" in ended, {}


def counted(env, steps, **options):
    """Play and return the transitions that were counted, as {(observation, next): count}."""
    playing = romdp.epochs(romdp.PSRL(), env, steps, seed=0, **options)
    for _ in playing:
        pass
    counts = playing.state.recorder.counts
    moves = counts.dense().transitions.sum(axis=1)
    pairs = {(int(y), int(z)): int(moves[y, z]) for y, z in np.argwhere(moves)}
    pairs |= {(int(y), "end"): int(counts.ends[y].sum()) for y in np.argwhere(counts.ends)[:, 0]}
    return playing, pairs, counts.visits.sum(axis=1).tolist()


def test_a_terminated_step_leads_to_the_end():
    env = Script([(1, 0, ""), (4, 1, "terminated"), (2, 0, "")], [0, 3])
    playing, pairs, visits = counted(env, 3)
    assert pairs == {(0, 1): 1, (1, "end"): 1, (3, 2): 1}  # 4, where it ended, is not seen
    assert visits == [1, 1, 0, 1, 0]
    assert playing.state.recorder.starts.tolist() == [1, 0, 0, 1, 0]
    assert env.seeds[0] is not None
    assert env.seeds[1] is None  # the environment's own chance goes on


def test_a_truncated_step_counts_its_reward_and_no_transition():
    env = Script([(1, 0, ""), (4, 1, "truncated"), (2, 0, "")], [0, 3])
    playing, pairs, visits = counted(env, 3)
    assert pairs == {(0, 1): 1, (3, 2): 1}
    assert visits == [1, 1, 0, 1, 0]
    assert playing.run.reward[-1] == 1.0


def test_a_step_that_is_both_counts_as_terminated():
    env = Script([(4, 1, "terminated truncated"), (2, 0, "")], [0, 3])
    assert counted(env, 2)[1] == {(0, "end"): 1, (3, 2): 1}


def test_rewards_are_rescaled_and_reported_in_their_own_units():
    env = Script([(1, -2, ""), (2, 3, ""), (3, 0.5, "")], [0])
    playing, _, _ = counted(env, 3, reward_range=(-2, 3))
    sums = playing.state.recorder.reward_sums.reshape(5, 2).sum(axis=1)
    np.testing.assert_allclose(sums, [0, 1, 0.5, 0, 0])
    np.testing.assert_allclose(playing.run.reward, [-2, 1, 1.5])
    assert np.isnan(playing.run.regret).all()


@pytest.mark.parametrize(
    ("reward", "message"),
    [
        (1.5, r"reward 1\.5 of step 1 lies outside \[0, 1\]; pass reward_range"),
        (-0.1, "outside"),
        (float("nan"), "reward of step 1 is nan"),
        ("1", "reward of step 1"),
    ],
)
def test_a_reward_outside_its_range_is_refused(reward, message):
    with pytest.raises(InvalidInputError, match=message):
        counted(Script([(1, reward, "")], [0]), 1)


def test_an_observation_outside_its_space_is_refused():
    with pytest.raises(InvalidInputError, match="observation 7 is not in"):
        counted(Script([(7, 0, "")], [0]), 1)


def _pictures():
    """Noisy vectors of a lake with two views: codes must be learned."""
    rng = np.random.default_rng(0)
    views = [rng.normal(cell, 0.1, (20, 4)) for cell in range(16)]
    return VectorObservation(gymnasium.make("FrozenLake-v1"), views, seed=0)


@pytest.mark.parametrize(
    ("make", "steps"),
    [
        (lambda: gymnasium.make("CliffWalking-v1", max_episode_steps=200), 2_000),
        (lambda: gymnasium.make("FrozenLake-v1"), 2_000),
        (lambda: gymnasium.make("Blackjack-v1"), 1_000),
        (lambda: gymnasium.make("Taxi-v4"), 600),
        (lambda: gymnasium.make("CartPole-v1"), 900),
        (_pictures, 900),
    ],
    ids=["cliff", "lake", "blackjack", "taxi", "cartpole", "vectors"],
)
def test_ten_lines_over_online_do_what_play_does(make, steps):
    run = romdp.play(romdp.LCPSRL(), make(), steps, seed=3, progress=False)
    env = make()
    spaces_, limit = (env.observation_space, env.action_space), step_limit(env)
    online = romdp.Online(romdp.LCPSRL(), *spaces_, seed=3, step_limit=limit)
    shown, _ = env.reset(seed=romdp.first_seed(3))
    for _ in range(steps):
        shown, reward, terminated, truncated, _ = env.step(online.act(shown))
        over = terminated or truncated
        following = None if over else shown
        online.observe(reward, following, terminated=terminated, truncated=truncated)
        if over:
            shown, _ = env.reset()
    np.testing.assert_array_equal(online.returns, run.returns)
    assert len(run.returns) > 0
    assert online.partition == run.partition


def test_reward_ranges():
    assert checked_range(None) == (0.0, 1.0)
    assert checked_range([-1, 2]) == (-1.0, 2.0)
    assert unit_reward(0.5, (-1.0, 2.0), 0) == 0.5
    assert unit_reward(1.0 + 1e-12, (0.0, 1.0), 0) == 1.0  # rounding is forgiven
    for bad in [(1, 1), (2, 1), (0,), 5, (0, np.inf), ("a", "b")]:
        with pytest.raises(InvalidInputError, match="reward_range"):
            checked_range(bad)


def test_frozen_lake_is_played():
    env = RichObservation(gymnasium.make("FrozenLake-v1", is_slippery=False), per_state=2, seed=0)
    run = romdp.play(romdp.PSRL(), env, 3000, seed=0)
    assert run.partition.n_observations == 32
    assert run.epochs.length.sum() == 3000
    assert np.isnan(run.pseudo_regret).all()
    again = romdp.play(romdp.PSRL(), env, 3000, seed=0)
    np.testing.assert_array_equal(run.reward, again.reward)


def test_posterior_sampling_learns_frozen_lake():
    """The best policy earns a reward every sixth step, 667 in all; at this seed it finds it."""
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    run = romdp.play(romdp.PSRL(objective="average"), lake, 4000, seed=0)
    assert run.reward[-1] > 100


def test_cliff_walking_needs_its_reward_range():
    identifier = max(name for name in gymnasium.registry if name.startswith("CliffWalking-v"))
    with pytest.raises(InvalidInputError, match="reward_range"):
        romdp.play(romdp.PSRL(), gymnasium.make(identifier), 50)
    run = romdp.play(romdp.PSRL(), gymnasium.make(identifier), 50, reward_range=(-100, 0))
    assert -5000 <= run.reward[-1] <= -50


class Grid(gymnasium.Env):
    """Walks on a 2 x 3 grid, by two coordinates at once."""

    observation_space = spaces.MultiDiscrete([2, 3])
    action_space = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([0, 0]), {}

    def step(self, action):
        assert action in self.action_space
        return np.array(action), float(action == (1, 2)), False, False, {}


def test_spaces_of_several_parts_are_numbered():
    playing = romdp.epochs(romdp.PSRL(), Grid(), 600, seed=0)
    for _ in playing:
        pass
    counts = playing.state.recorder.counts
    assert counts.visits.shape == (6, 6)
    moves = counts.dense().transitions.sum(axis=0)
    np.testing.assert_array_equal(moves, np.diag(np.diag(moves)))  # action number = next number
    assert playing.run.reward[-1] > 300


def test_a_world_behind_an_environment_gives_its_regret():
    run = romdp.play(romdp.PSRL(), ROMDPEnv(WORLD), 500, seed=0)
    assert run.regret[-1] == pytest.approx(500 * WORLD.hidden.gain - run.reward[-1])
    assert np.isfinite(run.pseudo_regret).all()
    made = gymnasium.make(
        "romdp/RandomROMDP-v0", n_states=3, n_actions=2, n_observations=9, world_seed=1
    )
    again = romdp.play(romdp.PSRL(), made, 500, seed=0)
    np.testing.assert_array_equal(again.pseudo_regret, run.pseudo_regret)


def test_regret_is_in_the_units_of_the_world():
    """A reward range that is wider than need be changes what the agent sees, not the regret."""
    run = romdp.play(romdp.PSRL(), ROMDPEnv(WORLD), 500, seed=0, reward_range=(-1, 3))
    assert run.regret[-1] == pytest.approx(500 * WORLD.hidden.gain - run.reward[-1])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda env: VocabularyWrapper(env, capacity=9),  # numbers them in another order
        lambda env: TransformReward(env, lambda reward: 1.0 - reward),
        lambda env: RichObservation(env, per_state=1, seed=0),
    ],
    ids=["vocabulary", "reward", "rich"],
)
def test_a_wrapper_that_changes_what_is_seen_or_earned_hides_the_world(wrap):
    run = romdp.play(romdp.PSRL(), wrap(ROMDPEnv(WORLD)), 50, seed=0)
    assert np.isnan(run.regret).all()
    assert np.isnan(run.pseudo_regret).all()


def test_a_time_limit_hides_nothing():
    playing = romdp.epochs(romdp.PSRL(), TimeLimit(ROMDPEnv(WORLD), 10), 100, seed=0)
    for _ in playing:
        pass
    counts = playing.state.recorder.counts
    assert counts.n_steps == 100
    assert counts.n_transitions == 90  # each tenth step is truncated
    assert np.isfinite(playing.run.regret).all()


def test_the_right_place_is_chosen():
    agent, mdp = romdp.PSRL(), random_mdp(n_states=3, n_actions=2, seed=0)
    assert isinstance(place_for(agent, WORLD, 0), CompiledPlace)
    assert isinstance(place_for(agent, mdp, 0), CompiledPlace)
    assert isinstance(place_for(agent, ROMDPEnv(WORLD), 0), DrivenPlace)
    with pytest.raises(InvalidInputError):
        place_for(agent, "FrozenLake-v1", 0)


def test_a_continuous_environment_is_played_at_random_until_there_are_codes():
    run = romdp.play(romdp.PSRL(), gymnasium.make("CartPole-v1"), 100)
    assert len(run.returns) > 1
    assert np.isnan(run.policy.values).all()


def test_stepped_play_and_compiled_play_learn_alike():
    """Two simulators, one law: mean final pseudo-regret over seeds, at six standard errors.

    Chance of a false alarm about 1e-6 for means of 30 skewed runs.
    """
    compiled, stepped = (
        np.array(
            [romdp.play(romdp.PSRL(), place, 300, seed).pseudo_regret[-1] for seed in range(30)]
        )
        for place in (WORLD, ROMDPEnv(WORLD))
    )
    error = np.sqrt(compiled.var() / 30 + stepped.var() / 30)
    assert abs(compiled.mean() - stepped.mean()) < 6 * error
