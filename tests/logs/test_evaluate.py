"""Evaluation against plain loops and the truth: of a policy on a log, of a model held out."""

import numpy as np
import pytest
from plain_logs import GOAL, true_value, walk

import romdp
from romdp.core.errors import InvalidInputError, StructureError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.logs import evaluate
from romdp.logs.evaluating import _weighted
from romdp.logs.model import evaluation
from romdp.logs.model.episodes import Episodes
from romdp.logs.model.estimate import Estimate, estimate
from romdp.logs.model.evaluation import (
    _grouped_probabilities,
    clustered,
    log_score,
    policy_value,
    predict_next,
)

COLUMNS = ("place", "step", "paid", "walk")
WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=30, seed=2)
TRUTH = Partition(WORLD.labels)


def by_name(found, on):
    return {e.estimator: e for e in found if e.on == on}


def test_every_estimator_covers_the_truth():
    """Of 8 intervals of 95% in each of 2 logs, 5 failures have a chance below 0.1%."""
    policy = np.tile([0.35, 0.65], (GOAL, 1))
    true = true_value(policy)
    failed = 0
    for seed in range(2):
        log = walk(500, seed)
        found = evaluate(log, policy, *COLUMNS, terminated="over", propensity="chance")
        assert len(found) == 8
        assert found.objective == "episodic"
        failed += sum(not e.low - 1e-3 <= true <= e.high + 1e-3 for e in found)
        assert all(e.low <= e.value <= e.high for e in found)
        assert abs(by_name(found, "states")["doubly robust"].value - true) < 0.15
    assert failed <= 4


def test_estimators_agree_with_plain_loops():
    """The formulas of the module, one episode and one step at a time."""
    rng = np.random.default_rng(0)
    lengths = [3, 1, 4]
    n = sum(lengths)
    rewards, ratio = rng.random(n), rng.choice([0.0, 0.5, 2.0], n)
    q, v = rng.random(n), rng.random(n)
    held = Trajectory(np.zeros(n, int), np.zeros(n, int), rewards, lengths)
    episodes = Episodes(held, 0.9)
    weights = episodes.products(ratio)
    plain = {"pdis": [], "dr": [], "last": [], "return": []}
    at = 0
    for length in lengths:
        w, pdis, dr, total = 1.0, 0.0, 0.0, 0.0
        for t in range(length):
            i = at + t
            before, w = w, w * ratio[i]
            assert weights[i] == pytest.approx(w)
            pdis += 0.9**t * w * rewards[i]
            dr += 0.9**t * (w * (rewards[i] - q[i]) + before * v[i])
            total += 0.9**t * rewards[i]
        at += length
        for name, value in (("pdis", pdis), ("dr", dr), ("last", w), ("return", total)):
            plain[name].append(value)
    assert episodes.add_up(weights * rewards) == pytest.approx(plain["pdis"])
    assert episodes.doubly_robust(weights, rewards, q, v) == pytest.approx(plain["dr"])
    returns = episodes.add_up(rewards)
    assert returns == pytest.approx(plain["return"])
    weighted = _weighted("x", episodes, weights, returns, rng).value
    if sum(plain["last"]):
        assert weighted == pytest.approx(
            np.dot(plain["last"], plain["return"]) / sum(plain["last"])
        )


def test_the_policy_behind_the_log_is_worth_what_the_log_earned():
    log = walk(300, 3)
    even = np.full((GOAL, 2), 0.5)
    found = evaluate(log, even, *COLUMNS, terminated="over", propensity="chance")
    for e in found:
        if e.estimator != "direct":
            assert e.value == pytest.approx(found.logged, abs=0.05)
    assert found.effective_episodes == pytest.approx(300)
    table = found.to_arrow()
    assert table.column_names == ["estimator", "on", "value", "low", "high"]
    assert "doubly robust" in str(found)


def test_what_the_log_cannot_tell_is_a_dash_with_a_reason():
    seen = romdp.simulate(WORLD, "uniform", 3_000, seed=0)
    log = {"page": seen.observations, "offer": seen.actions, "paid": seen.rewards}
    found = evaluate(log, np.ones(30, int), "page", "offer", "paid")  # blocks of 100 rows
    assert np.isnan(by_name(found, "observations")["weighted importance sampling"].value)
    shown = str(found).splitlines()
    first = found.estimates[0]
    assert shown[0].startswith(f"the policy earns {first.value:.4g} per step, 95% interval [")
    assert shown[-1].startswith("-: too few episodes")
    assert not {"nan", "inf", "-inf"} & set(str(found).split())


