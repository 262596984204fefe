"""`HiddenStates`: finding hidden states with the manners of scikit-learn, which is not needed."""

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.clustering.clusterer import Clusterer
from romdp.core.errors import InvalidInputError
from romdp.core.estimator import Estimator, not_fitted
from romdp.core.randomness import Seed
from romdp.core.validation import choice
from romdp.logs.fitting import fit
from romdp.logs.model.evaluation import log_score
from romdp.logs.model.latent import LatentModel
from romdp.logs.reading.rows import Trajectories, read_observations, read_steps


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
