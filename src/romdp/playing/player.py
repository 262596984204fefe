"""An agent in a world: epoch by epoch, with figures, checkpoints and progress."""

import json
import os
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from romdp.agents.agent import Agent, AgentState, require_agent
from romdp.core.description import describe, fingerprint
from romdp.core.errors import InvalidInputError, ROMDPError
from romdp.core.html import in_notebook
from romdp.core.randomness import Seed, seed_sequence
from romdp.core.stored import Stored
from romdp.core.validation import whole_number
from romdp.data.partition import Partition
from romdp.playing.checkpoint import Checkpoint
from romdp.playing.history import EpochRow, Figure, History, figure
from romdp.playing.policy import Policy, policy_of
from romdp.playing.run import Run
from romdp.playing.stages import stage_for
from romdp.playing.vectors import start_state


@dataclass(frozen=True)
class Epoch:
    """One epoch as it is yielded: what was decided at its start, and how it went.

    Attributes
    ----------
    number
        The first is 1.
    start, length
        Steps before it, and its own.
    gain
        What the planner promised (optimistic or sampled).
    sweeps
        How many sweeps the planner's value iteration took.
    partition
        The grouping it planned on.
    regret, pseudo_regret, reward
        At its end, since the start of the run.
    finished
        False where the step budget and not the stopping rule ended it.
    """

    number: int
    start: int
    length: int
    n_clusters: int
    gain: float
    sweeps: int
    partition: Partition
    reward: float
    regret: float
    pseudo_regret: float
    finished: bool


