"""Ways to look at vectors, and what an encoder learned of them: from a vector to a code.

A view is a linear map of the vectors and a codebook in the space that it leads to. How one of them
is chosen is in `romdp.encoding.choosing`.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.formats import Format, exact, index, real, whole
from romdp.core.validation import freeze
from romdp.data.vectors import blocks, vector_array
from romdp.encoding.codebook import Codebook
from romdp.encoding.directions import LinearMap

VIEWS = ("plain", "standard", "white", "actions", "apart")
"""As the vectors are; with columns of variance one; whitened; the directions that actions and
rewards depend on; and codes that lie apart in a space where each has covariance one."""

ENCODING = Format(
    "encoder",
    map_center=real("features"),
    map_matrix=real("features space"),
    points=real("codes space"),
    sizes=real("codes", 0.0),
    reach=real("2", finite=False),
    teaching_center=real("features"),
    teaching_matrix=real("features taught"),
    scored=index("views", of=len(VIEWS)),
    scores=real("views 2", finite=False),
    view=index("", of=len(VIEWS)),
    rank=whole(low=0),
    strengths=real("*", 0.0),
    noise=real(finite=False),
    is_signal=exact(np.bool_),
    constant=index("*", of="features"),
    has_features=exact(np.bool_),
    stepwise=exact(np.bool_),
)


@dataclass(frozen=True, eq=False)
class Encoding:
    """What an `Encoder` learned: from a vector to a code. It never changes.

    Attributes
    ----------
    view
        The name of the view that won.
    map
        The view's linear map.
    codebook
        The codes in the view's space.
    teaching_map
        The map into the space in which decoders are fitted.
    scores
        The held-out score and its standard error, in nats per step, of every view that was tried.
    rank
        How many directions actions and rewards depend on, at once or some steps later.
    strengths, noise
        The singular values behind the rank, and the largest one that chance gave.
    is_signal
        Whether the codes predict anything that actions do, or rewards.
    constant
        Numbers of the columns that never vary.
    features
        What vectors go through first: the argument of the `Encoder`.
    stepwise
        Whether a code means another state at every step of the episode: codes predict clearly
        better together with the step.
    """

    view: str
    map: LinearMap
    codebook: Codebook
    teaching_map: LinearMap
    scores: Mapping[str, tuple[float, float]]
    rank: int
    strengths: Floats
    noise: float
    is_signal: bool
    constant: tuple[int, ...] = ()
    features: Any = None
    stepwise: bool = False

    @property
    def n_features(self) -> int:
        """The length of a vector."""
        return len(self.map.center)

    @property
    def n_codes(self) -> int:
        """Number of codes."""
        return self.codebook.n_codes

    @property
    def tells_states(self) -> bool:
        """Whether each code is a state, from its first vector on: it lies apart from the others.

        Where the step matters, states are met at many steps, so codes are grouped all the same.
        """
        return self.view == "apart" and not self.stepwise

    def prepare(self, vectors: ArrayLike) -> NDArray[Any]:
        """Check vectors of a user and put them through ``features``."""
        rows = apply_features(self.features, vector_array(vectors))
        if rows.shape[1] != self.n_features:
            raise InvalidInputError(
                f"vectors have {rows.shape[1]} numbers each; those that were learned from have "
                f"{self.n_features}"
            )
        return rows

    def codes(self, vectors: NDArray[Any]) -> Ints:
        """Return the code of each vector that was prepared."""
        return np.concatenate([self.codebook.nearest(self.map(rows))[0] for rows in cut(vectors)])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays, for a file."""
        return ENCODING.pack(
            {
                "map_center": self.map.center,
                "map_matrix": self.map.matrix,
                "points": self.codebook.points,
                "sizes": self.codebook.sizes,
                "reach": [self.codebook.radius, self.codebook.slack],
                "teaching_center": self.teaching_map.center,
                "teaching_matrix": self.teaching_map.matrix,
                "scores": np.array(list(self.scores.values())).reshape(-1, 2),
                "scored": [VIEWS.index(name) for name in self.scores],
                "view": VIEWS.index(self.view),
                "rank": self.rank,
                "strengths": self.strengths,
                "noise": self.noise,
                "is_signal": self.is_signal,
                "constant": self.constant,
                "has_features": self.features is not None,
                "stepwise": self.stepwise,
            }
        )[0]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], features: Any = None) -> Self:
        """Read what `arrays` returned; what does not fit together is a `StorageError`.

        ``features`` is the object that the `Encoder` was given, if there was one: no file holds it.
        """
        found = ENCODING.read(arrays)
        if found["has_features"] != (features is not None):
            raise InvalidInputError(
                "this encoder was fitted on features of the vectors, which no file holds; pass "
                "the same object as features="
                if features is None
                else "this encoder was fitted on the vectors themselves; leave out features="
            )
        points, reach = found["points"], found["reach"]
        if not len(points) or np.isnan(reach).any():
            raise StorageError("the encoder is damaged: it has no codes")
        return cls(
            view=VIEWS[found["view"]],
            map=LinearMap(freeze(found["map_center"]), freeze(found["map_matrix"])),
            codebook=Codebook(freeze(points), freeze(found["sizes"]), *reach.tolist()),
            teaching_map=LinearMap(
                freeze(found["teaching_center"]), freeze(found["teaching_matrix"])
            ),
            scores=_named_scores([VIEWS[i] for i in found["scored"]], found["scores"]),
            rank=found["rank"],
            strengths=freeze(found["strengths"]),
            noise=found["noise"],
            is_signal=found["is_signal"],
            constant=tuple(found["constant"].tolist()),
            features=features,
            stepwise=found["stepwise"],
        )


