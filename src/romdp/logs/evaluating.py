"""`evaluate`: what a policy would have earned, from a log that somebody else wrote.

There are four estimators, each on the hidden states and on the observations themselves. Let w(t) be
the product of policy / behaviour over the steps 0 to t of an episode, g the discount, and Q, V the
values of the policy in the model of the log:

- direct: the starts' mean of V.
- weighted importance sampling: the mean of the episodes' returns, weighted by w at their end.
- per-decision importance sampling: the mean over episodes of sum_t g^t w(t) r(t).
- doubly robust: the mean over episodes of sum_t g^t (w(t) (r(t) - Q(t)) + w(t - 1) V(t)). For the
  average reward: the gain in the model, plus its mean error on the steps of the log, weighted by
  how much more often the policy would be there and do that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from romdp.core.errors import InvalidInputError, StructureError
from romdp.core.randomness import Seed, generator
from romdp.core.text import columns as in_columns
from romdp.core.text import interval, number, one_line
from romdp.core.validation import check, flag, rectangular
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.logs.fitting import read_objective
from romdp.logs.model.draws import Draws, World, discount_of
from romdp.logs.model.episodes import Episodes, choices
from romdp.logs.model.evaluation import correct_gain
from romdp.logs.model.latent import LatentModel
from romdp.logs.model.trial import FEWEST_EPISODES, by_state
from romdp.logs.parting import group_and_part
from romdp.logs.reading.closing import LogRows
from romdp.logs.reading.columns import Columns, split_name
from romdp.logs.reading.counting import read_rows
from romdp.logs.reading.sources import open_source

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95
"""The confidence of the intervals."""

_RESAMPLES = 1_000
_DRAWS = 100
_RESAMPLE, _DRAW = range(11, 13)  # streams of the seed


class Estimate(NamedTuple):
    """One estimate: how, on what, the value, and the ends of its 95% interval."""

    estimator: str
    on: str
    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Evaluation:
    """Estimates of what a policy earns; printing it shows them as a table.

    Attributes
    ----------
    estimates : tuple of Estimate
        Estimator, what it looks at ("states" or "observations"), value, low and high. The first is
        the one to believe: doubly robust on observations if the policy was followed in enough
        episodes to judge it without a model, else the direct one on states.
    logged : float
        What the log itself earned, per episode or per step as the values are.
    objective : str or float
        What the values are about.
    effective_episodes : float
        How many equally weighted episodes the importance-weighted ones are worth, on observations.
    untried : float
        The share of what the policy does that was never tried at its observation, so that the log
        cannot judge it; the policy is taken to go on as before there.
    """

    estimates: tuple[Estimate, ...]
    logged: float
    objective: str | float
    effective_episodes: float
    untried: float = 0.0

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self.estimates)

    def __len__(self) -> int:
        return len(self.estimates)

    def to_arrow(self) -> Any:
        """Return the estimates as an Arrow table."""
        import pyarrow as pa

        return pa.table(dict(zip(Estimate._fields, zip(*self.estimates, strict=True), strict=True)))

    def __str__(self) -> str:
        per = "step" if self.objective == "average" else "episode"
        first, enough = self.estimates[0], self.effective_episodes >= FEWEST_EPISODES
        rows = [["estimator", "on", "value", "low", "high"]]
        rows += [[e.estimator, e.on, *map(number, e[2:])] for e in self]
        lines = [
            f"the policy earns {number(first.value)} per {per}, 95% interval "
            f"{interval(first[3:])}; the log itself earned {number(self.logged)}",
            f"({first.estimator}, on {first.on}: there is {'enough' if enough else 'too little'} "
            "overlap to judge the policy without trusting hidden states)",
            "",
            *in_columns(rows),
            "",
            f"overlap: the log is worth {self.effective_episodes:,.1f} episodes of the policy "
            f"itself, and {self.untried:.1%} of what it does was never tried at its observation, "
            "where it is taken to go on as before",
        ]
        if not np.isfinite([e[2:] for e in self]).all():
            lines.append("-: too few episodes were decided throughout as the policy decides")
        return "\n".join(lines)


def evaluate(
    data: Any,
    policy: Any,
    observation: str | Sequence[str],
    action: str,
    reward: str,
    episode: str | None = None,
    order: str | None = None,
    *,
    terminated: str | None = None,
    propensity: str | None = None,
    objective: str | float | None = None,
    ends: str | None = None,
    sort: bool = False,
    seed: Seed = 0,
    workers: int | None = None,
) -> Evaluation:
    """Estimate from a log what a policy would earn.

    Parameters
    ----------
    data, observation, action, reward, episode, order, terminated, propensity
        The log and its columns, as for `romdp.fit`. Without propensities, the policy behind the
        log is estimated from what it did at each observation.
    policy
        A model (what its ``act`` says); a `romdp.playing.Policy` or anything else with an ``act``
        that takes an observation; a mapping from observations to actions (None, or no entry: go on
        as before); or an array, if
        observations are whole numbers: the action of each, or one row of probabilities each,
        whose columns are the log's actions in their order.
    objective
        As for `romdp.fit`. For the average reward, the two kinds of importance sampling are about
        episodes as long as the log's.
    ends, sort
        As for `romdp.fit`.
    seed
        Draws the bootstrap samples and the worlds of the direct method.
    workers
        Threads that read files; by default one per core.

    Returns
    -------
    Evaluation

    Raises
    ------
    InvalidInputError
        If the policy takes an action that the log does not have, or a column cannot be used.

    Notes
    -----
    Intervals are Student's t over episodes for the two means (per-decision and doubly robust), the
    bootstrap over episodes for weighted importance sampling, and for the direct method what draws
    of the world say, which count doubt about the states, too. In these a pair does what it was seen
    to do, however rarely: what other actions of its state did is no guide to a policy that was
    chosen because its own are better. All steps are kept in memory.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
    >>> seen = romdp.simulate(world, "uniform", steps=4_000, seed=0)
    >>> log = {"page": seen.observations, "offer": seen.actions, "paid": seen.rewards,
    ...        "visit": np.arange(4_000) // 5}
    >>> best = world.hidden.optimal_policy[world.labels]
    >>> found = evaluate(log, best, "page", "offer", "paid", "visit")
    >>> [e.estimator for e in found][:2], len(found)
    (['direct', 'weighted importance sampling'], 8)
    """
    aim = None if objective is None else read_objective(objective)
    for name, column in (("action", action), ("reward", reward)):
        check(column, name, str)
    check(ends, "ends", None, str)
    flag(sort, "sort")
    pieces = open_source(data)
    observation = split_name(observation, pieces)
    names = Columns(observation, action, reward, episode, order, terminated, propensity)
    rows = read_rows(pieces, names, ends=ends or "truncated", sort=sort, workers=workers)
    if ends is None and terminated is None and (rows.seen.lengths == 1).all():
        rows, ends = rows.decided(), "terminated"
    if rows.seen.vectors is not None:
        if not isinstance(policy, LatentModel) or policy.decoder is None:
            raise InvalidInputError(
                "observations are vectors; evaluate a model that was learned from such vectors"
            )
        rows = rows.decoded(policy.decoder)
    if isinstance(policy, LatentModel) and policy.memory is not None:
        rows = policy.memory.remembered(rows)
    rows = rows.in_blocks()
    held, total = rows.seen, Counts.from_trajectory(rows.seen)
    assert held.rewards is not None
    assert rows.reward_range is not None
    tells_ends = terminated is not None or ends == "terminated"
    aim = aim or ("episodic" if tells_ends and total.has_ends else "average")
    states = _states(policy, rows, total, seed)
    inverse = None
    if rows.propensities is not None:
        inverse = np.zeros(total.visits.shape)
        np.add.at(inverse, (held.observations, held.actions), 1 / rows.propensities)
    logger = choices(total.visits, states.labels, inverse)
    steps = rows.propensities
    if steps is None:
        steps = logger[held.observations, held.actions]
    wanted = _policy_table(policy, rows, logger)
    low, high = rows.reward_range
    span = high - low if high > low else 1.0
    rewards = low + span * held.rewards
    episodes = Episodes(held, 1.0 if aim == "average" else discount_of(aim))
    if aim == "average":  # for the average, episodes are as long as logged
        episodes.worth = 1.0 / held.lengths[episodes.whose]
    returns = episodes.add_up(rewards)
    found: list[Estimate] = []
    effective = untried = 0.0
    for on, partition in (
        ("states", states),
        ("observations", Partition.singletons(total.n_observations)),
    ):
        draws = Draws(total, partition, rows.reward_range, aim, borrow=False)
        s = partition.labels[held.observations]
        world = draws.best_guess()
        acted = total.group(partition)
        # What was never tried cannot be judged: there the policy goes on as before.
        never = np.append(acted.visits == 0, [[False] * len(wanted[0])], axis=0)[partition.labels]
        lost = np.where(never, wanted, 0.0).sum(axis=1, keepdims=True)
        rule = np.where(never, 0.0, wanted) + lost * logger
        untried = float(total.visits.sum(axis=1) @ lost[:, 0] / total.n_steps)
        grouped = by_state(rule, total.visits.sum(axis=1), partition)
        ratio = rule[held.observations, held.actions] / steps
        as_before = np.all(rule == logger, axis=1)[held.observations]
        ratio[as_before] = 1.0
        weights = episodes.products(ratio)
        sampled = weights
        if rows.propensities is not None:  # they alone tell what the log can judge
            sampled = wanted[held.observations, held.actions] / steps
            sampled[as_before] = 1.0
            sampled = episodes.products(sampled)
        effective = episodes.effective(weights)
        if aim == "average":
            parts = (grouped, acted, partition, held, ratio)
            robust = _average_robust(on, world, rewards, *parts)
        else:
            v = world.values(grouped)
            q = world.rewards + world.discount * (world.moves @ v).reshape(grouped.shape)
            acted_q = q[s, held.actions]
            sums = episodes.doubly_robust(
                weights, rewards, acted_q, np.where(as_before, acted_q, v[s])
            )
            robust = _mean("doubly robust", on, sums)
        found += [
            _direct(on, world, grouped, draws, generator(seed, _DRAW)),
            _weighted(on, episodes, sampled, returns, generator(seed, _RESAMPLE)),
            _mean("per-decision importance sampling", on, episodes.add_up(sampled * rewards)),
            robust,
        ]
    enough = effective >= FEWEST_EPISODES
    best = ("doubly robust", "observations") if enough else ("direct", "states")
    found.sort(key=lambda e: e[:2] != best)
    return Evaluation(tuple(found), float(returns.mean()), aim, effective, untried)


def _weighted(
    on: str, episodes: Episodes, weights: Floats, returns: Floats, rng: np.random.Generator
) -> Estimate:
    """Weight returns by the weight of the whole episode."""
    w, n = weights[episodes.last], len(returns)
    if not w.any():
        return Estimate("weighted importance sampling", on, np.nan, -np.inf, np.inf)
    value = float(w @ returns / w.sum())
    chosen = rng.multinomial(n, np.full(n, 1.0 / n), _RESAMPLES)
    total = chosen @ w
    some = total > 0
    again = (chosen[some] @ (w * returns)) / total[some]
    low, high = np.quantile(again, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return Estimate("weighted importance sampling", on, value, float(low), float(high))


def _mean(name: str, on: str, values: Floats) -> Estimate:
    """Estimate a mean, with Student's t."""
    n = len(values)
    middle = float(values.mean())
    if n < 2:
        return Estimate(name, on, middle, -np.inf, np.inf)
    reach = float(stdtrit(n - 1, 0.5 + LEVEL / 2) * values.std(ddof=1) / np.sqrt(n))
    return Estimate(name, on, middle, middle - reach, middle + reach)


def _direct(
    on: str, world: World, policy: Floats, draws: Draws, rng: np.random.Generator
) -> Estimate:
    values = np.empty(_DRAWS)
    for i in range(_DRAWS):
        drawn, origin = draws.draw(rng)
        values[i] = drawn.value(policy[origin])
    low, high = np.quantile(values, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    value = float(np.clip(world.value(policy), low, high))
    return Estimate("direct", on, value, float(low), float(high))


def _average_robust(
    on: str,
    world: World,
    rewards: Floats,
    policy: Floats,
    acted: Counts,
    states: Partition,
    held: Trajectory,
    ratio: Floats,
) -> Estimate:
    """Correct the model's gain by its errors, weighted by where the policy would be in the end."""
    try:
        found = correct_gain(
            world.chain_with_restarts(policy),
            (policy * world.rewards).sum(axis=1),
            world.starts,
            acted.visits.sum(axis=1) / acted.n_steps,
            states,
            held,
            rewards,
            ratio,
        )
    except StructureError:
        found = None
    if found is None:
        return Estimate("doubly robust", on, np.nan, -np.inf, np.inf)
    value = found.gain + found.correction
    return Estimate("doubly robust", on, value, value - found.reach, value + found.reach)


def _states(policy: Any, log: LogRows, total: Counts, seed: Seed) -> Partition:
    """Return the hidden states: those of the model, else those found in the log."""
    if isinstance(policy, LatentModel):
        return Partition(policy.states_of(log.observation_names))
    return group_and_part(total, generator(seed)).partition


def _policy_table(policy: Any, log: LogRows, logger: Floats) -> Floats:
    """Return the probabilities of the log's actions for every observation of the log.

    Where the policy says None it goes on as before, like the ``logger``.
    """
    names, actions = log.observation_names, log.action_names
    if isinstance(policy, LatentModel):
        asked = zip(names, policy.asked_of(names), strict=True)
        ask: Callable[[Any], Any] = {
            name: policy.action_names[a] for name, a in asked if a >= 0
        }.get
    elif hasattr(policy, "act"):
        ask = policy.act
    elif isinstance(policy, Mapping):
        ask = policy.get
    else:
        array = rectangular(policy, "policy")
        _check_array(array, names, actions)
        numbers = np.array(names, np.int64)
        if array.ndim == 2:
            return np.asarray(array[numbers], np.float64)
        ask = lambda name: array[name].item()  # noqa: E731
    place = {name: i for i, name in enumerate(actions)}
    table = logger.copy()
    for i, name in enumerate(names):
        chosen = ask(name)
        chosen = chosen.item() if isinstance(chosen, np.generic) else chosen
        if chosen is None:
            continue
        if chosen not in place:
            raise InvalidInputError(
                f"the policy takes {one_line(repr(chosen), 40)} at observation "
                f"{one_line(repr(name), 40)}, an action that the log does not have (it has "
                f"{', '.join(one_line(repr(a), 20) for a in actions[:8])}): nothing in the log "
                "tells what that would earn"
            )
        table[i] = np.eye(len(actions))[place[chosen]]
    return table


def _check_array(array: NDArray[Any], names: tuple[Any, ...], actions: tuple[Any, ...]) -> None:
    whole = all(type(name) is int and name >= 0 for name in names)
    if array.ndim not in (1, 2) or array.dtype.kind not in "iuf" or not whole:
        raise InvalidInputError(
            "policy must be a model, a Policy, a mapping from observations to actions, or an array "
            "where observations are whole numbers from 0 on; this log calls one "
            f"{one_line(repr(names[0]), 40)}"
        )
    largest = max(names)
    if largest >= len(array):
        raise InvalidInputError(
            f"the policy is for {len(array)} observations, but the log shows observation "
            f"{largest}; evaluate a policy that was made for the same observations"
        )
    if array.ndim == 1:
        return
    if array.shape[1] != len(actions):
        raise InvalidInputError(
            f"the policy has {array.shape[1]} columns, but the log has {len(actions)} actions; "
            "pass one column for each, in their order"
        )
    if (array < 0).any() or not np.allclose(array.sum(axis=1), 1.0, atol=1e-6):
        raise InvalidInputError("each row of the policy must be probabilities that sum to one")
