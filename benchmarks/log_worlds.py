"""Logs that nobody here shaped to fit: Gymnasium's FrozenLake (slippery), Taxi, and ICU-Sepsis.

    python benchmarks/log_worlds.py [--seeds N] [--first 120] [--rows 1e4 1e5] [--only lake]
    python benchmarks/log_worlds.py --evaluate [--seeds N] [--first 120]

A log is a table of views, actions, rewards, episodes and how they ended, written by a random policy
or by one that is half trained (Q-learning, stopped half way, acting at random in one step of
five); that of ICU-Sepsis by the clinicians' policy. Each state is shown as one of ten views, or as
one. `romdp.fit` is told nothing else. What it promises (`value_lower`) and what it recommends
(`act`, and the logger where that says None) is compared with the environment's own table of
transitions: the sum of rewards until the episode ends, discounted by 0.999, exactly. Step limits
cut the logged episodes and are no part of the values.

With --evaluate: do the intervals of `romdp.evaluate` hold the truth? Logs of ICU-Sepsis, and a
policy half way from the clinicians' to the best action among those that they take.
"""

import argparse
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numba
import numpy as np
from grid import run_all

import romdp

NAMES = {"lake": "FrozenLake-v1", "taxi": "Taxi-v4"}
LIMITS = {"lake": 100, "taxi": 200, "sepsis": 500}
TRAINING = {"lake": 50_000, "taxi": 150_000}  # half of what brings Q-learning near the best
EPSILON, RATE, DISCOUNT = 0.2, 0.1, 0.99
VALUES = 0.999  # the discount of the values that are compared
EPISODES = 20_000  # of ICU-Sepsis


