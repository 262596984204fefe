"""Figures for print: learning curves with bands, groups along the regret, and those of a directory.

Regret is drawn as in `fig:comparison`, the groups along it as in `fig:comparisonCar`.
"""

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from romdp.core.arrays import Floats
from romdp.core.storage import write_bytes
from romdp.core.validation import as_path, check, choice, flag, how_many, real_number, takes
from romdp.experiments.summary import limit_constant
from romdp.reports.drawing import Picture, Style, add_note, agent_styles, new_figure
from romdp.reports.groupings import emission_figure, flow_figure
from romdp.reports.reading import (
    BANDS,
    MEASURES,
    RETURN_NOTE,
    Panel,
    Record,
    Results,
    band,
    bulb_places,
    curve,
    known_measures,
    read_results,
    typical,
)
from romdp.reports.shell import make_directory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "emission_figure",
    "flow_figure",
    "groups_figure",
    "regret_figure",
    "save_figure",
    "write_figures",
]

_FORMATS = ("svg", "png")
_N_MARKERS = 7
_NARROWEST = 2.3  # inches of a panel whose axis can be read at 8 points
_LIMIT = "C log N"
_ROOT = r"$\sqrt{N}$"


def write_figures(
    directory: str | os.PathLike[str], out: str | os.PathLike[str] | None = None
) -> list[Path]:
    """Write the figures of a run directory.

    Regret and pseudo-regret against sqrt(N) and the groups along the regret. Where no regret is
    known: the mean return of episodes, or the reward per step where none ended. For every agent
    that regroups, the flow of its typical run in every world, as SVG; the others also as PNG.

    Parameters
    ----------
    directory
        What ``romdp compare`` wrote.
    out
        Where to put them; by default ``directory/figures``.

    Returns
    -------
    The files written.
    """
    results = read_results(as_path(directory, "directory"))
    folder = Path(directory) / "figures" if out is None else as_path(out, "out")
    make_directory(folder)
    known = known_measures(results.records)
    figures: dict[str, Figure | Picture] = {
        name.replace("_", "-"): regret_figure(results, name)
        for name in ("regret", "pseudo_regret", "mean_return")
        if name in known
    }
    if "regret" in known:
        figures["groups"] = groups_figure(results)
    if not figures:
        figures["reward-per-step"] = regret_figure(results, "reward_per_step")
    for world, size in results.panels:
        for agent in results.agents:
            records = results.of(agent, (world, size))
            if records and len((example := typical(records)).groupings) > 1:
                figures[f"flow-{agent}-{world}-Y{size}"] = flow_figure(example)
    return [path for name, figure in figures.items() for path in save_figure(figure, folder / name)]


@takes(figure=(Picture, "savefig"), stem=as_path, dpi=how_many)
def save_figure(
    figure: "Figure | Picture",
    stem: str | os.PathLike[str],
    formats: Sequence[str] = _FORMATS,
    dpi: int = 200,
) -> list[Path]:
    """Write a figure as ``stem.svg`` and ``stem.png``, each whole or not at all.

    The same figure gives the same bytes: no date and no random names inside. What is drawn as SVG,
    a flow or an emission matrix, is written as ``stem.svg`` alone.

    Returns
    -------
    The files written.
    """
    paths = []
    check(formats, "formats", list, tuple)
    for kind in formats:
        choice(kind, "formats", _FORMATS)
    if isinstance(figure, Picture):
        path = Path(f"{os.fspath(stem)}.svg")
        write_bytes(path, figure.print_svg().encode())
        return [path]
    import matplotlib

    for kind in formats:
        buffer = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        with matplotlib.rc_context({"svg.hashsalt": "romdp"}):
            figure.savefig(buffer, format=kind, dpi=dpi, metadata=metadata)
        path = Path(f"{os.fspath(stem)}.{kind}")
        write_bytes(path, buffer.getvalue())
        paths.append(path)
    return paths


def panel_title(panel: Panel) -> str:
    """Name a panel.

    Examples
    --------
    >>> panel_title(("random-romdp", 30))
    'random-romdp, Y = 30'
    """
    return f"{panel[0]}, Y = {panel[1]}"


@takes(results=Results, measure=str, share_y=flag, width=(None, real_number))
def regret_figure(
    results: Results, measure: str = "regret", share_y: bool = True, width: float | None = None
) -> "Figure":
    """Draw a learning curve with its band, one panel per world and Y.

    The horizontal axis is the square root of the step, where a regret that grows as sqrt(N) is a
    straight line; for returns it is the step. What the band means is written below the panels.

    Parameters
    ----------
    results
        A run directory, read by `read_results`.
    measure
        ``"regret"``, ``"pseudo_regret"``, ``"mean_return"``, ``"reward_per_step"`` or
        ``"n_clusters"``.
    share_y
        Whether all panels have the same vertical axis, so that heights can be compared.
    width
        The width of the figure in inches, such as 3.3 for a column of a paper; by default up to
        three panels stand side by side.
    """
    choice(measure, "measure", MEASURES)
    if width is not None:
        real_number(width, "width", 2.0)
    styles = agent_styles(results.agents)
    figure, panels = _panels(results, share_y, width)
    counts = set()
    limits = _limits(results) if measure in ("regret", "pseudo_regret") else {}
    for panel, axes in zip(results.panels, panels, strict=True):
        for name, style in styles.items():
            records = results.of(name, panel)
            if records:
                _draw_band(axes, records, measure, style)
                counts.add(len(records))
        if panel in limits:
            step = np.geomspace(1, results.experiment.steps, 100)
            limit = limits[panel] * np.log(step)
            axes.plot(np.sqrt(step), limit, color="#777777", ls=":", lw=0.8, label=_LIMIT)
        across = "step" if measure == "mean_return" else _ROOT
        _label_axes(axes, MEASURES[measure], share_y=share_y, across=across)
    note = _band_note(counts)
    if measure == "mean_return":
        note += f"\n{RETURN_NOTE}"
    if limits:
        together = _LIMIT.replace(" ", "\N{NO-BREAK SPACE}")
        note += f"; dotted: {together}, which no agent stays below for ever"
    _add_legend(figure, styles, note)
    return figure


