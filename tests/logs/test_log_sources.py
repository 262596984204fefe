import gzip
import os

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from romdp.core.errors import InvalidInputError, StorageError
from romdp.logs.reading.columns import Columns
from romdp.logs.reading.counting import count_logs
from romdp.logs.reading.sources import open_source

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
    refuse(frame, "row 2 of the table, column 'page': 1 is of another type than the values before")
    refuse({"page": [1, 2.5, None, "b"]}, "row 4 of the table, column 'page': 'b' is of another")
    refuse({"page": [1, 2**70]}, "a column of the table cannot be read")


def test_columns_of_different_lengths_are_refused():
    refuse({"page": [1, 2], "paid": [1.0]}, "cannot be read")


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
        ("", "the name of the log is empty"),
        (tmp_path / "fifo.csv", "is a FIFO or a device"),
        ("/dev/zero", "is a FIFO or a device"),
        (os.fsdecode(strange), "is not UTF-8"),
        (tmp_path, "is not UTF-8"),
        (str(tmp_path / "caf*.csv"), "is not UTF-8"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            open_source(data)
