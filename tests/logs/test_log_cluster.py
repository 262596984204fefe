import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from plain_logs import assert_same, plain_counts, random_rows

from romdp.core.errors import InvalidInputError
from romdp.logs.reading import counting
from romdp.logs.reading.columns import Columns
from romdp.logs.reading.counting import count_logs, count_stretch, joined
from romdp.logs.reading.partial import LogSettings
from romdp.logs.reading.sources import open_source

COLUMNS = Columns("page", "offer", "paid", "user")


class Cluster:
    """Does at once what it is asked, through pickle as over a wire."""

    def __init__(self, n_workers):
        self.n_workers, self.tasks = n_workers, []

    def scheduler_info(self):
        return {"workers": dict.fromkeys(range(self.n_workers))}

    def submit(self, work, *arguments, pure):
        import pickle

        assert not pure
        self.tasks.append(work)
        plain = [a.value if isinstance(a, Done) else a for a in arguments]
        return Done(pickle.loads(pickle.dumps(work(*pickle.loads(pickle.dumps(plain))))))


class Done:
    def __init__(self, value):
        self.value = value

    def result(self):
        return self.value


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(counting, "_SMALL", 0)
    rows = random_rows(np.random.default_rng(0), 600, n_episodes=50)
    names = ("page", "offer", "paid", "user")
    table = pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))
    for i in range(10):
        pq.write_table(table.slice(60 * i, 60), tmp_path / f"{i}.parquet")
    return tmp_path, rows


@pytest.mark.parametrize("n_workers", [1, 2, 3])
def test_a_cluster_counts_the_same(files, n_workers):
    folder, rows = files
    client = Cluster(n_workers)
    log = count_logs(folder, COLUMNS, client=client)
    alone = count_logs(folder, COLUMNS, workers=1)
    assert_same(log.total, plain_counts(rows)[0])
    assert_same(log.counts, alone.counts)
    assert log.held_out == alone.held_out
    n_stretches = client.tasks.count(count_stretch)
    assert n_stretches == min(10, 4 * n_workers)
    assert client.tasks.count(joined) == n_stretches - 1


def test_joining_leaves_both_as_they_were(files):
    folder, _ = files
    pieces = open_source(folder)
    settings = LogSettings(COLUMNS)
    first, second = count_stretch(pieces[:5], settings), count_stretch(pieces[5:], settings)
    once, twice = joined(first, second), joined(first, second)
    np.testing.assert_array_equal(once.transitions()[1], twice.transitions()[1])
    assert first.n_rows == 300


def test_tables_in_memory_are_refused():
    with pytest.raises(InvalidInputError, match="a cluster counts files"):
        count_logs({"page": [1, 2]}, Columns("page"), client=Cluster(1))


@pytest.mark.slow
def test_a_real_cluster_counts_the_same(files):
    import distributed
    from cluster_cases import cluster

    folder, rows = files
    with cluster(folder) as (address, _), distributed.Client(address) as client:
        log = count_logs(folder, COLUMNS, client=client)
        with pytest.raises(InvalidInputError, match=r"more than 2 different observations"):
            count_logs(folder, COLUMNS, client=client, max_observations=2)
    assert_same(log.total, plain_counts(rows)[0])