def test_models_policies_and_mappings_are_policies():
    log = walk(300, 0)
    model = romdp.fit(log, *COLUMNS, terminated="over", holdout=0)
    answers = dict.fromkeys(range(GOAL), 1)
    assert model.act(np.arange(GOAL)).tolist() == list(answers.values())

    class Asked:
        def act(self, observation):
            return answers[observation]

    values = [
        by_name(evaluate(log, policy, *COLUMNS, terminated="over"), "observations")
        for policy in (model, answers, Asked(), np.array([answers[x] for x in range(GOAL)]))
    ]
    for other in values[1:]:
        for name, found in other.items():
            assert found.value == pytest.approx(values[0][name].value)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (np.ones(GOAL - 1, int), "policy is for 4 observations, but the log shows observation 4"),
        (np.full(GOAL, 7), "takes 7 at observation 0, an action that the log does not have"),
        (np.full((GOAL, 3), 1 / 3), "3 columns, but the log has 2 actions"),
        (np.full((GOAL, 2), 0.7), "sum to one"),
        ("right", "policy must be a model"),
    ],
)
def test_policies_for_something_else_are_refused(policy, words):
    with pytest.raises(InvalidInputError, match=words):
        evaluate(walk(30, 0), policy, *COLUMNS)


def test_rows_out_of_order_are_sorted_if_that_is_asked_for():
    log = walk(200, 0)
    log["time"] = np.arange(len(log["walk"]))
    mixed = np.random.default_rng(0).permutation(len(log["time"]))
    shuffled = {name: np.asarray(column)[mixed] for name, column in log.items()}
    policy = np.tile([0.35, 0.65], (GOAL, 1))
    more = {"order": "time", "terminated": "over", "propensity": "chance"}
    with pytest.raises(InvalidInputError, match="sort=True"):
        evaluate(shuffled, policy, *COLUMNS, **more)
    found = evaluate(shuffled, policy, *COLUMNS, **more, sort=True)
    for one, other in zip(found, evaluate(log, policy, *COLUMNS, **more), strict=True):
        if "robust" in one.estimator or "decision" in one.estimator:  # nothing is drawn for these
            assert one[2:] == pytest.approx(other[2:])
    with pytest.raises(InvalidInputError, match="needs an order column"):
        evaluate(shuffled, policy, *COLUMNS, terminated="over", sort=True)


def test_the_average_is_per_step():
    log = walk(300, 1)
    found = evaluate(log, np.full((GOAL, 2), 0.5), *COLUMNS, objective="average")
    assert found.objective == "average"
    for e in found:
        assert -0.2 < e.value < 0.5


def test_rewards_of_last_steps_count():
    """A purchase ends the visit: nearly all that is paid is paid in an episode's last row."""
    rng = np.random.default_rng(0)
    log = {"page": [], "offer": [], "paid": [], "user": []}
    for user in range(400):
        over = False
        while not over:
            page, offer = int(rng.integers(6)), int(rng.integers(2))
            over = bool(rng.random() < (0.4 if offer else 0.1))
            row = (page, offer, float(over) * rng.random(), user)
            for column, value in zip(log.values(), row, strict=True):
                column.append(value)
    earned = np.mean(log["paid"])
    found = evaluate(log, np.full((6, 2), 0.5), "page", "offer", "paid", "user")
    assert found.objective == "average"
    for on in ("states", "observations"):
        robust = by_name(found, on)["doubly robust"]
        assert abs(robust.value - earned) < 0.01  # without them it is about zero
    model = romdp.fit(log, "page", "offer", "paid", episode="user", seed=0)
    value = model.held_out.value
    assert value.low > 0.5 * earned


def test_estimators_agree_with_scope_rl():
    """The values that scope-rl 0.2.1 gives for the same steps (SNTIS, PDIS and DR)."""
    n, length, n_actions = 12, 4, 3
    rng = np.random.default_rng(7)
    size = n * length
    policy, base = rng.dirichlet(np.ones(3), size), rng.dirichlet(2 * np.ones(3), size)
    actions = np.array([rng.choice(n_actions, p=chances) for chances in base])
    rewards, q = rng.random(size), rng.random((size, n_actions))
    steps = np.arange(size)
    held = Trajectory(np.zeros(size, int), actions, rewards, [length] * n)
    episodes = Episodes(held, 0.9)
    weights = episodes.products(policy[steps, actions] / base[steps, actions])
    v = (policy * q).sum(axis=1)
    weighted = _weighted("x", episodes, weights, episodes.add_up(rewards), rng).value
    assert weighted == pytest.approx(1.657551165127783, abs=1e-9)
    per_decision = episodes.add_up(weights * rewards).mean()
    assert per_decision == pytest.approx(1.441208772238176, abs=1e-9)
    robust = episodes.doubly_robust(weights, rewards, q[steps, actions], v).mean()
    assert robust == pytest.approx(1.435037242105734, abs=1e-9)


