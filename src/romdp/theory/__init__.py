"""The paper's constants and bounds, for a world and for a finished run.

Everything here is computed from the truth: it is for reading and for scoring, never for learning.
Each formula is named by its label in the paper; where the paper slips or leaves a constant open,
the docstring says what is done and the output repeats it.
"""

from romdp.theory.finished import RunBound, epoch_counts, run_bound
from romdp.theory.lower_bound import lower_bound
from romdp.theory.table import Magnitude, Row
from romdp.theory.views import partial_groups
from romdp.theory.world import Theory, bounds

__all__ = [
    "Magnitude",
    "Row",
    "RunBound",
    "Theory",
    "bounds",
    "epoch_counts",
    "lower_bound",
    "partial_groups",
    "run_bound",
]
