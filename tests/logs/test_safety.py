"""Safe policies and lower bounds, on small worlds whose truth is known."""

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from plain_logs import GOAL, true_value, walk
from scipy.sparse.linalg import bicgstab

import romdp
from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.logs import Columns, count_logs, fit
from romdp.logs.comparing import Laws
from romdp.logs.model.draws import Draws, World
from romdp.logs.model.episodes import choices
from romdp.logs.model.safety import judge
from romdp.logs.model.trial import departures, follow
from romdp.logs.parting import _part_by_habit, doubts, part
from romdp.logs.reading.closing import LogRows

NAMES = {"episode": "walk", "terminated": "over"}


def test_the_safe_policy_improves_and_the_bound_holds():
    """The chance that a bound of 95% fails in more than two of six logs is below 0.3%."""
    held = 0
    for seed in range(6):
        log = walk(400, seed)
        model = fit(log, "place", "step", "paid", **NAMES, holdout=0)
        assert model.objective == "episodic"
        act = followed(model)
        np.testing.assert_allclose(model.safe_policy.sum(axis=1), 1.0)
        logged = true_value(np.full((GOAL, 2), 0.5))
        assert true_value(act) > logged
        assert model.value_lower > 0.5 * logged  # it says something
        assert model.value_basis != "none"
        assert model.judged.harm <= 0.05
        held += model.value_lower <= true_value(act) and model.value_if_markov <= true_value(act)
    assert held >= 4


def followed(model, logged=0.5):
    """Probabilities at each place: what the model asks for, else what the log did."""
    asked = model.act(np.arange(GOAL)).tolist()
    return np.array([np.eye(2)[a] if a is not None else [1 - logged, logged] for a in asked])


