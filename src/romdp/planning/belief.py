"""What the counts say of the world: learned priors, what is expected, and draws.

One belief serves whoever asks: the planner that draws worlds to explore, policies that must be safe
in what the world behind a log may be, and those who evaluate a policy from a log.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from romdp.core.arrays import Floats
from romdp.data.counts import Counts
from romdp.planning.priors import MovePrior, RewardPrior
from romdp.planning.rows import SparseRows
from romdp.planning.sampling import counted_share, draw_dense, draw_sparse


@dataclass(frozen=True, eq=False)
class Belief:
    """Where every pair leads and what it pays, as far as the counts tell.

    Attributes
    ----------
    counts
        What was seen, of observations or of groups.
    outcomes
        How often each pair led to each place: an array, or sparse rows.
    moves, rewards
        What all pairs say about each of them.

    Examples
    --------
    >>> counts = Counts(np.full((4, 1), 9), 9 * np.eye(4, dtype=int)[:, None],
    ...                 np.full((4, 1), 18.0), np.full((4, 1), 36.0))
    >>> belief = Belief.of(counts, counts.transitions)
    >>> belief.mean_rewards().round(6).ravel().tolist()
    [2.0, 2.0, 2.0, 2.0]
    """

    counts: Counts
    outcomes: Any
    moves: MovePrior
    rewards: RewardPrior

    @classmethod
    def of(
        cls,
        counts: Counts,
        outcomes: Any,
        *,
        zero_reward: float = 0.0,
        moves: MovePrior | None = None,
        rewards: RewardPrior | None = None,
    ) -> Self:
        """Learn the priors that are not given and apply them to counts."""
        return cls(
            counts,
            outcomes,
            MovePrior.learn(outcomes) if moves is None else moves,
            RewardPrior.learn(counts, zero_reward) if rewards is None else rewards,
        )

    def mean_rewards(self) -> Floats:
        """Return the expected mean reward of every pair, shape (n_states, n_actions)."""
        return self.rewards.means(self.counts)

    def mean_weights(self) -> Floats:
        """Return the weight of what each pair has not shown yet, one pair after the other."""
        return self.moves.mean_weights(self.outcomes)

    def draw_laws(self, rng: np.random.Generator, floor: float = 0.0) -> Floats | SparseRows:
        """Draw where every pair leads.

        Pairs that were tried less than ``floor`` times, or less where moves are certain, count
        with a part of their visits (`counted_share`).
        """
        weights = self.moves.draw_weights(self.outcomes, rng)
        shape = self.counts.visits.shape
        share = counted_share(self.counts.visits.ravel(), floor * np.minimum(1.0, weights))
        if isinstance(self.outcomes, np.ndarray):
            return draw_dense(self.outcomes * share.reshape(*shape, 1), weights, rng)
        return draw_sparse(self.outcomes, weights, rng, share)
