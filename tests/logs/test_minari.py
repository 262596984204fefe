"""Real Minari datasets, made here: nothing is downloaded."""

import gymnasium
import minari
import numpy as np
import pytest

import romdp
from romdp.core.errors import InvalidInputError
from romdp.logs.reading.minari import read_minari

# Minari warns that nobody gave the address of the code that made the dataset, and so on.
pytestmark = pytest.mark.filterwarnings("ignore")


def lake():
    return gymnasium.make("FrozenLake-v1", is_slippery=True, max_episode_steps=12)


def walk(env, n_episodes):
    """Act at random; return what every episode showed, did, paid, and whether it terminated."""
    rng = np.random.default_rng(0)
    episodes = []
    for number in range(n_episodes):
        seen, done, paid, terminated, truncated = [env.reset(seed=number)[0]], [], [], False, False
        while not (terminated or truncated):
            done.append(int(rng.integers(4)))
            observation, reward, terminated, truncated, _ = env.step(done[-1])
            seen.append(observation)
            paid.append(reward)
        episodes.append((seen, done, paid, terminated))
    return episodes


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """A dataset of buffers, and the episodes in it; `DataCollector` needs jax, this does not."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = lake()
    episodes = walk(env, 150)
    buffers = [
        minari.data_collector.EpisodeBuffer(
            id=number,
            observations=seen,
            actions=done,
            rewards=paid,
            terminations=[False] * (len(done) - 1) + [terminated],
            truncations=[False] * (len(done) - 1) + [not terminated],
            infos={},
        )
        for number, (seen, done, paid, terminated) in enumerate(episodes)
    ]
    made = minari.create_dataset_from_buffers("lake/random-v0", buffer=buffers, env=env)
    return made, episodes


def assert_read(found, episodes):
    """The trajectory is that of the episodes: an end for good leads to the next start."""
    assert found.lengths.tolist() == [len(done) for _, done, _, _ in episodes]
    np.testing.assert_array_equal(
        found.observations, np.concatenate([seen[:-1] for seen, *_ in episodes])
    )
    np.testing.assert_array_equal(
        found.actions, np.concatenate([done for _, done, _, _ in episodes])
    )
    np.testing.assert_array_equal(found.rewards, np.concatenate([paid for *_, paid, _ in episodes]))
    expected = [0 if terminated else -1 for *_, terminated in episodes]
    expected[-1] = -1
    assert found.final_observations.tolist() == expected
    assert -1 in expected[:-1]  # some were cut short


def test_a_dataset_of_buffers(dataset):
    made, episodes = dataset
    assert_read(read_minari(made), episodes)
    loaded = minari.load_dataset("lake/random-v0")
    assert_read(read_minari(loaded), episodes)
    model = romdp.fit(loaded)
    assert (model.n_episodes, model.n_rows) == (150, made.total_steps)
    assert model.predict([0])[0] >= 0
    assert romdp.fit(made).partition == model.partition


def test_some_episodes_of_a_dataset(dataset):
    made, episodes = dataset
    long = made.filter_episodes(lambda episode: len(episode.actions) > 5)
    kept = [episode for episode in episodes if len(episode[1]) > 5]
    assert read_minari(long).lengths.tolist() == [len(done) for _, done, _, _ in kept]


def test_continuous_observations_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = gymnasium.make("CartPole-v1", max_episode_steps=5)
    seen = [env.observation_space.sample() for _ in range(3)]
    buffer = minari.data_collector.EpisodeBuffer(
        id=0, observations=seen, actions=[0, 1], rewards=[1.0, 1.0], terminations=[False, True],
        truncations=[False, False], infos={},
    )  # fmt: skip
    made = minari.create_dataset_from_buffers("pole/random-v0", buffer=[buffer], env=env)
    with pytest.raises(InvalidInputError, match="observations of episode 0 are not whole numbers"):
        romdp.fit(made)
