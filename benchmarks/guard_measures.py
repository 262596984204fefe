"""What the guard measures: one repeat of each row of ``guard.toml``, by its seed.

A row's ``measure`` names a function of this file. With further arguments it is called with them
first, and returns what is called with the seed. A pair of numbers is summed up to a ratio.
"""

import time
from collections.abc import Callable

import gymnasium
import gymnasium_worlds
import learning
import log_troubles
import log_worlds
import numpy as np
import simulator
import vectors
from genie import genie_labels
from gymnasium.wrappers import TimeLimit
from likelihood_agents import gap_regret, make_agent
from optimism import doubt_per_pair, is_covered

import romdp
from romdp.worlds.wrappers import RichObservation, numbered

Measure = Callable[[int], "float | tuple[float, float]"]


# Grouping


def told_block(eta: float, visits: int) -> Measure:
    """Wrong placings of grouping told X beside the genie's, in the symmetric block world."""

    def measure(seed: int) -> tuple[float, float]:
        world, counts = _block(eta, visits, seed)
        fit = romdp.Likelihood(n_states=2).fit(counts, np.random.default_rng(seed))
        wrong = fit.partition.misclassification(romdp.Partition(world.labels))
        return wrong, float(np.mean(genie_labels(world, counts) != world.labels))

    return measure


def two_groups(eta: float, visits: int) -> Measure:
    """Whether two groups are found in the symmetric block world, X unknown."""

    def measure(seed: int) -> float:
        _, counts = _block(eta, visits, seed)
        return float(_cluster(counts, seed).n_clusters == 2)

    return measure


def _block(eta: float, visits: int, seed: int) -> tuple[romdp.ROMDP, romdp.Counts]:
    world = romdp.worlds.symmetric_block(100, eta)
    seen = romdp.simulate(world, "uniform", 100 * visits, seed=seed)
    return world, romdp.Counts.from_trajectory(seen)


def _cluster(counts: romdp.Counts, seed: int) -> romdp.Partition:
    return romdp.Likelihood().fit(counts, np.random.default_rng(seed)).partition


def uniform_emission(seed: int) -> tuple[float, float]:
    """Wrong placings beside the genie's where states show their observations equally often."""
    rng = np.random.default_rng(seed)
    n_states, size = int(rng.integers(3, 9)), int(rng.integers(60, 201))
    visits = int(rng.integers(15, 26))
    world = romdp.worlds.random_romdp(n_states, 4, size, seed=seed, emission_concentration=1e6)
    counts = romdp.Counts.from_trajectory(romdp.simulate(world, "uniform", visits * size, seed))
    wrong = _cluster(counts, seed).misclassification(romdp.Partition(world.labels)) * size
    return wrong, float((genie_labels(world, counts) != world.labels).sum())


def few_visits(seed: int) -> float:
    """Share of wrong placings with ten visits of each of 100 observations of five states."""
    world = romdp.worlds.random_romdp(5, 4, 100, seed=seed, emission_concentration=1e6)
    seen = romdp.simulate(world, "uniform", 1_000, seed=seed)
    found = romdp.cluster(seen, seed=seed)
    return found.misclassification(romdp.Partition(world.labels))


def twins_found(mixing: float, rows: int) -> Measure:
    """Whether all six states are found though two are twins; one observation may be misplaced."""

    def measure(seed: int) -> float:
        world = romdp.worlds.twins(mixing=mixing, seed=seed)
        found = romdp.cluster(romdp.simulate(world, "uniform", rows, seed=seed), seed=seed)
        wrong = found.misclassification(romdp.Partition(world.labels)) * world.n_observations
        return float(found.n_clusters == world.n_states and wrong < 1.5)

    return measure


def exact_in_random(size: int, steps: int) -> Measure:
    """Whether the states of a random world are exact after so many uniform steps."""

    def measure(seed: int) -> float:
        world = romdp.worlds.random_romdp(5, 4, size, seed=seed)
        seen = romdp.simulate(world, "uniform", steps, seed=seed)
        return float(romdp.cluster(seen, seed=seed) == romdp.Partition(world.labels))

    return measure


