import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from cases import cluster, execute, tables
from typer.testing import CliRunner

import romdp
from romdp.cli import app
from romdp.core.errors import StorageError
from romdp.experiments.directory import RunDirectory
from romdp.experiments.executors import ClusterLostError, Here
from romdp.experiments.running import run_experiment
from romdp.experiments.specification import Experiment

pytestmark = pytest.mark.slow  # whole commands

SIZES = ("--states", "3", "--actions", "2", "--observations", "6,9")
QUICK = (*SIZES, "--steps", "2e3", "--seeds", "2", "--agents", "ucrl2,oracle", "--scale", "0.1")
LONG = (*SIZES, "--steps", "1e4", "--seeds", "1", "--agents", "ucrl2,oracle", "--scale", "0.1")


@pytest.fixture
def in_process(monkeypatch):
    """Run without starting processes."""
    monkeypatch.setattr("romdp.cli.experiments.make_executor", lambda workers, dask: Here())


def run(*arguments):
    """Run a command in this process; errors of romdp come out as they are."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def start(*arguments, **options):
    """Start the real command in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "romdp", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def command(*arguments):
    with start(*arguments) as process:
        output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


def without_interruption(path):
    """Return the tables of the same experiment, done here in one go."""
    target = path / "reference"
    experiment = RunDirectory.open(path / "x").experiment
    run_experiment(RunDirectory.create(target, experiment))
    return tables(target)


@pytest.mark.usefixtures("in_process")
def test_compare_writes_the_directory_and_prints_the_summary(tmp_path):
    result = run("compare", *QUICK, "--out", tmp_path / "x")
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("8 of 8 runs of 2,000 steps; Hoeffding")
    assert "'paper' times 0.1" in result.stdout
    assert "[8/8]" in result.stderr
    content = json.loads((tmp_path / "x" / "experiment.json").read_text())
    assert content["observations"] == [6, 9]
    assert content["steps"] == 2000
    assert len(tables(tmp_path / "x")) == 8
    again = run("resume", tmp_path / "x", "--quiet")
    assert (again.exit_code, again.stderr) == (0, "")
    assert again.stdout == result.stdout


@pytest.mark.usefixtures("in_process")
def test_every_option_arrives(tmp_path):
    world = tmp_path / "w.npz"
    romdp.worlds.river_swim(3, 6).save(world)
    more = ["--sets", "jaksch", "--delta", 0.2, "--unknown-states", "--factor", 0.7]
    more += ["--constant", 3, "--seed", 9, "--objective", "0.9", "--quiet"]
    result = run(
        *("compare", "--world", world, "--world", "grid", "--steps", 10, "--seeds", 1),
        *("--agents", "ucrl2, psrl", *more, "--out", tmp_path / "x"),
    )
    assert result.exit_code == 0, result.output
    experiment = RunDirectory.open(tmp_path / "x").experiment
    assert [spec.label for spec in experiment.worlds] == ["w", "grid"]
    assert experiment.agents == ("ucrl2", "psrl")
    assert experiment.seed == 9
    assert experiment.settings.to_dict() == {
        "scale": None,
        "sets": "jaksch",
        "delta": 0.2,
        "unknown_states": True,
        "factor": 0.7,
        "constant": 3.0,
        "objective": "0.9",
    }
    assert "Objective: discount 0.9." in result.stdout


@pytest.mark.usefixtures("in_process")
def test_arguments_of_worlds(tmp_path):
    tail = ("--steps", 5, "--seeds", 1, "--agents", "ucrl2", "--quiet")
    options = ("--set", "concentration=0.5", "--set", "reward_law=beta", "--states", 2)
    assert run("compare", *options, *tail, "--out", tmp_path / "x").exit_code == 0
    (spec,) = RunDirectory.open(tmp_path / "x").experiment.worlds
    assert spec.arguments["concentration"] == 0.5
    assert spec.arguments["reward_law"] == "beta"
    assert spec.arguments["n_states"] == 2
    result = run("compare", "--world", "random-mdp", "--states", 4, *tail, "--out", tmp_path / "y")
    assert result.exit_code == 0, result.output
    assert RunDirectory.open(tmp_path / "y").experiment.observations == (4,)


