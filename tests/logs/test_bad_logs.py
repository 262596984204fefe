"""Every kind of bad log, given to the real command: one line, exit status 2, nothing written."""

import gzip
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from plain_logs import assert_same
from typer.testing import CliRunner

import romdp
from romdp.cli import app
from romdp.core.errors import InvalidInputError

pytestmark = pytest.mark.slow

N = 400
_rng = np.random.default_rng(0)
GOOD = {
    "page": [f"p{i}" for i in _rng.integers(0, 8, N)],
    "offer": _rng.integers(0, 2, N).tolist(),
    "paid": _rng.random(N).round(3).tolist(),
    "user": (np.arange(N) // 20).tolist(),
    "minute": list(range(N)),
}
COLUMNS = ("page", "offer", "paid", "user", "minute")
ROLES = ("observation", "action", "reward", "episode", "order")
OPTIONS = [word for role, name in zip(ROLES, COLUMNS, strict=True) for word in (f"--{role}", name)]
FILL = "; fill it or drop the row"
REMEDY = {
    "page": '; pass missing="drop" to leave such rows out, or "own" to make it a name (on the '
    "command line --missing)",
    "paid": FILL,
    "minute": FILL,
}
EMPTY, WORDS = b"", b"these are words, no table"


def with_value(column, value, row=57, kind=lambda v: v):
    return {column: [value if i == row else kind(v) for i, v in enumerate(GOOD[column])]}


def write(path, changes=None, rows=None):
    table = pa.table({**GOOD, **(changes or {})})
    if rows is not None:
        table = table.take(pa.array(rows, pa.int64()))
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)


def refused(folder, *arguments):
    """Run the command; return what it says, having checked that it wrote nothing."""
    before = sorted(folder.rglob("*"))
    result = CliRunner().invoke(app, ["fit", *map(str, arguments), "--out", str(folder / "model")])
    assert isinstance(result.exception, InvalidInputError), result.output
    assert sorted(folder.rglob("*")) == before
    return str(result.exception).replace(f"{folder}/", "")


BAD_VALUES = [
    # a file, what is changed in it, which rows it has, what is said
    ("a.parquet", with_value("paid", float("nan")), None,
     "row 58 of a.parquet, column 'paid': nan is not a finite number"),
    ("a.csv", with_value("paid", float("nan")), None,
     "row 58 of a.csv, column 'paid': nan is not a finite number"),
    ("a.parquet", with_value("paid", float("-inf")), None,
     "row 58 of a.parquet, column 'paid': -inf is not a finite number"),
    *(
        (f"a.{kind}", with_value(column, None), None,
         f"row 58 of a.{kind}, column '{column}': the value is missing{REMEDY.get(column, '')}")
        for column in COLUMNS for kind in ("csv", "parquet")
    ),
    ("a.csv", with_value("paid", "much", kind=str), None,
     "row 58 of a.csv, column 'paid': 'much' is not a number"),
    ("a.csv", with_value("paid", "0,5", 0, kind=str), None,
     "row 1 of a.csv, column 'paid': '0,5' is not a number; write decimals with a point"),
    ("a.parquet", with_value("paid", "much", kind=str), None,
     "column 'paid' of a.parquet holds string, so it cannot be the reward; pass a column of "
     "numbers"),
    ("a.csv", with_value("minute", "noon", kind=str), None,
     "row 58 of a.csv, column 'minute': 'noon' is no order in time: write whole numbers, or times "
     "such as 2024-01-31 18:05:00, in all rows"),
    ("a.parquet", {"page": ["x"] * N}, None,
     "there is only one observation, 'x', in 400 rows: nothing can be grouped"),
    ("a.csv", {"offer": [1] * N}, None,
     "column 'offer' always holds 1: with one action there is nothing to decide. Leave action out "
     "to seek the hidden states alone"),
    ("a.parquet", {"paid": [2.5] * N}, None,
     "column 'paid' is always 2.5: every policy earns the same. Leave the reward out to seek the "
     "hidden states alone"),
    ("a.parquet", None, [3, 2, *range(4, N)],
     "row 2 of a.parquet, column 'minute': a larger value came before in this episode, so the rows "
     "are not in order; sort them, or pass sort=True (on the command line --sort)"),
    ("a.parquet", None, [], "a.parquet holds no rows; there is nothing to learn from"),
    ("a.csv", None, [], "a.csv holds no rows; there is nothing to learn from"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "changes", "rows", "words"), BAD_VALUES, ids=[case[3][:60] for case in BAD_VALUES]
)
def test_bad_values(tmp_path, name, changes, rows, words):
    write(tmp_path / name, changes, rows)
    assert refused(tmp_path, tmp_path / name, *OPTIONS) == words