# Regret


def regrets(mine: str, other: str, size: int, steps: int) -> Measure:
    """Regret by gaps of one agent, and of another in the same world."""

    def measure(seed: int) -> tuple[float, float]:
        world = romdp.worlds.random_romdp(5, 4, size, seed=seed)
        both = [_gap_regret(_agent(name, world), world, steps, seed) for name in (mine, other)]
        return both[0], both[1]

    return measure


def _agent(name: str, world: romdp.ROMDP) -> romdp.Agent:
    """Make an agent with confidence sets that hold."""
    optimists = {
        "ucrl3": romdp.UCRL3,
        "sl-ucrl": lambda: romdp.SLUCRL(world.n_states),
        "lc-ucrl": romdp.LCUCRL,
        "oracle": lambda: romdp.Oracle(world.labels),
    }
    return optimists[name]() if name in optimists else make_agent(name, world)


def _gap_regret(agent: romdp.Agent, world: romdp.ROMDP, steps: int, seed: int) -> float:
    playing = romdp.epochs(agent, world, steps, seed=seed)
    for _ in playing:
        pass
    return gap_regret(world, playing.state.recorder.counts)


def exact_from(size: int, steps: int) -> Measure:
    """Step from which on the grouping of LC-PSRL is exact; the last one if it never is."""

    def measure(seed: int) -> float:
        world = romdp.worlds.random_romdp(5, 4, size, seed=seed)
        run = romdp.play(romdp.LCPSRL(), world, steps=steps, seed=seed)
        truth, since = romdp.Partition(world.labels), float(steps)
        for number, grouping in reversed(run.groupings):
            if grouping != truth:
                break
            since = float(run.epochs.start[number - 1])
        return since

    return measure


def longest_pause(seed: int) -> float:
    """Seconds of processor that the slowest of 30,000 steps takes, with 10,000 observations."""
    world = romdp.worlds.random_romdp(5, 4, 10_000, seed=seed)
    seen = romdp.simulate(world, "uniform", 30_000, seed=seed)
    online = romdp.Online(romdp.LCPSRL(), 10_000, 4, seed=seed)
    longest = 0.0
    for t in range(len(seen.observations) - 1):
        began = time.process_time()
        online.act(int(seen.observations[t]))
        following, action = int(seen.observations[t + 1]), int(seen.actions[t])
        online.observe(float(seen.rewards[t]), following, action=action)
        if t > 1_000:  # before, kernels are compiled or read from disk
            longest = max(longest, time.process_time() - began)
    return longest


def no_false_merge(seed: int) -> float:
    """Whether SL-UCRL keeps apart what is apart, in a world as large as the paper's."""
    world = romdp.worlds.random_romdp(5, 4, (10, 20, 30)[seed % 3], seed=seed)
    run = romdp.play(romdp.SLUCRL(5), world, steps=200_000, seed=seed)
    truth = romdp.Partition(world.labels)
    return float(all(grouping.refines(truth) for _, grouping in run.groupings))


def two_phases_found(seed: int) -> float:
    """Whether the spectral step finds the hidden states of a deterministic world."""
    world = romdp.worlds.deterministic_romdp(5, 3, 20, seed=seed)
    agent = romdp.TwoPhase(romdp.Hoeffding(0.1), grouping="spectral")
    run = romdp.play(agent, world, steps=100_000, seed=seed)
    return float(run.partition == romdp.Partition(world.labels))


def sets_hold(seed: int) -> float:
    """Whether the truth lies inside the time-uniform sets after each of 3,000 steps."""
    world = romdp.worlds.random_romdp(5, 4, 5, seed=seed)
    seen = romdp.simulate(world, "uniform", 3_001, seed=seed)
    truth = world.observable
    doubt = doubt_per_pair(romdp.Counts.zeros(5, 4), 0.05)
    return float(
        is_covered(
            seen.observations, seen.actions, seen.rewards, truth.transition, truth.reward, doubt
        )
    )


