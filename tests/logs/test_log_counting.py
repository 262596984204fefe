import subprocess
import sys
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_logs import Cluster, assert_same, plain_counts, random_rows

from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.trajectory import Trajectory
from romdp.logs.reading.closing import LogRows
from romdp.logs.reading.columns import Columns
from romdp.logs.reading.counting import check_columns, count_logs, share_out
from romdp.logs.reading.sources import open_source

COLUMNS = Columns("page", "offer", "paid", "user")
NO_USER = Columns("page", "offer", "paid")


def as_table(rows):
    names = ("page", "offer", "paid", "user")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return pa.table({**columns, "minute": list(range(len(rows)))})


def write_files(folder, table, cuts, kind="parquet"):
    folder.mkdir(parents=True, exist_ok=True)
    edges = [0, *sorted(cuts), table.num_rows]
    for i, (start, end) in enumerate(pairwise(edges)):
        part = table.slice(start, end - start)
        path = folder / f"{i:03d}.{kind}"
        if kind == "parquet":
            pq.write_table(part, path, row_group_size=7)
        elif kind == "csv":
            pyarrow.csv.write_csv(part, path)
        else:
            pyarrow.feather.write_feather(part, path)
    return folder


@pytest.mark.parametrize("ends", ["truncated", "terminated", "restart"])
def test_counts_are_those_of_plain_python(ends):
    rows = random_rows(np.random.default_rng(0), 500)
    log = count_logs(as_table(rows), COLUMNS, holdout=0, ends=ends)
    counts, observations, actions = plain_counts(rows, end=ends != "truncated")
    assert log.observation_names == tuple(observations)
    assert log.action_names == tuple(actions)
    assert log.reward_range == (-0.5, 1.0)
    assert (log.n_rows, log.n_episodes, log.held_out) == (500, 5, None)
    assert_same(log.counts, counts)


def test_one_long_episode_without_an_episode_column():
    rows = random_rows(np.random.default_rng(1), 1000, length=1000)
    log = count_logs(as_table(rows), NO_USER, holdout=0, batch_rows=37)
    assert_same(log.counts, plain_counts(rows)[0])
    assert log.counts.n_transitions == 999
    assert log.n_episodes == 1


@pytest.mark.parametrize("columns", [COLUMNS, NO_USER])
def test_held_out_rows_and_counted_rows_are_all_rows(columns):
    rows = random_rows(np.random.default_rng(2), 3000, n_episodes=60)
    if columns is NO_USER:
        rows = [(*row[:3], 0) for row in rows]
    log = count_logs(as_table(rows), columns, holdout=0.3)
    assert log.held_out is not None
    assert 0.05 * 3000 < log.held_out.n_steps < 0.6 * 3000
    assert log.counts.n_steps + log.held_out.n_steps == 3000
    assert_same(log.total, plain_counts(rows)[0])
    # Another seed holds other episodes out, and again all rows are there.
    other = count_logs(as_table(rows), columns, holdout=0.3, seed=1)
    assert other.held_out != log.held_out
    assert_same(other.total, log.total)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 120),
    batch_rows=st.integers(1, 130),
    cuts=st.lists(st.integers(0, 120), max_size=4),
    workers=st.integers(1, 3),
    most_held=st.sampled_from([0, 10, 30, 10_000]),
    has_user=st.booleans(),
    restart=st.booleans(),
)
def test_batches_files_and_workers_change_nothing(
    tmp_path_factory, seed, n_rows, batch_rows, cuts, workers, most_held, has_user, restart
):
    rng = np.random.default_rng(seed)
    rows = random_rows(rng, n_rows, n_episodes=int(rng.integers(1, 30)))
    if not has_user:
        rows = [(*row[:3], 0) for row in rows]
    table = as_table(rows)
    columns = COLUMNS if has_user else NO_USER
    options = {
        "holdout": 0.4,
        "most_held": most_held,
        "ends": "restart" if restart else "truncated",
    }
    whole = count_logs(table, columns, **options)
    folder = tmp_path_factory.mktemp("log") / "files"
    write_files(folder, table, [cut for cut in cuts if cut < n_rows])
    files = count_logs(folder, columns, workers=workers, batch_rows=batch_rows, **options)
    cluster = count_logs(folder, columns, client=Cluster(workers), **options)
    for parts in (files, cluster):
        assert parts.counts == whole.counts
        assert parts.held_out == whole.held_out
        assert parts.observation_names == whole.observation_names
        assert parts.action_names == whole.action_names
        assert (parts.n_rows, parts.n_episodes) == (whole.n_rows, whole.n_episodes)
    assert_same(whole.total, plain_counts(rows, end=restart)[0])
    assert whole.held_out is None or whole.held_out.n_steps <= most_held


