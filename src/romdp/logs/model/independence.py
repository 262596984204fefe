"""Tests of what a model of a log assumes, each of which can fail.

Given what was seen and done, nothing else may tell what follows: not the action, the state or the
reward before, not the step of the episode, not the part of the log. These are asked inside each
observation and action, so that an observation in a wrong state is no reason to fail. Which
observation of its state it is may not tell either; that is asked inside each state and action. And
if the choice depends on the action before while what follows does, too, somebody may have acted on
something that is not in the log.

A test compares how much of the variance of what follows (the reward, the end of the episode, the
next state) its cells explain with what they explain if rows are shuffled inside their stratum.

One test looks for what nobody noted at all. Something that is not shown and lasts makes the steps
of an episode turn out better or worse than foreseen together. So half of the episodes are searched
for the one weighing of surprises whose sums at a step and over the steps before agree most (the
first eigenvector of their covariance), and the other half tells whether they really do; then the
halves change places. A table of cells would have to find the same in thousands of them.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from scipy.special import gammaincc, ndtr

from romdp.data.partition import Partition
from romdp.data.trajectory import END, UNKNOWN, Trajectory

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MEMORY, ALIKE, DRIFT, CHOICE = "memory", "alike", "drift", "choice"
"""What a test that fails speaks for: something that is not shown and lasts, states that mix
different ones, a world that changed, a logger who chose by more than what was shown."""

LEVELS = {MEMORY: 0.01, ALIKE: 0.001, DRIFT: 0.001, CHOICE: 0.001}
"""The probability that a test of something that is true fails, over all tests of its kind. What
lasts and is not shown is the hardest to see, and to name it wrongly costs the model's own bound
alone; drift and choice cost all that could be promised."""

NEGLIGIBLE = 1e-3
"""A share of the variance below this does no harm, however sure it is."""

_SHUFFLES = 60
_MOST_STEPS = 50_000
_FEWEST_STEPS = 100
_FEWEST_EPISODES = 10
_BINS = 16  # of next and of earlier states
_PARTS = 4  # of the log
_TOGETHER = 10  # choices at an observation in a stretch, so that there are some to compare
_BACK = 5  # steps whose surprises are added up
_ROUNDING = 1e-9
_ACCURACY = 1e-3  # of the weighing, far below what chance does to it
_MOST_PASSES = 300  # each is some twenty products; ten suffice as a rule


@dataclass(frozen=True)
class Independence:
    """One test.

    Attributes
    ----------
    name : str
        What might tell something.
    about : str
        What it tells most about: "the reward", "the end", "the next state", "the choice", or "what
        follows".
    kind : str
        What its failure speaks for: "memory", "alike", "drift" or "choice".
    size : float
        The share of the variance that it explains beyond what shuffled rows do.
    p_value : float
        The probability of as much if it tells nothing, corrected for all tests of its kind.
    n_steps : int
        Steps that were compared with others.
    """

    name: str
    about: str
    kind: str
    size: float
    p_value: float
    n_steps: int

    @property
    def fails(self) -> bool:
        """Whether it tells more than luck would, and more than a trifle."""
        return self.p_value <= LEVELS[self.kind] and self.size > NEGLIGIBLE

    def __str__(self) -> str:
        return (
            f"{self.name} tells {max(0.0, self.size):.2%} of {self.about} "
            f"(p = {self.p_value:.2g}, {self.n_steps:,} steps)"
        )


def run_tests(
    seen: Trajectory, partition: Partition, in_episodes: bool, rng: np.random.Generator
) -> tuple[Independence, ...]:
    """Make every test for which there are enough steps.

    Parameters
    ----------
    seen
        Steps of the log, in their order.
    partition
        The hidden states.
    in_episodes
        Whether the log has episodes of its own, so that the step of an episode means something.
    rng
        Shuffles.
    """
    s = partition.labels[seen.observations]
    n = len(s)
    starts = np.cumsum(seen.lengths) - seen.lengths
    whose = np.repeat(np.arange(seen.n_episodes), seen.lengths)
    step = np.arange(n) - starts[whose]
    later = step > 0
    before = np.maximum(np.arange(n) - 1, 0)
    bins = rng.permutation(partition.n_clusters) % _BINS
    pair = bins[s[before]] * seen.n_actions + seen.actions[before]
    follows = _outcomes(seen, partition.labels, bins)
    choice = {"the choice": np.eye(seen.n_actions)[seen.actions]}
    at_action = seen.observations * seen.n_actions + seen.actions
    in_state = s * seen.n_actions + seen.actions
    order = rng.permutation(seen.n_episodes)
    offset = np.empty(seen.n_episodes, np.int64)
    offset[order] = np.cumsum(seen.lengths[order]) - seen.lengths[order]
    rows = (s >= 0) & (offset[whose] + step < _MOST_STEPS)
    asked = [
        ("the action before", MEMORY, seen.actions[before], rows & later),
        ("the state and the action before", MEMORY, pair, rows & later & (s[before] >= 0)),
    ]
    if in_episodes:
        age = np.minimum(step, 3) + np.log2(np.maximum(step, 3) / 3).astype(np.int64)
        asked.append(("the step of the episode", MEMORY, age, rows))
    found = [
        _test(name, kind, follows, at_action, in_state, told, which, rng)
        for name, kind, told, which in asked
    ]
    found.append(_lasting(follows, at_action, in_state, whose, step, rows))
    part = _PARTS * np.arange(n) // max(1, n)
    part = part[starts + seen.lengths // 2][whose]
    if seen.n_episodes >= _FEWEST_EPISODES:
        found.append(
            _test(
                "the part of the log", DRIFT, follows, at_action, in_state, part, rows, rng, whose
            )
        )
    if not partition.is_identity:
        about, shown = "the observation in its state", seen.observations
        found.append(_test(about, ALIKE, follows, in_state, in_state, shown, rows, rng))
    # Habits that change in time are no trouble: choices are compared inside short stretches.
    found.append(
        _test(
            "the action before",
            CHOICE,
            choice,
            seen.observations * (n // _TOGETHER + 1) + _met(seen.observations) // _TOGETHER,
            s,
            seen.actions[before],
            rows & later,
            rng,
        )
    )
    made = [test for test in found if test is not None]
    kinds = [test.kind for test in made]
    return tuple(
        Independence(
            t.name, t.about, t.kind, t.size, min(1.0, t.p_value * kinds.count(t.kind)), t.n_steps
        )
        for t in made
    )


def _outcomes(seen: Trajectory, labels: Ints, bins: Ints) -> dict[str, Floats]:
    """Return what followed each step, by what it is about; NaN where that is not known."""
    after = seen.next_observations
    s = np.append(labels, -1)[np.maximum(after, -1)]
    known = ((s >= 0) | (after == END))[:, None]
    found = {}
    if seen.rewards is not None:
        found["the reward"] = seen.rewards[:, None]
    if (after == END).any():
        found["the end"] = np.where(after == UNKNOWN, np.nan, after == END)[:, None]
    place = np.where(s >= 0, np.append(bins, 0)[s], _BINS)
    found["the next state"] = np.where(known, np.eye(_BINS + 1)[place][:, :_BINS], np.nan)
    return found


def _test(
    name: str,
    kind: str,
    outcomes: dict[str, Floats],
    strata: Ints,
    coarse: Ints,
    told: Ints,
    which: NDArray[np.bool_],
    rng: np.random.Generator,
    whole: Ints | None = None,
) -> Independence | None:
    """Test whether something tells about what follows, given the stratum.

    Cells are pairs of ``coarse`` and ``told``. What followed is shuffled inside each stratum; with
    ``whole``, what is told is the same in each of these, and they are shuffled as one.
    """
    at = np.flatnonzero(which)
    at = at[np.argsort(strata[at], kind="stable")]
    _, stratum, sizes = np.unique(strata[at], return_inverse=True, return_counts=True)
    compared = int(sizes[sizes > 1].sum())
    if compared < _FEWEST_STEPS:
        return None
    columns, owner = [], []
    for about, values in outcomes.items():
        for column in values[at].T:
            known = np.isfinite(column)
            rest = np.zeros(len(column))
            if whole is None:
                rest[known] = _ahead(column[known], stratum[known])
            else:
                rest[known] = _centred(column[known], stratum[known])[0]
            if rest.std() > _ROUNDING:
                columns.append(rest / rest.std())
                owner.append(about)
    if not columns or told[at].min() == told[at].max():
        return None

    def explained(told: Ints, order: Any = slice(None)) -> Floats:
        cell = coarse[at] * (1 + int(told.max())) + told
        _, cell, per = np.unique(cell, return_inverse=True, return_counts=True)
        return np.array([(np.bincount(cell, y[order]) ** 2 / per).sum() for y in columns])

    lucky = np.empty((_SHUFFLES, len(columns)))
    for i in range(_SHUFFLES):
        if whole is not None:
            _, first, group = np.unique(whole[at], return_index=True, return_inverse=True)
            lucky[i] = explained(rng.permutation(told[at][first])[group])
        else:
            lucky[i] = explained(told[at], np.argsort(stratum + rng.random(len(at))))
    there = explained(told[at])
    best: tuple[float, float, str] = (2.0, 0.0, "")
    names = list(dict.fromkeys(owner))
    for about in names:
        mine = np.array([x == about for x in owner])
        usual, value = lucky[:, mine].sum(axis=1), float(there[mine].sum())
        mean, spread = float(usual.mean()), max(1e-12, float(usual.var(ddof=1)))
        p_value = float(gammaincc(mean**2 / spread, max(0.0, value) * mean / spread))
        best = min(best, (p_value, (value - mean) / (mine.sum() * len(at)), about))
    p_value, size, about = best
    return Independence(name, about, kind, size, min(1.0, p_value * len(names)), compared)


def _lasting(
    outcomes: dict[str, Floats],
    strata: Ints,
    in_state: Ints,
    whose: Ints,
    step: Ints,
    which: NDArray[np.bool_],
) -> Independence | None:
    """Test whether how the steps before turned out tells anything about what follows."""
    at = np.flatnonzero(which)
    _, cell = np.unique(in_state[at], return_inverse=True)
    n, n_cells, rows, columns, surprises = len(at), int(cell.max(initial=-1)) + 1, [], [], []
    for i, y in enumerate(column for values in outcomes.values() for column in values[at].T):
        known = np.flatnonzero(np.isfinite(y))
        rest, spread = _centred(y[known], cell[known])
        told = spread > _ROUNDING
        rows.append(known[told])
        columns.append(i * n_cells + cell[known[told]])
        surprises.append(rest[told] / spread[told])
    place, where = np.unique(np.concatenate(columns), return_inverse=True)
    if len(place) < 2:
        return None
    shape = (n, len(place))
    surprise: Any = scipy.sparse.csr_array(
        (np.concatenate(surprises), (np.concatenate(rows), where)), shape
    )
    back: Any = scipy.sparse.csr_array((n, n))
    for k in range(1, _BACK + 1):
        later = np.flatnonzero(step[at] >= k)
        later = later[(later >= k) & (whose[at[later - k]] == whose[at[later]])]
        back = back + scipy.sparse.csr_array((np.ones(len(later)), (later, later - k)), (n, n))
    first = whose[at] % 2 == 0
    scores, sizes, compared = [], [], 0
    for own in (first, ~first):
        searched: Any = surprise[own]
        earlier: Any = back[own][:, own]

        def agree(weights: Floats, searched: Any = searched, earlier: Any = earlier) -> Floats:
            totals = searched @ weights
            together: Floats = searched.T @ (earlier @ totals + earlier.T @ totals)
            return together

        if not agree(np.ones(len(place))).any():  # no step has one before it
            return None
        operator: Any = LinearOperator((len(place),) * 2, matvec=agree, dtype=np.float64)
        begin: dict[str, Any] = {
            "v0": np.ones(len(place)),
            "tol": _ACCURACY,
            "maxiter": _MOST_PASSES,
        }
        try:
            found: Any = eigsh(operator, 1, which="LA", **begin)
        except ArpackNoConvergence:  # several are as good: none stands out
            return None
        weighing: Floats = found[1][:, 0]
        there = np.flatnonzero(~own & (step[at] > 0))
        _, stratum, size = np.unique(strata[at[there]], return_inverse=True, return_counts=True)
        totals: Floats = surprise @ weighing
        now, before = (_centred(y[there], stratum)[0] for y in (totals, back @ totals))
        both = np.bincount(stratum, now**2) * np.bincount(stratum, before**2)
        luck = float((both / np.maximum(1, size - 1)).sum())
        if luck <= _ROUNDING:
            return None
        scores.append(float(now @ before) / np.sqrt(luck))
        sizes.append(
            float(now @ before) ** 2 / max(_ROUNDING, float((now**2).sum() * (before**2).sum()))
        )
        compared += int(size[size > 1].sum())
    if compared < _FEWEST_STEPS:
        return None
    p_value = float(ndtr(-sum(scores) / np.sqrt(2.0)))
    name = "how the steps before turned out"
    return Independence(name, "what follows", MEMORY, float(np.mean(sizes)), p_value, compared)


def _met(observations: Ints) -> Ints:
    """Return how often the observation of each row was met before."""
    order = np.argsort(observations, kind="stable")
    met = np.empty(len(order), np.int64)
    met[order] = np.arange(len(order)) - np.searchsorted(observations[order], observations[order])
    return met


def _ahead(values: Floats, group: Ints) -> Floats:
    """Take away the mean of what comes later in the group; keep the variance.

    What was known before a step says nothing of these rests if it says nothing of the step. That is
    not so of what is left of the mean of the whole group: the action before may be in the same
    group, and drawing without replacement makes it rarer there (forward orthogonal deviations:
    Arellano and Bover 1995). Groups are sorted, and in the order of time.
    """
    later = np.cumsum(np.bincount(group))[group] - np.arange(len(group)) - 1
    total = np.append(0.0, np.cumsum(values))
    ahead = (total[np.arange(1, len(total)) + later] - total[1:]) / np.maximum(1, later)
    return np.asarray((values - ahead) * np.sqrt(later / (later + 1.0)))


def _centred(values: Floats, group: Ints) -> tuple[Floats, Floats]:
    """Take away the mean of each group; return the rest and the group's standard deviation."""
    sizes = np.maximum(1, np.bincount(group))
    rest = values - (np.bincount(group, values) / sizes)[group]
    return rest, np.sqrt(np.bincount(group, rest**2) / sizes)[group]
