"""Learn the few hidden states behind many observations while acting, and act well because of it.

Everything public is reachable from here; a name is imported when it is first used, so that
``import romdp`` is quick.
"""

from typing import TYPE_CHECKING

from romdp.lazy import lazy
from romdp.worlds.registration import register_environments

if TYPE_CHECKING:
    from romdp import worlds
    from romdp.agents.agent import Agent
    from romdp.agents.planners import Optimism, Posterior
    from romdp.agents.recipes import PSRL, UCRL2, Oracle
    from romdp.agents.stopping import Doubling
    from romdp.clustering.simple import Chain, Known, Singletons, Spaced
    from romdp.confidence import Bernstein, Hoeffding
    from romdp.counts import Counts
    from romdp.errors import ROMDPError
    from romdp.mdp import MDP
    from romdp.partition import Partition
    from romdp.playing import Online, Run, epochs, play
    from romdp.romdp import ROMDP
    from romdp.trajectory import Trajectory
    from romdp.triples import Triples
    from romdp.vocabulary import Vocabulary
    from romdp.worlds.simulator import Simulator, simulate

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "PSRL",
    "ROMDP",
    "UCRL2",
    "Agent",
    "Bernstein",
    "Chain",
    "Counts",
    "Doubling",
    "Hoeffding",
    "Known",
    "Online",
    "Optimism",
    "Oracle",
    "Partition",
    "Posterior",
    "ROMDPError",
    "Run",
    "Simulator",
    "Singletons",
    "Spaced",
    "Trajectory",
    "Triples",
    "Vocabulary",
    "epochs",
    "play",
    "simulate",
    "worlds",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "MDP": "mdp",
        "PSRL": "agents.recipes",
        "ROMDP": "romdp",
        "UCRL2": "agents.recipes",
        "Agent": "agents.agent",
        "Bernstein": "confidence",
        "Chain": "clustering.simple",
        "Counts": "counts",
        "Doubling": "agents.stopping",
        "Hoeffding": "confidence",
        "Known": "clustering.simple",
        "Online": "playing",
        "Optimism": "agents.planners",
        "Oracle": "agents.recipes",
        "Partition": "partition",
        "Posterior": "agents.planners",
        "ROMDPError": "errors",
        "Run": "playing",
        "Simulator": "worlds.simulator",
        "Singletons": "clustering.simple",
        "Spaced": "clustering.simple",
        "Trajectory": "trajectory",
        "Triples": "triples",
        "Vocabulary": "vocabulary",
        "epochs": "playing",
        "play": "playing",
        "simulate": "worlds.simulator",
        "worlds": None,
    },
)

register_environments()
