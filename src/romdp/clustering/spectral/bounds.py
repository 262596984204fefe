"""How far an estimated entry of V_2 may be off: three answers to the paper's B_O.

``lem:decomp`` bounds the error of a column by ``C_2 sqrt(log(2 Y^(3/2) / delta) / nu)`` with a
constant that nobody knows. One may state it (`constant_bound`), compute it from the truth
(`theory_bound`), or estimate the error of every entry from the data (`bootstrap`), which is
ours and the default.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from romdp.clustering.spectral.factors import Factors, matrix_factors, separated, tensor_factors
from romdp.clustering.spectral.moments import Moments
from romdp.clustering.spectral.population import Views
from romdp.clustering.spectral.report import ActionReport
from romdp.core.arrays import Bools, Floats
from romdp.core.errors import StructureError
from romdp.exact.chains import Mixing
from romdp.theory.concentration import (
    concentration_bound,
    enough_samples,
    pair_error,
    rank_samples,
    triple_log,
)
from romdp.theory.views import View, least_singular_value

if TYPE_CHECKING:
    from romdp.clustering.spectral.method import Spectral


_MOST_FAILURES = 0.1  # of the replicates; beyond, the rank itself is in doubt


def constant_bound(constant: float, n_groups: int, n_samples: float, delta: float) -> float:
    """Return ``C sqrt(log(2 Y^(3/2) / delta) / nu)`` (``eq:BO``).

    Examples
    --------
    >>> round(constant_bound(1.0, n_groups=30, n_samples=10_000, delta=0.05), 4)
    0.0296
    """
    return constant * math.sqrt(triple_log(n_groups, delta) / n_samples)


def theory_bound(view: View, n_groups: int, n_samples: float, delta: float) -> float:
    """Return B_O of ``eq:epst1``; with the constants of the world itself IT USES THE TRUTH.

    It is infinite where V_1 has not the full rank, so that the method cannot work.
    """
    return float(concentration_bound(view, n_groups, n_samples, delta))


def true_view(views: Views) -> View:
    """Return the constants of exact views: omega, the singular values, mixing."""
    pairs = (views.second * views.chance) @ views.third.T
    return _view(views.chance, views.first, views.second, views.third, pairs, views.mixing)


def estimated_view(moments: Moments, factors: Factors) -> View:
    """Return the constants of a decomposition at hand, which stand in for the unknown ones.

    As ``K_p2 = V_p diag(omega) V_2'``, an estimate of V_2 gives one of V_1 and of V_3.
    """
    inverse = np.linalg.pinv(factors.columns).T / factors.chance
    first, third = (np.asarray(moments.second(p, 2) @ inverse) for p in (1, 3))
    return _view(factors.chance, first, factors.columns, third, moments.second(2, 3), None)


def _view(
    chance: Floats, first: Floats, second: Floats, third: Floats, pairs: Any, mixing: Mixing | None
) -> View:
    rank = len(chance)
    return View(
        rank,
        float(chance.min()),
        least_singular_value(first, rank),
        least_singular_value(second, rank),
        least_singular_value(third, rank),
        least_singular_value(pairs, rank),
        mixing,
    )


def missing_precondition(
    settings: "Spectral",
    level: float,
    n_groups: int,
    moments: Moments,
    factors: Factors,
    report: ActionReport,
    truth: View | None,
) -> str:
    """Say what the paper's lemmas ask for in vain; empty if nothing.

    ``truth`` has the constants of the world for the bound ``"theory"``; else they are estimated.
    """
    if settings.bound == "estimated" or not settings.preconditions:
        return ""
    nu = moments.n_samples
    view = estimated_view(moments, factors) if truth is None else truth
    needed = enough_samples(view, n_groups, level, settings.c1)
    if truth is not None:
        if settings.rank is None and settings.g is not None:
            needed += rank_samples(view, n_groups, level, settings.g, settings.epsilon)
    elif settings.g is not None and report.threshold > 0:
        error = pair_error(1.0, n_groups, nu, level)
        if report.threshold < error:
            return f"the threshold lies below the error of K_23, {error:.3g} at least"
        signal = float(report.singular_values[report.rank - 1])
        if report.threshold > signal / 2:
            return f"the threshold exceeds half the smallest singular value, {signal:.3g}"
    return f"lem:concentration asks for {needed} samples" if float(needed) > nu else ""


def entry_bounds(
    settings: "Spectral",
    level: float,
    n_groups: int,
    moments: Moments,
    factors: Factors,
    truth: View | None,
    rng: np.random.Generator,
) -> tuple[Floats, Bools]:
    """Return what each entry of V_2 must exceed, and which columns may be trusted at all."""
    shape = factors.columns.shape
    trusted = np.ones(shape[1], bool)
    bounds = np.empty(shape)
    if settings.bound == "constant":
        bounds[:] = constant_bound(settings.constant, n_groups, moments.n_samples, level)
    elif truth is not None:
        bounds[:] = theory_bound(truth, n_groups, moments.n_samples, level)
    if settings.bound == "estimated" or settings.method == "matrix":
        errors = bootstrap(
            moments,
            factors,
            rng,
            method=settings.method,
            solver=settings.solver,
            n_replicates=settings.n_replicates,
        )
        if settings.method == "matrix":
            trusted = separated(factors.chance, errors.eigenvalue_noise)
        if settings.bound == "estimated":
            quantile = -float(ndtri(level / (shape[0] * shape[1])))
            in_doubt = errors.failed > _MOST_FAILURES
            bounds = np.full(shape, np.inf) if in_doubt else quantile * errors.standard_errors
    # No entry below zero is ever evidence, whatever the bound.
    return np.maximum(settings.factor * bounds, np.finfo(np.float64).tiny), trusted


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """What resampling says about an estimate of V_2.

    Attributes
    ----------
    standard_errors : ndarray, shape (n_middle, k)
        Root mean squared change of every entry between the estimate and its replicates.
    eigenvalue_noise : float
        Largest standard error of the column weights.
    failed : float
        The share of replicates in which the second moments did not reach the rank.
    """

    standard_errors: Floats
    eigenvalue_noise: float
    failed: float


def bootstrap(
    moments: Moments,
    factors: Factors,
    rng: np.random.Generator,
    *,
    method: str = "tensor",
    solver: str = "joint",
    n_replicates: int = 30,
) -> Errors:
    """Estimate the error of every entry of V_2 by resampling the triples.

    Replicates come in any order of columns, so each is matched to the estimate (Hungarian
    method on squared distances). Where the decomposition is not well determined they disagree,
    and the standard errors grow accordingly.
    """
    rank = factors.columns.shape[1]
    if method == "matrix":
        estimate = partial(matrix_factors, rank=rank, rng=rng)
    else:
        estimate = partial(
            tensor_factors,
            rank=rank,
            rng=rng,
            solver=solver,
            n_starts=2,
            start=factors.columns,
            tolerance=1e-6,
        )
    squares = np.zeros_like(factors.columns)
    weight_squares = np.zeros(rank)
    done = 0
    for _ in range(n_replicates):
        try:
            replicate = estimate(moments.resample(rng))
        except StructureError:
            continue
        order = align(replicate.columns, factors.columns)
        squares += (replicate.columns[:, order] - factors.columns) ** 2
        weight_squares += (replicate.chance[order] - factors.chance) ** 2
        done += 1
    if done == 0:
        return Errors(np.full_like(squares, np.inf), np.inf, 1.0)
    noise = float(np.sqrt(weight_squares.max() / done))
    return Errors(np.sqrt(squares / done), noise, 1 - done / n_replicates)


def align(columns: Floats, reference: Floats) -> NDArray[np.intp]:
    """Return the order of the columns that is nearest to the reference.

    Examples
    --------
    >>> align(np.array([[0.1, 0.9], [0.9, 0.1]]), np.eye(2)).tolist()
    [1, 0]
    """
    from scipy.optimize import linear_sum_assignment

    products = reference.T @ columns
    cost = (columns**2).sum(axis=0) - 2 * products  # squared distances but for a row constant
    order: NDArray[np.intp] = linear_sum_assignment(cost)[1]
    return order