def test_sums_of_rewards_are_the_same_to_the_last_bit(tmp_path):
    rng = np.random.default_rng(3)
    rows = [(*row[:2], float(rng.normal()), row[3]) for row in random_rows(rng, 2_000)]
    table = as_table(rows)
    whole = count_logs(table, COLUMNS, holdout=0).counts
    folder = write_files(tmp_path / "log", table, [300, 301, 1200])
    for options in ({"batch_rows": 17}, {"workers": 1}, {"client": Cluster(1)}):
        assert count_logs(folder, COLUMNS, holdout=0, **options).counts == whole


def test_what_one_worker_of_a_cluster_no_longer_holds_out_the_others_count_too(tmp_path):
    table = as_table(random_rows(np.random.default_rng(9), 200, n_episodes=40))
    folder = write_files(tmp_path / "log", table, [150])
    shares = set()
    for most_held in range(10, 120, 20):
        options = {"holdout": 0.6, "most_held": most_held}
        whole = count_logs(table, COLUMNS, **options)
        parts = count_logs(folder, COLUMNS, client=Cluster(2), **options)
        assert parts.held_out == whole.held_out
        assert_same(parts.counts, whole.counts)
        shares.add(whole.counts.n_steps)
    assert len(shares) > 2


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow"])
def test_files_of_every_kind(tmp_path, kind):
    rows = random_rows(np.random.default_rng(3), 400)
    folder = write_files(tmp_path / "log", as_table(rows), [150, 151, 300], kind)
    expected, *_ = plain_counts(rows)
    for data in (folder, f"{folder}/*.{kind}", sorted(folder.iterdir())):
        log = count_logs(data, COLUMNS, holdout=0, workers=3)
        assert_same(log.counts, expected)
    one = count_logs(folder / f"000.{kind}", COLUMNS, holdout=0)
    assert one.n_rows == 150


def test_tables_of_every_kind():
    rows = random_rows(np.random.default_rng(4), 200)
    table = as_table(rows)
    frame = table.to_pandas()
    category = frame.assign(page=frame["page"].astype("category"))
    expected, *_ = plain_counts(rows)
    for data in (
        table,
        table.to_pydict(),
        table.to_reader(max_chunksize=13),
        table.combine_chunks().to_batches()[0],
        frame,
        category,
        pd.DataFrame(frame),
    ):
        assert_same(count_logs(data, COLUMNS, holdout=0).counts, expected)