class Table(NamedTuple):
    """An environment as a table: what may follow a state and an action."""

    initial: np.ndarray
    chance: np.ndarray  # (states, actions, outcomes)
    following: np.ndarray
    reward: np.ndarray
    over: np.ndarray

    def laws(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the moves that do not end, and mean rewards."""
        n_states, n_actions, n_outcomes = self.chance.shape
        moves = np.zeros((n_states, n_actions, n_states))
        at = np.ogrid[:n_states, :n_actions]
        for k in range(n_outcomes):
            stays = self.chance[:, :, k] * ~self.over[:, :, k]
            np.add.at(moves, (*at, self.following[:, :, k]), stays)
        return moves, (self.chance * self.reward).sum(axis=2)

    def value(self, policy: np.ndarray, discount: float = VALUES) -> float:
        """Return the discounted sum of an episode under chances of actions by state."""
        moves, reward = self.laws()
        matrix = np.einsum("sa,sat->st", policy, moves)
        system = np.eye(len(matrix)) - discount * matrix
        return float(self.initial @ np.linalg.solve(system, (policy * reward).sum(axis=1)))

    def best(self, allowed: np.ndarray | bool = True) -> np.ndarray:
        """Return the best policy, as chances of actions by state, among actions allowed."""
        moves, reward = self.laws()
        allowed = np.broadcast_to(allowed, reward.shape)
        states, policy = np.arange(len(reward)), np.where(allowed, reward, -np.inf).argmax(axis=1)
        while True:
            system = np.eye(len(reward)) - VALUES * moves[states, policy]
            totals = reward + VALUES * moves @ np.linalg.solve(system, reward[states, policy])
            totals = np.where(allowed, totals, -np.inf)
            better = totals.max(axis=1) > totals[states, policy] + 1e-9
            if not better.any():
                return np.eye(reward.shape[1])[policy]
            policy = np.where(better, totals.argmax(axis=1), policy)


@cache
def table_of(name: str) -> Table:
    """Read the table of an environment."""
    if name == "sepsis":
        return _sepsis()
    inner = gymnasium.make(NAMES[name], disable_env_checker=True).unwrapped
    initial = np.asarray(inner.initial_state_distrib, np.float64)
    width = max(len(row) for by_action in inner.P.values() for row in by_action.values())
    shape = (inner.observation_space.n, inner.action_space.n, width)
    chance, reward = np.zeros(shape), np.zeros(shape)
    following, over = np.zeros(shape, np.int64), np.zeros(shape, np.bool_)
    for s, a, k in np.ndindex(shape):
        if k < len(inner.P[s][a]):
            cell = (s, a, k)
            chance[cell], following[cell], reward[cell], over[cell] = inner.P[s][a][k]
    return Table(initial / initial.sum(), chance, following, reward, over)


def _sepsis() -> Table:
    import icu_sepsis  # noqa: F401 - registers the environment

    inner = gymnasium.make("Sepsis/ICU-Sepsis-v2").unwrapped
    moves = np.asarray(inner.dynamics["tx_mat"], np.float64)
    paid = np.broadcast_to(np.asarray(inner.dynamics["r_mat"], np.float64), moves.shape)
    order = np.argsort(-moves, axis=2)[:, :, : int((moves > 0).sum(axis=2).max())]
    chance, reward = (np.take_along_axis(x, order, axis=2) for x in (moves, paid))
    ends = [s for s in range(len(moves)) if inner._is_terminal_state(s)]
    return Table(np.asarray(inner.dynamics["d_0"]), chance, order, reward, np.isin(order, ends))


@numba.njit
def _draw(chances: np.ndarray, rng: np.random.Generator) -> int:
    left = rng.random() * chances.sum()
    for i in range(chances.size):
        left -= chances[i]
        if left < 0:
            return i
    return chances.size - 1


@numba.njit
def _train(table: Table, limit: int, steps: int, rng: np.random.Generator) -> np.ndarray:
    n_states, n_actions, _ = table.chance.shape
    values = np.zeros((n_states, n_actions))
    state, age = _draw(table.initial, rng), 0
    for _ in range(steps):
        if rng.random() < EPSILON:
            action = int(rng.random() * n_actions)
        else:
            action = _draw((values[state] == values[state].max()) * 1.0, rng)
        k = _draw(table.chance[state, action], rng)
        following, over = table.following[state, action, k], table.over[state, action, k]
        ahead = 0.0 if over else DISCOUNT * values[following].max()
        target = table.reward[state, action, k] + ahead
        values[state, action] += RATE * (target - values[state, action])
        age += 1
        if over or age == limit:
            following, age = _draw(table.initial, rng), 0
        state = following
    return values


@numba.njit
def _act(
    table: Table,
    limit: int,
    policy: np.ndarray,
    rows: int,
    episodes: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    seen, done = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    paid, whose = np.zeros(rows), np.zeros(rows, np.int64)
    ended = np.zeros(rows, np.bool_)
    state, age, episode = _draw(table.initial, rng), 0, 0
    used = rows
    for row in range(rows):
        action = _draw(policy[state], rng)
        k = _draw(table.chance[state, action], rng)
        seen[row], done[row], whose[row] = state, action, episode
        paid[row], ended[row] = table.reward[state, action, k], table.over[state, action, k]
        state = table.following[state, action, k]
        age += 1
        if ended[row] or age == limit:
            state, age, episode = _draw(table.initial, rng), 0, episode + 1
            if episode == episodes:
                used = row + 1
                break
    return seen[:used], done[:used], paid[:used], whose[:used], ended[:used]


def write_log(
    name: str, policy: str, rows: int, seed: int, views: int
) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Act; return the log, the chances of actions that wrote it, and the state of every view."""
    table = table_of(name)
    n_states, n_actions, _ = table.chance.shape
    chances = np.full((n_states, n_actions), 1.0 / n_actions)
    if policy == "half-trained":
        values = _train(table, LIMITS[name], TRAINING[name], np.random.default_rng([seed, 0]))
        chances = np.full(values.shape, EPSILON / n_actions)
        chances[np.arange(n_states), values.argmax(axis=1)] += 1.0 - EPSILON
    elif policy == "clinicians":
        import icu_sepsis  # noqa: F401

        chances = gymnasium.make("Sepsis/ICU-Sepsis-v2").unwrapped.expert_policy
        chances = np.asarray(chances, np.float64)
    episodes = EPISODES if name == "sepsis" else rows
    acting = np.random.default_rng([seed, 1])
    parts = _act(table, LIMITS[name], chances, rows, episodes, acting)
    seen, done, paid, whose, ended = parts
    rng = np.random.default_rng([seed, 2])
    number = rng.permutation(n_states * views)
    view = number[seen * views + rng.integers(views, size=len(seen))]
    labels = np.empty(n_states * views, np.int64)
    labels[number] = np.repeat(np.arange(n_states), views)
    log = {"view": view, "action": done, "reward": paid, "episode": whose, "terminated": ended}
    return log, chances, labels


def measure(environment: str, views: int, policy: str, rows: int, seed: int) -> dict[str, Any]:
    """Fit one log and compare with the truth."""
    log, chances, labels = write_log(environment, policy, rows, seed, views)
    table = table_of(environment)
    begin = time.perf_counter()
    ends = {"terminated": "terminated", "objective": "episodic"}  # also if no episode ended
    model = romdp.fit(log, "view", "action", "reward", "episode", **ends, seed=seed)
    fitted = time.perf_counter() - begin
    judged = model.judged
    seconds = time.perf_counter() - begin
    true = romdp.Partition(labels[np.array(model.observation_names)])
    views_shown = np.arange(len(labels))
    asked = np.array([-1 if a is None else a for a in model.act(views_shown)], np.int64)
    known = model.predict(views_shown)
    greedy = np.where(known >= 0, np.array(model.action_names)[model.policy][known], -1)
    worth = {}
    for name, rule in {"act": asked, "greedy": greedy}.items():
        shown = chances[labels]
        shown[rule >= 0] = np.eye(chances.shape[1])[rule[rule >= 0]]
        by_state = np.zeros(chances.shape)
        np.add.at(by_state, labels, shown / views)
        worth[name] = table.value(by_state)
        if environment == "sepsis":  # the share of patients who survive
            worth[f"{name}_survives"] = table.value(by_state, 1.0 - 1e-9)
    return {
        **worth,
        "rows_used": len(log["view"]),
        "states": model.n_states,
        "true_states": true.n_clusters,
        "misplaced": round(model.partition.misclassification(true) * len(true.labels)),
        "lower": judged.value_lower,
        "basis": judged.value_basis,
        "if_markov": judged.value_if_markov,
        "failed": sorted({test.kind for test in judged.tests if test.fails}),
        "departs": int((asked >= 0).sum()),
        "logger": table.value(chances),
        "best": table.value(table.best()),
        "fit_seconds": round(fitted, 1),
        "seconds": round(seconds, 1),
    }


def judge_estimates(seed: int) -> dict[str, Any]:
    """Evaluate a policy on a log of ICU-Sepsis and compare with its exact value."""
    log, chances, labels = write_log("sepsis", "clinicians", 10**6, seed, 1)
    table = table_of("sepsis")
    acting = chances.sum(axis=1, keepdims=True) > 0.5  # not where it is over
    usual = np.where(acting, chances, 1.0 / chances.shape[1])
    policy = 0.5 * usual + 0.5 * table.best(usual > 0)
    policy /= policy.sum(axis=1, keepdims=True)
    begin = time.process_time()
    ends = {"terminated": "terminated", "objective": VALUES}
    columns = ("view", "action", "reward", "episode")
    estimates = romdp.evaluate(log, policy[labels], *columns, **ends, seed=seed)
    return {
        "truth": table.value(policy),
        "estimates": [list(estimate) for estimate in estimates],
        "seconds": round(time.process_time() - begin, 1),
    }


def show_estimates(rows: list[dict[str, Any]]) -> None:
    """Print how often each interval holds the truth, and how far each estimate is from it."""
    print("| estimator | on | logs | interval holds | mean error | median width |")
    print("|---|---|" + "--:|" * 4)
    for k, (name, on, *_) in enumerate(rows[0]["estimates"]):
        found = np.array([row["estimates"][k][2:] for row in rows], np.float64)
        truth = np.array([row["truth"] for row in rows])
        holds = np.count_nonzero((found[:, 1] <= truth) & (truth <= found[:, 2]))
        error, width = (found[:, 0] - truth).mean(), np.median(found[:, 2] - found[:, 1])
        print(f"| {name} | {on} | {len(rows)} | {holds} | {error:+.3f} | {width:.3f} |")
    print(f"the policy is worth {truth[0]:.3f}; {np.median([r['seconds'] for r in rows])} s")


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=120, help="the first seed")
    parser.add_argument("--rows", type=float, nargs="*", default=[1e4, 1e5, 1e6])
    parser.add_argument("--views", type=int, nargs="*", default=[1, 10])
    parser.add_argument("--only", nargs="*", default=["lake", "taxi", "sepsis"])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--figure", type=Path, help="draw what the policies earn to this file")
    parser.add_argument("--evaluate", action="store_true", help="judge the intervals of evaluate")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    if options.evaluate:
        cases = [{"seed": seed} for seed in seeds]
        path = options.out / "log-estimates.jsonl"
        show_estimates(run_all(judge_estimates, cases, path, options.workers))
        return
    cases = [
        {"environment": name, "views": views, "policy": policy, "rows": int(rows), "seed": seed}
        for seed in seeds
        for name in options.only
        if name != "sepsis"
        for rows in options.rows
        for policy in ("random", "half-trained")
        for views in options.views
    ]
    if "sepsis" in options.only:
        fixed = {"environment": "sepsis", "views": 1, "policy": "clinicians", "rows": 10**6}
        cases += [{**fixed, "seed": seed} for seed in seeds]
    rows = run_all(measure, cases, options.out / "log-worlds.jsonl", options.workers)
    show(rows)
    if options.figure is not None:
        draw(rows, options.figure)


