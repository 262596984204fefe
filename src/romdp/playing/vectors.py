"""Agents that see vectors: codes that are learned while the agent plays.

`VectorCodes` is where a space of numbers becomes codes, and `VectorState` the life of an agent
that sees them. What is met is kept (a bounded part of it). At first actions are random; from then
on the encoder is fitted again whenever the steps have grown by a factor, and all that is kept is
counted again under the new codes.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from romdp.agents.agent import Agent, AgentState
from romdp.clustering.likelihood import Likelihood
from romdp.clustering.vectors import find_states
from romdp.core.errors import InvalidInputError
from romdp.core.randomness import Seed, generator
from romdp.core.stored import Stored
from romdp.data.budget import Budget
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.encoding.codebook import Codebook
from romdp.encoding.decoder import StateDecoder
from romdp.encoding.scoring import score
from romdp.encoding.steps import ENDED, UNKNOWN, Steps
from romdp.playing.spaces import Codes, space_to_json

_CAPACITY = 1024  # codes
_MOST_NUMBERS = 2**27  # that are kept of what was met
_RECENT = 1024  # last rows, which are always kept
_STRETCH = 64  # rows in a row that are kept or dropped together
_FIRST, _LAST_FIRST = 500, 5000  # steps before the first fit: ten per number, within these
_GROWTH = 1.5  # of the steps between fits
_ENCODE, _EXPLORE = 11, 12  # streams of the seed
_NO_ACTION = -1


class Memory:
    """Vectors that were met, what was done there and what came of it, up to a bound.

    A vector is known by its ticket, the number of vectors met before. When memory is full, every
    other stretch of vectors is forgotten, but never the last ones.
    """

    def __init__(self, n_features: int) -> None:
        self.most = max(4 * _RECENT, _MOST_NUMBERS // n_features)
        self.n_met = 0
        self.tickets = np.zeros(0, np.int64)
        self.vectors = np.zeros((0, n_features), np.float32)
        self.actions = np.zeros(0, np.int64)
        self.rewards = np.zeros(0)
        self.following = np.zeros(0, np.int64)  # tickets, or ENDED or UNKNOWN
        self.restart = np.zeros(0, np.int64)  # the ticket that a restart showed
        self.size = 0

    def add(self, vector: NDArray[np.float32]) -> int:
        """Keep a vector and return its ticket; the last one again keeps its ticket."""
        last = self.size - 1
        if last >= 0 and self.actions[last] == _NO_ACTION:
            same = np.array_equal(self.vectors[last], vector)
            if same:
                return int(self.tickets[last])
        if self.size == self.most:
            self._forget()
        if self.size == len(self.tickets):
            self._grow()
        row = self.size
        self.tickets[row], self.vectors[row] = self.n_met, vector
        self.actions[row], self.following[row] = _NO_ACTION, UNKNOWN
        self.restart[row] = UNKNOWN
        self.size += 1
        self.n_met += 1
        return self.n_met - 1

    def _grow(self) -> None:
        size = min(self.most, max(1024, 2 * len(self.tickets)))
        for name in _COLUMNS:
            old = getattr(self, name)
            new = np.zeros((size, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def _forget(self) -> None:
        rows = np.arange(self.size)
        kept = ((rows // _STRETCH) % 2 == 0) | (rows >= self.size - _RECENT)
        for name in _COLUMNS:
            column = getattr(self, name)
            column[: kept.sum()] = column[: self.size][kept]
        self.size = int(kept.sum())

    def restore(self, stored: Stored, n_actions: int) -> None:
        """Take everything from a file, which may be damaged."""
        self.n_met = stored.number("memory_met", 0)
        last = self.n_met - 1
        self.tickets = stored.whole("memory_tickets", (None,), 0, last)
        if (np.diff(self.tickets) <= 0).any() or len(self.tickets) > self.most:
            stored.refuse("memory_tickets do not rise, or are too many")
        self.size = len(self.tickets)
        each = (self.size,)
        n_features = self.vectors.shape[1]
        self.vectors = stored.take("memory_vectors", (self.size, n_features), np.float32)
        if not np.isfinite(self.vectors).all():
            stored.refuse("memory_vectors must hold finite numbers")
        self.actions = stored.whole("memory_actions", each, _NO_ACTION, n_actions - 1)
        self.rewards = stored.real("memory_rewards", each)
        self.following = stored.whole("memory_following", each, UNKNOWN, last)
        self.restart = stored.whole("memory_restart", each, UNKNOWN, last)

    def rows(self, tickets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each ticket, -1 for what was forgotten or is none."""
        known = self.tickets[: self.size]
        at = np.minimum(np.searchsorted(known, tickets), max(0, self.size - 1))
        found: NDArray[np.int64] = np.where((tickets >= 0) & (known[at] == tickets), at, -1)
        return found

    def steps(self, n_actions: int) -> tuple[Steps, NDArray[np.int64]]:
        """Return all steps that are kept, and their rows."""
        rows = np.flatnonzero(self.actions[: self.size] >= 0)
        place = np.full(self.size + 1, UNKNOWN)
        place[rows] = np.arange(len(rows))
        tickets = self.following[rows]
        following = np.where(tickets >= 0, place[self.rows(tickets)], tickets)
        steps = Steps(
            self.vectors[rows], self.actions[rows], self.rewards[rows], following, n_actions
        )
        return steps, rows


