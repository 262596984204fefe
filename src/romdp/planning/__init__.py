"""Value iteration and extended value iteration on counts, compiled; confidence sets and draws.

``iteration`` solves a model, or the best of all models inside a confidence set; ``confidence``
makes these sets and ``sampling`` draws models from a posterior; ``robust`` solves for the worst
model. The compiled work is in ``backup`` (what all iterations share), ``dense`` and ``sparse``.
"""

from romdp.planning.backup import Arrivals, Plan
from romdp.planning.iteration import (
    MAX_SWEEPS,
    Transitions,
    by_arrival,
    extended_value_iteration,
    interval_value_iteration,
    support_value_iteration,
    value_iteration,
)

__all__ = [
    "MAX_SWEEPS",
    "Arrivals",
    "Plan",
    "Transitions",
    "by_arrival",
    "extended_value_iteration",
    "interval_value_iteration",
    "support_value_iteration",
    "value_iteration",
]
