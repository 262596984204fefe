"""What run directories cost: bookkeeping, files, the summary, the report and its page.

python benchmarks/run_directories.py [--runs 10000] [--steps 1000] [--out FOLDER]

Plays the runs twice, one after the other in this process: once alone and once through
`run_experiment`. The difference is the bookkeeping. The figures of docs/results/run-directories.md
are those of 10,000 runs of ucrl2 with Y = 10.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from romdp.exact.romdp import as_romdp
from romdp.experiments import Experiment, RunDirectory, run_experiment
from romdp.experiments.catalogue import Settings, make_agent
from romdp.experiments.shards import load_runs
from romdp.playing import epochs


def seconds_of(work) -> float:
    """Return how long it takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def play_alone(experiment) -> None:
    """Play every run of an experiment and keep nothing."""
    for run in experiment.runs:
        world = experiment.world(run.world).make(run.n_observations, run.replicate)
        _ = as_romdp(world).hidden.gain
        agent = make_agent(run.agent, world, experiment.settings)
        playing = epochs(agent, world, experiment.steps, run.stream(experiment.seed))
        for _ in playing:
            pass
        _ = playing.run


def in_a_process(code: str, path: Path) -> tuple[float, float]:
    """Run some code in a process of its own; return its seconds and its peak memory in MB."""
    measure = (
        "import resource, sys, time\nstart = time.perf_counter()\n"
        f"path = {str(path)!r}\n{code}\n"
        "peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024\n"
        "print(time.perf_counter() - start, peak)"
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
    few = Experiment(("random-romdp",), ("ucrl2",), (10,), steps=options.steps, seeds=20)
    play_alone(few)  # compiles
    alone = seconds_of(lambda: play_alone(experiment))
    directory = RunDirectory.create(folder / "runs", experiment)
    whole = seconds_of(lambda: run_experiment(directory))
    per_run = 1000 * (whole - alone) / options.runs
    files = [file for file in directory.path.rglob("*") if file.is_file()]
    print(f"{options.runs:,} runs of {options.steps:,} steps: ucrl2, Y = 10")
    print(f"playing alone      {1000 * alone / options.runs:8.2f} ms per run")
    print(f"bookkeeping        {per_run:8.2f} ms per run, the summary included")
    print(f"files              {len(files):8d}")
    print(f"on the disk        {sum(f.stat().st_size for f in files) / 1e6:8.1f} MB")
    seconds, memory = in_a_process(
        "from romdp.experiments import RunDirectory, summarise\nsummarise(RunDirectory.open(path))",
        directory.path,
    )
    print(f"summarise          {seconds:8.1f} s, peak {memory:.0f} MB")
    print(f"load_runs          {seconds_of(lambda: load_runs(directory.path)):8.1f} s")
    seconds, memory = in_a_process(
        "from romdp.reports import read_results\nread_results(path)", directory.path
    )
    print(f"read_results       {seconds:8.1f} s, peak {memory:.0f} MB")
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "romdp", "report", str(directory.path)], check=True)
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    page = (directory.path / "report.html").stat().st_size
    print(f"romdp report       {seconds:8.1f} s, peak {memory:.0f} MB, page {page / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
