"""The command ``reproduce``: the paper's figures, run like any other comparison."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from romdp.cli.experiments import make_executor, run_directory, warn_of_version
from romdp.cli.options import CheckpointsOption, DaskOption, QuietOption, WorkersOption

if TYPE_CHECKING:
    from romdp.experiments.directory import RunDirectory
    from romdp.experiments.reproductions import Reproduction
    from romdp.experiments.specification import Experiment

_INTERRUPTED = 130


def reproduce(
    figure: Annotated[
        str,
        typer.Argument(
            metavar="FIGURE",
            help="regret (the paper's fig:comparison) or random-mdps (fig:comparisonCar).",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="A new directory, or one that this command began, which is then continued.",
            show_default="reproduced/FIGURE or reproduced/FIGURE-quick",
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Use few seeds and steps, and sets that hold alone: two minutes."
        ),
    ] = False,
    workers: WorkersOption = 1,
    dask: DaskOption = None,
    checkpoint_seconds: CheckpointsOption = 30.0,
    quiet: QuietOption = False,
) -> None:
    """Run an experiment of the paper again, with tables, figures and a page."""
    from romdp.core.storage import check_output
    from romdp.core.validation import choice, real_number
    from romdp.experiments.reproductions import REPRODUCTIONS

    paper = REPRODUCTIONS[choice(figure, "figure", REPRODUCTIONS)]
    if out is not None:
        check_output(out, "directory")
    real_number(checkpoint_seconds, "checkpoint_seconds", 0)
    target = out or Path("reproduced", f"{figure}-quick" if quick else figure)
    again = f"romdp reproduce {figure}{' --quick' if quick else ''} --out {target}"
    parts = paper.experiments(quick)
    executor = make_executor(workers, dask)
    status = 0
    try:
        # All are begun before the first is run, so that each can be resumed alone.
        directories = [_begin(target / folder, part) for folder, part in parts.items()]
        typer.echo(_introduction(paper, directories))
        for directory in directories:
            try:
                run_directory(directory, executor, quiet, checkpoint_seconds)
            except typer.Exit as end:
                if end.exit_code == _INTERRUPTED:
                    typer.echo(f"romdp: or run it again with: {again}", err=True)
                    raise
                status = end.exit_code
            else:
                typer.echo(f"\n{_draw(paper, directory)}\n")
    finally:
        executor.close()
    if status:
        raise typer.Exit(status)


def _begin(path: Path, experiment: "Experiment") -> "RunDirectory":
    """Create a run directory, or open the one in which the same experiment was begun."""
    from romdp.experiments.directory import RunDirectory

    directory = RunDirectory.begin(path, experiment)
    warn_of_version(directory)
    return directory


def _introduction(paper: "Reproduction", directories: "list[RunDirectory]") -> str:
    lines = [f"The paper's {paper.label}: {paper.about}."]
    for directory in directories:
        one = directory.experiment
        lines.append(
            f"{directory.path}: {', '.join(one.agents)}; {one.steps:,} steps, {one.seeds} seeds, "
            f"each with its own worlds; {one.settings}"
        )
    if any(directory.experiment.settings.scale for directory in directories):
        lines.append("The paper does not say by which factor it multiplied its sets; it is ours.")
    return "\n".join([*lines, ""])


def _draw(paper: "Reproduction", directory: "RunDirectory") -> str:
    """Write figures and page, and say where they are."""
    from romdp.reports import write_figures, write_report

    path = directory.path
    figures = write_figures(path)
    page = write_report(path)
    shown = " and ".join(f"{name}.svg" for name in paper.figures)
    return (
        f"wrote {page}, a page to open in a browser\n"
        f"wrote {path / 'figures'}: {len(figures)} files; the paper's {paper.label} is {shown}"
    )
