"""Value iteration on dense transitions, kept by the state they arrive at.

An optimist moves probability in the order of the values: in every row it takes from the worst
arrival state first, then from the next. That order is the same for all rows, so the rows are
laid side by side, as lanes of a panel: ``panels[panel, arrival, lane]``. One pass over the
arrival states in order of value then serves all lanes at once, without sorting within rows and
without reductions, which is what vector units are good at.

Rows about which nothing is known have no lane: their optimist goes to the best state.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Bools, Floats
from romdp.core.compiled import kernel
from romdp.planning.backup import (
    SWEEPS,
    UNDAMPED,
    Arrivals,
    Integers,
    Iteration,
    Plan,
    advance,
    rank,
    slack,
    widen,
)
from romdp.planning.bounds import Radii, ends, probability_radii

_WIDEST = 512  # lanes of a panel: the buffers of one stay in the first-level cache
_GROUP = 8  # lanes that are filled together; a panel has a multiple of them


@kernel
def _total(row: NDArray[np.generic]) -> float:
    """Sum a row of weights; NaN if one of them is negative."""
    # Four sums side by side: a single one would wait for itself.
    a = b = c = d = 0.0
    negative = 0
    end = row.size - row.size % 4
    for k in range(0, end, 4):
        a += row[k]
        b += row[k + 1]
        c += row[k + 2]
        d += row[k + 3]
    for k in range(end, row.size):
        a += row[k]
    for k in range(row.size):
        negative += row[k] < 0
    return np.nan if negative else (a + b) + (c + d)


@kernel
def _transpose(
    weights: NDArray[np.generic], group: Integers, factors: Floats, page: Floats, lane: int
) -> None:
    """Write eight rows of weights, times their factors, to eight lanes of a page."""
    # Eight rows are read along and one vector is stored: three times as fast as row by row.
    a, b, c, d = weights[group[0]], weights[group[1]], weights[group[2]], weights[group[3]]
    e, f, g, h = weights[group[4]], weights[group[5]], weights[group[6]], weights[group[7]]
    p, q, r, s = factors[0], factors[1], factors[2], factors[3]
    t, u, v, w = factors[4], factors[5], factors[6], factors[7]
    for state in range(page.shape[0]):
        lanes = page[state, lane : lane + 8]
        lanes[0], lanes[1] = a[state] * p, b[state] * q
        lanes[2], lanes[3] = c[state] * r, d[state] * s
        lanes[4], lanes[5] = e[state] * t, f[state] * u
        lanes[6], lanes[7] = g[state] * v, h[state] * w


@kernel
def arrange(weights: NDArray[np.generic], known: Bools) -> tuple[Floats, Integers, Floats, int]:
    """Transpose the known rows of weights (S * A, S) into lanes, each divided by its total.

    Returns the panels, the pair of each lane, the totals of all pairs (zero if not known) and the
    first pair whose weights are not finite or negative, or -1.
    """
    n_pairs, n_states = weights.shape
    totals = np.zeros(n_pairs)
    pairs = np.empty(n_pairs, np.int64)
    n_rows = 0
    bad = -1
    for pair in range(n_pairs):
        if known[pair]:
            totals[pair] = _total(weights[pair])
            if totals[pair] > 0.0:
                pairs[n_rows] = pair
                n_rows += 1
            if bad < 0 and not np.isfinite(totals[pair]):
                bad = pair
    pairs = pairs[:n_rows]
    n_panels = max(1, -(-n_rows // _WIDEST))
    n_lanes = -(-n_rows // (n_panels * _GROUP)) * _GROUP
    panels = np.empty((n_panels, n_states, n_lanes))
    group = np.empty(_GROUP, np.int64)
    factors = np.empty(_GROUP)
    for panel in range(n_panels):
        for lane in range(0, n_lanes, _GROUP):
            for i in range(_GROUP):
                row = panel * n_lanes + lane + i
                group[i] = pairs[min(row, n_rows - 1)]
                factors[i] = 1.0 / totals[group[i]] if row < n_rows else 0.0
            _transpose(weights, group, factors, panels[panel], lane)
    return panels, pairs, totals, bad


@kernel
def find_intervals(
    panels: Floats, pairs: Integers, slopes: Floats, offsets: Floats
) -> tuple[Floats, Floats]:
    """Return lower ends and lengths of the intervals around the probabilities in ``panels``.

    The interval of a probability ``p`` is ``p -+ (slope * sqrt(p (1 - p)) + offset)`` within [0,
    1], with one slope and offset for each pair.
    """
    n_panels, n_states, n_lanes = panels.shape
    lowers = np.zeros_like(panels)
    rooms = np.zeros_like(panels)
    for panel in range(n_panels):
        mine = pairs[panel * n_lanes : (panel + 1) * n_lanes]
        slope, offset = slopes[mine], offsets[mine]
        for state in range(n_states):
            for lane in range(mine.size):
                p = panels[panel, state, lane]
                half = slope[lane] * np.sqrt(max(0.0, p * (1.0 - p))) + offset[lane]
                lower = max(0.0, p - half)
                lowers[panel, state, lane] = lower
                rooms[panel, state, lane] = min(1.0, p + half) - lower
    return lowers, rooms


class Entries(NamedTuple):
    """Intervals of the probabilities in panels: of states that a row has seen, and of others."""

    lowers: Floats  # lower ends, zero where unseen
    rooms: Floats  # what fits above them, zero where unseen
    fits: Floats  # (panels, lanes): upper end of every probability that was never seen
    missing: Floats  # (panels, lanes): what the lower ends leave of one
    supports: Floats  # (panels, lanes): how many states were seen


@kernel
def find_time_uniform(panels: Floats, pairs: Integers, totals: Floats, doubt: float) -> Entries:
    """Return the time-uniform intervals around the probabilities in ``panels``."""
    n_panels, n_states, n_lanes = panels.shape
    lowers, rooms = np.empty_like(panels), np.empty_like(panels)
    fits, missing = np.zeros((n_panels, n_lanes)), np.zeros((n_panels, n_lanes))
    supports = np.zeros((n_panels, n_lanes))
    mixed, always = np.zeros(n_lanes), np.zeros(n_lanes)
    for panel in range(n_panels):
        mine = pairs[panel * n_lanes : (panel + 1) * n_lanes]
        mixed[mine.size :] = 0.0  # lanes without a row
        missing[panel, : mine.size] = 1.0
        for lane in range(mine.size):
            allowed = probability_radii(totals[mine[lane]], n_states, doubt)
            mixed[lane], fits[panel, lane], always[lane] = allowed
        for state in range(n_states):
            for lane in range(n_lanes):
                p = panels[panel, state, lane]
                low, high = ends(p, Radii(mixed[lane], 0.0, always[lane]))
                lowers[panel, state, lane] = low
                rooms[panel, state, lane] = high - low
                missing[panel, lane] -= low
                supports[panel, lane] += p > 0.0
    return Entries(lowers, rooms, fits, missing, supports)


@kernel
def _move_and_expect(
    task: Iteration, base: Floats, room: Floats, sign: float, lanes: Floats
) -> None:
    """Add ``sum over states of (base + sign * moved) * value`` to ``lanes[0]``.

    The states are met from the best to the worst (``sign`` 1) or the other way (-1); at each a
    lane moves as much of what it has left, ``lanes[1]``, as there is room.
    """
    order, values = task.order, task.values
    expected, left = lanes[0], lanes[1]
    n_states, n_lanes = base.shape
    at, step = (0, 1) if sign > 0.0 else (n_states - 1, -1)
    rest = n_states
    waiting = 0  # every lane before this one has moved all it had
    while rest > 0:
        while waiting < n_lanes and left[waiting] <= 0.0:
            waiting += 1
        if waiting == n_lanes:
            break
        state = order[at]
        value = values[state]
        for lane in range(n_lanes):
            moved = min(room[state, lane], left[lane])
            left[lane] -= moved
            expected[lane] += (base[state, lane] + sign * moved) * value
        at += step
        rest -= 1
    # Nothing is moved any more. Four states at a time: the sums are loaded and stored less often.
    while rest >= 4:
        a, b, c, d = order[at], order[at + step], order[at + 2 * step], order[at + 3 * step]
        u, v, w, x = values[a], values[b], values[c], values[d]
        for lane in range(n_lanes):
            expected[lane] += (base[a, lane] * u + base[b, lane] * v) + (
                base[c, lane] * w + base[d, lane] * x
            )
        at += 4 * step
        rest -= 4
    while rest > 0:
        state = order[at]
        for lane in range(n_lanes):
            expected[lane] += base[state, lane] * values[state]
        at += step
        rest -= 1


@kernel
def _hand_out(task: Iteration, lanes: Floats, pairs: Integers) -> None:
    """Write the expected values of a panel's lanes to their pairs, those that `arrange` lists."""
    for lane in range(pairs.size):
        task.expected[pairs[lane]] = lanes[0, lane]


