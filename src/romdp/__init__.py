"""Learn the few hidden states behind many observations while acting, and act well because of it.

Everything public is reachable from here; a name is imported when it is first used, so that
``import romdp`` is quick.
"""

from typing import TYPE_CHECKING

from romdp.lazy import lazy
from romdp.worlds.registration import register_environments

if TYPE_CHECKING:
    from romdp import baselines, experiments, reports, theory, worlds
    from romdp.agents.agent import Agent
    from romdp.agents.planners import Optimism, Posterior
    from romdp.agents.recipes import LCPSRL, LCUCRL, PSRL, SLUCRL, UCRL2, Oracle, TwoPhase
    from romdp.agents.stopping import Doubling
    from romdp.checks import check_agent
    from romdp.clustering.evidence import Evidence
    from romdp.clustering.exploring import UntilSure
    from romdp.clustering.likelihood import Likelihood
    from romdp.clustering.offline import cluster
    from romdp.clustering.overlap import Overlap
    from romdp.clustering.simple import Chain, Known, Singletons, Spaced
    from romdp.clustering.spectral import Spectral
    from romdp.confidence import Bernstein, Hoeffding
    from romdp.counts import Counts
    from romdp.errors import ROMDPError
    from romdp.logs import HiddenStates, apply_model, fit
    from romdp.mdp import MDP
    from romdp.model import LatentModel, load_model
    from romdp.partition import Partition
    from romdp.playing import Online, Run, epochs, play
    from romdp.romdp import ROMDP
    from romdp.trajectory import Trajectory
    from romdp.triples import Triples
    from romdp.vocabulary import Vocabulary
    from romdp.worlds.simulator import Simulator, simulate

__version__ = "0.1.0"

__all__ = [
    "LCPSRL",
    "LCUCRL",
    "MDP",
    "PSRL",
    "ROMDP",
    "SLUCRL",
    "UCRL2",
    "Agent",
    "Bernstein",
    "Chain",
    "Counts",
    "Doubling",
    "Evidence",
    "HiddenStates",
    "Hoeffding",
    "Known",
    "LatentModel",
    "Likelihood",
    "Online",
    "Optimism",
    "Oracle",
    "Overlap",
    "Partition",
    "Posterior",
    "ROMDPError",
    "Run",
    "Simulator",
    "Singletons",
    "Spaced",
    "Spectral",
    "Trajectory",
    "Triples",
    "TwoPhase",
    "UntilSure",
    "Vocabulary",
    "apply_model",
    "baselines",
    "check_agent",
    "cluster",
    "epochs",
    "experiments",
    "fit",
    "load_model",
    "play",
    "reports",
    "simulate",
    "theory",
    "worlds",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "LCPSRL": "agents.recipes",
        "LCUCRL": "agents.recipes",
        "MDP": "mdp",
        "PSRL": "agents.recipes",
        "ROMDP": "romdp",
        "SLUCRL": "agents.recipes",
        "UCRL2": "agents.recipes",
        "Agent": "agents.agent",
        "Bernstein": "confidence",
        "Chain": "clustering.simple",
        "Counts": "counts",
        "Doubling": "agents.stopping",
        "Evidence": "clustering.evidence",
        "Hoeffding": "confidence",
        "Known": "clustering.simple",
        "Likelihood": "clustering.likelihood",
        "Online": "playing",
        "Optimism": "agents.planners",
        "Oracle": "agents.recipes",
        "Overlap": "clustering.overlap",
        "Partition": "partition",
        "Posterior": "agents.planners",
        "ROMDPError": "errors",
        "Run": "playing",
        "Simulator": "worlds.simulator",
        "Singletons": "clustering.simple",
        "Spaced": "clustering.simple",
        "Spectral": "clustering.spectral",
        "Trajectory": "trajectory",
        "Triples": "triples",
        "TwoPhase": "agents.recipes",
        "UntilSure": "clustering.exploring",
        "Vocabulary": "vocabulary",
        "check_agent": "checks",
        "cluster": "clustering.offline",
        "epochs": "playing",
        "play": "playing",
        "simulate": "worlds.simulator",
        "theory": None,
        "apply_model": "logs",
        "fit": "logs",
        "HiddenStates": "logs",
        "LatentModel": "model",
        "load_model": "model",
        "baselines": None,
        "reports": None,
        "experiments": None,
        "worlds": None,
    },
)

register_environments()
