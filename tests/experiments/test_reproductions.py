import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from romdp.exact.mdp import MDP
from romdp.experiments.reproductions import REPRODUCTIONS
from romdp.planning.confidence import Hoeffding
from romdp.planning.timeuniform import TimeUniform
from romdp.reports import groups_figure, regret_figure
from romdp.reports.reading import read_results


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_the_sizes_of_the_paper(name):
    full = REPRODUCTIONS[name].experiments()
    assert list(full) == ["", "paper-sets"]
    experiment = full[""]
    assert (experiment.steps, experiment.seeds) == (10**6, 10)
    assert experiment.observations == (10, 20, 30)
    assert experiment.settings.confidence == TimeUniform()
    for observations in experiment.observations:
        world = experiment.worlds[0].make(observations, 3)
        assert world.n_actions == 4
        assert world.n_states == (5 if name == "regret" else observations)


def test_only_random_mdps_have_nothing_hidden_and_halved_bounds():
    regret = REPRODUCTIONS["regret"].experiments()[""]
    mdps = REPRODUCTIONS["random-mdps"].experiments()[""]
    assert not isinstance(regret.worlds[0].make(10, 0), MDP)
    assert isinstance(mdps.worlds[0].make(10, 0), MDP)
    assert regret.settings.factor is None
    assert mdps.settings.factor == 0.5
    # An oracle of an MDP would be UCRL3, and halved bounds leave our test out anyway.
    more = {"oracle", "sl-ucrl-spectral"}
    assert set(regret.agents) - set(mdps.agents) == more


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_the_papers_sets_are_scaled_and_ucrl2_plays_inside_them(name):
    main, other = (REPRODUCTIONS[name].experiments()[folder] for folder in ("", "paper-sets"))
    assert other.settings == replace(main.settings, scale=0.1)
    assert other.settings.confidence == Hoeffding(0.1)
    assert ("ucrl3" in main.agents, "ucrl2" in main.agents) == (True, False)
    assert [name.replace("ucrl2", "ucrl3") for name in other.agents] == [
        name for name in main.agents if name not in ("dqn", "lc-psrl")
    ]
    assert (other.worlds, other.observations) == (main.worlds, main.observations)
    assert (other.steps, other.seeds) == (main.steps, main.seeds)


@pytest.mark.parametrize("name", REPRODUCTIONS)
def test_the_quick_version_differs_in_its_effort_only(name):
    full = REPRODUCTIONS[name].experiments()[""].to_dict()
    quick = REPRODUCTIONS[name].experiments(quick=True)
    assert list(quick) == [""]
    content = quick[""].to_dict()
    assert content["seeds"] < full["seeds"]
    assert content["steps"] < full["steps"]
    assert {key for key in full if full[key] != content[key]} == {"seeds", "steps"}


RESULTS = Path(__file__).parents[2] / "docs" / "results"


@pytest.mark.skipif(not (RESULTS / "regret").is_dir(), reason="the sdist leaves the runs out")
@pytest.mark.parametrize("name", ["regret", "random-mdps"])
def test_published_figures_can_be_drawn_again(name):
    """The lines end where the published summary says, and every run is sound.

    DQN was played with three seeds of ten, and not where nothing is hidden: the page says so.
    """
    results = read_results(RESULTS / name)
    assert (results.failures, results.damaged) == ((), ())
    assert all(run.startswith("dqn-") for run in results.missing)
    summary = json.loads((RESULTS / name / "summary.json").read_text())
    figure = regret_figure(results, "pseudo_regret")
    panels = [axes for axes in figure.axes if axes.lines]
    for axes, cell in zip(panels, summary["cells"], strict=True):
        ends = [line.get_ydata()[-1] for line in axes.lines if line.get_label() != "C log N"]
        means = [agent["pseudo_regret"]["mean"] for agent in cell["agents"]]
        np.testing.assert_allclose(ends, means, rtol=1e-12)
    groups_figure(results)
