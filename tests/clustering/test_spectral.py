import numpy as np
import pytest

from romdp.clustering.clusterer import Evidence
from romdp.clustering.spectral import Spectral
from romdp.clustering.spectral.factors import settle
from romdp.clustering.spectral.moments import certain_rank
from romdp.clustering.spectral.population import exact_views
from romdp.clustering.spectral.report import Refusal
from romdp.core.errors import InvalidInputError, UnknownNameError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.data.triples import Triples
from romdp.exact.romdp import ROMDP
from romdp.worlds import random_romdp, simulate

PAPER = {
    "solver": "power",
    "bound": "constant",
    "rank_step": "threshold",
    "preconditions": False,
}
MANY = 10**13  # so many samples that rounding is the only error left


def _rng():
    return np.random.default_rng(0)


def _evidence(trajectory, step=None):
    return Evidence(
        Counts.from_trajectory(trajectory),
        Triples.from_trajectory(trajectory),
        step or trajectory.n_steps,
    )


def _exact_evidence(world, policy, many=MANY):
    """Evidence as after endlessly many steps of a policy, shape (Y,)."""
    rows = np.eye(world.n_actions)[policy]
    columns = [[], [], [], [], []]
    size = world.n_observations
    moves = np.zeros((size, world.n_actions, size), np.int64)
    for action in np.unique(policy):
        moments = exact_views(world, rows, action).moments()
        first, second, third = (s[p] for s, p in zip(moments.groups, moments.places, strict=True))
        count = np.rint(moments.weights * many).astype(np.int64)
        for column, values in zip(
            columns, (first, second, np.full(len(count), action), third, count), strict=True
        ):
            column.append(values)
        np.add.at(moves, (second, action, third), count)
    triples = Triples(
        *(np.concatenate(column) for column in columns),
        n_observations=size,
        n_actions=world.n_actions,
    )
    visits = moves.sum(axis=2)
    paid = visits * world.reward[world.labels]
    return Evidence(Counts(visits, moves, paid, paid), triples, step=100)


def _partial(world, policy):
    """The groups of ``lem:partial.cluster``: one for each hidden state and action."""
    return Partition(world.labels * world.n_actions + policy)


@pytest.mark.parametrize(
    "settings", [{}, PAPER, {"solver": "power"}, {"method": "matrix"}], ids=str
)
@pytest.mark.parametrize("seed", range(4))
def test_exact_moments_give_the_partial_groups_exactly(settings, seed):
    world = random_romdp(5, 3, 20, seed=seed, emission_concentration=5.0)
    policy = np.random.default_rng(seed).integers(3, size=20)
    evidence = _exact_evidence(world, policy)
    found = Spectral(**settings).regroup(evidence, Partition.singletons(20), _rng())
    assert found == _partial(world, policy)
    assert found.n_clusters <= 5 * 3


def _mirror_world():
    transition = np.array([[[0.8, 0.2]], [[0.2, 0.8]]])
    return ROMDP.from_labels(transition, [[0.2], [0.8]], [0, 0, 0, 1, 1, 1])


def test_repeated_eigenvalues_stop_the_matrix_but_not_the_tensor():
    evidence = _exact_evidence(_mirror_world(), np.zeros(6, int))
    start = Partition.singletons(6)
    for settings in ({}, PAPER):
        found = Spectral(**settings).regroup(evidence, start, _rng())
        assert found == Partition([0, 0, 0, 1, 1, 1])
    report = Spectral(method="matrix").examine(evidence, start, _rng())
    assert report.partition == start
    report = Spectral(**{**PAPER, "method": "matrix"}).examine(evidence, start, _rng())
    assert report.partition == start
    assert any("not separated" in refusal.reason for refusal in report.actions[0].refused)


def test_groups_of_policies_meet_through_shared_observations():
    """As in ``fig:mappolicy``."""
    transition = np.array([[[0.7, 0.3], [0.4, 0.6]], [[0.2, 0.8], [0.9, 0.1]]])
    world = ROMDP.from_labels(transition, [[0.1, 0.5], [0.9, 0.4]], [0, 0, 0, 0, 1, 1, 1])
    spectral = Spectral()
    found = Partition.singletons(7)
    sizes = []
    for policy in ([0, 0, 1, 1, 0, 0, 1], [1, 0, 0, 1, 1, 0, 0], [0, 1, 1, 0, 0, 1, 0]):
        before = found
        evidence = _exact_evidence(world, np.array(policy))
        found = spectral.regroup(evidence, before, _rng())  # triples of observations
        in_groups = Evidence(evidence.counts, evidence.triples.relabel(before), evidence.step)
        assert spectral.regroup(in_groups, before, _rng()) == found
        assert before.refines(found)
        sizes.append(found.n_clusters)
    assert sizes[0] == 4
    assert found == Partition(world.labels)


