"""An agent inside somebody's loop; `play` is such a loop too."""

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from romdp.agents.agent import Agent, AgentLike, AgentState, begin_life
from romdp.core.arrays import Ints
from romdp.core.errors import InvalidInputError, MisuseError, StorageError
from romdp.core.formats import Format, describe, exact, fingerprint, part, real, whole
from romdp.core.randomness import Seed, generator, seed_sequence
from romdp.core.storage import read_arrays, reading, write_arrays
from romdp.core.validation import as_path, check, flag, shown, whole_number
from romdp.data.partition import Partition
from romdp.data.trajectory import END, UNKNOWN
from romdp.encoding.memory import check_memory
from romdp.encoding.observations import ObservationEncoder, actions_for, encoder_for, encoder_from
from romdp.encoding.remembered import RememberedCodes
from romdp.encoding.vector_codes import VectorCodes
from romdp.playing.agent_files import agent_from, agent_to_dict
from romdp.playing.episodes import Episodes, Novelty, range_for, unit_reward, zero_reward
from romdp.playing.policy import Learned, Policy, learned_by
from romdp.playing.remembering import RememberingEncoder
from romdp.playing.replay import CUT, ENDED, GOES_ON, Replay
from romdp.playing.vector_encoder import VectorEncoder

if TYPE_CHECKING:
    from romdp.logs.model import LatentModel

