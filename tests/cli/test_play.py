"""The command ``play``: somebody's environment, its returns, its policy and its page."""

import json
import signal
import subprocess
import sys

import gymnasium
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import romdp
from romdp.cli import app
from romdp.reports import write_model_page
from romdp.worlds import Distraction, ROMDPEnv, VectorObservation


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_it_writes_returns_a_policy_and_a_page(tmp_path):
    done = run("play", "FrozenLake-v1", "--steps", "2e3", "--views", 3, "--out", tmp_path / "lake")
    assert done.exit_code == 0, done.output
    assert "lc-psrl played FrozenLake-v1 for 2,000 steps (objective: episodic" in done.output
    names = sorted(path.name for path in (tmp_path / "lake").iterdir())
    assert names == ["agent.npz", "policy.npz", "report.html", "returns.csv", "run.json"]
    facts = json.loads((tmp_path / "lake" / "run.json").read_text())
    lines = (tmp_path / "lake" / "returns.csv").read_text().splitlines()
    assert lines[0] == "step,return,length"
    assert len(lines) == 1 + facts["episodes"] > 50
    policy = romdp.load_policy(tmp_path / "lake" / "policy.npz")
    assert [policy.act(view) in range(4) for view in range(48)] == [True] * 48
    page = (tmp_path / "lake" / "report.html").read_text()
    for words in ("How it learned", "The groups", "what to do", "polyline", "success rate"):
        assert words in page


def test_the_objective_and_the_agent_are_chosen(tmp_path):
    done = run(
        *("play", "CliffWalking-v1", "--steps", 500, "--agent", "psrl", "--objective", "0.9"),
        *("--reward-range=-100,0", "--out", tmp_path / "cliff"),
    )
    assert done.exit_code == 0, done.output
    assert "psrl played CliffWalking-v1" in done.output
    assert romdp.load_policy(tmp_path / "cliff" / "policy.npz").objective == "discount 0.9"


def test_a_run_is_resumed_with_the_same_options(tmp_path):
    lake = ("play", "FrozenLake-v1", "--set", "is_slippery=false", "--out", tmp_path / "lake")
    assert run(*lake, "--steps", 300).exit_code == 0
    first = (tmp_path / "lake" / "returns.csv").read_text()
    done = run(*lake, "--steps", 900, "--resume")
    assert done.exit_code == 0, done.output
    assert "for 900 steps" in done.output
    facts = json.loads((tmp_path / "lake" / "run.json").read_text())
    assert (facts["steps"], facts["set"]) == (900, {"is_slippery": False})
    returns = (tmp_path / "lake" / "returns.csv").read_text()
    assert returns.startswith(first)
    rows = [line.split(",") for line in returns.splitlines()[1:]]
    assert facts["reward"] == sum(float(row[1]) for row in rows)  # of steps before and after
    assert romdp.Online.load(tmp_path / "lake" / "agent.npz").n_steps == 900
    for extra, message in (
        (["--steps", 900], "already played 900 steps"),
        (["--steps", 2000, "--seed", 1], "played with seed 0, not 1"),
        (["--steps", 2000, "--set", "map_name=8x8"], "played with set {'is_slippery': False}"),
    ):
        refused = run(*lake, *extra, "--resume")
        assert message in str(refused.exception)
    refused = run(*lake[:-1], tmp_path, "--resume")
    assert "holds no run of `romdp play`" in str(refused.exception)
    refused = run(*lake, "--steps", 900)
    assert "go on with --resume" in str(refused.exception)


def test_an_episode_of_the_policy_is_drawn(tmp_path):
    pytest.importorskip("PIL")
    lake = ("play", "FrozenLake-v1", "--set", "is_slippery=false", "--steps", 300, "--gif")
    done = run(*lake, "--views", 2, "--out", tmp_path / "lake")
    assert "policy.npz, policy.gif, returns.csv" in done.output
    assert (tmp_path / "lake" / "policy.gif").read_bytes()[:6] == b"GIF89a"
    refused = run(*("play", "Acrobot-v1", "--gif", "--out", tmp_path / "no", "--set", "x=1"))
    assert "cannot make the environment" in str(refused.exception)


def test_what_cannot_be_drawn_is_refused_before_it_is_played(tmp_path, monkeypatch):
    (tmp_path / "blind.py").write_text(
        "import gymnasium\n"
        "from romdp.worlds import ROMDPEnv, random_romdp\n"
        "gymnasium.register('Blind-v0', lambda **_: ROMDPEnv(random_romdp()))\n"
    )
    monkeypatch.chdir(tmp_path)
    refused = run("play", "blind:Blind-v0", "--steps", 10, "--gif", "--out", tmp_path / "out")
    assert "blind:Blind-v0 has no pictures to draw; leave out --gif" in str(refused.exception)
    assert not (tmp_path / "out").exists()