def test_a_csv_column_of_whole_numbers_is_read_as_numbers(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("page,offer\n10,a\n9,b\n10,b\n")
    log = count_logs(path, Columns("page", "offer"), holdout=0)
    assert log.observation_names == (9, 10)
    assert log.action_names == ("a", "b")
    path.write_text("page,offer\n10,a\n09,b\n10,b\n")
    assert count_logs(path, Columns("page", "offer"), holdout=0).observation_names == ("09", "10")


def test_many_observations_stay_sparse():
    n_rows = 9000
    table = {"page": np.arange(n_rows), "offer": np.zeros(n_rows, int)}
    log = count_logs(table, Columns("page", "offer"), holdout=0)
    assert log.counts.is_sparse
    assert log.counts.n_transitions == n_rows - 1
    assert log.counts.transitions[5, 6] == 1


def test_rewards_far_from_zero_keep_their_digits():
    rewards = 1e9 + np.tile([0.0, 0.25, 1.0], 1000)
    table = {"page": np.arange(3000) % 2, "paid": rewards}
    log = count_logs(table, Columns("page", reward="paid"), holdout=0, batch_rows=100)
    assert log.counts.reward_sums.sum() == pytest.approx(1250, abs=1e-6)
    assert log.counts.reward_squares.sum() == pytest.approx(1062.5, abs=1e-6)


def test_order_is_checked_across_batches_and_files(tmp_path):
    rows = random_rows(np.random.default_rng(5), 60)
    table = as_table(rows)
    ordered = Columns("page", "offer", "paid", "user", "minute")
    expected, *_ = plain_counts(rows)
    folder = write_files(tmp_path / "log", table, [20, 40])
    assert_same(count_logs(folder, ordered, holdout=0, workers=3).counts, expected)
    turned = table.slice(30).to_pylist() + table.slice(0, 30).to_pylist()
    wrong = pa.Table.from_pylist(turned)
    with pytest.raises(InvalidInputError, match=r"row \d+ of the table, column 'minute'.*order"):
        count_logs(wrong, ordered, batch_rows=7)
    alone = Columns("page", "offer", "paid", None, "minute")
    with pytest.raises(InvalidInputError, match=r"row 31 of the table, column 'minute'.*order"):
        count_logs(wrong, alone, batch_rows=7)
    folder = write_files(tmp_path / "wrong", wrong, [30])
    for columns in (ordered, alone):
        for client in (None, Cluster(2)):
            with pytest.raises(InvalidInputError, match=r"row .*001.parquet.*'minute'.*order"):
                count_logs(folder, columns, client=client)


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_terminated_episodes_lead_to_their_end(tmp_path, kind):
    rng = np.random.default_rng(11)
    rows = random_rows(rng, 300, n_episodes=30)
    over = {user for user in range(30) if rng.random() < 0.5}
    last = {row[3]: i for i, row in enumerate(rows)}
    ended = [row[3] in over and last[row[3]] == i for i, row in enumerate(rows)]
    table = as_table(rows).append_column("ended", pa.array(ended))
    columns = Columns("page", "offer", "paid", "user", "minute", "ended")
    expected, *_ = plain_counts(rows, over=over)
    folder = write_files(tmp_path / "log", table, [100, 200], kind)
    shuffled = table.take(pa.array(rng.permutation(300)))
    for holdout in (0, 0.4):
        assert_same(count_logs(table, columns, holdout=holdout, batch_rows=11).total, expected)
        for kwargs in ({"workers": 3}, {"client": Cluster(2)}):
            assert_same(count_logs(folder, columns, holdout=holdout, **kwargs).total, expected)
    assert_same(count_logs(shuffled, columns, sort=True).total, expected)
    with pytest.raises(InvalidInputError, match=r"leave ends out"):
        count_logs(table, columns, ends="restart")
    # Without episodes the row after an end begins another one.
    alone = Columns("page", "offer", "paid", None, None, "ended")
    number = np.cumsum(ended) - ended
    cut = [(*row[:3], name) for row, name in zip(rows, number, strict=True)]
    assert_same(count_logs(table, alone).total, plain_counts(cut, over=range(sum(ended)))[0])


def test_nothing_may_come_after_the_end_of_an_episode(tmp_path):
    table = pa.table(
        {"page": [1, 2, 1, 2, 1], "user": [0, 0, 1, 0, 1], "ended": [0, 1, 0, 0, 1],
         "minute": [1, 2, 3, 4, 5]}
    )  # fmt: skip
    columns = Columns("page", episode="user", order="minute", terminated="ended")
    words = "column 'ended': this episode terminated in an earlier row"
    for sort in (False, True):
        with pytest.raises(InvalidInputError, match=f"row 4 of the table, {words}"):
            count_logs(table, columns, sort=sort)
    folder = write_files(tmp_path / "log", table, [3])
    for client in (None, Cluster(2)):
        with pytest.raises(InvalidInputError, match=f"row 1 of .*001.parquet, {words}"):
            count_logs(folder, columns, client=client)
    table = table.set_column(2, "ended", pa.array([0, 2, 0, 0, 1]))
    with pytest.raises(InvalidInputError, match=r"row 2 .*'ended': 2 is neither true nor false"):
        count_logs(table, columns)
    table = table.set_column(2, "ended", pa.array(["no", "maybe", *["no"] * 3]))
    with pytest.raises(InvalidInputError, match=r"row 2 .*'ended': 'maybe' is neither true nor"):
        count_logs(table, columns)
    table = table.set_column(2, "ended", pa.array([[1]] * 5))
    with pytest.raises(InvalidInputError, match=r"cannot tell which episodes terminated"):
        count_logs(table, columns)


@pytest.mark.parametrize("sort", [False, True])
def test_rows_at_the_same_time_stay_as_they_were_read(sort):
    table = {"page": [1, 2, 2, 3, 1], "user": [0, 1, 0, 0, 0], "minute": [5, 5, 6, 6, 6]}
    columns = Columns("page", episode="user", order="minute")
    counts = count_logs(table, columns, holdout=0, sort=sort).counts
    assert counts.transitions[:, 0].tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]


