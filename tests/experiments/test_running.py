import errno
import json
import os
import sys
import types

import numpy as np
import pyarrow.parquet
import pytest
from experiment_cases import small, tables

import romdp
from romdp.core.errors import WriteError
from romdp.data.partition import Partition
from romdp.experiments.catalogue import AGENTS, make_agent
from romdp.experiments.directory import RunDirectory
from romdp.experiments.executors import Here, Outcome, Processes
from romdp.experiments.running import _task, do_task, run_experiment
from romdp.experiments.specification import RunSpec
from romdp.experiments.watching import Silent
from romdp.playing.run import EPOCH_COLUMNS, Run


class Stop(BaseException):
    """Ends everything, as a kill would."""


class CutShort:
    """Kills in the middle of a run: its worker, at a report, and everything with it."""

    def __init__(self, reports):
        self.reports = reports

    def run(self, work, tasks, listen=None):
        for index, task in enumerate(tasks):
            yield Outcome(index, work(task, self.tell))

    def tell(self, message):
        self.reports -= 1
        if self.reports < 0:
            raise Stop

    def close(self):
        pass


class Backwards(Here):
    """Does the last task first."""

    def run(self, work, tasks, listen=None):
        for outcome in super().run(work, tasks[::-1], listen):
            yield Outcome(len(tasks) - 1 - outcome.index, outcome.value, outcome.error)


def new(path, **changes):
    return RunDirectory.create(path, small(**changes))


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """An experiment that was done without interruption."""
    directory = new(tmp_path_factory.mktemp("reference") / "x")
    assert run_experiment(directory, Here()) == []
    return directory


def test_everything_is_written(reference):
    names = {file.name for file in (reference.path / "runs").iterdir()}
    assert names == {
        run.id + ending
        for run in reference.experiment.runs
        for ending in (".parquet", ".epochs.parquet", ".groups.parquet", ".json")
    }
    assert os.listdir(reference.path / "checkpoints") == []
    summary = json.loads((reference.path / "summary.json").read_text())
    assert summary["runs"]["finished"] == 8


def test_a_run_can_be_repeated_alone(reference):
    run = RunSpec("ucrl2", "random-romdp", 9, 1)
    world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    agent = make_agent("ucrl2", world, reference.experiment.settings)
    alone = romdp.play(agent, world, 2000, run.stream(0))
    table = pyarrow.parquet.read_table(reference.file(run, ".parquet"))
    np.testing.assert_array_equal(table["regret"].to_numpy(), alone.regret)
    np.testing.assert_array_equal(table["step"].to_numpy(), alone.steps)


def test_facts(reference):
    for run in reference.experiment.runs:
        facts = reference.facts(run)
        world = reference.experiment.world(run.world).make(run.n_observations, run.replicate)
        assert facts["gain"] == world.hidden.gain
        assert facts["seconds"] > 0
        assert facts["resumed"] is False
        assert facts["exact"] is (run.agent == "oracle")
        assert facts["versions"]["romdp"] == romdp.__version__


def test_the_order_does_not_matter(reference, tmp_path):
    backwards = new(tmp_path / "x")
    run_experiment(backwards, Backwards())
    assert tables(backwards.path) == tables(reference.path)


@pytest.mark.slow
def test_the_place_does_not_matter(reference, tmp_path):
    elsewhere = new(tmp_path / "x")
    run_experiment(elsewhere, Processes(2))
    assert tables(elsewhere.path) == tables(reference.path)


def test_another_seed_gives_other_runs_in_the_same_worlds(reference, tmp_path):
    other = new(tmp_path / "x", seed=1, seeds=1, observations=(6,))
    run_experiment(other)
    for name, content in tables(other.path).items():
        if "epochs" not in name and "groups" not in name:
            assert content != tables(reference.path)[name]


def test_killed_again_and_again_the_tables_are_the_same(tmp_path, monkeypatch):
    """Checkpoints are written at every chance, and a kill falls on every few reports."""
    monkeypatch.setattr("romdp.experiments.running._EVERY", 0.0)
    short = {"steps": 200, "observations": (6,)}
    reference = new(tmp_path / "reference", **short)
    run_experiment(reference)
    directory = new(tmp_path / "x", **short)
    kills = 0
    for reports in (3, 20, 2, 40, 10**9):
        try:
            run_experiment(directory, CutShort(reports), checkpoint_seconds=0.0)
        except Stop:
            kills += 1
            directory = RunDirectory.open(tmp_path / "x")
    assert kills == 4
    assert directory.missing == []
    assert tables(directory.path) == tables(reference.path)
    assert any(directory.facts(run)["resumed"] for run in directory.experiment.runs)
    assert os.listdir(directory.path / "checkpoints") == []


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_goes_on_to_the_bit(tmp_path, monkeypatch, agent):
    monkeypatch.setattr("romdp.experiments.running._EVERY", 0.0)
    only = {"agents": (agent,), "observations": (9,), "seeds": 1, "steps": 4000}
    reference, directory = new(tmp_path / "reference", **only), new(tmp_path / "x", **only)
    run_experiment(reference)
    with pytest.raises(Stop):
        run_experiment(directory, CutShort(12), checkpoint_seconds=0.0)
    assert run_experiment(directory) == []
    assert directory.facts(directory.experiment.runs[0])["resumed"]
    assert tables(directory.path) == tables(reference.path)


