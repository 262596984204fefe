"""SL-UCRL and its parts, played to the end, and the report of its spectral step."""

import numpy as np
import pytest

import romdp
from romdp import Chain, Homogeneity, Overlap, Partition, Spaced, Spectral
from romdp.clustering.exploring import triples_of_pairs
from romdp.clustering.spectral.report import ActionReport, Refusal, SpectralReport

SETS = romdp.Hoeffding(0.1)


def _play(agent, world, steps=20_000, seed=0):
    run = romdp.play(agent, world, steps, seed=seed)
    truth = Partition(world.labels)
    for _, grouping in run.groupings:
        assert grouping.refines(truth)
    return run


@pytest.mark.parametrize("n_states", [None, 3])
@pytest.mark.parametrize("counting", ["pooled", "paper"])
def test_it_finds_the_hidden_states_of_a_small_world(n_states, counting):
    world = romdp.worlds.random_romdp(3, 2, 9, seed=1)
    run = _play(romdp.SLUCRL(n_states, SETS, counting=counting), world, 60_000)
    assert run.partition == Partition(world.labels)
    ucrl2 = romdp.play(romdp.UCRL2(SETS), world, 60_000, seed=0)
    assert run.pseudo_regret[-1] < ucrl2.pseudo_regret[-1]


def test_the_spectral_step_alone_finds_them_too():
    """Two states that are easily told apart, so that moments are well conditioned."""
    transition = np.array([[[0.8, 0.2], [0.3, 0.7]], [[0.3, 0.7], [0.9, 0.1]]])
    world = romdp.ROMDP.from_labels(transition, [[0.2, 0.6], [0.8, 0.3]], [0, 0, 0, 1, 1, 1])
    agent = romdp.Agent(Spectral(), romdp.Optimism(SETS), romdp.Doubling())
    run = _play(agent, world, 100_000)
    assert run.partition.n_clusters < 6


@pytest.mark.parametrize("columns", [False, True])
def test_nearly_equal_states_are_not_merged(columns):
    """States 0 and 1 move nearly alike, and with ``columns`` are reached nearly alike.

    Without a number of states; none of 36 longer runs in such worlds merged falsely.
    """
    for seed in range(2):
        base = romdp.worlds.random_romdp(5, 4, 15, seed=seed)
        transition = base.transition.copy()
        transition[1] = 0.85 * transition[0] + 0.15 * transition[1]
        if columns:
            both = transition[..., 0] + transition[..., 1]
            share = 0.5 + 0.15 * (transition[..., 0] / both - 0.5)
            transition[..., 0], transition[..., 1] = share * both, (1 - share) * both
        world = romdp.ROMDP(transition, base.reward, base.emission)
        _play(romdp.SLUCRL(None, SETS), world, 30_000, seed)


def test_delta_reaches_every_part_of_every_recipe():
    world = romdp.worlds.random_romdp(3, 2, 9, seed=1)
    recipes = (
        romdp.UCRL2(delta=0.003),
        romdp.Oracle(world.labels, delta=0.003),
        romdp.SLUCRL(delta=0.003),
        romdp.SLUCRL(3, delta=0.003),
        romdp.SLUCRL(3, delta=0.003, method="matrix"),
        romdp.SLUCRL(3, delta=0.003, factor=0.5),
        romdp.SLUCRL(3, delta=0.003, homogeneity=False),
        romdp.LCUCRL(delta=0.003),
        romdp.TwoPhase(delta=0.003),
    )
    for agent in recipes:
        assert agent.planner.delta == 0.003
        inner = getattr(agent.clusterer, "clusterer", agent.clusterer)
        parts = getattr(inner, "clusterers", (inner,))
        assert all(getattr(part, "delta", 0.003) == 0.003 for part in parts)
    parts = romdp.SLUCRL(3, delta=0.003).clusterer.clusterer.clusterers
    assert [part.delta for part in parts] == [0.003] * 3


def test_what_sl_ucrl_is_made_of():
    told = Homogeneity(n_states=3), Spectral(n_states=3), Overlap(3, SETS)
    assert romdp.SLUCRL(3, SETS).clusterer == Spaced(Chain(*told))
    assert romdp.SLUCRL(3, SETS, homogeneity=False).clusterer == Chain(*told[1:])
    assert romdp.SLUCRL(None, SETS).clusterer == Spaced(Chain(Homogeneity(), Spectral()))
    paper = Spectral.paper()
    alone = romdp.SLUCRL(None, SETS, spectral=paper, homogeneity=False)
    assert alone.clusterer is paper
    halved = romdp.SLUCRL(3, SETS, factor=0.5).clusterer.clusterers
    assert [type(part) for part in halved] == [Spectral, Overlap]
    assert [part.factor for part in halved] == [0.5, 0.5]
    assert halved[0].rank_step == "threshold"


