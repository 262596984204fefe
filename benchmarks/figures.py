"""Draw the figures of docs/results from the rows that other benchmarks have left in benchmarks/out.

    python benchmarks/figures.py growth        # time and memory of grouping, see grouping_scale.py
    python benchmarks/figures.py scales        # regret against the width scale, sl_ucrl.py scales
    python benchmarks/figures.py tails         # price of a lighter tail, posterior_tails.py
    python benchmarks/figures.py environments  # the first table of docs/results/environments.md
    python benchmarks/figures.py vectors       # the table of rivals in docs/results/vectors.md

`growth` runs the points that are missing, each in a process of its own so that peak memory is its
own too: about 8 minutes on an idle machine.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from grid import interval, read
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

OUT = Path("benchmarks/out")
PER_OBSERVATION = 1_000
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
FIXED = 10_000
STEPS = (1_000_000, 3_000_000, 10_000_000, 30_000_000, 100_000_000)
COLUMNS = (
    "observations",
    "steps",
    "distinct",
    "groups",
    "wrong",
    "often",
    "count",
    "fit",
    "memory",
)


def measure(size: int, steps: int) -> dict[str, str | float]:
    """Run one case and read its line of the table."""
    script = Path(__file__).with_name("grouping_scale.py")
    command = [sys.executable, script, "--observations", str(size), "--steps", str(steps)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    cells = [cell.strip().replace(",", "") for cell in printed.splitlines()[-1].split("|")[1:-1]]
    row: dict[str, str | float] = dict(zip(COLUMNS, cells, strict=True))
    return row | {name: float(row[name]) for name in COLUMNS if name != "often"}


def draw(axes: Axes, rows: list[dict[str, float]], along: str) -> None:
    """Draw time (left scale) and memory (right scale) with the growth exponent of time."""
    x = np.array([row[along] for row in rows])
    seconds = np.array([row["count"] + row["fit"] for row in rows])
    fit = np.array([row["fit"] for row in rows])
    memory = np.array([row["memory"] for row in rows])
    axes.loglog(x, seconds, "o-", color="#0072B2", label="counting and fit, seconds")
    axes.loglog(x, fit, "s--", color="#56B4E9", label="fit alone, seconds")
    axes.loglog(x, memory, "D-", color="#D55E00", label="peak memory, GB")
    axes.loglog(x, seconds[-1] * x / x[-1], ":", color="#666666", label="linear")
    axes.grid(alpha=0.3)


def growth() -> Figure:
    """Run what is missing and draw."""
    path = OUT / "growth.jsonl"
    rows = list(read(path)) if path.exists() else []
    known = {(row["observations"], row["steps"]) for row in rows}
    cases = [(size, size * PER_OBSERVATION) for size in SIZES] + [(FIXED, n) for n in STEPS]
    for size, steps in dict.fromkeys(cases):
        if (size, steps) in known:
            continue
        rows.append(measure(size, steps))
        print(rows[-1], flush=True)
        OUT.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            file.write(json.dumps(rows[-1]) + "\n")
    rows.sort(key=lambda row: (row["observations"], row["steps"]))
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw(
        left, [r for r in rows if r["steps"] == PER_OBSERVATION * r["observations"]], "observations"
    )
    left.set_xlabel(f"observations ({PER_OBSERVATION:,} steps for each)")
    draw(right, [r for r in rows if r["observations"] == FIXED], "steps")
    right.set_xlabel(f"steps ({FIXED:,} observations)")
    left.legend(frameon=False)
    return figure


COLOURS = {
    "ucrl2": "#D55E00",
    "overlap": "#E69F00",
    "sl-ucrl": "#0072B2",
    "oracle": "#000000",
}
MARKERS = {"ucrl2": "s", "overlap": "^", "sl-ucrl": "o", "oracle": "D"}


def scales() -> Figure:
    """Draw one panel for each number of observations."""
    rows = list(read(OUT / "sl-ucrl-scales.jsonl"))
    sizes = sorted({row["observations"] for row in rows})
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(sizes), sharey=True))
    for axes, size in zip(panels, sizes, strict=True):
        for agent, colour in COLOURS.items():
            mine = [r for r in rows if r["agent"] == agent and r["observations"] == size]
            found = sorted({r["scale"] for r in mine})
            means = np.array(
                [interval([r["pseudo_regret"] for r in mine if r["scale"] == s]) for s in found]
            )
            axes.errorbar(
                found,
                means[:, 0],
                [means[:, 0] - means[:, 1], means[:, 2] - means[:, 0]],
                color=colour,
                marker=MARKERS[agent],
                capsize=3,
                label=agent,
            )
        axes.set(xscale="log", yscale="log", title=f"Y = {size}", xlabel="scale of the widths")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("pseudo-regret at 10^6 steps\n(mean, bootstrap 95%)")
    panels[0].legend(fontsize=8)
    return figure


def tails() -> Figure:
    """Draw how heavy the tail of each way of sampling is against what it costs on average."""
    lost: dict[str, list[float]] = {}
    for row in read(OUT / "posterior-tails.jsonl"):
        lost.setdefault(row["sampling"], []).extend(row["lost"])
    return draw_tails(
        {
            name.strip("`"): (float(np.mean(values)), float(max(values) / np.median(values)))
            for name, values in lost.items()
            if len(values) >= 100
        }
    )


def draw_tails(points: dict[str, tuple[float, float]]) -> Figure:
    """Draw the largest loss over the median against the mean, a named point for each."""
    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    for here in points.values():
        axes.plot(*here, "o", color="#0072B2")
    axes.axhline(3.0, color="#777777", linestyle=":", linewidth=1)
    axes.axvline(400.0, color="#777777", linestyle=":", linewidth=1)
    axes.set(yscale="log", xlabel="mean regret of 100 runs", ylabel="largest / median")
    axes.yaxis.set_minor_formatter("")
    axes.set_yticks([2, 3, 4, 6, 10, 15], ["2", "3", "4", "6", "10", "15"])
    axes.margins(x=0.2)
    axes.grid(alpha=0.3)
    name_points(axes, points)
    return figure


def name_points(axes: Axes, points: dict[str, tuple[float, float]]) -> None:
    """Write the name of each point beside it, where it hides no other name and no point."""
    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    axes.figure.draw(renderer)  # so that it is known where everything lies
    taken = [
        Bbox.from_bounds(x - 6, y - 6, 12, 12)
        for x, y in axes.transData.transform(list(points.values()))
    ]
    for name, here in points.items():
        for across, up in ((5, 4), (5, -11), (-5, 4), (-5, -11)):
            side = "left" if across > 0 else "right"
            text = axes.annotate(
                name, here, (across, up), textcoords="offset points", fontsize=8, ha=side
            )
            box = text.get_window_extent(renderer)
            if not any(box.overlaps(other) for other in taken):
                break
            text.remove()
        else:
            raise SystemExit(f"there is no room for the name {name!r}")
        taken.append(box)


def table(page: str, first: str) -> list[dict[str, str]]:
    """Read the table of a results page whose first column has this heading."""
    lines = Path(f"docs/results/{page}.md").read_text().splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    cells = []
    for line in lines[begin:]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.split("|")[1:-1]])
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def number(cell: str) -> float:
    """Read the number that a cell begins with; NaN if there is none."""
    found = re.match(r"-?[\d,.]+", cell)
    return float(found[0].replace(",", "")) if found else np.nan


def environments() -> Figure:
    """Draw how far from random moves to the optimum agents come in other people's environments."""
    rows = [row for row in table("environments", "environment") if row["random"] and row["optimum"]]
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    axes = figure.subplots()
    low, high = (np.array([number(row[name]) for row in rows]) for name in ("random", "optimum"))
    places = np.arange(len(rows))[::-1]
    kinds = {"Q-learning": ("s", "#999999"), "`lc-psrl`": ("o", "#0072B2")}
    for name, (marker, colour) in kinds.items():
        share = (np.array([number(row[name]) for row in rows]) - low) / (high - low)
        axes.plot(share, places, marker, color=colour, label=name.strip("`"), zorder=3)
    axes.axvline(1.0, color="#777777", linestyle=":", linewidth=1)
    axes.set_yticks(places, [row["environment"] for row in rows])
    axes.set_xlabel("mean return: 0 is that of random moves, 1 the optimum")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def vectors() -> Figure:
    """Draw how many episodes or steps tasks with vectors take, beside the best published."""
    rows = table("vectors", "task")
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(rows))[::-1]
    ours, theirs = (np.array([number(row[name]) for row in rows]) for name in ("romdp", "rival"))
    axes.hlines(places, ours, theirs, color="#cccccc", zorder=1)
    axes.plot(ours, places, "o", color="#0072B2", label="romdp, told nothing")
    axes.plot(theirs, places, "s", color="#D55E00", label="MusIK (locks), STEEL (rings, mazes)")
    for place, mine, other in zip(places, ours, theirs, strict=True):
        middle = np.sqrt(mine * other)
        axes.annotate(f"{other / mine:,.0f} times", (middle, place + 0.12), ha="center", fontsize=8)
    axes.set_yticks(places, [row["task"] for row in rows])
    axes.set(xscale="log", xlabel="episodes (locks) or steps (rings, mazes) until solved")
    axes.margins(y=0.12)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, loc="upper right")
    return figure


FIGURES = {
    "growth": growth,
    "scales": scales,
    "tails": tails,
    "environments": environments,
    "vectors": vectors,
}


def main() -> None:
    """Draw the figures that are named into docs/results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", nargs="+", choices=FIGURES)
    for name in parser.parse_args().figures:
        FIGURES[name]().savefig(f"docs/results/{name}.png", dpi=150)


if __name__ == "__main__":
    main()
