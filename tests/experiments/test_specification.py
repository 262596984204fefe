"""An experiment as data: its worlds, its agents and its runs."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from cases import small

import romdp
from romdp.agents.planners import Optimism, Posterior
from romdp.agents.stopping import Doubling
from romdp.clustering.clusterer import Chain, Known, Singletons, Spaced
from romdp.clustering.homogeneity import Homogeneity
from romdp.clustering.overlap import Overlap
from romdp.clustering.spectral import Spectral
from romdp.core.errors import InvalidInputError, ROMDPError, StorageError, UnknownNameError
from romdp.data.partition import Partition
from romdp.experiments.agents import (
    AGENTS,
    BASELINE_NAMES,
    Settings,
    check_agents,
    make_agent,
)
from romdp.experiments.directory import RunDirectory
from romdp.experiments.running import run_experiment
from romdp.experiments.specification import Experiment, RunSpec
from romdp.experiments.summary import format_summary
from romdp.experiments.worlds import (
    EnvironmentWorld,
    FileWorld,
    NamedWorld,
    kept_file,
    safe_name,
    world_from,
)
from romdp.planning.confidence import Hoeffding
from romdp.planning.timeuniform import TimeUniform
from romdp.reports import read_results, write_figures, write_report
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
    assert '<th scope="col">success</th>' in page
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


WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=8, seed=1)
MDP = romdp.worlds.random_mdp(n_states=4, n_actions=2, seed=1)
SETTINGS = Settings(scale=0.3, sets="jaksch", delta=0.1)


def test_the_names_are_those_of_the_contract():
    assert {*AGENTS, *BASELINE_NAMES} == {
        *(
            "sl-ucrl",
            "sl-ucrl-paper",
            "sl-ucrl-matrix",
            "sl-ucrl-spectral",
            "lc-ucrl",
            "lc-psrl",
            "ucrl2",
            "ucrl3",
            "psrl",
        ),
        *("oracle", "oracle-psrl", "two-phase", "dqn", "q-learning"),
    }


@pytest.mark.parametrize("name", AGENTS)
@pytest.mark.parametrize("world", [WORLD, MDP], ids=["romdp", "mdp"])
def test_every_agent_plays_under_its_name(name, world):
    run = romdp.play(make_agent(name, world, SETTINGS), world, steps=30, seed=0)
    assert run.agent == name
    assert run.steps[-1] == 30


@pytest.mark.parametrize("name", AGENTS)
def test_all_optimistic_agents_have_the_same_confidence_sets(name):
    planner = make_agent(name, WORLD, SETTINGS).planner
    if name in ("lc-psrl", "psrl", "oracle-psrl"):
        assert isinstance(planner, Posterior)
    elif name == "ucrl3":  # is known by its sets
        assert planner == Optimism(TimeUniform(), 0.1)
    else:
        sets = "paper" if name == "sl-ucrl-paper" else "jaksch"
        assert planner == Optimism(Hoeffding(0.3, sets), 0.1)


def _unspaced(clusterer):
    return clusterer.clusterer if isinstance(clusterer, Spaced) else clusterer


@pytest.mark.parametrize("name", ["sl-ucrl", "sl-ucrl-paper", "sl-ucrl-matrix"])
def test_sl_ucrl_is_told_the_number_of_states_unless_unknown(name):
    told = _unspaced(make_agent(name, WORLD, SETTINGS).clusterer)
    assert isinstance(told, Chain)
    overlap = told.clusterers[-1]
    sets = Hoeffding(0.3, "paper" if name == "sl-ucrl-paper" else "jaksch")
    assert (overlap.n_states, overlap.confidence) == (3, sets)
    untold = _unspaced(make_agent(name, WORLD, Settings(unknown_states=True)).clusterer)
    parts = untold.clusterers if isinstance(untold, Chain) else (untold,)
    assert not any(isinstance(part, Overlap) for part in parts)


@pytest.mark.parametrize("name", ["sl-ucrl", "sl-ucrl-paper", "sl-ucrl-matrix"])
def test_delta_reaches_every_part(name):
    agent = make_agent(name, WORLD, Settings(delta=0.003))
    assert agent.planner.delta == 0.003
    parts = _unspaced(agent.clusterer).clusterers
    assert [part.delta for part in parts] == [0.003] * len(parts)


def test_the_papers_own_has_nothing_of_ours():
    agent = make_agent("sl-ucrl-paper", WORLD, Settings(constant=2.5, unknown_states=True))
    assert agent.clusterer == Spectral.paper(2.5)
    assert agent.counting == "paper"
    assert agent.planner.confidence == Hoeffding()  # whatever the sets of the others are
    assert agent.stopping == Doubling()
    assert make_agent("sl-ucrl", WORLD).counting == "pooled"


def test_the_matrix_method():
    agent = make_agent("sl-ucrl-matrix", WORLD, Settings(unknown_states=True))
    assert agent.clusterer == Spaced(Chain(Homogeneity(), Spectral(method="matrix")))
    alone = make_agent("sl-ucrl-spectral", WORLD, Settings(unknown_states=True))
    assert alone.clusterer == Spectral()
    told = _unspaced(make_agent("sl-ucrl-matrix", WORLD).clusterer)
    assert told.clusterers[1] == Spectral(method="matrix", n_states=3)


def test_an_mdp_has_no_states_to_tell_and_the_factor_of_the_appendix():
    agent = make_agent("sl-ucrl", MDP)
    assert agent.clusterer == Spectral(factor=0.5, rank_step="threshold", decay=6.0)
    exact = make_agent("sl-ucrl", MDP, Settings(factor=1.0)).clusterer
    assert exact == Spaced(Chain(Homogeneity(), Spectral()))


def test_only_the_oracles_know_the_labels():
    for name in AGENTS:
        clusterer = make_agent(name, WORLD).clusterer
        assert isinstance(clusterer, Known) == name.startswith("oracle")
    assert make_agent("oracle", WORLD).clusterer.partition == Partition(WORLD.labels)
    assert isinstance(make_agent("ucrl2", WORLD).clusterer, Singletons)


def test_an_unknown_agent_gets_a_suggestion():
    with pytest.raises(UnknownNameError, match="did you mean 'ucrl"):
        make_agent("ucrl", WORLD)
    with pytest.raises(UnknownNameError, match="did you mean 'q-learning'"):
        check_agents(("qlearning",))
    with pytest.raises(InvalidInputError, match="'psrl' is given twice"):
        check_agents(("psrl", "oracle", "psrl"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"scale": -1.0},
        {"scale": float("nan")},
        {"scale": "0.1"},
        {"sets": "papers"},
        {"delta": 0.0},
        {"delta": 1.0},
        {"unknown_states": "yes"},
        {"factor": -0.5},
        {"constant": float("inf")},
        {"objective": "best"},
    ],
    ids=str,
)
def test_wrong_settings(wrong):
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        Settings(**wrong)


def test_settings_say_which_sets():
    assert "'jaksch' times 0.3, delta 0.1" in str(SETTINGS)
    assert Settings(**SETTINGS.to_dict()) == SETTINGS


@pytest.mark.parametrize("name", sorted({*AGENTS} - {"sl-ucrl-paper"}))
def test_the_sets_hold_unless_a_scale_or_others_are_given(name):
    if not name.endswith("psrl"):
        assert make_agent(name, WORLD).planner == Optimism(TimeUniform(), 0.05)
    if not name.endswith(("psrl", "ucrl3")):
        assert make_agent(name, WORLD, Settings(scale=0.2)).planner.confidence == Hoeffding(0.2)
        old = make_agent(name, WORLD, Settings(sets="jaksch"))
        assert old.planner.confidence == Hoeffding(1.0, "jaksch")


@pytest.mark.parametrize("name", ["ucrl2", "oracle", "sl-ucrl", "lc-ucrl", "two-phase"])
def test_sets_by_name(name):
    uniform = make_agent(name, WORLD, Settings(sets="time-uniform", delta=0.1))
    assert uniform.planner == Optimism(TimeUniform(), 0.1)
    jaksch = make_agent(name, WORLD, Settings(sets="jaksch", scale=0.3, delta=0.1))
    assert jaksch.planner == make_agent(name, WORLD, SETTINGS).planner


def test_sets_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInputError, match="have no scale"):
        Settings(sets="time-uniform", scale=0.1)
    with pytest.raises(InvalidInputError, match="SL-UCRL has no Bernstein sets"):
        make_agent("sl-ucrl", WORLD, Settings(sets="bernstein"))


def test_settings_in_words():
    assert Settings(scale=1.0).confidence == Hoeffding()
    assert str(Settings()) == "time-uniform confidence sets, delta 0.05"
    assert "'jaksch' times 0.3" in str(SETTINGS)


def test_all_agents_have_the_objective_of_the_settings():
    for name in AGENTS:
        assert make_agent(name, WORLD).planner.objective is None
        made = make_agent(name, WORLD, Settings(objective="episodic:7"))
        assert str(made.planner.objective) == "episodic, 7 steps"
    assert make_agent("lc-psrl", None, Settings(objective="0.9")).planner.objective.rate == 0.9
    assert Settings(objective=0.9).baseline_settings == {"discount": 0.9}
    assert Settings(objective="episodic").baseline_settings == {}


class SamePay:
    """A clusterer of somebody's own."""

    needs = frozenset()

    def regroup(self, evidence, previous, rng):
        return previous


