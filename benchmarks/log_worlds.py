"""Logs that nobody here shaped to fit: Gymnasium's FrozenLake (slippery) and Taxi.

    python benchmarks/log_worlds.py [--seeds N] [--rows 1e5 1e6] [--out DIR] [--workers N]

A log is a table of views, actions, rewards, episodes and how they ended, written by a random policy
or by one that is half trained (Q-learning, stopped half way, acting at random in one step of
five). Each state is shown as one of ten views, or as itself. `romdp.fit` is told nothing else.
What it finds is compared with the environment's own table of transitions, where a terminated
episode goes on with a restart: the long-run reward per step of the recommended policy (drawn at
random where a view was never seen), of the one that wrote the log, and of the best, all exact.
"""

import argparse
import time
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from grid import run_all

import romdp
from romdp.exact.chains import gain_and_bias
from romdp.exact.solvers import policy_iteration
from romdp.logs.model.checks import ALIKE

NAMES = {"lake": "FrozenLake-v1", "taxi": "Taxi-v4"}
TRAINING = {"lake": 50_000, "taxi": 150_000}  # half of what brings Q-learning near the best
EPSILON = 0.2
RATE, DISCOUNT = 0.1, 0.99
VIEWS = 10
TRIED = "the policy rests on experience"


class Truth:
    """The environment as a table: what is exact, for scoring only."""

    def __init__(self, env: Any) -> None:
        inner = env.unwrapped
        start = np.asarray(inner.initial_state_distrib, np.float64)
        n_states, n_actions = inner.observation_space.n, inner.action_space.n
        self.initial = start / start.sum()
        self.transition = np.zeros((n_states, n_actions, n_states))
        self.reward = np.zeros((n_states, n_actions))
        for s in range(n_states):
            for a in range(n_actions):
                for chance, following, reward, terminated in inner.P[s][a]:
                    self.reward[s, a] += chance * reward
                    self.transition[s, a] += chance * (
                        self.initial if terminated else np.eye(n_states)[following]
                    )
        reached = self.initial > 0
        while True:
            more = reached | (self.transition[reached].sum(axis=(0, 1)) > 0)
            if (more == reached).all():
                break
            reached = more
        self.reachable = np.flatnonzero(reached)

    def value(self, policy: np.ndarray) -> float:
        """Return the long-run reward per step of a policy (chances of actions by state)."""
        matrix = np.einsum("sa,sat->st", policy, self.transition)
        gains, _ = gain_and_bias(matrix, (policy * self.reward).sum(axis=1))
        return float(self.initial @ gains)

    def best(self) -> float:
        """Return the long-run reward per step of the best policy."""
        inside = np.ix_(self.reachable, range(self.reward.shape[1]), self.reachable)
        found = policy_iteration(self.transition[inside], self.reward[self.reachable])
        policy = np.full(self.reward.shape, 1.0 / self.reward.shape[1])
        policy[self.reachable] = np.eye(self.reward.shape[1])[found.policy]
        return self.value(policy)


def train(name: str, seed: int) -> np.ndarray:
    """Learn by Q-learning for half of the time it takes; return the chances of actions."""
    env = gymnasium.make(NAMES[name], disable_env_checker=True)
    rng = np.random.default_rng([seed, 0])
    n_actions = env.action_space.n
    values = np.zeros((env.observation_space.n, n_actions))
    state, _ = env.reset(seed=seed)
    for _ in range(TRAINING[name]):
        explores = rng.random() < EPSILON
        row = values[state]
        action = int(rng.integers(n_actions)) if explores else _greedy(row, rng)
        following, reward, terminated, truncated, _ = env.step(action)
        ahead = 0.0 if terminated else DISCOUNT * values[following].max()
        row[action] += RATE * (reward + ahead - row[action])
        state = env.reset()[0] if terminated or truncated else following
    policy = np.full(values.shape, EPSILON / n_actions)
    policy[np.arange(len(values)), values.argmax(axis=1)] += 1.0 - EPSILON
    return policy


def _greedy(row: np.ndarray, rng: np.random.Generator) -> int:
    best = np.flatnonzero(row == row.max())
    return int(best[rng.integers(len(best))])


