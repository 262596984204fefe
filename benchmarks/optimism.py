"""Whether the sets of `TimeUniform` hold, what they cost in regret, how fast a plan in them is.

Run ``python benchmarks/optimism.py`` for coverage and speed, and ``--regret`` for regret. Beside it
stands UCRL3 of the PyPI package statisticalrl-learners 2.2507, if ``--reference PYTHON`` names an
interpreter that has it (an environment of its own: its pins are old). Its worlds are ours: the same
arrays are written to a file that it reads.

Coverage: a run is covered if every mean reward and every chance lies inside after every step. The
sets of a pair depend on its own samples only, so the policy does not matter as long as it tries
everything: it is drawn at random for each run, and goes right with chance 0.85 in the river.
"""

import argparse
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import scipy.sparse
from machine import about

import romdp
from romdp.core.compiled import kernel
from romdp.planning.timeuniform import doubt_per_pair, highest_rewards, probability_ends

RIVER_STEPS, RANDOM_STEPS = 5_000, 100_000
DELTA, ROUNDING = 0.05, 1e-9

REFERENCE = """
import sys
import numpy as np
np.infty = np.inf
from statisticalrl_learners.MDPs_discrete.UCRL3 import UCRL3
data, steps = np.load(sys.argv[1]), int(sys.argv[2])
for run, (moves, reward) in enumerate(zip(data["transition"], data["reward"])):
    rng = np.random.default_rng(run)
    np.random.seed(run)
    agent, state, regret = UCRL3(*reward.shape, 0.05), 0, 0.0
    agent.reset(state)
    for _ in range(steps):
        action = agent.play(state)
        mean = reward[state, action]
        got = float(rng.random() < mean) if data["coins"] else mean
        following = rng.choice(len(reward), p=moves[state, action])
        agent.update(state, action, got, following)
        regret += data["gain"][run] - mean
        state = following
    print(regret)
"""


def river() -> romdp.ROMDP:
    """Make the river of ANCHORS: six states, certain rewards, start at the left end."""
    transition, reward = np.zeros((6, 2, 6)), np.zeros((6, 2))
    for state in range(6):
        left, right = max(0, state - 1), min(5, state + 1)
        transition[state, 0, left] = 1.0
        for following, chance in ((right, 0.4), (left, 0.05), (state, 0.55)):
            transition[state, 1, following] += chance
    reward[0, 0], reward[5, 1] = 0.005, 1.0
    start = np.eye(6)[0]
    return romdp.ROMDP(transition, reward, np.eye(6), "deterministic", initial=start)


def random_world(seed: int) -> romdp.ROMDP:
    return romdp.worlds.random_romdp(5, 4, 5, seed=seed)


@kernel
def is_covered(observations, actions, rewards, transition, mean_reward, doubt) -> bool:
    """Whether the truth lies inside after every step. Only the pair just visited can have moved."""
    n_states, n_actions = mean_reward.shape
    visits = np.zeros((n_states, n_actions), np.int64)
    moves = np.zeros((n_states, n_actions, n_states), np.int64)
    sums, squares = np.zeros((n_states, n_actions)), np.zeros((n_states, n_actions))
    for t in range(actions.size - 1):
        s, a = observations[t], actions[t]
        visits[s, a] += 1
        moves[s, a, observations[t + 1]] += 1
        sums[s, a] += rewards[t]
        squares[s, a] += rewards[t] * rewards[t]
        n, total, of_squares = visits[s:, a:], sums[s:, a:], squares[s:, a:]
        n, total, of_squares = n[:1, :1], total[:1, :1], of_squares[:1, :1]
        mean = mean_reward[s, a]
        if mean > highest_rewards(n, total, of_squares, doubt)[0, 0] + ROUNDING:
            return False
        loss = highest_rewards(n, n - total, n - 2.0 * total + of_squares, doubt)[0, 0]
        if 1.0 - mean > loss + ROUNDING:
            return False
        lows, highs = probability_ends(moves[s : s + 1, a : a + 1], doubt)
        for following in range(n_states):
            chance = transition[s, a, following]
            if chance < lows[0, 0, following] - ROUNDING:
                return False
            if chance > highs[0, 0, following] + ROUNDING:
                return False
    return True


def coverage(make_world, make_policy, runs: int, steps: int) -> float:
    """Share of runs that are covered at all times."""
    covered = 0
    for seed in range(runs):
        world = make_world(seed)
        rng = np.random.default_rng(seed)
        seen = romdp.simulate(world, make_policy(rng), steps + 1, seed=seed)
        truth = world.observable
        doubt = doubt_per_pair(romdp.Counts.zeros(truth.n_states, truth.n_actions), DELTA)
        covered += is_covered(
            seen.observations, seen.actions, seen.rewards, truth.transition, truth.reward, doubt
        )
    return covered / runs


