"""`Encoder`: learns which code stands for which vectors, with the manners of scikit-learn."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import InvalidInputError, UnknownNameError
from romdp.core.estimator import Estimator, not_fitted
from romdp.core.randomness import Seed, generator
from romdp.core.storage import PathLike, read_arrays, write_arrays
from romdp.core.validation import real_array, whole_array, whole_number
from romdp.data.vectors import vector_array
from romdp.encoding.choosing import learn_encoding
from romdp.encoding.moments import Floats, Ints
from romdp.encoding.steps import Steps, following_rows
from romdp.encoding.views import VIEWS, Encoding, apply_features, cut

_KIND, _VERSION = "encoder", 1
_SMALLEST = 1e-150  # squares of smaller differences are zero, or nearly so


class Encoder(Estimator):
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
        The length of a vector.
    feature_names_in_ : ndarray of str
        The names of the columns, where the vectors came with any.

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
        names = getattr(X, "columns", None)
        vectors = apply_features(self.features, vector_array(X))
        steps = make_steps(vectors, actions, rewards, lengths, terminated)
        self.encoding_ = self.learn(steps)
        self.n_features_in_ = int(np.prod(np.shape(X)[1:]))
        if names is not None:
            self.feature_names_in_ = np.asarray([str(name) for name in names], object)
        return self

    def learn(
        self,
        steps: Steps,
        previous: Encoding | None = None,
        group: Callable[[Steps, Ints], Ints] | None = None,
    ) -> Encoding:
        """Return what `fit` learns from steps, whose vectors went through ``features``.

        ``previous`` and ``group`` are those of `romdp.encoding.choosing.learn_encoding`.
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
        )

    def _chosen_views(self) -> tuple[str, ...]:
        if not isinstance(self.views, Iterable):
            raise InvalidInputError(f"views is {self.views!r}; choose from {', '.join(VIEWS)}")
        views = (self.views,) if isinstance(self.views, str) else tuple(self.views)
        for view in views:
            if view not in VIEWS:
                raise UnknownNameError("view", str(view), VIEWS)
        if not views:
            raise InvalidInputError(f"views is empty; choose from {', '.join(VIEWS)}")
        return views

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Return the coordinates of vectors in the view that was chosen."""
        encoding = self._fitted()
        return np.concatenate([encoding.map(rows) for rows in cut(encoding.prepare(X))])

    def predict(self, X: Any) -> Ints:  # noqa: N803
        """Return the code of each vector."""
        encoding = self._fitted()
        return encoding.codes(encoding.prepare(X))

    def fit_transform(self, X: Any, y: None = None, **steps: Any) -> Floats:  # noqa: N803
        """Learn codes and return the coordinates of the vectors."""
        return self.fit(X, **steps).transform(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the coordinates that `transform` returns."""
        size = self._fitted().map.matrix.shape[1]
        return np.asarray([f"encoder{i}" for i in range(size)], object)

    def save(self, path: PathLike) -> None:
        """Write what was learned to one ``.npz`` file; no pickle."""
        write_arrays(path, _KIND, _VERSION, self._fitted().arrays())

    @classmethod
    def load(cls, path: PathLike, features: Any = None) -> Self:
        """Read what `save` wrote; ``features`` must be passed again if there was any."""
        encoder = cls(features=features)
        arrays, _ = read_arrays(path, _KIND, _VERSION)
        encoder.encoding_ = Encoding.from_arrays(arrays, features)
        encoder.n_features_in_ = encoder.encoding_.n_features
        return encoder

    def _fitted(self) -> Encoding:
        if not hasattr(self, "encoding_"):
            raise not_fitted(self)
        return self.encoding_

    def __sklearn_tags__(self) -> Any:
        """Say what this is to scikit-learn, which alone asks."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            "transformer",
            TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(),
        )


def make_steps(
    vectors: NDArray[Any],
    actions: ArrayLike | None = None,
    rewards: ArrayLike | None = None,
    lengths: ArrayLike | None = None,
    terminated: ArrayLike | None = None,
) -> Steps:
    """Check what belongs to vectors that were checked already."""
    n = len(vectors)
    taken = np.zeros(n, np.int64)
    if actions is not None:
        taken = whole_array(actions, "actions", (n,), 0, 2**31)
    paid = None if rewards is None else real_array(rewards, "rewards", (n,))
    lasted = np.array([n])
    if lengths is not None:
        lasted = whole_array(lengths, "lengths", ("n_episodes",), 1, n)
        if lasted.sum() != n:
            raise InvalidInputError(f"lengths sums to {lasted.sum()}, but there are {n} vectors")
    ends = None
    if terminated is not None:
        ends = np.asarray(terminated, np.bool_)
        if ends.shape != lasted.shape:
            raise InvalidInputError(
                f"terminated has shape {ends.shape}; there are {len(lasted)} episodes"
            )
    return Steps(vectors, taken, paid, following_rows(lasted, ends), int(taken.max()) + 1)


def _check_amount(steps: Steps) -> None:
    """Refuse a single step, and numbers too small to be squared: both would look like no signal."""
    if steps.n_steps < 2:
        raise InvalidInputError("there is one vector; codes are learned from two steps or more")
    high, low = (end.astype(np.float64) for end in (steps.vectors.max(0), steps.vectors.min(0)))
    widest = float((high - low).max())
    if 0 < widest < _SMALLEST:
        raise InvalidInputError(
            f"no number of the vectors varies by more than {widest:.2g}, too little to square; "
            "multiply the vectors by a large number first"
        )
