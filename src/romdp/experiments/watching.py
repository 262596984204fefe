"""Looking on while an experiment runs: silently, in plain lines, or live on a terminal."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import IO, Any, NamedTuple

from romdp.core.text import notebook_bar
from romdp.experiments.specification import RunSpec


class Progress(NamedTuple):
    """How far a run is; ``damage`` says, once, what was wrong with its checkpoint.

    Where ``compiling``, all it says is that kernels are compiled before the run can go on.
    """

    step: int
    regret: float
    n_clusters: int
    damage: str = ""
    compiling: bool = False


class Watcher:
    """Is told how far an experiment is, and says nothing; other watchers are made from it."""

    @contextmanager
    def watching(self, n_runs: int, n_done: int, steps: int) -> Iterator[None]:
        """Begin and end."""
        yield

    def repeated(self, run: RunSpec, what: str) -> None:
        """Learn that a stored run is damaged, and in what way: it is done again."""

    def restarted(self, run: RunSpec, step: int, what: str) -> None:
        """Learn that a run goes on from an earlier step, since its checkpoint is damaged."""

    def compiling(self) -> None:
        """Learn that a worker compiles kernels, which may take a minute; told more than once."""

    def progress(self, worker: str, run: RunSpec, progress: Progress) -> None:
        """Learn how far a run is."""

    def finished(self, run: RunSpec, facts: Mapping[str, Any]) -> None:
        """Learn that a run is done."""

    def failed(self, run: RunSpec, error: str) -> None:
        """Learn that a run failed."""


class _Writing(Watcher):
    """Says what is wrong with stored runs and checkpoints, and once that kernels are compiled."""

    _compiled = False

    def _write(self, line: str) -> None:
        raise NotImplementedError

    def compiling(self) -> None:
        """Say once that kernels are compiled."""
        if not self._compiled:
            self._compiled = True
            self._write("compiling, once for this machine ...")

    def repeated(self, run: RunSpec, what: str) -> None:
        """Say that a damaged run is done again."""
        self._write(f"{run.id} is damaged and done again: {what}")

    def restarted(self, run: RunSpec, step: int, what: str) -> None:
        """Say that a checkpoint is damaged."""
        where = f"goes on from step {step:,}, the checkpoint before" if step else "starts from zero"
        self._write(f"the checkpoint of {run.id} cannot be used ({what}); the run {where}")


class Plain(_Writing):
    """Writes a line for each run that ends.

    Parameters
    ----------
    stream
        Where to.
    """

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._count = self._total = 0

    @contextmanager
    def watching(self, n_runs: int, n_done: int, steps: int) -> Iterator[None]:
        """Begin and end."""
        self._total, self._count = n_runs, n_done
        before = f", {n_done} done before" if n_done else ""
        self._write(f"{n_runs} run{'s' if n_runs != 1 else ''} of {steps:,} steps{before}")
        yield

    def finished(self, run: RunSpec, facts: Mapping[str, Any]) -> None:
        """Write the result of a run."""
        regret = facts["regret"]
        text = "regret unknown" if regret is None else f"regret {regret:,.1f}"
        if (found := facts.get("episodes", {}).get("mean_return")) is not None:
            text = f"return {found:.4g}"
        exact = ", exact" if facts["exact"] else ""
        self._end(run, f"{text}, {facts['n_clusters']} groups{exact}, {facts['seconds']:.1f} s")

    def failed(self, run: RunSpec, error: str) -> None:
        """Write why a run failed."""
        self._end(run, f"FAILED: {last_line(error)}")

    def _end(self, run: RunSpec, text: str) -> None:
        self._count += 1
        self._write(f"[{self._count}/{self._total}] {run.id}: {text}")

    def _write(self, line: str) -> None:
        self._stream.write(f"{line}\n")
        self._stream.flush()


class _Bar(_Writing):
    """Shows one bar for all runs, and the run that was last heard of."""

    @contextmanager
    def watching(self, n_runs: int, n_done: int, steps: int) -> Iterator[None]:
        """Begin and end."""
        self._total, self._before, self._steps = n_runs, n_done, steps
        self._under_way: dict[RunSpec, int] = {}  # steps of the runs that have not ended
        self._ended: set[RunSpec] = set()
        with self._shown():
            yield
            self._update()

    def _shown(self) -> AbstractContextManager[None]:
        """Open the bar; then `_show` works."""
        raise NotImplementedError

    def _show(self, share: float, facts: str) -> None:
        raise NotImplementedError

    def progress(self, worker: str, run: RunSpec, progress: Progress) -> None:
        """Show how far a run is."""
        if run not in self._ended:  # news from a cluster may be late
            self._under_way[run] = progress.step
            facts = f"regret {progress.regret:,.0f}, {progress.n_clusters} groups"
            self._update(f"; {run.id}: {facts}")

    def finished(self, run: RunSpec, facts: Mapping[str, Any]) -> None:
        """Count a run."""
        self._ended.add(run)
        self._under_way.pop(run, None)
        self._update()

    def failed(self, run: RunSpec, error: str) -> None:
        """Count a run, and leave a line that stays."""
        self._write(f"{run.id}: FAILED: {last_line(error)}")
        self.finished(run, {})

    def _update(self, last: str = "") -> None:
        # What was done before tells nothing about the speed: the bar is for the rest.
        rest = self._total - self._before
        done = len(self._ended) + sum(self._under_way.values()) / self._steps
        count = self._before + len(self._ended)
        self._show(min(done / rest, 1.0) if rest else 1.0, f"{count} of {self._total} runs{last}")


class Live(_Bar):
    """Shows the bar on a terminal.

    Parameters
    ----------
    stream
        The terminal.
    """

    def __init__(self, stream: IO[str]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            BarColumn(bar_width=30),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=Console(file=stream),
            transient=True,
            speed_estimate_period=600,
        )

    @contextmanager
    def _shown(self) -> Iterator[None]:
        with self._bars:
            self._task = self._bars.add_task("", total=1.0)
            yield

    def _show(self, share: float, facts: str) -> None:
        self._bars.update(self._task, completed=share, description=facts)

    def _write(self, line: str) -> None:
        self._bars.console.print(line, markup=False)


class InNotebook(_Bar):
    """Shows the bar below the cell; `run_experiment` returns the runs that failed."""

    @contextmanager
    def _shown(self) -> Iterator[None]:
        self._bar = notebook_bar("all runs")
        yield

    def _show(self, share: float, facts: str) -> None:
        self._bar(share, facts)

    def _write(self, line: str) -> None:
        """Leave it: a notebook keeps nothing but the bar."""


def last_line(text: str) -> str:
    """Return the line of a traceback that says what went wrong."""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no message"
