"""How much romdp bears: time, memory and the longest pause of what is large.

    python benchmarks/load.py [ROW ...]

Each row runs in a process of its own. Times are of the processor, so that a busy machine does not
count; memory is the largest that the process ever had, the libraries' 0.2 GB included.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from array import array

import numpy as np


class Clock:
    """Times calls, and remembers how long each took."""

    def __init__(self) -> None:
        self.pauses = array("d")  # so small that it does not count

    def __call__(self, call, *arguments, **named):
        """Make a call."""
        began = time.process_time()
        answer = call(*arguments, **named)
        self.pauses.append(time.process_time() - began)
        return answer

    def say(self) -> str:
        """Say how long most calls took, and the longest."""
        pauses = 1e3 * np.frombuffer(self.pauses)
        half, most, worst = np.quantile(pauses, [0.5, 0.9999, 1.0])
        return f"pauses: median {half:.3f}, 99.99% {most:.1f}, worst {worst:,.0f} ms"


def memory() -> float:
    """Return the largest memory of this process, or of one that it started, so far, in GB."""
    return max(used.ru_maxrss for used in usage()) / 2**20


def usage() -> list[resource.struct_rusage]:
    """Return what this process has used, and those that it started."""
    return [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]


def online(steps: int, n_observations: int, new: bool, ends: int = 0) -> str:
    """Run a loop over `Online`; ``new``: no observation is ever met twice."""
    import romdp

    agent, clock = romdp.Online(romdp.LCPSRL(), n_observations, 2), Clock()
    rng, at, half = np.random.default_rng(0), 0, 0.0
    jumps, rewards = rng.integers(n_observations, size=steps), rng.random(steps)
    for step in range(steps):
        action = clock(agent.act, at)
        to = step + 1 if new else int((at + action + jumps[step] // 9) % n_observations)
        over = bool(ends) and step % ends == ends - 1
        clock(agent.observe, float(rewards[step]), to, terminated=over)
        at = to
        if step == steps // 2:
            half = memory()
    grew = f"memory after half of it {half:.2f} GB"
    return f"{clock.say()}; {grew}; {agent.partition.n_clusters:,} groups"


def distinct() -> str:
    """10^6 observations, each met once."""
    return online(10**6, 10**6 + 1, new=True)


def steps() -> str:
    """10^6 steps among 30 observations."""
    return online(10**6, 30, new=False)


def episodes() -> str:
    """10^5 episodes of ten steps."""
    return online(10**6, 30, new=False, ends=10)


def runs() -> str:
    """10^4 runs in one directory, and its page."""
    script = [sys.executable, "benchmarks/run_directories.py", "--runs", "10000"]
    said = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    return " ".join(said.split())


def columns() -> str:
    """Fit a log of 5,000 vectors of 2,000 columns."""
    import romdp

    rng = np.random.default_rng(0)
    state = rng.integers(5, size=5000)
    vectors = rng.normal(size=(5000, 2000)) + 3 * np.eye(5, 2000)[state]
    actions = rng.integers(2, size=5000)
    log = {"seen": vectors, "did": actions, "paid": (state == 0).astype(float)}
    model = romdp.fit(log, "seen", "did", "paid")
    return f"{model.n_states} states"


def rows() -> str:
    """Fit a Parquet file of 10^7 rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import romdp

    world = romdp.worlds.random_romdp(5, 4, 1000, seed=0)
    seen = romdp.simulate(world, "uniform", 10**7, seed=0)
    table = {"page": seen.observations, "offer": seen.actions, "paid": seen.rewards}
    with tempfile.TemporaryDirectory() as folder:
        pq.write_table(pa.table(table), f"{folder}/log.parquet")
        model = romdp.fit(f"{folder}/log.parquet", "page", "offer", "paid")
    right = model.partition.adjusted_rand_index(romdp.Partition(world.labels))
    return f"{model.n_states} states, agreement with the truth {right:.3f}"


ROWS = (distinct, steps, episodes, runs, columns, rows)


def main() -> None:
    """Run the rows, or one of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("rows", nargs="*", default=[row.__name__ for row in ROWS])
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    known = {row.__name__: row for row in ROWS}
    for name in options.rows:
        if not options.here:
            subprocess.run([sys.executable, __file__, "--here", name], check=True)
            continue
        said = known[name]()
        seconds = sum(used.ru_utime + used.ru_stime for used in usage())
        print(f"{known[name].__doc__} {seconds:.0f} s, {memory():.2f} GB; {said}", flush=True)


if __name__ == "__main__":
    main()
