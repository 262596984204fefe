"""What rewards look like, read from sums and sums of squares alone.

`Counts` keep three numbers of every pair: visits, the sum of its rewards and the sum of their
squares. If all rewards take one of at most three values, these numbers say exactly how often each
value was paid (a Vandermonde system); otherwise they are what a Gaussian law needs.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from romdp.core.arrays import Floats
from romdp.core.errors import InvalidInputError
from romdp.core.validation import choice
from romdp.data.counts import Counts

NO_REWARD, CATEGORICAL, GAUSSIAN = range(3)

REWARD_LAWS = ("none", "bernoulli", "categorical", "hurdle", "gaussian")
"""What a caller may insist on; None leaves the choice to the data."""

_MOST_LEVELS = 3  # visits, sums and squares are three equations
_WEIGHTS = (2.0, 1.0, 0.5, 0.25, 0.125, 0.0625)  # of a prior of all levels; the first if in doubt
_ALIKE, _TINY = 1e-9, 1e-300  # rewards are alike if their spread is rounding, or all are zero
_TOLERANCE = 1e-6  # of a count found by solving them, relative to the visits


@dataclass(frozen=True)
class RewardLaw:
    """Rewards in the form that the block likelihood adds up.

    Attributes
    ----------
    name
        One of `REWARD_LAWS`.
    code
        NO_REWARD, CATEGORICAL or GAUSSIAN.
    parts : shape (n_observations, n_actions, n_parts)
        What is added up within a group: how often each level was paid, or (visits, sum, sum of
        squares) of rewards shifted and scaled to mean 0 and variance 1 over all steps.
    prior
        Gaussian: pseudo-visits of the mean, then shape and rate of the precision (a
        normal-gamma law around 0, matched to the spread within pairs). Categorical: the Dirichlet
        weight of each level, in proportion to how often it was paid; small in sum where the
        rewards of a pair are all alike. Else empty.
    levels
        The values that rewards take; empty for a hurdle and a Gaussian law.
    """

    name: str
    code: int
    parts: Floats
    prior: Floats
    levels: tuple[float, ...] = ()

    def left_out(self) -> "RewardLaw":
        """Return the law under which rewards tell nothing."""
        return RewardLaw("none", NO_REWARD, np.zeros((*self.parts.shape[:2], 1)), np.empty(0))


def read_reward_law(counts: Counts, law: str | None = None) -> RewardLaw:
    """Find the law of the rewards, or take the one that the caller asks for.

    Rewards that are all equal carry no information. At most three different values are a
    categorical law (0 and 1: Bernoulli). Rewards of many values that are mostly the same one, such
    as what visitors of a shop pay, have a hurdle law: it counts how often more and how often less
    was paid (a Gaussian would take luck for a state of its own). Anything else is Gaussian.

    Examples
    --------
    >>> from romdp.data.trajectory import Trajectory
    >>> seen = Trajectory([0, 1, 0, 1], [0, 0, 0, 0], [1.0, 0.0, 1.0, 1.0])
    >>> read_reward_law(Counts.from_trajectory(seen)).name
    'bernoulli'
    """
    wanted = None if law is None else choice(law, "reward_law", REWARD_LAWS)
    unit = 1.0 if wanted == "bernoulli" else counts.reward_unit
    if unit != 1.0:  # what is alike is so in every unit
        found = read_reward_law(counts.in_units(unit), law)
        name = "categorical" if found.name == "bernoulli" else found.name
        return replace(found, name=name, levels=tuple(unit * level for level in found.levels))
    if wanted == "none":
        return _no_reward(counts)
    if wanted == "gaussian":
        return _gaussian(counts)
    levels = (0.0, 1.0) if wanted == "bernoulli" else _levels(counts) if wanted != "hurdle" else ()
    parts = _level_counts(counts, levels) if levels else None
    if parts is not None:
        if len(levels) == 1:
            return _no_reward(counts)
        name = "bernoulli" if levels == (0.0, 1.0) else "categorical"
        return RewardLaw(name, CATEGORICAL, parts, _level_weights(parts), levels)
    hurdle = _hurdle(counts, always=wanted is not None)
    if hurdle is not None and wanted in (None, "hurdle"):
        return hurdle
    if wanted is not None:
        kinds = {"bernoulli": "0 and 1", "hurdle": "one usual value and others"}
        raise InvalidInputError(
            f"the rewards are not {wanted}: they do not take "
            f"{kinds.get(wanted, f'{_MOST_LEVELS} values')} alone; "
            "pass reward_law='gaussian' or None to let the data choose"
        )
    return _gaussian(counts)


def _no_reward(counts: Counts) -> RewardLaw:
    return RewardLaw("none", NO_REWARD, np.zeros((*counts.visits.shape, 1)), np.empty(0))


def _levels(counts: Counts) -> tuple[float, ...]:
    """Guess the values that rewards take, from pairs whose rewards were all equal."""
    seen = counts.visits > 0
    visits = counts.visits[seen].astype(np.float64)
    sums, squares = counts.reward_sums[seen], counts.reward_squares[seen]
    spread = squares - sums * sums / visits
    mean = sums / visits
    equal = spread <= _ALIKE * np.maximum(squares, _TINY)
    known = np.unique(np.round(mean[equal], 9))
    if len(known) == 0 and len(visits):
        known = np.array([0.0, 1.0])  # long counts without one pure pair: try the usual values
    if len(known) == 1 and not equal.all():
        # One value r shows alone; the other one, q, follows from any mixed pair:
        # sum of (reward - r) is c (q - r) and of its square c (q - r)^2.
        i = int(np.argmin(equal))
        r = known[0]
        first = sums[i] - r * visits[i]
        second = squares[i] - 2 * r * sums[i] + r * r * visits[i]
        known = np.unique([r, np.round(r + second / first, 9)]) if first else known
    return tuple(float(value) for value in known) if len(known) <= _MOST_LEVELS else ()


def _level_counts(counts: Counts, levels: tuple[float, ...]) -> Floats | None:
    """Solve for how often each level was paid; None if no whole numbers solve the system."""
    powers = np.vander(np.array(levels), _MOST_LEVELS, increasing=True).T  # (3, n_levels)
    moments = np.stack([counts.visits, counts.reward_sums, counts.reward_squares], axis=-1)
    solved = moments @ np.linalg.pinv(powers).T
    whole = np.round(solved)
    slack = _TOLERANCE * np.maximum(counts.visits, 1)[..., None]
    scale = np.maximum(1.0, np.abs(powers).max(axis=1))
    if (
        (whole < 0).any()
        or (np.abs(solved - whole) > slack).any()
        or (np.abs(whole @ powers.T - moments) > slack * scale).any()
    ):
        return None
    return np.ascontiguousarray(whole)


def _level_weights(parts: Floats) -> Floats:
    """Fit the Dirichlet weights of the levels to the pairs: what all were paid, as a prior of each.

    Their sum is the one of `_WEIGHTS` under which the rewards of the pairs are most probable.
    """
    pairs = parts.reshape(-1, parts.shape[-1])
    paid = pairs.sum(axis=0) + 0.5
    shares = paid / paid.sum()
    pairs = pairs[pairs.sum(axis=1) > 1.0]  # a single reward says nothing about the others
    fits = []
    for weight in _WEIGHTS:
        each = weight * shares
        fit = (gammaln(pairs + each) - gammaln(each)).sum()
        fits.append(fit + (gammaln(weight) - gammaln(pairs.sum(axis=1) + weight)).sum())
    return np.asarray(_WEIGHTS[int(np.argmax(fits))] * shares)


def _hurdle(counts: Counts, *, always: bool = False) -> RewardLaw | None:
    """Read how often more or less than the usual value was paid; None unless that is rare.

    If k of n rewards differ from the usual value by about the same amount, the square of the sum of
    these differences is k times the sum of their squares. If the amounts vary, this is below k, but
    hardly where k is 1 or 2. Rewards with noise of their own never repeat exactly, so pairs that
    always paid the same, while others sometimes paid something else, show that there is a usual
    value; it may depend on the action, which may cost something. It is rare to pay something else
    if pairs that do it do it in less than half of their visits.
    """
    visits = counts.visits.astype(np.float64)
    n = np.maximum(visits, 1.0)
    spread = counts.reward_squares - counts.reward_sums**2 / n
    alike = (visits > 1) & (spread <= _ALIKE * np.maximum(counts.reward_squares, _TINY))
    means = np.round(counts.reward_sums / n, 9)
    usual = np.zeros(counts.n_actions)
    for a in np.flatnonzero(visits.any(axis=0)):
        values, which = np.unique(means[alike[:, a], a], return_inverse=True)
        if not len(values):
            return None
        usual[a] = values[np.bincount(which, visits[alike[:, a], a]).argmax()]
    sums = counts.reward_sums - usual * visits
    squares = counts.reward_squares - 2 * usual * counts.reward_sums + usual * usual * visits
    differs = squares > _ALIKE * np.maximum(counts.reward_squares, _TINY)
    times = np.where(differs, np.maximum(sums * sums / np.where(differs, squares, 1.0), 1.0), 0.0)
    times = np.minimum(np.ceil(times - _TOLERANCE), visits)
    if not always and times.sum() >= 0.5 * visits[differs].sum():
        return None
    parts = np.stack([visits - times, times * (sums > 0), times * (sums <= 0)], axis=-1)
    return RewardLaw("hurdle", CATEGORICAL, np.ascontiguousarray(parts), _level_weights(parts))


def _gaussian(counts: Counts) -> RewardLaw:
    """Shift and scale the rewards, and match the prior to their spread within pairs."""
    visits = counts.visits.astype(np.float64)
    total = visits.sum()
    if total == 0:
        return _no_reward(counts)
    mean = counts.reward_sums.sum() / total
    sums = counts.reward_sums - mean * visits
    squares = counts.reward_squares - 2 * mean * counts.reward_sums + mean * mean * visits
    variance = squares.sum() / total
    if variance <= 1e-12 * max(mean * mean, 1e-300):
        return _no_reward(counts)
    sums, squares = sums / np.sqrt(variance), np.maximum(squares / variance, 0.0)
    freedom = np.maximum(visits - 1, 0).sum()
    within = (squares - sums * sums / np.maximum(visits, 1)).sum() / max(freedom, 1.0)
    within = float(np.clip(within if freedom else 1.0, 1e-4, 1.0))
    pseudo_visits = float(np.clip(within / max(1.0 - within, 1e-3), 1e-3, 1.0))
    parts = np.stack([visits, sums, squares], axis=-1)
    return RewardLaw("gaussian", GAUSSIAN, parts, np.array([pseudo_visits, 1.0, within]))
