"""What the paper assumes of a world, decided exactly, and the constants its bounds are made of."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import StructureError
from romdp.core.text import html_table, plain
from romdp.exact.chains import Mixing
from romdp.exact.hitting import can_avoid, has_periodic_policy, hitting_times
from romdp.exact.mdp import MDP


@dataclass(frozen=True)
class Assumptions:
    """The answer of `ROMDP.assumptions`; prints as a table.

    Attributes
    ----------
    ergodic
        `asm:ergodicity`: every policy's hidden chain is irreducible and aperiodic. None if all are
        irreducible and aperiodicity was not decided.
    ergodic_why
        How that was decided.
    full_rank
        `asm:expansive`: every action's transition slice has full rank.
    singular_values, condition_numbers
        Smallest singular value and condition number of each action's slice.
    smallest_emission
        O_min, the smallest non-zero emission probability.
    reward_gap, transition_gap
        gamma_r and gamma_p of `cor:regret`: the smallest difference of two hidden states, over
        all actions; `reward_gap_best` and `transition_gap_best` take for each pair of states
        its best action first, as the appendix effectively does.
    hidden_diameter, observable_diameter
        D_X and D_Y.
    return_time
        tau_M: the largest expected return time of a hidden state over all policies.
    mixing_uniform, mixing_optimal
        Mixing of the hidden chain under the uniform and under the optimal policy; None where
        that chain is periodic or reducible.
    """

    n_states: int
    n_actions: int
    n_observations: int
    gain: float | None
    ergodic: bool | None
    ergodic_why: str
    full_rank: bool
    singular_values: tuple[float, ...]
    condition_numbers: tuple[float, ...]
    smallest_emission: float
    reward_gap: float
    reward_gap_best: float
    transition_gap: float
    transition_gap_best: float
    hidden_diameter: float
    observable_diameter: float
    return_time: float
    mixing_uniform: Mixing | None
    mixing_optimal: Mixing | None

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and words, ready for JSON; infinity is written as a word."""
        return plain(asdict(self), lambda _: "infinite")  # type: ignore[no-any-return]

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(name) for name, _ in rows)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in rows)

    def _repr_html_(self) -> str:
        return html_table("What the paper assumes, and this world", self._rows())

    def _rows(self) -> list[tuple[str, str]]:
        ergodic = {True: "yes", False: "no", None: "undecided"}[self.ergodic]
        slices = ", ".join(f"{value:.3g}" for value in self.singular_values)
        conditions = ", ".join(f"{value:.3g}" for value in self.condition_numbers)
        gain = "depends on the start" if self.gain is None else f"{self.gain:.6f}"
        return [
            ("hidden states X", str(self.n_states)),
            ("actions A", str(self.n_actions)),
            ("observations Y", str(self.n_observations)),
            ("optimal gain rho*", gain),
            ("ergodic under every policy", f"{ergodic} ({self.ergodic_why})"),
            ("every slice full rank", "yes" if self.full_rank else "no"),
            ("  smallest singular values", slices),
            ("  condition numbers", conditions),
            ("smallest emission O_min", f"{self.smallest_emission:.4g}"),
            ("reward gap", f"{self.reward_gap:.4g} (best action {self.reward_gap_best:.4g})"),
            (
                "transition gap (L1)",
                f"{self.transition_gap:.4g} (best action {self.transition_gap_best:.4g})",
            ),
            ("diameter of the hidden MDP D_X", f"{self.hidden_diameter:.4g}"),
            ("diameter of the observable MDP D_Y", f"{self.observable_diameter:.4g}"),
            ("largest return time tau_M", f"{self.return_time:.4g}"),
            ("mixing, uniform policy", _mixing_text(self.mixing_uniform)),
            ("mixing, optimal policy", _mixing_text(self.mixing_optimal)),
        ]


