"""How fast extended value iteration is, against a matrix product and a plain NumPy twin.

Run ``python benchmarks/planner.py`` on one core. The model: A = 4, Dirichlet(1) laws, estimates
from 200 samples per pair, rewards uniform plus their width, delta = 0.05, t = 200 S A, precision
1 / sqrt(t). "call" is `romdp.planning.extended_value_iteration` on an (S, A, S) array from a cold
start, all sweeps, with every check and the arranging of the rows; "sweep" is one more sweep on rows
that are arranged. "product" is NumPy's ``transition @ values`` on the same array. What is compared
is timed in turns, and the least of many is taken.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy loads its linear algebra

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse

from romdp.planning import by_arrival, extended_value_iteration, interval_value_iteration

ACTIONS, SAMPLES, DELTA = 4, 200, 0.05


class Call(NamedTuple):
    """Microseconds of one whole call: ours, ours on arranged rows, the NumPy twin's."""

    width: float
    sweeps: int
    call: float
    arranged: float
    twin: float


def least_times(*calls: Callable[[], object], seconds: float = 1.0) -> list[float]:
    """Least time of each call in microseconds; they take turns until the time is over."""
    repeats = []
    for call in calls:
        call()
        begin = time.perf_counter()
        call()
        repeats.append(max(1, int(5e-4 / (time.perf_counter() - begin))))
    least = [np.inf] * len(calls)
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for i, (call, n) in enumerate(zip(calls, repeats, strict=True)):
            begin = time.perf_counter()
            for _ in range(n):
                call()
            least[i] = min(least[i], (time.perf_counter() - begin) / n)
    return [1e6 * t for t in least]


def make_model(n_states: int, seed: int = 0):
    """Estimated transitions, optimistic rewards, Jaksch's widths times 0.2, and the precision."""
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.ones(n_states), size=(n_states, ACTIONS))
    estimate = rng.multinomial(SAMPLES, laws) / SAMPLES
    t = SAMPLES * n_states * ACTIONS
    width = 0.2 * np.sqrt(14 * n_states * np.log(2 * ACTIONS * t / DELTA) / SAMPLES)
    bonus = 0.2 * np.sqrt(3.5 * np.log(2 * n_states * ACTIONS * t / DELTA) / SAMPLES)
    rewards = np.minimum(1.0, rng.random((n_states, ACTIONS)) + bonus)
    return estimate, rewards, width, 1 / np.sqrt(t)


def plain_iteration(estimate, rewards, width, precision):
    """Run extended value iteration in NumPy: vectorised, without warm starts and corners.

    Returns the gain and the policy; ``width`` may be a number or one for each pair.
    """
    values = np.zeros(len(rewards))
    while True:
        order = np.argsort(values, kind="stable")
        best = order[-1]
        law = estimate.copy()
        law[..., best] = np.minimum(1.0, law[..., best] + width / 2)
        # Worst states first: keep what lies beyond the excess.
        law = law[..., order]
        excess = np.maximum(0.0, law.sum(axis=-1) - 1.0)[..., None]
        kept = np.maximum(0.0, np.cumsum(law, axis=-1) - excess)
        law = np.diff(kept, axis=-1, prepend=0.0)
        worth = rewards + law @ values[order]
        backed_up = worth.max(axis=1)
        change = backed_up - values
        values = backed_up - backed_up.min()
        if np.ptp(change) < precision:
            return (change.min() + change.max()) / 2, worth.argmax(axis=1)


def time_sweep(rows, rewards, width, product: Callable[[], object]) -> tuple[float, float]:
    """Time of one sweep and of one product; a call of 20 sweeps less one of 10 is ten sweeps."""
    widths = np.full(rewards.shape, width)

    def sweep(n: int):
        return extended_value_iteration(rows, rewards, widths, 1e-300, max_sweeps=n)

    more, fewer, least = least_times(lambda: sweep(20), lambda: sweep(10), product)
    settled = sweep(20).sweeps < 20  # nothing changes any more, and it stops
    return (np.nan if settled else (more - fewer) / 10), least


