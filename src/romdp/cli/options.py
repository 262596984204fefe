"""How options are declared, and those that several commands share."""

import json
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from romdp.core.errors import InvalidInputError

RUNNING = "Where and how it runs"  # a panel of the help


def option(
    name: str,
    text: str,
    panel: str | None = None,
    metavar: str | None = None,
    default: str | bool = True,
    least: int | None = None,
) -> Any:
    """Make an option; ``default`` is what the help shows as its default."""
    return typer.Option(
        name, help=text, metavar=metavar, show_default=default, rich_help_panel=panel, min=least
    )


def read_settings(texts: Iterable[str]) -> dict[str, Any]:
    """Read what ``--set`` was given: name=value; a value that is not JSON is text."""
    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidInputError(f"--set {text}: write it as name=value, such as eta=2.0")
        try:
            settings[name.strip()] = json.loads(value)
        except (ValueError, RecursionError):
            settings[name.strip()] = value
    return settings


def read_memory(text: str) -> int | str:
    """Read what ``--memory`` was given: a whole number, or a word that others judge."""
    return int(text) if text.lstrip("-").isdecimal() else text


def examples(*commands: str) -> str:
    """Write examples for the end of a help text; each is a paragraph, else lines would join."""
    return "\n\n".join(("Examples:", *commands))


WorkersOption = Annotated[
    int, option("--workers", "How many processes of this machine to use.", RUNNING)
]
_DASK = "Run on the Dask cluster of this scheduler instead (needs romdp\\[dask])."
DaskOption = Annotated[str | None, option("--dask", _DASK, RUNNING, "ADDRESS")]
CheckpointsOption = Annotated[
    float,
    option(
        "--checkpoint-seconds", "How many seconds lie between two checkpoints of a run.", RUNNING
    ),
]
QuietOption = Annotated[bool, option("--quiet", "Show no progress.", RUNNING)]