@kernel
def iterate_balls(task: Iteration, panels: Floats, pairs: Integers, widths: Floats) -> None:
    """Run extended value iteration inside L1 balls; each pair has its width.

    Half the width is added to the best state, as far as probability remains, and as much is taken
    from the worst ones (Jaksch, Ortner and Auer 2010, figure 2).
    """
    n_panels, _, n_lanes = panels.shape
    lanes = np.empty((2, n_lanes))
    halves = np.zeros(n_panels * n_lanes)
    for row in range(pairs.size):
        halves[row] = 0.5 * widths[pairs[row]]
    last = False
    while not last:
        rank(task.values, task.order)
        best = task.order[0]
        top = task.values[best]
        task.expected[:] = top
        for panel in range(n_panels):
            page = panels[panel]
            first = panel * n_lanes
            for lane in range(n_lanes):
                moved = min(halves[first + lane], 1.0 - page[best, lane])
                lanes[0, lane] = moved * top
                lanes[1, lane] = moved
            _move_and_expect(task, page, page, -1.0, lanes)
            _hand_out(task, lanes, pairs[first : first + n_lanes])
        last = advance(task)


@kernel
def iterate_intervals(task: Iteration, lowers: Floats, rooms: Floats, pairs: Integers) -> None:
    """Run extended value iteration where every probability has a lower end and some room above it.

    All probabilities start at their lower ends; what is missing to one fills the room of the best
    state, then of the next.
    """
    n_panels, n_states, n_lanes = lowers.shape
    lanes = np.empty((2, n_lanes))
    missing = np.zeros((n_panels, n_lanes))
    for panel in range(n_panels):
        used = min(n_lanes, pairs.size - panel * n_lanes)
        missing[panel, :used] = 1.0
        for state in range(n_states):
            for lane in range(used):
                missing[panel, lane] -= lowers[panel, state, lane]
    last = False
    while not last:
        rank(task.values, task.order)
        task.expected[:] = task.values[task.order[0]]
        for panel in range(n_panels):
            for lane in range(n_lanes):
                lanes[0, lane], lanes[1, lane] = 0.0, missing[panel, lane]
            _move_and_expect(task, lowers[panel], rooms[panel], 1.0, lanes)
            _hand_out(task, lanes, pairs[panel * n_lanes : (panel + 1) * n_lanes])
        last = advance(task)