def find_assumptions(hidden: MDP, labels: Ints, observation_chance: Floats) -> Assumptions:
    """Examine a hidden MDP and the probability of each observation in its state.

    Ergodicity is decided on the graph. A state that some policy can avoid forever is found as
    a greatest fixed point, so irreducibility under all policies takes polynomial time.
    Periodicity is ruled out by a state that can stay where it is under every action, otherwise by
    enumeration if there are few policies; if there are many, it is left undecided. D_Y needs no
    array of
    Y x Y: the rarest observation of each hidden state is the hardest target, and reaching it
    is a shortest-path problem on the X hidden states.
    """
    ergodic, why = ergodicity(hidden.transition)
    slices = np.moveaxis(hidden.transition, 1, 0)
    singular = np.linalg.svd(slices, compute_uv=False)
    largest, smallest = singular[:, 0], singular[:, -1]
    tiny = largest * hidden.n_states * np.finfo(np.float64).eps
    deficient = smallest <= tiny
    conditions = np.where(deficient, np.inf, largest / np.where(deficient, 1.0, smallest))
    reward_gap, reward_gap_best = _gaps(hidden.reward[:, :, None])
    transition_gap, transition_gap_best = _gaps(hidden.transition)
    uniform = np.full((hidden.n_states, hidden.n_actions), 1.0 / hidden.n_actions)
    try:
        gain = hidden.gain
    except StructureError:
        gain = None
    return Assumptions(
        n_states=hidden.n_states,
        n_actions=hidden.n_actions,
        n_observations=labels.size,
        gain=gain,
        ergodic=ergodic,
        ergodic_why=why,
        full_rank=not deficient.any(),
        singular_values=tuple(smallest.tolist()),
        condition_numbers=tuple(conditions.tolist()),
        smallest_emission=float(observation_chance.min()),
        reward_gap=reward_gap,
        reward_gap_best=reward_gap_best,
        transition_gap=transition_gap,
        transition_gap_best=transition_gap_best,
        hidden_diameter=hidden.diameter(),
        observable_diameter=_observable_diameter(hidden, labels, observation_chance),
        return_time=hidden.return_time(),
        mixing_uniform=_mixing(hidden, uniform),
        mixing_optimal=None if gain is None else _mixing(hidden, hidden.optimal_policy),
    )


def ergodicity(transition: Floats) -> tuple[bool | None, str]:
    """Say whether every policy's chain is irreducible and aperiodic, if that is known, and why."""
    if (transition > 0).all():
        return True, "every transition has positive probability"
    avoidable = can_avoid(transition).any(axis=1)
    if avoidable.any():
        return False, f"a policy can avoid hidden state {int(np.argmax(avoidable))} forever"
    periodic = has_periodic_policy(transition)
    if periodic is None:
        return None, "no state can be avoided; too many policies to exclude a periodic one"
    if periodic:
        return False, "no state can be avoided, but some policy's chain is periodic"
    return True, "no state can be avoided and no policy's chain is periodic"


def _gaps(laws: Floats) -> tuple[float, float]:
    """Smallest L1 difference of two states: over all actions, and under each pair's best one."""
    n_states = laws.shape[0]
    if n_states == 1:
        return np.inf, np.inf
    worst = best = np.inf
    for x in range(n_states - 1):
        differences = np.abs(laws[x + 1 :] - laws[x]).sum(axis=-1)
        worst = min(worst, float(differences.min()))
        best = min(best, float(differences.max(axis=1).min()))
    return worst, best


def _observable_diameter(hidden: MDP, labels: Ints, observation_chance: Floats) -> float:
    rarest = np.full(hidden.n_states, np.inf)
    np.minimum.at(rarest, labels, observation_chance)
    times = hitting_times(hidden.transition, chance=rarest)
    alone = np.bincount(labels, minlength=hidden.n_states) == 1
    # From the only observation of a state to itself is no journey.
    times[np.flatnonzero(alone), np.flatnonzero(alone)] = 0.0
    return float(times.max())


def _mixing(hidden: MDP, policy: NDArray[Any]) -> Mixing | None:
    try:
        return hidden.mixing(policy)
    except StructureError:
        return None


def _mixing_text(mixing: Mixing | None) -> str:
    if mixing is None:
        return "the chain is periodic or reducible"
    return (
        f"G = {mixing.geometric_ergodicity:.4g}, theta = {mixing.contraction:.4g}, "
        f"second eigenvalue {mixing.second_eigenvalue:.4g}"
    )
