"""The printed figures, in one place, and the ones of a whole run directory."""

import os
from pathlib import Path

from romdp.reports.bands import known_measures, typical
from romdp.reports.canvas import FORMATS, save_figure
from romdp.reports.curves import groups_figure, regret_figure
from romdp.reports.groupings import emission_figure, flow_figure
from romdp.reports.reading import read_results
from romdp.reports.shell import make_directory

__all__ = [
    "emission_figure",
    "flow_figure",
    "groups_figure",
    "regret_figure",
    "save_figure",
    "write_figures",
]


def write_figures(
    directory: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    formats: tuple[str, ...] = FORMATS,
) -> list[Path]:
    """Write the figures of a run directory, as SVG and PNG.

    Regret and pseudo-regret against sqrt(N) and the groups along the regret (where no regret is
    known: the reward per step), and for every agent that regroups the flow of its typical run
    in every world.

    Parameters
    ----------
    directory
        What ``romdp compare`` wrote.
    out
        Where to put them; by default ``directory/figures``.
    formats
        ``"svg"``, ``"png"`` or both.

    Returns
    -------
    The files written.
    """
    results = read_results(directory)
    folder = Path(directory) / "figures" if out is None else Path(out)
    make_directory(folder)
    known = known_measures(results.records)
    figures = {
        name.replace("_", "-"): regret_figure(results, name)
        for name in ("regret", "pseudo_regret")
        if name in known
    }
    if "regret" in known:
        figures["groups"] = groups_figure(results)
    else:
        figures["reward-per-step"] = regret_figure(results, "reward_per_step")
    for world, size in results.panels:
        for agent in results.agents:
            records = results.of(agent, (world, size))
            if records and len(typical(records).groupings) > 1:
                figures[f"flow-{agent}-{world}-Y{size}"] = flow_figure(typical(records))
    return [
        path
        for name, figure in figures.items()
        for path in save_figure(figure, folder / name, formats)
    ]
