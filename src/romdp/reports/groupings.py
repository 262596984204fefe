"""Figures of groupings.

How observations flow into groups (`fig:evolution`), and which state shows which observation.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import real_array
from romdp.data.partition import Partition
from romdp.reports.canvas import new_figure
from romdp.reports.flow import ALONE, UNSEEN, Block, Column, Flow, lay_out
from romdp.reports.palette import UNSEEN_COLOUR, state_colour
from romdp.reports.reading import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLOCK = 0.05  # half the width of a block; columns are 1 apart
_PALE = "#F2F2F2"
_SMALLEST_TEXT = 0.017  # blocks lower than this are not labelled


def flow_figure(record: Record, max_columns: int = 8) -> "Figure":
    """Draw how the observations of a run flowed into groups.

    Each column is a grouping at the start of an epoch, each block a group (with its number of
    observations), each ribbon the observations that move on together, coloured by their true
    hidden state where that is known.
    """
    if not record.groupings:
        raise InvalidInputError(f"the run of {record.agent} has no stored groupings to draw")
    flow = lay_out(record.groupings, record.hidden_state, max_columns)
    figure = new_figure(max(1.15 * len(flow.columns) + 1.2, 4.5), 4.6)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(-0.35, len(flow.columns) - 0.65)
    axes.set_ylim(1.13, -0.09)
    _draw_ribbons(axes, flow)
    for number, column in enumerate(flow.columns):
        _draw_column(axes, number, column, record.hidden_state)
    axes.set_title(
        f"{record.agent}, {record.world}, Y = {record.n_observations}, seed {record.seed}",
        fontsize=10,
    )
    figure.supxlabel(_flow_note(flow, record.hidden_state is not None), fontsize=7.5, color="#555")
    return figure


def _flow_note(flow: Flow, known: bool) -> str:
    colours = "true hidden state" if known else "final group"
    note = f"columns: the grouping at the start of an epoch; colours: {colours}"
    if known:
        note += "; hatched: a group that mixes states"
    if flow.left_out:
        note += f"; {flow.left_out} smaller changes left out"
    return note


def _draw_ribbons(axes: "Axes", flow: Flow) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path as Outline

    move, line, bend = Outline.MOVETO, Outline.LINETO, Outline.CURVE4
    for ribbon in flow.ribbons:
        left, right = ribbon.column + _BLOCK, ribbon.column + 1 - _BLOCK
        middle = (left + right) / 2
        a, b = ribbon.left_top, ribbon.right_top
        c, d = b + ribbon.thickness, a + ribbon.thickness
        outline = Outline(
            [
                *[(left, a), (middle, a), (middle, b), (right, b)],
                *[(right, c), (middle, c), (middle, d), (left, d), (left, a)],
            ],
            [move, bend, bend, bend, line, bend, bend, bend, Outline.CLOSEPOLY],
        )
        axes.add_patch(
            PathPatch(
                outline,
                facecolor=state_colour(ribbon.state),
                alpha=0.55,
                edgecolor="white",
                linewidth=0.3,
            )
        )


def _draw_column(
    axes: "Axes", number: int, column: Column, hidden: NDArray[np.int64] | None
) -> None:
    from matplotlib.patches import Rectangle

    for block in column.blocks:
        axes.add_patch(
            Rectangle(
                (number - _BLOCK, block.top),
                2 * _BLOCK,
                block.bottom - block.top,
                facecolor=_block_colour(block),
                edgecolor="black",
                linewidth=0.6,
                hatch="////" if is_mixed(block, hidden) else None,
            )
        )
        if block.bottom - block.top >= _SMALLEST_TEXT and len(block.members) > 1:
            _write_size(axes, number, block)
    axes.text(number, -0.02, f"{column.n_clusters}", ha="center", va="bottom", fontsize=9)
    axes.text(
        number,
        1.02,
        f"epoch {column.epoch}\nstep {column.step:,}",
        ha="center",
        va="top",
        fontsize=7,
    )
    if number == 0:
        axes.text(-0.12, -0.02, "groups:", ha="right", va="bottom", fontsize=7, color="#555")


def _write_size(axes: "Axes", number: int, block: Block) -> None:
    """Write how many observations a block has; upright where it needs a word."""
    label = block_label(block)
    upright = block.group < 0 and block.bottom - block.top > 0.02 * len(label)
    axes.text(
        number,
        (block.top + block.bottom) / 2,
        label if upright or block.group >= 0 else str(len(block.members)),
        rotation=90 if upright else 0,
        ha="center",
        va="center" if upright else "center_baseline",
        fontsize=6.5,
        bbox=None if block.group < 0 else {"facecolor": _PALE, "edgecolor": "none", "pad": 0.8},
    )


def _block_colour(block: Block) -> str:
    return UNSEEN_COLOUR if block.group < 0 else _PALE


def is_mixed(block: Block, hidden: NDArray[np.int64] | None) -> bool:
    """Tell whether a group holds observations of several hidden states."""
    return (
        hidden is not None and block.group >= 0 and len(np.unique(hidden[list(block.members)])) > 1
    )


def block_label(block: Block) -> str:
    """Write the size of a block, and what it is where it is no group."""
    kind = {UNSEEN: " new", ALONE: " alone"}.get(block.group, "")
    return f"{len(block.members)}{kind}"


def emission_figure(emission: ArrayLike, partition: Partition) -> "Figure":
    """Draw the emission matrix with the true states and the groups that were found.

    Parameters
    ----------
    emission
        ``emission[x, y]``, the chance that state x shows observation y.
    partition
        The grouping that was found.

    Notes
    -----
    The observations are sorted by true state and then by group. A group has the colour of the
    state that most of its observations belong to: where the grouping is right, both strips look
    the same, and an observation in the wrong company shows the wrong colour.
    """
    matrix = real_array(emission, "emission", ("n_states", "n_observations"))
    if partition.n_observations != matrix.shape[1]:
        raise InvalidInputError(
            f"partition groups {partition.n_observations} observations, but emission has "
            f"{matrix.shape[1]} columns; the two must agree"
        )
    truth = matrix.argmax(axis=0)
    order = np.lexsort((np.arange(len(truth)), partition.labels, truth))
    width = float(np.clip(0.16 * len(truth) + 2.0, 5.5, 12.0))
    figure = new_figure(width, float(np.clip(0.3 * len(matrix) + 1.9, 2.8, 6.5)))
    strips: Any = figure.subplots(
        3, 1, sharex=True, height_ratios=[0.09, max(0.25, 0.11 * len(matrix)), 0.09]
    )
    top, middle, bottom = strips
    _draw_strip(top, truth[order], truth[order], "state")
    found = np.asarray(partition.labels)
    table = partition.contingency(Partition(truth)).toarray()
    states = truth[[members[0] for members in Partition(truth).members]]
    likeness = np.append(states[table.argmax(axis=1)], -1)  # -1, the last: no group, no state
    _draw_strip(bottom, found[order], likeness[found][order], "group")
    # The square root, as the eye sees it: rare observations must not vanish beside common ones.
    image = middle.imshow(
        np.sqrt(matrix[:, order]), aspect="auto", cmap="Greys", vmin=0, interpolation="nearest"
    )
    for place in np.flatnonzero(np.diff(truth[order])) + 0.5:
        middle.axvline(place, color="#D55E00", linewidth=0.9)
    middle.set_ylabel("hidden state", fontsize=9)
    middle.set_yticks(range(len(matrix)) if len(matrix) <= 20 else [0, len(matrix) - 1])
    middle.tick_params(labelsize=8)
    few = len(truth) <= 60
    middle.tick_params(bottom=False, labelbottom=False)
    bottom.set_xticks(range(len(truth)) if few else [])
    bottom.set_xticklabels([str(y) for y in order] if few else [], fontsize=6.5)
    bottom.tick_params(bottom=few, labelbottom=few, length=2)
    bottom.set_xlabel("observation, sorted by state and then by group", fontsize=8)
    bar = figure.colorbar(image, ax=list(strips), shrink=0.8, pad=0.02)
    bar.set_label("chance to be shown", fontsize=8)
    ticks = np.linspace(0, float(np.sqrt(matrix.max())), 5)
    bar.set_ticks(ticks.tolist(), labels=[f"{tick**2:.2g}" for tick in ticks])
    bar.ax.tick_params(labelsize=7)
    return figure


def _draw_strip(
    axes: "Axes", labels: NDArray[np.int64], states: NDArray[np.int64], name: str
) -> None:
    """Draw a row of cells, coloured by state; runs of one label are framed and numbered."""
    from matplotlib.colors import to_rgb

    colours = np.array([to_rgb(state_colour(int(state))) for state in states])
    axes.imshow(colours[None], aspect="auto", interpolation="nearest")
    axes.set_yticks([0], [name], fontsize=8)
    axes.tick_params(bottom=False, labelbottom=False, left=False)
    for run in np.split(np.arange(len(labels)), np.flatnonzero(np.diff(labels)) + 1):
        axes.axvline(run[0] - 0.5, color="black", linewidth=0.8)
        if len(run) >= max(1, len(labels) // 60):
            label = int(labels[run[0]])
            dark = colours[run[0]] @ (0.299, 0.587, 0.114) < 0.5
            axes.text(
                float(run.mean()),
                0,
                "-" if label < 0 else str(label),
                ha="center",
                va="center_baseline",
                fontsize=7,
                color="white" if dark else "black",
            )
