"""DQN as the paper compares with it, compiled.

Its network is small and sees observations one-hot, so the first layer is a table and a gradient
step costs a fiftieth of what it takes in a library for large networks. The algorithm is that of
stable-baselines3; the tests compare its gradient steps with PyTorch's.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np

from romdp.core.arrays import Floats
from romdp.core.compiled import kernel
from romdp.core.randomness import Seed, generator
from romdp.core.validation import check_memory, freeze, how_many, real_number, whole_number
from romdp.data.trajectory import END
from romdp.planning.backup import Plan
from romdp.playing.baselines.learner import Learner

_LEARNER = 1  # a stream of the seed; 0 is the world's
_WIDTH = 30  # of the paper's "network of size 30 x 30 x 30"
_DECAY, _EPSILON = 0.99, 1e-8  # of RMSprop in PyTorch
_LONGEST = 10.0  # gradients are cut to this norm, as in stable-baselines3


@dataclass(frozen=True)
class DQN:
    """Deep Q-learning (Mnih et al. 2013) with the paper's network, RMSprop and a replay buffer.

    The network (three layers of 30, ReLU) sees observations one-hot and nothing else. The task
    goes on forever, so values are discounted. Exploration falls linearly from 1 to
    ``exploration_floor``.

    Parameters
    ----------
    learning_rate
        Of RMSprop, whose other settings are PyTorch's defaults.
    discount
        Per step, below 1.
    exploration_steps
        How many steps the exploration takes to fall to its floor.
    exploration_floor
        The share of random actions from then on.
    target_interval
        Steps between two copies of the network to the target network.
    train_interval
        Steps between two gradient steps.
    batch_size
        The number of steps in a batch.
    buffer_size
        Steps that the replay buffer holds.
    learning_starts
        Steps before the first gradient step; actions are drawn at random until then.

    Notes
    -----
    The defaults are the best that ``benchmarks/dqn_tuning.py`` found. A run has no
    checkpoint: one that was interrupted begins again from zero on resume.

    Examples
    --------
    >>> import romdp
    >>> run = romdp.play(DQN(), romdp.worlds.river_swim(n_states=3), steps=1000, seed=0)
    >>> run.agent, int(run.steps[-1])
    ('dqn', 1000)
    """

    learning_rate: float = 3e-4
    discount: float = 0.6
    exploration_steps: int = 8_000
    exploration_floor: float = 0.0003
    target_interval: int = 250
    train_interval: int = 1
    batch_size: int = 64
    buffer_size: int = 100_000
    learning_starts: int = 500

    name: ClassVar[str] = "dqn"
    takes_any_reward: ClassVar[bool] = True

    def __post_init__(self) -> None:
        real_number(self.learning_rate, "learning_rate", 0, open_low=True)
        real_number(self.discount, "discount", 0, 1, open_high=True)
        real_number(self.exploration_floor, "exploration_floor", 0, 1)
        for setting in ("exploration_steps", "target_interval", "train_interval", "batch_size"):
            whole_number(getattr(self, setting), setting, 1)
        check_memory("the buffer (buffer_size)", how_many(self.buffer_size, "buffer_size"), 4)
        whole_number(self.learning_starts, "learning_starts")

    def start(self, n_observations: int, n_actions: int, seed: Seed = 0) -> "DQNState":
        """Begin a life: a network with random weights and an empty buffer."""
        return DQNState(self, n_observations, n_actions, seed)


class DQNState(Learner):
    """One life of `DQN`: its network, buffer and gradient steps."""

    agent: DQN

    def __init__(self, agent: DQN, n_observations: int, n_actions: int, seed: Seed) -> None:
        super().__init__(agent, n_observations, n_actions, seed)
        self._rng = generator(self.seed, _LEARNER)
        self.forget()

    def forget(self) -> None:
        """Forget all that was learned: weights are drawn as PyTorch draws them."""
        sizes = self.n_observations, _WIDTH, _WIDTH, _WIDTH, self.n_actions
        layers = [
            self._rng.uniform(-1, 1, (wide + 1) * narrow) / np.sqrt(wide)
            for wide, narrow in pairwise(sizes)
        ]
        self._weights = np.concatenate(layers)
        self._squares = np.zeros_like(self._weights)
        self._ahead = np.zeros(self.n_observations)
        self._copy()
        self._buffer = np.zeros((4, self.agent.buffer_size))
        self._stored = 0

    def _copy(self) -> None:
        """Value observations by the network as it is now: the target network."""
        self._ahead = self._values().max(axis=1)

    def _values(self) -> Floats:
        return table_of_values(self._weights, self.n_observations, self.n_actions)

    def action(self, observation: int, age: int = 0) -> int:
        """Return the network's best action, the less often any other the later it is."""
        agent = self.agent
        fallen = min(1.0, self.step / agent.exploration_steps)
        exploring = 1.0 + fallen * (agent.exploration_floor - 1.0)
        if self.step < agent.learning_starts or self._rng.random() < exploring:
            return int(self._rng.integers(self.n_actions))
        layers = np.empty((4, max(_WIDTH, self.n_actions)))
        _forward(self._weights, observation, self.n_observations, self.n_actions, layers)
        return int(layers[3, : self.n_actions].argmax())

    def learn(self, observation: int, action: int, reward: float, following: int) -> None:
        """Put a step into the buffer, and make a gradient step if it is time."""
        agent = self.agent
        self.step += 1
        if following >= 0 or following == END:
            place = self._stored % agent.buffer_size
            self._buffer[:, place] = observation, action, reward, following
            self._stored += 1
        if self.step % agent.target_interval == 0:
            self._copy()
        trains = self.step > agent.learning_starts and self.step % agent.train_interval == 0
        if trains and self._stored:
            chosen = self._rng.integers(min(self._stored, agent.buffer_size), size=agent.batch_size)
            batch = self._buffer[:, chosen]
            improve(
                self._weights,
                self._squares,
                self._ahead,
                self.n_actions,
                batch,
                float(agent.discount),
                float(agent.learning_rate),
            )

    def best_plan(self) -> Plan:
        """Return the greedy policy of the network."""
        values = self._values()
        worth = values.max(axis=1)
        policy, span = freeze(values.argmax(axis=1)), float(np.ptp(worth))
        return Plan(policy, np.nan, span, 0, freeze(worth), converged=True, gap=0.0)


