"""`Encoder`: learns which code stands for which vectors, as an estimator of scikit-learn."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from romdp.core.arrays import Ints
from romdp.core.errors import InvalidInputError, MisuseError, UnknownNameError
from romdp.core.formats import Format, fact, part
from romdp.core.randomness import Seed, generator, seed_sequence
from romdp.core.storage import PathLike, read_arrays, reading
from romdp.core.text import one_line
from romdp.core.validation import shown, whole_number
from romdp.data.trajectory import Trajectory
from romdp.data.vectors import column_names, vector_array
from romdp.encoding.choosing import learn_encoding
from romdp.encoding.scoring import vectors_of
from romdp.encoding.views import VIEWS, Encoding, apply_features, cut


class NotFittedYetError(MisuseError, NotFittedError):  # type: ignore[misc]  # it has no types
    """An estimator was asked before it was fitted."""

    def __init__(self, estimator: Any) -> None:
        super().__init__(f"this {type(estimator).__name__} is not fitted yet; call fit first")


def checked(estimator: Any, given: Any, **rules: Any) -> Any:
    """Check data by scikit-learn's rules (see ``validate_data``), in errors of our own kind."""
    try:
        with np.errstate(invalid="ignore"):  # it adds up what may be infinite before it refuses it
            return validate_data(estimator, given, **rules)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"X: {one_line(error, 400)}") from error


ENCODER = Format(
    "encoder",
    2,
    encoding=part(),
    views=fact(str | tuple[str, ...]),
    n_codes=fact(int | None),
    seed=fact(tuple[int | tuple[int, ...], tuple[int, ...]]),
    n_features_in=fact(int | None),
    feature_names_in=fact(tuple[str, ...]),
)
_SMALLEST = 1e-150  # squares of smaller differences are zero, or nearly so


class Encoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Learn a view of vectors and codes in it, such that codes predict what actions do.

    Parameters
    ----------
    views
        Which views are compared: ``"plain"`` (the vectors as they are), ``"standard"`` (columns of
        variance one), ``"white"`` (whitened), ``"actions"`` (the few directions that actions and
        rewards depend on), ``"apart"`` (codes that lie apart, however rare they are). The one
        whose codes predict next codes and rewards of held-out steps best is kept. A single name
        is that view alone.
    n_codes
        The number of codes; None grows with the number of steps.
    features
        What vectors go through first, pictures as flat rows: an object with ``transform`` (a
        scaler, random Fourier features), a function, or a ``torch.nn.Module``, which is asked as
        it is (in ``eval`` mode, without gradients) and never trained.
    seed
        The same seed and the same vectors give the same codes.

    Attributes
    ----------
    encoding_ : Encoding
        What was learned; it never changes, and a later `fit` makes a new one.
    n_features_in_ : int
        The length of a vector, before ``features``.
    feature_names_in_ : ndarray of str
        The names of the columns, where the vectors came with any. Frames that `transform` and
        `predict` are given must then have the same ones in the same order.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> states, actions = np.zeros(2000, int), rng.integers(2, size=2000)
    >>> for t in range(1999):
    ...     states[t + 1] = (states[t] + actions[t]) % 3
    >>> vectors = np.eye(3)[states] + 0.1 * rng.standard_normal((2000, 3))
    >>> encoder = Encoder().fit(vectors, actions=actions)
    >>> encoder.predict(vectors).shape, encoder.encoding_.is_signal
    ((2000,), True)
    """

    def __init__(
        self,
        views: str | Sequence[str] = VIEWS,
        n_codes: int | None = None,
        features: Any = None,
        seed: Seed = 0,
    ) -> None:
        self.views = views
        self.n_codes = n_codes
        self.features = features
        self.seed = seed

    def fit(
        self,
        X: Any,  # noqa: N803 - what scikit-learn calls it
        y: None = None,
        *,
        actions: ArrayLike | None = None,
        rewards: ArrayLike | None = None,
        lengths: ArrayLike | None = None,
        terminated: ArrayLike | None = None,
    ) -> Self:
        """Learn codes from the vectors of steps in order.

        Parameters
        ----------
        X
            One row per step, shape (n, d), or (n, height, width, ...) for pictures; at least two.
        y
            Ignored.
        actions, rewards
            What was done at each step and what it paid. Without actions, codes are judged by how
            well they predict the next code.
        lengths
            Number of steps of each episode; by default one episode.
        terminated
            Whether the last step of each episode ended it for good; by default that is not known.
        """
        given = vector_array(X)
        vectors = apply_features(self.features, given)
        steps = make_steps(vectors, actions, rewards, lengths, terminated)
        self.encoding_ = self.learn(steps)
        self._remember(given.shape[1], column_names(X))
        return self

    def _remember(self, n_features: int | None, names: Sequence[str]) -> None:
        """Keep what vectors were like before ``features``, and forget those of an earlier fit."""
        for attribute in {"n_features_in_", "feature_names_in_"} & vars(self).keys():
            delattr(self, attribute)
        if n_features is not None:
            self.n_features_in_ = n_features
        if names and len(names) == n_features:  # a column of lists has one name
            self.feature_names_in_ = np.asarray(names, object)

    def learn(
        self,
        steps: Trajectory,
        previous: Encoding | None = None,
        group: Callable[[Trajectory, Ints], Ints] | None = None,
        by_step: bool = False,
    ) -> Encoding:
        """Return what `fit` learns from steps, whose vectors went through ``features``.

        The other arguments are those of `romdp.encoding.choosing.learn_encoding`.
        """
        views = self._chosen_views()
        if self.n_codes is not None:
            whole_number(self.n_codes, "n_codes", 1)
        _check_amount(steps)
        return learn_encoding(
            steps,
            generator(self.seed),
            views=views,
            n_codes=self.n_codes,
            previous=previous,
            features=self.features,
            group=group,
            by_step=by_step,
        )

    def _chosen_views(self) -> tuple[str, ...]:
        if not isinstance(self.views, Iterable):
            raise InvalidInputError(f"views is {shown(self.views)}; choose from {', '.join(VIEWS)}")
        views = (self.views,) if isinstance(self.views, str) else tuple(self.views)
        for view in views:
            if view not in VIEWS:
                raise UnknownNameError("view", str(view), VIEWS)
        if not views:
            raise InvalidInputError(f"views is empty; choose from {', '.join(VIEWS)}")
        return views

    def transform(self, X: Any) -> Any:  # noqa: N803
        """Return the coordinates of vectors in the view that was chosen.

        They are an array, unless ``set_output`` asked for a data frame.
        """
        encoding, vectors = self._fitted(), self._prepare(X)
        return np.concatenate([encoding.map(rows) for rows in cut(vectors)])

    def predict(self, X: Any) -> Ints:  # noqa: N803
        """Return the code of each vector."""
        return self._fitted().codes(self._prepare(X))

    def _prepare(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Check vectors against those of `fit` and put them through ``features``."""
        encoding = self._fitted()
        _check_names(column_names(X), list(getattr(self, "feature_names_in_", ())))
        vectors = vector_array(X)
        wanted = getattr(self, "n_features_in_", vectors.shape[1])
        if vectors.shape[1] != wanted:
            raise InvalidInputError(
                f"X has {vectors.shape[1]} features, but {type(self).__name__} is expecting "
                f"{wanted} features as input, as in fit"
            )
        return encoding.prepare(vectors)

    @property
    def _n_features_out(self) -> int:
        """How many coordinates there are: scikit-learn makes names of them."""
        return int(self._fitted().map.matrix.shape[1])

    def save(self, path: PathLike) -> None:
        """Write parameters and what was learned to one ``.npz`` file; no pickle.

        ``features`` are not written.
        """
        seed = seed_sequence(self.seed)
        content = {
            "encoding": self._fitted(),
            "views": self.views if isinstance(self.views, str) else self._chosen_views(),
            "n_codes": self.n_codes,
            "seed": (np.asarray(seed.entropy, object).tolist(), seed.spawn_key),
            "n_features_in": getattr(self, "n_features_in_", None),
            "feature_names_in": getattr(self, "feature_names_in_", ()),
        }
        ENCODER.save(path, content)

    @classmethod
    def load(cls, path: PathLike, features: Any = None) -> Self:
        """Read what `save` wrote; ``features`` must be passed again if there was any."""
        arrays, facts = read_arrays(path, ENCODER.kind, ENCODER.version)
        with reading(path):
            found = ENCODER.read(arrays, facts)
        encoding = Encoding.from_arrays(found["encoding"] or {}, features)
        entropy, key = found["seed"]
        width, names = found["n_features_in"], found["feature_names_in"]
        with reading(path):
            if (features is None and width != encoding.n_features) or len(names) not in (0, width):
                raise ValueError("its parameters do not fit together")
            seed_sequence(entropy)  # refuses what is no seed
            seed: Seed = np.random.SeedSequence(entropy, spawn_key=key) if key else entropy
            encoder = cls(found["views"], found["n_codes"], features, seed)
            encoder._chosen_views()
        encoder._remember(width, names)
        encoder.encoding_ = encoding
        return encoder

    def _fitted(self) -> Encoding:
        if not hasattr(self, "encoding_"):
            raise NotFittedYetError(self)
        return self.encoding_


def make_steps(
    vectors: NDArray[Any],
    actions: ArrayLike | None = None,
    rewards: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    terminated: ArrayLike | None = None,
) -> Trajectory:
    """Check what belongs to vectors that were checked already."""
    taken = np.zeros(len(vectors), np.int64) if actions is None else actions
    return Trajectory(vectors, taken, rewards, lengths, terminated=terminated)


def _check_names(names: list[str], fitted: list[str]) -> None:
    """Refuse a frame whose columns are not those of `fit`; what has no names is taken as it is."""
    if not names or not fitted or names == fitted:
        return
    strange = [repr(name) for name in names if name not in fitted]
    missing = [repr(name) for name in fitted if name not in names]
    if not strange and not missing:
        raise InvalidInputError(
            "the columns are those of fit in another order; pass them in the order of "
            "feature_names_in_"
        )
    said = [
        f"{what} {', '.join(found[:5])}{' and others' * (len(found) > 5)}"
        for what, found in (("fit did not see", strange), ("there is no", missing))
        if found
    ]
    raise InvalidInputError(f"the columns are not those of fit: {'; '.join(said)}")


def _check_amount(steps: Trajectory) -> None:
    """Refuse a single step, and numbers too small to be squared: both would look like no signal."""
    if steps.n_steps < 2:
        raise InvalidInputError(
            "there is only one sample; codes are learned from two steps or more"
        )
    vectors = vectors_of(steps)
    high, low = (end.astype(np.float64) for end in (vectors.max(axis=0), vectors.min(axis=0)))
    widest = float((high - low).max())
    if 0 < widest < _SMALLEST:
        raise InvalidInputError(
            f"no number of the vectors varies by more than {widest:.2g}, too little to square; "
            "multiply the vectors by a large number first"
        )
