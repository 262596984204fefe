"""Draw how regret depends on the scale of the widths, from the rows of `sl_ucrl.py scales`.

python benchmarks/scale_figure.py [--rows FILE] [--out docs/results/scales]
"""

import argparse
from pathlib import Path

import numpy as np
from grid import interval, read
from matplotlib.figure import Figure

COLOURS = {
    "ucrl2": "#D55E00",
    "overlap alone": "#E69F00",
    "sl-ucrl": "#0072B2",
    "oracle": "#000000",
}
MARKERS = {"ucrl2": "s", "overlap alone": "^", "sl-ucrl": "o", "oracle": "D"}


def main() -> None:
    """Draw one panel for each number of observations."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=Path, default=Path("benchmarks/out/sl-ucrl-scales.jsonl"))
    parser.add_argument("--out", default="docs/results/scales")
    arguments = parser.parse_args()
    rows = list(read(arguments.rows))
    sizes = sorted({row["observations"] for row in rows})
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(sizes), sharey=True))
    for axes, size in zip(panels, sizes, strict=True):
        for agent, colour in COLOURS.items():
            mine = [r for r in rows if r["agent"] == agent and r["observations"] == size]
            scales = sorted({r["scale"] for r in mine})
            means = np.array(
                [interval([r["pseudo_regret"] for r in mine if r["scale"] == s]) for s in scales]
            )
            axes.errorbar(
                scales,
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
    for ending in ("png", "svg"):
        figure.savefig(f"{arguments.out}.{ending}", dpi=150)


if __name__ == "__main__":
    main()