@kernel
def _forward(
    weights: Floats, observation: int, n_observations: int, n_actions: int, layers: Floats
) -> None:
    """Fill in the three hidden layers of an observation, and its values in the fourth row."""
    width = _WIDTH
    at = n_observations * width
    for j in range(width):
        layers[0, j] = max(0.0, weights[observation * width + j] + weights[at + j])
    at += width
    for layer in range(1, 4):
        size = width if layer < 3 else n_actions
        bias = at + width * size
        for j in range(size):
            layers[layer, j] = weights[bias + j]
        for i in range(width):
            value = layers[layer - 1, i]
            if value > 0.0:
                for j in range(size):
                    layers[layer, j] += value * weights[at + i * size + j]
        if layer < 3:
            for j in range(size):
                layers[layer, j] = max(0.0, layers[layer, j])
        at = bias + size


@kernel
def table_of_values(weights: Floats, n_observations: int, n_actions: int) -> Floats:
    """Return the values of all pairs."""
    values = np.empty((n_observations, n_actions))
    layers = np.empty((4, max(_WIDTH, n_actions)))
    for observation in range(n_observations):
        _forward(weights, observation, n_observations, n_actions, layers)
        values[observation] = layers[3, :n_actions]
    return values


@kernel
def _backward(
    weights: Floats,
    gradient: Floats,
    observation: int,
    n_observations: int,
    n_actions: int,
    layers: Floats,
    errors: Floats,
) -> None:
    """Add an observation's part of the gradient; ``errors`` is that of its values."""
    width = _WIDTH
    end = len(weights)
    above = errors.copy()
    for layer in (3, 2, 1):
        size = width if layer < 3 else n_actions
        bias = end - size
        at = bias - width * size
        below = np.zeros(width)
        for j in range(size):
            gradient[bias + j] += above[j]
        for i in range(width):
            value = layers[layer - 1, i]
            if value > 0.0:
                total = 0.0
                for j in range(size):
                    gradient[at + i * size + j] += value * above[j]
                    total += weights[at + i * size + j] * above[j]
                below[i] = total
        above = below
        end = at
    for j in range(width):
        gradient[observation * width + j] += above[j]
        gradient[end - width + j] += above[j]


@kernel
def improve(
    weights: Floats,
    squares: Floats,
    ahead: Floats,
    n_actions: int,
    batch: Floats,
    discount: float,
    rate: float,
) -> None:
    """Make one step of RMSprop on the Huber loss of a batch.

    An observation that is in the batch several times is worked out once.
    """
    n_observations, size = len(ahead), batch.shape[1]
    gradient = np.zeros(len(weights))
    layers = np.empty((4, max(_WIDTH, n_actions)))
    order = np.argsort(batch[0])
    i = 0
    while i < size:
        observation = int(batch[0, order[i]])
        _forward(weights, observation, n_observations, n_actions, layers)
        errors = np.zeros(n_actions)
        while i < size and int(batch[0, order[i]]) == observation:
            k = order[i]
            action, following = int(batch[1, k]), int(batch[3, k])
            goal = batch[2, k]
            if following >= 0:
                goal += discount * ahead[following]
            errors[action] += min(1.0, max(-1.0, layers[3, action] - goal)) / size
            i += 1
        _backward(weights, gradient, observation, n_observations, n_actions, layers, errors)
    shorter = min(1.0, _LONGEST / (np.sqrt((gradient**2).sum()) + 1e-6))
    for i in range(len(weights)):
        slope = shorter * gradient[i]
        squares[i] = _DECAY * squares[i] + (1.0 - _DECAY) * slope * slope
        weights[i] -= rate * slope / (np.sqrt(squares[i]) + _EPSILON)
