"""Check that the rows of every episode come in order."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.logs.reading.columns import Place
from romdp.logs.reading.episodes import grown
from romdp.logs.reading.linking import out_of_order
from romdp.logs.reading.names import Ints

_NOTHING: NDArray[Any] = np.empty(0, np.int64)


class Orders:
    """The first and the last place of every episode so far, in the column of the order."""

    def __init__(self, column: str) -> None:
        self.column = column
        self._begun = np.zeros(0, np.bool_)
        self._first, self._last = _NOTHING, _NOTHING

    def check(self, who: Ints, order: NDArray[Any], n_episodes: int, place: Place) -> None:
        """Refuse a row that does not come after its predecessor."""
        self._make_room(n_episodes, order.dtype)
        row = out_of_order(who, order, self._begun, self._first, self._last)
        if row >= 0:
            same = order[row] == self._last[who[row]]
            raise place.error(row, self.column, disorder(same))

    def _make_room(self, n_episodes: int, dtype: np.dtype[Any]) -> None:
        if not len(self._first):
            self._first, self._last = np.empty(0, dtype), np.empty(0, dtype)
        self._begun = grown(self._begun, n_episodes, 0)
        self._first = grown(self._first, n_episodes, 0)
        self._last = grown(self._last, n_episodes, 0)

    def join(self, other: "Orders", episodes: Ints, label: str) -> None:
        """Go on with the next stretch, whose episodes have these numbers here."""
        begun = np.flatnonzero(other._begun[: len(episodes)])
        if not len(begun):
            return
        here, first = episodes[begun], other._first[begun]
        self._make_room(int(here.max()) + 1, first.dtype)
        both = self._begun[here]
        bad = both & ~(first > self._last[here])
        if bad.any():
            at = int(np.argmax(bad))
            same = first[at] == self._last[here[at]]
            raise InvalidInputError(
                f"an episode goes on in {label}, column {self.column!r}: {disorder(same)}"
            )
        self._first[here[~both]] = first[~both]
        self._last[here] = other._last[begun]
        self._begun[here] = True


def disorder(same: bool) -> str:
    """Say in words that a row is out of order, or has the same place as another."""
    if same:
        return (
            "the same value came before in this episode: a duplicate row? Remove duplicates, or "
            "name a column that tells the rows apart"
        )
    return (
        "a larger value came before in this episode, so the rows are not in order; sort them, or "
        "pass sort=True (on the command line --sort)"
    )
