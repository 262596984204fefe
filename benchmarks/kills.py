"""Kill ``fit``, ``apply`` and ``reproduce`` at random moments and check what is left.

    python benchmarks/kills.py --times 20

After every kill of ``fit`` there must be the old model or the new one, after every kill of
``apply`` the old table or the new one. ``reproduce`` is killed again and again in one directory;
in the end it must finish with the figures of a run that nobody killed.
"""

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyarrow.parquet as pq

import romdp

ROMDP = (sys.executable, "-m", "romdp")
LOG = ("--observation", "page", "--action", "offer", "--reward", "paid", "--quiet")


def run(*arguments, kill_after=None):
    """Run the command; return whether it was killed before its end, and how long it took."""
    began = time.monotonic()
    process = subprocess.Popen(
        [*ROMDP, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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


def figures(folder):
    """Read every summary below a directory."""
    summaries = sorted(folder.rglob("summary.json"))
    return [json.loads(path.read_text())["groups"] for path in summaries]


def kill_reproduce(folder, times, rng):
    """Kill one experiment again and again; in the end its figures are as if nobody had."""
    command = ("reproduce", "regret", "--quick", "--workers", "1", "--quiet")
    _, seconds = run(*command, "--out", folder / "whole")
    n_killed = 0
    while n_killed < times:
        after = rng.uniform(0.1, 0.6) * seconds
        if not run(*command, "--out", folder / "killed", kill_after=after)[0]:
            if figures(folder / "killed") != figures(folder / "whole"):
                raise SystemExit("reproduce ended with other figures after a kill")
            shutil.rmtree(folder / "killed")
            continue
        n_killed += 1
    run(*command, "--out", folder / "killed")
    if figures(folder / "killed") != figures(folder / "whole"):
        raise SystemExit("reproduce ended with other figures after the kills")
    return f"{times} kills: the figures are those of a run that nobody killed"


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
