"""Wrappers between other people's Gymnasium environments and numbered observations."""

from bisect import bisect_right
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.lazy import find_modules_here
from romdp.core.randomness import Seed, generator, seed_sequence
from romdp.core.validation import freeze, real_number, whole_number
from romdp.data.vocabulary import Vocabulary

_NUMBERING, _CHANCES, _VIEWS = range(3)  # streams of RichObservation's seed


class RichObservation(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Show each state of a discrete environment as one of several views, drawn at every step.

    The n states become ``n * per_state`` observations. They are numbered by a random
    permutation, so that the number says nothing about the state.

    Parameters
    ----------
    env
        An environment with a `Discrete` observation space: FrozenLake, Taxi, CliffWalking.
    per_state
        Views of each state.
    seed
        Decides the numbering and the probabilities of the views, which never change, and seeds
        the draws. ``reset(seed=...)`` starts the draws again, from both seeds; the environment's
        own generator is left alone.
    concentration
        The parameter of the Dirichlet distribution of each state's views; None makes them equally
        likely.

    Attributes
    ----------
    labels
        The truth, for scoring only: the state behind each view, counted from 0 (where the
        inner space starts at another number, that is subtracted).
    chances
        The probability of each view in its state.

    Examples
    --------
    >>> env = RichObservation(gymnasium.make("FrozenLake-v1"), per_state=10, seed=0)
    >>> env.observation_space
    Discrete(160)
    >>> view, info = env.reset(seed=1)
    >>> int(env.labels[view])  # a walk on the lake starts at cell 0
    0
    """

    labels: NDArray[np.int64]
    chances: NDArray[np.float64]

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        per_state: int,
        seed: Seed = 0,
        concentration: float | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, per_state=per_state, seed=seed, concentration=concentration
        )
        gymnasium.ObservationWrapper.__init__(self, env)
        n_states, self._start = numbers_shown(env, "RichObservation")
        views = whole_number(per_state, "per_state", 1)
        shape = (n_states, views)
        laws = np.full(shape, 1.0 / views)
        if concentration is not None:
            alpha = real_number(concentration, "concentration", 0, open_low=True)
            laws = _dirichlet(alpha, shape, generator(seed, _CHANCES))
        numbers = generator(seed, _NUMBERING).permutation(n_states * views).reshape(shape)
        labels = np.empty(numbers.size, np.int64)
        labels[numbers] = np.arange(n_states)[:, None]
        chances = np.empty(numbers.size)
        chances[numbers] = laws
        sums = np.cumsum(laws, axis=1)
        self.labels, self.chances = freeze(labels), freeze(chances)
        self.observation_space = Discrete(numbers.size)
        self._numbers: list[list[int]] = numbers.tolist()
        self._cumulated: list[list[float]] = (sums / sums[:, -1:]).tolist()
        self._seed = seed_sequence(seed)
        self._draw = generator(self._seed, _VIEWS).random

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Reset the environment; with a seed, the draws of the views start again as well."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._draw = generator(self._seed, _VIEWS, int(seed)).random
        return self.observation(observation), info

    def observation(self, observation: Any) -> int:
        """Draw a view of a state."""
        state = int(observation) - self._start
        return self._numbers[state][bisect_right(self._cumulated[state], self._draw())]


def _dirichlet(
    alpha: float, shape: tuple[int, int], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draw a law for each row; every entry stays positive however small the concentration."""
    laws = np.maximum(rng.dirichlet(np.full(shape[1], alpha), shape[0]), 1e-12)
    exact: NDArray[np.float64] = laws / laws.sum(axis=1, keepdims=True)
    return exact


def numbers_shown(env: gymnasium.Env[Any, Any], wrapper: str) -> tuple[int, int]:
    """Return how many numbers a discrete environment shows, and the first of them."""
    inner = env.observation_space
    if not isinstance(inner, Discrete):
        raise InvalidInputError(
            f"the observation space is {inner}; {wrapper} needs a Discrete one. "
            "Wrap the environment in VocabularyWrapper first"
        )
    return int(inner.n), int(inner.start)


class VocabularyWrapper(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Number the observations of an environment in the order in which they first appear.

    Parameters
    ----------
    env
        An environment whose observations a `Vocabulary` can hold.
    capacity
        The size of the `Discrete` observation space; a new observation beyond it is an error.
    vocabulary
        A vocabulary to continue with, shared and not copied; its capacity is the wrapper's.

    Examples
    --------
    >>> env = VocabularyWrapper(gymnasium.make("Blackjack-v1"), capacity=800)
    >>> env.observation_space
    Discrete(800)
    >>> env.reset(seed=0)[0]
    0
    >>> len(env.vocabulary.decode(0))  # player's sum, dealer's card, usable ace
    3
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        capacity: int | None = None,
        vocabulary: Vocabulary | None = None,
    ) -> None:
        RecordConstructorArgs.__init__(self, capacity=capacity, vocabulary=vocabulary)
        gymnasium.ObservationWrapper.__init__(self, env)
        if not isinstance(vocabulary, Vocabulary | None):
            raise InvalidInputError(f"vocabulary is {vocabulary!r}; pass a Vocabulary")
        self.vocabulary = Vocabulary(capacity) if vocabulary is None else vocabulary
        size = self.vocabulary.capacity
        if size is None:
            raise InvalidInputError(
                "capacity is missing: pass one to the wrapper or its vocabulary"
            )
        if capacity not in (None, size):
            raise InvalidInputError(
                f"capacity is {capacity} but the vocabulary's is {size}; leave it out, or pass "
                f"Vocabulary({capacity}, names=vocabulary.names)"
            )
        self.observation_space = Discrete(size)

    def observation(self, observation: Any) -> int:
        """Return the number of an observation."""
        return self.vocabulary.encode(observation)


def numbered(env: gymnasium.Env[Any, Any], capacity: int = 2000) -> gymnasium.Env[Any, Any]:
    """Return an environment whose observations are numbers: itself, or with a vocabulary around it.

    Parameters
    ----------
    env
        The environment.
    capacity
        How many different observations it may show, where they must be numbered.

    Examples
    --------
    >>> numbered(gymnasium.make("Blackjack-v1")).observation_space
    Discrete(2000)
    """
    if isinstance(env.observation_space, Discrete):
        return env
    return VocabularyWrapper(env, capacity)


def make_environment(
    name: str, views: int | None = None, seed: Seed = 0
) -> gymnasium.Env[Any, Any]:
    """Make a registered Gymnasium environment; what cannot be made is refused with the reason.

    Parameters
    ----------
    name
        Its name, such as ``"Taxi-v4"``; ``"module:Name-v0"`` imports the module first, which may
        lie in the current folder.
    views
        Show each observation as one of so many; see `RichObservation`.
    seed
        Decides the views.
    """
    find_modules_here(name)
    try:
        env = gymnasium.make(name)
    except (gymnasium.error.Error, ImportError) as error:
        hint = "" if ":" in name else f" If another module registers it, say module:{name}"
        raise InvalidInputError(f"cannot make the environment {name!r}: {error}{hint}") from error
    return env if views is None else RichObservation(numbered(env), views, seed)
