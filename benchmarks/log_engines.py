"""Counting a log: our reader against queries of Polars and DuckDB, in time and peak memory.

    python benchmarks/log_engines.py [--rows 1e7] [--engines romdp polars duckdb]

Each engine reads the same Parquet file in a process of its own and counts how often an observation
and an action led where, with the sum of rewards; rows of an episode are in order and together. The
plain queries check nothing. Those with "checked" also look for missing values and for rows that are
out of order, as our reader does; they would still have to be asked which row it is, and they hold
no episode out.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ENGINES = ("romdp", "polars", "polars-checked", "duckdb", "duckdb-checked")


def write(path: Path, rows: int) -> None:
    """Write the log: 2,000 pages as text, 5 actions, rewards, episodes of 20 rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    pages = pa.array([f"/page/{i:04d}" for i in range(2_000)])
    writer = None
    for start in range(0, rows, 10**6):
        n = min(10**6, rows - start)
        batch = pa.table(
            {
                "page": pages.take(pa.array(rng.integers(2_000, size=n))),
                "offer": rng.integers(5, size=n),
                "paid": rng.random(n).round(2),
                "visit": (start + np.arange(n)) // 20,
                "minute": start + np.arange(n),
            }
        )
        writer = writer or pq.ParquetWriter(path, batch.schema)
        writer.write_table(batch)
    if writer is not None:
        writer.close()


def count(engine: str, path: Path) -> int:
    """Count the log; return the number of different transitions."""
    if engine == "romdp":
        from romdp.logs import Columns, count_logs

        columns = Columns("page", "offer", "paid", "visit", "minute")
        return int(count_logs(str(path), columns, holdout=0).counts.matrix().nnz)
    checked = engine.endswith("-checked")
    if engine.startswith("polars"):
        return _count_polars(path, checked)
    import duckdb

    duckdb.sql("SET memory_limit = '3GB'")
    if checked:
        query = f"""
            SELECT count(*) FILTER (page IS NULL OR offer IS NULL OR paid IS NULL OR NOT
            isfinite(paid) OR visit IS NULL), count(*) FILTER (minute <= before) FROM (
                SELECT *, lag(minute) OVER (PARTITION BY visit ORDER BY number) AS before FROM
                (SELECT *, file_row_number AS number FROM
                 read_parquet('{path}', file_row_number = true)))
        """
        assert duckdb.sql(query).fetchall() == [(0, 0)]
    query = f"""
        SELECT count(*) FROM (
            SELECT page, offer, following, count(*) AS n, sum(paid) AS paid FROM (
                SELECT *, lead(page) OVER (PARTITION BY visit ORDER BY minute) AS following
                FROM '{path}')
            GROUP BY ALL) WHERE following IS NOT NULL
    """
    return int(duckdb.sql(query).fetchall()[0][0])


def _count_polars(path: Path, checked: bool) -> int:
    import polars as pl

    rows = pl.scan_parquet(path)
    if checked:
        bad = pl.any_horizontal(pl.all().is_null()) | ~pl.col("paid").is_finite()
        late = pl.col("minute") <= pl.col("minute").shift(1).over("visit")
        found = rows.select(bad.sum(), late=late.sum()).collect(engine="streaming")
        assert found.row(0) == (0, 0)
    table = (
        rows.with_columns(following=pl.col("page").shift(-1).over("visit"))
        .group_by("page", "offer", "following")
        .agg(pl.len(), pl.col("paid").sum())
        .collect(engine="streaming")
    )
    return int(table["following"].is_not_null().sum())


def main() -> None:
    """Measure every engine and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--engines", nargs="*", choices=ENGINES, default=ENGINES)
    parser.add_argument("--engine", choices=ENGINES, help=argparse.SUPPRESS)
    parser.add_argument("--path", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.engine:
        begin = time.perf_counter()
        found = count(options.engine, options.path)
        spent = time.perf_counter() - begin
        used = resource.getrusage(resource.RUSAGE_SELF)
        figures = (found, spent, used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20)
        print(json.dumps(figures))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write(path, int(options.rows))
        print("| engine | transitions | s | s of all cores | peak GB |\n|---|--:|--:|--:|--:|")
        for engine in options.engines:
            arguments = [sys.executable, __file__, "--engine", engine, "--path", str(path)]
            done = subprocess.run(arguments, check=True, capture_output=True, text=True)
            found, spent, cores, memory = json.loads(done.stdout.splitlines()[-1])
            print(f"| {engine} | {found:,} | {spent:.1f} | {cores:.1f} | {memory:.2f} |")


if __name__ == "__main__":
    main()
