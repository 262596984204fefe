"""Rewards as environments pay them, and as agents count them."""

from typing import Any, TypeAlias

from romdp.core.errors import InvalidInputError
from romdp.core.validation import LARGEST_REWARD, real_number

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
            f"reward_range is {reward_range!r}; pass two numbers (low, high)"
        ) from None
    low = real_number(low, "reward_range[0]")
    return low, real_number(high, "reward_range[1]", low, open_low=True)


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
            f"reward {reward} of step {step + 1} lies outside [{low:g}, {high:g}]; pass "
            "reward_range=(low, high) with the smallest and largest reward that can occur"
        )
    return min(max(unit, 0.0), 1.0)
