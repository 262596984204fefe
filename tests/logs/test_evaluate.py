"""Off-policy evaluation against plain loops and against the truth."""

import numpy as np
import pytest
from plain_logs import GOAL, true_value, walk

import romdp
from romdp.core.errors import InvalidInputError
from romdp.data.trajectory import Trajectory
from romdp.logs import evaluate
from romdp.logs.evaluating import _Episodes

COLUMNS = ("place", "step", "paid", "walk")


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
        assert all(e.low <= e.value <= e.high for e in found if e.estimator != "direct")
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
    episodes = _Episodes(held, rewards, 0.9)
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
    assert episodes.per_decision("x", weights).value == pytest.approx(np.mean(plain["pdis"]))
    robust = episodes.doubly_robust("x", weights, q, v)
    assert robust.value == pytest.approx(np.mean(plain["dr"]))
    weighted = episodes.weighted("x", weights, rng).value
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


def test_models_policies_and_mappings_are_policies():
    log = walk(300, 0)
    model = romdp.fit(log, *COLUMNS, terminated="over", holdout=0)
    answers = {place: int(model.act(place)) for place in range(GOAL)}

    class Asked:
        def act(self, observation):
            return answers[observation]

    values = [
        by_name(evaluate(log, policy, *COLUMNS, terminated="over"), "observations")
        for policy in (model, answers, Asked(), np.array([answers[x] for x in range(GOAL)]))
    ]
    for other in values[1:]:
        for name, estimate in other.items():
            assert estimate.value == pytest.approx(values[0][name].value)


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (np.ones(GOAL - 1, int), "policy is for 4 observations, but the log shows observation 4"),
        (np.full(GOAL, 7), "takes 7 at observation 0, an action that the log does not have"),
        ({0: 1}, "does not know the observation 1"),
        (np.full((GOAL, 3), 1 / 3), "3 columns, but the log has 2 actions"),
        (np.full((GOAL, 2), 0.7), "sum to one"),
        ("right", "policy must be a model"),
    ],
)
def test_policies_for_something_else_are_refused(policy, words):
    with pytest.raises(InvalidInputError, match=words):
        evaluate(walk(30, 0), policy, *COLUMNS)


def test_the_average_is_per_step():
    log = walk(300, 1)
    found = evaluate(log, np.full((GOAL, 2), 0.5), *COLUMNS, objective="average")
    assert found.objective == "average"
    for e in found:
        assert -0.2 < e.value < 0.5


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
    episodes = _Episodes(held, rewards, 0.9)
    weights = episodes.products(policy[steps, actions] / base[steps, actions])
    v = (policy * q).sum(axis=1)
    assert episodes.weighted("x", weights, rng).value == pytest.approx(1.657551165127783, abs=1e-9)
    assert episodes.per_decision("x", weights).value == pytest.approx(1.441208772238176, abs=1e-9)
    robust = episodes.doubly_robust("x", weights, q[steps, actions], v)
    assert robust.value == pytest.approx(1.435037242105734, abs=1e-9)
