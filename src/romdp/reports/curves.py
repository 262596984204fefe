"""Figures over the steps.

Regret with bands (`fig:comparison`), and the number of groups along it (`fig:comparisonCar`).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.validation import choice
from romdp.reports.bands import BANDS, MEASURES, band, curve, typical
from romdp.reports.canvas import add_legend, grid_of_panels, thousands
from romdp.reports.palette import Style, agent_styles
from romdp.reports.reading import Panel, Record, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_N_MARKERS = 7
_NEAREST = 0.075  # bulbs are at least this far apart, as a share of the panel


def panel_title(panel: Panel) -> str:
    """Name a panel.

    Examples
    --------
    >>> panel_title(("random-romdp", 30))
    'random-romdp, Y = 30'
    """
    return f"{panel[0]}, Y = {panel[1]}"


def regret_figure(
    results: Results,
    measure: str = "regret",
    kind: str = "mean",
    agents: Sequence[str] | None = None,
    share_y: bool = True,
) -> "Figure":
    """Draw regret against the square root of the step, one panel per world and Y.

    On this axis a regret that grows as sqrt(N) is a straight line. What the band means is
    written below the panels.

    Parameters
    ----------
    results
        A run directory, read by `read_results`.
    measure
        ``"regret"``, ``"pseudo_regret"``, ``"reward_per_step"`` or ``"n_clusters"``.
    kind
        ``"mean"``: mean and 95% bootstrap interval; ``"median"``: median and quartiles.
    agents
        Which to draw; by default all.
    share_y
        Whether all panels have the same vertical axis, so that heights can be compared.
    """
    choice(measure, "measure", MEASURES)
    choice(kind, "band", BANDS)
    styles = _styles(results, agents)
    titles = [panel_title(panel) for panel in results.panels]
    figure, panels = grid_of_panels(titles, share_y=share_y)
    counts = set()
    for panel, axes in zip(results.panels, panels, strict=True):
        for name, style in styles.items():
            records = results.of(name, panel)
            if records:
                _draw_band(axes, records, measure, kind, style)
                counts.add(len(records))
        _label_axes(axes, MEASURES[measure], share_y=share_y)
    add_legend(figure, styles, _band_note(kind, counts))
    return figure


def groups_figure(
    results: Results, agents: Sequence[str] | None = None, share_y: bool = False
) -> "Figure":
    """Draw the regret of one typical run per agent, with the number of groups in bulbs along it.

    The run is the one in the middle by final regret. A bulb stands where the number of groups
    changes, where there is room for it.
    """
    styles = _styles(results, agents)
    titles = [panel_title(panel) for panel in results.panels]
    figure, panels = grid_of_panels(titles, share_y=share_y)
    for panel, axes in zip(results.panels, panels, strict=True):
        chosen = {
            name: typical(results.of(name, panel)) for name in styles if results.of(name, panel)
        }
        for name, record in chosen.items():
            root, regret = np.sqrt(record.curves["step"]), curve(record, "regret")
            axes.plot(root, regret, color=styles[name].colour, ls=styles[name].dash, lw=1.4)
        _label_axes(axes, "regret", share_y=share_y)
        _draw_bulbs(axes, chosen, styles)
    note = "one run per agent: the middle one by final regret; in the bulbs: number of groups"
    add_legend(figure, styles, note, markers=False)
    return figure


def _styles(results: Results, agents: Sequence[str] | None) -> dict[str, Style]:
    styles = agent_styles(results.agents)
    if agents is None:
        return styles
    if not agents:
        raise InvalidInputError("agents is empty; name at least one, or pass None for all")
    return {choice(name, "agent", styles): styles[name] for name in agents}


def _draw_band(
    axes: "Axes", records: Sequence[Record], measure: str, kind: str, style: Style
) -> None:
    summary = band(records, measure, kind)
    if np.isnan(summary.middle).all():
        return
    root = np.sqrt(summary.step)
    axes.plot(
        root,
        summary.middle,
        color=style.colour,
        linestyle=style.dash,
        linewidth=1.6,
        marker=style.marker,
        markersize=4,
        markevery=_marker_places(root),
    )
    if summary.n_runs > 1:
        axes.fill_between(
            root, summary.low, summary.high, color=style.colour, alpha=0.18, linewidth=0
        )


def _marker_places(root: NDArray[np.float64]) -> list[int]:
    """Choose points that lie evenly on the axis: the stored steps crowd at its beginning."""
    wanted = np.linspace(root[0], root[-1], _N_MARKERS)
    return sorted({int(np.abs(root - place).argmin()) for place in wanted})


def _label_axes(axes: "Axes", name: str, share_y: bool) -> None:
    axes.set_xlabel(r"$\sqrt{N}$", fontsize=9)
    place = axes.get_subplotspec()
    if not share_y or place is None or place.is_first_col():
        axes.set_ylabel(name, fontsize=9)
    axes.set_xlim(left=0)
    axes.margins(x=0.02)
    thousands(axes.yaxis)
    thousands(axes.xaxis)


def _band_note(kind: str, counts: set[int]) -> str:
    seeds = str(counts.pop()) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    if seeds == "1":
        return "one run per line, no band"
    return f"{BANDS[kind]} ({seeds} seeds)"


def change_places(record: Record) -> NDArray[np.int64]:
    """Return the stored points at which the number of groups is a new one, and the last point."""
    groups = record.curves["n_clusters"]
    places = np.flatnonzero(np.diff(groups)) + 1
    return np.unique(np.concatenate(([0], places, [len(groups) - 1])))


def _draw_bulbs(axes: "Axes", chosen: dict[str, Record], styles: dict[str, Style]) -> None:
    left, right = axes.get_xlim()
    low, high = axes.get_ylim()
    taken: list[tuple[float, float]] = []
    # Last points first: the final number of groups must not be crowded out.
    for latest in (True, False):
        for name, record in chosen.items():
            places = change_places(record)
            root, regret = np.sqrt(record.curves["step"]), curve(record, "regret")
            for place in places[-1:] if latest else places[-2::-1]:
                if np.isnan(regret[place]):
                    continue
                x, y = float(root[place]), float(regret[place])
                spot = ((x - left) / (right - left), (y - low) / (high - low))
                if any(np.hypot(spot[0] - a, spot[1] - b) < _NEAREST for a, b in taken):
                    continue
                taken.append(spot)
                _draw_bulb(axes, x, y, int(record.curves["n_clusters"][place]), styles[name])


def _draw_bulb(axes: "Axes", x: float, y: float, number: int, style: Style) -> None:
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
