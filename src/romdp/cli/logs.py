"""The commands ``fit``, ``apply`` and ``evaluate``: hidden states behind logged decisions."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from romdp.cli.options import RUNNING, QuietOption, option, read_memory
from romdp.core.errors import InvalidInputError, ROMDPError

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_FILES = typer.Argument(
    metavar="FILE...",
    help="Parquet, CSV, Arrow, JSON-lines or XES files, folders of such files, or globs.",
    show_default=False,
)
_Files = Annotated[list[str], _FILES]
_MaybeFiles = Annotated[list[str] | None, _FILES]
_Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A directory that `romdp fit` wrote.", show_default=False),
]
WorkersOption = Annotated[
    int | None,
    option("--workers", "How many threads read files.", RUNNING, default="one per core", least=1),
]
_SAME = "the log's"
_WHOSE = "that says which episode a row belongs to"  # columns of a log
_ENDED = "that is true (or yes, or 1) in the last row of an episode that ended"
_NEVER_FALLS = "that never falls within an episode, such as a time"
_PROBABILITY = "of the probability with which the action was chosen"
_READING = "How the log is read"  # panels of the help
_FINDING = "How the states are found"
_JUDGING = "How the model is judged"


def _column(role: str, words: str, panel: str | None = None, default: str | bool = _SAME) -> Any:
    """Make the option that names a column; by default it is called as in the log of the model."""
    return option(f"--{role}", f"Column {words}.", panel, "COLUMN", default)


def _columns(text: str | None) -> str | list[str] | None:
    """Read the name of a column, or several with commas; ``x,`` is a vector of one number."""
    if text is None or "," not in text:
        return text
    return [name for name in text.split(",") if name]


def fit_command(
    files: _MaybeFiles = None,
    observation: Annotated[
        str | None,
        option(
            "--observation",
            "Column of what was seen, or several: x,y,z. Columns of numbers, or of lists, are "
            "vectors (a single one is written x, with the comma); columns of names are one name "
            "together.",
            metavar="COLUMN",
            default=False,
        ),
    ] = None,
    action: Annotated[str | None, _column("action", "of what was then done", default=True)] = None,
    reward: Annotated[str | None, _column("reward", "of what that earned", default=True)] = None,
    episode: Annotated[str | None, _column("episode", _WHOSE, default="one long episode")] = None,
    terminated: Annotated[str | None, _column("terminated", _ENDED, default=True)] = None,
    objective: Annotated[
        str | None,
        option(
            "--objective",
            "What is good: average (per step), episodic, or a discount such as 0.99.",
            default="episodic if the log tells ends, else average",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        option(
            "--out",
            "Write the model and its page here; without it the model is only printed.",
            metavar="DIR",
        ),
    ] = None,
    force: Annotated[
        bool, option("--force", "Replace the model that --out holds already.")
    ] = False,
    order: Annotated[
        str | None, _column("order", f"{_NEVER_FALLS}; this is checked", _READING, True)
    ] = None,
    sort: Annotated[
        bool, option("--sort", "Sort each episode by the column --order.", _READING)
    ] = False,
    ends: Annotated[
        str | None,
        option(
            "--ends",
            "What the last row of an episode means: truncated (it is not known what follows), "
            "terminated (it ended), or restart (it ended, and rewards count per step).",
            _READING,
            default="truncated, of event logs terminated",
        ),
    ] = None,
    missing: Annotated[
        str,
        option(
            "--missing",
            "What a row without an observation is: an error, to drop (the episode is cut there), "
            "or a name of its own (own).",
            _READING,
        ),
    ] = "error",
    propensity: Annotated[
        str | None, _column("propensity", _PROBABILITY, _READING, "estimated")
    ] = None,
    memory: Annotated[
        str,
        option(
            "--memory",
            "How many steps a state looks back, or auto: as far as predicts held-out episodes "
            "better.",
            _FINDING,
            "STEPS",
        ),
    ] = "0",
    counts: Annotated[
        Path | None,
        option(
            "--counts",
            "Learn from a table of counts that another engine made, instead of from rows.",
            _READING,
            "FILE",
        ),
    ] = None,
    max_observations: Annotated[
        int,
        option(
            "--max-observations",
            "Refuse a log with more different observations than this.",
            _READING,
            least=1,
        ),
    ] = 1_000_000,
    states: Annotated[
        int | None,
        option(
            "--states", "Number of hidden states.", _FINDING, default="chosen by the data", least=1
        ),
    ] = None,
    method: Annotated[
        str, option("--method", "How to group: likelihood or overlap.", _FINDING)
    ] = "likelihood",
    reward_law: Annotated[
        str | None,
        option(
            "--reward-law",
            "bernoulli, categorical, hurdle, gaussian, or none to group by transitions alone.",
            _FINDING,
            "LAW",
            "chosen by the data",
        ),
    ] = None,
    seed: Annotated[
        int, option("--seed", "The same seed gives the same model.", _FINDING, least=0)
    ] = 0,
    holdout: Annotated[
        float, option("--holdout", "Share of the episodes set aside to judge the model.", _JUDGING)
    ] = 0.2,
    delta: Annotated[
        float, option("--delta", "Probability that the confidence widths fail.", _JUDGING)
    ] = 0.05,
    rare: Annotated[
        int,
        option(
            "--rare",
            "Mark actions that were tried fewer times than this in a state.",
            _JUDGING,
            least=0,
        ),
    ] = 30,
    workers: WorkersOption = None,
    dask: Annotated[
        str | None,
        option(
            "--dask",
            "Count the files on the workers of this Dask scheduler, which must see them.",
            RUNNING,
            "ADDRESS",
        ),
    ] = None,
    quiet: QuietOption = False,
) -> None:
    """Find the hidden states behind a log, the MDP between them and its best policy."""
    from romdp.logs.fitting import fit
    from romdp.logs.model.files import check_model_directory, is_model, save_or_keep
    from romdp.reports import write_model_page

    if (counts is None) == (not files):
        raise typer.BadParameter("pass the files of a log, or --counts with a table of counts")
    if out is not None and is_model(check_model_directory(out)) and not force:
        raise InvalidInputError(f"{out} holds a model; pass --force to replace it, or name another")
    with _Progress(quiet) as progress, _cluster(dask) as client:
        model = fit(
            files if counts is None else counts,
            _columns(observation),
            action,
            reward,
            episode,
            order,
            n_states=states,
            method=method,
            seed=seed,
            reward_law=reward_law,
            terminated=terminated,
            objective=objective,
            propensity=propensity,
            counts=counts is not None,
            memory=read_memory(memory),
            holdout=holdout,
            ends=ends,
            missing=missing,
            sort=sort,
            delta=delta,
            rare=rare,
            workers=workers,
            max_observations=max_observations,
            progress=progress,
            client=client,
            stage=progress.stage,
        )
    page: Path | None = None
    if out is not None:  # before anything is printed: a reader that closes the pipe costs nothing
        save_or_keep(model, out)
        page = write_model_page(model, out / "report.html")
    typer.echo(str(model))
    if page is not None:
        typer.echo(f"\nwrote {out}\nwrote {page}: open it in a browser")


def apply_command(
    directory: _Model,
    files: _Files,
    out: Annotated[
        Path,
        option(
            "--out", "The .parquet, .csv or .arrow file to write.", metavar="FILE", default=False
        ),
    ],
    observation: Annotated[
        str | None,
        option("--observation", "Column of what is seen.", metavar="COLUMN", default=_SAME),
    ] = None,
    safe_cells: Annotated[
        bool,
        option(
            "--safe-cells",
            "In a CSV file, put ' before texts that a spreadsheet would take for formulas.",
        ),
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Add the hidden state, its certainty and the recommended action to a table."""
    from romdp.logs.applying import apply_model
    from romdp.logs.model.files import load_model

    model = load_model(directory)
    with _Progress(quiet) as progress:
        settings: dict[str, Any] = {"safe_cells": safe_cells, "progress": progress}
        applied = apply_model(model, files, out, observation, **settings)
    typer.echo(f"wrote {out}: {applied.describe()}")


