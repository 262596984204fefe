"""Logs that another engine has counted."""

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner
from walks import walk

from romdp.cli import app
from romdp.core.errors import InvalidInputError
from romdp.logs import Columns, count_logs, fit
from romdp.logs.reading.tallies import read_counts

QUERY = """
SELECT place AS observation, step AS action, next AS next_observation, over AS terminated,
       count(*) AS n, sum(CASE WHEN t = 1 THEN 1 ELSE 0 END) AS starts,
       sum(paid) AS reward_sum, sum(paid * paid) AS reward_squares,
       min(paid) AS reward_min, max(paid) AS reward_max
FROM (SELECT *, lead(place) OVER (PARTITION BY walk ORDER BY minute) AS next,
             row_number() OVER (PARTITION BY walk ORDER BY minute) AS t
      FROM log)
GROUP BY place, step, next, over
"""


def rows(n=200, seed=0):
    log = walk(n, seed)
    log["minute"] = list(range(len(log["walk"])))
    return log


@pytest.fixture(scope="module")
def counted():
    log = pa.table(rows())  # noqa: F841 - the query reads it by its name
    return duckdb.sql(QUERY).to_arrow_table()


def test_the_query_counts_what_we_count(counted):
    ours = count_logs(rows(), Columns("place", "step", "paid", "walk", None, "over"), holdout=0)
    theirs = read_counts(counted)
    assert theirs.observation_names == ours.observation_names
    np.testing.assert_array_equal(theirs.counts.visits, ours.counts.visits)
    np.testing.assert_allclose(theirs.counts.reward_sums, ours.counts.reward_sums)
    np.testing.assert_array_equal(theirs.starts, ours.starts)
    np.testing.assert_array_equal(theirs.ends.visits, ours.ends.visits)
    np.testing.assert_allclose(theirs.ends.reward_sums, ours.ends.reward_sums)
    inside = [log.counts.matrix() - log.ends.matrix() for log in (theirs, ours)]
    assert abs(inside[0] - inside[1]).sum() == 0  # restarts are drawn, the rest is exact
    assert theirs.n_rows == ours.n_rows
    assert theirs.n_episodes == ours.n_episodes


def test_a_model_comes_of_it(counted, tmp_path):
    model = fit(counted, counts=True)
    whole = fit(rows(), "place", "step", "paid", "walk", terminated="over", holdout=0)
    assert model.objective == "episodic"
    assert model.partition == whole.partition
    np.testing.assert_array_equal(model.act([0, 1, 2, 3, 4]), whole.act([0, 1, 2, 3, 4]))
    path = tmp_path / "counts.parquet"
    pq.write_table(counted, path)
    done = CliRunner().invoke(app, ["fit", "--counts", str(path), "--out", str(tmp_path / "m")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "m" / "model.json").exists()


def test_wrong_tables_are_refused(counted, tmp_path):
    with pytest.raises(InvalidInputError, match="no column 'starts', so it is no table of counts"):
        read_counts(counted.drop_columns(["starts"]))
    with pytest.raises(InvalidInputError, match="no column 'reward_max' beside"):
        read_counts(counted.drop_columns(["reward_max"]))
    with pytest.raises(InvalidInputError, match="fixed names"):
        fit(counted, "place", counts=True)
    for column, value, words in (
        ("n", 0, "is no whole number from 1"),
        ("starts", 10**6, "is larger than n"),
        ("observation", None, "is missing"),
        ("reward_sum", float("nan"), "is not a finite number"),
        ("reward_sum", 1e9, "does not lie between"),
    ):
        values = [float(x) for x in counted.column(column).to_pylist()]
        values[3] = value
        bad = counted.set_column(counted.column_names.index(column), column, pa.array(values))
        with pytest.raises(InvalidInputError, match=f"row 4 of the table, column .*{words}"):
            read_counts(bad)
