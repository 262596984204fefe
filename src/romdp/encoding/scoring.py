"""How well codes predict: the held-out score by which views and decoders are compared.

    score = E[log p(next | code, action) - log p(next | code, motive)] + gain in predicting what
            is earned

in nats per step, on steps that the model was not fitted to. The first part is what the action
tells about the next code: noise with dynamics of its own, however predictable, adds nothing to
it, and neither does splitting a state in two. Codes that mix states lose both parts. What is earned
is the reward or, where episodes end, the return of the next steps (`earned`): an action may
move at once what matters only later, as the push to a cart moves its speed and not its place.

Where an agent acts on what it sees, its action also tells which of several mixed states it saw.
That must not count, so the second term is told the motive of the action: how likely each action
was, as far as any view of the vectors tells (`find_motives`). To a state its motive adds nothing.

Where it is known, codes are also tried together with the step of the episode: a lock may want
another action at every step and show nothing of it.

Steps are a `Trajectory` of vectors: each row is an observation of its own, so what a step led to
is the number of a row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Bools, Floats, Ints
from romdp.data.trajectory import END, UNKNOWN, Trajectory

_DISCOUNT, _AHEAD = 0.9, 40  # of what is earned later, and steps that are looked ahead


def vectors_of(steps: Trajectory) -> NDArray[Any]:
    """Return the vectors of steps that have them."""
    assert steps.vectors is not None
    return steps.vectors


def next_codes(steps: Trajectory, codes: Ints) -> Ints:
    """Return the code that each step led to, or `END` or `UNKNOWN`, given those of the rows."""
    rows = steps.next_observations
    after: Ints = np.where(rows >= 0, codes[rows], rows)
    return after


def both(codes: Ints, others: Ints) -> Ints:
    """Return a number for each pair that occurs."""
    numbers: Ints = np.unique(codes * (int(others.max()) + 1) + others, return_inverse=True)[1]
    return numbers


def by_age(steps: Trajectory) -> Trajectory:
    """Return steps whose actions are different ones at every step of the episode."""
    actions = steps.ages * steps.n_actions + steps.actions
    n_actions = (int(steps.ages.max()) + 1) * steps.n_actions
    return steps.changed(actions=actions, n_actions=n_actions)


def last_steps(steps: Trajectory, most: int) -> Trajectory:
    """Return the last steps alone."""
    return steps if steps.n_steps <= most else steps.part(steps.n_steps - most, steps.n_steps)


def earned(steps: Trajectory) -> Floats | None:
    """Return what matters at each step: the reward or, where episodes end, also what came after it.

    Later rewards count less, by a tenth per step. After a step of which it is not known where it
    led, things go on as they usually do.
    """
    rewards, rows = steps.rewards, steps.next_observations
    if rewards is None or not (rows == END).any():
        return rewards
    usual = float(rewards.mean()) / (1.0 - _DISCOUNT)
    otherwise = np.where(rows == END, 0.0, usual)
    total: Floats = rewards + otherwise
    for _ in range(_AHEAD):
        total = rewards + _DISCOUNT * np.where(rows >= 0, total[rows], otherwise)
    return total


RECENT = 50_000
"""So many steps, the last ones, are enough to compare views and to teach a decoder."""

CLEAR, CERTAIN = 2.0, 3.0
"""Standard errors of a difference that counts if nothing speaks against it, and anyway."""

_WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # prior steps, the best is taken
_BLOCKS = 40  # of consecutive steps: every other one is held out
_WORTH = 1 / 3  # share of their score that the step must add: less is what any splitting may add
_FEWEST_EPISODES = 10  # before that is asked
_LONGEST = 512  # steps of an episode beyond which it is not
_OFTEN, _NEARLY_ALWAYS = 0.6, 0.9  # probabilities of an action that are motives of their own
_BELIEVED = 10.0  # steps before the first, with actions as everywhere


@dataclass(frozen=True, eq=False)
class Score:
    """A held-out score, in nats per step.

    Attributes
    ----------
    blocks
        The score of each block of consecutive steps.
    """

    blocks: Floats

    @property
    def mean(self) -> float:
        """The score."""
        return float(self.blocks.mean())

    @property
    def error(self) -> float:
        """Its standard error."""
        return float(self.blocks.std(ddof=1) / np.sqrt(len(self.blocks)))

    @property
    def is_signal(self) -> bool:
        """Whether the codes predict anything."""
        return self.mean > CERTAIN * self.error

    def exceeds(self, other: "Score") -> float:
        """Return by how many standard errors the score is larger, compared block by block."""
        gap = self.blocks - other.blocks
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        return float(gap.mean() / error) if error > 0 else 0.0


def _blocks_of(n_steps: int) -> Ints:
    """Return the block that each step belongs to."""
    return np.arange(n_steps) * _BLOCKS // max(1, n_steps)


def _by_block(gains: Floats, block: Ints) -> Score:
    sums = np.bincount(block, gains, _BLOCKS)
    return Score(sums / np.maximum(1, np.bincount(block, minlength=_BLOCKS)))


def score(codes: Ints, steps: Trajectory, motives: Ints | None = None) -> Score:
    """Score the codes of all rows on two halves of the steps, each predicted from the other.

    ``motives`` are those of `find_motives`, None where actions do not depend on what was seen.
    """
    actions, paid, following = steps.actions, earned(steps), next_codes(steps, codes)
    motives = np.zeros_like(codes) if motives is None else motives
    block = _blocks_of(len(codes))
    n_codes, n_actions = int(max(codes.max(), following.max())) + 1, int(actions.max()) + 1
    known = following != UNKNOWN
    target = np.where(following < 0, n_codes, following)  # the end is an outcome like a code
    gains = np.zeros(len(codes))
    for half in (0, 1):
        train, test = block % 2 != half, block % 2 == half
        a, b = train & known, test & known
        gains[b] += _transition_gain(
            (codes[a], actions[a], target[a], motives[a]),
            (codes[b], actions[b], target[b], motives[b]),
            n_codes,
            n_actions,
        )
        if paid is not None:
            gains[test] += _earned_gain(codes * n_actions + actions, actions, paid, train, test)
    return _by_block(gains, block)


def find_motives(steps: Trajectory, views: Sequence[Ints]) -> Ints | None:
    """Find out what actions depended on: rows of one motive took each action about as likely.

    A view is given by the code of each row. The one that predicts actions best on held-out steps
    counts: the motive is how likely each action is there, in rough classes. If no view predicts
    actions, there are no motives.
    """
    block, actions = _blocks_of(steps.n_steps), steps.actions
    share = (np.bincount(actions, minlength=steps.n_actions) + 0.5) / (
        len(actions) + 0.5 * steps.n_actions
    )

    def chances(codes: Ints, rows: Bools | slice) -> Floats:
        counts = np.zeros((int(codes.max()) + 1, steps.n_actions))
        np.add.at(counts, (codes[rows], actions[rows]), 1)
        counts += _BELIEVED * share
        likely: Floats = counts / counts.sum(axis=1, keepdims=True)
        return likely

    best, most = None, 0.0
    for codes in views:
        own = np.zeros(len(codes))
        for half in (0, 1):
            test = block % 2 == half
            own[test] = chances(codes, ~test)[codes[test], actions[test]]
        mark = _by_block(np.log(own / share[actions]), block)
        if mark.is_signal and mark.mean > most:
            best, most = codes, mark.mean
    if best is None:
        return None
    chance = chances(best, slice(None))
    often = chance.max(axis=1)
    kinds = np.where(often < _OFTEN, 0, 2 * chance.argmax(axis=1) + 1 + (often >= _NEARLY_ALWAYS))
    motives: Ints = kinds[best]
    return motives


def score_with_age(
    codes: Ints, steps: Trajectory, motives: Ints | None = None, in_use: bool = False
) -> tuple[Score, bool]:
    """Score codes alone or, if they predict clearly better so, with the step of the episode.

    Parameters
    ----------
    codes, steps, motives
        As for `score`.
    in_use
        Whether the step was told apart so far: then it is, unless it adds little or harms clearly.

    Returns
    -------
    score
        The better one.
    stepwise
        Whether it is the one with the step.
    """
    alone = score(codes, steps, motives)
    if steps.ages.max() >= _LONGEST:
        return alone, False
    if np.count_nonzero(steps.ages == 0) < _FEWEST_EPISODES:
        return alone, False
    pairs = both(codes, steps.ages)
    if 2 * pairs.max() > len(pairs) or pairs.max() == len(np.unique(codes)) - 1:
        return alone, False  # each was met once, or codes show the step
    together = score(pairs, steps, motives)
    clearly = together.exceeds(alone) > (-CLEAR if in_use else CLEAR)
    stepwise = clearly and together.mean - alone.mean > _WORTH * together.mean
    return (together if stepwise else alone), stepwise


def foresight(codes: Ints, steps: Trajectory, states: Ints) -> Score:
    """Score how well codes and actions predict the next of some states, or the end."""
    actions, following = steps.actions, next_codes(steps, states)
    n_codes, n_actions, n_next = int(codes.max()) + 1, steps.n_actions, int(states.max()) + 2
    after, pairs = np.where(following < 0, n_next - 1, following), codes * n_actions + actions
    known, block = following != UNKNOWN, _blocks_of(len(codes))
    gains = np.zeros(len(codes))
    for half in (0, 1):
        a, b = known & (block % 2 != half), known & (block % 2 == half)
        share = (np.bincount(after[a], minlength=n_next) + 0.5) / (a.sum() + 0.5 * n_next)
        by_code = _shrunk(codes[a], after[a], codes[b], after[b], share[after[b]], n_codes, n_next)
        n_pairs = n_codes * n_actions
        told = _shrunk(pairs[a], after[a], pairs[b], after[b], by_code, n_pairs, n_next)
        gains[b] = np.log(told)
    return _by_block(gains, block)


def memory_score(codes: Ints, steps: Trajectory) -> Score:
    """Score what the code before tells about the next one, beyond the present code and the action.

    Codes that stand for one state each are Markov: the code before adds nothing. A code that mixes
    states is not, since where it came from tells which of its states it is.
    """
    actions, following = steps.actions, next_codes(steps, codes)
    n_codes, n_actions = int(max(codes.max(), following.max())) + 1, int(actions.max()) + 1
    after = np.where(following < 0, n_codes, following)
    linked = np.zeros(len(codes), np.bool_)  # rows that are known to follow the row before
    linked[1:] = (following[:-1] == codes[1:]) & (following[:-1] >= 0)
    rows = np.flatnonzero(linked & (following != UNKNOWN))
    block = _blocks_of(len(codes))
    pair = codes * n_actions + actions
    past = np.zeros_like(codes)
    past[1:] = codes[:-1] * n_actions + actions[:-1]
    triple = both(pair, past)
    gains = np.zeros(len(codes))
    for half in (0, 1):
        a, b = rows[block[rows] % 2 != half], rows[block[rows] % 2 == half]
        if not len(a) or not len(b):
            continue
        share = (np.bincount(after[a], minlength=n_codes + 1) + 0.5) / (len(a) + n_codes + 1)
        n_pairs, n_next = n_codes * n_actions, n_codes + 1
        plain = _shrunk(pair[a], after[a], pair[b], after[b], share[after[b]], n_pairs, n_next)
        n_triples = int(triple.max()) + 1
        longer = _shrunk(triple[a], after[a], triple[b], after[b], plain, n_triples, n_next)
        gains[b] = np.log(longer / plain)
    return _by_block(gains, block)


def _transition_gain(
    train: tuple[Ints, Ints, Ints, Ints],
    test: tuple[Ints, Ints, Ints, Ints],
    n_codes: int,
    n_actions: int,
) -> Floats:
    """Return the first part of the score; without actions, what the code tells about the next."""
    (code, action, after, motive), (c, a, j, m) = train, test
    n_next, n_motives = n_codes + 1, int(max(motive.max(initial=0), m.max(initial=0))) + 1
    share = (np.bincount(after, minlength=n_next) + 0.5) / (len(after) + 0.5 * n_next)
    everywhere: Floats = share[j].astype(np.float64)
    by_code = _shrunk(code, after, c, j, everywhere, n_codes, n_next)
    if n_actions == 1:
        return np.log(by_code / everywhere)

    def told(own: Ints, theirs: Ints, n: int) -> Floats:
        return _shrunk(code * n + own, after, c * n + theirs, j, by_code, n_codes * n, n_next)

    without = by_code if n_motives == 1 else told(motive, m, n_motives)
    gain: Floats = np.log(told(action, a, n_actions) / without)
    return gain


def _shrunk(
    group: Ints, after: Ints, where: Ints, j: Ints, prior: Floats, n_groups: int, n_next: int
) -> Floats:
    """Predict outcomes in groups from their counts, shrunk to a coarser prediction."""
    if not len(group):
        return prior
    keys, counts = np.unique(group * n_next + after, return_counts=True)
    wanted = where * n_next + j
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hits = np.where(keys[at] == wanted, counts[at], 0)
    visits = np.bincount(group, minlength=n_groups)[where]
    options = [(hits + w * prior) / (visits + w) for w in _WEIGHTS]
    return max(options, key=lambda p: float(np.log(p).sum()))


def _earned_gain(pairs: Ints, actions: Ints, earned: Floats, train: Bools, test: Bools) -> Floats:
    """Return how much better it is predicted from code and action than from the action."""
    by_action = np.bincount(actions[train], earned[train], int(actions.max()) + 1)
    taken = np.bincount(actions[train], minlength=len(by_action))
    plain = ((by_action + earned[train].mean()) / (taken + 1))[actions[test]]
    base = (earned[test] - plain) ** 2
    spread = float(base.mean())
    if spread <= 1e-12:
        return np.zeros(int(test.sum()))
    options = []
    for weight in _WEIGHTS:
        n = np.bincount(pairs[train], minlength=int(pairs.max()) + 1)
        sums = np.bincount(pairs[train], earned[train], len(n))
        mean = (sums[pairs[test]] + weight * plain) / (n[pairs[test]] + weight)
        options.append((earned[test] - mean) ** 2)
    best = min(options, key=lambda squares: float(squares.mean()))
    own = max(float(best.mean()), 1e-12)
    gain: Floats = 0.5 * np.log(spread / own) + 0.5 * (base / spread - best / own)
    return gain
