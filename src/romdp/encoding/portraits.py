"""What hidden states look like: mean vectors, typical and doubtful members, the state of codes."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romdp.core.formats import Format, index, real, whole
from romdp.core.validation import freeze
from romdp.encoding.moments import Floats, Ints

_MEMBERS = 4  # of each kind that are kept
_MOST_NUMBERS = 2**21  # that are kept of all members

PORTRAITS = Format(
    "portraits",
    rows=whole("states", 0),
    certainty=real("states", 0.0),
    means=real("states shown"),
    spread=real("shown", 0.0),
    typical=real("states members shown"),
    doubtful=real("states members shown"),
    state_of_code=index("codes", of="states"),
)


@dataclass(frozen=True, eq=False)
class Portraits:
    """What is kept of vectors to show the states behind them.

    Attributes
    ----------
    rows
        How many vectors of each state were looked at, shape (n_states,).
    certainty
        How sure their states are on average, shape (n_states,).
    means
        The mean vector of each state, shape (n_states, d).
    spread
        The standard deviation of every number over all vectors, shape (d,).
    typical, doubtful
        The members of each state nearest to its mean, and those placed least surely: shape
        (n_states, members, d). Where there are fewer, they repeat.
    state_of_code
        The state that most vectors of each code belong to, shape (n_codes,).
    """

    rows: Ints
    certainty: Floats
    means: Floats
    spread: Floats
    typical: Floats
    doubtful: Floats
    state_of_code: Ints

    @classmethod
    def of(
        cls,
        vectors: NDArray[Any],
        states: Ints,
        certainty: Floats,
        codes: Ints,
        n_states: int,
        n_codes: int,
    ) -> Self:
        """Take portraits from vectors whose states and codes are known."""
        d = vectors.shape[1]
        shown = vectors.astype(np.float64)
        spread = shown.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        most = min(_MEMBERS, max(1, _MOST_NUMBERS // max(1, 2 * n_states * d)))
        means = np.zeros((n_states, d))
        typical, doubtful = np.zeros((2, n_states, most, d))
        rows = np.bincount(states, minlength=n_states)
        for state in np.flatnonzero(rows):
            mine = np.flatnonzero(states == state)
            means[state] = shown[mine].mean(axis=0)
            far = (((shown[mine] - means[state]) / scale) ** 2).sum(axis=1)
            different = mine[np.unique(far, return_index=True)[1]]  # the nearest first
            typical[state] = shown[np.resize(different[:most], most)]
            order = np.argsort(certainty[different], kind="stable")[:most]
            doubtful[state] = shown[np.resize(different[order], most)]
        table = np.zeros((n_codes, n_states))
        np.add.at(table, (codes, states), 1.0)
        sure = np.bincount(states, certainty, n_states) / np.maximum(rows, 1)
        return cls(
            freeze(rows),
            freeze(sure),
            freeze(means),
            freeze(spread),
            freeze(typical),
            freeze(doubtful),
            freeze(table.argmax(axis=1)),
        )
