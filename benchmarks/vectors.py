"""Hidden states behind vectors: offline on digits, online in locks, rings and environments.

    python benchmarks/vectors.py [ROW ...] [--seeds 3] [--first 100] [--budget 1.0]

The rows are those of ROWS, and growth. The number of states, the noise level and the horizon are
never told; one agent with the same settings plays in every row. The reference of the offline rows
is a decoder trained on true labels, that of the online digits an agent that is told the states.
"""

import argparse
import dataclasses
import math
import resource
import time
import warnings

import gymnasium
import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import romdp
from romdp.clustering.states import find_states
from romdp.encoding.encoder import make_steps
from romdp.worlds import (
    CoinLock,
    DistractedMazes,
    DistractedRing,
    Distraction,
    GaussianLock,
    ROMDPEnv,
    VectorObservation,
)

OFFLINE = {"digits": (20_000, 0), "noise": (40_000, 64), "noise5": (40_000, 320)}
KNOWN = {  # the same locks for an agent that is told the hidden state: search without encoding
    "known-lock25": (700, lambda seed: GaussianLock(25, 10, False, seed, True)),
    "known-lock50": (1_300, lambda seed: GaussianLock(50, 10, False, seed, True)),
    "known-lock100": (2_600, lambda seed: GaussianLock(100, 10, False, seed, True)),
}
LOCKS = {  # episodes that are played at most, and what makes the lock
    "lock25": (700, lambda seed: GaussianLock(25, world_seed=seed)),
    "lock50": (1_300, lambda seed: GaussianLock(50, world_seed=seed)),
    "lock100": (2_600, lambda seed: GaussianLock(100, world_seed=seed)),
    "lock25-noise": (1_000, lambda seed: Distraction(GaussianLock(25, world_seed=seed), 64)),
    "variable-latent": (
        3_000,
        lambda seed: GaussianLock(30, variable_latent=True, world_seed=seed),
    ),
    "coins20": (5_000, lambda seed: CoinLock(20, world_seed=seed)),
    "coins50": (10_000, lambda seed: CoinLock(50, world_seed=seed)),
    **KNOWN,
}
ENDLESS = {  # steps that are played, and what makes the world, which pays nothing
    "ring20": (30_000, lambda seed: DistractedRing(20, 512, 0.0, 0.0, seed, True)),
    "ring30": (80_000, lambda seed: DistractedRing(30, 512, 0.0, 0.0, seed, True)),
    "ring40": (160_000, lambda seed: DistractedRing(40, 512, 0.0, 0.0, seed, True)),
    "ring20-astray": (30_000, lambda seed: DistractedRing(20, 512, 0.05, 0.0, seed, True)),
    "mazes": (30_000, lambda seed: DistractedMazes(9, 0.0, seed, True)),
}


def minigrid():
    """Return the empty grid, shown as a picture of 64 x 64 x 3 bytes."""
    from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper

    return ImgObsWrapper(RGBImgObsWrapper(gymnasium.make("MiniGrid-Empty-8x8-v0")))


ENVIRONMENTS = {
    "cartpole": (60_000, lambda: gymnasium.make("CartPole-v1")),
    "minigrid": (30_000, minigrid),
}
TOLD = {  # steps, and what makes the world
    "told-lock25": (10_000, lambda seed: GaussianLock(25, 10, False, seed, True)),
    "told-lock25-noise": (
        10_000,
        lambda seed: Distraction(GaussianLock(25, 10, False, seed, True), 64, seed=seed),
    ),
    "told-lock50": (20_000, lambda seed: GaussianLock(50, 10, False, seed, True)),
    "told-ring20": (6_000, lambda seed: DistractedRing(20, 512, 0.0, 0.0, seed, True)),
    "told-ring30": (15_000, lambda seed: DistractedRing(30, 512, 0.0, 0.0, seed, True)),
    "told-ring20-astray": (6_000, lambda seed: DistractedRing(20, 512, 0.05, 0.0, seed, True)),
}


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
    """Best one-to-one matching of states to what is true; surplus states count as errors."""
    table = np.zeros((states.max() + 1, truth.max() + 1))
    np.add.at(table, (states, truth), 1)
    rows, columns = linear_sum_assignment(-table)
    return table[rows, columns].sum() / len(truth)


