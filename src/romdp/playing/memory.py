"""What an agent keeps of the vectors that it met, in bounded memory."""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from romdp.core.compiled import kernel
from romdp.core.stored import Stored
from romdp.encoding.steps import UNKNOWN, Steps

_MOST_NUMBERS = 2**27  # that are kept of what was met
_RECENT = 1024  # last rows, which are always kept
_STRETCH = 64  # rows in a row that are kept or dropped together
_PENDING = 64  # last rows among which one may be acted on now: streams take turns

NO_ACTION, ACTING = -1, -2
"""In place of an action: none was chosen there yet; one was, and what came of it is not known."""


@kernel
def _find_waiting(
    vectors: NDArray[Any], actions: NDArray[np.int64], first: int, end: int, vector: NDArray[Any]
) -> int:
    """Return the last of these rows that holds a vector where nothing was chosen yet, or -1."""
    for row in range(end - 1, first - 1, -1):
        if actions[row] == NO_ACTION:
            j = 0
            while j < vector.size and vectors[row, j] == vector[j]:
                j += 1
            if j == vector.size:
                return row
    return -1


class Memory:
    """Vectors that were met, what was done there and what came of it, up to a bound.

    A vector is known by its ticket, the number of vectors met before. When memory is full, every
    other stretch of vectors is forgotten, but never the last ones.

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
        self.tickets = np.zeros(0, np.int64)
        self.vectors = np.zeros((0, n_features), dtype)
        self.actions = np.zeros(0, np.int64)
        self.rewards = np.zeros(0)
        self.following = np.zeros(0, np.int64)  # tickets, or ENDED or UNKNOWN
        self.restart = np.zeros(0, np.int64)  # the ticket that a restart showed
        self.ages = np.zeros(0, np.int64)  # steps of the episode that were over
        self.size = 0

    def add(self, vector: NDArray[Any]) -> int:
        """Keep a vector and return its ticket; one that waits for an action has it already."""
        first = max(0, self.size - _PENDING)
        waiting = _find_waiting(self.vectors, self.actions, first, self.size, vector)
        if waiting >= 0:
            return int(self.tickets[waiting])
        if self.size == self.most:
            self._forget()
        if self.size == len(self.tickets):
            self._grow()
        row = self.size
        self.tickets[row], self.vectors[row] = self.n_met, vector
        self.actions[row], self.following[row] = NO_ACTION, UNKNOWN
        self.restart[row], self.ages[row] = UNKNOWN, 0
        self.size += 1
        self.n_met += 1
        return self.n_met - 1

    def _grow(self) -> None:
        size = min(self.most, max(1024, 2 * len(self.tickets)))
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
        kind = self.vectors.dtype
        self.vectors = stored.take("memory_vectors", (self.size, n_features), kind)
        if not np.isfinite(self.vectors).all():
            stored.refuse("memory_vectors must hold finite numbers")
        self.actions = stored.whole("memory_actions", each, ACTING, n_actions - 1)
        self.rewards = stored.real("memory_rewards", each)
        self.following = stored.whole("memory_following", each, UNKNOWN, last)
        self.restart = stored.whole("memory_restart", each, UNKNOWN, last)
        self.ages = stored.whole("memory_ages", each, 0)

    def rows(self, tickets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row of each ticket, -1 for what was forgotten or is none."""
        known = self.tickets[: self.size]
        at = np.minimum(np.searchsorted(known, tickets), max(0, self.size - 1))
        found: NDArray[np.int64] = np.where((tickets >= 0) & (known[at] == tickets), at, -1)
        return found

    def row(self, ticket: int) -> int:
        """Return the row of one ticket, as `rows` does; an agent asks at every step."""
        row = self.size - self.n_met + ticket  # the last rows have tickets in a row
        if 0 <= row < self.size and self.tickets[row] == ticket:
            return row
        return int(self.rows(np.array([ticket]))[0])

    def begin(self, ticket: int) -> None:
        """Say that an action was chosen at a vector; an equal one that is shown next is new."""
        row = self.row(ticket)
        if row >= 0:
            self.actions[row] = ACTING

    def steps(self, n_actions: int) -> tuple[Steps, NDArray[np.int64]]:
        """Return all steps that are kept, and their rows; those of an episode lie together."""
        rows = np.flatnonzero(self.actions[: self.size] >= 0)
        rows = rows[np.argsort(self._first_rows()[rows], kind="stable")]
        place = np.full(self.size + 1, UNKNOWN)
        place[rows] = np.arange(len(rows))
        tickets = self.following[rows]
        following = np.where(tickets >= 0, place[self.rows(tickets)], tickets)
        steps = Steps(
            self.vectors[rows],
            self.actions[rows],
            self.rewards[rows],
            following,
            n_actions,
            self.ages[rows],
        )
        return steps, rows

    def _first_rows(self) -> NDArray[np.int64]:
        """Return the row where the episode of each row begins, as far as it is kept."""
        after = self.rows(self.following[: self.size])
        first = np.arange(self.size)
        first[after[after >= 0]] = np.flatnonzero(after >= 0)
        while not np.array_equal(first, further := first[first]):
            first = further
        return first


COLUMNS = ("tickets", "vectors", "actions", "rewards", "following", "restart", "ages")
"""The names of what is kept of every vector."""
