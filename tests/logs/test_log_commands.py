"""The commands that read logs, here and on a Dask cluster."""

import os
import pathlib
import threading
import time
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer
from plain_logs import Cluster, assert_same, plain_counts, random_rows
from typer.testing import CliRunner

import romdp
from romdp.cli.logs import apply_command, evaluate_command, fit_command
from romdp.core.errors import InvalidInputError, StorageError
from romdp.experiments.executors import ClusterLostError
from romdp.logs.model import load_model
from romdp.logs.reading import counting
from romdp.logs.reading.columns import Columns
from romdp.logs.reading.counting import count_logs, count_stretch

APP = typer.Typer()
APP.command("fit")(fit_command)
APP.command("apply")(apply_command)
APP.command("evaluate")(evaluate_command)
NAMES = ("--observation", "page", "--action", "offer", "--reward", "paid", "--episode", "user")


def run(*arguments):
    return CliRunner().invoke(APP, [str(argument) for argument in arguments])


def refuse(error, words, *arguments):
    """The real command turns the error into one line and an exit status."""
    result = run(*arguments)
    assert isinstance(result.exception, error), result.output
    assert words in str(result.exception)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
    seen = romdp.simulate(world, "uniform", 8000, seed=0)
    table = pa.table(
        {
            "page": seen.observations,
            "offer": seen.actions,
            "paid": seen.rewards,
            "user": np.arange(8000) // 40,
            "minute": np.arange(8000),
        }
    )
    folder = tmp_path_factory.mktemp("log")
    pq.write_table(table.slice(0, 4000), folder / "a.parquet")
    pq.write_table(table.slice(4000), folder / "b.parquet")
    return folder


def test_fit_then_apply_then_evaluate(log, tmp_path):
    out = tmp_path / "model"
    files = (log / "a.parquet", log / "b.parquet")
    result = run("fit", *files, *NAMES, "--order", "minute", "--out", out)
    assert result.exit_code == 0, result.output
    assert "3 hidden states behind 12 observations (8,000 rows, 200 episodes" in result.output
    assert f"wrote {out}" in result.output
    model = load_model(out)
    assert str(model) in result.output
    answer = tmp_path / "answer.csv"
    result = run("apply", out, log, "--out", answer)
    assert result.exit_code == 0, result.output
    assert "8,000 rows" in result.output
    assert len(answer.read_text().splitlines()) == 8001
    later = tmp_path / "later.parquet"  # without the column that was only checked
    pq.write_table(pq.read_table(log / "a.parquet").drop_columns("minute"), later)
    result = run("evaluate", out, later)
    assert "doubly robust" in result.output, result.exception
    refuse(InvalidInputError, "no column 'hour'", "evaluate", out, later, "--order", "hour")
    refuse(InvalidInputError, "no column 'minute'", "evaluate", out, later, "--sort")
    turned = tmp_path / "turned.parquet"
    pq.write_table(pq.read_table(log / "a.parquet").sort_by([("minute", "descending")]), turned)
    refuse(InvalidInputError, "on the command line --sort", "evaluate", out, turned)
    result = run("evaluate", out, turned, "--sort")
    assert "doubly robust" in result.output, result.exception


def test_without_out_it_only_prints(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("fit", f"{log}/*.parquet", *NAMES, "--order", "minute", "--states", "2")
    assert result.exit_code == 0, result.output
    assert "2 hidden states" in result.output
    assert list(tmp_path.iterdir()) == []


def test_refusals_write_nothing(log, tmp_path):
    out = tmp_path / "model"
    refuse(InvalidInputError, "did you mean 'page'", "fit", log, "--observation", "pge",
           "--out", out)  # fmt: skip
    refuse(InvalidInputError, "there is no file", "fit", log / "c.parquet", *NAMES, "--out", out)
    refuse(InvalidInputError, "one fixed policy", "fit", log, *NAMES, "--method", "tensor")
    refuse(InvalidInputError, "order", "fit", log / "b.parquet", log / "a.parquet",
           "--observation", "page", "--order", "minute", "--out", out)  # fmt: skip
    refuse(StorageError, "holds no model", "apply", log, log, "--out", tmp_path / "x.csv")
    (tmp_path / "thesis.txt").write_text("years of work")
    refuse(InvalidInputError, "other files", "fit", log, *NAMES, "--out", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_table_that_is_read_is_not_written_over(log, tmp_path):
    run("fit", log, *NAMES, "--out", tmp_path / "model")
    path = log / "a.parquet"
    before = path.read_bytes()
    refuse(
        InvalidInputError,
        "is one of the files to read",
        "apply",
        tmp_path / "model",
        path,
        "--out",
        path,
    )
    assert path.read_bytes() == before


COLUMNS = Columns("page", "offer", "paid", "user")


@pytest.fixture
def files(tmp_path):
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


class Lost:
    """A cluster whose scheduler is gone once the first stretch was submitted."""

    client = SimpleNamespace(status="closed", scheduler_info=lambda: {"workers": {}}, submit=None)

    def __init__(self, address):
        self.client.submit = self.fail

    def fail(self, *arguments, **options):
        raise RuntimeError("Client is closed. Can't send update-graph message.")

    def close(self):
        pass


def test_a_lost_scheduler_is_an_error_of_ours_and_nothing_is_written(log, tmp_path, monkeypatch):
    monkeypatch.setattr("romdp.experiments.executors.Dask", Lost)
    arguments = ("fit", log, *NAMES, "--dask", "x", "--out", tmp_path / "model")
    refuse(ClusterLostError, "scheduler was lost; nothing was written", *arguments)
    assert list(tmp_path.iterdir()) == []


def test_tables_in_memory_are_refused():
    with pytest.raises(InvalidInputError, match="a cluster counts files"):
        count_logs({"page": [1, 2]}, Columns("page"), client=Cluster(1))


def count_slowly(pieces, *arguments):
    """Count a stretch on a worker, in no hurry; the worker's process leaves a note."""
    pathlib.Path(f"counting-{os.getpid()}").touch()
    time.sleep(0.3)
    return count_stretch(pieces, *arguments)


@pytest.mark.slow
def test_a_real_cluster_counts_the_same_and_a_killed_worker_loses_nothing(files, monkeypatch):
    """Eight stretches of 0.3 s on two workers: one dies with its second in hand."""
    import distributed
    from cases import cluster

    folder, rows = files
    notes, found = folder / "notes", []
    notes.mkdir()
    logs = str(folder / "*.parquet")

    def count():
        found.append(count_logs(logs, COLUMNS, client=client))

    with cluster(notes) as (address, workers), distributed.Client(address) as client:
        client.wait_for_workers(2, timeout=60)
        count()
        with pytest.raises(InvalidInputError, match=r"more than 2 different observations"):
            count_logs(logs, COLUMNS, client=client, max_observations=2)
        monkeypatch.setattr(counting, "count_stretch", count_slowly)
        job = threading.Thread(target=count)
        job.start()
        while not (notes / f"counting-{workers[0].pid}").exists() and job.is_alive():
            time.sleep(0.02)
        time.sleep(0.4)
        assert job.is_alive()
        workers[0].kill()
        job.join(60)
    for log in found:
        assert_same(log.total, plain_counts(rows)[0])
    assert len(found) == 2
