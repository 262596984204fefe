"""Worlds by name or by file, for the command line and the Gymnasium registry."""

import os
from collections.abc import Callable
from typing import Any

from romdp.core.errors import InvalidInputError
from romdp.core.storage import read_kind
from romdp.core.validation import choice
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP
from romdp.worlds.named import combination_lock, grid, river_swim, symmetric_block
from romdp.worlds.random import deterministic_romdp, random_mdp, random_romdp

WORLDS: dict[str, Callable[..., ROMDP | MDP]] = {
    "random-romdp": random_romdp,
    "random-mdp": random_mdp,
    "deterministic-romdp": deterministic_romdp,
    "river-swim": river_swim,
    "combination-lock": combination_lock,
    "grid": grid,
    "symmetric-block": symmetric_block,
}


def make(name: str, **arguments: Any) -> ROMDP | MDP:
    """Make a world by its name.

    Examples
    --------
    >>> make("river-swim", n_states=4)
    ROMDP(n_states=4, n_actions=2, n_observations=4, reward_law='bernoulli')
    """
    maker = WORLDS[choice(name, "world", WORLDS)]
    try:
        return maker(**arguments)
    except TypeError as error:
        raise InvalidInputError(f"world {name!r}: {error}") from None


def load_world(path: str | os.PathLike[str]) -> ROMDP | MDP:
    """Read a world file, whichever of the two kinds it holds."""
    return MDP.load(path) if read_kind(path) == "mdp" else ROMDP.load(path)
