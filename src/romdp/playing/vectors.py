"""Agents that see vectors: codes that are learned while the agent plays.

`VectorCodes` is where a space of numbers becomes codes, and `VectorState` the life of an agent
that sees them. What is met is kept (a bounded part of it). Vectors of whole numbers, such as
pictures, may repeat exactly: then each is a name, until they prove not to repeat. Otherwise actions
are random at first; from then on the encoder is fitted again whenever the steps have grown by a
factor, or codes prove to be mixed, and all that is kept is counted again under the new codes.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from romdp.agents.agent import Agent, AgentState
from romdp.agents.planners import Posterior
from romdp.clustering.clusterer import Evidence
from romdp.clustering.likelihood import Likelihood
from romdp.clustering.vectors import find_states, is_mixed
from romdp.core.errors import InvalidInputError
from romdp.core.randomness import Seed, generator
from romdp.core.stored import Stored
from romdp.data.budget import Budget
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.encoding.codebook import Codebook
from romdp.encoding.decoder import StateDecoder
from romdp.encoding.scoring import Score, score
from romdp.encoding.steps import ENDED, UNKNOWN, Steps
from romdp.playing.memory import COLUMNS, Memory
from romdp.playing.spaces import Codes, space_to_json

_CAPACITY = 2**13  # codes
_FIRST, _LAST_FIRST = 500, 5000  # steps before the first fit: ten per number, within these
_GROWTH = 1.5  # of the steps between fits, where something is at stake
_YOUNG = 20  # vectors below which the mean of a code still moves
_SHORT = 6  # numbers of a vector that its name can hold
_LOOK = 1.15  # growth of the steps between looks at whether codes are mixed, and between idle fits
_FIRST_LOOK = 64  # vectors after which it is first asked whether they repeat
_NEW = 0.9  # share of different vectors from which on they do not
_JUDGED = 20_000  # steps that codes are judged on
_ENCODE, _EXPLORE = 11, 12  # streams of the seed
_COUNTERS = ("due", "look", "grouped")


class VectorCodes(Codes):
    """Codes for vectors, pictures, and what Gymnasium flattens to a vector.

    Parameters
    ----------
    space
        A ``Box``, or a ``Dict`` or ``Tuple`` with such parts.

    Attributes
    ----------
    names
        The number of every different vector, while those are the codes; None for real numbers,
        and for vectors that do not repeat.
    decoder
        From vectors to codes, once it is learned.
    book
        Codes that lie apart, with those opened since the decoder was learned.
    """

    size = _CAPACITY

    def __init__(self, space: Any) -> None:
        flat = spaces.flatten_space(space)
        if not isinstance(flat, spaces.Box):
            raise InvalidInputError(f"the observation space {space} cannot be flattened to numbers")
        self.space = space
        self.n_features = int(np.prod(flat.shape))
        whole = np.issubdtype(flat.dtype, np.integer)
        self.memory = Memory(self.n_features, flat.dtype if whole else np.float32)
        self.names: dict[bytes, int] | None = {} if whole else None
        self.decoder: StateDecoder | None = None
        self.book: Codebook | None = None
        self._last = (-1, -1)  # the last ticket that was asked for, and its code

    def flatten(self, observation: Any) -> NDArray[Any]:
        """Turn an observation into a vector of finite numbers."""
        dtype = self.memory.vectors.dtype
        try:
            if isinstance(self.space, spaces.Box):
                given = np.asarray(observation)
            else:
                given = np.asarray(spaces.flatten(self.space, observation))
            vector = given.astype(dtype).reshape(-1)
            if dtype.kind != "f" and not np.array_equal(vector, given.reshape(-1)):
                raise ValueError(f"{dtype} cannot hold some of its numbers")
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
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
        vector = self.flatten(observation)
        if self.names is not None:
            return self.names.get(vector.tobytes(), -1)
        return -1 if self.decoder is None else int(self.codes(vector[None])[0])

    def codes(self, vectors: NDArray[Any]) -> NDArray[np.int64]:
        """Return the codes of vectors that a decoder was learned for."""
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
        (row,) = self.memory.rows(np.array([ticket]))
        vector = self.memory.vectors[row : row + 1]
        if self.names is not None:
            new = min(len(self.names), self.size - 1)
            return self.names.setdefault(vector.tobytes(), new)
        assert self.decoder is not None
        if self.book is None:
            return int(self.decoder.predict(vector)[0])
        space = self.decoder.encoding.map(vector)
        nearest, distance = self.book.nearest(space)
        full = self.book.n_codes == self.size
        if full or self.book.covers(nearest, distance)[0]:
            return int(nearest[0])
        self.book = self.book.grown(space[0])
        return self.book.n_codes - 1

    def join(self, row: int, code: int) -> None:
        """Let the mean of a code follow its first vectors; this row of the memory is one."""
        if self.book is not None and self.decoder is not None and self.book.sizes[code] < _YOUNG:
            space = self.decoder.encoding.map(self.memory.vectors[row : row + 1])
            self.book = self.book.joined(code, space[0])

    def open_codes(self) -> None:
        """Open codes for everything in memory that is far from all codes."""
        if self.book is None or self.decoder is None:
            return
        rows = self.memory.vectors[: self.memory.size]
        space = self.decoder.encoding.map(rows)
        far = space[~self.book.covers(*self.book.nearest(space))]
        self.book = self.book.extended(far, self.size)

    @property
    def repeat(self) -> bool:
        """Whether vectors that were named have been met again, and names are not used up."""
        assert self.names is not None
        return len(self.names) <= min(_NEW * self.memory.n_met, self.size - 1)

    @property
    def known(self) -> bool:
        """Whether there are codes."""
        return self.names is not None or self.decoder is not None

    @property
    def n_codes(self) -> int:
        """How many codes there are so far."""
        if self.names is not None:
            return len(self.names)
        if self.book is not None:
            return self.book.n_codes
        return 0 if self.decoder is None else self.decoder.n_states

    def adopt(self, decoder: StateDecoder | None, book: Codebook | None = None) -> None:
        """Use another decoder from now on, or none; names are no codes any more."""
        self.names, self.decoder, self.book = None, decoder, book
        self._last = (-1, -1)
        if decoder is not None and book is None and decoder.encoding.view == "apart":
            self.book = decoder.encoding.codebook

    def name(self, code: int) -> str:
        """Return what a code is called: its number and, if vectors are short, a typical one."""
        typical = self._typical(code) if self.known and self.n_features <= _SHORT else None
        if typical is None:
            return f"code {code}"
        return f"code {code}: {', '.join(f'{part:.3g}' for part in typical)}"

    def _typical(self, code: int) -> NDArray[Any] | None:
        """Return the vector that a code stands for, or the mean of those that have it."""
        if self.names is not None:
            found = list(self.names)[code : code + 1]
            return np.frombuffer(found[0], self.memory.vectors.dtype) if found else None
        assert self.decoder is not None
        encoding = self.decoder.encoding
        if encoding.map.matrix.shape[1] < self.n_features:  # a view that leaves something out
            return None
        book = encoding.codebook if self.book is None else self.book
        vectors = encoding.map.center + book.points @ np.linalg.pinv(encoding.map.matrix)
        own = self.codes(vectors) == code
        return np.average(vectors[own], axis=0, weights=1 + book.sizes[own]) if own.any() else None

    def snapshot(self) -> "VectorCodes":
        """Return codes as they are now, for a policy; they remember nothing."""
        copy = VectorCodes(self.space)
        if self.names is None:
            copy.adopt(self.decoder, self.book)
        else:
            copy.names = dict(self.names)
        return copy

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return names, or the decoder and the codes that were opened, for a file."""
        if self.names is not None:
            joined = np.frombuffer(b"".join(self.names), self.memory.vectors.dtype)
            return {"names": joined.reshape(-1, self.n_features)}
        if self.decoder is None:
            return {}
        arrays = {f"decoder_{name}": array for name, array in self.decoder.arrays().items()}
        if self.book is not None:
            arrays["book_points"], arrays["book_sizes"] = self.book.points, self.book.sizes
        return arrays

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Read what `arrays` returned."""
        stored = Stored(arrays, "the codes")
        if "names" in stored:
            kind = self.memory.vectors.dtype
            rows = stored.take("names", (None, self.n_features), kind)
            stored.finish()
            self.names = {row.tobytes(): code for code, row in enumerate(rows)}
            if self.memory.vectors.dtype.kind == "f" or len(self.names) > self.size:
                stored.refuse("there are names for vectors of real numbers, or too many")
            return
        self.names = None
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


@dataclass(frozen=True)
class EachItsOwn:
    """A clusterer that leaves every code in the group that it was given, its own.

    Codes that lie apart are states already. Grouped by likelihood, a state that was met a few times
    would join one that it resembles so far, and hide what was not tried yet.
    """

    needs = frozenset[str]()

    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Return the groups as they are."""
        return previous


