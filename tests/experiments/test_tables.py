import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import romdp
from romdp.core.errors import StorageError
from romdp.data.partition import Partition
from romdp.experiments.running import grouping_facts
from romdp.experiments.specification import RunSpec
from romdp.experiments.tables import KINDS, join, pack_tables, schema, to_parquet, unpack
from romdp.playing.run import EPOCH_COLUMNS, Run

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
    return unpack(kind, pack_tables(run, hidden_states)[kind])


@pytest.fixture(scope="module")
def played():
    return romdp.play(romdp.LCPSRL(), WORLD, steps=STEPS, seed=0)


def test_figures(played):
    table = table_of("figures", played)
    assert table.column_names == ["step", "regret", "pseudo_regret", "n_clusters", "reward"]
    own = played.to_arrow()
    for name in own.column_names:
        assert table[name].to_pylist() == own[name].to_pylist()
    kinds = {field.name: str(field.type) for field in table.schema}
    assert kinds["regret"] == kinds["reward"] == "double"
    assert kinds["step"] == kinds["n_clusters"] == "int64"


def test_epochs(played):
    table = table_of("epochs", played)
    assert table["epoch"].to_pylist() == list(range(1, len(played.epochs) + 1))
    for name in ("start", "length", "n_clusters", "gain", "sweeps"):
        np.testing.assert_array_equal(table[name].to_numpy(), played.epochs[name])


def test_groups():
    first, second = Partition([0, 1, 2, 3, 4, 5]), Partition([0, 0, 1, 1, -1, 0])
    table = table_of("groups", a_run(((1, first), (3, second))))
    assert table["epoch"].to_pylist() == [0, 1, 3]
    assert table["step"].to_pylist() == [0, 0, 30]
    assert table["labels"].to_pylist() == [
        WORLD.labels.tolist(),
        [*range(6)],
        [0, 0, 1, 1, -1, 0],
    ]


def test_of_very_many_groupings_the_ends_and_200_are_kept():
    many = tuple((i + 1, Partition([0, i % 2])) for i in range(1000))
    table = table_of("groups", a_run(many, starts=range(1000)), np.array([0, 1]))
    truth, *epochs = table["epoch"].to_pylist()
    assert truth == 0
    assert len(epochs) == len(set(epochs)) == 202
    assert (epochs[0], epochs[-1]) == (1, 1000)


def test_an_agent_without_epochs():
    steps = np.array([1, 2])
    nothing = np.empty(0, EPOCH_COLUMNS).view(np.recarray)
    partition = Partition.singletons(6)
    run = Run(steps, steps * 1.0, steps * np.nan, steps * np.nan, nothing, partition, (), "dqn", 0)
    assert table_of("figures", run)["n_clusters"].to_pylist() == [6, 6]
    assert table_of("epochs", run).num_rows == 0
    assert table_of("groups", run)["labels"].to_pylist()[1] == [*range(6)]
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


def two(kind, played):
    table = table_of(kind, played)
    return join(kind, [3, 8], [SPEC, OTHER], [table, table])


@pytest.mark.parametrize("kind", KINDS)
def test_joined_tables_name_their_runs_and_make_the_same_bytes(played, kind):
    joined = two(kind, played)
    content = to_parquet(joined)
    assert to_parquet(two(kind, romdp.play(romdp.LCPSRL(), WORLD, STEPS, seed=0))) == content
    read = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(content)).read()
    assert read.schema.names == schema(kind, joined=True).names
    assert set(read["run"].to_pylist()) == {3, 8}
    assert set(read["seed"].to_pylist()) == {4, 5}
    assert set(read["agent"].to_pylist()) == {"lc-psrl"}


def test_what_is_no_table_is_refused(played):
    packed = pack_tables(played, WORLD.labels)
    for content in (b"", b"x" * 100, packed["figures"][:200], packed["epochs"]):
        with pytest.raises(StorageError, match="damaged"):
            unpack("figures", content)