@cache
def write_log(name: str, policy: str, rows: int, seed: int) -> tuple[dict[str, Any], Any, Any]:
    """Act; return the log, the chances of actions that wrote it, and the environment."""
    inner = gymnasium.make(NAMES[name], disable_env_checker=True)
    env = romdp.worlds.RichObservation(inner, per_state=VIEWS, seed=seed)
    n_states, n_actions = inner.observation_space.n, inner.action_space.n
    chances = np.full((n_states, n_actions), 1.0 / n_actions)
    if policy == "half-trained":
        chances = train(name, seed)
    draws = np.random.default_rng([seed, 1]).random(rows)
    bounds = chances.cumsum(axis=1)[:, :-1].tolist()
    labels = env.labels.tolist()
    seen, done = np.empty(rows, np.int64), np.empty(rows, np.int64)
    paid, whose = np.empty(rows), np.empty(rows, np.int64)
    over = np.zeros(rows, np.bool_)
    view, _ = env.reset(seed=seed)
    episode = 0
    for row in range(rows):
        limits = bounds[labels[view]]
        action = sum(draws[row] >= limit for limit in limits)
        seen[row], done[row], whose[row] = view, action, episode
        view, paid[row], terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            over[row] = terminated
            episode += 1
            view, _ = env.reset()
    log = {"view": seen, "action": done, "reward": paid, "episode": whose, "terminated": over}
    return log, chances, env


def measure(environment: str, views: int, policy: str, rows: int, seed: int) -> dict[str, Any]:
    """Fit one log and compare with the truth."""
    log, chances, env = write_log(environment, policy, rows, seed)
    labels = env.labels if views > 1 else np.arange(len(chances))
    emission = env.chances if views > 1 else np.ones(len(chances))
    if views == 1:
        log = {**log, "view": env.labels[log["view"]]}
    truth = Truth(env)
    begin = time.perf_counter()
    model = romdp.fit(
        log, "view", "action", "reward", "episode", terminated="terminated", seed=seed
    )
    seconds = time.perf_counter() - begin

    known = np.array(model.observation_names)
    true = romdp.Partition(labels[known])
    recommended = np.zeros(chances.shape)
    actions = np.array(model.action_names)[model.policy]
    everywhere = model.predict(np.arange(len(labels)))
    for view, (state, found) in enumerate(zip(labels, everywhere, strict=True)):
        if found >= 0:
            recommended[state, actions[found]] += emission[view]
        else:
            recommended[state] += emission[view] / recommended.shape[1]
    result = {
        "states": model.n_states,
        "true_states": true.n_clusters,
        "reachable": len(truth.reachable),
        "observations": len(known),
        "misplaced": round(model.partition.misclassification(true) * len(known)),
        "gain": model.gain,
        "pessimistic": model.pessimistic_gain,
        "optimistic": model.optimistic_gain,
        "true_value": truth.value(recommended),
        "logger": truth.value(chances),
        "best": truth.best(),
        "seconds": round(seconds, 1),
        "alike": {check.name: check.ok for check in model.checks}[ALIKE],
        "untried": {check.name: check.ok for check in model.checks}[TRIED] is False,
    }
    value = None if model.held_out is None else model.held_out.value
    if value is not None:
        result |= {
            "estimate": value.estimate,
            "low": value.low,
            "high": value.high,
            "logged": value.logged,
            "agreement": value.agreement,
            "effective": value.effective_steps,
        }
    return result


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=float, nargs="*", default=[1e5, 1e6])
    parser.add_argument("--only", nargs="*", default=list(NAMES), choices=list(NAMES))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    cases = [
        {"environment": name, "views": views, "policy": policy, "rows": int(rows), "seed": seed}
        for name in options.only
        for rows in options.rows
        for policy in ("random", "half-trained")
        for seed in range(options.seeds)
        for views in (1, VIEWS)
    ]
    rows = run_all(measure, cases, options.out / "log-worlds.jsonl", options.workers)
    show(rows)


def show(rows: list[dict[str, Any]]) -> None:
    """Print one line for every case."""
    print(
        "| world | views | policy | rows | seed | states (true) | misplaced | in the model | "
        "off-policy [95%] | true | logger | best | warned of | s |"
    )
    print("|---|" + "--:|" * 13)
    case = ("environment", "rows", "policy", "seed", "views")
    for r in sorted(rows, key=lambda row: tuple(row[name] for name in case)):
        off = "-"
        if "estimate" in r:
            off = f"{r['estimate']:.4f} [{r['low']:.4f}, {r['high']:.4f}]"
        words = {"mixed states": r["alike"] is False, "untried actions": r["untried"]}
        warned = ", ".join(word for word, is_so in words.items() if is_so) or "-"
        print(
            f"| {r['environment']} | {r['views']} | {r['policy']} | {r['rows']:.0e} | "
            f"{r['seed']} | {r['states']} ({r['true_states']}) | "
            f"{r['misplaced']} of {r['observations']} | {r['gain']:.4f} | {off} | "
            f"{r['true_value']:.4f} | {r['logger']:.4f} | {r['best']:.4f} | {warned} | "
            f"{r['seconds']:.0f} |"
        )


if __name__ == "__main__":
    main()
