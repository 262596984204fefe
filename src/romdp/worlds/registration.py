"""The worlds in Gymnasium's registry; nothing heavy is imported before one is made."""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

ENVIRONMENTS = {
    "romdp/RandomROMDP-v0": "random-romdp",
    "romdp/RandomMDP-v0": "random-mdp",
    "romdp/DeterministicROMDP-v0": "deterministic-romdp",
    "romdp/RiverSwim-v0": "river-swim",
    "romdp/CombinationLock-v0": "combination-lock",
    "romdp/Grid-v0": "grid",
    "romdp/SymmetricBlock-v0": "symmetric-block",
    "romdp/Twins-v0": "twins",
}
"""The world behind each Gymnasium id, by its name in `romdp.worlds.make`."""

VECTOR_ENVIRONMENTS = {
    "romdp/GaussianLock-v0": "romdp.worlds.locks:GaussianLock",
    "romdp/CoinLock-v0": "romdp.worlds.locks:CoinLock",
    "romdp/DistractedRing-v0": "romdp.worlds.distracted:DistractedRing",
    "romdp/DistractedMazes-v0": "romdp.worlds.distracted:DistractedMazes",
}
"""The class behind each Gymnasium id of a world that shows vectors."""


def register_environments() -> None:
    """Register every world with Gymnasium; a second call changes nothing.

    Arguments of ``gymnasium.make`` go to the world's constructor, ``world_seed`` as its
    ``seed``; see `romdp.worlds.environments.ROMDPEnv`. Those of the worlds that show vectors go
    to their classes, such as `romdp.worlds.GaussianLock`.

    Examples
    --------
    >>> import gymnasium
    >>> register_environments()
    >>> env = gymnasium.make("romdp/RandomROMDP-v0", n_observations=12, world_seed=3)
    >>> env.observation_space
    Discrete(12)
    """
    from gymnasium.envs.registration import register, registry

    entries = {
        identifier: ("romdp.worlds.environments:ROMDPEnv", {"world": world})
        for identifier, world in ENVIRONMENTS.items()
    }
    entries |= {identifier: (entry, {}) for identifier, entry in VECTOR_ENVIRONMENTS.items()}
    for identifier, (entry, arguments) in entries.items():
        if identifier not in registry:  # Gymnasium warns of a second registration
            register(identifier, entry_point=entry, kwargs=arguments)


def await_gymnasium() -> None:
    """Register every world as soon as Gymnasium is imported, which takes longer than romdp."""
    if "gymnasium" in sys.modules:
        register_environments()
    else:
        sys.meta_path.insert(0, _Awaiting())


class _Awaiting(MetaPathFinder):
    """Hears once that Gymnasium is imported."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_register(module: ModuleType) -> None:
            load(module)
            register_environments()

        spec.loader.exec_module = load_and_register  # type: ignore[method-assign]
        return spec
