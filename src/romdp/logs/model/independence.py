"""Tests on held-out steps that only the hidden state and the action tell what comes next."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory

Ints = NDArray[np.int64]

_PERMUTATIONS = 99
_MOST_STEPS = 50_000
_FEWEST_STEPS = 100


@dataclass(frozen=True)
class PermutationTest:
    """What something tells about the next hidden state that state and action do not.

    `markov_test` asks it of the state before the present one, `alike_test` of which observation
    of the state it is.

    Attributes
    ----------
    information : float
        What it tells, in nats per step, beyond what chance would: about 0 if it tells nothing.
    p_value : float
        The chance of as much if it tells nothing (permutations within state and action).
    n_steps : int
        Steps that were looked at.
    """

    information: float
    p_value: float
    n_steps: int


def markov_test(
    partition: Partition, held: Trajectory, rng: np.random.Generator
) -> PermutationTest | None:
    """Test that the previous group tells nothing once group and action are known."""
    labels = partition.labels
    previous, middle, action, following = (column[:_MOST_STEPS] for column in held.triples())
    s0, s1, s2 = labels[previous], labels[middle], labels[following]
    placed = (s0 >= 0) & (s1 >= 0) & (s2 >= 0)
    if placed.sum() < _FEWEST_STEPS:
        return None
    stratum = (s1 * held.n_actions + action)[placed]
    return _beyond_chance(stratum, s0[placed], s2[placed], rng)


def alike_test(
    partition: Partition, held: Trajectory, rng: np.random.Generator
) -> PermutationTest | None:
    """Test that an observation tells nothing about the next group beyond its own group."""
    labels = partition.labels
    known = np.flatnonzero(held.next_observations >= 0)[:_MOST_STEPS]
    seen, following = held.observations[known], held.next_observations[known]
    s, s2 = labels[seen], labels[following]
    placed = (s >= 0) & (s2 >= 0)
    if placed.sum() < _FEWEST_STEPS:
        return None
    stratum = (s * held.n_actions + held.actions[known])[placed]
    return _beyond_chance(stratum, seen[placed], s2[placed], rng)


def _beyond_chance(
    stratum: Ints, first: Ints, second: Ints, rng: np.random.Generator
) -> PermutationTest:
    """Compare the information between two columns, given the stratum, with permutations."""
    order = np.argsort(stratum, kind="stable")
    stratum, first, second = stratum[order], first[order], second[order]
    n_first, n_second = int(first.max()) + 1, int(second.max()) + 1
    pair = stratum * n_second + second
    # The empirical information, in nats, times the steps; shuffling changes its first term only.
    rest = _n_log_n(stratum) - _n_log_n(stratum * n_first + first) - _n_log_n(pair)
    observed = _n_log_n(pair * n_first + first) + rest
    chance = np.empty(_PERMUTATIONS)
    for i in range(_PERMUTATIONS):
        shuffled = np.argsort(stratum + rng.random(len(first)))  # within each stratum
        chance[i] = _n_log_n(pair * n_first + first[shuffled]) + rest
    p_value = (1 + int((chance >= observed - 1e-9).sum())) / (1 + _PERMUTATIONS)
    return PermutationTest(float(observed - chance.mean()) / len(first), p_value, len(first))


def _n_log_n(keys: Ints) -> float:
    n = np.unique(keys, return_counts=True)[1]
    return float((n * np.log(n)).sum())
