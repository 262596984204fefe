"""Other people's environments, each state shown as one of many views: reward per step.

python benchmarks/gymnasium_worlds.py [--seeds N] [--minutes M] [--only NAME ...] [--agents ...]

FrozenLake (slippery), CliffWalking and Taxi under `RichObservation` with 10 and 100 views per
state, restarted at episode ends. The oracle is told the state behind each view. A run that takes
longer than so many minutes is stopped there; the table says after how many steps.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from grid import interval, run_all

import romdp

RANGES = {"FrozenLake-v1": (0.0, 1.0), "CliffWalking-v1": (-100.0, 0.0), "Taxi-v4": (-10.0, 20.0)}
STEPS = {"FrozenLake-v1": 200_000, "CliffWalking-v1": 200_000, "Taxi-v4": 500_000}


def measure(environment: str, views: int, agent: str, seed: int, minutes: float) -> dict[str, Any]:
    """Play one case."""
    env = romdp.worlds.RichObservation(gymnasium.make(environment), per_state=views, seed=seed)
    makers = {
        "lc-psrl": romdp.LCPSRL,
        "psrl": romdp.PSRL,
        "ucrl2": lambda: romdp.UCRL2(romdp.Hoeffding(0.1)),
        "oracle-psrl": lambda: romdp.Oracle(env.labels, "posterior"),
    }
    begin = time.perf_counter()
    playing = romdp.epochs(
        makers[agent](), env, STEPS[environment], seed=seed, reward_range=RANGES[environment]
    )
    for _ in playing:
        if time.perf_counter() - begin > 60 * minutes:
            break
    run = playing.run
    steps, reward = int(run.steps[-1]), float(run.reward[-1])
    half = np.interp(steps / 2, run.steps, run.reward)
    return {
        "played": steps,
        "per_step": float(reward / steps),
        "second_half": float((reward - half) / (steps / 2)),
        "groups": run.partition.n_clusters,
        "seen": int((run.partition.labels >= 0).sum()),
        "seconds": time.perf_counter() - begin,
    }


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=list(STEPS))
    parser.add_argument("--agents", nargs="*", default=["oracle-psrl", "lc-psrl", "psrl", "ucrl2"])
    arguments = parser.parse_args()
    cases = [
        {
            "environment": environment,
            "views": views,
            "agent": agent,
            "seed": seed,
            "minutes": arguments.minutes,
        }
        for environment in arguments.only
        for seed in range(arguments.seeds)
        for views in (10, 100)
        for agent in arguments.agents
        if agent != "ucrl2" or views == 10
    ]
    rows = run_all(measure, cases, arguments.out / "gymnasium.jsonl", arguments.workers)
    print(
        "environment      views  agent        runs  reward per step [95%]     second half   groups"
        "   views met     steps  seconds"
    )
    for key in dict.fromkeys((r["environment"], r["views"], r["agent"]) for r in rows):
        mine = [r for r in rows if (r["environment"], r["views"], r["agent"]) == key]
        mean, low, high = interval([r["per_step"] for r in mine])
        later = np.mean([r["second_half"] for r in mine])
        groups, met = np.mean([r["groups"] for r in mine]), np.mean([r["seen"] for r in mine])
        played = min(r["played"] for r in mine)
        seconds = np.mean([r["seconds"] for r in mine])
        print(
            f"{key[0]:<16} {key[1]:>6}  {key[2]:<12} {len(mine):>4}"
            f"  {mean:.4f} [{low:.4f}, {high:.4f}]  {later:>12.4f}  {groups:>7.1f}"
            f"  {met:>10,.0f}  {played:>8,}  {seconds:>7.0f}"
        )


if __name__ == "__main__":
    main()