def regret_of(agent: romdp.Agent, worlds: list[romdp.ROMDP], steps: int) -> np.ndarray:
    runs = [romdp.play(agent, world, steps, seed=seed) for seed, world in enumerate(worlds)]
    return np.array([run.pseudo_regret[-1] for run in runs])


def regret_of_reference(python: str, worlds: list[romdp.ROMDP], steps: int) -> np.ndarray:
    truths = [world.observable for world in worlds]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "worlds.npz"
        np.savez(
            path,
            transition=[truth.transition for truth in truths],
            reward=[truth.reward for truth in truths],
            gain=[truth.gain for truth in truths],
            coins=truths[0].reward_law == "bernoulli",
        )
        command = [python, "-W", "ignore", "-c", REFERENCE, str(path), str(steps)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return np.array([float(line) for line in done.stdout.split() if line])


def print_regret(reference: str | None) -> None:
    cases = (
        ("random_romdp(5, 4, 5)", [random_world(seed) for seed in range(10)], RANDOM_STEPS),
        ("river swim", [river()] * 20, RIVER_STEPS),
    )
    agents = {
        "ucrl3": romdp.UCRL3(),
        "ucrl2, paper's sets": romdp.UCRL2(romdp.Hoeffding()),
        "ucrl2, paper's sets x 0.1": romdp.UCRL2(romdp.Hoeffding(0.1)),
        "psrl": romdp.PSRL(),
    }
    for title, worlds, steps in cases:
        print(f"\n{title}, {steps:,} steps, {len(worlds)} runs: mean pseudo-regret (largest)")
        for name, agent in agents.items():
            found = regret_of(agent, worlds, steps)
            print(f"{name:>28} {found.mean():>9.1f} ({found.max():.0f})")
        if reference:
            found = regret_of_reference(reference, worlds, steps)
            print(f"{'statisticalrl UCRL3':>28} {found.mean():>9.1f} ({found.max():.0f})")


def print_coverage(runs: int, steps: int) -> None:
    print(f"\nShare of {runs} runs of {steps:,} steps with the truth inside at all times")
    share = coverage(random_world, lambda rng: rng.dirichlet(np.ones(4), 5), runs, steps)
    print(f"{'random_romdp(5, 4, 5)':>28} {share:>9.3f}")
    share = coverage(lambda _: river(), lambda _: np.tile([0.15, 0.85], (6, 1)), runs, steps)
    print(f"{'river swim':>28} {share:>9.3f}")


def print_speed(steps: int) -> None:
    print("\nOne plan, microseconds (least of many)")
    for n_states, samples in ((20, 200), (30, 200), (100, 200), (300, 200)):
        time_of, sweeps = time_plan(n_states, samples, 0)
        print(f"{n_states:>6} states, dense: {time_of:>9.1f} ({sweeps} sweeps)")
    time_of, sweeps = time_plan(1000, 60, 20)
    print(f"{1000:>6} states, sparse: {time_of:>8.1f} ({sweeps} sweeps)")
    world = romdp.worlds.random_romdp(5, 4, 30, seed=0)
    romdp.play(romdp.UCRL3(), world, 1000, seed=0)
    begin = time.process_time()
    run = romdp.play(romdp.UCRL3(), world, steps, seed=0)
    rate = steps / (time.process_time() - begin) / 1e6
    print(f"Learning loop at Y = 30: {rate:.1f} million steps per second of processor time over")
    print(f"{steps:,} steps ({len(run.epochs)} epochs)")


def time_plan(n_states: int, samples: int, successors: int) -> tuple[float, int]:
    """Time one plan; with ``successors`` a pair has as many next states, and counts are sparse."""
    rng = np.random.default_rng(0)
    pairs = (n_states, 4)
    moves = np.zeros((*pairs, n_states), np.int64)
    for pair in np.ndindex(pairs):
        to = rng.permutation(n_states)[: successors or n_states]
        moves[pair][to] = rng.multinomial(samples, rng.dirichlet(np.ones(to.size)))
    sums = rng.binomial(samples, rng.random(pairs)).astype(float)
    kept = scipy.sparse.csr_array(moves.reshape(-1, n_states)) if successors else moves
    counts = romdp.Counts(np.full(pairs, samples), kept, sums, sums)
    t = int(counts.visits.sum())
    least = np.inf
    for _ in range(300 if n_states < 100 else 20):
        begin = time.perf_counter()
        plan = romdp.TimeUniform().plan(counts, t, DELTA)
        least = min(least, time.perf_counter() - begin)
    return 1e6 * least, plan.sweeps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--regret", action="store_true", help="measure regret instead")
    parser.add_argument("--reference", help="a Python that has statisticalrl-learners")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--steps", type=float, default=1e8, help="steps of the learning loop")
    chosen = parser.parse_args()
    print(about())
    if chosen.regret:
        print_regret(chosen.reference)
    else:
        print_coverage(chosen.runs, 100_000)
        print_speed(int(chosen.steps))


if __name__ == "__main__":
    main()
