"""`HiddenStates`: finding hidden states with the manners of scikit-learn, which is not needed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.clustering.clusterer import Clusterer
from romdp.core.errors import InvalidInputError
from romdp.core.estimator import Estimator, not_fitted
from romdp.core.randomness import Seed
from romdp.core.validation import choice, rectangular, whole_array
from romdp.data.trajectory import Trajectory
from romdp.logs.fitting import fit
from romdp.logs.model.evaluation import log_score
from romdp.logs.model.latent import LatentModel

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
        return _shown(found)
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
        if seen.vectors is not None:
            raise InvalidInputError("give a trajectory of vectors its lengths itself")
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
    return Steps(seen, {}, _shown(seen), seen.actions, inner, led_to)


def _shown(seen: Trajectory) -> NDArray[Any]:
    return seen.observations if seen.vectors is None else seen.vectors


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


class HiddenStates(Estimator):
    """An estimator of the hidden states behind observations.

    Nothing happens in the constructor and arguments are kept as given; what `fit` learns ends in
    an underscore. ``sklearn.base.clone`` and a grid search over parameters work on it.

    Parameters
    ----------
    n_states
        The number of hidden states; None lets the data choose.
    method
        How observations are grouped; see `romdp.fit`.
    unknown
        What `predict` does with observations that were never seen: ``"mark"`` gives -1,
        ``"error"`` raises.
    seed
        The same seed and the same data give the same states.

    Attributes
    ----------
    labels_ : ndarray of int64, one for each step
        The hidden state at each step of the data.
    model_ : LatentModel
        Everything that was learned.
    n_states_ : int
        The number of hidden states.

    Notes
    -----
    A grid search cuts whatever it is given into folds, so give it a list of trajectories, such as
    ``list(seen.episodes())``: the folds are then made of whole episodes. Rows of an array would be
    torn out of their order.

    It passes those of scikit-learn's estimator checks that ask for manners: cloning, parameters,
    refusals, pickling, doing the same twice. Those do not apply that feed a matrix with other
    numbers of columns than two or three (a column here is the observation, the action or the
    reward, not a feature; so there is no ``n_features_in_``), or that want `predict` to refuse a
    plain list of observations.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
    >>> seen = romdp.simulate(world, "uniform", steps=20_000, seed=0)
    >>> states = HiddenStates().fit(seen)
    >>> states
    HiddenStates()
    >>> states.n_states_, len(states.labels_)
    (3, 20000)

    >>> from sklearn.model_selection import GridSearchCV  # doctest: +SKIP
    >>> episodes = list(seen.episodes())
    >>> GridSearchCV(HiddenStates(), {"n_states": [2, 3, 4]}).fit(episodes)  # doctest: +SKIP
    """

    def __init__(
        self,
        n_states: int | None = None,
        method: str | Clusterer = "likelihood",
        unknown: str = "mark",
        seed: Seed = 0,
    ) -> None:
        self.n_states = n_states
        self.method = method
        self.unknown = unknown
        self.seed = seed

    def fit(
        self,
        X: Trajectories | ArrayLike,  # noqa: N803 - what scikit-learn calls it
        y: None = None,
        *,
        lengths: ArrayLike | None = None,
    ) -> Self:
        """Find the hidden states.

        Parameters
        ----------
        X
            A trajectory, or a list of them; or one row for each step in order, with the columns
            observation, action and, if there are three, reward.
        y
            Ignored.
        lengths
            Number of rows of each episode; by default one episode.
        """
        choice(self.unknown, "unknown", ("mark", "error"))
        steps = read_steps(X, lengths)
        self.model_: LatentModel = fit(
            steps.data,
            steps.columns.get("observation"),
            steps.columns.get("action"),
            steps.columns.get("reward"),
            steps.columns.get("episode"),
            n_states=self.n_states,
            method=self.method,
            seed=self.seed,
            holdout=0,
        )
        self.n_states_ = self.model_.n_states
        self.labels_: NDArray[np.int64] = self.model_.predict(steps.observations)
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:  # noqa: N803
        """Return the hidden state of each step or observation.

        Parameters
        ----------
        X
            As for `fit`, or a sequence of observations alone.
        """
        states: NDArray[np.int64] = self._fitted().predict(read_observations(X), self.unknown)
        return states

    def fit_predict(
        self,
        X: Trajectories | ArrayLike,  # noqa: N803
        y: None = None,
        *,
        lengths: ArrayLike | None = None,
    ) -> NDArray[np.int64]:
        """Find the hidden states and return that of each step."""
        return self.fit(X, lengths=lengths).labels_

    def score(self, X: Trajectories | ArrayLike, y: None = None) -> float:  # noqa: N803
        """Return the mean log probability of the next observation, in nats per step.

        Larger is better; this is what a grid search compares.
        """
        model = self._fitted()
        before, actions, after = read_steps(X).following()
        if not before:
            raise InvalidInputError("X has no two steps in a row; there is nothing to predict")
        places = {name: i for i, name in enumerate(model.observation_names)}
        moves = {name: i for i, name in enumerate(model.action_names)}
        source, target = (
            np.array([places.get(name, -1) for name in names], np.int64)
            for names in (before, after)
        )
        done = np.array([moves.get(name, -1) for name in actions], np.int64)
        labels = model.partition.labels
        return log_score(model.counts, labels, model.visits, source, done, target)

    def _fitted(self) -> LatentModel:
        if not hasattr(self, "model_"):
            raise not_fitted(self)
        return self.model_

    def __sklearn_tags__(self) -> Any:
        """Say what this is to scikit-learn, which alone asks."""
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags("clusterer", TargetTags(required=False), input_tags=InputTags())
