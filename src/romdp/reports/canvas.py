"""What all printed figures share: the sheet, the grid of panels, and how they are saved."""

import io
import os
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from romdp.core.errors import InvalidInputError
from romdp.core.storage import write_atomic
from romdp.core.validation import choice
from romdp.reports.palette import Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = ("svg", "png")


def new_figure(width: float, height: float) -> "Figure":
    """Make a figure that belongs to no window and changes nothing global."""
    if find_spec("matplotlib") is None:
        raise InvalidInputError("figures need matplotlib: pip install 'romdp[plot]'")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def grid_of_panels(
    titles: Sequence[str], *, share_y: bool, height: float = 3.1
) -> "tuple[Figure, list[Axes]]":
    """Lay panels side by side, three in a row, with the unused places left empty."""
    columns = min(3, len(titles))
    rows = -(-len(titles) // columns)
    figure = new_figure(max(3.6 * columns, 5.0), height * rows + 0.7)
    grid = figure.subplots(rows, columns, sharey=share_y, squeeze=False)
    panels = list(grid.flat)
    for axes in panels[len(titles) :]:
        axes.remove()
    for axes, title in zip(panels, titles, strict=False):
        axes.set_title(title, fontsize=10)
        tidy(axes)
    return figure, panels[: len(titles)]


def tidy(axes: "Axes") -> None:
    """Leave only the left and lower edge, and a faint grid."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)


def add_legend(
    figure: "Figure", styles: Mapping[str, Style], note: str, *, markers: bool = True
) -> None:
    """Put one legend above all panels, and a line that explains the picture below them."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D(
            [],
            [],
            color=style.colour,
            linestyle=style.dash,
            marker=style.marker if markers else None,
            markersize=5,
            linewidth=1.8,
            label=name,
        )
        for name, style in styles.items()
    ]
    figure.legend(
        handles=handles,
        loc="outside upper center",
        ncols=min(len(handles), 6),
        frameon=False,
        fontsize=9,
        handlelength=3.2,
    )
    figure.supxlabel(note, fontsize=7.5, color="#555555")


def thousands(axis: Any) -> None:
    """Write the ticks of an axis with commas, and with few digits."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def save_figure(
    figure: "Figure",
    stem: str | os.PathLike[str],
    formats: Sequence[str] = FORMATS,
    dpi: int = 200,
) -> list[Path]:
    """Write a figure as ``stem.svg`` and ``stem.png``, each whole or not at all.

    The same figure gives the same bytes: no date and no random names inside.

    Returns
    -------
    The files written.
    """
    import matplotlib

    paths = []
    for kind in formats:
        choice(kind, "format", FORMATS)
        buffer = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        with matplotlib.rc_context({"svg.hashsalt": "romdp"}):
            figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
        path = Path(f"{os.fspath(stem)}.{kind}")
        write_atomic(path, partial(_write, buffer.getvalue()))
        paths.append(path)
    return paths


def _write(content: bytes, file: IO[bytes]) -> None:
    file.write(content)