@kernel
def iterate_supports(task: Iteration, entries: Entries, pairs: Integers, share: float) -> None:
    """Run extended value iteration inside intervals, on supports that are wide enough (`widen`).

    The states seen and the best one are filled first, for all lanes at once. Only where the other
    states could add more than is allowed the lane is looked at by itself.

    How many states a support needs depends on the values, and they on it: chosen anew at every
    sweep, the numbers may go round in a circle. So from `UNDAMPED` sweeps on they only grow, and
    the best state counts as one of them where it was not seen: a row must not gain or lose a state
    because two states swap their ranks. A number is at most S, so it is soon fixed, and the sweeps
    are then those of a single model. A larger support can only raise what is expected, so the plan
    is as optimistic as before.
    """
    order, values = task.order, task.values
    n_panels, n_states, n_lanes = entries.lowers.shape
    lanes = np.empty((2, n_lanes))
    outside, spare, news = np.empty(n_lanes), np.empty(n_lanes), np.empty(n_lanes, np.int64)
    held = np.zeros((n_panels, n_lanes), np.int64)  # unseen states that a support keeps
    last = False
    while not last:
        keeps = task.progress[SWEEPS] >= UNDAMPED
        rank(values, order)
        best = order[0]
        top = values[best]
        task.expected[:] = top
        for panel in range(n_panels):
            lowers, rooms = entries.lowers[panel], entries.rooms[panel]
            fits, missing = entries.fits[panel], entries.missing[panel]
            for lane in range(n_lanes):
                news[lane] = rooms[best, lane] <= 0.0
                moved = min(news[lane] * fits[lane], missing[lane])
                lanes[0, lane], lanes[1, lane] = moved * top, missing[lane] - moved
                if keeps:
                    held[panel, lane] = max(held[panel, lane], news[lane])
            _move_and_expect(task, lowers, rooms, 1.0, lanes)
            outside[:] = 0.0
            spare[:] = 1.0
            for i in range(1, n_states):
                value, room = values[order[i]], rooms[order[i]]
                for lane in range(n_lanes):
                    moved = min(fits[lane], spare[lane]) if room[lane] <= 0.0 else 0.0
                    spare[lane] -= moved
                    outside[lane] += moved * value
            for lane in range(min(n_lanes, pairs.size - panel * n_lanes)):
                allowed = min(share * top * entries.supports[panel, lane], lanes[0, lane])
                least = held[panel, lane]
                if least > news[lane] or outside[lane] > allowed:
                    room, gap = rooms[:, lane], missing[lane]
                    added, extra = widen(task, room, fits[lane], gap, allowed, least)
                    lanes[0, lane] += added
                    if keeps:
                        held[panel, lane] = extra
            _hand_out(task, lanes, pairs[panel * n_lanes : (panel + 1) * n_lanes])
        last = advance(task)


