"""What held-out episodes say about a model that was learned without them."""

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from romdp.clustering.histories import learn_memory
from romdp.core.errors import StructureError
from romdp.core.text import count
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import END, Trajectory
from romdp.exact.chains import gain_and_bias, stationary_law
from romdp.logs.model.estimate import Estimate, estimate
from romdp.logs.model.independence import MEMORY, run_tests

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95
"""The confidence of the intervals."""

_STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # of the ungrouped model's prior
_HALF = 0.5  # pseudo-count of an observation, so that a new one is possible
_FEWEST_EPISODES = 5
_MOST_STEPS = 50_000  # by which looking back is tried


@dataclass(frozen=True)
class Prediction:
    """How well the next observation was predicted, in nats per step.

    Attributes
    ----------
    grouped, ungrouped : float
        Mean log probability under the groups, and under every observation for itself (with the
        prior that suits the held-out episodes best, in favour of the ungrouped model).
    gain, gain_error : float
        Grouped minus ungrouped, and its standard error over episodes.
    """

    grouped: float
    ungrouped: float
    gain: float
    gain_error: float


@dataclass(frozen=True)
class PolicyValue:
    """What the recommended policy would have earned per step, from held-out episodes.

    The estimator is doubly robust on the hidden states: the gain that the other episodes predict
    for their best policy, plus the mean error of that prediction on held-out steps, weighted by how
    much more often the policy would be in a state and choose the action than the logs did. It
    is right if either the prediction or the weights are; it assumes that the groups are states.

    Attributes
    ----------
    estimate, low, high : float
        In units of the reward, with a 95% interval over episodes (Student's t).
    predicted : float
        The gain before the correction.
    logged : float
        Mean reward of the held-out steps themselves, under whoever acted then.
    agreement : float
        Share of held-out steps whose action is the recommended one.
    effective_steps : float
        How many equally weighted steps the weighted ones are worth.
    """

    estimate: float
    low: float
    high: float
    predicted: float
    logged: float
    agreement: float
    effective_steps: float


@dataclass(frozen=True)
class HeldOut:
    """Everything that held-out episodes say; parts that could not be computed are None.

    Attributes
    ----------
    n_episodes, n_steps : int
        How much was held out.
    prediction : Prediction or None
        Compared with the ungrouped model.
    value : PolicyValue or None
        The value of the recommended policy.
    notes : tuple of str
        Why a part is None.
    memory : float or None
        Where states are not Markov: by how many nats per step these episodes are predicted better
        by states that look back, learned from four fifths of them; None if that is not clear.
    """

    n_episodes: int
    n_steps: int
    prediction: Prediction | None
    value: PolicyValue | None
    notes: tuple[str, ...] = ()
    memory: float | None = None


def evaluate(
    counts: Counts,
    partition: Partition,
    held: Trajectory,
    reward_range: tuple[float, float] | None,
    rng: np.random.Generator,
) -> HeldOut:
    """Judge a grouping that was learned from ``counts`` by episodes that are not in them."""
    notes = []
    prediction, value = None, None
    if held.n_episodes < _FEWEST_EPISODES:
        notes.append(f"only {count(held.n_episodes, 'episode')} held out: no errors can be given")
    else:
        prediction = predict_next(counts, partition, held)
        if reward_range is not None:
            try:
                found = estimate(counts.group(partition))
                value = policy_value(counts.group(partition), found, partition, held, reward_range)
            except StructureError as error:
                notes.append(f"the policy has no single long-run value: {error}")
    tests = run_tests(held, partition, False, rng)
    memory = None
    if any(test.fails and test.kind == MEMORY for test in tests):
        machine = learn_memory(held.part(0, min(held.n_steps, _MOST_STEPS)), None, partition)
        memory = None if machine is None else machine.gain
    return HeldOut(held.n_episodes, held.n_steps, prediction, value, tuple(notes), memory)


def predict_next(counts: Counts, partition: Partition, held: Trajectory) -> Prediction:
    """Compare how well groups and single observations predict what comes next."""
    source, action, target, episode = _known_steps(held)
    matrix = counts.matrix()
    share = _arrival_shares(counts)
    groups = counts.group(partition)
    grouped = np.log(
        _grouped_probabilities(groups, partition.labels, share, source, action, target)
    )
    rows = source * counts.n_actions + action
    seen = np.asarray(matrix[rows, target]).ravel().astype(np.float64)
    totals = np.asarray(matrix.sum(axis=1)).ravel()[rows]
    rivals = [np.log((seen + k * share[target]) / (totals + k)) for k in _STRENGTHS]
    ungrouped = max(rivals, key=lambda logs: float(logs.mean()))
    gain, error = clustered(grouped - ungrouped, np.ones(len(grouped)), episode)
    return Prediction(float(grouped.mean()), float(ungrouped.mean()), gain, error)


def _known_steps(held: Trajectory) -> tuple[Ints, Ints, Ints, Ints]:
    """Return observation, action, next observation and episode of steps that led somewhere."""
    following = held.next_observations
    known = following >= 0
    episode = np.repeat(np.arange(held.n_episodes), held.lengths)
    return held.observations[known], held.actions[known], following[known], episode[known]


def _arrival_shares(counts: Counts) -> Floats:
    arrivals: Floats = np.asarray(counts.matrix().sum(axis=0)).ravel()
    shares: Floats = (arrivals + _HALF) / (arrivals.sum() + _HALF * len(arrivals))
    return shares


