"""Recipes: each names three answers and is nothing but an `Agent`."""

import math
from dataclasses import replace
from typing import Literal

from numpy.typing import ArrayLike

from romdp.agents.agent import Agent
from romdp.agents.planners import Optimism, Planner, Posterior
from romdp.agents.stopping import SLACK, Doubling
from romdp.clustering.clusterer import Chain, Clusterer, Known, Singletons, Spaced
from romdp.clustering.exploring import UntilFound, UntilSure
from romdp.clustering.homogeneity import Homogeneity
from romdp.clustering.likelihood import Likelihood
from romdp.clustering.overlap import Overlap
from romdp.clustering.spectral import Spectral
from romdp.core.validation import check, choice, flag, real_number
from romdp.data.partition import Partition
from romdp.exact.objectives import ObjectiveLike
from romdp.planning.confidence import ConfidenceSet, Hoeffding
from romdp.planning.timeuniform import TimeUniform


def UCRL2(  # noqa: N802 - the name of an agent
    confidence: ConfidenceSet | None = None,
    delta: float = 0.05,
    *,
    objective: ObjectiveLike | None = None,
) -> Agent:
    """UCRL2 (Jaksch, Ortner and Auer 2010) on the observations.

    Parameters
    ----------
    confidence
        The confidence sets; by default UCRL2's own, ``Hoeffding(constants="jaksch")``.
    delta
        The probability that the truth lies outside them.
    objective
        What is good: ``"average"`` (reward per step), ``"episodic"`` (the sum until an episode
        ends), ``"episodic:H"`` (at most H steps) or a discount such as 0.99. None: the average in
        a world, and the sum of an episode in a Gymnasium environment or an `Online` loop.
    """
    sets = Hoeffding(constants="jaksch") if confidence is None else confidence
    planner = Optimism(sets, delta, objective)
    return Agent(Singletons(), planner, Doubling(eager=False), name="ucrl2")


def UCRL3(  # noqa: N802 - the name of an agent
    delta: float = 0.05, *, objective: ObjectiveLike | None = None
) -> Agent:
    """UCRL3 (Bourel, Maillard and Talebi 2020) on the observations.

    It is UCRL2 inside confidence sets that hold at all times without a scale, `TimeUniform`. It
    plans again when a count has grown by a quarter, where hundreds of pairs are tried when a few
    have. UCRL3 as published waits until one has doubled: about a fifth more regret.

    Parameters
    ----------
    delta
        The probability that the truth lies outside them.
    objective
        What is good; see `UCRL2`.
    """
    planner = Optimism(TimeUniform(), delta, objective)
    return Agent(Singletons(), planner, _stopping(planner.confidence, eager=False), name="ucrl3")


def PSRL(  # noqa: N802 - the name of an agent
    prior: float = 1.0,
    rewards: Literal["beta", "normal"] = "beta",
    *,
    objective: ObjectiveLike | None = None,
) -> Agent:
    """Posterior sampling on the observations with TSDE's stopping rule (Ouyang et al. 2017).

    As published; ``dataclasses.replace(PSRL(), stopping=Doubling.frequent())`` draws more often,
    as `LCPSRL` does.

    Parameters
    ----------
    prior, rewards
        The prior; see `Posterior`.
    objective
        What is good; see `UCRL2`.
    """
    planner = Posterior(prior, rewards, objective, floor=0.0)
    return Agent(Singletons(), planner, Doubling(grow=1), name="psrl")


def Oracle(  # noqa: N802 - the name of an agent
    labels: ArrayLike | Partition,
    planner: Literal["optimism", "posterior"] | Planner = "optimism",
    confidence: ConfidenceSet | None = None,
    delta: float = 0.05,
    *,
    objective: ObjectiveLike | None = None,
) -> Agent:
    """UCRL2 or PSRL told the hidden state of every observation: what learners are measured by.

    Parameters
    ----------
    labels
        The true hidden states, ``world.labels``; see `Known`.
    planner
        ``"optimism"`` (UCRL2), ``"posterior"`` (posterior sampling as in `LCPSRL`), or a planner.
    confidence, delta
        For ``"optimism"``: the confidence sets, `TimeUniform` by default, and the probability that
        the truth lies outside them.
    objective
        What is good, unless ``planner`` is one of your own; see `UCRL2`.
    """
    if isinstance(planner, str):
        choice(planner, "planner", ("optimism", "posterior"))
        if planner == "posterior":
            sampling = Posterior(objective=objective)
            return Agent(Known(labels), sampling, Doubling.frequent(), name="oracle-psrl")
        planner = Optimism(TimeUniform() if confidence is None else confidence, delta, objective)
        return Agent(Known(labels), planner, _stopping(planner.confidence), name="oracle")
    return Agent(Known(labels), planner, Doubling(), name="oracle")


