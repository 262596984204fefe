"""What is read back: tables of runs and their summary."""

import json
import shutil
import tracemalloc

import numpy as np
import pytest
import scipy.stats
from cases import lose, small

import romdp
from romdp.data.partition import Partition
from romdp.experiments.directory import RunDirectory, load_runs
from romdp.experiments.running import grouping_facts, run_experiment
from romdp.experiments.specification import RunSpec
from romdp.experiments.store import TABLES, pack, tables_of, unpack
from romdp.experiments.summary import (
    bootstrap,
    format_summary,
    interquartile_mean,
    limit_constant,
    slope,
    summarise,
)
from romdp.experiments.worlds import NamedWorld
from romdp.playing.run import EPOCH_COLUMNS, Run


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    made = RunDirectory.create(
        tmp_path_factory.mktemp("summary") / "x", small(seeds=4, steps=500, observations=(6,))
    )
    run_experiment(made)
    return made


def final(directory, agent, name):
    frame = load_runs(directory.path).to_pandas()
    last = frame[(frame.agent == agent) & (frame.step == frame.step.max())]
    return last.sort_values("seed")[name].to_numpy()


def test_figures_are_those_of_the_tables(directory):
    (cell,) = summarise(directory)["cells"]
    assert (cell["world"], cell["n_observations"]) == ("random-romdp", 6)
    for figures, agent in zip(cell["agents"], ("ucrl2", "oracle"), strict=True):
        assert (figures["agent"], figures["seeds"]) == (agent, 4)
        for name in ("regret", "pseudo_regret", "n_clusters"):
            values = final(directory, agent, name)
            assert figures[name]["mean"] == pytest.approx(values.mean())
            trimmed = scipy.stats.trim_mean(values, 0.25)
            assert figures[name]["interquartile_mean"] == pytest.approx(trimmed)
            low, high = figures[name]["mean_interval"]
            assert values.min() <= low <= values.mean() <= high <= values.max()
    ucrl2, oracle = cell["agents"]
    assert (oracle["exact"], oracle["refines"], oracle["steps_to_exact"]) == (1.0, 1.0, 0.0)
    assert (ucrl2["exact"], ucrl2["refines"], ucrl2["steps_to_exact"]) == (0.0, 1.0, None)
    assert oracle["seconds"] > 0


def test_differences_are_paired(directory):
    (cell,) = summarise(directory)["cells"]
    (pair,) = cell["differences"]
    expected = final(directory, "ucrl2", "pseudo_regret") - final(
        directory, "oracle", "pseudo_regret"
    )
    assert pair["agents"] == ["ucrl2", "oracle"]
    assert pair["pairs"] == 4
    assert pair["pseudo_regret"]["mean"] == pytest.approx(expected.mean())
    assert pair["first_is_better"] == (expected < 0).sum()
    low, high = pair["pseudo_regret"]["mean_interval"]
    assert expected.min() <= low <= high <= expected.max()


def test_runs_that_are_not_there_are_left_out_of_pairs(directory, tmp_path):
    copy = RunDirectory.open(shutil.copytree(directory.path, tmp_path / "x"))
    run = directory.experiment.runs[0]
    lose(copy, run)
    summary = summarise(copy)
    (cell,) = summary["cells"]
    assert summary["runs"]["missing"] == [run.id]
    assert summary["runs"]["finished"] == 7
    assert cell["agents"][0]["seeds"] == 3
    assert cell["differences"][0]["pairs"] == 3


def test_nothing_done_yet(tmp_path):
    empty = RunDirectory.create(tmp_path / "x", small())
    summary = summarise(empty)
    assert summary["runs"]["finished"] == 0
    assert all(not cell["agents"] and not cell["differences"] for cell in summary["cells"])
    json.dumps(summary, allow_nan=False)


def test_the_same_runs_give_the_same_summary_and_plain_json(directory):
    first, second = summarise(directory), summarise(directory)
    assert first == second
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    assert "'paper' times 0.1" in first["confidence"]
    assert "paired" in first["meaning"]["differences"]


def test_slope_looks_at_the_last_decade_only():
    step = np.array([1, 50, 99, 100, 400, 900, 1000])
    figure = np.where(step < 100, 1e6, 5 - 3 * np.sqrt(step))
    assert slope(step, figure) == pytest.approx(-3)
    assert np.isnan(slope(np.array([1]), np.array([2.0])))
    assert np.isnan(slope(step, figure * np.nan))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 11])
