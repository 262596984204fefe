"""What a loop notes of its steps: rewards as agents count them, what episodes paid, what is new.

An agent that counts learns nothing where observations hardly ever repeat, so that is looked at too.
"""

import warnings
from array import array
from collections.abc import Hashable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.core.formats import Format, exact, real
from romdp.core.validation import LARGEST_REWARD, real_number, shown

if TYPE_CHECKING:
    from romdp.agents.agent import AgentState
    from romdp.encoding.observations import ObservationEncoder

    Returns = np.recarray[Any, Any]

RETURN_COLUMNS = np.dtype([("step", np.int64), ("return", np.float64), ("length", np.int64)])
"""The columns of ``run.returns``."""

_FORMAT = Format("list of episodes", returns=exact(RETURN_COLUMNS, "*"), collected=real())

_LAST = 0.2  # share of the steps over which returns are averaged
_FEWEST = 10  # episodes that a point of a learning curve averages, as soon as there are as many
_FIRST_LOOK = 1000  # steps after which what is new is looked at; then whenever they have doubled
_NEW_SHARE = 0.95  # observations met for each step, from which on it is hopeless


class Episodes:
    """A list of finished episodes that grows, 24 bytes for each, and those under way.

    Examples
    --------
    >>> episodes = Episodes()
    >>> episodes.count(0.5, step=1)
    >>> episodes.count(1.0, step=2, over=True)
    >>> episodes.returns.tolist(), episodes.collected
    ([(2, 1.5, 2)], 1.5)
    """

    def __init__(self) -> None:
        self._steps, self._totals, self._lengths = array("q"), array("d"), array("q")
        self._under_way: dict[Hashable, tuple[float, int]] = {}
        self.collected = 0.0  # of all steps
        self.same_length = True  # so far

    def count(self, reward: float, step: int, over: bool = False, stream: Hashable = None) -> None:
        """Count one step, the ``step``-th of the run, in the episode that its stream is in."""
        total, length = self._under_way.get(stream, (0.0, 0))
        total, length = total + reward, length + 1
        self.collected += reward
        self._under_way[stream] = (0.0, 0) if over else (total, length)
        if over:
            self.add(step, total, length)

    def under_way(self, stream: Hashable) -> tuple[float, int]:
        """Return what an unfinished episode has paid so far, and its length."""
        return self._under_way.get(stream, (0.0, 0))

    def begin(self, stream: Hashable, total: float = 0.0, length: int = 0) -> None:
        """Go on from an unfinished episode, or forget the one that the stream was in."""
        self._under_way[stream] = (total, length)

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: int, total: float, length: int) -> None:
        """Note an episode that ended with this step of the run."""
        self.same_length = self.same_length and length == (self._lengths or [length])[0]
        self._steps.append(step)
        self._totals.append(total)
        self._lengths.append(length)

    @property
    def returns(self) -> "Returns":
        """A record array with the columns step, return and length."""
        table = np.empty(len(self), RETURN_COLUMNS)
        table["step"], table["return"] = self._steps, self._totals
        table["length"] = self._lengths
        return table.view(np.recarray)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that a checkpoint must hold."""
        return _FORMAT.pack(self)[0]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], step: int) -> "Episodes":
        """Go back to where `arrays` was taken, in a run that has come to ``step``."""
        found = _FORMAT.read(arrays)
        table = found["returns"]
        steps, lengths = table["step"], table["length"]
        if (np.diff(steps) < 0).any() or not (
            ((steps >= 1) & (steps <= step) & (lengths >= 1) & (lengths <= steps)).all()
        ):
            raise _FORMAT.damaged("its episodes are not those of the steps played")
        episodes = cls()
        episodes.collected = found["collected"]
        episodes._steps.extend(steps.tolist())
        episodes._totals.extend(table["return"].tolist())
        episodes._lengths.extend(lengths.tolist())
        episodes.same_length = bool((lengths == lengths[:1]).all())
        return episodes


def mean_return(returns: "Returns", steps: int) -> float:
    """Average the episodes that end in the last fifth of the steps; NaN if none does."""
    last = recent(returns, steps)
    return float(last.mean()) if last.size else float("nan")


def success_rate(returns: "Returns", steps: int) -> float:
    """Return the share of episodes in the last fifth of the steps that paid anything.

    That is success only where an episode may pay nothing and none costs anything: NaN where some
    return is negative, or none is zero.
    """
    last, totals = recent(returns, steps), returns["return"]
    if not last.size or totals.min() < 0.0 or totals.min() > 0.0:
        return float("nan")
    return float((last > 0.0).mean())


def recent(returns: "Returns", steps: int) -> Floats:
    """Return what the episodes paid that end in the last fifth of the steps."""
    totals: Floats = returns["return"][returns["step"] > (1.0 - _LAST) * steps]
    return totals


def mean_return_by_step(returns: "Returns | Mapping[str, NDArray[Any]]", steps: Ints) -> Floats:
    """Average the episodes that ended in the last fifth of the steps so far, at each of the steps.

    Where fewer than ten ended there, the mean is over the last ten, or as many as there are; it is
    NaN before the first one ends. Unlike `learning_curve` this has one grid for several runs.

    Examples
    --------
    >>> returns = np.array([(4, 1.0, 4), (9, 2.0, 5), (10, 4.0, 1)], RETURN_COLUMNS)
    >>> mean_return_by_step(returns.view(np.recarray), np.array([3, 4, 8, 10])).tolist()
    [nan, 1.0, 1.0, 2.3333333333333335]
    """
    sums = np.cumsum(np.append(0.0, returns["return"]))
    last = np.searchsorted(returns["step"], steps, "right")
    recent = np.searchsorted(returns["step"], (1.0 - _LAST) * steps, "right")
    first = np.maximum(np.minimum(recent, last - _FEWEST), 0)
    with np.errstate(invalid="ignore"):  # no episode yet
        means: Floats = (sums[last] - sums[first]) / (last - first)
    return means


def learning_curve(returns: "Returns") -> tuple[Ints, Floats]:
    """Return steps and the running mean of the returns there, at most a thousand points.

    The mean is over the last twentieth of all episodes, at least ten, or as many as there are.
    """
    totals = returns["return"]
    width = min(len(totals), max(_FEWEST, len(totals) // 20))
    sums = np.cumsum(np.append(0.0, totals))
    last = np.unique(np.linspace(1, len(totals), min(len(totals), 1000)).astype(np.int64))
    first = np.maximum(0, last - width)
    return returns["step"][last - 1], (sums[last] - sums[first]) / (last - first)


def shown_range(
    step: Ints, curve: Floats, dot_step: Ints | None = None, dots: Floats | None = None
) -> tuple[float, float]:
    """Return the lowest and the highest value that a picture of a learning curve shows.

    The first tenth of the steps does not count, since an agent knows next to nothing there. Where
    there are dots, these are nine tenths of them and the curve in the second half, so that a few
    bad episodes do not squeeze what was learned.

    Examples
    --------
    >>> step = np.arange(100)
    >>> curve = np.where(step < 12, -1000.0, step)
    >>> shown_range(step, curve, step, curve)[0] > -1000
    True
    """
    young = step[-1] / 10
    if dots is None:
        values = curve[step >= young]
    else:
        ends = np.quantile(dots[dot_step >= young], [0.05, 0.95])
        values = np.append(curve[step >= step[-1] / 2], ends)
    values = curve if np.ptp(values) < 1e-12 else values
    return float(values.min()), float(values.max())


class Novelty:
    """Looks now and then whether what an agent meets teaches it anything, and warns once if not."""

    def __init__(self) -> None:
        self._due = _FIRST_LOOK

    def look(self, state: "AgentState", encoder: "ObservationEncoder") -> None:
        """Look, if it is time, at the observations that were met."""
        if state.step < self._due:
            return
        self._due *= 2
        if encoder.is_in_the_dark(state.step):
            self._warn(
                f"No signal in the vectors of {state.step:,} steps: what followed an action, and "
                "what it paid, did not depend on what was seen more than by chance. Actions are "
                "random until it does. Check that the vectors show what matters, or compute better "
                "features"
            )
            return
        met = state.recorder.n_visited
        if met is not None and met >= _NEW_SHARE * state.step:
            self._warn(
                f"{met:,} different observations in {state.step:,} steps: they hardly ever repeat, "
                "and nothing can be learned about what is seen once. Make observations coarser "
                "before the agent sees them: round numbers into bins, or use the label of a "
                "classifier. Numbers need not repeat where they are all that is shown: leave out "
                "texts and other parts that are no numbers (gymnasium.wrappers.FilterObservation)"
            )

    def _warn(self, text: str) -> None:
        self._due = 2**62
        warnings.warn(text, UserWarning, stacklevel=4)


Range: TypeAlias = tuple[float, float] | None
"""The smallest and the largest reward; None where they may be any numbers."""


def range_for(agent: Any, reward_range: tuple[float, float] | None) -> Range:
    """Return the range that rewards are rescaled from, for an agent: by default [0, 1].

    An agent that learns what rewards can be needs none.
    """
    return None if reward_range is None and takes_any_reward(agent) else checked_range(reward_range)


def takes_any_reward(agent: Any) -> bool:
    """Say whether an agent learns what rewards can be, so that no range is needed."""
    owner = agent if hasattr(agent, "takes_any_reward") else getattr(agent, "planner", None)
    return bool(getattr(owner, "takes_any_reward", False))


def checked_range(reward_range: tuple[float, float] | None) -> tuple[float, float]:
    """Check the range that rewards lie in; [0, 1] by default."""
    if reward_range is None:
        return 0.0, 1.0
    try:
        low, high = reward_range
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"reward_range is {shown(reward_range)}; pass two numbers (low, high)"
        ) from None
    low = real_number(low, "reward_range[0]", -LARGEST_REWARD, LARGEST_REWARD)
    return low, real_number(high, "reward_range[1]", low, LARGEST_REWARD, open_low=True)


def zero_reward(reward_range: Range) -> float:
    """Return what a reward of 0 becomes when it is rescaled."""
    if reward_range is None:
        return 0.0
    low, high = reward_range
    return -low / (high - low) + 0.0  # not -0.0


def unit_reward(reward: Any, reward_range: Range, step: int) -> float:
    """Rescale a reward to [0, 1]; one outside its range is refused. Without one it is kept."""
    number = real_number(reward, f"reward of step {step + 1}", -LARGEST_REWARD, LARGEST_REWARD)
    if reward_range is None:
        return number
    low, high = reward_range
    unit = (number - low) / (high - low)
    if not -1e-9 <= unit <= 1.0 + 1e-9:
        raise InvalidInputError(
            f"reward {number:g} of step {step + 1} lies outside [{low:g}, {high:g}]; pass "
            "reward_range=(low, high) with the smallest and largest reward that can occur"
        )
    return min(max(unit, 0.0), 1.0)
