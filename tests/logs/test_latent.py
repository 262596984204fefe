"""Latent models: what they hold and answer, and how they are estimated from counts."""

import dataclasses
import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import romdp
from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.storage import read_arrays, write_arrays
from romdp.data.counts import Counts
from romdp.logs import fit
from romdp.logs.model import LatentModel, load_model, model_facts
from romdp.logs.model.estimate import estimate, gain_bounds
from romdp.logs.model.text import paid
from romdp.planning.confidence import Hoeffding

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=15, seed=1)
N = 20_000


def logged(seed=0, steps=N):
    seen = romdp.simulate(WORLD, "uniform", steps, seed=seed)
    return {
        "page": [f"page {i:02d}" for i in seen.observations],
        "offer": np.array(["tea", "ale"])[seen.actions],
        "paid": 10 * seen.rewards - 4,
        "user": np.arange(steps) // 50,
    }


@pytest.fixture(scope="module")
def model() -> LatentModel:
    return fit(logged(), "page", "offer", "paid", "user")


def test_the_truth_is_found_in_the_names_of_the_log(model):
    assert model.partition == romdp.Partition(WORLD.labels)  # names sort as the numbers do
    assert model.action_names == ("ale", "tea")
    best = WORLD.hidden.optimal_policy[WORLD.labels]
    names = [f"page {i:02d}" for i in range(15)]
    assert model.act(names).tolist() == [("tea", "ale")[a] for a in best]
    assert model.n_rows == N
    assert model.n_episodes == N // 50


def test_gains_are_in_units_of_the_log_and_in_order(model):
    true = 10 * WORLD.hidden.gain - 4
    assert model.gain == pytest.approx(true, abs=0.3)
    assert model.pessimistic_gain < true < model.optimistic_gain
    assert model.pessimistic_gain <= model.cautious_gain <= model.gain
    value = model.held_out.value
    assert abs(value.estimate - true) < value.high - value.low  # four standard errors
    assert model.reward_range == (-4.0, 6.0)
    assert model.in_units(model.mdp.gain) == pytest.approx(model.gain)
    assert np.nanmax(model.rewards) <= 6


def test_unknown_names_get_an_explicit_answer(model):
    assert model.predict(["page 00", "page 99"])[1] == -1
    assert model.predict("page 99") == -1
    assert model.act("page 99") is None
    assert model.act(["page 00", None, "page 99"]).tolist()[1:] == [None, None]
    for ask in (model.predict, model.act):
        with pytest.raises(InvalidInputError, match=r"observations\[1\] is 'page 99'.*unknown"):
            ask(["page 00", "page 99"], unknown="error")
        with pytest.raises(InvalidInputError, match="unknown"):
            ask("page 99", unknown="errr")
    assert model.predict([]).shape == (0,)


def test_names_come_in_any_container(model):
    names = ["page 03", "page 07"]
    expected = model.predict(names).tolist()
    for column in (np.array(names), tuple(names), pa.array(names), pd.Series(names), iter(names)):
        assert model.predict(column).tolist() == expected
    assert model.predict(names[0]) == expected[0]
    assert model.predict(np.array(names)[0]) == expected[0]


def test_whole_numbers_stay_whole_numbers():
    seen = romdp.simulate(WORLD, "uniform", 8000, seed=0)
    model = fit(seen)
    actions = model.act(np.arange(15))
    assert actions.dtype == np.int64
    np.testing.assert_array_equal(actions, model.policy[model.predict(np.arange(15))])
    assert model.act(np.int64(3)) == actions[3]


def test_it_never_changes(model):
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.partition = None
    with pytest.raises(ValueError, match="read-only"):
        model.visits[0] = 3
    with pytest.raises(ValueError, match="read-only"):
        model.policy[0] = 1


def test_it_can_be_sent_to_another_process(model):
    again = pickle.loads(pickle.dumps(model))
    assert str(again) == str(model)
    assert again.predict("page 03") == model.predict("page 03")


def test_it_prints_as_a_table(model):
    text = str(model)
    assert "3 hidden states behind 15 observations" in text
    assert "page 0" in text
    assert "tea" in text
    assert "95% interval" in text
    assert "yes every action was tried in every state" in text
    assert repr(model).startswith("LatentModel(15 observations in 3 hidden states")


