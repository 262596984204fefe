"""What distracts: worlds shown as bits most of which mean nothing, and noise for other worlds."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.core.randomness import Seed, generator, seed_sequence
from romdp.core.validation import (
    check_memory,
    freeze,
    real_array,
    real_number,
    takes,
    whole_array,
    whole_number,
)
from romdp.worlds.environments import VectorWorld
from romdp.worlds.named import neighbours
from romdp.worlds.wrappers import DRAWS, ROTATION

_BLOCK = 64  # steps whose noise is drawn at once


class DistractedRing(VectorWorld):
    """STEEL's combination lock: a ring of states behind hundreds of bits that flip by themselves.

    There are two actions and ``n_states`` hidden states on a ring. In each state one action, the
    right one, leads to the next state; the other leads back to state 0. Each state has one bit
    that is 1 if and only if the world is in that state. The other bits are independent
    two-state chains, each with its own probabilities of flipping, up and down, drawn from
    U(0.1, 0.9). The world never ends; `reset` goes to state 0, and the other bits go on as they
    were.

    Parameters
    ----------
    n_states
        The length of the ring.
    n_bits
        The length of the vectors.
    stray
        Probability that a move goes astray, to a state drawn uniformly at random. In STEEL's
        own world it is 0.
    prize
        What the right action in the last state pays. STEEL's own world has no rewards.
    world_seed
        Decides the right actions, which bit means what, and how often the others flip. The seed
        of `reset` decides what happens.
    reveal_hidden_state
        True: ``info["hidden_state"]`` tells the state, for scoring.

    Attributes
    ----------
    right
        The right action of each state, for scoring only.
    indicators
        The bit of each state, for scoring only.

    References
    ----------
    Levine, Stone and Zhang 2025, "Learning a fast mixing exogenous block MDP using a single
    trajectory".

    Examples
    --------
    >>> env = DistractedRing(20)
    >>> observation, info = env.reset(seed=0)
    >>> observation.shape, observation.dtype, int(observation[env.indicators].sum())
    ((512,), dtype('int8'), 1)
    """

    right: Ints
    indicators: Ints

    def __init__(
        self,
        n_states: int = 20,
        n_bits: int = 512,
        stray: float = 0.0,
        prize: float = 0.0,
        world_seed: Seed = 0,
        reveal_hidden_state: bool = False,
    ) -> None:
        size = whole_number(n_states, "n_states", 2)
        width = whole_number(n_bits, "n_bits", 1)
        check_memory("the bits (n_bits) of a block", width, 8)
        if width < size:
            raise InvalidInputError(
                f"n_bits is {width}, fewer than the {size} states; every state needs a bit"
            )
        self._stray = real_number(stray, "stray", 0, 1)
        self._prize = real_number(prize, "prize", 0, 1)
        super().__init__(Box(0, 1, (width,), np.int8), 2, size, reveal_hidden_state)
        rng = generator(world_seed)
        self.indicators = freeze(rng.permutation(width)[:size])
        self.right = freeze(rng.integers(2, size=size))
        up, down = rng.uniform(0.1, 0.9, (2, width))
        up[self.indicators], down[self.indicators] = 0.0, 1.0  # raised by hand
        self._rise = up
        self._stay = 1.0 - down - up  # added to the probability of being 1 if the bit is 1 now
        self._stationary = up / (up + down)
        self._right: list[int] = self.right.tolist()
        self._bit: list[int] = self.indicators.tolist()
        self._bits = np.zeros(width, np.bool_)
        self._state = 0

    @property
    def optimal_value(self) -> float:
        """The best reward per step: always acting rightly visits all states equally often."""
        return self._prize / self.n_states

    def show(self, states: ArrayLike, seed: Seed) -> NDArray[np.int8]:
        """Draw one vector for each hidden state, for scoring only; the noise is stationary."""
        numbers = whole_array(states, "states", ("n",), 0, self.n_states - 1)
        shape = (numbers.size, self._stationary.size)
        bits = generator(seed).random(shape) < self._stationary
        vectors: NDArray[np.int8] = bits.astype(np.int8)
        vectors[np.arange(numbers.size), self.indicators[numbers]] = 1
        return vectors

    def _start(self, rng: np.random.Generator) -> None:
        self._state = 0

    def _move(self, rng: np.random.Generator, action: int) -> tuple[float, bool]:
        state = self._state
        is_right = action == self._right[state]
        following = (state + 1) % self.n_states
        if self._stray and rng.random() < self._stray:
            self._state = int(rng.integers(self.n_states))
        else:
            self._state = following if is_right else 0
        self._bits = rng.random(self._bits.size) < self._rise + self._stay * self._bits
        return (self._prize if is_right and following == 0 else 0.0), False

    def _look(self, rng: np.random.Generator) -> NDArray[np.int8]:
        vector = self._bits.astype(np.int8)
        vector[self._bit[self._state]] = 1
        return vector

    def _hidden_state(self) -> int:
        return self._state

    def _renew_noise(self, rng: np.random.Generator) -> None:
        self._bits = rng.random(self._bits.size) < self._stationary


_FOUR_ROOMS = (
    "###########",
    "#....#....#",
    "#....#....#",
    "#.........#",
    "#....#....#",
    "##.#####.##",
    "#....#....#",
    "#.........#",
    "#....#....#",
    "#....#....#",
    "###########",
)

_CELLS = [(i, j) for i, row in enumerate(_FOUR_ROOMS) for j, sign in enumerate(row) if sign == "."]


class DistractedMazes(VectorWorld):
    """STEEL's mazes: one of nine obeys the agent, in the others somebody walks at random.

    Every maze has 11 x 11 cells: four rooms of 4 x 4 free cells and a door in each of the four
    walls between them, 68 free cells altogether. The actions are the moves north, east, south
    and west; a wall stops a move. The eight others choose their moves uniformly at random. A
    vector has a bit for every cell of every maze, which is 1 if and only if somebody is there. The
    world never ends; `reset` puts the agent into the first cell, and the others walk on.

    Parameters
    ----------
    n_mazes
        The number of mazes.
    prize
        What every step from the last cell pays, the corner opposite the start. STEEL's own world
        has no rewards.
    world_seed
        Decides which maze obeys. The seed of `reset` decides what happens.
    reveal_hidden_state
        True: ``info["hidden_state"]`` is the agent's cell, counted among the free ones row by
        row, for scoring.

    Attributes
    ----------
    obeying
        The maze that obeys the agent, for scoring only.

    References
    ----------
    See `DistractedRing`.

    Examples
    --------
    >>> env = DistractedMazes()
    >>> observation, info = env.reset(seed=0)
    >>> observation.shape, int(observation.sum()), env.n_states, env.action_space
    ((1089,), 9, 68, Discrete(4))
    """

    def __init__(
        self,
        n_mazes: int = 9,
        prize: float = 0.0,
        world_seed: Seed = 0,
        reveal_hidden_state: bool = False,
    ) -> None:
        count = whole_number(n_mazes, "n_mazes", 1)
        check_memory("the cells of all mazes (n_mazes)", count, 121)
        self._prize = real_number(prize, "prize", 0, 1)
        height, width = len(_FOUR_ROOMS), len(_FOUR_ROOMS[0])
        space = Box(0, 1, (count * height * width,), np.int8)
        super().__init__(space, 4, len(_CELLS), reveal_hidden_state)
        self.obeying = int(generator(world_seed).integers(count))
        self._next = neighbours(_CELLS)
        self._bit = np.array([i * width + j for i, j in _CELLS])  # of each cell, in its maze
        self._first = np.arange(count) * height * width  # bit of each maze
        self._places = np.zeros(count, np.int64)

    @property
    def optimal_value(self) -> float:
        """The best reward per step: in the last cell one can stay, by walking against a wall."""
        return self._prize

    def show(self, states: ArrayLike, seed: Seed) -> NDArray[np.int8]:
        """Draw one vector for each cell of the agent, for scoring only.

        The others are anywhere with equal probability, as in the long run of their walks.
        """
        cells = whole_array(states, "states", ("n",), 0, self.n_states - 1)
        shape = (cells.size, self._first.size)
        places = generator(seed).integers(self.n_states, size=shape)
        places[:, self.obeying] = cells
        vectors = np.zeros((cells.size, *self.observation_space.shape), np.int8)
        np.put_along_axis(vectors, self._first + self._bit[places], 1, axis=1)
        return vectors

    def _start(self, rng: np.random.Generator) -> None:
        self._places[self.obeying] = 0

    def _move(self, rng: np.random.Generator, action: int) -> tuple[float, bool]:
        paid = self._prize if self._places[self.obeying] == self.n_states - 1 else 0.0
        actions = rng.integers(4, size=self._places.size)
        actions[self.obeying] = action
        self._places = self._next[self._places, actions]
        return paid, False

    def _look(self, rng: np.random.Generator) -> NDArray[np.int8]:
        vector = np.zeros(self.observation_space.shape, np.int8)
        vector[self._first + self._bit[self._places]] = 1
        return vector

    def _hidden_state(self) -> int:
        return int(self._places[self.obeying])

    def _renew_noise(self, rng: np.random.Generator) -> None:
        self._places = rng.integers(self.n_states, size=self._places.size)


class Distraction(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Add numbers that mean nothing to an environment's vectors, and rotate everything.

    Each further number is a Gaussian process of its own that no action influences:
    ``z' = correlation * z + sqrt(1 - correlation**2) * N(0, 1)``, times ``sd``. It goes on from
    one episode to the next. The rotation is a random orthogonal matrix that never changes.

    Parameters
    ----------
    env
        An environment whose observations are vectors: a `Box` space with one axis.
    n_numbers
        How many numbers are added.
    correlation
        Correlation of each with itself one step later, in [0, 1).
    sd
        Their standard deviation.
    seed
        Decides the rotation and seeds the noise. ``reset(seed=...)`` starts the noise again, from
        both seeds; the environment's own generator is left alone.

    Attributes
    ----------
    rotation
        The matrix that multiplies the longer vector from the right, for scoring only.

    Examples
    --------
    >>> from romdp.worlds import GaussianLock
    >>> env = Distraction(GaussianLock(25), n_numbers=64)
    >>> env.observation_space.shape
    (96,)
    """

    rotation: Floats

    @takes(env=gymnasium.Env, n_numbers=whole_number, correlation=real_number, sd=real_number)
    @takes(seed=seed_sequence)
    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        n_numbers: int,
        correlation: float = 0.9,
        sd: float = 1.0,
        seed: Seed = 0,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, n_numbers=n_numbers, correlation=correlation, sd=sd, seed=seed
        )
        gymnasium.ObservationWrapper.__init__(self, env)
        inner = env.observation_space
        if not isinstance(inner, Box) or len(inner.shape) != 1:
            raise InvalidInputError(
                f"the observation space is {inner}; Distraction needs a Box with one axis"
            )
        self._n_inner = inner.shape[0]
        self._n_numbers = whole_number(n_numbers, "n_numbers", 0)
        self._filter = _autoregression(
            real_number(correlation, "correlation", 0, 1, open_high=True)
        )
        self._sd = real_number(sd, "sd", 0)
        length = self._n_inner + self._n_numbers
        low, high = inner.low.astype(np.float64), inner.high.astype(np.float64)
        check_memory("a rotation", length, length)
        self.rotation = freeze(_orthogonal(length, generator(seed, ROTATION)))
        radius = np.linalg.norm(np.maximum(np.abs(low), np.abs(high)))
        edge = np.full(length, radius + 10.0 * self._sd)  # ten standard deviations
        self.observation_space = Box(-edge, edge, dtype=np.float64)
        self._seed = seed_sequence(seed)
        self._start_noise(generator(self._seed, DRAWS))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Reset the environment; with a seed, the noise starts again as well."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._start_noise(generator(self._seed, DRAWS, int(seed)))
        return self.observation(observation), info

    def observation(self, observation: Any) -> Floats:
        """Add the noise of the next moment to a vector, and rotate."""
        if self._used == _BLOCK:
            self._draw_block()
        noise = self._block[self._used]
        self._used += 1
        vector: Floats = observation @ self.rotation[: self._n_inner]
        vector += noise
        return vector

    def disturb(self, vectors: ArrayLike, seed: Seed) -> Floats:
        """Add independent stationary noise to each vector and rotate, for scoring only."""
        rows = real_array(vectors, "vectors", ("n", self._n_inner))
        noise = self._sd * generator(seed, DRAWS).standard_normal((len(rows), self._n_numbers))
        return np.hstack([rows, noise]) @ self.rotation

    def show(self, states: ArrayLike, seed: Seed) -> Floats:
        """Draw one disturbed vector for each hidden state of the environment, for scoring only."""
        return self.disturb(self.env.get_wrapper_attr("show")(states, seed), seed)

    def _start_noise(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._last = rng.standard_normal(self._n_numbers)
        self._used = _BLOCK

    def _draw_block(self) -> None:
        """Run the noise ahead and rotate it all at once: no action influences it."""
        fresh = self._rng.standard_normal((_BLOCK, self._n_numbers))
        noise = self._filter @ np.vstack([self._last, fresh])
        self._last = noise[-1].copy()
        noise *= self._sd
        self._block = noise @ self.rotation[self._n_inner :]
        self._used = 0


def _autoregression(correlation: float) -> Floats:
    """Return what turns the last number and a block of new ones into a block of the process."""
    rows, columns = np.ogrid[1 : _BLOCK + 1, : _BLOCK + 1]
    lags = rows - columns
    weights = np.where(lags >= 0, correlation ** np.maximum(lags, 0.0), 0.0)
    weights[:, 1:] *= np.sqrt(1.0 - correlation**2)
    return weights


def _orthogonal(size: int, rng: np.random.Generator) -> Floats:
    """Draw an orthogonal matrix uniformly: QR of Gaussian numbers, with the signs made even."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    even: Floats = q * np.sign(np.diag(r))
    return even
