"""How much of what may follow a pair was not seen yet, learned from all pairs."""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import gammaln

from romdp.data.counts import Counts
from romdp.logs.comparing import highest
from romdp.planning.belief import Belief
from romdp.planning.priors import RewardPrior

Floats = NDArray[np.float64]

_NEIGHBOURS = np.geomspace(1e-3, 100.0, 51)  # weights of other actions that are compared
_SMALL = 101  # outcomes of pairs whose laws are kept as an array


class Surprises:
    """How much of what may follow a pair was not seen yet, learned from all pairs.

    Parameters
    ----------
    counts
        Where the pairs led, the end of an episode included.
    fitted
        Surprises of nearly the same pairs, whose weights are taken over.
    borrow
        Whether what the other actions of a state led to counts, too; see `Draws`.

    Notes
    -----
    What a pair has not shown has the weight that `romdp.planning.belief.Belief` gives to it. What
    the other actions of the same state led to counts, too, with the weight under which the pairs
    are most probable.
    """

    def __init__(
        self,
        counts: Counts,
        fitted: "Surprises | None" = None,
        *,
        borrow: bool = True,
    ) -> None:
        outcomes = counts.sparse().outcomes().astype(np.float64)
        tries = np.asarray(outcomes.sum(axis=1), np.float64).ravel()
        self.tries: Floats = tries.reshape(counts.visits.shape)
        everywhere = np.asarray(outcomes.sum(axis=0)).ravel()
        self._everywhere = everywhere / max(1.0, everywhere.sum())
        self._rows = np.flatnonzero(tries > 0)
        moves = None if fitted is None else fitted.belief.moves
        rewards = RewardPrior.learn(counts, normal=True)
        self.belief: Belief = Belief.of(counts, outcomes, moves=moves, rewards=rewards)
        self._weights = self.belief.mean_weights()[self._rows]
        self.likeness = 0.0
        self.expected: Any = outcomes
        if borrow:
            law = _laws_of_neighbours(outcomes, tries, counts.n_actions)
            self.likeness = (
                _likeness(outcomes, tries, law, self._everywhere)
                if fitted is None
                else fitted.likeness
            )
            self.expected = scipy.sparse.csr_array(outcomes + law * self.likeness)
        if outcomes.shape[1] <= _SMALL:
            self.expected = self.expected.toarray()

    def draw(self, rng: np.random.Generator | None) -> Any:
        """Draw counts of outcomes such that their shares are draws from Dirichlets.

        The end is the last outcome. Without a generator these are the expected counts.
        """
        if rng is None:
            return self.expected
        anywhere = rng.choice(len(self._everywhere), len(self._rows), p=self._everywhere)
        news = rng.standard_gamma(self._weights)
        if isinstance(self.expected, np.ndarray):
            drawn = rng.standard_gamma(self.expected)
            drawn[self._rows, anywhere] += news
            return drawn
        drawn = self.expected.copy()
        drawn.data = rng.standard_gamma(drawn.data)
        return drawn + scipy.sparse.csr_array((news, (self._rows, anywhere)), drawn.shape)


def _laws_of_neighbours(outcomes: Any, tries: Floats, n_actions: int) -> Any:
    """Return where the other actions of its state led, for each pair that was tried."""
    n_states = outcomes.shape[0] // n_actions
    groups = scipy.sparse.kron(
        scipy.sparse.eye_array(n_states), np.ones((1, n_actions)), format="csr"
    )
    others = scipy.sparse.csr_array(groups.T @ (groups @ outcomes) - outcomes)
    others.eliminate_zeros()
    totals = np.asarray(others.sum(axis=1)).ravel()
    used = np.where((totals > 0) & (tries > 0), 1.0, 0.0) / np.maximum(totals, 1.0)
    law = scipy.sparse.csr_array(scipy.sparse.diags_array(used) @ others)
    law.eliminate_zeros()
    return law


def _likeness(outcomes: Any, tries: Floats, law: Any, everywhere: Floats) -> float:
    """Fit the weight of what the other actions of a state say."""
    used = np.diff(law.indptr) > 0
    rows = np.repeat(np.arange(len(tries)), np.diff(outcomes.indptr))
    expected = np.asarray(law[rows, outcomes.indices]).ravel()
    expected = 0.9 * expected + 0.1 * everywhere[outcomes.indices]
    some = used[rows]
    q, n = expected[some], outcomes.data[some]
    size = tries[used]
    if not len(size):
        return 1.0
    return highest(
        lambda k: (
            (gammaln(k * q + n) - gammaln(k * q)).sum() + (gammaln(k) - gammaln(k + size)).sum()
        ),
        _NEIGHBOURS,
    )
