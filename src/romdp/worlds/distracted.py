"""Worlds without resets, shown as bits most of which have nothing to do with the hidden state."""

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.randomness import Seed, generator
from romdp.core.validation import freeze, real_number, whole_array, whole_number
from romdp.worlds.environments import VectorWorld
from romdp.worlds.named import neighbours


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

    right: NDArray[np.int64]
    indicators: NDArray[np.int64]

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
