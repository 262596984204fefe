"""One agent in one world: what a rule plays with, and how it is told that it was broken."""

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.agents.agent import Agent, AgentState
from romdp.core.description import fingerprint
from romdp.core.errors import ROMDPError
from romdp.exact.romdp import ROMDP
from romdp.playing.player import Playing

Arrays = dict[str, NDArray[Any]]


class CheckError(ROMDPError, AssertionError):
    """An agent that breaks a rule; the message says which one, in which world and how."""


@dataclass(frozen=True)
class Case:
    """One agent in one world."""

    agent: Agent
    world: ROMDP
    place: str
    steps: int
    seed: int

    def demand(self, holds: bool, what: str) -> None:
        """Raise unless a rule holds; ``what`` says how it was broken."""
        if not holds:
            raise CheckError(self._sentence(what))

    def demand_equal(self, one: Arrays, other: Arrays, what: str) -> None:
        """Raise unless two lots of arrays are the same bit by bit."""
        names = sorted(one.keys() | other.keys())
        differing = [name for name in names if not _same(one.get(name), other.get(name))]
        self.demand(not differing, f"{what}: {', '.join(differing)} differ")

    def _sentence(self, what: str) -> str:
        name = getattr(self.agent, "name", self.agent)
        return f"agent {name!r} in {self.place} ({self.steps} steps, seed {self.seed}): {what}"

    @contextlib.contextmanager
    def refusing_errors(self) -> Iterator[None]:
        """Turn whatever the agent raises into a `CheckError`."""
        try:
            yield
        except CheckError:
            raise
        except Exception as error:
            hint = "; an agent that fits one world only needs world="
            raise CheckError(
                self._sentence(f"it raised {type(error).__name__}: {error}{hint}")
            ) from error

    @contextlib.contextmanager
    def leaving_no_trace(self) -> Iterator[None]:
        """Demand that the agent and the global generators stay as they are."""
        before, numpy_before, python_before = fingerprint(self.agent), _numpy(), random.getstate()
        yield
        self.demand(fingerprint(self.agent) == before, "playing changed the agent itself")
        untouched = _numpy() == numpy_before and random.getstate() == python_before
        self.demand(untouched, "it drew from a global generator; use the seed that start() gets")

    def playing(self, steps: int | None = None, seed: int | None = None, **options: Any) -> Playing:
        """Prepare a run."""
        seed = self.seed if seed is None else seed
        return Playing(self.agent, self.world, steps or self.steps, seed, **options)

    def played(self, steps: int | None = None, seed: int | None = None, **options: Any) -> Arrays:
        """Play and return all that came of it."""
        return drained(self.playing(steps, seed, **options))

    @cached_property
    def whole(self) -> Arrays:
        """What came of playing all steps once, to compare other plays with."""
        return self.played()

    def state(self) -> AgentState:
        """Start a life."""
        return self.agent.start(self.world.n_observations, self.world.n_actions, self.seed)


def _numpy() -> str:
    return repr(np.random.get_state())  # noqa: NPY002 - to see that nobody used it


def _same(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    if one is None or other is None:
        return False
    alike = one.dtype == other.dtype and one.shape == other.shape
    return alike and one.tobytes() == other.tobytes()


def drained(playing: Playing) -> Arrays:
    """Play to the end and return the outcome."""
    for _ in playing:
        pass
    return outcome(playing)


def outcome(playing: Playing) -> Arrays:
    """Return the figures of a run, its epochs and groupings, and the agent's state."""
    run = playing.run
    return {
        "steps": run.steps,
        "reward": run.reward,
        "regret": run.regret,
        "pseudo_regret": run.pseudo_regret,
        "epochs": np.asarray(run.epochs),
        "groupings": np.array([[n, *partition.labels] for n, partition in run.groupings]),
        **{f"state.{name}": array.copy() for name, array in playing.state.arrays().items()},
    }