def _limits(results: Results) -> dict[Panel, float]:
    """Return the constant C of each panel that has one."""
    experiment = results.experiment
    found = {
        (spec.label, size): limit_constant(experiment, spec, size)
        for spec, size in experiment.cells
        if (spec.label, size) in results.panels
    }
    return {panel: constant for panel, constant in found.items() if constant is not None}


@takes(results=Results, share_y=flag)
def groups_figure(results: Results, share_y: bool = False) -> "Figure":
    """Draw the regret of one typical run per agent, with the number of groups in bulbs along it.

    The run is the one in the middle by final regret. A bulb stands where the number of groups
    changes, where there is room for it.
    """
    styles = agent_styles(results.agents)
    figure, panels = _panels(results, share_y)
    for panel, axes in zip(results.panels, panels, strict=True):
        chosen = {name: typical(records) for name in styles if (records := results.of(name, panel))}
        for name, record in chosen.items():
            root, regret = np.sqrt(record.curves["step"]), curve(record, "regret")
            axes.plot(root, regret, color=styles[name].colour, ls=styles[name].dash, lw=1.4)
        for name, places in bulb_places(chosen).items():
            for place in places:
                _draw_bulb(axes, chosen[name], place, styles[name])
        _label_axes(axes, "regret", share_y=share_y)
    note = "one run per agent: the middle one by final regret; in the bulbs: number of groups"
    _add_legend(figure, styles, note, markers=False)
    return figure


def _panels(
    results: Results, share_y: bool, width: float | None = None
) -> "tuple[Figure, list[Axes]]":
    """Lay the panels side by side, at most three in a row, with the unused places left empty."""
    titles = [panel_title(panel) for panel in results.panels]
    n_columns = min(3 if width is None else max(1, int(width / _NARROWEST)), len(titles))
    n_rows = -(-len(titles) // n_columns)
    wide = max(3.6 * n_columns, 5.0) if width is None else width
    figure = new_figure(wide, min(3.1, 0.86 * wide / n_columns) * n_rows + 0.7)
    panels = list(figure.subplots(n_rows, n_columns, sharey=share_y, squeeze=False).flat)
    for axes in panels[len(titles) :]:
        axes.remove()
    for axes, title in zip(panels, titles, strict=False):
        axes.set_title(title, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=8)
    return figure, panels[: len(titles)]


def _draw_band(axes: "Axes", records: Sequence[Record], measure: str, style: Style) -> None:
    summary = band(records, measure)
    if np.isnan(summary.middle).all():
        return
    across = np.asarray(summary.step if measure == "mean_return" else np.sqrt(summary.step), float)
    axes.plot(
        across,
        summary.middle,
        color=style.colour,
        linestyle=style.dash,
        linewidth=1.6,
        marker=style.marker,
        markersize=4,
        markevery=_marker_places(across),
    )
    if summary.n_runs > 1:
        axes.fill_between(
            across, summary.low, summary.high, color=style.colour, alpha=0.18, linewidth=0
        )


def _marker_places(across: Floats) -> list[int]:
    """Choose points that lie evenly on the axis: the stored steps crowd at its beginning."""
    wanted = np.linspace(across[0], across[-1], _N_MARKERS)
    return sorted({int(np.abs(across - place).argmin()) for place in wanted})


def _draw_bulb(axes: "Axes", record: Record, point: int, style: Style) -> None:
    x = float(np.sqrt(record.curves["step"][point]))
    y = float(record.curves["regret"][point])
    number = int(record.curves["n_clusters"][point])
    axes.plot(
        [x],
        [y],
        marker="o",
        markersize=12,
        markerfacecolor="white",
        markeredgecolor=style.colour,
        markeredgewidth=1.3,
        clip_on=False,
        zorder=5,
    )
    size = 6.5 if number < 100 else 5
    axes.text(x, y, f"{number}", ha="center", va="center_baseline", fontsize=size, zorder=6)


def _label_axes(axes: "Axes", name: str, share_y: bool, across: str = _ROOT) -> None:
    from matplotlib.ticker import FuncFormatter

    axes.set_xlabel(across, fontsize=9)
    place = axes.get_subplotspec()
    if not share_y or place is None or place.is_first_col():
        axes.set_ylabel(name, fontsize=9)
    axes.set_xlim(left=0)
    axes.margins(x=0.02)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _add_legend(
    figure: "Figure", styles: Mapping[str, Style], note: str, *, markers: bool = True
) -> None:
    """Put one legend above all panels, and a note that explains the figure below them."""
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
        ncols=max(1, min(len(handles), 6, int(figure.get_size_inches()[0] / 1.5))),
        frameon=False,
        fontsize=9,
        handlelength=3.2,
    )
    add_note(figure, note)


def _band_note(counts: set[int]) -> str:
    seeds = str(counts.pop()) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    if seeds == "1":
        return "one run per line, no band"
    return f"{BANDS['mean']} ({seeds} seeds)"
