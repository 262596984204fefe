"""Attack stored files in ways that random damage hardly reaches, and count what comes of it.

    python benchmarks/files.py --times 500

A try ends in an error of ours (refused), with what was stored (whole), or in anything else, which
is printed and counted: wrong, or slow where it took more than five seconds.

rows      rows of two run stores swapped, copied over others, mixed, or moved to the other store
stores    whole files of a run directory taken from another one, journals included
counts    tables of counts that lie
memory    an `Online` file of vectors or with memory whose steps lead in circles
writers   four processes that write one file while it is read; two that write one run directory
clocks    files from the years 1970 and 2100 that are read, resumed and written again
names     names of up to 255 bytes, and things that are no names
"""

import argparse
import contextlib
import multiprocessing
import os
import random
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from pathlib import Path

import gymnasium
import numpy as np
import pyarrow as pa

import romdp
from romdp.core import storage
from romdp.core.errors import ROMDPError
from romdp.experiments import Experiment, RunDirectory, run_experiment
from romdp.experiments.executors import Here
from romdp.experiments.store import FILE, TABLES
from romdp.logs.reading.tallies import read_counts

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=8, seed=1)
COLUMNS = ("number", "facts", *TABLES, "seal")
NAMED = ("observation", "action", "next_observation")
LONG = 5.0  # seconds


def judge(name, look):
    """Try to read something that was attacked; say how that ended."""
    began = time.monotonic()
    try:
        end = "whole" if look() else "wrong"
    except ROMDPError:
        end = "refused"
    except Exception as error:  # noqa: BLE001 - this is what is looked for
        end = "wrong"
        print(f"{name}: {type(error).__name__}: {error}", flush=True)
    end = "slow" if time.monotonic() - began > LONG else end
    if end in ("wrong", "slow"):
        print(f"{name}: {end}", flush=True)
    return end


def make_runs(folder, seed):
    """Run a small experiment; the runs of other seeds have the same names."""
    world = {"name": "random-romdp", "arguments": {"n_states": 3, "n_actions": 2}}
    sizes = {"agents": ("ucrl2", "oracle"), "observations": (6,), "steps": 200, "seeds": 3}
    directory = RunDirectory.create(folder, Experiment(worlds=(world,), seed=seed, **sizes))
    assert run_experiment(directory, Here()) == []
    return directory


def figures(folder):
    """Return what a directory says of its runs, to the bit."""
    found = RunDirectory.open(folder).contents(TABLES).finished
    return {
        run.id: (dict(stored.facts), {kind: repr(table) for kind, table in stored.tables.items()})
        for run, stored in found.items()
    }


def fits(folder, right):
    """Whether a directory says what is right; refused if runs are named as damaged or missing."""
    found = figures(folder)
    if any(right[name] != stored for name, stored in found.items()):
        return False
    if len(found) < len(right):
        raise ROMDPError
    return True


def attack_rows(folder, times, rng):
    """Find every run as it was stored, or named as damaged or missing."""
    ours, theirs = make_runs(folder / "a", 0).path, make_runs(folder / "b", 1).path
    right, path = figures(ours), ours / FILE
    content, rest = path.read_bytes(), ", ".join(COLUMNS[1:])
    for _ in range(times):
        path.write_bytes(content)
        one, two = rng.sample(range(6), 2)
        column, other = rng.choice(COLUMNS[1:]), rng.choice((two, 99, -1))
        mixed = f"UPDATE runs SET {column} = (SELECT {column} FROM {{}}.runs WHERE number = {one})"
        anew = (
            f"INSERT OR REPLACE INTO runs SELECT {{}}, {rest} FROM {{}}.runs WHERE number = {one}"
        )
        swaps = [(one, -7), (two, one), (-7, two)]
        changes = {
            "swapped": [f"UPDATE runs SET number = {n} WHERE number = {m}" for m, n in swaps],
            "mixed": [f"{mixed.format('main')} WHERE number = {two}"],
            "mixed with another experiment": [f"{mixed.format('other')} WHERE number = {one}"],
            "of another experiment": [anew.format(one, "other")],
            "doubled": [anew.format(other, "main")],
        }
        name = rng.choice(list(changes))
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as store:
            store.execute("ATTACH ? AS other", [str(theirs / FILE)])
            for change in changes[name]:
                store.execute(change)
        yield f"rows {name}", lambda: fits(ours, right)


