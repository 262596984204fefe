"""Speed of the learning loop: steps a second of UCRL2 and PSRL, planning included.

python benchmarks/learning.py [--long]
"""

import argparse
import cProfile
import pstats
import resource
import time

import numpy as np
from planner import plain_iteration

import romdp

SCALE, DELTA = 0.1, 0.05


def plain_loop(world: romdp.ROMDP, steps: int, seed: int = 0) -> float:
    """Seconds of a loop that only draws: one `rng.choice` a step, no learning at all."""
    rng = np.random.default_rng(seed)
    laws = world.transition[:, :, world.labels] * world.observation_chance
    table = rng.integers(world.n_actions, size=world.n_observations)
    y = 0
    begin = time.perf_counter()
    for _ in range(steps):
        y = int(rng.choice(world.n_observations, p=laws[world.labels[y], table[y]]))
    return time.perf_counter() - begin


def plain_ucrl2(world: romdp.ROMDP, steps: int, seed: int = 0) -> tuple[float, float]:
    """Seconds and mean reward of UCRL2 as one would write it with NumPy.

    One ``rng.choice`` a step, counts in arrays, the vectorised planner; the widths and the
    doubling rule of ``romdp.UCRL2(romdp.Hoeffding(SCALE))``.
    """
    rng = np.random.default_rng(seed)
    laws = world.transition[:, :, world.labels] * world.observation_chance
    size, actions = world.n_observations, world.n_actions
    moves, sums = np.zeros((size, actions, size)), np.zeros((size, actions))
    visits = np.zeros((size, actions))
    y, total = int(rng.integers(size)), 0.0
    begin = time.perf_counter()
    old, new = np.zeros((size, actions)), np.ones((size, actions))  # think at once
    policy = np.zeros(size, np.int64)
    for t in range(1, steps + 1):
        if new[y, policy[y]] >= max(1, old[y, policy[y]]):
            old, new = visits.copy(), np.zeros((size, actions))
            tried = np.maximum(1, visits)
            wide = SCALE * np.sqrt(28 * size * np.log(2 * actions * t / DELTA) / tried)
            bonus = SCALE * np.sqrt(28 * np.log(2 * size * actions * t / DELTA) / tried)
            rewards = np.minimum(1.0, sums / tried + bonus)
            _, policy = plain_iteration(moves / tried[..., None], rewards, wide, 1 / np.sqrt(t))
        x, a = world.labels[y], policy[y]
        after = int(rng.choice(size, p=laws[x, a]))
        reward = rng.random() < world.reward[x, a]
        visits[y, a] += 1
        new[y, a] += 1
        sums[y, a] += reward
        moves[y, a, after] += 1
        total += reward
        y = after
    return time.perf_counter() - begin, total / steps


def seconds(agent: romdp.Agent, world: romdp.ROMDP, steps: int, repeats: int) -> float:
    """Return the best time of several runs with different seeds, after a short warm-up."""
    romdp.play(agent, world, 1_000)
    times = []
    for seed in range(repeats):
        begin = time.perf_counter()
        romdp.play(agent, world, steps, seed=seed)
        times.append(time.perf_counter() - begin)
    return min(times)


def where_time_goes(agent: romdp.Agent, world: romdp.ROMDP, steps: int) -> str:
    """Share of planning, counting and stepping in a run."""
    profile = cProfile.Profile()
    profile.enable()
    run = romdp.play(agent, world, steps)
    profile.disable()
    stats = pstats.Stats(profile)
    total = stats.total_tt
    shares = {}
    for (_, _, name), row in stats.stats.items():  # type: ignore[attr-defined]
        shares[name] = shares.get(name, 0.0) + row[3]
    parts = ("plan", "regroup", "advance", "think")
    text = ", ".join(f"{part} {shares.get(part, 0.0) / total:.0%}" for part in parts)
    return f"{len(run.epochs)} epochs, {total:.2f} s under the profiler: {text}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="also 10^9 steps at Y = 30")
    parser.add_argument("--profile", action="store_true", help="also where the time goes")
    arguments = parser.parse_args()
    ucrl2 = romdp.UCRL2(romdp.Hoeffding(SCALE))
    cases = [
        ("UCRL2", ucrl2, 30, 10**7, 3),
        ("UCRL2", ucrl2, 300, 10**6, 3),
        ("UCRL2", ucrl2, 1000, 10**6, 1),
        ("PSRL", romdp.PSRL(), 30, 10**6, 3),
        ("PSRL", romdp.PSRL(), 300, 10**6, 1),
        ("PSRL", romdp.PSRL(), 1000, 10**5, 1),
    ]
    print("agent       Y      steps   seconds   million steps/s   times a plain rng.choice loop")
    for name, agent, n_observations, steps, repeats in cases:
        world = romdp.worlds.random_romdp(5, 4, n_observations, seed=0)
        plain = plain_loop(world, 20_000) / 20_000
        best = seconds(agent, world, steps, repeats)
        rate = steps / best
        print(
            f"{name:<6} {n_observations:>6} {steps:>10} {best:>9.3f} {rate / 1e6:>17.2f} "
            f"{rate * plain:>18.0f}"
        )
    if arguments.profile:
        for n_observations in (300, 1000):
            world = romdp.worlds.random_romdp(5, 4, n_observations, seed=0)
            print(f"Y = {n_observations}: {where_time_goes(ucrl2, world, 10**6)}")
    if arguments.long:
        world = romdp.worlds.random_romdp(5, 4, 30, seed=0)
        best = seconds(ucrl2, world, 10**9, 1)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"10^9 steps at Y = 30: {best:.1f} s, {10**3 / best:.1f} million steps/s")
        print(f"largest resident memory of this process: {memory:.0f} MiB")


if __name__ == "__main__":
    main()
