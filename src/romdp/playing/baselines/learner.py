"""What baselines have in common: they learn at every step and begin no further epoch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import MisuseError
from romdp.core.randomness import Seed, seed_sequence
from romdp.core.validation import check_memory, how_many
from romdp.data.partition import Partition
from romdp.data.recorder import Recorder
from romdp.data.trajectory import Trajectory
from romdp.exact.objectives import AVERAGE, Objective
from romdp.planning.backup import Plan
from romdp.worlds.simulator import Simulator


class Learner(ABC):
    """One life of a baseline; it answers what `Online` and `play` ask of an agent's state.

    Parameters
    ----------
    agent
        The baseline that it is a life of.
    n_observations, n_actions
        The sizes.
    seed
        Seeds it.
    """

    learns_by_step = True
    total_steps = 0  # of the run, where somebody says so

    def __init__(self, agent: Any, n_observations: int, n_actions: int, seed: Seed) -> None:
        self.agent, self.seed = agent, seed_sequence(seed)
        self.n_observations = how_many(n_observations, "n_observations")
        self.n_actions = how_many(n_actions, "n_actions")
        check_memory("values (n_observations x n_actions)", n_observations, n_actions)
        self.partition = Partition.singletons(n_observations)
        self.objective: Objective = AVERAGE
        self.recorder = Recorder(1, 1)  # it counts nothing
        self.step = self.epoch = self.epoch_start = self.sweeps = 0
        self.gain, self.converged = np.nan, True

    @property
    def goal(self) -> Objective:
        """What it aims at."""
        return self.objective

    def expect_episodes(self, limit: int | None = None, zero_reward: float = 0.0) -> None:
        """Hear that episodes may end here, before the first step."""
        self.objective = Objective("episodic").within(limit, zero_reward)

    def must_think(self, observation: int, age: int = 0) -> bool:
        """Whether the one epoch has not begun."""
        return not self.epoch

    def think(self) -> None:
        """Begin the one epoch."""
        self.epoch = 1

    idle = think

    def begin(self, observation: int) -> None:
        """Hear that an episode begins, which matters to few."""
        return

    def wait(self) -> None:
        """Count a step of which nothing is kept."""
        self.step += 1

    @abstractmethod
    def action(self, observation: int, age: int = 0) -> int:
        """Return what to do."""

    @abstractmethod
    def learn(self, observation: int, action: int, reward: float, following: int) -> None:
        """Learn from one step; see `romdp.agents.agent.AgentState.learn`."""

    @abstractmethod
    def forget(self) -> None:
        """Forget all that was learned."""

    @abstractmethod
    def best_plan(self) -> Plan:
        """Return what is best by what was learned."""

    def group_counts(self) -> None:
        """Return nothing: it counts nothing."""
        return

    def recount(self, seen: Trajectory | None) -> None:
        """Forget all and learn from what is passed: observations mean something else now."""
        step = self.step
        self.forget()
        if seen is not None:
            rewards = np.zeros(seen.n_steps) if seen.rewards is None else seen.rewards
            columns = seen.observations, seen.actions, rewards, seen.next_observations
            for row in zip(*(column.tolist() for column in columns), strict=True):
                self.learn(*row)
        self.step = step

    def advance(self, simulator: Simulator, steps: int) -> None:
        """Play so many steps in a compiled world."""
        for _ in range(steps):
            seen = simulator.observation
            action = self.action(seen)
            reward = simulator.step(action)
            self.learn(seen, action, reward, simulator.observation)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Refuse: a run of a baseline that was interrupted begins again."""
        raise MisuseError(f"{self.agent.name} cannot be saved; play without checkpoint=")

    @classmethod
    def from_arrays(
        cls,
        agent: Any,
        n_observations: int,
        n_actions: int,
        seed: Seed,
        arrays: Mapping[str, NDArray[Any]],
    ) -> Self:
        """Refuse, as `arrays` does."""
        raise MisuseError(f"{agent.name} cannot be saved")
