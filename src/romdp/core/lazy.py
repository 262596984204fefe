"""Names that are imported when they are first used."""

import ast
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_SHORT = {"romdp.baselines": "romdp.playing.baselines"}
"""Modules that are public under a shorter name than that of their file."""


def lazy(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Make ``__getattr__``, ``__dir__`` and ``__all__`` for a package.

    The public names are those that the package imports under ``if TYPE_CHECKING:``, so that each
    is written once, and type checkers read the very same lines.

    Parameters
    ----------
    package, file
        Its ``__name__`` and ``__file__``.
    """
    homes = _read_homes(file)
    names = sorted(homes)

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        if home == package:
            value = import_module(f"{package}.{name}")
        else:
            value = getattr(__import__(home, fromlist=[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return get, lambda: names, names


def _read_homes(file: str) -> dict[str, str]:
    """Return the module that each name comes from: ``from home import name as name``."""
    source = ast.parse(Path(file).read_text(encoding="utf-8"))
    blocks = [
        node.body
        for node in source.body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    return {
        alias.name: str(node.module)
        for block in blocks
        for node in block
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def find_modules_here(name: str) -> None:
    """Let Python look for the module of a name such as ``module:thing`` in the current folder.

    The folder comes last, so that no file in it hides a package that is installed.
    """
    if ":" in name and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


class _ShortNames(MetaPathFinder, Loader):
    """Finds ``romdp.baselines`` where its file is: it is the very same module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return where the module is."""
        return ModuleSpec(fullname, self) if fullname in _SHORT else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module that is meant."""
        module = import_module(_SHORT[spec.name])
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Do not run it again, and let it keep the specification it was run with."""
        module.__spec__ = self.own


def find_short_names() -> None:
    """Let the import system find modules by their short names; call it once."""
    if not any(isinstance(finder, _ShortNames) for finder in sys.meta_path):
        sys.meta_path.append(_ShortNames())
