"""Combination locks shown as vectors: the test worlds of block MDP methods, with episodes."""

from abc import abstractmethod
from functools import cached_property
from math import exp

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import hadamard

from romdp.core.arrays import Floats, Ints
from romdp.core.randomness import Seed, generator
from romdp.core.validation import check_memory, flag, freeze, real_number, whole_array, whole_number
from romdp.worlds.environments import VectorWorld

_BLOCK = 256  # observations whose noise is drawn at once

_DEAD = 2  # the state after 0 and 1, the live ones, in every layer


class _Lock(VectorWorld):
    """Layers of two live states and a dead one; the hidden state is ``3 * layer + state``."""

    def __init__(
        self, horizon: int, observation_space: Box, n_actions: int, reveal_hidden_state: bool
    ) -> None:
        super().__init__(observation_space, n_actions, 3 * horizon, reveal_hidden_state)
        self.horizon = horizon
        self._layer = self._state = 0
        self._used = _BLOCK

    @abstractmethod
    def _draw_block(self, rng: np.random.Generator) -> None:
        """Draw the noise of the next ``_BLOCK`` observations."""

    def _next_row(self, rng: np.random.Generator) -> int:
        """Return the row of the block that the next observation uses."""
        if self._used == _BLOCK:
            self._draw_block(rng)
            self._used = 0
        self._used += 1
        return self._used - 1

    def _renew_noise(self, rng: np.random.Generator) -> None:
        self._used = _BLOCK

    def _hidden_state(self) -> int:
        return 3 * self._layer + self._state

    def _split(self, states: ArrayLike) -> tuple[Ints, Ints]:
        numbers = whole_array(states, "states", ("n",), 0, self.n_states - 1)
        return numbers // 3, numbers % 3


