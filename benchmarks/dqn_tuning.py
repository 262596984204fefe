"""Tuning of the model-free baselines.

python benchmarks/dqn_tuning.py dqn           # an hour
python benchmarks/dqn_tuning.py q-learning    # two to five minutes
"""

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from romdp.baselines import play_baseline

import romdp

SIZES = (10, 20, 30)  # numbers of observations
SEEDS = tuple(range(1000, 1006))  # of the world and of the run; nothing is reported on them
STEPS = 1_000_000

Settings = Mapping[str, Any]


def world(n_observations: int, seed: int) -> romdp.ROMDP:
    """Return a world to tune in."""
    return romdp.worlds.random_romdp(5, 4, n_observations, seed=seed)


class Trials:
    """Mean pseudo-regrets of settings of DQN, each run made once and printed as it ends."""

    def __init__(self) -> None:
        self.results: dict[tuple[Any, ...], float] = {}

    def regret(self, settings: Settings, limit: float = np.inf) -> float:
        """Play in one world of each size, unless that was done before.

        Once the mean is sure to exceed the limit, the remaining worlds are left out.
        """
        key = tuple(settings.values())
        if key not in self.results:
            finals: list[float] = []
            for size, seed in zip(SIZES, SEEDS, strict=False):
                if sum(finals) <= limit * len(SIZES):
                    run = play_baseline("dqn", world(size, seed), STEPS, seed, **settings)
                    finals.append(run.pseudo_regret[-1])
            self.results[key] = sum(finals) / len(SIZES)
            text = ", ".join(f"{name} {value:g}" for name, value in settings.items())
            each = ", ".join(f"{value:.0f}" for value in finals)
            more = "" if len(finals) == len(SIZES) else "more than "
            print(f"{text} | {more}{self.results[key]:.0f} | {each}", flush=True)
        return self.results[key]

    def climb(self, settings: Settings, name: str) -> Settings:
        """Move along one setting until neither neighbour is better: the best lies inside."""
        best = settings
        for move in _aside(name):
            while True:
                trial = {**best, name: move(best[name])}
                least = self.regret(best)
                if trial == best or self.regret(trial, least) >= least:
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
    """Climb in one setting after the other, from the best of 200,000 steps."""
    trials = Trials()
    settings: Settings = {
        "learning_rate": 9e-4,
        "discount": 0.6,
        "exploration_floor": 0.001,
        "exploration_steps": 2_000,
        "target_interval": 250,
        "train_interval": 1,
    }
    before: Settings = {}
    while before != settings:
        before = settings
        for name in before:
            settings = trials.climb(settings, name)
            print("so far:", settings, flush=True)


def grid(**axes: Sequence[Any]) -> list[Settings]:
    """Return every combination of the values."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def tune_q_learning() -> None:
    """Play the whole grid in worlds of three sizes; it is cheap."""
    worlds = [(seed, world(size, seed)) for size, seed in itertools.product(SIZES, SEEDS)]
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
                play_baseline("q-learning", place, STEPS, seed, **settings).pseudo_regret[-1]
                for seed, place in worlds
            ]
        )
        by_size = finals.reshape(3, -1).mean(axis=1)
        rows.append((finals.mean(), finals.max(), by_size, settings))
    rows.sort(key=lambda row: row[0])
    print("mean | worst | Y = 10, 20, 30 | settings")
    for mean, worst, by_size, settings in [*rows[:8], rows[len(rows) // 2], rows[-1]]:
        sizes = ", ".join(f"{value:.0f}" for value in by_size)
        print(f"{mean:.0f} | {worst:.0f} | {sizes} | {settings}")


def main() -> None:
    """Do one of the two."""
    parts = {"dqn": tune_dqn, "q-learning": tune_q_learning}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=parts)
    parts[parser.parse_args().part]()


if __name__ == "__main__":
    main()
