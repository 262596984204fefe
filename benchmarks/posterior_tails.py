"""The tail of posterior sampling and its price: mean, median and largest regret over 100 worlds.

    python benchmarks/posterior_tails.py [--worlds N] [--first N] [--runs N] [--only NAME ...]
    python benchmarks/figures.py tails     # draws what it has left in benchmarks/out

The hidden states are told (``random_romdp(5, 4, 30, seed)``, run seed = world seed, 10^6 steps), so
the whole agent fits into one compiled loop, and a run takes a quarter of a second. It draws from
Dirichlet(1 / S) and Beta(1, 1) priors, in epochs as `Doubling.frequent` has them. ``--library``
plays `romdp.Oracle(labels, "posterior")` in the same worlds, with the floors that are named:
learned priors, all else alike. Regret is summed by gaps (see ``likelihood_agents.py``).

What is varied: the best of several draws of every pair (Tiapkin et al. 2022, OPSRL), or only of
pairs that were rarely tried (sqrt(N / n) draws, at most 10 or 30, of a pair tried n times in a
state whose most tried action was tried N times); counts times a number below 1 (inflated
posteriors); epochs half as long; a hard floor (a state's least tried action is taken while it was
tried less than c log t times); the floor of `Posterior` (below c log t a pair counts with
n^2 / (c log t) tries); and IMED (Honda and Takemura 2015), which takes the action with the least
n K + log n, where K is the divergence from what was seen of a pair to the nearest joint law of
reward and next state that would make it as good as the best one. As in IMED-RL (Pesquerel and
Maillard 2022) values come from the actions of each state that were tried at least log(N)^2 times.
"""

# ruff: noqa: NPY002 - compiled code has no other generator of its own
import argparse
import json
from collections.abc import Callable
from dataclasses import astuple, dataclass, replace
from functools import partial
from math import log, sqrt
from pathlib import Path

import numpy as np
from grid import run_all
from likelihood_agents import gap_regret, gaps

import romdp
from romdp.core.compiled import kernel

STEPS = 10**6
OUT = Path("benchmarks/out/posterior-tails.jsonl")


@dataclass(frozen=True)
class Variant:
    """One way of sampling."""

    draws: int = 1
    weight: float = 1.0
    length: float = 1.0
    hard_floor: float = 0.0
    soft_floor: float = 0.0
    rare_draws: int = 1
    imed: bool = False


VARIANTS = {
    "as it was": Variant(),
    "best of 2 draws": Variant(draws=2),
    "best of 4 draws": Variant(draws=4),
    "counts x 0.7": Variant(weight=0.7),
    "counts x 0.5": Variant(weight=0.5),
    "epochs half as long": Variant(length=0.5),
    "hard floor, c = 1": Variant(hard_floor=1.0),
    "IMED": Variant(imed=True),
    "floor, c = 0.5": Variant(soft_floor=0.5),
    "floor, c = 1": Variant(soft_floor=1.0),
    "floor, c = 2": Variant(soft_floor=2.0),
    "best of up to 10 for the rare": Variant(rare_draws=10),
    "best of up to 30 for the rare": Variant(rare_draws=30),
    "that of 10, and floor, c = 1": Variant(rare_draws=10, soft_floor=1.0),
    "floor, c = 1, epochs half as long": Variant(soft_floor=1.0, length=0.5),
}


@kernel
def play(
    transition, reward, gap, steps, seed, draws, weight, length, hard_floor, soft_floor, rare, imed
) -> float:
    """Play one run and return its regret by gaps."""
    np.random.seed(seed)
    n_states, n_actions, _ = transition.shape
    ladder = transition.copy()
    for k in range(1, n_states):
        ladder[:, :, k] += ladder[:, :, k - 1]
    visits, wins = np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions))
    moves = np.zeros((n_states, n_actions, n_states))
    most = max(draws, rare)
    rewards = np.zeros((n_states, n_actions, most))
    laws = np.zeros((n_states, n_actions, most, n_states))
    numbers = np.full((n_states, n_actions), draws)
    budget, used = np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions))
    values, policy = np.zeros(n_states), np.zeros(n_states, np.int64)
    step, last, state, lost = 0, 1, 0, 0.0
    while step < steps:
        level = log(step + 1.0)
        for s in range(n_states):
            for a in range(n_actions):
                n = visits[s, a]
                w = weight * min(1.0, n / max(1.0, soft_floor * level))
                if imed:  # values come from what was tried often enough
                    numbers[s, a] = int(n >= log(max(1.0, visits[s].max())) ** 2)
                if rare > 1:
                    numbers[s, a] = min(rare, max(1, int(sqrt(visits[s].max() / max(1.0, n)))))
                if imed:  # the mean, with a trace of the prior
                    rewards[s, a, 0] = (0.5 + wins[s, a]) / (1.0 + n)
                    laws[s, a, 0] = (moves[s, a] + 1.0 / n_states) / (1.0 + n)
                    continue
                for i in range(numbers[s, a]):
                    rewards[s, a, i] = np.random.beta(
                        1.0 + w * wins[s, a], 1.0 + w * (n - wins[s, a])
                    )
                    for y in range(n_states):
                        laws[s, a, i, y] = np.random.gamma(w * moves[s, a, y] + 1.0 / n_states, 1.0)
                    laws[s, a, i] /= laws[s, a, i].sum()
        solve(rewards, laws, numbers, values, policy, min(0.01, 1.0 / sqrt(step + 1.0)))
        for s in range(n_states):
            least = np.argmin(visits[s])
            if visits[s, least] < hard_floor * level:
                policy[s] = least
            if imed:
                policy[s] = choose_by_imed(s, numbers, visits, wins, moves, rewards, laws, values)
        for s in range(n_states):
            for a in range(n_actions):
                budget[s, a], used[s, a] = int(length * sqrt(visits[s, a])) + 1, 0
        start = step
        while step < steps:
            a, s = policy[state], state
            lost += gap[s, a]
            visits[s, a] += 1
            used[s, a] += 1
            wins[s, a] += np.random.random() < reward[s, a]
            chance, state = np.random.random(), 0
            while state < n_states - 1 and chance > ladder[s, a, state]:
                state += 1
            moves[s, a, state] += 1
            step += 1
            if used[s, a] >= budget[s, a] or step - start > last:
                break
        last = step - start
    return lost


