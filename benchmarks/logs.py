"""Time and memory of counting a log in Parquet files, and of fitting a model to it.

The log is a walk in ``random_romdp(12, 4, 2000)`` under the uniform policy, cut into episodes of
about 100 rows whose rows are interleaved with those of 99 others. Pages are text.

    python benchmarks/logs.py                        # 10^7 rows, about a minute
    python benchmarks/logs.py --rows 1e8             # the goal: 5 minutes and 4 GB on two cores
"""

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from romdp.data.partition import Partition
from romdp.logs.fitting import fit_counts
from romdp.logs.reading.columns import Columns
from romdp.logs.reading.counting import count_logs
from romdp.worlds.named import random_romdp
from romdp.worlds.simulator import Simulator

CHUNK = 1_000_000
FILE_ROWS = 10_000_000
WIDTH = 100  # episodes that go on at the same time, and rows of each
GIGABYTE = 2**20  # in units of ru_maxrss on Linux


def write(folder: Path, rows: int, n_observations: int) -> np.ndarray:
    """Write the files and return the true label of every page."""
    world = random_romdp(12, 4, n_observations, seed=0)
    simulator = Simulator(world, 1)
    pages = pa.array([f"page-{i:05d}" for i in range(n_observations)])
    writer = None
    for start in range(0, rows, CHUNK):
        seen = simulator.trajectory("uniform", min(CHUNK, rows - start))
        n_rows = seen.n_steps // (WIDTH * WIDTH) * WIDTH * WIDTH
        # Step i of episode e stands at e * WIDTH + i of the walk; turning each square of
        # WIDTH episodes round interleaves them.
        turned = np.arange(n_rows).reshape(-1, WIDTH, WIDTH).swapaxes(1, 2).ravel()
        table = pa.table(
            {
                "user": pa.array((start + turned) // WIDTH),
                "minute": pa.array((start + turned) % WIDTH),
                "page": pa.DictionaryArray.from_arrays(
                    pa.array(seen.observations[turned].astype(np.int32)), pages
                ),
                "offer": pa.array(seen.actions[turned].astype(np.int8)),
                "paid": pa.array(seen.rewards[turned] * 10.0),
            }
        )
        if start % FILE_ROWS == 0:
            if writer is not None:
                writer.close()
            writer = pq.ParquetWriter(folder / f"{start // FILE_ROWS:04d}.parquet", table.schema)
        writer.write_table(table)
    writer.close()
    return world.labels


def gigabytes() -> float:
    """Peak memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIGABYTE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=float, default=1e7)
    parser.add_argument("--observations", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--folder", type=Path, help="keep the files here, or find them here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        labels = random_romdp(12, 4, options.observations, seed=0).labels
        if not list(folder.glob("*.parquet")):
            start = time.perf_counter()
            write(folder, int(options.rows), options.observations)
            print(f"wrote {options.rows:.0e} rows in {time.perf_counter() - start:.1f} s")
        start = time.perf_counter()
        columns = Columns("page", "offer", "paid", "user", "minute")
        log = count_logs(folder, columns, workers=options.workers)
        spent = time.perf_counter() - start
        print(
            f"counted {log.n_rows:,} rows, {log.n_episodes:,} episodes, in {spent:.1f} s "
            f"({log.n_rows / spent / 1e6:.2f} million a second), peak {gigabytes():.2f} GB"
        )
        start = time.perf_counter()
        model = fit_counts(log)
        spent = time.perf_counter() - start
        numbers = [int(name.removeprefix("page-")) for name in model.observation_names]
        wrong = model.partition.misclassification(Partition(labels[numbers]))
        print(
            f"fitted {model.n_states} states in {spent:.1f} s, {wrong:.2%} of the pages wrong, "
            f"peak {gigabytes():.2f} GB"
        )


if __name__ == "__main__":
    main()
