"""The search for the grouping with the highest score: climb, merge, split, from several starts."""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from romdp.clustering.clusterer import Slices
from romdp.clustering.likelihood.blockmodel import (
    Blocks,
    Rule,
    copy_blocks,
    make_blocks,
    row_mass,
)
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.merging import all_fewer, apply_merges, merge_greedily
from romdp.clustering.likelihood.rewardlaw import RewardLaw
from romdp.clustering.likelihood.rules import best_rule, make_rules, place_of, rule_at
from romdp.clustering.likelihood.splitting import add_slot, drop_slot, split_group, unsplit
from romdp.clustering.likelihood.starts import embed, k_means
from romdp.clustering.likelihood.sweeping import (
    Laws,
    cool,
    estimate_laws,
    measure_margins,
    sweep,
)
from romdp.core.arrays import Bools, Floats, Ints

_MOST_SWEEPS = 50
_CLEAR, _CLEAR_SHARE = 2.0, 0.02  # a group is clearly best by this much, and this per transition
_FEW_SWEEPS = 3  # between merges
QUICKLY = np.geomspace(2.0, 0.4, 20)
"""Temperatures of annealing that leave a local optimum."""
_HOT, _WARM, _COLD = 30, 150, 20  # sweeps of cooling: before groups form, while they do, after
_FORMING = 0.7  # the inverse temperature at which groups begin to form, where visits are few
_PACE = 0.6  # a round of merging keeps at least this share of the groups, then sweeps follow
_SLACK = 30.0  # merging goes on until the score is this far below its best, to show the curve
_CORE, _CORE_DEGREE = 4000, 300  # observations that the groups are found from, and their degree
_EMBEDDED = 4000  # observations that a spectral start embeds; the others are placed by score
_MOST_DIMENSIONS = 40
ROUNDS = 50
"""Rounds of splitting at most; each adds groups, or is the last."""
MOST_GROUPS = 1024
"""The search never looks at more groups: their counts take memory in the square of the number."""

LARGE = 64
"""A grouping with more groups than this is improved where it changed, not searched for again."""
_MUCH = 100_000  # and so is one with so many groups times observations
_SLICE = 4 * 10**6  # transitions times groups that are looked at in a slice: some milliseconds
_RISE = 1e-6  # smaller rises are rounding


@dataclass(frozen=True)
class Grouping:
    """A grouping in the search.

    Attributes
    ----------
    blocks
        The labels, and the counts between groups.
    rule
        The rule with the best alpha.
    score
        The score under that rule.
    lead : shape (Y,)
        By how much the group of each observation was better than any other when it was last
        visited by a sweep; 0 if its group has changed since.
    """

    blocks: Blocks
    rule: Rule
    score: float
    lead: Floats

    @property
    def n_groups(self) -> int:
        """Number of groups; none of them is empty."""
        return self.blocks.size.size

    @property
    def labels(self) -> Ints:
        """The group of each observation, -1 for none."""
        return self.blocks.labels


