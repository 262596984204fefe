import numpy as np
import pyarrow
import pytest

import romdp
from romdp.core.errors import StorageError
from romdp.data.partition import Partition
from romdp.experiments.specification import RunSpec
from romdp.experiments.tables import (
    KINDS,
    find_mismatches,
    from_parquet,
    grouping_facts,
    join,
    pack_tables,
    schema,
    step_grid,
    to_parquet,
    unpack,
)
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
    np.testing.assert_array_equal(step_grid(STEPS), table["step"].to_numpy())


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
    for kind in KINDS:
        joined = join(kind, [7], [SPEC], [table_of(kind, run)])
        assert find_mismatches(kind, [7], [SPEC], joined, steps) == {}


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
    read = from_parquet(kind, content)
    assert to_parquet(read) == content  # `equals` finds NaN unequal to itself
    assert read.schema == schema(kind, joined=True)
    assert set(read["run"].to_pylist()) == {3, 8}
    assert set(read["seed"].to_pylist()) == {4, 5}
    assert set(read["agent"].to_pylist()) == {"lc-psrl"}
    assert find_mismatches(kind, [3, 8], [SPEC, OTHER], read, step_grid(STEPS)) == {}


def change(table, name, row, value):
    values = table[name].to_pylist()
    values[row] = value
    place = table.column_names.index(name)
    return table.set_column(place, name, pyarrow.array(values, table.schema.field(name).type))


@pytest.mark.parametrize(
    ("kind", "name", "value", "words"),
    [
        ("figures", "step", 4, "at the steps"),
        ("figures", "regret", float("nan"), "regret is not a possible number"),
        ("figures", "reward", 1e300, "reward is not a possible number"),
        ("figures", "pseudo_regret", float("inf"), "pseudo_regret is not"),
        ("figures", "n_clusters", 7, "more groups than observations"),
        ("figures", "agent", "ucrl2", "another agent"),
        ("figures", "seed", 4, "another seed"),
        ("epochs", "start", 1, "do not follow"),
        ("epochs", "length", 10**6, "do not"),
        ("epochs", "epoch", 0, "not numbered"),
        ("groups", "epoch", -1, "not in order"),
        ("groups", "labels", [0, 1], "another number of observations"),
        ("groups", "labels", [0, 1, 2, 3, 4, 6], "impossible labels"),
        ("groups", "world", "grid", "another world"),
    ],
)
def test_what_does_not_match_is_blamed_on_its_run(played, kind, name, value, words):
    table = change(two(kind, played), name, -1, value)
    found = find_mismatches(kind, [3, 8], [SPEC, OTHER], table, step_grid(STEPS))
    assert list(found) == [1]
    assert words in found[1]


def test_rows_that_are_missing_or_empty(played):
    grid = step_grid(STEPS)
    table = two("figures", played)
    assert find_mismatches("figures", [3, 8], [SPEC, OTHER], table.slice(0, 70), grid)
    assert list(
        find_mismatches("figures", [3, 8], [SPEC, OTHER], table.slice(0, grid.size), grid)
    ) == [1]
    gap = change(table, "reward", 0, None)
    assert "gaps" in find_mismatches("figures", [3, 8], [SPEC, OTHER], gap, grid)[0]


def test_what_is_no_table_is_refused(played):
    packed = pack_tables(played, WORLD.labels)
    for content in (b"", b"x" * 100, packed["figures"][:200], packed["epochs"]):
        with pytest.raises(StorageError, match="damaged"):
            unpack("figures", content)
    for content in (b"", b"PAR1" * 10, to_parquet(two("epochs", played))):
        with pytest.raises(StorageError):
            from_parquet("figures", content)
