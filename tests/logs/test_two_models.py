"""Does a new log follow a model, how do two models differ, and what other tools get of one."""

import datetime

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import romdp
from romdp.core.errors import InvalidInputError, MisuseError

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=3, n_observations=30, seed=2)
COLUMNS = {"observation": "page", "action": "offer", "reward": "paid", "episode": "visit"}


def log_of(seed, rows=2_000, turned=False):
    seen = romdp.simulate(WORLD, "uniform", steps=rows, seed=seed)
    done = np.array([1, 0, 2])[seen.actions] if turned else seen.actions
    return pd.DataFrame(
        {
            "visit": np.arange(rows) // 20,
            "page": np.array([f"it's {i:02d}" for i in range(30)])[seen.observations],
            "offer": np.array(["none", "coupon", "gift"])[done],
            "paid": 5.0 * seen.rewards - 1.0,
        }
    )


@pytest.fixture(scope="module")
def model():
    return romdp.fit(log_of(0, 12_000), **COLUMNS)


def test_a_new_month_follows_the_model_or_not(model):
    """Of logs in which nothing changed at most 5% seem changed: more than two of ten, 1.2%."""
    found = [model.drift(log_of(seed)) for seed in range(1, 11)]
    assert sum(drift.changed > 0 for drift in found) <= 2
    assert found[0].n_steps == 2_000
    assert "still follow" in str(found[0])
    turned = model.drift(log_of(1, turned=True))
    assert turned.changed > 0.3
    assert "no longer follows" in str(turned)
    assert turned.worst[1] in ("none", "coupon")
    dearer = log_of(2)
    dearer["paid"] += 2.0
    assert model.drift(dearer).changed > 0.5


def test_a_trajectory_and_vectors_are_compared_alike():
    seen = [romdp.simulate(WORLD, "uniform", steps=4_000, seed=seed) for seed in (0, 1)]
    assert romdp.fit(seen[0]).drift(seen[1]).changed == 0.0
    rng = np.random.default_rng(0)
    logs = [
        {
            "x": rng.normal(size=(4_000, 3)) * 0.1 + 3.0 * np.eye(3)[WORLD.labels[s.observations]],
            "offer": s.actions,
            "paid": s.rewards,
            "visit": np.arange(4_000) // 40,
        }
        for s in seen
    ]
    found = romdp.fit(logs[0], "x", "offer", "paid", "visit")
    assert found.drift(logs[1]).n_steps == 4_000
    with pytest.raises(MisuseError, match="apply_model"):
        found.to_sql()


def test_apply_says_whether_the_table_follows(model, tmp_path):
    for turned, words in ((False, "still follow"), (True, "no longer follows")):
        new = log_of(3, turned=turned)
        applied = romdp.apply_model(model, new, tmp_path / "out.parquet")
        assert words in applied.describe()
    assert romdp.apply_model(model, new[["page"]], tmp_path / "out.parquet").drift is None


def test_two_models_are_compared(model):
    same = model.compare(model)
    assert same.agreement == 1.0
    assert same.moved == same.acts == ()
    assert same.matched.tolist() == [0, 1, 2]
    again = romdp.fit(log_of(4, 12_000), **COLUMNS)
    found = model.compare(again)
    assert found.shared == 30
    assert found.agreement > 0.95
    assert len(str(found).splitlines()) == 4
    fewer = log_of(0, 12_000)
    part = romdp.fit(fewer[fewer.page > "it's 09"], **COLUMNS, missing="drop")
    assert model.compare(part).shared == 20


def test_numbers_of_states_stay_when_rows_are_added(model):
    """States are numbered by the first of their names, whatever the order of rows."""
    more = pd.concat([log_of(5, 4_000).assign(visit=lambda x: x.visit + 10_000), log_of(0, 12_000)])
    refit = romdp.fit(more, **COLUMNS)
    assert refit.predict(list(model.observation_names)).tolist() == model.partition.labels.tolist()


def test_sql_answers_what_the_model_does(model):
    log = log_of(6, 500)
    log.loc[0, "page"] = "new"
    duck = duckdb.sql(f"SELECT {model.to_sql()} AS act, {model.to_sql('state')} AS state FROM log")
    found = duck.df()
    assert [None if pd.isna(x) else x for x in found.act] == model.act(log.page).tolist()
    assert found.state.fillna(-1).astype(int).tolist() == model.predict(log.page).tolist()
    with pytest.raises(InvalidInputError, match="answer"):
        model.to_sql("policy")


def test_sql_of_several_columns_dates_and_what_is_missing():
    rng = np.random.default_rng(0)
    n, days = 4_000, [datetime.date(2026, 1, d) for d in (1, 2, 3, 4)]
    state = rng.integers(2, size=n)
    day = [days[2 * s + i] for s, i in zip(state, rng.integers(2, size=n), strict=True)]
    done = rng.integers(2, size=n)
    paid = (rng.random(n) < np.where(done == state, 0.9, 0.1)).astype(float)
    shop = np.where(rng.random(n) < 0.5, "a", None)
    log = pa.table({"day": day, "shop": pa.array(shop), "do": done, "paid": paid})
    by_day = romdp.fit(log, "day", "do", "paid")
    assert "DATE '2026-01-02'" in by_day.to_sql("state")
    by_shop = romdp.fit(log, "shop", "do", "paid", missing="own")
    assert "IS NULL" in by_shop.to_sql("state")
    shown = log.set_column(0, "day", pa.array([f'{x}, "cold"' for x in day]))
    model = romdp.fit(shown, ["day", "shop"], "do", "paid", missing="own")
    sql = f"SELECT {model.to_sql('state')} AS state FROM shown"
    found = duckdb.sql(sql).df().state.astype(int)
    assert found.tolist() == model.predict(shown.to_pandas()[["day", "shop"]]).tolist()


def test_a_frame_has_a_row_for_each_observation(model):
    frame = model.to_frame()
    assert frame.observation.tolist() == list(model.observation_names)
    assert frame.hidden_state.tolist() == model.partition.labels.tolist()
    assert frame.act.tolist() == model.act(frame.observation).tolist()
