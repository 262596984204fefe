"""Priors that are learned from the counts (empirical Bayes), at each plan.

Three things are learned. The *noise* of rewards: rewards that never vary are known after a try or
two. The *spread* of mean rewards over the pairs: what a pair may pay that was never tried. The
*moves* of pairs: which share of them is certain, and how likely the others are to lead where they
never led.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from romdp.core.arrays import Floats, Ints
from romdp.core.compiled import kernel
from romdp.data.counts import Counts
from romdp.planning.sampling import counted_share

_LEAST_WEIGHT, _MOST_WEIGHT = 0.01, 4.0  # of the Dirichlet prior of a pair
_FIRST_WEIGHT = 0.1  # as long as no pair was tried twice
_CERTAIN = 1e-4  # weight of the prior of a pair whose moves are certain
_EACH_KIND = 0.5  # pairs of each kind, certain or not, that are assumed beside those seen
_ROUNDS = 12  # of learning the share of certain pairs, and of halving what the weight may be
_OWN_NOISE = 2.0  # visits after which a pair's own noise counts as much as that of all pairs
_LEAST_BETA, _MOST_BETA = 0.05, 2.0  # weight of the prior of a reward that is 0 or 1
_PSEUDO = 16.0  # pairs with uniform means that are assumed where rewards are 0 or 1: what a few
# states have paid is no proof that the next one pays as little
_ROUNDING = 1e-12
_ALIKE = 1e-9  # sums of rewards that differ by less than this part of them are the same


@dataclass(frozen=True)
class RewardPrior:
    """What the rewards of all pairs say about each of them.

    Attributes
    ----------
    binary
        Whether every reward was 0 or 1, by chance as far as anybody can see. Mean rewards then have
        a Beta prior, else a normal one.
    mean, spread
        Mean and standard deviation of the mean rewards of pairs that were tried.
    noise
        Variance of the rewards of one pair around their mean.
    scale
        The size of rewards: the range of the mean rewards, or where they are all alike what a
        reward differs from 0, or 1.
    constant
        Whether all rewards were the same.
    varying
        The share of pairs whose rewards vary, among those that were tried more than once.
    relative
        Variance of the rewards of a pair relative to how far its mean is from that of all pairs,
        squared, and at most 1. It is 1 if a pair that pays more does so half of the time.
    """

    binary: bool
    mean: float
    spread: float
    noise: float
    scale: float
    constant: bool
    varying: float = 1.0
    relative: float = 0.0

    @classmethod
    def learn(
        cls, counts: Counts, zero_reward: float = 0.0, *, normal: bool = False
    ) -> "RewardPrior":
        """Learn from the visits, sums and squares of all pairs.

        ``normal``: rewards of 0 and 1 are no exception. The prior of an exception assumes more of
        what was not seen yet, which is good for who explores.

        Examples
        --------
        >>> visits, sums = np.full((3, 2), 50), np.array([[50, 0], [0, 0], [100, 0]])
        >>> counts = Counts(visits, np.zeros((3, 2, 3), int), sums, [[50, 0], [0, 0], [200, 0]])
        >>> prior = RewardPrior.learn(counts)
        >>> prior.binary, prior.scale, prior.noise < 0.01
        (False, 2.0, True)
        """
        tried = counts.visits > 0
        n = counts.visits[tried].astype(np.float64)
        sums, squares = counts.reward_sums[tried], counts.reward_squares[tried]
        if not n.size:
            return cls(True, 0.5, np.sqrt(1.0 / 12.0), 0.25, 1.0, True)
        means = sums / n
        inside = _within(n, sums, squares)
        low, high = float(means.min()), float(means.max())
        noisy = float(inside.sum()) > 0.0
        scale = high - low
        alike = scale <= _ALIKE * max(abs(low), abs(high))
        constant = alike and not noisy
        certain = not noisy and not constant and bool((n > 1.0).any())  # each pays what it paid
        binary = bool((np.abs(squares - sums) <= _ROUNDING * n).all()) and not certain
        binary = binary and not normal
        if alike:
            scale = float(np.sqrt(inside.sum() / n.sum())) if noisy else abs(high - zero_reward)
        scale = scale if scale > 0.0 else 1.0
        # A few pairs more, of the kind that one would expect: two of a kind are no proof.
        if binary:
            more, other, between, within = _PSEUDO, 0.5, 1.0 / 12.0, 1.0 / 6.0
        else:
            more, other = 1.0, float(sums.sum() / n.sum())
            between, within = scale**2 / 12.0, float(means.var()) + scale**2 / 12.0
        mean = float((more * other + means.sum()) / (n.size + more))
        noise = float((inside.sum() + more * within) / ((n - 1.0).sum() + more))
        apart = max(float(((means - mean) ** 2).sum() - (noise / n).sum()), 0.0)
        spread = float(np.sqrt((apart + more * between) / (n.size + more)))
        varying = (int(np.count_nonzero(inside)) + 1) / (int(np.count_nonzero(n > 1.0)) + 1)
        far = float(((n - 1.0) * (means - mean) ** 2).sum()) + spread**2
        relative = min(1.0, float(inside.sum()) / max(far, _ROUNDING))
        return cls(binary, mean, spread, noise, scale, constant, varying, relative)

    def _beta(self) -> tuple[float, float]:
        """Return the Beta prior with this mean and spread, as far as it is plausible."""
        mean = min(max(self.mean, 0.01), 0.99)
        weight = mean * (1.0 - mean) / max(self.spread**2, _ROUNDING) - 1.0
        weight = min(max(weight, _LEAST_BETA), _MOST_BETA)
        return mean * weight, (1.0 - mean) * weight

    def means(self, counts: Counts) -> Floats:
        """Return the expected mean reward of every pair, given what it paid."""
        if self.binary:
            a, b = self._beta()
            shrunk: Floats = (a + counts.reward_sums) / (a + b + counts.visits)
            return shrunk
        return self._normal(counts)[0]

    def _normal(self, counts: Counts) -> tuple[Floats, Floats]:
        """Return mean and variance of the mean reward of every pair."""
        n, noise = counts.visits.astype(np.float64), self._noise_of(counts)
        # Few pairs may pay much more than the others: those that do are taken at their word, unless
        # pairs that pay more are seen to do so now and then only.
        apart = counts.reward_sums / np.maximum(n, 1.0) - self.mean
        around = np.maximum(np.maximum(self.spread**2, apart**2), _ROUNDING)
        doubt = (noise + self.relative * apart**2) / around  # in visits
        mean = (counts.reward_sums + doubt * self.mean) / (n + doubt)
        return mean, noise / (n + doubt)

    def _noise_of(self, counts: Counts) -> Floats:
        """Return the variance of the rewards of every pair around their mean."""
        n = counts.visits.astype(np.float64)
        inside = _within(np.maximum(n, 1.0), counts.reward_sums, counts.reward_squares)
        noise = (inside + _OWN_NOISE * self.noise) / (np.maximum(n - 1.0, 0.0) + _OWN_NOISE)
        # Rewards of a pair that never varied are certain, as far as those of other pairs are, and
        # the more so the more often they did not.
        steady = self.varying * noise / np.maximum(n, 1.0)
        return np.where((n > 0.0) & (inside == 0.0), steady, noise)

    def pay(self, counts: Counts, means: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Draw what every pair would have paid if these were the means: sums and squares.

        Rewards that never varied would not have varied then.
        """
        n = np.maximum(counts.visits, 1.0)
        inside = _within(n, counts.reward_sums, counts.reward_squares)
        noise = np.where(inside > 0.0, self._noise_of(counts), 0.0)
        sums = counts.visits * means + np.sqrt(noise * counts.visits) * rng.standard_normal(n.shape)
        return sums, sums**2 / n + noise * (n - 1.0)

    def draw(
        self,
        counts: Counts,
        rng: np.random.Generator,
        *,
        floor: float = 0.0,
    ) -> Floats:
        """Draw a mean reward for every pair.

        A pair that was never tried is given the reward of one that was; sometimes, and the less
        often the more were tried, one that none has paid yet. Pairs that were tried less than
        ``floor`` times, or less where rewards are certain, count with a part of their visits
        (`counted_share`).
        """
        tried = counts.visits > 0
        if self.binary:
            a, b = self._beta()
            sums = np.clip(counts.reward_sums, 0.0, counts.visits)
            share = counted_share(counts.visits, floor * min(1.0, a + b))
            drawn = rng.beta(a + share * sums, b + share * (counts.visits - sums))
        else:
            mean, variance = self._normal(counts)
            weight = self.noise / max(self.spread**2, _ROUNDING)  # of the prior, in visits
            share = counted_share(counts.visits, floor * min(1.0, weight))
            drawn = rng.normal(mean, np.sqrt(variance / share))
            pool = drawn[tried]
            new = np.flatnonzero(~tried)
            if new.size and pool.size:
                flat = drawn.reshape(-1)
                flat[new] = pool[rng.integers(0, pool.size, new.size)]
                low, high = float(pool.min()) - self.scale, float(pool.max()) + self.scale
                fresh = new[rng.random(new.size) < 1.0 / (pool.size + 1.0)]
                flat[fresh] = rng.uniform(low, high, fresh.size)
        return drawn


