"""The worlds of an experiment, as data: by name and arguments, or by file and hash."""

import hashlib
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.text import plain
from romdp.core.validation import choice, shown
from romdp.encoding.observations import actions_for, encoder_for
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP
from romdp.worlds.named import WORLDS, load_world, make
from romdp.worlds.wrappers import make_environment

ENVIRONMENT_PREFIX = "gym:"
"""What the names of Gymnasium environments begin with."""

_STATES_ARE_OBSERVATIONS = ("random-mdp",)


def safe_name(text: str) -> str:
    """Replace the characters of a name that some file system does not accept.

    Examples
    --------
    >>> safe_name("my world/3")
    'my_world_3'
    """
    return re.sub(r"[^A-Za-z0-9._-]", "_", text)


@dataclass(frozen=True)
class NamedWorld:
    """A world that is drawn again for each replicate.

    Parameters
    ----------
    name
        Its name in the catalogue `romdp.worlds.WORLDS`.
    arguments
        All but the seed, which is the replicate's number, and the number of observations, which
        the experiment says; what is left out has its default.
    label
        What tables call it; the name by default.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    def __post_init__(self) -> None:
        choice(self.name, "world", WORLDS)
        parameters = self._parameters
        _check_arguments(self.name, self.arguments, parameters)
        # Defaults are written out: an experiment stays what it was when they change.
        full = {
            name: self.arguments.get(name, plain(parameter.default))
            for name, parameter in parameters.items()
        }
        object.__setattr__(self, "arguments", full)
        object.__setattr__(self, "label", safe_name(self.label or self.name))

    @property
    def _parameters(self) -> dict[str, inspect.Parameter]:
        """What may be given as an argument."""
        apart = {"seed", "n_observations"}
        if self.name in _STATES_ARE_OBSERVATIONS:
            apart.add("n_states")
        parameters = inspect.signature(WORLDS[self.name]).parameters
        return {name: value for name, value in parameters.items() if name not in apart}

    @property
    def takes_observations(self) -> bool:
        """Whether the number of observations can be chosen."""
        parameters = inspect.signature(WORLDS[self.name]).parameters
        return "n_observations" in parameters or self.name in _STATES_ARE_OBSERVATIONS

    def make(self, n_observations: int | None, replicate: int) -> ROMDP | MDP:
        """Make the world of a replicate; worlds without randomness are the same for all."""
        arguments = dict(self.arguments)
        if "seed" in inspect.signature(WORLDS[self.name]).parameters:
            arguments["seed"] = replicate
        if n_observations is not None:
            mdp = self.name in _STATES_ARE_OBSERVATIONS
            arguments["n_states" if mdp else "n_observations"] = n_observations
        return make(self.name, **arguments)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"name": self.name, "arguments": dict(self.arguments), "label": self.label}


@dataclass(frozen=True)
class FileWorld:
    """A world that was read from a file: the same one for every replicate.

    Parameters
    ----------
    file
        Where it was read; only its hash tells which world it is.
    sha256
        The hash of the file's content.
    label
        What tables call it; the file's name by default.
    world
        What was read.
    """

    file: str = field(compare=False)
    sha256: str
    label: str
    world: ROMDP | MDP = field(compare=False, repr=False)

    takes_observations = False

    @classmethod
    def read(cls, path: str | Path, label: str = "", sha256: str | None = None) -> "FileWorld":
        """Read a world file; with ``sha256``, only if its content has that hash."""
        try:
            found = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror or error}") from error
        if sha256 is not None and found != sha256:
            raise StorageError(f"{path} is not the world of this experiment: it was changed")
        return cls(str(path), found, safe_name(label or Path(path).stem), load_world(path))

    def make(self, n_observations: int | None, replicate: int) -> ROMDP | MDP:
        """Return the world."""
        return self.world

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"file": self.file, "sha256": self.sha256, "label": self.label}


@dataclass(frozen=True)
class EnvironmentWorld:
    """A registered Gymnasium environment.

    Nothing is known about it exactly, so its runs have returns and no regret. They have no
    checkpoints either: a run that was interrupted begins again.

    Parameters
    ----------
    name
        ``gym:`` and the name of the environment, such as ``"gym:Taxi-v4"``.
    arguments
        ``views``: show each observation as one of so many. ``reward_range``: the smallest and the
        largest reward, which some agents need unless the environment itself says that rewards
        lie in [0, 1].
    label
        What tables call it; the name by default.
    """

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""

    takes_observations = False

    def __post_init__(self) -> None:
        _check_arguments(self.name, self.arguments, ("views", "reward_range"))
        object.__setattr__(self, "label", safe_name(self.label or self.name))

    @property
    def reward_range(self) -> Any:
        """The smallest and the largest reward, if given."""
        return self.arguments.get("reward_range")

    @property
    def pays_known_rewards(self) -> bool:
        """Whether a range of rewards is given, or the environment itself says one within [0, 1]."""
        if self.reward_range is not None:
            return True
        env = self.make(None, 0)
        declared = getattr(env.unwrapped, "reward_range", None)
        env.close()
        if not isinstance(declared, tuple | list) or len(declared) != 2:
            return False
        return bool(declared[0] >= 0 and declared[1] <= 1)

    def make(self, n_observations: int | None, replicate: int) -> Any:
        """Make the environment; the replicate decides the views."""
        name = self.name.removeprefix(ENVIRONMENT_PREFIX)
        return make_environment(name, self.arguments.get("views"), replicate)

    def size(self) -> int:
        """Return the number of observations; what no agent could play is refused."""
        env = self.make(None, 0)
        actions_for(env.action_space)
        size = encoder_for(env.observation_space).size
        env.close()
        return size

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return {"name": self.name, "arguments": dict(self.arguments), "label": self.label}


def _check_arguments(name: str, arguments: Any, known: Iterable[str]) -> None:
    if not isinstance(arguments, Mapping):
        raise InvalidInputError(
            f"arguments of world {name!r} are {arguments!r}; pass a table of them"
        )
    for argument in arguments:
        choice(argument, f"argument of world {name!r}", known)


WorldSpec = NamedWorld | FileWorld | EnvironmentWorld


def world_from(content: Any, directory: Path | None = None) -> WorldSpec:
    """Read what ``to_dict`` gave; files are looked for in a run directory, if one is given.

    A plain string is the name of a world or the path of a file.
    """
    if isinstance(content, str):
        is_file = content not in WORLDS and (content.endswith(".npz") or Path(content).is_file())
        content = {"file": content} if is_file else {"name": content}
    if not isinstance(content, Mapping) or ("file" in content) == ("name" in content):
        raise InvalidInputError(
            f"world is {content!r}; give it a name (such as 'random-romdp') or a file"
        )
    keys = ("file", "sha256", "label") if "file" in content else ("name", "arguments", "label")
    for key in content:
        choice(key, "entry of a world", keys)
    label = _text(content.get("label", ""), "label of a world")
    if "name" in content:
        name = _text(content["name"], "name of a world")
        kind = EnvironmentWorld if name.startswith(ENVIRONMENT_PREFIX) else NamedWorld
        return kind(name, content.get("arguments", {}), label)
    path, sha256 = Path(_text(content["file"], "file of a world")), content.get("sha256")
    if directory is None:
        return FileWorld.read(path, label, sha256)
    kept = FileWorld.read(directory / kept_file(str(sha256)), label, sha256)
    return FileWorld(str(path), kept.sha256, kept.label, kept.world)


def kept_file(sha256: str) -> str:
    """Say where a run directory keeps its copy of a world file."""
    return f"worlds/{safe_name(sha256[:16])}.npz"


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str):
        raise InvalidInputError(f"{name} is {shown(value)}; pass text")
    return value