class Search:
    """The data in the form that the search needs, and its steps, which return new `Grouping`s.

    Steps that take long do so in slices (see `finish`), so that who cannot wait need not.

    Parameters
    ----------
    links, law
        Transitions and rewards.
    rng
        Draws the starts and the order of sweeps.
    n_states
        The number of groups; None to let the score choose.
    quick
        The search will be repeated soon, with more data: a large grouping is improved, and what
        that leaves is for the next time.
    """

    def __init__(
        self,
        links: Links,
        law: RewardLaw,
        rng: np.random.Generator,
        *,
        n_states: int | None = None,
        quick: bool = False,
    ) -> None:
        self.links = links
        self.law = law
        self.rng = rng
        self.n_states = n_states
        self.quick = quick
        self.n_steps = int(links.out_count.sum())
        self.degree = links.in_totals() + links.out_totals()
        self.seen = np.flatnonzero((self.degree > 0) | law.parts.any(axis=(1, 2)))
        self._doubt = _CLEAR + _CLEAR_SHARE * self.degree[self.seen]
        self.rules = make_rules(law, links.in_totals())
        self.curve: dict[int, float] = {}

    def core(self) -> Ints:
        """Choose the most frequent observations, as few as suffice to find the groups.

        There are at least a few thousand of them, and each takes part in a few hundred transitions
        among them; that number is estimated from their share of all transitions.
        """
        frequent = self.seen[np.argsort(-self.degree[self.seen], kind="stable")]
        share = np.cumsum(self.degree[frequent]) / max(self.degree.sum(), 1)
        size = np.arange(1, len(frequent) + 1)
        each = share * share * self.degree.sum() / size
        enough = np.flatnonzero((size >= _CORE) & (each >= _CORE_DEGREE))
        return frequent[: enough[0] + 1] if len(enough) else frequent

    def restrict(self, chosen: Ints) -> "Search":
        """Search among some observations alone, renumbered in the order given."""
        law = replace(self.law, parts=self.law.parts[chosen])
        return self.replace(self.links.restrict(chosen), law)

    def replace(self, links: Links, law: RewardLaw) -> "Search":
        """Search in the same way with other transitions or rewards."""
        return Search(links, law, self.rng, n_states=self.n_states, quick=self.quick)

    def grouping(self, labels: Ints, n_groups: int) -> Grouping:
        """Count and score a grouping."""
        return self._scored(make_blocks(self.links, self.law.parts, labels, n_groups))

    def _scored(self, blocks: Blocks, near: Rule | None = None) -> Grouping:
        lead = np.zeros(len(blocks.labels))
        return Grouping(blocks, *best_rule(self.rules, blocks, near), lead)

    def one_group(self) -> Grouping:
        """Put all observations that were seen into one group."""
        labels = np.full(self.links.n_observations, -1)
        labels[self.seen] = 0
        return self.grouping(labels, 1)

    def _note(self, n_groups: int, score: float) -> None:
        self.curve[n_groups] = max(self.curve.get(n_groups, -np.inf), score)

    def climb(self, start: Grouping, most_sweeps: int = _MOST_SWEEPS) -> Slices[Grouping]:
        """Sweep until nothing moves.

        At first only those observations are visited that moved last time or whose group was not
        much better than another one. Once these have settled, all are visited; once in a climb
        where time `is_short`.
        """
        rule, blocks, lead = start.rule, copy_blocks(start.blocks), start.lead.copy()
        laws, everywhere = None, False
        for _ in range(most_sweeps):
            visited = self.seen[lead[self.seen] < self._doubt]
            everywhere |= len(visited) == len(self.seen)
            order = self.rng.permutation(visited)
            if laws is None:
                laws = self._estimate(rule, blocks, order)
            moved = 0
            for part in self._parts(order, blocks.size.size):
                yield
                moved += sweep(self.links, self.law.parts, rule, blocks, laws, part, lead)
            if not moved:
                done = everywhere if self.is_short(start) else len(visited) == len(self.seen)
                if done or most_sweeps < _MOST_SWEEPS:
                    break
                lead[:] = 0.0
                laws = None
        found = replace(self._scored(blocks, rule), lead=lead)
        self._note(found.n_groups, found.score)
        return found

    def _parts(self, order: Ints, n_groups: int) -> list[Ints]:
        """Cut the order of a sweep into parts of about as much work as a slice should hold."""
        slices = np.cumsum(self.degree[order]) * n_groups // _SLICE
        return np.split(order, np.flatnonzero(np.diff(slices)) + 1)

    def is_short(self, grouping: Grouping) -> bool:
        """Whether there is no time to search for a grouping of this size again."""
        large = grouping.n_groups > LARGE or grouping.n_groups * len(self.seen) > _MUCH
        return self.quick and large

    def _estimate(self, rule: Rule, blocks: Blocks, order: Ints) -> Laws:
        """Estimate the laws for a climb that begins with such a sweep; single members stay."""
        groups = blocks.labels[order]
        together = (groups < 0) | (blocks.size[groups] > 1)
        return estimate_laws(rule, blocks, int(together.sum()))

    def _cool(self, start: Grouping, temperatures: Floats) -> Slices[tuple[Grouping, Floats]]:
        """Draw the group of each observation in turn, in one sweep per temperature.

        The blocks change in place. Returns the grouping, and the scores after all sweeps.
        """
        blocks, at = start.blocks, place_of(start.rule)
        scores = np.empty(len(temperatures))
        each = int(self.degree.sum()) + len(self.seen)  # work of a sweep, for each group
        at_once = max(1, _SLICE // max(1, each * blocks.size.size))
        for first in range(0, len(temperatures), at_once):
            yield
            few = slice(first, first + at_once)
            orders = np.empty((len(temperatures[few]), len(self.seen)), np.int64)
            draws = np.empty(orders.shape)
            for order, numbers in zip(orders, draws, strict=True):
                order[:] = self.rng.permutation(self.seen)
                self.rng.random(out=numbers)
            at = cool(
                self.links,
                self.law.parts,
                self.rules,
                at,
                blocks,
                orders,
                temperatures[few],
                draws,
                scores[few],
            )
        rule = rule_at(self.rules, *at)
        return Grouping(blocks, rule, float(scores[-1]), np.zeros(len(blocks.labels))), scores

    def anneal(self, start: Grouping, temperatures: Floats = QUICKLY) -> Slices[Grouping]:
        """Sweep at falling temperatures, then climb: a way out of a local optimum."""
        copied = replace(start, blocks=copy_blocks(start.blocks))
        cooled, _ = yield from self._cool(copied, temperatures)
        return (yield from self.climb(cooled))

    def temper(self, n_groups: int, slowness: int = 1) -> Slices[tuple[Grouping, float]]:
        """Cool from infinite heat, which also measures the evidence for ``n_groups`` groups.

        The evidence is the log probability of the data with that many groups, summed over all
        placings. The score is that of the data with one placing z; where visits are few, many
        placings are about as likely, and their sum is what speaks for or against a number of
        groups. With
        Z(b) the sum of exp(b score(z)) over all z, log Z(0) counts them, log Z(1) is the
        evidence, and in between log Z rises by the mean score at temperature 1 / b, which
        cooling visits anyway (thermodynamic integration). Where groups form too fast for it, the
        cooling lags and the evidence comes out too low, not too high. ``slowness`` multiplies the
        sweeps, 200, and so the time.
        """
        hot = np.linspace(0.0, _FORMING, _HOT * slowness, endpoint=False)[1:]
        warm = np.linspace(_FORMING, 1.0, _WARM * slowness)
        inverse = np.concatenate([hot, warm])
        start = self.random(n_groups)
        cooled, scores = yield from self._cool(start, 1.0 / inverse)
        evidence = _log_placings(len(self.seen), start.n_groups)
        evidence += np.trapezoid([start.score, *scores], [0.0, *inverse])
        coldest = yield from self.anneal(cooled, np.geomspace(1.0, 0.6, _COLD * slowness))
        return coldest, float(evidence)

    def complete(self, labels: Ints, n_groups: int) -> Slices[Grouping]:
        """Place every seen observation that has no group yet, the most frequent first."""
        current = self.grouping(labels, n_groups)
        missing = self.seen[labels[self.seen] < 0]
        if len(missing) == 0:
            return current
        order = missing[np.argsort(-self.degree[missing], kind="stable")]
        laws, lead = self._estimate(current.rule, current.blocks, order), np.empty(len(labels))
        for part in self._parts(order, current.n_groups):
            yield
            sweep(self.links, self.law.parts, current.rule, current.blocks, laws, part, lead)
        return self._scored(current.blocks, current.rule)

    def margins(self, grouping: Grouping, has_end: bool = False) -> Floats:
        """Measure how sure each placing is: log odds against the second best, probability.

        If the last observation stands for the end of an episode (``has_end``), its group is no
        place for others unless some are in it.
        """
        groups = np.arange(grouping.n_groups)
        if has_end and (grouping.labels == grouping.labels[-1]).sum() == 1:
            groups = np.delete(groups, grouping.labels[-1])
        margins = np.full((self.links.n_observations, 2), np.nan)
        blocks = copy_blocks(grouping.blocks)
        measure_margins(
            self.links, self.law.parts, grouping.rule, blocks, self.seen, groups, margins
        )
        return margins

    def predict(self, grouping: Grouping, links: Links) -> Floats:
        """Return the log probability of each of some links, as far as they are among groups."""
        blocks, rule = grouping.blocks, grouping.rule
        cell = np.repeat(np.arange(len(links.out_start) - 1), np.diff(links.out_start))
        y, a = np.divmod(cell, links.n_actions)
        s, t = blocks.labels[y], blocks.labels[links.out_target]
        shown = self.links.in_totals() + 1.0
        both = blocks.moves[s, a, t] + np.where(s == t, rule.stay, rule.alpha)
        left = blocks.out[s, a] + row_mass(rule, grouping.n_groups)
        of_group = (blocks.into + blocks.size)[t]
        value: Floats = np.log(both / left * shown[links.out_target] / of_group)
        return np.where((s >= 0) & (t >= 0), value, 0.0)

    def merge(self, start: Grouping) -> Slices[Grouping]:
        """Merge and sweep in turn, down to the best number of groups or to the given one."""
        current = start
        while True:
            yield
            merges = merge_greedily(
                current.rule,
                current.blocks,
                self.n_states or 1,
                np.inf if self.n_states else _SLACK,
            )
            after = current.score + np.cumsum(merges.rise)
            for done, value in enumerate(after, start=1):
                self._note(current.n_groups - done, float(value))
            if self.n_states is not None:
                wanted = len(after)
            else:
                rises = len(after) > 0 and after.max() > current.score
                wanted = int(np.argmax(after)) + 1 if rises else 0
            if wanted == 0:
                return current
            allowed = max(1, int((1.0 - _PACE) * current.n_groups))
            done = min(wanted, allowed)
            labels, n_groups = apply_merges(current.labels, current.n_groups, merges, done)
            united = np.isin(current.labels, [*merges.first[:done], *merges.second[:done]])
            merged = self.grouping(labels, n_groups)
            lead = np.where(united, 0.0, current.lead)
            current = yield from self.climb(replace(merged, lead=lead), _FEW_SWEEPS)
            if done == wanted and self.is_short(current):
                return current

    def split(self, start: Grouping, tried: Grouping | None = None) -> Slices[Grouping]:
        """Split every group whose split raises the score.

        Where groups are many, those that are as they were when splits were last ``tried``, and
        so are all that they lead to or are reached from, are not tried again.
        """
        blocks = add_slot(start.blocks)
        rule = self._rule_of_one_more(start, blocks)
        fewer = all_fewer(rule, blocks, start.n_groups + 1)
        cut = []
        groups = range(start.n_groups)
        if tried is not None and start.n_groups > LARGE:
            groups = _touched(start.blocks, tried.blocks).tolist()
        for group in groups:
            if blocks.size.size > MOST_GROUPS:
                break
            yield
            rise = yield from split_group(
                self.links, self.law, rule, blocks, group, self.rng, fewer
            )
            if rise > _RISE:
                cut.append(group)
                blocks = add_slot(blocks)
                fewer = all_fewer(rule, blocks, blocks.size.size)
            elif rise > -np.inf:
                unsplit(self.links, self.law, blocks, group)
        lead = np.where(np.isin(start.labels, cut), 0.0, start.lead)
        return replace(self._scored(drop_slot(blocks), rule), lead=lead)

    def _rule_of_one_more(self, start: Grouping, larger: Blocks) -> Rule:
        """Return the rule by which to judge a split, given the blocks with an empty group more.

        Where moves are certain, alpha is as low as the number of groups allows. Under that of the
        groups before the split, which is higher, a split that is worth its price may look too dear.
        """
        return best_rule(self.rules, larger, start.rule)[0]

    def grow(self, start: Grouping) -> Slices[Grouping]:
        """Split the one group whose split raises the score most, or lowers it least."""
        rises = np.full(start.n_groups, -np.inf)
        best = add_slot(start.blocks)
        rule = self._rule_of_one_more(start, best)
        fewer = all_fewer(rule, best, start.n_groups + 1)
        for group in range(start.n_groups):
            yield
            blocks = add_slot(start.blocks)
            rises[group] = yield from split_group(
                self.links, self.law, rule, blocks, group, self.rng, fewer
            )
            if rises[group] > rises[:group].max(initial=-np.inf):
                best = blocks
        return start if np.isneginf(rises).all() else self._scored(best, rule)

    def polish(self, start: Grouping, most_rounds: int = ROUNDS) -> Slices[Grouping]:
        """Merge, climb and split until the score no longer rises, or so many times."""
        merged = yield from self.merge(start)
        many = merged.n_groups > LARGE or self.is_short(merged)
        best = start if many and merged is start else (yield from self.climb(merged))
        if self.n_states is not None:
            while best.n_groups < self.n_states:
                more = yield from self.grow(best)
                if more.n_groups == best.n_groups:
                    break  # nothing can be cut: every observation is a group
                best = yield from self.climb(more)
        tried = None
        for _ in range(most_rounds):
            more = yield from self.split(best, tried)
            if more.n_groups == best.n_groups:
                break
            tried = best
            more = yield from self.climb(more, _FEW_SWEEPS if many else _MOST_SWEEPS)
            found = yield from self.climb((yield from self.merge(more)))
            if found.score <= best.score + _RISE:
                break
            best = found
        return best

    def spectral(self, n_groups: int) -> Slices[Grouping]:
        """Group by k-means on the spectral embedding; rare observations are placed by score."""
        core = self.seen[np.argsort(-self.degree[self.seen], kind="stable")][:_EMBEDDED]
        points = embed(self.links, core, min(n_groups, _MOST_DIMENSIONS), self.rng)
        weights = self.degree[core].astype(np.float64)
        yield
        found = k_means(points, weights, n_groups, self.rng, restarts=2)
        groups, compact = np.unique(found, return_inverse=True)
        labels = np.full(self.links.n_observations, -1)
        labels[core] = compact
        return (yield from self.complete(labels, len(groups)))

    def random(self, n_groups: int) -> Grouping:
        """Deal the observations to groups at random."""
        labels = np.full(self.links.n_observations, -1)
        labels[self.seen] = self.rng.permutation(np.arange(len(self.seen)) % n_groups)
        return self.grouping(labels, min(n_groups, len(self.seen)))

    def warm(self, labels: Ints) -> Slices[Grouping]:
        """Start from another grouping of the same observations."""
        seen = np.zeros(len(labels), np.bool_)
        seen[self.seen] = True
        groups, compact = np.unique(labels[seen & (labels >= 0)], return_inverse=True)
        start = np.full(len(labels), -1)
        start[seen & (labels >= 0)] = compact
        return (yield from self.complete(start, len(groups)))


def _touched(blocks: Blocks, before: Blocks) -> Ints:
    """List the groups that have changed, or that lead to or are reached from one that has."""
    placed = blocks.labels >= 0
    pairs = np.unique(
        np.stack((blocks.labels[placed], before.labels[placed])), axis=1, return_counts=True
    )
    (now, then), together = pairs
    same = (together == blocks.size[now]) & (together == before.size[then]) & (then >= 0)
    changed = np.ones(blocks.size.size, np.bool_)
    changed[now[same]] = False
    linked: Bools = np.asarray(blocks.moves.any(axis=1))
    near = linked[changed].any(axis=0) | linked[:, changed].any(axis=1)
    return np.flatnonzero(changed | near)


@lru_cache(maxsize=64)
def _log_placings(n_placed: int, n_groups: int) -> float:
    """Return the log of the number of ways to part observations into ``n_groups`` groups.

    The last observation is a group of its own, or joins one of the others.
    """
    log_groups = np.log(np.arange(1, n_groups + 1))
    ways = np.full(n_groups + 1, -np.inf)  # by the number of groups, from none on
    ways[0] = 0.0
    for _ in range(n_placed):
        ways[1:] = np.logaddexp(log_groups + ways[1:], ways[:-1])
        ways[0] = -np.inf
    return float(ways[-1])
