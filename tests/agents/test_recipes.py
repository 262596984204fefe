"""The recipes name the right three answers."""

import numpy as np
import pytest

import romdp
from romdp.agents.agent import Agent
from romdp.agents.planners import Optimism, Posterior
from romdp.agents.stopping import Doubling
from romdp.clustering.clusterer import Known, Singletons, Spaced
from romdp.core.errors import InvalidInputError, UnknownNameError
from romdp.core.formats import fingerprint

LABELS = np.array([0, 1, 0, 2])


def test_every_recipe_is_an_agent():
    sets = romdp.Hoeffding(0.1)
    assert romdp.UCRL2(sets, 0.1) == Agent(
        Singletons(), Optimism(sets, 0.1), Doubling(eager=False), name="ucrl2"
    )
    assert romdp.PSRL(2.0, "normal") == Agent(
        Singletons(), Posterior(2.0, "normal", floor=0.0), Doubling(grow=1), name="psrl"
    )
    assert romdp.Oracle(LABELS, confidence=sets, delta=0.1) == Agent(
        Known(LABELS), Optimism(sets, 0.1), Doubling(), name="oracle"
    )
    assert romdp.Oracle(LABELS, "posterior") == Agent(
        Known(LABELS), Posterior(), Doubling.frequent(), name="oracle-psrl"
    )
    assert romdp.LCPSRL().stopping == Doubling.frequent()
    assert Doubling.frequent() == Doubling(grow=1, power=0.5, slack=1 / 128)


def test_recipes_pass_on_every_argument():
    sets, uniform = romdp.Hoeffding(0.1), romdp.TimeUniform()
    assert romdp.UCRL2().planner == Optimism(romdp.Hoeffding(constants="jaksch"), 0.05)
    assert romdp.UCRL3(0.1) == Agent(
        Singletons(),
        Optimism(romdp.TimeUniform(), 0.1),
        Doubling(eager=False, growth=1.25, slack=1 / 128),
        name="ucrl3",
    )
    for recipe in (romdp.UCRL2, romdp.UCRL3, romdp.SLUCRL, romdp.LCUCRL, romdp.TwoPhase):
        assert recipe() == recipe(delta=0.05)
    spaced = Spaced(romdp.Likelihood(n_states=3), 1.44, 1.2)
    assert romdp.LCUCRL(sets, 0.1, n_states=3, growth=1.44) == Agent(
        spaced, Optimism(sets, 0.1), Doubling(), name="lc-ucrl"
    )
    assert romdp.LCUCRL(delta=0.2).planner == Optimism(uniform, 0.2)
    for agent in (romdp.LCUCRL(), romdp.Oracle(LABELS)):
        # The paper's rule goes with its sets.
        assert agent.stopping == Doubling(growth=1.25, slack=1 / 128)
    assert romdp.LCPSRL(2.0, "normal", n_states=3, growth=1.44) == Agent(
        spaced, Posterior(2.0, "normal"), Doubling.frequent(), name="lc-psrl"
    )
    assert romdp.TwoPhase(sets, 0.1, n_states=3) == Agent(
        romdp.UntilSure(romdp.Likelihood(n_states=3), 0.1),
        Optimism(sets, 0.1),
        Doubling(unseen=1),
        name="two-phase",
    )
    assert romdp.TwoPhase(delta=0.1).planner == Optimism(uniform, 0.1)
    spectral = romdp.TwoPhase(delta=0.1, n_states=3, grouping="spectral").clusterer
    assert spectral == romdp.UntilFound(romdp.Spectral(delta=0.1, n_states=3), 3, 0.1)


