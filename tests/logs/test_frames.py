"""Logs in frames of other libraries: polars, and pandas beside it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import romdp
from romdp.core.errors import InvalidInputError
from romdp.logs import fit
from romdp.logs.applying import apply_model

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=15, seed=1)
SEEN = romdp.simulate(WORLD, "uniform", 8_000, seed=0)
COLUMNS = {
    "page": [f"page-{o:02d}" for o in SEEN.observations],
    "offer": SEEN.actions,
    "paid": SEEN.rewards,
    "user": np.arange(8_000) // 40,
}
NAMES = ("page", "offer", "paid", "user")
FRAME = pl.DataFrame(COLUMNS)
TRUTH = romdp.Partition(WORLD.labels)
PAGES = sorted(set(COLUMNS["page"]))


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.lazy(),
        FRAME.with_columns(pl.col("page").cast(pl.Categorical)),
        FRAME.with_columns(pl.col("page").cast(pl.Enum(PAGES))),
        FRAME.with_columns(pl.col("offer").cast(pl.UInt8), pl.col("paid").cast(pl.Float32)),
        pd.DataFrame(COLUMNS),
        pd.DataFrame(COLUMNS).astype({"page": "category", "offer": "int8"}),
    ],
    ids=["polars", "lazy", "categorical", "enum", "narrow", "pandas", "category"],
)
def test_every_frame_teaches_the_same(frame):
    model = fit(frame, *NAMES)
    assert model.observation_names == tuple(PAGES)
    assert model.partition == TRUTH
    assert model.counts.n_transitions == 8_000 - 200


def test_answers_for_columns_of_frames(tmp_path):
    model = fit(FRAME, *NAMES)
    expected = model.predict(COLUMNS["page"])
    np.testing.assert_array_equal(model.predict(FRAME["page"]), expected)
    np.testing.assert_array_equal(model.predict(pd.Series(COLUMNS["page"])), expected)
    np.testing.assert_array_equal(model.act(FRAME["page"]), model.policy[expected])
    for page in ("page", pl.col("page").cast(pl.Categorical)):
        out = tmp_path / "answer.parquet"
        assert apply_model(model, FRAME.with_columns(page), out) == 8_000
        answer = pl.read_parquet(out)
        assert answer["hidden_state"].to_list() == expected.tolist()
        assert answer["page"].cast(pl.String).to_list() == COLUMNS["page"]


def test_a_missing_value_in_a_frame_is_named_by_its_row():
    holes = pl.when(pl.col("user") == 3).then(None).otherwise(pl.col("paid"))
    with pytest.raises(InvalidInputError, match=r"row 121 of the table, column 'paid': the value"):
        fit(FRAME.with_columns(paid=holes), *NAMES)
    with pytest.raises(InvalidInputError, match=r"no column 'pages'; did you mean 'page'\?"):
        fit(FRAME, "pages")
    lists = pl.DataFrame({"page": [[1], [2]]})
    with pytest.raises(InvalidInputError, match="fewer than 20 steps lead to a vector"):
        fit(lists, "page")