@pytest.mark.parametrize("kind", ["random", "optimal"])
def test_no_false_merge(kind):
    """Ten worlds, three lengths: what is grouped belongs together, at delta = 0.05 for each."""
    n_merged = 0
    for seed in range(10):
        world = random_romdp(5, 3, 15, seed=seed)
        rng = np.random.default_rng(seed)
        policies = {
            "random": rng.integers(3, size=15),
            "optimal": world.hidden.optimal_policy[world.labels],
        }
        for steps in (300, 5000, 100_000):
            seen = simulate(world, policies[kind], steps, seed=seed)
            found = Spectral().regroup(_evidence(seen), Partition.singletons(15), rng)
            assert found.refines(Partition(world.labels))
            n_merged += 15 - found.n_clusters
    assert n_merged >= 10  # and it does merge


def test_a_rank_too_small_merges_falsely_and_the_certified_rank_abstains():
    """In a short run few singular values stand out, and one column claims everything."""
    world = random_romdp(5, 1, 10, seed=1)
    evidence = _evidence(simulate(world, "uniform", 2000, seed=0), step=2)
    start = Partition.singletons(10)
    bold = Spectral(rank=1).examine(evidence, start, _rng())
    assert not bold.partition.refines(Partition(world.labels))
    careful = Spectral().examine(evidence, start, _rng())
    assert careful.partition == start
    assert "not certain" in careful.actions[0].note or "alike yet" in careful.actions[0].note


def test_the_rank_is_certified_before_anything_is_decomposed():
    world = random_romdp(4, 1, 12, seed=0)
    start = Partition.singletons(12)
    ranks = []
    for steps in (500, 5000, 50_000):
        evidence = _evidence(simulate(world, "uniform", steps, seed=0))
        report = Spectral().examine(evidence, start, _rng()).actions[0]
        assert report.rank in (0, 4)
        assert (report.columns.size > 0) == (report.rank == 4)
        ranks.append(report.rank)
    assert ranks[0] == 0
    assert ranks[-1] == 4


def test_the_rank_is_certain_once_no_singular_value_lies_near_the_noise():
    world = random_romdp(4, 2, 12, seed=0)
    found = []
    for steps in (300, 3000, 100_000):
        counts = Counts.from_trajectory(simulate(world, "uniform", steps, seed=0))
        found.append(certain_rank(counts.matrix(), _rng()))
    assert [rank.rank for rank in found] == [0, 0, 4]
    values, threshold = found[-1].singular_values, found[-1].threshold
    assert values[0] == pytest.approx(1.0, abs=0.01)  # counts with scaled margins
    assert values[3] >= threshold
    assert values[4] < threshold / 2
    # Any policy shows the same rank; groups of two states have rank two.
    rng = np.random.default_rng(1)
    uneven = Counts.from_trajectory(simulate(world, rng.dirichlet([1, 1], 12), 100_000, seed=0))
    assert certain_rank(uneven.matrix(), _rng()).rank == 4
    some = np.flatnonzero(world.labels < 2)
    assert certain_rank(uneven.matrix()[:, some], _rng()).rank == 2


def test_the_spectrum_needs_no_test_of_groups():
    world = random_romdp(3, 2, 12, seed=0)
    evidence = _evidence(simulate(world, "uniform", 300_000, seed=0))
    report = Spectral(rank_step="spectrum").examine(evidence, Partition.singletons(12), _rng())
    assert report.partition == Partition(world.labels)
    assert "spectrum rank" in str(report)
    soon = _evidence(simulate(world, "uniform", 200, seed=0))
    report = Spectral(rank_step="spectrum").examine(soon, Partition.singletons(12), _rng())
    assert report.partition == Partition.singletons(12)
    assert "near the noise" in report.actions[0].note


