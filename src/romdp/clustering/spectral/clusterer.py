"""Spectral learning of the grouping (``alg:spectral.learning`` of the paper).

For each action: second moments, their rank, symmetrised views, the decomposition of the whitened
third moment, V_2, its entries that are non-zero with high probability, and the groups they form.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from romdp.clustering.evidence import Evidence
from romdp.clustering.homogeneity import Homogeneity
from romdp.clustering.spectral.bounds import bootstrap, constant_bound, theory_bound
from romdp.clustering.spectral.claims import settle
from romdp.clustering.spectral.decomposition import SOLVERS
from romdp.clustering.spectral.factors import Factors, matrix_factors, separated, tensor_factors
from romdp.clustering.spectral.moments import Moments, estimate_rank
from romdp.clustering.spectral.population import exact_views
from romdp.clustering.spectral.report import ActionReport, SpectralReport
from romdp.clustering.symbols import symbol_counts, symbol_triples
from romdp.core.errors import InvalidInputError, StructureError
from romdp.core.validation import choice, real_number, whole_number
from romdp.data.partition import Partition
from romdp.data.triples import Triples
from romdp.exact.romdp import ROMDP

Floats = NDArray[np.float64]

_METHODS = ("tensor", "matrix")
_BOUNDS = ("estimated", "constant", "theory")
_LEAST_LEVEL = 1e-280  # smaller ones have no quantile
_MOST_FAILURES = 0.1  # of the replicates; beyond, the rank itself is in doubt


@dataclass(frozen=True)
class Spectral:
    """Group observations by the decomposition of their moments.

    The triples of one policy are read in the groups found so far ("symbols"); what is found is
    merged into them, so that the grouping only ever gets coarser. One policy shows partial
    groups at most (``lem:partial.cluster``); those of different epochs meet through shared
    observations (``fig:mappolicy``).

    Parameters
    ----------
    method : {"tensor", "matrix"}
        Third moments, or the eigenvectors of M_2 where its eigenvalues are separated.
    solver : {"joint", "power"}
        How the tensor is decomposed; ``"power"`` is the paper's, ``"joint"`` ours.
    bound : {"estimated", "constant", "theory"}
        What an entry of V_2 must exceed: a quantile of its own standard error (ours); the
        paper's B_O with a given constant C; or with the constants of a given world, which uses
        the truth and is flagged in the report.
    constant : float
        C for ``bound="constant"``.
    rank : int, optional
        The number of hidden states seen with each action, if known; else it is estimated. An
        action taken at fewer symbols uses their number.
    factor : float
        Multiplies the bound; 0.5 to look for approximate groups in MDPs without hidden ones.
    verify : bool
        Whether each proposed group must pass `Homogeneity` on the counts (ours).
    epsilon : float
        In the threshold ``g / nu^(1/2 - epsilon)`` for the rank.
    delta : float
        The chance that observations of different hidden states may be grouped together.
    decay : float
        At step t the failure probability is ``delta / t^decay``; the paper's is 6.
    resolution : float
        For `verify`: the fraction of the typical squared difference that counts as none.
    n_replicates : int
        Resamples of the bootstrap.
    n_states : int, optional
        The number of hidden states, if known: a grouping with that many groups is left alone,
        and no coarser one is believed.
    world : ROMDP, optional
        For ``bound="theory"`` only.

    Examples
    --------
    >>> import romdp
    >>> from romdp.data.counts import Counts
    >>> world = romdp.worlds.random_romdp(n_states=2, n_actions=1, n_observations=5, seed=1)
    >>> seen = romdp.simulate(world, "uniform", steps=200_000, seed=0)
    >>> evidence = Evidence(Counts.from_trajectory(seen), Triples.from_trajectory(seen))
    >>> found = Spectral().regroup(evidence, Partition.singletons(5), np.random.default_rng(0))
    >>> found == Partition(world.labels)
    True
    """

    method: str = "tensor"
    solver: str = "joint"
    bound: str = "estimated"
    constant: float = 1.0
    rank: int | None = None
    factor: float = 1.0
    verify: bool = True
    epsilon: float = 0.02
    delta: float = 0.05
    decay: float = 6.0
    resolution: float = 0.5
    n_replicates: int = 30
    n_states: int | None = None
    world: ROMDP | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        choice(self.method, "method", _METHODS)
        choice(self.solver, "solver", SOLVERS)
        choice(self.bound, "bound", _BOUNDS)
        real_number(self.constant, "constant", 0)
        for name in ("rank", "n_states"):
            if getattr(self, name) is not None:
                whole_number(getattr(self, name), name, 1)
        real_number(self.factor, "factor", 0, open_low=True)
        real_number(self.epsilon, "epsilon", 0, 0.5, open_high=True)
        real_number(self.delta, "delta", 0, 1, open_low=True, open_high=True)
        real_number(self.decay, "decay", 0)
        real_number(self.resolution, "resolution", 0, 1, open_low=True)
        whole_number(self.n_replicates, "n_replicates", 2)
        if self.bound == "theory" and self.world is None:
            raise InvalidInputError(
                'bound="theory" computes the constants of a known world; pass world=..., or use '
                'bound="estimated", which needs none'
            )

    @property
    def needs(self) -> frozenset[str]:
        """The parts of `Evidence` that are read."""
        return frozenset({"triples", "counts"} if self.verify else {"triples"})

    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Merge what the last epoch's triples show into the grouping so far."""
        if previous.n_clusters <= (self.n_states or 1):
            return previous
        return self._examine(evidence, previous, rng, thorough=False).partition

    def examine(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> SpectralReport:
        """Do as `regroup` does and tell everything that was seen on the way.

        `regroup` skips what cannot change the result; this does not, and so takes longer.
        """
        return self._examine(evidence, previous, rng, thorough=True)

    def _examine(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator, *, thorough: bool
    ) -> SpectralReport:
        triples = symbol_triples(evidence, previous)
        level = max(self.delta * float(evidence.step) ** -self.decay, _LEAST_LEVEL)
        test = None
        if self.verify:
            counts = symbol_counts(evidence, previous)
            # Looks at data that have doubled are nearly independent: a share for each of them.
            n_looks = (1 + math.log2(evidence.step)) ** 2
            share = self.delta / (n_looks * max(counts.n_observations, 1))
            test = Homogeneity(counts, self.resolution, share, self.delta)
        reports = []
        for action in range(triples.n_actions):
            search = _Search(self, triples, action, level, test, previous, rng)
            reports.append(search.run(thorough=thorough))
        symbols = Partition.singletons(triples.n_observations)
        for report in reports:
            for group in report.groups:
                labels = np.arange(triples.n_observations)
                labels[list(group)] = group[0]
                symbols = symbols.merge(Partition(labels))
        if symbols.n_clusters < (self.n_states or 1):
            symbols = Partition.singletons(triples.n_observations)
        return SpectralReport(
            tuple(reports),
            previous.compose(symbols),
            level,
            self._description(),
            self.bound == "theory",
        )

    def _description(self) -> str:
        """Say in a line what is done."""
        solver = f"{self.solver} solver, " if self.method == "tensor" else ""
        bound = f"{self.bound} bound"
        bound += f" (C = {self.constant:g})" if self.bound == "constant" else ""
        bound += f" x {self.factor:g}" if self.factor != 1 else ""
        verified = "verified" if self.verify else "not verified"
        return f"{self.method} method, {solver}{bound}, {verified}"


@dataclass(frozen=True)
class _Search:
    """The work for one action."""

    settings: Spectral
    triples: Triples
    action: int
    level: float
    test: Homogeneity | None
    previous: Partition
    rng: np.random.Generator

    def run(self, *, thorough: bool) -> ActionReport:
        """Find the groups of the symbols where the action was taken."""
        chosen = self.triples.select(self.action)
        symbols = np.unique(chosen.middle)
        report = ActionReport(self.action, chosen.n_samples, symbols)
        if len(symbols) == 0:
            return replace(report, note="never taken in the middle of three observations")
        if len(symbols) == 1:
            return replace(report, note=f"taken at symbol {symbols[0]} only")
        if self.test and not thorough and not self.test.any_alike(self.action, symbols):
            return replace(report, note="no two symbols are known to be alike yet")
        moments = Moments.from_triples(self.triples, self.action)
        found = estimate_rank(
            moments, self.rng, epsilon=self.settings.epsilon, rank=self.settings.rank
        )
        report = replace(
            report,
            rank=found.rank,
            singular_values=found.singular_values,
            threshold=found.threshold,
        )
        if found.rank == len(symbols):
            return replace(report, note="as many hidden states as symbols")
        try:
            factors = self._factors(moments, found.rank)
        except StructureError as error:
            return replace(report, note=f"not decomposed: {error}")
        bounds, trusted = self._bounds(moments, factors)
        report = replace(
            report,
            condition=factors.condition,
            residual=factors.residual,
            columns=factors.columns,
            bounds=bounds,
        )
        groups, refused = settle(
            factors.columns >= bounds, trusted, symbols, self.action, self.test
        )
        return replace(report, groups=groups, refused=refused)

    def _factors(self, moments: Moments, rank: int) -> Factors:
        if self.settings.method == "matrix":
            return matrix_factors(moments, rank, self.rng)
        return tensor_factors(moments, rank, self.rng, solver=self.settings.solver)

    def _bounds(self, moments: Moments, factors: Factors) -> tuple[Floats, NDArray[np.bool_]]:
        """Return what each entry must exceed, and which columns may be trusted at all."""
        settings = self.settings
        shape = factors.columns.shape
        trusted = np.ones(shape[1], bool)
        matrix = settings.method == "matrix"
        errors = None
        if settings.bound == "estimated" or matrix:
            errors = bootstrap(
                moments,
                factors,
                self.rng,
                method=settings.method,
                solver=settings.solver,
                n_replicates=settings.n_replicates,
            )
        if matrix and errors is not None:
            trusted = separated(factors.chance, errors.eigenvalue_noise)
        n_symbols = self.triples.n_observations
        if settings.bound == "constant":
            bound = constant_bound(settings.constant, n_symbols, moments.n_samples, self.level)
            bounds = np.full(shape, bound)
        elif settings.bound == "theory":
            bounds = np.full(shape, self._theory_bound(moments))
        else:
            assert errors is not None
            quantile = float(norm.isf(self.level / (shape[0] * shape[1])))
            bounds = quantile * errors.standard_errors
            if errors.failed > _MOST_FAILURES:
                bounds[:] = math.inf
        # No entry below zero is ever evidence, whatever the bound.
        return np.maximum(settings.factor * bounds, np.finfo(np.float64).tiny), trusted

    def _theory_bound(self, moments: Moments) -> float:
        """Compute B_O from the world, under the policy that the triples show."""
        world = self.settings.world
        assert world is not None
        if (world.n_observations, world.n_actions) != (
            self.previous.n_observations,
            self.triples.n_actions,
        ):
            raise InvalidInputError(
                f"the world has {world.n_observations} observations and {world.n_actions} "
                f"actions, the data {self.previous.n_observations} and {self.triples.n_actions}; "
                "pass the world that the data come from"
            )
        taken = np.zeros((self.triples.n_observations, self.triples.n_actions))
        np.add.at(taken, (self.triples.middle, self.triples.action), self.triples.count)
        taken += (taken.sum(axis=1) == 0)[:, None]  # never seen: any action
        policy = taken / taken.sum(axis=1, keepdims=True)
        labels = self.previous.labels  # an observation without a group was never seen
        rows = np.where((labels >= 0)[:, None], policy[labels], 1 / self.triples.n_actions)
        views = exact_views(world, rows, self.action).grouped(self.previous)
        return theory_bound(views, self.triples.n_observations, moments.n_samples, self.level)
