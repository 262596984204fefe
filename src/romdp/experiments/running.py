"""Doing an experiment: the work of one run, and all that are missing."""

import platform
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from romdp import __version__
from romdp.core.arrays import Ints
from romdp.core.compiled import on_compilation
from romdp.core.errors import MisuseError, StorageError, StructureError, WriteError
from romdp.core.text import SECONDS, in_notebook, plain
from romdp.core.validation import takes
from romdp.data.partition import Partition
from romdp.exact.romdp import as_romdp
from romdp.experiments.agents import BASELINE_NAMES, Own, Settings, make_agent
from romdp.experiments.directory import RunDirectory
from romdp.experiments.executors import Executor, Here
from romdp.experiments.specification import RunSpec
from romdp.experiments.store import pack, tables_of
from romdp.experiments.summary import slope, summarise
from romdp.experiments.watching import InNotebook, Progress, Watcher
from romdp.experiments.worlds import EnvironmentWorld, WorldSpec
from romdp.playing import Run, epochs
from romdp.playing.checkpoint import delete_checkpoint, step_back

_VERSIONS = ("numpy", "scipy", "numba", "pyarrow")


@dataclass(frozen=True)
class Task:
    """One run, with everything that a worker needs to do it."""

    run: RunSpec
    world: WorldSpec
    observations: int | None
    settings: Settings
    steps: int
    seed: int
    checkpoint: str
    checkpoint_seconds: float
    own: Own | None = None
    romdp: str = __version__


@dataclass(frozen=True)
class Finished:
    """What a worker sends back: the facts of the run and its packed tables."""

    facts: dict[str, Any]
    tables: dict[str, bytes]


def do_task(task: Task, tell: Callable[[Progress], None]) -> Finished:
    """Do one run: what executors are given as work."""
    if task.romdp != __version__:
        raise MisuseError(f"this worker has romdp {__version__}, the experiment {task.romdp}")
    started = time.perf_counter()
    with _telling_of_compilation(tell):
        world = task.world.make(task.observations, task.run.replicate)
        run, resumed = _play(task, world, tell)
    gain, episodes = None, {}
    if isinstance(task.world, EnvironmentWorld):
        unknown = np.full(task.run.n_observations, -1, np.int64)
        labels = getattr(world, "labels", unknown)
        episodes = {
            "episodes": {
                "number": len(run.returns),
                "mean_return": run.mean_return,
                "success_rate": run.success_rate,
            }
        }
    else:
        hidden = as_romdp(world)
        labels = hidden.labels
        with suppress(StructureError):
            gain = hidden.hidden.gain
    facts: dict[str, Any] = {
        "id": task.run.id,
        "regret": run.regret[-1],
        "pseudo_regret": run.pseudo_regret[-1],
        "slope": slope(run.steps, run.pseudo_regret),
        "n_clusters": run.partition.n_clusters,
        "gain": gain,
        **grouping_facts(run, labels),
        "resumed": resumed,  # the wall time then is that of the last part
        "seconds": time.perf_counter() - started,
        **_environment(),
        **episodes,
    }
    return Finished(plain(facts), pack(tables_of(run, labels)))


@contextmanager
def _telling_of_compilation(tell: Callable[[Progress], None]) -> Iterator[None]:
    """Tell once that kernels are compiled: it takes a while, and no run gets further."""
    told: list[str] = []

    def hear(kernel: str) -> None:
        told.append(kernel)
        if len(told) == 1:
            tell(Progress(0, 0.0, 0, compiling=True))

    stop = on_compilation(hear)
    try:
        yield
    finally:
        stop()


def grouping_facts(run: Run, hidden_states: Ints) -> dict[str, Any]:
    """Score the final grouping against the truth.

    Returns
    -------
    dict
        ``exact``: it is the truth; ``refines``: no group mixes hidden states;
        ``steps_to_exact``: the step from which on it was the truth, None if it is not.
    """
    truth = Partition(hidden_states)
    exact = run.partition == truth
    since = None
    if exact:
        # A grouping is noted when it changes: the last one noted is the one that stayed.
        epoch = run.groupings[-1][0] if run.groupings else 1
        since = int(run.epochs.start[epoch - 1]) if len(run.epochs) else 0
    return {"exact": exact, "refines": run.partition.refines(truth), "steps_to_exact": since}


@cache
def _environment() -> dict[str, Any]:
    return {
        "machine": f"{platform.system()} {platform.machine()} {platform.python_version()}",
        "versions": {"romdp": __version__} | {name: version(name) for name in _VERSIONS},
    }


