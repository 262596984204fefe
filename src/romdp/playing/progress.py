"""A progress bar for one run."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from romdp.playing.player import Epoch


@contextmanager
def progress_bar(name: str, steps: int) -> "Iterator[Callable[[Epoch], None]]":
    """Show a bar on stderr while the context lasts; yields what to call after each epoch."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} steps"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[facts]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=steps, facts="")

        def show(epoch: "Epoch") -> None:
            facts = f"regret {epoch.regret:,.0f}, {epoch.n_clusters} groups"
            bar.update(task, completed=epoch.start + epoch.length, facts=facts)

        yield show