def test_the_papers_own_groups_nothing_in_a_short_run():
    """Its preconditions ask for more samples than there are."""
    world = romdp.worlds.random_romdp(3, 2, 9, seed=1)
    paper = romdp.SLUCRL(None, SETS, spectral=Spectral.paper(), homogeneity=False, counting="paper")
    assert _play(paper, world).partition == Partition.singletons(9)


@pytest.mark.parametrize("n_states", [None, 3])
def test_two_phases_with_the_spectral_step(n_states):
    """Explore, find all hidden states at once, and keep them."""
    world = romdp.worlds.deterministic_romdp(3, 2, 9, seed=1)
    agent = romdp.TwoPhase(SETS, grouping="spectral", n_states=n_states)
    run = _play(agent, world, 30_000)
    assert run.partition == Partition(world.labels)
    assert len(run.groupings) == 2  # none, then all
    assert run.groupings[0][1].n_clusters == 0


def test_two_phases_where_the_actions_mixed_have_too_low_a_rank():
    """One action walks a cycle through all states, but where states come from is ambiguous."""
    world = romdp.worlds.deterministic_romdp(5, 3, 20, seed=5)
    mixed = world.transition.mean(axis=1)
    assert np.linalg.matrix_rank(mixed) == 4
    run = _play(romdp.TwoPhase(SETS, grouping="spectral"), world, 20_000)
    assert run.partition == Partition(world.labels)


def test_triples_drawn_from_pairs_have_these_pairs():
    world = romdp.worlds.random_romdp(3, 2, 6, seed=0)
    counts = romdp.Counts.from_trajectory(romdp.simulate(world, "uniform", 5000, seed=0))
    drawn = triples_of_pairs(counts, 1, np.random.default_rng(0))
    moves = np.zeros((6, 2, 6), int)
    np.add.at(moves, (drawn.middle, drawn.action, drawn.next), drawn.count)
    np.testing.assert_array_equal(moves, counts.transitions)
    before = np.zeros((6, 6))
    np.add.at(before, (drawn.middle, drawn.previous), drawn.count)
    arrivals = counts.transitions[:, 1].T
    # Shares of some 800 draws each: 0.09 is five standard errors.
    np.testing.assert_allclose(
        before / before.sum(axis=1, keepdims=True),
        arrivals / arrivals.sum(axis=1, keepdims=True),
        atol=0.09,
    )


def _report(**changes):
    done = ActionReport(
        0,
        12_345,
        np.arange(5),
        rank=2,
        singular_values=np.array([0.5, 0.125, 0.001]),
        threshold=0.01,
        condition=40.0,
        residual=0.05,
        columns=np.full((5, 2), 0.2),
        bounds=np.full((5, 2), 0.03),
        groups=((0, 1),),
        refused=(Refusal((2, 3), "two columns claim (2,)"),),
    )
    idle = ActionReport(1, 0, np.arange(0), note="never taken")
    fields = {
        "actions": (done, idle),
        "partition": Partition([0, 0, 1, 2, 3]),
        "level": 1e-6,
        "description": "tensor method",
        "uses_truth": False,
    }
    return SpectralReport(**{**fields, **changes})


def test_it_prints_what_was_found_and_refused():
    text = str(_report())
    lines = text.splitlines()
    assert lines[0] == "Spectral learning: tensor method, level 1e-06"
    assert " ".join(lines[2].split()) == "0 12,345 5 2 0.125 0.01 40 0.05 0.03 1"
    assert " ".join(lines[3].split()) == "1 0 0 - - - - - - 0"
    assert "action 0: grouped {0, 1}" in lines
    assert "action 0: refused {2, 3}: two columns claim (2,)" in lines
    assert "action 1: never taken" in lines
    assert lines[-1].startswith("result: Partition(5 observations in 4 groups")
    assert "true world" not in text


def test_it_says_when_the_truth_was_used():
    assert "NOTE: the bounds use the true world" in str(_report(uses_truth=True))


def test_long_reports_are_cut():
    idle = tuple(ActionReport(i, 0, np.arange(0), note="never taken") for i in range(100))
    lines = str(_report(actions=idle)).splitlines()
    assert len(lines) < 60
    assert lines[-2].startswith("... and")


def test_groups_are_gathered_over_actions():
    assert _report().groups == ((0, 1),)
