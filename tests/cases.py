"""Small worlds, groupings, runs and faults that several tests share, and plain recomputations."""

import functools
import itertools
import os
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, contextmanager
from dataclasses import dataclass

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import settings

from romdp import ROMDP
from romdp.encoding.encoder import make_steps
from romdp.experiments import Experiment
from romdp.experiments.agents import Settings
from romdp.experiments.store import TABLES


@contextmanager
def cluster(directory, workers=2):
    """Start a scheduler and workers; yields its address and the workers' processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    started = []

    def start(module, *arguments):
        here = os.path.dirname(__file__)  # and every folder of tests below it
        folders = [entry.path for entry in os.scandir(here) if entry.is_dir()]
        path = os.pathsep.join([here, *folders, os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *map(str, arguments)],
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        )
        started.append(process)
        return process

    try:
        start("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        limit = time.monotonic() + 60
        while not _answers(port):
            assert time.monotonic() < limit
            time.sleep(0.05)
        options = ("--nthreads", 1, "--no-dashboard", "--no-nanny", "--name")
        yield (
            address,
            [start("dask_worker", address, *options, f"worker {n}") for n in range(workers)],
        )
    finally:
        for process in started:
            process.kill()
            process.wait()


def _answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def sparse_mdp(rng, n_states, n_actions, density, whole_rewards):
    """Draw an MDP with random supports; with whole rewards many actions tie."""
    shape = (n_states, n_actions, n_states)
    weights = rng.integers(1, 4, shape) * (rng.random(shape) < density)
    weights = weights.astype(float)
    lucky = rng.integers(n_states, size=shape[:2])
    weights[np.arange(n_states)[:, None], np.arange(n_actions), lucky] += 1
    reward = rng.integers(0, 2, shape[:2]) if whole_rewards else rng.random(shape[:2])
    return weights / weights.sum(axis=2, keepdims=True), reward.astype(float)


PROPERTY = settings(max_examples=80, deadline=None)  # compiling takes a while the first time
MDPS = st.builds(
    lambda seed, n_states, n_actions, density, whole: sparse_mdp(
        np.random.default_rng(seed), n_states, n_actions, density, whole
    ),
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    st.booleans(),
)


def all_policies(transition):
    n_states, n_actions, _ = transition.shape
    for actions in itertools.product(range(n_actions), repeat=n_states):
        yield np.array(actions), transition[np.arange(n_states), actions]


def river(n_states, left=0.005, sure_left=False):
    """Swim left with the stream or right against it; right is better and far away."""
    transition = np.zeros((n_states, 2, n_states))
    for x in range(n_states):
        down, up = max(x - 1, 0), min(x + 1, n_states - 1)
        for action, (p_down, p_stay) in enumerate([(0.9, 0.05), (0.05, 0.6)]):
            transition[x, action, down] += p_down
            transition[x, action, x] += p_stay
            transition[x, action, up] += 1 - p_down - p_stay
    if sure_left:
        transition[:, 0] = 0.0
        transition[np.arange(n_states), 0, np.maximum(np.arange(n_states) - 1, 0)] = 1.0
    reward = np.zeros((n_states, 2))
    reward[0, 0], reward[-1, 1] = left, 1.0
    return transition, reward


@dataclass
class Seen:
    vectors: np.ndarray
    states: np.ndarray
    actions: np.ndarray
    rewards: np.ndarray

    @property
    def steps(self):
        return make_steps(self.vectors, self.actions, self.rewards)


def chain(n=4000, n_states=4, n_noise=0, spread=0.2, seed=0, rotate=False):
    """Action 0 stays, action 1 moves on; the reward tells the last state; noise has a memory."""
    rng = np.random.default_rng(seed)
    states, actions = np.zeros(n, np.int64), rng.integers(2, size=n)
    for t in range(n - 1):
        states[t + 1] = (states[t] + (actions[t] if rng.random() < 0.9 else 2)) % n_states
    rewards = (rng.random(n) < np.where(states == n_states - 1, 0.8, 0.2)).astype(float)
    shown = np.eye(n_states)[states] + spread * rng.standard_normal((n, n_states))
    noise = np.zeros((n, n_noise))
    for t in range(1, n):
        noise[t] = 0.9 * noise[t - 1] + rng.standard_normal(n_noise)
    vectors = np.hstack([shown, noise])
    if rotate:
        vectors = vectors @ np.linalg.qr(rng.standard_normal((vectors.shape[1],) * 2))[0]
    return Seen(vectors, states, actions, rewards)


def accuracy(found, truth):
    """Share of rows right under the best one-to-one matching; surplus states are wrong."""
    from scipy.optimize import linear_sum_assignment

    table = np.zeros((found.max() + 1, truth.max() + 1))
    np.add.at(table, (found, truth), 1)
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns].sum() / len(truth)


def execute(path, statement, *values):
    """Change or read the store behind romdp's back."""
    with closing(sqlite3.connect(path / "runs.sqlite")) as connection, connection:
        return connection.execute(statement, values).fetchall()


