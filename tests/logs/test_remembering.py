"""Logs of which the last observation does not tell what follows: ``fit(memory=)``."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import romdp
from romdp.cli import app
from romdp.core.errors import InvalidInputError
from romdp.logs.applying import apply_model


def corridor(n_episodes=600, length=5, seed=0):
    """A cue, a corridor, and at its end the action that the cue named pays."""
    rng = np.random.default_rng(seed)
    cue = rng.integers(2, size=n_episodes)
    shown = np.full((n_episodes, length + 2), "corridor", object)
    shown[:, 0] = np.array(["left", "right"])[cue]
    shown[:, -1] = "junction"
    actions = rng.integers(2, size=shown.shape)
    paid = np.zeros(shown.shape)
    paid[:, -1] = actions[:, -1] == cue
    return {
        "seen": shown.ravel(),
        "did": np.array(["l", "r"])[actions.ravel()],
        "paid": paid.ravel(),
        "walk": np.repeat(np.arange(n_episodes), length + 2),
    }


ROLES = {"observation": "seen", "action": "did", "reward": "paid", "episode": "walk"}


@pytest.fixture(scope="module")
def model():
    return romdp.fit(corridor(), **ROLES, ends="terminated", memory="auto")


def walk(cue, length=5):
    return [cue, *["corridor"] * length, "junction"]


def test_a_model_that_looks_back_tells_cues_apart_at_the_end(model):
    left, right = (model.predict(walk(cue)) for cue in ("left", "right"))
    assert left[-1] != right[-1]
    assert [model.action_names[model.policy[s]] for s in (left[-1], right[-1])] == ["l", "r"]
    assert model.act(walk("left"))[-1] == "l"
    assert model.act(walk("right"))[-1] == "r"
    both = model.predict(walk("left") + walk("right"), lengths=[7, 7])
    assert both.tolist() == [*left, *right]
    done = ["l", "r", "l", "r", "l", "r", "l"]
    assert model.predict(walk("left"), actions=done).tolist() == left.tolist()


def test_what_is_not_known_has_no_state(model):
    assert model.predict(["left", "nowhere", "corridor"])[1] == -1
    assert model.predict("left") == model.predict(["left"])[0]
    with pytest.raises(InvalidInputError, match=r"observations\[1\] is 'nowhere'"):
        model.predict(["left", "nowhere"], unknown="error")
    with pytest.raises(InvalidInputError, match="2 observations and 1 actions"):
        model.predict(["left", "corridor"], actions=["l"])
    with pytest.raises(InvalidInputError, match="lengths sums to 1"):
        model.predict(["left", "corridor"], lengths=[1])


def test_a_model_that_looks_back_comes_back_from_its_file(model, tmp_path):
    model.save(tmp_path / "model")
    back = romdp.load_model(tmp_path / "model")
    assert back.predict(walk("left")).tolist() == model.predict(walk("left")).tolist()
    assert back.score(corridor(seed=1)) == model.score(corridor(seed=1))
    assert back.memory.machine.gain == model.memory.machine.gain
    assert back.memory.names == model.memory.names


def test_states_are_called_by_what_came_before(model):
    assert "start > left" in model.observation_names
    assert len(set(model.observation_names)) == model.n_states
    assert "histories of 4 observations" in str(model)
    assert "the past tells more" in str(model)


def repeated(n_episodes, seed):
    """What follows is mostly what was seen two steps ago."""
    rng = np.random.default_rng(seed)
    shown = rng.integers(3, size=(n_episodes, 12))
    for t in range(2, 12):
        same = rng.random(n_episodes) < 0.9
        shown[same, t] = shown[same, t - 2]
    return {"seen": shown.ravel(), "walk": np.repeat(np.arange(n_episodes), 12)}


TOLD = {"observation": "seen", "episode": "walk"}


def test_memory_foresees_what_the_last_observation_does_not():
    """The law of a step has -0.364 nats; the last observation alone tells next to nothing."""
    log, other = repeated(400, seed=0), repeated(400, seed=1)
    plain, looking = (romdp.fit(log, **TOLD, memory=k) for k in (0, "auto"))
    assert plain.score(other) < -1.0
    assert looking.score(other) > -0.4
    (warning,) = [text for text in plain.warnings if "Markov" in text]
    assert 'memory="auto"' in warning
    assert looking.memory.machine.gain > 0.3
    two = romdp.fit(log, **TOLD, memory=1)
    assert two.score(other) == pytest.approx(looking.score(other), abs=0.02)
    few = romdp.fit(log, **TOLD, memory="auto", n_states=6)
    assert few.n_states <= 6


def test_vectors_are_remembered_through_their_codes():
    """Action 1 leads to the next of three points, action 0 to where one was two steps ago."""
    rng = np.random.default_rng(0)
    points = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])
    shown, done = rng.integers(3, size=(300, 12)), rng.integers(2, size=(300, 12))
    for t in range(2, 12):
        shown[:, t] = np.where(done[:, t - 1] == 1, (shown[:, t - 1] + 1) % 3, shown[:, t - 2])
    rows = points[shown.ravel()] + rng.normal(size=(3600, 2)) * 0.1
    seen = romdp.Trajectory(rows, done.ravel(), lengths=np.full(300, 12))
    model = romdp.fit(seen, memory="auto")
    assert model.memory is not None
    assert model.memory.machine.gain > 0.2
    assert model.predict(points[:2])[1] != model.predict(points[1:2])[0]
    assert model.score(seen) > -0.3


def test_no_memory_is_taken_where_it_does_not_help():
    world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
    seen = romdp.simulate(world, "uniform", steps=8_000, seed=0)
    model = romdp.fit(seen, memory="auto")
    assert model.memory is None
    assert model.partition == romdp.fit(seen).partition


def test_apply_follows_each_episode(model, tmp_path):
    """Rows of two episodes are mixed, and their states are those of either alone."""
    rows = [("left", 0), ("right", 1), *[("corridor", i % 2) for i in range(10)]]
    rows += [("junction", 0), ("junction", 1), ("nowhere", 0)]
    table = {"seen": [row[0] for row in rows], "walk": [row[1] for row in rows]}
    applied = apply_model(model, table, tmp_path / "out.parquet", batch_rows=4)
    assert applied.n_unplaced == 1
    out = pq.read_table(tmp_path / "out.parquet").to_pydict()
    for number, cue in enumerate(("left", "right")):
        mine = [i for i, row in enumerate(rows[:-1]) if row[1] == number]
        assert [out["hidden_state"][i] for i in mine] == model.predict(walk(cue)).tolist()
    assert out["recommended_action"][-3:] == ["l", "r", None]
    with pytest.raises(InvalidInputError, match="no column 'walk'"):
        apply_model(model, {"seen": ["left"]}, tmp_path / "other.parquet")


def test_evaluate_runs_the_machine(model):
    found = romdp.evaluate(corridor(seed=1), model, **ROLES, ends="terminated")
    best = next(each for each in found if each.estimator == "doubly robust")
    assert best.value > 0.9  # a model without memory earns 0.5


@pytest.mark.parametrize(
    ("memory", "message"),
    [
        (-1, "memory is -1"),
        ("all", 'or "auto"'),
        (1.5, "memory"),
        (7, "longest episode has 7 steps"),
    ],
)
def test_a_memory_that_cannot_be_is_refused(memory, message):
    with pytest.raises(InvalidInputError, match=message):
        romdp.fit(corridor(30), **ROLES, memory=memory)


def test_counts_do_not_tell_what_came_before(tmp_path):
    with pytest.raises(InvalidInputError, match="does not tell what came before"):
        romdp.fit({"observation": [0]}, counts=True, memory="auto")
    (tmp_path / "counts.csv").write_text("observation\n0\n")
    told = CliRunner().invoke(
        app, ["fit", "--counts", str(tmp_path / "counts.csv"), "--memory", "2"]
    )
    assert "does not tell what came before" in str(told.exception)


def test_the_page_says_what_memory_brings(model, tmp_path):
    page = romdp.reports.write_model_page(model, tmp_path / "report.html").read_text()
    machine = model.memory.machine
    assert f"predicted better by {machine.gain:.3f} nats" in page
    assert len(machine.curve) > 0
    assert all(f'<td class="number">{round(n)}</td>' in page for n, _ in machine.curve)