BAD_FILES = [
    ("a.csv", EMPTY, "a.csv is empty: it has not even a header line"),
    ("a.parquet", EMPTY, "a.parquet is not a Parquet file as its name says, or it is damaged"),
    ("a.arrow", EMPTY, "a.arrow is not an Arrow file as its name says, or it is damaged"),
    ("a.parquet", WORDS, "a.parquet is not a Parquet file as its name says, or it is damaged"),
    ("a.feather", WORDS, "a.feather is not an Arrow file as its name says, or it is damaged"),
    ("a.csv", b"PAR1\0\0", "a.csv is not a CSV file as its name says: it is no text"),
    ("a.csv.gz", WORDS, "a.csv.gz is not a CSV file as its name says, or it is damaged"),
    ("a.xlsx", WORDS, "a.xlsx has a name of an unknown kind; it must end in .parquet"),
    ("a.csv", "page,offer,paid,user,minute\né,1,2,3,4\n".encode("latin-1"),
     "column 'page' of a.csv holds text that is not UTF-8; save it as UTF-8"),
    ("a.csv", "pagé,offer\na,1\n".encode("latin-1"),
     "the header of a.csv is not UTF-8; save it as UTF-8"),
    ("a.csv", b"page,offer,paid,user,minute\na,1,2,3\n",
     "row 1 of a.csv is broken: Expected 5 columns, got 4: a,1,2,3"),
    ("a.xls", WORDS, "a.xls has a name of an unknown kind; it must end in .parquet"),
    ("a.jsonl", b"{oh", "row 1 of a.jsonl is broken: Missing a name"),
    ("a.jsonl", b'{"page": 1}\n{"page": "b"}\n',
     "row 2 of a.jsonl is broken: Column(/page) changed from number to string"),
    ("a.csv", b"page,offer,paid,user,minute,page\na,1,2,3,4,b\n",
     "a.csv has two columns called 'page'; rename or drop one"),
    ("a.csv", b"page,ofer,paid,user,minute\na,1,2,3,4\n",
     "a.csv has no column 'offer'; did you mean 'ofer'?"),
    ("a.csv", b"time,who\n1,2\n", "a.csv has no column 'page'; it has 'time', 'who'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "words"), BAD_FILES)
def test_bad_files(tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    assert refused(tmp_path, tmp_path / name, *OPTIONS).startswith(words)


def test_a_damaged_compressed_file(tmp_path):
    write(tmp_path / "a.csv")
    whole = gzip.compress((tmp_path / "a.csv").read_bytes())
    (tmp_path / "b.csv.gz").write_bytes(whole[: len(whole) // 2])
    assert refused(tmp_path, tmp_path / "b.csv.gz", *OPTIONS) == (
        "b.csv.gz is not a CSV file as its name says, or it is damaged: Truncated compressed stream"
    )


def test_mixed_types(tmp_path):
    write(tmp_path / "a.parquet")
    write(tmp_path / "b.parquet", {"page": list(range(N))})
    assert refused(tmp_path, tmp_path, *OPTIONS) == (
        "column 'page' holds text values in a.parquet and whole values in b.parquet; make it one "
        "type in all files"
    )


def test_a_file_that_is_named_twice(tmp_path):
    write(tmp_path / "a.parquet")
    words = "a.parquet is named twice; its rows would count twice"
    assert refused(tmp_path, tmp_path / "a.parquet", tmp_path / "a.parquet", *OPTIONS) == words
    assert refused(tmp_path, tmp_path, tmp_path / "*.parquet", *OPTIONS) == words


def test_interleaved_episodes_and_unicode_are_no_mistake(tmp_path):
    pages = {"page": [f"ページ {name} 🙂" for name in GOOD["page"]]}
    turned = np.arange(N).reshape(20, 20).T.ravel()
    write(tmp_path / "a.csv", pages)
    write(tmp_path / "b.parquet", pages, turned)
    models = [romdp.fit(tmp_path / name, *COLUMNS) for name in ("a.csv", "b.parquet")]
    assert_same(models[0].counts, models[1].counts)
    for model in models:
        assert model.observation_names == tuple(sorted(set(pages["page"])))
    result = CliRunner().invoke(app, ["fit", str(tmp_path / "b.parquet"), *OPTIONS])
    assert result.exit_code == 0
    assert "ページ" in result.output
    (tmp_path / "c.csv").write_text("ページ\n" + "右\n左\n" * 20, encoding="utf-8")
    assert romdp.fit(tmp_path / "c.csv", "ページ").observation_names == ("右", "左")


def test_the_status_of_the_real_command(tmp_path):
    write(tmp_path / "a.csv", with_value("paid", float("nan")))
    command = [sys.executable, "-m", "romdp", "fit", "a.csv", *OPTIONS, "--out", "model"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "romdp: row 58 of a.csv, column 'paid': nan is not a finite number\n"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_a_trajectory_with_too_many_observations():
    seen = romdp.Trajectory([0, 10**9, 0], [0, 1, 0])
    with pytest.raises(InvalidInputError, match=r"1,000,000,001 observations, more than 1,000,000"):
        romdp.fit(seen)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["numbers.parquet", "names.parquet", "names.csv"])
def test_too_many_different_observations(tmp_path, kind):
    """They are refused before they fill the memory: the command needs less than 600 MB.

    The largest memory that getrusage knows includes that of the process that started this one.
    """
    pages = pa.array(np.random.default_rng(0).permutation(300_000))
    if kind.startswith("names"):
        pages = pages.cast(pa.string())
    table = pa.table({"page": pages, "offer": pa.array(np.arange(300_000) % 4)})
    path = tmp_path / kind
    if kind.endswith("csv"):
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    del table, pages
    code = (
        "from pathlib import Path\n"
        "from romdp.cli import main\n"
        "try:\n    main()\n"
        "finally:\n"
        "    status = Path('/proc/self/status').read_text()\n"
        "    print(int(status.split('VmHWM:')[1].split()[0]) // 1024)\n"
    )
    command = [sys.executable, "-c", code, "fit", kind, "--observation", "page",
               "--action", "offer", "--max-observations", "200000", "--workers", "2",
               "--out", "model"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        "romdp: column 'page' holds more than 200,000 different observations. Is it an "
        "identifier or a time? Make it coarser, or raise max_observations if so many are meant\n"
    )
    assert int(done.stdout) < 600
    assert [path.name for path in tmp_path.iterdir()] == [kind]


def test_rewards_that_floats_cannot_tell_apart_are_called_so():
    """Version 0.1 said that they are always 9.0072e+15."""
    table = {
        "page": [0, 1] * 50,
        "offer": [0, 0, 1, 1] * 25,
        "paid": pa.array([2**53, 2**53 + 1] * 50, pa.int64()),
    }
    with pytest.raises(InvalidInputError, match=r"always 9007199254740992.0 \(up to differences"):
        romdp.fit(table, "page", "offer", "paid")


def test_observations_that_never_occur_again_are_refused_before_the_search():
    """Version 0.1 searched a million of them for more than 100 seconds without a sign."""
    n = 50_000
    table = {"page": np.arange(n), "offer": np.arange(n) % 3, "paid": np.arange(n) % 2}
    with pytest.raises(InvalidInputError, match="50,000 different observations in 50,000 steps"):
        romdp.fit(table, "page", "offer", "paid")
    seen = romdp.Trajectory(np.arange(n), np.arange(n) % 3)
    for learn in (romdp.fit, romdp.cluster):
        with pytest.raises(InvalidInputError, match="nothing can be grouped"):
            learn(seen)


def test_every_stage_of_a_fit_is_announced():
    seen = romdp.simulate(romdp.worlds.random_romdp(2, 2, 6, seed=0), "uniform", 2000, seed=0)
    stages = []
    romdp.fit(seen, stage=stages.append)
    assert [words.split()[0] for words in stages] == [
        "grouping",
        "evaluating",
        "grouping",
    ]
    assert "6 observations" in stages[0]


def test_rewards_too_close_to_be_squared_are_refused():
    """Version 0.1 divided by zero and went on with sums that are not numbers."""
    table = {"page": [0, 1] * 50, "offer": [0, 0, 1, 1] * 25, "paid": [1e-310, 2e-310] * 50}
    with pytest.raises(InvalidInputError, match="too little for floats to square; rescale"):
        romdp.fit(table, "page", "offer", "paid")