def test_estimators_agree_with_obp():
    """The values that obp 0.4.1 gives for the same decisions: IPW, SNIPW, DM and DR.

    Its regression model is told what ours is on observations: means of what was tried. On the small
    Open Bandit data they agree, too.
    """
    rng, n = np.random.default_rng(5), 400
    shown, base = rng.integers(6, size=n), rng.dirichlet(np.full(4, 9.0), 6)
    done = np.array([rng.choice(4, p=base[i]) for i in shown])
    paid = (rng.random(n) < 0.2 + 0.15 * ((shown + done) % 4)).astype(float)
    log = {"x": shown, "a": done, "r": paid, "p": base[shown, done], "who": np.arange(n)}
    policy = rng.dirichlet(np.ones(4), 6)
    found = evaluate(log, policy, "x", "a", "r", "who", propensity="p")
    assert found.objective == "episodic"
    values = {name: e.value for name, e in by_name(found, "observations").items()}
    assert values == {
        "per-decision importance sampling": pytest.approx(0.5384175232538757, abs=1e-9),
        "weighted importance sampling": pytest.approx(0.5055633370778302, abs=1e-9),
        "direct": pytest.approx(0.4950875596560944, abs=1e-9),
        "doubly robust": pytest.approx(0.4950875596560944, abs=1e-9),
    }


def episodes(seed, n_episodes=300, length=40, policy="uniform"):
    seen = romdp.simulate(WORLD, policy, n_episodes * length, seed=seed)
    return Trajectory(
        seen.observations, seen.actions, seen.rewards, np.full(n_episodes, length),
        n_observations=30, n_actions=2,
    )  # fmt: skip


def counts_of(seen):
    return Counts.from_trajectory(seen)


def test_probabilities_of_the_next_observation_sum_to_one():
    counts = counts_of(episodes(0, 20))
    labels = TRUTH.labels.copy()
    labels[7] = -1
    partition = Partition(labels)
    groups, chance = counts.group(partition), np.full(30, 1 / 30)
    for source in (3, 7):
        at = (np.full(30, source), np.ones(30, int), np.arange(30))
        chances = _grouped_probabilities(groups, partition.labels, chance, *at)
        assert chances.sum() == pytest.approx(1.0)
        visits = counts.visits.sum(axis=1)
        scores = [
            log_score(groups, partition.labels, visits, *(np.array([x]) for x in (source, 1, y)))
            for y in range(-1, 30)
        ]
        assert np.exp(scores).sum() == pytest.approx(1.0)


def test_true_states_foretell_better_than_observations_and_wrong_ones_worse():
    train, held = episodes(0), episodes(1)
    right = predict_next(counts_of(train), TRUTH, held)
    assert right.gain > 5 * right.gain_error > 0
    assert right.gain == pytest.approx(right.grouped - right.ungrouped)
    wrong = predict_next(counts_of(train), Partition(np.arange(30) % 3), held)
    assert wrong.gain < -5 * wrong.gain_error
    # No model predicts better than the truth does.
    law = WORLD.observable.transition
    following = held.next_observations
    known = following >= 0
    best = np.log(law[held.observations[known], held.actions[known], following[known]]).mean()
    assert right.grouped < best + 3 * 0.01
    assert right.grouped == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize("behaviour", ["uniform", "biased"])
def test_the_interval_covers_the_true_gain_as_often_as_it_says(behaviour):
    """Twenty fits; fewer than 15 hits at 95% coverage have a chance below 1e-4."""
    policy = "uniform"
    if behaviour == "biased":
        policy = np.tile([0.8, 0.2], (30, 1))
    hits, estimates = 0, []
    for seed in range(20):
        train, held = episodes(100 + seed, 100, policy=policy), episodes(seed, 60, policy=policy)
        groups = counts_of(train).group(TRUTH)
        found = estimate(groups)
        true = WORLD.hidden.policy_gain(found.policy[_renumber()])
        value = policy_value(groups, found, TRUTH, held, (0.0, 1.0))
        hits += value.low <= true <= value.high
        estimates.append(value.estimate - true)
        assert 0 < value.agreement < 1
        assert value.effective_steps <= held.n_steps
    assert hits >= 15
    assert abs(np.mean(estimates)) < 4 * np.std(estimates) / np.sqrt(20)


def _renumber():
    """For each hidden state of the world, its number in the partition."""
    first = [int(np.argmax(WORLD.labels == x)) for x in range(3)]
    return TRUTH.labels[first]


