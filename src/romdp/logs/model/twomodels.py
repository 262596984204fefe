"""How two models of logs differ, such as last month's and a refit."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from romdp.core.errors import InvalidInputError
from romdp.core.text import count

if TYPE_CHECKING:
    from romdp.logs.model.latent import LatentModel


@dataclass(frozen=True, eq=False)
class Comparison:
    """How a second model differs from a first one.

    Attributes
    ----------
    shared : int
        Observations that both have.
    matched : ndarray of int64
        The state of the second that each state of the first became; -1 for none.
    agreement : float
        The share of the steps of both, at shared observations, in states that belong together.
    moved : tuple
        Shared observations that are in another state now, those seen most first.
    acts : tuple
        Shared observations at which `act` answers something else, those seen most first.
    n_states, logged, lower : tuple
        Of both: the number of states, what the log earns in the model, and ``value_lower``.
    """

    shared: int
    matched: NDArray[np.int64]
    agreement: float
    moved: tuple[object, ...]
    acts: tuple[object, ...]
    n_states: tuple[int, int]
    logged: tuple[float, float]
    lower: tuple[float, float]

    def __str__(self) -> str:
        shown = {"moved": self.moved, "act": self.acts}
        listed = {
            name: f" ({', '.join(map(repr, some[:3]))}{', ...' * (len(some) > 3)})" * bool(some)
            for name, some in shown.items()
        }
        return "\n".join(
            [
                f"{self.n_states[0]} and {self.n_states[1]} hidden states; both have "
                f"{count(self.shared, 'observation')}, {self.agreement:.1%} of whose steps are in "
                "states that belong together",
                f"in another state: {count(len(self.moved), 'observation')}{listed['moved']}",
                f"act differs at {count(len(self.acts), 'observation')}{listed['act']}",
                f"the log earns {self.logged[0]:.4g} and {self.logged[1]:.4g}; act earns at least "
                f"{self.lower[0]:.4g} and {self.lower[1]:.4g}",
            ]
        )


def compare(first: "LatentModel", second: "LatentModel") -> Comparison:
    """Compare two models; see `LatentModel.compare`."""
    if not (first.named and second.named):
        raise InvalidInputError("only models whose observations have names can be compared")
    places = {name: i for i, name in enumerate(second.observation_names)}
    both = [i for i, name in enumerate(first.observation_names) if name in places]
    here = np.array(both, np.int64)
    there = np.array([places[first.observation_names[i]] for i in both], np.int64)
    s, t = first.partition.labels[here], second.partition.labels[there]
    steps = first.visits[here] + second.visits[there]
    table = np.zeros((first.n_states, second.n_states))
    placed = (s >= 0) & (t >= 0)
    np.add.at(table, (s[placed], t[placed]), steps[placed])
    rows, columns = linear_sum_assignment(-table)
    matched = np.full(first.n_states, -1)
    matched[rows] = np.where(table[rows, columns] > 0, columns, -1)
    moved = np.append(matched, -1)[s] != t
    numbers = {name: a for a, name in enumerate(first.action_names)}
    renamed = np.array([*(numbers.get(name, -2) for name in second.action_names), -1])
    acts = first.judged.asked[here] != renamed[second.judged.asked[there]]

    def seen_most(which: NDArray[np.bool_]) -> tuple[object, ...]:
        found = np.flatnonzero(which)
        found = found[np.argsort(-steps[found], kind="stable")]
        return tuple(first.observation_names[i] for i in here[found])

    models = first, second
    return Comparison(
        len(both),
        matched,
        float(steps[~moved].sum() / max(1, steps.sum())),
        seen_most(moved),
        seen_most(acts),
        (first.n_states, second.n_states),
        (first.judged.logged_value, second.judged.logged_value),
        (models[0].value_lower, models[1].value_lower),
    )
