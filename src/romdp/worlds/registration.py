"""The worlds in Gymnasium's registry; nothing heavy is imported before one is made."""

from gymnasium.envs.registration import register, registry

ENVIRONMENTS = {
    "romdp/RandomROMDP-v0": "random-romdp",
    "romdp/RandomMDP-v0": "random-mdp",
    "romdp/DeterministicROMDP-v0": "deterministic-romdp",
    "romdp/RiverSwim-v0": "river-swim",
    "romdp/CombinationLock-v0": "combination-lock",
    "romdp/Grid-v0": "grid",
    "romdp/SymmetricBlock-v0": "symmetric-block",
}
"""The world behind each Gymnasium id, by its name in `romdp.worlds.make`."""


def register_environments() -> None:
    """Register every world with Gymnasium; a second call changes nothing.

    Arguments of ``gymnasium.make`` go to the world's constructor, ``world_seed`` as its
    ``seed``; see `romdp.worlds.environments.ROMDPEnv`.

    Examples
    --------
    >>> import gymnasium
    >>> register_environments()
    >>> env = gymnasium.make("romdp/RandomROMDP-v0", n_observations=12, world_seed=3)
    >>> env.observation_space
    Discrete(12)
    """
    for identifier, world in ENVIRONMENTS.items():
        if identifier not in registry:  # Gymnasium warns of a second registration
            register(
                identifier,
                entry_point="romdp.worlds.environments:ROMDPEnv",
                kwargs={"world": world},
            )
