"""The command ``play``: somebody's environment, its returns, its policy and its page."""

import json

import gymnasium
import pytest
from typer.testing import CliRunner

import romdp
from romdp.cli import app


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_it_writes_returns_a_policy_and_a_page(tmp_path):
    done = run("play", "FrozenLake-v1", "--steps", "2e3", "--views", 3, "--out", tmp_path / "lake")
    assert done.exit_code == 0, done.output
    assert "lc-psrl played FrozenLake-v1 for 2,000 steps (objective: episodic" in done.output
    names = sorted(path.name for path in (tmp_path / "lake").iterdir())
    assert names == ["policy.npz", "report.html", "returns.csv", "run.json"]
    facts = json.loads((tmp_path / "lake" / "run.json").read_text())
    lines = (tmp_path / "lake" / "returns.csv").read_text().splitlines()
    assert lines[0] == "step,return,length"
    assert len(lines) == 1 + facts["episodes"] > 50
    policy = romdp.load_policy(tmp_path / "lake" / "policy.npz")
    assert [policy.act(view) in range(4) for view in range(48)] == [True] * 48
    page = (tmp_path / "lake" / "report.html").read_text()
    for words in ("How it learned", "The groups", "The policy", "polyline", "success rate"):
        assert words in page


def test_the_objective_and_the_agent_are_chosen(tmp_path):
    done = run(
        *("play", "CliffWalking-v1", "--steps", 500, "--agent", "psrl", "--objective", "0.9"),
        *("--reward-range=-100,0", "--out", tmp_path / "cliff"),
    )
    assert done.exit_code == 0, done.output
    assert "psrl played CliffWalking-v1" in done.output
    assert romdp.load_policy(tmp_path / "cliff" / "policy.npz").objective == "discount 0.9"


def test_an_environment_of_somebody_elses_module_is_found(tmp_path):
    done = run("play", "minigrid:MiniGrid-Empty-5x5-v0", "--steps", 300, "--out", tmp_path / "grid")
    assert done.exit_code == 0, done.output
    policy = romdp.load_policy(tmp_path / "grid" / "policy.npz")
    shown, _ = gymnasium.make("minigrid:MiniGrid-Empty-5x5-v0").reset(seed=0)
    assert policy.act(shown) in range(7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Nowhere-v0"], "cannot make the environment 'Nowhere-v0'"),
        (["Nowhere-v0"], "say module:Nowhere-v0"),
        (["no_such_module:Nowhere-v0"], "cannot make the environment"),
        (["Pendulum-v1"], "romdp chooses among a few actions"),
        (["FrozenLake-v1", "--agent", "oracle"], "must be told the truth"),
        (["FrozenLake-v1", "--agent", "lc-psrll"], "did you mean 'lc-psrl'"),
        (["FrozenLake-v1", "--objective", "episodical"], "objective"),
        (["FrozenLake-v1", "--reward-range", "wide"], "two numbers"),
        (["FrozenLake-v1", "--steps", "some"], "--steps is 'some'"),
    ],
)
def test_what_cannot_be_played_is_refused_before_anything_is_written(arguments, message, tmp_path):
    done = run("play", *arguments, "--out", tmp_path / "out")
    assert done.exit_code != 0
    assert isinstance(done.exception, romdp.ROMDPError)
    assert message in str(done.exception)
    assert not (tmp_path / "out").exists()
