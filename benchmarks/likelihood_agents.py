"""LC-UCRL and LC-PSRL against the oracle and the agents that do not group.

    python benchmarks/likelihood_agents.py PART [--seeds N] [--first SEED]
        [--observations Y ...] [--agents NAME ...]

PART: priors (learned against fixed priors, Y = 30 and 100), main (random ROMDPs, Y from 10 to
3,000), psrl (PSRL on the observations at Y = 300 and 1,000, where a run takes minutes; and with the
shorter epochs of LC-PSRL at 30 and 100), harder (more hidden states, named worlds, twins,
unequal emission, no structure).
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from genie import misplaced
from grid import interval, ratio_interval, run_all, score_playing
from numpy.typing import NDArray

import romdp
from romdp import Hoeffding

SCALE = 0.1


def make_agent(name: str, world: romdp.ROMDP) -> romdp.Agent:
    """Make an agent by its name on the command line."""
    sets, fixed = Hoeffding(SCALE), romdp.Posterior(1.0, "beta")
    sampling = romdp.Oracle(world.labels, "posterior")
    makers = {
        "ucrl2": lambda: romdp.UCRL2(sets),
        "psrl": romdp.PSRL,
        "psrl-frequent": lambda: replace(romdp.PSRL(), stopping=romdp.Doubling.frequent()),
        "oracle": lambda: romdp.Oracle(world.labels, confidence=sets),
        "oracle-psrl": lambda: sampling,
        "oracle-psrl-fixed": lambda: replace(sampling, planner=fixed),
        "lc-ucrl": lambda: romdp.LCUCRL(sets),
        "lc-psrl": romdp.LCPSRL,
        "lc-psrl-fixed": lambda: replace(romdp.LCPSRL(), planner=fixed),
        "sl-ucrl": lambda: romdp.SLUCRL(world.n_states, sets),
    }
    return makers[name]()


def make_world(world: str, observations: int, seed: int) -> romdp.ROMDP:
    """Make a world by its name in this benchmark."""
    worlds = romdp.worlds
    makers = {
        "random": lambda: worlds.random_romdp(5, 4, observations, seed=seed),
        "X=10": lambda: worlds.random_romdp(10, 4, observations, seed=seed),
        "X=20": lambda: worlds.random_romdp(20, 4, observations, seed=seed),
        "X=50": lambda: worlds.random_romdp(50, 4, observations, seed=seed),
        "river-swim": lambda: worlds.river_swim(6, observations),
        "combination-lock": lambda: worlds.combination_lock(5, 3, observations, seed=seed),
        "grid": lambda: worlds.grid(views=5, seed=seed),
        "twins": lambda: worlds.twins(n_observations=observations, seed=seed),
        "unequal emission": lambda: worlds.random_romdp(
            5, 4, observations, seed=seed, emission_concentration=0.3
        ),
        "no structure": lambda: romdp.ROMDP.from_mdp(worlds.random_mdp(observations, 4, seed=seed)),
    }
    return makers[world]()


def measure(agent: str, world: str, observations: int, seed: int, steps: int) -> dict[str, Any]:
    """Play one case; the genie looks at the very counts of the run."""
    made = make_world(world, observations, seed)
    playing = romdp.epochs(make_agent(agent, made), made, steps, seed=seed)
    begin = time.perf_counter()
    for _ in playing:
        pass
    row = score_playing(playing, made, time.perf_counter() - begin)
    row["gap_regret"] = gap_regret(made, playing.state.recorder.counts)
    if agent.startswith("lc-"):
        row["genie_misplaced"] = misplaced(made, playing.state.recorder.counts)
    return row


def gap_regret(world: romdp.ROMDP, counts: romdp.Counts) -> float:
    """Sum the gaps of all actions taken: the mean of the pseudo-regret with less noise.

    With the bias h, rho* - r(x, a) = gap(x, a) + (P h)(x, a) - h(x); summed over a run the last two
    terms are a martingale and a bounded rest, so both sums have the same mean but for that rest.
    The martingale is of the order of the square root of the steps: some hundred here.
    """
    return float((counts.visits * gaps(world.hidden)[world.labels]).sum())


def gaps(mdp: romdp.MDP) -> NDArray[np.float64]:
    """Return what each action of each state loses in the long run against the best one."""
    return mdp.gain + mdp.bias[:, None] - mdp.reward - mdp.transition @ mdp.bias


def cases(part: str, seeds: range) -> list[dict[str, Any]]:
    """List the cases of a part."""
    steps = 10**6
    grouping = ["lc-ucrl", "oracle", "lc-psrl", "oracle-psrl"]
    if part == "priors":
        fixed = ["lc-psrl-fixed", "oracle-psrl-fixed"]
        plan = [("random", y, ["lc-psrl", "oracle-psrl", *fixed]) for y in (30, 100)]
    elif part == "main":
        plan = [("random", y, grouping) for y in (10, 30, 100, 300, 1000, 3000)]
        plan += [("random", y, ["ucrl2"]) for y in (10, 30, 100, 300, 1000)]
        plan += [("random", y, ["sl-ucrl"]) for y in (10, 30, 100)]
        plan += [("random", y, ["psrl"]) for y in (10, 30, 100)]
    elif part == "psrl":
        plan = [("random", y, ["psrl"]) for y in (300, 1000)]
        plan += [("random", y, ["psrl-frequent"]) for y in (30, 100)]
    else:
        named = [
            ("X=10", 100), ("X=20", 200), ("X=50", 500), ("river-swim", 60),
            ("combination-lock", 50), ("grid", 0), ("twins", 60),
            ("unequal emission", 100), ("no structure", 30),
        ]  # fmt: skip
        plan = [(name, y, [*grouping, "ucrl2", "psrl"]) for name, y in named]
    return [
        {
            "agent": agent,
            "world": world,
            "observations": y,
            "seed": seed,
            "steps": steps,
        }
        for seed in seeds
        for world, y, agents in plan
        for agent in agents
    ]


def table(rows: list[dict[str, Any]]) -> None:
    """Print one line for each world and agent."""
    print(
        "world               Y  agent       runs  groups right  misplaced (genie)  settled (median)"
        "  pseudo-regret [95%]      gaps   relative to its oracle [95%]     by gaps [95%]  seconds"
    )
    worlds = list(dict.fromkeys((row["world"], row["observations"]) for row in rows))
    for world, size in worlds:
        here = [r for r in rows if (r["world"], r["observations"]) == (world, size)]
        for agent in dict.fromkeys(row["agent"] for row in here):
            mine = sorted((r for r in here if r["agent"] == agent), key=lambda r: r["seed"])
            told = "oracle-psrl" if "psrl" in agent else "oracle"
            told += "-fixed" if agent.endswith("-fixed") else ""
            base = {r["seed"]: r["pseudo_regret"] for r in here if r["agent"] == told}
            pairs = [(r["pseudo_regret"], base[r["seed"]]) for r in mine if r["seed"] in base]
            relative = ""
            if pairs:
                ratio, low, high = ratio_interval(*np.array(pairs).T)
                relative = f"{ratio:.3f} [{low:.3f}, {high:.3f}]"
            gap_base = {r["seed"]: r["gap_regret"] for r in here if r["agent"] == told}
            gaps = [(r["gap_regret"], gap_base[r["seed"]]) for r in mine if r["seed"] in gap_base]
            if gaps:
                ratio, low, high = ratio_interval(*np.array(gaps).T)
                relative = f"{relative:<24}{ratio:.3f} [{low:.3f}, {high:.3f}]"
            mean, low, high = interval([r["pseudo_regret"] for r in mine])
            lost = np.mean([r["gap_regret"] for r in mine])
            genie = [r["genie_misplaced"] for r in mine if "genie_misplaced" in r]
            right = sum(r["groups"] == r["true_groups"] for r in mine)
            places = f"{np.mean([r['misplaced'] for r in mine]):.2f}"
            places += f" ({np.mean(genie):.2f})" if genie else ""
            settled = np.median([r["settled"] for r in mine])
            print(
                f"{world:<17} {size:>4}  {agent:<12} {len(mine):>3}  {right:>12}  {places:>17}"
                f"  {settled:>16,.0f}  {mean:>9,.0f} [{low:,.0f}, {high:,.0f}]".ljust(112)
                + f" {lost:>7,.0f}  {relative:<46}{np.mean([r['seconds'] for r in mine]):>8.1f}"
            )


def main() -> None:
    """Run a part and print its table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--observations", type=int, nargs="*", help="only these numbers")
    parser.add_argument("--agents", nargs="*", help="only these")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    out = arguments.out / f"likelihood-{arguments.part}.jsonl"
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    wanted = [
        case
        for case in cases(arguments.part, seeds)
        if (arguments.observations is None or case["observations"] in arguments.observations)
        and (arguments.agents is None or case["agent"] in arguments.agents)
    ]
    rows = run_all(measure, wanted, out, arguments.workers)
    table(rows)


if __name__ == "__main__":
    main()
