"""Walk the journeys of three users and count what they cross.

For each journey: the functions of romdp that run, the files they are in and the packages of those
files. Each journey is walked twice and counted the second time, when everything is imported and
compiled; runs take place in this process. Kernels, lambdas and comprehensions do not count. A
newcomer who follows a journey with a debugger opens as many files.

    python benchmarks/journeys.py           # the table
    python benchmarks/journeys.py --files   # and the functions of every file
"""

import argparse
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import FrameType

import numpy as np

import romdp

HOME = Path(romdp.__file__).parent


class Walk:
    """The functions that ran, by file."""

    def __init__(self) -> None:
        self.functions: dict[str, set[str]] = defaultdict(set)

    def note(self, frame: FrameType, event: str, _: object) -> None:
        """Keep a function of ours that is called; the profiler of Python calls this."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(str(HOME)) and code.co_name[0] != "<":
            file = str(Path(code.co_filename).relative_to(HOME))
            self.functions[file].add(code.co_qualname)

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Watch this thread and those that are started meanwhile."""
        threading.setprofile(self.note)
        sys.setprofile(self.note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)  # type: ignore[arg-type]

    def row(self) -> tuple[int, int, int]:
        """Return how many functions, files and packages were crossed."""
        packages = {file.partition("/")[0] for file in self.functions}
        return sum(map(len, self.functions.values())), len(self.functions), len(packages)


def command(*arguments: str) -> None:
    """Run the ``romdp`` command in this process."""
    from romdp.cli import main

    sys.argv = ["romdp", *arguments]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise


def run_here() -> None:
    """Let ``romdp compare`` run in this process, where it can be watched."""
    executors = import_module("romdp.experiments.executors")
    executors.Processes = lambda _: executors.Here()


def compare(folder: Path) -> Callable[[], None]:
    """Make one small comparison."""
    grid = ["--observations", "10", "--steps", "20000", "--seeds", "1", "--workers", "1"]
    return lambda: command(
        "compare", *grid, "--agents", "sl-ucrl", "--scale", "0.1", "--out", str(folder / "runs")
    )


def report(folder: Path) -> Callable[[], None]:
    """Draw its page anew."""
    return lambda: command("report", str(folder / "runs"))


def fit(folder: Path) -> Callable[[], None]:
    """Turn a log into a model with a page."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
    seen = romdp.simulate(world, "uniform", steps=20_000, seed=0)
    columns = {"page": seen.observations, "offer": seen.actions, "clicked": seen.rewards}
    pq.write_table(pa.table({k: np.asarray(v) for k, v in columns.items()}), folder / "log.parquet")
    names = ["--observation", "page", "--action", "offer", "--reward", "clicked"]
    return lambda: command(
        "fit", str(folder / "log.parquet"), *names, "--out", str(folder / "model")
    )


def act(_: Path) -> Callable[[], None]:
    """One decision inside somebody's own loop, not at the end of an epoch."""
    online = romdp.Online(romdp.LCPSRL(), 12, 2, seed=0)
    for step in range(2000):
        online.act(step % 12)
        online.observe(0.0, (step + 1) % 12)

    def once() -> None:
        online.act(2000 % 12)
        online.observe(0.0, 2001 % 12)

    return once


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", action="store_true", help="list the functions of every file")
    options = parser.parse_args()
    run_here()
    rows = []
    with tempfile.TemporaryDirectory() as name:
        first, folder = Path(name, "first"), Path(name, "second")
        first.mkdir()
        folder.mkdir()
        both = Walk()
        for title, journey in {
            "compare sl-ucrl": compare,
            "with its report": report,
            "fit with page": fit,
            "one act/observe": act,
        }.items():
            journey(first)()
            go, walk = journey(folder), Walk()
            with walk.watch():
                go()
            if journey in (compare, report):
                for file, functions in walk.functions.items():
                    both.functions[file] |= functions
            shown = both if journey is report else walk
            rows.append((title, *shown.row()))
            if options.files:
                for file, functions in sorted(shown.functions.items()):
                    print(f"{title}: {file} ({len(functions)}): {', '.join(sorted(functions))}")
    print("| journey | functions | files | packages |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()
