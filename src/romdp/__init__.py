"""Learn the few hidden states behind many observations while acting, and act well because of it.

Everything public is reachable from here; a name is imported when it is first used, so that
``import romdp`` is quick.
"""

from typing import TYPE_CHECKING

from romdp.lazy import lazy

if TYPE_CHECKING:
    from romdp import worlds
    from romdp.counts import Counts
    from romdp.errors import ROMDPError
    from romdp.mdp import MDP
    from romdp.partition import Partition
    from romdp.romdp import ROMDP
    from romdp.trajectory import Trajectory
    from romdp.triples import Triples
    from romdp.worlds.simulator import Simulator, simulate

__version__ = "0.1.0"

__all__ = [
    "MDP",
    "ROMDP",
    "Counts",
    "Partition",
    "ROMDPError",
    "Simulator",
    "Trajectory",
    "Triples",
    "simulate",
    "worlds",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "MDP": "mdp",
        "ROMDP": "romdp",
        "Counts": "counts",
        "Partition": "partition",
        "ROMDPError": "errors",
        "Simulator": "worlds.simulator",
        "Trajectory": "trajectory",
        "Triples": "triples",
        "simulate": "worlds.simulator",
        "worlds": None,
    },
)