def attack_stores(folder, times, rng):
    """Put in files of another run directory, and journals of its store."""
    whole = {name: make_runs(folder / name, seed).path for seed, name in enumerate("ab")}
    right = figures(whole["a"])
    with RunDirectory.open(whole["b"]).store(writing=True) as store:
        run = RunDirectory.open(whole["b"]).experiment.runs[0]
        store.put(run, {"error": "x"}, {})
        journal = {end: (whole["b"] / f"{FILE}{end}").read_bytes() for end in ("-wal", "-shm")}
    journal["-journal"] = journal["-wal"]
    for _ in range(times):
        shutil.rmtree(folder / "c", ignore_errors=True)
        shutil.copytree(whole["a"], folder / "c")
        names = rng.sample([FILE, "experiment.json", "summary.json", *journal], rng.randint(1, 3))
        for name in names:
            if name.startswith(FILE) and name != FILE:
                (folder / "c" / name).write_bytes(journal[name.removeprefix(FILE)])
            elif name in journal:
                (folder / "c" / f"{FILE}{name}").write_bytes(journal[name])
            else:
                shutil.copyfile(whole["b"] / name, folder / "c" / name)
        own = {FILE, "experiment.json"} <= set(names)  # then it is the other experiment
        expected = figures(whole["b"]) if own else right
        yield f"stores {names}", lambda expected=expected: fits(folder / "c", expected)


def attack_counts(folder, times, rng):
    """Take what a table of counts says as it is, or refuse it; never believe the half of it."""
    seen = romdp.simulate(WORLD, "uniform", 2000, seed=0)
    steps = np.stack([seen.observations, seen.actions, seen.next_observations], axis=1)
    keys, n = np.unique(steps, axis=0, return_counts=True)
    at = [(steps == key).all(axis=1) for key in keys]
    paid = [seen.rewards[rows] for rows in at]
    table = {
        "observation": keys[:, 0].tolist(),
        "action": keys[:, 1].tolist(),
        "next_observation": [None if b < 0 else b for b in keys[:, 2].tolist()],
        "n": n.tolist(),
        "starts": [int(rows[0]) for rows in at],
        "reward_sum": [float(r.sum()) for r in paid],
        "reward_squares": [float((r * r).sum()) for r in paid],
        "reward_min": [float(r.min()) for r in paid],
        "reward_max": [float(r.max()) for r in paid],
    }
    for _ in range(times):
        wrong = {name: list(column) for name, column in table.items()}
        for _ in range(rng.randint(1, 3)):
            name, row = rng.choice(list(table)), rng.randrange(len(keys))
            old = wrong[name][row]
            factors = (-1, 0, 0.5, 2, 1e3, 1e9, 2**53, 1e150, 1e300)
            new = [None, float("nan"), float("inf"), *(f * (old or 1) for f in factors)]
            wrong[name][row] = rng.choice(new)
            if rng.random() < 0.2:  # the same value in many rows
                wrong[name] = [wrong[name][row]] * len(keys)

        kinds = rng.choice((pa.float64(), pa.float64(), pa.string()))
        columns = {name: [x and float(x) for x in column] for name, column in wrong.items()}
        given = {n: pa.array(x).cast(kinds) if n in NAMED else x for n, x in columns.items()}

        def look(given=given, wrong=wrong):
            found = read_counts(pa.table(given))
            counts, total = found.counts, sum(map(int, wrong["n"]))
            low, high = found.reward_range
            told = (sum(wrong["reward_sum"]) - total * low) / ((high - low) or 1.0)
            romdp.Counts(
                *(counts.visits, counts.transitions, counts.reward_sums, counts.reward_squares),
                *(counts.ends, counts.starts),
            )
            close = abs(counts.reward_sums.sum() - told) <= 1e-6 * max(1.0, total)
            return found.n_rows == total == counts.n_steps and (close or high == low)

        yield "counts", look


