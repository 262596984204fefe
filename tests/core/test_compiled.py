import os
import pickle
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest

from romdp.core import compiled, randomness
from romdp.core.compiled import kernel, on_compilation

DRAW = """
from romdp.core.compiled import on_compilation
seen = []
on_compilation(seen.append)
import numpy as np
from romdp.core.randomness import alias_tables
keep, alias = alias_tables(np.array([[0.25, 0.75]]))
print(alias.tolist(), len(seen), *sorted(set(seen)))
"""

NOWHERE_TO_WRITE = """
import logging
from numba.core import caching
class Nowhere:
    @classmethod
    def from_function(cls, function, file):
        return None
for kind in vars(caching).values():
    if isinstance(kind, type) and hasattr(kind, "_locator_classes"):
        kind._locator_classes = [Nowhere]
logging.basicConfig(level=logging.INFO, format="%(message)s")
"""


def run(code, cache):
    """Run code in a fresh process that keeps compiled kernels in ``cache``."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return done.stdout.strip(), done.stderr


def test_of_two_processes_one_compiles_and_the_other_waits_for_it(tmp_path):
    with ThreadPoolExecutor() as both:
        printed = list(both.map(lambda _: run(DRAW, tmp_path)[0], range(2)))
    assert sorted(printed) == ["[[1, 1]] 0", "[[1, 1]] 1 _fill_alias"]


def test_a_cache_that_cannot_be_written_breaks_nothing(tmp_path):
    output, log = run(NOWHERE_TO_WRITE + DRAW, tmp_path)
    assert output == "[[1, 1]] 1 _fill_alias"
    assert "no writable cache directory: _fill_alias is compiled in memory" in log
    assert os.listdir(tmp_path) == []


def test_other_errors_of_numba_are_not_hidden(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("something else")

    monkeypatch.setattr(numba, "njit", broken)
    with pytest.raises(RuntimeError, match="something else"):
        kernel(len)


def test_a_kernel_divides_like_numpy():
    def ratio(a, b):
        return a / b

    assert kernel(ratio)(1.0, 0.0) == np.inf


def test_only_our_kernels_are_reported_and_only_when_compiled():
    def stranger(x):
        return x + 1

    def ours(x):
        return x + 2

    ours.__module__ = "romdp.somewhere"
    seen = []
    stop = on_compilation(seen.append)
    try:
        numba.njit(stranger)(1)
        assert seen == []
        compiled = numba.njit(ours)
        compiled(1)
        compiled(2)
        assert seen == ["ours"]
    finally:
        stop()
    compiled(1.5)  # another type: it compiles again, and nobody listens
    assert seen == ["ours"]
    assert randomness.as_uniform.py_func.__module__ == "romdp.core.randomness"


def test_a_kernel_is_compiled_again_if_one_that_it_calls_has_changed(tmp_path):
    """``count_step`` calls ``add`` of another file; numba alone would go on with the old one."""
    package = tmp_path / "romdp"
    shutil.copytree(
        Path(compiled.__file__).parents[1], package, ignore=shutil.ignore_patterns("__pycache__")
    )
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from romdp.data.recorder import Recorder\n"
        "recorder = Recorder(2, 1)\n"
        "recorder.record(0, 0, 1.0, 1)\n"
        "print(recorder.counts.transitions.ravel().tolist())"
    )
    assert run(code, tmp_path / "cache")[0] == "[0, 1, 0, 0]"
    tally = package / "data" / "tally.py"
    tally.write_text(tally.read_text().replace("counts[key] += 1", "counts[key] += 2"))
    assert run(code, tmp_path / "cache")[0] == "[0, 2, 0, 0]"


def test_the_stamp_of_a_file_is_that_of_all_it_imports(tmp_path):
    file = tmp_path / "user.py"
    file.write_text(
        "import romdp.clustering.likelihood.links\n"
        "from romdp.clustering.likelihood.sweeping import (\n    sweep,\n)\n"
    )
    names = {name for name, _, _ in compiled.source_stamp(file)}
    assert {"user.py", "sweeping.py", "blockmodel.py", "links.py", "compiled.py"} <= names
    assert "command.py" not in names


def test_an_index_that_names_what_is_gone_is_out_of_date(tmp_path, monkeypatch):
    """After an upgrade the cache may name a class that romdp no longer has."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))

    @kernel
    def twice(x):
        return 2 * x

    file = twice._cache._cache_file
    with open(file._index_path, "wb") as out:
        pickle.dump(file._version, out)
        out.write(b"cromdp.core.compiled\nGone\n.")  # what pickle writes for such a class
    assert twice(3) == 6
    assert twice.stats.cache_hits == {}
