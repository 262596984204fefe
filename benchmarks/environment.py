"""Steps per second of the Gymnasium environment, and as a ratio to a loop with ``rng.choice``.

Run ``python benchmarks/environment.py``; it takes a few seconds on one core.
"""

import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np

from romdp.exact.romdp import ROMDP
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.named import random_romdp
from romdp.worlds.registration import register_environments

SIZES = [(5, 4, 30), (5, 4, 1_000), (50, 4, 100_000)]
STEPS = 200_000


def plain_loop(world: ROMDP) -> Callable[[int], None]:
    """Step as most public code does: one ``rng.choice`` for what is seen next, one coin flip."""
    rng = np.random.default_rng(0)
    laws = world.transition[:, :, world.labels] * world.observation_chance

    def run(steps: int) -> None:
        y, total = 0, 0
        for t in range(steps):
            x, a = world.labels[y], t % world.n_actions
            y = rng.choice(world.n_observations, p=laws[x, a])
            total += rng.random() < world.reward[x, a]

    return run


def steps_of(env: gymnasium.Env[Any, Any]) -> Callable[[int], None]:
    """Step through an environment with the actions in turn."""
    actions = [t % env.action_space.n for t in range(1_000)]  # type: ignore[attr-defined]

    def run(steps: int) -> None:
        env.reset(seed=0)
        for _ in range(steps // 1_000):
            for action in actions:
                env.step(action)

    return run


def rate(run: Callable[[int], None], steps: int) -> float:
    """Measure steps per second, the best of three."""
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        run(steps)
        seconds.append(time.perf_counter() - start)
    return steps / min(seconds)


def rates(n_states: int, n_actions: int, n_observations: int, steps: int) -> dict[str, float]:
    """Measure steps per second by what is stepped; the plain loop is the first."""
    register_environments()
    sizes = {"n_states": n_states, "n_actions": n_actions, "n_observations": n_observations}
    world = random_romdp(**sizes, seed=0)
    made = gymnasium.make("romdp/RandomROMDP-v0", **sizes, world_seed=0)
    return {
        "loop with rng.choice": rate(
            plain_loop(world), max(1_000, 10_000_000 // (n_observations + 1_000))
        ),
        "ROMDPEnv": rate(steps_of(ROMDPEnv(world)), steps),
        "ROMDPEnv by gymnasium.make": rate(steps_of(made), steps),
    }


def main() -> None:
    print(f"{'X, A, Y':>16} {'':24} {'steps/s':>12} {'ratio':>8}")
    for sizes in SIZES:
        label = ", ".join(map(str, sizes))
        found = rates(*sizes, STEPS)
        base = found["loop with rng.choice"]
        for name, speed in found.items():
            print(f"{label:>16} {name:26} {speed:>10,.0f} {speed / base:>8.1f}")


if __name__ == "__main__":
    main()
