"""Every reader against damaged files: an error of ours, or what was stored; never anything else.

`make test` tries some two thousand damaged files, always the same ones. `make fuzz` goes on with
others for as long as ``ROMDP_FUZZ_SECONDS`` says.
"""

import contextlib
import json
import os
import shutil
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import mutants
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import romdp
from romdp.core import storage
from romdp.core.errors import ROMDPError
from romdp.experiments import Experiment, RunDirectory, run_experiment
from romdp.experiments.executors import Here
from romdp.logs import Columns, count_logs

SECONDS = float(os.environ.get("ROMDP_FUZZ_SECONDS", "0"))
WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=8, seed=1)
AGENT = romdp.UCRL2()


@cache
def seen():
    return romdp.simulate(WORLD, "uniform", 1500, seed=0)


def table():
    return pa.table({"page": seen().observations, "offer": seen().actions, "paid": seen().rewards})


@dataclass
class Reader:
    """Something that is stored, how it is read, and how many damaged copies to try."""

    write: Any  # given a folder
    read: Any  # given the folder, returns something to compare
    cases: int
    sealed: bool = True  # whether damage must be noticed
    partial: bool = False  # whether what is damaged may be left out


def write_world(folder):
    WORLD.save(folder / "world.npz")


def read_world(folder):
    world = romdp.ROMDP.load(folder / "world.npz")
    return [world.hidden.transition, world.hidden.reward, world.labels, world.emission]


def write_mdp(folder):
    WORLD.hidden.save(folder / "mdp.npz")


def read_mdp(folder):
    mdp = romdp.MDP.load(folder / "mdp.npz")
    return [mdp.transition, mdp.reward]


def write_trajectory(folder):
    seen().save(folder / "seen.npz")


def read_trajectory(folder):
    read = romdp.Trajectory.load(folder / "seen.npz")
    return [read.observations, read.actions, read.rewards, read.lengths, read.final_observations]


def write_model(folder):
    romdp.fit(table(), "page", "offer", "paid").save(folder / "model")


def read_model(folder):
    model = romdp.load_model(folder / "model")
    facts = [*model.observation_names, *model.action_names, model.delta, model.n_rows, model.rare]
    return [model.partition.labels, *model.counts.arrays().values(), model.visits, facts]


def write_online(folder):
    online = romdp.Online(AGENT, 8, 2, seed=0)
    for observation, reward in zip(seen().observations[:60], seen().rewards[:60], strict=True):
        if online.n_steps or online._streams:
            online.observe(float(reward), int(observation))
        online.act(int(observation))
    online.save(folder / "online.npz")


def read_online(folder):
    online = romdp.Online.load(folder / "online.npz", AGENT)
    online.save(folder / "again")
    arrays, facts = storage.read_arrays(folder / "again", "online agent", 4)
    os.unlink(folder / "again")
    actions = []
    for observation in seen().observations[:20].tolist():
        actions.append(online.act(observation))
        online.observe(0.5, observation)
    return [*arrays.values(), json.dumps(facts), actions]


def write_checkpoint(folder):
    romdp.play(AGENT, WORLD, steps=300, seed=0, checkpoint=folder / "run.npz")


def read_checkpoint(folder):
    run = romdp.play(AGENT, WORLD, steps=320, seed=0, checkpoint=folder / "run.npz")
    return [run.steps, run.regret, run.epochs]


def write_policy(folder):
    romdp.play(AGENT, WORLD, steps=300, seed=0).policy.save(folder / "policy.npz")


def read_policy(folder):
    policy = romdp.load_policy(folder / "policy.npz")
    return [policy.table, np.nan_to_num(policy.values), [policy.act(y) for y in range(8)]]


def write_vocabulary(folder):
    romdp.Vocabulary(names=["a", ("b", 1), 2.5, b"c"]).save(folder / "words.json")


def read_vocabulary(folder):
    return romdp.Vocabulary.load(folder / "words.json").names


def write_logs(folder):
    rows = table().slice(0, 300)
    pyarrow.csv.write_csv(rows, folder / "log.csv")
    pq.write_table(rows, folder / "log.parquet")
    pa.feather.write_feather(rows, folder / "log.arrow", compression="uncompressed")


def read_logs(folder):
    columns = Columns("page", "offer", "paid")
    for name in ("log.csv", "log.parquet", "log.arrow"):
        count_logs(folder / name, columns, workers=1, max_observations=100_000)
    return []


