"""What a planner returns."""

from dataclasses import dataclass, field

from romdp.core.validation import freeze
from romdp.planning.iteration import HIGH, LOW, SPAN, SWEEPS, Floats, Integers, Task


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A policy, and what its planner believes of it.

    Attributes
    ----------
    policy : ndarray of int64, shape (S,)
        The action of every state; the lowest one among equals.
    gain : float
        Average reward in the model that was solved (optimistic, sampled or known): the middle of
        its bounds.
    span : float
        Largest minus smallest of ``values``.
    sweeps : int
        Sweeps of value iteration.
    values : ndarray of float64, shape (S,)
        Values of the states, the smallest is zero; a start for the next plan.
    converged : bool
        Whether the bounds of the gain came closer than the precision that was asked for. If not,
        the model may have no single gain (parts that cannot reach each other) or need more sweeps;
        the policy is still the best one for ``values``.
    gap : float
        Distance between the bounds: the gain of the model is within half of it.
    """

    policy: Integers = field(repr=False)
    gain: float
    span: float
    sweeps: int
    values: Floats = field(repr=False)
    converged: bool
    gap: float

    @classmethod
    def of(cls, task: Task) -> "Plan":
        """Make a plan of what an iteration left behind."""
        progress = task.progress.tolist()
        low, high = progress[LOW], progress[HIGH]
        return cls(
            policy=freeze(task.policy),
            gain=(low + high) / 2.0,
            span=progress[SPAN],
            sweeps=int(progress[SWEEPS]),
            values=freeze(task.values),
            converged=high - low < task.precision,
            gap=high - low,
        )
