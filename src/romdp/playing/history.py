"""What is noted of a run under way: figures at log-spaced steps, epochs and groupings."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.formats import Format, exact, index, whole
from romdp.data.partition import Partition
from romdp.exact.objectives import AVERAGE, Objective
from romdp.playing.episodes import Episodes
from romdp.playing.learned import Learned
from romdp.playing.run import EPOCH_COLUMNS, Run, log_spaced

_FORMAT = Format(
    "history of the run",
    figures=exact(np.float64, "* 4"),
    epochs=exact(EPOCH_COLUMNS, "ended"),
    grouping_epochs=index("groupings", of="epochs"),
    grouping_labels=whole("groupings *", -1, dtype=np.int32),
)


class Figure(NamedTuple):
    """What was earned up to a step."""

    step: int
    reward: float
    regret: float
    pseudo_regret: float


class EpochRow(NamedTuple):
    """A row of ``run.epochs``."""

    start: int
    length: int
    n_clusters: int
    gain: float
    sweeps: int
    converged: bool


def figure(step: int, gain: float, reward: float, expected_reward: float) -> Figure:
    """Compare what was earned in so many steps with the optimal ``gain`` per step."""
    optimal = step * gain
    return Figure(step, reward, optimal - reward, optimal - expected_reward)


class History:
    """The figures, finished epochs and groupings of a run so far.

    Parameters
    ----------
    steps
        How many steps the run has in all.
    done
        How many of them were taken before anything is noted.
    """

    def __init__(self, steps: int, done: int = 0) -> None:
        self._steps = steps
        grid = log_spaced(steps)
        self._grid = grid[grid > done]
        self.figures: list[Figure] = []
        self.epochs: list[EpochRow] = []
        self.groupings: list[tuple[int, Partition]] = []

    @property
    def due(self) -> int:
        """The step at which the next figure is due; the last step when there is none left."""
        done = len(self.figures)
        return int(self._grid[done]) if done < len(self._grid) else self._steps

    def note(self, figure: Figure) -> None:
        """Keep a figure if it is due."""
        if len(self.figures) < len(self._grid) and figure.step == self.due:
            self.figures.append(figure)

    def note_grouping(self, epoch: int, partition: Partition) -> None:
        """Keep the grouping of an epoch if it differs from the one before."""
        if not self.groupings or self.groupings[-1][1] != partition:
            self.groupings.append((epoch, partition))

    def run(
        self,
        last: Figure,
        epoch: EpochRow | None,
        partition: Partition,
        agent: str,
        seed: Any,
        episodes: Episodes | None = None,
        learned: Learned | None = None,
        objective: Objective = AVERAGE,
    ) -> Run:
        """Return the run up to the ``last`` figure, in the middle of an ``epoch``."""
        figures = list(self.figures)
        if last.step and (not figures or figures[-1].step != last.step):
            figures.append(last)
        steps, reward, regret, pseudo_regret = (
            np.array([row[i] for row in figures], np.float64) for i in range(4)
        )
        rows = self.epochs if epoch is None else [*self.epochs, epoch]
        return Run(
            steps=steps.astype(np.int64),
            reward=reward,
            regret=regret,
            pseudo_regret=pseudo_regret,
            epochs=np.array(rows, EPOCH_COLUMNS).view(np.recarray),
            partition=partition,
            groupings=tuple(self.groupings),
            agent=agent,
            seed=seed,
            returns=(episodes or Episodes()).returns,
            learned=learned,
            objective=objective,
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Everything that a checkpoint must hold."""
        groupings = [partition.labels for _, partition in self.groupings]
        kept = {
            "figures": np.array(self.figures, np.float64).reshape(-1, 4),
            "epochs": self.epochs,
            "grouping_epochs": [number for number, _ in self.groupings],
            "grouping_labels": np.array(groupings, np.int32).reshape(len(groupings), -1),
        }
        return _FORMAT.pack(kept)[0]

    def restore(
        self, arrays: Mapping[str, NDArray[Any]], step: int, epoch: int, partition: Partition
    ) -> None:
        """Go back to where `arrays` was taken, in a run that has come to ``step`` and ``epoch``."""
        found = _FORMAT.read(arrays, ended=max(0, epoch - 1), epochs=epoch + 1)
        figures, epochs = found["figures"], found["epochs"]
        numbers, labels = found["grouping_epochs"], found["grouping_labels"]
        if len(numbers) and labels.shape[1] != partition.n_observations:
            raise _FORMAT.damaged("grouping_labels are not of all observations")
        if not np.array_equal(figures[:, 0], log_spaced(step) if step else []):
            raise _FORMAT.damaged("figures are not those of the steps played")
        ends = epochs["start"] + epochs["length"]
        if epoch and not np.array_equal(epochs["start"], np.append(0, ends)[: len(epochs)]):
            raise _FORMAT.damaged("epochs do not follow one another")
        if (np.diff(numbers, prepend=0) <= 0).any() or (len(numbers) > 0) != (epoch > 0):
            raise _FORMAT.damaged("grouping_epochs are not those of the epochs played")
        groupings = [(int(n), Partition(row)) for n, row in zip(numbers, labels, strict=True)]
        if groupings and groupings[-1][1] != partition:
            raise _FORMAT.damaged("the last grouping is not that of the agent")
        self.figures = [Figure(int(row[0]), *row[1:]) for row in figures.tolist()]
        self.epochs = [EpochRow(*row) for row in epochs.tolist()]
        self.groupings = groupings
