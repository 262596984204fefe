"""Codes for vectors: where a space of numbers becomes codes.

`VectorCodes` keeps what is met (a bounded part of it). Vectors of whole numbers, such as pictures,
may repeat exactly: then each is a name, until they prove not to repeat. Otherwise a decoder that
`romdp.playing.vectors` learns says which code a vector has. Where vectors do not show the step of
the episode although it matters, there is a code for every step.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.stored import Stored
from romdp.encoding.codebook import Codebook
from romdp.encoding.decoder import StateDecoder
from romdp.playing.memory import Memory
from romdp.playing.spaces import Codes, space_to_json

_CAPACITY = 2**13  # codes
_YOUNG = 20  # vectors below which the mean of a code still moves
_SHORT = 6  # numbers of a vector that its name can hold
_NEW = 0.9  # share of different vectors from which on they do not repeat
_LOOKED_AT, _MOST_LOOKED_AT = 2**24, 20_000  # numbers, and last vectors: examples are among them


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
    stepwise
        The number of every pair (what a vector is by itself, step of the episode) that was met,
        while those are the codes; else None.
    examples
        In the codes of a policy: a typical vector of what vectors are by themselves, NaN where
        none was met lately; None if vectors are named.
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
        self.stepwise: dict[tuple[int, int], int] | None = None
        self.examples: NDArray[np.float32] | None = None
        self._last = (-1, -1, -1)  # the last ticket asked for, its code by itself and at its step

    def flatten(self, observation: Any) -> NDArray[Any]:
        """Turn an observation into a vector of finite numbers."""
        dtype = self.memory.vectors.dtype
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
        return vector

    def encode(self, observation: Any) -> int:
        """Keep what is seen and return its ticket, which a `VectorState` understands."""
        return self.memory.add(self.flatten(observation))

    def find(self, observation: Any, step: int = 0) -> int:
        """Return the code; nothing is learned by asking."""
        vector = self.flatten(observation)
        if self.names is not None:
            return self.names.get(vector.tobytes(), -1)
        if self.decoder is None:
            return -1
        code = int(self.codes(vector[None])[0])
        return code if self.stepwise is None else self.stepwise.get((code, step), -1)

    def codes(self, vectors: NDArray[Any]) -> NDArray[np.int64]:
        """Return what vectors are by themselves, whatever the step, by the decoder."""
        assert self.decoder is not None
        if self.book is None:
            return self.decoder.predict(vectors)
        return self.book.nearest(self.decoder.encoding.map(vectors))[0]

    def code(self, ticket: int) -> int:
        """Return the code of a vector that was met; one far from all codes opens a new one."""
        return self._look_up(ticket)[2]

    def _look_up(self, ticket: int) -> tuple[int, int, int]:
        if ticket != self._last[0]:
            row = self.memory.row(ticket)
            code = self._code(self.memory.vectors[row : row + 1])
            self._last = ticket, code, self.at_step(code, int(self.memory.ages[row]))
        return self._last

    def at_step(self, code: int, age: int) -> int:
        """Return the code, a new one perhaps, of what a vector is at a step of the episode."""
        if self.stepwise is None:
            return code
        return self.stepwise.setdefault((code, age), min(len(self.stepwise), self.size - 1))

    def set_age(self, ticket: int, age: int) -> None:
        """Say how many steps of the episode were over when a vector was met."""
        row = self.memory.row(ticket)
        if row >= 0 and self.memory.ages[row] != age:
            self.memory.ages[row] = age
            if ticket == self._last[0]:
                self._last = (-1, -1, -1)

    def _code(self, vector: NDArray[Any]) -> int:
        if self.names is not None:
            new = min(len(self.names), self.size - 1)
            return self.names.setdefault(vector.tobytes(), new)
        assert self.decoder is not None
        if self.book is None:
            return int(self.decoder.predict(vector)[0])
        (place,) = self.decoder.encoding.map(vector)
        nearest, inside = self.book.place(place)
        if inside or self.book.n_codes == self.size:
            return nearest
        self.book = self.book.grown(place)
        return self.book.n_codes - 1

    def join(self, row: int, ticket: int) -> None:
        """Let the mean of a code follow its first vectors; this row of the memory is one."""
        if self.book is None or self.decoder is None:
            return
        code = self._look_up(ticket)[1]
        if self.book.sizes[code] < _YOUNG:
            space = self.decoder.encoding.map(self.memory.vectors[row : row + 1])
            self.book = self.book.joined(code, space[0])

    def codes_in_memory(self) -> NDArray[np.int64]:
        """Return `codes` of all that is kept, after opening some for what is far from all codes."""
        rows = self.memory.vectors[: self.memory.size]
        if self.book is not None and self.decoder is not None:
            space = self.decoder.encoding.map(rows)
            codes, distances = self.book.nearest(space)
            far = space[~self.book.covers(codes, distances)]
            if not len(far):
                return codes
            self.book = self.book.extended(far, self.size)
            return self.book.nearest(space)[0]
        return self.codes(rows)

    @property
    def depend_on_step(self) -> bool:
        """Whether there is a code for every step of the episode."""
        return self.stepwise is not None

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
        if self.stepwise is not None:
            return min(len(self.stepwise), self.size)
        if self.book is not None:
            return self.book.n_codes
        return 0 if self.decoder is None else self.decoder.n_states

    def adopt(
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
        self._last = (-1, -1, -1)
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
            return np.frombuffer(found[0], self.memory.vectors.dtype) if found else None
        if self.examples is None or code >= len(self.examples):
            return None
        vector = self.examples[code]
        return None if np.isnan(vector[0]) else vector

    def _find_examples(self) -> NDArray[np.float32]:
        """Take the vector nearest to the mean of each code, among the last ones met."""
        most = min(_MOST_LOOKED_AT, max(256, _LOOKED_AT // self.n_features))
        rows = self.memory.vectors[max(0, self.memory.size - most) : self.memory.size]
        codes = self.codes(rows) if len(rows) else np.zeros(0, np.int64)
        found = np.full((int(codes.max(initial=-1)) + 1, self.n_features), np.nan, np.float32)
        for code in np.unique(codes):
            mine = rows[codes == code].astype(np.float64)
            far = ((mine - mine.mean(axis=0)) ** 2).sum(axis=1)
            found[code] = mine[far.argmin()]
        return found

    def snapshot(self) -> "VectorCodes":
        """Return codes as they are now, for a policy; of what was met they keep examples."""
        copy = VectorCodes(self.space)
        if self.names is None:
            copy.adopt(self.decoder, self.book, self.stepwise or ())
            if self.decoder is not None:
                copy.examples = self._find_examples() if self.memory.size else self.examples
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
        if self.stepwise is not None:
            arrays["stepwise"] = np.array(list(self.stepwise), np.int64).reshape(-1, 2)
        if self.examples is not None:
            arrays["examples"] = self.examples
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
        self.adopt(decoder, book, stepwise)
        if self.n_codes > self.size:
            stored.refuse(f"there are more than {self.size} codes")

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain data."""
        return {"vectors": space_to_json(self.space)}
