"""Fitting a model to a log, whoever behaved in it."""

import types

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import romdp
from romdp.clustering.likelihood import Likelihood
from romdp.clustering.spectral import Spectral
from romdp.core.errors import InvalidInputError
from romdp.data.partition import Partition
from romdp.logs import fit
from romdp.logs.minari import read_minari

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=15, seed=1)
TRUTH = romdp.Partition(WORLD.labels)
NAMES = ("page", "offer", "paid", "user")


def table_of(seen, length=40):
    return pa.table(
        {
            "page": seen.observations,
            "offer": seen.actions,
            "paid": seen.rewards,
            "user": np.arange(seen.n_steps) // length,
        }
    )


@pytest.fixture(scope="module")
def table():
    return table_of(romdp.simulate(WORLD, "uniform", 12_000, seed=0))


def test_table_file_and_trajectory_teach_the_same(table, tmp_path):
    pq.write_table(table, tmp_path / "log.parquet")
    for data in (table, tmp_path / "log.parquet", str(tmp_path)):
        model = fit(data, *NAMES)
        assert model.partition == TRUTH
        np.testing.assert_array_equal(model.policy[TRUTH.labels], _best())
        assert model.gain == pytest.approx(WORLD.hidden.gain, abs=0.03)
    seen = romdp.simulate(WORLD, "uniform", 12_000, seed=0)
    assert fit(seen).partition == TRUTH


def _best():
    return WORLD.hidden.optimal_policy[WORLD.labels]


def test_the_behaviour_may_change_over_time_and_follow_the_observation():
    rng = np.random.default_rng(0)
    parts = [
        romdp.simulate(WORLD, rng.dirichlet([0.5, 0.5], 15), 3000, seed=seed) for seed in range(6)
    ]
    seen = romdp.Trajectory.concatenate(parts)
    model = fit(seen)
    assert model.partition == TRUTH
    assert abs(model.gain - WORLD.hidden.gain) < 0.05


def test_the_same_seed_gives_the_same_model(table):
    first, again = fit(table, *NAMES, seed=3), fit(table, *NAMES, seed=3)
    assert str(first) == str(again)
    assert first.held_out == again.held_out
    assert fit(table, *NAMES, seed=4).held_out != first.held_out


def test_the_final_model_learns_from_all_rows(table):
    model = fit(table, *NAMES, holdout=0.3)
    assert model.counts.n_steps == 12_000
    assert 1200 < model.held_out.n_steps < 6000
    assert fit(table, *NAMES, holdout=0).held_out is None


def test_without_rewards_or_actions(table):
    model = fit(table, "page", "offer", episode="user")
    assert model.partition == TRUTH
    assert model.reward_range is None
    assert model.held_out.value is None
    assert "best policy" not in str(model)
    alone = fit(table, "page", reward="paid", episode="user")
    assert alone.n_actions == 1
    assert alone.n_states >= 2


def test_methods(table):
    model = fit(table, *NAMES, n_states=3, method="overlap")
    assert model.method == "overlap"
    assert np.isnan(model.certainty).all()
    assert model.checks[0].ok is None
    assert fit(table, *NAMES, n_states=2).n_states == 2
    assert fit(table, *NAMES, method=Likelihood(n_states=4)).n_states == 4
    for method in ("tensor", "matrix", Spectral()):
        with pytest.raises(InvalidInputError, match="one fixed policy"):
            fit(table, *NAMES, method=method)
    with pytest.raises(InvalidInputError, match="did you mean 'likelihood'"):
        fit(table, *NAMES, method="liklihood")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"page": ["x"] * 100}, "only one observation, 'x'"),
        ({"offer": ["x"] * 100}, "column 'offer' always holds 'x'.*nothing to decide"),
        ({"paid": [2.5] * 100}, "column 'paid' is always 2.5: every policy earns the same"),
        ({"paid": ["1"] * 100}, "cannot be the reward"),
        ({"paid": [1e200] + [-1e200] * 99}, "too far for floats"),
    ],
)
def test_logs_that_teach_nothing_are_refused(change, words):
    rng = np.random.default_rng(0)
    columns = {
        "page": rng.integers(0, 5, 100),
        "offer": rng.integers(0, 2, 100),
        "paid": rng.random(100),
        "user": np.arange(100) // 10,
    }
    with pytest.raises(InvalidInputError, match=words):
        fit({**columns, **change}, *NAMES)


