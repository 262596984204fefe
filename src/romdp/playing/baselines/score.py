"""What a baseline earned, noted at the steps at which agents are measured too."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from romdp.core.description import describe
from romdp.core.randomness import Seed, seed_sequence
from romdp.data.partition import Partition
from romdp.exact.romdp import ROMDP
from romdp.playing.player import Epoch
from romdp.playing.run import EPOCH_COLUMNS, Run, log_spaced
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
        Of the baseline.
    world
        Where it plays.
    steps
        How many, in all.
    seed
        Of the run.
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
        self.steps = steps
        self.step = 0
        self.taken: NDArray[np.int64] = np.zeros(world.reward.shape, np.int64)
        self.reward: NDArray[np.float64] = np.zeros(1)
        self.gain = float("nan")
        self._name, self._world, self._seed = name, world, seed_sequence(seed)
        self._optimal = known_gain(world)
        self._partition = Partition.singletons(world.n_observations)
        self._grid = log_spaced(steps).tolist()
        if self._grid[-1] != steps:
            self._grid.append(steps)
        self._figures: list[tuple[int, float, float, float]] = []
        self._callback = callback

    @property
    def due(self) -> int:
        """The step of the next figure; the last one when all are taken."""
        return int(self._grid[min(len(self._figures), len(self._grid) - 1)])

    def note(self) -> None:
        """Take the figures of this step."""
        reward, best = float(self.reward[0]), self.step * self._optimal
        expected = float(self.taken.ravel() @ self._world.reward.ravel())
        self._figures.append((self.step, reward, best - reward, best - expected))
        if self._callback is not None:
            self._callback(self._epoch())

    def _epoch(self) -> Epoch:
        step, reward, regret, pseudo_regret = self._figures[-1]
        return Epoch(
            number=1,
            start=0,
            length=step,
            n_clusters=self._partition.n_clusters,
            gain=self.gain,
            sweeps=0,
            partition=self._partition,
            reward=reward,
            regret=regret,
            pseudo_regret=pseudo_regret,
            finished=False,
        )

    @property
    def run(self) -> Run:
        """The figures as a `Run`, with one epoch in which every observation stands alone."""
        steps, reward, regret, pseudo_regret = np.array(self._figures, np.float64).T
        epoch = (0, self.step, self._partition.n_clusters, self.gain, 0)
        return Run(
            steps=steps.astype(np.int64),
            reward=reward,
            regret=regret,
            pseudo_regret=pseudo_regret,
            epochs=np.array([epoch], EPOCH_COLUMNS).view(np.recarray),
            partition=self._partition,
            groupings=((1, self._partition),),
            agent=self._name,
            seed=describe(self._seed.entropy),
        )
