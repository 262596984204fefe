"""Where logs come from: files, frames, Minari, tables that were counted elsewhere."""

import gzip
import os

import duckdb
import gymnasium
import minari
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain_logs import assert_same, walk
from typer.testing import CliRunner

import romdp
from romdp.cli import app
from romdp.core.errors import InvalidInputError, StorageError
from romdp.logs import Columns, count_logs, fit
from romdp.logs.applying import apply_model
from romdp.logs.minari import read_minari
from romdp.logs.reading.sources import open_source
from romdp.logs.reading.tallies import read_counts

TABLE = pa.table({"page": ["a", "b", "a"], "paid": [1.0, 2.0, 3.0]})
COLUMNS = Columns("page", reward="paid")


def refuse(data, words, columns=COLUMNS):
    with pytest.raises(InvalidInputError, match=words):
        count_logs(data, columns)


def test_a_folder_is_read_in_the_order_of_names_without_hidden_files(tmp_path):
    for name in ("b.parquet", "a.parquet", "_SUCCESS", ".hidden.parquet", "deep/c.pq", "note.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        if name.endswith(("parquet", "pq")):
            pq.write_table(TABLE, path)
        else:
            path.write_text("?")
    labels = [os.path.relpath(piece.label, tmp_path) for piece in open_source(tmp_path)]
    assert labels == ["a.parquet", "b.parquet", os.path.join("deep", "c.pq")]


def test_what_is_not_there(tmp_path):
    refuse(tmp_path / "none.parquet", "there is no file .*none.parquet")
    refuse(str(tmp_path / "*.parquet"), "no file matches")
    refuse(tmp_path, "holds no file that ends in .parquet")
    refuse([], "list of files is empty")
    (tmp_path / "log.xlsx").write_text("?")
    refuse(tmp_path / "log.xlsx", "must end in .parquet")
    refuse(42, "cannot read logs from a int")


def test_a_file_that_is_not_what_its_name_says(tmp_path):
    (tmp_path / "a.parquet").write_text("page,paid\na,1\n")
    refuse(tmp_path / "a.parquet", "a.parquet is not a Parquet file as its name says")
    (tmp_path / "a.arrow").write_text("page,paid\na,1\n")
    refuse(tmp_path / "a.arrow", "a.arrow is not an Arrow file as its name says")
    pq.write_table(TABLE, tmp_path / "a.csv")
    refuse(tmp_path / "a.csv", "a.csv is not a CSV file as its name says")
    (tmp_path / "b.csv.gz").write_text("page,paid\na,1\n")
    with pytest.raises((InvalidInputError, StorageError), match=r"b.csv.gz"):
        count_logs(tmp_path / "b.csv.gz", COLUMNS)
    (tmp_path / "empty.parquet").write_bytes(b"")
    refuse(tmp_path / "empty.parquet", "empty.parquet is not a Parquet file")
    (tmp_path / "empty.csv").write_bytes(b"")
    refuse(tmp_path / "empty.csv", "empty.csv is empty")
    (tmp_path / "latin.csv").write_bytes("page,paid\né,1\n".encode("latin-1"))
    refuse(tmp_path / "latin.csv", "latin.csv holds text that is not UTF-8")


def test_a_damaged_parquet_file_is_refused(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"page": list(range(5000)), "paid": [0.5] * 5000}), path)
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    with pytest.raises((InvalidInputError, StorageError), match=r"log.parquet"):
        count_logs(path, COLUMNS)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a,abc", "row 3 of .*log.csv, column 'paid': 'abc' is not a number"),
        ("a,", "row 3 of .*log.csv, column 'paid': the value is missing"),
        (",1", "row 3 of .*log.csv, column 'page': the value is missing"),
        ("a,nan", "row 3 of .*log.csv, column 'paid': nan is not a finite"),
        ("a,1,2", "row 3 of .*log.csv is broken: Expected 2 columns, got 3"),
    ],
)
def test_csv_errors_name_row_and_column(tmp_path, line, words):
    path = tmp_path / "log.csv"
    path.write_text(f"page,paid\na,1\nb,2\n{line}\na,1\n")
    refuse(path, words)


def test_a_compressed_csv(tmp_path):
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("page,paid\nNA,1\nnull,2\nNA,3\n")
    log = count_logs(path, COLUMNS, holdout=0)
    assert log.observation_names == ("NA", "null")  # words like any other


