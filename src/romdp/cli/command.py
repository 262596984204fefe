"""The commands of ``romdp``, put together."""

import logging
from collections.abc import Sequence
from typing import Annotated

import typer

from romdp import __version__
from romdp.cli import experiments, logs, reproduce, worlds
from romdp.cli.play import play
from romdp.core.errors import InvalidInputError

app = typer.Typer(
    name="romdp",
    help="Learn the few hidden states behind many observations while acting.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(experiments.compare)
app.command()(experiments.resume)
app.command()(experiments.report)
app.command()(reproduce.reproduce)
app.command()(play)
app.command("fit")(logs.fit_command)
app.command("apply")(logs.apply_command)
app.command("evaluate")(logs.evaluate_command)
app.add_typer(worlds.generate, name="generate")
app.command()(worlds.inspect)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    if version:
        typer.echo(f"romdp {__version__}")
        raise typer.Exit


def announce_compilation() -> None:
    """Print a line when kernels are compiled for the first time, which takes a while."""
    compilations = logging.getLogger("romdp.compilation")
    compilations.setLevel(logging.INFO)
    compilations.addHandler(_CompilationNotice())


class _CompilationNotice(logging.Handler):
    """Says once that kernels are being compiled; it learns this without importing numba."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger(record.name).removeHandler(self)
        typer.echo("romdp: compiling, once for this machine ...", err=True)


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuse names that no table, JSON file or page could hold."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            raise InvalidInputError(
                f"{argument!r} is not valid UTF-8; rename the file or directory"
            ) from None
