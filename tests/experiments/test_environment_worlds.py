"""Comparisons in Gymnasium environments: by return, without regret, truth or checkpoints."""

import json

import pytest

import romdp
from romdp.core.errors import InvalidInputError
from romdp.experiments.directory import RunDirectory
from romdp.experiments.running import run_experiment
from romdp.experiments.specification import Experiment
from romdp.experiments.summary import format_summary
from romdp.experiments.worlds import EnvironmentWorld, world_from
from romdp.reports import read_results, write_report


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
    assert write_report(read_results(tmp_path / "lake")).exists()


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
