"""A grid of runs: specify, run, resume, store, summarise."""

from typing import TYPE_CHECKING

from romdp.core.lazy import lazy

if TYPE_CHECKING:
    from romdp.experiments.agents import AGENTS as AGENTS
    from romdp.experiments.agents import Settings as Settings
    from romdp.experiments.agents import make_agent as make_agent
    from romdp.experiments.directory import RunDirectory as RunDirectory
    from romdp.experiments.running import run_experiment as run_experiment
    from romdp.experiments.specification import Experiment as Experiment
    from romdp.experiments.summary import summarise as summarise

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
