"""Draw regret against the number of observations, from the rows of `likelihood_agents.py`.

python benchmarks/likelihood_figure.py [--rows FILE ...] [--out docs/results/likelihood]
"""

import argparse
from pathlib import Path

from grid import interval, ratio_interval, read
from matplotlib.figure import Figure

LOOKS = {  # colour, marker and line of each agent
    "ucrl2": ("#D55E00", "s", "-"),
    "sl-ucrl": ("#0072B2", "o", "-"),
    "psrl": ("#E69F00", "^", "-"),
    "lc-ucrl": ("#CC79A7", "v", "-"),
    "oracle": ("#000000", "D", "--"),
    "lc-psrl": ("#009E73", "P", "-"),
    "oracle-psrl": ("#666666", "X", "--"),
}
TOLD = {"lc-ucrl": "oracle", "lc-psrl": "oracle-psrl"}


def main() -> None:
    """Draw the regret of all agents, and of ours relative to who is told the states."""
    parser = argparse.ArgumentParser(description=__doc__)
    rows_of = [Path(f"benchmarks/out/likelihood-{part}.jsonl") for part in ("main", "psrl")]
    parser.add_argument("--rows", type=Path, nargs="*", default=rows_of)
    parser.add_argument("--out", default="docs/results/likelihood")
    arguments = parser.parse_args()
    rows = [row for path in arguments.rows if path.exists() for row in read(path)]
    rows = [row for row in rows if row["steps"] == 10**6]
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    values = {}
    for row in rows:
        values.setdefault((row["agent"], row["observations"]), {})[row["seed"]] = row["gap_regret"]
    for agent, (colour, marker, line) in LOOKS.items():
        sizes = sorted(size for name, size in values if name == agent)
        means = [interval(list(values[agent, size].values())) for size in sizes]
        if not sizes:
            continue
        middle, low, high = zip(*means, strict=True)
        left.loglog(sizes, middle, line, color=colour, marker=marker, label=agent)
        left.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
        if agent in TOLD:
            pairs = []
            for size in sizes:
                mine, other = values[agent, size], values[TOLD[agent], size]
                seeds = sorted(mine.keys() & other.keys())
                pairs.append(ratio_interval([mine[s] for s in seeds], [other[s] for s in seeds]))
            middle, low, high = zip(*pairs, strict=True)
            label = f"{agent} / {TOLD[agent]}"
            right.semilogx(sizes, middle, line, color=colour, marker=marker, label=label)
            right.fill_between(sizes, low, high, color=colour, alpha=0.15, linewidth=0)
    right.axhline(1.0, color="#000000", linestyle="--", linewidth=1)
    right.set_ylim(0, None)
    left.set_ylabel("regret after a million steps (sum of gaps)")
    right.set_ylabel("relative to who is told the states")
    for axes in (left, right):
        axes.set_xlabel("observations Y of 5 hidden states")
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=8)
    for suffix in ("png", "svg"):
        figure.savefig(f"{arguments.out}.{suffix}", dpi=150)


if __name__ == "__main__":
    main()
