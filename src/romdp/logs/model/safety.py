"""A policy that the log bears out, and what it earns at least.

The policy is that of safe policy improvement with baseline bootstrapping (SPIBB; Laroche,
Trichelair and des Combes 2019) on the hidden states. An action that was tried often enough in a
state may be chosen there because it is the best; every other action keeps the probability that
whoever wrote the log gave it. How often is often enough is decided by draws of what the world may
be like.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from romdp.core.randomness import Seed, generator
from romdp.core.text import count
from romdp.core.validation import freeze
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.logs.comparing import ALPHAS, highest, log_chance
from romdp.logs.model.draws import Draws, World

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95
"""The probability with which ``value_lower`` holds."""

HARM = 0.05
"""The probability of harm that the safe policy may have."""

_STREAM = 5  # of the seed; see `romdp.logs.fitting`
_TRIES = (1, 3, 10, 30, 100)  # tries that may be enough
_FIRST, _DRAWS = 20, 100  # draws to choose by, and to judge the choice by
_CHOICES = 20  # draws in which the choice is repeated
_LOST = 0.05  # probability of meeting what is not known, from which on there is no bound
_STRANGE = 0.5  # probability of a start that was never seen, from which on there is no bound
_MOST_SWEEPS = 100
_CLEARLY = 3.0  # nats by which a law of habits must be more probable than none
_SHARES = np.linspace(0.01, 1.0, 100)  # shares of steps without the favourite action
_ENOUGH = 10  # visits that place an observation as a rule


@dataclass(frozen=True, eq=False)
class Safety:
    """What can be promised.

    Attributes
    ----------
    policy : ndarray
        Probabilities of the actions in each state; shape (n_states, n_actions).
    value_lower : float
        A 95% lower bound of what the likeliest actions of ``policy`` earn, in units of the reward;
        minus infinity if too much is unknown.
    harm : float
        The probability that ``policy`` earns less than whoever wrote the log.
    logged_value : float
        What the policy behind the log earns in the fitted model, in the same units.
    tries : int
        How often an action was tried, at least, where the policy prefers it; 0 if the policy is
        that of the log.
    missing : str
        What would have to be known for a bound, and how many rows would do; empty if there is one.
    """

    policy: Floats
    value_lower: float
    harm: float
    logged_value: float
    tries: int
    missing: str = ""


def behaviour(visits: Ints, observed: Ints, inverse: Floats | None = None) -> Floats:
    """Estimate the probabilities with which the log chose its actions, state by state.

    Parameters
    ----------
    visits
        Visits of every state and action.
    observed
        Visits of every observation and action. They tell whether the choice depends on what was
        seen at all: states do not, since what was done decided which observations are together.
    inverse
        Sums of 1 / propensity over the steps of each state and action, if propensities are known.
        A pair's probability is then its visits divided by that sum, and nothing is guessed, except
        that every action is equally likely where there were no steps.

    Notes
    -----
    What was done once in a state is not what is always done there. Two laws are fitted to all
    states, and the one under which the log is more probable says what to expect in each: a
    favourite action, with the usual mixture of actions in a share of the steps (as a greedy policy
    that explores does), or probabilities that vary around the usual ones (a Dirichlet law). Where
    neither makes what was done at the observations clearly more probable than the usual mixture
    everywhere, that is the policy.
    """
    if inverse is not None:
        chances = np.divide(visits, inverse, out=np.zeros(visits.shape), where=inverse > 0)
        chances[chances.sum(axis=1) == 0] = 1.0
        shares: Floats = chances / chances.sum(axis=1, keepdims=True)
        return shares
    n = visits.astype(np.float64)
    usual = n.sum(axis=0) / n.sum()
    used = usual > 0
    usual, n = usual[used], n[:, used]
    seen = observed[:, used].astype(np.float64)
    everywhere = float((seen @ np.log(usual)).sum())
    _, by_spread, _, by_share = _fit_habits(seen, usual)
    spread, varying, share, favouring = _fit_habits(n, usual)
    if max(by_spread, by_share) < everywhere + _CLEARLY:
        found = np.tile(usual, (len(n), 1))
    elif favouring > varying:
        favourites = _favourites(n, usual, share)
        greedy = logsumexp(favourites, axis=1, keepdims=True)
        found = (1.0 - share) * np.exp(favourites - greedy) + share * usual
    else:
        found = (n + spread * usual) / (n.sum(axis=1, keepdims=True) + spread)
    policy = np.zeros(visits.shape)
    policy[:, used] = found
    return policy


def _fit_habits(n: Floats, usual: Floats) -> tuple[float, float, float, float]:
    """Fit the spread and the share without the favourite; return each with its log probability."""

    def varying(spread: float) -> float:
        return float(log_chance(n, spread * usual).sum())

    def favouring(share: float) -> float:
        return float(logsumexp(_favourites(n, usual, share), axis=1).sum())

    spread, share = highest(varying, ALPHAS), highest(favouring, _SHARES)
    return spread, varying(spread), share, favouring(share)


def _favourites(n: Floats, usual: Floats, share: float) -> Floats:
    """Return the log probability of each action being the favourite, and of what was done."""
    other = np.log(share * usual)
    favourite = np.log(1.0 - share + share * usual)
    found: Floats = np.log(usual) + (n @ other)[:, None] + n * (favourite - other)
    return found


def improve(world: World, baseline: Floats, allowed: NDArray[np.bool_]) -> Floats:
    """Return the best policy that differs from the baseline only in allowed pairs."""
    n_states, n_actions = baseline.shape
    kept = np.where(allowed, 0.0, baseline)
    free = 1.0 - kept.sum(axis=1)
    kept[free <= 1e-12] = baseline[free <= 1e-12]
    choosing = allowed.any(axis=1) & (free > 1e-12)
    policy = baseline.copy()
    best = np.full(n_states, -1)
    for _ in range(_MOST_SWEEPS):
        values = world.values(policy)
        after = (world.moves @ values).reshape(n_states, n_actions)
        if world.restarts:
            lost = 1.0 - np.asarray(world.moves.sum(axis=1)).ravel().reshape(n_states, n_actions)
            after = after + np.maximum(0.0, lost) * (world.starts @ values)
        totals = np.where(allowed, world.rewards + world.discount * after, -np.inf)
        chosen = totals.argmax(axis=1)
        states = np.arange(n_states)
        scale = 1e-9 * max(1.0, float(np.abs(values).max()))
        same = (best >= 0) & (totals[states, best] >= totals[states, chosen] - scale)
        chosen = np.where(same, best, chosen)
        if np.array_equal(chosen[choosing], best[choosing]):
            break
        best = chosen
        policy = np.where(choosing[:, None], kept, baseline)
        policy[states[choosing], chosen[choosing]] += free[choosing]
    return policy


def likeliest(policy: Floats) -> Floats:
    """Return the policy that always takes the likeliest action, the first of several."""
    chosen: Floats = np.eye(policy.shape[1])[policy.argmax(axis=1)]
    return chosen


def judge(
    counts: Counts,
    partition: Partition,
    reward_range: tuple[float, float],
    objective: str | float,
    certainty: Floats | None,
    inverse_propensities: Floats | None,
    seed: Seed,
) -> Safety:
    """Find the safe policy of a log whose observations were grouped; see `Draws`."""
    draws = Draws(counts, partition, reward_range, objective, certainty)
    grouped = counts.group(partition)
    inverse = inverse_propensities
    if inverse is not None and not partition.is_identity:
        placed = partition.labels >= 0
        total = np.zeros(grouped.visits.shape)
        np.add.at(total, partition.labels[placed], inverse[placed])
        inverse = total
    baseline = behaviour(grouped.visits, counts.visits, inverse)
    return make_safe(draws, baseline, grouped.visits, generator(seed, _STREAM))


def make_safe(draws: Draws, baseline: Floats, visits: Ints, rng: np.random.Generator) -> Safety:
    """Choose the safe policy, and bound what its likeliest actions earn.

    Parameters
    ----------
    draws
        Draws worlds.
    baseline
        The log's own policy on the hidden states; see `behaviour`.
    visits
        Visits of every hidden state and action.
    rng
        Draws.
    """
    guess = draws.best_guess()
    policies, tries = [baseline], [0]
    for enough in _TRIES:
        policy = improve(guess, baseline, visits >= enough)
        if not any(np.array_equal(policy, other) for other in policies):
            policies.append(policy)
            tries.append(enough)
    earned = _earned(draws, policies, baseline, _FIRST, rng)
    bounds = np.quantile(earned.acted, 1.0 - LEVEL, axis=0)
    bounds += np.quantile(earned.mixed, 1.0 - LEVEL, axis=0)
    harms = (earned.mixed < earned.logged[:, None] - earned.tolerance).mean(axis=0)
    harms[0] = 0.0
    bounds[harms > HARM] = -np.inf
    while True:  # twenty draws may overlook a harm
        best = int(bounds.argmax())
        judged = _earned(draws, [policies[best]], baseline, _DRAWS, rng, lost=True)
        worse = judged.mixed[:, 0] < judged.logged - judged.tolerance
        harm = float(worse.mean()) if best else 0.0
        if harm <= HARM:
            break
        bounds[best] = -np.inf
    optimism = _optimism(draws, baseline, visits >= tries[best], rng) if best else 0.0
    lower = float(np.quantile(judged.acted[:, 0], 1.0 - LEVEL)) - optimism
    missing = ""
    if np.mean(judged.lost[:, 0] > _LOST) > 1.0 - LEVEL:
        lower = -np.inf
        missing = _missing(draws)
    elif guess.strange > _STRANGE:
        lower = -np.inf
        missing = (
            f"{guess.strange:.0%} of new episodes will begin with an observation at which none "
            f"began before; some {10 * draws.counts.n_steps:,} rows of the same kind would do"
        )
    return Safety(
        policy=freeze(policies[best]),
        value_lower=lower,
        harm=harm,
        logged_value=replace(guess, strange=0.0).value(baseline),
        tries=tries[best],
        missing=missing,
    )


def _optimism(
    draws: Draws, baseline: Floats, allowed: NDArray[np.bool_], rng: np.random.Generator
) -> float:
    """Return by how much a policy seems better where it was chosen for seeming the best.

    Logs as long as this one are written in drawn worlds, and policies are chosen by them.
    """
    seeming = []
    for _ in range(_CHOICES):
        world, _ = draws.draw(rng, regroup=False)
        guess = draws.relearn(world, rng)
        act = likeliest(improve(guess, baseline, allowed))
        seeming.append(guess.value(act) - world.value(act))
    return max(0.0, float(np.mean(seeming)))


@dataclass(frozen=True, eq=False)
class _Earned:
    acted: Floats  # by draw and policy: of the likeliest actions
    mixed: Floats  # of the policies themselves
    lost: Floats  # the probability of meeting what is not known
    logged: Floats  # of the log's own policy

    @property
    def tolerance(self) -> float:
        """Return differences that are rounding."""
        return 1e-9 * max(1.0, float(np.abs(self.logged).max()))


def _earned(
    draws: Draws,
    policies: list[Floats],
    baseline: Floats,
    n_draws: int,
    rng: np.random.Generator,
    *,
    lost: bool = False,
) -> _Earned:
    acted, mixed, missed = (np.zeros((n_draws, len(policies))) for _ in range(3))
    logged = np.zeros(n_draws)
    for i in range(n_draws):
        world, origin = draws.draw(rng)
        known = replace(world, strange=0.0)  # at starts that were never seen all do the same
        logged[i] = known.value(baseline[origin])
        for j, policy in enumerate(policies):
            act = likeliest(policy)[origin]
            acted[i, j] = (world if lost else known).value(act)
            mixed[i, j] = known.value(policy[origin])
            if lost:
                missed[i, j] = world.risk_of_unknown(act)
    return _Earned(acted, mixed, missed, logged)


def _missing(draws: Draws) -> str:
    seen = draws.counts.visits.sum(axis=1)[draws.doubtful]
    if not len(seen):
        return (
            "what is recommended may lead to actions that were never tried; some "
            f"{10 * draws.counts.n_steps:,} rows of the same kind would do"
        )
    share = seen.sum() / max(1, draws.counts.n_steps)
    usual = float(np.median(seen))
    rows = int(draws.counts.n_steps * max(2.0, _ENOUGH / max(usual, 0.5)))
    return (
        f"the hidden state of {count(len(seen), 'observation')} ({share:.1%} of the steps) is "
        f"doubtful, and half of them were seen at most {count(int(usual), 'time')}; some {rows:,} "
        "rows of the same kind would do"
    )
