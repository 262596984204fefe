"""What run directories cost: bookkeeping, files, the summary, the report and its page.

python benchmarks/run_directories.py [--runs 10000] [--steps 1000] [--played 200] [--out FOLDER]

Only some of the runs are played; their tables are handed in again for all others, so that what is
measured is the directory and not the agent. Times are those of the processor: a busy machine does
not count.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from functools import partialmethod
from pathlib import Path
from unittest import mock

from romdp.experiments import Experiment, RunDirectory, run_experiment, running
from romdp.experiments.agents import Settings
from romdp.experiments.executors import Outcome
from romdp.experiments.worlds import NamedWorld


class Repeats:
    """Plays the first tasks and gives what came of them for all others too."""

    def __init__(self, played: int) -> None:
        self.played = played
        self.seconds = 0.0  # that playing took

    def run(self, work, tasks, listen=None):
        """Yield an outcome for every task."""
        start = time.process_time()
        values = [work(task, lambda _: None) for task in tasks[: self.played]]
        self.seconds = time.process_time() - start
        for index in range(len(tasks)):
            yield Outcome(index, values[index % self.played])

    def close(self) -> None:
        """Do nothing."""


class Stopwatch:
    """Adds up the processor time that a function takes, wherever it is called."""

    def __init__(self, function) -> None:
        self.function = function
        self.seconds = 0.0

    def __call__(self, *arguments, **options):
        """Call the function."""
        start = time.process_time()
        try:
            return self.function(*arguments, **options)
        finally:
            self.seconds += time.process_time() - start


def in_a_process(code: str, path: Path) -> tuple[float, float]:
    """Run some code in a process of its own; return its seconds and its peak memory in MB."""
    measure = (
        f"import resource, sys, time\npath = {str(path)!r}\n{code}\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "print(time.process_time(), peak)"
    )
    found = subprocess.run(
        [sys.executable, "-c", measure], check=True, capture_output=True, text=True
    )
    seconds, memory = map(float, found.stdout.split()[-2:])
    return seconds, memory


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--played", type=int, default=200)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    folder = options.out or Path(tempfile.mkdtemp())
    experiment = Experiment(
        ("random-romdp",),
        ("ucrl2",),
        (10,),
        steps=options.steps,
        seeds=options.runs,
        settings=Settings(scale=0.1),
    )
    played = options.played
    warm = RunDirectory.create(folder / "warm", replace(experiment, seeds=3))
    run_experiment(warm, Repeats(3))  # compiles and imports
    directory = RunDirectory.create(folder / "runs", experiment)
    repeats = Repeats(played)
    playing, making = Stopwatch(running._play), Stopwatch(NamedWorld.make)
    start, wall = time.process_time(), time.perf_counter()
    with (
        mock.patch.object(running, "_play", playing),
        mock.patch.object(NamedWorld, "make", partialmethod(making)),
    ):
        run_experiment(directory, repeats)
    stored = 1000 * (time.process_time() - start - repeats.seconds) / options.runs
    wall = time.perf_counter() - wall
    alone = 1000 * (playing.seconds + making.seconds) / played
    worker = 1000 * repeats.seconds / played - alone
    files = [file for file in directory.path.rglob("*") if file.is_file()]
    print(f"{options.runs:,} runs of {options.steps:,} steps: ucrl2, Y = 10")
    print(f"world and playing  {alone:8.2f} ms per run")
    print(f"facts and tables   {worker:8.2f} ms per run, in the worker")
    print(f"storing            {stored:8.2f} ms per run, the summary included")
    print(f"on the clock       {wall:8.1f} s for everything")
    print(f"files              {len(files):8d}")
    print(f"on the disk        {sum(f.stat().st_size for f in files) / 1e6:8.1f} MB")
    seconds, memory = in_a_process(
        "from romdp.experiments import RunDirectory, summarise\nsummarise(RunDirectory.open(path))",
        directory.path,
    )
    print(f"summarise          {seconds:8.1f} s, peak {memory:.0f} MB")
    seconds, memory = in_a_process("import romdp\nromdp.load_runs(path)", directory.path)
    print(f"load_runs          {seconds:8.1f} s, peak {memory:.0f} MB")
    seconds, memory = in_a_process(
        "from romdp.reports import read_results\nread_results(path)", directory.path
    )
    print(f"read_results       {seconds:8.1f} s, peak {memory:.0f} MB")
    seconds, memory = in_a_process(
        "import sys\nsys.argv[1:] = ['report', path]\nfrom romdp.cli import app\n"
        "app(standalone_mode=False)",
        directory.path,
    )
    page = (directory.path / "report.html").stat().st_size
    print(f"romdp report       {seconds:8.1f} s, peak {memory:.0f} MB, page {page / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
