"""Logs of simulators in which the assumptions of `romdp.fit` hold, or fail in one known way.

    python benchmarks/log_troubles.py [--logs 20] [--first 9000] [--rows 1e4] [--only shop clinic]
        [--loggers half rare fixed] [--troubles none confounder unseen drift missing habits zipf]

Five small worlds: a shop and a clinic have short episodes with an end; maintenance and a queue go
on for ever and are logged as one long episode; an inventory is logged in seasons of 25 days. Each
hidden state is shown as one of many views, whose popularity falls as in Zipf's law. The logger is
half good (the best action or any, with equal probability), rarely explores (in 6% of the steps) or
always does the same at the same state (`fixed`). What may be wrong:

- confounder: something that lasts for an episode (or some 50 rows) and is not in the log changes
  what actions bring, and the logger knows it and acts on it.
- unseen: something that changes slowly does so, and the logger does not know it.
- drift: half way through the log the actions swap their effects.
- missing: one row in ten is missing, and nothing says where.
- habits: what the logger does depends on the view and not on the state.
- zipf: there are ten times as many views, most of them hardly ever seen.

What `model.act` earns, with the logger where it says None, is solved exactly, in the world as it is
at the end of the log.
"""

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from grid import run_all

import romdp

EPISODIC = 0.999  # the discount of `fit` for episodes
WORLDS = ("shop", "clinic", "maintenance", "queue", "inventory")
TROUBLES = ("none", "confounder", "unseen", "drift", "missing", "habits", "zipf")
SEASON = 25  # days of an inventory's episode