def _play(task: Task, world: Any, tell: Callable[[Progress], None]) -> tuple[Run, bool]:
    seed = task.run.stream(task.seed)
    tell(Progress(0, 0.0, task.run.n_observations))
    if task.own is None and task.run.agent in BASELINE_NAMES:
        from romdp.playing.baselines import play_baseline

        own = task.settings.baseline_settings
        return play_baseline(task.run.agent, world, task.steps, seed, **own), False
    known = not isinstance(task.world, EnvironmentWorld)
    agent = make_agent(task.run.agent, world if known else None, task.settings, task.own)
    checkpoint = Path(task.checkpoint)
    # A worker elsewhere may not see the directory, and an environment cannot be saved: they play
    # without a checkpoint.
    kept = checkpoint if known and checkpoint.parent.is_dir() else None
    damage = ""
    while True:
        try:
            playing = epochs(
                agent,
                world,
                task.steps,
                seed,
                checkpoint=kept,
                checkpoint_seconds=task.checkpoint_seconds,
                reward_range=getattr(task.world, "reward_range", None),
            )
            break
        except WriteError:
            raise
        except StorageError as error:
            # Damaged, or of another version: the run is the same wherever it begins.
            damage = damage or str(error.__cause__ or error)
            if not step_back(checkpoint):
                raise
    resumed = playing.state.step > 0
    if damage:
        tell(Progress(playing.state.step, 0.0, task.run.n_observations, damage))
    told = time.monotonic()
    with closing(iter(playing)) as rest:
        for epoch in rest:
            step = epoch.start + epoch.length
            if time.monotonic() - told >= SECONDS:
                told = time.monotonic()
                tell(Progress(step, float(epoch.regret), epoch.n_clusters))
            if step >= task.steps:
                break  # no checkpoint of a run that is over
    return playing.run, resumed


@takes(directory=RunDirectory, executor=(None, "run"), watcher=(None, "watching"))
def run_experiment(
    directory: RunDirectory,
    executor: Executor | None = None,
    watcher: Watcher | None = None,
    *,
    checkpoint_seconds: float = 30.0,
) -> list[RunSpec]:
    """Do all runs that are missing, and summarise.

    A run that fails leaves its error in the directory and stops no other. Whatever ends this
    early, a second call does exactly what is then missing, and the tables are the same to the
    bit.

    Parameters
    ----------
    directory
        As `RunDirectory.create` or `RunDirectory.open` gives it.
    executor
        Where the work runs: `Here` by default, `Processes` or `Dask`.
    watcher
        Is told how far it is. By default a notebook shows a bar, and nothing is shown elsewhere.
    checkpoint_seconds
        How often a run under way is kept.

    Returns
    -------
    list of RunSpec
        The runs that failed.
    """
    watch = watcher or (InNotebook() if in_notebook() else Watcher())
    failed: list[RunSpec] = []
    runs = directory.experiment.runs
    with directory.lock():
        directory.prepare()
        with directory.store(writing=True) as store:
            stored = store.read()
            todo = [run for run in runs if run not in stored.finished]
            directory.delete_stale_files(todo)
            tasks = _tasks(directory, todo, checkpoint_seconds)

            def hear(worker: str, place: int, told: tuple[Any, ...]) -> None:
                progress = Progress(*told)  # a cluster turns what is told into plain tuples
                if progress.compiling:
                    watch.compiling()
                    return
                if progress.damage:
                    watch.restarted(todo[place], progress.step, progress.damage)
                watch.progress(worker, todo[place], progress)

            with watch.watching(len(runs), len(runs) - len(todo), directory.experiment.steps):
                for run, what in stored.damaged.items():
                    watch.repeated(run, what)
                outcomes = (executor or Here()).run(do_task, tasks, hear)
                with closing(outcomes):  # type: ignore[type-var]
                    for outcome in outcomes:
                        run = todo[outcome.index]
                        if outcome.error is None:
                            store.put(run, outcome.value.facts, outcome.value.tables)
                            delete_checkpoint(directory.checkpoint(run))
                            watch.finished(run, outcome.value.facts)
                        else:
                            store.put(run, {"error": outcome.error}, {})
                            failed.append(run)
                            watch.failed(run, outcome.error)
        directory.write_summary(summarise(directory))
    return failed


def _tasks(directory: RunDirectory, todo: list[RunSpec], checkpoint_seconds: float) -> list[Task]:
    experiment = directory.experiment
    worlds = {spec.label: spec for spec in experiment.worlds}
    path = directory.path.resolve()
    return [
        Task(
            run,
            worlds[run.world],
            None if experiment.observations is None else run.n_observations,
            experiment.settings,
            experiment.steps,
            experiment.seed,
            str(path / directory.checkpoint(run).relative_to(directory.path)),
            checkpoint_seconds,
            experiment.own.get(run.agent),
        )
        for run in todo
    ]
