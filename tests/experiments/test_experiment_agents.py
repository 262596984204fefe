import pytest

import romdp
from romdp.agents.planners import Optimism, Posterior
from romdp.agents.stopping import Doubling
from romdp.clustering.clusterer import Chain, Known, Singletons, Spaced
from romdp.clustering.homogeneity import Homogeneity
from romdp.clustering.overlap import Overlap
from romdp.clustering.spectral import Spectral
from romdp.core.errors import InvalidInputError, UnknownNameError
from romdp.data.partition import Partition
from romdp.experiments.agents import (
    AGENTS,
    BASELINE_NAMES,
    Settings,
    check_agents,
    check_installed,
    make_agent,
)
from romdp.planning.confidence import Hoeffding
from romdp.planning.timeuniform import TimeUniform

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=8, seed=1)
MDP = romdp.worlds.random_mdp(n_states=4, n_actions=2, seed=1)
SETTINGS = Settings(scale=0.3, sets="jaksch", delta=0.1)


def test_the_names_are_those_of_the_contract():
    assert {*AGENTS, *BASELINE_NAMES} == {
        *(
            "sl-ucrl",
            "sl-ucrl-paper",
            "sl-ucrl-matrix",
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


def test_a_baseline_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setattr("romdp.experiments.agents.find_spec", lambda name: None)
    check_installed(AGENTS)
    for name in BASELINE_NAMES:
        with pytest.raises(InvalidInputError, match=r"pip install 'romdp\[dqn\]'"):
            check_installed([name])


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
