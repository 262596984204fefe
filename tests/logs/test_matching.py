"""Names matched between a model and tables of any kind."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import romdp
from romdp.logs import fit
from romdp.logs.applying import apply_model
from romdp.logs.matching import Matcher

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=6, seed=1)
SEEN = romdp.simulate(WORLD, "uniform", 2000, seed=0)
DAY = datetime.datetime(2024, 1, 31, 18, 5)
HOURS = [DAY + datetime.timedelta(hours=i) for i in range(6)]

COLUMNS = {
    "whole": pa.array([-3, 0, 1, 2**53 + 1, 2**62, 7]),
    "unsigned": pa.array([2**63 + i for i in range(6)], pa.uint64()),
    "truth": pa.array([True, False] * 3),
    "double": pa.array([0.1, 1 / 3, 1e300, -2.0, 1e-5, 123456789.125]),
    "single": pa.array(np.array([0.1, 1 / 3, 1e30, -2.0, 1e-5, 0.7], np.float32)),
    "decimal": pa.array([Decimal(i) / 8 for i in range(6)], pa.decimal128(20, 5)),
    "seconds": pa.array(HOURS, pa.timestamp("s")),
    "micros": pa.array(HOURS, pa.timestamp("us")),
    "zoned": pa.array(HOURS, pa.timestamp("us", "Europe/Berlin")),
    "date": pa.array([hour.date() + datetime.timedelta(i) for i, hour in enumerate(HOURS)]),
    "time": pa.array([hour.time() for hour in HOURS], pa.time64("us")),
    "text": pa.array(["1", "1.0", "true", "True", "", "a\nb"]),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_names_are_found_in_every_format(tmp_path, kind):
    """Version 0.1 placed no row of a CSV file with truth values or times, and few floats."""
    values = COLUMNS[kind].take(pa.array(SEEN.observations))
    table = pa.table({"page": values, "offer": SEEN.actions, "paid": SEEN.rewards})
    if kind == "text":
        table = table.filter(pa.compute.not_equal(table["page"], ""))  # CSV: a missing value
    pyarrow.csv.write_csv(table, tmp_path / "new.csv")
    typed = fit(table, "page", "offer", "paid")
    assert apply_model(typed, tmp_path / "new.csv", tmp_path / "out.parquet").n_unplaced == 0
    states = pa.parquet.read_table(tmp_path / "out.parquet")["hidden_state"]
    assert states.to_pylist() == typed.predict(table["page"]).tolist()

    of_text = fit(tmp_path / "new.csv", "page", "offer", "paid")
    assert apply_model(of_text, table, tmp_path / "out.parquet").n_unplaced == 0
    back = pa.parquet.read_table(tmp_path / "out.parquet")["hidden_state"]
    lines = pyarrow.csv.read_csv(
        tmp_path / "new.csv",
        convert_options=pyarrow.csv.ConvertOptions(column_types={"page": pa.string()}),
    )
    names = lines["page"].to_pylist()
    assert back.to_pylist() == of_text.predict(names).tolist()


def test_text_that_reads_as_two_names_finds_neither():
    known = Matcher(["1", "1.0", "2"])
    assert known.find([1, 2]) == [0, 2]  # "1" is exactly how 1 is written
    assert known.find([1.0, 2.0]) == [1, 2]
    assert Matcher(["1.0", "1.00", "2"]).find([1, 2]) == [-1, 2]


def test_text_that_is_not_of_the_kind_is_unknown():
    assert Matcher([1, 2]).find(["2", "2.0", "2.5", "two", "", "9" * 400]) == [1, 1, -1, -1, -1, -1]
    assert Matcher([True, False]).find(["TRUE", "0", "no"]) == [0, 1, -1]
    assert Matcher([DAY]).find(["2024-01-31T18:05", "2024-01-31", "x"]) == [0, -1, -1]


def test_rows_without_a_state_are_counted_and_shown(tmp_path):
    model = fit(SEEN)
    data = {"page": [0, 1, 99, None, 99, 98, 97, 96, 95]}
    found = apply_model(model, data, tmp_path / "out.csv", "page")
    assert (int(found), found.n_unplaced) == (9, 7)
    assert found.examples == (99, None, 98, 97, 96)
    assert found.describe() == (
        "9 rows, 7 of them without a hidden state, since the model does not know their "
        "observation: 99, a missing value, 98, 97, 96, ..."
    )
    all_known = apply_model(model, {"page": [0]}, tmp_path / "out.csv", "page")
    assert all_known.describe() == "1 row, 0 of them without a hidden state"