def SLUCRL(  # noqa: N802 - the name of an agent
    n_states: int | None = None,
    confidence: Hoeffding | TimeUniform | None = None,
    delta: float = 0.05,
    *,
    spectral: Spectral | None = None,
    factor: float = 1.0,
    counting: Literal["pooled", "paper"] = "pooled",
    homogeneity: bool = True,
    resolution: float = 0.3,
    method: Literal["tensor", "matrix"] = "tensor",
    objective: ObjectiveLike | None = None,
) -> Agent:
    """SL-UCRL, the paper's agent (`alg:sm.ucrl`), with a test of ours before its spectral step.

    Three clusterers work in turn, each on the groups that the one before has left. With
    `Homogeneity` this is whenever the steps have grown by a quarter, else at each epoch.

    - `Homogeneity` (ours) merges what the pair counts of all epochs show to be alike, and splits
      what they speak against. It finds the hidden states long before the others and does nearly
      all of the grouping.
    - `Spectral` (`alg:spectral.learning`) decomposes the moments of the last epoch's triples and
      merges what they show. After `Homogeneity` there is rarely anything left for it.
    - `Overlap`, the paper's minimal clustering, if the number of hidden states is given. It joins
      what is left as soon as exactly that many groups can be told apart.

    Then extended value iteration on the groups. With the paper's sets an epoch ends by the paper's
    doubling rule. With sets that hold it ends when a count has grown by a quarter, as in `UCRL3`;
    where hundreds of pairs are tried, when a few have (``Doubling(slack=)``). The results page on
    SL-UCRL in the documentation measures each part alone.

    Parameters
    ----------
    n_states
        The number X of hidden states, for the minimal clustering; without it the grouping may stay
        finer than the hidden states.
    confidence, delta
        The confidence sets and the probability that they fail. `TimeUniform` by default, which hold
        as they are; the paper's are ``Hoeffding()``. Each of the three clusterers has the same
        ``delta``.
    spectral
        The spectral step, instead of ``Spectral(delta=delta, n_states=n_states)``. With
        `Spectral.paper`, ``homogeneity=False``, ``counting="paper"`` and ``confidence=Hoeffding()``
        nothing of ours is left: that is the agent ``sl-ucrl-paper`` of ``romdp compare``.
    factor
        Multiplies the bound of the spectral step and the widths of the minimal clustering: 0.5 for
        MDPs without hidden states, as in the paper's appendix. Any other factor than 1 looks for
        approximate groups, so `Homogeneity` is then left out, and the rank is the number of
        singular values above the noise.
    counting
        ``"pooled"`` or ``"paper"``; see `Agent`.
    homogeneity
        Whether `Homogeneity` takes part.
    resolution
        The share of the typical difference that `Homogeneity` rules out; see there.
    method
        The variant of the spectral step, where none is given; see `Spectral`.
    objective
        What is good; see `UCRL2`.
    """
    sets = TimeUniform() if confidence is None else confidence
    check(spectral, "spectral", Spectral, None)
    flag(homogeneity, "homogeneity")
    exact = real_number(factor, "factor", 0, open_low=True) == 1.0
    if spectral is None:
        spectral = Spectral(method, factor=factor, delta=delta, n_states=n_states)
        if not exact:
            spectral = replace(spectral, rank_step="threshold", decay=6.0)
    parts: list[Clusterer] = [spectral]
    if n_states is not None:
        parts.append(Overlap(n_states, sets, factor, delta))
    clusterer: Clusterer = Chain(*parts) if len(parts) > 1 else spectral
    if homogeneity and exact:
        clusterer = Spaced(Chain(Homogeneity(resolution, delta, n_states), *parts))
    planner, stopping = Optimism(sets, delta, objective), _stopping(sets, eager=False)
    return Agent(clusterer, planner, stopping, counting, name="sl-ucrl")


