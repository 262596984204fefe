"""Tuning of the model-free baselines; its results are in docs/results/dqn-tuning.md.

python benchmarks/dqn_tuning.py dqn           # about ten minutes
python benchmarks/dqn_tuning.py q-learning    # two to five minutes
python benchmarks/dqn_tuning.py others        # what other agents reach where DQN was tuned
"""

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from romdp.baselines import play_baseline

import romdp

SIZES = (5, 4, 20)  # X, A, Y
SEEDS = (1000, 1001)  # of the world and of the run; not those that results are reported on
DQN_STEPS = 200_000
Q_SEEDS = tuple(range(1000, 1006))
Q_STEPS = 1_000_000

Settings = Mapping[str, Any]


def dqn_world(seed: int) -> romdp.ROMDP:
    """Return a world in which DQN was tuned."""
    return romdp.worlds.random_romdp(*SIZES, seed=seed)


class Trials:
    """Mean pseudo-regrets of settings of DQN, each run made once and printed as it ends."""

    def __init__(self) -> None:
        self.results: dict[tuple[Any, ...], float] = {}

    def regret(self, settings: Settings, steps: int) -> float:
        """Play in all worlds, unless that was done before."""
        key = (steps, *settings.values())
        if key not in self.results:
            finals = [
                play_baseline("dqn", dqn_world(seed), steps, seed, **settings).pseudo_regret[-1]
                for seed in SEEDS
            ]
            self.results[key] = float(np.mean(finals))
            text = ", ".join(f"{name} {value:g}" for name, value in settings.items())
            print(f"{steps} | {text} | {self.results[key]:.0f} | {max(finals):.0f}", flush=True)
        return self.results[key]

    def climb(self, settings: Settings, name: str, steps: int) -> Settings:
        """Move along one setting until neither neighbour is better: the best lies inside."""
        best = settings
        for move in _aside(name):
            while True:
                trial = {**best, name: move(best[name])}
                if trial == best or self.regret(trial, steps) >= self.regret(best, steps):
                    break
                best = trial
        return best


def _aside(name: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Return the steps to the neighbours of a setting's value: smaller, larger."""
    if name == "discount":  # the horizon 1 / (1 - discount) is halved or doubled
        return (lambda g: max(0.0, round(2 * g - 1, 6))), (lambda g: round((1 + g) / 2, 6))
    if name in ("learning_rate", "exploration_floor"):
        return (lambda value: value / 3), (lambda value: value * 3)
    return (lambda value: max(value // 4, 1)), (lambda value: value * 4)


def tune_dqn() -> None:
    """Climb in one setting after the other at a short horizon, then in the floor at the long."""
    trials = Trials()
    settings: Settings = {
        "learning_rate": 3e-4,
        "discount": 0.8,
        "exploration_floor": 0.003,
        "exploration_steps": 2_000,
        "target_interval": 250,
        "train_interval": 4,
    }
    before: Settings = {}
    while before != settings:
        before = settings
        for name in before:
            settings = trials.climb(settings, name, DQN_STEPS)
            print("so far:", settings, flush=True)
    print("best:", trials.climb(settings, "exploration_floor", Q_STEPS))


def grid(**axes: Sequence[Any]) -> list[Settings]:
    """Return every combination of the values."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def tune_q_learning() -> None:
    """Play the whole grid in worlds of three sizes; it is cheap."""
    n_states, n_actions, _ = SIZES
    worlds = [
        (seed, romdp.worlds.random_romdp(n_states, n_actions, n_observations, seed=seed))
        for n_observations, seed in itertools.product((10, 20, 30), Q_SEEDS)
    ]
    candidates = grid(
        memory=(0.3, 1, 3, 10),
        gain_rate=(0.03, 0.1, 0.3, 1.0),
        optimism=(1.0, 2.0, 4.0),
        exploration=(0, 10, 30, 100),
    )
    rows = []
    for settings in candidates:
        finals = np.array(
            [
                play_baseline("q-learning", world, Q_STEPS, seed, **settings).pseudo_regret[-1]
                for seed, world in worlds
            ]
        )
        by_size = finals.reshape(3, -1).mean(axis=1)
        rows.append((finals.mean(), finals.max(), by_size, settings))
    rows.sort(key=lambda row: row[0])
    print("mean | worst | Y = 10, 20, 30 | settings")
    for mean, worst, by_size, settings in [*rows[:8], rows[len(rows) // 2], rows[-1]]:
        sizes = ", ".join(f"{value:.0f}" for value in by_size)
        print(f"{mean:.0f} | {worst:.0f} | {sizes} | {settings}")


def show_others() -> None:
    """Print the pseudo-regret of other agents in the worlds and after the steps of DQN."""
    agents = {
        "ucrl2": romdp.UCRL2(romdp.Hoeffding(scale=0.1)),
        "psrl": romdp.PSRL(),
        "lc-psrl": romdp.LCPSRL(),
    }
    for seed in SEEDS:
        world = dqn_world(seed)
        drift = np.linalg.matrix_power(world.transition.mean(axis=1), 10_000)[0]
        loss = world.hidden.gain - drift @ world.reward.mean(axis=1)
        found = {"uniform": DQN_STEPS * loss}
        found["q-learning"] = play_baseline("q-learning", world, DQN_STEPS, seed).pseudo_regret[-1]
        for name, agent in agents.items():
            found[name] = romdp.play(agent, world, DQN_STEPS, seed).pseudo_regret[-1]
        print(f"seed {seed}:", ", ".join(f"{name} {value:.0f}" for name, value in found.items()))


def main() -> None:
    """Do one of the three."""
    parts = {"dqn": tune_dqn, "q-learning": tune_q_learning, "others": show_others}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=parts)
    parts[parser.parse_args().part]()


if __name__ == "__main__":
    main()