def evaluate_command(
    directory: _Model,
    files: _Files,
    observation: Annotated[str | None, _column("observation", "of what was seen")] = None,
    action: Annotated[str | None, _column("action", "of what was then done")] = None,
    reward: Annotated[str | None, _column("reward", "of what that earned")] = None,
    episode: Annotated[str | None, _column("episode", _WHOSE)] = None,
    order: Annotated[str | None, _column("order", _NEVER_FALLS)] = None,
    sort: Annotated[bool, option("--sort", "Sort each episode by the column --order.")] = False,
    terminated: Annotated[str | None, _column("terminated", _ENDED)] = None,
    propensity: Annotated[str | None, _column("propensity", _PROBABILITY)] = None,
    seed: Annotated[int, option("--seed", "Seeds the intervals.", least=0)] = 0,
) -> None:
    """Estimate from a log what following a model would earn.

    Use a log that the model was not fitted to: on its own log a model looks better than it is.
    """
    from romdp.logs.evaluating import evaluate
    from romdp.logs.model.files import load_model
    from romdp.logs.reading.sources import open_source

    model = load_model(directory)
    given = {
        "observation": observation,
        "action": action,
        "reward": reward,
        "episode": episode,
        "order": order,
        "terminated": terminated,
        "propensity": propensity,
    }
    names: dict[str, Any] = {role: x or model.columns.get(role) for role, x in given.items()}
    unnamed = order is None and not sort
    if unnamed and any(names["order"] not in piece.types for piece in open_source(files)):
        names["order"] = None  # it is only checked, and this log may have none
    for role in ("observation", "action", "reward"):
        if names[role] is None:
            raise InvalidInputError(f"name the column of the {role}: --{role} COLUMN")
    ends = model.settings.get("ends") if names["terminated"] is None else None
    settings: dict[str, Any] = {"objective": model.objective, "ends": ends, "sort": sort}
    found = evaluate(files, model, **names, **settings, seed=seed)
    typer.echo(str(found))


@contextmanager
def _cluster(address: str | None) -> Iterator[Any]:
    """Connect to a Dask cluster, if one is named."""
    if address is None:
        yield None
        return
    from romdp.experiments.executors import ClusterLostError, Dask

    executor = Dask(address)
    try:
        yield executor.client
    except Exception as error:
        if isinstance(error, ROMDPError) or executor.client.status == "running":
            raise
        raise ClusterLostError("the Dask scheduler was lost; nothing was written") from error
    finally:
        executor.close()


class _Progress:
    """Says on the terminal what is being done and for how long, while there is one to see it."""

    def __init__(self, quiet: bool) -> None:
        self._bar: Progress | None = None
        if not quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import Progress as Bar
            from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

            columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
            self._bar = Bar(*columns, console=Console(stderr=True))
        self._task: TaskID | None = None
        self._rows = 0

    def __enter__(self) -> "_Progress":
        if self._bar is not None:
            self._bar.start()
        return self

    def __call__(self, rows: int) -> None:
        """Count rows that were read."""
        self._rows += rows
        words = f"{self._rows:,} rows"
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=words)
        else:
            self.stage(words)

    def stage(self, words: str) -> None:
        """Say what is being done from now on."""
        if self._bar is not None:
            self._finish()
            self._task = self._bar.add_task(words, total=1)

    def _finish(self) -> None:
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=1)  # stops its clock

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._finish()
            self._bar.stop()
