import json

import pytest
from experiment_cases import small

import romdp
from romdp.core.errors import InvalidInputError, ROMDPError, StorageError, UnknownNameError
from romdp.experiments.agents import Settings
from romdp.experiments.specification import Experiment, RunSpec
from romdp.worlds.named import WORLDS


def test_the_grid_of_runs():
    runs = small().runs
    assert len(set(runs)) == len(runs) == 8
    assert {run.agent for run in runs} == {"ucrl2", "oracle"}
    assert {run.n_observations for run in runs} == {6, 9}
    assert {run.replicate for run in runs} == {0, 1}
    assert runs[0].id == "ucrl2-random-romdp-Y6-s0"
    assert len({run.id for run in runs}) == 8


def test_json_and_back():
    experiment = small(seed=7)
    content = json.loads(json.dumps(experiment.to_dict()))
    assert content["kind"] == "romdp experiment"
    assert content["observations"] == [6, 9]
    assert content["agent_settings"]["scale"] == 0.1
    assert content["romdp"] == romdp.__version__
    assert Experiment.from_dict(content) == experiment
    assert Experiment.from_dict({**content, "seed": 8}) != experiment


def test_what_is_left_out_has_its_default():
    assert Experiment.from_dict({}) == Experiment(("random-romdp",), ("sl-ucrl", "ucrl2", "oracle"))
    partial = Experiment.from_dict({"agent_settings": {"scale": 0.5}, "steps": 1e3})
    assert partial.settings == Settings(scale=0.5)
    assert partial.steps == 1000


@pytest.mark.parametrize("name", WORLDS)
def test_every_world_can_be_compared_on(name):
    experiment = Experiment((name,), ("ucrl2",), steps=10, seeds=1)
    (run,) = experiment.runs
    world = experiment.worlds[0].make(None, 0)
    assert run.n_observations == getattr(world, "n_observations", world.n_states)
    assert Experiment.from_dict(json.loads(json.dumps(experiment.to_dict()))) == experiment


def test_replicates_are_drawn_with_their_number_and_agents_share_them():
    spec = small().worlds[0]
    expected = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=6, seed=1)
    assert spec.make(6, 1) == expected
    assert spec.make(6, 0) != expected


def test_the_states_of_an_mdp_are_its_observations():
    experiment = Experiment(("random-mdp",), ("ucrl2",), (4, 7), seeds=1)
    assert [run.n_observations for run in experiment.runs] == [4, 7]
    assert experiment.worlds[0].make(7, 2) == romdp.worlds.random_mdp(n_states=7, seed=2)


def test_streams_depend_on_the_run_and_the_seed_alone():
    def words(run, seed=0):
        return tuple(run.stream(seed).generate_state(4))

    runs = small().runs
    assert len({words(run) for run in runs}) == len(runs)
    assert words(runs[0]) == words(RunSpec("ucrl2", "random-romdp", 6, 0))
    assert words(runs[0]) != words(runs[0], 1)
    # A fixed one: the streams of experiments that were done once must never change.
    assert int(runs[0].stream(0).generate_state(1)[0]) == 873829871


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"agents": ("ucrl",)}, "did you mean 'ucrl"),
        ({"agents": ()}, "agents is an empty list"),
        ({"agents": "ucrl2"}, "pass a list"),
        ({"agents": ("psrl", "psrl")}, "given twice"),
        ({"worlds": ()}, "worlds is an empty list"),
        ({"worlds": ("random-rmdp",)}, "did you mean 'random-romdp'"),
        ({"worlds": ("grid", "grid")}, "label of its own"),
        ({"worlds": ("grid",)}, "observations of world 'grid' cannot be chosen"),
        ({"worlds": ({"name": "random-romdp", "arguments": {"n_state": 3}},)}, "'n_states'"),
        ({"worlds": ({"name": "random-romdp", "arguments": {"seed": 3}},)}, "argument of world"),
        ({"worlds": ({"name": "random-romdp", "arguments": 3},)}, "pass a table"),
        ({"worlds": ({"name": "random-romdp", "arguments": {"concentration": -1}},)}, "is -1"),
        ({"worlds": ({"name": "random-romdp", "file": "w.npz"},)}, "a name .* or a file"),
        ({"worlds": ({"name": "random-romdp", "colour": "red"},)}, "entry of a world"),
        ({"worlds": (3,)}, "world is 3"),
        ({"observations": ()}, "observations is an empty list"),
        ({"observations": (2,)}, "n_observations is 2, fewer than the 3 hidden states"),
        ({"observations": (6, 6)}, "given twice"),
        ({"observations": (0,)}, "observations is 0"),
        ({"steps": 0}, "steps is 0"),
        ({"steps": 1.5}, "steps is 1.5"),
        ({"steps": float("nan")}, "steps is nan"),
        ({"seeds": 0}, "seeds is 0"),
        ({"seed": -1}, "seed is -1"),
    ],
    ids=str,
)
def test_wrong_experiments(changes, message):
    with pytest.raises(InvalidInputError, match=message):
        small(**changes)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ([], InvalidInputError),
        ({"stepz": 3}, UnknownNameError),
        ({"agent_settings": 3}, InvalidInputError),
        ({"agent_settings": {"scales": 3}}, UnknownNameError),
        ({"worlds": "random-romdp"}, InvalidInputError),
        ({"kind": "romdp summary"}, StorageError),
        ({"version": 99}, StorageError),
    ],
    ids=str,
)
def test_wrong_content(content, kind):
    with pytest.raises(kind):
        Experiment.from_dict(content)
    assert issubclass(kind, ROMDPError)


@pytest.mark.parametrize(
    ("worlds", "settings", "said"),
    [
        (("random-romdp",), {}, "average"),
        (("gym:FrozenLake-v1",), {}, "episodic"),
        (("gym:FrozenLake-v1",), {"objective": 0.9}, "discount 0.9"),
        (
            ("random-romdp", "gym:FrozenLake-v1"),
            {},
            "episodic in environments, average in other worlds",
        ),
    ],
)
def test_an_experiment_says_its_objective(worlds, settings, said):
    made = Experiment(worlds, ("lc-psrl",), steps=10, settings=Settings(**settings))
    assert made.objective == said
