"""What a baseline earned, noted at the steps at which agents are measured too."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from romdp.core.description import describe
from romdp.core.randomness import Seed, seed_sequence
from romdp.data.partition import Partition
from romdp.exact.romdp import ROMDP
from romdp.playing.episodes import Episodes
from romdp.playing.history import EpochRow, Figure, History, figure
from romdp.playing.player import Epoch
from romdp.playing.run import Run
from romdp.playing.stages import known_gain

Callback = Callable[[Epoch], object]
"""Called with the one long `Epoch` of a baseline whenever a figure was noted."""


class Score:
    """The figures of a run that has no epochs: regret and pseudo-regret at log-spaced steps.

    The learner never reads it. Whoever steps the world adds to ``taken`` and ``reward`` and
    calls `note` once ``step`` has reached ``due``.

    Parameters
    ----------
    name
        What tables and figures call the baseline.
    world
        Where it plays.
    steps
        How many steps the run has in all.
    seed
        Seeds the run.
    callback
        Called at every figure, for progress.

    Attributes
    ----------
    taken
        How often each action was taken in each hidden state, shape (X, A): the truth.
    reward
        What was collected so far, in one entry.
    gain
        What the learner believes the average reward to be; NaN if it has no such belief.
    """

    def __init__(
        self, name: str, world: ROMDP, steps: int, seed: Seed, callback: Callback | None = None
    ) -> None:
        self.taken: NDArray[np.int64] = np.zeros(world.reward.shape, np.int64)
        self.reward: NDArray[np.float64] = np.zeros(1)
        self._world, self._optimal = world, known_gain(world)
        self._begin(name, Partition.singletons(world.n_observations), steps, seed, callback)

    def _begin(
        self,
        name: str,
        partition: Partition,
        steps: int,
        seed: Seed,
        callback: Callback | None,
    ) -> None:
        """Note nothing yet."""
        self.steps = steps
        self.step = 0
        self.gain = float("nan")
        self.episodes = Episodes()
        self._name, self._seed, self._partition = name, seed_sequence(seed), partition
        self._history = History(steps)
        self._history.note_grouping(1, partition)
        self._callback = callback

    @property
    def due(self) -> int:
        """The step of the next figure; the last one when all are taken."""
        return self._history.due

    def note(self) -> None:
        """Take the figures of this step."""
        self._history.note(self._figure())
        if self._callback is not None:
            self._callback(self._epoch())

    def _figure(self) -> Figure:
        expected = float(self.taken.ravel() @ self._world.reward.ravel())
        return figure(self.step, self._optimal, float(self.reward[0]), expected)

    def _row(self) -> EpochRow:
        return EpochRow(0, self.step, self._partition.n_clusters, self.gain, 0)

    def _epoch(self) -> Epoch:
        _, reward, regret, pseudo_regret = self._figure()
        return Epoch(
            **self._row()._asdict(),
            number=1,
            partition=self._partition,
            reward=reward,
            regret=regret,
            pseudo_regret=pseudo_regret,
            finished=False,
        )

    @property
    def run(self) -> Run:
        """The figures as a `Run`, with one epoch in which every observation stands alone."""
        seed = describe(self._seed.entropy)
        return self._history.run(
            self._figure(), self._row(), self._partition, self._name, seed, self.episodes
        )