def LCUCRL(  # noqa: N802 - the name of an agent
    confidence: ConfidenceSet | None = None,
    delta: float = 0.05,
    *,
    n_states: int | None = None,
    growth: float = 1.25,
    objective: ObjectiveLike | None = None,
) -> Agent:
    """Optimism on groups found by likelihood: ours, needs no number of hidden states.

    Parameters
    ----------
    confidence, delta
        The confidence sets, `TimeUniform` by default, and the probability that the truth lies
        outside them.
    n_states
        The number of hidden states, if known.
    growth
        Observations are grouped again whenever the steps have grown by this factor; by its
        square root until there are six steps for each observation.
    objective
        What is good; see `UCRL2`.
    """
    sets = TimeUniform() if confidence is None else confidence
    real_number(growth, "growth", 1, open_low=True)
    clusterer = Spaced(Likelihood(n_states=n_states), growth, math.sqrt(growth))
    planner = Optimism(sets, delta, objective)
    return Agent(clusterer, planner, _stopping(sets), name="lc-ucrl")


def LCPSRL(  # noqa: N802 - the name of an agent
    prior: float | None = None,
    rewards: Literal["beta", "normal"] | None = None,
    *,
    n_states: int | None = None,
    growth: float = 1.25,
    objective: ObjectiveLike | None = None,
    memory: int | str = 0,
) -> Agent:
    """Posterior sampling on groups found by likelihood: ours, and the one to begin with.

    It draws more often than TSDE: see `Doubling.frequent`. Unless it is told the number of hidden
    states, every observation is a state as long as what follows it is certain: see `Spaced`.

    Parameters
    ----------
    prior, rewards
        The prior; see `Posterior`.
    n_states, growth, objective
        As for `LCUCRL`.
    memory
        How far states look back, in an environment or a loop of yours: 0 not at all, k steps, or
        ``"auto"``; see `Agent`.
    """
    real_number(growth, "growth", 1, open_low=True)
    clusterer = Spaced(
        Likelihood(n_states=n_states), growth, math.sqrt(growth), or_states=n_states is None
    )
    planner = Posterior(prior, rewards, objective)
    return Agent(clusterer, planner, Doubling.frequent(), name="lc-psrl", memory=memory)


def TwoPhase(  # noqa: N802 - the name of an agent
    confidence: ConfidenceSet | None = None,
    delta: float = 0.05,
    *,
    n_states: int | None = None,
    grouping: Literal["likelihood", "spectral"] = "likelihood",
    objective: ObjectiveLike | None = None,
) -> Agent:
    """Explore uniformly, group when the data leave no doubt, then optimism on the groups.

    The scheme of the paper's conjecture for deterministic ROMDPs (`Aux:deter`) and of van Vuren
    et al. (2025). When to stop exploring is decided from the data.

    Parameters
    ----------
    confidence, delta
        As for `LCUCRL`; ``delta`` is also the doubt about the grouping that is allowed.
    n_states
        The number of hidden states, if known.
    grouping
        ``"likelihood"`` (ours): see `UntilSure`; the groups are found again as data grow.
        ``"spectral"`` (the paper's): explore until the spectral step has found all hidden states,
        which are then final; see `UntilFound`. It needs far more exploration.
    objective
        What is good; see `UCRL2`.
    """
    sets = TimeUniform() if confidence is None else confidence
    choice(grouping, "grouping", ("likelihood", "spectral"))
    clusterer: Clusterer = UntilSure(Likelihood(n_states=n_states), delta)
    if grouping == "spectral":
        clusterer = UntilFound(Spectral(delta=delta, n_states=n_states), n_states, delta)
    planner = Optimism(sets, delta, objective)
    return Agent(clusterer, planner, Doubling(unseen=1), name="two-phase")


def _stopping(sets: ConfidenceSet, eager: bool = True) -> Doubling:
    """Return the rule of the paper for its sets, and a shorter epoch for sets that hold.

    The number of epochs stays logarithmic in the steps, so the guarantees keep their form. Narrow
    sets change the plan long before a count has doubled: regret is a sixth to a third lower. Where
    hundreds of pairs are tried, a few have to: half the time at 300 observations, equal regret.
    """
    if not isinstance(sets, TimeUniform):
        return Doubling()
    return Doubling(growth=1.25, eager=eager, slack=SLACK)
