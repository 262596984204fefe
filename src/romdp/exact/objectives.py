"""What is good: reward per step for ever, a discounted sum, or the sum until the episode ends."""

from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from romdp.core.errors import InvalidInputError
from romdp.core.validation import LARGEST_REWARD, choice, level, real_number, shown, whole_number

KINDS = ("average", "discounted", "episodic")

_LONG = 0.999  # the discount of episodes that have neither a horizon nor a step limit
_HOW = (
    'pass "average", "episodic", "episodic:H" with a horizon of H steps, or a discount above 0 and '
    "below 1 such as 0.99"
)


@dataclass(frozen=True)
class Objective:
    """What a planner maximises, and what a policy is scored by.

    Parameters
    ----------
    kind
        ``"average"``: reward per step, for ever. ``"discounted"``: the sum of rewards, each step
        worth ``discount`` times the one before. ``"episodic"``: the sum until the episode ends.
        After the end of an episode nothing more is earned, except under ``"average"``, which
        reads the end as a restart.
    discount
        For ``"discounted"``: a number above 0 and below 1. An episodic objective without a horizon
        is kept finite by a discount close to 1; None is 0.999.
    horizon
        For ``"episodic"``: how many steps an episode has at most. What is best then depends on
        the step of the episode.
    zero_reward
        Which reward, as it is counted, stands for a reward of 0. It matters where episodes end,
        since what is earned after the end is 0. Rewards rescaled from [low, high] to [0, 1] have
        ``-low / (high - low)``.

    Examples
    --------
    >>> Objective.parse(0.99)
    Objective(kind='discounted', discount=0.99, horizon=None, zero_reward=0.0)
    >>> print(Objective.parse("episodic:25"))
    episodic, 25 steps
    """

    kind: Literal["average", "discounted", "episodic"] = "average"
    discount: float | None = None
    horizon: int | None = None
    zero_reward: float = 0.0

    def __post_init__(self) -> None:
        choice(self.kind, "kind", KINDS)
        if self.discount is not None:
            level(self.discount, "discount")
        if self.horizon is not None:
            whole_number(self.horizon, "horizon", 1)
        real_number(self.zero_reward, "zero_reward", -LARGEST_REWARD, LARGEST_REWARD)
        if self.kind == "discounted" and self.discount is None:
            raise InvalidInputError("a discounted objective needs a discount, such as 0.99")
        if self.kind != "episodic" and self.horizon is not None:
            raise InvalidInputError(f"only an episodic objective has a horizon; this is {self}")
        if self.kind == "average" and self.discount is not None:
            raise InvalidInputError("an average objective has no discount; pass the discount alone")
        if self.horizon is not None and self.discount is not None:
            raise InvalidInputError("an objective has a horizon or a discount; pass one of the two")

    @classmethod
    def parse(cls, value: Any) -> "Objective":
        """Read what people write: a name, ``"episodic:H"``, a discount, or an `Objective`."""
        if isinstance(value, Objective):
            return value
        if isinstance(value, str):
            kind, _, rest = value.strip().partition(":")
            if kind == "average" and not rest:
                return cls()
            if kind == "episodic" and (not rest or rest.isdigit()):
                return cls("episodic", horizon=int(rest) if rest else None)
            try:
                value = float(value)
            except ValueError:
                raise InvalidInputError(f"objective is {shown(value)}; {_HOW}") from None
        try:
            return cls("discounted", level(value, "objective"))
        except InvalidInputError:
            raise InvalidInputError(f"objective is {shown(value)}; {_HOW}") from None

    @property
    def is_average(self) -> bool:
        """Whether it is the reward per step."""
        return self.kind == "average"

    @property
    def rate(self) -> float:
        """What the next step is worth compared to this one; 1 where nothing is discounted."""
        if self.is_average or self.horizon is not None:
            return 1.0
        return _LONG if self.discount is None else self.discount

    def within(self, limit: int | None = None, zero_reward: float = 0.0) -> "Objective":
        """Return the objective for a place where episodes end.

        Parameters
        ----------
        limit
            The environment's limit on the steps of an episode, if it has one. An episodic objective
            that has neither a horizon nor a discount gets the discount ``1 - 1 / limit``.
        zero_reward
            The counted reward that stands for a reward of 0.
        """
        if self.is_average:
            return self
        discount = self.discount
        if self.kind == "episodic" and self.horizon is None and discount is None:
            discount = _LONG if limit is None else max(0.5, 1.0 - 1.0 / limit)
        return replace(self, discount=discount, zero_reward=zero_reward)

    def __str__(self) -> str:
        if self.is_average:
            return "average"
        if self.horizon is not None:
            return f"{self.kind}, {self.horizon} steps"
        return f"{'episodic, ' * (self.kind == 'episodic')}discount {self.rate:.6g}"


AVERAGE = Objective()
"""Reward per step, for ever: the paper's objective."""

ObjectiveLike: TypeAlias = Objective | str | float
"""What `Objective.parse` reads."""


def parse_optional(value: ObjectiveLike | None) -> Objective | None:
    """Read an objective, or None: left to the place where an agent plays."""
    return None if value is None else Objective.parse(value)