def test_the_paper_abstains_where_its_lemmas_promise_nothing():
    world = random_romdp(3, 1, 8, seed=0, emission_concentration=20.0)
    start = Partition.singletons(8)
    notes = []
    for paper, steps in (
        (Spectral.paper(g=5.0), 1000),  # no singular value is as large as the threshold
        (Spectral.paper(g=0.5), 30_000),  # the threshold is smaller than the error it must exceed
        (Spectral.paper(), 1_000_000),  # nor may it be larger than half the smallest one
    ):
        evidence = _evidence(simulate(world, "uniform", steps, seed=0), step=2)
        report = paper.examine(evidence, start, _rng())
        assert report.partition == start
        notes.append(report.actions[0].note)
    assert "exceeds the threshold" in notes[0]
    assert "below the error of K_23" in notes[1]
    assert "half the smallest singular value" in notes[2]


def test_the_paper_groups_from_enough_samples():
    """Exact moments, as after endlessly many samples: then its preconditions hold."""
    world = _mirror_world()
    evidence = _exact_evidence(world, np.zeros(6, int), many=10**16)
    paper = Spectral.paper(g=100.0, epsilon=0.1)
    report = paper.examine(evidence, Partition.singletons(6), _rng())
    assert report.actions[0].note == ""
    assert report.partition == Partition(world.labels)
    few = _exact_evidence(world, np.zeros(6, int), many=10**6)
    report = Spectral.paper(g=30.0, epsilon=0.0).examine(few, Partition.singletons(6), _rng())
    assert "asks for" in report.actions[0].note


def test_the_paper_has_nothing_of_ours():
    paper = Spectral.paper(2.0, 3.0, 0.1, 0.5, delta=0.01, factor=0.5)
    assert (paper.constant, paper.g, paper.epsilon, paper.c1) == (2.0, 3.0, 0.1, 0.5)
    assert (paper.delta, paper.factor, paper.decay) == (0.01, 0.5, 6.0)
    assert (paper.solver, paper.bound, paper.rank_step) == ("power", "constant", "threshold")
    assert paper.preconditions
    assert paper.needs == {"triples"}


def test_a_conflict_refuses_both_columns():
    world = random_romdp(3, 1, 9, seed=3)
    evidence = _evidence(simulate(world, "uniform", 3000, seed=0))
    # A bound of next to nothing: every positive entry is claimed.
    bold = Spectral(**PAPER, constant=1e-12, rank=3)
    report = bold.examine(evidence, Partition.singletons(9), _rng())
    assert any("two columns claim" in refusal.reason for refusal in report.actions[0].refused)
    claims = report.actions[0].columns >= report.actions[0].bounds
    shared = set(np.flatnonzero(claims.sum(axis=1) > 1))
    for column in claims.T:
        group = tuple(np.flatnonzero(column))
        if shared & set(group):
            assert group not in report.groups


def _settle(*columns, trusted=None):
    claims = np.zeros((10, len(columns)), bool)
    for i, column in enumerate(columns):
        claims[list(column), i] = True
    flags = np.ones(len(columns), bool) if trusted is None else np.array(trusted)
    return settle(claims, flags, np.arange(10))


def test_columns_become_groups_of_two_or_more():
    assert _settle((0, 1, 2), (3,), (), (4, 5)) == (((0, 1, 2), (4, 5)), ())


def test_columns_in_conflict_are_refused_with_the_reason():
    groups, refused = _settle((0, 1, 2), (2, 3, 4), (5, 6))
    assert groups == ((5, 6),)
    assert [refusal.members for refusal in refused] == [(0, 1, 2), (2, 3, 4)]
    assert all("two columns claim (2,)" in refusal.reason for refusal in refused)


def test_columns_that_are_not_trusted_claim_nothing():
    groups, refused = _settle((0, 1), (1, 2), trusted=[True, False])
    assert groups == ((0, 1),)
    assert refused == (Refusal((1, 2), "the eigenvalue is not separated from the next"),)


