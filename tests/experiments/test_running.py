"""Runs: what a worker does, all that are missing, and looking on."""

import dataclasses
import errno
import io
import json
import os
import re
import sys
import types

import numba
import numpy as np
import pytest
from cases import small, tables

import romdp
from romdp.core.errors import WriteError
from romdp.core.storage import read_arrays, write_arrays
from romdp.data.partition import Partition
from romdp.experiments.agents import AGENTS, make_agent
from romdp.experiments.directory import RunDirectory, load_runs
from romdp.experiments.executors import Here, Outcome, Processes
from romdp.experiments.running import _tasks, do_task, run_experiment
from romdp.experiments.specification import RunSpec
from romdp.experiments.store import Store
from romdp.experiments.watching import Live, Plain, Progress, Watcher, last_line
from romdp.playing.run import EPOCH_COLUMNS, Run, log_spaced


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


def test_everything_is_written_into_few_files(reference):
    names = sorted(str(file.relative_to(reference.path)) for file in reference.path.rglob("*"))
    assert names == ["checkpoints", "experiment.json", "runs.sqlite", "summary.json"]
    summary = json.loads((reference.path / "summary.json").read_text())
    assert summary["runs"]["finished"] == 8


def test_a_run_can_be_repeated_alone(reference):
    run = RunSpec("ucrl2", "random-romdp", 9, 1)
    world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    agent = make_agent("ucrl2", world, reference.experiment.settings)
    alone = romdp.play(agent, world, 2000, run.stream(0))
    frame = load_runs(reference.path).to_pandas()
    mine = frame[(frame.agent == "ucrl2") & (frame.n_observations == 9) & (frame.seed == 1)]
    np.testing.assert_array_equal(mine.regret, alone.regret)
    np.testing.assert_array_equal(mine.step, alone.steps)


def test_facts(reference):
    for run in reference.experiment.runs:
        facts = reference.contents().finished[run].facts
        world = reference.experiment.world(run.world).make(run.n_observations, run.replicate)
        assert facts["gain"] == world.hidden.gain
        assert facts["seconds"] > 0
        assert facts["resumed"] is False
        assert facts["exact"] is (run.agent == "oracle")
        assert facts["versions"]["romdp"] == romdp.__version__


def test_runs_that_compile_say_so_once(tmp_path, monkeypatch):
    def ours(x):
        return x + 1

    def compile_and_play(*arguments, **options):
        numba.njit(ours)(1)
        return romdp.epochs(*arguments, **options)

    ours.__module__ = "romdp.somewhere"
    monkeypatch.setattr("romdp.experiments.running.epochs", compile_and_play)
    said = io.StringIO()
    directory = new(tmp_path / "x", agents=("oracle",), observations=(6,), seeds=2, steps=50)
    assert run_experiment(directory, watcher=Plain(said)) == []
    lines = said.getvalue().splitlines()
    assert lines[1] == "compiling, once for this machine ..."
    assert [line.partition(" ")[0] for line in lines[2:]] == ["[1/2]", "[2/2]"]


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
    before = reference.contents().finished
    for run, found in other.contents().finished.items():
        assert found.facts["regret"] != before[run].facts["regret"]
        assert found.facts["gain"] == before[run].facts["gain"]


def test_killed_again_and_again_the_tables_are_the_same(tmp_path, monkeypatch):
    """Checkpoints are written at every chance, and a kill falls on every few reports."""
    monkeypatch.setattr("romdp.experiments.running.SECONDS", 0.0)
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
    assert any(
        directory.contents().finished[run].facts["resumed"] for run in directory.experiment.runs
    )
    assert os.listdir(directory.path / "checkpoints") == []


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_goes_on_to_the_bit(tmp_path, monkeypatch, agent):
    monkeypatch.setattr("romdp.experiments.running.SECONDS", 0.0)
    only = {"agents": (agent,), "observations": (9,), "seeds": 1, "steps": 1500}
    reference, directory = new(tmp_path / "reference", **only), new(tmp_path / "x", **only)
    run_experiment(reference)
    with pytest.raises(Stop):
        run_experiment(directory, CutShort(12), checkpoint_seconds=0.0)
    assert run_experiment(directory) == []
    assert directory.contents().finished[directory.experiment.runs[0]].facts["resumed"]
    assert tables(directory.path) == tables(reference.path)


def tables_of(directory, run):
    """Do a run again, from its start and without a checkpoint."""
    (task,) = _tasks(directory, [run], 30.0)
    return do_task(dataclasses.replace(task, checkpoint="/nowhere/x.npz"), lambda _: None).tables


@pytest.mark.parametrize("damage", ["cut", "foreign"])
def test_a_checkpoint_that_cannot_be_used_is_begun_anew(reference, tmp_path, damage):
    directory = new(tmp_path / "x")
    run = directory.experiment.runs[0]
    path = directory.checkpoint(run)
    world = romdp.worlds.river_swim()
    romdp.play(romdp.UCRL2(), world, steps=100, seed=5, checkpoint=path)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:100])
    (task,) = _tasks(directory, [run], 30.0)
    told = []
    finished = do_task(task, told.append)
    assert finished.tables == tables_of(reference, run)
    assert [message.step for message in told if message.damage] == [0]


