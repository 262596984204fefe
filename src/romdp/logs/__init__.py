"""Tables of logged decisions in, counts and a model out."""

from romdp.logs.applying import apply_model
from romdp.logs.closing import LogCounts
from romdp.logs.columns import Columns
from romdp.logs.counting import count_logs
from romdp.logs.estimator import HiddenStates
from romdp.logs.fitting import fit

__all__ = ["Columns", "HiddenStates", "LogCounts", "apply_model", "count_logs", "fit"]
