"""Tables of logged decisions in, counts and a model out."""

from romdp.logs.applying import apply_model
from romdp.logs.estimator import HiddenStates
from romdp.logs.evaluating import Evaluation, evaluate
from romdp.logs.fitting import fit
from romdp.logs.reading.closing import LogCounts
from romdp.logs.reading.columns import Columns
from romdp.logs.reading.counting import count_logs

__all__ = [
    "Columns",
    "Evaluation",
    "HiddenStates",
    "LogCounts",
    "apply_model",
    "count_logs",
    "evaluate",
    "fit",
]
