"""Group the observations of a trajectory in one call."""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from romdp.clustering.clusterer import Clusterer
from romdp.clustering.grouping import group
from romdp.clustering.likelihood import Likelihood
from romdp.clustering.overlap import Overlap
from romdp.clustering.spectral import Spectral
from romdp.clustering.states import find_states
from romdp.core.errors import InvalidInputError, UnknownNameError
from romdp.core.randomness import Seed, generator
from romdp.core.validation import check
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.data.triples import Triples
from romdp.encoding.scoring import vectors_of
from romdp.planning.timeuniform import TimeUniform

if TYPE_CHECKING:
    from romdp.encoding.encoder import Encoder

_MANY = 1000  # observations
_REPEATED = 0.05  # share of steps whose observation must occur again for a grouping to be tried


def _overlap(n_states: int | None) -> Clusterer:
    if n_states is None:
        raise InvalidInputError('method="overlap" needs the number of hidden states: n_states')
    return Overlap(n_states, TimeUniform())


METHODS: dict[str, Callable[[int | None], Clusterer]] = {
    "likelihood": lambda n_states: Likelihood(n_states=n_states),
    "tensor": lambda n_states: Spectral(rank=n_states),
    "matrix": lambda n_states: Spectral(method="matrix", rank=n_states),
    "overlap": _overlap,
}
"""What `cluster` calls its methods."""


def refuse_unrepeated(counts: Counts, what: str) -> None:
    """Refuse observations that hardly ever occur twice, before a long search for nothing.

    Few observations pass in any case: they are grouped at once.
    """
    visits = counts.visits.sum(axis=1)
    seen, again = int((visits > 0).sum()), int(visits[visits > 1].sum())
    if seen >= _MANY and again < _REPEATED * counts.n_steps:
        raise InvalidInputError(
            f"{what} holds {seen:,} different observations in {counts.n_steps:,} steps, and only "
            f"{again:,} of these are at one that occurs again: nothing can be grouped. Is it an "
            "identifier or a time? Make it coarser; if it is a measurement, pass it as a vector of "
            "one number (a list with one column, or --observation NAME, with a comma)"
        )


def cluster(
    seen: Trajectory,
    method: str | Clusterer = "likelihood",
    n_states: int | None = None,
    seed: Seed = 0,
    *,
    encoder: "Encoder | None" = None,
) -> Partition:
    """Group the observations of a trajectory.

    Parameters
    ----------
    seen
        What was seen; see `Trajectory` and `simulate`. If its observations are vectors, the rows
        are grouped by the hidden states behind them.
    method
        ``"likelihood"`` (ours: needs the least data, any behaviour);
        ``"tensor"`` or ``"matrix"`` (`alg:spectral.learning` with our rank and bound: assumes
        one fixed policy throughout, groups only what it is sure of);
        ``"overlap"`` (the paper's minimal clustering inside `TimeUniform` sets: all or
        nothing, for up to a few thousand observations); or any object like `Clusterer`.
    n_states
        The number of hidden states, if known: the number of groups for ``"likelihood"``, the
        rank for ``"tensor"`` and ``"matrix"``; ``"overlap"`` cannot do without it.
    seed
        The same seed gives the same grouping.
    encoder
        For vectors: how they are encoded, by default `Encoder` with the same seed.

    Returns
    -------
    Partition
        Observations that were never seen have no group (-1) under ``"likelihood"`` and groups
        of their own under the others. Vectors that show no sign of hidden states are all one
        group, and so are observations seen too rarely to tell them apart; a `UserWarning` says so.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
    >>> seen = romdp.simulate(world, "uniform", steps=20_000, seed=0)
    >>> romdp.cluster(seen) == romdp.Partition(world.labels)
    True
    """
    check(seen, "seen", Trajectory)
    check(method, "method", str, "regroup")
    if isinstance(method, str):
        if method not in METHODS:
            raise UnknownNameError("method", method, METHODS)
        method = METHODS[method](n_states)
    if seen.vectors is not None:
        return _cluster_rows(seen, method, seed, encoder)
    counts = Counts.from_trajectory(seen)
    refuse_unrepeated(counts, "the trajectory")
    triples = Triples.from_trajectory(seen) if "triples" in method.needs else None
    found = group(counts, generator(seed), method, triples)
    if found.abstains:
        warnings.warn(
            f"{counts.n_steps:,} steps are too few to tell {len(counts.met()):,} observations "
            "apart: all are one group. Pass more steps, or n_states if you know it",
            UserWarning,
            stacklevel=2,
        )
    return found.partition


def _cluster_rows(
    seen: Trajectory, method: Clusterer, seed: Seed, encoder: "Encoder | None"
) -> Partition:
    """Group the rows of a trajectory of vectors by their hidden states."""
    if "triples" in method.needs:
        raise InvalidInputError('codes of vectors are grouped by pair counts; use "likelihood"')
    from romdp.encoding.encoder import Encoder  # which imports scikit-learn

    decoder = find_states(seen, method, generator(seed), encoder or Encoder(seed=seed))
    for note in decoder.notes:
        warnings.warn(note, UserWarning, stacklevel=3)
    return Partition(decoder.predict(vectors_of(seen)))