def test_a_pandas_column_that_mixes_types_is_refused():
    frame = pd.DataFrame({"page": ["a", 1, "b"], "paid": [1.0, 2.0, 3.0]})
    refuse(frame, "column 'page' of the table cannot be read .*make it one type, such as text")
    refuse({"page": [1, 2.5, None, "b"]}, "column 'page' of the table cannot be read")
    refuse({"page": [1, 2**70]}, "column 'page' of the table cannot be read")


def test_columns_of_different_lengths_are_refused():
    refuse({"page": [1, 2], "paid": [1.0]}, "column 'paid' has 1 rows and 'page' 2; all columns")


def test_anything_that_speaks_arrow_will_do():
    class Frame:
        def __arrow_c_stream__(self, requested_schema=None):
            return TABLE.__arrow_c_stream__(requested_schema)

    assert count_logs(Frame(), COLUMNS, holdout=0).n_rows == 3


def test_row_numbers_go_on_within_a_file(tmp_path):
    path = tmp_path / "log.parquet"
    values = [0.5] * 50 + [float("nan")] + [0.5] * 9
    table = pa.table({"page": list(range(60)), "paid": pa.array(values, from_pandas=False)})
    pq.write_table(table, path, row_group_size=8)
    with pytest.raises(InvalidInputError, match=r"row 51 of .*log.parquet, column 'paid': nan"):
        count_logs(path, COLUMNS, batch_rows=3)


