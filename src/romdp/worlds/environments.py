"""Worlds as Gymnasium environments: a known one, and what those that show vectors share."""

from abc import abstractmethod
from array import array
from bisect import bisect_right
from inspect import signature
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Floats
from romdp.core.errors import InvalidInputError, MisuseError
from romdp.core.randomness import Seed
from romdp.core.validation import flag, whole_number
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.worlds.named import WORLDS, make

_BLOCK = 2048  # steps whose random numbers are drawn at once

_Choices = dict[int, tuple["array[float]", float]]  # action -> law of the next state, mean reward
_State = tuple[_Choices, "array[float]", "array[int]"]  # choices, law of its views, the views


class ROMDPEnv(gymnasium.Env[Any, Any]):
    """A ROMDP (or an MDP) to step through; it never terminates and is never truncated.

    Parameters
    ----------
    world
        A `ROMDP`, an `MDP`, or the name of a world that `romdp.worlds.make` knows.
    reveal_hidden_state
        True: ``info["hidden_state"]`` tells the truth after each step, for scoring.
    world_seed
        If ``world`` is a name, the seed with which the world is made. The seed of `reset` is a
        different one: it decides what happens in the world.
    **arguments
        If ``world`` is a name, the other arguments of its constructor.

    Notes
    -----
    `reset` draws the hidden state from ``world.initial``, or takes ``options["hidden_state"]``;
    other options are ignored. Random numbers are drawn from ``np_random`` in blocks; a reset
    with a seed discards the rest of a block, one without a seed continues with it.

    Examples
    --------
    >>> env = ROMDPEnv("river-swim", n_states=3, n_observations=6)
    >>> env.observation_space, env.action_space
    (Discrete(6), Discrete(2))
    >>> observation, info = env.reset(seed=0)
    >>> observation in (0, 3)  # the two views of the left bank
    True
    >>> observation, reward, terminated, truncated, info = env.step(1)
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (as Gymnasium types it)
    reward_range = (0.0, 1.0)
    observation_space: Discrete
    action_space: Discrete

    def __init__(
        self,
        world: ROMDP | MDP | str,
        reveal_hidden_state: bool = False,
        world_seed: Seed | None = None,
        **arguments: Any,
    ) -> None:
        self.world = _find_world(world, world_seed, arguments)
        self.observation_space = Discrete(self.world.n_observations)
        self.action_space = Discrete(self.world.n_actions)
        self._reveals = flag(reveal_hidden_state, "reveal_hidden_state")
        self._flips_coins = self.world.reward_law == "bernoulli"
        self._initial = _cumulated(self.world.initial)
        self._states = _tables(self.world)
        self._draws: list[tuple[float, float, float]] = []
        self._source: np.random.Generator | None = None  # where the draws came from
        self._choices: _Choices = {}  # before the first reset there is nothing to choose
        self._observation = -1
        self._hidden_state = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Start again; see the class for what seeds and options do."""
        start = (options or {}).get("hidden_state")
        if start is not None:
            whole_number(start, 'options["hidden_state"]', 0, self.world.n_states - 1)
        super().reset(seed=seed)
        if self.np_random is not self._source:
            self._source = self.np_random
            self._draws = []
        if not self._draws:
            self._draw_block()
        first, second, _ = self._draws.pop()
        x = bisect_right(self._initial, first) if start is None else int(start)
        self._choices, law, views = self._states[x]
        self._hidden_state = x
        self._observation = views[bisect_right(law, second)]
        return self._observation, {"hidden_state": x} if self._reveals else {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take an action; returns observation, reward, False, False, info."""
        try:
            law, mean = self._choices[action]
        except (KeyError, TypeError):  # TypeError: an array, which cannot be a key
            law, mean = self._choices[self._checked(action)]
        if not self._draws:
            self._draw_block()
        first, second, third = self._draws.pop()
        if self._flips_coins:
            reward = 1.0 if third < mean else 0.0
        else:
            reward = self._draw_reward(mean, third)
        self._hidden_state = x = bisect_right(law, first)
        self._choices, law, views = self._states[x]
        self._observation = observation = views[bisect_right(law, second)]
        return observation, reward, False, False, {"hidden_state": x} if self._reveals else {}

    def _draw_block(self) -> None:
        numbers = self.np_random.random((3, _BLOCK)).tolist()
        self._draws = list(zip(*numbers, strict=True))

    def _draw_reward(self, mean: float, uniform: float) -> float:
        """Draw from the other laws around a mean, as `Simulator` does."""
        if self.world.reward_law == "uniform":
            return mean + min(mean, 1.0 - mean) * (2.0 * uniform - 1.0)
        if self.world.reward_law == "beta" and 0.0 < mean < 1.0:
            return self.np_random.beta(2.0 * mean, 2.0 * (1.0 - mean))
        return mean

    def _checked(self, action: Any) -> int:
        """Read an action that is no plain number, or say what is wrong with it."""
        if not self._choices:
            raise MisuseError("step was called before reset; call reset() first")
        return _checked_action(action, self.world.n_actions)


def _checked_action(action: Any, n_actions: int) -> int:
    """Read an action that is no plain number, or say what is wrong with it."""
    if isinstance(action, np.ndarray) and action.size == 1:
        action = action.item()
    return whole_number(action, "action", 0, n_actions - 1)


def _find_world(
    world: ROMDP | MDP | str, world_seed: Seed | None, arguments: dict[str, Any]
) -> ROMDP:
    if "seed" in arguments:
        raise InvalidInputError(
            "seed is no argument of an environment; pass world_seed= for the world that is made, "
            "and reset(seed=...) for what happens in it"
        )
    if isinstance(world, str):
        if world_seed is not None:
            if world in WORLDS and "seed" not in signature(WORLDS[world]).parameters:
                raise InvalidInputError(
                    f"world {world!r} draws nothing at random; leave world_seed out"
                )
            arguments = {"seed": world_seed, **arguments}
        return as_romdp(make(world, **arguments))
    if world_seed is not None or arguments:
        extra = ", ".join(arguments) or "world_seed"
        raise InvalidInputError(f"{extra}: only for a world that is given by its name")
    return as_romdp(world)


def _cumulated(law: Floats) -> "array[float]":
    """Cumulate a law, so that bisecting it with a uniform number draws from it.

    From the last outcome of positive probability on it is exactly 1, which no uniform number
    reaches: an outcome of probability zero is never drawn. A typed array takes a quarter of a
    list's memory and is as fast.
    """
    sums = np.cumsum(law)
    return array("d", (sums / sums[-1]).tobytes())


def _tables(world: ROMDP) -> list[_State]:
    """Put a world into typed arrays, two draws per step: X * A * X + Y entries, never X * A * Y."""
    members = np.argsort(world.labels, kind="stable")
    ends = np.cumsum(np.bincount(world.labels, minlength=world.n_states))[:-1]
    states: list[_State] = []
    for x, views in enumerate(np.split(members, ends)):
        choices: _Choices = {
            a: (_cumulated(world.transition[x, a]), float(world.reward[x, a]))
            for a in range(world.n_actions)
        }
        law = _cumulated(world.observation_chance[views])
        states.append((choices, law, array("q", views.astype(np.int64).tobytes())))
    return states


OVER = -1
"""What ``info["hidden_state"]`` says after the last step of an episode."""


class VectorWorld(gymnasium.Env[NDArray[Any], Any]):
    """A few hidden states, each shown as a vector; a subclass says how it moves and what it shows.

    A seed of `reset` starts all random numbers again; without one they continue, and so does
    any noise with dynamics of its own.

    Parameters
    ----------
    observation_space
        Where the vectors lie.
    n_actions, n_states
        The numbers of actions and of hidden states.
    reveal_hidden_state
        True: ``info["hidden_state"]`` tells the truth, for scoring only.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (as Gymnasium types it)
    reward_range = (0.0, 1.0)
    observation_space: Box
    action_space: Discrete
    n_states: int

    def __init__(
        self, observation_space: Box, n_actions: int, n_states: int, reveal_hidden_state: bool
    ) -> None:
        self.observation_space = observation_space
        self.action_space = Discrete(n_actions)
        self.n_states = n_states
        self._reveals = flag(reveal_hidden_state, "reveal_hidden_state")
        self._actions = {a: a for a in range(n_actions)}
        self._is_running = False
        self._source: np.random.Generator | None = None  # where the noise came from

    @property
    @abstractmethod
    def optimal_value(self) -> float:
        """The best expected return of an episode, or reward per step if there are no episodes."""

    @abstractmethod
    def show(self, states: ArrayLike, seed: Seed) -> NDArray[Any]:
        """Draw one vector for each of the given hidden states, for scoring only.

        Noise that has dynamics of its own is drawn from its stationary distribution.
        """

    @abstractmethod
    def _start(self, rng: np.random.Generator) -> None:
        """Go to the first state of an episode."""

    @abstractmethod
    def _move(self, rng: np.random.Generator, action: int) -> tuple[float, bool]:
        """Take an action; returns the reward and whether the episode is over."""

    @abstractmethod
    def _look(self, rng: np.random.Generator) -> NDArray[Any]:
        """Draw what the state shows, as an array of its own."""

    @abstractmethod
    def _hidden_state(self) -> int:
        """Return the number of the hidden state."""

    def _renew_noise(self, rng: np.random.Generator) -> None:
        """Forget noise that was drawn ahead: the generator is a new one."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Start an episode; options are ignored."""
        super().reset(seed=seed)
        rng = self.np_random
        if rng is not self._source:
            self._source = rng
            self._renew_noise(rng)
        self._start(rng)
        self._is_running = True
        observation = self._look(rng)
        return observation, {"hidden_state": self._hidden_state()} if self._reveals else {}

    def step(self, action: int) -> tuple[NDArray[Any], float, bool, bool, dict[str, Any]]:
        """Take an action; what is shown after the last step of an episode is all zeros."""
        try:
            action = self._actions[action]
        except (KeyError, TypeError):  # TypeError: an array, which cannot be a key
            action = _checked_action(action, len(self._actions))
        if not self._is_running:
            raise MisuseError("step was called before reset or after the end; call reset() first")
        rng = self.np_random
        reward, is_over = self._move(rng, action)
        if is_over:
            self._is_running = False
            space = self.observation_space
            observation = np.zeros(space.shape, space.dtype)
            state = OVER
        else:
            observation = self._look(rng)
            state = self._hidden_state()
        return observation, reward, is_over, False, {"hidden_state": state} if self._reveals else {}
