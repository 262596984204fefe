"""The paper's experiments, as data: what is run to draw its figures again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from romdp.experiments.agents import Settings
from romdp.experiments.specification import Experiment
from romdp.experiments.worlds import NamedWorld


class Effort(NamedTuple):
    """How long every run is, and how many worlds are drawn of each size."""

    steps: int
    seeds: int


FULL = Effort(1_000_000, 10)

PAPER_SETS = "paper-sets"
"""The folder of the experiment with the paper's sets."""

WITHOUT_SETS = ("dqn", "lc-psrl")
"""Agents that no confidence sets concern."""

SCALE = 0.1
"""The paper's sets are multiplied by this; at 1 nothing is learned within 10^6 steps."""


@dataclass(frozen=True)
class Reproduction:
    """One of the paper's figures, and what is run for it.

    Parameters
    ----------
    label
        The label of the figure in the paper.
    about
        What is compared, in a sentence.
    world, arguments
        Name and arguments of the worlds; replicate r is drawn with the seed r.
    observations
        The numbers of observations, one world for each.
    agents
        The agents. Where the sets are the paper's, UCRL2 plays instead of UCRL3.
    settings
        What the agents share. They say nothing about confidence sets: the main experiment uses
        sets that hold (`romdp.TimeUniform`), the other one the paper's times `SCALE`.
    quick
        The effort of the quick version. Agents that plan by epochs take most of their time over the
        first steps, so fewer worlds help them more than fewer steps; DQN learns at every step.
    figures
        Which of our figures show what the paper's does.
    """

    label: str
    about: str
    world: str
    arguments: Mapping[str, Any]
    observations: tuple[int, ...]
    agents: tuple[str, ...]
    settings: Settings
    quick: Effort
    figures: tuple[str, ...]

    def experiments(self, quick: bool = False) -> dict[str, Experiment]:
        """Return what is to be run, by the folder that holds it; ``""`` is the main one.

        Beside it, ``"paper-sets"`` has the paper's confidence sets, scaled, for the agents that
        have sets; the runs of the others would be the same.

        Parameters
        ----------
        quick
            A small version for a first look: the main experiment alone.

        Examples
        --------
        >>> parts = REPRODUCTIONS["regret"].experiments()
        >>> {folder: (one.steps, len(one.runs)) for folder, one in parts.items()}
        {'': (1000000, 210), 'paper-sets': (1000000, 150)}
        """
        if quick:
            return {"": self._experiment(self.quick, self.agents, self.settings)}
        optimists = (name for name in self.agents if name not in WITHOUT_SETS)
        agents = tuple("ucrl2" if name == "ucrl3" else name for name in optimists)
        settings = replace(self.settings, scale=SCALE)
        return {
            "": self._experiment(FULL, self.agents, self.settings),
            PAPER_SETS: self._experiment(FULL, agents, settings),
        }

    def _experiment(
        self, effort: Effort, agents: tuple[str, ...], settings: Settings
    ) -> Experiment:
        return Experiment(
            (NamedWorld(self.world, self.arguments),),
            agents,
            self.observations,
            steps=effort.steps,
            seeds=effort.seeds,
            settings=settings,
        )


REPRODUCTIONS: dict[str, Reproduction] = {
    "regret": Reproduction(
        label="fig:comparison",
        about="random ROMDPs with X = 5 hidden states, A = 4 actions and Y = 10, 20, 30 "
        "observations",
        world="random-romdp",
        arguments={"n_states": 5, "n_actions": 4},
        observations=(10, 20, 30),
        agents=(
            "sl-ucrl",
            "sl-ucrl-spectral",
            "sl-ucrl-paper",
            "ucrl3",
            "dqn",
            "lc-psrl",
            "oracle",
        ),
        settings=Settings(),
        quick=Effort(600_000, 2),
        figures=("regret",),
    ),
    "random-mdps": Reproduction(
        label="fig:comparisonCar",
        about="random MDPs with 10, 20, 30 states, A = 4 actions and nothing hidden; SL-UCRL "
        "groups with halved bounds, and its groups are not verified",
        world="random-mdp",
        arguments={"n_actions": 4},
        observations=(10, 20, 30),
        agents=("sl-ucrl", "sl-ucrl-paper", "ucrl3", "dqn", "lc-psrl"),
        settings=Settings(factor=0.5),
        quick=Effort(600_000, 2),
        figures=("regret", "groups"),
    ),
}
"""The reproductions by the names of the command."""
