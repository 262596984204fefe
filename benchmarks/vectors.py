"""Hidden states behind vectors: the offline rows on digits, and the growth in steps and numbers.

    python benchmarks/vectors.py [digits|noise|noise5|growth] [--seeds 3] [--first 100]

X and the noise level are never told. The reference is a decoder trained on true labels.
"""

import argparse
import resource
import time

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import romdp
from romdp.clustering.vectors import find_states
from romdp.encoding.encoder import make_steps

ROWS = {"digits": (20_000, 0), "noise": (40_000, 64), "noise5": (40_000, 320)}


def digits_log(seed, steps, n_noise):
    """Digits in ten hidden states, with distracting numbers and a random rotation."""
    pictures, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(pictures))
    shown, held_out = order[:1300], order[1300:]
    world = romdp.worlds.random_romdp(n_states=10, n_actions=4, n_observations=10, seed=seed)
    seen = romdp.simulate(world, "uniform", steps=steps, seed=seed)
    hidden = np.asarray(world.labels)[seen.observations]
    rng = np.random.default_rng([seed, 7])
    pools = [shown[digits[shown] == digit] for digit in range(10)]
    rows = np.array([rng.choice(pools[state]) for state in hidden])
    noise = np.zeros((steps, n_noise))
    fresh = np.sqrt(1 - 0.81) * rng.standard_normal((steps, n_noise))
    for t in range(1, steps):
        noise[t] = 0.9 * noise[t - 1] + fresh[t]
    turn = np.eye(64)
    if n_noise:
        turn = np.linalg.qr(rng.standard_normal((64 + n_noise,) * 2))[0]
    still = rng.standard_normal((len(held_out), n_noise))
    vectors = np.hstack([pictures[rows] / 16, 2 * noise]) @ turn
    unseen = np.hstack([pictures[held_out] / 16, 2 * still]) @ turn
    return make_steps(vectors, seen.actions, seen.rewards), hidden, unseen, digits[held_out]


def accuracy(states, truth):
    """Best one-to-one matching of states to digits; surplus states count as errors."""
    table = np.zeros((states.max() + 1, 10))
    np.add.at(table, (states, truth), 1)
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns].sum() / len(truth)


def digits_row(name, seed):
    steps, hidden, unseen, truth = digits_log(seed, *ROWS[name])
    start = time.process_time()
    decoder = find_states(steps, romdp.Likelihood(), np.random.default_rng(seed))
    seconds = time.process_time() - start
    space = decoder.encoding.teaching_map
    told = LogisticRegression(C=0.06, max_iter=60, tol=1e-3)
    told.fit(space(steps.vectors[:20_000]), hidden[:20_000])
    print(
        f"{name} seed {seed}: {decoder.n_states} states, accuracy on unseen images "
        f"{accuracy(decoder.predict(unseen), truth):.3f} (with true labels "
        f"{told.score(space(unseen), truth):.3f}); view {decoder.encoding.view}, {seconds:.0f} s",
        flush=True,
    )


def growth_row(n, d, n_states=50):
    rng = np.random.default_rng(0)
    world = romdp.worlds.random_romdp(n_states, 4, n_states, seed=0)
    seen = romdp.simulate(world, "uniform", steps=n, seed=0)
    hidden = np.asarray(world.labels)[seen.observations]
    centers = rng.standard_normal((n_states, d)).astype(np.float32)
    vectors = centers[hidden] + 0.5 * rng.standard_normal((n, d), np.float32)
    steps = make_steps(vectors, seen.actions, seen.rewards)
    start = time.process_time()
    decoder = find_states(steps, romdp.Likelihood(), np.random.default_rng(0))
    states = decoder.predict(vectors)
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    table = np.zeros((states.max() + 1, n_states))
    np.add.at(table, (states, hidden), 1)
    pure = table.max(axis=1).sum() / n
    print(
        f"{n:,} vectors of {d}: {decoder.n_states} states, purity {pure:.3f}, {seconds:.0f} s, "
        f"{memory:.1f} GB",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=[*ROWS, "growth"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=100, help="nothing was chosen on 100 and on")
    options = parser.parse_args()
    for row in options.rows:
        if row == "growth":
            for n, d in ((10_000, 100), (100_000, 100), (100_000, 20), (1_000_000, 100)):
                growth_row(n, d)
            continue
        for seed in range(options.first, options.first + options.seeds):
            digits_row(row, seed)


if __name__ == "__main__":
    main()
