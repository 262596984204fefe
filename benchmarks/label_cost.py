"""What the labels alone cost: regret of who knows the hidden MDP and all other labels.

python benchmarks/label_cost.py [--seeds N] [--steps N] [--observations Y ...]

The player knows the transition law, the rewards, and for every observation the labels of all
others; it believes in each label as Bayes' rule says (all states equally likely at first, each
showing its observations equally often) and takes the action that is best on average, without
exploring: later on that costs, so look at the first few visits. Regret is summed by gaps.
"""

import argparse

import numpy as np
from grid import interval
from likelihood_agents import gaps

import romdp

MARKS = (1_000, 2_000, 3_000, 4_000, 6_000, 10_000, 30_000)


def label_cost(observations: int, seed: int, steps: int) -> list[float]:
    """Play once; returns the regret at each of the marks."""
    world = romdp.worlds.random_romdp(5, 4, observations, seed=seed)
    hidden, rng = world.hidden, np.random.default_rng(seed)
    worth = hidden.reward + hidden.transition @ hidden.bias
    gap = gaps(hidden)
    move, paid, unpaid = (
        np.log(np.maximum(law, 1e-300))
        for law in (hidden.transition, hidden.reward, 1.0 - hidden.reward)
    )
    ladder = hidden.transition.cumsum(axis=2)
    shown = world.emission.cumsum(axis=1)
    belief = np.zeros((observations, hidden.n_states))  # logs
    state, seen, lost, curve = 0, int(np.flatnonzero(world.labels == 0)[0]), 0.0, []
    for step in range(1, steps + 1):
        weight = np.exp(belief[seen] - belief[seen].max())
        action = int(np.argmax(weight @ worth))
        lost += gap[state, action]
        pays = rng.random() < hidden.reward[state, action]
        following = int(np.searchsorted(ladder[state, action], rng.random()))
        next_seen = int(np.searchsorted(shown[following], rng.random()))
        belief[seen] += (paid if pays else unpaid)[:, action] + move[:, action, following]
        belief[next_seen] += move[state, action]
        state, seen = following, next_seen
        if step in MARKS:
            curve.append(lost)
    return curve


def main() -> None:
    """Print the mean regret and its interval at each mark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=MARKS[-1])
    parser.add_argument("--observations", type=int, nargs="*", default=[300, 1000, 3000])
    arguments = parser.parse_args()
    for y in arguments.observations:
        curves = np.array([label_cost(y, seed, arguments.steps) for seed in range(arguments.seeds)])
        for mark, column in zip(MARKS, curves.T, strict=False):
            mean, low, high = interval(column.tolist())
            print(f"Y = {y:,}, {mark:>6,} steps: {mean:.0f} [{low:.0f}, {high:.0f}]", flush=True)


if __name__ == "__main__":
    main()
