"""A real Dask cluster on this machine, for as long as a test needs it."""

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager


@contextmanager
def cluster(directory, workers=2):
    """Start a scheduler and workers; yields its address and the workers' processes."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"tcp://127.0.0.1:{port}"
    started = []

    def start(module, *arguments):
        here = os.path.dirname(__file__)  # and every folder of tests below it
        folders = [entry.path for entry in os.scandir(here) if entry.is_dir()]
        path = os.pathsep.join([here, *folders, os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *map(str, arguments)],
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},
        )
        started.append(process)
        return process

    try:
        start("dask_scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        limit = time.monotonic() + 60
        while not _answers(port):
            assert time.monotonic() < limit
            time.sleep(0.05)
        options = ("--nthreads", 1, "--no-dashboard", "--no-nanny", "--name")
        yield (
            address,
            [start("dask_worker", address, *options, f"worker {n}") for n in range(workers)],
        )
    finally:
        for process in started:
            process.kill()
            process.wait()


def _answers(port):
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
