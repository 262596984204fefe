"""Many runs on two processes, one line of JSON each, so that a benchmark can be continued."""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

import romdp


def score(agent: romdp.Agent, world: romdp.ROMDP, steps: int, seed: int) -> dict[str, Any]:
    """Play once and return what benchmarks ask for."""
    playing = romdp.epochs(agent, world, steps, seed=seed)
    begin = time.perf_counter()
    for _ in playing:
        pass
    return score_playing(playing, world, time.perf_counter() - begin)


def score_playing(playing: Any, world: romdp.ROMDP, seconds: float) -> dict[str, Any]:
    """Return the figures of a finished run; groupings are compared with the truth."""
    run = playing.run
    truth = romdp.Partition(world.labels)
    starts = [int(run.epochs.start[number - 1]) for number, _ in run.groupings]
    exact = [grouping == truth for _, grouping in run.groupings]
    first_exact = None
    for start, right in zip(reversed(starts), reversed(exact), strict=True):
        if not right:
            break
        first_exact = start
    return {
        "regret": float(run.regret[-1]),
        "pseudo_regret": float(run.pseudo_regret[-1]),
        "curve_steps": run.steps.tolist(),
        "curve": np.round(run.pseudo_regret, 3).tolist(),
        "groups": run.partition.n_clusters,
        "true_groups": truth.n_clusters,
        "exact": exact[-1],
        "refines": run.partition.refines(truth),
        "misplaced": _misplaced(run.partition, truth),
        "exact_from": first_exact,
        "settled": starts[-1],
        "groups_over_time": [
            [start, grouping.n_clusters]
            for start, (_, grouping) in zip(starts, run.groupings, strict=True)
        ],
        "epochs": len(run.epochs),
        "seconds": round(seconds, 3),
    }


def _misplaced(found: romdp.Partition, truth: romdp.Partition) -> int:
    """Count the observations with a group that would have to move."""
    placed = (found.labels >= 0).astype(np.float64)
    if not placed.any():  # some agents group nothing until they have seen enough
        return 0
    return round(found.misclassification(truth, weights=placed) * placed.sum())


def run_all(
    measure: Callable[..., dict[str, Any]],
    cases: Iterable[dict[str, Any]],
    out: str | os.PathLike[str],
    workers: int = 2,
) -> list[dict[str, Any]]:
    """Measure every case that ``out`` does not hold yet; returns all rows, those of ``out`` too.

    ``measure(**case)`` must be importable. Each row is the case and what was measured.
    """
    path = Path(out)
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = list(read(path)) if path.exists() else []
    wanted = list(cases)
    done = {_key({name: row[name] for name in wanted[0]}) for row in rows} if wanted else set()
    missing = [case for case in wanted if _key(case) not in done]
    if missing:
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
            os.environ[name] = "1"
        context = multiprocessing.get_context("spawn")
        begin = time.perf_counter()
        with ProcessPoolExecutor(workers, mp_context=context) as pool, path.open("a") as file:
            futures = {pool.submit(measure, **case): case for case in missing}
            for count, future in enumerate(as_completed(futures), 1):
                if future.exception() is not None:
                    pool.shutdown(cancel_futures=True)
                row = {**futures[future], **future.result()}
                rows.append(row)
                file.write(json.dumps(row) + "\n")
                file.flush()
                spent = time.perf_counter() - begin
                print(f"{count}/{len(missing)} {spent:.0f} s {_key(futures[future])}", flush=True)
    asked = {_key(case) for case in wanted}
    return [row for row in rows if _key({name: row[name] for name in wanted[0]}) in asked]


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Read the rows of a file."""
    with path.open() as file:
        for line in file:
            yield json.loads(line)


def interval(values: Any, seed: int = 0, draws: int = 10_000) -> tuple[float, float, float]:
    """Return the mean and its bootstrap 95% interval over seeds."""
    array = np.asarray(values, np.float64)
    rng = np.random.default_rng(seed)
    means = array[rng.integers(array.size, size=(draws, array.size))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(array.mean()), float(low), float(high)


def ratio_interval(
    above: Any, below: Any, seed: int = 0, draws: int = 10_000
) -> tuple[float, float, float]:
    """Return mean(above) / mean(below), paired over seeds, and its bootstrap 95% interval."""
    a, b = np.asarray(above, np.float64), np.asarray(below, np.float64)
    rng = np.random.default_rng(seed)
    chosen = rng.integers(a.size, size=(draws, a.size))
    ratios = a[chosen].mean(axis=1) / b[chosen].mean(axis=1)
    low, high = np.percentile(ratios, [2.5, 97.5])
    return float(a.mean() / b.mean()), float(low), float(high)


def _key(case: dict[str, Any]) -> str:
    return json.dumps(case, sort_keys=True)
