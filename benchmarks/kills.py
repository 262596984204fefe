"""Kill commands, and ``play`` with a checkpoint, at random moments and check what is left.

    python benchmarks/kills.py --times 20

After every kill of ``fit`` there must be the old model or the new one, after every kill of
``apply`` the old table or the new one. ``reproduce`` is killed again and again in one directory;
it must finish with the tables of a run that nobody killed; so must ``play`` with its checkpoint.
After every kill of ``report`` there must be the old page or the new one, after every kill of
``evaluate`` the model and the log as they were; both then say what they say when nobody kills them.
No temporary file may be left once a command has ended by itself.
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


def files_of(folder):
    """Return the bytes of every file, also of hidden ones."""
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def kill_evaluate(folder, times, rng):
    """Read and print alone: everything stays as it was, and the next one says the same."""
    write_log(folder / "log.parquet", 3)
    run("fit", folder / "log.parquet", *LOG, "--out", folder / "model")
    before = files_of(folder)
    command = (*ROMDP, "evaluate", str(folder / "model"), str(folder / "log.parquet"))
    said = subprocess.run(command, capture_output=True, check=True).stdout
    n_killed, seconds = 0, run(*command[len(ROMDP) :])[1]
    while n_killed < times:
        n_killed += run(*command[len(ROMDP) :], kill_after=rng.uniform(0.3, 1.0) * seconds)[0]
        if files_of(folder) != before:
            raise SystemExit("evaluate changed a file")
    if subprocess.run(command, capture_output=True, check=True).stdout != said:
        raise SystemExit("evaluate says something else after kills")
    return f"{times} kills: every file as it was, and the same figures"


def kill_report(folder, times, rng):
    """Write over an older page; a kill must leave that or the new one, whole."""
    arguments = ("--agents", "ucrl2,psrl", "--observations", 6, "--steps", 2000, "--seeds", 2)
    run("compare", "--states", 3, "--actions", 2, *arguments, "--quiet", "--out", folder / "runs")
    page = folder / "page.html"
    _, seconds = run("report", folder / "runs", "--out", page)
    whole, left = page.read_bytes(), {"old": 0, "new": 0}
    while sum(left.values()) < times:
        page.write_bytes(b"old")
        after = rng.uniform(0.3, 1.0) * seconds
        if run("report", folder / "runs", "--out", page, kill_after=after)[0]:
            found = page.read_bytes()
            if found not in (b"old", whole):
                raise SystemExit("report left a page that is neither the old nor the new one")
            left["new" if found == whole else "old"] += 1
        else:
            seconds *= 0.9
    run("report", folder / "runs", "--out", page)
    if page.read_bytes() != whole or list(folder.glob(".*.tmp")):
        raise SystemExit("report left something behind, or another page")
    return f"{times} kills: {left['old']} left the old page, {left['new']} the new one"


PLAY = """
import sys
import numpy, romdp
world = romdp.worlds.random_romdp(n_states=4, n_actions=2, n_observations=30, seed=1)
settings = {"checkpoint": sys.argv[2], "checkpoint_seconds": 0.02} if len(sys.argv) > 2 else {}
run = romdp.play(romdp.LCPSRL(), world, steps=60_000, seed=0, **settings)
numpy.savez(sys.argv[1], steps=run.steps, regret=run.regret, epochs=run.epochs)
"""


def kill_play(folder, times, rng):
    """Play with a checkpoint, killed again and again; it ends as if nobody had."""
    (folder / "play.py").write_text(PLAY)
    command = (sys.executable, folder / "play.py")
    _, seconds = run(folder / "whole.npz", command=command)
    whole, n_killed, n_finished = (folder / "whole.npz").read_bytes(), 0, 0
    while n_killed < times or not n_finished:
        after = rng.uniform(0.4, 1.0) * seconds if n_killed < times else None
        if run(folder / "end.npz", folder / "run.npz", command=command, kill_after=after)[0]:
            n_killed += 1
            continue
        if (folder / "end.npz").read_bytes() != whole:
            raise SystemExit("play ended with other figures after a kill")
        n_finished += 1
        if list(folder.glob(".*.tmp")):
            raise SystemExit("play left a temporary file")
        for path in folder.glob("run.npz*"):
            path.unlink()
    return f"{times} kills: finished {n_finished} times with the figures of a run nobody killed"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=20, help="kills of each command")
    parser.add_argument("--commands", default="fit,apply,reproduce,evaluate,report,play")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    kills = {
        "fit": kill_fit,
        "apply": kill_apply,
        "reproduce": kill_reproduce,
        "evaluate": kill_evaluate,
        "report": kill_report,
        "play": kill_play,
    }
    for name in options.commands.split(","):
        with tempfile.TemporaryDirectory() as folder:
            rng = random.Random(f"{options.seed} {name}")
            print(f"{name}: {kills[name](Path(folder), options.times, rng)}", flush=True)


if __name__ == "__main__":
    main()
