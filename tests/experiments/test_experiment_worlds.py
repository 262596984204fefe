"""Worlds of an experiment: by name, from files, and environments."""

import json

import pytest

import romdp
from romdp.core.errors import InvalidInputError, StorageError
from romdp.experiments.directory import RunDirectory
from romdp.experiments.running import run_experiment
from romdp.experiments.specification import Experiment
from romdp.experiments.summary import format_summary
from romdp.experiments.worlds import (
    EnvironmentWorld,
    FileWorld,
    NamedWorld,
    kept_file,
    safe_name,
    world_from,
)
from romdp.reports import read_results, write_figures, write_report


@pytest.fixture
def world_file(tmp_path):
    path = tmp_path / "my world.npz"
    romdp.worlds.river_swim(3, 6).save(path)
    return path


def test_defaults_are_written_out():
    spec = NamedWorld("random-romdp", {"n_states": 3})
    assert spec.arguments["n_states"] == 3
    assert spec.arguments["concentration"] == 1.0
    assert "seed" not in spec.arguments
    assert "n_observations" not in spec.arguments
    assert world_from(spec.to_dict()) == spec


def test_a_label_tells_two_worlds_of_one_name_apart():
    spec = world_from({"name": "grid", "label": "a slippery/grid", "arguments": {"slip": 0.3}})
    assert spec.label == "a_slippery_grid"
    assert spec.make(None, 4) == romdp.worlds.grid(slip=0.3, seed=4)


def test_a_world_without_randomness_is_the_same_for_all():
    spec = NamedWorld("river-swim", {"n_states": 4})
    assert spec.make(8, 0) == spec.make(8, 5) == romdp.worlds.river_swim(4, 8)


def test_a_file_is_named_by_its_content(world_file):
    spec = world_from(str(world_file))
    assert isinstance(spec, FileWorld)
    assert spec.label == "my_world"
    assert spec.make(None, 3) == romdp.worlds.river_swim(3, 6)
    assert world_from(spec.to_dict()) == spec
    romdp.worlds.river_swim(3, 9).save(world_file)
    assert world_from(str(world_file)) != spec
    with pytest.raises(StorageError, match="it was changed"):
        world_from(spec.to_dict())


def test_a_run_directory_has_its_own_copy(world_file, tmp_path):
    spec = world_from(str(world_file))
    copy = tmp_path / kept_file(spec.sha256)
    copy.parent.mkdir()
    world_file.rename(copy)
    assert world_from(spec.to_dict(), tmp_path) == spec


def test_a_file_that_is_not_there_or_not_a_world(tmp_path):
    with pytest.raises(StorageError, match="cannot read"):
        world_from(str(tmp_path / "none.npz"))
    (tmp_path / "bad.npz").write_bytes(b"bad")
    with pytest.raises(StorageError, match="damaged"):
        world_from(str(tmp_path / "bad.npz"))


def test_safe_names():
    assert safe_name("../a b?.npz") == ".._a_b_.npz"


