"""The commands ``compare``, ``resume`` and ``report``."""

import json
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from romdp.cli.options import (
    CheckpointsOption,
    DaskOption,
    QuietOption,
    WorkersOption,
    option,
    read_settings,
)
from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.text import MOST_LISTED, one_line

if TYPE_CHECKING:
    from romdp.experiments.directory import RunDirectory
    from romdp.experiments.executors import Executor

_WORLDS = "Worlds"
_AGENTS = "Settings of the agents"


_Directory = Annotated[
    Path,
    typer.Argument(
        metavar="DIR", help="A directory that `romdp compare` wrote.", show_default=False
    ),
]


def compare(
    out: Annotated[
        Path, option("--out", "A new directory for the results.", metavar="DIR", default=False)
    ],
    agents: Annotated[
        str | None,
        option(
            "--agents",
            "Which agents: lc-psrl, lc-ucrl, sl-ucrl, sl-ucrl-spectral, sl-ucrl-paper, "
            "sl-ucrl-matrix, two-phase, ucrl2, ucrl3, psrl, oracle, oracle-psrl, q-learning, dqn; "
            "or module:factory, a function of yours without arguments that returns a romdp.Agent.",
            metavar="NAME,NAME,...",
            default="sl-ucrl,ucrl2,oracle",
        ),
    ] = None,
    observations: Annotated[
        str | None,
        option(
            "--observations",
            "Numbers of observations; there is a world for each.",
            metavar="Y,Y,...",
        ),
    ] = None,
    steps: Annotated[
        str | None, option("--steps", "Number of steps per run, such as 1e6.", default="1e5")
    ] = None,
    seeds: Annotated[
        int | None,
        option(
            "--seeds", "How often everything is repeated, each time with new worlds.", default="5"
        ),
    ] = None,
    config: Annotated[
        Path | None,
        option(
            "--config",
            "A TOML or JSON file with the entries of experiment.json; options override it.",
            metavar="FILE",
        ),
    ] = None,
    seed: Annotated[
        int | None, option("--seed", "Seeds the whole experiment.", default="0")
    ] = None,
    states: Annotated[int | None, option("--states", "Number of hidden states X.", _WORLDS)] = None,
    actions: Annotated[int | None, option("--actions", "Number of actions A.", _WORLDS)] = None,
    world: Annotated[
        list[str] | None,
        option(
            "--world",
            "A world that `romdp generate` knows, a file that it wrote, or gym: and the name of a "
            "Gymnasium environment; may be repeated.",
            _WORLDS,
            "NAME|FILE|gym:NAME",
            default="random-romdp",
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        option(
            "--set",
            "Another argument of the world; may be repeated. An environment takes views=10 and "
            "reward_range=[-10,20], which all agents but lc-psrl, q-learning and dqn need unless "
            "it says itself that rewards lie in \\[0, 1].",
            _WORLDS,
            "NAME=VALUE",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        option(
            "--objective",
            "What the agents maximise: average, episodic, episodic:H with a horizon, or a discount "
            "such as 0.99; q-learning and dqn take a discount alone.",
            _AGENTS,
            default="average; episodic in an environment",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        option("--delta", "Probability that the confidence sets fail.", _AGENTS, default="0.05"),
    ] = None,
    sets: Annotated[
        str | None,
        option(
            "--sets",
            "Confidence sets of all optimistic agents: time-uniform (UCRL3's, valid as they "
            "are), paper, jaksch or bernstein.",
            _AGENTS,
            default="time-uniform, or paper if --scale is given",
        ),
    ] = None,
    scale: Annotated[
        float | None,
        option(
            "--scale",
            "Multiplies the widths of --sets paper (assumed where --sets is left out), jaksch "
            "or bernstein. At 1 those agents explore for most of a million steps; below 1 nothing "
            "is guaranteed.",
            _AGENTS,
        ),
    ] = None,
    unknown_states: Annotated[
        bool,
        option("--unknown-states", "Do not tell sl-ucrl the number of hidden states.", _AGENTS),
    ] = False,
    factor: Annotated[
        float | None,
        option(
            "--factor",
            "Multiplies the bounds by which sl-ucrl groups.",
            _AGENTS,
            default="1, or 0.5 for an MDP",
        ),
    ] = None,
    constant: Annotated[
        float | None,
        option("--constant", "The constant C in the bound of sl-ucrl-paper.", _AGENTS, default="1"),
    ] = None,
    workers: WorkersOption = 1,
    dask: DaskOption = None,
    checkpoint_seconds: CheckpointsOption = 30.0,
    quiet: QuietOption = False,
) -> None:
    """Compare agents on the same worlds; everything is kept in a directory."""
    from romdp.core.storage import check_output
    from romdp.core.validation import real_number
    from romdp.experiments.directory import RunDirectory
    from romdp.experiments.specification import Experiment

    check_output(out, "directory")
    content = {} if config is None else _read_config(config)
    arguments = _arguments(states, actions, more or [])
    content |= _given(seeds=seeds, seed=seed)
    if steps is not None:
        content["steps"] = read_number(steps, "--steps")
    if agents is not None:
        content["agents"] = [name.strip() for name in agents.split(",")]
    sizes = None
    if observations is not None:
        sizes = [read_number(size, "--observations") for size in observations.split(",")]
    if world or arguments:
        if "worlds" in content:
            raise InvalidInputError(
                f"{config} says which worlds; leave out --world, --states, --actions and --set"
            )
        content["worlds"], own_sizes = _worlds(world or ["random-romdp"], arguments)
        if own_sizes and sizes:
            raise InvalidInputError(
                "the states of random-mdp are its observations; give --states or "
                "--observations, not both"
            )
        sizes = sizes or own_sizes
    content |= _given(observations=sizes)
    before = content.get("agent_settings", {})
    if not isinstance(before, dict):
        raise InvalidInputError("agent_settings must be a table such as scale = 0.1")
    content["agent_settings"] = before | _given(
        sets=sets,
        scale=scale,
        delta=delta,
        unknown_states=unknown_states or None,
        factor=factor,
        constant=constant,
        objective=objective,
    )
    real_number(checkpoint_seconds, "checkpoint_seconds", 0)
    experiment = Experiment.from_dict(content)
    with closing(make_executor(workers, dask)) as executor:
        directory = RunDirectory.create(out, experiment)
        run_directory(directory, executor, quiet, checkpoint_seconds)


def resume(
    path: _Directory,
    workers: WorkersOption = 1,
    dask: DaskOption = None,
    checkpoint_seconds: CheckpointsOption = 30.0,
    quiet: QuietOption = False,
) -> None:
    """Finish a run directory: run what is missing, and try failed runs again."""
    from romdp.core.storage import check_directory

    check_directory(path, "the directory that `romdp compare` wrote")
    from romdp.core.validation import real_number
    from romdp.experiments.directory import RunDirectory

    real_number(checkpoint_seconds, "checkpoint_seconds", 0)
    directory = RunDirectory.open(path)
    warn_of_version(directory)
    with closing(make_executor(workers, dask)) as executor:
        run_directory(directory, executor, quiet, checkpoint_seconds)


def warn_of_version(directory: "RunDirectory") -> None:
    """Say so if another version of romdp began a directory that is gone on with."""
    from romdp import __version__

    if directory.romdp != __version__:
        typer.echo(
            f"romdp: {directory.path} was begun with romdp {directory.romdp} and this is "
            f"{__version__}: the runs may not be comparable",
            err=True,
        )


def report(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="A directory that `romdp compare` or `romdp fit` wrote.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The page to write.",
            show_default="report.html in the directory",
        ),
    ] = None,
    run: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            metavar="NAME",
            help="Tell the story of this run too, such as ucrl2-grid-Y190-s3; may be repeated.",
        ),
    ] = None,
) -> None:
    """Write a page about a run directory or a model, to open in a browser.

    A page of very many runs has the summaries of all and the stories of some.
    """
    from romdp.core.storage import check_directory, check_output

    if out is not None and out.parent.exists():  # if not, it is made
        check_output(out)
    check_directory(path, "a directory that `romdp compare` or `romdp fit` wrote")
    from romdp.logs.model.files import is_model
    from romdp.reports import read_results, write_model_page, write_report

    if is_model(path):
        typer.echo(f"wrote {write_model_page(path, out)}")
        return
    results = read_results(path)
    typer.echo(f"wrote {write_report(results, out, run or ())}")
    for name, what in results.damaged[:MOST_LISTED]:
        typer.echo(f"romdp: {name} is damaged and left out: {what}", err=True)
    if results.damaged:
        typer.echo(
            f"romdp: {len(results.damaged)} of {len(results.experiment.runs)} runs are damaged; "
            f"repeat them with: romdp resume {path}",
            err=True,
        )
        raise typer.Exit(1)