@pytest.mark.parametrize("damage", ["cut", "foreign"])
def test_a_checkpoint_that_cannot_be_used_is_begun_anew(reference, tmp_path, damage):
    directory = new(tmp_path / "x")
    run = directory.experiment.runs[0]
    path = directory.checkpoint(run)
    world = romdp.worlds.river_swim()
    romdp.play(romdp.UCRL2(), world, steps=100, seed=5, checkpoint=path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    finished = do_task(_task(directory, run, 30.0), lambda message: None)
    assert finished.files[".parquet"] == reference.file(run, ".parquet").read_bytes()


def test_a_worker_that_does_not_see_the_directory(reference, tmp_path):
    directory = new(tmp_path / "x")
    run = directory.experiment.runs[0]
    task = _task(directory, run, 0.0)
    os.rmdir(tmp_path / "x" / "checkpoints")
    finished = do_task(task, lambda message: None)
    assert finished.files[".parquet"] == reference.file(run, ".parquet").read_bytes()


class Remember(Silent):
    def __init__(self):
        self.ends = []
        self.heard = []

    def progress(self, worker, run, progress):
        self.heard.append((worker, run, progress))

    def finished(self, run, facts):
        self.ends.append((run, "done"))

    def failed(self, run, error):
        self.ends.append((run, error.splitlines()[-1]))


class PlainTuples(Here):
    """Sends what is told as a cluster does."""

    def run(self, work, tasks, listen=None):
        return super().run(work, tasks, lambda name, i, told: listen(name, i, tuple(told)))


def test_progress_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("romdp.experiments.running._EVERY", 0.0)
    directory = new(tmp_path / "x", seeds=1, observations=(6,))
    watcher = Remember()
    run_experiment(directory, PlainTuples(), watcher)
    for run in directory.experiment.runs:
        mine = [progress for worker, which, progress in watcher.heard if which == run]
        steps = [progress.step for progress in mine]
        assert steps[0] == 0
        assert steps[-1] == 2000
        assert steps == sorted(steps)
        facts = directory.facts(run)
        assert (mine[-1].regret, mine[-1].n_clusters) == (facts["regret"], facts["n_clusters"])


def test_a_run_that_fails_stops_no_other_and_is_tried_again(reference, tmp_path, monkeypatch):
    directory = new(tmp_path / "x")
    bad = directory.experiment.runs[2]

    def sometimes(name, world, settings):
        if (name, world.n_observations) == (bad.agent, bad.n_observations):
            raise RuntimeError("no luck today")
        return make_agent(name, world, settings)

    watcher = Remember()
    with monkeypatch.context() as patch:
        patch.setattr("romdp.experiments.running.make_agent", sometimes)
        failed = run_experiment(directory, Here(), watcher)
    assert {(run.agent, run.n_observations) for run in failed} == {(bad.agent, bad.n_observations)}
    assert directory.failed == failed == directory.missing
    assert (bad, "RuntimeError: no luck today") in watcher.ends
    assert len(watcher.ends) == 8
    assert "no luck today" in directory.error_file(bad).read_text()
    summary = json.loads((directory.path / "summary.json").read_text())
    assert summary["runs"]["failed"] == [run.id for run in failed]
    assert run_experiment(directory) == []
    assert directory.failed == []
    assert tables(directory.path) == tables(reference.path)


def test_a_full_disk_ends_it_and_what_is_finished_is_kept(reference, tmp_path, monkeypatch):
    directory = new(tmp_path / "x")
    replace, count = os.replace, [0]

    def full(source, target):
        if str(target).endswith(".parquet"):
            count[0] += 1
            if count[0] > 8:
                raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(WriteError, match="No space left on device"):
            run_experiment(directory)
    assert len(directory.missing) == 6
    assert run_experiment(directory) == []
    assert tables(directory.path) == tables(reference.path)


def test_another_version_of_the_library_is_refused(tmp_path, monkeypatch):
    directory = new(tmp_path / "x", seeds=1, observations=(6,))
    monkeypatch.setattr("romdp.experiments.running.__version__", "9.9")
    failed = run_experiment(directory)
    assert len(failed) == 2
    assert "this worker has romdp 9.9" in directory.error_file(failed[0]).read_text()


def test_baselines_run_like_agents(tmp_path, monkeypatch):
    def play_baseline(name, world, steps, seed, **settings):
        assert (name, steps) == ("q-learning", 2000)
        assert isinstance(seed, np.random.SeedSequence)
        figures = np.array([1.0, np.nan])
        partition = Partition.singletons(world.n_observations)
        nothing = np.empty(0, EPOCH_COLUMNS).view(np.recarray)
        return Run(np.array([1, steps]), figures, figures, figures, nothing, partition, (), name, 0)

    fake = types.ModuleType("romdp.playing.baselines")
    fake.play_baseline = play_baseline
    monkeypatch.setitem(sys.modules, "romdp.playing.baselines", fake)
    monkeypatch.setattr("romdp.experiments.catalogue.find_spec", lambda name: True)
    directory = new(tmp_path / "x", agents=("q-learning",), observations=(6,))
    assert run_experiment(directory) == []
    summary = json.loads((directory.path / "summary.json").read_text())
    (figures,) = summary["cells"][0]["agents"]
    assert figures["regret"]["mean"] is None
    assert figures["n_clusters"]["mean"] == 6
