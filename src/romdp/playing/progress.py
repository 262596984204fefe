"""A progress bar for one run."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from romdp.core.text import in_notebook, notebook_bar

if TYPE_CHECKING:
    from romdp.playing.player import Epoch


@contextmanager
def progress_bar(name: str, steps: int) -> "Iterator[Callable[[Epoch], None]]":
    """Show a bar on stderr, or in the notebook; yields what to call after each epoch."""
    if in_notebook():
        bar = notebook_bar(name)
        yield lambda epoch: bar(
            _done(epoch) / steps, f"{_done(epoch):,} of {steps:,} steps; {_facts(epoch)}"
        )
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} steps"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[facts]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as lines:
        task = lines.add_task(name, total=steps, facts="")
        yield lambda epoch: lines.update(task, completed=_done(epoch), facts=_facts(epoch))


def _done(epoch: "Epoch") -> int:
    return epoch.start + epoch.length


def _facts(epoch: "Epoch") -> str:
    regret = "" if math.isnan(epoch.regret) else f"regret {epoch.regret:,.0f}, "
    return f"{regret}{epoch.n_clusters} groups"
