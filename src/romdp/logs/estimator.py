"""`HiddenStates`: finding hidden states with the manners of scikit-learn, which is not needed."""

import inspect
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.clustering.evidence import Clusterer
from romdp.errors import InvalidInputError, MisuseError
from romdp.logs.fitting import fit
from romdp.model.evaluation import log_score
from romdp.model.latent import LatentModel
from romdp.randomness import Seed
from romdp.trajectory import Trajectory
from romdp.validation import choice, rectangular


class HiddenStates:
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
    labels_ : ndarray of int64, shape (n_steps,)
        The hidden state at each step of the data.
    model_ : LatentModel
        Everything that was learned.
    n_states_ : int
        The number of hidden states.

    Notes
    -----
    What scikit-learn's estimator checks ask and does not fit here: rows are steps in order, so
    shuffling or leaving out rows changes the meaning; observations are names, so there are no
    features to scale, and no ``n_features_in_``; a step has no sample weight. Cross-validate over
    whole trajectories.

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
        X: Trajectory | ArrayLike,  # noqa: N803 - what scikit-learn calls it
        y: None = None,
        *,
        lengths: ArrayLike | None = None,
    ) -> Self:
        """Find the hidden states.

        Parameters
        ----------
        X
            A trajectory; or one row for each step in order, with the columns observation, action
            and, if there are three, reward.
        y
            Ignored.
        lengths
            Number of rows of each episode; by default one episode.
        """
        choice(self.unknown, "unknown", ("mark", "error"))
        table = _as_table(X, lengths)
        self.model_: LatentModel = fit(
            table,
            "observation",
            "action",
            "reward" if "reward" in table else None,
            "episode" if "episode" in table else None,
            n_states=self.n_states,
            method=self.method,
            seed=self.seed,
            holdout=0,
        )
        self.n_states_ = self.model_.n_states
        self.labels_: NDArray[np.int64] = self.model_.predict(table["observation"])
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:  # noqa: N803
        """Return the hidden state of each step or observation.

        Parameters
        ----------
        X
            As for `fit`, or a sequence of observations alone.
        """
        states: NDArray[np.int64] = self._fitted().predict(_observations(X), self.unknown)
        return states

    def fit_predict(
        self,
        X: Trajectory | ArrayLike,  # noqa: N803
        y: None = None,
        *,
        lengths: ArrayLike | None = None,
    ) -> NDArray[np.int64]:
        """Find the hidden states and return that of each step."""
        return self.fit(X, lengths=lengths).labels_

    def score(self, X: Trajectory | ArrayLike, y: None = None) -> float:  # noqa: N803
        """Return the mean log probability of the next observation, in nats per step.

        Larger is better; this is what a grid search compares.
        """
        model = self._fitted()
        table = _as_table(X, None)
        places = {name: i for i, name in enumerate(model.observation_names)}
        moves = {name: i for i, name in enumerate(model.action_names)}
        seen = np.array([places.get(name, -1) for name in table["observation"].tolist()], np.int64)
        done = np.array([moves.get(name, -1) for name in table["action"].tolist()], np.int64)
        inner = np.diff(table.get("episode", np.zeros(len(seen)))) == 0
        if not inner.any():
            raise InvalidInputError("X has no two steps in a row; there is nothing to foretell")
        labels = model.partition.labels
        following = (seen[:-1][inner], done[:-1][inner], seen[1:][inner])
        return log_score(model.counts, labels, model.visits, *following)

    def _fitted(self) -> LatentModel:
        if not hasattr(self, "model_"):
            raise MisuseError("this HiddenStates is not fitted yet; call fit first")
        return self.model_

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls.__init__).parameters)[1:]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        for name, value in params.items():
            if name not in self._names():
                raise InvalidInputError(
                    f"HiddenStates has no parameter {name!r}; it has {', '.join(self._names())}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        given = [
            f"{name}={getattr(self, name)!r}"
            for name in self._names()
            if getattr(self, name) is not defaults[name].default
            and getattr(self, name) != defaults[name].default
        ]
        return f"HiddenStates({', '.join(given)})"


def _as_table(data: Trajectory | ArrayLike, lengths: ArrayLike | None) -> dict[str, Any]:
    if isinstance(data, Trajectory):
        table: dict[str, Any] = {"observation": data.observations, "action": data.actions}
        if data.rewards is not None:
            table["reward"] = data.rewards
        lengths = data.lengths if data.n_episodes > 1 else lengths
        n_steps = data.n_steps
    else:
        rows = rectangular(data, "X")
        if rows.ndim != 2 or rows.shape[1] not in (2, 3):
            raise InvalidInputError(
                f"X has shape {rows.shape}; pass a Trajectory or rows of observation, action and "
                "perhaps reward"
            )
        table = {"observation": _whole(rows[:, 0]), "action": _whole(rows[:, 1])}
        if rows.shape[1] == 3:
            table["reward"] = rows[:, 2]
        n_steps = len(rows)
    if lengths is not None:
        sizes = np.asarray(lengths)
        if sizes.sum() != n_steps:
            raise InvalidInputError(
                f"lengths sums to {sizes.sum()}, but there are {n_steps} rows; give the number "
                "of rows of every episode"
            )
        table["episode"] = np.repeat(np.arange(len(sizes)), sizes)
    return table


def _whole(column: NDArray[Any]) -> NDArray[Any]:
    """Rows with a reward are floats; observations in them are whole numbers all the same."""
    if column.dtype.kind == "f" and np.isfinite(column).all() and (column % 1 == 0).all():
        return column.astype(np.int64)
    return column


def _observations(data: Any) -> Any:
    if isinstance(data, Trajectory):
        return data.observations
    rows = rectangular(data, "X")
    return _whole(rows[:, 0]) if rows.ndim == 2 else _whole(rows)
