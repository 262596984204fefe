"""`HiddenStates`: finding hidden states as an estimator of scikit-learn."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin

from romdp.clustering.clusterer import Clusterer
from romdp.core.errors import InvalidInputError
from romdp.core.randomness import Seed
from romdp.core.validation import choice, whole_array
from romdp.data.trajectory import Trajectory
from romdp.data.vectors import are_vectors
from romdp.encoding.encoder import NotFittedYetError, checked
from romdp.logs.fitting import fit
from romdp.logs.model.latent import LatentModel

Trajectories = Trajectory | Sequence[Trajectory]


class HiddenStates(ClusterMixin, BaseEstimator):  # type: ignore[misc]  # it has no types
    """An estimator of the hidden states behind observations.

    Parameters
    ----------
    n_states
        The number of hidden states; None lets the data choose.
    method
        How observations are grouped; see `romdp.fit`.
    unknown
        What `predict` does with names that were never seen: ``"mark"`` gives -1, ``"error"``
        raises.
    seed
        The same seed and the same data give the same states.

    Attributes
    ----------
    labels_ : ndarray of int64, one for each row
        The hidden state of each row of the data.
    model_ : LatentModel
        Everything that was learned.
    n_states_ : int
        The number of hidden states.

    Notes
    -----
    A grid search cuts whatever it is given into folds, so give it a list of trajectories, such as
    ``list(seen.episodes())``: the folds are then made of whole episodes. Rows of an array would be
    torn out of their order.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
    >>> seen = romdp.simulate(world, "uniform", steps=20_000, seed=0)
    >>> states = HiddenStates().fit(seen.observations, actions=seen.actions, rewards=seen.rewards)
    >>> states.n_states_, len(states.labels_), states.predict([3, 5]).shape
    (3, 20000, (2,))

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
        actions: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
    ) -> Self:
        """Find the hidden states.

        Parameters
        ----------
        X
            What was seen, one row after the other: names, shape (n,) or (n, k) for names in
            several columns; or vectors of numbers, shape (n, d). A trajectory, or a list of them,
            holds all else itself.
        y
            Ignored.
        actions, rewards
            What was done at each row, and what it paid.
        lengths
            Number of rows of each episode; by default one episode.
        """
        choice(self.unknown, "unknown", ("mark", "error"))
        data, observation = self._table(X, actions, rewards, lengths, reset=True)
        options: dict[str, Any] = dict.fromkeys(_ROLES)
        if not isinstance(data, Trajectory):
            options = {role: role for role in _ROLES if role in data}
        options |= {"n_states": self.n_states, "method": self.method, "seed": self.seed}
        self.model_: LatentModel = fit(data, observation, **options, holdout=0)
        self.n_states_ = self.model_.n_states
        self.labels_: NDArray[np.int64] = self.predict(X)
        return self

    def predict(self, X: Any) -> NDArray[np.int64]:  # noqa: N803
        """Return the hidden state of each row; ``X`` is as for `fit`."""
        states: NDArray[np.int64] = self._fitted().predict(self._shown(X), self.unknown)
        return states

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return how probable each hidden state is for each row; rows sum to one."""
        return self._fitted().predict_proba(self._shown(X))

    def score(
        self,
        X: Trajectories | ArrayLike,  # noqa: N803
        y: None = None,
        *,
        actions: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
    ) -> float:
        """Return the mean log probability of what comes next, in nats per step.

        Larger is better; this is what a grid search compares. The arguments are as for `fit`.
        """
        model = self._fitted()
        data, observation = self._table(X, actions, None, lengths)
        if isinstance(data, Trajectory):
            return model.score(data)
        roles = {role: role if role in data else None for role in ("action", "episode")}
        return model.score(data, observation=observation, **roles)

    def __sklearn_tags__(self) -> Any:
        """Say that names will do, too."""
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        return tags

    def _fitted(self) -> LatentModel:
        if not hasattr(self, "model_"):
            raise NotFittedYetError(self)
        return self.model_

    def _table(
        self, given: Any, actions: Any, rewards: Any, lengths: Any, reset: bool = False
    ) -> tuple[Trajectory | dict[str, Any], Any]:
        """Return the log that `romdp.fit` reads, and its columns of observations."""
        seen = _trajectory(given)
        if seen is not None:
            if not (actions is rewards is lengths is None):
                raise InvalidInputError(
                    "a trajectory has actions, rewards and lengths of its own; leave them out"
                )
            return seen, None
        shown = self._checked(given, reset)
        named = shown.ndim == 2 and shown.dtype.kind not in "iufb"
        parts = [f"X[{i}]" for i in range(shown.shape[1])] if named else ["X"]
        table: dict[str, Any] = dict(zip(parts, shown.T if named else [shown], strict=True))
        for role, values in (("action", actions), ("reward", rewards)):
            if values is not None:
                table[role] = np.asarray(values)
                if table[role].shape != (len(shown),):
                    raise InvalidInputError(
                        f"{role}s has shape {table[role].shape}; pass one for each of the "
                        f"{len(shown):,} rows"
                    )
        if lengths is not None:
            sizes = whole_array(lengths, "lengths", ("n_episodes",), 1, len(shown))
            if sizes.sum() != len(shown):
                raise InvalidInputError(
                    f"lengths sums to {sizes.sum()}, but there are {len(shown)} rows; give the "
                    "number of rows of every episode"
                )
            table["episode"] = np.repeat(np.arange(len(sizes)), sizes)
        return table, parts if named else "X"

    def _shown(self, given: Any) -> Any:
        """Return what rows show, as a model takes it."""
        seen = _trajectory(given)
        if seen is not None:
            return seen.observations if seen.vectors is None else seen.vectors
        return self._checked(given)

    def _checked(self, given: Any, reset: bool = False) -> NDArray[Any]:
        """Return rows as an array of numbers or of objects that name things."""
        flat = not hasattr(self, "n_features_in_")
        if reset:
            flat = not are_vectors(given)
            for known in {"n_features_in_", "feature_names_in_"} & vars(self).keys():
                delattr(self, known)
        rules = {"ensure_2d": not flat, "allow_nd": True, "ensure_min_samples": 2 if reset else 1}
        found = np.asarray(checked(self, given, reset=reset, dtype=None, **rules))
        if found.dtype == object and found.ndim > 1:
            try:
                return found.astype(np.float64)
            except ValueError:  # text
                return found
            except TypeError as error:
                raise InvalidInputError(str(error)) from error
        return found


_ROLES = ("action", "reward", "episode")


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
