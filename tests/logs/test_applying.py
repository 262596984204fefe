import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import romdp
from romdp.core.errors import InvalidInputError
from romdp.logs import fit
from romdp.logs.applying import ADDED, apply_model

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)


def log(steps, offset=0):
    seen = romdp.simulate(WORLD, "uniform", steps, seed=0)
    return pa.table(
        {
            "who": np.arange(steps) * 0.5,
            "page": seen.observations + offset,
            "offer": np.array(["tea", "ale"])[seen.actions],
            "paid": seen.rewards,
        }
    )


@pytest.fixture(scope="module")
def model():
    return fit(log(8000), "page", "offer", "paid")


def read(path):
    if path.suffix == ".parquet":
        return pq.read_table(path)
    return pyarrow.csv.read_csv(path) if path.suffix == ".csv" else pa.feather.read_table(path)


@pytest.mark.parametrize("read_as", ["table", "parquet", "csv", "arrow"])
@pytest.mark.parametrize("write_as", ["parquet", "csv", "arrow"])
def test_every_row_is_answered(model, tmp_path, read_as, write_as):
    table = log(500, offset=4)  # pages 12 to 15 are new
    data = tmp_path / f"new.{read_as}"
    match read_as:
        case "table":
            data = table
        case "parquet":
            pq.write_table(table, data, row_group_size=90)
        case "csv":
            pyarrow.csv.write_csv(table, data)
        case "arrow":
            pa.feather.write_feather(table, data)
    out = tmp_path / f"out.{write_as}"
    seen = []
    assert apply_model(model, data, out, batch_rows=64, progress=seen.append) == 500
    assert sum(seen) == 500
    answer = read(out)
    assert answer.column_names == [*table.column_names, *ADDED]
    pages = table["page"].to_pylist()
    states = model.predict(pages)
    assert answer["hidden_state"].to_pylist() == [s if s >= 0 else None for s in states.tolist()]
    expected = [None if a is None else str(a) for a in model.act(pages)]
    found = answer["recommended_action"].to_pylist()
    assert [a or None for a in found] == expected
    assert (states < 0).any()
    margins = [m for m in answer["margin"].to_pylist() if m is not None]
    assert margins == pytest.approx([model.log_odds[p] for p in pages if p < 12])
    if read_as != "csv" and write_as != "csv":
        assert answer.select(table.column_names).equals(table)


def test_a_missing_observation_gets_no_answer(model, tmp_path):
    apply_model(model, pa.table({"page": [1, None]}), tmp_path / "out.parquet")
    answer = pq.read_table(tmp_path / "out.parquet")
    assert answer["hidden_state"].to_pylist() == [model.predict(1), None]


def test_text_is_kept_whole(tmp_path):
    pages = ["ü", "b", "", "a b"] * 100
    table = pa.table({"page": pages, "offer": [0, 1, 1, 0, 1] * 80})
    model = fit(table, "page", "offer")
    pq.write_table(table, tmp_path / "new.parquet")
    apply_model(model, tmp_path / "new.parquet", tmp_path / "out.parquet")
    answer = pq.read_table(tmp_path / "out.parquet")
    assert answer["page"].to_pylist() == pages
    assert answer["page"].type == pa.string()
    assert answer["hidden_state"].null_count == 0


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        ({"pages": [1]}, {}, "no column 'page'; did you mean 'pages'"),
        ({"page": ["1"]}, {}, "holds text values, the model knows observations as whole"),
        ({"page": [1], "margin": [2]}, {}, "has a column 'margin' already"),
        ({"page": pa.array([], pa.int64())}, {}, "holds no rows"),
        ({"page": [1]}, {"observation": "pge"}, "no column 'pge'"),
        ({"page": [1]}, {"out": "new.xlsx"}, "must end in .parquet"),
        ({"page": [1]}, {"out": "."}, "must end in"),
    ],
)
def test_refusals_write_nothing(model, tmp_path, data, options, words):
    out = tmp_path / options.pop("out", "out.parquet")
    with pytest.raises(InvalidInputError, match=words):
        apply_model(model, pa.table(data), out, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_error_in_the_middle_leaves_nothing(model, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    pq.write_table(pa.table({"page": [1, 2], "x": ["a", "b"]}), folder / "a.parquet")
    pq.write_table(pa.table({"page": [1, 2], "x": [[1], [2]]}), folder / "b.parquet")
    with pytest.raises(InvalidInputError, match=r"b.parquet"):
        apply_model(model, folder, tmp_path / "out.parquet")
    pq.write_table(pa.table({"page": [1, 2], "y": ["a", "b"]}), folder / "b.parquet")
    with pytest.raises(InvalidInputError, match=r"columns of .*b.parquet are not those of"):
        apply_model(model, folder, tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_a_model_of_a_trajectory_needs_to_be_told_the_column(tmp_path):
    model = fit(romdp.simulate(WORLD, "uniform", 3000, seed=0))
    with pytest.raises(InvalidInputError, match=r"observation is missing"):
        apply_model(model, {"page": [1]}, tmp_path / "out.csv")
    assert apply_model(model, {"page": [1]}, tmp_path / "out.csv", "page") == 1


def test_texts_that_a_spreadsheet_would_calculate_get_a_quote(model, tmp_path):
    texts = ["=1+1", "+cmd", "-2+3", "@sum", "\tx", "-5", "+1.5e3", "a=b", "", None, "-"]
    table = log(len(texts)).append_column("note", pa.array(texts))
    safe, plain, parquet = (tmp_path / name for name in ("safe.csv", "plain.csv", "safe.parquet"))
    apply_model(model, table, safe, safe_cells=True)
    apply_model(model, table, plain)
    apply_model(model, table, parquet, safe_cells=True)
    convert = pyarrow.csv.ConvertOptions(
        column_types={"note": pa.string()},
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    found = pyarrow.csv.read_csv(safe, convert_options=convert)["note"].to_pylist()
    assert found[:5] == ["'=1+1", "'+cmd", "'-2+3", "'@sum", "'\tx"]
    assert found[5:] == [*texts[5:10], "'-"]
    assert pyarrow.csv.read_csv(plain, convert_options=convert)["note"].to_pylist() == texts
    assert pq.read_table(parquet)["note"].to_pylist() == texts