@pytest.mark.parametrize("has_user", [True, False])
def test_sorting_gives_the_counts_of_the_sorted_log(tmp_path, has_user):
    rng = np.random.default_rng(6)
    rows = random_rows(rng, 700, n_episodes=90)
    if not has_user:
        rows = [(*row[:3], 0) for row in rows]
    table = as_table(rows)
    columns = Columns("page", "offer", "paid", "user" if has_user else None, "minute")
    shuffled = table.take(pa.array(rng.permutation(700)))
    folder = write_files(tmp_path / "log", shuffled, [300])
    for holdout in (0, 0.4):
        log = count_logs(folder, columns, sort=True, holdout=holdout, batch_rows=64)
        assert_same(log.total, plain_counts(rows)[0])
    with pytest.raises(InvalidInputError, match=r"sort=True"):
        count_logs(shuffled, columns)
    with pytest.raises(InvalidInputError, match=r"needs an order column"):
        count_logs(shuffled, COLUMNS, sort=True)


def test_times_and_floats_can_be_the_order():
    import datetime

    start = datetime.datetime(2024, 1, 1)
    times = [start + datetime.timedelta(minutes=i) for i in range(4)]
    for order in (times, [t.date() for t in times[:1]] * 0 + [0.5, 1.5, 2.5, 3.5]):
        table = pa.table({"page": [1, 2, 1, 2], "at": order})
        columns = Columns("page", order="at")
        assert count_logs(table, columns, holdout=0).n_rows == 4
        with pytest.raises(InvalidInputError, match=r"row 2 "):
            count_logs(table.take(pa.array([1, 0, 2, 3])), columns)


def test_memory_is_bounded_by_the_limits():
    table = {"page": np.arange(1000)}
    with pytest.raises(InvalidInputError, match=r"'page' holds more than 100 .*max_observations"):
        count_logs(table, Columns("page"), max_observations=100)
    with pytest.raises(InvalidInputError, match=r"holds more than 100 different actions"):
        count_logs({"page": np.ones(1000, int), "a": np.arange(1000)}, Columns("page", "a"),
                   max_actions=100)  # fmt: skip


