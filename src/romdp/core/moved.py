"""Modules of version 0.1 that have moved: their old names work for one more version."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from warnings import warn

MOVED = {
    "assumptions": "exact.assumptions",
    "chains": "exact.chains",
    "checks": "playing.checks",
    "compiled": "core.compiled",
    "confidence": "planning.confidence",
    "counts": "data.counts",
    "description": "core.description",
    "errors": "core.errors",
    "executors": "experiments.executors",
    "hitting": "exact.hitting",
    "mdp": "exact.mdp",
    "model": "logs.model",
    "partition": "data.partition",
    "randomness": "core.randomness",
    "recorder": "data.recorder",
    "romdp": "exact.romdp",
    "solvers": "exact.solvers",
    "storage": "core.storage",
    "trajectory": "data.trajectory",
    "triples": "data.triples",
    "validation": "core.validation",
    "vocabulary": "data.vocabulary",
}
"""Old name to new name, both below ``romdp``."""

SHORT = {"baselines": "playing.baselines"}
"""Names that stay public although the files lie elsewhere."""


class _Found(Loader):
    """Loads a module under another name: it is the very same object."""

    def __init__(self, target: str) -> None:
        self.target = target

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module that is meant."""
        module = import_module(self.target)
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do not run it again, and let it keep the specification it was run with."""
        module.__spec__ = self.own


class MovedModules(MetaPathFinder):
    """Finds ``romdp.confidence`` where it is now, with a warning that says so."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where a module is found that stood directly in ``romdp``."""
        package, _, name = fullname.rpartition(".")
        if package != "romdp":
            return None
        if name in SHORT:
            return ModuleSpec(fullname, _Found(f"romdp.{SHORT[name]}"))
        if name in MOVED:
            new = f"romdp.{MOVED[name]}"
            text = f"{fullname} is now {new}; the old name goes in version 0.3"
            warn(text, DeprecationWarning, stacklevel=2)
            return ModuleSpec(fullname, _Found(new))
        return None


def find_moved_modules() -> None:
    """Let the import system find what has moved; call it once."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(MovedModules())