class Playing:
    """A run under way; iterating over it plays on and yields the epochs.

    Made by `epochs`, with the same arguments. ``playing.run`` holds the figures so far at any
    time. While it plays, its checkpoint is locked.
    """

    def __init__(
        self,
        agent: Agent,
        world: Any,
        steps: int,
        seed: Seed = 0,
        *,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = 30.0,
        reward_range: tuple[float, float] | None = None,
    ) -> None:
        require_agent(agent)
        self.steps = whole_number(steps, "steps", 1)
        self._agent, self._seed = agent, seed_sequence(seed)
        self._stage = stage_for(world, self._seed, reward_range)
        self.state: AgentState = start_state(
            agent, self._stage.observations, self._stage.actions.size, self._seed
        )
        self._stage.announce(self.state)
        self._history = History(self.steps)
        identity = {} if checkpoint is None else self._identity()
        self._checkpoint = Checkpoint(checkpoint, checkpoint_seconds, identity)
        if checkpoint is not None:
            self._stage.arrays()  # refuses at once where the place cannot be saved
            self._load()

    def __iter__(self) -> Generator[Epoch, None, None]:
        state, history = self.state, self._history
        with self._checkpoint.lock():
            while state.step < self.steps:
                if self._epoch_is_over():
                    if state.epoch:
                        history.epochs.append(self._epoch_row())
                    state.think()
                    history.note_grouping(state.epoch, state.partition)
                while state.step < self.steps and not self._epoch_is_over():
                    self._stage.advance(state, history.due - state.step)
                    if state.step == history.due:
                        history.note(self._figure())
                    if self._checkpoint.is_due:
                        self._checkpoint.save(self._arrays)
                if self._epoch_is_over() or state.step >= self.steps:
                    yield self._epoch()
            self._checkpoint.save(self._arrays)

    def _epoch_is_over(self) -> bool:
        return self.state.must_think(self._stage.observation)

    def _figure(self) -> Figure:
        """Return the figures of this step; exact sums, wherever a run was cut."""
        stage = self._stage
        return figure(self.state.step, stage.gain, stage.reward, stage.expected_reward)

    def _epoch_row(self) -> EpochRow:
        state = self.state
        length = state.step - state.epoch_start
        n_clusters = state.partition.n_clusters
        return EpochRow(state.epoch_start, length, n_clusters, state.gain, state.sweeps)

    def _epoch(self) -> Epoch:
        _, reward, regret, pseudo_regret = self._figure()
        return Epoch(
            **self._epoch_row()._asdict(),
            number=self.state.epoch,
            partition=self.state.partition,
            reward=reward,
            regret=regret,
            pseudo_regret=pseudo_regret,
            finished=self._epoch_is_over(),
        )

    @property
    def run(self) -> Run:
        """The figures so far."""
        epoch = self._epoch_row() if self.state.epoch else None
        seed = describe(self._seed.entropy)
        return self._history.run(
            self._figure(),
            epoch,
            self.state.partition,
            self._agent.name,
            seed,
            self._stage.episodes,
            self._policy,
            self.state.objective,
        )

    @property
    def _policy(self) -> Policy:
        stage = self._stage
        return policy_of(
            self.state, stage.observations, stage.actions, self._agent.name, stage.reward_range
        )

    def _identity(self) -> dict[str, str]:
        """Name what a checkpoint belongs to."""
        seed = [self._seed.entropy, list(self._seed.spawn_key)]
        return {
            "agent": fingerprint(self._agent),
            "world": fingerprint(self._stage.describe()),
            "seed": json.dumps(describe(seed)),
        }

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything that a checkpoint must hold."""
        return {
            f"{part}_{name}": array
            for part, arrays in (
                ("agent", self.state.arrays()),
                ("stage", self._stage.arrays()),
                ("history", self._history.arrays()),
            )
            for name, array in arrays.items()
        }

    def _load(self) -> None:
        """Go on from the checkpoint, if there is one."""
        arrays = self._checkpoint.load()
        if arrays is None:
            return
        stored = Stored(arrays, "the checkpoint")
        agent, stage, history = (stored.part(f"{name}_") for name in ("agent", "stage", "history"))
        sizes = self._stage.observations.size, self._stage.actions.size
        kind = type(self.state)  # an agent may have a state of its own kind
        try:
            stored.finish()
            state = kind.from_arrays(self.state.agent, *sizes, self._seed, agent)
            self._stage.restore(stage)
            self._history.restore(history, state.step, state.epoch, state.partition)
        except (ROMDPError, LookupError, TypeError, ValueError, MemoryError) as error:
            raise self._checkpoint.damaged(error) from error
        self.state = state
        if state.step > self.steps:
            raise InvalidInputError(
                f"{self._checkpoint.path} has already played {state.step} steps, more than "
                f"steps={self.steps}"
            )


def epochs(
    agent: Agent,
    world: Any,
    steps: int,
    seed: Seed = 0,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_seconds: float = 30.0,
    reward_range: tuple[float, float] | None = None,
) -> Playing:
    """Play epoch by epoch: iterate over the result, and ask its ``run`` at any time.

    The arguments are those of `play`.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(seed=1)
    >>> playing = romdp.epochs(romdp.UCRL2(), world, steps=100, seed=0)
    >>> sum(epoch.length for epoch in playing)
    100
    """
    return Playing(
        agent,
        world,
        steps,
        seed,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        reward_range=reward_range,
    )


def play(
    agent: Agent,
    world: Any,
    steps: int,
    seed: Seed = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    *,
    checkpoint_seconds: float = 30.0,
    reward_range: tuple[float, float] | None = None,
    callback: Callable[[Epoch], object] | None = None,
    progress: bool | None = None,
) -> Run:
    """Let an agent play in a world.

    Parameters
    ----------
    agent
        An `Agent`, such as ``romdp.UCRL2()``. It is not changed: one agent can play many times.
    world
        A `ROMDP` or `MDP` (compiled), or a Gymnasium environment with enumerable actions, whose
        observations are enumerable, vectors or pictures (stepped; a terminated step
        leads to the restart's observation, a truncated one counts no transition).
    steps
        How many actions are taken, in all.
    seed
        The same seed gives the same run.
    checkpoint
        A file in which the run is kept every ``checkpoint_seconds`` and at its end. Calling
        `play` again with the same path goes on from there, to the bit as if it had never been
        interrupted; with more ``steps`` it plays on. The last checkpoint but one stays beside
        it under ``.previous``.
    checkpoint_seconds
        How often it is written.
    reward_range
        For Gymnasium environments: the smallest and the largest reward. By default any rewards, if
        the agent learns what they can be as `LCPSRL` does; else [0, 1].
    callback
        Called with each `Epoch` as it ends.
    progress
        Whether to show a progress bar; by default only on a terminal and in a notebook.

    Returns
    -------
    Run

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
    >>> run = romdp.play(romdp.Oracle(world.labels), world, steps=10_000, seed=0)
    >>> run.partition.n_clusters, int(run.steps[-1])
    (3, 10000)
    """
    playing = epochs(
        agent,
        world,
        steps,
        seed,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        reward_range=reward_range,
    )
    listeners = [] if callback is None else [callback]
    if (sys.stderr.isatty() or in_notebook()) if progress is None else progress:
        from romdp.playing.progress import progress_bar

        with progress_bar(agent.name, playing.steps) as bar:
            _drain(playing, [*listeners, bar])
    else:
        _drain(playing, listeners)
    return playing.run


def _drain(playing: Playing, listeners: list[Callable[[Epoch], object]]) -> None:
    for epoch in playing:
        for listener in listeners:
            listener(epoch)
