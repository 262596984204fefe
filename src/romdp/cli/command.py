"""The commands of ``romdp``, put together."""

import logging
from collections.abc import Sequence
from typing import Annotated

import typer

from romdp import __version__
from romdp.cli import experiments, logs, reproduce, worlds
from romdp.cli.options import examples
from romdp.cli.play import play
from romdp.core.errors import InvalidInputError

app = typer.Typer(
    name="romdp",
    help="Learn the few hidden states behind many observations while acting.",
    epilog=examples(
        "romdp compare --observations 10,30 --steps 1e5 --agents lc-psrl,ucrl3,oracle --out runs",
        "romdp play Taxi-v4 --views 10 --steps 70000 --out taxi",
        "romdp fit log.parquet --observation page --action offer --reward paid --out model",
        "Each command has examples of its own: romdp fit --help",
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(
    epilog=examples(
        "romdp compare --observations 10,20,30 --steps 1e6 --seeds 10 --workers 2 --out runs",
        "romdp compare --agents lc-psrl,oracle-psrl --states 10 --observations 300 --out many",
        "romdp compare --world gym:FrozenLake-v1 --agents lc-psrl,q-learning --out lake",
        "romdp compare --agents sl-ucrl,ucrl2,oracle --observations 10 --scale 0.1 --out paper",
    )
)(experiments.compare)
app.command(epilog=examples("romdp resume runs --workers 2"))(experiments.resume)
app.command(epilog=examples("romdp report runs", "romdp report model --out page.html"))(
    experiments.report
)
app.command(
    epilog=examples(
        "romdp reproduce regret --quick --out quick",
        "romdp reproduce regret --workers 2 --out regret",
    )
)(reproduce.reproduce)
app.command(
    epilog=examples(
        "romdp play CliffWalking-v1 --steps 10000 --out cliff",
        "romdp play Taxi-v4 --views 10 --steps 70000 --out taxi",
        "romdp play minigrid:MiniGrid-Empty-8x8-v0 --steps 20000 --out grid",
    )
)(play)
app.command(
    "fit",
    epilog=examples(
        "romdp fit log.parquet --observation page --action offer --reward paid --out model",
        "romdp fit 'logs/*.csv' --observation page --action offer --reward paid --episode visit",
        "romdp fit sensors.parquet --observation x,y,z --action valve --reward yield --out plant",
        "romdp fit visits.parquet --observation page --out sequences",
        "romdp fit --counts counts.parquet --out model",
    ),
)(logs.fit_command)
app.command("apply", epilog=examples("romdp apply model new.parquet --out placed.parquet"))(
    logs.apply_command
)
app.command(
    "evaluate",
    epilog=examples(
        "romdp evaluate model new.parquet", "romdp evaluate model new.csv --propensity p"
    ),
)(logs.evaluate_command)
app.add_typer(
    worlds.generate,
    name="generate",
    epilog=examples(
        "romdp generate random-romdp --observations 30 --seed 0 --out world.npz",
        "romdp generate river-swim --observations 60 --out river.npz",
    ),
)
app.command(epilog=examples("romdp inspect world.npz", "romdp inspect --brief world.npz"))(
    worlds.inspect
)


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