def test_facts_are_plain_data(model):
    facts = json.loads(json.dumps(model_facts(model), allow_nan=False))
    assert facts["summary"]["n_states"] == 3
    assert len(facts["states"]) == 3
    assert sum(state["share"] for state in facts["states"]) == pytest.approx(1)
    for state in facts["states"]:
        for action in state["actions"]:
            assert sum(action["leads_to"]) == pytest.approx(1)
            assert -4 <= action["reward"] <= 6
    assert len(facts["margins"]["doubtful"]) == 15
    assert len(facts["checks"]) == len(model.checks)


def test_rare_pairs_are_listed_and_warned_of():
    table = logged(steps=6000)
    hidden = WORLD.labels[[int(page[-2:]) for page in table["page"]]]
    table["offer"] = np.where(hidden == 1, "ale", table["offer"])
    table["offer"][np.flatnonzero(hidden == 1)[:4]] = "tea"
    model = fit(table, "page", "offer", "paid", "user")
    assert [(a, n) for _, a, n in model.rarely_tried] == [("tea", 4)]
    assert any("hardly ever tried: 'tea'" in warning for warning in model.warnings)
    state = model.rarely_tried[0][0]
    assert f"in state {state} (4 times)" in " ".join(model.warnings)


def test_save_and_load(model, tmp_path):
    path = tmp_path / "deep" / "model"
    model.save(path)
    again = load_model(path)
    assert again.partition == model.partition
    assert again.counts == model.counts
    assert again.mdp == model.mdp
    assert again.observation_names == model.observation_names
    assert again.action_names == model.action_names
    assert again.held_out == model.held_out
    assert again.columns == model.columns
    assert model.columns["observation"] == "page"
    np.testing.assert_array_equal(again.certainty, model.certainty)
    np.testing.assert_array_equal(again.starts, model.starts)
    assert str(again) == str(model)
    model.save(path)  # a model may be replaced
    assert sorted(p.name for p in path.parent.iterdir()) == ["model"]
    assert not list(path.glob("*.pkl"))