def test_sl_ucrl_is_made_of_the_parts_that_it_names():
    sets = romdp.Hoeffding(0.1)
    parts = (
        romdp.Homogeneity(delta=0.1, n_states=3),
        romdp.Spectral("matrix", delta=0.1, n_states=3),
        romdp.Overlap(3, sets, 1.0, 0.1),
    )
    assert romdp.SLUCRL(3, sets, 0.1, counting="paper", method="matrix") == Agent(
        romdp.Spaced(romdp.Chain(*parts)), Optimism(sets, 0.1), Doubling(), "paper", name="sl-ucrl"
    )
    assert romdp.SLUCRL(3, sets, 0.1, method="matrix", homogeneity=False).clusterer == (
        romdp.Chain(*parts[1:])
    )
    assert romdp.SLUCRL(homogeneity=False).clusterer == romdp.Spectral()
    finer = romdp.SLUCRL(resolution=0.2).clusterer
    assert finer == romdp.Spaced(romdp.Chain(romdp.Homogeneity(0.2), romdp.Spectral()))
    uniform = romdp.TimeUniform()
    assert romdp.SLUCRL().planner == Optimism(uniform, 0.05)
    assert romdp.SLUCRL(3).stopping == Doubling(eager=False, growth=1.25, slack=1 / 128)
    assert romdp.SLUCRL(3).clusterer.clusterer.clusterers[-1] == romdp.Overlap(
        3, uniform, 1.0, 0.05
    )
    own = romdp.Spectral.paper()
    chain = romdp.Chain(romdp.Homogeneity(), own)
    assert romdp.SLUCRL(spectral=own).clusterer == romdp.Spaced(chain)
    # Approximate groups: no test for exact ones, and the threshold's rank.
    loose = romdp.Spectral(factor=0.5, rank_step="threshold", decay=6.0)
    assert romdp.SLUCRL(factor=0.5).clusterer == loose
    assert romdp.SLUCRL(3, sets, factor=0.5).clusterer.clusterers[-1] == (
        romdp.Overlap(3, sets, 0.5, 0.05)
    )


def test_the_oracle_uses_sets_that_hold():
    assert romdp.Oracle(LABELS).planner == Optimism(romdp.TimeUniform(), 0.05)


def test_the_oracle_takes_a_partition_and_a_planner():
    oracle = romdp.Oracle(romdp.Partition(LABELS), planner=Posterior(prior=3.0))
    assert oracle.clusterer == Known(LABELS)
    assert oracle.planner == Posterior(prior=3.0)


def test_recipes_differ_in_their_fingerprints():
    agents = [
        romdp.UCRL2(),
        romdp.UCRL2(delta=0.1),
        romdp.UCRL2(romdp.Hoeffding(0.1)),
        romdp.PSRL(),
        romdp.PSRL(prior=2.0),
        romdp.Oracle(LABELS),
        romdp.Oracle(LABELS[::-1].copy()),
        romdp.Oracle([0, 1, 2, 2]),
        romdp.Oracle(LABELS, "posterior"),
    ]
    prints = [fingerprint(agent) for agent in agents]
    assert len(set(prints)) == len(agents)
    assert fingerprint(romdp.Oracle(LABELS)) == fingerprint(romdp.Oracle(LABELS + 5))


def test_agents_beat_uniform_play_and_the_oracle_beats_them():
    """At these seeds, by factors: a smoke test that the recipes learn."""
    world = romdp.worlds.random_romdp(n_states=3, n_actions=3, n_observations=24, seed=2)
    scaled = romdp.Hoeffding(0.1)
    regret = {
        agent.name: romdp.play(agent, world, 30_000, seed=0).pseudo_regret[-1]
        for agent in [
            romdp.UCRL2(scaled),
            romdp.PSRL(),
            romdp.Oracle(world.labels, confidence=scaled),
            romdp.Oracle(world.labels, "posterior"),
        ]
    }
    uniform = world.hidden.gain - world.observable.policy_gain(np.full((24, 3), 1 / 3))
    assert regret["ucrl2"] < 0.8 * 30_000 * uniform
    assert regret["psrl"] < 0.5 * regret["ucrl2"]
    assert regret["oracle"] < 0.5 * regret["ucrl2"]
    assert regret["oracle-psrl"] < 0.5 * regret["psrl"]


def test_wrong_answers_are_refused():
    with pytest.raises(UnknownNameError, match="did you mean 'optimism'"):
        romdp.Oracle(LABELS, planner="optimist")
    with pytest.raises(InvalidInputError, match="labels"):
        romdp.Oracle([[0, 1]])
    with pytest.raises(InvalidInputError, match="pass the labels of this world"):
        romdp.play(romdp.Oracle(LABELS), romdp.worlds.random_romdp(seed=0), 10)
