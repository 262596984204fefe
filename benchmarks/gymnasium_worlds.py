"""Other people's environments: the return of an episode, which is what their users measure.

python benchmarks/gymnasium_worlds.py [--seeds N] [--first SEED] [--only NAME ...]
    [--agents NAME ...]
python benchmarks/gymnasium_worlds.py --speed

Mean return of the episodes that end in the last fifth of the steps, exploration included. The
agents of romdp have their default settings, the same in every environment; Q-learning is tuned by
hand for each. With so many views, each observation is shown as one of them, drawn at every step.

With --speed: what a large capacity costs, how long an agent pauses to think, and how much of a run
of Taxi with ten views is grouping. Times are processor time of one core.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from grid import run_all
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TimeLimit

import romdp
from romdp.worlds.wrappers import RichObservation, numbered

BINS = (
    np.linspace(-2.4, 2.4, 5),
    np.linspace(-3.0, 3.0, 5),
    np.linspace(-0.21, 0.21, 11),
    np.linspace(-3.0, 3.0, 11),
)


class Binned(gymnasium.ObservationWrapper):
    """CartPole with 6 x 6 x 12 x 12 bins, as one number."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = Discrete(6 * 6 * 12 * 12)

    def observation(self, observation: Any) -> int:
        """Return the number of the bin."""
        bins = [int(np.searchsorted(*pair)) for pair in zip(BINS, observation, strict=True)]
        return int(np.ravel_multi_index(bins, (6, 6, 12, 12)))


def cliff() -> Any:
    """Return the cliff with a limit of 200 steps."""
    return TimeLimit(gymnasium.make("CliffWalking-v1"), 200)


def sepsis() -> Any:
    """Return the hospital."""
    import icu_sepsis  # noqa: F401 - registers it

    return gymnasium.make("Sepsis/ICU-Sepsis-v2")


def grid(name: str) -> Callable[[], Any]:
    """Return what makes a MiniGrid environment."""
    return lambda: gymnasium.make(f"minigrid:MiniGrid-{name}-v0")


def whole_room(name: str) -> Callable[[], Any]:
    """Return what makes a MiniGrid environment that shows the whole room, not a view of it."""

    def make() -> Any:
        from minigrid.wrappers import FullyObsWrapper

        return FullyObsWrapper(grid(name)())

    return make


@dataclass(frozen=True)
class World:
    """An environment of the table."""

    make: Callable[[], Any]
    steps: int
    views: int = 1
    goal: float = float("nan")
    optimum: float = float("nan")
    range: tuple[float, float] = (0.0, 1.0)
    q: dict[str, float] = field(default_factory=dict)


AGENTS = ("lc-psrl", "q-learning", "psrl", "dqn", "random")
TAXI = {"discount": 0.99, "learning_rate": 1.0, "greedy_after": 0.0, "floor": 0.0}
GRID = {"discount": 0.99, "learning_rate": 0.9, "greedy_after": 0.5, "floor": 0.0}
LAKE = {"discount": 0.99, "learning_rate": 0.05, "greedy_after": 0.6, "floor": 0.01}
WORLDS = {
    "Taxi-v4, 1 view": World(
        lambda: gymnasium.make("Taxi-v4"), 20_000, 1, 6.0, 7.93, (-10, 20), TAXI
    ),
    "Taxi-v4, 10 views": World(
        lambda: gymnasium.make("Taxi-v4"), 70_000, 10, 6.0, 7.93, (-10, 20), TAXI
    ),
    "CliffWalking-v1, 1 view": World(cliff, 10_000, 1, -20.0, -13.0, (-100, 0), TAXI),
    "CliffWalking-v1, 10 views": World(cliff, 30_000, 10, -20.0, -13.0, (-100, 0), TAXI),
    "FrozenLake 8x8, 10 views": World(
        lambda: gymnasium.make("FrozenLake8x8-v1"), 150_000, 10, 0.776, 0.913, q=LAKE
    ),
    "Blackjack": World(
        lambda: gymnasium.make("Blackjack-v1"),
        *(150_000, 1, -0.06, -0.047, (-1, 1)),
        {"discount": 1.0, "learning_rate": 0.02, "greedy_after": 0.5, "floor": 0.0},
    ),
    "CartPole-v1, binned": World(
        lambda: Binned(gymnasium.make("CartPole-v1")),
        *(60_000, 1, 450.0, 500.0),
        q={"discount": 0.99, "learning_rate": 0.2, "greedy_after": 0.2, "floor": 0.0},
    ),
    "MiniGrid Empty-8x8, 1 view": World(grid("Empty-8x8"), 20_000, 1, 0.94, 0.961, q=GRID),
    "MiniGrid Empty-8x8, 10 views": World(grid("Empty-8x8"), 20_000, 10, 0.94, 0.961, q=GRID),
    "MiniGrid DoorKey-5x5": World(grid("DoorKey-5x5"), 60_000, 1, 0.93, q=GRID),
    "DoorKey-5x5, whole room": World(whole_room("DoorKey-5x5"), 60_000, 1, 0.93, q=GRID),
    "DoorKey-6x6, whole room": World(whole_room("DoorKey-6x6"), 150_000, 1, 0.93, q=GRID),
    "FourRooms, whole room": World(whole_room("FourRooms"), 150_000, 1, 0.75, q=GRID),
    "LavaGapS7, whole room": World(whole_room("LavaGapS7"), 60_000, 1, 0.93, q=GRID),
    "ICU-Sepsis-v2": World(sepsis, 480_000, 1, 0.85, 0.8751, q=LAKE),
}


