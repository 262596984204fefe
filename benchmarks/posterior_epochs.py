"""How often posterior sampling should draw: TSDE's epochs against shorter ones.

python benchmarks/posterior_epochs.py [--seeds N] [--few N] [--workers N]

The agent is told the hidden states, so that nothing but the stopping rule differs. Worlds are those
of ``likelihood_agents.py``; regret is summed by gaps (see there).
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from grid import interval, run_all
from likelihood_agents import gap_regret, make_world

import romdp

RULES = {"tsde": romdp.Doubling(grow=1), "frequent": romdp.Doubling.frequent()}
FEW = [("X=20", 200), ("combination-lock", 50), ("river-swim", 60), ("grid", 0)]


def measure(world: str, observations: int, rule: str, seed: int, steps: int) -> dict[str, Any]:
    """Play one case."""
    made = make_world(world, observations, seed)
    agent = replace(romdp.Oracle(made.labels, "posterior"), stopping=RULES[rule])
    begin = time.perf_counter()
    playing = romdp.epochs(agent, made, steps, seed=seed)
    for _ in playing:
        pass
    return {
        "gap_regret": gap_regret(made, playing.state.recorder.counts),
        "epochs": playing.state.epoch,
        "seconds": time.perf_counter() - begin,
    }


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="of random_romdp(5, 4, 30)")
    parser.add_argument("--few", type=int, default=5, help="of the other worlds")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    worlds = [("random", 30, arguments.seeds), *((*world, arguments.few) for world in FEW)]
    cases = [
        {"world": world, "observations": y, "rule": rule, "seed": seed, "steps": 10**6}
        for world, y, seeds in worlds
        for seed in range(seeds)
        for rule in RULES
    ]
    rows = run_all(measure, cases, arguments.out / "posterior-epochs.jsonl", arguments.workers)
    print(
        "| world | rule | runs | regret by gaps, mean [95%] | median | largest | epochs | seconds |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for world, rule in dict.fromkeys((row["world"], row["rule"]) for row in rows):
        mine = [row for row in rows if (row["world"], row["rule"]) == (world, rule)]
        lost = [row["gap_regret"] for row in mine]
        mean, low, high = interval(lost)
        epochs = np.mean([row["epochs"] for row in mine])
        seconds = np.mean([row["seconds"] for row in mine])
        print(
            f"| {world} | {rule} | {len(mine)} | {mean:,.0f} [{low:,.0f}, {high:,.0f}] | "
            f"{np.median(lost):,.0f} | {max(lost):,.0f} | {epochs:,.0f} | {seconds:.1f} |"
        )


if __name__ == "__main__":
    main()