def digits_row(name, seed):
    steps, hidden, unseen, truth = digits_log(seed, *OFFLINE[name])
    start = time.process_time()
    decoder = find_states(steps, romdp.Likelihood(), np.random.default_rng(seed))
    seconds = time.process_time() - start
    space = decoder.encoding.teaching_map
    told = LogisticRegression(C=0.06, max_iter=60, tol=1e-3)
    told.fit(space(steps.vectors[:20_000]), hidden[:20_000])
    right = accuracy(decoder.predict(unseen), truth)
    print(
        f"{name} seed {seed}: {decoder.n_states} states, accuracy on unseen images "
        f"{right:.3f} (with true labels "
        f"{told.score(space(unseen), truth):.3f}); view {decoder.encoding.view}, {seconds:.0f} s",
        flush=True,
    )
    return right


def mazes_log(n_steps, seed):
    """Return random moves in nine mazes of which one obeys, fresh vectors and their cells."""
    env, rng = DistractedMazes(9, 0.0, seed, True), np.random.default_rng(seed)
    actions, cells = rng.integers(4, size=n_steps), np.zeros(n_steps, int)
    vectors = np.zeros((n_steps, *env.observation_space.shape), np.float32)
    shown, info = env.reset(seed=seed)
    for step, action in enumerate(actions):
        vectors[step], cells[step] = shown, info["hidden_state"]
        shown, _, _, _, info = env.step(action)
    truth = np.repeat(np.unique(cells), 20)
    return make_steps(vectors, actions), env.show(truth, seed=seed), truth