def time_calls(n_states: int, width: float | None, seconds: float = 1.0) -> Call:
    estimate, rewards, jaksch, precision = make_model(n_states)
    width = jaksch if width is None else width
    widths = np.full(rewards.shape, width)
    rows = by_arrival(estimate)
    plan = extended_value_iteration(estimate, rewards, widths, precision)
    gain, _ = plain_iteration(estimate, rewards, width, precision)
    if width < 2 and abs(plan.gain - gain) > 1e-9:
        raise AssertionError("the twins disagree")
    times = least_times(
        lambda: extended_value_iteration(estimate, rewards, widths, precision),
        lambda: extended_value_iteration(rows, rewards, widths, precision),
        lambda: plain_iteration(estimate, rewards, width, precision),
        seconds=seconds,
    )
    return Call(width, plan.sweeps, *times)


def time_dense(n_states: int, width: float) -> tuple[float, float]:
    """Microseconds of one sweep and of one dense product."""
    estimate, rewards, _, _ = make_model(n_states)
    flat, values = estimate.reshape(-1, n_states), np.random.default_rng(1).random(n_states)
    return time_sweep(by_arrival(estimate), rewards, width, lambda: flat @ values)


def time_sparse(n_states: int) -> str:
    rng = np.random.default_rng(0)
    n_rows = n_states * ACTIONS
    places = np.repeat(np.arange(n_rows), 20), rng.integers(0, n_states, 20 * n_rows)
    weights = scipy.sparse.csr_array((rng.random(20 * n_rows), places), shape=(n_rows, n_states))
    rewards, values = rng.random((n_states, ACTIONS)), rng.random(n_states)
    sweep, product = time_sweep(by_arrival(weights), rewards, 0.3, lambda: weights @ values)
    per_entry = 1e3 * sweep / weights.nnz
    return f"{sweep:>9.1f} {per_entry:>12.2f} {product:>10.1f} {sweep / product:>6.2f}"


def time_intervals(n_states: int) -> str:
    estimate, rewards, _, precision = make_model(n_states)
    share = np.log(6 * rewards.size * SAMPLES / DELTA) / SAMPLES
    slopes = np.full(rewards.shape, 0.2 * np.sqrt(share))
    offsets = np.full(rewards.shape, 0.6 * share)

    def call():
        return interval_value_iteration(estimate, rewards, slopes, offsets, precision)

    return f"{call().sweeps:>6} {least_times(call)[0]:>9.1f}"


def main() -> None:
    print("Whole calls, Jaksch's widths x 0.2 (2 and more leaves no row to look at), then 0.3")
    print(
        f"{'S':>6} {'width':>6} {'sweeps':>6} {'call us':>9} {'arranged us':>11} {'twin/call':>9}"
    )
    for n_states in (20, 30, 100, 300, 1000):
        for width in (None,) if n_states <= 30 else (None, 0.3):
            found = time_calls(n_states, width)
            print(
                f"{n_states:>6} {found.width:>6.2f} {found.sweeps:>6} {found.call:>9.1f} "
                f"{found.arranged:>11.1f} {found.twin / found.call:>9.1f}"
            )
    print("\nOne sweep against one dense product (nan: it settled before 20 sweeps)")
    print(f"{'S':>6} {'width':>6} {'sweep us':>9} {'product us':>10} {'ratio':>6}")
    for n_states in (20, 30, 100, 300, 1000):
        for width in (0.0, 0.3, 1.0, 1.9):
            sweep, product = time_dense(n_states, width)
            ratio = sweep / product
            print(f"{n_states:>6} {width:>6.1f} {sweep:>9.2f} {product:>10.2f} {ratio:>6.2f}")
    print("\nOne sweep over sparse rows, 20 ways out of each pair, width 0.3")
    print(f"{'S':>6} {'sweep us':>9} {'ns per entry':>12} {'product us':>10} {'ratio':>6}")
    for n_states in (1000, 3000, 10_000):
        print(f"{n_states:>6} {time_sparse(n_states)}")
    print("\nWhole calls inside Bernstein's intervals, scale 0.1")
    print(f"{'S':>6} {'sweeps':>6} {'call us':>9}")
    for n_states in (20, 30, 100, 300):
        print(f"{n_states:>6} {time_intervals(n_states)}")


if __name__ == "__main__":
    main()
