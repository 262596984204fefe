"""Logs whose counts and values are known, a cluster of one process, and walks on a line."""

import pickle
from collections import defaultdict

import numpy as np

from romdp.data.counts import Counts


def plain_counts(rows, *, end=False, over=()):
    """Count rows (observation, action, reward, episode) in lists and dictionaries.

    The last row of an episode leads to its end if all are to ``end``, or if it is among those that
    are ``over``. Returns counts with rewards scaled to [0, 1], the names of observations and of
    actions.
    """
    observations = sorted({row[0] for row in rows})
    actions = sorted({row[1] for row in rows})
    low, high = min(row[2] for row in rows), max(row[2] for row in rows)
    span = high - low or 1.0
    episodes = defaultdict(list)
    for observation, action, reward, episode in rows:
        number = observations.index(observation), actions.index(action)
        episodes[episode].append((*number, (reward - low) / span))
    shape = (len(observations), len(actions))
    visits = np.zeros(shape, np.int64)
    sums, squares = np.zeros(shape), np.zeros(shape)
    transitions = np.zeros((*shape, shape[0]), np.int64)
    ends, starts = np.zeros(shape, np.int64), np.zeros(shape[0], np.int64)
    for name, path in episodes.items():
        starts[path[0][0]] += 1
        for i, (o, a, r) in enumerate(path):
            visits[o, a] += 1
            sums[o, a] += r
            squares[o, a] += r * r
            if i + 1 < len(path):
                transitions[o, a, path[i + 1][0]] += 1
            elif end or name in over:
                ends[o, a] += 1
    return Counts(visits, transitions, sums, squares, ends, starts), observations, actions


def assert_same(counts, other):
    """Counts are equal, rewards up to rounding."""
    np.testing.assert_array_equal(counts.visits, other.visits)
    np.testing.assert_array_equal(counts.dense().transitions, other.dense().transitions)
    np.testing.assert_array_equal(counts.ends, other.ends)
    np.testing.assert_array_equal(counts.starts, other.starts)
    np.testing.assert_allclose(counts.reward_sums, other.reward_sums, atol=1e-9)
    np.testing.assert_allclose(counts.reward_squares, other.reward_squares, atol=1e-9)


def random_rows(rng, n_rows, *, n_observations=6, n_actions=3, n_episodes=5, length=None):
    """Rows of episodes that are interleaved at random."""
    return [
        (
            f"page {rng.integers(n_observations)}",
            int(rng.integers(n_actions)),
            float(rng.integers(-2, 5)) / 4,
            int(rng.integers(n_episodes)) if length is None else i // length,
        )
        for i in range(n_rows)
    ]


class Cluster:
    """Does at once what it is asked, through pickle as over a wire."""

    def __init__(self, n_workers):
        self.n_workers, self.tasks = n_workers, []

    def scheduler_info(self):
        return {"workers": dict.fromkeys(range(self.n_workers))}

    def submit(self, work, *arguments, pure):
        assert not pure
        self.tasks.append(work)
        plain = [a.value if isinstance(a, Done) else a for a in arguments]
        return Done(pickle.loads(pickle.dumps(work(*pickle.loads(pickle.dumps(plain))))))


class Done:
    def __init__(self, value):
        self.value = value

    def result(self):
        return self.value


GOAL = 5


def walk(n_episodes, seed, views=1, right=0.5):
    """Walk on a line: right (1) leads up with probability 0.8, left (0) ends it for 0 at 0."""
    rng = np.random.default_rng(seed)
    rows = {name: [] for name in ("place", "step", "paid", "walk", "over", "chance")}
    for number in range(n_episodes):
        x = 2
        for _ in range(30):
            action = int(rng.random() < right)
            up = rng.random() < (0.8 if action else 0.2)
            x2 = x + (1 if up else -1)
            over = x2 < 0 or x2 == GOAL
            rows["place"].append(x * views + int(rng.integers(views)))
            rows["step"].append(action)
            rows["paid"].append(float(x2 == GOAL))
            rows["walk"].append(number)
            rows["over"].append(over)
            rows["chance"].append(right if action else 1 - right)
            x = x2
            if over:
                break
    return rows


def true_value(policy):
    """The probability of reaching the goal, of (n, 2) probabilities by place."""
    up = policy @ np.array([0.2, 0.8])
    matrix = np.zeros((GOAL, GOAL))
    for x in range(GOAL):
        if x + 1 < GOAL:
            matrix[x, x + 1] = up[x]
        if x > 0:
            matrix[x, x - 1] = 1 - up[x]
    ends = np.zeros(GOAL)
    ends[-1] = up[-1]
    return float(np.linalg.solve(np.eye(GOAL) - 0.999 * matrix, ends)[2])
