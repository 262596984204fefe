import os
import signal
import subprocess
import sys
import time

import pytest
from cases import cluster

from romdp.core.errors import InvalidInputError
from romdp.experiments.executors import ClusterLostError, Dask, Here, Outcome, Processes


def triple(task, tell):
    tell(f"at {task}")
    if task == "bad":
        raise ValueError("this one is bad")
    return task * 3


def die_once(path, tell):
    """Die by kill -9 the first time, and say so the second time."""
    if not os.path.exists(path):
        open(path, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return "second time"


def die_always(task, tell):
    if task == "deadly":
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def surroundings(task, tell):
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return os.getpid(), [os.environ.get(name) for name in names], signal.getsignal(signal.SIGINT)


def unsendable(task, tell):
    return lambda: None


def write_pid_and_sleep(path, tell):
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.replace(path + ".new", path)
    time.sleep(60)


def outcomes(executor, work, tasks):
    heard = []
    found = list(executor.run(work, tasks, lambda *said: heard.append(said)))
    return sorted(found, key=lambda outcome: outcome.index), heard


@pytest.mark.parametrize("executor", [Here(), Processes(2)], ids=["here", "processes"])
def test_every_task_has_its_outcome(executor):
    found, heard = outcomes(executor, triple, ["a", "bad", "c"])
    assert [outcome.index for outcome in found] == [0, 1, 2]
    assert found[0] == Outcome(0, "aaa")
    assert found[2] == Outcome(2, "ccc")
    assert found[1].value is None
    assert found[1].error.startswith("Traceback")
    assert found[1].error.endswith("ValueError: this one is bad\n")
    assert sorted(said[1:] for said in heard) == [(0, "at a"), (1, "at bad"), (2, "at c")]
    assert all(isinstance(said[0], str) for said in heard)


@pytest.mark.parametrize("executor", [Here(), Processes(2)], ids=["here", "processes"])
def test_nothing_to_do(executor):
    assert list(executor.run(triple, [])) == []
    executor.close()


def test_processes_have_one_thread_and_leave_interrupts_to_the_parent(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    handler = signal.getsignal(signal.SIGINT)
    (found,), _ = outcomes(Processes(1), surroundings, [None])
    pid, threads, interrupt = found.value
    assert pid != os.getpid()
    assert threads == ["1"] * 4
    assert interrupt == signal.SIG_IGN
    assert os.environ["OMP_NUM_THREADS"] == "7"
    assert "MKL_NUM_THREADS" not in os.environ
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_killed_process_is_replaced_and_its_task_done_again(tmp_path):
    (found,), _ = outcomes(Processes(1), die_once, [str(tmp_path / "mark")])
    assert found == Outcome(0, "second time")


def test_a_task_that_always_kills_its_process_fails_and_others_do_not():
    found, _ = outcomes(Processes(1), die_always, ["deadly", "harmless"])
    assert "died 3 times" in found[0].error
    assert "status -9" in found[0].error
    assert found[1] == Outcome(1, "harmless")


def test_a_value_that_cannot_be_sent_is_an_error():
    (found,), _ = outcomes(Processes(1), unsendable, [None])
    assert "lambda" in found.error


def test_stopping_early_ends_the_processes(tmp_path):
    path = str(tmp_path / "pid")
    executor = Processes(2).run(write_pid_or_return, [None, path])
    assert next(executor) == Outcome(0, "done")
    pid = read_pid(path)
    executor.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def write_pid_or_return(task, tell):
    return "done" if task is None else write_pid_and_sleep(task, tell)


def read_pid(path):
    limit = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < limit
        time.sleep(0.02)
    with open(path) as file:
        return int(file.read())


def test_processes_do_not_outlive_a_killed_parent(tmp_path):
    path = str(tmp_path / "pid")
    code = f"""
from romdp.experiments.executors import Processes
from test_executors import write_pid_and_sleep
if __name__ == "__main__":
    list(Processes(1).run(write_pid_and_sleep, [{path!r}]))
"""
    script = tmp_path / "parent.py"
    script.write_text(code)
    here = os.path.dirname(__file__)
    folders = os.pathsep.join([here, os.path.dirname(here)])
    environment = {**os.environ, "PYTHONPATH": folders}
    with subprocess.Popen([sys.executable, str(script)], env=environment) as parent:
        try:
            pid = read_pid(path)
        finally:
            parent.kill()
    limit = time.monotonic() + 20
    while is_running(pid):
        assert time.monotonic() < limit
        time.sleep(0.05)


def is_running(pid):
    """Whether a process lives; one that ended and was not waited for is a zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("workers", [0, -1, 1.5])
def test_a_wrong_number_of_workers(workers):
    with pytest.raises(InvalidInputError, match="workers"):
        Processes(workers)


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1:1", "nonsense", "x://y", ""])
def test_a_scheduler_that_does_not_answer_is_refused_at_once(address):
    begin = time.monotonic()
    with pytest.raises(InvalidInputError, match="no Dask scheduler answers at"):
        Dask(address)
    assert time.monotonic() - begin < 30


def test_without_dask_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InvalidInputError, match=r"pip install 'romdp\[dask\]'"):
        Dask("tcp://127.0.0.1:8786")


@pytest.mark.slow
def test_a_cluster_does_the_same(tmp_path):
    with cluster(tmp_path, workers=1) as (address, workers):
        executor = Dask(address)
        try:
            found, heard = outcomes(executor, triple, ["a", "bad", "c"])
            limit = time.monotonic() + 20
            while len(heard) < 3:  # messages travel apart from outcomes
                assert time.monotonic() < limit
                time.sleep(0.02)
            assert executor.n_workers == 1
            early = executor.run(triple, ["a", "b"])
            assert next(early).error is None
            early.close()
            assert list(executor.run(triple, [])) == []
        finally:
            executor.close()
        assert workers[0].poll() is None
    assert found[0] == Outcome(0, "aaa")
    assert found[2] == Outcome(2, "ccc")
    assert "ValueError: this one is bad" in found[1].error
    assert sorted(heard) == [
        ("worker 0", 0, "at a"),
        ("worker 0", 1, "at bad"),
        ("worker 0", 2, "at c"),
    ]


class Lost:
    """A client whose scheduler is gone after the first task."""

    status = "running"
    loop = None

    def __init__(self):
        self.futures = []

    def subscribe_topic(self, topic, handler):
        pass

    def submit(self, work, function, index, task, topic, **options):
        self.futures.append(LostFuture(index))
        return self.futures[-1]

    def cancel(self, futures, force):
        raise OSError("nobody is there")


class LostFuture:
    def __init__(self, index):
        self.index = index

    def result(self):
        if self.index:
            raise RuntimeError("cancelled for reason: lost")
        return Outcome(0, "fine")

    def cancelled(self):
        return self.index > 0


def test_a_lost_scheduler_is_no_failure_of_the_tasks(monkeypatch):
    distributed = pytest.importorskip("distributed")
    monkeypatch.setattr(distributed, "as_completed", lambda futures, loop: iter(futures))
    executor = Dask.__new__(Dask)
    executor.client = Lost()
    running = executor.run(triple, ["a", "b", "c"])
    assert next(running) == Outcome(0, "fine")
    with pytest.raises(ClusterLostError, match="lost with 2 tasks not done"):
        next(running)
