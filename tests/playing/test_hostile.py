"""Stored arrays are treated as hostile: each is checked before anything compiled sees it.

The files here carry a valid checksum: somebody made them on purpose. Version 0.1 read and wrote
out of bounds on many of them, or ended in a KeyError.
"""

import itertools
import os
import subprocess
import sys
import textwrap
import threading

import gymnasium
import numpy as np
import pytest

import romdp
from romdp.core.errors import MisuseError, StorageError
from romdp.core.storage import read_arrays, write_arrays
from romdp.worlds import random_romdp

WORLD = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
AGENTS = [romdp.SLUCRL(3, romdp.Hoeffding(0.1), counting="paper"), romdp.TwoPhase()]
CHECKPOINT, ONLINE = ("checkpoint of a run", 2), ("online agent", 4)


def mutations(array):
    """Return what an attacker would try with one array; None leaves it out."""
    tried = {"missing": None, "flat": array.reshape(-1)[: array.size // 2], "deep": array[None]}
    if array.dtype.kind in "iu":
        tried["bytes"] = array.astype(np.int8)
        tried["floats"] = array.astype(np.float64)
        far = 2**62 if array.itemsize == 8 else 2**31 - 1
        for value in (-1, array.size, far, -far):
            changed = array.copy()
            if changed.size and (value >= 0 or array.dtype.kind == "i"):
                changed.reshape(-1)[-1] = value
                tried[f"last={value}"] = changed
                changed = changed.copy()
                changed.reshape(-1)[:] = value
                tried[f"all={value}"] = changed
        tried["longer"] = np.concatenate([array.reshape(-1)] * 3 + [np.ones(5, array.dtype)])
        tried["reversed"] = array.reshape(-1)[::-1].reshape(array.shape).copy()
    elif array.dtype.kind == "f":
        tried["whole"] = array.astype(np.int64, casting="unsafe") if array.size else None
        for value in (np.nan, np.inf, -1e300):
            tried[f"all={value}"] = np.full(array.shape, value)
    return tried


def cases(arrays, tried=()):
    """Return every mutation of every array not tried yet, and an array that nobody knows."""
    for name, array in arrays.items():
        for how, changed in () if name in tried else mutations(array).items():
            copy = {**arrays, name: changed}
            yield f"{name}: {how}", {n: a for n, a in copy.items() if a is not None}
    yield "unknown: there", {**arrays, "unknown": np.zeros(3)}


def survive(crafted, kind, arrays, facts, go_on):
    """Write a crafted file and go on from it; returns the words of the refusal, if any."""
    write_arrays(crafted, *kind, arrays, facts)
    try:
        go_on()
    except StorageError as error:
        return str(error)
    return None


@pytest.fixture(autouse=True)
def no_flushing(monkeypatch):
    """The disk is not what is tested here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # what is cast, or too large to add
def test_a_crafted_checkpoint_is_refused_or_harmless(tmp_path):
    crafted, tried, answers = tmp_path / "crafted.npz", {}, {}
    for agent in AGENTS:
        path = tmp_path / f"{agent.name}.npz"
        romdp.play(agent, WORLD, 100, checkpoint=path)
        arrays, facts = read_arrays(path, *CHECKPOINT)
        shapes = {name: array.shape for name, array in arrays.items()}
        same = {name for name in shapes if shapes[name] == tried.get(name)}
        for name, changed in cases(arrays, same):
            answers[agent.name, name] = survive(
                crafted,
                CHECKPOINT,
                changed,
                facts,
                lambda agent=agent: romdp.play(agent, WORLD, 120, checkpoint=crafted),
            )
        tried |= shapes
    refused = [words for words in answers.values() if words is not None]
    assert all("crafted.npz" in words for words in refused)
    optional = {"agent_recorder_triple_groups: missing", "agent_recorder_owners: missing"}
    for (agent, name), words in answers.items():
        if name.endswith((": missing", ": there")) and name not in optional:
            assert words is not None, (agent, name)
    assert {agent for agent, _ in answers} == {agent.name for agent in AGENTS}
    assert len(refused) > 0.6 * len(answers) > 150


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_crafted_agent_is_refused_or_harmless(tmp_path):
    agent = romdp.PSRL()
    path, crafted = tmp_path / "agent.npz", tmp_path / "crafted.npz"
    online = romdp.Online(agent, 9, 2)
    seen = np.random.default_rng(0).integers(9, size=100).tolist()
    for one, other in itertools.pairwise(seen):
        online.act(one)
        online.observe(1.0, other, terminated=one == 0)
    online.save(path)
    arrays, facts = read_arrays(path, *ONLINE)

    def go_on():
        again = romdp.Online.load(crafted, agent)
        for one, other in itertools.pairwise(seen[:20]):
            again.act(one)
            again.observe(0.0, other)

    for name, changed in cases(arrays):
        words = survive(crafted, ONLINE, changed, facts, go_on)
        assert words is None or "crafted.npz" in words, name
        assert words is not None or not name.endswith((": missing", ": there", ": deep")), name
    lies = [
        *({"observations": {"numbers": size}} for size in (10**6, 0, "nine")),
        *({"actions": {"numbers": size}} for size in (10**9, -1, None)),
        *({"streams": names} for names in ([], [None, None], [[1]], "left")),
        *({"seed": seed} for seed in ([None, []], 5)),
        {"reward_range": [1.0, 0.0]},
        # The agent is given here, and no limit is a limit like others.
        *({fact: None} for fact in facts if fact not in ("description", "step_limit")),
    ]
    for lie in lies:
        words = survive(crafted, ONLINE, arrays, {**facts, **lie}, go_on)
        assert words is not None, lie


def test_steps_that_lead_in_circles_are_refused(tmp_path):
    """Each vector names the step before it; who walks back must come to an end."""
    agent, path = romdp.LCPSRL(), tmp_path / "agent.npz"
    online = romdp.Online(agent, gymnasium.spaces.Box(-9, 9, (2,)), 2)
    for one, other in itertools.pairwise(np.random.default_rng(0).normal(size=(30, 2))):
        online.act(one)
        online.observe(0.0, other)
    online.save(path)
    arrays, facts = read_arrays(path, *ONLINE)
    (name,) = (name for name in arrays if name.endswith("before"))
    for row, before in ((0, 0), (5, 5), (5, 20), (28, 28)):
        circle = arrays[name].copy()
        circle[row] = before
        write_arrays(path, *ONLINE, {**arrays, name: circle}, facts)
        with pytest.raises(StorageError, match="before names a step that came later"):
            romdp.Online.load(path, agent)


def test_a_checkpoint_of_the_first_version_is_refused_with_its_version(tmp_path):
    path = tmp_path / "run.npz"
    romdp.play(romdp.PSRL(), WORLD, 20, checkpoint=path)
    arrays, facts = read_arrays(path, *CHECKPOINT)
    write_arrays(path, CHECKPOINT[0], 1, arrays, facts)
    with pytest.raises(StorageError, match="format version 1; this romdp reads version 2"):
        romdp.play(romdp.PSRL(), WORLD, 40, checkpoint=path)


# One at a time

SLOW = textwrap.dedent(
    """
    import sys, romdp
    from romdp.worlds import random_romdp
    world = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    for epoch in romdp.epochs(romdp.PSRL(), world, 1000, checkpoint=sys.argv[1]):
        print("playing", flush=True)
        sys.stdin.read()
    """
)


def test_two_runs_on_one_checkpoint_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    command = [sys.executable, "-c", SLOW, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout.readline() == "playing\n"
        with pytest.raises(MisuseError, match=r"another run is playing on .*run\.npz"):
            romdp.play(romdp.PSRL(), WORLD, 1000, checkpoint=path)
        child.kill()
    run = romdp.play(romdp.PSRL(), WORLD, 1000, checkpoint=path)  # a killed one holds nothing
    assert run.steps[-1] == 1000
    assert sorted(file.name for file in tmp_path.iterdir()) == ["run.npz"]


def test_a_run_that_was_left_holds_no_lock(tmp_path):
    path = tmp_path / "run.npz"
    first = romdp.epochs(romdp.PSRL(), WORLD, 100, checkpoint=path)
    for _ in first:
        with pytest.raises(MisuseError, match="another run"):
            romdp.play(romdp.PSRL(), WORLD, 100, checkpoint=path)
        break
    assert romdp.play(romdp.PSRL(), WORLD, 100, checkpoint=path).steps[-1] == 100


def test_an_agent_in_two_threads_at_once_is_refused():
    inside, leave = threading.Event(), threading.Event()

    class Slow:
        needs = frozenset()

        def regroup(self, evidence, previous, rng):
            inside.set()
            leave.wait(60)
            return previous

    online = romdp.Online(romdp.Agent(Slow()), 3, 2)
    thread = threading.Thread(target=online.act, args=(0,))
    thread.start()
    assert inside.wait(60)
    try:
        for call in (lambda: online.act(1), lambda: online.observe(1.0, 1), online.reset):
            with pytest.raises(MisuseError, match="another thread"):
                call()
    finally:
        leave.set()
        thread.join()
    online.observe(1.0, 2)  # the first caller's act stands
    assert online.n_steps == 1
