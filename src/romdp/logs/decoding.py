"""Logs whose observations are vectors: what is peculiar to them."""

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.clusterer import Clusterer
from romdp.clustering.states import NOT_MARKOV, find_states
from romdp.core.errors import InvalidInputError
from romdp.core.randomness import Seed
from romdp.data.trajectory import Trajectory
from romdp.encoding.decoder import StateDecoder
from romdp.logs.reading.columns import Columns

if TYPE_CHECKING:
    from romdp.encoding.encoder import Encoder

_FEWEST = 4  # steps of which it is known where they led: two for each half that is scored
_MANY_IDS = 20  # different whole numbers in a column, from which on they may be ids
_SPARSE = 20  # ids of several columns are that sparse: so many numbers for each that occurs


def find_decoder(
    seen: Trajectory,
    columns: Columns | None,
    clusterer: Clusterer,
    rng: np.random.Generator,
    encoder: "Encoder | None" = None,
    seed: Seed = 0,
    looks_back: bool = False,
) -> StateDecoder:
    """Find the hidden states behind the vectors of a log, and warn of what looks wrong.

    Parameters
    ----------
    seen
        What was seen; rewards are in [0, 1].
    columns
        What the columns are called; None for a trajectory.
    clusterer
        Groups codes.
    rng
        Draws samples and starts.
    encoder, seed
        As for `romdp.fit`.
    looks_back
        Whether it is asked next what to remember, so that nothing need be said of that.
    """
    from romdp.encoding.encoder import Encoder

    assert seen.vectors is not None
    if columns is not None:
        _warn_of_columns(seen.vectors, columns.parts)
    if (seen.next_observations >= 0).sum() < _FEWEST:
        raise InvalidInputError(
            f"fewer than {_FEWEST} steps lead to a vector that is known: too few to learn what the "
            "vectors show"
        )
    decoder = find_states(seen, clusterer, rng, encoder or Encoder(seed=seed))
    if looks_back:
        kept = (note for note in decoder.notes if not note.startswith(NOT_MARKOV))
        decoder = replace(decoder, notes=tuple(kept))
    alike = ("All vectors behave alike: there is one hidden state",) * (decoder.n_states == 1)
    for note in decoder.notes or alike:
        warnings.warn(note, UserWarning, stacklevel=3)
    return decoder


def _warn_of_columns(vectors: NDArray[Any], parts: tuple[str, ...]) -> None:
    """Warn of columns that never vary, and of whole numbers that look like ids.

    Numbers of pictures may well never vary, and bytes are colours.
    """
    named = len(parts) == vectors.shape[1]
    for i, column in enumerate(vectors.T):
        name = parts[i] if named else f"{parts[0]}[{i}]"
        if named and (column == column[0]).all():
            text = f"column {name!r} is always {column[0]:g}: it tells nothing"
            warnings.warn(text, UserWarning, stacklevel=4)
        spread = float(column.max()) - float(column.min())
        sparse = _SPARSE if vectors.shape[1] > 1 else 0
        if vectors.dtype.itemsize == 1 or spread < max(_MANY_IDS - 1, sparse * _MANY_IDS):
            continue
        n = 0 if (column != np.floor(column)).any() else len(np.unique(column))
        if n >= _MANY_IDS and spread >= sparse * n:
            text = (
                f"column {name!r} holds {n:,} different whole numbers, which are read as "
                "quantities; if they are ids, turn them into text, or pass a column of them alone, "
                "by its name and not in a list: observation=NAME"
            )
            warnings.warn(text, UserWarning, stacklevel=4)
