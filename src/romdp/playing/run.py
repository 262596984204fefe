"""What is noted of a run under way, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import MisuseError
from romdp.core.formats import Format, exact, index, whole
from romdp.core.text import html_table, number
from romdp.data.partition import Partition
from romdp.exact.objectives import AVERAGE, Objective
from romdp.playing.episodes import (
    Episodes,
    learning_curve,
    mean_return,
    recent,
    shown_range,
    success_rate,
)
from romdp.playing.policy import Learned, Policy

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from matplotlib.axes import Axes

    from romdp.logs.model import LatentModel

EPOCH_COLUMNS = np.dtype(
    [
        ("start", np.int64),
        ("length", np.int64),
        ("n_clusters", np.int64),
        ("gain", np.float64),
        ("sweeps", np.int64),
        ("converged", np.bool_),
    ]
)
"""The columns of ``run.epochs``."""

_PER_DECADE = 20
_SURE = 2.0  # standard errors by which the last episodes must be better than the first


def log_spaced(steps: int) -> Ints:
    """Return the steps at which figures are kept: twenty per decade, whatever ``steps`` is.

    Examples
    --------
    >>> log_spaced(20).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 16, 18, 20]
    """
    count = int(np.ceil(_PER_DECADE * np.log10(max(steps, 1)))) + 1
    grid = np.unique(np.rint(10.0 ** (np.arange(count + 1) / _PER_DECADE)).astype(np.int64))
    return grid[grid <= steps]


@dataclass(frozen=True, eq=False)
class Run:
    """The figures of a run, its epochs and its final grouping.

    Attributes
    ----------
    steps
        Log-spaced steps and the last one; the three figures below are taken there.
    reward
        The reward collected so far, in the environment's own units.
    regret
        Regret as the paper defines it: ``steps * rho* - reward``. NaN where no model is known.
    pseudo_regret
        The same with the mean reward of each hidden state and action in place of the reward
        that was drawn; far less noisy. NaN where no model is known.
    epochs
        A record array with the columns start (the first epoch starts at step 0), length,
        n_clusters, gain (optimistic or sampled), sweeps and converged (whether value iteration
        reached its precision). The last epoch may be unfinished.
    partition
        The final grouping.
    groupings
        The grouping whenever it changed: pairs (number of the epoch, grouping).
    agent, seed
        The agent's name and the seed.
    returns
        A record array with one row per finished episode and the columns step (of the run, at
        the episode's end), return (in the environment's own units) and length. It has no rows
        where there are no episodes.
    learned
        What the run leaves behind; see `policy` and `model`. None if nothing was kept.
    objective
        What the agent maximised: reward per step, a discounted sum, or the sum of an episode. Print
        it to see which.
    """

    steps: Ints
    reward: Floats
    regret: Floats
    pseudo_regret: Floats
    epochs: "np.recarray[Any, Any]" = field(repr=False)
    partition: Partition
    groupings: tuple[tuple[int, Partition], ...] = field(repr=False)
    agent: str
    seed: Any
    returns: "np.recarray[Any, Any]" = field(default_factory=lambda: Episodes().returns, repr=False)
    learned: Learned | None = field(default=None, repr=False)
    objective: Objective = AVERAGE

    def __repr__(self) -> str:
        if not self.steps.size:
            return f"Run(agent={self.agent!r}, steps=0)"
        episodes = ""
        if len(self.returns):
            episodes = f"episodes={len(self.returns)}, mean_return={self.mean_return:.6g}, "
        return (
            f"Run(agent={self.agent!r}, steps={self.steps[-1]}, reward={self.reward[-1]:.6g}, "
            f"regret={self.regret[-1]:.6g}, pseudo_regret={self.pseudo_regret[-1]:.6g}, "
            f"{episodes}epochs={len(self.epochs)}, n_clusters={self.partition.n_clusters})"
        )

    def _repr_html_(self) -> str:
        rows: list[tuple[str, object]] = [
            ("objective", str(self.objective)),
            ("steps", number(self.steps[-1] if self.steps.size else 0)),
        ]
        figures = {
            "reward": self.reward,
            "regret": self.regret,
            "pseudo-regret": self.pseudo_regret,
        }
        rows += [
            (name, number(values[-1]))
            for name, values in figures.items()
            if values.size and np.isfinite(values[-1])
        ]
        if len(self.returns):
            rows.append(("episodes", number(len(self.returns))))
            rows.append(("mean return, last fifth", number(self.mean_return)))
            if np.isfinite(self.policy_value):
                rows.append(("what the policy earns, by the model", number(self.policy_value)))
            if np.isfinite(self.success_rate):
                rows.append(("success rate, last fifth", f"{self.success_rate:.1%}"))
        rows += [("epochs", number(len(self.epochs))), ("groups", self.partition.n_clusters)]
        return html_table(f"Run of {self.agent}, seed {self.seed}", rows)

    @property
    def policy(self) -> Policy | None:
        """What to do by the mean of what was learned, without exploring."""
        return None if self.learned is None else self.learned.policy

    @property
    def model(self) -> "LatentModel":
        """What was learned, as `romdp.fit` would return it from a log of the run.

        Its observations are the environment's own, its ``policy`` is the plan of `policy`, and its
        states are numbered as those of `policy.state`: as in ``partition``, without groups in which
        nothing was done.

        Raises
        ------
        MisuseError
            If nothing has a hidden state yet, or the agent counts nothing, as Q-learning and DQN.
        """
        if self.learned is None:
            raise MisuseError("this run keeps nothing of what was learned")
        return self.learned.model

    @property
    def mean_return(self) -> float:
        """The mean return of the episodes that end in the last fifth of the steps.

        It is NaN where no episode ends there.
        """
        return mean_return(self.returns, int(self.steps[-1]) if self.steps.size else 0)

    @property
    def success_rate(self) -> float:
        """The share of those episodes that paid anything.

        It is NaN where that is not success: where some episode cost something, or where all of
        them paid.
        """
        return success_rate(self.returns, int(self.steps[-1]) if self.steps.size else 0)

    @cached_property
    def policy_value(self) -> float:
        """What an episode of `policy` pays, by the model of what was learned.

        Episodes are as long at most as the longest one was. `romdp.evaluate_policy` plays the
        policy instead, and owes nothing to the model. NaN where there are no episodes, or the agent
        counts nothing.
        """
        if self.learned is None or not len(self.returns):
            return float("nan")
        return self.learned.value(int(self.returns["length"].max()))

    @property
    def warning(self) -> str | None:
        """What looks wrong, and what to try; None if episodes pay more and more.

        The last fifth of the steps is compared with the first tenth of the episodes, in which an
        agent knows next to nothing, and with `policy_value`: less than half of the way from the one
        to the other is too little.
        """
        returns = self.returns["return"]
        first, last = returns[: len(returns) // 10], recent(self.returns, int(self.steps[-1]))
        if not len(first) or not len(last):
            return None
        began, gained, value = first.mean(), last.mean() - first.mean(), self.policy_value
        earned = f"the last episodes earned {number(last.mean())} on average"
        if gained < (value - began) / 2:
            return (
                f"{earned}, but by what was learned the policy earns {number(value)}. Either the "
                "agent still explores, or the model is wrong: romdp.evaluate_policy(run.policy, "
                "env) tells. In the first case play more steps; in the second an observation may "
                "not show all that matters, so let the agent remember more (memory='auto')"
            )
        if gained <= _SURE * np.sqrt(first.var() / len(first) + last.var() / len(last)):
            return (
                f"{earned}, no more than the first ones ({number(began)}) as far as one can tell. "
                "Play more steps; tell the agent the discount that suits the task, such as "
                "objective=0.99; or, if an observation does not show all that matters, let it "
                "remember more (memory='auto')"
            )
        return None

    def to_arrow(self) -> "pyarrow.Table":
        """Return the figures as an Arrow table: step, reward, regret, pseudo_regret, n_clusters."""
        import pyarrow

        return pyarrow.table(self._columns())

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the figures as a pandas frame, with the columns of `to_arrow`."""
        import pandas

        return pandas.DataFrame(self._columns())

    def _columns(self) -> dict[str, NDArray[Any]]:
        epoch = np.searchsorted(self.epochs.start, self.steps - 1, side="right") - 1
        return {
            "step": self.steps,
            "reward": self.reward,
            "regret": self.regret,
            "pseudo_regret": self.pseudo_regret,
            "n_clusters": self.epochs.n_clusters[epoch],
        }

    def plot(self, axes: "Axes | None" = None) -> "Axes":
        """Draw how the run went (needs matplotlib).

        Where there are episodes: the return of each as a dot, and their running mean as a line,
        against the step; the first episodes do not set the axis. Else regret against the square
        root of the step: pseudo-regret as a line and regret as a thin one behind it. Else the
        reward per step. Where no axes are given, pyplot makes a figure: ``pyplot.show()`` and
        ``pyplot.savefig(...)`` are about it.
        """
        if axes is None:
            from matplotlib.pyplot import subplots

            axes = subplots(figsize=(6, 4), layout="constrained")[1]
        if len(self.returns):
            step, curve = learning_curve(self.returns)
            shown = axes.get_ylim() if axes.lines else ()  # of runs drawn before
            span = shown_range(step, curve, self.returns["step"], self.returns["return"])
            (line,) = axes.plot(step, curve, label=self.agent)
            axes.scatter(
                self.returns["step"], self.returns["return"], 2, color=line.get_color(), alpha=0.3
            )
            room = 0.04 * (span[1] - span[0])
            axes.set_ylim(min([span[0] - room, *shown]), max([span[1] + room, *shown]))
            axes.set_xlabel("step")
            axes.set_ylabel("return per episode (line: running mean)")
            axes.legend()
            return axes
        root = np.sqrt(self.steps)
        if np.isnan(self.regret).any():
            axes.plot(root, self.reward / self.steps, label=self.agent)
            axes.set_ylabel("reward per step")
        else:
            (line,) = axes.plot(root, self.pseudo_regret, label=self.agent)
            axes.plot(root, self.regret, color=line.get_color(), linewidth=0.6, alpha=0.6)
            axes.set_ylabel("regret (thick: pseudo-regret)")
        axes.set_xlabel("square root of the step")
        axes.legend()
        return axes


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

    def run(self, last: Figure, epoch: EpochRow | None, **about: Any) -> Run:
        """Return the run up to the ``last`` figure, in the middle of an ``epoch``.

        ``about`` has the fields of `Run` that are not noted here.
        """
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
            groupings=tuple(self.groupings),
            **about,
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