def plans_converge(seed: int) -> float:
    """Share of UCRL3's plans that converge."""
    world = romdp.worlds.random_romdp(5, 4, 30, seed=seed)
    playing = romdp.epochs(romdp.UCRL3(), world, 50_000, seed=seed)
    return float(np.mean([playing.state.converged for _ in playing]))


# Returns


def returns(world: str) -> Measure:
    """Mean return in the last fifth of the steps, default agent."""
    return lambda seed: gymnasium_worlds.measure(world, "lc-psrl", seed)["return"]


def lake_without_slips(seed: int) -> float:
    """FrozenLake8x8 where nothing slips: reward 1 at the goal, else 0."""
    return _mean_return(gymnasium.make("FrozenLake8x8-v1", is_slippery=False), 30_000, seed)


class Grid(gymnasium.Env):
    """A grid of ten by ten cells, from one corner to the other; a step may cost something."""

    def __init__(self, cost: float) -> None:
        self.observation_space = gymnasium.spaces.Discrete(100)
        self.action_space = gymnasium.spaces.Discrete(4)
        self._cost, self._place = cost, 0

    def reset(self, *, seed=None, options=None):
        """Go back to the corner."""
        self._place = 0
        return 0, {}

    def step(self, action):
        """Move, or bump into a wall."""
        row, column = divmod(self._place, 10)
        down, right = ((-1, 0), (0, 1), (1, 0), (0, -1))[action]
        row, column = min(max(row + down, 0), 9), min(max(column + right, 0), 9)
        self._place = 10 * row + column
        over = self._place == 99
        return self._place, (1.0 if over else 0.0) - self._cost, over, False, {}


class DeepSea(gymnasium.Env):
    """Deep sea: a small cost for each step to the right, and a prize for going right every time."""

    def __init__(self, size: int, seed: int) -> None:
        self._size = size
        self._right = np.random.default_rng(seed).integers(2, size=(size, size))
        self.observation_space = gymnasium.spaces.Discrete(size * size)
        self.action_space = gymnasium.spaces.Discrete(2)
        self._row = self._column = 0

    def reset(self, *, seed=None, options=None):
        """Begin at the surface, on the left."""
        self._row = self._column = 0
        return 0, {}

    def step(self, action):
        """Sink by one cell."""
        right = action == self._right[self._row, self._column]
        reward = 0.0
        if right:
            prize = self._row == self._column == self._size - 1
            reward = float(prize) - 0.01 / self._size
        self._column = min(max(self._column + (1 if right else -1), 0), self._size - 1)
        self._row += 1
        over = self._row == self._size
        return 0 if over else self._row * self._size + self._column, reward, over, False, {}


def grid(cost: float, views: int) -> Measure:
    """Goal 1 in the far corner of a grid, at most 90 steps."""

    def measure(seed: int) -> float:
        return _mean_return(_shown(TimeLimit(Grid(cost), 90), views, seed), 30_000, seed)

    return measure


def deep_sea(size: int, steps: int, views: int) -> Measure:
    """Return what deep sea of a size pays: a prize behind small costs."""

    def measure(seed: int) -> float:
        env: gymnasium.Env = DeepSea(size, seed)
        return _mean_return(_shown(env, views, seed), steps, seed)

    return measure


def _shown(env: gymnasium.Env, views: int, seed: int) -> gymnasium.Env:
    """Show every state as one of so many views."""
    return RichObservation(numbered(env), views, seed) if views > 1 else env


def _mean_return(env: gymnasium.Env, steps: int, seed: int) -> float:
    return romdp.play(romdp.LCPSRL(), env, steps, seed=seed, progress=False).mean_return


# Vectors