def _within(n: Floats, sums: Floats, squares: Floats) -> Floats:
    """Return the squared deviations of rewards from the mean of their pair, 0 but for rounding."""
    inside = squares - sums * sums / n
    return np.where(inside > _ALIKE * squares, inside, 0.0)


@dataclass(frozen=True)
class MovePrior:
    """What the moves of all pairs say about each of them.

    Some pairs are certain: they always lead to the same place. The law of any other has a Dirichlet
    prior. One weight for both kinds would not do: in a room with a few doors that open by chance,
    a pair that has led to the same place twenty times would still be drawn as leading elsewhere now
    and then, and of thousands of such pairs some always promise a short cut.

    Attributes
    ----------
    certain
        The share of pairs that are certain.
    weight
        Weight of the Dirichlet prior of the others.
    """

    certain: float
    weight: float

    @classmethod
    def learn(cls, moves: "Ints | Any") -> "MovePrior":
        """Learn from how often pairs that were tried again led to somewhere new.

        A pair of prior weight w that was tried i times leads to a place where it never led with
        probability w / (w + i), if places are many. By turns, the weight is the one under which
        the number of such surprises is what it was, and the share of certain pairs is what is to be
        expected under that weight of those that never surprised (expectation maximisation).

        Parameters
        ----------
        moves : shape (n_states, n_actions, n_places) or sparse rows
            How often each pair led where.

        Examples
        --------
        >>> MovePrior.learn(np.eye(4, dtype=int)[:, None, :] * 30).certain > 0.8
        True
        >>> prior = MovePrior.learn(np.full((4, 1, 4), 9))
        >>> prior.certain < 0.2, prior.weight > 0.5
        (True, True)
        """
        return cls(*_learn_moves(*_tries(moves)))

    def doubts(self, n: NDArray[Any]) -> Floats:
        """Return how likely a pair is not certain after n tries that all led to one place."""
        if self.certain == 0.0:
            return np.ones(n.shape)
        w, n = self.weight, np.maximum(n, 1)
        alike = np.exp(gammaln(n) + gammaln(w + 1.0) - gammaln(w + n))
        doubt: Floats = (1.0 - self.certain) * alike
        return doubt / (self.certain + doubt)

    def draw_weights(self, moves: "Ints | Any", rng: np.random.Generator) -> Floats:
        """Draw which pairs are certain; return the weight of the prior of each."""
        n, kinds = _tries(moves)
        if self.certain == 0.0:
            return np.full(n.size, self.weight)
        probabilities = np.where(kinds > 1, 1.0, self.doubts(n))
        return np.where(rng.random(n.size) < probabilities, self.weight, _CERTAIN)

    def mean_weights(self, moves: "Ints | Any") -> Floats:
        """Return the weights under which a pair leads anywhere as likely as is expected."""
        n, kinds = _tries(moves)
        tries = np.maximum(n, 1)
        doubts = np.where(kinds > 1, 1.0, self.doubts(tries))
        elsewhere = doubts * self.weight / (self.weight + tries)
        return np.where(n > 0, tries * elsewhere / (1.0 - elsewhere), self.weight)


