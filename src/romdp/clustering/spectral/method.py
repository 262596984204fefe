"""Spectral learning of the grouping (``alg:spectral.learning`` of the paper).

For each action: second moments, their rank, symmetrised views, the decomposition of the whitened
third moment, V_2, its entries that are non-zero with high probability, and the groups they form.
"""

from dataclasses import dataclass, field, replace

import numpy as np

from romdp.clustering.clusterer import Evidence, group_counts, group_triples
from romdp.clustering.homogeneity import Homogeneity, JointTest
from romdp.clustering.spectral.bounds import entry_bounds, missing_precondition, true_view
from romdp.clustering.spectral.decomposition import SOLVERS
from romdp.clustering.spectral.factors import matrix_factors, settle, tensor_factors
from romdp.clustering.spectral.moments import Moments, certain_rank, threshold_rank
from romdp.clustering.spectral.population import exact_views
from romdp.clustering.spectral.report import ActionReport, SpectralReport
from romdp.core.errors import InvalidInputError, StructureError
from romdp.core.validation import (
    check_fields,
    choice,
    how_many,
    level,
    real_number,
    takes,
    whole_number,
)
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.triples import Triples
from romdp.exact.romdp import ROMDP
from romdp.theory.views import View

_METHODS = ("tensor", "matrix")
_BOUNDS = ("estimated", "constant", "theory")
_RANK_STEPS = ("certified", "spectrum", "threshold")
_LEAST_LEVEL = 1e-280  # smaller ones have no quantile