def test_views_are_found_and_the_bound_is_of_the_same_kind():
    model = fit(walk(2_000, 0, views=4), "place", "step", "paid", **NAMES, holdout=0)
    assert model.partition == Partition(np.arange(4 * GOAL) // 4)
    assert 0.5 < model.value_lower <= true_value(np.eye(2)[np.ones(GOAL, int)])
    assert model.value_basis == "held-out episodes"


def test_act_says_what_to_do_differently():
    """Right (1) is best everywhere; what was nearly always done need not be done differently."""
    model = fit(walk(2_000, 1, right=0.97), "place", "step", "paid", **NAMES, holdout=0)
    asked = model.act(np.arange(GOAL), unknown="mark").tolist()
    assert set(asked) <= {1, None}
    assert model.act([99]).tolist() == [None]
    departs = np.array([a is not None for a in asked])
    policy = model.safe_policy[model.predict(np.arange(GOAL))]
    np.testing.assert_allclose(policy[departs, 1], 1.0)
    assert (np.abs(policy[~departs, 1] - 0.97) < 0.05).all()  # four errors of 300 steps
    with pytest.raises(InvalidInputError, match=r"observations\[0\] is 99"):
        model.act([99], unknown="error")


def test_a_logger_who_always_does_the_same_is_not_departed_from():
    log = walk(1_000, 0, right=1.0)
    log["step"] = [x % 2 for x in log["place"]]  # whatever it led to
    model = fit(log, "place", "step", "paid", **NAMES)
    assert model.act(np.arange(GOAL)).tolist() == [None] * GOAL
    assert model.value_basis == "held-out episodes"
    assert model.value_lower < np.sum(log["paid"]) / 1_000  # of going on as before
    assert "nothing; go on as before" in str(model)


def test_what_speaks_against_the_model_or_the_log_takes_bounds_away():
    """A coin per walk decides which way is up; without it the log is no basis for a model."""
    for known in (False, True):
        log = hidden_coin(600, known)
        model = fit(log, "place", "step", "paid", **NAMES)
        failed = {test.kind for test in model.judged.tests if test.fails}
        assert "memory" in failed
        assert ("choice" in failed) is known
        assert model.value_basis == ("none" if known else "held-out episodes")
        assert np.isfinite(model.value_lower) is not known
        if known:
            assert set(model.act(np.arange(GOAL)).tolist()) == {None}
            assert "chose by more than what was seen" in model.judged.missing


def hidden_coin(n_walks, known):
    rng = np.random.default_rng(3)
    log = {name: [] for name in ("place", "step", "paid", "walk", "over")}
    for number in range(n_walks):
        coin = int(rng.integers(2))
        for step in range(6):
            action = coin if known and rng.random() < 0.8 else int(rng.integers(2))
            row = (int(rng.integers(GOAL)), action, float(action == coin), number, step == 5)
            for column, value in zip(log.values(), row, strict=True):
                column.append(value)
    return log


def test_too_few_rows_are_called_that():
    log = walk(20, 0, views=12)
    model = fit(log, "place", "step", "paid", **NAMES, holdout=0)
    assert model.value_lower == model.value_if_markov == -np.inf
    assert model.value_basis == "none"
    assert "is doubtful, and half of them were seen at most" in model.judged.missing
    assert "no lower bound" in str(model)


def test_a_log_without_rewards_has_no_bound():
    model = fit(walk(300, 0), "place", "step", **NAMES, holdout=0)
    assert model.value_lower == -np.inf
    assert model.judged.missing == "the log has no rewards"


def test_the_objective_decides_what_is_promised():
    log = walk(400, 0)
    values = {
        objective: fit(
            log, "place", "step", "paid", **NAMES, objective=objective, holdout=0
        ).value_lower
        for objective in ("average", "episodic", 0.9)
    }
    assert values["average"] < 0.3 < values[0.9] < values["episodic"]
    without = fit(log, "place", "step", "paid", "walk", holdout=0)
    assert without.objective == "average"
    for wrong in ("epsodic", 1.5, -1, "1"):
        with pytest.raises(InvalidInputError, match="objective is"):
            fit(log, "place", "step", "paid", **NAMES, objective=wrong)


def test_models_keep_what_they_promise(tmp_path):
    model = fit(walk(300, 1), "place", "step", "paid", **NAMES, holdout=0)
    model.save(tmp_path / "model")
    again = romdp.load_model(tmp_path / "model")
    np.testing.assert_array_equal(again.safe_policy, model.safe_policy)
    assert again.value_lower == model.value_lower
    assert again.objective == "episodic"
    assert again.judged.harm == model.judged.harm
    assert str(again) == str(model)


def test_the_policy_behind_the_log_comes_from_propensities():
    log = walk(300, 2, right=0.7)
    columns = Columns("place", "step", "paid", "walk", None, "over", "chance")
    counted = count_logs(log, columns, holdout=0.3)
    visits = counted.total.visits
    chances = choices(visits, np.arange(GOAL), counted.inverse_propensities)
    np.testing.assert_allclose(chances, [[0.3, 0.7]] * GOAL)
    guessed = choices(visits, np.arange(GOAL))
    assert not np.allclose(guessed, chances, atol=1e-3)
    assert np.abs(guessed - chances).max() < 0.2
    model = fit(log, "place", "step", "paid", **NAMES, propensity="chance", holdout=0)
    assert model.columns["propensity"] == "chance"


@pytest.mark.parametrize("wrong", [0.0, -0.5, 1.2])
def test_propensities_outside_are_refused(wrong):
    log = walk(20, 0)
    log["chance"][7] = wrong
    with pytest.raises(InvalidInputError, match=r"row 8 of the table, column 'chance'.*\(0, 1\]"):
        fit(log, "place", "step", "paid", **NAMES, propensity="chance")
    with pytest.raises(InvalidInputError, match="name the action, too"):
        fit(log, "place", reward="paid", propensity="chance")


def test_episodes_are_told_apart_by_their_ends_alone():
    log = walk(200, 4)
    ended = [x for x, over in zip(log["walk"], log["over"], strict=True) if over]
    if len(ended) < 200:  # a walk that was cut short would run into the next
        keep = np.isin(log["walk"], ended)
        log = {name: np.array(values)[keep].tolist() for name, values in log.items()}
    by_name = count_logs(log, Columns("place", "step", "paid", "walk", None, "over"), holdout=0)
    by_end = count_logs(log, Columns("place", "step", "paid", terminated="over"), holdout=0)
    assert by_end.counts == by_name.counts
    assert by_end.counts.has_ends
    assert by_end.n_episodes == by_name.n_episodes
    with pytest.raises(InvalidInputError, match="sort=True needs an episode column"):
        count_logs(log, Columns("place", order="walk", terminated="over"), sort=True)


def test_a_trajectory_that_says_its_ends_is_read_like_a_table_with_them():
    log = walk(200, 4)
    over, number = np.array(log["over"]), np.array(log["walk"])
    last = np.flatnonzero(np.diff(number, append=number[-1] + 1))
    seen = Trajectory(
        *(log[name] for name in ("place", "step", "paid")),
        np.diff(last, prepend=-1),
        terminated=over[last],
    )
    table = count_logs(log, Columns("place", "step", "paid", "walk", None, "over"), holdout=0)
    counted = LogRows.of_trajectory(seen).count(0)
    assert counted.counts == table.counts
    assert counted.counts.ends.sum() == over.sum()
    by_table = fit(log, "place", "step", "paid", **NAMES, holdout=0)
    found = fit(seen, holdout=0)
    assert found.objective == "episodic"
    assert found.value_lower == by_table.value_lower
    cut = Trajectory(seen.observations, seen.actions, seen.rewards, seen.lengths)
    assert not LogRows.of_trajectory(cut).count(0).counts.has_ends
    assert fit(cut).objective == "average"


def test_states_that_were_never_compared_are_parted():
    """Two observations under different actions look like one state until they are compared."""
    counts = np.zeros((4, 2, 4), np.int64)
    counts[0, 0, 2] = counts[1, 1, 3] = 50  # 0 under action 0, 1 under action 1
    counts[2, :, 0] = counts[3, :, 1] = 25
    counts[2, :, 1] = counts[3, :, 0] = 25
    log = Counts(counts.sum(axis=2), counts, np.zeros((4, 2)), np.zeros((4, 2)))
    together = Partition([0, 0, 1, 2])
    assert part(log, together) == Partition([0, 1, 2, 3])
    shared = counts.copy()
    shared[0, 1, 3] = shared[1, 0, 2] = 50  # now both were tried in both, and agree
    log = Counts(shared.sum(axis=2), shared, np.zeros((4, 2)), np.zeros((4, 2)))
    assert part(log, together) == together
    assert doubts(log, together).max() < 0.2
    paid = np.zeros((4, 2))
    paid[0] = 50.0  # but one of them pays
    log = Counts(shared.sum(axis=2), shared, paid, paid)
    assert part(log, together) == Partition([0, 1, 2, 3])


def test_alike_observations_stay_together():
    """Eight random worlds; parting any of them would be a false alarm."""
    for seed in range(4):
        world = romdp.worlds.random_romdp(4, 3, 40, seed=seed)
        seen = romdp.simulate(world, "uniform", 8_000, seed=seed)
        truth = Partition(world.labels)
        assert part(Counts.from_trajectory(seen), truth) == truth


def test_values_agree_with_plain_sums():
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(5), (4, 2))[:, :, :4].reshape(8, 4)  # a fifth of the mass ends
    rewards, starts = rng.random((4, 2)), rng.dirichlet(np.ones(4))
    policy = rng.dirichlet(np.ones(2), 4)
    world = World(laws, rewards, starts, 0.9, False, np.zeros((4, 2), bool))
    chain = np.einsum("sa,sat->st", policy, laws.reshape(4, 2, 4))
    total, law = 0.0, starts.copy()
    for step in range(400):
        total += 0.9**step * float(law @ (policy * rewards).sum(axis=1))
        law = law @ chain
    assert world.value(policy) == pytest.approx(total, rel=1e-9)
    sparse = World(scipy.sparse.csr_array(laws), rewards, starts, 0.9, False, world.unknown)
    assert sparse.value(policy) == pytest.approx(total, rel=1e-9)
    average = World(laws, rewards, starts, 1 - 1e-6, True, world.unknown)
    restarted = chain + np.outer(1 - chain.sum(axis=1), starts)
    gain = romdp.MDP(restarted[:, None], (policy * rewards).sum(axis=1)[:, None]).gain
    assert average.value(policy) == pytest.approx(gain, rel=1e-4)


