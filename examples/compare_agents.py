"""Compare agents in worlds that show more and more observations of the same five hidden states.

Run ``python examples/compare_agents.py [FOLDER]``. It prints each agent's mean regret and draws
FOLDER/regret.png: regret against the square root of the step. UCRL3 takes every observation for a
state, so its regret grows with their number. LC-PSRL finds the hidden states early. SL-UCRL is in
between: it pays until it has found them. Needs ``romdp[plot]``.
"""

import sys
from pathlib import Path

from romdp.experiments import Experiment, RunDirectory, Settings, run_experiment, summarise
from romdp.reports import read_results, regret_figure, save_figure

EXPERIMENT = Experiment(
    worlds=("random-romdp",),
    agents=("lc-psrl", "sl-ucrl", "ucrl3", "oracle"),
    observations=(10, 20, 30),
    steps=30_000,
    seeds=3,
    settings=Settings(delta=0.05),  # of the confidence sets of all optimistic agents
)


def main(folder: Path) -> None:
    """Run what is missing in the folder, then print and draw everything."""
    known = (folder / "experiment.json").exists()  # begun earlier: go on with it
    directory = RunDirectory.open(folder) if known else RunDirectory.create(folder, EXPERIMENT)
    failed = run_experiment(directory)
    if failed:
        raise SystemExit(f"{len(failed)} runs failed; their errors are in {folder}")

    print("mean regret after 30,000 steps")
    for cell in summarise(directory)["cells"]:
        means = {agent["agent"]: agent["regret"]["mean"] for agent in cell["agents"]}
        figures = ", ".join(f"{name} {mean:,.0f}" for name, mean in means.items())
        print(f"  {cell['n_observations']:>4} observations: {figures}")

    figure = regret_figure(read_results(folder), share_y=True)
    for path in save_figure(figure, folder / "regret", ("png",)):
        print(f"wrote {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "compared"))