def test_nothing_else_is_written_over(model, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("years of work")
    with pytest.raises(InvalidInputError, match="holds other files"):
        model.save(tmp_path / "other")
    with pytest.raises(InvalidInputError, match="it is a file"):
        model.save(tmp_path / "other" / "thesis.txt")
    assert (tmp_path / "other" / "thesis.txt").read_text() == "years of work"
    assert [p.name for p in tmp_path.iterdir()] == ["other"]


def test_what_is_no_model_is_refused(model, tmp_path):
    with pytest.raises(StorageError, match="holds no model"):
        load_model(tmp_path)
    path = tmp_path / "model"
    model.save(path)
    arrays, facts = read_arrays(path / "model.npz", "latent model", 3)
    for kind, version, words in (
        ("thesis", 3, "holds a thesis, not a latent model"),
        ("latent model", 99, "format version 99"),
    ):
        write_arrays(path / "model.npz", kind, version, arrays, facts)
        with pytest.raises(StorageError, match=words):
            load_model(path)
    (path / "model.npz").write_bytes(b"PK not really")
    with pytest.raises(StorageError, match=r"model.npz is damaged"):
        load_model(path)


def test_an_agent_goes_on_from_what_the_log_taught():
    seen = romdp.simulate(WORLD, "uniform", N, seed=0)
    agent = fit(seen).to_agent()
    informed = romdp.play(agent, WORLD, steps=3000, seed=0)
    fresh = romdp.play(romdp.LCPSRL(), WORLD, steps=3000, seed=0)
    assert informed.pseudo_regret[-1] < 0.5 * fresh.pseudo_regret[-1]
    assert informed.partition == romdp.Partition(WORLD.labels)
    other = romdp.worlds.random_romdp(3, 4, 15, seed=0)
    with pytest.raises(InvalidInputError, match="number observations and actions"):
        romdp.play(agent, other, steps=10, seed=0)


def test_means_and_shares():
    counts = Counts([[4, 2], [6, 1]], [[[3, 1], [0, 2]], [[2, 4], [1, 0]]], [[1, 2], [3, 0]],
                    [[1, 2], [3, 0]])  # fmt: skip
    found = estimate(counts)
    np.testing.assert_allclose(found.mdp.transition[0], [[0.75, 0.25], [0, 1]])
    np.testing.assert_allclose(found.mdp.transition[1], [[1 / 3, 2 / 3], [1, 0]])
    np.testing.assert_allclose(found.mdp.reward, [[0.25, 1.0], [0.5, 0.0]])
    np.testing.assert_array_equal(found.policy, found.mdp.optimal_policy)
    np.testing.assert_allclose(found.gains, found.mdp.gain)


def test_an_action_that_was_never_tried_is_never_recommended():
    visits = np.array([[5, 0], [0, 5]])
    transitions = np.zeros((2, 2, 2), int)
    transitions[0, 0, 1] = transitions[1, 1, 0] = 5
    zeros = np.zeros((2, 2))
    found = estimate(Counts(visits, transitions, zeros, zeros, starts=[1, 0]))
    np.testing.assert_array_equal(found.policy, [0, 1])  # all pay nothing: a tie
    np.testing.assert_array_equal(found.mdp.transition[0, 1], [1, 0])
    assert found.mdp.reward[0, 1] == 0


def test_a_step_that_always_ends_the_episode_leads_to_a_start():
    visits = np.array([[5], [4], [3]])
    transitions = np.zeros((3, 1, 3), int)
    transitions[0, 0, 1] = 5
    transitions[1, 0, 2] = 4
    zeros = np.zeros((3, 1))
    found = estimate(Counts(visits, transitions, zeros, zeros, starts=[3, 1, 0]))
    np.testing.assert_allclose(found.mdp.transition[2, 0], [0.75, 0.25, 0])
    nobody = estimate(Counts(visits, transitions, zeros, zeros))
    np.testing.assert_allclose(nobody.mdp.transition[2, 0], visits[:, 0] / 12)


def test_an_end_leads_to_the_starts():
    transitions = [[[0, 2]], [[1, 0]]]
    counts = Counts([[2], [4]], transitions, [[0], [4]], [[0], [4]], [[0], [3]], [3, 1])
    np.testing.assert_allclose(estimate(counts).mdp.transition[1, 0], [13 / 16, 3 / 16])


def test_a_state_in_which_nobody_acted_restarts():
    visits = np.array([[5, 5], [0, 0]])
    transitions = np.zeros((2, 2, 2), int)
    transitions[0, 0, 1] = transitions[0, 1, 0] = 5
    sums = np.array([[5, 1], [0, 0]])
    found = estimate(Counts(visits, transitions, sums, sums, starts=[2, 0]))
    np.testing.assert_allclose(found.mdp.transition[1], [[1, 0], [1, 0]])
    assert found.policy[0] == 0
    np.testing.assert_allclose(found.gains, 0.5)


@pytest.mark.parametrize("scale", [0.0, 0.05, 1.0])
def test_gains_are_in_order(scale):
    rng = np.random.default_rng(1)
    transitions = rng.integers(1, 2000, (4, 3, 4))
    visits = transitions.sum(axis=2)
    sums = rng.random((4, 3)) * visits
    counts = Counts(visits, transitions, sums, sums)
    found = estimate(counts)
    open_ = gain_bounds(counts, found, Hoeffding(scale=scale), 0.05)
    low, middle, high = open_.pessimistic.gain, found.mdp.gain, open_.optimistic_gain
    assert low <= middle + 1e-4
    assert middle <= high + 1e-2
    assert open_.cautious.gain >= low - 1e-6
    if scale == 0.0:
        assert low == pytest.approx(middle, abs=1e-4)
    else:
        assert low < middle < high


def test_a_reward_that_never_varies_is_written_without_an_error():
    steps = np.arange(3_000)
    seen, done = steps % 3, np.random.default_rng(0).integers(2, size=3_000)
    model = romdp.fit({"x": seen, "a": done, "r": (seen == 2) * 7.0}, "x", "a", "r", n_states=3)
    written = [paid(model, state, action) for state in range(3) for action in range(2)]
    assert sorted(written) == ["0", "0", "0", "0", "7", "7"]
