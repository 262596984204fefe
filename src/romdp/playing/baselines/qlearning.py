"""Average-reward Q-learning: the cheap model-free baseline, compiled."""

from dataclasses import dataclass
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from romdp.core.compiled import kernel
from romdp.core.randomness import (
    Seed,
    as_uniform,
    next_word,
    pick,
    split_word,
    stream,
    xoshiro_state,
)
from romdp.core.validation import real_number, whole_number
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.playing.baselines.episodes import EnvScore, ScoredEnv, learn_tabular
from romdp.playing.baselines.score import Callback, Score
from romdp.playing.run import Run
from romdp.worlds.simulator import Simulator, Tables, draw_reward

_WORLD, _LEARNER = 0, 1  # streams of the seed: the world's is the one that agents meet


@dataclass(frozen=True)
class QLearning:
    """Differential Q-learning (Wan, Naik and Sutton 2021) with an optimistic start.

    After action a at observation y earned r and showed y2, with n the visits of (y, a) and
    m those of y::

        error    = r - gain + max Q[y2] - Q[y, a]
        Q[y, a] += step * error                     step = (memory + 1) / (memory + n)
        gain    += gain_rate / (Y A) * step * error

    All Q begin at 0 and ``gain`` at ``optimism``. While ``gain`` is too high an action loses
    value by being tried, so that all the others look better: that is the optimism. On top of
    it an action is drawn at random with probability exploration / (exploration + m).

    Parameters
    ----------
    memory
        How fast old visits of a pair are forgotten: 0 is the plain mean of all; the larger, the
        more the recent ones weigh.
    gain_rate
        How fast the estimate of the gain follows the values; small is optimistic for longer.
    optimism
        The first guess of the gain. The highest possible reward is 1.
    discount, learning_rate, greedy_after, floor
        In a Gymnasium environment, which has episodes, plain Q-learning (Watkins) plays instead:
        its discount and its step size, the share of the steps after which exploration has fallen
        to its floor, and the share of random actions from then on. Those above are not used there.
    exploration
        About how often actions are drawn at random at each observation: this many times, and
        then this many times more whenever its visits have grown by a factor e.

    Notes
    -----
    The defaults are the best that ``benchmarks/dqn_tuning.py`` found. A run has no checkpoint:
    it is cheap to play again.

    Examples
    --------
    >>> from romdp.worlds import river_swim
    >>> run = QLearning().play(river_swim(n_states=3), steps=1000, seed=0)
    >>> run.agent, int(run.steps[-1])
    ('q-learning', 1000)
    """

    memory: float = 1.0
    gain_rate: float = 0.3
    optimism: float = 2.0
    exploration: float = 10.0
    discount: float = 0.99
    learning_rate: float = 0.3
    greedy_after: float = 0.3
    floor: float = 0.01

    name: ClassVar[str] = "q-learning"

    def __post_init__(self) -> None:
        real_number(self.memory, "memory", 0)
        real_number(self.gain_rate, "gain_rate", 0, open_low=True)
        real_number(self.optimism, "optimism")
        real_number(self.exploration, "exploration", 0)
        real_number(self.discount, "discount", 0, 1)
        real_number(self.learning_rate, "learning_rate", 0, 1, open_low=True)
        real_number(self.greedy_after, "greedy_after", 0, 1)
        real_number(self.floor, "floor", 0, 1)

    @staticmethod
    def check() -> None:
        """Pass: nothing more need be installed."""

    def play(
        self,
        world: ROMDP | MDP | gymnasium.Env[Any, Any],
        steps: int,
        seed: Seed = 0,
        callback: Callback | None = None,
    ) -> Run:
        """Play in a world; the arguments are those of `play_baseline`."""
        if isinstance(world, gymnasium.Env):
            return self._play_episodes(world, whole_number(steps, "steps", 1), seed, callback)
        place = as_romdp(world)
        score = Score(self.name, place, whole_number(steps, "steps", 1), seed, callback)
        tables = Tables.of(place)
        start = Simulator(place, stream(seed, _WORLD)).arrays()
        chance = xoshiro_state(seed, _LEARNER)
        values = np.zeros((place.n_observations, place.n_actions))
        visits = np.zeros(values.shape, np.int64)
        gain = np.full(1, float(self.optimism))
        pace = self.gain_rate / values.size
        while score.step < score.steps:
            more = score.due - score.step
            _learn(
                tables,
                start["state"],
                start["place"],
                chance,
                more,
                float(self.memory),
                float(pace),
                float(self.exploration),
                values,
                visits,
                gain,
                score.taken,
                score.reward,
            )
            score.step += more
            score.gain = float(gain[0])
            score.note()
        return score.run

    def _play_episodes(self, env: Any, steps: int, seed: Seed, callback: Callback | None) -> Run:
        score = EnvScore(self.name, env, steps, seed, callback)
        learn_tabular(
            ScoredEnv(env, score),
            score,
            seed,
            self.discount,
            self.learning_rate,
            self.greedy_after,
            self.floor,
        )
        return score.run


@kernel
def _learn(
    tables: Tables,
    state: NDArray[np.uint64],
    place: NDArray[np.int64],
    chance: NDArray[np.uint64],
    steps: int,
    memory: float,
    pace: float,
    exploration: float,
    values: NDArray[np.float64],
    visits: NDArray[np.int64],
    gain: NDArray[np.float64],
    taken: NDArray[np.int64],
    collected: NDArray[np.float64],
) -> None:
    """Act and learn for some steps; the hidden state x only moves the world and is scored.

    The world draws from ``state`` in the order of `Simulator`, the learner from ``chance``, so
    that neither shifts the other.
    """
    move_keep, move_alias, emit_keep, emit_alias, start, member, mean, law = tables
    n_states, n_actions = mean.shape
    s0, s1, s2, s3 = state[0], state[1], state[2], state[3]
    c0, c1, c2, c3 = chance[0], chance[1], chance[2], chance[3]
    x, y = place[0], place[1]
    total, average = collected[0], gain[0]
    for _ in range(steps):
        seen = 1
        a = 0
        for other in range(n_actions):
            seen += visits[y, other]
            if values[y, other] > values[y, a]:
                a = other
        word, c0, c1, c2, c3 = next_word(c0, c1, c2, c3)
        if as_uniform(word) < exploration / (exploration + seen):
            word, c0, c1, c2, c3 = next_word(c0, c1, c2, c3)
            a = int(split_word(word, np.uint64(n_actions))[0])
        reward, s0, s1, s2, s3 = draw_reward(law, mean[x, a], s0, s1, s2, s3)
        total += reward
        taken[x, a] += 1
        word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
        x = pick(move_keep, move_alias, (x * n_actions + a) * n_states, n_states, word)
        word, s0, s1, s2, s3 = next_word(s0, s1, s2, s3)
        first = start[x]
        y2 = member[first + pick(emit_keep, emit_alias, first, start[x + 1] - first, word)]
        best = values[y2, 0]
        for other in range(1, n_actions):
            best = max(best, values[y2, other])
        visits[y, a] += 1
        step = (memory + 1.0) / (memory + visits[y, a])
        error = reward - average + best - values[y, a]
        values[y, a] += step * error
        average += pace * step * error
        y = y2
    state[0], state[1], state[2], state[3] = s0, s1, s2, s3
    chance[0], chance[1], chance[2], chance[3] = c0, c1, c2, c3
    place[0], place[1] = x, y
    collected[0], gain[0] = total, average