def test_agents_and_baselines_are_compared_by_their_returns(tmp_path):
    experiment = Experiment(
        ({"name": "gym:FrozenLake-v1", "arguments": {"views": 2}},),
        ("psrl", "q-learning"),
        steps=300,
        seeds=2,
    )
    directory = RunDirectory.create(tmp_path / "lake", experiment)
    assert run_experiment(directory) == []
    summary = json.loads((tmp_path / "lake" / "summary.json").read_text())
    (cell,) = summary["cells"]
    assert [figures["agent"] for figures in cell["agents"]] == ["psrl", "q-learning"]
    for figures in cell["agents"]:
        assert 0.0 <= figures["mean_return"]["mean"] <= 1.0
        assert figures["episodes"] > 10
    assert "gym_FrozenLake-v1, 32 observations" in format_summary(summary)
    table = romdp.load_runs(tmp_path / "lake")
    assert set(table["agent"].to_pylist()) == {"psrl", "q-learning"}
    assert len(set(table["seed"].to_pylist())) == 2
    returns = romdp.load_runs(tmp_path / "lake", "returns").to_pandas()
    assert [*returns] == ["agent", "world", "n_observations", "seed", "step", "return", "length"]
    for run, found in directory.contents().finished.items():
        mine = returns[(returns.agent == run.agent) & (returns.seed == run.replicate)]
        assert len(mine) == found.facts["episodes"]["number"]
        late = mine[mine.step > 240]  # the last fifth
        assert late["return"].mean() == pytest.approx(found.facts["episodes"]["mean_return"])
        assert (mine.length.cumsum() == mine.step).all()
    with pytest.raises(InvalidInputError, match="returns"):
        romdp.load_runs(tmp_path / "lake", "groups")
    results = read_results(tmp_path / "lake")
    for record in results.records:
        mine = returns[(returns.agent == record.agent) & (returns.seed == record.seed)]
        number = max(10, (mine.step > 240).sum())
        final = mine["return"].tail(number).mean()
        assert record.curves["mean_return"][-1] == pytest.approx(final)
    page = write_report(results).read_text(encoding="utf-8")
    assert "success rate [95%]" in page
    assert "Objective: episodic." in page
    assert '"measures":{"mean_return":"mean return",' in page
    written = write_figures(tmp_path / "lake")
    assert "mean-return.svg" in [path.name for path in written]


def test_an_environment_is_plain_data():
    world = world_from({"name": "gym:Taxi-v4", "arguments": {"reward_range": [-10, 20]}})
    assert isinstance(world, EnvironmentWorld)
    assert world_from(world.to_dict()) == world
    assert world.size() == 500


@pytest.mark.parametrize(
    ("world", "agents", "message"),
    [
        ("gym:Nowhere-v0", ("psrl",), "cannot make the environment 'Nowhere-v0'"),
        ("gym:Pendulum-v1", ("psrl",), "chooses among a few actions"),
        ("gym:FrozenLake-v1", ("oracle",), "must be told the hidden states"),
        ({"name": "gym:FrozenLake-v1", "arguments": {"view": 3}}, ("psrl",), "did you mean"),
    ],
)
def test_what_cannot_be_compared_is_refused(world, agents, message):
    with pytest.raises(InvalidInputError, match=message):
        Experiment((world,), agents, steps=10, seeds=1)


def cliff(**arguments):
    return {"name": "gym:CliffWalking-v1", "arguments": arguments}


@pytest.mark.parametrize(
    ("world", "agents", "message"),
    [
        (cliff(), ("lc-psrl", "psrl"), "'psrl' must be told the smallest and the largest reward"),
        (cliff(views=2), ("ucrl3",), "reward_range="),
        (cliff(reward_range=[0, -1]), ("lc-psrl",), "reward_range"),
        (cliff(reward_range="wide"), ("psrl",), "reward_range"),
    ],
)
def test_a_missing_range_of_rewards_is_refused_before_anything_is_written(
    world, agents, message, tmp_path
):
    experiment = Experiment((world,), agents, steps=10, seeds=1)
    with pytest.raises(InvalidInputError, match=message):
        RunDirectory.create(tmp_path / "x", experiment)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("world", "agents"),
    [
        (cliff(), ("lc-psrl", "q-learning")),  # these take any reward
        (cliff(reward_range=[-100, 0]), ("psrl", "ucrl2")),
        ({"name": "gym:FrozenLake-v1"}, ("psrl",)),  # says that its rewards lie in [0, 1]
        ({"name": "gym:romdp/RiverSwim-v0"}, ("psrl",)),
        ({"name": "gym:romdp/GaussianLock-v0"}, ("psrl",)),
    ],
)
def test_a_range_of_rewards_is_asked_for_only_where_it_is_needed(world, agents, tmp_path):
    RunDirectory.create(tmp_path / "x", Experiment((world,), agents, steps=10, seeds=1))
    assert (tmp_path / "x" / "experiment.json").exists()