def write_runs(folder):
    experiment = Experiment(
        worlds=({"name": "random-romdp", "arguments": {"n_states": 3, "n_actions": 2}},),
        agents=("ucrl2", "oracle"),
        observations=(6,),
        steps=200,
        seeds=2,
    )
    directory = RunDirectory.create(folder / "runs", experiment)
    assert run_experiment(directory, Here()) == []


def read_runs(folder):
    """Read the figures; runs that are damaged are left out."""
    return sorted(map(repr, romdp.load_runs(folder / "runs").to_pylist()))


READERS = {
    "world": Reader(write_world, read_world, 300),
    "mdp": Reader(write_mdp, read_mdp, 150),
    "trajectory": Reader(write_trajectory, read_trajectory, 150),
    "model": Reader(write_model, read_model, 100),
    "online": Reader(write_online, read_online, 80),
    "checkpoint": Reader(write_checkpoint, read_checkpoint, 50),
    "policy": Reader(write_policy, read_policy, 80),
    "runs": Reader(write_runs, read_runs, 30, partial=True),
    "vocabulary": Reader(write_vocabulary, read_vocabulary, 200, sealed=False),
    "logs": Reader(write_logs, read_logs, 100, sealed=False),
}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Write everything once; a reader's folder is copied for each test."""
    folders = {}
    for name, reader in READERS.items():
        folders[name] = tmp_path_factory.mktemp(name)
        reader.write(folders[name])
    return folders


def copied(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "stored")
    files = [path for path in sorted((tmp_path / "stored").rglob("*")) if path.is_file()]
    return tmp_path / "stored", {path: path.read_bytes() for path in files}


def rounds(n_cases, *seed):
    """Yield generators of random numbers: a fixed number, or for a fixed time."""
    share = SECONDS / (2 * len(READERS))
    end = time.monotonic() + share
    case = 0
    while case < n_cases or time.monotonic() < end:
        yield mutants.generator(*seed, case)
        case += 1


def same(first, second):
    if len(first) != len(second):
        return False
    pairs = zip(first, second, strict=True)
    return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)


def restore(files):
    for path, content in files.items():
        path.write_bytes(content)


@pytest.mark.parametrize("name", READERS)
def test_damaged_bytes_are_noticed(stored, tmp_path, name):
    reader = READERS[name]
    folder, files = copied(stored[name], tmp_path)
    expected = reader.read(folder)
    restore(files)
    noticed = 0
    for rng in rounds(reader.cases, "bytes", name):
        path = rng.choice(list(files))
        damaged = mutants.damage_bytes(files[path], rng)
        path.write_bytes(damaged)
        try:
            found = reader.read(folder)
        except ROMDPError:
            noticed += 1
        else:
            left_out = reader.partial and set(found) <= set(expected)
            noticed += left_out and len(found) < len(expected)
            assert not reader.sealed or left_out or same(found, expected), (name, path.name)
        restore(files)
    assert noticed > reader.cases / 10


def damaged_json(content, rng):
    return json.dumps(mutants.damage_json(json.loads(content), rng)).encode()


@pytest.mark.parametrize(
    "name", ["world", "mdp", "trajectory", "model", "online", "checkpoint", "policy", "vocabulary"]
)
def test_damaged_fields_are_never_a_traceback(stored, tmp_path, name):
    """Files whose checksums fit, or that have none, but that hold nonsense."""
    reader = READERS[name]
    folder, files = copied(stored[name], tmp_path)
    (path,) = files
    damage = damaged_json if path.suffix == ".json" else mutants.damage_npz
    refused = 0
    for rng in rounds(reader.cases, "fields", name):
        path.write_bytes(damage(files[path], rng))
        try:
            found = reader.read(folder)
            str(found)
        except ROMDPError:
            refused += 1
        restore(files)
    assert refused > reader.cases / 10


@pytest.mark.parametrize("name", ["world", "online", "checkpoint", "policy"])
def test_archives_written_anew_hold_the_same_or_are_refused(stored, tmp_path, name):
    """Their members in another order, compressed or missing, under a checksum that fits."""
    reader = READERS[name]
    folder, files = copied(stored[name], tmp_path)
    expected = reader.read(folder)
    restore(files)
    (path,) = files
    for case in range(30):
        path.write_bytes(mutants.rezip(files[path], mutants.generator("rezip", name, case)))
        with contextlib.suppress(ROMDPError):
            assert same(reader.read(folder), expected)
        restore(files)
