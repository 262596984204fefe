"""A grid of runs: specify, run, resume, store, summarise."""

from typing import TYPE_CHECKING

from romdp.lazy import lazy

if TYPE_CHECKING:
    from romdp.experiments.catalogue import AGENTS, Settings, make_agent
    from romdp.experiments.directory import RunDirectory
    from romdp.experiments.running import run_experiment
    from romdp.experiments.specification import Experiment
    from romdp.experiments.summary import summarise

__all__ = [
    "AGENTS",
    "Experiment",
    "RunDirectory",
    "Settings",
    "make_agent",
    "run_experiment",
    "summarise",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "AGENTS": "catalogue",
        "Experiment": "specification",
        "RunDirectory": "directory",
        "Settings": "catalogue",
        "make_agent": "catalogue",
        "run_experiment": "running",
        "summarise": "summary",
    },
)
