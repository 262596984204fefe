"""Where work runs: here, in processes of this machine, or on a Dask cluster.

All three do the same: they are given a function and many tasks, and yield the `Outcome` of each
task as it ends. What a task raises is an outcome too, so that one failure stops nothing else.
"""

import logging
import os
import secrets
import signal
import socket
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from multiprocessing import connection, get_context, parent_process
from multiprocessing.context import SpawnProcess
from typing import Any, Protocol

from romdp.core.errors import InvalidInputError, ROMDPError
from romdp.core.validation import whole_number

Work = Callable[[Any, Callable[[Any], None]], Any]
"""``work(task, tell)``: does one task; ``tell(message)`` says how far it is. Importable."""

Listen = Callable[[str, int, Any], None]
"""``listen(worker, index, message)``: hears what the work on task ``index`` tells."""

_PATIENCE = 5.0  # seconds that a scheduler may take to answer
_MOST_DEATHS = 3  # workers that may die over one task before it is given up
_ONE_THREAD = dict.fromkeys(
    (
        *("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"),
        *("BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"),
    ),
    "1",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a task ended: with a value, or with the text of an error.

    Attributes
    ----------
    index
        Which task it was.
    value
        What the work returned; None after an error.
    error
        The traceback as text; None if all went well.
    """

    index: int
    value: Any = None
    error: str | None = None


class ClusterLostError(ROMDPError, ConnectionError):
    """The scheduler of a cluster is gone: the tasks that have no outcome were not done."""


class Executor(Protocol):
    """What runs tasks somewhere."""

    def run(
        self, work: Work, tasks: Sequence[Any], listen: Listen | None = None
    ) -> Iterator[Outcome]:
        """Do all tasks and yield each outcome as it comes, in any order."""
        ...

    def close(self) -> None:
        """Let go of whatever is held."""
        ...


def _attempt(work: Work, index: int, task: Any, tell: Callable[[Any], None]) -> Outcome:
    try:
        return Outcome(index, work(task, tell))
    except Exception:  # noqa: BLE001 - whatever a task raises is its outcome
        return Outcome(index, error=traceback.format_exc())


def _ignore(worker: str, index: int, message: Any) -> None:
    """Listen to nothing."""


class Here:
    """One task after another, in this process.

    Examples
    --------
    >>> [outcome.value for outcome in Here().run(lambda task, tell: task + 1, [1, 2])]
    [2, 3]
    """

    def run(
        self, work: Work, tasks: Sequence[Any], listen: Listen | None = None
    ) -> Iterator[Outcome]:
        """Do all tasks in their order."""
        hear = listen or _ignore
        for index, task in enumerate(tasks):
            yield _attempt(work, index, task, partial(hear, "here", index))

    def close(self) -> None:
        """Do nothing."""


class Processes:
    """Several processes of this machine, each with one thread.

    A process that dies is replaced and its task is done again, up to three times. None outlives
    this one, however it ends.

    Parameters
    ----------
    workers
        How many processes.
    """

    def __init__(self, workers: int = 1) -> None:
        self.workers = whole_number(workers, "workers", 1)

    def run(
        self, work: Work, tasks: Sequence[Any], listen: Listen | None = None
    ) -> Iterator[Outcome]:
        """Do all tasks, as many at once as there are workers."""
        hear = listen or _ignore
        waiting = deque(enumerate(tasks))
        deaths: Counter[int] = Counter()
        crew: list[_Worker] = []
        try:
            for number in range(min(self.workers, len(tasks))):
                crew.append(_Worker(f"worker {number + 1}", work))
            while True:
                for worker in crew:
                    if worker.index is None and waiting:
                        worker.give(*waiting.popleft())
                busy = {worker.pipe: worker for worker in crew if worker.index is not None}
                if not busy:
                    return
                for pipe in connection.wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    index = worker.index
                    assert index is not None
                    try:
                        said = worker.pipe.recv()
                    except (EOFError, OSError):
                        deaths[index] += 1
                        status = worker.dismiss()
                        crew[crew.index(worker)] = _Worker(worker.name, work)
                        if deaths[index] < _MOST_DEATHS:
                            waiting.appendleft((index, tasks[index]))
                        else:
                            yield Outcome(index, error=_died(status))
                        continue
                    if isinstance(said, Outcome):
                        worker.index = None
                        yield said
                    else:
                        hear(worker.name, index, said[0])
        finally:
            for worker in crew:
                worker.dismiss()

    def close(self) -> None:
        """Do nothing: processes end with `run`."""


class _Worker:
    """A process that does one task at a time, and the pipe to it."""

    def __init__(self, name: str, work: Work) -> None:
        context = get_context("spawn")
        self.name = name
        self.index: int | None = None
        self.pipe, theirs = context.Pipe()
        self._process: SpawnProcess = context.Process(
            target=_serve, args=(theirs, work), daemon=True
        )
        with _environment(_ONE_THREAD), _deaf_to_interrupts():
            self._process.start()
        theirs.close()  # so that the pipe ends when the process does

    def give(self, index: int, task: Any) -> None:
        self.index = index
        with suppress(OSError):  # a dead worker is noticed where its answer is awaited
            self.pipe.send((index, task))

    def dismiss(self) -> int | None:
        """End the process and say how it ended."""
        self.pipe.close()
        self._process.terminate()
        self._process.join()
        return self._process.exitcode


def _died(status: int | None) -> str:
    return (
        f"The worker process died {_MOST_DEATHS} times over this task, the last time with status "
        f"{status}: killed from outside, or out of memory (use fewer workers).\n"
    )


def _serve(pipe: "connection.Connection[Any, Any]", work: Work) -> None:
    """Do tasks until the pipe ends: the life of a worker process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # nobody is there any more
        while True:
            index, task = pipe.recv()
            outcome = _attempt(work, index, task, lambda message: pipe.send((message,)))
            try:
                pipe.send(outcome)
            except (TypeError, ValueError, AttributeError):  # a value that cannot be sent
                pipe.send(Outcome(index, error=traceback.format_exc()))


def _end_with_parent() -> None:
    """Wait for the parent to end, even by ``kill -9``, and end at once."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for the processes that are started inside."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Start processes that ignore Ctrl-C: the one that started them ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals can only be set from the main thread
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class Dask:
    """A Dask cluster, wherever its scheduler is.

    The scheduler gives the tasks of a worker that dies to another one. Workers need romdp
    installed, in this version.

    Parameters
    ----------
    address
        The address of the running scheduler, such as ``"tcp://10.0.0.1:8786"``.
    """

    def __init__(self, address: str) -> None:
        try:
            distributed: Any = import_module("distributed")
        except ImportError:
            raise InvalidInputError(
                "a Dask cluster needs dask.distributed: pip install 'romdp[dask]'"
            ) from None
        try:
            # A client that finds nothing waits long and ends noisily: look first.
            host, port = distributed.comm.get_address_host_port(address)
            socket.create_connection((host, port), _PATIENCE).close()
            self.client: Any = distributed.Client(address, timeout=_PATIENCE, set_as_default=False)
            logging.getLogger("distributed.client").addFilter(_is_not_said_by_us)
        except (OSError, ValueError, TypeError, ImportError) as error:
            reason = str(error).partition("\n")[0]
            raise InvalidInputError(
                f"no Dask scheduler answers at {address!r} ({reason}); start one with "
                "`dask scheduler` and pass the address that it prints"
            ) from None

    @property
    def n_workers(self) -> int:
        """How many workers the cluster has now; tasks wait for the first."""
        return len(self.client.scheduler_info(n_workers=-1)["workers"])

    def run(
        self, work: Work, tasks: Sequence[Any], listen: Listen | None = None
    ) -> Iterator[Outcome]:
        """Hand all tasks to the scheduler and yield each outcome as it comes."""
        distributed: Any = import_module("distributed")
        hear = listen or _ignore
        topic = f"romdp-{secrets.token_hex(8)}"
        self.client.subscribe_topic(topic, lambda event: hear(*event[1]))
        futures = {
            self.client.submit(
                _on_cluster, work, index, task, topic, key=f"{topic}-{index}", pure=False
            ): index
            for index, task in enumerate(tasks)
        }
        try:
            for future in distributed.as_completed(list(futures), loop=self.client.loop):
                try:
                    outcome = future.result()
                except Exception as error:
                    if future.cancelled() or self.client.status != "running":
                        raise ClusterLostError(
                            f"the Dask scheduler was lost with {len(futures)} tasks not done"
                        ) from error
                    outcome = Outcome(futures[future], error=traceback.format_exc())
                del futures[future]  # frees the result on the cluster
                yield outcome
        finally:
            with suppress(Exception):  # the scheduler may be gone
                self.client.cancel(list(futures), force=True)
                self.client.unsubscribe_topic(topic)

    def close(self) -> None:
        """Leave the cluster, which goes on running."""
        self.client.close()


def _is_not_said_by_us(record: logging.LogRecord) -> bool:
    """Leave out that a client gives up, and with which traceback: `ClusterLostError` says so."""
    return record.exc_info is None and "reconnect" not in str(record.msg)


def _on_cluster(work: Work, index: int, task: Any, topic: str) -> Outcome:
    worker: Any = import_module("distributed").get_worker()
    return _attempt(
        work, index, task, lambda message: worker.log_event(topic, (worker.name, index, message))
    )
