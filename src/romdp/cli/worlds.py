"""The commands ``generate`` and ``inspect``: worlds and what is known exactly about them."""

import json
import math
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from romdp.cli.options import examples
from romdp.core.errors import InvalidInputError
from romdp.core.text import MOST_LISTED, UNKNOWN, columns, one_line

if TYPE_CHECKING:
    from romdp.exact.romdp import ROMDP

_HELP = {
    "n_states": "Number of hidden states X.",
    "n_actions": "Number of actions A.",
    "n_observations": "Number of observations Y.",
    "horizon": "Number of dials.",
    "views": "Number of observations per cell.",
    "seed": "The same seed makes the same world.",
    "room": "A text file with a row of the room per line: . is free, # a wall, G the goal.",
    "slip": "Probability that a move goes in a random direction.",
    "eta": "How clearly the two states differ, above 0.",
    "mixing": "Share of the difference between the twins that is left, in [0, 1].",
    "concentration": "Concentration of the Dirichlet law of each transition row, above 0; small "
    "values make moves nearly certain.",
    "emission_concentration": "Concentration of the Dirichlet law of each state's observations, "
    "above 0.",
    "reward_bias": "Largest difference in mean reward between states, in [0, 1].",
    "reward_law": "bernoulli, uniform, beta or deterministic.",
}
_DEFAULTS = {"n_observations": "one per state", "room": "a built-in room"}  # where it is None


class _Worlds(TyperGroup):
    """A command per world, made from the signature of its function when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name the worlds."""
        from romdp.worlds.named import WORLDS

        return list(WORLDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Make the command of one world."""
        from romdp.worlds.named import WORLDS

        if cmd_name not in WORLDS:
            return None
        one = typer.Typer(rich_markup_mode="rich", add_completion=False)
        example = f"romdp generate {cmd_name} --out world.npz"
        one.command(cmd_name, epilog=examples(example))(_command(cmd_name, WORLDS[cmd_name]))
        return typer.main.get_command(one)


generate = typer.Typer(
    help="Make a world and write it to a file that `romdp inspect` and `romdp compare` read.",
    no_args_is_help=True,
    cls=_Worlds,
)


@generate.callback()
def _generate() -> None:
    """Typer makes a group only where there is something in it."""


def _command(name: str, maker: Callable[..., Any]) -> Callable[..., None]:
    """Make the function behind ``romdp generate NAME``: the options are the maker's arguments."""

    def command(out: Path, **options: Any) -> None:
        from romdp.core.storage import check_output

        check_output(out)
        if "room" in options:
            options["room"] = _read_room(options["room"])
        world = maker(**{key: value for key, value in options.items() if value is not None})
        world.save(out)
        typer.echo(f"wrote {one_line(out)}: {world!r}")

    hints = get_type_hints(maker)
    known = signature(maker).parameters.values()
    command.__doc__ = (maker.__doc__ or "").partition("\n")[0]
    parameters = [_OUT, *(_option(one, hints[one.name]) for one in known)]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def _parameter(name: str, annotation: Any, default: Any = Parameter.empty) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


_OUT = _parameter(
    "out",
    Annotated[Path, typer.Option("--out", help="The .npz file to write.", show_default=False)],
)


def _option(parameter: Parameter, hint: Any) -> Parameter:
    """Make an option of an argument: ``n_states`` becomes ``--states``."""
    name, default = parameter.name, parameter.default
    if name == "room":
        hint, default = Path | None, None
    elif name == "seed":
        hint = int
    numeric = hint in (int, int | None)
    option = typer.Option(
        f"--{name.removeprefix('n_').replace('_', '-')}",
        help=_HELP[name],
        min=int(name != "seed") if numeric else None,
        show_default=True if default is not None else _DEFAULTS[name],
    )
    return _parameter(name, Annotated[hint, option], default)


def _read_room(path: Path | None) -> list[str] | None:
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInputError(f"cannot read {path}: {error}") from error


def inspect(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="WORLD",
            help="A file that `romdp generate` or `save` wrote.",
            show_default=False,
        ),
    ],
    brief: Annotated[
        bool, typer.Option("--brief", help="Leave out the constants and bounds of the theory.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    steps: Annotated[
        float, typer.Option(help="Number of steps N in the bounds.", show_default="1e6")
    ] = 1e6,
    delta: Annotated[float, typer.Option(help="Probability that the bounds fail.")] = 0.05,
) -> None:
    """Say what is known exactly about a world: gain, policy, assumptions, the paper's bounds."""
    from romdp.core.validation import whole_number
    from romdp.exact.romdp import as_romdp
    from romdp.theory import bounds, lower_bound
    from romdp.worlds.named import load_world

    world = as_romdp(load_world(path))
    facts = world.assumptions()
    n_steps = whole_number(steps, "steps", 1)
    theory = None if brief else bounds(world, delta, n_steps)
    limit = None if brief else lower_bound(world)
    if as_json:
        content = facts.to_dict()
        if facts.gain is not None:
            content["optimal_policy"] = world.hidden.optimal_policy.tolist()
        if theory is not None:
            content["theory"] = theory.to_dict()
        if limit is not None:
            content["lower_bound"] = limit
        typer.echo(json.dumps(content, indent=2, allow_nan=False))
        return
    typer.echo(f"{one_line(path)}\n\n{facts}")
    if facts.gain is not None:
        typer.echo(f"\n{_state_table(world)}")
    if theory is not None:
        typer.echo(f"\n{theory}")
    if limit is not None:
        typer.echo(
            f"\nNo agent has less regret than C log N for large N, C = {limit:.4g} (Burnetas and "
            f"Katehakis); C log {n_steps:,} = {limit * math.log(n_steps):.4g}"
        )


def _state_table(world: "ROMDP") -> str:
    """Write one line per hidden state: its observations, best action and share of time."""
    import numpy as np

    from romdp.core.errors import StructureError

    policy = world.hidden.optimal_policy
    try:
        share = [f"{value:.3f}" for value in world.hidden.stationary(policy)]
    except StructureError:
        share = [UNKNOWN] * world.n_states
    sizes = np.bincount(world.labels, minlength=world.n_states)
    rows: list[list[object]] = [
        ["state", "observations", "best action", "mean reward", "share of time (optimal policy)"]
    ]
    for x in range(min(world.n_states, MOST_LISTED)):
        mean = f"{world.reward[x, policy[x]]:.3f}"
        rows.append([x, sizes[x], policy[x], mean, share[x]])
    lines = columns(rows, ">>>><")
    if world.n_states > MOST_LISTED:
        lines.append(f"... and {world.n_states - MOST_LISTED} more hidden states")
    return "\n".join(lines)