def random_play(env: Any, steps: int, seed: int) -> float:
    """Return the mean return of random actions in the last fifth of the steps."""
    rng = np.random.default_rng(seed)
    env.reset(seed=seed)
    finished, total = [], 0.0
    for step in range(steps):
        _, reward, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
        total += float(reward)
        if terminated or truncated:
            finished.append((step, total))
            total = 0.0
            env.reset()
    late = [value for step, value in finished if step >= 0.8 * steps]
    return float(np.mean(late)) if late else float("nan")


def exact_value(policy: Any) -> float:
    """Return the exact chance that a patient survives under a policy."""
    import icu_sepsis  # noqa: F401

    env = gymnasium.make("Sepsis/ICU-Sepsis-v2").unwrapped
    moves, pays, start = (env.dynamics[name] for name in ("tx_mat", "r_mat", "d_0"))
    chosen = np.array([int(policy.act(state)) for state in range(moves.shape[0])])
    rows = np.arange(chosen.size)
    reward = np.einsum("ij,ij->i", moves[rows, chosen], pays[rows, chosen])
    value = np.zeros(chosen.size)
    for _ in range(2000):
        value = reward + moves[rows, chosen] @ value
    return float(start @ value)


def measure(world: str, agent: str, seed: int, steps: int | None = None) -> dict[str, Any]:
    """Play one case."""
    spec = WORLDS[world]
    env = spec.make()
    if spec.views > 1:
        env = RichObservation(numbered(env), spec.views, seed)
    n_steps = steps or spec.steps
    begin = time.process_time()
    if agent == "random":
        found = {"return": random_play(env, n_steps, seed)}
    else:
        if agent in ("q-learning", "dqn"):
            settings = spec.q if agent == "q-learning" else {"discount": 0.99}
            run = romdp.baselines.play_baseline(agent, env, n_steps, seed, **settings)
        else:
            recipe = {"lc-psrl": romdp.LCPSRL, "psrl": romdp.PSRL}[agent]
            known = None if agent == "lc-psrl" else spec.range  # it learns the range
            run = romdp.play(recipe(), env, n_steps, seed=seed, reward_range=known)
        found = {
            "return": run.mean_return,
            "episodes": len(run.returns),
            "groups": run.partition.n_clusters,
        }
        if world == "ICU-Sepsis-v2" and run.policy is not None:
            found["exact"] = exact_value(run.policy)
    return {**found, "seconds": time.process_time() - begin}


def loop_seconds(capacity: int, steps: int = 8_000, seed: int = 0) -> float:
    """Return how long an `Online` takes in a world of 64 observations, of so many possible ones."""
    online = romdp.Online(romdp.LCPSRL(), capacity, 4, seed=seed)
    rng, place = np.random.default_rng(seed), 0
    begin = time.process_time()
    for _ in range(steps):
        action = online.act(place)
        step = (1, -1, 8, -8)[action if rng.random() < 0.8 else int(rng.integers(4))]
        place = (place + step) % 64
        if place == 63:
            online.observe(1.0, terminated=True)
            place = int(rng.integers(32))
        else:
            online.observe(0.0, place)
    return time.process_time() - begin


