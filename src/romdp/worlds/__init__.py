"""Random and named ROMDPs, the compiled simulator, Gymnasium environments and wrappers."""

from typing import TYPE_CHECKING

from romdp.core.lazy import lazy

if TYPE_CHECKING:
    from romdp.worlds.distracted import DistractedMazes as DistractedMazes
    from romdp.worlds.distracted import DistractedRing as DistractedRing
    from romdp.worlds.distracted import Distraction as Distraction
    from romdp.worlds.environments import ROMDPEnv as ROMDPEnv
    from romdp.worlds.locks import CoinLock as CoinLock
    from romdp.worlds.locks import GaussianLock as GaussianLock
    from romdp.worlds.named import WORLDS as WORLDS
    from romdp.worlds.named import combination_lock as combination_lock
    from romdp.worlds.named import deterministic_romdp as deterministic_romdp
    from romdp.worlds.named import grid as grid
    from romdp.worlds.named import load_world as load_world
    from romdp.worlds.named import make as make
    from romdp.worlds.named import random_mdp as random_mdp
    from romdp.worlds.named import random_romdp as random_romdp
    from romdp.worlds.named import river_swim as river_swim
    from romdp.worlds.named import symmetric_block as symmetric_block
    from romdp.worlds.named import twins as twins
    from romdp.worlds.simulator import Simulator as Simulator
    from romdp.worlds.simulator import simulate as simulate
    from romdp.worlds.wrappers import ActionMask as ActionMask
    from romdp.worlds.wrappers import HiddenState as HiddenState
    from romdp.worlds.wrappers import RichObservation as RichObservation
    from romdp.worlds.wrappers import VectorObservation as VectorObservation
    from romdp.worlds.wrappers import VocabularyWrapper as VocabularyWrapper

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
