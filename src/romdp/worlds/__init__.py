"""Random and named ROMDPs, the compiled simulator, Gymnasium environments and wrappers."""

from typing import TYPE_CHECKING

from romdp.lazy import lazy

if TYPE_CHECKING:
    from romdp.worlds.catalogue import WORLDS, load_world, make
    from romdp.worlds.environments import ROMDPEnv
    from romdp.worlds.named import combination_lock, grid, river_swim, symmetric_block
    from romdp.worlds.random import deterministic_romdp, random_mdp, random_romdp
    from romdp.worlds.simulator import Simulator, simulate
    from romdp.worlds.wrappers import RichObservation, VocabularyWrapper

__all__ = [
    "WORLDS",
    "ROMDPEnv",
    "RichObservation",
    "Simulator",
    "VocabularyWrapper",
    "combination_lock",
    "deterministic_romdp",
    "grid",
    "load_world",
    "make",
    "random_mdp",
    "random_romdp",
    "river_swim",
    "simulate",
    "symmetric_block",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "WORLDS": "catalogue",
        "load_world": "catalogue",
        "make": "catalogue",
        "ROMDPEnv": "environments",
        "combination_lock": "named",
        "grid": "named",
        "river_swim": "named",
        "symmetric_block": "named",
        "deterministic_romdp": "random",
        "random_mdp": "random",
        "random_romdp": "random",
        "Simulator": "simulator",
        "simulate": "simulator",
        "RichObservation": "wrappers",
        "VocabularyWrapper": "wrappers",
    },
)