def cells_of(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    """Sort the logs into cells: environment, policy, rows and views."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for r in sorted(rows, key=lambda r: (r["environment"], r["policy"], r["rows"], r["views"])):
        cells.setdefault((r["environment"], r["policy"], r["rows"], r["views"]), []).append(r)
    return cells


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw the bound and what `act` earns: the logger is 0, the best is 1."""
    import matplotlib.pyplot as plt

    cells = cells_of(rows)
    figure, axes = plt.subplots(figsize=(7, 0.28 * len(cells) + 1.2), layout="constrained")
    names = []
    for y, (key, some) in enumerate(cells.items()):
        names.append(f"{key[0]}, {key[1]}, {key[2]:.0e} rows, {key[3]} view{'s'[: key[3] > 1]}")
        for kind, mark, colour in (
            ("lower", "|", "0.3"),
            ("act", "x", "tab:blue"),
        ):
            at = [(float(r[kind]) - r["logger"]) / (r["best"] - r["logger"]) for r in some]
            axes.plot(np.clip(at, -0.5, 1.0), [y] * len(at), mark, color=colour, ms=4, alpha=0.6)
    axes.axvline(0.0, color="0.8", zorder=0)
    axes.axvline(1.0, color="0.8", zorder=0)
    axes.set(yticks=range(len(names)), yticklabels=names, xlim=(-0.53, 1.03))
    axes.set_xticks([-0.5, 0.0, 0.5, 1.0], ["-0.5 or less", "logger", "half way", "best"])
    axes.invert_yaxis()
    labels = ["bound", "act"]
    axes.legend(axes.lines[:2], labels, loc="lower center", bbox_to_anchor=(0.3, 1.0), ncol=2)
    figure.savefig(path, dpi=110)


def show(rows: list[dict[str, Any]]) -> None:
    """Print one line for every cell."""
    print(
        "| world | policy | rows | views | logs | bound holds | bound finite | held-out | "
        "act not worse | logger | bound | act | greedy | best | states (true) | s |"
    )
    print("|---|---|" + "--:|" * 14)
    for key, some in cells_of(rows).items():
        middle = {
            name: float(np.median([float(r[name]) for r in some]))
            for name in ("logger", "lower", "act", "greedy", "best", "seconds")
        }
        span = abs(middle["best"] - min(r["logger"] for r in some))
        holds = sum(float(r["lower"]) <= r["act"] for r in some)
        worse = sum(r["act"] < r["logger"] - 0.02 * span for r in some)
        held_out = sum(r["basis"] == "held-out episodes" for r in some)
        finite = sum(np.isfinite(float(r["lower"])) for r in some)
        states = f"{np.median([r['states'] for r in some]):.0f} ({some[0]['true_states']})"
        figures = " | ".join(
            f"{middle[name]:.3f}" for name in ("logger", "lower", "act", "greedy", "best")
        )
        print(
            f"| {key[0]} | {key[1]} | {key[2]:.0e} | {key[3]} | {len(some)} | {holds} | {finite} | "
            f"{held_out} | {len(some) - worse} | {figures} | {states} | {middle['seconds']:.0f} |"
        )


if __name__ == "__main__":
    main()
