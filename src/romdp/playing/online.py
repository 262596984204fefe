"""An agent inside somebody's own loop."""

import os
import threading
from typing import Any, Self

import numpy as np

from romdp.agents.agent import Agent
from romdp.core.description import describe, fingerprint
from romdp.core.errors import InvalidInputError, MisuseError, ROMDPError, StorageError
from romdp.core.randomness import Seed, seed_sequence
from romdp.core.schema import anything, check, listed, number, record, text, whole
from romdp.core.storage import read_arrays, write_arrays
from romdp.core.stored import Stored
from romdp.core.validation import whole_number
from romdp.data.partition import Partition
from romdp.playing.stages import checked_range, unit_reward, zero_reward

_KIND, _VERSION = "online agent", 2
_NONE = -1
_SIZE = whole(1, 2**31)
_FACTS = record(
    {
        "agent": text(),
        "sizes": listed(_SIZE, 2),
        "seed": listed(anything(), 2),
        "reward_range": listed(number(), 2),
    }
)


class _Turn:
    """A lock that refuses whom others would let wait: two callers at once are a mistake."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            raise MisuseError(
                "this Online is in use by another thread; give each thread its own, or hold a lock "
                "of yours from act() to observe()"
            )

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[type[Self], tuple[()]]:
        return type(self), ()  # a copy is free


class Online:
    """An agent for people who own the loop.

    Call `act` with what is seen, do what it says, and tell it with `observe` what came of it::

        observation = ...
        while True:
            action = online.act(observation)
            reward, observation = ...
            online.observe(reward, observation)

    Parameters
    ----------
    agent
        An `Agent`, such as ``romdp.LCPSRL()``.
    n_observations, n_actions
        How many there can be. With `romdp.Vocabulary` in front, observations need not be known
        in advance: n_observations is then its capacity.
    seed
        The same seed and the same experience give the same actions.
    reward_range
        The smallest and the largest reward; [0, 1] by default.

    Notes
    -----
    A wrong call (an observation out of range, a reward that is not a number, `observe` before
    `act`) raises and leaves the agent as it was. So does a call while another thread is in one.

    Examples
    --------
    >>> import romdp
    >>> online = Online(romdp.UCRL2(), n_observations=2, n_actions=1)
    >>> online.act(0)
    0
    >>> online.observe(1.0, 1)
    >>> online.n_steps
    1
    """

    def __init__(
        self,
        agent: Agent,
        n_observations: int,
        n_actions: int,
        seed: Seed = 0,
        *,
        reward_range: tuple[float, float] | None = None,
    ) -> None:
        self._agent = agent
        self._seed = seed_sequence(seed)
        self._state = agent.start(n_observations, n_actions, self._seed)
        self._n_observations = self._state.recorder.n_observations
        self._n_actions = self._state.recorder.n_actions
        self._range = checked_range(reward_range)
        self._state.expect_episodes(None, zero_reward(self._range))
        self._observation = _NONE  # what `act` was last called with, until `observe`
        self._action = _NONE
        self._turn = _Turn()
        self._ended: tuple[int, int, float] | None = None  # a terminated step, until the restart

    @property
    def n_steps(self) -> int:
        """Steps that have been counted."""
        return self._state.step

    @property
    def partition(self) -> Partition:
        """The present grouping."""
        return self._state.partition

    def act(self, observation: int) -> int:
        """Choose an action for what is seen now.

        Asked twice for the same step, it answers for the last observation.
        """
        with self._turn:
            seen = self._checked(observation, "observation")
            self._restart(seen)
            if self._state.must_think(seen):
                self._state.think()
            self._observation, self._action = seen, self._state.action(seen)
            return self._action

    def observe(
        self,
        reward: float,
        next_observation: int | None = None,
        *,
        terminated: bool = False,
        truncated: bool = False,
        action: int | None = None,
    ) -> None:
        """Say what came of the last action.

        Parameters
        ----------
        reward
            In the ``reward_range``.
        next_observation
            What is seen now; needed unless the episode has ended.
        terminated
            The episode is over and a new one begins with what `act` (or `reset`) is called with
            next. Under the average objective the step counts as leading there.
        truncated
            The episode was cut: the step counts its reward and no transition.
        action
            What was done, if it was not what `act` said.
        """
        with self._turn:
            self._observe(reward, next_observation, terminated, truncated, action)

    def _observe(
        self,
        reward: float,
        next_observation: int | None,
        terminated: bool,
        truncated: bool,
        action: int | None,
    ) -> None:
        if self._observation == _NONE:
            raise MisuseError("observe() before act(): call act(observation) first")
        unit = unit_reward(reward, self._range, self._state.step)
        taken = self._action if action is None else whole_number(action, "action", 0)
        if taken >= self._n_actions:
            raise InvalidInputError(f"action is {taken}; there are {self._n_actions} actions")
        following = _NONE
        if next_observation is not None:
            following = self._checked(next_observation, "next_observation")
        elif not (terminated or truncated):
            raise InvalidInputError(
                "next_observation is missing; only a terminated or truncated step has none"
            )
        if terminated:
            self._ended = (self._observation, taken, unit)
        else:
            step = (self._observation, taken, unit, following)
            if truncated:
                self._state.learn(*step, truncated=True)
            else:
                self._state.learn(*step)
        self._observation = _NONE

    def reset(self, observation: int | None = None) -> None:
        """Say that the environment was restarted.

        An action that was chosen and not observed is forgotten. With the ``observation`` that
        the restart shows, a terminated step before it is counted at once; else by `act`.
        """
        with self._turn:
            seen = None if observation is None else self._checked(observation, "observation")
            self._observation = _NONE
            if seen is not None:
                self._restart(seen)

    def _restart(self, seen: int) -> None:
        if self._ended is not None:
            observation, action, reward = self._ended
            self._state.learn(observation, action, reward, seen, terminated=True)
            self._ended = None

    def _checked(self, value: Any, name: str) -> int:
        return whole_number(value, name, 0, self._n_observations - 1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent's state, whole or not at all."""
        ended = self._ended or (_NONE, _NONE, 0.0)
        facts = {
            "agent": fingerprint(self._agent),
            "sizes": [self._n_observations, self._n_actions],
            "seed": describe([self._seed.entropy, list(self._seed.spawn_key)]),
            "reward_range": list(self._range),
        }
        with self._turn:
            arrays = {
                **{f"agent_{name}": array for name, array in self._state.arrays().items()},
                "chosen": np.array([self._observation, self._action], np.int64),
                "ended": np.array(ended[:2], np.int64),
                "ended_reward": np.array(ended[2], np.float64),
            }
        write_arrays(path, _KIND, _VERSION, arrays, facts)

    @classmethod
    def load(cls, path: str | os.PathLike[str], agent: Agent) -> Self:
        """Go on from a saved state; ``agent`` must be the one that was saved."""
        arrays, facts = read_arrays(path, _KIND, _VERSION)
        facts = check(facts, _FACTS, path)
        if facts["agent"] != fingerprint(agent):
            raise StorageError(
                f"{path} holds the state of another agent than {agent.name!r}; pass the agent "
                "that was saved, with the same settings"
            )
        try:
            return cls._restored(agent, facts, Stored(arrays, "the saved agent"))
        except (ROMDPError, LookupError, TypeError, ValueError, MemoryError) as error:
            raise StorageError(f"{path}: {error}") from error

    @classmethod
    def _restored(cls, agent: Agent, facts: dict[str, Any], stored: Stored) -> Self:
        entropy, spawn_key = facts["seed"]
        seed_sequence(entropy)  # refuses what is no seed
        seed = np.random.SeedSequence(entropy, spawn_key=tuple(spawn_key))
        n_observations, n_actions = facts["sizes"]
        low, high = facts["reward_range"]
        saved = stored.part("agent_")
        if "labels" in saved and saved["labels"].shape != (n_observations,):
            stored.refuse(f"there are no {n_observations} labels")  # before memory is taken
        online = cls(agent, n_observations, n_actions, seed, reward_range=(low, high))
        fresh = online._state  # an agent may have a state of its own kind
        online._state = type(fresh).from_arrays(fresh.agent, n_observations, n_actions, seed, saved)
        online._state.expect_episodes(None, zero_reward(online._range))
        most = max(n_observations, n_actions)
        online._observation, online._action = stored.whole("chosen", (2,), _NONE, most).tolist()
        observation, action = stored.whole("ended", (2,), _NONE, most).tolist()
        reward = float(stored.real("ended_reward", (), 0.0))
        stored.finish()
        if max(online._observation, observation) >= n_observations:
            stored.refuse(f"it was at an observation beyond {n_observations}")
        if max(online._action, action) >= n_actions or (action == _NONE) != (observation == _NONE):
            stored.refuse(f"it has chosen an action that is none of {n_actions}")
        if reward > 1.0 or (online._observation != _NONE and online._action == _NONE):
            stored.refuse("what it has chosen and what came of it do not fit together")
        if observation != _NONE:
            online._ended = (observation, action, reward)
        return online

    def __repr__(self) -> str:
        return (
            f"Online(agent={self._agent.name!r}, n_steps={self.n_steps}, "
            f"n_clusters={self.partition.n_clusters})"
        )
