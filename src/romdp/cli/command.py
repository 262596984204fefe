"""The ``romdp`` command: thin, it only calls the rooms above.

Exit status: 0 done; 1 an I/O error or failed runs; 2 refused before starting, with one line on
stderr and nothing written; 130 interrupted.
"""

import json
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from romdp import __version__
from romdp.cli import experiments, logs, reproduce
from romdp.core.errors import ROMDPError, WriteError

if TYPE_CHECKING:
    from romdp.exact.romdp import ROMDP

app = typer.Typer(
    name="romdp",
    help="Learn the few hidden states behind many observations while acting.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
generate = typer.Typer(
    help="Make a world and write it to a file that `romdp inspect` and `compare` read.",
    no_args_is_help=True,
)
app.command()(experiments.compare)
app.command()(experiments.resume)
app.command()(experiments.report)
app.command()(reproduce.reproduce)
app.command("fit")(logs.fit_command)
app.command("apply")(logs.apply_command)
app.add_typer(generate, name="generate")

_Out = Annotated[Path, typer.Option("--out", help="The .npz file to write.", show_default=False)]
_States = Annotated[int, typer.Option("--states", min=1, help="Number of hidden states X.")]
_Actions = Annotated[int, typer.Option("--actions", min=1, help="Number of actions A.")]
_Observations = Annotated[int, typer.Option("--observations", min=1, help="Observations Y.")]
_EvenObservations = Annotated[
    int | None,
    typer.Option(
        "--observations", min=1, help="Observations Y, shared out evenly.", show_default="one each"
    ),
]
_SeedOption = Annotated[int, typer.Option("--seed", min=0, help="The same seed, the same world.")]
_Concentration = Annotated[
    float,
    typer.Option("--concentration", help="Of the Dirichlet law of each transition row, > 0."),
]
_EmissionConcentration = Annotated[
    float,
    typer.Option("--emission-concentration", help="Of the Dirichlet law of the observations, > 0."),
]
_RewardLaw = Annotated[
    str, typer.Option("--reward-law", help="bernoulli, uniform, beta or deterministic.")
]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    if version:
        typer.echo(f"romdp {__version__}")
        raise typer.Exit


def _write_world(name: str, out: Path, **arguments: Any) -> None:
    from romdp.worlds.catalogue import make

    world = make(name, **arguments)
    world.save(out)
    typer.echo(f"wrote {out}: {world!r}")


@generate.command("random-romdp")
def _random_romdp(
    out: _Out,
    states: _States = 5,
    actions: _Actions = 4,
    observations: _Observations = 30,
    concentration: _Concentration = 1.0,
    emission_concentration: _EmissionConcentration = 3.0,
    reward_law: _RewardLaw = "bernoulli",
    seed: _SeedOption = 0,
) -> None:
    """Draw a random ROMDP as in the paper's experiments."""
    _write_world(
        "random-romdp",
        out,
        n_states=states,
        n_actions=actions,
        n_observations=observations,
        concentration=concentration,
        emission_concentration=emission_concentration,
        reward_law=reward_law,
        seed=seed,
    )


@generate.command("random-mdp")
def _random_mdp(
    out: _Out,
    states: _States = 30,
    actions: _Actions = 4,
    concentration: _Concentration = 1.0,
    reward_law: _RewardLaw = "bernoulli",
    seed: _SeedOption = 0,
) -> None:
    """Draw a random MDP with no hidden structure."""
    _write_world(
        "random-mdp",
        out,
        n_states=states,
        n_actions=actions,
        concentration=concentration,
        reward_law=reward_law,
        seed=seed,
    )


@generate.command("deterministic-romdp")
def _deterministic_romdp(
    out: _Out,
    states: _States = 5,
    actions: _Actions = 3,
    observations: _Observations = 20,
    reward_law: _RewardLaw = "bernoulli",
    seed: _SeedOption = 0,
) -> None:
    """Draw a ROMDP whose hidden moves are certain."""
    _write_world(
        "deterministic-romdp",
        out,
        n_states=states,
        n_actions=actions,
        n_observations=observations,
        reward_law=reward_law,
        seed=seed,
    )


@generate.command("river-swim")
def _river_swim(out: _Out, states: _States = 6, observations: _EvenObservations = None) -> None:
    """Make a river: swimming against the stream is hard, and it is what pays."""
    _write_world("river-swim", out, n_states=states, n_observations=observations)


@generate.command("combination-lock")
def _combination_lock(
    out: _Out,
    horizon: Annotated[int, typer.Option(min=1, help="Number of dials.")] = 5,
    actions: _Actions = 4,
    observations: _EvenObservations = None,
    seed: _SeedOption = 0,
) -> None:
    """Make a lock: only the right action at each dial leads to the prize."""
    _write_world(
        "combination-lock",
        out,
        horizon=horizon,
        n_actions=actions,
        n_observations=observations,
        seed=seed,
    )


@generate.command("grid")
def _grid(
    out: _Out,
    room: Annotated[
        Path | None,
        typer.Option(
            help="A text file of rows with . free, # wall, G goal.", show_default="a built-in room"
        ),
    ] = None,
    views: Annotated[int, typer.Option(min=1, help="Observations per cell.")] = 5,
    slip: Annotated[float, typer.Option(help="Chance of a random direction.")] = 0.1,
    seed: _SeedOption = 0,
) -> None:
    """Make a room with walls and a goal, several views per cell."""
    arguments: dict[str, Any] = {"views": views, "slip": slip, "seed": seed}
    if room is not None:
        try:
            arguments["room"] = room.read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise typer.BadParameter(f"cannot read {room}: {error}") from error
    _write_world("grid", out, **arguments)


@generate.command("symmetric-block")
def _symmetric_block(
    out: _Out,
    observations: _Observations = 100,
    eta: Annotated[float, typer.Option(help="How clear the two states are, > 0.")] = 4.0,
) -> None:
    """Make two hidden states and three actions without reward: the test of grouping methods."""
    _write_world("symmetric-block", out, n_observations=observations, eta=eta)


@app.command()
def inspect(
    path: Annotated[
        Path, typer.Argument(metavar="WORLD", help="A world file.", show_default=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    brief: Annotated[
        bool, typer.Option("--brief", help="Leave out the constants and bounds of the theory.")
    ] = False,
    delta: Annotated[float, typer.Option(help="Failure probability of the bounds.")] = 0.05,
    steps: Annotated[float, typer.Option(help="Number of steps N of the bounds.")] = 1e6,
) -> None:
    """Answer exact questions about a world: gain, policy, assumptions, the paper's bounds."""
    from romdp.core.validation import whole_number
    from romdp.exact.romdp import as_romdp
    from romdp.theory import bounds
    from romdp.worlds.catalogue import load_world

    world = as_romdp(load_world(path))
    facts = world.assumptions()
    theory = None if brief else bounds(world, delta, whole_number(steps, "steps", 1))
    if as_json:
        content = facts.to_dict()
        if facts.gain is not None:
            content["optimal_policy"] = world.hidden.optimal_policy.tolist()
        if theory is not None:
            content["theory"] = theory.to_dict()
        typer.echo(json.dumps(content, indent=2))
        return
    typer.echo(f"{path}\n\n{facts}")
    if facts.gain is not None:
        typer.echo(f"\n{_state_table(world)}")
    if theory is not None:
        typer.echo(f"\n{theory}")


def _state_table(world: "ROMDP", most: int = 20) -> str:
    """One line a hidden state: its observations, its share of time and its best action."""
    import numpy as np

    from romdp.core.errors import StructureError

    policy = world.hidden.optimal_policy
    try:
        share = [f"{value:.3f}" for value in world.hidden.stationary(policy)]
    except StructureError:
        share = ["-"] * world.n_states
    sizes = np.bincount(world.labels, minlength=world.n_states)
    lines = ["state  observations  best action  mean reward  share of time (optimal policy)"]
    for x in range(min(world.n_states, most)):
        mean = world.reward[x, policy[x]]
        lines.append(f"{x:>5}  {sizes[x]:>12}  {policy[x]:>11}  {mean:>11.3f}  {share[x]:>13}")
    if world.n_states > most:
        lines.append(f"... and {world.n_states - most} more hidden states")
    return "\n".join(lines)


class _CompilationNotice(logging.Handler):
    """Says once that kernels are being compiled; it hears of it without importing numba."""

    def emit(self, record: logging.LogRecord) -> None:
        logging.getLogger(record.name).removeHandler(self)
        typer.echo("romdp: compiling, once for this machine ...", err=True)


def main() -> None:
    """Run the command; what went wrong is one line on stderr and an exit status."""
    compilations = logging.getLogger("romdp.compilation")
    compilations.setLevel(logging.INFO)
    compilations.addHandler(_CompilationNotice())
    try:
        app()
    except WriteError as error:
        _fail(error, 1)
    except ROMDPError as error:
        _fail(error, 2)
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(error: ROMDPError, status: int) -> None:
    typer.echo(f"romdp: {error}", err=True)
    sys.exit(status)
