"""Hidden states behind vectors: encode, group the codes, decode."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.clusterer import Clusterer
from romdp.clustering.grouping import group
from romdp.core.arrays import Floats, Ints
from romdp.core.validation import freeze
from romdp.data.counts import Counts
from romdp.data.trajectory import Trajectory
from romdp.encoding.decoder import Portraits, StateDecoder, teach
from romdp.encoding.scoring import (
    by_age,
    find_motives,
    last_steps,
    memory_score,
    score,
    score_with_age,
    vectors_of,
)
from romdp.encoding.views import Encoding, apply_features

if TYPE_CHECKING:
    from romdp.encoding.encoder import Encoder

NOT_MARKOV = "Not Markov"
"""How the note begins that vectors do not tell what follows."""

_FEW_VISITS = 5  # steps per code
_UNSURE = 0.7  # mean certainty below which a state cannot be told from the others
_MIXED = 0.1  # share of what states predict that the state before may add
_LOOKED_AT = 5000  # vectors by which it is judged how surely codes are told apart
_WORSE = -1.0  # standard errors: a decoder is kept unless it predicts held-out steps worse


def find_states(
    steps: Trajectory,
    clusterer: Clusterer,
    rng: np.random.Generator,
    encoder: "Encoder | None" = None,
    previous: Encoding | None = None,
    by_step: bool = False,
) -> StateDecoder:
    """Find the hidden states behind vectors.

    Parameters
    ----------
    steps
        What was seen, before it went through the features of the encoder.
    clusterer
        Groups the codes, and states that behave alike.
    rng
        Draws samples and starts.
    encoder
        Learns codes; by default an `Encoder` as it is.
    previous
        Codes that were learned before from fewer steps, by an agent. If codes lie apart, each is
        a state to it, and none are grouped.
    by_step
        Whether codes may be told apart by the step of the episode, as an agent can.
    """

    def quick(some: Trajectory, codes: Ints) -> Ints:
        return _group(some, codes, int(codes.max()) + 1, clusterer, rng)[0]

    from romdp.encoding.encoder import Encoder  # which imports scikit-learn

    encoder, shown = encoder or Encoder(), vectors_of(steps)
    steps = steps.changed(vectors=apply_features(encoder.features, shown))
    vectors = vectors_of(steps)
    encoding = encoder.learn(steps, previous, quick, by_step)
    notes = _notes_on_codes(encoding, steps)
    if not encoding.is_signal:
        nothing = np.zeros(encoding.n_codes, np.int64)
        return StateDecoder(encoding, freeze(nothing), freeze(np.ones(len(nothing))), None, notes)
    if previous is not None and encoding.tells_states:
        each = np.arange(encoding.n_codes)
        return StateDecoder(encoding, freeze(each), freeze(np.ones(len(each))), None, notes)
    codes, plain_steps = encoding.codes(vectors), steps
    if encoding.stepwise:
        steps = by_age(steps)
    labels, certainty = _group(steps, codes, encoding.n_codes, clusterer, rng)
    if encoding.stepwise and encoding.view == "apart":
        alone, grouped = (
            score_with_age(c, plain_steps, in_use=True)[0] for c in (codes, labels[codes])
        )
        if alone.exceeds(grouped) > -_WORSE:  # there are too few steps to group these codes
            labels, certainty = np.arange(encoding.n_codes), np.ones(encoding.n_codes)
    certainty = certainty * _told_apart(encoding, labels, vectors)
    states = labels[codes]
    plain = StateDecoder(encoding, freeze(labels), freeze(certainty), None, notes)
    if encoding.view == "apart" or plain.n_states == 1:
        return _noted(plain, steps, shown)

    def regroup(some: Trajectory, states: Ints) -> Ints:
        found, _ = _group(some, states, int(states.max()) + 1, clusterer, rng)
        return found[states]

    linear, judged = teach(steps, states, plain.n_states, encoding.teaching_map, rng, regroup)
    views = (states[-len(judged) :], judged)
    part = last_steps(steps, len(judged))
    motives = find_motives(part, views)
    before, after = (score(some, part, motives) for some in views)
    fewer = len(linear.bias) < plain.n_states
    if after.exceeds(before) < (2 * _WORSE if fewer else _WORSE):
        return _noted(plain, steps, shown)
    taught = StateDecoder(encoding, plain.states, plain.certainty_of_code, linear, notes)
    return _noted(taught, steps, shown)


def _group(
    steps: Trajectory, codes: Ints, n_codes: int, clusterer: Clusterer, rng: np.random.Generator
) -> tuple[Ints, Floats]:
    """Group codes; those that never occur join the first group."""
    found = group(_count(steps, codes, n_codes), rng, clusterer)
    certainty = np.where(found.partition.labels >= 0, np.nan_to_num(found.certainty, nan=1.0), 0.0)
    return np.maximum(found.partition.labels, 0), certainty


def _told_apart(encoding: Encoding, labels: Ints, vectors: NDArray[Any]) -> Floats:
    """Return how surely the vectors of each code belong to its group, by where they lie.

    Codes are taken for normal clouds of the same width. Where states overlap, so do codes of
    different groups, and a vector that has one code could as well have had the other.
    """
    book = encoding.codebook
    space = encoding.map(vectors[:: max(1, len(vectors) // _LOOKED_AT)])
    codes, distances = book.nearest(space)
    width = max(float(distances.mean()) / space.shape[1], 1e-12)
    odds = (space @ book.points.T - 0.5 * (book.points**2).sum(axis=1)) / width + np.log(
        np.maximum(book.sizes, 1.0)
    )
    chance = np.exp(odds - odds.max(axis=1, keepdims=True))
    same = labels == labels[codes][:, None]
    sure = (chance * same).sum(axis=1) / chance.sum(axis=1)
    n = np.bincount(codes, minlength=len(labels))
    return np.where(n > 0, np.bincount(codes, sure, len(labels)) / np.maximum(n, 1), 1.0)


def _count(steps: Trajectory, codes: Ints, n_codes: int) -> Counts:
    rewards = None if steps.pays_alike else steps.rewards
    return Counts.from_trajectory(steps.encoded(codes, n_codes).changed(rewards=rewards))


def _notes_on_codes(encoding: Encoding, steps: Trajectory) -> tuple[str, ...]:
    notes = []
    if not encoding.is_signal:
        notes.append(
            "No signal: in no view of the vectors do actions change what follows, or rewards "
            "differ, more than by chance. Nothing was grouped: all vectors are one state"
        )
    if steps.n_steps < _FEW_VISITS * encoding.n_codes:
        notes.append(
            f"Few visits: there are {steps.n_steps:,} steps for {encoding.n_codes:,} codes; states "
            "that were met only a few times may be wrong"
        )
    return tuple(notes)


def is_mixed(states: Ints, steps: Trajectory) -> bool:
    """Whether some state is several: what follows depends on where one came from as well."""
    own = score(states, steps.changed(rewards=None))  # memory says nothing of rewards either
    memory = memory_score(states, steps)
    return memory.is_signal and memory.mean > _MIXED * max(own.mean, 0.0)


def _noted(decoder: StateDecoder, steps: Trajectory, shown: NDArray[Any]) -> StateDecoder:
    """Add portraits, and notes on states that are several or cannot be told from others."""
    part = steps.part(0, min(steps.n_steps, 20_000))
    vectors = vectors_of(part)
    states, certainty = decoder.decode_prepared(vectors)
    notes = list(decoder.notes)
    if is_mixed(states, part):
        notes.append(
            f"{NOT_MARKOV}: what follows a state depends on the state before as well, so some "
            "states may be several that look alike, or vectors do not show all that matters; "
            'fit(memory="auto") looks back'
        )
    n = np.bincount(states, minlength=decoder.n_states)
    mean = np.bincount(states, certainty, decoder.n_states) / np.maximum(n, 1)
    unsure = np.flatnonzero((mean < _UNSURE) & (n > 0))
    if len(unsure):
        which = ", ".join(str(state) for state in unsure[:5])
        notes.append(
            f"Doubtful states: vectors of {len(unsure)} of {decoder.n_states} states ({which}) are "
            f"placed with a certainty below {_UNSURE:.0%} on average; they may not be told apart "
            "by what is seen"
        )
    codes = decoder.encoding.codes(vectors)
    sizes = decoder.n_states, decoder.encoding.n_codes
    portraits = Portraits.of(shown[: part.n_steps], states, certainty, codes, *sizes)
    return replace(decoder, notes=tuple(notes), portraits=portraits)
