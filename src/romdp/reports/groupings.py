"""Pictures of groupings.

How observations flow into groups (`fig:evolution`), and which state shows which observation.
"""

from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.text import count
from romdp.core.validation import real_array
from romdp.data.partition import Partition
from romdp.reports.drawing import INK, PAPER, Box, Picture, Ribbon, Words, listed
from romdp.reports.flow import ALONE, UNSEEN, Block, Flow, lay_out
from romdp.reports.palette import UNSEEN_COLOUR, state_colour
from romdp.reports.reading import Record

_STEP, _TALL, _HALF, _TOP = 120, 430, 9, 34  # between columns, of a column, of a block, above
_CELL, _ROW, _STRIP, _LEFT = 26, 20, 20, 64  # of an emission picture: cells, rows, strips, margin
_HOVER = 8  # pixels that a mouse can aim at


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


def flow_picture(flow: Flow, hidden: NDArray[np.int64] | None) -> Picture:
    """Draw a flow that has been laid out."""
    shapes: list[Box | Ribbon | Words] = []
    centres = [55.0 + _STEP * number for number in range(len(flow.columns))]
    for ribbon in flow.ribbons:
        kind = "group" if hidden is None else "state"
        who = f"of {kind} {ribbon.state}" if ribbon.state >= 0 else "without a group"
        shapes.append(
            Ribbon(
                centres[ribbon.column] + _HALF,
                centres[ribbon.column + 1] - _HALF,
                _TOP + _TALL * ribbon.left_top,
                _TOP + _TALL * ribbon.right_top,
                _TALL * ribbon.thickness,
                state_colour(ribbon.state),
                f"{count(ribbon.size, 'observation')} {who}",
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


def is_mixed(block: Block, hidden: NDArray[np.int64] | None) -> bool:
    """Tell whether a group holds observations of several hidden states."""
    return (
        hidden is not None and block.group >= 0 and len(np.unique(hidden[list(block.members)])) > 1
    )


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


def emission_picture(matrix: NDArray[np.float64], partition: Partition) -> Picture:
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


def _likeness(found: NDArray[np.int64], truth: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for every observation, the state that most of its group belongs to."""
    likeness = np.full(len(found), -1)
    for group in np.unique(found[found >= 0]):
        likeness[found == group] = np.bincount(truth[found == group]).argmax()
    return likeness


def _strip(
    y: float,
    cell: float,
    order: NDArray[np.int64],
    labels: NDArray[np.int64],
    states: NDArray[np.int64],
    name: str,
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