class Corridor(gymnasium.Env):
    """A cue, then a corridor without any sign; at its end the action that the cue named pays 1."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, length: int) -> None:
        self._length, self._age, self._cue = length, 0, 0

    def reset(self, *, seed=None, options=None):
        """Show another cue."""
        super().reset(seed=seed)
        self._age, self._cue = 0, int(self.np_random.integers(2))
        return self._cue, {}

    def step(self, action):
        """Go on, or choose at the junction."""
        self._age += 1
        over = self._age == self._length + 2
        return 2, float(over and action == self._cue), over, False, {}


def cue(length: int) -> Measure:
    """Return what an episode of the last fifth of 25,000 steps pays in a corridor."""

    def measure(seed: int) -> float:
        run = romdp.play(romdp.LCPSRL(memory="auto"), Corridor(length), 25_000, seed=seed)
        return float(run.returns["return"][-len(run.returns) // 5 :].mean())

    return measure


def memory_for_nothing(seed: int) -> tuple[float, float]:
    """Return what the slippery lake pays with ``memory="auto"`` and without."""
    agents = romdp.LCPSRL(memory="auto"), romdp.LCPSRL()
    lakes = [gymnasium.make("FrozenLake-v1") for _ in agents]
    mine, other = (
        float(romdp.play(agent, lake, 5_000, seed=seed).returns["return"].mean())
        for agent, lake in zip(agents, lakes, strict=True)
    )
    return mine, other


def digits(name: str) -> Measure:
    """Share of unseen pictures of digits that are placed right."""
    return lambda seed: vectors.digits_row(name, seed)


def lock(name: str) -> Measure:
    """Episodes until a combination lock is open."""
    return lambda seed: float(vectors.lock_row(name, seed, 2.0))


def ring(name: str) -> Measure:
    """Whether the states of a ring are exact in the end, told nothing."""
    return lambda seed: float(vectors.endless_row(name, seed, 1.0))


def log_of_vectors(name: str, right: float = 0.0) -> Measure:
    """Share of fresh vectors placed right, from a log; or whether it is at least ``right``."""

    def measure(seed: int) -> float:
        share = vectors.log_row(name, seed)
        return float(share >= right) if right else share

    return measure


# Logs


def safe_enough(seed: int) -> float:
    """Whether `act` is no worse than whoever wrote the log, in a log of a lake or of Taxi."""
    row = _log(seed)
    return float(row["act"] >= row["logger"] - 0.02 * abs(row["best"] - row["logger"]))


def bound_holds(seed: int) -> float:
    """Whether `value_lower` is a lower bound of what `act` earns there."""
    row = _log(seed)
    return float(row["lower"] <= row["act"] + 1e-9)


def bound_holds_in_trouble(seed: int) -> float:
    """Whether `value_lower` holds where something that lasts is not shown, known or not."""
    name = ("shop", "clinic", "maintenance", "queue", "inventory")[seed % 5]
    trouble = ("confounder", "unseen", "drift")[seed % 3]
    return float(log_troubles.measure(name, "half", trouble, 10_000, seed)["holds"])


def _log(seed: int) -> dict[str, float]:
    environment = ("lake", "taxi")[seed % 2]
    policy = ("random", "half-trained")[seed // 2 % 2]
    return log_worlds.measure(environment, 1, policy, 10_000, seed)


# Speed


def simulator_speed(seed: int) -> float:
    """Return steps per second of the simulator, in those of a plain loop."""
    world = romdp.worlds.random_romdp(5, 4, 30, seed=seed)
    plain = simulator.rate(simulator.plain(world), 10_000, 3)
    return simulator.rate(simulator.compiled(world), 10**7, 3) / plain


def ucrl2_speed(seed: int) -> float:
    """Return steps per second of UCRL2, planning included, in those of a loop that only draws."""
    world = romdp.worlds.random_romdp(5, 4, 30, seed=seed)
    plain = min(learning.plain_loop(world, 20_000) for _ in range(3)) / 20_000
    seconds = learning.seconds(romdp.UCRL2(romdp.Hoeffding(0.1)), world, 10**7, 2)
    return plain / (seconds / 10**7)