@pytest.mark.usefixtures("in_process")
def test_a_file_says_the_same_as_options_and_options_override_it(tmp_path):
    (tmp_path / "e.toml").write_text(
        """
steps = 1e2
seeds = 3
agents = ["psrl"]
observations = [6]
worlds = [{name = "random-romdp", arguments = {n_states = 3}}]
[agent_settings]
scale = 0.2
"""
    )
    arguments = ("--config", tmp_path / "e.toml", "--seeds", 1, "--delta", 0.1, "--quiet")
    result = run("compare", *arguments, "--out", tmp_path / "x")
    assert result.exit_code == 0, result.output
    found = RunDirectory.open(tmp_path / "x").experiment
    assert (found.steps, found.seeds, found.agents, found.observations) == (100, 1, ("psrl",), (6,))
    assert (found.settings.scale, found.settings.delta) == (0.2, 0.1)
    copy = tmp_path / "x" / "experiment.json"
    assert run("compare", "--config", copy, "--quiet", "--out", tmp_path / "y").exit_code == 0
    assert RunDirectory.open(tmp_path / "y").experiment == found
    assert tables(tmp_path / "x") == tables(tmp_path / "y")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--agents", "orcale"), "did you mean 'oracle'"),
        (("--agents", ""), "unknown agent"),
        (("--seeds", "0"), "seeds is 0"),
        (("--seeds", "-3"), "seeds is -3"),
        (("--steps", "nan"), "--steps is nan"),
        (("--steps", "many"), "--steps is 'many'"),
        (("--steps", "-1e3"), "--steps is -1000"),
        (("--steps", "inf"), "--steps is inf"),
        (("--seeds", "1000000"), "3,000,000 runs, more than 1,000,000"),
        (("--scale", "nan"), "scale is nan"),
        (("--scale", "-1"), "scale is -1"),
        (("--delta", "0"), "delta is 0"),
        (("--sets", "papers"), "did you mean 'paper'"),
        (("--observations", "10,x"), "--observations is 'x'"),
        (("--observations", "3"), "fewer than the 5 hidden states"),
        (("--world", "random-romd"), "did you mean 'random-romdp'"),
        (("--world", "none.npz"), "cannot read none.npz"),
        (("--world", "grid", "--states", "3"), "argument of world 'grid'"),
        (("--world", "random-mdp", "--states", "3", "--observations", "3"), "not both"),
        (("--set", "eta"), "name=value"),
        (("--set", "seed=3"), "argument of world"),
        (("--config", "none.toml"), "cannot read none.toml"),
        (("--workers", "0"), "workers is 0"),
        (("--checkpoint-seconds", "-1"), "checkpoint_seconds is -1"),
        (("--dask", "127.0.0.1:1"), "no Dask scheduler answers"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_wrong_is_refused_and_nothing_written(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = run("compare", *arguments, "--out", "x")
    assert isinstance(result.exception, romdp.ROMDPError), result.output
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text", ["steps = ", "[1]", "stepz = 1", "agent_settings = 3"])
def test_a_wrong_file(tmp_path, text):
    (tmp_path / "e.toml").write_text(text)
    result = run("compare", "--config", tmp_path / "e.toml", "--out", tmp_path / "x")
    assert isinstance(result.exception, romdp.ROMDPError)
    assert os.listdir(tmp_path) == ["e.toml"]


def test_the_command_refuses_with_one_line_and_status_2(tmp_path):
    RunDirectory.create(tmp_path / "x", Experiment(("grid",), ("ucrl2",)))
    for arguments, words in (
        (("compare", "--out", tmp_path / "x"), "another experiment"),
        (("resume", tmp_path / "y"), "y does not exist"),
    ):
        status, output, errors = command(*arguments)
        assert (status, output) == (2, "")
        assert errors.startswith("romdp: ")
        assert errors.count("\n") == 1
        assert words in errors
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a place where none can write")
def test_a_directory_that_cannot_be_written_is_status_1(tmp_path):
    status, output, errors = command("compare", *QUICK, "--out", "/proc/self/runs")
    assert (status, output) == (1, "")
    assert errors.startswith("romdp: cannot write /proc/self/runs")


@pytest.mark.usefixtures("in_process")
def test_failed_runs_are_status_1_and_resume_tries_them_again(tmp_path, monkeypatch):
    def broken(*_):
        raise RuntimeError("no luck")

    with monkeypatch.context() as patch:
        patch.setitem(romdp.experiments.agents.AGENTS, "oracle", broken)
        result = run("compare", *QUICK, "--out", tmp_path / "x")
    assert result.exit_code == 1
    assert "4 of 8 runs of 2,000 steps" in result.stdout
    assert "romdp: 4 of 8 runs failed (the first: RuntimeError: no luck)" in result.stderr
    assert "errors.txt says why" in result.stderr
    assert "RuntimeError: no luck" in (tmp_path / "x" / "errors.txt").read_text()
    assert run("resume", tmp_path / "x", "--quiet").exit_code == 0


@pytest.mark.usefixtures("in_process")
def test_a_directory_of_another_version_is_mentioned(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("romdp.experiments.specification.__version__", "0.0.1")
        RunDirectory.create(tmp_path / "x", Experiment(("grid",), ("ucrl2",), steps=10, seeds=1))
    result = run("resume", tmp_path / "x", "--quiet")
    assert result.exit_code == 0
    assert "begun with romdp 0.0.1" in result.stderr


@pytest.mark.usefixtures("in_process")
def test_report_names_what_does_not_match_and_resume_repeats_it(tmp_path):
    path = tmp_path / "x"
    assert run("compare", *QUICK, "--out", path, "--quiet").exit_code == 0
    result = run("report", path)
    assert (result.exit_code, result.stdout) == (0, f"wrote {path / 'report.html'}\n")
    before = tables(path)
    execute(path, "UPDATE runs SET facts = replace(facts, 'regret', 'regrets') WHERE number = 1")
    result = run("report", path)
    assert result.exit_code == 1
    assert "oracle-random-romdp-Y6-s0 is damaged and left out" in result.stderr
    assert "1 of 8 runs are damaged; repeat them with: romdp resume" in result.stderr
    result = run("resume", path)
    assert result.exit_code == 0
    assert "oracle-random-romdp-Y6-s0 is damaged and done again" in result.stderr
    assert "[8/8]" in result.stderr
    assert run("report", path).exit_code == 0
    assert tables(path) == before


@pytest.mark.parametrize("command", ["report", "resume"])
def test_an_edited_experiment_is_refused(tmp_path, command):
    RunDirectory.create(tmp_path / "x", Experiment(("grid",), ("ucrl2",), steps=10, seeds=1))
    path = tmp_path / "x" / "experiment.json"
    path.write_text(path.read_text().replace('"steps": 10', '"steps": 20'))
    result = run(command, tmp_path / "x")
    assert isinstance(result.exception, StorageError)  # which is status 2
    assert "was edited" in str(result.exception)


class LosesItsCluster(Here):
    def run(self, work, tasks, listen=None):
        yield next(super().run(work, tasks, listen))
        raise ClusterLostError("the Dask scheduler was lost")


def test_a_lost_scheduler_is_one_line_and_nothing_failed(tmp_path, monkeypatch):
    monkeypatch.setattr("romdp.cli.experiments.make_executor", lambda *_: LosesItsCluster())
    result = run("compare", *QUICK, "--out", tmp_path / "x", "--quiet")
    path = tmp_path / "x"
    expected = f"romdp: the Dask scheduler was lost; go on with: romdp resume {path}\n"
    assert (result.exit_code, result.stderr) == (1, expected)
    assert RunDirectory.open(path).contents().failed == {}
    assert len(RunDirectory.open(path).missing) == 7


def wait_until(condition, process, seconds=120):
    limit = time.monotonic() + seconds
    while not condition():
        if process.poll() is not None:
            return
        assert time.monotonic() < limit
        time.sleep(0.005)


def has_begun(path):
    return lambda: any((path / "checkpoints").glob("*.npz"))


@pytest.mark.slow
def test_an_interrupt_is_status_130_and_resume_finishes(tmp_path):
    options = (*LONG, "--checkpoint-seconds", 0, "--out", tmp_path / "x")
    with start("compare", *options) as process:
        wait_until(has_begun(tmp_path / "x"), process)
        os.killpg(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (130, "")
    assert f"romdp resume {tmp_path / 'x'}" in errors
    assert "Traceback" not in errors
    directory = RunDirectory.open(tmp_path / "x")
    assert directory.missing
    run_experiment(directory)
    assert tables(tmp_path / "x") == without_interruption(tmp_path)


@pytest.mark.slow
def test_killed_at_random_moments_the_tables_are_the_same(tmp_path):
    moments = random.Random(5)
    checkpoints = ("--checkpoint-seconds", 0, "--workers", 2)
    arguments = ("compare", *LONG, *checkpoints, "--out", tmp_path / "x")
    kills = 0
    for _ in range(2):
        with start(*arguments) as process:
            wait_until(has_begun(tmp_path / "x"), process)
            time.sleep(moments.uniform(0.0, 0.5))
            process.kill()
            process.communicate(timeout=60)
        kills += process.returncode == -signal.SIGKILL
        arguments = ("resume", tmp_path / "x", *checkpoints)
    assert kills >= 1
    assert run_experiment(RunDirectory.open(tmp_path / "x")) == []
    assert tables(tmp_path / "x") == without_interruption(tmp_path)


@pytest.mark.slow
def test_a_cluster_that_loses_a_worker_gives_the_same_tables(tmp_path):
    with cluster(tmp_path) as (address, workers):
        options = (*LONG, "--checkpoint-seconds", 0, "--dask", address)
        with start("compare", *options, "--out", tmp_path / "x") as process:
            wait_until(has_begun(tmp_path / "x"), process)
            workers[0].kill()
            _, errors = process.communicate(timeout=240)
    assert process.returncode == 0, errors
    assert "[4/4]" in errors
    assert tables(tmp_path / "x") == without_interruption(tmp_path)


@pytest.mark.slow
def test_a_cluster_that_loses_its_scheduler_is_one_line_and_resume_finishes(tmp_path):
    import distributed

    with cluster(tmp_path) as (address, _):
        with distributed.Client(address) as client:
            scheduler = client.run_on_scheduler(os.getpid)
        options = (*LONG, "--checkpoint-seconds", 0, "--quiet", "--dask", address)
        with start("compare", *options, "--out", tmp_path / "x") as process:
            wait_until(has_begun(tmp_path / "x"), process)
            os.kill(scheduler, signal.SIGKILL)
            _, errors = process.communicate(timeout=240)
    assert process.returncode == 1
    lines = [line for line in errors.splitlines() if "has no workers yet" not in line]
    assert len(lines) == 1, errors
    (line,) = lines
    assert line.startswith("romdp: the Dask scheduler was lost with ")
    assert line.endswith(f"tasks not done; go on with: romdp resume {tmp_path / 'x'}")
    assert run_experiment(RunDirectory.open(tmp_path / "x")) == []
    assert tables(tmp_path / "x") == without_interruption(tmp_path)