@pytest.mark.parametrize("ends", [0.1, 0.0])
def test_many_states_are_worth_the_same_by_products(ends):
    """Where nothing ends and steps go round, products do not converge and the array is solved."""
    rng, n = np.random.default_rng(2), 300
    laws = scipy.sparse.random_array((n, n), density=0.05, rng=rng, format="csr").toarray()
    if not ends:
        laws = 1e-6 * laws + np.eye(n, k=1) + np.eye(n, k=1 - n)
    laws *= (1.0 - ends) / np.maximum(laws.sum(axis=1, keepdims=True), 1e-12)
    rewards, starts = rng.random((n, 1)), rng.dirichlet(np.ones(n))
    sparse, dense = (
        World(moves, rewards, starts, 1 - 1e-6, False, np.zeros((n, 1), bool))
        for moves in (scipy.sparse.csr_array(laws), laws)
    )
    policy = np.ones((n, 1))
    system = scipy.sparse.eye_array(n) - sparse.discount * sparse.moves
    assert bool(bicgstab(system, rewards[:, 0], rtol=1e-13, maxiter=100)[1]) == (not ends)
    assert sparse.moves.nnz > 0.01 * n**2
    np.testing.assert_allclose(sparse.values(policy), dense.values(policy), rtol=1e-8)


