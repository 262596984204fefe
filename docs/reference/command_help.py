"""A Sphinx extension: the page of the ``romdp`` command, written by the command at every build."""

from __future__ import annotations

from typing import Any

import click
from typer.main import get_command

from romdp.cli import app

PAGE = "reference/commands"
_WIDTH = 88
_INTRODUCTION = """\
The command
===========

``python -m romdp`` is the same command. What follows is what each prints with ``--help``.

Exit status: 0 done; 1 some runs failed, or an I/O error, and what was finished is kept; 2 refused
before starting, with one message on stderr and nothing written; 130 interrupted.
"""


def page() -> str:
    """Return the page: a section for each command, with its help."""
    return _INTRODUCTION + "".join(_section(name, text) for name, text in helps())


def helps() -> list[tuple[str, str]]:
    """Return the name of every command, the main one first, and its help as plain text."""
    return _walk("romdp", get_command(app), None)


def _walk(name: str, command: Any, parent: Any) -> list[tuple[str, str]]:
    # Typer draws boxes for a terminal; without markup it leaves the writing to click.
    command.rich_markup_mode = None
    last = name.rpartition(" ")[2]
    context = command.make_context(last, [], parent, resilient_parsing=True)
    found = [(name, _plain(command, context))]
    if hasattr(command, "list_commands"):
        for inner in command.list_commands(context):
            found += _walk(f"{name} {inner}", command.get_command(context, inner), context)
    return found


def _plain(command: Any, context: Any) -> str:
    formatter = click.HelpFormatter(width=_WIDTH)
    command.format_help(context, formatter)
    return formatter.getvalue().rstrip().replace("\\[", "[")  # a bracket that rich would read


def _section(name: str, text: str) -> str:
    body = "\n".join(f"   {line}".rstrip() for line in text.splitlines())
    return f"\n{name}\n{'-' * len(name)}\n\n.. code-block:: text\n\n{body}\n"


def write_page(app: Any, name: str, source: list[str]) -> None:
    """Put the help in place of the stub."""
    if name == PAGE:
        source[0] = page()


def setup(app: Any) -> dict[str, bool]:
    """Write the page whenever Sphinx reads it, which is at every build."""
    app.connect("env-get-outdated", lambda *_: [PAGE])
    app.connect("source-read", write_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
