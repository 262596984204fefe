"""Agents by name, as a comparison makes them.

All optimistic agents of a comparison use the same confidence sets, so that what differs between
their curves is the agent.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import Any, Literal

from romdp.agents.agent import Agent
from romdp.agents.recipes import LCPSRL, LCUCRL, PSRL, SLUCRL, UCRL2, UCRL3, Oracle, TwoPhase
from romdp.clustering.spectral import Spectral
from romdp.core.errors import InvalidInputError
from romdp.core.lazy import find_modules_here
from romdp.core.validation import check, choice, real_number, shown
from romdp.exact.mdp import MDP
from romdp.exact.objectives import parse_optional
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.planning.confidence import Bernstein, Hoeffding
from romdp.planning.timeuniform import TimeUniform
from romdp.playing.agent_files import agent_from, agent_to_dict

SETS = ("time-uniform", "paper", "jaksch", "bernstein")
"""Confidence sets by name, for `Settings` and ``--sets``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the agents of a comparison share.

    Parameters
    ----------
    sets
        The confidence sets of all optimistic agents: ``"time-uniform"`` (the default; ``ucrl3``
        always has them), ``"paper"`` (``sl-ucrl-paper`` always has them), ``"jaksch"`` or
        ``"bernstein"``.
    scale
        Multiplies the widths of all sets but the time-uniform ones, which need none. A scale
        without ``sets`` means the paper's sets.
    delta
        The probability that the truth may lie outside them.
    unknown_states
        Whether SL-UCRL is not told the number of hidden states.
    factor
        Multiplies SL-UCRL's bound and its overlap widths; by default 1, and 0.5 for an MDP, where
        there are no hidden states to find (`fig:comparisonCar`).
    constant
        C in the bound of ``sl-ucrl-paper``, which the paper does not give.
    objective
        What all agents but the baselines maximise: ``"average"``, ``"episodic"``, ``"episodic:H"``
        with a horizon, or a discount. By default the reward per step, and that of an episode in a
        Gymnasium environment.
    """

    scale: float | None = None
    delta: float = 0.05
    unknown_states: bool = False
    factor: float | None = None
    constant: float = 1.0
    sets: Literal["time-uniform", "paper", "jaksch", "bernstein"] | None = None
    objective: str | float | None = None

    def __post_init__(self) -> None:
        if self.sets is not None:
            choice(self.sets, "sets", SETS)
        if self.scale is not None:
            real_number(self.scale, "scale", 0.0)
            if self.chosen_sets == "time-uniform":
                raise InvalidInputError(
                    "time-uniform sets hold as they are and have no scale; leave it out, or choose "
                    "other sets"
                )
        real_number(self.delta, "delta", 0.0, 1.0, open_low=True, open_high=True)
        if not isinstance(self.unknown_states, bool):
            raise InvalidInputError(
                f"unknown_states is {shown(self.unknown_states)}; pass true or false"
            )
        if self.factor is not None:
            real_number(self.factor, "factor", 0.0, open_low=True)
        real_number(self.constant, "constant", 0.0)
        parse_optional(self.objective)

    @property
    def chosen_sets(self) -> str:
        """The name of the confidence sets, also where ``sets`` does not say it."""
        return self.sets or ("time-uniform" if self.scale is None else "paper")

    @property
    def confidence(self) -> Hoeffding | Bernstein | TimeUniform:
        """The confidence sets of all optimistic agents."""
        scale = 1.0 if self.scale is None else self.scale
        if self.chosen_sets == "time-uniform":
            return TimeUniform()
        if self.chosen_sets == "bernstein":
            return Bernstein(scale)
        return Hoeffding(scale, "jaksch" if self.chosen_sets == "jaksch" else "paper")

    @property
    def group_confidence(self) -> Hoeffding | TimeUniform:
        """The sets of SL-UCRL, whose minimal clustering knows no Bernstein sets."""
        if isinstance(self.confidence, Bernstein):
            raise InvalidInputError("SL-UCRL has no Bernstein sets; choose other sets or agents")
        return self.confidence

    @property
    def baseline_settings(self) -> dict[str, Any]:
        """What the baselines are told: the discount, if the objective is one."""
        goal = parse_optional(self.objective)
        told = goal is not None and goal.kind == "discounted"
        return {"discount": goal.rate} if goal is not None and told else {}

    def to_dict(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

    def __str__(self) -> str:
        if self.chosen_sets == "time-uniform":
            return f"time-uniform confidence sets, delta {self.delta:g}"
        kind = "Bernstein" if self.chosen_sets == "bernstein" else "Hoeffding"
        constants = "" if kind == "Bernstein" else f" with the constants of {self.chosen_sets!r}"
        scale = 1.0 if self.scale is None else self.scale
        return f"{kind} confidence sets{constants} times {scale:g}, delta {self.delta:g}"


Maker = Callable[[ROMDP, Settings, int | None, float], Agent]


def _sl_ucrl(**parts: Any) -> Maker:
    """Return the maker of SL-UCRL with other parts than those that it has by itself."""

    def make(world: ROMDP, settings: Settings, n_states: int | None, factor: float) -> Agent:
        sets = settings.group_confidence
        return SLUCRL(n_states, sets, settings.delta, factor=factor, **parts)

    return make


def _sl_ucrl_paper(world: ROMDP, settings: Settings, n_states: int | None, factor: float) -> Agent:
    return SLUCRL(
        n_states,
        Hoeffding(1.0 if settings.scale is None else settings.scale),
        settings.delta,
        spectral=Spectral.paper(settings.constant, delta=settings.delta, factor=factor),
        factor=factor,
        counting="paper",
        homogeneity=False,
    )


AGENTS: dict[str, Maker] = {
    "sl-ucrl": _sl_ucrl(),
    "sl-ucrl-spectral": _sl_ucrl(homogeneity=False),
    "sl-ucrl-paper": _sl_ucrl_paper,
    "sl-ucrl-matrix": _sl_ucrl(method="matrix"),
    "lc-ucrl": lambda world, settings, *_: LCUCRL(settings.confidence, settings.delta),
    "lc-psrl": lambda *_: LCPSRL(),
    "ucrl2": lambda world, settings, *_: UCRL2(settings.confidence, settings.delta),
    "ucrl3": lambda world, settings, *_: UCRL3(settings.delta),
    "psrl": lambda *_: PSRL(),
    "oracle": lambda world, settings, *_: Oracle(
        world.labels, confidence=settings.confidence, delta=settings.delta
    ),
    "oracle-psrl": lambda world, *_: Oracle(world.labels, planner="posterior"),
    "two-phase": lambda world, settings, *_: TwoPhase(settings.confidence, settings.delta),
}
"""Makers of the agents that `romdp.play` plays."""

BASELINE_NAMES = ("dqn", "q-learning")
"""Agents with a loop of their own, which `romdp.baselines` plays."""

_TOLD = ("oracle", "oracle-psrl")


@dataclass(frozen=True)
class Own:
    """An agent of somebody's own in an experiment.

    Attributes
    ----------
    about
        What a file keeps of it: plain data from which it is made again, or, where it has parts of
        others' making, how it prints.
    agent
        The agent; None if the file does not say enough to make it.
    """

    about: Any
    agent: Agent | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(cls, agent: Agent) -> "Own":
        """Describe an agent."""
        return cls(agent_to_dict(agent) or repr(agent), agent)

    @classmethod
    def read(cls, about: Any) -> "Own":
        """Read what a file keeps."""
        return cls(about, agent_from(about) if isinstance(about, dict) else None)


def _from_factory(name: str) -> Agent:
    """Call the factory that ``module:factory`` names, without arguments."""
    module, _, factory = name.partition(":")
    find_modules_here(name)
    try:
        made = getattr(import_module(module), factory)()
    except Exception as error:
        raise InvalidInputError(
            f"agent {name!r} cannot be made: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(made, Agent):
        raise InvalidInputError(
            f"agent {name!r} is a {type(made).__name__}; the factory must return a romdp.Agent"
        )
    return made


def check_blind_agents(names: Sequence[str], world: str) -> None:
    """Refuse agents that must be told the truth, in a world about which nobody knows it."""
    for name in names:
        if name in _TOLD:
            raise InvalidInputError(
                f"agent {name!r} must be told the hidden states, which nobody knows about {world}; "
                "leave it out"
            )


def make_agent(
    name: str, world: ROMDP | MDP | None, settings: Settings | None = None, own: Own | None = None
) -> Agent:
    """Make an agent by its name, for a world, or take one that is somebody's own.

    ``module:factory`` calls a function without arguments; the module may lie in the current folder.
    Only the oracles read the true labels; SL-UCRL is told their number unless the settings say
    otherwise. An MDP has no hidden states that could be told. ``world`` is None where nothing is
    known about it.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(seed=0)
    >>> make_agent("sl-ucrl-matrix", world, Settings(scale=0.1)).name
    'sl-ucrl-matrix'
    """
    check(name, "name", str)
    check(settings, "settings", None, Settings)
    check(own, "own", None, Own)
    chosen = settings or Settings()
    if own is not None:
        if own.agent is None:
            raise InvalidInputError(
                f"agent {name!r} has parts that no file can hold; go on where it was made, with "
                "RunDirectory.begin(path, experiment), or name it as module:factory"
            )
        return _named(own.agent, name, chosen)
    if ":" in str(name):
        return _named(_from_factory(name), name, chosen)
    maker = AGENTS[choice(name, "agent", AGENTS)]
    told = not chosen.unknown_states and not isinstance(world, MDP)
    factor = chosen.factor
    if world is None:
        # No maker but those of the oracles looks at the world.
        return _named(maker(None, chosen, None, factor or 1.0), name, chosen)  # type: ignore[arg-type]
    hidden = as_romdp(world)
    if factor is None:
        factor = 0.5 if isinstance(world, MDP) else 1.0
    return _named(maker(hidden, chosen, hidden.n_states if told else None, factor), name, chosen)


def _named(agent: Agent, name: str, settings: Settings) -> Agent:
    """Give an agent its name and, if the settings say one, its objective."""
    planner: Any = agent.planner
    if settings.objective is not None:
        planner = replace(planner, objective=settings.objective)
    return replace(agent, planner=planner, name=name)


def check_agents(names: Sequence[str], own: Iterable[str] = ()) -> None:
    """Refuse names that are unknown or given twice."""
    for name in names:
        if isinstance(name, str) and ":" in name:
            _from_factory(name)
        elif name not in own:
            choice(name, "agent", (*AGENTS, *BASELINE_NAMES))
        if names.count(name) > 1:
            raise InvalidInputError(f"agent {name!r} is given twice; give one another name")