@dataclass(frozen=True)
class Spectral:
    """Group observations by the decomposition of their moments: the paper's spectral step.

    The triples of one policy are read in the groups found so far; what is found is merged into
    them, so that the grouping only ever gets coarser. One policy shows partial groups at most
    (``lem:partial.cluster``); those of different epochs meet through shared observations
    (``fig:mappolicy``). Nothing verifies the groups afterwards. By default two things are ours:
    the error of each entry of V_2 is estimated from the data, where the paper has a constant
    that nobody knows; and nothing is decomposed before the number of hidden states behind the
    moments is certain. `Spectral.paper` has the paper's answer to both.

    Parameters
    ----------
    method : {"tensor", "matrix"}
        Third moments, or the eigenvectors of M_2 where its eigenvalues are separated.
    solver : {"joint", "power"}
        How the tensor is decomposed; ``"power"`` is the paper's, ``"joint"`` ours.
    bound : {"estimated", "constant", "theory"}
        What an entry of V_2 must exceed: a quantile of its own standard error (ours); the
        paper's B_O with a given constant C; or with the constants of a given world, which uses
        the truth and is flagged in the report. With ``"estimated"`` an entry must also outweigh
        the rest of its row by two to one, since the exact V_2 has a single entry in each row; and
        an action is left alone if a column of V_2 has no such entry, since all columns are found
        as one frame.
    constant : float
        C for ``bound="constant"``.
    rank : int, optional
        The number of hidden states seen with each action, if known; else it is estimated. An
        action taken at fewer groups uses their number.
    factor : float
        Multiplies the bound; 0.5 to look for approximate groups in MDPs without hidden ones.
    epsilon : float
        In the threshold ``g / nu^(1/2 - epsilon)`` for the rank.
    delta : float
        The probability allowed at each epoch, divided by ``t^decay``, that an entry of V_2 which is
        zero exceeds its bound. It presumes the right rank and, for ``bound="estimated"``, errors
        that are nearly normal; ``rank_step`` has a probability of its own (also ``delta``, over all
        epochs). Neither covers hidden states that are nearly equal: see `Homogeneity`.
    decay : float
        At step t the failure probability is ``delta / t^decay``; the paper's is 6. With 1 the sum
        over epochs stays small, as epochs double in length.
    n_replicates : int
        Resamples of the bootstrap.
    n_states : int, optional
        The number of hidden states, if known: a grouping with that many groups is left alone,
        and no coarser one is believed.
    world : ROMDP, optional
        For ``bound="theory"`` only.
    rank_step : {"certified", "spectrum", "threshold"}
        How the rank is found. ``"certified"`` (ours): from the pair counts of all epochs, count
        the groups that are mutually different (a lower bound on the number of hidden states) and
        the classes of groups known to be alike (an upper bound), and decompose only where both
        agree. ``"spectrum"`` (ours): from the same counts without any groups, where
        `eq:rankcondition` holds for the singular values of what led to each group; it is wrong
        where a state differs so little that its singular value is lost in the noise.
        ``"threshold"`` (the paper's): count the singular values of K_23 above
        ``g / nu^(1/2 - epsilon)``. Where neither gives a rank the action is left alone.
    g : float, optional
        For the threshold; None: the size of the sampling noise, found by resampling (ours).
    c1 : float
        C_1 in the number of samples that ``lem:concentration`` asks for.
    preconditions : bool
        Whether ``bound="constant"`` and ``"theory"`` leave an action alone where the paper's
        lemmas promise nothing: fewer samples than N-bar (``eq:nl.condition1``), or a threshold
        that ``eq:rankcondition`` does not allow. With a constant, the omega and sigma in them are
        those of the decomposition at hand, and G / (1 - theta) is taken for 1, its least value.

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
    epsilon: float = 0.02
    delta: float = 0.05
    decay: float = 1.0
    n_replicates: int = 30
    n_states: int | None = None
    world: ROMDP | None = field(default=None, repr=False)
    rank_step: str = "certified"
    g: float | None = None
    c1: float = 1.0
    preconditions: bool = True

    def __post_init__(self) -> None:
        choice(self.method, "method", _METHODS)
        choice(self.solver, "solver", SOLVERS)
        choice(self.bound, "bound", _BOUNDS)
        choice(self.rank_step, "rank_step", _RANK_STEPS)
        real_number(self.constant, "constant", 0)
        check_fields(self, rank=(None, how_many), n_states=(None, how_many), delta=level)
        real_number(self.factor, "factor", 0, open_low=True)
        real_number(self.epsilon, "epsilon", 0, 0.5, open_high=True)
        real_number(self.decay, "decay", 0)
        real_number(self.c1, "c1", 0, open_low=True)
        if self.g is not None:
            real_number(self.g, "g", 0, open_low=True)
        whole_number(self.n_replicates, "n_replicates", 2)
        if self.bound == "theory" and self.world is None:
            raise InvalidInputError(
                'bound="theory" computes the constants of a known world; pass world=..., or use '
                'bound="estimated", which needs none'
            )

    @classmethod
    def paper(
        cls,
        constant: float = 1.0,
        g: float = 1.0,
        epsilon: float = 0.25,
        c1: float = 1.0,
        *,
        delta: float = 0.05,
        factor: float = 1.0,
        preconditions: bool = True,
    ) -> "Spectral":
        """Return the step with nothing of ours in it (``alg:spectral.learning``, ``sec:rank``).

        The robust power method; singular values above ``g / nu^(1/2 - epsilon)`` give the rank;
        entries of V_2 above ``C sqrt(log(2 Y^(3/2) t^6 / delta) / nu)`` make the groups. The paper
        leaves C, g, epsilon and C_1 open.

        Parameters
        ----------
        constant, g, epsilon, c1
            C, g, epsilon and C_1.
        delta, factor
            As for `Spectral`.
        preconditions
            Whether to group only where ``lem:concentration`` and ``eq:rankcondition`` hold; see
            `Spectral`. Without them the step groups early and often wrongly.
        """
        return cls(
            solver="power",
            bound="constant",
            rank_step="threshold",
            constant=constant,
            g=g,
            epsilon=epsilon,
            c1=c1,
            delta=delta,
            factor=factor,
            decay=6.0,
            preconditions=preconditions,
        )

    @property
    def needs(self) -> frozenset[str]:
        """The parts of `Evidence` that are read."""
        return frozenset({"triples", "counts"} if self._reads_counts else {"triples"})

    @property
    def _reads_counts(self) -> bool:
        return self.rank is None and self.rank_step != "threshold"

    @takes(evidence=Evidence, previous=Partition, rng=np.random.Generator)
    def regroup(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> Partition:
        """Merge what the last epoch's triples show into the grouping so far."""
        if previous.n_clusters <= (self.n_states or 1):
            return previous
        return self.examine(evidence, previous, rng).partition

    def examine(
        self, evidence: Evidence, previous: Partition, rng: np.random.Generator
    ) -> SpectralReport:
        """Do as `regroup` does and tell everything that was seen on the way."""
        triples = group_triples(evidence, previous)
        level = max(self.delta * float(evidence.step) ** -self.decay, _LEAST_LEVEL)
        counts = group_counts(evidence, previous) if self._reads_counts else None
        test = None
        if counts is not None and self.rank_step == "certified":
            test = JointTest.at_step(counts, evidence.step, Homogeneity.resolution, self.delta)
        reports = tuple(
            _Search(self, triples, action, level, counts, test, previous, rng).run()
            for action in range(triples.n_actions)
        )
        found = Partition.singletons(triples.n_observations)
        for report in reports:
            for group in report.groups:
                labels = np.arange(triples.n_observations)
                labels[list(group)] = group[0]
                found = found.merge(Partition(labels))
        if found.n_clusters < (self.n_states or 1):
            found = Partition.singletons(triples.n_observations)
        return SpectralReport(
            reports,
            previous.compose(found),
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
        rank = f"{self.rank_step} rank" if self.rank is None else f"rank {self.rank}"
        return f"{self.method} method, {solver}{bound}, {rank}"


@dataclass(frozen=True)
class _Search:
    """The work for one action."""

    settings: Spectral
    triples: Triples
    action: int
    level: float
    counts: Counts | None
    test: JointTest | None
    previous: Partition
    rng: np.random.Generator

    def run(self) -> ActionReport:
        """Find the groups among those where the action was taken."""
        chosen = self.triples.select(self.action)
        members = np.unique(chosen.middle)
        report = ActionReport(self.action, chosen.n_samples, members)
        if len(members) == 0:
            return replace(report, note="never taken in the middle of three observations")
        if len(members) == 1:
            return replace(report, note=f"taken at group {members[0]} only")
        try:
            return self._decompose(self._with_rank(report))
        except StructureError as error:
            return replace(report, note=str(error))

    def _with_rank(self, report: ActionReport) -> ActionReport:
        """Find the rank, or raise a StructureError that says why there is none."""
        settings, members = self.settings, report.members
        if settings.rank is not None:
            return replace(report, rank=min(settings.rank, len(members)))
        if self.test is not None:
            if not self.test.alike[np.ix_(members, members)].any():
                raise StructureError("no two groups are known to be alike yet")
            least, most = self.test.count_states(members)
            if least != most:
                raise StructureError(f"the rank is not certain yet: {least} to {most}")
            return replace(report, rank=most)
        if self.counts is not None:
            found = certain_rank(self.counts.matrix()[:, members], self.rng)
            why = "the rank is not certain yet: a singular value lies near the noise"
        else:
            moments = Moments.from_triples(self.triples, self.action)
            found = threshold_rank(moments, self.rng, g=settings.g, epsilon=settings.epsilon)
            why = f"no singular value of K_23 exceeds the threshold {found.threshold:.3g}"
        if found.rank == 0:
            raise StructureError(why)
        return replace(
            report,
            rank=found.rank,
            singular_values=found.singular_values,
            threshold=found.threshold,
        )

    def _decompose(self, report: ActionReport) -> ActionReport:
        """Turn the moments into V_2, and what exceeds its bound into groups."""
        members = report.members
        if report.rank == len(members):
            return replace(report, note="as many hidden states as groups")
        moments = Moments.from_triples(self.triples, self.action)
        try:
            factors = (
                matrix_factors(moments, report.rank, self.rng)
                if self.settings.method == "matrix"
                else tensor_factors(moments, report.rank, self.rng, solver=self.settings.solver)
            )
        except StructureError as error:
            return replace(report, note=f"not decomposed: {error}")
        report = replace(
            report,
            condition=factors.condition,
            residual=factors.residual,
            columns=factors.columns,
        )
        truth = self._true_view() if self.settings.bound == "theory" else None
        asked = self.settings, self.level, self.triples.n_observations, moments, factors
        if missing := missing_precondition(*asked, report, truth):
            return replace(report, note=missing)
        bounds, trusted = entry_bounds(*asked, truth, self.rng)
        report = replace(report, bounds=bounds)
        claims = factors.columns >= bounds
        if self.settings.bound == "estimated":
            # The exact V_2 has a single entry in each row: one must outweigh the rest two to one.
            weights = np.abs(factors.columns) * factors.chance
            claims &= 3 * weights >= 2 * weights.sum(axis=1, keepdims=True)
            if not claims[:, trusted].any(axis=0).all():
                return replace(report, note="a column of V_2 claims nothing: not determined yet")
        groups, refused = settle(claims, trusted, members)
        return replace(report, groups=groups, refused=refused)

    def _true_view(self) -> View:
        """Compute the constants of the world under the policy that the triples show."""
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
        return true_view(exact_views(world, rows, self.action).grouped(self.previous))