def _tries(moves: "Ints | Any") -> tuple[Ints, Ints]:
    """Return how often each pair was tried, and to how many places it has led."""
    if isinstance(moves, np.ndarray):
        return moves.sum(axis=-1).ravel(), np.count_nonzero(moves, axis=-1).ravel()
    return np.diff(np.append(0, np.cumsum(moves.data))[moves.indptr]), np.diff(moves.indptr)


@kernel
def _learn_moves(n: Ints, kinds: Ints) -> tuple[float, float]:
    """Return the share of certain pairs, and the weight of the others; see `MovePrior.learn`."""
    order = np.argsort(n)
    numbers = np.empty(n.size)  # of tries, each but once,
    steady, varied = np.zeros(n.size), np.zeros(n.size)  # and how many pairs have each
    size, surprises = 0, 0.5
    for pair in order:
        if n[pair] > 1:
            if size == 0 or n[pair] > numbers[size - 1]:
                numbers[size] = n[pair]
                size += 1
            if kinds[pair] == 1:
                steady[size - 1] += 1.0
            else:
                varied[size - 1] += 1.0
                surprises += kinds[pair] - 1.0
    if size == 0:
        return 0.0, _FIRST_WEIGHT
    numbers, steady, varied = numbers[:size], steady[:size], varied[:size]
    pairs = steady.sum() + varied.sum() + 2.0 * _EACH_KIND
    certain, weight = 0.5, 1.0
    for _ in range(_ROUNDS):
        doubted = np.empty(size)
        for k in range(size):
            # how likely a pair that is not certain would have led to one place so many times
            alike = math.lgamma(numbers[k]) - math.lgamma(weight + numbers[k])
            doubt = (1.0 - certain) * math.exp(alike + math.lgamma(weight + 1.0))
            doubted[k] = steady[k] * doubt / (certain + doubt)
        before = (certain, weight)
        certain = (steady.sum() - doubted.sum() + _EACH_KIND) / pairs
        weight = _weight(numbers, doubted + varied, surprises)
        if (certain, weight) == before:  # at once where no pair could be certain
            break
    return certain, weight


@kernel
def _weight(numbers: Floats, often: Floats, surprises: float) -> float:
    """Return the weight under which pairs with so many tries surprise so often."""
    low, high = math.log(_LEAST_WEIGHT), math.log(_MOST_WEIGHT)
    for _ in range(_ROUNDS):
        weight = math.exp((low + high) / 2.0)
        expected, first = 0.0, _digamma(weight + 1.0)
        for k in range(numbers.size):
            expected += weight * (_digamma(weight + numbers[k]) - first) * often[k]
        if expected > surprises:
            high = (low + high) / 2.0
        else:
            low = (low + high) / 2.0
    return math.exp((low + high) / 2.0)


@kernel
def _digamma(x: float) -> float:
    """Return the derivative of the logarithm of the gamma function; error below 1e-9."""
    value = 0.0
    while x < 10.0:
        value -= 1.0 / x
        x += 1.0
    r = 1.0 / (x * x)
    return value + math.log(x) - 0.5 / x - r * (1.0 / 12.0 - r * (1.0 / 120.0 - r / 252.0))
