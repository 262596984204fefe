"""Plug your own way of grouping observations into the agent.

Run ``python examples/own_clusterer.py``. The grouping is SciPy's: Ward's hierarchical clustering of
what each observation pays and where it leads. The agent provides everything else: counting,
planning, epochs, checkpoints. `check_agent` tests whether it behaves as every agent must.
"""

from dataclasses import dataclass

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

import romdp


@dataclass(frozen=True)  # frozen: an agent is a description, and so is its clusterer
class Ward:
    """Group observations by the mean reward and the next groups of every action."""

    n_states: int
    patience: float = 20.0  # how many visits per observation it waits for
    needs = frozenset({"counts"})

    def regroup(
        self, evidence: romdp.Evidence, previous: romdp.Partition, rng: np.random.Generator
    ) -> romdp.Partition:
        """Return a new grouping of all observations; ``rng`` is for clusterers that draw."""
        counts = evidence.counts
        n_observations, n_actions = counts.visits.shape
        if counts.n_steps < self.patience * n_observations or n_observations <= self.n_states:
            return previous
        groups = np.eye(previous.n_clusters)[previous.labels]
        leads = (counts.matrix() @ groups).reshape(n_observations, n_actions, -1)
        sums = np.concatenate([counts.reward_sums[:, :, None], leads], axis=2)
        visits = counts.visits[:, :, None]
        typical = sums.sum(axis=0) / np.maximum(1, visits.sum(axis=0))
        features = (sums + 10 * typical) / (visits + 10)  # add ten typical visits
        tree = linkage(features.reshape(n_observations, -1), method="ward")
        return romdp.Partition(fcluster(tree, self.n_states, criterion="maxclust"))


def main() -> None:
    """Check the new agent, then compare it with one that does not group and with the oracle."""
    mine = romdp.Agent(
        romdp.Spaced(Ward(n_states=5)),  # regroup when the steps have grown by a quarter
        romdp.Posterior(),
        romdp.Doubling(grow=1),
        name="ward-psrl",
    )
    romdp.check_agent(mine)
    world = romdp.worlds.random_romdp(n_states=5, n_actions=4, n_observations=30, seed=0)
    truth = romdp.Partition(world.labels)
    for agent in (mine, romdp.PSRL(), romdp.Oracle(world.labels, planner="posterior")):
        run = romdp.play(agent, world, steps=100_000, seed=0)
        groups = f"{run.partition.n_clusters} groups"
        if run.partition == truth:
            groups += ", the hidden states exactly"
        print(f"{run.agent:>12}: pseudo-regret {run.pseudo_regret[-1]:6,.0f}, {groups}")


if __name__ == "__main__":
    main()