class VectorState(AgentState):
    """One life of an agent that sees vectors; observations are tickets of its `VectorCodes`.

    Attributes
    ----------
    due
        The step from which on the encoder is fitted again.
    look
        The step from which on it is asked whether codes must change before.
    grouped
        How many codes there were when the epoch began.
    """

    def __init__(self, agent: Agent, codes: VectorCodes, n_actions: int, seed: Seed) -> None:
        super().__init__(agent, codes.size, n_actions, seed)
        self.codes = codes
        self._given = agent
        ten = 10 * codes.n_features
        self.due = min(max(_FIRST, ten), _LAST_FIRST)
        self.look = _FIRST_LOOK if codes.names is not None else self.due
        self.grouped = 0
        if codes.names is None:
            self.partition = Partition.unseen(codes.size)

    def must_think(self, observation: int, age: int | None = None) -> bool:
        """Whether codes may have to change, or the epoch is over."""
        if self.step >= self.look or not self.epoch:
            return True
        if not self.codes.known:
            return False
        code = self.codes.code(observation)  # perhaps a new one, which has no group yet
        new = self.codes.names is None and code >= self.grouped
        return new or super().must_think(code, age)

    def action(self, observation: int, age: int | None = None) -> int:
        """Return what to do: anything, until there are codes."""
        if not self.codes.known:
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
        if not self.codes.known:
            self.step += 1
            if terminated or truncated:
                self.episode_start = self.step
            return
        code = self.codes.code(observation)
        if row >= 0:
            self.codes.join(row, code)
        following = -1 if next_observation < 0 else self.codes.code(next_observation)
        super().learn(code, action, reward, following, terminated=terminated, truncated=truncated)

    def think(self) -> None:
        """Change codes if that is due, then begin an epoch."""
        if self.step >= self.look:
            self._look_at_codes()
        if not self.codes.known:
            self.epoch += 1
            self.last_start, self.epoch_start = self.epoch_start, self.step
            return
        if self.codes.names is None:
            self._give_groups()
        self.agent = self._given
        if self.codes.book is not None:
            planner = self._given.planner
            if isinstance(planner, Posterior):
                planner = replace(planner, untried="promising")
            self.agent = replace(self._given, clusterer=EachItsOwn(), planner=planner)
        super().think()
        self.grouped = self.codes.n_codes

    def _look_at_codes(self) -> None:
        """Give up names that do not repeat; fit again what is due, or mixed."""
        codes = self.codes
        if codes.names is not None:
            self.look = 2 * self.step
            if codes.repeat:
                return
            codes.adopt(None)
            self.due = max(self.due, self.step)
            self.look = self.due
            self._forget_counts()
            if self.step < self.due:
                return
        steps, rows = codes.memory.steps(self.recorder.n_actions)
        self.look = int(_LOOK * self.step) + 1
        mixed = self._are_mixed(steps)
        if mixed or self.step >= self.due:
            self.due = int((_LOOK if _is_idle(steps) else _GROWTH) * self.step) + 1
            self._refit(steps, rows)
            if mixed and self._are_mixed(steps):  # more steps may help, and nothing else
                self.look = self.due
        self.look = min(self.look, self.due)

    def _are_mixed(self, steps: Steps) -> bool:
        part = steps.last(_JUDGED)
        return self.codes.decoder is not None and is_mixed(self.codes.codes(part.vectors), part)

    def _give_groups(self) -> None:
        """Give every code that has no group yet one of its own."""
        labels = self.partition.labels
        new = np.flatnonzero(labels[: self.codes.n_codes] < 0)
        if len(new):
            labels = labels.copy()
            labels[new] = self.partition.n_clusters + np.arange(len(new))
            self.partition = Partition(labels)

    def _refit(self, steps: Steps, rows: NDArray[np.int64]) -> None:
        """Learn codes from what is kept; the old ones stay if they predict it better."""
        before = self.codes.decoder
        previous = None if before is None else before.encoding
        rng = generator(self.seed, _ENCODE, self.step)
        found = find_states(steps, Likelihood(), rng, previous=previous)
        if found.n_states == 1 and found.encoding.view != "apart":
            if before is None:
                return
            found = before
        elif before is not None and _is_better(before, found, steps):
            found = before
        book = self.codes.book if found is before else None
        self.codes.adopt(replace(found, portraits=None), book)
        self._recount(steps, rows)

    def _recount(self, steps: Steps, rows: NDArray[np.int64]) -> None:
        """Count all that is kept under the present codes."""
        memory = self.codes.memory
        self._forget_counts()
        self.codes.open_codes()
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
            next_code = restart if ended else max(following, -1)
            self.recorder.record(code, action, reward, next_code, ended)

    def _forget_counts(self) -> None:
        """Begin to count anew, with nothing grouped; the epoch is over."""
        n = self.codes.size
        self.recorder = Recorder(n, self.recorder.n_actions)
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
            **{f"memory_{name}": getattr(memory, name)[: memory.size].copy() for name in COLUMNS},
            "memory_met": np.array(memory.n_met, np.int64),
            **{name: np.array(getattr(self, name), np.int64) for name in _COUNTERS},
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
            if not name.startswith(("codes_", "memory_")) and name not in _COUNTERS
        }
        state = cls(agent, codes, n_actions, seed)
        if any(name.startswith("codes_") for name in arrays):
            plain = AgentState.from_arrays(agent, codes.size, n_actions, seed, own)
            state.__dict__.update(plain.__dict__)
        else:  # it acts at random, and has counted nothing but steps
            for name in ("step", "epoch", "epoch_start", "last_start", "episode_start"):
                setattr(state, name, stored.number(name, 0))
        for name in _COUNTERS:
            setattr(state, name, stored.number(name, 0))
        codes.restore(stored.part("codes_"))
        codes.memory.restore(stored, n_actions)
        return state


def _is_idle(steps: Steps) -> bool:
    """Whether nothing was at stake so far, so that finding states is all there is to do."""
    return steps.pay_alike and not (steps.following == ENDED).any()


def _is_better(before: StateDecoder, found: StateDecoder, steps: Steps) -> bool:
    """Whether the codes in use predict better than those found.

    Where codes lay apart and still do, their space has been tried along with others already.
    """
    if before.encoding.view == found.encoding.view == "apart":
        return False
    return _score(before, steps).exceeds(_score(found, steps)) > 1


def _score(decoder: StateDecoder, steps: Steps) -> Score:
    """Score the codes that an agent would see."""
    part, encoding = steps.last(_JUDGED), decoder.encoding
    apart = encoding.view == "apart"
    codes = encoding.codes(part.vectors) if apart else decoder.predict(part.vectors)
    return score(codes, part.actions, part.rewards, part.next_codes(codes))


def start_state(agent: Agent, codes: Any, n_actions: int, seed: Seed) -> AgentState:
    """Begin a life of an agent that sees these codes."""
    if isinstance(codes, VectorCodes):
        return VectorState(agent, codes, n_actions, seed)
    return agent.start(codes.size, n_actions, seed)
