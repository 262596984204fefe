"""Average-reward Q-learning: the cheap model-free baseline, compiled."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.core.randomness import (
    Seed,
    as_uniform,
    generator,
    next_word,
    pick,
    split_word,
    xoshiro_state,
)
from romdp.core.validation import freeze, real_number
from romdp.data.trajectory import END
from romdp.planning.backup import Plan
from romdp.playing.baselines.learner import Learner
from romdp.worlds.simulator import Simulator, Tables, draw_reward

_LEARNER = 1  # a stream of the seed; 0 is the world's
_USUAL_STEPS = 100_000  # of a run, where nobody says how many there will be


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
        Where episodes may end, as in a Gymnasium environment, plain Q-learning (Watkins) plays
        instead: its discount and its step size, the share of the steps after which exploration has
        fallen to its floor, and the share of random actions from then on. Those above are not used
        there.
    exploration
        About how often actions are drawn at random at each observation: this many times, and
        then this many times more whenever its visits have grown by a factor e.

    Notes
    -----
    The defaults are the best that ``benchmarks/dqn_tuning.py`` found. A run has no checkpoint:
    it is cheap to play again.

    Examples
    --------
    >>> import romdp
    >>> run = romdp.play(QLearning(), romdp.worlds.river_swim(n_states=3), steps=1000, seed=0)
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
    takes_any_reward: ClassVar[bool] = True

    def __post_init__(self) -> None:
        real_number(self.memory, "memory", 0)
        real_number(self.gain_rate, "gain_rate", 0, open_low=True)
        real_number(self.optimism, "optimism")
        real_number(self.exploration, "exploration", 0)
        real_number(self.discount, "discount", 0, 1)
        real_number(self.learning_rate, "learning_rate", 0, 1, open_low=True)
        real_number(self.greedy_after, "greedy_after", 0, 1)
        real_number(self.floor, "floor", 0, 1)

    def start(self, n_observations: int, n_actions: int, seed: Seed = 0) -> "QLearningState":
        """Begin a life: nothing learned."""
        return QLearningState(self, n_observations, n_actions, seed)


class QLearningState(Learner):
    """One life of `QLearning`: the values of all pairs."""

    agent: QLearning

    def __init__(self, agent: QLearning, n_observations: int, n_actions: int, seed: Seed) -> None:
        super().__init__(agent, n_observations, n_actions, seed)
        self._rng = generator(self.seed, _LEARNER)
        self._chance = xoshiro_state(self.seed, _LEARNER)  # of the compiled loop
        self.forget()

    def forget(self) -> None:
        """Forget all that was learned."""
        self.values = np.zeros((self.n_observations, self.n_actions))
        self._visits = np.zeros(self.values.shape, np.int64)
        self._average = np.full(1, float(self.agent.optimism))

    def action(self, observation: int, age: int = 0) -> int:
        """Return the best action by now, the less often any other the later it is."""
        agent, rng = self.agent, self._rng
        decay = max(1.0, agent.greedy_after * (self.total_steps or _USUAL_STEPS))
        if rng.random() < max(agent.floor, 1.0 - self.step / decay):
            return int(rng.integers(self.n_actions))
        row = self.values[observation]
        return int(rng.choice(np.flatnonzero(row == row.max())))

    def learn(self, observation: int, action: int, reward: float, following: int) -> None:
        """Learn from one step; the end is worth nothing more, and a cut step teaches nothing."""
        self.step += 1
        if following < 0 and following != END:
            return
        ahead = 0.0 if following == END else self.agent.discount * self.values[following].max()
        error = reward + ahead - self.values[observation, action]
        self.values[observation, action] += self.agent.learning_rate * error

    def advance(self, simulator: Simulator, steps: int) -> None:
        """Play in a compiled world, which goes on for ever."""
        agent = self.agent
        simulator.let(
            _learn,
            self._chance,
            steps,
            float(agent.memory),
            float(agent.gain_rate / self.values.size),
            float(agent.exploration),
            self.values,
            self._visits,
            self._average,
        )
        self.step += steps
        self.gain = float(self._average[0])

    def best_plan(self) -> Plan:
        """Return the greedy policy."""
        worth = self.values.max(axis=1)
        span = float(np.ptp(worth))
        policy = freeze(self.values.argmax(axis=1))
        return Plan(policy, self.gain, span, 0, freeze(worth), converged=True, gap=0.0)


@kernel
def _learn(
    tables: Tables,
    state: NDArray[np.uint64],
    place: Ints,
    taken: Ints,
    collected: Floats,
    chance: NDArray[np.uint64],
    steps: int,
    memory: float,
    pace: float,
    exploration: float,
    values: Floats,
    visits: Ints,
    gain: Floats,
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
        taken[x * n_actions + a] += 1
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
