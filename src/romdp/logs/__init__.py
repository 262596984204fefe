"""Tables of logged decisions in, counts and a model out."""

from typing import TYPE_CHECKING

from romdp.core.lazy import lazy

if TYPE_CHECKING:
    from romdp.logs.applying import apply_model as apply_model
    from romdp.logs.estimator import HiddenStates as HiddenStates
    from romdp.logs.evaluating import Evaluation as Evaluation
    from romdp.logs.evaluating import evaluate as evaluate
    from romdp.logs.fitting import fit as fit
    from romdp.logs.reading.closing import LogCounts as LogCounts
    from romdp.logs.reading.columns import Columns as Columns
    from romdp.logs.reading.counting import count_logs as count_logs

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
