"""Directories that version 0.1 wrote are read and reported, and called unverified."""

import json
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

import romdp
from romdp.core.errors import StorageError
from romdp.experiments.directory import RunDirectory
from romdp.experiments.running import run_experiment
from romdp.experiments.summary import summarise
from romdp.experiments.tables import load_runs, read_runs
from romdp.reports import read_results, write_report

FIRST = "lc-psrl-random-romdp-Y6-s0"
COLUMNS = {
    "agent": "string",
    "world": "string",
    "n_observations": "int64",
    "seed": "int64",
    "step": "int64",
    "regret": "double",
    "pseudo_regret": "double",
    "n_clusters": "int64",
}


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """Three finished runs of 500 steps and one that failed."""
    folder = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(Path(__file__).with_name("version-0.1.zip")) as archive:
        archive.extractall(folder)
    return folder / "version-0.1"


@pytest.fixture
def earlier(unpacked, tmp_path):
    return shutil.copytree(unpacked, tmp_path / "x")


def test_everything_is_read(unpacked):
    results = read_results(unpacked)
    assert not results.verified
    assert (results.missing, results.damaged) == ((), ())
    assert results.failures == (("oracle-random-romdp-Y6-s1", "RuntimeError: no luck"),)
    assert [(r.agent, r.seed) for r in results.records] == [
        *(("lc-psrl", 0), ("lc-psrl", 1)),
        ("oracle", 0),
    ]
    first = results.records[0]
    folder = unpacked / "runs"
    figures = pyarrow.parquet.read_table(folder / f"{FIRST}.parquet")
    for name, column in first.curves.items():
        if name == "mean_return":  # nobody kept returns
            assert np.isnan(column).all()
        else:
            np.testing.assert_array_equal(column, figures[name].to_numpy())
    epochs = pyarrow.parquet.read_table(folder / f"{FIRST}.epochs.parquet")
    for name, column in first.epochs.items():
        np.testing.assert_array_equal(column, epochs[name].to_numpy())
    groups = pyarrow.parquet.read_table(folder / f"{FIRST}.groups.parquet")
    labels = np.concatenate([grouping.labels for grouping in first.groupings])
    np.testing.assert_array_equal(labels, groups["group"].to_numpy())
    steps = np.repeat([grouping.step for grouping in first.groupings], 6)
    np.testing.assert_array_equal(steps, groups["step"].to_numpy())
    np.testing.assert_array_equal(first.hidden_state, groups["hidden_state"].to_numpy()[:6])
    facts = json.loads((folder / f"{FIRST}.json").read_text())
    assert {name: first.facts[name] for name in facts} == facts


def test_the_runs_are_those_of_this_version(unpacked, tmp_path):
    """Same seed, same bits: what 0.1 played is played again today, unless it groups otherwise.

    Regret is relative to the best gain, which linear algebra solves with other rounding on another
    type of machine. A single other reward or action would change it by far more than that.
    """
    again = RunDirectory.create(tmp_path / "x", RunDirectory.open(unpacked).experiment)
    run_experiment(again)
    today = {row.run: i for i, row in enumerate(read_runs(again).rows)}
    new, old = read_results(again.path), read_results(unpacked)
    assert len(today) == 4
    played = [record for record in old.records if record.agent == "oracle"]
    assert played
    for record in played:
        (same,) = [r for r in new.of(record.agent, record.panel) if r.seed == record.seed]
        for name, column in record.curves.items():
            rounding = 1e-12 if name in ("regret", "pseudo_regret") else 0.0
            np.testing.assert_allclose(same.curves[name], column, rtol=0.0, atol=rounding)


def test_one_table_of_all_finished_runs(unpacked):
    table = romdp.load_runs(unpacked)
    assert {field.name: str(field.type) for field in table.schema} == COLUMNS
    frame = table.to_pandas()
    assert len(frame.groupby(["agent", "seed"])) == 3
    assert frame.step.max() == 500


def test_it_is_reported_and_summarised(earlier):
    write_report(earlier)
    page = (earlier / "report.html").read_text(encoding="utf-8")
    assert "nothing is verified" in page
    summary = json.loads((earlier / "summary.json").read_text())
    assert summary["runs"]["finished"] == 3
    assert summary["cells"] == summarise(RunDirectory.open(earlier))["cells"]


def test_it_cannot_be_resumed_and_is_left_alone(earlier):
    before = {file.name: file.read_bytes() for file in earlier.rglob("*") if file.is_file()}
    with pytest.raises(StorageError, match=r"written by romdp 0\.1"):
        run_experiment(RunDirectory.open(earlier))
    after = {file.name: file.read_bytes() for file in earlier.rglob("*") if file.is_file()}
    assert after == before


def rewrite(path, change):
    table = pyarrow.parquet.read_table(path)
    columns = {name: table[name].to_numpy() for name in table.column_names}
    pyarrow.parquet.write_table(pyarrow.table(change(columns)), path)


@pytest.mark.parametrize(
    ("ending", "change", "words"),
    [
        (".parquet", lambda c: {n: v for n, v in c.items() if n != "regret"}, "'regret'"),
        (".parquet", lambda c: {n: v[:0] for n, v in c.items()}, "no rows"),
        (".parquet", lambda c: {n: v[::2] for n, v in c.items()}, "figures, not"),
        (".parquet", lambda c: c | {"step": c["step"].astype(str)}, "does not hold numbers"),
        (".parquet", lambda c: c | {"step": c["step"] * 2}, "steps of the experiment"),
        (".parquet", lambda c: c | {"reward": c["reward"] * 1e300}, "not a possible number"),
        (".parquet", lambda c: c | {"reward": c["reward"] * np.nan}, "not a possible number"),
        (".epochs.parquet", lambda c: {"epoch": c["epoch"]}, "'start' is missing"),
        (".epochs.parquet", lambda c: c | {"length": -c["length"]}, "do not follow"),
        (".groups.parquet", lambda c: {n: v[1:] for n, v in c.items()}, "blocks of 6 rows"),
        (".groups.parquet", lambda c: c | {"observation": c["observation"][::-1]}, "in order"),
        (".groups.parquet", lambda c: c | {"group": c["group"] + 99}, "impossible labels"),
    ],
)
def test_damaged_tables_are_named(earlier, ending, change, words):
    rewrite(earlier / "runs" / f"{FIRST}{ending}", change)
    ((name, what),) = read_results(earlier).damaged
    assert name == FIRST
    assert words in what


@pytest.mark.parametrize(
    "facts",
    ["{", "[]", "{}", "null", '{"seconds": 1}'],
    ids=["cut", "list", "empty", "null", "few"],
)
def test_damaged_facts_are_named(earlier, facts):
    (earlier / "runs" / f"{FIRST}.json").write_text(facts)
    ((name, _),) = read_results(earlier).damaged
    assert name == FIRST


@pytest.mark.parametrize("name", ["seconds", "exact", "gain", "steps_to_exact", "n_clusters"])
def test_facts_of_wrong_types_are_named(earlier, name):
    path = earlier / "runs" / f"{FIRST}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {name: ["x"]}))
    assert [run for run, _ in read_results(earlier).damaged] == [FIRST]


def test_bytes_changed_one_by_one_never_end_in_a_traceback(earlier):
    rng = np.random.default_rng(5)
    for path in sorted((earlier / "runs").glob(f"{FIRST}*")):
        content = path.read_bytes()
        for place in rng.integers(len(content), size=12).tolist():
            changed = bytearray(content)
            changed[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(changed)
            assert len(load_runs(earlier)) >= 0
            read_results(earlier)
        path.write_bytes(content)