class DenseArrivals(Arrivals):
    """Transitions of an array (S, A, S)."""

    def __init__(self, weights: NDArray[Any], known: Bools) -> None:
        self.shape = known.shape[0], known.shape[1]
        rows = np.ascontiguousarray(weights).reshape(-1, weights.shape[-1])
        self._panels, self._pairs, totals, bad = arrange(rows, known.reshape(-1))
        if bad >= 0:
            self._refuse(bad, rows[bad])
        self.totals = totals.reshape(self.shape)

    def solve_balls(self, task: Iteration, widths: Floats) -> Plan:
        """Run extended value iteration inside L1 balls."""
        iterate_balls(task, self._panels, self._pairs, widths.reshape(-1))
        return Plan.of(task)

    def solve_intervals(self, task: Iteration, slopes: Floats, offsets: Floats) -> Plan:
        """Run extended value iteration inside intervals."""
        lowers, rooms = find_intervals(
            self._panels, self._pairs, slopes.reshape(-1), offsets.reshape(-1)
        )
        iterate_intervals(task, lowers, rooms, self._pairs)
        return Plan.of(task)

    def solve_time_uniform(self, task: Iteration, doubt: float) -> Plan:
        """Run extended value iteration inside time-uniform intervals."""
        totals = self.totals.reshape(-1)
        entries = find_time_uniform(self._panels, self._pairs, totals, doubt)
        iterate_supports(task, entries, self._pairs, slack(totals))
        return Plan.of(task)
