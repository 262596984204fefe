"""The command ``play``: an agent in somebody's Gymnasium environment."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from romdp.cli.options import option
from romdp.core.errors import InvalidInputError
from romdp.core.text import one_line


def play(
    environment: Annotated[
        str,
        typer.Argument(
            metavar="ENV",
            help="A registered Gymnasium environment such as Taxi-v4. module:Name-v0 first imports "
            "the module that registers it, which may be a file in the current folder.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        option("--out", "A new directory for the results.", metavar="DIR", default=False),
    ],
    agent: Annotated[
        str,
        option("--agent", "An agent: lc-psrl, lc-ucrl, sl-ucrl, two-phase, psrl, ucrl2 or ucrl3."),
    ] = "lc-psrl",
    steps: Annotated[str, option("--steps", "Number of steps.")] = "60000",
    views: Annotated[
        int | None,
        typer.Option(
            "--views",
            help="Show each observation as one of so many views, drawn at random: many "
            "observations with few hidden states behind them.",
            min=1,
        ),
    ] = None,
    objective: Annotated[
        str | None,
        option(
            "--objective",
            "What is good: average, episodic, episodic:H with a horizon, or a discount such "
            "as 0.99.",
            default="episodic",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seeds the run.", min=0)] = 0,
    reward_range: Annotated[
        str | None,
        option(
            "--reward-range",
            "The smallest and the largest reward: a bound for agents that learn their range "
            "(lc-psrl), needed by the others unless rewards lie in [0, 1].",
            metavar="LOW,HIGH",
            default="learned, or 0,1",
        ),
    ] = None,
    quiet: Annotated[bool, option("--quiet", "Show no progress.")] = False,
) -> None:
    """Play in a Gymnasium environment; write its returns, policy and a page about them."""
    from romdp.cli.experiments import read_number
    from romdp.core.storage import check_output, write_json
    from romdp.experiments.agents import AGENTS
    from romdp.playing import play as play_agent
    from romdp.reports import write_model_page
    from romdp.worlds.wrappers import make_environment

    check_output(out, "directory")
    if out.exists() and any(out.iterdir()):
        raise InvalidInputError(f"{out} is not empty; choose a new directory")
    n_steps = read_number(steps, "--steps")
    chosen = _agent(agent, AGENTS, objective)
    env = make_environment(environment, views, seed)
    shown = None if not quiet and sys.stderr.isatty() else False
    run = play_agent(
        chosen,
        env,
        n_steps,
        seed,
        reward_range=_range(reward_range),
        progress=shown,
    )
    out.mkdir(parents=True, exist_ok=True)
    write_json(out / "run.json", _facts(run, environment, views))
    _write_returns(run.returns, out / "returns.csv")
    if run.policy is not None:
        run.policy.save(out / "policy.npz")
    write_model_page(run, out / "report.html", environment=environment)
    typer.echo(_summary(run, environment))
    typer.echo(f"wrote {one_line(out)}: report.html, policy.npz, returns.csv, run.json")


def _agent(name: str, known: Any, objective: str | None) -> Any:
    """Make an agent that needs no world to be made for."""
    from romdp.agents.recipes import LCPSRL, LCUCRL, PSRL, SLUCRL, UCRL2, UCRL3, TwoPhase
    from romdp.core.validation import choice
    from romdp.exact.objectives import Objective

    makers: dict[str, Any] = {
        "lc-psrl": LCPSRL,
        "lc-ucrl": LCUCRL,
        "psrl": PSRL,
        "sl-ucrl": SLUCRL,
        "two-phase": TwoPhase,
        "ucrl2": UCRL2,
        "ucrl3": UCRL3,
    }
    if name in known and name not in makers:
        raise InvalidInputError(
            f"agent {name!r} must be told the truth about a world, which nobody knows about an "
            f"environment; choose from {', '.join(makers)}"
        )
    made = makers[choice(name, "agent", makers)](
        objective=None if objective is None else Objective.parse(_number_or_name(objective))
    )
    return replace(made, name=name)


def _number_or_name(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _range(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InvalidInputError(
            f"--reward-range is {text!r}; pass two numbers such as -10,20"
        ) from None
    return low, high


def _facts(run: Any, environment: str, views: int | None) -> dict[str, Any]:
    from romdp import __version__
    from romdp.core.text import plain

    facts: dict[str, Any] = plain(
        {
            "environment": environment,
            "views": views,
            "agent": run.agent,
            "objective": str(run.objective),
            "seed": run.seed,
            "steps": int(run.steps[-1]),
            "reward": float(run.reward[-1]),
            "episodes": len(run.returns),
            "mean_return": run.mean_return,
            "success_rate": run.success_rate,
            "n_groups": run.partition.n_clusters,
            "romdp": __version__,
        }
    )
    return facts


def _summary(run: Any, environment: str) -> str:
    from romdp.reports.learning import objective_of

    steps, objective = int(run.steps[-1]), objective_of(run)
    text = f"{run.agent} played {environment} for {steps:,} steps (objective: {objective})\n"
    if len(run.returns):
        text += f"{len(run.returns):,} episodes; mean return in the last fifth of the steps: "
        text += f"{run.mean_return:.4g}"
        if run.success_rate == run.success_rate:
            text += f"; success rate: {run.success_rate:.1%}"
    else:
        text += f"no episode ended; reward per step: {run.reward[-1] / steps:.4g}"
    return f"{text}\n{run.partition.n_clusters:,} groups of observations"


def _write_returns(returns: Any, path: Path) -> None:
    from romdp.core.storage import write_bytes

    rows = [f"{step},{total!r},{length}" for step, total, length in returns.tolist()]
    write_bytes(path, "\n".join(["step,return,length", *rows, ""]).encode())
