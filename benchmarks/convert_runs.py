"""Turn run directories of version 0.1 into today's, without changing a figure.

python benchmarks/convert_runs.py DIRECTORY ...

The tables, facts and errors of every run move into the index and the shards. What was read before
and what is read afterwards is compared number by number before the old files are deleted.
"""

import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from romdp.experiments.directory import RunDirectory
from romdp.experiments.earlier import read_tables
from romdp.experiments.tables import KINDS, Writer, pack, read_runs


def convert(path: Path) -> int:
    """Convert one directory in place and return the number of its finished runs."""
    old = RunDirectory.open(path)
    if not old.earlier:
        raise SystemExit(f"{path} was not written by romdp 0.1")
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        target = Path(folder)
        for name in ("experiment.json", "worlds"):
            if (path / name).exists():
                copy = shutil.copytree if (path / name).is_dir() else shutil.copy
                copy(path / name, target / name)
        new = RunDirectory.open(target)
        before = read_runs(old)
        if before.damaged:
            raise SystemExit(f"{path} is damaged: {before.damaged}")
        with new.lock():
            new.prepare()
            with new.index(writing=True) as index:
                writer = Writer(new, index)
                writer.begin()
                for row in before.rows:
                    tables = read_tables(path / "runs", row.run)
                    packed = {
                        kind: pack(kind, {c: table[c].combine_chunks() for c in table.column_names})
                        for kind, table in tables.items()
                    }
                    writer.store(row.run, row.facts, packed)
                for run, error in before.failed.items():
                    writer.store_error(run, error)
                writer.finish()
        check(before, read_runs(new))
        (target / "checkpoints").rmdir()
        shutil.rmtree(path / "runs")
        for file in target.iterdir():
            if not (path / file.name).exists():
                shutil.move(file, path / file.name)
    return len(before.rows)


def check(before, after) -> None:
    """Compare everything that can be read, NaN being equal to NaN."""
    assert [row.run for row in before.rows] == [row.run for row in after.rows]
    assert before.failed == after.failed
    assert not after.damaged
    for kind in KINDS:
        one, other = before.tables[kind], after.tables[kind]
        assert one.schema == other.schema
        for name in one.column_names:
            left, right = one[name].combine_chunks(), other[name].combine_chunks()
            if name == "labels":
                assert left.equals(right)
            else:
                np.testing.assert_array_equal(
                    left.to_numpy(zero_copy_only=False), right.to_numpy(zero_copy_only=False)
                )
    for one, other in zip(before.rows, after.rows, strict=True):
        for name, value in one.facts.items():
            unknown = isinstance(value, float) and np.isnan(value)
            assert other.facts[name] == (None if unknown else value), (one.run, name)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print(f"{argument}: {convert(Path(argument))} runs")