class World(NamedTuple):
    """Tables of a world: moves (what is missing ends the episode), mean rewards, starts.

    The first axis of moves and rewards is the state of what is not shown.
    """

    moves: np.ndarray  # (kinds, states, actions, states)
    rewards: np.ndarray  # (kinds, states, actions)
    noise: float
    starts: np.ndarray
    episodic: bool
    season: int  # rows of an episode that is cut; 0 for none
    stays: float  # how probable it is that what is not shown stays as it is at the next step

    def chain(self, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return moves and rewards between pairs of (kind, state) under a policy by kind."""
        n_kinds, n_states, _, _ = self.moves.shape
        turn = np.full((n_kinds, n_kinds), (1.0 - self.stays) / max(1, n_kinds - 1))
        np.fill_diagonal(turn, self.stays if n_kinds > 1 else 1.0)
        by_kind = np.einsum("ksa,ksat->kst", policy, self.moves)
        moves = np.einsum("kst,kl->kslt", by_kind, turn)
        size = n_kinds * n_states
        return moves.reshape(size, size), (policy * self.rewards).sum(axis=2).ravel()

    def value(self, policy: np.ndarray) -> float:
        """Return what a policy, (kinds, states, actions), earns per episode or per step."""
        moves, rewards = self.chain(policy)
        n_kinds = len(self.moves)
        if self.episodic:
            begin = np.tile(self.starts, n_kinds) / n_kinds
            system = np.eye(len(moves)) - EPISODIC * moves
            return float(begin @ np.linalg.solve(system, rewards))
        system = np.vstack([moves.T - np.eye(len(moves)), np.ones(len(moves))])
        law = np.linalg.lstsq(system, np.append(np.zeros(len(moves)), 1.0), rcond=None)[0]
        return float(law @ rewards)

    def best(self, known: bool = False) -> np.ndarray:
        """Return the best policy that does not know (or knows) what is not shown."""
        n_kinds, n_states, n_actions, _ = self.moves.shape
        tables = [self] if not known else []
        if known:
            tables = [
                self._replace(moves=self.moves[[k]], rewards=self.rewards[[k]])
                for k in range(n_kinds)
            ]
        found = []
        for table in tables:
            tried = [table.climb(np.full(n_states, a)) for a in range(n_actions)]
            rng = np.random.default_rng(0)
            tried += [table.climb(rng.integers(n_actions, size=n_states)) for _ in range(4)]
            found.append(table.rule(max(tried, key=lambda x: x[0])[1])[0])
        return np.stack(found * (n_kinds // len(found)))

    def climb(self, actions: np.ndarray) -> tuple[float, np.ndarray]:
        """Change the action of one state after the other while that is better."""
        value, better = self.value(self.rule(actions)), True
        while better:
            better = False
            for s, a in np.ndindex(self.rewards.shape[1:]):
                other = actions.copy()
                other[s] = a
                v = self.value(self.rule(other))
                if v > value + 1e-9:
                    actions, value, better = other, v, True
        return value, actions

    def rule(self, actions: np.ndarray) -> np.ndarray:
        """Return the policy that takes these actions, state by state, whatever is not shown."""
        n_kinds, _, n_actions, _ = self.moves.shape
        return np.tile(np.eye(n_actions)[actions], (n_kinds, 1, 1))


def _line(n: int, at: int, law: dict[int, float]) -> np.ndarray:
    row = np.zeros(n)
    for step, p in law.items():
        row[min(n - 1, max(0, at + step))] += p
    return row


def make(name: str, seed: int) -> World:
    """Make the world of a name; the seed changes its numbers, not its kind."""
    rng = np.random.default_rng([seed, 77])
    wobble = lambda n=1: rng.uniform(0.8, 1.2, n)  # noqa: E731
    if name == "shop":  # interest grows by what is shown; a purchase ends the visit
        n, k = 6, 4
        moves, rewards = np.zeros((n, k, n)), np.zeros((n, k))
        good = rng.integers(k, size=n)
        for s in range(n):
            for a in range(k):
                up = (0.55 if a == good[s] else 0.25) * wobble()[0]
                buys = 0.04 + 0.05 * s * (0.6 + 0.4 * (a == good[s]))
                moves[s, a] = (0.92 - buys) * _line(n, s, {1: up, 0: 0.8 - up, -1: 0.2})
                rewards[s, a] = buys * (1.0 + 0.3 * s)
        return World(moves[None], rewards[None], 0.0, _line(n, 0, {0: 0.6, 1: 0.4}), True, 0, 1.0)
    if name == "clinic":  # health moves by treatment; recovery and death end the case
        n, k = 8, 4
        moves, rewards = np.zeros((n, k, n)), np.zeros((n, k))
        good = rng.integers(k, size=n)
        for s in range(n):
            for a in range(k):
                up = (0.55 if a == good[s] else 0.32) * wobble()[0]
                law = np.zeros(n + 2)
                for step, p in {1: up, 0: 0.2, -1: 0.8 - up}.items():
                    law[s + 1 + step] += p
                moves[s, a], rewards[s, a] = law[1:-1], law[-1]
        return World(moves[None], rewards[None], 0.0, np.full(n, 1 / n), True, 0, 1.0)
    if name == "maintenance":  # wear grows; service takes it back, a breakdown is dear
        n, k = 7, 3
        moves, rewards = np.zeros((n, k, n)), np.zeros((n, k))
        pay = np.linspace(1.0, 0.4, n) * wobble(n)
        for s in range(n):
            moves[s, 0] = _line(n, s, {0: 0.55, 1: 0.35, 2: 0.1})
            moves[s, 1] = _line(n, s, {-2: 0.7, 0: 0.3})
            moves[s, 2] = _line(n, 0, {0: 1.0})
            rewards[s] = pay[s], pay[s] - 0.35, -0.6
        rewards[-1] = -1.0, -1.3, -1.0
        moves[-1, :2] = _line(n, n - 1, {0: 0.8, -n: 0.2})
        return World(moves[None], rewards[None], 0.2, np.eye(n)[0], False, 0, 1.0)
    if name == "queue":  # 0 to 8 wait; more servers cost more
        n, k = 9, 3
        moves, rewards = np.zeros((n, k, n)), np.zeros((n, k))
        come = 0.45 * wobble()[0]
        for s in range(n):
            for a in range(k):
                go = (0.2, 0.5, 0.8)[a] if s else 0.0
                stay = 1 - come * (1 - go) - go * (1 - come)
                moves[s, a] = _line(n, s, {1: come * (1 - go), 0: stay, -1: go * (1 - come)})
                rewards[s, a] = -0.15 * s - (0.0, 0.15, 0.4)[a]
        return World(moves[None], rewards[None], 0.1, np.eye(n)[0], False, 0, 1.0)
    n, k = 9, 3  # inventory: stock 0 to 8, order 0, 2 or 4, demand 0 to 4
    moves, rewards = np.zeros((n, k, n)), np.zeros((n, k))
    demand = rng.dirichlet(np.array([2.0, 4.0, 4.0, 2.0, 1.0]) * 10)
    for s in range(n):
        for a in range(k):
            stock = min(n - 1, s + 2 * a)
            for d, p in enumerate(demand):
                sold = min(stock, d)
                moves[s, a, stock - sold] += p
                rewards[s, a] += p * (sold - 0.8 * (d - sold))
            rewards[s, a] -= 0.12 * stock + 0.3 * (a > 0) + 0.3 * 2 * a
    return World(moves[None], rewards[None], 0.2, np.full(n, 1 / n), False, SEASON, 1.0)


def trouble_of(world: World, trouble: str) -> World:
    """Add a second kind of the world, in which actions do something else."""
    if trouble not in ("confounder", "unseen", "drift"):
        return world
    turned = np.roll(np.arange(world.moves.shape[2]), 1)
    moves = np.concatenate([world.moves, world.moves[:, :, turned]])
    rewards = np.concatenate([world.rewards, world.rewards[:, :, turned]])
    stays = {"confounder": 1.0 if world.episodic else 0.98, "unseen": 0.9, "drift": 1.0}[trouble]
    return world._replace(moves=moves, rewards=rewards, stays=stays)


class Log(NamedTuple):
    """A log and what wrote it."""

    table: dict[str, np.ndarray]
    world: World  # as it is at the end
    logger: np.ndarray  # (kinds, views, actions)
    emission: np.ndarray  # (states, views)


def write_log(name: str, logger: str, trouble: str, rows: int, seed: int) -> Log:
    """Let the logger act and keep what is shown."""
    rng = np.random.default_rng([seed, 78])
    world = trouble_of(make(name, seed), trouble)
    n_kinds, n_states, n_actions, _ = world.moves.shape
    each = (160 if trouble == "zipf" else 16) * 8 // n_states
    emission = np.zeros((n_states, n_states * each))
    number = rng.permutation(n_states * each)
    for s in range(n_states):
        share = 1.0 / np.arange(1, each + 1)
        emission[s, number[s * each : (s + 1) * each]] = share / share.sum()
    best = world.best(known=trouble == "confounder")
    if trouble == "drift":  # good in the world as it was
        best = np.stack(
            [world._replace(moves=world.moves[:1], rewards=world.rewards[:1]).best()] * 2
        )
        best = best.reshape(world.rewards.shape)
    explores = {"half": 0.5, "rare": 0.06, "fixed": 0.0}[logger]
    if logger != "half":  # good in two states of three
        wrong = np.arange(n_states) % 3 == 0
        best[:, wrong] = np.roll(best[:, wrong], 1, axis=2)
    acts = (1 - explores) * best + explores / n_actions
    state_of = emission.argmax(axis=0)
    policy = acts[:, state_of]
    if trouble == "habits":
        own = rng.dirichlet(np.ones(n_actions), len(state_of))
        policy = np.stack([0.5 * own + 0.5 * policy[0]])
    ahead = world.moves.cumsum(axis=3)
    shows, does = emission.cumsum(axis=1), policy.cumsum(axis=2)
    begins = world.starts.cumsum()
    u = rng.random((rows, 5))
    normal = rng.normal(size=rows) * world.noise
    seen, done = np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    paid, whose = np.zeros(rows), np.zeros(rows, np.int64)
    over = np.zeros(rows, np.bool_)
    pays_once = world.noise == 0.0
    s, kind, age = int(np.searchsorted(begins, rng.random())), int(rng.integers(n_kinds)), 0
    episode = 0
    for t in range(rows):
        if trouble == "drift":
            kind = int(t >= rows // 2)
        v = min(int(np.searchsorted(shows[s], u[t, 0])), shows.shape[1] - 1)
        a = min(int(np.searchsorted(does[kind, v], u[t, 1])), n_actions - 1)
        following = int(np.searchsorted(ahead[kind, s, a], u[t, 2]))
        seen[t], done[t], whose[t] = v, a, episode
        over[t] = following >= n_states
        mean = world.rewards[kind, s, a]
        if pays_once:  # everything is earned at the end: a purchase or a recovery
            ends = max(1e-12, 1.0 - ahead[kind, s, a, -1])
            prize = 1.0 + 0.3 * s if name == "shop" else 1.0
            paid[t] = prize * (u[t, 3] < mean / prize / ends) if over[t] else 0.0
        else:
            paid[t] = mean + normal[t]
        age += 1
        s = following
        if u[t, 4] > world.stays and trouble != "drift":
            kind = (kind + 1) % n_kinds
        if age == world.season:  # the log is cut, and the world goes on
            age, episode = 0, episode + 1
        elif over[t]:
            s, age, episode = int(np.searchsorted(begins, rng.random())), 0, episode + 1
            if trouble != "drift":
                kind = int(rng.integers(n_kinds))
    table = {"view": seen, "action": done, "reward": paid, "episode": whose, "over": over}
    if trouble == "missing":
        kept = rng.random(rows) > 0.1
        table = {column: values[kept] for column, values in table.items()}
    if trouble == "drift":
        world = world._replace(moves=world.moves[1:], rewards=world.rewards[1:])
        policy = policy[1:]
    return Log(table, world, policy, emission)


def fit(log: Log, seed: int) -> Any:
    """Fit a model as somebody would who knows the columns."""
    names: dict[str, Any] = {}
    if log.world.episodic:
        names = {"episode": "episode", "terminated": "over", "objective": "episodic"}
    elif log.world.season:
        names = {"episode": "episode"}
    return romdp.fit(log.table, "view", "action", "reward", **names, seed=seed)


def value_of(log: Log, asked: np.ndarray) -> float:
    """Return what it earns to do what was asked at each view, -1 for what the logger does."""
    rule = log.logger.copy()
    told = np.flatnonzero(asked >= 0)
    rule[:, told] = np.eye(rule.shape[2])[asked[told]]
    return log.world.value(np.einsum("sv,kva->ksa", log.emission, rule))


def spibb(log: Log, fewest: int = 10, discount: float = 0.99) -> float:
    """Return what SPIBB earns on the views themselves (Laroche, Trichelair and Tachet 2019).

    Pairs that were tried less often than ``fewest`` keep the logger's probability, as estimated;
    the rest of a view's probability goes to its best other action in the most likely world.
    """
    seen, done, over = (log.table[name] for name in ("view", "action", "over"))
    n_views, n_actions = log.logger.shape[1:]
    goes = ~over
    goes[:-1] &= log.table["episode"][1:] == log.table["episode"][:-1]
    goes[-1] = False
    tries = np.zeros((n_views, n_actions))
    known, paid, moves = tries.copy(), tries.copy(), np.zeros((n_views, n_actions, n_views))
    np.add.at(tries, (seen, done), 1.0)
    np.add.at(known, (seen, done), goes | over)
    np.add.at(paid, (seen, done), log.table["reward"])
    at = np.flatnonzero(goes)
    np.add.at(moves, (seen[at], done[at], seen[at + 1]), 1.0)
    moves /= np.maximum(1.0, known)[:, :, None]
    paid /= np.maximum(1.0, tries)
    usual = tries / np.maximum(1.0, tries.sum(axis=1, keepdims=True))
    kept = np.where(tries < fewest, usual, 0.0)
    rule = usual
    for _ in range(100):
        system = np.eye(n_views) - discount * np.einsum("va,vaw->vw", rule, moves)
        values = np.linalg.solve(system, (rule * paid).sum(axis=1))
        worth = np.where(tries >= fewest, paid + discount * moves @ values, -np.inf)
        better = kept.copy()
        rest = np.where(np.isfinite(worth.max(axis=1)), 1.0 - kept.sum(axis=1), 0.0)
        better[np.arange(n_views), worth.argmax(axis=1)] += rest
        if np.allclose(better, rule):
            break
        rule = better
    told = log.logger.copy()
    told[:, tries.sum(axis=1) > 0] = rule[tries.sum(axis=1) > 0]
    return log.world.value(np.einsum("sv,kva->ksa", log.emission, told))


def measure(name: str, logger: str, trouble: str, rows: int, seed: int) -> dict[str, Any]:
    """Fit one log and compare what is promised with the truth."""
    log = write_log(name, logger, trouble, rows, seed)
    begin = time.process_time()
    model = fit(log, seed)
    judged = model.judged
    seconds = time.process_time() - begin
    views = np.arange(log.emission.shape[1])
    asked = np.array([-1 if a is None else a for a in model.act(views)], np.int64)
    logged = value_of(log, np.full(len(views), -1))
    best = log.world.value(log.world.best())
    act, rival, gap = value_of(log, asked), spibb(log), abs(best - logged)
    return {
        "act": act,
        "logged": logged,
        "best": best,
        "share": (act - logged) / max(1e-9, best - logged),
        "worse": bool(act < logged - 0.02 * gap),
        "spibb": (rival - logged) / max(1e-9, best - logged),
        "spibb_worse": bool(rival < logged - 0.02 * gap),
        "lower": judged.value_lower,
        "holds": bool(judged.value_lower <= act + 1e-9),
        "basis": getattr(judged, "value_basis", ""),
        "if_markov": getattr(judged, "value_if_markov", judged.value_lower),
        "failed": [t.name for t in getattr(judged, "tests", ()) if t.fails],
        "departs": int((asked >= 0).sum()),
        "states": model.n_states,
        "reason": judged.missing,
        "seconds": round(seconds, 1),
    }


def show(rows: list[dict[str, Any]]) -> None:
    """Print one line for every cell."""
    print(
        "| world | logger | trouble | rows | logs | holds | finite | held-out | worse | "
        "share of the gap | SPIBB: worse | its share | departs in | tests that fail | s |"
    )
    print("|---|---|---|" + "--:|" * 10 + "---|--:|")
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for r in rows:
        cells.setdefault((r["name"], r["logger"], r["trouble"], r["rows"]), []).append(r)
    for key, some in cells.items():
        finite = [r for r in some if np.isfinite(float(r["lower"]))]
        failed = [name for r in some for name in r["failed"]]
        counted = ", ".join(f"{n} {failed.count(n)}" for n in sorted(set(failed)))
        print(
            f"| {key[0]} | {key[1]} | {key[2]} | {key[3]:,} | {len(some)} | "
            f"{sum(r['holds'] for r in finite)} | {len(finite)} | "
            f"{sum(r['basis'] == 'held-out episodes' for r in some)} | "
            f"{sum(r['worse'] for r in some)} | {np.median([r['share'] for r in some]):.2f} | "
            f"{sum(r['spibb_worse'] for r in some)} | "
            f"{np.median([r['spibb'] for r in some]):.2f} | "
            f"{sum(r['departs'] > 0 for r in some)} | {counted} | "
            f"{np.median([r['seconds'] for r in some]):.1f} |"
        )


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=20)
    parser.add_argument("--first", type=int, default=9_000, help="the first seed")
    parser.add_argument("--rows", type=float, nargs="*", default=[1e4])
    parser.add_argument("--only", nargs="*", default=WORLDS)
    parser.add_argument("--loggers", nargs="*", default=["half"])
    parser.add_argument("--troubles", nargs="*", default=TROUBLES)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    cases = [
        {"name": name, "logger": logger, "trouble": trouble, "rows": int(rows), "seed": seed}
        for rows in options.rows
        for logger in options.loggers
        for trouble in options.troubles
        for name in options.only
        for seed in range(options.first, options.first + options.logs)
    ]
    show(run_all(measure, cases, options.out / "log-troubles.jsonl", options.workers))


if __name__ == "__main__":
    main()