def _grouped_probabilities(
    groups: Counts, labels: Ints, share: Floats, source: Ints, action: Ints, target: Ints
) -> Floats:
    """Probability of the next observation: of its group given group and action, times its share.

    The end of an episode is one more observation in one more group, where ``labels`` have it.
    """
    outcomes = groups.dense().outcomes()
    assert isinstance(outcomes, np.ndarray)
    placed = labels >= 0
    n_groups = max(groups.n_observations, int(labels.max()) + 1)
    mass = np.bincount(labels[placed], share[placed], n_groups)
    transitions = outcomes[:, :, :n_groups]
    totals = transitions.sum(axis=2, keepdims=True)
    # One pseudo-step, spread as all arrivals are.
    laws = (transitions + mass) / (totals + mass.sum()) * mass.sum()
    both = placed[source] & placed[target]
    result = share[target].copy()  # where a group is missing, arrivals are all that is known
    s, s2 = labels[source[both]], labels[target[both]]
    result[both] = laws[s, action[both], s2] * share[target[both]] / mass[s2]
    return result


def log_score(
    groups: Counts, labels: Ints, visits: Ints, source: Ints, action: Ints, target: Ints
) -> float:
    """Return the mean log probability of what came next under a fitted grouping, in nats.

    Observations and actions that it does not know are -1; it expects one more than it knows. The
    end of an episode is the number of observations.
    """
    share = np.append(visits, [groups.ends.sum(), 0]) + _HALF
    share[-2] *= groups.has_ends
    wide = np.append(labels, [groups.n_observations if groups.has_ends else -1, -1])
    known = np.where(action >= 0, source, -1)
    found = _grouped_probabilities(groups, wide, share / share.sum(), known, action, target)
    return float(np.log(found).mean())


def policy_value(
    groups: Counts,
    found: Estimate,
    partition: Partition,
    held: Trajectory,
    reward_range: tuple[float, float],
) -> PolicyValue:
    """Estimate the gain of the policy from held-out steps; see `PolicyValue`."""
    low, high = reward_range
    span = high - low if high > low else 1.0
    mdp, policy = found.mdp, found.policy
    states = np.arange(mdp.n_states)
    assert held.rewards is not None
    s = partition.labels[held.observations]
    agrees = held.actions == np.append(policy, -1)[s]
    value = correct_gain(
        mdp.transition[states, policy],
        mdp.reward[states, policy],
        groups.starts / max(1, groups.starts.sum()),
        groups.visits[states, policy] / groups.n_steps,
        partition,
        held,
        held.rewards,
        agrees.astype(np.float64),
    )
    if value is None:
        raise StructureError("no held-out step takes a recommended action")
    middle = value.gain + value.correction
    return PolicyValue(
        estimate=low + span * middle,
        low=low + span * max(0.0, middle - value.reach),
        high=low + span * min(1.0, middle + value.reach),
        predicted=low + span * value.gain,
        logged=low + span * float(held.rewards.mean()),
        agreement=float(agrees[s >= 0].mean()),
        effective_steps=float(value.weight.sum() ** 2 / (value.weight**2).sum()),
    )


class Corrected(NamedTuple):
    """The gain of a chain, its mean error on steps, how far both reach, and the steps' weights."""

    gain: float
    correction: float
    reach: float
    weight: Floats


def correct_gain(
    matrix: Floats,
    reward: Floats,
    begin: Floats,
    share: Floats,
    partition: Partition,
    held: Trajectory,
    rewards: Floats,
    ratio: Floats,
) -> Corrected | None:
    """Correct the gain of a policy in a model by the model's errors on the steps of a log.

    Parameters
    ----------
    matrix, reward
        Where states lead under the policy, and what they pay.
    begin
        Where episodes begin.
    share
        How often the log was in each state (and did there what is weighted by ``ratio``).
    partition, held, rewards
        The states, the steps, and what they paid in the units of ``reward``.
    ratio
        How much more often the policy would do in its state what was done.

    Returns
    -------
    Corrected or None
        None if no step counts. After the end of an episode another begins; where it is not known
        what a step led to, its reward counts and nothing is said of what follows.
    """
    law = stationary_law(matrix)
    gains, bias = gain_and_bias(matrix, reward)
    gain, expected = float(law @ gains), matrix @ bias
    visits = np.where(share > 0, law / np.maximum(share, 1e-300), 0.0)
    after = held.next_observations
    s, s2 = (np.append(partition.labels, -1)[np.maximum(o, -1)] for o in (held.observations, after))
    weight = np.where(s >= 0, visits[s] * ratio, 0.0)
    if not weight.any():
        return None
    known: Floats = np.where(after == END, float(begin @ bias), bias[s2])
    known = np.where((s2 >= 0) | (after == END), known, expected[s])
    episode = np.repeat(np.arange(held.n_episodes), held.lengths)
    surprise = (rewards - gain + known - bias[s]) * weight
    correction, error = clustered(surprise, weight, episode)
    informed = len(np.unique(episode[weight > 0]))
    reach = float(stdtrit(max(1, informed - 1), 0.5 + LEVEL / 2)) * error
    return Corrected(gain, correction, reach, weight)


def clustered(values: Floats, weights: Floats, episode: Ints) -> tuple[float, float]:
    """Return ``sum(values) / sum(weights)`` and its standard error, steps of an episode depend."""
    totals, sizes = np.bincount(episode, values), np.bincount(episode, weights)
    mean = float(totals.sum() / sizes.sum())
    active = np.bincount(episode) > 0
    n = int(active.sum())
    if n < 2:
        return mean, float("inf")
    residual = totals - mean * sizes
    spread = float((residual**2).sum()) * n / (n - 1)
    return mean, sqrt(spread) / float(sizes.sum())
