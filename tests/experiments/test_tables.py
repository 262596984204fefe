import io

import numpy as np
import pyarrow.parquet
import pytest

import romdp
from romdp.data.partition import Partition
from romdp.experiments.specification import RunSpec
from romdp.experiments.tables import (
    epochs_table,
    figures_table,
    grouping_facts,
    groups_table,
    to_parquet,
)
from romdp.playing.run import EPOCH_COLUMNS, Run

SPEC = RunSpec("lc-psrl", "random-romdp", 6, 4)
WORLD = romdp.worlds.random_romdp(n_states=2, n_actions=2, n_observations=6, seed=3)
NAMES = {"agent": "lc-psrl", "world": "random-romdp", "n_observations": 6, "seed": 4}


def a_run(groupings, starts=(0, 10, 30)):
    epochs = np.zeros(len(starts), EPOCH_COLUMNS).view(np.recarray)
    epochs.start = starts
    epochs.n_clusters = np.arange(len(starts)) + 1
    steps = np.array([1, 10, 11, 40])
    figures = np.array([0.5, 1.0, 2.0, 3.0])
    return Run(steps, figures, -figures, 2 * figures, epochs, groupings[-1][1], groupings, "x", 0)


@pytest.fixture(scope="module")
def played():
    return romdp.play(romdp.LCPSRL(), WORLD, steps=3000, seed=0)


def check_names(table):
    for name, value in NAMES.items():
        assert set(table[name].to_pylist()) == {value}
    assert table.schema.field("agent").type == pyarrow.string()
    assert table.schema.field("seed").type == pyarrow.int64()


def test_figures(played):
    table = figures_table(SPEC, played)
    check_names(table)
    assert table.column_names == [
        *NAMES,
        *("step", "regret", "pseudo_regret", "n_clusters", "reward"),
    ]
    own = played.to_arrow()
    for name in own.column_names:
        assert table[name].to_pylist() == own[name].to_pylist()
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds["regret"] == kinds["reward"] == "double"
    assert kinds["step"] == kinds["n_clusters"] == "int64"


def test_epochs(played):
    table = epochs_table(SPEC, played)
    check_names(table)
    assert table["epoch"].to_pylist() == list(range(1, len(played.epochs) + 1))
    for name in ("start", "length", "n_clusters", "gain", "sweeps"):
        np.testing.assert_array_equal(table[name].to_numpy(), played.epochs[name])


def test_groups():
    first, second = Partition([0, 1, 2, 3, 4, 5]), Partition([0, 0, 1, 1, -1, 0])
    table = groups_table(SPEC, a_run(((1, first), (3, second))), WORLD.labels)
    check_names(table)
    assert table["epoch"].to_pylist() == [1] * 6 + [3] * 6
    assert table["step"].to_pylist() == [0] * 6 + [30] * 6
    assert table["observation"].to_pylist() == [*range(6)] * 2
    assert table["group"].to_pylist() == [*range(6), 0, 0, 1, 1, -1, 0]
    assert table["hidden_state"].to_pylist() == WORLD.labels.tolist() * 2


def test_of_very_many_groupings_the_ends_and_200_are_kept():
    many = tuple((i + 1, Partition([0, i % 2])) for i in range(1000))
    run = a_run(many, starts=range(1000))
    table = groups_table(SPEC, run, np.array([0, 1]))
    epochs = table["epoch"].to_pylist()[::2]
    assert len(epochs) == len(set(epochs)) == 202
    assert (epochs[0], epochs[-1]) == (1, 1000)


def test_an_agent_without_epochs():
    steps = np.array([1, 2])
    nothing = np.empty(0, EPOCH_COLUMNS).view(np.recarray)
    partition = Partition.singletons(6)
    run = Run(steps, steps * 1.0, steps * np.nan, steps * np.nan, nothing, partition, (), "dqn", 0)
    assert figures_table(SPEC, run)["n_clusters"].to_pylist() == [6, 6]
    assert epochs_table(SPEC, run).num_rows == 0
    assert groups_table(SPEC, run, WORLD.labels)["group"].to_pylist() == [*range(6)]
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


def test_the_same_table_gives_the_same_bytes(played):
    content = to_parquet(figures_table(SPEC, played))
    again = romdp.play(romdp.LCPSRL(), WORLD, steps=3000, seed=0)
    assert to_parquet(figures_table(SPEC, again)) == content
    read = pyarrow.parquet.read_table(io.BytesIO(content))
    assert read.equals(figures_table(SPEC, played))