class Room(gymnasium.Env):
    """Two numbers that are shown, two actions, episodes of seven steps."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,))
    action_space = gymnasium.spaces.Discrete(2)


def live(online, kind, steps, rng):
    """Act and learn for some steps."""
    for step in range(steps):
        shown = rng.normal(size=2) if kind == "vectors" else int(rng.integers(3))
        action = online.act(shown)
        over = step % 7 == 6
        online.observe(float(action), shown, terminated=over)
        if over:
            online.reset()


def attack_memory(folder, times, rng):
    """Let steps lead in circles, under a checksum that fits."""
    for kind, space in (("vectors", Room.observation_space), ("memory", 3)):
        agent = romdp.LCPSRL(memory=2 if kind == "memory" else 0)
        online, draws = romdp.Online(agent, space, 2, seed=0), np.random.default_rng(0)
        live(online, kind, 90, draws)
        online.save(folder / kind)
        arrays, facts = storage.read_arrays(folder / kind, "online agent", 4)
        names = [n for n, a in arrays.items() if a.dtype.kind in "iu" and a.size > 1]
        for _ in range(times // 2):
            wrong = {name: array.copy() for name, array in arrays.items()}
            chosen = [n for n in names if n.endswith("before")] * 5 + names
            name = rng.choice(chosen)
            values = wrong[name].reshape(-1)
            match rng.randrange(3):
                case 0:
                    draws.shuffle(values)
                case 1:
                    values[rng.randrange(values.size)] = rng.choice(values.tolist())
                case 2:
                    values[:] = np.roll(values, rng.randrange(1, values.size))
            storage.write_arrays(folder / "wrong", "online agent", 4, wrong, facts)

            def look(agent=agent, kind=kind):
                again = romdp.Online.load(folder / "wrong", agent)
                live(again, kind, 40, np.random.default_rng(1))
                return True

            yield f"memory: {name}", look


def write_often(path, letter, times):
    """Write one letter many times over, in a process of its own."""
    for _ in range(times):
        storage.write_bytes(path, letter * 100_000)


def begin_again(folder, told):
    """Run the experiment of a directory; tell whether somebody else was at work."""
    try:
        told.put(run_experiment(RunDirectory.open(folder), Here()))
    except ROMDPError as error:
        told.put(str(error))


def attack_writers(folder, times, rng):
    """Read what one of the writers wrote; tell one of two commands to wait."""
    path, letters = folder / "file", (b"a", b"b", b"c", b"d")
    path.write_bytes(b"a" * 100_000)
    writers = [multiprocessing.Process(target=write_often, args=(path, x, times)) for x in letters]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        content = path.read_bytes()
        yield "writers", lambda content=content: content in {x * 100_000 for x in letters}
    yield "writers' leftovers", lambda: [p.name for p in folder.iterdir()] == ["file"]
    right = figures(make_runs(folder / "a", 0).path)
    for number in range(max(1, times // 50)):
        target = folder / str(number)
        shutil.copytree(folder / "a", target)
        with contextlib.closing(sqlite3.connect(target / FILE)) as store, store:
            store.execute("DELETE FROM runs WHERE number < 5")
        told = multiprocessing.Queue()
        both = [multiprocessing.Process(target=begin_again, args=(target, told)) for _ in "12"]
        for process in both:
            process.start()
        said = [told.get() for _ in both]
        for process in both:
            process.join()
        known = [answer == [] or "another romdp is at work" in answer for answer in said]

        def look(target=target, known=known, said=said):
            same = {name: tables for name, (_, tables) in figures(target).items()}
            return all(known) and [] in said and same == {n: t for n, (_, t) in right.items()}

        yield "two commands in one directory", look


def attack_clocks(folder, times, rng):
    """Read, resume and write files from other times as all others."""
    right = figures(make_runs(folder / "runs", 0).path)
    agent, path = romdp.UCRL2(), folder / "run.npz"
    whole = romdp.play(agent, WORLD, steps=600, seed=0)
    model = romdp.fit(romdp.simulate(WORLD, "uniform", 1500, seed=0), n_states=3)
    model.save(folder / "model")
    for _ in range(max(1, times // 10)):
        romdp.play(agent, WORLD, steps=300, seed=0, checkpoint=path)
        for file in folder.rglob("*"):
            moment = rng.choice((0, 1, 2**31, 4_102_444_800, time.time() + 3600))
            os.utime(file, (moment, rng.choice((0, moment))))

        def look():
            again = romdp.play(agent, WORLD, steps=600, seed=0, checkpoint=path)
            path.unlink()
            loaded = romdp.load_model(folder / "model")
            loaded.save(folder / "model")
            return np.array_equal(again.regret, whole.regret) and loaded.n_states == 3

        yield "clocks", look
        yield "clocks of runs", lambda: fits(folder / "runs", right)


def attack_names(folder, times, rng):
    """Write and read under any name, or write nothing and say so."""
    agent = romdp.UCRL2()
    run = romdp.play(agent, WORLD, steps=300, seed=0)
    for number in range(times):
        letter = rng.choice("xé\u202e😀 \n%*['.~-")
        name = letter * (rng.choice((1, 30, 120, 199, 200, 201, 240, 255)) // len(letter.encode()))
        name = rng.choice((name, name, rng.choice((number, -1, 2**64, 0.5, None, True, b"x", ""))))
        home = folder / str(number)
        home.mkdir()

        def look(home=home, name=name):
            path = home / name if isinstance(name, str) and name else name
            try:
                run.policy.save(path)
            except ROMDPError:
                assert not list(home.iterdir())
                raise
            assert romdp.load_policy(path).act(0) == run.policy.act(0)
            return len(list(home.iterdir())) == 1

        yield f"names: {name!r:.40}", look


ATTACKS = ("rows", "stores", "counts", "memory", "writers", "clocks", "names")


def main():
    """Make the attacks, each in a folder of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("attacks", nargs="*", default=ATTACKS)
    parser.add_argument("--times", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name in options.attacks:
        with tempfile.TemporaryDirectory() as folder:
            rng = random.Random(f"{options.seed} {name}")
            tries = globals()[f"attack_{name}"](Path(folder), options.times, rng)
            ends = Counter(judge(what, look) for what, look in tries)
        print(f"{name}: {sum(ends.values()):,} tries, {dict(ends)}", flush=True)


if __name__ == "__main__":
    main()