_COLUMNS = ("tickets", "vectors", "actions", "rewards", "following", "restart")


class VectorCodes(Codes):
    """Codes for vectors, pictures, and what Gymnasium flattens to a vector.

    Parameters
    ----------
    space
        A ``Box``, or a ``Dict`` or ``Tuple`` with such parts.
    """

    size = _CAPACITY

    def __init__(self, space: Any) -> None:
        flat = spaces.flatten_space(space)
        if not isinstance(flat, spaces.Box):
            raise InvalidInputError(f"the observation space {space} cannot be flattened to numbers")
        self.space = space
        self.n_features = int(np.prod(flat.shape))
        self.memory = Memory(self.n_features)
        self.decoder: StateDecoder | None = None
        self._last = (-1, -1)  # the last ticket that was asked for, and its code
        self.book: Codebook | None = None  # codes that lie apart, with those opened since the fit

    def flatten(self, observation: Any) -> NDArray[np.float32]:
        """Turn an observation into a vector of finite numbers."""
        try:
            if isinstance(self.space, spaces.Box):
                vector = np.asarray(observation, np.float32).reshape(-1)
            else:
                vector = np.asarray(spaces.flatten(self.space, observation), np.float32)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise InvalidInputError(f"observation is not in {self.space}: {error}") from error
        if vector.shape != (self.n_features,) or not np.isfinite(vector).all():
            raise InvalidInputError(
                f"observation has {vector.size} numbers, or some that are not finite; "
                f"{self.space} has {self.n_features}"
            )
        return vector

    def encode(self, observation: Any) -> int:
        """Keep what is seen and return its ticket, which a `VectorState` understands."""
        return self.memory.add(self.flatten(observation))

    def find(self, observation: Any) -> int:
        """Return the code; nothing is learned by asking."""
        if self.decoder is None:
            return -1
        return int(self.codes(self.flatten(observation)[None])[0])

    def codes(self, vectors: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the codes of vectors."""
        assert self.decoder is not None
        if self.book is None:
            return self.decoder.predict(vectors)
        return self.book.nearest(self.decoder.encoding.map(vectors))[0]

    def code(self, ticket: int) -> int:
        """Return the code of a vector that was met; one far from all codes opens a new one."""
        if ticket != self._last[0]:
            self._last = ticket, self._code(ticket)
        return self._last[1]

    def _code(self, ticket: int) -> int:
        assert self.decoder is not None
        (row,) = self.memory.rows(np.array([ticket]))
        vector = self.memory.vectors[row : row + 1]
        if self.book is None:
            return int(self.decoder.predict(vector)[0])
        space = self.decoder.encoding.map(vector)
        nearest, distance = self.book.nearest(space)
        full = self.book.n_codes == self.size
        if full or self.book.covers(nearest, distance)[0]:
            return int(nearest[0])
        self.book = self.book.grown(space[0])
        return self.book.n_codes - 1

    @property
    def n_codes(self) -> int:
        """How many codes there are so far."""
        if self.book is not None:
            return self.book.n_codes
        return 0 if self.decoder is None else self.decoder.n_states

    def adopt(self, decoder: StateDecoder | None, book: Codebook | None = None) -> None:
        """Use another decoder from now on."""
        self.decoder, self.book = decoder, book
        self._last = (-1, -1)
        if decoder is not None and book is None and decoder.encoding.view == "apart":
            self.book = decoder.encoding.codebook

    def name(self, code: int) -> str:
        """Return what a code is called."""
        return f"code {code}"

    def snapshot(self) -> "VectorCodes":
        """Return codes as they are now, for a policy; they remember nothing."""
        copy = VectorCodes(self.space)
        copy.adopt(self.decoder, self.book)
        return copy

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the decoder and the codes that were opened, for a file."""
        if self.decoder is None:
            return {}
        arrays = {f"decoder_{name}": array for name, array in self.decoder.arrays().items()}
        if self.book is not None:
            arrays["book_points"], arrays["book_sizes"] = self.book.points, self.book.sizes
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Read what `arrays` returned."""
        stored = Stored(arrays, "the codes")
        if not arrays:
            return
        decoder = StateDecoder.from_arrays(stored.part("decoder_"))
        book = None
        if "book_points" in stored:
            points = stored.real("book_points", (None, decoder.encoding.map.matrix.shape[1]))
            sizes = stored.real("book_sizes", (len(points),))
            reach = decoder.encoding.codebook
            book = Codebook(points, sizes, reach.radius, reach.slack)
        stored.finish()
        if decoder.encoding.map.matrix.shape[0] != self.n_features:
            stored.refuse(f"its vectors do not have {self.n_features} numbers")
        self.adopt(decoder, book)
        if self.n_codes > self.size:
            stored.refuse(f"there are more than {self.size} codes")

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain data."""
        return {"vectors": space_to_json(self.space)}


class VectorState(AgentState):
    """One life of an agent that sees vectors; observations are tickets of its `VectorCodes`."""

    def __init__(self, agent: Agent, codes: VectorCodes, n_actions: int, seed: Seed) -> None:
        super().__init__(agent, codes.size, n_actions, seed)
        self.codes = codes
        ten = 10 * codes.n_features
        self.due = min(max(_FIRST, ten), _LAST_FIRST)
        self.grouped = 0  # codes that there were when the epoch began
        self.partition = Partition.unseen(codes.size)

    @property
    def _knows_codes(self) -> bool:
        return self.codes.decoder is not None

    def must_think(self, observation: int, age: int | None = None) -> bool:
        """Whether a fit is due, or the epoch over."""
        if self.step >= self.due or not self.epoch:
            return True
        if not self._knows_codes:
            return False
        code = self.codes.code(observation)  # perhaps a new one, which has no group yet
        return code >= self.grouped or super().must_think(code, age)

    def action(self, observation: int, age: int | None = None) -> int:
        """Return what to do: anything, until there are codes."""
        if not self._knows_codes:
            rng = generator(self.seed, _EXPLORE, self.step, observation)
            return int(rng.integers(self.recorder.n_actions))
        return super().action(self.codes.code(observation), age)

    def learn(
        self,
        observation: int,
        action: int,
        reward: float,
        next_observation: int,
        *,
        terminated: bool = False,
        truncated: bool = False,
    ) -> None:
        """Keep one step and count it."""
        memory = self.codes.memory
        (row,) = memory.rows(np.array([observation]))
        if row >= 0:
            memory.actions[row], memory.rewards[row] = action, reward
            memory.following[row] = next_observation
            if terminated:
                memory.following[row], memory.restart[row] = ENDED, next_observation
            elif truncated:
                memory.following[row] = UNKNOWN
        if not self._knows_codes:
            self.step += 1
            if terminated or truncated:
                self.episode_start = self.step
            return
        code = self.codes.code(observation)
        following = -1 if next_observation < 0 else self.codes.code(next_observation)
        super().learn(code, action, reward, following, terminated=terminated, truncated=truncated)

    def think(self) -> None:
        """Fit the encoder again if that is due, then begin an epoch."""
        if self.step >= self.due:
            self.due = int(_GROWTH * self.step) + 1
            self._refit()
        if self._knows_codes:
            self._give_groups()
            super().think()
            self.grouped = self.codes.n_codes
        else:
            self.epoch += 1
            self.last_start, self.epoch_start = self.epoch_start, self.step

    def _give_groups(self) -> None:
        """Give every code that has no group yet one of its own."""
        labels = self.partition.labels
        new = np.flatnonzero(labels[: self.codes.n_codes] < 0)
        if len(new):
            labels = labels.copy()
            labels[new] = self.partition.n_clusters + np.arange(len(new))
            self.partition = Partition(labels)

    def _refit(self) -> None:
        """Learn codes from what is kept; the old ones stay if they predict it better."""
        steps, rows = self.codes.memory.steps(self.recorder.n_actions)
        before = self.codes.decoder
        previous = None if before is None else before.encoding
        rng = generator(self.seed, _ENCODE, self.step)
        found = find_states(steps, Likelihood(), rng, previous=previous)
        if found.n_states == 1:
            if before is None:
                return
            found = before
        elif before is not None and _score(before, steps).exceeds(_score(found, steps)) > 1:
            found = before
        book = self.codes.book if found is before else None
        self.codes.adopt(found, book)
        self._recount(steps, rows)

    def _recount(self, steps: Steps, rows: NDArray[np.int64]) -> None:
        """Count all that is kept under the present codes; the epoch is over."""
        n, memory = self.codes.size, self.codes.memory
        recorder = Recorder(n, self.recorder.n_actions)
        if self.codes.book is not None:
            for ticket in memory.tickets[: memory.size]:
                self.codes.code(int(ticket))  # opens codes for what is far from all
        codes = np.append(self.codes.codes(memory.vectors[: memory.size]), -1)
        after = steps.next_codes(codes[rows])
        shown = codes[memory.rows(memory.restart[rows])]
        rewards = np.zeros(len(rows)) if steps.rewards is None else steps.rewards
        for code, action, reward, following, restart in zip(
            codes[rows].tolist(),
            steps.actions.tolist(),
            rewards.tolist(),
            after.tolist(),
            shown.tolist(),
            strict=True,
        ):
            ended = following == ENDED
            recorder.record(code, action, reward, restart if ended else max(following, -1), ended)
        self.recorder = recorder
        self.partition = Partition.unseen(n)
        self.epoch_start = 0  # so that clusterers that wait for steps to grow are asked again
        self._spell_out(np.zeros(n, np.int64), np.zeros(n))
        self.budget = Budget.none(n)
        self.gain = np.nan

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that a checkpoint must hold."""
        memory = self.codes.memory
        return {
            **super().arrays(),
            **{f"codes_{name}": array for name, array in self.codes.arrays().items()},
            **{f"memory_{name}": getattr(memory, name)[: memory.size].copy() for name in _COLUMNS},
            "memory_met": np.array(memory.n_met, np.int64),
            "due": np.array(self.due, np.int64),
            "grouped": np.array(self.grouped, np.int64),
        }

    @classmethod
    def restored(
        cls,
        agent: Agent,
        codes: VectorCodes,
        n_actions: int,
        seed: Seed,
        arrays: Mapping[str, NDArray[Any]],
    ) -> Self:
        """Go on where `arrays` was taken."""
        stored = Stored(arrays, "the agent")
        own = {
            name: array
            for name, array in arrays.items()
            if not name.startswith(("codes_", "memory_")) and name not in ("due", "grouped")
        }
        state = cls(agent, codes, n_actions, seed)
        if any(name.startswith("codes_") for name in arrays):
            plain = AgentState.from_arrays(agent, codes.size, n_actions, seed, own)
            state.__dict__.update(plain.__dict__)
        else:  # it acts at random, and has counted nothing but steps
            for name in ("step", "epoch", "epoch_start", "last_start", "episode_start"):
                setattr(state, name, stored.number(name, 0))
        state.due, state.grouped = stored.number("due", 1), stored.number("grouped", 0)
        codes.restore(stored.part("codes_"))
        codes.memory.restore(stored, n_actions)
        return state


def _score(decoder: StateDecoder, steps: Steps) -> Any:
    part = steps.first(20_000)
    states = decoder.predict(part.vectors)
    return score(states, part.actions, part.rewards, part.next_codes(states))


def start_state(agent: Agent, codes: Any, n_actions: int, seed: Seed) -> AgentState:
    """Begin a life of an agent that sees these codes."""
    if isinstance(codes, VectorCodes):
        return VectorState(agent, codes, n_actions, seed)
    return agent.start(codes.size, n_actions, seed)