def run_directory(
    directory: "RunDirectory", executor: "Executor", quiet: bool, checkpoint_seconds: float
) -> None:
    """Run what is missing, print the summary and report failures."""
    from romdp.core.storage import read_json
    from romdp.experiments.executors import ClusterLostError
    from romdp.experiments.running import run_experiment
    from romdp.experiments.summary import format_summary
    from romdp.experiments.watching import Live, Plain, Watcher, last_line

    watcher = Watcher() if quiet else Live(sys.stderr) if sys.stderr.isatty() else Plain(sys.stderr)
    try:
        failed = run_experiment(directory, executor, watcher, checkpoint_seconds=checkpoint_seconds)
    except KeyboardInterrupt:
        typer.echo(f"romdp: interrupted; go on with: romdp resume {directory.path}", err=True)
        raise typer.Exit(130) from None
    except ClusterLostError as error:
        typer.echo(f"romdp: {error}; go on with: romdp resume {directory.path}", err=True)
        raise typer.Exit(1) from None
    typer.echo(format_summary(read_json(directory.path / "summary.json")))
    if failed:
        found = directory.contents().failed[failed[0]]
        first = last_line(found).removeprefix("romdp.core.errors.")
        typer.echo(
            f"romdp: {len(failed)} of {len(directory.experiment.runs)} runs failed (the first: "
            f"{one_line(first)}); {directory.errors_file} says why; try them again with: "
            f"romdp resume {directory.path}",
            err=True,
        )
        raise typer.Exit(1)


