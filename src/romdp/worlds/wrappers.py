"""Wrappers between other people's Gymnasium environments and numbered observations."""

import math
import os
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Self

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from romdp.errors import InvalidInputError, StorageError
from romdp.randomness import Seed, generator, seed_sequence
from romdp.storage import read_json, write_json
from romdp.validation import freeze, real_number, whole_number

_NUMBERING, _CHANCES, _VIEWS = range(3)  # streams of RichObservation's seed

_KIND, _VERSION = "romdp vocabulary", 1


class RichObservation(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Show each state of a discrete environment as one of several views, drawn afresh each step.

    The n states become ``n * per_state`` observations. They are numbered by a random
    permutation, so that a number tells nothing of the state.

    Parameters
    ----------
    env
        An environment with a `Discrete` observation space: FrozenLake, Taxi, CliffWalking.
    per_state
        Views of each state.
    seed
        Of the numbering and of the views' chances, which never change, and of the draws. The
        draws start anew at ``reset(seed=...)``, with both seeds; the environment's own
        generator is left alone.
    concentration
        Of the Dirichlet law of each state's chances; None makes its views equally likely.

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
        inner = env.observation_space
        if not isinstance(inner, Discrete):
            raise InvalidInputError(
                f"the observation space is {inner}; RichObservation needs a Discrete one. "
                "Wrap the environment in VocabularyWrapper first"
            )
        views = whole_number(per_state, "per_state", 1)
        n_states, self._start = int(inner.n), int(inner.start)
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
        """Reset the environment; with a seed, the draws of the views start anew as well."""
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


class Vocabulary:
    """Numbers for observations of any kind, in the order in which they first appear.

    Strings, numbers, tuples, lists, arrays, dictionaries and anything hashable will do. Lists
    and arrays are read as tuples and dictionaries as the sorted tuple of their items; numbers
    that are equal, such as 1 and 1.0, are one observation.

    Parameters
    ----------
    capacity
        The largest size; None for no limit.
    names
        What the vocabulary starts with.

    Examples
    --------
    >>> vocabulary = Vocabulary()
    >>> [vocabulary.encode(page) for page in ["home", "cart", "home"]]
    [0, 1, 0]
    >>> vocabulary.encode(np.array([[1, 2], [3, 4]]))
    2
    >>> vocabulary.names
    ['home', 'cart', ((1, 2), (3, 4))]
    >>> vocabulary.decode(1)
    'cart'
    """

    def __init__(self, capacity: int | None = None, names: Iterable[Any] = ()) -> None:
        self.capacity = None if capacity is None else whole_number(capacity, "capacity", 1)
        self._numbers: dict[Hashable, int] = {}
        self._names: list[Any] = []
        for name in names:
            self.encode(name)

    @property
    def names(self) -> list[Any]:
        """The observations in order of their numbers, as tuples where they were arrays."""
        return list(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, observation: Any) -> bool:
        return _key(observation) in self._numbers

    def encode(self, observation: Any, grow: bool = True) -> int:
        """Return the number of an observation.

        Parameters
        ----------
        observation
            What was seen.
        grow
            What to do with a new one: True gives it the next number, False returns -1.
        """
        try:
            return self._numbers[observation]
        except (KeyError, TypeError):  # new, or a kind that cannot be a key as it is
            key = _key(observation)
        number = self._numbers.get(key, -1)
        if number < 0 and grow:
            number = len(self._names)
            if number == self.capacity:
                raise InvalidInputError(
                    f"the vocabulary is full: {_short(key)} is new and capacity is {number}. Pass "
                    "a larger capacity, or make observations coarser before they get here"
                )
            self._numbers[key] = number
            self._names.append(key)
        return number

    def decode(self, number: int) -> Any:
        """Return the observation that has a number."""
        if not self._names:
            raise InvalidInputError("the vocabulary is empty; encode an observation first")
        return self._names[whole_number(number, "number", 0, len(self._names) - 1)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the vocabulary to a JSON file, whole or not at all.

        Strings, bytes, finite numbers, None and tuples of these can be written.
        """
        names = [_to_json(name, f"names[{i}]") for i, name in enumerate(self._names)]
        facts = {"kind": _KIND, "version": _VERSION, "capacity": self.capacity}
        write_json(path, {**facts, "names": names})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a vocabulary that `save` wrote; a damaged or foreign file is a `StorageError`."""
        content = read_json(path)
        if not isinstance(content, dict) or content.get("kind") != _KIND:
            raise StorageError(f"{path} holds no vocabulary of romdp")
        if content.get("version") != _VERSION:
            raise StorageError(
                f"{path} has format version {content.get('version')}; "
                f"this romdp reads version {_VERSION}"
            )
        try:
            names = _from_json(content["names"])
            if not isinstance(names, tuple):
                raise ValueError("names is no list")
            vocabulary = cls(content["capacity"], names)
        except (KeyError, TypeError, ValueError) as error:
            raise StorageError(f"{path} is damaged ({error})") from error
        if len(vocabulary) != len(names):
            raise StorageError(f"{path} is damaged: a name occurs twice")
        return vocabulary

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vocabulary):
            return NotImplemented
        return self.capacity == other.capacity and self._names == other._names

    __hash__ = None  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        return f"<Vocabulary of {len(self)}, capacity {self.capacity}>"


class VocabularyWrapper(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Number the observations of an environment in the order in which they first appear.

    Parameters
    ----------
    env
        An environment whose observations a `Vocabulary` can hold.
    capacity
        The size of the `Discrete` observation space; a new observation beyond it is an error.
    vocabulary
        One to go on with, shared and not copied; its capacity is the wrapper's.

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
            raise InvalidInputError(f"vocabulary is {_short(vocabulary)}; pass a Vocabulary")
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


def _key(observation: Any) -> Hashable:
    """Turn an observation into something hashable that equals itself."""
    if hasattr(observation, "__array__"):  # tensors hash by identity, so ask for this first
        plain = np.asarray(observation).tolist()
        return plain if isinstance(plain, np.generic) else _key(plain)  # a long double stays one
    if isinstance(observation, list | tuple):
        return tuple(_key(part) for part in observation)
    if isinstance(observation, Mapping):
        try:
            return _key(sorted(observation.items(), key=lambda item: item[0]))
        except TypeError:
            raise InvalidInputError(
                f"the keys of {_short(observation)} cannot be sorted; use strings"
            ) from None
    if isinstance(observation, float) and math.isnan(observation):
        raise InvalidInputError(
            "an observation holds NaN, which equals nothing, not even itself; replace it"
        )
    try:
        hash(observation)
    except TypeError:
        raise InvalidInputError(
            f"a {type(observation).__name__} is not hashable: turn {_short(observation)} into a "
            "string, a number or a tuple"
        ) from None
    key: Hashable = observation
    return key


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _to_json(name: Any, where: str) -> Any:
    match name:
        case tuple():
            return [_to_json(part, where) for part in name]
        case bytes():
            return {"bytes": name.hex()}
        case None | str() | int():
            return name
        case float() if math.isfinite(name):
            return name
    raise InvalidInputError(
        f"{where} is {_short(name)}, which JSON cannot hold; encode strings, bytes, finite "
        "numbers or tuples of these"
    )


def _from_json(name: Any) -> Any:
    match name:
        case list():
            return tuple(_from_json(part) for part in name)
        case {"bytes": str(digits)}:
            return bytes.fromhex(digits)
        case dict():
            raise ValueError(f"unknown kind of name {_short(name)}")
    return name