def test_departures_are_the_best_among_what_is_allowed():
    rng = np.random.default_rng(1)
    laws = 0.9 * rng.dirichlet(np.ones(4), (4, 3)).reshape(12, 4)
    world = World(laws, rng.random((4, 3)), np.full(4, 0.25), 0.95, False, np.zeros((4, 3), bool))
    baseline = rng.dirichlet(np.ones(3), 4)
    allowed = np.array([[True, True, True], [True, False, True], [False] * 3, [False, True, False]])
    choice = departures(world, baseline, allowed)
    assert choice[2] == -1
    options = [[-1, *np.flatnonzero(row)] for row in allowed]
    values = [
        world.value(follow(baseline, np.array(others))) for others in itertools.product(*options)
    ]
    assert world.value(follow(baseline, choice)) == pytest.approx(max(values))


def test_draws_do_not_depend_on_how_laws_are_kept(monkeypatch):
    from romdp.logs.model import surprises as module

    seen = Trajectory([0, 1, 2, 1, 0, 1, 2, 0], [0, 1, 0, 0, 1, 1, 0, 0], [0, 1, 0, 0, 1, 1, 0, 1])
    counts = Counts.from_trajectory(seen)
    given = (counts, Partition([0, 1, 2]), (0.0, 1.0), 0.9)
    dense = Draws(*given).best_guess()
    monkeypatch.setattr(module, "_SMALL", 0)
    sparse = Draws(*given).best_guess()
    np.testing.assert_allclose(dense.moves, sparse.moves.toarray())
    np.testing.assert_allclose(dense.rewards, sparse.rewards)


