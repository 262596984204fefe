"""Bounds on a mean that hold at all times at once, compiled; `TimeUniform` explains them.

A mean of n samples in [0, 1] is estimated as p. Of a chance, the samples are indicators. Every
bound is one-sided, fails with chance at most ``level`` over all n together, and is solved for the
mean x itself, which may lie anywhere from `lower_end` to one minus the `lower_end` of 1 - p.
"""

from math import exp, log, sqrt
from typing import NamedTuple

from romdp.core.compiled import kernel

_ETA = 1.12  # ratio of the lengths of successive stretches of time; near the best for most n
_SHIFT = log(log(_ETA) ** 2)
_CERTAIN = 1.0 - 1e-12  # estimates above this are one: rounding may leave less
_NEGLIGIBLE = 1e-6  # lower ends of the sub-Gaussian bound below this count as zero
_THERE = 0.0361911  # the variance proxy at that point


class Radii(NamedTuple):
    """What n samples allow, for `lower_end` and `upper_end`."""

    mixed: float  # (1 + 1 / n) log(sqrt(n + 1) / level) / n
    peeled: float  # eta log(log(eta n) log(eta^2 n) / (log(eta)^2 level)) / n
    rare: float  # 1 - level^(1 / n): what was never seen is no likelier than this


@kernel
def radii(n: float, doubt: float) -> Radii:
    """Return what ``n >= 1`` samples allow; ``doubt`` is log(1 / level)."""
    mixed = (1.0 + 1.0 / n) * (0.5 * log(n + 1.0) + doubt) / n
    twice = log(log(_ETA * n) * log(_ETA * _ETA * n)) - _SHIFT
    return Radii(mixed, _ETA * (twice + doubt) / n, 1.0 - exp(-doubt / n))


@kernel
def lower_end(p: float, allowed: Radii) -> float:
    """Return the smallest plausible mean, given the estimate."""
    if p <= 0.0:
        return 0.0
    if p >= _CERTAIN:
        return 1.0 - allowed.rare
    # Bernstein: p - x <= sqrt(2 x (1 - x) b) + b / 3, a quadratic equation.
    b = allowed.peeled
    y = p - b / 3.0
    low = 0.0
    if y > 0.0:
        low = max(0.0, (y + b - sqrt(b * b + 2.0 * b * y * (1.0 - y))) / (1.0 + 2.0 * b))
    # Sub-Gaussian: (p - x)^2 <= 2 c v(x), where v(x) = x (1 - x) from one half on.
    c = allowed.mixed
    if p < 0.5 and (p - low) * (p - low) <= 2.0 * c * _THERE:  # v is larger, or the end negligible
        return low
    x = (p + c - sqrt(c * c + 2.0 * c * p * (1.0 - p))) / (1.0 + 2.0 * c)
    if max(low, x) >= 0.5:
        return max(low, x)
    # Below one half v(x) = (1/2 - x) / log(1 / x - 1). The difference of both sides is convex and
    # falls, so Newton's method comes from the left and never passes the end. It starts where the
    # end must lie beyond, since x (1 - x) <= v(x) <= 1 / (2 log(1 / x)).
    start = exp(-c / ((p - x) * (p - x)))
    x = max(low, start)
    for _ in range(20):
        x = max(x, _NEGLIGIBLE)
        odds = log(1.0 / x - 1.0)
        proxy = (0.5 - x) / odds
        excess = (p - x) * (p - x) - 2.0 * c * proxy
        if excess <= 0.0:
            break
        slope = (proxy / (x * (1.0 - x)) - 1.0) / odds
        step = excess / (2.0 * (p - x) + 2.0 * c * slope)
        x += step
        if step < 1e-9 or x >= 0.5:
            break
    return max(low, x) if x > _NEGLIGIBLE else low


@kernel
def upper_end(p: float, allowed: Radii) -> float:
    """Return the largest plausible mean, given the estimate."""
    if p <= 0.0:
        return allowed.rare
    if p >= _CERTAIN:
        return 1.0
    # Where the end is at most one half, as nearly always, the sub-Gaussian bound is a quadratic
    # equation. It is narrower than Bernstein's unless n is 1 or 2, or astronomically large.
    c = allowed.mixed
    x = (p + c + sqrt(c * c + 2.0 * c * p * (1.0 - p))) / (1.0 + 2.0 * c)
    if x <= 0.5 and c <= allowed.peeled:
        return x
    return 1.0 - lower_end(1.0 - p, allowed)