def test_an_action_mask_is_noticed(tmp_path):
    done = run("play", "Taxi-v4", "--steps", 20, "--out", tmp_path / "taxi")
    assert "--action-mask takes no others" in done.stderr
    done = run("play", "Taxi-v4", "--steps", 300, "--out", tmp_path / "longer")
    assert "1 episode; mean return in the last fifth of the steps: none ended there" in done.output
    done = run("play", "Taxi-v4", "--steps", 20, "--action-mask", "--out", tmp_path / "masked")
    assert "--action-mask" not in done.stderr


def test_states_look_back_if_asked(tmp_path):
    done = run(
        *("play", "FrozenLake-v1", "--steps", 1500, "--memory", 1, "--out", tmp_path / "lake")
    )
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "lake" / "run.json").read_text())["memory"] == 1
    policy = romdp.load_policy(tmp_path / "lake" / "policy.npz")
    before, now = policy.predict(0, state=None, episode_start=[True])[1], policy.state(4)
    assert before is not None  # what it carries from step to step
    assert now >= -1


def test_an_online_goes_on_in_another_environment_of_its_kind():
    lake = gymnasium.make("FrozenLake-v1")
    online = romdp.Online(romdp.LCPSRL(), lake.observation_space, lake.action_space, seed=0)
    first = romdp.play(online, lake, 400, seed=0)
    second = romdp.play(online, gymnasium.make("FrozenLake-v1"), 1_000, seed=0)
    assert second.returns.tolist()[: len(first.returns)] == first.returns.tolist()
    assert second.steps[0] > 400
    assert second.steps[-1] == online.n_steps == 1_000
    assert second.reward[-1] >= sum(second.returns["return"])
    assert second.epochs.start[0] + second.epochs.length.sum() <= 1_000
    with pytest.raises(romdp.ROMDPError, match="already played 1,000 steps"):
        romdp.play(online, lake, 500)
    with pytest.raises(romdp.ROMDPError, match="made for other spaces"):
        romdp.play(online, gymnasium.make("CliffWalking-v1"), 2_000)
    with pytest.raises(romdp.ROMDPError, match="reward_range was told"):
        romdp.play(online, lake, 2_000, reward_range=(0, 1))
    with pytest.raises(romdp.ROMDPError, match="an Online plays in a Gymnasium environment"):
        romdp.play(online, romdp.worlds.random_romdp(2, 2, 4, seed=0), 2_000)


def test_ctrl_c_keeps_what_was_learned(tmp_path, monkeypatch):
    before, steps, taken = signal.getsignal(signal.SIGINT), FrozenLakeEnv.step, []

    def step(self, action):
        taken.append(action)
        if len(taken) == 500:
            signal.raise_signal(signal.SIGINT)
        return steps(self, action)

    monkeypatch.setattr(FrozenLakeEnv, "step", step)
    done = run("play", "FrozenLake-v1", "--steps", "1e6", "--out", tmp_path / "lake")
    assert done.exit_code == 130
    assert "go on with the same command and --resume" in done.output
    assert 500 <= romdp.Online.load(tmp_path / "lake" / "agent.npz").n_steps < 2_000
    assert (tmp_path / "lake" / "report.html").exists()
    assert signal.getsignal(signal.SIGINT) is before  # ignored in a shell's background


def test_a_run_without_states_has_a_page_all_the_same(tmp_path):
    done = run("play", "CartPole-v1", "--steps", 200, "--out", tmp_path / "pole")
    assert done.exit_code == 0, done.output
    assert "nothing was learned yet" in (tmp_path / "pole" / "report.html").read_text()


def test_an_environment_of_somebody_elses_module_is_found(tmp_path):
    done = run("play", "minigrid:MiniGrid-Empty-5x5-v0", "--steps", 300, "--out", tmp_path / "grid")
    assert done.exit_code == 0, done.output
    policy = romdp.load_policy(tmp_path / "grid" / "policy.npz")
    shown, _ = gymnasium.make("minigrid:MiniGrid-Empty-5x5-v0").reset(seed=0)
    assert policy.act(shown) in range(7)


ROOMS = """
import gymnasium
from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv

gymnasium.register("Rooms-v0", CliffWalkingEnv, max_episode_steps=100)
"""


