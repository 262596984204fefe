"""What a log bears out: where to depart from whoever wrote it, and what that earns at least.

There are two bounds. One needs no model: a policy found on one part of the episodes is judged by
the others (`romdp.logs.model.trial`). The other is the model's own, from draws of what the world
may be like; it is a bound if the hidden states are right, and stands in for the first only where
every test of the model that could fail has passed (`romdp.logs.model.independence`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from romdp.core.randomness import Seed, generator
from romdp.core.text import count
from romdp.core.validation import freeze
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.logs.model.draws import Draws
from romdp.logs.model.episodes import choices
from romdp.logs.model.independence import (
    CHOICE,
    DRIFT,
    Independence,
    run_tests,
)
from romdp.logs.model.trial import (
    FEWEST_EPISODES,
    LEVEL,
    Model,
    Sums,
    by_state,
    departures,
    follow,
)
from romdp.logs.reading.closing import some_episodes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HARM = 0.05
"""The probability of harm that a departure from the log may have."""

HELD_OUT, PASSED, NONE = "held-out episodes", "model, tests passed", "none"
"""What ``value_lower`` rests on."""

_STREAM = 5  # of the seed; see `romdp.logs.fitting`
_LEVELS = (0.0, 1.0, 2.0, 3.0)  # standard deviations by which an action must lead
_FIRST, _DRAWS = 20, 100  # draws to choose by, and to judge the choice by
_CHOICES = 20  # draws in which the choice is repeated
_LOST = 0.05  # probability of meeting what is not known, from which on there is no bound
_STRANGE = 0.5  # probability of a start that was never seen, from which on there is no bound
_BATCHES = 20  # of one long episode: from 10 to 30 serve best (Schmeiser 1982)
_SHARES = (1.0, 0.5, 0.25, 0.125)  # of the departures, the surest first, that are tried in turn


@dataclass(frozen=True)
class Log:
    """The rows by which a model is judged, and how hidden states are found in a part of them.

    Attributes
    ----------
    seen : Trajectory
        Steps in their order; rewards are in [0, 1].
    propensities : ndarray or None
        The probabilities with which their actions were chosen, where they are known.
    in_episodes : bool
        Whether they have episodes of their own, or blocks of one long episode.
    regroup : callable
        Finds hidden states in counts.
    """

    seen: Trajectory
    propensities: Floats | None
    in_episodes: bool
    regroup: Callable[[Counts], Partition]


@dataclass(frozen=True, eq=False)
class Safety:
    """What can be promised.

    Attributes
    ----------
    asked : ndarray of int64
        The action that the log bears out at each observation, -1 to go on as before.
    policy : ndarray
        The probabilities of actions in each state that this comes to; shape (n_states, n_actions).
    value_lower : float
        A 95% lower bound of what following ``asked`` earns, in units of the reward; minus infinity
        if there is none.
    value_basis : str
        What the bound rests on: "held-out episodes", "model, tests passed" or "none".
    value_if_markov : float
        The model's own bound, which holds if its states are right.
    harm : float
        The probability that ``asked`` earns less than whoever wrote the log, in the model.
    logged_value : float
        What whoever wrote the log earns in the model, in the same units.
    effective_episodes : float
        How many episodes of the policy itself the log's episodes are worth; 0 without episodes.
    tests : tuple of Independence
        What was tested.
    missing : str
        Why there is no bound, in a sentence; empty if there is one.
    """

    asked: Ints
    policy: Floats
    value_lower: float
    value_basis: str
    value_if_markov: float
    harm: float
    logged_value: float
    effective_episodes: float = 0.0
    tests: tuple[Independence, ...] = ()
    missing: str = ""


@dataclass(frozen=True, eq=False)
class Promise:
    """What the model itself promises: the action of each state, and the rest as in `Safety`."""

    choice: Ints
    lower: float
    harm: float
    logged: float
    level: float
    missing: str


def judge(
    counts: Counts,
    partition: Partition,
    reward_range: tuple[float, float] | None,
    objective: str | float,
    certainty: Floats | None,
    inverse_propensities: Floats | None,
    seed: Seed,
    log: Log | None = None,
) -> Safety:
    """Find what a log bears out.

    Parameters
    ----------
    counts, partition, reward_range, objective, certainty
        As for `Draws`.
    inverse_propensities
        Sums of 1 / propensity by observation and action, where these are known.
    seed
        Seeds draws and shuffles.
    log
        Rows to judge by; without them nothing can be tested.
    """
    rng = generator(seed, _STREAM)
    tests: tuple[Independence, ...] = ()
    if log is not None:
        tests = run_tests(log.seen, partition, log.in_episodes, generator(seed, _STREAM, 1))
    logger = choices(counts.visits, partition.labels, inverse_propensities)
    baseline = by_state(logger, counts.visits.sum(axis=1), partition)
    nothing = np.full(len(logger), -1)
    if reward_range is None:
        return Safety(
            freeze(nothing), freeze(baseline), -np.inf, NONE, -np.inf, 0.0, 0.0, 0.0, tests,
            "the log has no rewards",
        )  # fmt: skip
    model = Model(counts, partition, reward_range, objective, logger, rng, certainty)
    promise = make_safe(model, rng)
    found = Safety(
        asked=model.ask(promise.choice),
        policy=baseline,
        value_lower=-np.inf,
        value_basis=NONE,
        value_if_markov=promise.lower,
        harm=promise.harm,
        logged_value=promise.logged,
        tests=tests,
        missing=promise.missing,
    )
    failed = [test for test in tests if test.fails]
    why = _speaks_against(failed)
    if why:
        found = replace(found, asked=nothing, missing=why)
    elif log is not None and log.seen.n_episodes > 1 and log.seen.rewards is not None:
        found = _try_out(found, model, promise, reward_range, objective, log, rng)
    if not failed and tests and found.value_basis == NONE and np.isfinite(promise.lower):
        found = replace(found, value_lower=promise.lower, value_basis=PASSED, missing="")
    elif found.value_basis == NONE and not found.missing:
        reason = (
            f"{failed[0]}, so the model's own bound does not count"
            if failed
            else ("a table of counts has no rows by which the model could be tested")
        )
        found = replace(found, missing=reason)
    if not (found.asked >= 0).any():
        found = replace(found, harm=0.0)
    rule = follow(logger, found.asked)
    policy = by_state(rule, counts.visits.sum(axis=1), partition)
    return replace(found, asked=freeze(found.asked), policy=freeze(policy))


def _speaks_against(failed: list[Independence]) -> str:
    """Say why no bound could hold, if tests speak for drift or for a confounder."""
    kinds = {test.kind: test for test in failed}
    if DRIFT in kinds:
        return (
            f"what follows a step changed in the course of the log: {kinds[DRIFT]}; fit a shorter "
            "stretch of it, or add a column that tells the times apart"
        )
    if CHOICE in kinds:
        return (
            "whoever wrote the log chose by more than what was seen at each step: "
            f"{kinds[CHOICE]}; add the column that they looked at, or who it was"
        )
    return ""


def _try_out(
    found: Safety,
    model: Model,
    promise: Promise,
    reward_range: tuple[float, float],
    objective: str | float,
    log: Log,
    rng: np.random.Generator,
) -> Safety:
    """Judge the policy by episodes in which it was not found; bring it closer to the log if needed.

    A model that passed its tests is tried as it is. Where it has no bound of its own and the halves
    do not bear it out, only those departures are kept that lead by themselves, each with a
    probability of harm as small as that of all together should be. If it failed, a policy that was
    found in one half is followed, and brought closer to the log until the other half can judge it,
    if that half bears out that it earns more.
    """
    assert log.seen.rewards is not None
    low, high = reward_range
    rewards = low + (high - low) * log.seen.rewards
    steps = log.propensities
    if steps is None:
        steps = model.logger[log.seen.observations, log.seen.actions]
    n = log.seen.n_episodes
    batch = np.arange(n) if log.in_episodes else _BATCHES * np.arange(n) // max(n, _BATCHES)
    first = rng.permutation(int(batch.max()) + 1)[batch] % 2 == 0
    parts = []
    for own in (first, ~first):
        seen, rows = some_episodes(log.seen, own), np.repeat(own, log.seen.lengths)
        assert seen is not None
        parts.append((seen, rewards[rows], steps[rows], batch[own]))
    halves = []
    for seen, *_ in parts:
        part = Counts.from_trajectory(seen)
        halves.append(Model(part, log.regroup(part), reward_range, objective, model.logger, rng))
    crossed = list(zip(halves, parts[::-1], strict=True))
    if not any(test.fails for test in found.tests):

        def tried_out(level: float) -> Sums:
            first, second = (
                half.judge(*rest, half.ask(half.surest(level))) for half, rest in crossed
            )
            return first + second

        sums = tried_out(promise.level)
        if not np.isfinite(promise.lower) and sums.verdict(LEVEL).gain_lower <= 0.0:
            others = max(1, model.logger.shape[1] - 1)  # among which a departure was the best
            level = max(promise.level, float(ndtri(1.0 - HARM / others)))
            found, sums = replace(found, asked=model.ask(model.surest(level))), tried_out(level)
        found = replace(found, effective_episodes=sums.effective)
        if sums.effective >= FEWEST_EPISODES:
            lower = sums.verdict(LEVEL).lower
            return replace(found, value_lower=lower, value_basis=HELD_OUT, missing="")
        return found
    asked = np.full_like(found.asked, -1)
    sums = model.judge(log.seen, rewards, steps, batch, asked)
    verdict = sums.verdict(LEVEL)
    for half, rest in crossed:
        nearer = (half.ask(half.nearest(share)) for share in _SHARES)
        tried = ((one, half.judge(*rest, one)) for one in nearer)
        one, judged = next(
            (pair for pair in tried if pair[1].effective >= FEWEST_EPISODES), (asked, sums)
        )
        better = judged.verdict(1.0 - (1.0 - LEVEL) / len(crossed))
        if better.gain_lower > 0.0 and better.lower > verdict.lower:
            asked, sums, verdict = one, judged, better
    return replace(
        found,
        asked=asked,
        value_lower=verdict.lower,
        value_basis=HELD_OUT,
        effective_episodes=sums.effective,
        missing="",
    )


def make_safe(model: Model, rng: np.random.Generator) -> Promise:
    """Choose by draws where to depart from the log, and bound what that earns in the model."""
    draws, baseline = model.draws, model.baseline
    options, levels = [np.full(len(baseline), -1)], [np.inf]
    for level in _LEVELS:
        choice = model.surest(level)
        if not any(np.array_equal(choice, other) for other in options):
            options.append(choice)
            levels.append(level)
    policies = [follow(baseline, choice) for choice in options]
    earned = _earned(draws, policies, baseline, _FIRST, rng)
    bounds = np.quantile(earned.acted, 1.0 - LEVEL, axis=0)
    harms = (earned.acted < earned.logged[:, None] - earned.tolerance).mean(axis=0)
    harms[0] = 0.0
    bounds[harms > HARM] = -np.inf
    while True:  # twenty draws may overlook a harm
        best = int(bounds.argmax())
        judged = _earned(draws, [policies[best]], baseline, _DRAWS, rng, lost=True)
        worse = judged.acted[:, 0] < judged.logged - judged.tolerance
        harm = float(worse.mean()) if best else 0.0
        if harm <= HARM:
            break
        bounds[best] = -np.inf
    optimism = _optimism(model, options[best], rng) if best else 0.0
    lower = float(np.quantile(judged.acted[:, 0], 1.0 - LEVEL)) - optimism
    missing = ""
    if np.mean(judged.lost[:, 0] > _LOST) > 1.0 - LEVEL:
        lower = -np.inf
        missing = _missing(draws)
    elif model.world.strange > _STRANGE:
        lower = -np.inf
        missing = (
            f"{model.world.strange:.0%} of new episodes will begin with an observation at which "
            "none began before"
        )
    logged = replace(model.world, strange=0.0).value(baseline)
    return Promise(options[best], lower, harm, logged, levels[best], missing)


def _optimism(model: Model, choice: Ints, rng: np.random.Generator) -> float:
    """Return by how much a policy seems better where it was chosen for seeming the best.

    Logs as long as this one are written in drawn worlds, and policies are chosen by them.
    """
    seeming, draws, baseline = [], model.draws, model.baseline
    allowed = model.tried & (choice >= 0)[:, None]
    for _ in range(_CHOICES):
        world, _ = draws.draw(rng, regroup=False)
        guess = draws.relearn(world, rng)
        policy = follow(baseline, departures(guess, baseline, allowed))
        seeming.append(guess.value(policy) - world.value(policy))
    return max(0.0, float(np.mean(seeming)))


@dataclass(frozen=True, eq=False)
class _Earned:
    acted: Floats  # by draw and policy
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
    acted, missed = (np.zeros((n_draws, len(policies))) for _ in range(2))
    logged = np.zeros(n_draws)
    for i in range(n_draws):
        world, origin = draws.draw(rng)
        known = replace(world, strange=0.0)  # at starts that were never seen all do the same
        logged[i] = known.value(baseline[origin])
        for j, policy in enumerate(policies):
            acted[i, j] = known.value(policy[origin])
            if lost:
                missed[i, j] = world.risk_of_unknown(policy[origin])
    return _Earned(acted, missed, logged)


def _missing(draws: Draws) -> str:
    seen = draws.counts.visits.sum(axis=1)[draws.doubtful]
    if not len(seen):
        return "what is recommended may lead to actions that were never tried"
    share = seen.sum() / max(1, draws.counts.n_steps)
    usual = float(np.median(seen))
    return (
        f"the hidden state of {count(len(seen), 'observation')} ({share:.1%} of the steps) is "
        f"doubtful, and half of them were seen at most {count(int(usual), 'time')}"
    )