class GaussianLock(_Lock):
    """The combination lock of BRIEE, MusIK and Hy-Q: Gaussian noise behind a Hadamard matrix.

    Each of ``horizon`` layers has two live states and a dead one; an episode starts in one of
    the two live states of the first layer. Each live state has one secret action, which leads to
    either live state of the next layer with probability 1/2; any other action leads to the dead
    states for good. The secret action in the last layer pays 1. Falling from a live state to a
    dead one pays 0.1 with probability 1/2, which lures an agent away from the prize.

    A vector begins as Gaussian noise of standard deviation 0.1 on horizon + 3 coordinates, the
    others being 0; one of the first three is raised by 1 for the state, and one of the others for
    the layer. The vector is then multiplied by a Hadamard matrix, so that no entry means anything
    by itself.

    Parameters
    ----------
    horizon
        The number of layers and of steps in an episode.
    n_actions
        The number of actions, at least 3, so that one is wrong in both live states.
    variable_latent
        True: whenever a vector is shown, the state is drawn again from
        softmax(first three coordinates / 0.2), so that about one in 60 observations comes from
        another state than it seems, and the dead may come alive again.
    world_seed
        Decides the secret actions. The seed of `reset` decides what happens.
    reveal_hidden_state
        True: ``info["hidden_state"]`` is ``3 * layer + state`` with states 0 and 1 alive and 2
        dead, for scoring; -1 at the end of an episode. The dead state of the first layer, number
        2, is never met unless ``variable_latent``.

    Attributes
    ----------
    secret
        The secret action of each layer and live state, for scoring only.

    References
    ----------
    Zhang et al. 2022, "Efficient reinforcement learning in block MDPs: a model-free
    representation learning approach"; Mhammedi et al. 2023, "Representation learning with
    multi-step inverse kinematics".

    Examples
    --------
    >>> env = GaussianLock(horizon=25)
    >>> env.observation_space.shape, env.action_space, env.optimal_value
    ((32,), Discrete(10), 1.0)
    >>> env.reset(seed=0)[0].round(1)[:3]
    array([1.6, 0.5, 0.2])
    """

    secret: Ints
    _noise = 0.1
    _temperature = 0.2

    def __init__(
        self,
        horizon: int = 25,
        n_actions: int = 10,
        variable_latent: bool = False,
        world_seed: Seed = 0,
        reveal_hidden_state: bool = False,
    ) -> None:
        length = whole_number(horizon, "horizon", 1)
        actions = whole_number(n_actions, "n_actions", 3)
        n_drawn = length + 3
        size = 1 << n_drawn.bit_length()  # the smallest power of 2 that is at least horizon + 4
        check_memory("a Hadamard matrix (horizon)", size, size)
        check_memory("the secret actions (horizon, n_actions)", length, actions)
        flag(variable_latent, "variable_latent")
        high = 2.0 + 10.0 * self._noise * np.sqrt(n_drawn)  # ten standard deviations
        super().__init__(
            length, Box(-high, high, (size,), np.float64), actions, reveal_hidden_state
        )
        self.variable_latent = bool(variable_latent)
        self.secret = freeze(generator(world_seed).integers(actions, size=(length, 2)))
        self._secret: list[list[int]] = self.secret.tolist()
        self._rows = hadamard(size, np.float64)[:n_drawn]
        self._drawn = self._turned = np.empty((0, 0))

    @cached_property
    def optimal_value(self) -> float:
        """The best expected return of an episode: 1, and less if the state is drawn again."""
        dead, best = np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0])
        if self.variable_latent:
            dead, best = _softmax_means(self._noise, self._temperature)
        values = np.zeros(3)  # by the state that is shown, at the layer after this one
        for layer in reversed(range(self.horizon)):
            right = float(layer == self.horizon - 1) + values[:_DEAD].mean()
            wrong = 0.05 + values[_DEAD]
            first, second = self._secret[layer]
            chance = 1.0 - dead if first == second else best  # to act rightly, at best
            # Where the prize is too far away, the wrong action is better: it pays 0.05 on average.
            values = dead * values[_DEAD] + (1.0 - dead) * wrong + chance * max(0.0, right - wrong)
        return float(values[:_DEAD].mean())

    def show(self, states: ArrayLike, seed: Seed) -> Floats:
        """Draw one vector for each hidden state ``3 * layer + state``, for scoring only."""
        layers, kinds = self._split(states)
        drawn = generator(seed).normal(0.0, self._noise, (layers.size, len(self._rows)))
        return drawn @ self._rows + self._rows[kinds] + self._rows[3 + layers]

    def _start(self, rng: np.random.Generator) -> None:
        self._layer = 0
        self._state = int(rng.random() < 0.5)

    def _move(self, rng: np.random.Generator, action: int) -> tuple[float, bool]:
        layer, state = self._layer, self._state
        self._layer = layer + 1
        is_over = self._layer == self.horizon
        if state == _DEAD:
            return 0.0, is_over
        if action == self._secret[layer][state]:
            self._state = int(rng.random() < 0.5)
            return float(is_over), is_over
        self._state = _DEAD
        return (0.1 if rng.random() < 0.5 else 0.0), is_over

    def _look(self, rng: np.random.Generator) -> Floats:
        row = self._next_row(rng)
        vector: Floats = self._turned[row] + self._rows[self._state]
        vector += self._rows[3 + self._layer]
        if self.variable_latent:
            first = self._drawn[row, :3].tolist()
            first[self._state] += 1.0
            alive, other, dead = (exp(value / self._temperature) for value in first)
            drawn = rng.random() * (alive + other + dead)
            self._state = int(drawn >= alive) + int(drawn >= alive + other)
        return vector

    def _draw_block(self, rng: np.random.Generator) -> None:
        self._drawn = rng.normal(0.0, self._noise, (_BLOCK, len(self._rows)))
        self._turned = self._drawn @ self._rows


