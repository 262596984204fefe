"""An agent inside somebody's own loop."""

import os
import threading
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romdp.agents.agent import Agent
from romdp.core.description import describe, fingerprint
from romdp.core.errors import InvalidInputError, MisuseError, StorageError
from romdp.core.randomness import Seed, seed_sequence
from romdp.core.storage import read_arrays, reading, write_arrays
from romdp.core.stored import Stored
from romdp.core.validation import flag
from romdp.data.partition import Partition
from romdp.playing.agent_files import agent_from, agent_to_dict
from romdp.playing.episodes import Episodes, Novelty
from romdp.playing.policy import Policy, policy_of
from romdp.playing.spaces import actions_for, codes_for, codes_from
from romdp.playing.stages import Range, checked_range, takes_any_reward, unit_reward, zero_reward
from romdp.playing.vector_codes import VectorCodes
from romdp.playing.vectors import VectorState, start_state

_KIND, _VERSION = "online agent", 3
_NONE = -1


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


@dataclass(slots=True)
class _Stream:
    """Where one sequence of steps stands."""

    observation: int = _NONE  # what `act` was last called with, until `observe`
    action: int = _NONE
    ended: tuple[int, int, float] | None = None  # a terminated step, until the restart


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
    n_observations
        How many observations there can be, numbered from 0; or a Gymnasium observation space, and
        then `act` and `observe` take the environment's own observations. With
        `romdp.Vocabulary` in front, observations need not be known in advance: n_observations is
        then its capacity.
    n_actions
        How many actions there are; or a Gymnasium action space, and then `act` returns its actions.
    seed
        The same seed and the same experience give the same actions.
    reward_range
        The smallest and the largest reward. By default any rewards, if the agent learns what they
        can be as `LCPSRL` does; else [0, 1].

    Notes
    -----
    A wrong call (an observation out of range, a reward that is not a number, `observe` before
    `act`) raises and leaves the agent as it was. So does a call while another thread is in one.

    Several sequences of steps can go on at once, such as those of parallel environments, and one
    agent learns from all of them: give each a name, ``act(observation, stream="left")`` and
    ``observe(reward, next_observation, stream="left")``. Without a name there is one stream. In a
    stream, one episode follows another.

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
        n_observations: Any,
        n_actions: Any,
        seed: Seed = 0,
        *,
        reward_range: tuple[float, float] | None = None,
    ) -> None:
        self._agent = agent
        self._seed = seed_sequence(seed)
        self._actions = actions_for(n_actions)
        self._codes = codes_for(n_observations)
        self._state = start_state(agent, self._codes, self._actions.size, self._seed)
        self._range: Range = checked_range(reward_range)
        if reward_range is None and takes_any_reward(agent):
            self._range = None
        self._state.expect_episodes(None, zero_reward(self._range))
        self._streams: dict[str | int | None, _Stream] = {}
        self._episodes, self._novelty = Episodes(), Novelty()
        self._turn = _Turn()

    @property
    def n_steps(self) -> int:
        """Steps that have been counted."""
        return self._state.step

    @property
    def partition(self) -> Partition:
        """The present grouping."""
        return self._state.partition

    @property
    def policy(self) -> Policy:
        """What to do by the mean of what was learned so far, without exploring."""
        with self._turn:
            scale = self._range or (0.0, 1.0)
            return policy_of(self._state, self._codes, self._actions, self._agent.name, scale)

    @property
    def returns(self) -> "np.recarray[Any, Any]":
        """One row per finished episode: step, return, length; as ``run.returns``."""
        return self._episodes.returns

    def act(self, observation: Any, *, stream: str | int | None = None) -> Any:
        """Choose an action for what is seen now.

        Asked twice for the same step of a stream, it answers for the last observation.
        """
        with self._turn:
            place = self._stream(stream)
            seen = self._codes.encode(observation)
            self._restart(place, seen)
            _, age = self._episodes.under_way(stream)
            if self._state.must_think(seen, age):
                self._state.think()
            place.observation, place.action = seen, self._state.action(seen, age)
            self._streams[stream] = place
            return self._actions.decode(place.action)

    def observe(
        self,
        reward: float,
        next_observation: Any = None,
        *,
        terminated: bool = False,
        truncated: bool = False,
        action: Any = None,
        stream: str | int | None = None,
    ) -> None:
        """Say what came of the last action.

        Parameters
        ----------
        reward
            In the ``reward_range``, if there is one.
        next_observation
            What is seen now; needed unless the episode has ended.
        terminated
            The episode is over and a new one begins with what `act` (or `reset`) is called with
            next. Under the average objective the step counts as leading there.
        truncated
            The episode was cut: the step counts its reward and no transition.
        action
            What was done, if it was not what `act` said.
        stream
            The name of the stream, as in `act`.
        """
        with self._turn:
            self._observe(reward, next_observation, terminated, truncated, action, stream)

    def _observe(
        self,
        reward: float,
        next_observation: Any,
        terminated: bool,
        truncated: bool,
        action: Any,
        stream: str | int | None,
    ) -> None:
        place = self._stream(stream)
        if place.observation == _NONE:
            where = "" if stream is None else f" of stream {stream!r}"
            raise MisuseError(
                f"observe(){where} belongs to no act(): call act(observation) first. Where several "
                "sequences of steps go on at once, name them: act(..., stream=name) and "
                "observe(..., stream=name)"
            )
        flag(terminated, "terminated")
        flag(truncated, "truncated")
        unit = unit_reward(reward, self._range, self._state.step)
        taken = place.action if action is None else self._actions.encode(action)
        following = _NONE
        if next_observation is not None:
            following = self._codes.encode(next_observation)
        elif not (terminated or truncated):
            raise InvalidInputError(
                "next_observation is missing; only a terminated or truncated step has none"
            )
        if terminated:
            place.ended = (place.observation, taken, unit)
        elif truncated:
            self._state.learn(place.observation, taken, unit, following, truncated=True)
        else:
            self._state.learn(place.observation, taken, unit, following)
        counted = self._state.step + terminated  # a terminated step is counted at the restart
        self._episodes.count(float(reward), counted, terminated or truncated, stream)
        self._novelty.look(self._state)
        place.observation = _NONE

    def reset(self, observation: Any = None, *, stream: str | int | None = None) -> None:
        """Say that the environment was restarted.

        An action that was chosen and not observed is forgotten. With the ``observation`` that
        the restart shows, a terminated step before it is counted at once; else by `act`.
        """
        with self._turn:
            place = self._stream(stream)
            seen = None if observation is None else self._codes.encode(observation)
            place.observation = _NONE
            self._episodes.begin(stream)
            if seen is not None:
                self._restart(place, seen)

    def _stream(self, name: str | int | None) -> _Stream:
        if not isinstance(name, str | int | None):
            raise InvalidInputError(f"stream is {name!r}; name it by a text or a whole number")
        return self._streams.get(name) or _Stream()

    def _restart(self, place: _Stream, seen: int) -> None:
        if place.ended is not None:
            observation, action, reward = place.ended
            self._state.learn(observation, action, reward, seen, terminated=True)
            place.ended = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent's state, whole or not at all, with a description of the agent."""
        with self._turn:
            streams = list(self._streams.values())
            ended = [place.ended or (_NONE, _NONE, 0.0) for place in streams]
            sums = [self._episodes.under_way(name) for name in self._streams]
            facts = {
                "agent": fingerprint(self._agent),
                "description": agent_to_dict(self._agent),
                "observations": self._codes.to_dict(),
                "actions": self._actions.to_dict(),
                "streams": list(self._streams),
                "seed": describe([self._seed.entropy, list(self._seed.spawn_key)]),
                "reward_range": list(self._range or (0.0, 0.0)),  # equal: any reward
            }
            arrays = {
                **{f"agent_{name}": array for name, array in self._state.arrays().items()},
                **{f"episode_{name}": array for name, array in self._episodes.arrays().items()},
                "chosen": _rows([(place.observation, place.action) for place in streams]),
                "ended": _rows([row[:2] for row in ended]),
                "ended_reward": np.array([row[2] for row in ended], np.float64),
                "under_way_return": np.array([total for total, _ in sums], np.float64),
                "under_way_length": np.array([length for _, length in sums], np.int64),
            }
        write_arrays(path, _KIND, _VERSION, arrays, facts)

    @classmethod
    def load(cls, path: str | os.PathLike[str], agent: Agent | None = None) -> Self:
        """Go on from a saved state.

        Parameters
        ----------
        path
            What `save` wrote.
        agent
            Needed only where the saved agent has parts that are not romdp's own, such as a
            clusterer of yours. If given, it must be the agent that was saved.
        """
        arrays, facts = read_arrays(path, _KIND, _VERSION)
        with reading(path):
            if agent is None:
                agent = _described(facts)
            if facts["agent"] != fingerprint(agent):
                raise StorageError(
                    f"it holds the state of another agent than {agent.name!r}; pass the agent "
                    "that was saved, with the same settings"
                )
            return cls._restored(agent, facts, Stored(arrays, "the saved agent"))

    @classmethod
    def _restored(cls, agent: Agent, facts: dict[str, Any], stored: Stored) -> Self:
        entropy, spawn_key = facts["seed"]
        seed_sequence(entropy)  # refuses what is no seed
        seed = np.random.SeedSequence(entropy, spawn_key=tuple(spawn_key))
        codes = codes_from(facts["observations"], "observation")
        actions = codes_from(facts["actions"], "action")
        low, high = facts["reward_range"]
        n_observations, n_actions = codes.size, actions.size
        saved = stored.part("agent_")
        if "labels" in saved and saved["labels"].shape != (n_observations,):
            stored.refuse(f"there are no {n_observations} labels")  # before memory is taken
        given = None if low == high else (low, high)
        online = cls(agent, n_observations, n_actions, seed, reward_range=given)
        online._codes, online._actions = codes, actions
        fresh = online._state  # an agent may have a state of its own kind
        if isinstance(codes, VectorCodes):
            online._state = VectorState.restored(agent, codes, n_actions, seed, saved)
            n_observations = codes.memory.n_met  # observations are tickets
        else:
            kind = type(fresh)
            online._state = kind.from_arrays(fresh.agent, n_observations, n_actions, seed, saved)
        online._state.expect_episodes(None, zero_reward(online._range))
        step = online._state.step + len(facts["streams"])  # terminated steps are counted later
        online._episodes = Episodes.from_arrays(stored.part("episode_"), step)
        online._restore_streams(facts["streams"], stored, n_observations, n_actions)
        stored.finish()
        return online

    def _restore_streams(
        self, names: list[Any], stored: Stored, n_observations: int, n_actions: int
    ) -> None:
        shape = (len(names), 2)
        most = max(n_observations, n_actions)
        chosen = stored.whole("chosen", shape, _NONE, most).tolist()
        ended = stored.whole("ended", shape, _NONE, most).tolist()
        rewards = stored.real("ended_reward", shape[:1]).tolist()
        totals = stored.real("under_way_return", shape[:1]).tolist()
        lengths = stored.whole("under_way_length", shape[:1], 0).tolist()
        for i, name in enumerate(names):
            (observation, action), (last, taken) = chosen[i], ended[i]
            if not isinstance(name, str | int | None) or name in self._streams:
                stored.refuse("its streams have impossible names")
            if max(observation, last) >= n_observations:
                stored.refuse(f"it was at an observation beyond {n_observations}")
            if max(action, taken) >= n_actions or (taken == _NONE) != (last == _NONE):
                stored.refuse(f"it has chosen an action that is none of {n_actions}")
            strange = self._range is not None and not 0.0 <= rewards[i] <= 1.0
            if strange or (observation != _NONE and action == _NONE):
                stored.refuse("what it has chosen and what came of it do not fit together")
            before = None if last == _NONE else (last, taken, rewards[i])
            self._streams[name] = _Stream(observation, action, before)
            self._episodes.begin(name, totals[i], lengths[i])

    def __repr__(self) -> str:
        return (
            f"Online(agent={self._agent.name!r}, n_steps={self.n_steps}, "
            f"n_clusters={self.partition.n_clusters})"
        )


def _described(facts: dict[str, Any]) -> Agent:
    if facts["description"] is None:
        raise StorageError(
            "the saved agent has parts that are not romdp's own, so the file cannot describe it; "
            "pass the agent: Online.load(path, agent)"
        )
    return agent_from(facts["description"])


def _rows(pairs: list[Any]) -> NDArray[np.int64]:
    return np.array(pairs, np.int64).reshape(-1, 2)
