"""Keep learning online from what was learned from a log."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from romdp.agents.agent import Agent
from romdp.agents.planners import Planner, Posterior
from romdp.agents.stopping import Doubling
from romdp.clustering.clusterer import Known
from romdp.core.errors import InvalidInputError, MisuseError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.planning import Plan

if TYPE_CHECKING:
    from romdp.logs.model.latent import LatentModel


@dataclass(frozen=True, eq=False)
class Informed:
    """A planner that adds counts from before to those of the groups.

    Parameters
    ----------
    planner
        The planner that plans.
    counts
        The earlier counts, on the same groups; rewards are in [0, 1].
    """

    planner: Planner
    counts: Counts

    def plan(
        self,
        counts: Counts,
        t: int,
        rng: np.random.Generator,
        start: NDArray[np.float64] | None = None,
        n_observations: int | None = None,
    ) -> Plan:
        """Plan on all that is known."""
        if counts.visits.shape != self.counts.visits.shape:
            raise InvalidInputError(
                f"the world has {counts.n_observations} groups and {counts.n_actions} actions, "
                f"the model {self.counts.n_observations} and {self.counts.n_actions}; number "
                "observations and actions as the model does"
            )
        known = self.counts.n_steps
        return self.planner.plan(self.counts + counts, known + t, rng, start, n_observations)


def agent_of(model: "LatentModel") -> Agent:
    """Make the agent: the grouping of the model, posterior sampling, its counts to begin with."""
    labels = model.partition.labels
    if model.encoder is not None:
        if model.encoder.learns:
            raise MisuseError(
                "codes of vectors are learned while an agent plays: to go on, save the Online "
                "itself, or play more steps"
            )
        labels = np.append(labels, np.full(model.encoder.size - len(labels), -1))
    planner = Informed(Posterior(), model.counts)
    groups = Known(Partition(labels))
    return Agent(groups, planner, Doubling.frequent(), name="lc-psrl-from-logs")
