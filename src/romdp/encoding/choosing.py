"""The choice of a view: all are tried, and the one is kept whose codes predict best.

Which view is right depends on the data: where codes lie apart as they are, any map would only blur
them; where most of a vector is noise, only the directions that actions and rewards depend on show
the states. No rule tells beforehand, so every view is tried and `romdp.encoding.scoring` decides.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import gammaln

from romdp.core.arrays import Floats, Ints
from romdp.core.validation import freeze
from romdp.data.trajectory import END, UNKNOWN, Trajectory
from romdp.data.vectors import BLOCK, blocks
from romdp.encoding.apart import codes_apart
from romdp.encoding.codebook import SEVERAL, Codebook, k_means
from romdp.encoding.directions import (
    Directions,
    LinearMap,
    VectorMoments,
    action_directions,
    later_directions,
    mean_and_scale,
    partly_whitening,
    whitening,
)
from romdp.encoding.scoring import (
    CERTAIN,
    CLEAR,
    RECENT,
    Score,
    both,
    by_age,
    find_motives,
    foresight,
    last_steps,
    memory_score,
    next_codes,
    score,
    score_with_age,
    vectors_of,
)
from romdp.encoding.views import VIEWS, Encoding, cut

_MOST_FEATURES = 1024  # longer vectors are made shorter first
_MOST_COMPONENTS = 256
_SAMPLE = 20_000  # rows that codes are found in
_ALIKE = 1.0  # standard errors between equally good views: the rule of Breiman et al. 1984
# Shares of the best score: below the first, codes are not grouped, nor codes apart believed; codes
# apart that are in use are believed above the second, and kept whatever groups say above the third.
_HOPELESS, _IN_USE, _SAFE = 0.3, 0.1, 0.5
_MOST_CODES, _ROWS_PER_CODE = 400, 10


def reduction(steps: Trajectory, rng: np.random.Generator) -> LinearMap | None:
    """Return a map of very long vectors to shorter ones with orthonormal axes, None for others.

    Columns that never vary are left out. If there are still too many, the leading principal
    components are kept; what actions move may then be lost among stronger noise.
    """
    vectors = vectors_of(steps)
    d = vectors.shape[1]
    if d <= _MOST_FEATURES:
        return None
    start = vectors[0]
    varies = np.zeros(d, np.bool_)
    for rows in blocks(vectors):
        varies |= (vectors[rows] != start).any(axis=0)
    n_varying = max(1, int(np.count_nonzero(varies)))
    if n_varying <= _MOST_FEATURES and n_varying * d <= BLOCK:
        return LinearMap(np.where(varies, 0.0, start), np.eye(d)[:, varies])
    most = min(steps.n_steps, 4 * _MOST_COMPONENTS)
    some = np.sort(rng.choice(steps.n_steps, most, replace=False))
    sample = vectors[some].astype(np.float64)
    center = sample.mean(axis=0)
    _, sizes, axes = np.linalg.svd(sample - center, full_matrices=False)
    kept = (sizes > 1e-6 * max(sizes[0], 1e-300)) & (np.arange(len(sizes)) < _MOST_COMPONENTS)
    return LinearMap(center, axes[kept].T)


def count_moments(
    steps: Trajectory, first: LinearMap | None, rng: np.random.Generator
) -> VectorMoments:
    """Add up the moments of the steps, block by block."""
    vectors = vectors_of(steps)
    size = vectors.shape[1] if first is None else first.matrix.shape[1]
    moments = VectorMoments(size, steps.n_actions)
    for rows in blocks(vectors):
        following = steps.next_observations[rows]
        before, after = vectors[rows], vectors[np.maximum(following, 0)]
        moments.add(
            before.astype(np.float64) if first is None else first(before),
            steps.actions[rows],
            None if steps.rewards is None else steps.rewards[rows],
            after.astype(np.float64) if first is None else first(after),
            following >= 0,
            following == END,
            rng,
        )
    return moments


@dataclass(frozen=True, eq=False)
class Look:
    """A view with its codebook, and the codes of the rows that it is judged on."""

    name: str
    map: LinearMap
    codebook: Codebook
    codes: Ints

    @classmethod
    def at(cls, steps: Trajectory, name: str, linear: LinearMap, book: Codebook) -> "Look":
        """Look at these rows."""
        codes = [book.nearest(linear(some))[0] for some in cut(vectors_of(steps))]
        return Look(name, linear, book, np.concatenate(codes))


@dataclass(frozen=True, eq=False)
class Candidate(Look):
    """A look and how it scores; ``stepwise`` if together with the step of the episode."""

    score: Score
    stepwise: bool

    @classmethod
    def of(cls, look: Look, judge: "Judge") -> Self:
        """Judge a look on the rows that it was taken at."""
        marks = judge.score(look.codes)
        return cls(look.name, look.map, look.codebook, look.codes, *marks)


@dataclass(frozen=True, eq=False)
class Judge:
    """What codes are scored on.

    Attributes
    ----------
    steps
        The last steps.
    motives
        What actions depended on; see `romdp.encoding.scoring.find_motives`.
    by_step
        Whether codes may be told apart by the step of the episode: None, they may not; else whether
        they are so far.
    """

    steps: Trajectory
    motives: Ints | None
    by_step: bool | None

    def score(self, codes: Ints) -> tuple[Score, bool]:
        """Score codes alone or, if that is better, together with the step of the episode."""
        if self.by_step is None:
            return score(codes, self.steps, self.motives), False
        return score_with_age(codes, self.steps, self.motives, self.by_step)


def learn_encoding(
    steps: Trajectory,
    rng: np.random.Generator,
    *,
    views: Sequence[str] = VIEWS,
    n_codes: int | None = None,
    previous: Encoding | None = None,
    features: Any = None,
    group: Callable[[Trajectory, Ints], Ints] | None = None,
    by_step: bool = False,
) -> Encoding:
    """Try the views and keep the one whose codes predict held-out steps best.

    Parameters
    ----------
    steps
        What was seen.
    rng
        Draws samples and starts.
    views
        Which of `VIEWS` to try.
    n_codes
        The number of codes of k-means; None grows with the square root of the number of steps.
    previous
        What was learned before from fewer steps: where its codes lay apart, its space is tried
        again, so that codes that were found stay found.
    features
        What the vectors of ``steps`` have been through already.
    group
        Returns the group of every code, given steps and the code of every row. Views are then
        compared by the groups of their codes: many codes predict worse than the few states behind
        them, in the right view far more so than in a wrong one. None compares the codes. Where
        codes predict better together with the step of the episode, the actions of the steps that
        it is given are different ones at every step.
    by_step
        Whether codes may be told apart by the step of the episode.
    """
    first = reduction(steps, rng)
    moments = count_moments(steps, first, rng)
    white = whitening(moments)
    found = action_directions(moments, white)
    maps = _maps(moments, white, found)
    told = (previous is not None and previous.stepwise) if by_step else None
    search = _Search(steps, rng, first, white, views, n_codes, previous)
    candidates, judge = search.judged(maps, told)
    settled = _still_tell_states(candidates, previous, judge)
    if group is not None and not settled:
        candidates = _score_groups(candidates, judge, group)
    in_use = previous is not None and previous.view == "apart"
    best = _choose(candidates, _IN_USE if in_use else _HOPELESS, judge)
    if "actions" in views and best.score.is_signal and not best.stepwise and not settled:
        best, found = search.look_ahead(best, found, judge, group)
    if best.name != "apart" and n_codes is None and not by_step:  # an agent will look again
        best = replace(best, codebook=_halved(best, judge.steps, rng))
    _, scale = mean_and_scale(moments)
    constant = np.flatnonzero(scale <= 1e-9 * max(float(scale.max()), 1e-300))
    scores = {
        c.name: (c.score.mean, c.score.error)
        for c in sorted(candidates, key=lambda c: c.score.mean)
    } | {best.name: (best.score.mean, best.score.error)}
    return Encoding(
        view=best.name,
        map=best.map,
        codebook=best.codebook,
        teaching_map=_after(first, partly_whitening(moments)),
        scores=scores,
        rank=found.rank,
        strengths=freeze(found.strengths),
        noise=found.noise,
        is_signal=best.score.is_signal,
        constant=() if first is not None else tuple(constant.tolist()),
        features=features,
        stepwise=best.stepwise,
    )


def _still_tell_states(
    candidates: list[Candidate], previous: Encoding | None, judge: Judge
) -> bool:
    """Whether codes that were states still are, whatever the groups of other codes predict.

    As `_choose` decides, groups would have to predict five times as well as the best codes do to
    change that; two to three times is usual. To find them takes longer than all else.
    """
    if previous is None or not previous.tells_states:
        return False
    best = max(candidates, key=lambda candidate: candidate.score.mean)
    enough = _SAFE * best.score.mean
    return any(
        c.name == "apart"
        and not c.stepwise
        and c.score.mean > enough
        and not _are_several(c, best, judge)
        for c in candidates
    )


def _are_several(apart: Candidate, other: Candidate, judge: Judge) -> bool:
    """Whether codes that lie apart are several states each, which another view tells apart.

    Then they predict clearly better together with the codes of the other view. Codes that are
    states do not, however many they are and however few the steps: all that the other view says
    about them is noise.
    """
    if other is apart or apart.stepwise:
        return False
    pairs, motives = both(apart.codes, other.codes), judge.motives
    together = score(pairs, judge.steps, motives)
    return together.exceeds(score(apart.codes, judge.steps, motives)) > CERTAIN


def _score_groups(
    candidates: list[Candidate], judge: Judge, group: Callable[[Trajectory, Ints], Ints]
) -> list[Candidate]:
    """Score the groups of codes in place of the codes; hopeless views are left out."""
    most = max(candidate.score.mean for candidate in candidates)
    if not any(candidate.score.is_signal for candidate in candidates):
        return candidates
    grouped = []
    for candidate in candidates:
        if candidate.score.mean < _HOPELESS * most and candidate.name != "apart":
            continue
        codes, steps = candidate.codes, judge.steps
        groups = group(by_age(steps) if candidate.stepwise else steps, codes)[codes]
        mark, stepwise = judge.score(groups)
        apart = candidate.name == "apart" and candidate.score.mean > mark.mean
        scored = replace(candidate, score=mark, stepwise=stepwise)
        grouped.append(candidate if apart else scored)
    return grouped


def _choose(candidates: list[Candidate], partly: float, judge: Judge) -> Candidate:
    """Choose the view that predicts best.

    Codes that lie apart are preferred to others that predict hardly better, and where nothing
    predicts: they can still be grouped, and they tell states from the first visit on, when there
    is nothing to predict from. While they are many and steps are few, part of the best score will
    do, unless they are several states each; codes that lie apart for reasons of their own have next
    to none. Then, within one standard error of the best, the view of least size, which has the
    least room for distractions.
    """
    best = max(candidates, key=lambda candidate: candidate.score.mean)
    behind = {c.name: 0.0 if c is best else best.score.exceeds(c.score) for c in candidates}
    for candidate in candidates:
        if candidate.name != "apart":
            continue
        if not best.score.is_signal or behind["apart"] < CLEAR:
            return candidate
        enough = candidate.score.mean > partly * best.score.mean
        if enough and not _are_several(candidate, best, judge):
            return candidate
    as_good = [c for c in candidates if behind[c.name] < _ALIKE]
    return min(as_good, key=lambda c: (c.map.matrix.shape[1], -c.score.mean))


def _halved(look: Look, steps: Trajectory, rng: np.random.Generator) -> Codebook:
    """Halve the codes whose halves lead elsewhere: k-means may have put two clouds into one.

    That is judged by the evidence of what followed, so that codes of one state stay whole.
    """
    book, codes, space = look.codebook, look.codes, look.map(vectors_of(steps))
    following = next_codes(steps, codes)
    outcomes = np.where(following < 0, book.n_codes, following)  # or the end
    known = following != UNKNOWN
    points, sizes = list(book.points), list(book.sizes)
    for code in np.flatnonzero(np.bincount(codes, minlength=book.n_codes) >= 2 * SEVERAL):
        rows = np.flatnonzero(codes == code)
        halves = k_means(space[rows], 2, rng)
        sides = halves.nearest(space[rows])[0][known[rows]]
        rows = rows[known[rows]]
        ways = steps.actions[rows], outcomes[rows]
        if halves.n_codes == 2 and _evidence(
            sides * steps.n_actions + ways[0], ways[1], book.n_codes + 1
        ) > _evidence(*ways, book.n_codes + 1):
            points[code], sizes[code] = halves.points[0], halves.sizes[0]
            points.append(halves.points[1])
            sizes.append(halves.sizes[1])
    return replace(book, points=freeze(np.array(points)), sizes=freeze(np.array(sizes)))


def _evidence(ways: Ints, outcomes: Ints, n_outcomes: int) -> float:
    """Return the log probability of outcomes, each way with a Dirichlet prior of weight one."""
    table = np.zeros((int(ways.max()) + 1, n_outcomes))
    np.add.at(table, (ways, outcomes), 1.0)
    each, totals = 1.0 / n_outcomes, table.sum(axis=1)
    seen = table[table > 0]
    return float((gammaln(seen + each) - gammaln(each)).sum() - gammaln(totals + 1.0).sum())


def _after(first: LinearMap | None, then: LinearMap) -> LinearMap:
    """Join two maps; the first may be missing."""
    if first is None:
        return LinearMap(freeze(then.center), freeze(then.matrix))
    center = first.center + then.center @ first.matrix.T  # its columns are orthonormal
    return LinearMap(freeze(center), freeze(first.matrix @ then.matrix))


def _maps(moments: VectorMoments, white: LinearMap, found: Directions) -> dict[str, LinearMap]:
    """Return the maps of the views whose codes are found by k-means."""
    mean, scale = mean_and_scale(moments)
    usable = scale > 1e-9 * max(float(scale.max(initial=0.0)), 1e-300)
    inverse = np.where(usable, 1 / np.where(usable, scale, 1.0), 0.0)
    overall = max(float(np.sqrt((scale**2).mean())), 1e-300)
    maps = {
        "plain": LinearMap(mean, np.diag(usable / overall)),
        "standard": LinearMap(mean, np.diag(inverse)),
        "white": white,
        "actions": found.map,
    }
    if len(mean) == 1:
        del maps["plain"], maps["white"]
    return maps


@dataclass(frozen=True, eq=False)
class _Search:
    """What views are made of: the arguments of `learn_encoding`, and maps of the vectors.

    ``first`` makes long vectors shorter, and ``white`` whitens what it leaves.
    """

    steps: Trajectory
    rng: np.random.Generator
    first: LinearMap | None
    white: LinearMap
    views: Sequence[str]
    n_codes: int | None
    previous: Encoding | None

    @cached_property
    def part(self) -> Trajectory:
        """The steps that views are judged on."""
        return last_steps(self.steps, RECENT)

    @cached_property
    def space(self) -> Floats:
        """Their vectors, whitened."""
        return _after(self.first, self.white)(vectors_of(self.part))

    @cached_property
    def _sample(self) -> Floats:
        n = self.steps.n_steps
        rows = np.sort(self.rng.choice(n, min(n, _SAMPLE), replace=False))
        return vectors_of(self.steps)[rows].astype(np.float64)

    def _k_means(self, name: str, inner: LinearMap) -> Look:
        n, linear = self.steps.n_steps, _after(self.first, inner)
        most = max(2, min(_MOST_CODES, int(np.sqrt(n)), n // _ROWS_PER_CODE))
        most = most if self.n_codes is None else min(self.n_codes, n)
        return Look.at(self.part, name, linear, k_means(linear(self._sample), most, self.rng))

    def _apart(self, fragments: Sequence[Ints]) -> list[Look]:
        """Return the view of codes that lie apart, if there are any; see `codes_apart`."""
        if "apart" not in self.views or not self.white.matrix.size:
            return []
        linear = _after(self.first, self.white)
        before: Floats | None = None
        if self.previous is not None and self.previous.view == "apart":
            before = np.linalg.pinv(linear.matrix) @ self.previous.map.matrix
        found = codes_apart(self.space, self.rng, fragments, before)
        if found is None:
            return []
        matrix, book = found
        return [Look.at(self.part, "apart", _after(self.first, self.white.then(matrix)), book)]

    def judged(
        self, maps: Mapping[str, LinearMap], told: bool | None
    ) -> tuple[list[Candidate], Judge]:
        """Return the views, each judged, and what they were judged on."""
        wanted = {name: m for name, m in maps.items() if name in self.views and m.matrix.any()}
        looks = [self._k_means(name, inner) for name, inner in wanted.items()]
        seen = [look.codes for look in looks]
        if self.previous is not None:
            seen.append(self.previous.codes(vectors_of(self.part)))
        judge = Judge(self.part, find_motives(self.part, seen), told)
        tried = [Candidate.of(look, judge) for look in looks]
        starts = tried
        if self.previous is not None and self.previous.view == "apart":
            starts = sorted(tried, key=lambda c: -c.score.mean)[:1]  # one start more will do
        tried += [Candidate.of(look, judge) for look in self._apart([c.codes for c in starts])]
        if not tried:  # nothing varies, or nothing is apart
            tried = [Candidate.of(self._k_means("standard", maps["standard"]), judge)]
        return tried, judge

    def look_ahead(
        self,
        best: Candidate,
        found: Directions,
        judge: Judge,
        group: Callable[[Trajectory, Ints], Ints] | None,
    ) -> tuple[Candidate, Directions]:
        """Look also at what tells the next state, until states are Markov.

        What an action moves only some steps later, nothing of it shows at once. States that are
        found without it are not Markov: vectors tell the next one better than the state does. What
        tells it is added to what actions depend on, as long as the next state, as states were
        before, is predicted clearly better by the new codes. Then new states are looked at in the
        same way. Noise with dynamics of its own tells nothing of states that do not hold any.
        """
        part = self.part
        rows = np.flatnonzero(part.next_observations >= 0)
        while True:
            states = best.codes
            if group is not None and (best.name != "apart" or self.previous is None):
                states = group(part, states)[states]
            if not memory_score(states, part).is_signal:
                return best, found
            ways, after = both(states, part.actions), part.next_observations[rows]
            later = later_directions(self.white, self.space, rows, after, states, ways, self.rng)
            longer = found.joined(later)
            if longer.rank == found.rank:
                return best, found
            look = self._k_means("actions", longer.map)
            tried = [
                Candidate.of(each, judge) for each in [look, *self._apart([look.codes, states])]
            ]
            if group is not None:
                tried = _score_groups(tried, judge, group)
            marks = [foresight(each.codes, part, states) for each in tried]
            mark, new = max(zip(marks, tried, strict=True), key=lambda pair: pair[0].mean)
            ahead = mark.exceeds(foresight(best.codes, part, states))
            better = max(ahead, new.score.exceeds(best.score))
            alike = ahead > -CLEAR and new.score.mean > _SAFE * best.score.mean
            if not alike or better < CLEAR or new.stepwise:
                return best, found
            best, found = new, longer
