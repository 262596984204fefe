"""What the worlds whose observations are vectors have in common."""

from abc import abstractmethod
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import MisuseError
from romdp.core.randomness import Seed
from romdp.core.validation import whole_number

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
        self._reveals = bool(reveal_hidden_state)
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
            action = self._checked(action)
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

    def _checked(self, action: Any) -> int:
        """Read an action that is no plain number, or say what is wrong with it."""
        if isinstance(action, np.ndarray) and action.size == 1:
            action = action.item()
        return whole_number(action, "action", 0, len(self._actions) - 1)
