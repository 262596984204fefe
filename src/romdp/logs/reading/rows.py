"""Steps as `HiddenStates` takes them: trajectories, lists of them, or rows of numbers or names."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import rectangular, whole_array
from romdp.data.trajectory import Trajectory

Trajectories = Trajectory | Sequence[Trajectory]


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Steps in order, by name.

    Attributes
    ----------
    data
        What `romdp.fit` reads: a trajectory, or a table of columns.
    columns
        Their names by what they are; empty for a trajectory.
    observations, actions
        What was seen and done at each step.
    inner
        Whether the next row is what a step led to.
    final
        What the steps that are not inner led to, None where nobody knows.
    """

    data: Trajectory | dict[str, Any]
    columns: dict[str, str]
    observations: NDArray[Any]
    actions: NDArray[Any]
    inner: NDArray[np.bool_]
    final: tuple[Any, ...]

    def following(self) -> tuple[list[Any], list[Any], list[Any]]:
        """Return observation, action and next observation of the steps that led somewhere."""
        seen, done = self.observations.tolist(), self.actions.tolist()
        after: list[Any] = [*seen[1:], None]
        for step, name in zip(np.flatnonzero(~self.inner), self.final, strict=True):
            after[step] = name
        known = [i for i, name in enumerate(after) if name is not None]
        return [seen[i] for i in known], [done[i] for i in known], [after[i] for i in known]


def read_steps(data: Trajectories | ArrayLike, lengths: ArrayLike | None = None) -> Steps:
    """Read steps; ``lengths`` cuts them into episodes."""
    if (found := _trajectory(data)) is not None:
        return _of_trajectory(found, lengths)
    rows = _rows(data)
    if rows.ndim != 2 or rows.shape[1] not in (2, 3):
        raise InvalidInputError(
            f"X has shape {rows.shape}; pass a Trajectory, a list of them, or rows of "
            "observation, action and perhaps reward"
        )
    if not len(rows):
        raise InvalidInputError("X holds no rows; there is nothing to learn from")
    names = ("observation", "action", "reward")[: rows.shape[1]]
    table: dict[str, Any] = {
        "observation": _whole(rows[:, 0]),
        "action": _whole(rows[:, 1]),
    }
    if rows.shape[1] == 3:
        table["reward"] = _paid(rows[:, 2])
    sizes = np.array([len(rows)]) if lengths is None else _lengths(lengths, len(rows))
    if lengths is not None:
        table["episode"] = np.repeat(np.arange(len(sizes)), sizes)
        names = (*names, "episode")
    inner = np.ones(len(rows), np.bool_)
    inner[np.cumsum(sizes) - 1] = False
    return Steps(
        table,
        {name: name for name in names},
        table["observation"],
        table["action"],
        inner,
        (None,) * len(sizes),
    )


def read_observations(data: Any) -> Any:
    """Read observations alone, or those of steps."""
    found = _trajectory(data)
    if found is not None:
        return found.observations
    rows = _rows(data)
    return _whole(rows[:, 0]) if rows.ndim == 2 else _whole(rows)


def _trajectory(data: Any) -> Trajectory | None:
    if isinstance(data, Trajectory):
        return data
    if isinstance(data, list | tuple) and data and isinstance(data[0], Trajectory):
        strange = [i for i, part in enumerate(data) if not isinstance(part, Trajectory)]
        if strange:
            raise InvalidInputError(
                f"X[{strange[0]}] is a {type(data[strange[0]]).__name__}, X[0] a Trajectory; pass "
                "trajectories only"
            )
        return Trajectory.concatenate(data)
    return None


def _of_trajectory(seen: Trajectory, lengths: ArrayLike | None) -> Steps:
    if lengths is not None:
        if seen.n_episodes > 1:
            raise InvalidInputError("the trajectory has lengths of its own; leave lengths out")
        sizes = _lengths(lengths, seen.n_steps)
        final = np.append(np.full(len(sizes) - 1, -1), seen.final_observations)
        seen = Trajectory(
            seen.observations,
            seen.actions,
            seen.rewards,
            sizes,
            final,
            n_observations=seen.n_observations,
            n_actions=seen.n_actions,
        )
    inner = np.ones(seen.n_steps, np.bool_)
    inner[seen.starts + seen.lengths - 1] = False
    led_to = tuple(None if name < 0 else name for name in seen.final_observations.tolist())
    return Steps(seen, {}, seen.observations, seen.actions, inner, led_to)


def _lengths(lengths: ArrayLike, n_steps: int) -> NDArray[np.int64]:
    sizes = whole_array(lengths, "lengths", ("n_episodes",), 1, n_steps)
    if sizes.sum() != n_steps:
        raise InvalidInputError(
            f"lengths sums to {sizes.sum()}, but there are {n_steps} rows; give the number "
            "of rows of every episode"
        )
    return sizes


def _rows(data: Any) -> NDArray[Any]:
    """Copy rows to an array; what is no number and no name is refused."""
    if hasattr(data, "tocsr"):
        raise InvalidInputError(
            "X is a sparse matrix, which is not supported: rows are steps, and an observation is "
            "one number or name; pass them as such"
        )
    rows = rectangular(data, "X")
    if rows.dtype.kind == "c":
        raise InvalidInputError("X is complex. Complex data not supported; pass names or numbers")
    if rows.dtype.kind == "f" and not np.isfinite(rows).all():
        at = np.argwhere(~np.isfinite(rows))[0].tolist()
        value = "NaN" if np.isnan(rows[tuple(at)]) else f"{rows[tuple(at)]:g}"
        raise InvalidInputError(
            f"X{at} is {value}: no observation, action or reward is NaN or inf; drop such rows"
        )
    return rows


def _whole(column: NDArray[Any]) -> NDArray[Any]:
    """Rows with a reward are floats; observations in them are whole numbers all the same."""
    if column.dtype.kind == "f" and (column % 1 == 0).all():
        return column.astype(np.int64)
    return column


def _paid(column: NDArray[Any]) -> NDArray[Any]:
    """Rows with names are text or objects; rewards in them are numbers all the same."""
    if column.dtype.kind not in "OUS":
        return column
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the third column of X is the reward, which must be a number: {error}"
        ) from None