def test_an_empty_log_is_refused(tmp_path):
    empty = pa.table({"page": pa.array([], pa.string())})
    pq.write_table(empty, tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("page\n")
    for data in (empty, tmp_path / "a.parquet", tmp_path / "b.csv", tmp_path):
        with pytest.raises(InvalidInputError, match=r"holds no rows"):
            count_logs(data, Columns("page"))


def test_types_that_differ_between_files_are_refused(tmp_path):
    pq.write_table(pa.table({"page": ["1", "2"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"page": [1, 2]}), tmp_path / "b.parquet")
    with pytest.raises(InvalidInputError, match=r"text values in .*a.parquet and whole values"):
        check_columns(open_source(tmp_path), Columns("page"))


def test_pieces_are_shared_out_in_order(tmp_path):
    for i in range(5):
        pq.write_table(pa.table({"page": [1] * 40}), tmp_path / f"{i}.parquet")
    pieces = open_source(tmp_path)
    stretches = share_out(pieces, 2, may_guess=True)
    assert [len(part) for part, _ in stretches] in ([3, 2], [2, 3])
    assert [row for _, row in stretches] == [0, 40 * len(stretches[0][0])]
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("page\n1\n")
    unknown = open_source(str(tmp_path / "*.csv"))
    assert len(share_out(unknown, 2, may_guess=True)) == 2
    assert len(share_out(unknown, 2, may_guess=False)) == 1


def test_progress_hears_of_every_row():
    seen = []
    count_logs({"page": np.arange(100) % 7}, Columns("page"), batch_rows=30, progress=seen.append)
    assert seen == [30, 30, 30, 10]


@pytest.mark.parametrize("lengths", [None, [10, 90, 500, 400] * 4])
def test_a_trajectory_is_split_like_a_log(lengths):
    rng = np.random.default_rng(7)
    n = 4000
    final = None if lengths is None else rng.integers(0, 9, len(lengths))
    seen = Trajectory(
        rng.integers(0, 9, n), rng.integers(0, 2, n), rng.normal(size=n), lengths, final
    )
    rows = LogRows.of_trajectory(seen)
    log = rows.count(0.3)
    assert log.held_out is not None
    low, high = seen.rewards.min(), seen.rewards.max()
    scaled = Trajectory(
        seen.observations, seen.actions, (seen.rewards - low) / (high - low), lengths, final
    )
    assert_same(log.total, Counts.from_trajectory(scaled))
    assert rows.count(0).held_out is None
    few = rows.count(0.3, most_held=100).held_out
    assert few is None or few.n_steps <= 100


_COUNT_AND_WEIGH = """
import resource, sys
from romdp.logs.reading.columns import Columns
from romdp.logs.reading.counting import count_logs
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
log = count_logs(sys.argv[1], Columns("page", "offer", "paid", "user"), holdout=0.1, workers=2)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(log.n_rows, log.total.n_steps, log.total.n_transitions, log.total.reward_sums.sum())
print((after - before) // 1024)
"""


@pytest.mark.slow
def test_a_million_rows(tmp_path):
    """The totals are right, and memory is that of distinct transitions, not of rows.

    There are 0.9 million transitions that differ, each of which takes 16 bytes in tables that are
    up to half empty, one for each worker and one for both; and a hundred thousand rows held out.
    `benchmarks/logs.py` measures 10^7 rows and more.
    """
    rng = np.random.default_rng(8)
    n = 250_000
    for i in range(4):
        page = rng.integers(0, 2000, n)
        table = pa.table(
            {
                "page": pa.array(page),
                "offer": pa.array((page + rng.integers(0, 2, n)) % 4),
                "paid": pa.array(rng.random(n)),
                "user": pa.array(rng.integers(0, 5_000, n)),
            }
        )
        pq.write_table(table, tmp_path / f"{i}.parquet")
    command = [sys.executable, "-c", _COUNT_AND_WEIGH, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    totals, megabytes = done.stdout.splitlines()
    n_rows, n_steps, n_transitions, paid = totals.split()
    assert (int(n_rows), int(n_steps)) == (1_000_000, 1_000_000)
    assert int(n_transitions) == 1_000_000 - 5_000
    assert float(paid) == pytest.approx(5e5, rel=3e-3)
    assert int(megabytes) < 400
