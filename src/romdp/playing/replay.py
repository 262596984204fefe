"""What is kept of the vectors that an agent met, in bounded memory."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from romdp.core.arrays import Ints
from romdp.core.formats import Format, exact, index, real, whole
from romdp.core.storage import Arrays
from romdp.data.trajectory import Trajectory

_MOST_NUMBERS = 2**27  # that are kept of what was met
_RECENT = 1024  # last rows, which are always kept
_STRETCH = 64  # rows in a row that are kept or dropped together

NO_ACTION = -1
"""In place of an action: what was done there, and what came of it, is not known yet."""

GOES_ON, ENDED, CUT = range(3)
"""Whether the episode went on after a step, ended with it, or was cut."""

COLUMNS = ("numbers", "vectors", "actions", "rewards", "over", "before", "streams", "ages")
"""The names of what is kept of every vector."""


class Replay:
    """Vectors that were met, what was done there and what came of it, up to a bound.

    A step has a number, how many were met before. When memory is full, every other stretch of steps
    is forgotten, but never the last ones.

    Parameters
    ----------
    n_features
        The length of a vector.
    dtype
        How its numbers are kept: pictures stay as small as they are.
    """

    def __init__(self, n_features: int, dtype: DTypeLike = np.float32) -> None:
        self.most = max(4 * _RECENT, _MOST_NUMBERS // n_features)
        self.n_met = 0
        self.size = 0
        self.numbers = np.zeros(0, np.int64)
        self.vectors = np.zeros((0, n_features), dtype)
        self.actions = np.zeros(0, np.int64)
        self.rewards = np.zeros(0)
        self.over = np.zeros(0, np.int64)  # GOES_ON, ENDED or CUT
        self.before = np.zeros(0, np.int64)  # the number of the step before, -1 at the start
        self.streams = np.zeros(0, np.int64)
        self.ages = np.zeros(0, np.int64)  # steps of the episode that were over

    def see(self, vector: NDArray[Any], stream: int = 0, age: int = 0, before: int = -1) -> int:
        """Keep what is seen and return its number.

        ``before`` is the number of the step that led here, -1 where an episode begins.
        """
        if self.size == self.most:
            self._forget()
        if self.size == len(self.numbers):
            self._grow()
        row = self.size
        self.numbers[row], self.vectors[row] = self.n_met, vector
        self.actions[row], self.over[row], self.before[row] = NO_ACTION, GOES_ON, before
        self.streams[row], self.ages[row] = stream, age
        self.size += 1
        self.n_met += 1
        return self.n_met - 1

    def finish(self, number: int, action: int, reward: float, over: int) -> None:
        """Say what was done there and what came of it; ``over`` is GOES_ON, ENDED or CUT."""
        row = self.row(number)
        if row >= 0:
            self.actions[row], self.rewards[row], self.over[row] = action, reward, over

    def _grow(self) -> None:
        size = min(self.most, max(1024, 2 * len(self.numbers)))
        for name in COLUMNS:
            old = getattr(self, name)
            new = np.zeros((size, *old.shape[1:]), old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def _forget(self) -> None:
        rows = np.arange(self.size)
        kept = ((rows // _STRETCH) % 2 == 0) | (rows >= self.size - _RECENT)
        for name in COLUMNS:
            column = getattr(self, name)
            column[: kept.sum()] = column[: self.size][kept]
        self.size = int(kept.sum())

    def _format(self) -> Format:
        return Format(
            "replay",
            met=whole(low=0),
            numbers=index("kept", of="met"),
            vectors=exact(self.vectors.dtype, "kept features"),
            actions=index("kept", of="n_actions", none=True),
            rewards=real("kept"),
            over=whole("kept", GOES_ON, CUT),
            before=index("kept", of="met", none=True),
            streams=whole("kept", 0),
            ages=whole("kept", 0),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that a file must hold."""
        kept = {name: getattr(self, name)[: self.size] for name in COLUMNS}
        return self._format().pack({**kept, "met": self.n_met})[0]

    def restore(self, arrays: Arrays, n_actions: int) -> None:
        """Take everything from a file, which may be damaged."""
        form, met = self._format(), int(arrays.get("met", np.array(0)))
        sizes = {"met": met, "features": self.vectors.shape[1], "n_actions": n_actions}
        found = form.read(arrays, **sizes)
        faults = {
            "numbers do not rise, or are too many": (np.diff(found["numbers"]) <= 0).any()
            or len(found["numbers"]) > self.most,
            "vectors must hold finite numbers": not np.isfinite(found["vectors"]).all(),
            "before names a step that came later": (found["before"] >= found["numbers"]).any(),
        }
        form.refuse(faults)
        self.n_met, self.size = met, len(found["numbers"])
        for name in COLUMNS:
            setattr(self, name, found[name])

    def rows(self, numbers: Ints) -> Ints:
        """Return the row of each number, -1 for what was forgotten or is none."""
        known = self.numbers[: self.size]
        at = np.minimum(np.searchsorted(known, numbers), max(0, self.size - 1))
        found: Ints = np.where((numbers >= 0) & (known[at] == numbers), at, -1)
        return found

    def row(self, number: int) -> int:
        """Return the row of one number, as `rows` does; an agent asks at every step."""
        row = self.size - self.n_met + number  # the last rows have numbers in a row
        if 0 <= row < self.size and self.numbers[row] == number:
            return row
        return int(self.rows(np.array([number]))[0])

    def steps(self, n_actions: int) -> tuple[Trajectory, Ints, Ints]:
        """Return the steps that are kept, by episodes, as far as these are kept.

        Returns
        -------
        steps
            A trajectory of vectors.
        rows
            The row of each step.
        final
            The row that each episode's last step led to, -1 where nobody has acted there.
        """
        acted = np.flatnonzero(self.actions[: self.size] >= 0)
        rows = acted[np.argsort(self.streams[acted], kind="stable")]
        numbers = self.numbers[rows]
        follows = np.append(False, self.before[rows[1:]] == numbers[:-1])
        starts = np.flatnonzero(~follows)
        last = np.append(starts[1:], len(rows)) - 1
        waiting = np.flatnonzero(self.actions[: self.size] == NO_ACTION)
        led_from = self.rows(self.before[waiting])
        final_of_row = np.full(self.size + 1, -1)
        final_of_row[led_from[led_from >= 0]] = waiting[led_from >= 0]
        seen = Trajectory(
            self.vectors[rows],
            self.actions[rows],
            self.rewards[rows],
            last - starts + 1,
            terminated=self.over[rows[last]] == ENDED,
            n_actions=n_actions,
        )
        return seen.changed(ages=self.ages[rows]), rows, final_of_row[rows[last]]