def test_what_is_no_log_is_refused_at_once(tmp_path):
    """Version 0.1 read the working directory for an empty name and crashed on foreign bytes."""
    os.mkfifo(tmp_path / "fifo.csv")
    strange = os.fsencode(tmp_path) + b"/caf\xe9.csv"
    with open(strange, "w", encoding="utf-8") as file:
        file.write("page\n1\n")
    for data, words in (
        ("", "data is ''; pass the name of a file"),
        (tmp_path / "fifo.csv", "is a FIFO or a device"),
        ("/dev/zero", "is a FIFO or a device"),
        (os.fsdecode(strange), "is not UTF-8"),
        (tmp_path, "is not UTF-8"),
        (str(tmp_path / "caf*.csv"), "is not UTF-8"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            open_source(data)


WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=15, seed=1)
SEEN = romdp.simulate(WORLD, "uniform", 8_000, seed=0)
FRAME_COLUMNS = {
    "page": [f"page-{o:02d}" for o in SEEN.observations],
    "offer": SEEN.actions,
    "paid": SEEN.rewards,
    "user": np.arange(8_000) // 40,
}
NAMES = ("page", "offer", "paid", "user")
FRAME = pl.DataFrame(FRAME_COLUMNS)
TRUTH = romdp.Partition(WORLD.labels)
PAGES = sorted(set(FRAME_COLUMNS["page"]))


@pytest.mark.parametrize(
    "frame",
    [
        FRAME,
        FRAME.lazy(),
        FRAME.with_columns(pl.col("page").cast(pl.Categorical)),
        FRAME.with_columns(pl.col("page").cast(pl.Enum(PAGES))),
        FRAME.with_columns(pl.col("offer").cast(pl.UInt8), pl.col("paid").cast(pl.Float32)),
        pd.DataFrame(FRAME_COLUMNS),
        pd.DataFrame(FRAME_COLUMNS).astype({"page": "category", "offer": "int8"}),
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
    expected = model.predict(FRAME_COLUMNS["page"])
    np.testing.assert_array_equal(model.predict(FRAME["page"]), expected)
    np.testing.assert_array_equal(model.predict(pd.Series(FRAME_COLUMNS["page"])), expected)
    np.testing.assert_array_equal(model.act(FRAME["page"]), model.policy[expected])
    for page in ("page", pl.col("page").cast(pl.Categorical)):
        out = tmp_path / "answer.parquet"
        assert apply_model(model, FRAME.with_columns(page), out) == 8_000
        answer = pl.read_parquet(out)
        assert answer["hidden_state"].to_list() == expected.tolist()
        assert answer["page"].cast(pl.String).to_list() == FRAME_COLUMNS["page"]


def test_a_missing_value_in_a_frame_is_named_by_its_row():
    holes = pl.when(pl.col("user") == 3).then(None).otherwise(pl.col("paid"))
    with pytest.raises(InvalidInputError, match=r"row 121 of the table, column 'paid': the value"):
        fit(FRAME.with_columns(paid=holes), *NAMES)
    with pytest.raises(InvalidInputError, match=r"no column 'pages'; did you mean 'page'\?"):
        fit(FRAME, "pages")
    lists = pl.DataFrame({"page": [[1], [2]]})
    with pytest.raises(InvalidInputError, match="fewer than 4 steps lead to a vector"):
        fit(lists, "page")


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
    assert_same(theirs.counts, ours.counts)
    assert ours.counts.has_ends
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
    assert (tmp_path / "m" / "model.npz").exists()


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
        ("reward_squares", 1e9, "is no sum of the squares"),
        ("reward_squares", -1.0, "is no sum of the squares"),
        ("reward_max", 1e151, "lies too far from zero"),
        ("n", 2.0**53, "add up to more than"),
    ):
        values = [float(x) for x in counted.column(column).to_pylist()]
        values[3] = value
        bad = counted.set_column(counted.column_names.index(column), column, pa.array(values))
        with pytest.raises(InvalidInputError, match=f"row 4 of the table, column .*{words}"):
            read_counts(bad)


# Minari warns that nobody gave the address of the code that made the dataset, and so on.
pytestmark = pytest.mark.filterwarnings("ignore")


def lake():
    return gymnasium.make("FrozenLake-v1", is_slippery=True, max_episode_steps=12)


def act_at_random(env, n_episodes):
    """Act at random; return what every episode showed, did, paid, and whether it terminated."""
    rng = np.random.default_rng(0)
    episodes = []
    for number in range(n_episodes):
        seen, done, paid, terminated, truncated = [env.reset(seed=number)[0]], [], [], False, False
        while not (terminated or truncated):
            done.append(int(rng.integers(4)))
            observation, reward, terminated, truncated, _ = env.step(done[-1])
            seen.append(observation)
            paid.append(reward)
        episodes.append((seen, done, paid, terminated))
    return episodes


@pytest.fixture
def dataset(tmp_path, monkeypatch):
    """A dataset of buffers, and the episodes in it; `DataCollector` needs jax, this does not."""
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = lake()
    episodes = act_at_random(env, 150)
    buffers = [
        minari.data_collector.EpisodeBuffer(
            id=number,
            observations=seen,
            actions=done,
            rewards=paid,
            terminations=[False] * (len(done) - 1) + [terminated],
            truncations=[False] * (len(done) - 1) + [not terminated],
            infos={},
        )
        for number, (seen, done, paid, terminated) in enumerate(episodes)
    ]
    made = minari.create_dataset_from_buffers("lake/random-v0", buffer=buffers, env=env)
    return made, episodes


def assert_read(found, episodes):
    """The trajectory is that of the episodes: those that were cut led to their last observation."""
    assert found.lengths.tolist() == [len(done) for _, done, _, _ in episodes]
    np.testing.assert_array_equal(
        found.observations, np.concatenate([seen[:-1] for seen, *_ in episodes])
    )
    np.testing.assert_array_equal(
        found.actions, np.concatenate([done for _, done, _, _ in episodes])
    )
    np.testing.assert_array_equal(found.rewards, np.concatenate([paid for *_, paid, _ in episodes]))
    assert found.terminated.tolist() == [terminated for *_, terminated in episodes]
    assert found.final_observations.tolist() == [seen[-1] for seen, *_ in episodes]
    assert 0 < found.terminated.sum() < len(episodes)


def test_a_dataset_of_buffers(dataset):
    made, episodes = dataset
    assert_read(read_minari(made), episodes)
    loaded = minari.load_dataset("lake/random-v0")
    assert_read(read_minari(loaded), episodes)
    model = romdp.fit(loaded)
    assert (model.n_episodes, model.n_rows) == (150, made.total_steps)
    assert model.predict([0])[0] >= 0
    assert romdp.fit(made).partition == model.partition


def test_some_episodes_of_a_dataset(dataset):
    made, episodes = dataset
    long = made.filter_episodes(lambda episode: len(episode.actions) > 5)
    kept = [episode for episode in episodes if len(episode[1]) > 5]
    assert read_minari(long).lengths.tolist() == [len(done) for _, done, _, _ in kept]


def test_continuous_observations_are_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    env = gymnasium.make("CartPole-v1", max_episode_steps=5)
    seen = [env.observation_space.sample() for _ in range(3)]
    buffer = minari.data_collector.EpisodeBuffer(
        id=0, observations=seen, actions=[0, 1], rewards=[1.0, 1.0], terminations=[False, True],
        truncations=[False, False], infos={},
    )  # fmt: skip
    made = minari.create_dataset_from_buffers("pole/random-v0", buffer=[buffer], env=env)
    with pytest.raises(InvalidInputError, match="observations of episode 0 are not whole numbers"):
        romdp.fit(made)
