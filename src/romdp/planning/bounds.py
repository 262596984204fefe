"""Bounds on a mean that hold at all times at once, compiled; `TimeUniform` explains them.

A mean of n samples in [0, 1] is estimated as p; the samples of a probability are indicators.
``doubt`` is log(1 / level), where the level is the probability that any bound on one pair may fail
at any n.
"""

from math import exp, log, pi, sqrt
from typing import NamedTuple

from romdp.core.compiled import kernel

# log(1 / share of the level): for the only state that has followed, for the probabilities of all
# states, for the mean reward, and for each of the three bounds that the variance of the rewards
# takes.
_LAW, _PROBABILITIES, _REWARD, _VARIANCE = log(1 / 0.6), log(1 / 0.2), log(1 / 0.15), log(3 / 0.05)
_HALF, _THIRD = log(2.0), log(3.0)  # log(1 / weight) of an end or of the rest in a mixture
_ETA = 1.12  # ratio of the lengths of successive stretches of time; near the best for most n
_SHIFT = log(log(_ETA) ** 2)
_CERTAIN = 1.0 - 1e-12  # estimates above this are one: rounding may leave less


class Radii(NamedTuple):
    """What n samples allow, for `ends`."""

    mixed: float  # the largest kl(p, x)
    never: float  # the largest probability of what was never seen
    always: float  # the largest probability that what has always happened fails to happen


@kernel
def probability_radii(n: float, n_states: int, doubt: float) -> Radii:
    """Return what ``n >= 1`` next states allow for the probability of each of all states."""
    own = doubt + _PROBABILITIES + log(n_states) + _HALF
    mixed = (own + 0.5 * log(0.5 * pi * n) + 0.125) / n
    always = 1.0 - exp(-(doubt + _LAW) / (n - 1.0)) if n > 1.0 else 1.0
    return Radii(mixed, 1.0 - exp(-own / n), always)


@kernel
def reward_radii(n: float, doubt: float) -> Radii:
    """Return what ``n >= 1`` rewards allow for their mean."""
    own = doubt + _REWARD + _THIRD
    end = 1.0 - exp(-own / n)
    return Radii((own + 0.5 * log(0.5 * pi * n) + 0.5) / n, end, end)


@kernel
def highest_mean(n: float, total: float, squares: float, doubt: float) -> float:
    """Return the largest plausible mean of ``n >= 1`` rewards, given the sum of their squares."""
    mean = total / n
    high = sharp_upper_end(mean, reward_radii(n, doubt))
    # Empirical Bernstein, where the rewards vary so little that it can be narrower.
    variance = max(0.0, squares / n - mean * mean)
    peeled = _ETA * (doubt + _VARIANCE) / n
    if sqrt(2.0 * variance * peeled) + 3.0 * peeled < high - mean:
        peeled += _ETA * (log(log(_ETA * n) * log(_ETA * _ETA * n)) - _SHIFT) / n
        high = min(high, mean + sqrt(2.0 * variance * peeled) + 3.0 * peeled)
    return high


@kernel
def ends(p: float, allowed: Radii) -> tuple[float, float]:
    """Return the smallest and the largest plausible mean, given the estimate.

    kl(p, x) is the integral of (t - p) / (t (1 - t)) from p to x. As 1 / (t (1 - t)) is convex,
    Jensen's inequality gives kl(p, x) >= (x - p)^2 / (2 m (1 - m)) with m = (p + 2 x) / 3: a
    quadratic equation for the ends. Nothing branches here, so that many means are done at once.
    """
    b = allowed.mixed
    scale = 1.0 / (1.0 + 8.0 * b / 9.0)
    half = 2.0 * b / 3.0 * (1.0 - 2.0 * p)
    root = sqrt(half * half + 2.0 * b * p * (1.0 - p) / scale)
    low, high = p + (half - root) * scale, p + (half + root) * scale
    low = 1.0 - allowed.always if p >= _CERTAIN else max(0.0, low)
    high = allowed.never if p <= 0.0 else min(1.0, high)
    return (low if p > 0.0 else 0.0), (high if p < _CERTAIN else 1.0)


@kernel
def sharp_upper_end(p: float, allowed: Radii) -> float:
    """Return the largest plausible mean, closer than `ends` to where kl(p, x) is what is allowed.

    kl is convex in x, so a step of Newton's method from the right never passes that point.
    """
    x = ends(p, allowed)[1]
    if p <= 0.0 or x >= 1.0:
        return x
    excess = p * log(p / x) + (1.0 - p) * log((1.0 - p) / (1.0 - x)) - allowed.mixed
    return x - excess * x * (1.0 - x) / (x - p)
