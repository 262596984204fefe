"""An agent in a world: epoch by epoch, with figures, checkpoints and progress."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.agents.agent import Agent, AgentState, require_agent
from romdp.core.description import describe, fingerprint
from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.randomness import Seed, seed_sequence
from romdp.core.storage import read_arrays, write_arrays
from romdp.core.validation import real_number, whole_number
from romdp.data.partition import Partition
from romdp.playing.run import EPOCH_COLUMNS, Run, log_spaced
from romdp.playing.stages import stage_for

_KIND, _VERSION = "checkpoint of a run", 2


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
        Of the planner's value iteration.
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

    Made by `epochs`. ``playing.run`` holds the figures so far at any time.
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
        self._seed = seed_sequence(seed)
        self._stage = stage_for(world, self._seed, reward_range)
        self._agent = agent
        self.state: AgentState = agent.start(
            self._stage.n_observations, self._stage.n_actions, self._seed
        )
        self._grid = log_spaced(self.steps)
        self._figures: list[tuple[int, float, float, float]] = []
        self._epochs: list[tuple[int, int, int, float, int]] = []
        self._groupings: list[tuple[int, Partition]] = []
        self._checkpoint = None if checkpoint is None else Path(checkpoint)
        self._seconds = real_number(checkpoint_seconds, "checkpoint_seconds", 0)
        self._saved_at = time.monotonic()
        if self._checkpoint is not None:
            self._open_checkpoint(self._checkpoint)

    def __iter__(self) -> Iterator[Epoch]:
        state = self.state
        while state.step < self.steps:
            if state.must_think(self._stage.observation):
                if state.epoch:
                    self._epochs.append(self._epoch_row())
                state.think()
                self._note_grouping()
            self._play_epoch()
            finished = state.must_think(self._stage.observation)
            if finished or state.step >= self.steps:
                yield self._epoch(finished)
            self._save_now_and_then()
        if self._checkpoint is not None:
            self._save(self._checkpoint)

    def _play_epoch(self) -> None:
        """Go on to the end of the epoch or of the run, halting where figures are due."""
        state = self.state
        while state.step < self.steps and not state.must_think(self._stage.observation):
            due = int(self._grid[len(self._figures)]) if self._is_due() else self.steps
            self._stage.advance(state, due - state.step)
            if state.step == due and self._is_due():
                self._figures.append(self._figure())
            self._save_now_and_then()

    def _is_due(self) -> bool:
        return len(self._figures) < len(self._grid)

    def _note_grouping(self) -> None:
        if not self._groupings or self._groupings[-1][1] != self.state.partition:
            self._groupings.append((self.state.epoch, self.state.partition))

    def _figure(self) -> tuple[int, float, float, float]:
        """Return step, reward, regret and pseudo-regret; exact sums, wherever a run was cut."""
        stage, step = self._stage, self.state.step
        optimal = step * stage.gain
        return step, stage.reward, optimal - stage.reward, optimal - stage.expected_reward

    def _epoch_row(self) -> tuple[int, int, int, float, int]:
        state = self.state
        length = state.step - state.epoch_start
        return state.epoch_start, length, state.partition.n_clusters, state.gain, state.sweeps

    def _epoch(self, finished: bool) -> Epoch:
        start, length, n_clusters, gain, sweeps = self._epoch_row()
        _, reward, regret, pseudo_regret = self._figure()
        return Epoch(
            self.state.epoch,
            start,
            length,
            n_clusters,
            gain,
            sweeps,
            self.state.partition,
            reward,
            regret,
            pseudo_regret,
            finished,
        )

    @property
    def run(self) -> Run:
        """The figures so far."""
        figures = list(self._figures)
        if self.state.step and (not figures or figures[-1][0] != self.state.step):
            figures.append(self._figure())
        steps, reward, regret, pseudo_regret = (
            np.array([row[i] for row in figures], np.float64) for i in range(4)
        )
        rows = [*self._epochs, self._epoch_row()] if self.state.epoch else self._epochs
        return Run(
            steps=steps.astype(np.int64),
            reward=reward,
            regret=regret,
            pseudo_regret=pseudo_regret,
            epochs=np.array(rows, EPOCH_COLUMNS).view(np.recarray),
            partition=self.state.partition,
            groupings=tuple(self._groupings),
            agent=self._agent.name,
            seed=describe(self._seed.entropy),
        )

    def _save_now_and_then(self) -> None:
        if self._checkpoint is not None and time.monotonic() - self._saved_at >= self._seconds:
            self._save(self._checkpoint)

    def _identity(self) -> dict[str, str]:
        """Name what a checkpoint belongs to."""
        seed = [self._seed.entropy, list(self._seed.spawn_key)]
        return {
            "agent": fingerprint(self._agent),
            "world": fingerprint(self._stage.describe()),
            "seed": json.dumps(describe(seed)),
        }

    def _save(self, path: Path) -> None:
        """Write the checkpoint whole; the one before it stays beside it."""
        groupings = [partition.labels for _, partition in self._groupings]
        arrays: dict[str, NDArray[Any]] = {
            **{f"agent_{name}": array for name, array in self.state.arrays().items()},
            **{f"stage_{name}": array for name, array in self._stage.arrays().items()},
            "figures": np.array(self._figures, np.float64).reshape(-1, 4),
            "epochs": np.array(self._epochs, EPOCH_COLUMNS),
            "grouping_epochs": np.array([number for number, _ in self._groupings], np.int64),
            "grouping_labels": np.array(groupings, np.int32).reshape(len(groupings), -1),
        }
        if path.exists():
            _keep_previous(path)
        write_arrays(path, _KIND, _VERSION, arrays, self._identity())
        self._saved_at = time.monotonic()

    def _open_checkpoint(self, path: Path) -> None:
        self._stage.arrays()  # refuses at once where the place cannot be saved
        if not path.exists():
            if not path.parent.is_dir():
                raise StorageError(f"cannot write {path}: its directory does not exist")
            return
        try:
            arrays, found = read_arrays(path, _KIND, _VERSION)
        except StorageError as error:
            before = _previous(path)
            hint = f"copy {before} over it to go on from there" if before.exists() else "delete it"
            raise StorageError(f"{error}; {hint}, or choose another path") from error
        for part, mine in self._identity().items():
            if found.get(part) != mine:
                raise StorageError(
                    f"{path} is the checkpoint of a run with another {part}; choose another path"
                )
        self._restore(arrays)
        if self.state.step > self.steps:
            raise InvalidInputError(
                f"{path} has already played {self.state.step} steps, more than steps={self.steps}"
            )

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        def part(prefix: str) -> dict[str, NDArray[Any]]:
            return {
                name.removeprefix(prefix): array
                for name, array in arrays.items()
                if name.startswith(prefix)
            }

        self.state = type(self.state).from_arrays(  # an agent may have a state of its own kind
            self.state.agent,
            self._stage.n_observations,
            self._stage.n_actions,
            self._seed,
            part("agent_"),
        )
        self._stage.restore(part("stage_"))
        self._figures = [(int(row[0]), *row[1:]) for row in arrays["figures"].tolist()]
        self._epochs = arrays["epochs"].tolist()
        self._groupings = [
            (int(number), Partition(labels))
            for number, labels in zip(
                arrays["grouping_epochs"], arrays["grouping_labels"], strict=True
            )
        ]


def _previous(path: Path) -> Path:
    return path.with_name(path.name + ".previous")


def _keep_previous(path: Path) -> None:
    """Keep the last checkpoint under a second name, without a moment in which there is none."""
    before = _previous(path)
    temporary = before.with_name(before.name + ".tmp")
    temporary.unlink(missing_ok=True)
    try:
        os.link(path, temporary)
    except OSError:  # a file system without hard links
        shutil.copyfile(path, temporary)
    os.replace(temporary, before)


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
        A `ROMDP` or `MDP` (compiled), or a Gymnasium environment with enumerable observations
        and actions (stepped; a terminated step leads to the restart's observation, a truncated
        one counts no transition).
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
        For Gymnasium environments: the smallest and the largest reward; [0, 1] by default.
    callback
        Called with each `Epoch` as it ends.
    progress
        Whether to show a progress bar on stderr; by default only on a terminal.

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
    if sys.stderr.isatty() if progress is None else progress:
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
