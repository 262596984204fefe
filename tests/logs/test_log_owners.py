"""What owners of logs stumble over: separators, missing cells, ties, flags, forgotten columns."""

import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain_logs import Cluster, assert_same, plain_counts, random_rows
from typer.testing import CliRunner

import romdp
from romdp.cli import app
from romdp.core.errors import InvalidInputError
from romdp.logs import Columns, apply_model, count_logs, evaluate, fit
from romdp.logs.reading.counting import read_rows
from romdp.logs.reading.stretches import add_up, link

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
SEEN = romdp.simulate(WORLD, "uniform", 8_000, seed=0)
FRAME = pd.DataFrame(
    {
        "page": [f"page {o // 4}" for o in SEEN.observations],
        "device": [f"device, {o % 4}" for o in SEEN.observations],
        "offer": SEEN.actions,
        "paid": SEEN.rewards,
        "user": np.arange(8_000) // 40,
        "minute": np.arange(8_000) // 3,
    }
)
ROLES = {"action": "offer", "reward": "paid", "episode": "user", "order": "minute"}
TRUTH = romdp.Partition(WORLD.labels)


@pytest.mark.parametrize(
    ("separator", "name"), [(",", "a.csv"), (";", "a.csv.gz"), ("\t", "a.tsv")]
)
def test_separators_are_recognised(tmp_path, separator, name):
    FRAME.to_csv(tmp_path / name, sep=separator, index=False)
    found = fit(tmp_path / name, ["page", "device"], **ROLES)
    assert found.partition == TRUTH
    assert_same(found.counts, fit(FRAME, ["page", "device"], **ROLES).counts)


def test_a_header_in_quotes_may_hold_other_separators(tmp_path):
    (tmp_path / "a.csv").write_text('"last, first, and more";x\na;1\nb;2\na;3\n')
    log = count_logs(tmp_path / "a.csv", Columns("last, first, and more"), holdout=0)
    assert log.observation_names == ("a", "b")