def pauses(views: int = 25, warm: int = 100_000, steps: int = 30_000) -> np.ndarray:
    """Return how long each `act` takes in Taxi with 400 states, after random steps in it."""
    env = RichObservation(gymnasium.make("Taxi-v4"), views, 0)
    online = romdp.Online(romdp.LCPSRL(), env.observation_space, 6, seed=0)
    rng, took = np.random.default_rng(0), []
    seen, _ = env.reset(seed=0)
    for step in range(warm + steps):
        begin = time.process_time()
        action = online.act(seen)
        if step >= warm:
            took.append(time.process_time() - begin)
        elif step % 100:  # an agent that never acts at random takes as long to meet as much
            action = int(rng.integers(6))
        seen, reward, terminated, truncated, _ = env.step(action)
        online.observe(
            float(reward), seen, terminated=terminated, truncated=truncated, action=action
        )
        if terminated or truncated:
            seen, _ = env.reset()
    return np.array(took)


def taxi_seconds(steps: int = 70_000) -> tuple[float, float]:
    """Return the seconds of a run of Taxi with ten views, and those of grouping in it."""
    agent = romdp.LCPSRL()
    spent = [0.0]
    inner = agent.clusterer.clusterer

    class Timed:
        needs = inner.needs

        def regroup(self, *arguments: Any) -> romdp.Partition:
            begin = time.process_time()
            found = inner.regroup(*arguments)
            spent[0] += time.process_time() - begin
            return found

    timed = replace(agent, clusterer=replace(agent.clusterer, clusterer=Timed()))
    env = RichObservation(gymnasium.make("Taxi-v4"), 10, 0)
    begin = time.process_time()
    romdp.play(timed, env, steps, seed=0)
    return time.process_time() - begin, spent[0]


def speed() -> None:
    """Print the three measurements of speed."""
    for capacity in (200, 10**6):
        loop_seconds(capacity, 500)  # compiled
    ratios = [loop_seconds(10**6, seed=k) / loop_seconds(200, seed=k) for k in range(5)]
    print(f"Online(10**6) over Online(200), 64 observations met: {np.median(ratios):.2f}")
    total, grouping = taxi_seconds()
    print(f"Taxi, ten views, 70,000 steps: {total:.0f} s, of which grouping {grouping:.0f} s")
    took = 1000.0 * pauses()
    print(
        f"act() with 10,000 observations met of 400 states, {took.size:,} calls: median "
        f"{np.median(took):.2f} ms, 99.9% below {np.quantile(took, 0.999):.0f} ms, "
        f"longest {took.max():.0f} ms"
    )


def main() -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=10)
    parser.add_argument("--speed", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=list(WORLDS))
    parser.add_argument("--agents", nargs="*", default=list(AGENTS))
    arguments = parser.parse_args()
    if arguments.speed:
        speed()
        return
    cases = [
        {"world": world, "agent": agent, "seed": seed}
        for agent in arguments.agents
        for seed in range(arguments.first, arguments.first + arguments.seeds)
        for world in arguments.only
    ]
    rows = run_all(measure, cases, arguments.out / "gymnasium_returns.jsonl", arguments.workers)
    print_table(rows)


def print_table(rows: list[dict[str, Any]]) -> None:
    """Print a row per environment and a column per agent: means over so many seeds."""
    agents = [agent for agent in AGENTS if any(row["agent"] == agent for row in rows)]
    print("| environment | steps | goal | " + " | ".join(agents) + " | optimum | seconds |")
    print("|---" * (len(agents) + 5) + "|")
    for world, spec in WORLDS.items():
        cells = [world, f"{spec.steps:,}", f"{spec.goal:g}"]
        mine = [row for row in rows if row["world"] == world]
        for agent in agents:
            found = [row.get("exact", row["return"]) for row in mine if row["agent"] == agent]
            some = f" [{min(found):.3g}, {max(found):.3g}]" if len(found) > 1 else ""
            cells.append(f"{np.mean(found):.3g}{some} ({len(found)})" if found else "")
        seconds = [row["seconds"] for row in mine if row["agent"] == agents[0]]
        cells += [f"{spec.optimum:g}", f"{np.mean(seconds):.0f}" if seconds else ""]
        if mine:
            print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