@pytest.mark.parametrize("before", ["sound", "damaged too"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path, monkeypatch, before):
    """The run goes on from there, or from zero, says so, and ends with the same tables."""
    monkeypatch.setattr("romdp.experiments.running.SECONDS", 0.0)
    only = {"steps": 200, "observations": (6,), "seeds": 1}
    reference, directory = new(tmp_path / "reference", **only), new(tmp_path / "x", **only)
    run_experiment(reference)
    with pytest.raises(Stop):
        run_experiment(directory, CutShort(5), checkpoint_seconds=0.0)
    run = directory.experiment.runs[0]
    path = directory.checkpoint(run)
    previous = path.with_name(path.name + ".previous")
    arrays, facts = read_arrays(path, "checkpoint of a run", 2)
    write_arrays(path, "checkpoint of a run", 2, arrays | {"agent_table": np.zeros(1)}, facts)
    if before == "damaged too":
        previous.write_bytes(previous.read_bytes()[:-1])
    stream = io.StringIO()
    assert run_experiment(directory, watcher=Plain(stream)) == []
    (line,) = [line for line in stream.getvalue().splitlines() if "is damaged" in line]
    where = r"goes on from step \d+, the checkpoint before" if before == "sound" else "starts from"
    assert re.search(rf"{run.id} .*the agent is damaged: table holds.*; the run {where}", line)
    assert directory.contents().finished[run].facts["resumed"] == (before == "sound")
    assert tables(directory.path) == tables(reference.path)
    assert list((directory.path / "checkpoints").iterdir()) == []


def test_a_checkpoint_that_cannot_be_removed_fails_its_run_alone(tmp_path):
    directory = new(tmp_path / "x")
    directory.checkpoint(directory.experiment.runs[0]).mkdir()
    assert run_experiment(directory) == [directory.experiment.runs[0]]


def test_a_worker_that_does_not_see_the_directory(reference, tmp_path):
    directory = new(tmp_path / "x")
    run = directory.experiment.runs[0]
    (task,) = _tasks(directory, [run], 0.0)
    os.rmdir(tmp_path / "x" / "checkpoints")
    finished = do_task(task, lambda message: None)
    assert finished.tables == tables_of(reference, run)


class Remember(Watcher):
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
    monkeypatch.setattr("romdp.experiments.running.SECONDS", 0.0)
    directory = new(tmp_path / "x", seeds=1, observations=(6,))
    watcher = Remember()
    run_experiment(directory, PlainTuples(), watcher)
    for run in directory.experiment.runs:
        mine = [progress for worker, which, progress in watcher.heard if which == run]
        steps = [progress.step for progress in mine]
        assert steps[0] == 0
        assert steps[-1] == 2000
        assert steps == sorted(steps)
        facts = directory.contents().finished[run].facts
        assert (mine[-1].regret, mine[-1].n_clusters) == (facts["regret"], facts["n_clusters"])


def test_a_run_that_fails_stops_no_other_and_is_tried_again(reference, tmp_path, monkeypatch):
    directory = new(tmp_path / "x")
    bad = directory.experiment.runs[2]

    def sometimes(name, world, settings, own):
        if (name, world.n_observations) == (bad.agent, bad.n_observations):
            raise RuntimeError("no luck today")
        return make_agent(name, world, settings, own)

    watcher = Remember()
    with monkeypatch.context() as patch:
        patch.setattr("romdp.experiments.running.make_agent", sometimes)
        failed = run_experiment(directory, Here(), watcher)
    assert {(run.agent, run.n_observations) for run in failed} == {(bad.agent, bad.n_observations)}
    assert list(directory.contents().failed) == failed == directory.missing
    assert (bad, "RuntimeError: no luck today") in watcher.ends
    assert len(watcher.ends) == 8
    assert "no luck today" in directory.contents().failed[bad]
    assert directory.errors_file.read_text().startswith(bad.id)
    summary = json.loads((directory.path / "summary.json").read_text())
    assert summary["runs"]["failed"] == [run.id for run in failed]
    assert run_experiment(directory) == []
    assert list(directory.contents().failed) == []
    assert not directory.errors_file.exists()
    assert tables(directory.path) == tables(reference.path)


def test_a_full_disk_ends_it_and_what_is_finished_is_kept(reference, tmp_path, monkeypatch):
    directory = new(tmp_path / "x")
    replace = os.replace

    def full(source, target):
        if str(target).endswith("summary.json"):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        with pytest.raises(WriteError, match="No space left on device"):
            run_experiment(directory)
    assert directory.missing == []
    assert load_runs(directory.path).equals(load_runs(reference.path))
    assert run_experiment(directory) == []
    assert tables(directory.path) == tables(reference.path)


def test_a_full_disk_under_the_store(reference, tmp_path, monkeypatch):
    directory = new(tmp_path / "x")

    def full(self, run, *_):
        if run == directory.experiment.runs[3]:
            raise WriteError("database or disk is full")
        return put(self, run, *_)

    put = Store.put
    with monkeypatch.context() as patch:
        patch.setattr(Store, "put", full)
        with pytest.raises(WriteError):
            run_experiment(directory)
    assert len(directory.missing) == 5
    assert load_runs(directory.path).num_rows * 8 == load_runs(reference.path).num_rows * 3
    assert run_experiment(directory) == []
    assert tables(directory.path) == tables(reference.path)


def test_another_version_of_the_library_is_refused(tmp_path, monkeypatch):
    directory = new(tmp_path / "x", seeds=1, observations=(6,))
    monkeypatch.setattr("romdp.experiments.running.__version__", "9.9")
    failed = run_experiment(directory)
    assert len(failed) == 2
    assert "this worker has romdp 9.9" in directory.contents().failed[failed[0]]


def test_baselines_run_like_agents(tmp_path, monkeypatch):
    def play_baseline(name, world, steps, seed, **settings):
        assert (name, steps) == ("q-learning", 2000)
        assert isinstance(seed, np.random.SeedSequence)
        grid = np.union1d(log_spaced(steps), [steps])
        unknown = np.full(grid.size, np.nan)
        partition = Partition.singletons(world.n_observations)
        nothing = np.empty(0, EPOCH_COLUMNS).view(np.recarray)
        return Run(grid, grid / 2, unknown, unknown, nothing, partition, (), name, 0)

    fake = types.ModuleType("romdp.playing.baselines")
    fake.play_baseline = play_baseline
    monkeypatch.setitem(sys.modules, "romdp.playing.baselines", fake)
    directory = new(tmp_path / "x", agents=("q-learning",), observations=(6,))
    assert run_experiment(directory) == []
    summary = json.loads((directory.path / "summary.json").read_text())
    (figures,) = summary["cells"][0]["agents"]
    assert figures["regret"]["mean"] is None
    assert figures["n_clusters"]["mean"] == 6


RUNS = [RunSpec("ucrl2", "grid", 9, seed) for seed in range(40)]
FACTS = {"regret": 1234.56, "n_clusters": 9, "exact": True, "seconds": 1.25}
ERROR = "Traceback\n  somewhere\nValueError: [bold]this[/bold] was wrong\n"


def tell_everything(watcher, workers=2):
    with watcher.watching(5, 1, 1000):
        watcher.compiling()
        watcher.compiling()
        for number in range(workers):
            watcher.progress(f"worker {number}", RUNS[number], Progress(500, 77.0, 4))
        watcher.finished(RUNS[0], FACTS)
        watcher.finished(RUNS[1], {**FACTS, "regret": None, "exact": False})
        watcher.failed(RUNS[2], ERROR)
        watcher.restarted(RUNS[3], 1200, "x.npz is damaged")
        watcher.restarted(RUNS[3], 0, "x.npz is damaged")


def test_silence(capsys):
    tell_everything(Watcher())
    assert capsys.readouterr() == ("", "")


def test_plain_lines():
    stream = io.StringIO()
    tell_everything(Plain(stream))
    assert stream.getvalue().splitlines() == [
        "5 runs of 1,000 steps, 1 done before",
        "compiling, once for this machine ...",
        "[2/5] ucrl2-grid-Y9-s0: regret 1,234.6, 9 groups, exact, 1.2 s",
        "[3/5] ucrl2-grid-Y9-s1: regret unknown, 9 groups, 1.2 s",
        "[4/5] ucrl2-grid-Y9-s2: FAILED: ValueError: [bold]this[/bold] was wrong",
        "the checkpoint of ucrl2-grid-Y9-s3 cannot be used (x.npz is damaged); "
        "the run goes on from step 1,200, the checkpoint before",
        "the checkpoint of ucrl2-grid-Y9-s3 cannot be used (x.npz is damaged); "
        "the run starts from zero",
    ]


class Screen(io.StringIO):
    def isatty(self):
        return True

    def text(self):
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue())


def test_a_live_screen_shows_one_bar_for_all_runs():
    stream = Screen()
    live = Live(stream)
    with live.watching(5, 1, 1000):
        live.progress("worker 1", RUNS[0], Progress(500, 77.0, 4))
        live.progress("worker 2", RUNS[1], Progress(250, 33.0, 8))
        (whole,) = live._bars.tasks
        assert whole.completed == 750 / 4000
        assert whole.description == "1 of 5 runs; ucrl2-grid-Y9-s1: regret 33, 8 groups"
        live.finished(RUNS[0], FACTS)
        assert whole.completed == 1250 / 4000
        assert whole.description == "2 of 5 runs"
        live.progress("worker 1", RUNS[0], Progress(900, 80.0, 4))  # late news
        assert whole.completed == 1250 / 4000
        live.progress("worker 1", RUNS[2], Progress(0, 0.0, 9))
        live.failed(RUNS[1], ERROR)
        assert whole.completed == 2000 / 4000
    text = stream.text()
    assert "ucrl2-grid-Y9-s1: FAILED: ValueError: [bold]this[/bold] was wrong" in text


def test_last_line():
    assert last_line(ERROR) == "ValueError: [bold]this[/bold] was wrong"
    assert last_line("") == "no message"