def make_executor(workers: int, dask: str | None) -> "Executor":
    """Make what runs the runs; it exists before anything is written."""
    from romdp.experiments.executors import Dask, Processes

    # Always in a process of its own, with one thread: one worker or many, the same to the bit.
    if dask is None:
        return Processes(workers)
    cluster = Dask(dask)
    if not cluster.n_workers:
        typer.echo("romdp: the cluster has no workers yet; waiting for the first one", err=True)
    return cluster


def _read_config(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    try:
        content = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except RecursionError:
        raise InvalidInputError(f"{path} cannot be read: it is nested too deeply") from None
    except ValueError as error:  # what both parsers raise is one
        raise InvalidInputError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise InvalidInputError(f"{path} must hold entries such as steps = 1e6")
    return content


def _given(**values: Any) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in values.items() if value is not None}


def _arguments(states: int | None, actions: int | None, more: list[str]) -> dict[str, Any]:
    """Collect the arguments of the worlds."""
    return read_settings(more) | _given(n_states=states, n_actions=actions)


def _worlds(
    names: list[str], arguments: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[int] | None]:
    """Return the worlds, and the numbers of observations if ``--states`` says them."""
    from romdp.experiments.worlds import FileWorld, world_from

    worlds: list[dict[str, Any]] = []
    sizes = None
    for name in names:
        mine = dict(arguments)
        if name == "random-mdp" and "n_states" in mine:
            sizes = [mine.pop("n_states")]
        if isinstance(found := world_from(name), FileWorld):
            if mine:
                raise InvalidInputError(f"world {name} is a file: it takes no {next(iter(mine))}")
            worlds.append(found.to_dict())
        else:
            worlds.append({"name": name, "arguments": mine})
    return worlds, sizes


def read_number(text: str, option: str) -> int:
    """Read a whole number that may be written as 1e6."""
    from romdp.core.validation import whole_number

    try:
        value: float = int(text) if text.strip().isdecimal() else float(text)
    except ValueError:
        raise InvalidInputError(f"{option} is {text!r}; pass a whole number such as 1e6") from None
    return whole_number(value, option, 1)
