"""Baselines in a Gymnasium environment: numbered observations, returns, and tabular Q-learning."""

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from romdp.core.randomness import Seed, generator, stream
from romdp.data.partition import Partition
from romdp.playing.baselines.score import Callback, Score
from romdp.playing.history import Figure
from romdp.playing.spaces import actions_for, codes_for

_WORLD, _LEARNER = 0, 1  # streams of the seed: the world's is the one that agents meet


class EnvScore(Score):
    """The figures of a baseline in an environment: its returns; regret is not known."""

    def __init__(
        self, name: str, env: Any, steps: int, seed: Seed, callback: Callback | None = None
    ) -> None:
        self.actions = actions_for(env.action_space)
        self.codes = codes_for(env.observation_space)
        self.world_seed = int(stream(seed, _WORLD).generate_state(1)[0])
        self._begin(name, Partition.singletons(self.codes.size), steps, seed, callback)
        self.reward: NDArray[np.float64] = np.zeros(1)

    def count(self, reward: float, over: bool) -> None:
        """Count one step."""
        self.step += 1
        self.reward[0] += reward
        self.episodes.count(reward, self.step, over)
        if self.step == self.due:
            self.note()

    def _figure(self) -> Figure:
        unknown = float("nan")
        return Figure(self.step, float(self.reward[0]), unknown, unknown)


class ScoredEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that keeps its own score, with numbered observations and actions."""

    def __init__(self, env: Any, score: EnvScore) -> None:
        super().__init__(env)
        self._score, self._started = score, False
        self.observation_space = gymnasium.spaces.Discrete(score.codes.size)
        self.action_space = gymnasium.spaces.Discrete(score.actions.size)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Restart it; the first time from the stream that agents meet, whatever the seed."""
        first = None if self._started else self._score.world_seed
        self._started = True
        shown, _ = self.env.reset(seed=first)
        return self._score.codes.encode(shown), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action."""
        chosen = self._score.actions.decode(int(action))
        shown, reward, terminated, truncated, _ = self.env.step(chosen)
        self._score.count(float(reward), bool(terminated or truncated))
        return self._score.codes.encode(shown), reward, bool(terminated), bool(truncated), {}


def learn_tabular(
    env: ScoredEnv,
    score: EnvScore,
    seed: Seed,
    discount: float,
    learning_rate: float,
    greedy_after: float,
    floor: float,
) -> NDArray[np.float64]:
    """Play Watkins' Q-learning to the end of the score; returns the values.

    Actions are drawn at random with a probability that falls from 1 to ``floor`` during the first
    ``greedy_after`` of all steps. The end of an episode is worth nothing more; a cut one goes on.
    """
    rng = generator(seed, _LEARNER)
    values = np.zeros((score.codes.size, score.actions.size))
    decay = max(1.0, greedy_after * score.steps)
    seen, _ = env.reset()
    for step in range(score.steps):
        if rng.random() < max(floor, 1.0 - step / decay):
            action = int(rng.integers(score.actions.size))
        else:
            row = values[seen]
            action = int(rng.choice(np.flatnonzero(row == row.max())))
        following, reward, terminated, truncated, _ = env.step(action)
        ahead = 0.0 if terminated else discount * float(values[following].max())
        values[seen, action] += learning_rate * (float(reward) + ahead - values[seen, action])
        seen = env.reset()[0] if terminated or truncated else following
    return values