def _softmax_means(noise: float, temperature: float) -> tuple[Floats, ...]:
    """Integrate softmax((e_z + noise * N) / temperature) for the three states z shown.

    Returns the mean probability of the dead state, and that of the likelier live one.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights /= weights.sum()
    legendre, masses = np.polynomial.legendre.leggauss(200)
    dead, best = np.empty(3), np.empty(3)
    for shown in range(3):
        # Along u = (N_0 - N_1) / sqrt(2) the maximum has a kink, where the panels meet.
        lead = float(shown == 0) - float(shown == 1)
        kink = float(np.clip(-lead / (noise * np.sqrt(2.0)), -9.0, 9.0))
        panels = [(low, high) for low, high in ((-9.0, kink), (kink, 9.0)) if high > low]
        u = np.concatenate([(low + high + (high - low) * legendre) / 2 for low, high in panels])
        mass = np.concatenate([(high - low) * masses / 2 for low, high in panels])
        mass *= np.exp(-(u**2) / 2)
        mass /= mass.sum()
        both, third = nodes[:, None], nodes[None, :]
        difference = u[:, None, None]
        coordinates = np.stack(
            np.broadcast_arrays(
                (both + difference) / np.sqrt(2.0), (both - difference) / np.sqrt(2.0), third
            )
        )
        logits = (np.eye(3)[shown][:, None, None, None] + noise * coordinates) / temperature
        odds = np.exp(logits - logits.max(axis=0))
        odds /= odds.sum(axis=0)
        share = mass[:, None, None] * weights[:, None] * weights
        dead[shown] = (share * odds[_DEAD]).sum()
        best[shown] = (share * odds[:_DEAD].max(axis=0)).sum()
    return dead, best


class CoinLock(_Lock):
    """The combination lock of PCID with coin bits: the layer is not shown.

    Each of ``horizon`` layers has two live states and a dead one; an episode starts in the first
    live state. Each live state has two good actions among four: one keeps the state, the other
    changes it to the other live one; either does the opposite with probability ``switch``. The
    other actions lead to the dead states for good. A good action in the last layer pays 1 with
    probability 1/2; nothing else pays.

    A vector is the state as three bits, one of them 1, and ``horizon`` fair coins. It does not
    show the layer, so the best policy must count the steps of the episode.

    Parameters
    ----------
    horizon
        The number of layers and of steps in an episode.
    switch
        Probability that a good action leads to the live state that the other one leads to.
    world_seed
        Decides the good actions. The seed of `reset` decides what happens.
    reveal_hidden_state
        As in `GaussianLock`.

    Attributes
    ----------
    good
        The two good actions of each layer and live state, for scoring only: the one that keeps
        the state, then the one that changes it.

    References
    ----------
    Du et al. 2019, "Provably efficient RL with rich observations via latent state decoding".

    Examples
    --------
    >>> env = CoinLock(horizon=20)
    >>> env.observation_space.shape, env.action_space, env.optimal_value
    ((23,), Discrete(4), 0.5)
    """

    good: Ints
    optimal_value = 0.5

    def __init__(
        self,
        horizon: int = 20,
        switch: float = 0.0,
        world_seed: Seed = 0,
        reveal_hidden_state: bool = False,
    ) -> None:
        length = whole_number(horizon, "horizon", 1)
        self._switch = real_number(switch, "switch", 0, 1)
        check_memory("the secret actions (horizon)", length, 8)
        super().__init__(length, Box(0, 1, (length + 3,), np.int8), 4, reveal_hidden_state)
        rng = generator(world_seed)
        orders = rng.permuted(np.tile(np.arange(4), (length, 2, 1)), axis=2)
        self.good = freeze(orders[:, :, :2].copy())
        self._good: list[list[list[int]]] = self.good.tolist()
        self._coins = np.empty((0, 0), np.int8)

    def show(self, states: ArrayLike, seed: Seed) -> NDArray[np.int8]:
        """Draw one vector for each hidden state ``3 * layer + state``, for scoring only."""
        _, kinds = self._split(states)
        coins = generator(seed).integers(2, size=(kinds.size, self.horizon), dtype=np.int8)
        return np.hstack([np.eye(3, dtype=np.int8)[kinds], coins])

    def _start(self, rng: np.random.Generator) -> None:
        self._layer = self._state = 0

    def _move(self, rng: np.random.Generator, action: int) -> tuple[float, bool]:
        layer, state = self._layer, self._state
        self._layer = layer + 1
        is_over = self._layer == self.horizon
        if state == _DEAD:
            return 0.0, is_over
        keep, change = self._good[layer][state]
        if action not in (keep, change):
            self._state = _DEAD
            return 0.0, is_over
        changes = (action == change) != (self._switch > 0 and rng.random() < self._switch)
        self._state = 1 - state if changes else state
        return float(is_over and rng.random() < 0.5), is_over

    def _look(self, rng: np.random.Generator) -> NDArray[np.int8]:
        row = self._next_row(rng)
        vector = np.zeros(self.horizon + 3, np.int8)
        vector[self._state] = 1
        vector[3:] = self._coins[row]
        return vector

    def _draw_block(self, rng: np.random.Generator) -> None:
        self._coins = rng.integers(2, size=(_BLOCK, self.horizon), dtype=np.int8)
