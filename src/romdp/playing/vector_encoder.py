"""Vectors and pictures in, codes out: an encoder that learns while an agent plays.

Vectors may repeat exactly: then each is a name, until they prove not to repeat. Otherwise a decoder
is learned from all that is kept, and again whenever the steps have grown by a factor or codes prove
to be mixed.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from romdp.clustering.likelihood import Likelihood
from romdp.clustering.states import find_states, is_mixed
from romdp.core.arrays import Ints
from romdp.core.randomness import Seed, generator
from romdp.data.trajectory import END, UNKNOWN, Trajectory
from romdp.data.vectors import BLOCK
from romdp.encoding.decoder import StateDecoder
from romdp.encoding.scoring import both, last_steps, score, vectors_of
from romdp.encoding.vector_codes import VectorCodes
from romdp.playing.replay import Replay

_NEW = 0.9  # share of different vectors from which on they do not repeat
FIRST, _LAST_FIRST = 500, 5000  # steps before the first fit: ten per number, within these
_SEVERAL_FITS = 4  # times the steps before the first: there were four fits by then
GROWTH = 1.5  # of the steps between fits, where something is at stake
_LOOK = 1.15  # growth of the steps between looks at whether codes are mixed, and between idle fits
_FIRST_LOOK = 64  # vectors after which it is first asked whether they repeat
_JUDGED = 20_000  # last steps that codes are judged on, and examples are chosen from
_ENCODE = 11  # a stream of the seed


class VectorEncoder(VectorCodes):
    """Codes for vectors that are learned from what an agent meets; see `VectorCodes`.

    Attributes
    ----------
    due
        The step from which on the decoder is learned again.
    look
        The step from which on it is asked whether codes must change before.
    """

    counters = ("due", "look")

    def __init__(self, space: Any) -> None:
        super().__init__(space)
        self.due, self.look = self._first_fit, _FIRST_LOOK

    @property
    def _first_fit(self) -> int:
        return min(max(FIRST, 10 * self.n_features), _LAST_FIRST)

    def _codes_in(self, replay: Replay) -> Ints:
        """Return `codes` of all that is kept, after opening some for what is far from all codes."""
        rows = replay.vectors[: replay.size]
        if self.book is not None and self.decoder is not None:
            space = self.decoder.encoding.map(rows)
            codes, distances = self.book.nearest(space)
            far = space[~self.book.covers(codes, distances)]
            if not len(far):
                return codes
            self.book = self.book.extended(far, self.size)
            return self.book.nearest(space)[0]
        return self.codes(rows)

    def reconsider(self, replay: Replay, step: int, n_actions: int, seed: Seed) -> bool:
        """Look whether codes must change, if it is time; says whether they did.

        Names are given up where they do not repeat. What is due, or mixed, is learned again from
        all that is kept.
        """
        if step < self.look:
            return False
        gave_up = self.names is not None
        if gave_up:
            self.look = 2 * step
            if self._repeat(replay):
                return False
            self.adopt(None)
            self.due = self.look = max(self.due, step)
            if step < self.due:
                return True
        steps, _, _ = replay.steps(n_actions)
        self.look = int(_LOOK * step) + 1
        changed, mixed = False, self._is_mixed(steps)
        if mixed or step >= self.due:
            self.due = int((_LOOK if _is_idle(steps) else GROWTH) * step) + 1
            changed = self._learn(steps, generator(seed, _ENCODE, step), replay)
            if mixed and self._is_mixed(steps):  # more steps may help, and nothing else
                self.look = self.due
        self.look = min(self.look, self.due)
        return changed or gave_up

    def _is_mixed(self, steps: Trajectory) -> bool:
        if self.decoder is None:
            return False
        part = last_steps(steps, _JUDGED)
        codes = self.codes(vectors_of(part))
        return is_mixed(codes if self.stepwise is None else both(codes, part.ages), part)

    def _learn(self, steps: Trajectory, rng: np.random.Generator, replay: Replay) -> bool:
        """Learn codes from what is kept; the old ones stay if they predict it better."""
        before = self.decoder
        previous = None if before is None else before.encoding
        found = find_states(steps, Likelihood(), rng, previous=previous, by_step=True)
        if found.n_states == 1 and not found.encoding.tells_states:
            if before is None:
                return False
            found = before
        elif before is not None and _is_better(before, found, steps):
            found = before
        self.adopt(replace(found, portraits=None), self.book if found is before else None)
        return True

    def recode(self, replay: Replay, n_actions: int) -> Trajectory | None:
        """Return all that is kept under the present codes; None where there are none."""
        if not self.known or not (replay.actions[: replay.size] >= 0).any():
            return None
        steps, rows, final = replay.steps(n_actions)
        codes = np.append(self._codes_in(replay), UNKNOWN)
        if self.stepwise is not None:  # only what is asked for is a code
            plain, codes = codes, np.full_like(codes, UNKNOWN)
            for row in np.union1d(rows, final[final >= 0]).tolist():
                codes[row] = self.at_step(int(plain[row]), int(replay.ages[row]))
        seen = steps.encoded(codes[rows], self.size)
        return seen.changed(final_observations=codes[final])

    def is_in_the_dark(self, step: int) -> bool:
        """Whether vectors have told nothing in several fits, so that actions are still random."""
        return not self.known and step > _SEVERAL_FITS * self._first_fit

    def _repeat(self, replay: Replay) -> bool:
        """Whether vectors that were named have been met again, and names are not used up."""
        assert self.names is not None
        return len(self.names) <= min(_NEW * replay.n_met, self.size - 1)

    def find_examples(self, replay: Replay) -> None:
        """Take the vector nearest to the mean of each code, among the last ones met."""
        if self.decoder is None:
            return
        most = min(_JUDGED, max(256, BLOCK // self.n_features))
        rows = replay.vectors[max(0, replay.size - most) : replay.size]
        codes = self.codes(rows) if len(rows) else np.zeros(0, np.int64)
        found = np.full((int(codes.max(initial=-1)) + 1, self.n_features), np.nan, np.float32)
        for code in np.unique(codes):
            mine = rows[codes == code].astype(np.float64)
            far = ((mine - mine.mean(axis=0)) ** 2).sum(axis=1)
            found[code] = mine[far.argmin()]
        self.examples = found


def _is_idle(steps: Trajectory) -> bool:
    """Whether nothing was at stake so far, so that finding states is all there is to do."""
    return steps.pays_alike and not (steps.next_observations == END).any()


def _is_better(before: StateDecoder, found: StateDecoder, steps: Trajectory) -> bool:
    """Whether the codes in use predict better than those found.

    Where codes lay apart and still do, their space has been tried along with others already. What
    moved the agent to its actions is not told here: that is the codes in use, which would hardly
    ever be given up for finer ones.
    """
    if before.encoding.tells_states and found.encoding.tells_states:
        return False
    part = last_steps(steps, _JUDGED)
    old, new = (score(_codes_seen(decoder, part), part) for decoder in (before, found))
    return old.exceeds(new) > 1


def _codes_seen(decoder: StateDecoder, steps: Trajectory) -> Ints:
    """Return the codes that an agent would see."""
    encoding = decoder.encoding
    predict = encoding.codes if encoding.tells_states else decoder.predict
    codes = predict(vectors_of(steps))
    return both(codes, steps.ages) if encoding.stepwise else codes