def command(folder, *arguments):
    """Run the command as it is installed: unlike ``-m``, its path has no current folder."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "romdp", *map(str, arguments)],
        check=False,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.slow
def test_an_environment_in_a_file_of_the_current_folder_is_found_by_every_command(tmp_path):
    (tmp_path / "my_rooms.py").write_text(ROOMS)
    played = command(tmp_path, *("play", "my_rooms:Rooms-v0", "--steps", 200, "--out", "played"))
    assert (played.returncode, played.stderr) == (0, "")
    compared = command(
        tmp_path,
        *("compare", "--world", "gym:my_rooms:Rooms-v0", "--agents", "lc-psrl", "--steps", 200),
        *("--seeds", 1, "--quiet", "--out", "compared"),
    )
    assert (compared.returncode, compared.stderr) == (0, "")
    for again in ("resume", "report"):
        done = command(tmp_path, again, "compared")
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_current_folder_is_not_looked_at_unless_a_module_is_asked_for(tmp_path):
    (tmp_path / "minigrid.py").write_text("raise RuntimeError('hides a package')")
    (tmp_path / "torch.py").write_text("raise RuntimeError('hides a package')")
    for environment in ("CliffWalking-v1", "minigrid:MiniGrid-Empty-5x5-v0"):
        out = environment.partition(":")[0]
        done = command(tmp_path, "play", environment, "--steps", 100, "--out", out)
        assert done.returncode == 0, done.stderr


def test_the_page_shows_pictures_as_pictures_and_other_vectors_as_bars(tmp_path):
    digits, kinds = load_digits(n_class=2, return_X_y=True)
    world = romdp.worlds.random_romdp(2, 2, 2, seed=1)
    classes = [digits[kinds == kind] for kind in (0, 1)]
    env = VectorObservation(ROMDPEnv(world), classes, seed=0)
    for world, drawn in ((env, "<img src"), (Distraction(env, 1, seed=0), '<svg viewBox="0 0 ')):
        played = romdp.play(romdp.LCPSRL(), world, steps=800, seed=0)
        page = write_model_page(played, tmp_path / "page.html").read_text()
        assert page.count(drawn) == played.partition.n_clusters >= 2
        assert ("Bars: numbers in standard deviations" in page) == ("svg" in drawn)
        placed = int((played.partition.labels >= 0).sum())
        assert f"{placed} codes of vectors in {played.partition.n_clusters} groups" in page
        assert f"behind vectors of {env.observation_space.shape[0] + ('svg' in drawn)}" in page
        assert "observations" not in page[page.index("what to do") : page.index("<script")]


def test_the_page_says_what_was_planned_for(tmp_path):
    out = tmp_path / "blocked"
    done = run("play", "CliffWalking-v1", "--steps", 40, "--objective", "episodic", "--out", out)
    assert done.exit_code == 0, done.output
    assert romdp.load_policy(out / "policy.npz").objective == "average"
    said = "objective: average, since no episode has terminated yet; afterwards episodic"
    assert said in done.output
    page = (out / "report.html").read_text()
    assert said in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Nowhere-v0"], "cannot make the environment 'Nowhere-v0'"),
        (["Nowhere-v0"], "say module:Nowhere-v0"),
        (["no_such_module:Nowhere-v0"], "cannot make the environment"),
        (["Pendulum-v1"], "romdp chooses among a few actions"),
        (["FrozenLake-v1", "--agent", "oracle"], "must be told the hidden states"),
        (["FrozenLake-v1", "--agent", "lc-psrll"], "did you mean 'lc-psrl'"),
        (["FrozenLake-v1", "--objective", "episodical"], "objective"),
        (["FrozenLake-v1", "--reward-range", "wide"], "two numbers"),
        (["FrozenLake-v1", "--steps", "some"], "--steps is 'some'"),
        (["FrozenLake-v1", "--set", "is_slippery"], "write it as name=value"),
        (["FrozenLake-v1", "--set", "slippery=1"], "unexpected keyword argument 'slippery'"),
        (["FrozenLake-v1", "--action-mask"], "FrozenLake-v1 has no action mask"),
        (["FrozenLake-v1", "--memory", "-1"], "memory is -1"),
        (["FrozenLake-v1", "--memory", "some"], "memory is 'some'"),
        (["Pendulum-v1", "--action-mask"], "ActionMask needs a Discrete one"),
    ],
)
def test_what_cannot_be_played_is_refused_before_anything_is_written(arguments, message, tmp_path):
    done = run("play", *arguments, "--out", tmp_path / "out")
    assert done.exit_code != 0
    assert isinstance(done.exception, romdp.ROMDPError)
    assert message in str(done.exception)
    assert not (tmp_path / "out").exists()
