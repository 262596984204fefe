"""Vectors and pictures in, codes out: an encoder that learns while an agent plays.

Vectors may repeat exactly: then each is a name, until they prove not to repeat. Otherwise a decoder
says which code a vector has. It is learned from all that is kept, and again whenever the steps have
grown by a factor or codes prove to be mixed. Where vectors do not show the step of the episode
although it matters, there is a code for every step.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from romdp.clustering.likelihood import Likelihood
from romdp.clustering.states import find_states, is_mixed
from romdp.core.errors import InvalidInputError
from romdp.core.formats import Stored
from romdp.core.randomness import Seed, generator
from romdp.data.trajectory import END, UNKNOWN, Trajectory
from romdp.encoding.codebook import Codebook
from romdp.encoding.decoder import StateDecoder
from romdp.encoding.scoring import both, last_steps, score, vectors_of
from romdp.playing.encoders import ObservationEncoder, space_to_json
from romdp.playing.memory import Memory

_CAPACITY = 2**13  # codes
_YOUNG = 20  # vectors below which the mean of a code still moves
_SHORT = 6  # numbers of a vector that its name can hold
_NEW = 0.9  # share of different vectors from which on they do not repeat
_FIRST, _LAST_FIRST = 500, 5000  # steps before the first fit: ten per number, within these
_SEVERAL_FITS = 4  # times the steps before the first: there were four fits by then
_GROWTH = 1.5  # of the steps between fits, where something is at stake
_LOOK = 1.15  # growth of the steps between looks at whether codes are mixed, and between idle fits
_FIRST_LOOK = 64  # vectors after which it is first asked whether they repeat
_JUDGED = 20_000  # steps that codes are judged on
_ENCODE = 11  # a stream of the seed
_COUNTERS = ("due", "look")
_LOOKED_AT, _MOST_LOOKED_AT = 2**24, 20_000  # numbers, and last vectors: examples are among them


class VectorEncoder(ObservationEncoder):
    """Codes for vectors, pictures, and what Gymnasium flattens to a vector.

    Parameters
    ----------
    space
        A ``Box``, or a ``Dict`` or ``Tuple`` with such parts.

    Attributes
    ----------
    names
        The number of every different vector, while those are the codes; None for vectors that do
        not repeat.
    decoder
        From vectors to codes, once it is learned.
    book
        Codes that lie apart, with those opened since the decoder was learned.
    stepwise
        The number of every pair (what a vector is by itself, step of the episode) that was met,
        while those are the codes; else None.
    examples
        In the codes of a policy: a typical vector of what vectors are by themselves, NaN where
        none was met lately; None if vectors are named.
    due
        The step from which on the decoder is learned again.
    look
        The step from which on it is asked whether codes must change before.
    """

    size = _CAPACITY
    learns = True

    def __init__(self, space: Any) -> None:
        flat = spaces.flatten_space(space)
        if not isinstance(flat, spaces.Box):
            raise InvalidInputError(f"the observation space {space} cannot be flattened to numbers")
        self.space = space
        self.n_features = int(np.prod(flat.shape))
        whole = np.issubdtype(flat.dtype, np.integer)
        self.dtype = np.dtype(flat.dtype if whole else np.float32)
        self.names: dict[bytes, int] | None = {}
        self.decoder: StateDecoder | None = None
        self.book: Codebook | None = None
        self.stepwise: dict[tuple[int, int], int] | None = None
        self.examples: NDArray[np.float32] | None = None
        self.due, self.look = self._first_fit, _FIRST_LOOK

    @property
    def _first_fit(self) -> int:
        return min(max(_FIRST, 10 * self.n_features), _LAST_FIRST)

    def read(self, observation: Any) -> NDArray[Any]:
        """Turn an observation into a vector of finite numbers."""
        dtype = self.dtype
        try:
            if isinstance(self.space, spaces.Box):
                given = np.asarray(observation)
            else:
                given = np.asarray(spaces.flatten(self.space, observation))
            given = given.reshape(-1)
            with np.errstate(all="ignore"):  # what does not fit is refused below
                vector = given.astype(dtype)
            if dtype.kind != "f" and not np.array_equal(vector, given):
                raise ValueError(f"{dtype} cannot hold some of its numbers")
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise InvalidInputError(f"observation is not in {self.space}: {error}") from error
        if vector.shape != (self.n_features,):
            raise InvalidInputError(
                f"observation has {vector.size} numbers; {self.space} has {self.n_features}"
            )
        if not np.isfinite(vector).all():
            at = int(np.flatnonzero(~np.isfinite(vector))[0])
            raise InvalidInputError(
                f"number {at} of the observation is {given[at]}; every number must be finite "
                f"and fit into {dtype}"
            )
        return vector + vector.dtype.type(0)  # no negative zeros: equal vectors have equal bytes

    def code(self, seen: NDArray[Any], age: int = 0) -> int:
        """Return the code of a vector, `UNKNOWN` until there are codes.

        One that is far from all codes opens a new one.
        """
        return self.at_step(self._code(seen), age) if self.known else UNKNOWN

    def find(self, observation: Any, age: int = 0) -> int:
        """Return the code; nothing is learned by asking."""
        vector = self.read(observation)
        if self.names is not None:
            return self.names.get(vector.tobytes(), -1)
        if self.decoder is None:
            return -1
        code = int(self.codes(vector[None])[0])
        return code if self.stepwise is None else self.stepwise.get((code, age), -1)

    def codes(self, vectors: NDArray[Any]) -> NDArray[np.int64]:
        """Return what vectors are by themselves, whatever the step, by the decoder."""
        assert self.decoder is not None
        if self.book is None:
            return self.decoder.predict(vectors)
        return self.book.nearest(self.decoder.encoding.map(vectors))[0]

    def at_step(self, code: int, age: int) -> int:
        """Return the code, a new one perhaps, of what a vector is at a step of the episode."""
        if self.stepwise is None:
            return code
        return self.stepwise.setdefault((code, age), min(len(self.stepwise), self.size - 1))

    def _code(self, vector: NDArray[Any]) -> int:
        if self.names is not None:
            new = min(len(self.names), self.size - 1)
            return self.names.setdefault(vector.tobytes(), new)
        assert self.decoder is not None
        if self.book is None:
            return int(self.decoder.predict(vector[None])[0])
        (place,) = self.decoder.encoding.map(vector[None])
        nearest, inside = self.book.place(place)
        if inside or self.book.n_codes == self.size:
            return nearest
        self.book = self.book.grown(place)
        return self.book.n_codes - 1

    def join(self, vector: NDArray[Any]) -> None:
        """Let the mean of a code follow its first vectors; this is one that was acted on."""
        if self.book is None or self.decoder is None:
            return
        (place,) = self.decoder.encoding.map(vector[None])
        code = self.book.place(place)[0]
        if self.book.sizes[code] < _YOUNG:
            self.book = self.book.joined(code, place)

    def _codes_in(self, memory: Memory) -> NDArray[np.int64]:
        """Return `codes` of all that is kept, after opening some for what is far from all codes."""
        rows = memory.vectors[: memory.size]
        if self.book is not None and self.decoder is not None:
            space = self.decoder.encoding.map(rows)
            codes, distances = self.book.nearest(space)
            far = space[~self.book.covers(codes, distances)]
            if not len(far):
                return codes
            self.book = self.book.extended(far, self.size)
            return self.book.nearest(space)[0]
        return self.codes(rows)

    def reconsider(self, memory: Memory, step: int, n_actions: int, seed: Seed) -> bool:
        """Look whether codes must change, if it is time; says whether they did.

        Names are given up where they do not repeat. What is due, or mixed, is learned again from
        all that is kept.
        """
        if step < self.look:
            return False
        gave_up = self.names is not None
        if gave_up:
            self.look = 2 * step
            if self._repeat(memory):
                return False
            self._adopt(None)
            self.due = self.look = max(self.due, step)
            if step < self.due:
                return True
        steps, _, _ = memory.steps(n_actions)
        self.look = int(_LOOK * step) + 1
        changed, mixed = False, self._is_mixed(steps)
        if mixed or step >= self.due:
            self.due = int((_LOOK if _is_idle(steps) else _GROWTH) * step) + 1
            changed = self._learn(steps, generator(seed, _ENCODE, step), memory)
            if mixed and self._is_mixed(steps):  # more steps may help, and nothing else
                self.look = self.due
        self.look = min(self.look, self.due)
        return changed or gave_up

    def _is_mixed(self, steps: Trajectory) -> bool:
        if self.decoder is None:
            return False
        part = last_steps(steps, _JUDGED)
        codes = self.codes(vectors_of(part))
        return is_mixed(codes if self.stepwise is None else both(codes, part.ages), part)

    def _learn(self, steps: Trajectory, rng: np.random.Generator, memory: Memory) -> bool:
        """Learn codes from what is kept; the old ones stay if they predict it better."""
        before = self.decoder
        previous = None if before is None else before.encoding
        found = find_states(steps, Likelihood(), rng, previous=previous, by_step=True)
        if found.n_states == 1 and not found.encoding.tells_states:
            if before is None:
                return False
            found = before
        elif before is not None and _is_better(before, found, steps):
            found = before
        self._adopt(replace(found, portraits=None), self.book if found is before else None)
        return True

    def recode(self, memory: Memory, n_actions: int) -> Trajectory | None:
        """Return all that is kept under the present codes; None where there are none."""
        if not self.known or not (memory.actions[: memory.size] >= 0).any():
            return None
        steps, rows, final = memory.steps(n_actions)
        codes = np.append(self._codes_in(memory), UNKNOWN)
        if self.stepwise is not None:  # only what is asked for is a code
            plain, codes = codes, np.full_like(codes, UNKNOWN)
            for row in np.union1d(rows, final[final >= 0]).tolist():
                codes[row] = self.at_step(int(plain[row]), int(memory.ages[row]))
        seen = steps.encoded(codes[rows], self.size)
        return seen.changed(final_observations=codes[final])

    def is_in_the_dark(self, step: int) -> bool:
        """Whether vectors have told nothing in several fits, so that actions are still random."""
        return not self.known and step > _SEVERAL_FITS * self._first_fit

    @property
    def tells_states(self) -> bool:
        """Whether each code is a state already: codes lie apart, or tell the step."""
        return self.book is not None or self.stepwise is not None

    @property
    def depends_on_step(self) -> bool:
        """Whether there is a code for every step of the episode."""
        return self.stepwise is not None

    def _repeat(self, memory: Memory) -> bool:
        """Whether vectors that were named have been met again, and names are not used up."""
        assert self.names is not None
        return len(self.names) <= min(_NEW * memory.n_met, self.size - 1)

    @property
    def known(self) -> bool:
        """Whether there are codes."""
        return self.names is not None or self.decoder is not None

    @property
    def n_codes(self) -> int:
        """How many codes there are so far."""
        if self.names is not None:
            return len(self.names)
        if self.stepwise is not None:
            return min(len(self.stepwise), self.size)
        if self.book is not None:
            return self.book.n_codes
        return 0 if self.decoder is None else self.decoder.n_states

    def _adopt(
        self,
        decoder: StateDecoder | None,
        book: Codebook | None = None,
        stepwise: Iterable[tuple[int, int]] = (),
    ) -> None:
        """Use another decoder from now on, or none; names are no codes any more.

        Where there is a code for every step of the episode, ``stepwise`` holds the first of them.
        """
        self.names, self.decoder, self.book = None, decoder, book
        self.stepwise = None
        if decoder is not None and decoder.encoding.stepwise:
            self.stepwise = {pair: min(i, self.size - 1) for i, pair in enumerate(stepwise)}
        if decoder is not None and book is None and decoder.encoding.tells_states:
            self.book = decoder.encoding.codebook

    def name(self, code: int) -> str:
        """Return what a code is called: its number and, if vectors are short, a typical one."""
        code, when = self._by_itself(code)
        typical = self._typical(code) if self.n_features <= _SHORT else None
        if typical is None:
            return f"code {code}{when}"
        return f"code {code}{when}: {', '.join(f'{part:.3g}' for part in typical)}"

    def example(self, code: int) -> NDArray[Any] | None:
        """Return a typical vector with a code; short ones are in its name already."""
        return None if self.n_features <= _SHORT else self._typical(self._by_itself(code)[0])

    def _by_itself(self, code: int) -> tuple[int, str]:
        """Return what a vector is whatever the step, and that step in words."""
        if self.stepwise is None:
            return code, ""
        code, age = list(self.stepwise)[code] if code < len(self.stepwise) else (code, 0)
        return code, f" at step {age}"

    def _typical(self, code: int) -> NDArray[Any] | None:
        if self.names is not None:
            found = list(self.names)[code : code + 1]
            return np.frombuffer(found[0], self.dtype) if found else None
        if self.examples is None or code >= len(self.examples):
            return None
        vector = self.examples[code]
        return None if np.isnan(vector[0]) else vector

    def find_examples(self, memory: Memory) -> None:
        """Take the vector nearest to the mean of each code, among the last ones met."""
        if self.decoder is None:
            return
        most = min(_MOST_LOOKED_AT, max(256, _LOOKED_AT // self.n_features))
        rows = memory.vectors[max(0, memory.size - most) : memory.size]
        codes = self.codes(rows) if len(rows) else np.zeros(0, np.int64)
        found = np.full((int(codes.max(initial=-1)) + 1, self.n_features), np.nan, np.float32)
        for code in np.unique(codes):
            mine = rows[codes == code].astype(np.float64)
            far = ((mine - mine.mean(axis=0)) ** 2).sum(axis=1)
            found[code] = mine[far.argmin()]
        self.examples = found

    def snapshot(self) -> "VectorEncoder":
        """Return the encoder as it is now, for a policy."""
        copy = VectorEncoder(self.space)
        if self.names is None:
            copy._adopt(self.decoder, self.book, self.stepwise or ())
            copy.examples = self.examples
        else:
            copy.names = dict(self.names)
        return copy

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return names, or the decoder and the codes that were opened, for a file."""
        counters = {name: np.array(getattr(self, name), np.int64) for name in _COUNTERS}
        if self.names is not None:
            joined = np.frombuffer(b"".join(self.names), self.dtype)
            return {**counters, "names": joined.reshape(-1, self.n_features)}
        if self.decoder is None:
            return counters
        arrays = {f"decoder_{name}": array for name, array in self.decoder.arrays().items()}
        if self.book is not None:
            arrays["book_points"], arrays["book_sizes"] = self.book.points, self.book.sizes
        if self.stepwise is not None:
            arrays["stepwise"] = np.array(list(self.stepwise), np.int64).reshape(-1, 2)
        if self.examples is not None:
            arrays["examples"] = self.examples
        return {**counters, **arrays}

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Read what `arrays` returned."""
        stored = Stored(arrays, "the encoder")
        for name in _COUNTERS:
            setattr(self, name, stored.number(name, 0))
        if "names" in stored:
            rows = stored.take("names", (None, self.n_features), self.dtype)
            stored.finish()
            self.names = {row.tobytes(): code for code, row in enumerate(rows)}
            if len(self.names) > self.size or len(self.names) < len(rows):
                stored.refuse("there are too many names, or one occurs twice")
            return
        self.names = None
        if not any(name.startswith("decoder_") for name in arrays):
            stored.finish()
            return
        decoder = StateDecoder.from_arrays(stored.part("decoder_"))
        book = None
        if "book_points" in stored:
            points = stored.real("book_points", (None, decoder.encoding.map.matrix.shape[1]))
            sizes = stored.real("book_sizes", (len(points),))
            reach = decoder.encoding.codebook
            book = Codebook(points, sizes, reach.radius, reach.slack)
        stepwise: list[tuple[int, int]] = []
        if decoder.encoding.stepwise:
            stepwise = [(c, age) for c, age in stored.whole("stepwise", (None, 2), 0).tolist()]
            if len(set(stepwise)) < len(stepwise):
                stored.refuse("stepwise has a pair twice")
        if "examples" in stored:
            self.examples = stored.take("examples", (None, self.n_features), np.float32)
            if np.isinf(self.examples).any():
                stored.refuse("an example is not finite")
        stored.finish()
        if decoder.encoding.map.matrix.shape[0] != self.n_features:
            stored.refuse(f"its vectors do not have {self.n_features} numbers")
        self._adopt(decoder, book, stepwise)
        if self.n_codes > self.size:
            stored.refuse(f"there are more than {self.size} codes")

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain data."""
        return {"vectors": space_to_json(self.space)}


def _is_idle(steps: Trajectory) -> bool:
    """Whether nothing was at stake so far, so that finding states is all there is to do."""
    return steps.pays_alike and not (steps.next_observations == END).any()


def _is_better(before: StateDecoder, found: StateDecoder, steps: Trajectory) -> bool:
    """Whether the codes in use predict better than those found.

    Where codes lay apart and still do, their space has been tried along with others already. What
    moved the agent to its actions is not told here: that is the codes in use, which would hardly
    ever be given up for finer ones.
    """
    if before.encoding.tells_states and found.encoding.tells_states:
        return False
    part = last_steps(steps, _JUDGED)
    old, new = (score(_codes_seen(decoder, part), part) for decoder in (before, found))
    return old.exceeds(new) > 1


def _codes_seen(decoder: StateDecoder, steps: Trajectory) -> NDArray[np.int64]:
    """Return the codes that an agent would see."""
    encoding = decoder.encoding
    predict = encoding.codes if encoding.tells_states else decoder.predict
    codes = predict(vectors_of(steps))
    return both(codes, steps.ages) if encoding.stepwise else codes
