"""Tuning of the model-free baselines; its results are in docs/results/dqn-tuning.md.

python benchmarks/dqn_tuning.py dqn           # about ten minutes, needs romdp[dqn]
python benchmarks/dqn_tuning.py q-learning    # two to five minutes
python benchmarks/dqn_tuning.py others        # what other agents reach where DQN was tuned
"""

import argparse
import itertools
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from romdp.baselines import play_baseline

import romdp

SIZES = (5, 4, 20)  # X, A, Y
SEEDS = (1000, 1001)  # of the world and of the run; not those that results are reported on
DQN_STEPS = 50_000
Q_SEEDS = tuple(range(1000, 1006))
Q_STEPS = 1_000_000

Settings = Mapping[str, Any]


def dqn_world(seed: int) -> romdp.ROMDP:
    """Return a world in which DQN was tuned."""
    return romdp.worlds.random_romdp(*SIZES, seed=seed)


class Trials:
    """Pseudo-regrets of configurations, each run made once and printed as it ends."""

    def __init__(self, name: str, steps: int) -> None:
        self.name, self.steps = name, steps
        self.results: dict[tuple[tuple[str, Any], ...], dict[int, float]] = {}

    def run(self, settings: Settings, seed: int) -> None:
        """Play one configuration in one world, unless that was done before."""
        done = self.results.setdefault(tuple(settings.items()), {})
        if seed in done:
            return
        world = dqn_world(seed)
        begin = time.perf_counter()
        run = play_baseline(self.name, world, self.steps, seed, **settings)
        done[seed] = float(run.pseudo_regret[-1])
        seconds = time.perf_counter() - begin
        text = ", ".join(f"{name} {value:g}" for name, value in settings.items())
        print(f"{text} | seed {seed} | {done[seed]:.0f} | {seconds:.1f} s", flush=True)

    def best(self, candidates: Iterable[Settings], count: int = 1) -> list[Settings]:
        """Return the candidates of least mean pseudo-regret."""

        def mean(settings: Settings) -> float:
            found = self.results[tuple(settings.items())].values()
            return sum(found) / len(found)

        return sorted(candidates, key=mean)[:count]


def grid(**axes: Iterable[Any]) -> list[Settings]:
    """Return every combination of the values."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def tune_dqn() -> None:
    """Play all rates and discounts in one world, the best four in both; 18 runs in all."""
    trials = Trials("dqn", DQN_STEPS)
    usual = {
        "exploration_steps": 5_000,
        "exploration_floor": 0.02,
        "target_interval": 500,
        "train_interval": 4,
    }
    rates = grid(learning_rate=(3e-3, 1e-3, 3e-4), discount=(0.8, 0.9, 0.99))
    candidates: list[Settings] = [{**settings, **usual} for settings in rates]
    for settings in candidates:
        trials.run(settings, SEEDS[0])
    four = trials.best(candidates, 4)
    trials.run({**four[0], "train_interval": 1}, SEEDS[0])
    quicker = {"exploration_steps": 2_000, "exploration_floor": 0.01, "target_interval": 250}
    finalists: list[Settings] = [{**settings, **quicker} for settings in four]
    for settings, seed in itertools.product(finalists, SEEDS):
        trials.run(settings, seed)
    print("best:", dict(trials.best(finalists)[0]))


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
