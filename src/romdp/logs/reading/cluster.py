"""Count a log on a Dask cluster: stretches by its workers, added up in a tree.

The files must be where the workers can read them; only counts travel.
"""

import copy
from collections.abc import Sequence
from typing import Any

from romdp.core.errors import InvalidInputError
from romdp.logs.reading.counting import count_stretch
from romdp.logs.reading.partial import LogSettings, Partial
from romdp.logs.reading.pieces import Piece, TablePiece

STRETCHES_PER_WORKER = 4
"""More than one, so that a slow worker does not keep the others waiting."""


def count_on_cluster(
    client: Any,
    stretches: Sequence[tuple[list[Piece], int]],
    settings: LogSettings,
    batch_rows: int,
) -> Partial:
    """Count stretches in parallel and join neighbours pairwise until one is left.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    stretches
        Pieces and first row of each, in order; see `romdp.logs.reading.counting.share_out`.
    settings, batch_rows
        As for `count_stretch`.
    """
    if any(isinstance(piece, TablePiece) for pieces, _ in stretches for piece in pieces):
        raise InvalidInputError("a cluster counts files; write the table to a folder first")
    parts = [
        client.submit(count_stretch, pieces, settings, row, batch_rows, pure=False)
        for pieces, row in stretches
    ]
    while len(parts) > 1:
        pairs = [parts[i : i + 2] for i in range(0, len(parts), 2)]
        parts = [
            client.submit(joined, *pair, pure=False) if len(pair) == 2 else pair[0]
            for pair in pairs
        ]
    whole: Partial = parts[0].result()
    return whole


def joined(first: Partial, second: Partial) -> Partial:
    """Join two stretches and leave both as they are: a cluster may ask again."""
    return copy.deepcopy(first).join(copy.deepcopy(second))
