"""Names of a package that are imported when they are first used."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


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