def test_a_wrong_prediction_is_corrected():
    """Both parts of the estimator matter: with rewards halved the prediction is far off."""
    train, held = episodes(5, 1500), episodes(6, 1500)
    groups = counts_of(train).group(TRUTH)
    found = estimate(groups)
    halved = romdp.MDP(found.mdp.transition, found.mdp.reward / 2)
    wrong = Estimate(halved, found.policy, found.gains / 2)
    right = policy_value(groups, found, TRUTH, held, (0.0, 1.0))
    value = policy_value(groups, wrong, TRUTH, held, (0.0, 1.0))
    assert value.predicted == pytest.approx(right.predicted / 2)
    assert value.estimate == pytest.approx(right.estimate, abs=0.03)


def test_values_are_in_units_of_the_reward():
    train, held = episodes(5, 100), episodes(6, 100)
    groups = counts_of(train).group(TRUTH)
    found = estimate(groups)
    unit = policy_value(groups, found, TRUTH, held, (0.0, 1.0))
    scaled = policy_value(groups, found, TRUTH, held, (-5.0, 15.0))
    for name in ("estimate", "low", "high", "predicted", "logged"):
        assert getattr(scaled, name) == pytest.approx(-5 + 20 * getattr(unit, name))


def test_errors_are_over_episodes():
    """A hundred copies of ten values say as much as ten values do."""
    values = np.random.default_rng(0).normal(size=10)
    mean, error = clustered(values, np.ones(10), np.arange(10))
    assert error == pytest.approx(values.std(ddof=1) / np.sqrt(10))
    again = clustered(np.repeat(values, 100), np.ones(1000), np.repeat(np.arange(10), 100))
    assert again == pytest.approx((mean, error))
    assert clustered(values, np.ones(10), np.zeros(10, int))[1] == np.inf


def test_everything_at_once_and_what_is_missing_is_said():
    train, held = episodes(0), episodes(1, 50)
    rng = np.random.default_rng(0)
    full = evaluation.evaluate(counts_of(train), TRUTH, held, (0.0, 1.0), rng)
    assert full.prediction is not None
    assert full.value is not None
    assert full.notes == ()
    few = evaluation.evaluate(counts_of(train), TRUTH, episodes(1, 2), (0, 1), rng)
    assert few.prediction is None
    assert few.value is None
    assert "only 2 episodes" in few.notes[0]
    bare = evaluation.evaluate(counts_of(train), TRUTH, held, None, rng)
    assert bare.value is None


def test_a_policy_that_nobody_followed_has_no_value():
    train = episodes(0)
    held = Trajectory(
        np.arange(30).repeat(2), np.zeros(60, int), np.ones(60), np.full(6, 10),
        n_observations=30, n_actions=2,
    )  # fmt: skip
    groups = counts_of(train).group(TRUTH)
    found = estimate(groups)
    other = Estimate(found.mdp, np.ones(3, np.int64), found.gains)
    with pytest.raises(StructureError, match="no held-out step"):
        policy_value(groups, other, TRUTH, held, (0.0, 1.0))


def test_the_direct_method_does_not_shrink_what_a_chosen_policy_earns():
    """The best actions are rare in the log: drawn towards their state they would pay less."""
    world = romdp.worlds.random_romdp(n_states=5, n_actions=4, n_observations=60, seed=1)
    habit = np.full((60, 4), 0.1)
    habit[np.arange(60), np.random.default_rng(0).integers(4, size=60)] = 0.7
    seen = romdp.simulate(world, habit, 20_000, seed=2)
    log = {"page": seen.observations, "offer": seen.actions, "paid": seen.rewards}
    log["visit"] = np.arange(20_000) // 100
    best = world.hidden.optimal_policy[world.labels]
    found = evaluate(log, best, "page", "offer", "paid", "visit")
    truth = world.hidden.gain
    on_states, on_observations = (by_name(found, on)["direct"] for on in ("states", "observations"))
    assert on_states.low < truth < on_states.high
    # Observations lead to many places that were not seen yet, and these are taken for average.
    assert on_observations.value == pytest.approx(truth, abs=0.04)


def test_a_rare_action_is_judged_by_what_it_did_itself():
    """One of ten ways leads to the prize nine times in ten, the others one time in ten."""
    rng, n = np.random.default_rng(0), 3_000
    way = np.where(rng.random(n) < 0.01, 9, rng.integers(0, 9, n))
    good = rng.random(n) < np.where(way == 9, 0.9, 0.1)
    log = {
        "place": np.stack([np.zeros(n, int), 1 + good], axis=1).ravel(),
        "way": np.stack([way, np.zeros(n, int)], axis=1).ravel(),
        "paid": np.stack([np.zeros(n), good], axis=1).ravel(),
        "walk": np.repeat(np.arange(n), 2),
        "over": np.tile([False, True], n),
    }
    found = evaluate(log, np.array([9, 0, 0]), "place", "way", "paid", "walk", terminated="over")
    direct = by_name(found, "observations")["direct"]
    assert direct.value == pytest.approx(good[way == 9].mean(), abs=0.02)
    assert direct.low < 0.9 < direct.high
