"""check_agent: every rule, in every small world."""

from romdp.agents.agent import Agent, require_agent
from romdp.core.validation import whole_number
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.playing.checks.case import Case
from romdp.playing.checks.rules import RULES
from romdp.worlds.named import random_romdp


def check_agent(
    agent: Agent, world: ROMDP | MDP | None = None, steps: int = 200, seed: int = 0
) -> None:
    """Run an agent through what every agent must satisfy.

    - The agent is a description: playing does not change it, nor any global generator.
    - Its table holds an action for every observation.
    - The same seed gives the same run, also with another play of the same agent under way.
    - Playing some steps and going on from a checkpoint equals playing all of them, bit by bit.
    - Saving and loading changes nothing.
    - Counts are those of all steps so far, also when it groups and plans (the latter is looked
      at where it has a ``clusterer`` and a ``planner``, as `Agent` has, and forgets nothing).
    - Compiled play, and a loop of one's own over the same stream, agree bit by bit.
    - It plays in a Gymnasium environment, and acts on observations that it has never seen.

    Parameters
    ----------
    agent
        An `Agent`, or anything else that `romdp.play` takes.
    world
        Where to play. By default in three small random worlds: an ordinary one, one with a
        single hidden state and one with a single action. An agent that fits one world only,
        such as the oracle, needs that one.
    steps
        How many steps a run has, at least 20.
    seed
        Seeds every run.

    Raises
    ------
    CheckError
        At the first rule that is broken.

    Examples
    --------
    >>> import romdp
    >>> check_agent(romdp.PSRL(), steps=50)
    """
    require_agent(agent)
    length = whole_number(steps, "steps", 20)
    start = whole_number(seed, "seed", 0)
    worlds = _small_worlds() if world is None else {"the given world": as_romdp(world)}
    for place, romdp in worlds.items():
        case = Case(agent, romdp, place, length, start)
        with case.refusing_errors(), case.leaving_no_trace():
            for check in RULES:
                check(case)


def _small_worlds() -> dict[str, ROMDP]:
    return {
        "a random world": random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1),
        "a one-state world": random_romdp(n_states=1, n_actions=2, n_observations=4, seed=2),
        "a one-action world": random_romdp(n_states=3, n_actions=1, n_observations=6, seed=3),
    }
