"""Kill ``fit``, ``apply`` and ``reproduce`` at random moments and check what is left.

    python benchmarks/kills.py --times 20

After every kill of ``fit`` there must be the old model or the new one, after every kill of
``apply`` the old table or the new one. ``reproduce`` is killed again and again in one directory;
it must finish with the tables of a run that nobody killed.
"""

import argparse
import functools
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq

import romdp
from romdp.experiments.store import TABLES

ROMDP = (sys.executable, "-m", "romdp")
REPRODUCE = """
import dataclasses
from romdp.cli import main
from romdp.experiments.reproductions import REPRODUCTIONS, Effort

if __name__ == "__main__":
    small = Effort(steps=2_000, seeds=1)
    REPRODUCTIONS["regret"] = dataclasses.replace(REPRODUCTIONS["regret"], quick=small)
    main()
"""
LOG = ("--observation", "page", "--action", "offer", "--reward", "paid", "--quiet")


def run(*arguments, kill_after=None, command=ROMDP):
    """Run the command; return whether it was killed before its end, and how long it took."""
    began = time.monotonic()
    process = subprocess.Popen(
        [*command, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        _, errors = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return True, time.monotonic() - began
    if process.returncode:
        raise SystemExit(f"romdp {' '.join(map(str, arguments))} failed: {errors}")
    return False, time.monotonic() - began


def write_log(path, n_states):
    world = romdp.worlds.random_romdp(n_states, 2, 12, seed=1)
    seen = romdp.simulate(world, "uniform", 20_000, seed=0)
    columns = {"page": seen.observations, "offer": seen.actions, "paid": seen.rewards}
    import pyarrow as pa

    pq.write_table(pa.table(columns), path)


def kill_fit(folder, times, rng):
    """Replace a model of two states by one of four; a kill must leave one of them."""
    write_log(folder / "old.parquet", 2)
    write_log(folder / "new.parquet", 4)
    run("fit", folder / "old.parquet", *LOG, "--out", folder / "kept")
    shutil.copytree(folder / "kept", folder / "model")
    _, seconds = run("fit", folder / "new.parquet", *LOG, "--out", folder / "model")
    killed = {2: 0, 4: 0}
    while sum(killed.values()) < times:
        shutil.rmtree(folder / "model")
        shutil.copytree(folder / "kept", folder / "model")
        after = rng.uniform(0.3, 1.0) * seconds
        if run("fit", folder / "new.parquet", *LOG, "--out", folder / "model", kill_after=after)[0]:
            killed[romdp.load_model(folder / "model").n_states] += 1
        else:
            seconds *= 0.9  # the machine is less busy than it was
    return f"{times} kills: {killed[2]} left the old model, {killed[4]} the new one"


def kill_apply(folder, times, rng):
    """Write over an older table; a kill must leave that or the new one, whole."""
    write_log(folder / "log.parquet", 3)
    run("fit", folder / "log.parquet", *LOG, "--out", folder / "model")
    command = ("apply", folder / "model", folder / "log.parquet", "--quiet")
    _, seconds = run(*command, "--out", folder / "whole.parquet")
    whole = pq.read_table(folder / "whole.parquet")
    old = whole.slice(0, 10)
    left = {"old": 0, "new": 0}
    while sum(left.values()) < times:
        pq.write_table(old, folder / "out.parquet")
        after = rng.uniform(0.3, 1.0) * seconds
        if run(*command, "--out", folder / "out.parquet", kill_after=after)[0]:
            found = pq.read_table(folder / "out.parquet")
            if not (found.equals(old) or found.equals(whole)):
                raise SystemExit("apply left a table that is neither the old nor the new one")
            left["new" if found.equals(whole) else "old"] += 1
        else:
            seconds *= 0.9
    return f"{times} kills: {left['old']} left the old table, {left['new']} the new one"


def tables(folder):
    """Return the tables of all runs of a directory, as the bytes that are stored."""
    with closing(sqlite3.connect(folder / "runs.sqlite")) as store:
        return store.execute(f"SELECT number, {', '.join(TABLES)} FROM runs").fetchall()


def kill_reproduce(folder, times, rng):
    """Kill an experiment again and again until it is done; its tables are as if nobody had.

    It is the quick version of a figure with 12 runs of 2,000 steps and ten checkpoints per
    second; whenever it gets to its end it is begun anew.
    """
    (folder / "small.py").write_text(REPRODUCE)
    reproduce = functools.partial(
        run,
        *("reproduce", "regret", "--quick", "--quiet", "--checkpoint-seconds", 0.1, "--out"),
        command=(sys.executable, folder / "small.py"),
    )
    _, seconds = reproduce(folder / "whole")
    whole = tables(folder / "whole")
    n_killed = n_finished = 0
    while n_killed < times or (folder / "killed").exists():
        after = rng.uniform(0.2, 0.8) * seconds if n_killed < times else None
        if reproduce(folder / "killed", kill_after=after)[0]:
            n_killed += 1
            continue
        if tables(folder / "killed") != whole:
            raise SystemExit("reproduce ended with other tables after a kill")
        n_finished += 1
        shutil.rmtree(folder / "killed")
    return f"{times} kills: finished {n_finished} times with the tables of a run that nobody killed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=20, help="kills of each command")
    parser.add_argument("--commands", default="fit,apply,reproduce")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kills = {"fit": kill_fit, "apply": kill_apply, "reproduce": kill_reproduce}
    for name in options.commands.split(","):
        with tempfile.TemporaryDirectory() as folder:
            rng = random.Random(f"{options.seed} {name}")
            print(f"{name}: {kills[name](Path(folder), options.times, rng)}", flush=True)


if __name__ == "__main__":
    main()
