"""How observations flow into groups over the epochs: where every block and ribbon lies.

The picture of `fig:evolution`: each column is a grouping, each block a group, each ribbon the
observations that go from one group to another. This module only computes positions;
`romdp.reports.groupings` draws them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import whole_number
from romdp.data.partition import Partition
from romdp.reports.reading import EpochGrouping

_GAP_SHARE = 0.3  # of the height, at most, is left between the blocks of a column
_LARGEST_GAP = 0.03
_MANY = 60  # with more observations than this, those that are alone share one block

UNSEEN, ALONE = -1, -2
"""The groups of blocks that are none: observations not seen yet, and observations on their own."""


@dataclass(frozen=True, slots=True)
class Block:
    """A group in a column: where it lies (0 is the top, 1 the bottom) and who is in it."""

    group: int
    top: float
    bottom: float
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ribbon:
    """Observations of one hidden state that go from one block to one of the next column.

    ``column`` is the left one; ``state`` is -1 where the truth is not known.
    """

    column: int
    state: int
    left_top: float
    right_top: float
    thickness: float
    size: int


@dataclass(frozen=True, slots=True)
class Column:
    """One grouping that is shown."""

    epoch: int
    step: int
    n_clusters: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """The picture: columns and the ribbons between them, and what was left out of it.

    That are groupings, and observations that never had a group where most never had one.
    """

    columns: tuple[Column, ...]
    ribbons: tuple[Ribbon, ...]
    left_out: int
    unmet: int = 0


def lay_out(
    groupings: Sequence[EpochGrouping],
    hidden_state: NDArray[np.int64] | None = None,
    max_columns: int = 10,
) -> Flow:
    """Place the groups of a run.

    Parameters
    ----------
    groupings
        Oldest first.
    hidden_state
        The true state of every observation, to colour the ribbons; without it they are
        coloured by their final group.
    max_columns
        With more groupings than this, the first, the last and those with the largest changes
        are kept.
    """
    whole_number(max_columns, "max_columns", 2)
    if not groupings:
        raise InvalidInputError("groupings is empty; a flow needs at least one grouping")
    shown = most_telling(groupings, max_columns)
    drawn = np.ones(len(shown[0].labels), np.bool_)
    if hidden_state is None:
        met = np.any([grouping.labels >= 0 for grouping in shown], axis=0)
        if 0 < 2 * met.sum() < met.size:  # as in a vocabulary with many free places
            drawn = met
    labels = np.stack([_blocks_of(grouping.labels[drawn]) for grouping in shown])
    colours = _final_groups(shown[-1].labels) if hidden_state is None else hidden_state
    rank = _rank_observations(labels, colours[drawn])
    unit = (1 - _GAP_SHARE) / labels.shape[1]
    columns = tuple(
        Column(
            grouping.epoch,
            grouping.step,
            Partition(grouping.labels).n_clusters,
            _stack_blocks(row, rank, unit, np.flatnonzero(drawn)),
        )
        for grouping, row in zip(shown, labels, strict=True)
    )
    ribbons = tuple(
        ribbon
        for number in range(len(columns) - 1)
        for ribbon in _ribbons(number, columns[number], columns[number + 1], colours, unit)
    )
    return Flow(columns, ribbons, len(groupings) - len(shown), int((~drawn).sum()))


def changed(before: NDArray[np.int64], after: NDArray[np.int64]) -> int:
    """Count the observations that leave the bulk of their old group or join that of another.

    Examples
    --------
    >>> changed(np.array([0, 1, 2, 2]), np.array([0, 0, 1, 1]))
    1
    """
    table = Partition(before).contingency(Partition(after)).toarray()
    stay = table.max(axis=1).sum() if table.size else 0
    bulk = table.max(axis=0).sum() if table.size else 0
    seen = int(((before < 0) & (after >= 0)).sum())
    return int(2 * table.sum() - stay - bulk) + seen


def most_telling(groupings: Sequence[EpochGrouping], count: int) -> list[EpochGrouping]:
    """Keep at most ``count`` groupings: the first, the last and those that changed the most."""
    if len(groupings) <= count:
        return list(groupings)
    sizes = [
        changed(groupings[i - 1].labels, groupings[i].labels) for i in range(1, len(groupings) - 1)
    ]
    largest = np.argsort(-np.array(sizes), kind="stable")[: count - 2] + 1
    kept = [0, *sorted(int(i) for i in largest), len(groupings) - 1]
    return [groupings[i] for i in kept]


def _blocks_of(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Give every observation the block it is drawn in; among many, those alone share one."""
    canonical = Partition(labels).labels.copy()
    if len(canonical) > _MANY:
        sizes = Partition(labels).sizes
        placed = canonical >= 0
        alone = placed.copy()
        alone[placed] = sizes[canonical[placed]] == 1
        canonical[alone] = ALONE
    return canonical


def _final_groups(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(Partition(labels).labels)


def _rank_observations(labels: NDArray[np.int64], colours: NDArray[np.int64]) -> NDArray[np.int64]:
    """Order the observations so that groups which only merge never cross.

    By the last grouping first (its groups by their commonest colour), then by the one before
    it, and so on back: each merge then joins neighbours.
    """
    last = labels[-1]
    first_colour = {
        group: (int(np.bincount(colours[last == group] + 1).argmax()), group)
        for group in np.unique(last)
    }
    final = np.array([first_colour[group][0] * (len(last) + 3) + group for group in last])
    keys = [np.arange(len(last)), colours, *labels[:-1], final]  # the last key counts most
    order = np.lexsort(keys)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank


def _stack_blocks(
    labels: NDArray[np.int64], rank: NDArray[np.int64], unit: float, numbers: NDArray[np.int64]
) -> tuple[Block, ...]:
    groups = np.unique(labels)
    places = {int(g): float(rank[labels == g].mean()) for g in groups}
    # What is not grouped yet lies below everything else.
    order = sorted(places, key=lambda g: (g < 0, places[g]))
    gap = min(_LARGEST_GAP, _GAP_SHARE / max(len(order) - 1, 1))
    top = (1 - unit * len(labels) - gap * (len(order) - 1)) / 2
    blocks = []
    for group in order:
        members = np.flatnonzero(labels == group)
        members = members[np.argsort(rank[members])]
        bottom = top + unit * len(members)
        blocks.append(Block(group, top, bottom, tuple(numbers[members].tolist())))
        top = bottom + gap
    return tuple(blocks)


def _ribbons(
    number: int, left: Column, right: Column, colours: NDArray[np.int64], unit: float
) -> list[Ribbon]:
    """Cut both columns into the pieces that leave and arrive, and tie them together."""
    where = {m: j for j, block in enumerate(right.blocks) for m in block.members}
    pieces: dict[tuple[int, int, int], int] = {}
    for i, block in enumerate(left.blocks):
        for member in block.members:
            key = (i, where[member], int(colours[member]))
            pieces[key] = pieces.get(key, 0) + 1
    leaving = [block.top for block in left.blocks]
    arriving = [block.top for block in right.blocks]
    left_top: dict[tuple[int, int, int], float] = {}
    for key in sorted(pieces):  # by target, then state, within every left block
        left_top[key] = leaving[key[0]]
        leaving[key[0]] += unit * pieces[key]
    ribbons = []
    for key in sorted(pieces, key=lambda k: (k[1], k[0], k[2])):
        i, j, state = key
        size = pieces[key]
        ribbons.append(Ribbon(number, state, left_top[key], arriving[j], unit * size, size))
        arriving[j] += unit * size
    return ribbons
