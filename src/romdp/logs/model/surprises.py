"""How much of what may follow a pair was not seen yet, learned from all pairs."""

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.special import gammaln

from romdp.data.counts import Counts
from romdp.logs.comparing import highest

Floats = NDArray[np.float64]

_NEIGHBOURS = np.geomspace(1e-3, 100.0, 51)  # weights of other actions that are compared
_TRIED = (1, 2, 3, 5, 8, 13, 20, 50, 200, 1000)  # tries after which surprises are counted
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
    A pair that was tried N times tells how often the (n + 1)-th try, n < N, showed something new:
    the mean over all orders of its tries. The mean over pairs is u(n), and a pair tried n times
    gets the weight w(n) = n u(n) / (1 - u(n)) on what it has not shown. What the other actions of
    the same state led to counts, too, with the weight under which the pairs are most probable.
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
        self.news: Floats = _weights_of_news(outcomes, tries) if fitted is None else fitted.news
        known = np.log(np.maximum(tries[self._rows], 1.0))
        self._weights = np.exp(np.interp(known, np.log(_TRIED), self.news))
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


def _weights_of_news(outcomes: Any, tries: Floats) -> Floats:
    """Return the logarithms of the weights w(n) at the numbers n of `_TRIED`; see `Surprises`."""
    total = np.repeat(tries, np.diff(outcomes.indptr))
    news = []
    for n in _TRIED:
        c, size = outcomes.data[total > n], total[total > n]
        others = np.maximum(size - c, n)
        odds = gammaln(others + 1) - gammaln(others - n + 1)
        odds += gammaln(size - n + 1) - gammaln(size + 1)
        never = np.where(size - c >= n, np.exp(odds), 0.0)  # seen in the first n tries
        fresh = float((never * c / (size - n)).sum())
        news.append((fresh + 0.5 / (n + 1)) / (np.count_nonzero(tries > n) + 1.0))
    new = np.minimum.accumulate(np.clip(news, 1e-12, 0.9))
    return np.asarray(np.log(np.array(_TRIED) * new / (1.0 - new)))


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
