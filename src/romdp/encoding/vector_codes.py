"""Vectors and pictures in, codes out, as far as that was learned.

Vectors may repeat exactly: then each is a name. Otherwise a decoder says which code a vector has.
Where vectors do not show the step of the episode although it matters, there is a code for every
step.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from romdp.core.arrays import Ints
from romdp.core.errors import InvalidInputError
from romdp.core.formats import Format, exact, optional, part, real, whole
from romdp.core.validation import check_memory
from romdp.data.trajectory import UNKNOWN
from romdp.encoding.codebook import Codebook
from romdp.encoding.decoder import StateDecoder
from romdp.encoding.observations import (
    ObservationEncoder,
    flattened,
    is_batch,
    length,
    space_to_json,
    stacked,
)

_CAPACITY = 2**13  # codes
_YOUNG = 20  # vectors below which the mean of a code still moves
_SHORT = 6  # numbers of a vector that its name can hold


class VectorCodes(ObservationEncoder):
    """Codes for vectors, pictures, and what Gymnasium flattens to a vector.

    `romdp.playing.vector_encoder.VectorEncoder` learns them.

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
        A typical vector of what vectors are by themselves, NaN where none was met lately; None if
        vectors are named.
    """

    size = _CAPACITY
    learns = True
    counters: tuple[str, ...] = ()  # numbers that a kind of these codes keeps beside

    def __init__(self, space: Any) -> None:
        flat = spaces.flatten_space(space)
        if not isinstance(flat, spaces.Box):
            raise InvalidInputError(f"the observation space {space} cannot be flattened to numbers")
        self.space = space
        self.n_features = int(np.prod(flat.shape))
        if self.n_features == 0:
            raise InvalidInputError(f"there are no numbers in the observation space {space}")
        check_memory("observations of the space", 2, self.n_features)
        whole = np.issubdtype(flat.dtype, np.integer)
        self.dtype = np.dtype(flat.dtype if whole else np.float32)
        self.names: dict[bytes, int] | None = {}
        self.decoder: StateDecoder | None = None
        self.book: Codebook | None = None
        self.stepwise: dict[tuple[int, int], int] | None = None
        self.examples: NDArray[np.float32] | None = None

    def read(self, observation: Any) -> NDArray[Any]:
        """Turn an observation into a vector of finite numbers."""
        vector: NDArray[Any] = self._rows(observation, single=True)[0]
        return vector

    def _rows(self, given: Any, *, single: bool) -> NDArray[Any]:
        """Turn an observation, or a batch of them, into rows of finite numbers."""
        dtype = self.dtype
        try:
            batch = given if single else stacked(self.space, given)
            parts = flattened(self.space, batch, 1 if single else length(self.space, batch))
            if parts.dtype.kind not in "biuf":
                raise ValueError(f"it holds {parts.dtype} entries")
            with np.errstate(all="ignore"):  # what does not fit is refused below
                rows = parts.astype(dtype)
            if dtype.kind != "f" and not np.array_equal(rows, parts):
                raise ValueError(f"{dtype} cannot hold some of its numbers")
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError) as error:
            raise InvalidInputError(f"observation is not in {self.space}: {error}") from error
        if rows.shape[1] != self.n_features:
            raise InvalidInputError(
                f"observation has {rows.shape[1]} numbers; {self.space} has {self.n_features}"
            )
        if not np.isfinite(rows).all():
            row, at = np.argwhere(~np.isfinite(rows))[0]
            where = "" if single else f"s[{row}]"
            raise InvalidInputError(
                f"number {at} of the observation{where} is {parts[row, at]}; every number must be "
                f"finite and fit into {dtype}"
            )
        return rows + rows.dtype.type(0)  # no negative zeros: equal vectors have equal bytes

    def code(self, seen: NDArray[Any], age: int = 0) -> int:
        """Return the code of a vector, `UNKNOWN` until there are codes.

        One that is far from all codes opens a new one.
        """
        return self.at_step(self._code(seen), age) if self.known else UNKNOWN

    def find_all(self, observations: Any, ages: Any = 0) -> tuple[Ints, bool]:
        """Return the codes of a batch or of a single observation; nothing is learned by asking."""
        single = not is_batch(self.space, observations)
        rows = self._rows(observations, single=single)
        if self.names is not None:
            codes = [self.names.get(row.tobytes(), -1) for row in rows]
        elif self.decoder is None or not len(rows):
            codes = [-1] * len(rows)
        elif self.stepwise is None:
            return self.codes(rows), single
        else:
            pairs = zip(
                self.codes(rows).tolist(), np.broadcast_to(ages, len(rows)).tolist(), strict=True
            )
            codes = [self.stepwise.get(pair, -1) for pair in pairs]
        return np.array(codes, np.int64), single

    def codes(self, vectors: NDArray[Any]) -> Ints:
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

    @property
    def tells_states(self) -> bool:
        """Whether each code is a state already: codes lie apart, or tell the step."""
        return self.book is not None or self.stepwise is not None

    @property
    def depends_on_step(self) -> bool:
        """Whether there is a code for every step of the episode."""
        return self.stepwise is not None

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

    def snapshot(self) -> "VectorCodes":
        """Return the encoder as it is now, for a policy."""
        copy = VectorCodes(self.space)
        if self.names is None:
            copy.adopt(self.decoder, self.book, self.stepwise or ())
            copy.examples = self.examples
        else:
            copy.names = dict(self.names)
        return copy

    def _format(self) -> Format:
        book = Format("codes", points=real("points *"), sizes=real("points"))
        return Format(
            "encoder",
            names=optional(exact(self.dtype, "names features")),
            decoder=part(StateDecoder.from_arrays),
            book=part(format=book),
            stepwise=optional(whole("pairs 2", 0)),
            examples=optional(exact(np.float32, "* features")),
            **{name: whole(low=0) for name in self.counters},
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return names, or the decoder and the codes that were opened, for a file."""
        kept = vars(self) | {"names": None, "stepwise": None}
        if self.names is not None:
            joined = np.frombuffer(b"".join(self.names), self.dtype)
            kept |= {"names": joined.reshape(-1, self.n_features)}
        elif self.stepwise is not None:
            kept |= {"stepwise": np.array(list(self.stepwise), np.int64).reshape(-1, 2)}
        return self._format().pack(kept)[0]

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Read what `arrays` returned."""
        form = self._format()
        found = form.read(arrays, features=self.n_features)
        for name in self.counters:
            setattr(self, name, found[name])
        rows, decoder, examples = found["names"], found["decoder"], found["examples"]
        self.names = None if rows is None else {row.tobytes(): i for i, row in enumerate(rows)}
        learned = [name for name in ("book", "stepwise", "examples") if found[name] is not None]
        if (decoder is None and learned) or (rows is not None and decoder is not None):
            raise form.damaged("vectors have names, or a decoder with what it has learned")
        if rows is not None and not len(rows) == len(self.names or ()) <= self.size:
            raise form.damaged("there are too many names, or one occurs twice")
        if decoder is None:
            return
        matrix, reach = decoder.encoding.map.matrix, decoder.encoding.codebook
        if matrix.shape[0] != self.n_features:
            raise form.damaged(f"its vectors do not have {self.n_features} numbers")
        book = None
        if found["book"] is not None:
            book = Codebook(**found["book"], radius=reach.radius, slack=reach.slack)
            if book.points.shape[1] != matrix.shape[1]:
                raise form.damaged("its codes are not in the space of the decoder")
        pairs = [] if found["stepwise"] is None else found["stepwise"].tolist()
        stepwise = [(code, age) for code, age in pairs]
        if len(set(stepwise)) < len(stepwise):
            raise form.damaged("stepwise has a pair twice")
        if examples is not None and np.isinf(examples).any():
            raise form.damaged("an example is not finite")
        self.examples = examples
        self.adopt(decoder, book, stepwise)
        if self.n_codes > self.size:
            raise form.damaged(f"there are more than {self.size} codes")

    def to_dict(self) -> dict[str, Any]:
        """Return the space as plain data."""
        return {"vectors": space_to_json(self.space)}