def test_nothing_warns_about_a_tiny_log():
    seen = Trajectory([0, 1, 0, 1], [0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = judge(
            Counts.from_trajectory(seen),
            Partition([0, 1]),
            (0.0, 1.0),
            "average",
            None,
            None,
            0,
        )
    assert found.value_basis == "none"
    np.testing.assert_allclose(found.policy.sum(axis=1), 1.0)


def test_restarts_lead_to_where_episodes_begin():
    """The average over endless episodes is the sum of one divided by its length."""
    log = walk(2_000, 5)
    columns = Columns("place", "step", "paid", "walk", None, "over")
    counted = count_logs(log, columns, holdout=0)
    given = (counted.total, Partition(np.arange(GOAL)), (0.0, 1.0))
    even = np.full((GOAL, 2), 0.5)
    per_step = Draws(*given, "average").best_guess().value(even)
    assert per_step == pytest.approx(np.mean(log["paid"]), rel=0.1)


def habitual(rng, faithful):
    """Walk a ring of 20 states with two views each; what is done depends on the state or not.

    States 0 and 1 both lead to 2, so only what was done there can tell them apart.
    """
    seen, done, state = [], [], 0
    for _ in range(4_000):
        usual = rng.random() < (0.95 if faithful else 0.5)
        done.append(state % 2 if usual else 1 - state % 2)
        seen.append(2 * state + rng.integers(2))
        state = rng.integers(2) if state == 19 else max(2, state + 1)
    return Counts.from_trajectory(Trajectory(seen, done, rng.integers(2, size=len(seen))))


def test_habits_tell_states_apart_where_they_depend_on_the_state():
    states = np.repeat(np.arange(20), 2)
    merged = Partition(np.maximum(states, 1))
    rng = np.random.default_rng(0)
    assert part(habitual(rng, True), merged) == Partition(states)
    assert part(habitual(rng, False), merged) == merged


def test_rewards_that_never_varied_are_known_and_others_drawn_towards_all():
    """One pair paid once and another never: a single reward says little unless none ever varied."""
    visits, moves = np.array([[1], [1], [100]]), np.zeros((3, 1, 3), int)

    def guess(paid, squares):
        counts = Counts(visits, moves, visits * paid, visits * squares, starts=[1, 1, 1])
        return Draws(counts, Partition([0, 1, 2]), (0.0, 1.0), 0.9).best_guess().paid.ravel()

    certain = np.array([[1.0], [0.0], [0.7]])
    np.testing.assert_allclose(guess(certain, certain**2).ravel(), [1.0, 0.0, 0.7], atol=0.01)
    drawn = guess(np.array([[1.0], [0.0], [0.5]]), np.array([[1.0], [0.0], [0.5]]))
    assert 0.0 < drawn[1] < 0.5 < drawn[0] < 1.0
    assert drawn[2] == pytest.approx(0.5, abs=0.01)


def test_starts_that_were_never_seen_are_charged():
    laws, rewards = np.zeros((4, 2)), np.array([[1.0, 1.0], [3.0, 3.0]])
    world = World(laws, rewards, np.full(2, 0.5), 0.9, False, np.zeros((2, 2), bool))
    policy = np.full((2, 2), 0.5)
    assert world.value(policy) == pytest.approx(2.0)
    strange = replace(world, strange=0.1, lowest=-1.0)
    assert strange.value(policy) == pytest.approx(0.9 * 2.0 + 0.1 * (-1.0 + 0.9 * 1.0))


def test_a_long_log_of_a_drawn_world_teaches_that_world():
    log = walk(400, 0)
    counted = count_logs(log, Columns("place", "step", "paid", "walk", None, "over"), holdout=0)
    same = Partition(np.arange(len(counted.observation_names)))
    draws = Draws(counted.total, same, counted.reward_range, "episodic")
    rng = np.random.default_rng(0)
    world, _ = draws.draw(rng)
    again = draws.relearn(world, rng)
    tried = counted.total.visits.ravel() > 200
    assert tried.any()
    assert abs(world.moves - again.moves)[tried].max() < 0.2  # four standard errors of 200 tries


def test_rare_observations_of_an_uncertain_world_are_no_states_of_their_own():
    """Of 400 observations 141 are seen fewer than ten times: too rarely for a law of their own."""
    world = romdp.worlds.random_romdp(5, 4, 400, seed=1, emission_concentration=0.3)
    seen = romdp.simulate(world, "uniform", steps=12_000, seed=1)
    columns = {"page": seen.observations, "do": seen.actions, "paid": seen.rewards}
    model = romdp.fit(columns, observation="page", action="do", reward="paid")
    assert model.n_states <= 7
    assert min(model.partition.sizes) > 10


def test_two_kinds_of_observations_are_parted_by_what_was_done():
    states = np.repeat(np.arange(20), 2)
    merged = np.maximum(states, 1) - 1
    rng = np.random.default_rng(0)
    found = _part_by_habit(Laws(habitual(rng, True), merged))
    assert Partition(found) == Partition(states)
    assert _part_by_habit(Laws(habitual(rng, False), merged)) is None


@pytest.mark.parametrize("stays", [True, False])
def test_staying_speaks_against_leaving_but_never_for_one_state(stays):
    """Observation 0 leaves its state twice; observation 1 stays or leaves."""
    seen = [0, 2, 0, 2, *([1, 1, 1] if stays else [1, 2, 1, 2])]
    lengths = [2, 2, 3] if stays else [2, 2, 2, 2]
    nowhere = np.full(len(lengths), -1)
    counts = Counts.from_trajectory(Trajectory(seen, [0] * len(seen), None, lengths, nowhere))
    laws = Laws(counts, np.array([0, 0, 1]))
    first, second, both = (laws.of(np.array([i])) for i in (0, 1, 1))
    assert (laws._stays_alike(first, second).item() < -0.5) == stays
    assert laws._stays_alike(second, both).item() == 0.0


def test_choices_are_drawn_towards_the_state_as_far_as_the_log_bears_out():
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    of_state = np.array([[0.8, 0.1, 0.1], [0.2, 0.4, 0.4], [0.05, 0.05, 0.9]])
    few = np.stack([rng.multinomial(4, of_state[x]) for x in labels])
    found = choices(few, labels)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert np.abs(found - of_state[labels]).max() < 0.15  # four standard errors of 400 choices
    own = rng.dirichlet(np.full(3, 0.3), size=300)
    habits = np.stack([rng.multinomial(40, row) for row in own])
    assert np.abs(choices(habits, labels) - own).mean() < 0.05  # one standard error of 40 choices
    always = np.eye(3, dtype=int)[rng.integers(3, size=300)] * 9
    assert (choices(always, labels)[always == 0] < 1e-3).all()
    never = np.array([[3, 0, 1], [2, 0, 0]])
    assert (choices(never, np.zeros(2, int))[:, 1] == 0).all()