def test_options_are_checked(table):
    with pytest.raises(InvalidInputError, match="observation is missing"):
        fit(table)
    for options, words in (
        ({"holdout": 1.0}, "holdout"),
        ({"ends": "restrat"}, "did you mean 'restart'"),
        ({"delta": 0}, "delta"),
        ({"seed": -1}, "seed"),
        ({"workers": 0}, "workers"),
        ({"n_states": 0}, "n_states"),
        ({"n_states": 16}, "only 15 different observations"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            fit(table, *NAMES, **options)


def test_tiny_logs_give_a_model_that_says_how_little_it_knows():
    model = fit({"page": ["a", "b", "a", "b"], "offer": [0, 1, 1, 0], "paid": [0, 1, 0, 1]},
                "page", "offer", "paid")  # fmt: skip
    assert model.n_states >= 1
    assert model.warnings
    assert model.pessimistic_gain == pytest.approx(0, abs=1e-6)
    assert "hardly ever tried" in str(model)


def test_unicode_names():
    rng = np.random.default_rng(0)
    pages = np.array(["日本", "señor", "🙂", "x" * 300])
    table = {"page": pages[rng.integers(0, 4, 400)], "tät": rng.integers(0, 2, 400),
             "paid": rng.random(400)}  # fmt: skip
    model = fit(table, "page", "tät", "paid")
    assert set(model.observation_names) == set(pages.tolist())
    assert model.predict("🙂") >= 0
    assert "日本" in str(model)


@pytest.mark.parametrize("ends", ["truncated", "terminated", "restart"])
def test_what_the_last_row_of_an_episode_means(ends):
    """A walk along three rooms, the last of which ends it and pays: one per walk, 1/3 per step."""
    rng = np.random.default_rng(0)
    table = {"page": [0, 1, 2] * 200, "user": np.arange(600) // 3, "paid": [0.0, 0.0, 1.0] * 200,
             "offer": rng.integers(2, size=600)}  # fmt: skip
    model = fit(table, "page", "offer", "paid", episode="user", holdout=0, ends=ends)
    assert model.counts.n_transitions == 400
    assert model.counts.ends.sum() == (0 if ends == "truncated" else 200)
    assert model.starts[model.predict(0)] == 200
    assert model.objective == ("episodic" if ends == "terminated" else "average")
    assert model.gain == pytest.approx(1 / 3)
    if ends != "truncated":
        earns = 1.0 if ends == "terminated" else 1 / 3
        assert model.value_lower == pytest.approx(earns, abs=0.06)
    with pytest.raises(InvalidInputError, match="leave ends out"):
        fit({**table, "over": [0, 0, 1] * 200}, "page", "offer", "paid", "user", ends="restart",
            terminated="over")  # fmt: skip
    steps = [0, 1, 2] * 200, table["offer"], table["paid"], [3] * 200
    seen = romdp.Trajectory(*steps, terminated=[True] * 200)
    assert fit(romdp.Trajectory(*steps), holdout=0, ends=ends).counts == model.counts
    if ends != "truncated":
        with pytest.raises(InvalidInputError, match="leave ends out"):
            fit(seen, ends=ends)


def test_minari_datasets():
    def episode(seen, terminated):
        n = len(seen) - 1
        ends = np.zeros(n, bool)
        ends[-1] = terminated
        return types.SimpleNamespace(
            observations=np.array(seen), actions=np.zeros(n, np.int64), rewards=np.ones(n),
            terminations=ends,
        )  # fmt: skip

    paths = [episode([3, 1, 2], True), episode([4, 0], False), episode([1, 1, 5], True)]
    dataset = types.SimpleNamespace(iterate_episodes=lambda: iter(paths), total_episodes=3)
    seen = read_minari(dataset)
    assert seen.observations.tolist() == [3, 1, 4, 1, 1]
    assert seen.next_observations.tolist() == [1, -2, 0, 1, -2]
    bad = types.SimpleNamespace(
        iterate_episodes=lambda: iter([types.SimpleNamespace(observations=np.zeros((3, 2)))]),
        total_episodes=1,
    )
    with pytest.raises(InvalidInputError, match="observations of episode 0 are not whole"):
        fit(bad)


def shop_log(rewards):
    """A walk among six hidden states behind 120 pages, whose rewards ``rewards`` makes."""
    world = romdp.worlds.random_romdp(6, 3, 120, seed=1)
    seen = romdp.simulate(world, "uniform", 20_000, seed=2)
    means = world.reward[world.labels[seen.observations], seen.actions]
    columns = {"page": seen.observations, "offer": seen.actions}
    paid = rewards(means, np.random.default_rng(0))
    return world, {**columns, "paid": paid, "user": np.arange(20_000) // 40}


@pytest.mark.parametrize(("sold", "method"), [
    (lambda means: 0.02 + 0.13 * means, "likelihood"),  # a hurdle law
    (lambda _: 1.0, "likelihood of transitions alone"),
])  # fmt: skip
def test_rewards_of_very_unequal_size_do_not_make_states_of_who_was_lucky(sold, method):
    def sales(means, rng):
        paid = means * rng.lognormal(3, 1.0, len(means))
        return np.where(rng.random(len(means)) < sold(means), paid, 0.0)

    world, log = shop_log(sales)
    truth = romdp.Partition(world.labels)
    model = fit(log, "page", "offer", "paid", "user")
    assert model.partition == truth
    assert model.method == method
    misled = fit(log, "page", "offer", "paid", "user", reward_law="gaussian")
    assert misled.n_states > 6
    assert misled.settings["reward_law"] == "gaussian"


def test_rewards_of_many_values_are_used_where_they_do_no_harm():
    _, log = shop_log(lambda means, rng: means + 0.2 * rng.standard_normal(len(means)))
    assert fit(log, "page", "offer", "paid", "user").method == "likelihood"


def test_a_law_of_rewards_is_for_the_likelihood_alone():
    log = {"page": [0, 1, 0, 1], "offer": [0, 1, 1, 0], "paid": [0.0, 1.0, 0.5, 0.2]}
    with pytest.raises(InvalidInputError, match="'overlap' knows no law of rewards"):
        fit(log, "page", "offer", "paid", n_states=2, method="overlap", reward_law="none")
    with pytest.raises(InvalidInputError, match="did you mean 'gaussian'"):
        fit(log, "page", "offer", "paid", reward_law="gausian")


N = 12_000
WORLDS = [
    romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=15, seed=seed)
    for seed in (1, 2, 3)
]


def leaning(action, strength=0.95):
    """A policy that nearly always takes one action, in all or in the marked observations."""
    chosen = np.broadcast_to(action, 15)
    rows = np.full((15, 2), 1 - strength)
    rows[np.arange(15), chosen] = strength
    return rows


def behaved(parts):
    seen = romdp.Trajectory.concatenate(parts)
    n = seen.n_steps
    return {
        "page": seen.observations,
        "offer": seen.actions,
        "paid": seen.rewards,
        "user": np.arange(n) // 40,
    }


def assert_found(world, log):
    model = fit(log, "page", "offer", "paid", "user")
    assert model.partition == romdp.Partition(world.labels)
    np.testing.assert_array_equal(model.act(range(15)), world.hidden.optimal_policy[world.labels])
    assert not any(test.fails for test in model.judged.tests)


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_a_behaviour_that_changes_half_way(world):
    """First nearly always one action, then nearly always the other."""
    parts = [romdp.simulate(world, leaning(action), N // 2, seed=action) for action in (0, 1)]
    assert_found(world, behaved(parts))


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_a_behaviour_that_follows_the_observation_inside_a_state(world):
    """Half of every state's observations get one action, the other half the other."""
    turn = np.zeros(15, np.int64)
    for state in range(3):
        members = np.flatnonzero(world.labels == state)
        turn[members[::2]] = 1
    assert_found(world, behaved([romdp.simulate(world, leaning(turn), N, seed=0)]))


@pytest.mark.parametrize("world", WORLDS, ids=str)
def test_both_at_once(world):
    """A test of what is true fails in one log of a hundred; seeds 0 to 3 are one in world 3."""
    rng = np.random.default_rng(0)
    parts = [
        romdp.simulate(world, leaning(rng.integers(0, 2, 15), 0.9), N // 4, seed=i)
        for i in range(4, 8)
    ]
    assert_found(world, behaved(parts))


def test_methods_that_need_one_fixed_policy_are_refused():
    parts = [romdp.simulate(WORLDS[0], leaning(a), 1000, seed=a) for a in (0, 1)]
    for method in ("tensor", "matrix"):
        with pytest.raises(InvalidInputError, match="holds only under one fixed policy"):
            fit(behaved(parts), "page", "offer", "paid", "user", method=method)


def test_decisions_one_by_one_are_a_log():
    """A bandit's log: every episode has one row, and only rewards tell states apart."""
    rng, n = np.random.default_rng(0), 4_000
    kind = rng.integers(3, size=30)
    shown, done = rng.integers(30, size=n), rng.integers(3, size=n)
    paid = rng.random(n) < np.where(done == kind[shown], 0.8, 0.2)
    log = {"x": shown, "a": done, "r": paid, "who": np.arange(n)}
    model = romdp.fit(log, "x", "a", "r", "who")
    assert model.partition == Partition(kind)
    assert model.objective == "episodic"
    assert model.act(range(30)).tolist() == kind.tolist()
    assert 0.5 < model.value_lower < 0.85  # 0.8 but for luck; whoever wrote the log earns 0.4
    assert "decisions one by one" in str(model)
    del log["r"]
    with pytest.raises(InvalidInputError, match=r"one row only and there are no rewards.*'who'"):
        romdp.fit(log, "x", "a", episode="who")
