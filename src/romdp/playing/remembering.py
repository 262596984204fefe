"""Histories in, codes out: what to remember is learned while an agent plays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.histories import learn_memory
from romdp.core.arrays import Ints
from romdp.core.randomness import Seed
from romdp.data.partition import Partition
from romdp.data.trajectory import UNKNOWN, Trajectory
from romdp.encoding.observations import ObservationEncoder
from romdp.encoding.remembered import RememberedCodes
from romdp.playing.replay import Replay
from romdp.playing.vector_encoder import FIRST, GROWTH, VectorEncoder

_NOWHERE = (-1, -1)


class RememberingEncoder(RememberedCodes):
    """Codes that look back, learned from what an agent meets; see `RememberedCodes`.

    Attributes
    ----------
    due
        The step from which on it is asked again what to remember.
    """

    def __init__(self, inner: ObservationEncoder, limit: int | None) -> None:
        super().__init__(inner, limit)
        self.vectors = inner if isinstance(inner, VectorEncoder) else None
        self.n_features = 1 if self.vectors is None else self.vectors.n_features
        self.dtype = np.dtype(np.int64) if self.vectors is None else self.vectors.dtype
        self.due = FIRST
        self._states: Ints = np.zeros(0, np.int64)  # of the rows that are kept

    def read(self, observation: Any) -> NDArray[Any]:
        """Check an observation; returns the row that is kept of it: a vector, or its number."""
        seen = self.inner.read(observation)
        return np.asarray(seen if self.vectors is not None else [self.inner.code(seen)])

    def code(self, seen: Any, age: int = 0, before: tuple[int, int] = _NOWHERE) -> int:
        """Return the code of what was read after a state and an action, -1 for none."""
        code = int(seen[0]) if self.vectors is None else self.vectors.code(seen, age)
        return code if code == UNKNOWN else self.step(code, before)

    @property
    def known(self) -> bool:
        """Whether there are codes."""
        return self.vectors is None or self.vectors.known

    @property
    def tells_states(self) -> bool:
        """Whether each code is a state already."""
        return self.machine is not None or (self.vectors is not None and self.vectors.tells_states)

    def join(self, seen: NDArray[Any]) -> None:
        """Let the inner codes follow what was acted on."""
        if self.vectors is not None:
            self.vectors.join(seen)

    def find_examples(self, replay: Replay) -> None:
        """Find typical vectors of the inner codes."""
        if self.vectors is not None:
            self.vectors.find_examples(replay)

    def is_in_the_dark(self, step: int) -> bool:
        """Whether so many steps have taught nothing of what is seen."""
        return self.inner.is_in_the_dark(step)

    def reconsider(
        self, replay: Replay, step: int, n_actions: int, seed: Seed, partition: Partition
    ) -> bool:
        """Look whether codes must change, if it is time; says whether they did.

        ``partition`` groups the codes in use.
        """
        changed = self.vectors is not None and self.vectors.reconsider(
            replay, step, n_actions, seed
        )
        if step < self.due and not changed:
            return False
        self.due = max(self.due, int(GROWTH * step) + 1)
        had, self.machine = self.machine, None
        seen = self._inner_steps(replay, n_actions)
        if seen is not None and seen.lengths.max() > 1:
            groups = partition if had is None and not changed else None
            if groups is not None:
                groups = Partition(groups.labels[: self.inner.size])
            limit = None if self.limit is None else min(self.limit, int(seen.lengths.max()) - 1)
            self.machine = learn_memory(seen, limit, groups, self.size if limit else None)
        if self.machine is not None and self.machine.n_states > self.size:
            self.machine = None
        return changed or had is not None or self.machine is not None

    def recode(self, replay: Replay, n_actions: int) -> Trajectory | None:
        """Return all that is kept under the present codes; None where there are none."""
        seen = self._inner_steps(replay, n_actions)
        if seen is None or self.machine is None:
            return seen if seen is None else seen.changed(n_observations=self.size)
        found = self.machine.over(seen)
        self._states = np.full(replay.size, -1)
        self._states[replay.steps(n_actions)[1]] = found.observations
        return found.changed(n_observations=self.size)

    def before(self, replay: Replay, number: int) -> tuple[int, int]:
        """Return the state and the action of a step that is kept, by its number."""
        row = replay.row(number) if number >= 0 else -1
        if self.machine is None or not 0 <= row < len(self._states):
            return _NOWHERE
        return int(self._states[row]), int(replay.actions[row])

    def _inner_steps(self, replay: Replay, n_actions: int) -> Trajectory | None:
        if self.vectors is not None:
            return self.vectors.recode(replay, n_actions)
        if not (replay.actions[: replay.size] >= 0).any():
            return None
        steps, rows, final = replay.steps(n_actions)
        codes = np.append(replay.vectors[: replay.size, 0], UNKNOWN)
        seen = steps.encoded(codes[rows], self.inner.size)
        return seen.changed(final_observations=codes[final])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return what a file must hold."""
        return {**super().arrays(), "due": np.array(self.due, np.int64)}

    def restore(self, arrays: Any) -> None:
        """Read what `arrays` returned."""
        rest = dict(arrays)
        self.due = int(rest.pop("due"))
        super().restore(rest)