def test_the_report_tells_what_was_seen():
    world = random_romdp(3, 2, 8, seed=0, emission_concentration=5.0)
    policy = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    report = Spectral().examine(_exact_evidence(world, policy), Partition.singletons(8), _rng())
    for action in report.actions:
        n_states = len(np.unique(world.labels[policy == action.action]))
        assert action.rank == n_states
        assert action.n_samples == pytest.approx(MANY)
        if not action.note:
            assert action.columns.shape == action.bounds.shape == (4, n_states)
            assert action.condition >= 1
    assert report.level == pytest.approx(0.05 / 100.0)
    assert "estimated bound, certified rank" in str(report)


def test_the_theory_bound_uses_the_truth_and_says_so():
    world = random_romdp(3, 1, 8, seed=0)
    evidence = _exact_evidence(world, np.zeros(8, int))
    spectral = Spectral(bound="theory", world=world, preconditions=False)
    report = spectral.examine(evidence, Partition.singletons(8), _rng())
    assert report.uses_truth
    assert "true world" in str(report)
    assert np.unique(report.actions[0].bounds).size == 1
    # In groups, the bound is that of the groups.
    previous = Partition(np.where(world.labels == 0, 0, np.arange(8) + 1))
    grouped = spectral.examine(evidence, previous, _rng())
    assert grouped.actions[0].bounds[0, 0] != report.actions[0].bounds[0, 0]
    with pytest.raises(InvalidInputError, match="pass the world"):
        Spectral(bound="theory", world=random_romdp(3, 1, 9)).regroup(
            evidence, Partition.singletons(8), _rng()
        )


def test_the_theory_bound_groups_from_enough_samples_and_abstains_before():
    world = _mirror_world()
    spectral = Spectral(bound="theory", world=world)
    start = Partition.singletons(6)
    many = _exact_evidence(world, np.zeros(6, int), many=10**16)
    assert spectral.regroup(many, start, _rng()) == Partition(world.labels)
    few = _exact_evidence(world, np.zeros(6, int), many=10**6)
    report = spectral.examine(few, start, _rng())
    assert report.partition == start
    assert "lem:concentration asks for" in report.actions[0].note


def test_the_level_falls_with_the_step():
    world = random_romdp(3, 1, 8, seed=0)
    seen = simulate(world, "uniform", 20_000, seed=0)
    bounds = [
        Spectral(bound="constant", rank=3, preconditions=False)
        .examine(_evidence(seen, step), Partition.singletons(8), _rng())
        .actions[0]
        .bounds[0, 0]
        for step in (10, 1000)
    ]
    assert bounds[0] < bounds[1]
    flat = Spectral(bound="constant", decay=0, rank=3).examine(
        _evidence(seen, 1000), Partition.singletons(8), _rng()
    )
    assert flat.level == 0.05


# What can be degenerate.


def test_an_action_never_taken_is_reported():
    world = random_romdp(3, 3, 8, seed=0, emission_concentration=5.0)
    evidence = _exact_evidence(world, np.zeros(8, int))
    report = Spectral().examine(evidence, Partition.singletons(8), _rng())
    assert report.partition == Partition(world.labels)
    assert [action.n_samples for action in report.actions[1:]] == [0, 0]
    assert "never taken" in report.actions[1].note


@pytest.mark.parametrize("n_steps", [1, 2, 3])
def test_fewer_than_three_steps_change_nothing(n_steps):
    seen = Trajectory(list(range(n_steps)), [0] * n_steps, n_observations=4, n_actions=2)
    found = Spectral().regroup(_evidence(seen), Partition.singletons(4), _rng())
    assert found == Partition.singletons(4)


def test_one_observation():
    seen = Trajectory([0] * 10, [0] * 10, [1.0] * 10)
    report = Spectral().examine(_evidence(seen), Partition.singletons(1), _rng())
    assert report.partition == Partition([0])
    assert "group 0 only" in report.actions[0].note


def test_one_hidden_state_becomes_one_group():
    world = random_romdp(1, 1, 5, seed=0)
    evidence = _exact_evidence(world, np.zeros(5, int))
    assert Spectral().regroup(evidence, Partition.singletons(5), _rng()) == Partition.trivial(5)
    few = _evidence(simulate(world, "uniform", 500, seed=0))
    assert Spectral().regroup(few, Partition.singletons(5), _rng()) == Partition.singletons(5)


