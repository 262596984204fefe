"""Recipes: each names three answers and is nothing but an `Agent`."""

from typing import Literal

from numpy.typing import ArrayLike

from romdp.agents.agent import Agent
from romdp.agents.planners import Optimism, Planner, Posterior
from romdp.agents.stopping import Doubling
from romdp.clustering.simple import Known, Singletons
from romdp.confidence import ConfidenceSet, Hoeffding
from romdp.partition import Partition
from romdp.validation import choice


def UCRL2(  # noqa: N802 - the name of an agent
    confidence: ConfidenceSet | None = None, delta: float = 0.05
) -> Agent:
    """UCRL2 (Jaksch, Ortner and Auer 2010) on the observations.

    Parameters
    ----------
    confidence
        The confidence sets; by default UCRL2's own, ``Hoeffding(constants="jaksch")``.
    delta
        The chance that the truth may lie outside them.
    """
    sets = Hoeffding(constants="jaksch") if confidence is None else confidence
    return Agent(Singletons(), Optimism(sets, delta), Doubling(eager=False), name="ucrl2")


def PSRL(  # noqa: N802 - the name of an agent
    prior: float = 1.0, rewards: Literal["beta", "normal"] = "beta"
) -> Agent:
    """Posterior sampling on the observations with TSDE's stopping rule (Ouyang et al. 2017).

    Parameters
    ----------
    prior, rewards
        The prior; see `Posterior`.
    """
    return Agent(Singletons(), Posterior(prior, rewards), Doubling(grow=1), name="psrl")


def Oracle(  # noqa: N802 - the name of an agent
    labels: ArrayLike | Partition,
    planner: Literal["optimism", "posterior"] | Planner = "optimism",
    confidence: ConfidenceSet | None = None,
    delta: float = 0.05,
) -> Agent:
    """UCRL2 or PSRL told the hidden state of every observation: what learners are measured by.

    Parameters
    ----------
    labels
        The true hidden states, ``world.labels``.
    planner
        ``"optimism"`` (UCRL2), ``"posterior"`` (PSRL with TSDE's rule), or a planner.
    confidence, delta
        For ``"optimism"``: as for `UCRL2`, with the paper's constants by default.
    """
    if isinstance(planner, str):
        choice(planner, "planner", ("optimism", "posterior"))
        if planner == "posterior":
            return Agent(Known(labels), Posterior(), Doubling(grow=1), name="oracle-psrl")
        planner = Optimism(Hoeffding() if confidence is None else confidence, delta)
    return Agent(Known(labels), planner, Doubling(), name="oracle")
