"""What spectral learning saw and decided, action by action; it prints as a table."""

from dataclasses import dataclass, field

import numpy as np

from romdp.core.arrays import Floats, Ints
from romdp.core.text import html_table
from romdp.data.partition import Partition

_SHOWN_MEMBERS = 8
_SHOWN_LINES = 40
_HEAD: tuple[str, ...] = (
    *("action", "samples", "groups", "rank", "sigma_k", "threshold"),
    *("condition", "residual", "bound", "found"),
)

Group = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Groups that a column claimed and that were not merged, and why."""

    members: Group
    reason: str

    def __str__(self) -> str:
        return f"{_listed(self.members)}: {self.reason}"


@dataclass(frozen=True, slots=True, eq=False)
class ActionReport:
    """What was found for one action.

    Attributes
    ----------
    action : int
    n_samples : int
        Triples with the action in the middle: nu(l).
    members : ndarray of int64
        The groups of the grouping so far where the action was taken.
    rank : int
        How many hidden states stand behind them; 0 if that is not known.
    singular_values : ndarray
        The singular values of K_23, decreasing, as far as the rank step computed them.
    threshold : float
        Singular values above it count; NaN where the rank was found otherwise.
    condition : float
        How much noise the method blows up; NaN if nothing was decomposed.
    residual : float
        What the decomposition left over, as a share; NaN if nothing was decomposed.
    columns, bounds : ndarray, shape (len(members), rank)
        The estimate of V_2 and the bound that its entries had to exceed; empty where there is
        none.
    groups : tuple of tuples of int
        The groups that were merged, by their numbers in the grouping so far.
    refused : tuple of Refusal
        What a column claimed in vain.
    note : str
        Why nothing was grouped; empty if the columns were read.
    """

    action: int
    n_samples: int
    members: Ints
    rank: int = 0
    singular_values: Floats = field(default_factory=lambda: np.empty(0))
    threshold: float = float("nan")
    condition: float = float("nan")
    residual: float = float("nan")
    columns: Floats = field(default_factory=lambda: np.empty((0, 0)))
    bounds: Floats = field(default_factory=lambda: np.empty((0, 0)))
    groups: tuple[Group, ...] = ()
    refused: tuple[Refusal, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SpectralReport:
    """Everything that one run of `alg:spectral.learning` saw and decided.

    Attributes
    ----------
    actions : tuple of ActionReport
        One for each action.
    partition : Partition
        The new grouping of the observations: the one before, with the groups merged in.
    level : float
        The failure probability at this epoch.
    description : str
        Which method, solver and bound were used.
    uses_truth : bool
        Whether a bound was computed from the world itself; no learner may then be judged by it.
    """

    actions: tuple[ActionReport, ...]
    partition: Partition
    level: float
    description: str
    uses_truth: bool

    @property
    def groups(self) -> tuple[Group, ...]:
        """What was merged, over all actions."""
        return tuple(group for action in self.actions for group in action.groups)

    def __str__(self) -> str:
        rows = [_HEAD, *(_row(action) for action in self.actions)]
        width = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
        table = ["  ".join(f"{c:>{w}}" for c, w in zip(row, width, strict=True)) for row in rows]
        lines = _shortened([*self._title(), *table, *self._notes()])
        return "\n".join([*lines, f"result: {self.partition}"])

    def _repr_html_(self) -> str:
        title, *warning = self._title()
        notes = [*warning, *_shortened(self._notes()), f"result: {self.partition}"]
        return html_table(title, [_row(action) for action in self.actions], _HEAD, notes)

    def _title(self) -> list[str]:
        title = f"Spectral learning: {self.description}, level {self.level:.3g}"
        return [title, "NOTE: the bounds use the true world"] if self.uses_truth else [title]

    def _notes(self) -> list[str]:
        lines = []
        for action in self.actions:
            where = f"action {action.action}: "
            if action.note:
                lines.append(f"{where}{action.note}")
            lines += [f"{where}grouped {_listed(group)}" for group in action.groups]
            lines += [f"{where}refused {refusal}" for refusal in action.refused]
        return lines


def _shortened(lines: list[str]) -> list[str]:
    hidden = len(lines) - _SHOWN_LINES
    return [*lines[:_SHOWN_LINES], f"... and {hidden} more lines"] if hidden > 0 else lines


def _row(action: ActionReport) -> tuple[str, ...]:
    kept = action.singular_values[: action.rank]
    bound = float(np.median(action.bounds)) if action.bounds.size else np.nan
    return (
        str(action.action),
        f"{action.n_samples:,}",
        str(len(action.members)),
        str(action.rank) if action.rank else "-",
        _number(kept[-1] if len(kept) else np.nan),
        *(_number(x) for x in (action.threshold, action.condition, action.residual, bound)),
        str(len(action.groups)),
    )


def _number(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.3g}"


def _listed(members: Group) -> str:
    shown = ", ".join(str(member) for member in members[:_SHOWN_MEMBERS])
    more = f", ... ({len(members)} in all)" if len(members) > _SHOWN_MEMBERS else ""
    return f"{{{shown}{more}}}"