def carts_log(n_steps, seed, n_carts=9, length=200):
    """Return random moves of periodic carts, fresh pictures and the places of the one that obeys.

    ACDF's world: a cart goes round the edge of an 11 x 11 picture, 40 places, one at each step.
    Action 1 sends it on from another place, at every fifth only. The other carts do the same at
    random.
    """
    jump, rng = 5 * np.array([6, 5, 0, 1, 6, 3, 4, 3]), np.random.default_rng(seed)
    side, high, low = np.arange(10), np.full(10, 10), np.zeros(10, int)
    rows, columns = (
        np.concatenate([low, side, high, 10 - side]),
        np.concatenate([side, high, 10 - side, low]),
    )

    def show(places):
        pictures = np.zeros((*places.shape, 121), np.int8)
        np.put_along_axis(pictures, (11 * rows + columns)[places][..., None], 1, axis=2)
        return pictures.reshape(len(places), -1)

    mine, actions = int(rng.integers(n_carts)), rng.integers(2, size=(n_steps, n_carts))
    places = np.zeros((n_steps, n_carts), int)
    for step in range(n_steps):
        if step % length == 0:
            places[step] = rng.integers(40, size=n_carts)
        else:
            before = places[step - 1]
            jumps = (actions[step - 1] == 1) & (before % 5 == 0)
            places[step] = (np.where(jumps, jump[before // 5], before) + 1) % 40
    fresh = rng.integers(40, size=(2000, n_carts))
    lengths = np.full(n_steps // length, length)
    return make_steps(show(places), actions[:, mine], None, lengths), show(fresh), fresh[:, mine]


LOGS = {  # random moves, and what makes the log
    "mazes-log": (20_000, mazes_log),
    "mazes-5000": (5_000, mazes_log),
    "carts-log": (20_000, carts_log),
    "carts-5000": (5_000, carts_log),
}
ROWS = [*OFFLINE, *LOGS, *TOLD, "digits-online", *LOCKS, *ENDLESS, *ENVIRONMENTS]


def log_row(name, seed, budget=1.0):
    """Share of fresh vectors that states found in a log of random moves place right."""
    n_steps, make = LOGS[name]
    steps, fresh, truth = make(int(budget * n_steps), seed)
    start = time.process_time()
    decoder = find_states(steps, romdp.Likelihood(), np.random.default_rng(seed))
    right = accuracy(decoder.predict(fresh), truth)
    print(
        f"{name} seed {seed}: {decoder.n_states} states for {len(np.unique(truth))}, "
        f"{right:.4f} of fresh vectors right; view {decoder.encoding.view}, "
        f"{time.process_time() - start:.0f} s",
        flush=True,
    )
    return right


def view_of(codes):
    """Say how an agent sees vectors now."""
    if codes.names is not None:
        return f"{codes.n_codes} names"
    if codes.decoder is None:
        return "nothing learned"
    when = "" if codes.stepwise is None else " that depend on the step"
    return f"view {codes.decoder.encoding.view}, {codes.n_codes} codes{when}"


def lock_row(name, seed, budget):
    """Episodes until 100 wins in a row, or 500 with a mean of 0.9 of the best in softer locks."""
    episodes, make = LOCKS[name]
    env, start = make(seed), time.process_time()
    best = env.get_wrapper_attr("optimal_value")
    run, enough = (100, 1.0) if best == 1.0 else (500, 0.9 * best)
    n_actions = int(env.action_space.n)
    known, agent = name in KNOWN, romdp.LCPSRL()
    if known:
        agent = dataclasses.replace(agent, clusterer=romdp.Singletons())
    space = env.unwrapped.n_states if known else env.observation_space
    online = romdp.Online(agent, space, n_actions, seed=seed)

    def see(vector, info):
        return info["hidden_state"] if known else vector

    shown, returns, longest = see(*env.reset(seed=seed)), [], 0.0
    for _ in range(int(budget * episodes)):
        total, over = 0.0, False
        while not over:
            vector, reward, over, _, info = env.step(online.act(shown))
            shown = see(vector, info)
            online.observe(reward, None if over else shown, terminated=over)
            total += reward
        returns.append(total)
        shown = see(*env.reset())
        longest = max(longest, float(np.mean(returns[-run:])) if len(returns) >= run else 0.0)
        if longest >= enough:
            break
    verdict = "solved" if longest >= enough else "not solved"
    print(
        f"{name} seed {seed}: {verdict} after {len(returns)} episodes, best mean of {run} "
        f"{longest:.3f} (exact best {best:.3f}); "
        f"{'told the states' if known else view_of(online._encoder)}, "
        f"{time.process_time() - start:.0f} s",
        flush=True,
    )
    return len(returns) if verdict == "solved" else math.inf


def told_row(name, seed):
    """Learn codes where a driver who knows the right action explores: encoding without search."""
    steps, make = TOLD[name]
    env, rng = make(seed), np.random.default_rng(seed)
    right = env.unwrapped.secret if "lock" in name else env.unwrapped.right
    (shown, info), episodes = env.reset(seed=seed), [0]
    vectors, hidden, actions, rewards = [], [], [], []
    for _ in range(steps):
        state = info["hidden_state"]
        wise = right[state // 3, state % 3 % 2] if "lock" in name else right[state]
        action = int(wise if rng.random() < 0.85 else rng.integers(env.action_space.n))
        vectors.append(shown)
        hidden.append(state)
        actions.append(action)
        shown, reward, over, _, info = env.step(action)
        rewards.append(reward)
        episodes[-1] += 1
        if over:
            shown, info = env.reset()
            episodes.append(0)
    lengths = [length for length in episodes if length]
    ended = np.ones(len(lengths), bool)
    ended[-1] = episodes[-1] == 0
    steps = make_steps(np.array(vectors), actions, rewards, lengths, ended)
    start = time.process_time()
    decoder = find_states(steps, romdp.Likelihood(), np.random.default_rng(seed))
    codes = decoder.encoding.codes(steps.vectors)
    if decoder.encoding.view != "apart":
        codes = decoder.predict(steps.vectors)
    truth = np.unique(hidden, return_inverse=True)[1]
    table = np.zeros((codes.max() + 1, truth.max() + 1))
    np.add.at(table, (codes, truth), 1)
    print(
        f"{name} seed {seed}: {codes.max() + 1} codes for {truth.max() + 1} states met, purity "
        f"{table.max(axis=1).sum() / len(truth):.4f}; view {decoder.encoding.view}, "
        f"{time.process_time() - start:.0f} s",
        flush=True,
    )


def endless_row(name, seed, budget):
    """Find the step from which on states are exact, on fresh vectors of every state.

    Vectors are right if the best one-to-one matching of codes to states is; states are exact if
    there is no code more than that.
    """
    steps, make = ENDLESS[name]
    env, start = make(seed), time.process_time()
    n_states, n_actions = env.n_states, int(env.action_space.n)
    truth = np.repeat(np.arange(n_states), 20)
    fresh = env.show(truth, seed=seed)
    online = romdp.Online(romdp.LCPSRL(), env.observation_space, n_actions, seed=seed)
    (shown, _), right, met = env.reset(seed=seed), 0.0, {0}
    since = {"right": None, "exact": None}
    for step in range(1, int(budget * steps) + 1):
        shown, reward, _, _, info = env.step(online.act(shown))
        online.observe(reward, shown)
        met.add(info["hidden_state"])
        codes = online._encoder
        if step % 500 or codes.decoder is None:
            continue
        right = accuracy(codes.codes(fresh), truth)
        exact = right == 1.0 and codes.n_codes == n_states
        for what, holds in (("right", right == 1.0), ("exact", exact)):
            since[what] = (since[what] or step) if holds else None
    told = [
        f"{what} from step {step:,} on" if step else f"not {what}" for what, step in since.items()
    ]
    print(
        f"{name} seed {seed}: {', '.join(told)}; {len(met)} of {n_states} states met, {right:.3f} "
        f"of fresh vectors right; {view_of(online._encoder)}, {time.process_time() - start:.0f} s",
        flush=True,
    )
    return since["exact"] is not None


def environment_row(name, seed, budget):
    """Mean return of the episodes that end in the last fifth of the steps."""
    steps, make = ENVIRONMENTS[name]
    start = time.process_time()
    playing = romdp.epochs(romdp.LCPSRL(), make(), steps=int(budget * steps), seed=seed)
    for _ in playing:
        pass
    print(
        f"{name} seed {seed}: mean return {playing.run.mean_return:.3f}; "
        f"{view_of(playing._place._online._encoder)}, {time.process_time() - start:.0f} s",
        flush=True,
    )


def online_digits_row(seed, budget):
    """Reward of the last fifth beside that of an agent that is told the states."""
    pictures, digits = load_digits(return_X_y=True)
    classes = [pictures[digits == digit] / 16 for digit in range(10)]
    world = romdp.worlds.random_romdp(n_states=10, n_actions=4, n_observations=10, seed=seed)
    steps, start = int(budget * 20_000), time.process_time()
    rewards, seen = [], ""
    for told in (False, True):
        env = ROMDPEnv(world)
        if not told:
            env = Distraction(VectorObservation(env, classes, seed=seed), 64, sd=2.0, seed=seed)
        agent = romdp.Oracle(world.labels, planner="posterior") if told else romdp.LCPSRL()
        playing = romdp.epochs(agent, env, steps=steps, seed=seed)
        sums = {}
        for epoch in playing:
            sums[epoch.start + epoch.length] = epoch.reward
        late = min(step for step in sums if step >= 0.8 * steps)
        rewards.append((sums[steps] - sums[late]) / max(1, steps - late))
        seen = seen or view_of(playing._place._online._encoder)
    print(
        f"digits-online seed {seed}: reward per step {rewards[0]:.4f}, told {rewards[1]:.4f}, "
        f"ratio {rewards[0] / rewards[1]:.3f}; {seen}, {time.process_time() - start:.0f} s",
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
    parser.add_argument("--budget", type=float, default=1.0, help="share of steps or episodes")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for row in options.rows:
        if row == "growth":
            for n, d in ((10_000, 100), (100_000, 100), (100_000, 20), (1_000_000, 100)):
                growth_row(n, d)
            continue
        for seed in range(options.first, options.first + options.seeds):
            if row in OFFLINE:
                digits_row(row, seed)
            elif row in LOGS:
                log_row(row, seed, options.budget)
            elif row in TOLD:
                told_row(row, seed)
            elif row in LOCKS:
                lock_row(row, seed, options.budget)
            elif row in ENDLESS:
                endless_row(row, seed, options.budget)
            elif row in ENVIRONMENTS:
                environment_row(row, seed, options.budget)
            else:
                online_digits_row(seed, options.budget)


if __name__ == "__main__":
    main()
