"""Pictures of groupings.

How observations flow into groups (`fig:evolution`), and which state shows which observation. In the
first each column is a grouping, each block a group, each ribbon the observations that go from one
group to another; where blocks and ribbons lie is computed before anything is drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.core.text import count
from romdp.core.validation import how_many, real_array, takes, whole_number
from romdp.data.partition import Partition
from romdp.reports.drawing import (
    INK,
    PAPER,
    UNSEEN_COLOUR,
    Box,
    Picture,
    Ribbon,
    Words,
    listed,
    state_colour,
)
from romdp.reports.reading import EpochGrouping, Record

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
class Strand:
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
    strands: tuple[Strand, ...]
    left_out: int
    unmet: int = 0


def lay_out(
    groupings: Sequence[EpochGrouping], hidden_state: Ints | None = None, max_columns: int = 10
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
    strands = tuple(
        strand
        for number in range(len(columns) - 1)
        for strand in _strands(number, columns[number], columns[number + 1], colours, unit)
    )
    return Flow(columns, strands, len(groupings) - len(shown), int((~drawn).sum()))


def changed(before: Ints, after: Ints) -> int:
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


def _blocks_of(labels: Ints) -> Ints:
    """Give every observation the block it is drawn in; among many, those alone share one."""
    canonical = Partition(labels).labels.copy()
    if len(canonical) > _MANY:
        sizes = Partition(labels).sizes
        placed = canonical >= 0
        alone = placed.copy()
        alone[placed] = sizes[canonical[placed]] == 1
        canonical[alone] = ALONE
    return canonical


def _final_groups(labels: Ints) -> Ints:
    return np.asarray(Partition(labels).labels)


def _rank_observations(labels: Ints, colours: Ints) -> Ints:
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


def _stack_blocks(labels: Ints, rank: Ints, unit: float, numbers: Ints) -> tuple[Block, ...]:
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


def _strands(number: int, left: Column, right: Column, colours: Ints, unit: float) -> list[Strand]:
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
    strands = []
    for key in sorted(pieces, key=lambda k: (k[1], k[0], k[2])):
        i, j, state = key
        size = pieces[key]
        strands.append(Strand(number, state, left_top[key], arriving[j], unit * size, size))
        arriving[j] += unit * size
    return strands


_STEP, _TALL, _HALF, _TOP = 120, 430, 9, 34  # between columns, of a column, of a block, above
_CELL, _ROW, _STRIP, _LEFT = 26, 20, 20, 64  # of an emission picture: cells, rows, strips, margin
_HOVER = 8  # pixels that a mouse can aim at


@takes(record=Record, max_columns=how_many)
def flow_figure(record: Record, max_columns: int = 8) -> Picture:
    """Draw how the observations of a run flowed into groups.

    Each column is a grouping at the start of an epoch, each block a group (with its number of
    observations), each ribbon the observations that move on together, coloured by their true
    hidden state where that is known.
    """
    if not record.groupings:
        raise InvalidInputError(f"the run of {record.agent} has no stored groupings to draw")
    flow = lay_out(record.groupings, record.hidden_state, max_columns)
    title = f"{record.agent}, {record.world}, Y = {record.n_observations}, seed {record.seed}"
    picture = flow_picture(flow, record.hidden_state)
    return replace(picture, title=title, note=flow_note(flow, record))


def flow_note(flow: Flow, record: Record) -> str:
    """Explain the picture of a flow in a line."""
    known = record.hidden_state is not None
    note = "Columns: the grouping at the start of an epoch. Ribbons: observations, coloured by "
    note += "their true hidden state." if known else "their final group."
    if known:
        note += " Hatched: a group that mixes states."
    if flow.left_out:
        note += f" {count(flow.left_out, 'smaller change')} left out."
    if flow.unmet:
        note += f" {count(flow.unmet, 'observation')} that never had a group left out."
    return note


def flow_picture(flow: Flow, hidden: Ints | None) -> Picture:
    """Draw a flow that has been laid out."""
    shapes: list[Box | Ribbon | Words] = []
    centres = [55.0 + _STEP * number for number in range(len(flow.columns))]
    for strand in flow.strands:
        kind = "group" if hidden is None else "state"
        who = f"of {kind} {strand.state}" if strand.state >= 0 else "without a group"
        shapes.append(
            Ribbon(
                centres[strand.column] + _HALF,
                centres[strand.column + 1] - _HALF,
                _TOP + _TALL * strand.left_top,
                _TOP + _TALL * strand.right_top,
                _TALL * strand.thickness,
                state_colour(strand.state),
                f"{count(strand.size, 'observation')} {who}",
            )
        )
    for x, column in zip(centres, flow.columns, strict=True):
        for block in column.blocks:
            shapes += _block(x, block, is_mixed(block, hidden))
        shapes += [
            Words(x, 16, str(column.n_clusters), 15, bold=True),
            Words(x, _TOP + _TALL + 14, f"epoch {column.epoch:,}"),
            Words(x, _TOP + _TALL + 29, f"step {column.step:,}"),
        ]
    about = f"how {count(len(flow.columns), 'grouping')} followed each other"
    return Picture(centres[-1] + 55, _TOP + _TALL + 42, about, tuple(shapes))


def _block(x: float, block: Block, mixed: bool) -> list[Box | Words]:
    """Draw a group, and write how many observations it has where there is room."""
    top, tall = _TOP + _TALL * block.top, _TALL * (block.bottom - block.top)
    fill = UNSEEN_COLOUR if block.group < 0 else PAPER
    kind = {UNSEEN: "not seen yet: ", ALONE: "each alone: "}.get(block.group, "")
    hint = f"{kind}{listed(block.members)}"
    shapes: list[Box | Words] = [
        Box(x - _HALF, top, 2 * _HALF, tall, fill, hint, framed=True, hatched=mixed)
    ]
    if tall < 13:
        return shapes
    y, size = top + tall / 2, str(len(block.members))
    if mixed:
        shapes.append(Box(x - _HALF + 1, y - 6, 2 * _HALF - 2, 12, PAPER))
    upright = block.group < 0 and tall > 50
    words = f"{size} {'new' if block.group == UNSEEN else 'alone'}" if upright else size
    colour = "#000000" if block.group < 0 else INK
    return [*shapes, Words(x, y, words, 10, colour=colour, upright=upright)]


def is_mixed(block: Block, hidden: Ints | None) -> bool:
    """Tell whether a group holds observations of several hidden states."""
    return (
        hidden is not None and block.group >= 0 and len(np.unique(hidden[list(block.members)])) > 1
    )


@takes(partition=Partition)
def emission_figure(emission: ArrayLike, partition: Partition) -> Picture:
    """Draw the emission matrix with the true states and the groups that were found.

    Parameters
    ----------
    emission
        ``emission[x, y]``, the probability that state x shows observation y.
    partition
        The grouping that was found.

    Notes
    -----
    The observations are sorted by true state and then by group. A group has the colour of the
    state that most of its observations belong to: where the grouping is right, both strips look
    the same, and an observation in the wrong group shows the wrong colour.
    """
    matrix = real_array(emission, "emission", ("n_states", "n_observations"))
    note = (
        "Observations, sorted by state and then by group. "
        f"The darker a cell, the likelier its state shows it (at most {matrix.max():.2g})."
    )
    return replace(emission_picture(matrix, partition), note=note)


def emission_picture(matrix: Floats, partition: Partition) -> Picture:
    """Draw an emission matrix between a strip of true states and a strip of groups."""
    if partition.n_observations != matrix.shape[1]:
        raise InvalidInputError(
            f"partition groups {partition.n_observations} observations, but emission has "
            f"{matrix.shape[1]} columns; the two must agree"
        )
    truth = matrix.argmax(axis=0)
    found = np.asarray(partition.labels)
    order = np.lexsort((np.arange(len(truth)), found, truth))
    cell = min(_CELL, 900 / len(order))
    row = _ROW if len(matrix) <= 20 else 8
    wide, bottom = cell * len(order), 34 + row * len(matrix)
    shapes: list[Box | Ribbon | Words] = [
        Box(_LEFT, 30, wide, row * len(matrix), PAPER, framed=True)
    ]
    likeness = _likeness(found, truth)
    shapes += _strip(4, cell, order, truth, truth, "state")
    darkest = float(matrix.max())
    for place, y in enumerate(order):
        for x in np.flatnonzero(matrix[:, y]):
            share = float(matrix[x, y])
            hint = f"state {x} shows observation {y} with probability {share:.3g}"
            # The square root, as the eye sees it: rare observations must not vanish.
            dark = round(0.06 + 0.94 * float(np.sqrt(share / darkest)), 3)
            shapes.append(
                Box(
                    _LEFT + cell * place,
                    30 + row * float(x),
                    cell,
                    row,
                    INK,
                    hint if cell >= _HOVER else "",
                    dark,
                )
            )
    shapes += _strip(bottom + 2, cell, order, found, likeness, "group")
    if cell >= 14:
        shapes += [
            Words(_LEFT + cell * (place + 0.5), bottom + 33, str(y), 9)
            for place, y in enumerate(order)
        ]
    about = f"emission matrix and groups of {count(len(order), 'observation')}"
    return Picture(_LEFT + wide + 4, bottom + 44, about, tuple(shapes))


def _likeness(found: Ints, truth: Ints) -> Ints:
    """Return, for every observation, the state that most of its group belongs to."""
    likeness = np.full(len(found), -1)
    for group in np.unique(found[found >= 0]):
        likeness[found == group] = np.bincount(truth[found == group]).argmax()
    return likeness


def _strip(
    y: float, cell: float, order: Ints, labels: Ints, states: Ints, name: str
) -> list[Box | Words]:
    """Draw a row of observations, one box per run of the same label, coloured by state."""
    shapes: list[Box | Words] = [Words(_LEFT - 8, y + _STRIP / 2, name, side="end")]
    start = 0
    for label, run in groupby(order, key=lambda observation: int(labels[observation])):
        members = [int(member) for member in run]
        x, wide = _LEFT + cell * start, cell * len(members)
        title = "no group" if label < 0 else f"{name} {label}"
        fill = state_colour(int(states[members[0]]))
        shapes.append(Box(x, y, wide, _STRIP, fill, f"{title}: {listed(members)}"))
        shapes.append(Box(x + wide - 1, y, 1, _STRIP, PAPER))
        if wide >= 14:
            words = "-" if label < 0 else str(label)
            shapes.append(
                Words(x + wide / 2, y + _STRIP / 2, words, 10, colour="#000000", bold=True)
            )
        start += len(members)
    return shapes