def bold():
    return replace(romdp.PSRL(), name="bold")


def test_agents_of_somebodys_own_are_compared_and_kept(tmp_path):
    foreign = romdp.Agent(SamePay(), romdp.Posterior(), romdp.Doubling(), name="same-pay")
    worlds, few = ("random-romdp",), {"observations": (6,), "steps": 50, "seeds": 1}
    experiment = Experiment(worlds, ("psrl", bold(), foreign), **few)
    assert experiment.agents == ("psrl", "bold", "same-pay")
    assert replace(experiment, steps=60).own == experiment.own
    directory = RunDirectory.begin(tmp_path / "runs", experiment)
    assert RunDirectory.begin(tmp_path / "runs", experiment).experiment.own["same-pay"].agent
    assert not run_experiment(directory)
    figures = romdp.load_runs(tmp_path / "runs")
    assert set(figures["agent"].to_pylist()) == {"psrl", "bold", "same-pay"}
    read = RunDirectory.open(tmp_path / "runs").experiment
    assert read.own["bold"].agent == bold()  # made of parts of romdp, so a file can hold it
    with pytest.raises(InvalidInputError, match="'same-pay' has parts that no file can hold"):
        make_agent("same-pay", None, None, read.own["same-pay"])
    other = Experiment(worlds, ("psrl", replace(bold(), counting="paper"), foreign), **few)
    with pytest.raises(InvalidInputError, match="holds another experiment"):
        RunDirectory.begin(tmp_path / "runs", other)
    with pytest.raises(InvalidInputError, match="'bold' is given twice; give one another name"):
        Experiment(worlds, (bold(), bold()), **few)
    with pytest.raises(InvalidInputError, match="own must be a table"):
        Experiment.from_dict(experiment.to_dict() | {"own": 3})


def test_a_factory_is_found_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    Path("somebodys.py").write_text("import romdp\nplain, number = romdp.PSRL, int\n")
    experiment = Experiment(("random-romdp",), ("somebodys:plain",), steps=20, seeds=1)
    assert make_agent("somebodys:plain", WORLD, SETTINGS).name == "somebodys:plain"
    assert Experiment.from_dict(experiment.to_dict()) == experiment
    for name, message in (
        ("somebodys:plan", "cannot be made: AttributeError"),
        ("nobodys:plain", "cannot be made: ModuleNotFoundError"),
        ("somebodys:number", "is a int; the factory must return a romdp.Agent"),
    ):
        with pytest.raises(InvalidInputError, match=message):
            Experiment(("random-romdp",), (name,), steps=20, seeds=1)
