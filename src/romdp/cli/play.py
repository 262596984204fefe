"""The command ``play``: an agent in somebody's Gymnasium environment."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from romdp.cli.options import option, read_memory, read_settings
from romdp.core.errors import InvalidInputError
from romdp.core.text import count, one_line

_MOST_DRAWN = 300  # steps of a policy that reaches no end


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
        option(
            "--agent",
            "An agent: lc-psrl, lc-ucrl, sl-ucrl, two-phase, psrl, ucrl2, ucrl3; or "
            "module:factory, a function of yours without arguments that returns a romdp.Agent.",
        ),
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
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            help="What the environment is made with, such as is_slippery=false; repeatable. "
            "Values are JSON, else text.",
            metavar="NAME=VALUE",
            show_default=False,
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
    action_mask: Annotated[
        bool,
        option(
            "--action-mask",
            'Take only actions that the environment\'s info["action_mask"] allows; see '
            "romdp.worlds.ActionMask, which the policy then needs, too.",
        ),
    ] = False,
    memory: Annotated[
        str,
        option(
            "--memory",
            "How many steps a state looks back, or auto: as far as predicts held-out steps better.",
            metavar="STEPS",
        ),
    ] = "0",
    resume: Annotated[
        bool,
        option(
            "--resume",
            "Go on from what --out holds, up to --steps in all; repeat the other options. Only the "
            "environment begins anew.",
        ),
    ] = False,
    gif: Annotated[
        bool, option("--gif", "Draw an episode of the policy, if the environment can be drawn.")
    ] = False,
    quiet: Annotated[bool, option("--quiet", "Show no progress.")] = False,
) -> None:
    """Play in a Gymnasium environment; write its returns, policy and a page about them.

    Ctrl-C ends the run with the present epoch, and what was learned is written all the same.
    """
    from romdp.cli.experiments import read_number
    from romdp.core.storage import check_output, write_json
    from romdp.playing import Online
    from romdp.playing import play as play_agent
    from romdp.playing.places import step_limit
    from romdp.worlds.wrappers import ActionMask, make_environment

    check_output(out, "directory")
    if not resume and out.exists() and any(out.iterdir()):
        raise InvalidInputError(
            f"{out} is not empty; choose a new directory, or go on with --resume"
        )
    n_steps = read_number(steps, "--steps")
    chosen = replace(_agent(agent, objective), memory=read_memory(memory))
    told: dict[str, Any] = {"environment": environment, "views": views}
    told |= {"set": read_settings(set_ or ()), "agent": agent, "asked objective": objective}
    told |= {"seed": seed, "reward range": _range(reward_range), "action mask": action_mask}
    told |= {"memory": chosen.memory}
    if resume:
        _require_same(out, told)

    def make(**drawn: str) -> Any:
        """Make the environment, anew each time."""
        env = make_environment(environment, views, seed, told["set"] | drawn)
        return ActionMask(env) if action_mask else env

    env = make()
    if ("action_mask" in env.reset(seed=seed)[1]) != action_mask:
        if action_mask:
            raise InvalidInputError(f"{environment} has no action mask; leave out --action-mask")
        typer.echo(
            f"romdp: {environment} says which actions change anything (info['action_mask']); "
            "--action-mask takes no others and learns sooner",
            err=True,
        )
    if gif:
        _check_drawn(env, make, environment)
    if resume:
        online = Online.load(out / "agent.npz")
    else:
        spaces, limit = (env.observation_space, env.action_space), step_limit(env)
        online = Online(chosen, *spaces, seed, reward_range=told["reward range"], step_limit=limit)
    shown = None if not quiet and sys.stderr.isatty() else False
    with _until_interrupted() as interrupted:
        run = play_agent(
            online, env, n_steps, seed, callback=lambda epoch: not interrupted, progress=shown
        )
        out.mkdir(parents=True, exist_ok=True)
        write_json(out / "run.json", _facts(run, told))
        online.save(out / "agent.npz")
        _write(run, environment, out)
        if gif:
            _draw(run.policy, make(render_mode="rgb_array"), out / "policy.gif", seed)
    typer.echo(_summary(run, environment))
    names = f"report.html, policy.npz,{' policy.gif,' * gif} returns.csv, agent.npz, run.json"
    typer.echo(f"wrote {one_line(out)}: {names}")
    if interrupted:
        typer.echo("romdp: interrupted; go on with the same command and --resume", err=True)
        raise typer.Exit(130)


def _write(run: Any, environment: str, out: Path) -> None:
    from romdp.core.storage import write_bytes
    from romdp.reports import write_model_page

    rows = [f"{step},{total!r},{length}" for step, total, length in run.returns.tolist()]
    write_bytes(out / "returns.csv", "\n".join(["step,return,length", *rows, ""]).encode())
    run.policy.save(out / "policy.npz")
    write_model_page(run, out / "report.html", environment=environment)


def _check_drawn(env: Any, make: Any, environment: str) -> None:
    """Refuse before anything is played what cannot be drawn."""
    import gymnasium

    if find_spec("PIL") is None:
        raise InvalidInputError("--gif needs Pillow: pip install 'romdp[plot]'")
    if "rgb_array" not in env.metadata.get("render_modes", ()):
        raise InvalidInputError(f"{environment} has no pictures to draw; leave out --gif")
    try:
        drawn = make(render_mode="rgb_array")
        drawn.reset()
        drawn.render()
    except (gymnasium.error.Error, ImportError) as error:
        raise InvalidInputError(f"{environment} cannot be drawn: {error}") from error


def _draw(policy: Any, env: Any, path: Path, seed: int) -> None:
    """Draw one episode, or its first steps."""
    from gymnasium.wrappers import RenderCollection, TimeLimit
    from PIL.Image import fromarray

    from romdp.playing import evaluate_policy

    drawn = RenderCollection(TimeLimit(env, _MOST_DRAWN))
    evaluate_policy(policy, drawn, episodes=1, seed=seed)
    pictures: Any = drawn.render()
    first, *later = map(fromarray, pictures)
    wait = 1000 // env.metadata.get("render_fps", 10)
    first.save(path, save_all=True, append_images=later, duration=wait, loop=0)


@contextmanager
def _until_interrupted() -> Iterator[list[bool]]:
    """Let the first Ctrl-C fill the list that is yielded; a second one stops everything."""
    asked: list[bool] = []

    def stop(*_: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(True)
        typer.echo("romdp: stopping; Ctrl-C once more throws away what was learned", err=True)

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def _require_same(out: Path, told: dict[str, Any]) -> None:
    """Refuse to go on with other options than those that a run began with."""
    from romdp.core.storage import read_json
    from romdp.core.text import plain

    if not (out / "run.json").is_file():
        raise InvalidInputError(f"{out} holds no run of `romdp play` to go on with")
    before = read_json(out / "run.json")
    for name, value in plain(told).items():
        if not isinstance(before, dict) or before.get(name) != value:
            was = before.get(name) if isinstance(before, dict) else None
            raise InvalidInputError(
                f"{out} was played with {name} {was!r}, not {value!r}; repeat the options of the "
                "first run"
            )


def _agent(name: str, objective: str | None) -> Any:
    """Make an agent that needs no world to be made for."""
    from romdp.experiments.agents import Settings, check_blind_agents, make_agent

    check_blind_agents([name], "an environment")
    goal = None if objective is None else _number_or_name(objective)
    return make_agent(name, None, Settings(objective=goal))


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


def _facts(run: Any, told: dict[str, Any]) -> dict[str, Any]:
    from romdp import __version__
    from romdp.core.text import plain

    facts: dict[str, Any] = plain(
        {
            **told,
            "objective": str(run.objective),
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
        text += (
            f"{count(len(run.returns), 'episode')}; mean return in the last fifth of the steps: "
        )
        text += (
            f"{run.mean_return:.4g}" if run.mean_return == run.mean_return else "none ended there"
        )
        if run.success_rate == run.success_rate:
            text += f"; success rate: {run.success_rate:.1%}"
        if run.policy_value == run.policy_value:
            text += f"\nby what was learned, an episode of the policy earns {run.policy_value:.4g}"
    else:
        text += f"no episode ended; reward per step: {run.reward[-1] / steps:.4g}"
    warning = f"\nWarning: {run.warning}." if run.warning else ""
    return f"{text}\n{run.partition.n_clusters:,} groups of observations{warning}"
