"""Histories in, codes out: states of a machine over the codes of another encoder."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Ints
from romdp.core.formats import Format, part
from romdp.encoding.memory import Memory
from romdp.encoding.observations import ObservationEncoder

_MOST_STATES = 2**9  # of a machine; an agent makes room for them from the start
_FORMAT = Format("encoder", inner=part(), machine=part(Memory.from_arrays))


class RememberedCodes(ObservationEncoder):
    """Codes that tell what was seen before as well.

    Parameters
    ----------
    inner
        From observations to the codes that a machine reads.
    limit
        How many states back a state may look; None for no limit.

    Attributes
    ----------
    machine
        The state after a step, which is the code then; None as long as nothing is remembered, and
        codes are those of ``inner``.
    """

    def __init__(self, inner: ObservationEncoder, limit: int | None) -> None:
        self.inner, self.limit = inner, limit
        self.machine: Memory | None = None
        self.size = inner.size + _MOST_STATES
        self.learns = inner.learns

    @property
    def depends_on_step(self) -> bool:
        """Whether the same observation has another code at another step of the episode."""
        return self.inner.depends_on_step

    def read(self, observation: Any) -> Any:
        """Check an observation."""
        return self.inner.read(observation)

    def code(self, seen: Any, age: int = 0) -> int:
        """Return the code at an episode's start."""
        return self.step(self.inner.code(seen, age), (-1, -1))

    def step(self, code: int, before: tuple[int, int]) -> int:
        """Return what a code of ``inner`` is after a state and an action, -1 for none."""
        return code if self.machine is None else self.machine.step(*before, code)

    def find_all(self, observations: Any, ages: Any = 0) -> tuple[Ints, bool]:
        """Return the codes of a sequence from an episode's start; what was done is not known."""
        codes, single = self.inner.find_all(observations, ages)
        if self.machine is not None:
            codes = np.where(codes < 0, -1, self.machine.run(codes))
        return codes, single

    def name(self, code: int) -> str:
        """Return what has a code."""
        return self.inner.name(code) if self.machine is None else f"state {code}"

    def example(self, code: int) -> NDArray[Any] | None:
        """Return a vector with a code, where nothing is remembered."""
        return self.inner.example(code) if self.machine is None else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"remembered": self.inner.to_dict(), "memory": self.limit}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the machine, and what the inner encoder has learned."""
        return _FORMAT.pack(self)[0]

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Read what `arrays` returned."""
        found = _FORMAT.read(arrays)
        self.inner.restore(found["inner"] or {})
        self.machine = found["machine"]
        if self.machine is not None and self.machine.n_states > self.size:
            raise _FORMAT.damaged(f"there are more than {self.size} states")

    def snapshot(self) -> "RememberedCodes":
        """Return the encoder as it is now, for a policy."""
        copy = RememberedCodes(self.inner.snapshot(), self.limit)
        copy.machine = self.machine
        return copy