@pytest.mark.parametrize("suffix", ["jsonl", "ndjson"])
def test_json_lines(tmp_path, suffix):
    FRAME.assign(paid=FRAME["paid"].astype(int)).to_json(
        tmp_path / f"a.{suffix}", orient="records", lines=True
    )
    found = fit(tmp_path / f"a.{suffix}", ["page", "device"], **ROLES)
    assert_same(found.counts, fit(FRAME, ["page", "device"], **ROLES).counts)
    lines = [{"v": v, "do": int(a)} for v, a in zip(np.eye(3)[SEEN.observations % 3].tolist(),
                                                    SEEN.actions, strict=True)]  # fmt: skip
    (tmp_path / "v.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = read_rows(tmp_path / "v.jsonl", Columns("v", "do"))
    np.testing.assert_array_equal(rows.seen.vectors, np.eye(3)[SEEN.observations % 3])


def test_names_in_several_columns_are_one_observation(tmp_path):
    model = fit(FRAME, observation=["page", "device"], **ROLES)
    assert model.partition == TRUTH
    assert model.observation_names[0] == 'page 0,"device, 0"'
    assert model.columns["observation"] == "page,device"
    states = model.predict(FRAME[["device", "page"]])
    np.testing.assert_array_equal(states, WORLD.labels[SEEN.observations] * 0 + states)
    pairs = list(zip(FRAME["page"], FRAME["device"], strict=True))
    np.testing.assert_array_equal(model.predict(pairs), states)
    np.testing.assert_array_equal(model.predict(pl.DataFrame(FRAME)), states)
    assert model.predict(pairs[0]) == states[0]
    assert model.predict(("page 0", "nowhere")) == -1
    for form in ("csv", "parquet"):
        log, out = tmp_path / f"log.{form}", tmp_path / f"out.{form}"
        FRAME.to_csv(log, index=False) if form == "csv" else FRAME.to_parquet(log)
        assert apply_model(model, log, out).n_unplaced == 0
    assert pq.read_table(tmp_path / "out.parquet")["hidden_state"].to_pylist() == states.tolist()
    found = evaluate(FRAME, model, "page,device", "offer", "paid", "user")
    assert np.isfinite(found.estimates[3].value)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(romdp.load_model(tmp_path / "model").predict(pairs), states)
    run = ["fit", str(tmp_path / "log.csv"), "--observation", "page,device", "--action", "offer"]
    done = CliRunner().invoke(app, [*run, "--reward", "paid", "--episode", "user"])
    assert "3 hidden states behind 12 observations" in done.output


def test_numbers_and_text_together():
    whole = FRAME.assign(device=SEEN.observations % 4)
    assert fit(whole, ["page", "device"], **ROLES).partition == TRUTH
    measured = FRAME.assign(device=SEEN.observations % 4 + 0.5)
    with pytest.raises(InvalidInputError, match=r"neither a vector nor a name\. Turn the measure"):
        fit(measured, ["page", "device"], **ROLES)
    with pytest.raises(InvalidInputError, match="column 'page' cannot be named twice"):
        fit(FRAME, ["page", "page"])
    with pytest.raises(InvalidInputError, match="observation is empty"):
        fit(FRAME, [])
    with pytest.raises(InvalidInputError, match="cannot be both observation and action"):
        fit(FRAME, ["page", "offer"], action="offer")


def holes(every=7):
    pages = [f"page {o:02d}" for o in SEEN.observations]
    missing = [None if i % every == every - 1 else page for i, page in enumerate(pages)]
    return {"page": missing, **{name: FRAME[name] for name in ("offer", "paid", "user")}}


def plain(table, drop):
    """Count in plain Python: a row without a page cuts its episode, or shows ``None``."""
    rows, number, last = [], 0, None
    for page, offer, paid, user in zip(*table.values(), strict=True):
        number += user != last
        last = user
        if page is None and drop:
            number += 1
        else:
            rows.append(("~" if page is None else page, offer, paid, number))
    return plain_counts(rows)[0]


@pytest.mark.parametrize("missing", ["drop", "own"])
def test_missing_observations(missing, tmp_path):
    table = holes()
    pq.write_table(pa.table(table).slice(0, 3000), tmp_path / "a.parquet", row_group_size=100)
    pq.write_table(pa.table(table).slice(3000), tmp_path / "b.parquet", row_group_size=100)
    columns, expected = Columns("page", "offer", "paid", "user"), plain(table, missing == "drop")
    for holdout in (0, 0.3):
        for client in (None, Cluster(2)):
            log = count_logs(
                tmp_path, columns, missing=missing, holdout=holdout, client=client, batch_rows=77
            )
            assert log.counts.n_steps < log.n_rows or not holdout
            counts = log.total
            np.testing.assert_array_equal(counts.visits, expected.visits)
            np.testing.assert_array_equal(counts.transitions, expected.transitions)
            np.testing.assert_allclose(counts.reward_sums, expected.reward_sums, atol=1e-9)
            # An episode begins with its first row: where that was dropped, nobody knows how.
            assert counts.starts.sum() == (200 - 28 if missing == "drop" else 200)
    model = fit(table, "page", "offer", "paid", "user", missing=missing)
    assert (None in model.observation_names) == (missing == "own")
    assert (model.predict([None])[0] >= 0) == (missing == "own")
    assert model.predict(pd.Series([np.nan, 1.0]))[1] == -1
    assert model.settings["missing"] == missing
    model.save(tmp_path / "model")
    assert romdp.load_model(tmp_path / "model").observation_names == model.observation_names
    applied = apply_model(model, table, tmp_path / "out.parquet")
    assert applied.n_unplaced == (1142 if missing == "drop" else 0)


def test_missing_observations_are_refused_with_a_remedy():
    with pytest.raises(InvalidInputError, match=r'row 7 .*\'page\': .*missing="drop".*"own"'):
        fit(holes(), "page", "offer", "paid", "user")
    with pytest.raises(InvalidInputError, match="unknown missing 'dorp': did you mean 'drop'"):
        fit(holes(), "page", "offer", "paid", "user", missing="dorp")
    with pytest.raises(InvalidInputError, match="every observation is missing"):
        fit({"page": pa.array([None, None], pa.string())}, "page", missing="drop")
    done = CliRunner().invoke(app, ["fit", "nothing.csv", "--missing", "never"])
    assert done.exit_code != 0


def test_missing_names_of_several_columns():
    two = FRAME.assign(device=[None if i % 9 == 8 else d for i, d in enumerate(FRAME["device"])])
    with pytest.raises(InvalidInputError, match="row 9 of the table, column 'device'"):
        fit(two, ["page", "device"], **ROLES)
    own = fit(two, ["page", "device"], **ROLES, missing="own")
    assert "page 0," in own.observation_names
    dropped = fit(two, ["page", "device"], **ROLES, missing="drop")
    assert dropped.n_rows == 8_000 - 8_000 // 9
    assert "page 0," not in dropped.observation_names


def test_missing_numbers_of_vectors():
    rng = np.random.default_rng(0)
    vectors = np.eye(3)[SEEN.observations % 3] + 0.05 * rng.standard_normal((8_000, 3))
    vectors[5, 1] = np.nan
    table = {"v": vectors, "do": SEEN.actions, "paid": SEEN.rewards}
    with pytest.raises(InvalidInputError, match=r"row 6 .*'v': a number is missing; pass missing="):
        fit(table, "v", "do", "paid")
    with pytest.raises(InvalidInputError, match='vectors, which have no names; pass "drop"'):
        fit(table, "v", "do", "paid", missing="own")
    rows = read_rows(table, Columns("v", "do", "paid"), missing="drop").seen
    assert rows.lengths.tolist() == [5, 7_994]
    np.testing.assert_array_equal(rows.vectors, np.delete(vectors, 5, axis=0))
    assert rows.next_observations[[3, 4, 5]].tolist() == [4, -1, 6]


@pytest.mark.parametrize(
    ("no", "yes"),
    [("no", "yes"), ("N", "Y"), ("False", "TRUE"), ("0", "1"), (0, 1), (0.0, 1.0), (False, True)],
)
def test_flags_of_every_kind(tmp_path, no, yes):
    rows = random_rows(np.random.default_rng(0), 300, n_episodes=20)
    last = {row[3]: i for i, row in enumerate(rows)}
    names = ("page", "offer", "paid", "user")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    ended = [yes if row[3] < 10 and last[row[3]] == i else no for i, row in enumerate(rows)]
    table = table.append_column("over", pa.array(ended))
    expected = plain_counts(rows, over=range(10))[0]
    columns = Columns(*names, terminated="over")
    assert_same(count_logs(table, columns, holdout=0).counts, expected)
    pa.csv.write_csv(table, tmp_path / "a.csv")
    assert_same(count_logs(tmp_path / "a.csv", columns, holdout=0).counts, expected)


def interleaved(seed, n_users=10, n_steps=4_000):
    """Users of `WORLD` in one file, each row by one of them at random."""
    rng = np.random.default_rng(seed)
    user = rng.integers(n_users, size=n_steps)
    page = np.empty(n_steps, np.int64)
    offer = np.empty(n_steps, np.int64)
    for name in range(n_users):
        mine = np.flatnonzero(user == name)
        walk = romdp.simulate(WORLD, "uniform", len(mine), seed=100 * seed + name)
        page[mine], offer[mine] = walk.observations, walk.actions
    return {"page": page, "offer": offer, "user": user, "minute": np.arange(n_steps)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_forgotten_episode_is_noticed(seed, tmp_path):
    table = interleaved(seed)
    country = table["user"] % 2 + table["page"] % 3
    table |= {"country": country, "group": table["page"] // 4}
    pa.csv.write_csv(pa.table(table), tmp_path / "log.csv")
    for data in (table, tmp_path / "log.csv"):
        with pytest.warns(UserWarning, match=r"by column 'user'.*pass episode='user'"):
            fit(data, "page", "offer", order="minute")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(table, "page", "offer", episode="user", order="minute")


@pytest.mark.parametrize("seed", range(5))
def test_other_columns_of_one_long_episode_raise_no_alarm(seed):
    """Five columns each on five seeds: by rows, days, groups of pages, at random, and by both."""
    walk = romdp.simulate(WORLD, "uniform", 4_000, seed=seed)
    rng = np.random.default_rng(seed)
    table = {
        "page": walk.observations,
        "offer": walk.actions,
        "day": np.arange(4_000) // 400,
        "group": walk.observations // 4,
        "chance": rng.integers(5, size=4_000),
        "both": walk.observations % 2 + 2 * walk.actions,
        "hidden": WORLD.labels[walk.observations],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit(table, "page", "offer")


def test_a_model_is_only_replaced_by_force(tmp_path):
    FRAME.to_csv(tmp_path / "log.csv", index=False)
    run = ["fit", str(tmp_path / "log.csv"), "--observation", "page", "--action", "offer"]
    run += ["--episode", "user", "--out", str(tmp_path / "model")]
    assert CliRunner().invoke(app, run).exit_code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    refusal = CliRunner().invoke(app, run)
    assert isinstance(refusal.exception, InvalidInputError)
    assert "pass --force to replace it" in str(refusal.exception)
    assert {path: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
    done = CliRunner().invoke(app, [*run, "--reward", "paid", "--force"])
    assert done.exit_code == 0, done.output
    assert romdp.load_model(tmp_path / "model").reward_range == (0.0, 1.0)


def test_links_are_those_of_plain_python():
    rng = np.random.default_rng(0)
    chains = rng.integers(7, size=200)
    ages = np.zeros(200, np.int64)
    ages[0] = 5  # goes on with an episode
    before, found = link(chains, ages.copy(), 7)
    latest, counted = {}, {}
    for i, chain in enumerate(chains.tolist()):
        assert before[i] == latest.get(chain, -1)
        counted[chain] = counted[chain] + 1 if chain in counted else ages[i]
        assert found[i] == counted[chain]
        latest[chain] = i


def test_sums_hardly_depend_on_the_order():
    rng = np.random.default_rng(0)
    cells, values = rng.integers(3, size=10_000), rng.standard_normal((10_000, 3)) * [1e9, 1, 1e-9]
    sums = []
    for order in (np.arange(10_000), rng.permutation(10_000)):
        totals = np.zeros((3, 3, 2))
        add_up(cells[order], values[order], totals)
        sums.append(totals.sum(axis=2))
    np.testing.assert_array_equal(sums[0], sums[1])
    plain = [[sum(map(float, values[cells == c, k])) for k in range(3)] for c in range(3)]
    np.testing.assert_allclose(sums[0], plain, rtol=1e-9)
