"""What a policy earns that was found on one part of the log, judged by the other part.

Episodes are parted into two. On one part the hidden states are found and a policy is chosen, which
departs from whoever wrote the log; the other part judges it by estimators that assume neither
states nor that they are Markov, only that whoever wrote the log acted on what is in it: each step
is weighted by how much more probable the policy makes what was decided up to it, weights are
normalised at each step, and the values of the first part's model take away variance (weighted
doubly robust estimation: Thomas and Brunskill 2016). Then the parts change places. This is
high-confidence policy improvement (Thomas, Theocharous and Ghavamzadeh 2015) whose candidates come
from hidden states.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.logs.model.draws import Draws, World
from romdp.logs.model.episodes import Episodes
from romdp.logs.model.evaluation import clustered

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95
"""The probability with which a bound holds."""

FEWEST_EPISODES = 30
"""A policy is judged by so many effective episodes at least: from there on means are normal."""

_DRAWS = 20  # that tell how sure a departure is
_UNTRIED = 1e-3  # an action that is less probable than this was not tried there


class Verdict(NamedTuple):
    """Lower bounds of what a policy earns, and of what it earns more than the logger."""

    lower: float
    gain_lower: float


@dataclass(frozen=True, eq=False)
class Sums:
    """Per episode: what the policy earns, what was earned, and how much of an episode counts.

    ``batch`` says which episodes may depend on one another.
    """

    earned: Floats
    logged: Floats
    weight: Floats
    size: Floats
    last: Floats
    batch: Ints

    def __add__(self, other: "Sums") -> "Sums":
        """Put the episodes of two parts together."""
        return Sums(**{name: np.append(x, vars(other)[name]) for name, x in vars(self).items()})

    @property
    def effective(self) -> float:
        """How many equally weighted episodes judge the policy."""
        return float(self.last.sum() ** 2 / max(1e-300, float((self.last**2).sum())))

    def verdict(self, level: float) -> Verdict:
        """Return bounds that hold with this probability: Student's t over effective episodes.

        Errors are those of sums over batches.
        """
        batches = len(np.unique(self.batch))
        if not self.last.any() or batches < 2:
            return Verdict(-np.inf, -np.inf)
        value, error = clustered(self.earned, self.weight, self.batch)
        logged = float(self.logged.sum() / self.size.sum())
        ahead = (self.earned - value * self.weight) / self.weight.sum()
        ahead = ahead - (self.logged - logged * self.size) / self.size.sum()
        _, beyond = clustered(ahead, np.full(len(ahead), 1.0 / len(ahead)), self.batch)
        reach = float(stdtrit(max(1.0, min(self.effective, batches) - 1.0), level))
        return Verdict(value - reach * error, value - logged - reach * beyond)


class Model:
    """A log or a part of it: its model, and the departures from the logger that this proposes.

    Parameters
    ----------
    counts, partition
        What was counted there, and the hidden states found there.
    reward_range, objective, certainty
        As for `Draws`.
    logger
        Probabilities of actions by observation.
    rng
        Draws worlds.
    """

    def __init__(
        self,
        counts: Counts,
        partition: Partition,
        reward_range: tuple[float, float],
        objective: str | float,
        logger: Floats,
        rng: np.random.Generator,
        certainty: Floats | None = None,
    ) -> None:
        self.draws = Draws(counts, partition, reward_range, objective, certainty)
        self.labels, self.average = partition.labels, objective == "average"
        self.world, self.logger = self.draws.best_guess(), logger
        self.baseline = by_state(logger, counts.visits.sum(axis=1), partition)
        self.tried = counts.group(partition).visits > 0
        self.choice = departures(self.world, self.baseline, self.tried)
        drawn = [
            lead(self.draws.draw(rng, regroup=False)[0], self.baseline, self.choice)
            for _ in range(_DRAWS)
        ]
        self.sure = np.mean(drawn, axis=0) / np.maximum(np.std(drawn, axis=0), 1e-12)
        departing = np.flatnonzero(self.choice >= 0)
        self.order = departing[np.argsort(-self.sure[departing], kind="stable")]

    def surest(self, level: float) -> Ints:
        """Return the action of each state if it leads by so many standard deviations, else -1."""
        return np.where(self.sure >= level, self.choice, -1)

    def nearest(self, share: float) -> Ints:
        """Return the surest share of the departures alone."""
        kept = self.order[: int(np.ceil(share * len(self.order)))]
        choice = np.full_like(self.choice, -1)
        choice[kept] = self.choice[kept]
        return choice

    def ask(self, choice: Ints) -> Ints:
        """Return what to do at every observation, -1 to go on as before.

        An action that whoever wrote the log never takes at an observation is not asked for: nothing
        tells that it would do there what it does elsewhere.
        """
        asked = np.append(choice, -1)[self.labels]
        tried = self.logger[np.arange(len(asked)), asked] > _UNTRIED
        return np.where(tried, asked, -1)

    def judge(
        self, seen: Trajectory, rewards: Floats, steps: Floats, batch: Ints, asked: Ints
    ) -> Sums:
        """Judge what is asked by episodes; ``steps`` are the probabilities of what was done."""
        world, average = self.world, self.average
        episodes = Episodes(seen, 1.0 if average else world.discount)
        rule = follow(self.logger, asked)
        policy = by_state(rule, np.bincount(seen.observations, minlength=len(rule)), self.labels)
        middle = float(rewards.mean()) if average else 0.0
        short = replace(
            world,
            restarts=False,
            discount=min(world.discount, 1.0 - 1.0 / (1.0 + seen.lengths.mean())),
        )
        values = short.values(policy, world.rewards - middle)
        after = (short.moves @ values).reshape(policy.shape)
        q_values = world.rewards - middle + short.discount * after
        q_values = np.append(q_values, [np.zeros(policy.shape[1])], axis=0)[self.labels]
        q = q_values[seen.observations, seen.actions]
        v = (rule * q_values).sum(axis=1)[seen.observations]
        ratio = rule[seen.observations, seen.actions] / steps
        as_before = asked[seen.observations] < 0
        ratio[as_before] = 1.0
        v[as_before] = q[as_before]  # what would be done is known from what was done alone
        weights = episodes.normalised(episodes.products(ratio))
        last = weights[episodes.last]
        earned = episodes.doubly_robust(weights, rewards - middle, q, v)
        logged = episodes.add_up(rewards - middle)
        size = np.ones(len(last))
        weight = size
        if average:
            weight, size = episodes.add_up(weights), episodes.add_up(np.ones(len(weights)))
            earned, logged = earned + middle * weight, logged + middle * size
        else:  # nobody knows what follows where an episode was cut: at worst the least, for ever
            cut = ~seen.terminated * min(0.0, world.lowest) / (1.0 - world.discount)
            cut = cut * world.discount**seen.lengths
            earned, logged = earned + last * cut, logged + cut
        return Sums(earned, logged, weight, size, last, batch)


def by_state(rule: Floats, visits: Ints, partition: Partition | Ints) -> Floats:
    """Return a rule on states: the mean over observations, as often as they were seen."""
    labels = partition.labels if isinstance(partition, Partition) else partition
    placed = labels >= 0
    weight = np.maximum(visits, 1e-9)[placed, None]
    total = np.zeros((int(labels.max()) + 1, rule.shape[1]))
    np.add.at(total, labels[placed], weight * rule[placed])
    grouped: Floats = total / total.sum(axis=1, keepdims=True)
    return grouped


def follow(rule: Floats, choice: Ints) -> Floats:
    """Return a rule that takes the action that was chosen, and goes on as before at -1."""
    there = choice >= 0
    found = rule.copy()
    found[there] = np.eye(rule.shape[1])[choice[there]]
    return found


def worth(world: World, policy: Floats) -> tuple[Floats, Floats]:
    """Return what each pair and each state is worth if a policy is followed from there on."""
    values = world.values(policy)
    after = (world.moves @ values).reshape(policy.shape)
    if world.restarts:
        lost = 1.0 - np.asarray(world.moves.sum(axis=1)).reshape(policy.shape)
        after = after + np.maximum(0.0, lost) * (world.starts @ values)
    return world.rewards + world.discount * after, values


def lead(world: World, baseline: Floats, choice: Ints) -> Floats:
    """Return by how much each departure is better than to go on as before for a step."""
    q_values, _ = worth(world, follow(baseline, choice))
    best = q_values[np.arange(len(choice)), choice]
    return np.where(choice >= 0, best - (baseline * q_values).sum(axis=1), 0.0)


def departures(world: World, baseline: Floats, allowed: NDArray[np.bool_]) -> Ints:
    """Return the best action allowed in each state, -1 where the baseline is as good."""
    states, choice = np.arange(len(baseline)), np.full(len(baseline), -1)
    for _ in range(100):
        q_values, _ = worth(world, follow(baseline, choice))
        scale = 1e-9 * max(1.0, float(np.abs(q_values).max()))
        own = (baseline * q_values).sum(axis=1)
        q_values = np.where(allowed, q_values, -np.inf)
        best = q_values.argmax(axis=1)
        same = (choice >= 0) & (q_values[states, choice] >= q_values[states, best] - scale)
        best = np.where(same, choice, best)
        best = np.where(q_values[states, best] > own + scale, best, -1)
        if np.array_equal(best, choice):
            break
        choice = best
    return choice