@kernel
def solve(rewards, laws, numbers, values, policy, precision) -> None:
    """Find the best policy where each action is worth the best of its draws."""
    n_states, n_actions = numbers.shape
    new = np.zeros(n_states)
    for _ in range(1000):
        for s in range(n_states):
            new[s] = -np.inf
            for a in range(n_actions):
                for i in range(numbers[s, a]):
                    total = rewards[s, a, i]
                    for y in range(n_states):
                        total += laws[s, a, i, y] * values[y]
                    if total > new[s]:
                        new[s], policy[s] = total, a
        change = new - values
        values[:] = new - new[0]
        if change.max() - change.min() < precision:
            break


@kernel
def choose_by_imed(s, numbers, visits, wins, moves, rewards, laws, values) -> int:
    """Return the action with the least n K + log n; the best one has K = 0."""
    n_actions, n_states = visits.shape[1], len(values)
    aim, top = -np.inf, 1.0 + values.max()
    for a in range(n_actions):
        if numbers[s, a] > 0:
            aim = max(aim, rewards[s, a, 0] + (laws[s, a, 0] * values).sum())
    best, chosen = np.inf, 0
    chances, excess = np.zeros(2 * n_states), np.zeros(2 * n_states)
    for a in range(n_actions):
        n = visits[s, a]
        if n == 0.0:
            return a
        mean = wins[s, a] / n
        for y in range(n_states):
            chances[y], excess[y] = mean * moves[s, a, y] / n, 1.0 + values[y] - aim
            chances[n_states + y] = (1.0 - mean) * moves[s, a, y] / n
            excess[n_states + y] = values[y] - aim
        low, high = 0.0, 1.0 / max(top - aim, 1e-9)
        if (chances * excess).sum() < 0.0:
            for _ in range(25):
                z = (low + high) / 2.0
                if (chances * excess / (1.0 - z * excess)).sum() < 0.0:
                    low = z
                else:
                    high = z
        index = n * (chances * np.log1p(-low * excess)).sum() + log(n)
        if index < best:
            best, chosen = index, a
    return chosen


def regrets(variant: Variant, worlds: range, runs: int) -> list[float]:
    """Play a variant in every world, ``runs`` times."""
    found = []
    for seed in worlds:
        hidden = romdp.worlds.random_romdp(5, 4, 30, seed=seed).hidden
        truth = [np.array(a) for a in (hidden.transition, hidden.reward, gaps(hidden))]
        for run in range(runs):
            found.append(play(*truth, STEPS, 1000 * run + seed, *astuple(variant)))
    return found


def measure_library(floor: float, seed: int) -> dict[str, float]:
    """Play the oracle that samples in one world, with one floor or another."""
    world = romdp.worlds.random_romdp(5, 4, 30, seed=seed)
    agent = romdp.Oracle(world.labels, "posterior")
    agent = replace(agent, planner=romdp.Posterior(floor=floor))
    playing = romdp.epochs(agent, world, STEPS, seed=seed)
    for _ in playing:
        pass
    return {"lost": gap_regret(world, playing.state.recorder.counts)}


def regrets_of_library(floor: float, worlds: range, workers: int) -> list[float]:
    """Play it in every world; what is cut off goes on where it was."""
    cases = [{"floor": floor, "seed": seed} for seed in worlds]
    out = OUT.with_name("posterior-library.jsonl")
    return [row["lost"] for row in run_all(measure_library, cases, out, workers)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="seed of the first world")
    parser.add_argument("--runs", type=int, default=1, help="runs in each world")
    parser.add_argument("--only", nargs="*", default=list(VARIANTS), help="names of the variants")
    parser.add_argument(
        "--library", type=float, nargs="*", metavar="FLOOR", help="play the library's agent instead"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes for --library")
    chosen = parser.parse_args()
    worlds = range(chosen.first, chosen.first + chosen.worlds)
    cases: dict[str, Callable[[], list[float]]] = {
        name: partial(regrets, VARIANTS[name], worlds, chosen.runs) for name in chosen.only
    }
    if chosen.library is not None:
        cases = {
            f"`Posterior(floor={floor:g})`": partial(
                regrets_of_library, floor, worlds, chosen.workers
            )
            for floor in chosen.library or (0.0, 1.0, 2.0)
        }
    print("| sampling | runs | mean | median | 90% | largest | largest / median |")
    print("|---|---|---|---|---|---|---|")
    for name, measure in cases.items():
        lost = measure()
        OUT.parent.mkdir(parents=True, exist_ok=True)
        with OUT.open("a") as file:
            file.write(json.dumps({"sampling": name, "first": chosen.first, "lost": lost}) + "\n")
        middle, most = np.median(lost), max(lost)
        print(
            f"| {name} | {len(lost)} | {np.mean(lost):,.0f} | {middle:,.0f} | "
            f"{np.quantile(lost, 0.9):,.0f} | {most:,.0f} | {most / middle:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