_KIND, _VERSION = "online agent", 4
_EXPLORE = 12  # a stream of the seed
_NONE = -1
_FORMAT = Format(
    "saved agent",
    agent=part(),
    encoder=part(),
    episode=part(),
    replay=part(),
    places=whole("streams 4", _NONE),
    paid=exact(np.float64, "2"),
    under_way_return=real("streams"),
    under_way_length=whole("streams", 0),
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


@dataclass(slots=True)
class _Stream:
    """Where one sequence of steps stands.

    Attributes
    ----------
    number
        Which of the streams it is.
    code, action
        Of what `act` was last called with, and what it said; -1 if nothing waits for `observe`.
    seen
        The vector behind the code, if codes may change.
    begins
        Whether an episode begins with what is seen next.
    kept
        The number of the last step in the replay, -1 if there is none in this episode.
    version
        The version of the codes that ``code`` is one of.
    before
        The code before and what was done there, if codes look back; -1 at an episode's start.
    """

    number: int
    code: int = _NONE
    action: int = _NONE
    seen: Any = None
    begins: bool = True
    kept: int = -1
    version: int = 0
    before: tuple[int, int] = (_NONE, _NONE)


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
    step_limit
        The most steps that an episode can have, if there is a limit. `play` learns it from the
        environment; an episodic agent looks as far ahead as this.

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
        agent: AgentLike,
        n_observations: Any,
        n_actions: Any,
        seed: Seed = 0,
        *,
        reward_range: tuple[float, float] | None = None,
        step_limit: int | None = None,
    ) -> None:
        check(agent, "agent", "start")
        self._agent = agent
        self._seed = seed_sequence(seed)
        self._actions = actions_for(n_actions)
        self._range = range_for(agent, reward_range)
        self._limit = None if step_limit is None else whole_number(step_limit, "step_limit", 1)
        self._set_encoder(encoder_for(n_observations))
        self._version = 0  # of the codes
        self._streams: dict[str | int | None, _Stream] = {}
        self._episodes, self._novelty = Episodes(), Novelty()
        self._paid = (np.inf, -np.inf)  # the smallest and the largest reward
        self._turn = _Turn()
        sizes = self._encoder.size, self._actions.size
        self._state: AgentState = begin_life(agent, *sizes, self._seed)
        self._plain = self._state.agent  # as it is where codes are no states
        self._announce()

    def _set_encoder(self, encoder: ObservationEncoder) -> None:
        """Use an encoder; one that learns needs what was seen."""
        encoder = encoder.inner if isinstance(encoder, RememberedCodes) else encoder
        inner = VectorEncoder(encoder.space) if isinstance(encoder, VectorCodes) else encoder
        memory = check_memory(self._agent.memory) if isinstance(self._agent, Agent) else 0
        self._encoder = inner if memory == 0 else RememberingEncoder(inner, memory)
        self._learned = None
        if isinstance(self._encoder, VectorEncoder | RememberingEncoder):
            self._learned = self._encoder
        self._replay: Replay | None = None
        if self._learned is not None:
            self._replay = Replay(self._learned.n_features, self._learned.dtype)

    def _announce(self) -> None:
        """Tell the agent that episodes may end here."""
        self._state.expect_episodes(self._limit, zero_reward(self._range))

    def require_spaces(self, observations: Any, actions: Any) -> None:
        """Refuse an environment with other spaces than those that this was made for."""
        theirs, ours = encoder_for(observations).to_dict(), self._encoder.to_dict()
        ours = ours.get("remembered", ours)
        alike = ours.keys() == theirs.keys() and ("names" in ours or ours == theirs)
        if not alike or self._actions.to_dict() != actions_for(actions).to_dict():
            raise InvalidInputError(
                "this Online was made for other spaces than those of the environment, which are "
                f"{observations} and {actions}"
            )

    @property
    def agent(self) -> AgentLike:
        """What it was made of."""
        return self._agent

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
        return self.learned.policy

    @property
    def model(self) -> "LatentModel":
        """What was learned so far, as `romdp.fit` would return it; see `Run.model`."""
        return self.learned.model

    @property
    def learned(self) -> Learned:
        """Both, as they are now; each is worked out when it is asked for."""
        with self._turn:
            if self._learned is not None and self._replay is not None:
                self._learned.find_examples(self._replay)
            parts = self._state, self._encoder, self._actions, self._agent.name
            return learned_by(*parts, self._range, self._paid)

    @property
    def returns(self) -> "np.recarray[Any, Any]":
        """One row per finished episode: step, return, length; as ``run.returns``."""
        return self._episodes.returns

    def act(self, observation: Any, *, stream: str | int | None = None) -> Any:
        """Choose an action for what is seen now.

        Asked twice for the same step of a stream, it answers for the last observation.
        """
        with self._turn:
            if self._meet(observation, stream):
                self._think()
            return self._choose(stream)

    def _meet(self, observation: Any, name: str | int | None) -> bool:
        """Take in what is seen; says whether the agent must think before it acts."""
        place = self._stream(name)
        seen = self._encoder.read(observation)
        self._streams[name] = place
        _, age = self._episodes.under_way(name)
        if self._replay is not None:
            if place.action == _NONE:
                before = -1 if place.begins else place.kept
                place.kept = self._replay.see(seen, place.number, age, before)
            else:  # asked again
                self._replay.vectors[self._replay.row(place.kept)] = seen
            self._reconsider(place)
        place.seen, place.version = seen if self._learned is not None else None, self._version
        place.code = self._code(seen, age, place.before)
        if place.code == UNKNOWN:
            return not self._state.epoch
        if place.begins:
            self._state.begin(place.code)
        place.begins = False
        return self._state.must_think(place.code, age)

    def _think(self) -> None:
        """Begin an epoch."""
        if self._learned is not None and not self._learned.known:
            self._state.idle()
        else:
            self._state.same_length = self._episodes.same_length
            self._state.think()

    def _choose(self, name: str | int | None) -> Any:
        """Choose an action for what was met last."""
        place, (_, age) = self._streams[name], self._episodes.under_way(name)
        if place.code == UNKNOWN:  # anything
            rng = generator(self._seed, _EXPLORE, self._state.step, place.number)
            place.action = int(rng.integers(self._actions.size))
        else:
            place.action = self._state.action(place.code, age)
        return self._actions.decode(place.action)

    def _code(self, seen: Any, age: int, before: tuple[int, int]) -> int:
        """Return the code of what was read, after what came before if codes look back."""
        if isinstance(self._encoder, RememberingEncoder):
            return self._encoder.code(seen, age, before)
        return self._encoder.code(seen, age)

    def _reconsider(self, present: _Stream) -> None:
        """Change codes if it is time, and count all that is kept again.

        ``present`` is the stream that meets something now.
        """
        encoder, replay, n_actions = self._learned, self._replay, self._actions.size
        if encoder is None or replay is None:
            return
        step = self._state.step, n_actions, self._seed
        if isinstance(encoder, RememberingEncoder):
            changed = encoder.reconsider(replay, *step, self._state.partition)
        else:
            changed = encoder.reconsider(replay, *step)
        if changed:
            self._version += 1
            self._state.agent = _suited(self._plain, encoder)
            self._state.recount(encoder.recode(replay, n_actions))
            self._look_back(present)

    def _look_back(self, present: _Stream | None = None) -> None:
        """Find the codes before those where streams stand, after codes have changed."""
        encoder, replay = self._encoder, self._replay
        if not isinstance(encoder, RememberingEncoder) or replay is None:
            return
        for place in self._streams.values():
            number = place.kept
            if place.action != _NONE or place is present:
                row = replay.row(number)
                number = int(replay.before[row]) if row >= 0 else _NONE
            elif place.begins:
                number = _NONE
            place.before = encoder.before(replay, number)

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
            The episode is over and a new one begins with what `act` is called with next. Under the
            average objective the step counts as leading to where episodes begin.
        truncated
            The episode was cut: the step counts its reward and no transition.
        action
            What was done, if it was not what `act` said.
        stream
            The name of the stream, as in `act`.
        """
        with self._turn:
            place = self._stream(stream)
            if place.action == _NONE:
                where = "" if stream is None else f" of stream {shown(stream)}"
                raise MisuseError(
                    f"observe(){where} belongs to no act(): call act(observation) first. Where "
                    "several sequences of steps go on at once, name them: act(..., stream=name) "
                    "and observe(..., stream=name)"
                )
            # Everything is checked before anything is learned.
            ended, cut = flag(terminated, "terminated"), flag(truncated, "truncated")
            unit = unit_reward(reward, self._range, self._state.step)
            taken = place.action if action is None else self._actions.encode(action)
            following = None
            if next_observation is not None:
                following = self._encoder.read(next_observation)
            elif not (ended or cut):
                raise InvalidInputError(
                    "next_observation is missing; only a terminated or truncated step has none"
                )
            _, age = self._episodes.under_way(stream)
            if place.version != self._version:
                place.code = self._code(place.seen, age, place.before)
            if self._replay is not None:
                over = ENDED if ended else CUT if cut else GOES_ON
                self._replay.finish(place.kept, taken, unit, over)
            if place.code == UNKNOWN:
                self._state.wait()
            else:
                if self._learned is not None:
                    self._learned.join(place.seen)
                target = END if ended else UNKNOWN
                if not (ended or cut):
                    target = self._code(following, age + 1, (place.code, taken))
                self._state.learn(place.code, taken, unit, target)
            over = ended or cut
            self._paid = min(self._paid[0], unit), max(self._paid[1], unit)
            self._episodes.count(float(reward), self._state.step, over, stream)
            if isinstance(self._encoder, RememberingEncoder):
                place.before = (_NONE, _NONE) if over else (place.code, taken)
            place.action, place.begins = _NONE, over
            self._novelty.look(self._state, self._encoder)

    def reset(self, observation: Any = None, *, stream: str | int | None = None) -> None:
        """Say that the environment was restarted: the next `act` begins an episode.

        An action that was chosen and not observed is forgotten. The ``observation`` that the
        restart shows may be passed and is checked; `act` takes it in.
        """
        with self._turn:
            place = self._stream(stream)
            if observation is not None:
                self._encoder.read(observation)
            self._streams[stream] = place
            place.action, place.begins, place.before = _NONE, True, (_NONE, _NONE)
            self._episodes.begin(stream)

    def _stream(self, name: str | int | None) -> _Stream:
        if not isinstance(name, str | int | None):
            raise InvalidInputError(f"stream is {shown(name)}; name it by a text or a whole number")
        return self._streams.get(name) or _Stream(len(self._streams))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the agent's state, whole or not at all, with a description of the agent."""
        as_path(path)
        with self._turn:
            streams = list(self._streams.values())
            sums = [self._episodes.under_way(name) for name in self._streams]
            facts = {
                "agent": fingerprint(self._agent),
                "description": agent_to_dict(self._agent),
                "observations": self._encoder.to_dict(),
                "actions": self._actions.to_dict(),
                "streams": list(self._streams),
                "seed": describe([self._seed.entropy, list(self._seed.spawn_key)]),
                "reward_range": list(self._range or (0.0, 0.0)),  # equal: any reward
                "step_limit": self._limit or 0,
            }
            kept = {
                "agent": self._state,
                "encoder": self._encoder,
                "episode": self._episodes,
                "places": _rows([(p.code, p.action, p.begins, p.kept) for p in streams]),
                "paid": self._paid,
                "under_way_return": [total for total, _ in sums],
                "under_way_length": [length for _, length in sums],
                "replay": self._replay,
            }
            arrays, _ = _FORMAT.pack(kept)
        write_arrays(path, _KIND, _VERSION, arrays, facts)

    @classmethod
    def load(cls, path: str | os.PathLike[str], agent: AgentLike | None = None) -> Self:
        """Go on from a saved state.

        Parameters
        ----------
        path
            What `save` wrote.
        agent
            Needed only where the saved agent has parts that are not romdp's own, such as a
            clusterer of yours. If given, it must be the agent that was saved.
        """
        check(agent, "agent", "start", None)
        arrays, facts = read_arrays(path, _KIND, _VERSION)
        with reading(path):
            if agent is None:
                agent = _described(facts)
            if facts["agent"] != fingerprint(agent):
                raise StorageError(
                    f"it holds the state of another agent than {agent.name!r}; pass the agent "
                    "that was saved, with the same settings"
                )
            found = _FORMAT.read(arrays, streams=len(facts["streams"]))
            return cls._restored(agent, facts, found)

    @classmethod
    def _restored(cls, agent: AgentLike, facts: dict[str, Any], found: dict[str, Any]) -> Self:
        entropy, spawn_key = facts["seed"]
        seed_sequence(entropy)  # refuses what is no seed
        seed = np.random.SeedSequence(entropy, spawn_key=tuple(spawn_key))
        encoder = encoder_from(facts["observations"], "observation")
        actions = encoder_from(facts["actions"], "action")
        low, high = facts["reward_range"]
        sizes = encoder.size, actions.size
        saved = found["agent"]
        if "labels" in saved and saved["labels"].shape != sizes[:1]:
            raise _FORMAT.damaged(f"there are no {sizes[0]} labels")  # before memory is taken
        online = cls(
            agent,
            *sizes,
            seed,
            reward_range=None if low == high else (low, high),
            step_limit=facts["step_limit"] or None,
        )
        online._actions = actions
        online._set_encoder(encoder)
        encoder = online._encoder
        encoder.restore(found["encoder"] or {})
        if (online._replay is None) != (found["replay"] is None):
            raise _FORMAT.damaged("vectors are kept where there are none, or none are")
        if online._replay is not None:
            online._replay.restore(found["replay"], actions.size)
        kind = type(online._state)  # an agent may have a state of its own kind
        suited = _suited(online._plain, encoder)
        online._state = kind.from_arrays(suited, *sizes, seed, saved)
        online._announce()
        online._episodes = Episodes.from_arrays(found["episode"], online._state.step)
        online._restore_streams(facts["streams"], found)
        lowest, highest = found["paid"].tolist()
        online._paid = lowest, highest
        return online

    def _restore_streams(self, names: list[Any], found: dict[str, Any]) -> None:
        places = found["places"]
        totals, lengths = found["under_way_return"].tolist(), found["under_way_length"].tolist()
        if (places >= self._limits()).any():
            raise _FORMAT.damaged("a stream is at an observation or an action that does not exist")
        for i, (name, place) in enumerate(zip(names, places.tolist(), strict=True)):
            if not isinstance(name, str | int | None) or name in self._streams:
                raise _FORMAT.damaged("its streams have impossible names")
            code, action, begins, kept = place
            stream = _Stream(i, code, action, begins=begins > 0, kept=kept)
            if self._replay is not None and action != _NONE:
                row = self._replay.row(kept)
                if row < 0:
                    raise _FORMAT.damaged("a stream waits at a vector that is not in the replay")
                stream.seen = self._replay.vectors[row]
            elif action != _NONE and code < 0:
                raise _FORMAT.damaged("what a stream has chosen belongs to no observation")
            self._streams[name] = stream
            self._episodes.begin(name, totals[i], lengths[i])
        if isinstance(self._encoder, RememberingEncoder) and self._replay is not None:
            self._encoder.recode(self._replay, self._actions.size)
            self._look_back()

    def _limits(self) -> Ints:
        """Return what the columns of the places must be below."""
        met = 1 if self._replay is None else self._replay.n_met
        return np.array([self._encoder.size, self._actions.size, 2, max(met, 1)])

    def __repr__(self) -> str:
        return (
            f"Online(agent={self._agent.name!r}, n_steps={self.n_steps}, "
            f"n_clusters={self.partition.n_clusters})"
        )


def _suited(agent: Any, encoder: ObservationEncoder) -> Any:
    """Return the agent as it is where codes may be states already."""
    told = isinstance(encoder, VectorEncoder | RememberingEncoder) and encoder.tells_states
    return agent.on_states() if told and isinstance(agent, Agent) else agent


def _described(facts: dict[str, Any]) -> Agent:
    if facts["description"] is None:
        raise StorageError(
            "the saved agent has parts that are not romdp's own, so the file cannot describe it; "
            "pass the agent: Online.load(path, agent)"
        )
    return agent_from(facts["description"])


def _rows(rows: list[tuple[int, ...]]) -> Ints:
    return np.array(rows, np.int64).reshape(len(rows), 4)