def _named_scores(names: Sequence[str], numbers: Any) -> Mapping[str, tuple[float, float]]:
    return {name: (float(m), float(e)) for name, (m, e) in zip(names, numbers, strict=True)}


def apply_features(features: Any, vectors: NDArray[Any]) -> NDArray[Any]:
    """Put vectors through an object with ``transform``, a function or a network of PyTorch.

    None leaves them alone. What goes wrong inside ``features`` is raised as it is.
    """
    if features is None:
        return vectors
    torch = sys.modules.get("torch")  # where nobody has imported it, there is no network
    network = torch is not None and isinstance(features, torch.nn.Module)
    if network and not hasattr(type(features), "transform"):
        made = np.concatenate([_ask(features, rows, torch) for rows in cut(vectors)])
    else:
        change = getattr(features, "transform", features)
        if not callable(change) or (isinstance(features, type) and change is not features):
            raise InvalidInputError(
                f"features is {features!r}; pass an object with transform, a function or a "
                "torch.nn.Module, or None"
            )
        made = change(vectors)
        made = np.asarray(made.toarray() if hasattr(made, "toarray") else made)  # it may be sparse
    rows = vector_array(made, "what features returns")
    if len(rows) != len(vectors):
        raise InvalidInputError(
            f"features returns {len(rows)} rows for {len(vectors)} vectors; it must return one each"
        )
    return rows


def _ask(network: Any, vectors: NDArray[Any], torch: Any) -> NDArray[Any]:
    """Ask a network of PyTorch; dropout and the like are off, so that it answers the same twice."""
    like = next((p for p in network.parameters() if p.is_floating_point()), torch.zeros(0))
    modes = [(part, part.training) for part in network.modules()]
    network.eval()
    try:
        with torch.no_grad():
            made = network(torch.tensor(vectors, dtype=like.dtype, device=like.device))
    finally:
        for part, training in modes:
            part.training = training
    if not isinstance(made, torch.Tensor) or made.ndim == 0:
        raise InvalidInputError(
            f"features returns a {type(made).__name__}, not a tensor with one row per vector"
        )
    answer: NDArray[Any] = made.to("cpu", torch.float32).numpy()
    return answer


def cut(vectors: NDArray[Any]) -> list[NDArray[Any]]:
    """Cut vectors into blocks of bounded memory; there is at least one."""
    return [vectors[rows] for rows in blocks(vectors)]