def test_interquartile_mean_is_a_trimmed_mean(size):
    values = np.random.default_rng(size).normal(size=(3, size))
    expected = scipy.stats.trim_mean(values, 0.25, axis=1)
    np.testing.assert_allclose(interquartile_mean(values), expected)


def test_bootstrap_intervals_agree_with_scipy():
    values = np.random.default_rng(1).exponential(size=30)

    def mean(array, axis=-1):
        return array.mean(axis=axis)

    (mine,) = bootstrap(values, mean)
    theirs = scipy.stats.bootstrap(
        (values,), mean, n_resamples=2_000, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    # Both quantiles have a resampling error of about 0.01; a false alarm at 0.07 is 5 sigma.
    np.testing.assert_allclose(mine, theirs, atol=0.07)
    assert bootstrap(values, interquartile_mean, mean)[1] == mine
    assert np.isnan(bootstrap(values[:1], mean)).all()


def test_bootstrap_of_many_values_is_frugal():
    values = np.random.default_rng(1).normal(size=20_000)
    tracemalloc.start()
    ((low, high),) = bootstrap(values, lambda array: array.mean(axis=-1))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64e6  # all resamples at once would take 320 MB
    # The mean of 20,000 has a standard error of 0.0071: the interval is four of them wide.
    assert high - low == pytest.approx(3.92 * values.std() / np.sqrt(values.size), rel=0.15)


def test_one_table_per_world_with_aligned_columns(tmp_path):
    directory = RunDirectory.create(tmp_path / "x", small(steps=200))
    run_experiment(directory)
    summary = summarise(directory)
    text = format_summary(summary)
    lines = text.splitlines()
    assert lines[0].startswith("8 of 8 runs of 200 steps; Hoeffding")
    assert "for all optimistic agents" in lines[0]
    for size, cell in zip((6, 9), summary["cells"], strict=True):
        place = lines.index(f"random-romdp, {size} observations")
        header, ucrl2, oracle = lines[place + 1 : place + 4]
        assert len(header) == len(ucrl2) == len(oracle)
        assert header.startswith("agent")
        assert ucrl2.startswith("ucrl2 (2)")
        regret = f"{cell['agents'][1]['regret']['mean']:,.1f}"
        assert regret in oracle
        assert "100%" in oracle
        assert "paired by seed" in lines[place + 4]
        assert lines[place + 5].startswith("  ucrl2 - oracle: ")
        assert lines[place + 5].endswith("of 2")


def test_regret_stands_beside_the_limit(tmp_path):
    experiment = small(steps=200)
    directory = RunDirectory.create(tmp_path / "x", experiment)
    run_experiment(directory)
    summary = summarise(directory)
    for (spec, size), cell in zip(experiment.cells, summary["cells"], strict=True):
        constants = [romdp.theory.lower_bound(spec.make(size, seed)) for seed in range(2)]
        assert cell["limit"] == pytest.approx(np.mean(constants) * np.log(200))
        for agent in cell["agents"]:
            expected = agent["pseudo_regret"]["mean"] / cell["limit"]
            assert agent["over_limit"] == pytest.approx(expected)
    assert "/ C log N" in format_summary(summary)


def test_worlds_that_are_too_large_have_no_limit():
    world = NamedWorld("random-mdp", {"n_actions": 2})
    experiment = small(worlds=(world,), observations=(51,))
    assert limit_constant(experiment, *experiment.cells[0]) is None


def test_what_is_not_known_is_a_dash(tmp_path):
    directory = RunDirectory.create(tmp_path / "x", small(steps=50, seeds=1, agents=("ucrl2",)))
    assert "no run is finished" in format_summary(summarise(directory))
    run_experiment(directory)
    text = format_summary(summarise(directory))
    assert "None" not in text
    assert "nan" not in text
    assert " - " in text
    assert "paired by seed" not in text


SPEC = RunSpec("lc-psrl", "random-romdp", 6, 4)
OTHER = RunSpec("lc-psrl", "random-romdp", 6, 5)
WORLD = romdp.worlds.random_romdp(n_states=2, n_actions=2, n_observations=6, seed=3)
STEPS = 3000


def a_run(groupings, starts=(0, 10, 30)):
    epochs = np.zeros(len(starts), EPOCH_COLUMNS).view(np.recarray)
    epochs.start = starts
    epochs.n_clusters = np.arange(len(starts)) + 1
    steps = np.array([1, 10, 11, 40])
    figures = np.array([0.5, 1.0, 2.0, 3.0])
    return Run(steps, figures, -figures, 2 * figures, epochs, groupings[-1][1], groupings, "x", 0)


def table_of(kind, run, hidden_states=WORLD.labels):
    return unpack(kind, pack(tables_of(run, hidden_states))[kind], len(hidden_states))


@pytest.fixture(scope="module")
def played():
    return romdp.play(romdp.LCPSRL(), WORLD, steps=STEPS, seed=0)


def test_figures(played):
    table = table_of("figures", played)
    assert [*table] == ["step", "regret", "pseudo_regret", "n_clusters", "reward"]
    own = played.to_arrow()
    for name in own.column_names:
        assert table[name].tolist() == own[name].to_pylist()
    assert table["regret"].dtype == table["reward"].dtype == np.float64
    assert table["step"].dtype == table["n_clusters"].dtype == np.int64


def test_epochs(played):
    table = table_of("epochs", played)
    assert table["epoch"].tolist() == list(range(1, len(played.epochs) + 1))
    for name in ("start", "length", "n_clusters", "gain", "sweeps"):
        np.testing.assert_array_equal(table[name], played.epochs[name])


def test_groups():
    first, second = Partition([0, 1, 2, 3, 4, 5]), Partition([0, 0, 1, 1, -1, 0])
    table = table_of("groups", a_run(((1, first), (3, second))))
    assert table["epoch"].tolist() == [0, 1, 3]
    assert table["step"].tolist() == [0, 0, 30]
    assert table["labels"].tolist() == [
        WORLD.labels.tolist(),
        [*range(6)],
        [0, 0, 1, 1, -1, 0],
    ]


def test_of_very_many_groupings_the_ends_and_200_are_kept():
    many = tuple((i + 1, Partition([0, i % 2])) for i in range(1000))
    table = table_of("groups", a_run(many, starts=range(1000)), np.array([0, 1]))
    truth, *epochs = table["epoch"].tolist()
    assert truth == 0
    assert len(epochs) == len(set(epochs)) == 202
    assert (epochs[0], epochs[-1]) == (1, 1000)


def test_an_agent_without_epochs():
    steps = np.array([1, 2])
    nothing = np.empty(0, EPOCH_COLUMNS).view(np.recarray)
    partition = Partition.singletons(6)
    run = Run(steps, steps * 1.0, steps * np.nan, steps * np.nan, nothing, partition, (), "dqn", 0)
    assert table_of("figures", run)["n_clusters"].tolist() == [6, 6]
    assert len(table_of("epochs", run)["start"]) == 0
    assert table_of("groups", run)["labels"].tolist()[1] == [*range(6)]
    assert grouping_facts(run, np.arange(6))["steps_to_exact"] == 0


def test_exactness():
    truth = Partition(WORLD.labels)
    fine, coarse = Partition.singletons(6), Partition.trivial(6)
    found = grouping_facts(a_run(((1, fine), (2, coarse), (3, truth))), WORLD.labels)
    assert found == {"exact": True, "refines": True, "steps_to_exact": 30}
    found = grouping_facts(a_run(((1, truth), (3, fine))), WORLD.labels)
    assert found == {"exact": False, "refines": True, "steps_to_exact": None}
    found = grouping_facts(a_run(((1, coarse),)), WORLD.labels)
    assert found == {"exact": False, "refines": False, "steps_to_exact": None}


@pytest.mark.parametrize("kind", TABLES)
def test_the_same_run_makes_the_same_bytes(played, kind):
    again = romdp.play(romdp.LCPSRL(), WORLD, STEPS, seed=0)
    first, second = (pack(tables_of(run, WORLD.labels))[kind] for run in (played, again))
    assert first == second
    table = unpack(kind, first, 6)
    assert [*table] == [*TABLES[kind]]
    lengths = {len(column) for column in table.values()}
    assert lengths == {0} if kind == "returns" else len(lengths) == 1  # there are no episodes