def tables(path):
    """Return the tables of every run that ended, as the bytes that are stored."""
    rows = execute(path, f"SELECT number, {', '.join(TABLES)} FROM runs")
    return {number: blobs for number, *blobs in rows}


def lose(directory, *runs):
    """Take finished runs out of a directory, as if they had never been done."""
    for run in runs:
        number = directory.experiment.runs.index(run)
        execute(directory.path, "DELETE FROM runs WHERE number = ?", number)


def fail(directory, run, error):
    """Make a run one that failed."""
    with directory.store(writing=True) as store:
        store.put(run, {"error": error}, {})


class FaultError(OSError):
    """A write that fails."""


class Kill(BaseException):
    """The end of a process: nothing that comes after it reaches the disk."""


@contextmanager
def interrupted(at, error):
    """Fail at the given one of the calls that change the disk; yields the number of calls so far.

    After a `FaultError` the disk works again; after a `Kill` every further call fails too.
    """
    calls = {"n": 0}

    def count():
        calls["n"] += 1
        if calls["n"] == at or (calls["n"] > at and error is Kill):
            raise error(28, "No space left on device")

    def counted(original):
        def call(*arguments, **options):
            count()
            return original(*arguments, **options)

        return call

    class Connection(sqlite3.Connection):
        def execute(self, statement, *values):
            if statement == "COMMIT":
                try:
                    count()
                except FaultError as fault:
                    raise sqlite3.OperationalError("database or disk is full") from fault
            return super().execute(statement, *values)

    with pytest.MonkeyPatch.context() as patch:
        tidying = ("unlink", "rmdir") if error is Kill else ()  # these do not fail for want of room
        for name in ("replace", "fsync", "mkdir", *tidying):
            patch.setattr(os, name, counted(getattr(os, name)))
        patch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, factory=Connection))
        yield calls


def small(**changes):
    """Two agents, two sizes, two seeds: eight short runs."""
    arguments = {
        "worlds": ({"name": "random-romdp", "arguments": {"n_states": 3, "n_actions": 2}},),
        "agents": ("ucrl2", "oracle"),
        "observations": (6, 9),
        "steps": 2000,
        "seeds": 2,
        "settings": Settings(scale=0.1),
    }
    return Experiment(**{**arguments, **changes})


TRANSITION = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [0.7, 0.3]]])
REWARD = np.array([[0.0, 0.5], [1.0, 0.2]])
EMISSION = np.array([[0.6, 0.0, 0.4, 0.0], [0.0, 0.25, 0.0, 0.75]])


def tiny():
    """Two hidden states, two actions, four observations."""
    return ROMDP(TRANSITION, REWARD, EMISSION)


def draw(seed, n_states=3, n_actions=2, n_observations=8):
    """Draw a world with Dirichlet rows; every hidden state has an observation."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(n_observations) % n_states)
    weights = rng.random(n_observations) + 0.1
    return ROMDP.from_labels(
        rng.dirichlet(np.ones(n_states), (n_states, n_actions)),
        rng.random((n_states, n_actions)),
        labels,
        weights / np.bincount(labels, weights)[labels],
    )


def one_way():
    """Ergodic and of full rank; under (0, 0, 1) states 0 and 1 are both reached from 2 alone."""
    transition = np.zeros((3, 2, 3))
    transition[0] = [[0.0, 0.0, 1.0], [0.3, 0.3, 0.4]]
    transition[1] = [[0.0, 0.0, 1.0], [0.2, 0.5, 0.3]]
    transition[2] = [[0.5, 0.3, 0.2], [0.4, 0.6, 0.0]]
    return ROMDP.from_labels(transition, np.zeros((3, 2)), [0, 0, 1, 1, 2, 2])


def deterministic_rows(actions, n_actions):
    return np.eye(n_actions)[actions]


def views_by_enumeration(world, rows, action):
    """V_1, V_2, V_3, omega and K_23 from the law of all triples of observations."""
    emission, moves = world.emission, world.transition
    n_states, n_observations = emission.shape
    chain = np.einsum("xy,ya,xaz->xz", emission, rows, moves)
    law = np.linalg.matrix_power(chain, 4096)[0]
    joint = np.zeros((n_observations, n_observations, n_observations, n_states))
    for y1 in range(n_observations):
        for y2 in range(n_observations):
            for y3 in range(n_observations):
                x1, x2 = world.labels[y1], world.labels[y2]
                before = law[x1] * emission[x1, y1]
                step = rows[y1] @ moves[x1, :, x2] * emission[x2, y2] * rows[y2, action]
                after = moves[x2, action, world.labels[y3]] * emission[world.labels[y3], y3]
                joint[y1, y2, y3, x2] = before * step * after
    weight = joint.sum(axis=(0, 1, 2))
    states = np.flatnonzero(weight > 0)
    given = joint[..., states] / weight[states]
    first, second, third = (
        given.sum(axis=tuple(a for a in range(3) if a != view)) for view in range(3)
    )
    pairs = joint.sum(axis=(0, 3)) / weight.sum()
    return first, second, third, weight[states] / weight.sum(), pairs


def smallest_singular_value(matrix, rank):
    return np.linalg.svd(matrix, compute_uv=False)[rank - 1]
