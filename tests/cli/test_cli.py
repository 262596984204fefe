import json
import os
import stat
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import romdp
from romdp.cli import app
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP
from romdp.theory import bounds, lower_bound
from romdp.worlds import river_swim
from romdp.worlds.named import WORLDS, load_world, make

OPTIONS = {
    "random-romdp": {"states": 3, "actions": 2, "observations": 8, "seed": 1},
    "random-mdp": {"states": 4, "actions": 2, "seed": 1},
    "deterministic-romdp": {"states": 3, "actions": 2, "observations": 8, "seed": 1},
    "river-swim": {"states": 3, "observations": 7},
    "combination-lock": {"horizon": 3, "actions": 2, "observations": 7, "seed": 1},
    "grid": {"views": 2, "slip": 0.3, "seed": 1},
    "symmetric-block": {"observations": 8, "eta": 2.0},
    "twins": {"states": 3, "actions": 2, "observations": 8, "mixing": 0.5, "seed": 1},
}
PLAIN_NAMES = {"states": "n_states", "actions": "n_actions", "observations": "n_observations"}


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def command(*arguments, **environment):
    """Run the real command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "romdp", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "200", **environment},
    )


@pytest.fixture
def world_file(tmp_path):
    path = tmp_path / "world.npz"
    make("random-romdp", n_states=3, n_actions=2, n_observations=12, seed=3).save(path)
    return path


def check_refused(done, status, *words):
    """One line on stderr that says what was wrong; nothing on stdout."""
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert done.stderr.startswith("romdp: ")
    assert done.stderr.count("\n") == 1
    for word in words:
        assert word in done.stderr


def test_version():
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"romdp {romdp.__version__}\n")


@pytest.mark.parametrize("arguments", [(), ("generate",), ("inspect",)])
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help(arguments, option):
    result = run(*arguments, option)
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


def test_help_names_every_command_and_every_world():
    assert "generate" in run("--help").stdout
    assert "inspect" in run("--help").stdout
    text = run("generate", "--help").stdout
    for name in WORLDS:
        assert name in text


@pytest.mark.parametrize("name", WORLDS)
def test_generate_makes_the_world_of_that_name(tmp_path, name):
    options = OPTIONS[name]
    path = tmp_path / "w.npz"
    flags = [part for option, value in options.items() for part in (f"--{option}", value)]
    result = run("generate", name, "--out", path, *flags)
    assert result.exit_code == 0, result.output
    expected = make(name, **{PLAIN_NAMES.get(key, key): v for key, v in options.items()})
    assert load_world(path) == expected
    assert result.stdout == f"wrote {path}: {expected!r}\n"
    assert os.listdir(tmp_path) == ["w.npz"]


@pytest.mark.parametrize("name", WORLDS)
def test_generate_has_the_defaults_of_the_library(tmp_path, name):
    assert run("generate", name, "--out", tmp_path / "w").exit_code == 0
    assert load_world(tmp_path / "w") == make(name)


def test_generate_passes_every_option_on(tmp_path):
    more = ["--concentration", 0.3, "--emission-concentration", 2, "--reward-law", "beta"]
    run("generate", "random-romdp", "--out", tmp_path / "w", *more)
    expected = make(
        "random-romdp", concentration=0.3, emission_concentration=2.0, reward_law="beta"
    )
    assert load_world(tmp_path / "w") == expected


def test_generate_reads_a_room(tmp_path):
    (tmp_path / "room.txt").write_text("..\n.G\n", encoding="utf-8")
    arguments = ["--room", tmp_path / "room.txt", "--views", 1]
    assert run("generate", "grid", "--out", tmp_path / "w", *arguments).exit_code == 0
    assert load_world(tmp_path / "w").n_states == 4


def test_inspect_prints_the_table(world_file):
    result = run("inspect", world_file, "--brief")
    world = ROMDP.load(world_file)
    assert result.exit_code == 0
    assert str(world.assumptions()) in result.stdout
    assert "share of time (optimal policy)" in result.stdout
    rows = result.stdout.splitlines()[-world.n_states :]
    for x, row in enumerate(rows):
        state, observations, action, mean, share = row.split()
        assert int(state) == x
        assert int(observations) == (world.labels == x).sum()
        assert int(action) == world.hidden.optimal_policy[x]
        assert float(mean) == pytest.approx(world.reward[x, int(action)], abs=5e-4)
        assert 0 <= float(share) <= 1


def test_inspect_prints_json(world_file):
    result = run("inspect", world_file, "--json")
    world = ROMDP.load(world_file)
    content = json.loads(result.stdout)
    assert content.pop("optimal_policy") == world.hidden.optimal_policy.tolist()
    assert content.pop("theory") == json.loads(json.dumps(bounds(world).to_dict()))
    assert content.pop("lower_bound") == lower_bound(world)
    assert content == json.loads(json.dumps(world.assumptions().to_dict()))


def test_inspect_has_no_limit_where_the_theorem_does_not_apply(tmp_path):
    river_swim().save(tmp_path / "river.npz")
    assert "lower_bound" not in json.loads(run("inspect", tmp_path / "river.npz", "--json").stdout)
    assert "No agent has less regret" not in run("inspect", tmp_path / "river.npz").stdout


def test_inspect_shows_the_theory(world_file):
    result = run("inspect", world_file, "--delta", "0.1", "--steps", "1e4")
    assert result.exit_code == 0
    assert str(bounds(ROMDP.load(world_file), 0.1, 10_000)) in result.stdout
    refused = run("inspect", world_file, "--delta", "2")
    assert refused.exit_code != 0


def test_inspect_reads_an_mdp(tmp_path):
    mdp = MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [[0.0], [1.0]])
    mdp.save(tmp_path / "m.npz")
    content = json.loads(run("inspect", tmp_path / "m.npz", "--json").stdout)
    assert content["n_observations"] == 2
    assert content["gain"] == pytest.approx(0.5)


def test_inspect_of_a_world_without_a_single_gain(tmp_path):
    MDP([[[1.0, 0.0]], [[0.0, 1.0]]], [[0.0], [1.0]]).save(tmp_path / "m.npz")
    result = run("inspect", tmp_path / "m.npz")
    assert result.exit_code == 0
    assert "depends on the start" in result.stdout
    content = json.loads(run("inspect", tmp_path / "m.npz", "--json").stdout)
    assert content["gain"] is None
    assert "optimal_policy" not in content


def test_inspect_of_a_periodic_or_large_world(tmp_path):
    size = 60
    ring = np.roll(np.eye(size), 1, axis=1)[:, None]
    MDP(ring, np.zeros((size, 1))).save(tmp_path / "m.npz")
    result = run("inspect", tmp_path / "m.npz")
    assert result.exit_code == 0
    assert "some policy's chain is periodic" in result.stdout
    assert "... and 10 more hidden states" in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("generate", "grid"),
        ("generate", "grid", "--out"),
        ("generate", "grid", "--out", "w", "--views", "0"),
        ("generate", "grid", "--out", "w", "--views", "many"),
        ("generate", "random-romdp", "--out", "w", "--seed", "-1"),
        ("generate", "moon", "--out", "w"),
        ("inspect",),
        ("inspect", "w", "--xml"),
        ("nonsense",),
        ("--nonsense",),
    ],
    ids=" ".join,
)
def test_wrong_options_are_refused(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr
    assert os.listdir(tmp_path) == []


def test_the_command_writes_and_reads(tmp_path):
    path = tmp_path / "w.npz"
    done = command("generate", "river-swim", "--out", path)
    assert (done.returncode, done.stdout) == (0, f"wrote {path}: {make('river-swim')!r}\n")
    done = command("inspect", path, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["n_states"] == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("random-romdp", "--observations", 3), "n_observations is 3, fewer than the 5 hidden"),
        (("random-romdp", "--concentration", 0), "concentration is 0"),
        (("random-mdp", "--reward-law", "betta"), "did you mean 'beta'?"),
        (("combination-lock", "--actions", 1), "n_actions is 1"),
        (("symmetric-block", "--eta", "nan"), "eta is nan"),
        (("grid", "--room", "none.txt"), "cannot read none.txt"),
    ],
)
def test_what_a_world_refuses_is_one_line_and_status_2(tmp_path, arguments, message):
    done = command("generate", *arguments, "--out", tmp_path / "w.npz")
    check_refused(done, 2, message)
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_written_is_status_1(tmp_path):
    missing = tmp_path / "no" / "w.npz"
    check_refused(command("generate", "grid", "--out", missing), 1, "cannot write", str(missing))
    assert os.listdir(tmp_path) == []


def test_files_that_cannot_be_read_are_status_2(tmp_path, world_file):
    check_refused(command("inspect", tmp_path / "none.npz"), 2, "cannot read", "none.npz")
    world_file.write_bytes(world_file.read_bytes()[:200])
    check_refused(command("inspect", world_file), 2, "damaged", "world.npz")


def test_a_wrong_option_in_a_process_has_no_traceback():
    done = command("inspect", "--nonsense")
    assert done.returncode == 2
    assert "--nonsense" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.slow
def test_the_first_call_says_that_it_compiles_and_a_second_does_not(tmp_path, world_file):
    cache = tmp_path / "cache"
    first, second = (
        command("inspect", "--brief", world_file, NUMBA_CACHE_DIR=str(cache)) for _ in range(2)
    )
    assert first.stderr == "romdp: compiling, once for this machine ...\n"
    assert second.stderr == ""
    assert first.stdout == second.stdout


def test_the_command_is_installed():
    script = os.path.join(os.path.dirname(sys.executable), "romdp")
    if not os.path.exists(script):
        pytest.skip("the package is not installed in this environment")
    assert os.stat(script).st_mode & stat.S_IXUSR
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"romdp {romdp.__version__}\n"


def test_a_world_of_version_0_2_is_refused_in_one_line(tmp_path, world_file):
    with np.load(world_file) as archive:
        np.savez(tmp_path / "old.npz", **archive)
    result = run("inspect", "--brief", tmp_path / "old.npz")
    assert result.exit_code != 0
    assert "old.npz was made by romdp 0.2 or before; run it again" in str(result.exception)
