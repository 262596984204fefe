"""Wrappers of Gymnasium environments: numbered observations, many views, vectors, states."""

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import ArrayLike

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.core.lazy import find_modules_here
from romdp.core.randomness import Seed, generator, seed_sequence
from romdp.core.validation import (
    check_memory,
    flag,
    freeze,
    how_many,
    real_array,
    shown,
    takes,
    whole_array,
)
from romdp.data.vocabulary import Vocabulary

_NUMBERING, _, DRAWS, ROTATION = range(4)  # streams of a wrapper's seed


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
        Decides the numbering, which never changes, and seeds the draws. ``reset(seed=...)`` starts
        the draws again, from both seeds; the environment's own generator is left alone.

    Attributes
    ----------
    labels
        The truth, for scoring only: the state behind each view, counted from 0 (where the
        inner space starts at another number, that is subtracted).

    Examples
    --------
    >>> env = RichObservation(gymnasium.make("FrozenLake-v1"), per_state=10, seed=0)
    >>> env.observation_space
    Discrete(160)
    >>> view, info = env.reset(seed=1)
    >>> int(env.labels[view])  # a walk on the lake starts at cell 0
    0
    """

    labels: Ints

    @takes(env=gymnasium.Env, per_state=how_many, seed=seed_sequence)
    def __init__(self, env: gymnasium.Env[Any, Any], per_state: int, seed: Seed = 0) -> None:
        RecordConstructorArgs.__init__(self, per_state=per_state, seed=seed)
        gymnasium.ObservationWrapper.__init__(self, env)
        n_states, self._start = numbers_shown(env, "RichObservation")
        views = how_many(per_state, "per_state")
        check_memory("a list of observations (states x per_state)", n_states * views, copies=8)
        numbers = generator(seed, _NUMBERING).permutation(n_states * views)
        labels = np.empty(numbers.size, np.int64)
        labels[numbers] = np.repeat(np.arange(n_states), views)
        self.labels = freeze(labels)
        self.observation_space = Discrete(numbers.size)
        self._numbers: list[int] = numbers.tolist()
        self._views = views
        self._seed = seed_sequence(seed)
        self._draw = generator(self._seed, DRAWS).random

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Reset the environment; with a seed, the draws of the views start again as well."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._draw = generator(self._seed, DRAWS, int(seed)).random
        return self.observation(observation), info

    def observation(self, observation: Any) -> int:
        """Draw a view of a state."""
        state = int(observation) - self._start
        return self._numbers[state * self._views + int(self._draw() * self._views)]


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

    @takes(env=gymnasium.Env, capacity=how_many)
    def __init__(self, env: gymnasium.Env[Any, Any], capacity: int) -> None:
        RecordConstructorArgs.__init__(self, capacity=capacity)
        gymnasium.ObservationWrapper.__init__(self, env)
        size = how_many(capacity, "capacity")
        self.vocabulary = Vocabulary(size)
        self.observation_space = Discrete(size)

    def observation(self, observation: Any) -> int:
        """Return the number of an observation."""
        return self.vocabulary.encode(observation)


class HiddenState(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Show the hidden state of every observation, so that any agent learns on romdp's states.

    Parameters
    ----------
    env
        An environment.
    model
        What knows the states of its observations: ``run.policy`` or ``run.model`` of a run in such
        an environment, or a model that `romdp.fit` learned from a log of it.

    Notes
    -----
    The observation space is ``Discrete(model.n_states + 1)``. The last number is shown where the
    state is unknown. What the environment shows is in ``info["observation"]``.

    Examples
    --------
    >>> import romdp
    >>> env = RichObservation(gymnasium.make("FrozenLake-v1"), per_state=10, seed=0)
    >>> run = romdp.play(romdp.LCPSRL(), env, steps=5_000, seed=0)
    >>> small = HiddenState(env, run.policy)
    >>> env.observation_space, small.observation_space
    (Discrete(160), Discrete(12))
    """

    @takes(env=gymnasium.Env)
    def __init__(self, env: gymnasium.Env[Any, Any], model: Any) -> None:
        RecordConstructorArgs.__init__(self, model=model, _disable_deepcopy=True)
        gymnasium.Wrapper.__init__(self, env)
        ask = getattr(model, "state", None) or getattr(model, "predict", None)
        if not callable(ask) or not isinstance(getattr(model, "n_states", None), int):
            raise InvalidInputError(
                f"model is {shown(model)}; pass run.policy, run.model or a model that romdp.fit "
                "returned"
            )
        if getattr(model, "memory", None) is not None:
            raise InvalidInputError(
                "the states of this model look back on what was seen and done before, which "
                "HiddenState does not keep; fit without memory="
            )
        self._ask, self._unknown, self._step = ask, model.n_states, 0
        self.observation_space = Discrete(model.n_states + 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[int, dict[str, Any]]:
        """Reset the environment."""
        shown, info = self.env.reset(seed=seed, options=options)
        self._step = 0
        return self._state(shown), {**info, "observation": shown}

    def step(self, action: Any) -> tuple[int, Any, bool, bool, dict[str, Any]]:
        """Take an action."""
        shown, reward, terminated, truncated, info = self.env.step(action)
        self._step += 1
        return self._state(shown), reward, terminated, truncated, {**info, "observation": shown}

    def _state(self, shown: Any) -> int:
        found = self._ask(shown, step=self._step)
        if np.ndim(found):
            raise InvalidInputError(
                f"the model takes {shown!r} for {len(found)} observations; it was learned from "
                "others than those of this environment"
            )
        return int(found) if found >= 0 else self._unknown


class ActionMask(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Take only actions that ``info["action_mask"]`` allows.

    An action that is not allowed does what the next one does that is; after the last comes the
    first. So whoever learns in the wrapped environment learns that the two are alike, and loses
    nothing by trying. What was learned there is to be used there: a policy may say an action that
    stands for another one. Without a mask, or if it forbids everything, all actions are allowed.

    Parameters
    ----------
    env
        An environment with a `Discrete` action space.

    Examples
    --------
    >>> env = ActionMask(gymnasium.make("Taxi-v4"))  # its mask leaves out what changes nothing
    >>> shown, info = env.reset(seed=0)
    >>> info["action_mask"].tolist()
    [1, 1, 0, 0, 0, 0]
    >>> bool(env.step(2)[0] != shown)  # an action that is allowed stood for 2
    True
    """

    @takes(env=gymnasium.Env)
    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        if not isinstance(env.action_space, Discrete):
            raise InvalidInputError(
                f"the action space is {env.action_space}; ActionMask needs a Discrete one"
            )
        self._mask: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment."""
        shown, info = self.env.reset(seed=seed, options=options)
        self._mask = info.get("action_mask")
        return shown, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take an action, or the next one that is allowed."""
        *found, info = self.env.step(self._allowed(action))
        self._mask = info.get("action_mask")
        return (*found, info)

    def _allowed(self, action: Any) -> Any:
        space: Any = self.env.action_space
        if self._mask is None:
            return action
        mask = np.asarray(self._mask)
        if mask.shape != (space.n,):
            raise InvalidInputError(
                f"the environment's action_mask has shape {mask.shape}; it must have one entry for "
                f"each of the {space.n} actions"
            )
        number = int(action) - int(space.start)
        later = (number + np.arange(mask.size)) % mask.size
        return space.dtype.type(later[np.argmax(mask[later] != 0)] + space.start)


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
    name: str,
    views: int | None = None,
    seed: Seed = 0,
    settings: Mapping[str, Any] | None = None,
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
    settings
        What the environment is made with, such as ``{"is_slippery": False}``.
    """
    find_modules_here(name)
    told = dict(settings or {})
    refused = (Exception,) if told else (gymnasium.error.Error, ImportError)
    try:
        env = gymnasium.make(name, **told)
    except refused as error:
        known = ":" in name or name in gymnasium.registry
        hint = "" if known else f" If another module registers it, say module:{name}"
        raise InvalidInputError(f"cannot make the environment {name!r}: {error}{hint}") from error
    return env if views is None else RichObservation(numbered(env), views, seed)


class VectorObservation(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    """Show each state of a discrete environment as a vector drawn from a class of them.

    With the pictures of ten digits as classes, say, state 3 is shown as some picture of a three,
    drawn anew at every step.

    Parameters
    ----------
    env
        An environment with a `Discrete` observation space of n numbers: FrozenLake, `ROMDPEnv`.
    classes
        n arrays of shape (number of members, length), one for each number that ``env`` shows.
    seed
        Seeds the draws. ``reset(seed=...)`` starts the draws again, from both seeds; the
        environment's own generator is left alone.
    reveal_hidden_state
        True: ``info["hidden_state"]`` is the number of the class, counted from 0, for scoring. If
        ``env`` itself reveals a hidden state, that one is kept.

    Examples
    --------
    >>> from romdp.worlds import ROMDPEnv, random_romdp
    >>> rng = np.random.default_rng(0)
    >>> classes = [rng.normal(k, 0.1, (50, 3)) for k in range(4)]
    >>> world = random_romdp(n_states=4, n_actions=2, n_observations=4)
    >>> env = VectorObservation(ROMDPEnv(world), classes, reveal_hidden_state=True)
    >>> observation, info = env.reset(seed=0)
    >>> info, observation.round(1)
    ({'hidden_state': 3}, array([3. , 2.9, 3. ]))
    """

    @takes(env=gymnasium.Env, classes=(list, tuple, np.ndarray))
    @takes(classes="__len__", seed=seed_sequence, reveal_hidden_state=flag)
    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        classes: Sequence[ArrayLike],
        seed: Seed = 0,
        reveal_hidden_state: bool = False,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, classes=classes, seed=seed, reveal_hidden_state=reveal_hidden_state
        )
        gymnasium.Wrapper.__init__(self, env)
        n_states, self._start = numbers_shown(env, "VectorObservation")
        if len(classes) != n_states:
            raise InvalidInputError(
                f"there are {len(classes)} classes, but the environment shows {n_states} numbers; "
                "pass one class for each"
            )
        members = [
            real_array(group, f"classes[{k}]", ("members", "length"))
            for k, group in enumerate(classes)
        ]
        length = members[0].shape[1]
        for k, group in enumerate(members):
            if group.shape[1] != length:
                raise InvalidInputError(
                    f"classes[{k}] has vectors of length {group.shape[1]}, classes[0] of {length}"
                )
        self.n_states = n_states
        self._members = [freeze(group) for group in members]
        low = np.min([group.min(axis=0) for group in members], axis=0)
        high = np.max([group.max(axis=0) for group in members], axis=0)
        self.observation_space = Box(low, high, dtype=np.float64)
        self._reveals = bool(reveal_hidden_state)
        self._seed = seed_sequence(seed)
        self._draw = generator(self._seed, DRAWS).random

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Reset the environment; with a seed, the draws of the vectors start again as well."""
        observation, info = self.env.reset(seed=seed, options=options)
        if seed is not None:
            self._draw = generator(self._seed, DRAWS, int(seed)).random
        return self._shown(observation, info)

    def step(self, action: Any) -> tuple[Floats, Any, bool, bool, dict[str, Any]]:
        """Take an action in the environment, and show where it leads as a vector."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        vector, info = self._shown(observation, info)
        return vector, reward, terminated, truncated, info

    def show(self, states: ArrayLike, seed: Seed) -> Floats:
        """Draw one vector for each of the given classes, for scoring only."""
        rng = generator(seed)
        numbers = whole_array(states, "states", ("n",), 0, self.n_states - 1)
        return np.stack([self._members[k][rng.integers(len(self._members[k]))] for k in numbers])

    def _shown(self, observation: Any, info: dict[str, Any]) -> tuple[Floats, dict[str, Any]]:
        state = int(observation) - self._start
        group = self._members[state]
        if self._reveals:
            info = {"hidden_state": state, **info}
        return group[int(self._draw() * len(group))].copy(), info