def test_states_that_move_alike_are_told_apart_by_the_rest():
    """A world without full rank: states 0 and 1 lead to the same, but pay differently."""
    transition = np.array([[0.2, 0.2, 0.6], [0.2, 0.2, 0.6], [0.4, 0.5, 0.1]])[:, None]
    world = ROMDP.from_labels(transition, [[0.1], [0.6], [0.5]], [0, 0, 1, 1, 2, 2])
    seen = simulate(world, "uniform", 100_000, seed=0)
    found = Spectral().regroup(_evidence(seen), Partition.singletons(6), _rng())
    assert found.refines(Partition(world.labels))


def test_moments_without_the_rank_are_noted():
    transition = np.array([[[0.7, 0.3]], [[0.7, 0.3]]])  # the state is drawn anew at each step
    world = ROMDP.from_labels(transition, [[0.1], [0.9]], [0, 0, 1, 1])
    evidence = _exact_evidence(world, np.zeros(4, int))
    report = Spectral(rank=2).examine(evidence, Partition.singletons(4), _rng())
    assert report.partition == Partition.singletons(4)
    assert "not decomposed" in report.actions[0].note


def test_observations_without_a_group_stay_without():
    world = random_romdp(3, 1, 8, seed=0, emission_concentration=5.0)
    evidence = _exact_evidence(world, np.zeros(8, int))
    previous = Partition([0, 1, 2, 3, 4, 5, 6, -1])
    found = Spectral().regroup(evidence, previous, _rng())
    assert found.labels[7] == -1
    assert previous.refines(found)
    assert Partition(found.labels[:7]) == Partition(world.labels[:7])


def test_the_same_seed_gives_the_same_groups():
    world = random_romdp(5, 2, 20, seed=2)
    evidence = _evidence(simulate(world, "uniform", 50_000, seed=0))
    start = Partition.singletons(20)
    a, b = (Spectral().examine(evidence, start, np.random.default_rng(5)) for _ in range(2))
    assert str(a) == str(b)


def test_needs_and_settings():
    assert Spectral().needs == {"counts", "triples"}
    assert Spectral(**PAPER).needs == Spectral(rank=3).needs == {"triples"}
    for bad in (
        {"rank": 0},
        {"factor": 0},
        {"n_states": 0},
        {"epsilon": 0.5},
        {"constant": np.inf},
        {"n_replicates": 1},
        {"decay": -1},
        {"g": 0},
        {"c1": 0},
        {"delta": 0},
        {"delta": 1},
        {"bound": "theory"},
    ):
        with pytest.raises(InvalidInputError, match=next(iter(bad))):
            Spectral(**bad)
    for bad in (
        {"method": "tenser"},
        {"solver": "jont"},
        {"bound": "estimate"},
        {"rank_step": "certifed"},
    ):
        with pytest.raises(UnknownNameError, match="did you mean"):
            Spectral(**bad)


def test_missing_triples_are_an_error():
    seen = Trajectory([0, 1, 0], [0, 0, 0])
    with pytest.raises(InvalidInputError, match="no triples"):
        Spectral().regroup(Evidence(Counts.from_trajectory(seen)), Partition.singletons(2), _rng())


def test_a_known_number_of_states_is_never_undercut():
    world = random_romdp(5, 1, 10, seed=1)
    evidence = _evidence(simulate(world, "uniform", 2000, seed=0), step=2)
    start = Partition.singletons(10)
    bold = {"rank": 1}
    assert Spectral(**bold).regroup(evidence, start, _rng()).n_clusters < 5
    assert Spectral(**bold, n_states=5).regroup(evidence, start, _rng()) == start
    final = Partition([0, 1, 2, 3, 4] * 2)
    assert Spectral(n_states=5).regroup(evidence, final, _rng()) is final


def test_where_nothing_is_grouped_nothing_changes():
    evidence = _evidence(Trajectory([0, 1, 0, 1, 0], [0] * 5))
    nothing = Partition.unseen(2)
    assert Spectral().regroup(evidence, nothing, _rng()) == nothing


def test_a_level_that_vanishes_still_has_a_quantile():
    world = random_romdp(3, 1, 8, seed=0)
    evidence = _evidence(simulate(world, "uniform", 20_000, seed=0), step=10**9)
    for bound in ("estimated", "constant"):
        report = Spectral(decay=60, bound=bound, rank=3, preconditions=False).examine(
            evidence, Partition.singletons(8), _rng()
        )
        assert np.isfinite(report.actions[0].bounds).all()
