"""How well codes predict: the held-out score by which views and decoders are compared.

    score = E[log p(next | code, action) - log p(next | code)] + gain in predicting the reward

in nats per step, on steps that the model was not fitted to. The first part is what the action
tells about the next code: noise with dynamics of its own, however predictable, adds nothing to
it, and neither does splitting a state in two. Codes that mix states lose both parts.

Where it is known, codes are also tried together with the step of the episode: a lock may want
another action at every step and show nothing of it.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from romdp.encoding.moments import Floats, Ints
from romdp.encoding.steps import Steps

_WEIGHTS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # prior steps, the best is taken
_BLOCKS = 40  # of consecutive steps: every other one is held out
_CLEARLY = 2.0  # standard errors that codes must predict better together with the step
_FEWEST_EPISODES = 10  # before that is asked
_LONGEST = 512  # steps of an episode beyond which it is not


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
        return self.mean > 3 * self.error

    def exceeds(self, other: "Score") -> float:
        """Return by how many standard errors the score is larger, compared block by block."""
        gap = self.blocks - other.blocks
        error = gap.std(ddof=1) / np.sqrt(len(gap))
        return float(gap.mean() / error) if error > 0 else 0.0


def score(codes: Ints, actions: Ints, rewards: Floats | None, following: Ints) -> Score:
    """Score codes on two halves of the steps, each predicted from the other.

    Parameters
    ----------
    codes, actions
        Where each step began, and what was done.
    rewards
        What each step paid, or None.
    following
        The next code; -1 where the step ended its episode, -2 where it is not known.
    """
    block = np.arange(len(codes)) * _BLOCKS // max(1, len(codes))
    n_codes, n_actions = int(max(codes.max(), following.max())) + 1, int(actions.max()) + 1
    known = following > -2
    target = np.where(following < 0, n_codes, following)  # the end is an outcome like a code
    gains = np.zeros(len(codes))
    for half in (0, 1):
        train, test = block % 2 != half, block % 2 == half
        a, b = train & known, test & known
        gains[b] += _transition_gain(
            (codes[a], actions[a], target[a]), (codes[b], actions[b], target[b]), n_codes, n_actions
        )
        if rewards is not None:
            gains[test] += _reward_gain(codes * n_actions + actions, actions, rewards, train, test)
    sums = np.bincount(block, gains, _BLOCKS)
    return Score(sums / np.maximum(1, np.bincount(block, minlength=_BLOCKS)))


def score_with_age(codes: Ints, steps: Steps, in_use: bool = False) -> tuple[Score, bool]:
    """Score codes alone or, if they predict clearly better so, with the step of the episode.

    Parameters
    ----------
    codes
        The code of each row.
    steps
        What was seen.
    in_use
        Whether the step was told apart so far: then it is, unless that predicts clearly worse.

    Returns
    -------
    score
        The better one.
    stepwise
        Whether it is the one with the step.
    """
    alone = score(codes, steps.actions, steps.rewards, steps.next_codes(codes))
    if steps.ages is None or steps.ages.max() >= _LONGEST:
        return alone, False
    if np.count_nonzero(steps.ages == 0) < _FEWEST_EPISODES:
        return alone, False
    pairs = steps.with_ages(codes)
    if 2 * pairs.max() > len(pairs) or pairs.max() == len(np.unique(codes)) - 1:
        return alone, False  # each was met once, or codes show the step
    together = score(pairs, steps.actions, steps.rewards, steps.next_codes(pairs))
    stepwise = together.exceeds(alone) > (-_CLEARLY if in_use else _CLEARLY)
    return (together if stepwise else alone), stepwise


def memory_score(codes: Ints, actions: Ints, following: Ints) -> Score:
    """Score what the code before tells about the next one, beyond the present code and the action.

    Codes that stand for one state each are Markov: the code before adds nothing. A code that mixes
    states is not, since where it came from tells which of its states it is.

    Parameters
    ----------
    codes, actions, following
        As for `score`; consecutive rows of an episode follow each other.
    """
    n_codes, n_actions = int(max(codes.max(), following.max())) + 1, int(actions.max()) + 1
    after = np.where(following < 0, n_codes, following)
    linked = np.zeros(len(codes), np.bool_)  # rows that are known to follow the row before
    linked[1:] = (following[:-1] == codes[1:]) & (following[:-1] >= 0)
    rows = np.flatnonzero(linked & (following > -2))
    block = np.arange(len(codes)) * _BLOCKS // max(1, len(codes))
    pair = codes * n_actions + actions
    past = np.zeros_like(codes)
    past[1:] = codes[:-1] * n_actions + actions[:-1]
    triple = np.unique(pair * (n_codes * n_actions) + past, return_inverse=True)[1]
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
    sums = np.bincount(block, gains, _BLOCKS)
    return Score(sums / np.maximum(1, np.bincount(block, minlength=_BLOCKS)))


def _transition_gain(
    train: tuple[Ints, Ints, Ints], test: tuple[Ints, Ints, Ints], n_codes: int, n_actions: int
) -> Floats:
    """Return log p(next | code, action) - log p(next | code), or without actions the next level."""
    (code, action, after), (c, a, j) = train, test
    n_next = n_codes + 1
    share = (np.bincount(after, minlength=n_next) + 0.5) / (len(after) + 0.5 * n_next)
    everywhere: Floats = share[j].astype(np.float64)
    by_code = _shrunk(code, after, c, j, everywhere, n_codes, n_next)
    if n_actions == 1:
        return np.log(by_code / everywhere)
    both = _shrunk(
        code * n_actions + action, after, c * n_actions + a, j, by_code, n_codes * n_actions, n_next
    )
    gain: Floats = np.log(both / by_code)
    return gain


def _shrunk(
    group: Ints, after: Ints, where: Ints, j: Ints, prior: Floats, n_groups: int, n_next: int
) -> Floats:
    """Predict outcomes in groups from their counts, shrunk to a coarser prediction."""
    keys, counts = np.unique(group * n_next + after, return_counts=True)
    wanted = where * n_next + j
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    hits = np.where(keys[at] == wanted, counts[at], 0)
    visits = np.bincount(group, minlength=n_groups)[where]
    options = [(hits + w * prior) / (visits + w) for w in _WEIGHTS]
    return max(options, key=lambda p: float(np.log(p).sum()))


def _reward_gain(
    pairs: Ints, actions: Ints, rewards: Floats, train: NDArray[np.bool_], test: NDArray[np.bool_]
) -> Floats:
    """Return how much better rewards are predicted from code and action than from the action."""
    by_action = np.bincount(actions[train], rewards[train], int(actions.max()) + 1)
    taken = np.bincount(actions[train], minlength=len(by_action))
    plain = ((by_action + rewards[train].mean()) / (taken + 1))[actions[test]]
    base = (rewards[test] - plain) ** 2
    spread = float(base.mean())
    if spread <= 1e-12:
        return np.zeros(int(test.sum()))
    options = []
    for weight in _WEIGHTS:
        n = np.bincount(pairs[train], minlength=int(pairs.max()) + 1)
        sums = np.bincount(pairs[train], rewards[train], len(n))
        mean = (sums[pairs[test]] + weight * plain) / (n[pairs[test]] + weight)
        options.append((rewards[test] - mean) ** 2)
    best = min(options, key=lambda squares: float(squares.mean()))
    own = max(float(best.mean()), 1e-12)
    gain: Floats = 0.5 * np.log(spread / own) + 0.5 * (base / spread - best / own)
    return gain
