"""Value iteration on sparse transitions, kept by the state they arrive at.

The same walk as in ``romdp.planning.dense``: arrival states in the order of their values, and at
each the rows that can arrive there. A sweep costs one pass over the non-zero entries and the
ranking of the states.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from romdp.core.arrays import Bools, Floats
from romdp.core.compiled import kernel
from romdp.data.transitions import canonical
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
from romdp.planning.bounds import ends, probability_radii
from romdp.planning.rows import SparseRows


class Lists(NamedTuple):
    """The entries of each arrival state ``s``: those from ``starts[s]`` to ``starts[s + 1]``."""

    starts: Integers
    rows: Integers
    probabilities: Floats


@kernel
def arrange(matrix: SparseRows, known: Bools, n_states: int) -> tuple[Lists, Integers, Floats, int]:
    """Turn the known rows into lists by arrival state, each row divided by its total.

    Returns the lists, the pair of each row, the totals of all pairs (zero if not known) and the
    first pair whose weights are not finite or negative, or -1.
    """
    heads, columns, weights = matrix.indptr, matrix.indices, matrix.data
    totals = np.zeros(known.size)
    pairs = np.empty(known.size, np.int64)
    starts = np.zeros(n_states + 1, np.int64)
    n_rows = 0
    bad = -1
    for pair in range(known.size):
        if not known[pair]:
            continue
        total = 0.0
        for k in range(heads[pair], heads[pair + 1]):
            total += weights[k] if weights[k] >= 0 else np.nan
        totals[pair] = total
        if bad < 0 and not np.isfinite(total):
            bad = pair
        if total > 0.0:
            pairs[n_rows] = pair
            n_rows += 1
            for k in range(heads[pair], heads[pair + 1]):
                starts[columns[k] + 1] += 1
    pairs = pairs[:n_rows]
    for state in range(n_states):
        starts[state + 1] += starts[state]
    free = starts[:-1].copy()
    rows = np.empty(starts[-1], np.int64)
    probabilities = np.empty(starts[-1])
    for row in range(n_rows):
        pair = pairs[row]
        for k in range(heads[pair], heads[pair + 1]):
            place = free[columns[k]]
            rows[place] = row
            probabilities[place] = weights[k] / totals[pair]
            free[columns[k]] += 1
    return Lists(starts, rows, probabilities), pairs, totals, bad


@kernel
def _hand_out(task: Iteration, top: float, shares: Floats, pairs: Integers) -> None:
    """Let pairs that are known expect their shares, and all others the best.

    Here and below arrays are copied one entry at a time: the checks of whole copies take numba
    three seconds to compile.
    """
    task.expected[:] = top
    for row in range(pairs.size):
        task.expected[pairs[row]] = shares[row]


@kernel
def iterate_balls(task: Iteration, lists: Lists, pairs: Integers, widths: Floats) -> None:
    """Run extended value iteration inside L1 balls; the twin of the dense one."""
    starts, rows, probabilities = lists.starts, lists.rows, lists.probabilities
    values, order = task.values, task.order
    halves = np.minimum(0.5 * widths[pairs], 1.0)
    shares = np.empty(pairs.size)
    left = np.empty(pairs.size)
    last = False
    while not last:
        rank(values, order)
        best = order[0]
        top = values[best]
        for row in range(pairs.size):
            left[row] = halves[row]
        for k in range(starts[best], starts[best + 1]):
            left[rows[k]] = min(left[rows[k]], 1.0 - probabilities[k])
        for row in range(pairs.size):
            shares[row] = left[row] * top
        for i in range(values.size - 1, -1, -1):
            state = order[i]
            value = values[state]
            for k in range(starts[state], starts[state + 1]):
                row = rows[k]
                moved = min(probabilities[k], left[row])
                left[row] -= moved
                shares[row] += (probabilities[k] - moved) * value
        _hand_out(task, top, shares, pairs)
        last = advance(task)


@kernel
def iterate_intervals(
    task: Iteration, lowers: Lists, rooms: Floats, pairs: Integers, offsets: Floats
) -> None:
    """Run extended value iteration inside intervals; the twin of the dense one.

    The entries of ``lowers`` are lower ends, ``rooms`` what fits above them. An arrival that was
    never seen has the lower end 0 and its row's offset as room; the states are walked only until
    every row is full, so few of these are ever met.
    """
    starts, rows, probabilities = lowers.starts, lowers.rows, lowers.probabilities
    values, order = task.values, task.order
    shares = np.empty(pairs.size)
    left = np.empty(pairs.size)
    room = offsets.copy()
    missing = np.ones(pairs.size)
    for k in range(rows.size):
        missing[rows[k]] -= probabilities[k]
    waiting = np.empty(pairs.size + 1, np.int64)
    last = False
    while not last:
        rank(values, order)
        shares[:] = 0.0
        for state in range(values.size):
            for k in range(starts[state], starts[state + 1]):
                shares[rows[k]] += probabilities[k] * values[state]
        n_waiting = 0
        for row in range(pairs.size):
            left[row] = missing[row]
            waiting[n_waiting] = row
            n_waiting += 1 if left[row] > 0.0 else 0
        for i in range(values.size):
            if n_waiting == 0:
                break
            state = order[i]
            for k in range(starts[state], starts[state + 1]):
                room[rows[k]] = rooms[k]
            still = 0
            for j in range(n_waiting):
                row = waiting[j]
                moved = min(room[row], left[row])
                left[row] -= moved
                shares[row] += moved * values[state]
                waiting[still] = row
                still += 1 if left[row] > 0.0 else 0
            n_waiting = still
            for k in range(starts[state], starts[state + 1]):
                room[rows[k]] = offsets[rows[k]]
        _hand_out(task, values[order[0]], shares, pairs)
        last = advance(task)


class RowEntries(NamedTuple):
    """Intervals of the probabilities seen, in the order of the lists, and of those unseen."""

    lowers: Floats
    rooms: Floats
    fits: Floats  # (rows,): upper end of every probability that the row has never seen
    missing: Floats  # (rows,): what the lower ends leave of one
    starts: Integers  # entries of row r: those from starts[r] to starts[r + 1]
    states: Integers  # arrival state of each entry, by row
    places: Integers  # where each entry is in the lists, by row


@kernel
def find_time_uniform(lists: Lists, n_per_row: Floats, doubt: float) -> RowEntries:
    """Return the time-uniform intervals around the probabilities in ``lists``."""
    n_rows = n_per_row.size
    starts = np.zeros(n_rows + 1, np.int64)
    for row in lists.rows:
        starts[row + 1] += 1
    for row in range(n_rows):
        starts[row + 1] += starts[row]
    free = starts[:-1].copy()
    states, places = np.empty(lists.rows.size, np.int64), np.empty(lists.rows.size, np.int64)
    for state in range(lists.starts.size - 1):
        for k in range(lists.starts[state], lists.starts[state + 1]):
            row = lists.rows[k]
            states[free[row]], places[free[row]] = state, k
            free[row] += 1
    lowers, rooms = np.empty(lists.rows.size), np.empty(lists.rows.size)
    fits, missing = np.empty(n_rows), np.ones(n_rows)
    for row in range(n_rows):
        allowed = probability_radii(n_per_row[row], lists.starts.size - 1, doubt)
        fits[row] = allowed.never
        for k in places[starts[row] : starts[row + 1]]:
            lowers[k], upper = ends(lists.probabilities[k], allowed)
            rooms[k] = upper - lowers[k]
            missing[row] -= lowers[k]
    return RowEntries(lowers, rooms, fits, missing, starts, states, places)


@kernel
def iterate_supports(
    task: Iteration, lists: Lists, entries: RowEntries, pairs: Integers, share: float
) -> None:
    """Run extended value iteration inside intervals, on wide enough supports; as the dense one.

    What the unseen states of a row could add is summed up between the entries of the row, which
    are met from the best state to the worst, so a sweep is still one pass over the entries.
    """
    values, order = task.values, task.order
    n_states, n_rows = values.size, pairs.size
    shares, left = np.empty(n_rows), np.empty(n_rows)
    outside, spare = np.empty(n_rows), np.empty(n_rows)
    held = np.zeros(n_rows, np.int64)  # unseen states that a support keeps
    reached = np.empty(n_rows, np.int64)  # ranks before this one are accounted for
    news = np.empty(n_rows, np.int64)  # 1 where the best state was not seen
    sums = np.zeros(n_states + 1)  # of the values of the best states
    room = np.zeros(n_states)  # of one row
    last = False
    while not last:
        keeps = task.progress[SWEEPS] >= UNDAMPED
        rank(values, order)
        best = order[0]
        top = values[best]
        for i in range(n_states):
            sums[i + 1] = sums[i] + values[order[i]]
        outside[:], spare[:], reached[:], news[:] = 0.0, 1.0, 1, 1
        for row in range(n_rows):
            moved = min(entries.fits[row], entries.missing[row])
            shares[row], left[row] = moved * top, entries.missing[row] - moved
        for k in range(lists.starts[best], lists.starts[best + 1]):
            row = lists.rows[k]
            shares[row], left[row], news[row] = 0.0, entries.missing[row], 0
        for i in range(n_states):
            state = order[i]
            for k in range(lists.starts[state], lists.starts[state + 1]):
                row = lists.rows[k]
                moved = min(entries.rooms[k], left[row])
                left[row] -= moved
                shares[row] += (entries.lowers[k] + moved) * values[state]
                if i > 0:
                    _add_unseen(row, i, sums, entries.fits, outside, spare, reached)
        for row in range(n_rows):
            _add_unseen(row, n_states, sums, entries.fits, outside, spare, reached)
            first, end = entries.starts[row], entries.starts[row + 1]
            allowed = min(share * top * (end - first), shares[row])
            if keeps:
                held[row] = max(held[row], news[row])
            least, missing = held[row], entries.missing[row]
            if least > news[row] or outside[row] > allowed:
                for k in range(first, end):
                    room[entries.states[k]] = entries.rooms[entries.places[k]]
                added, extra = widen(task, room, entries.fits[row], missing, allowed, least)
                shares[row] += added
                if keeps:
                    held[row] = extra
                for k in range(first, end):
                    room[entries.states[k]] = 0.0
        _hand_out(task, top, shares, pairs)
        last = advance(task)


@kernel
def _add_unseen(
    row: int,
    end: int,
    sums: Floats,
    fits: Floats,
    outside: Floats,
    spare: Floats,
    reached: Integers,
) -> None:
    """Let a row move what it can spare to the unseen states of the ranks before ``end``."""
    first = reached[row]
    reached[row] = end + 1
    if spare[row] <= 0.0 or first >= end:
        return
    full = int(min(float(end - first), spare[row] / fits[row]))
    outside[row] += fits[row] * (sums[first + full] - sums[first])
    spare[row] -= full * fits[row]
    if first + full < end:  # the last one gets the rest
        outside[row] += spare[row] * (sums[first + full + 1] - sums[first + full])
        spare[row] = 0.0


class SparseArrivals(Arrivals):
    """Transitions of a sparse array (S * A, S)."""

    def __init__(self, weights: Any, known: Bools) -> None:
        self.shape = known.shape[0], known.shape[1]
        matrix = canonical(scipy.sparse.csr_array(weights))
        rows = SparseRows(matrix.indptr, matrix.indices, matrix.data)
        self._lists, self._pairs, totals, bad = arrange(rows, known.reshape(-1), matrix.shape[1])
        if bad >= 0:
            self._refuse(bad, matrix.data[matrix.indptr[bad] : matrix.indptr[bad + 1]])
        self.totals = totals.reshape(self.shape)

    def solve_balls(self, task: Iteration, widths: Floats) -> Plan:
        """Run extended value iteration inside L1 balls."""
        iterate_balls(task, self._lists, self._pairs, widths.reshape(-1))
        return Plan.of(task)

    def solve_intervals(self, task: Iteration, slopes: Floats, offsets: Floats) -> Plan:
        """Run extended value iteration inside intervals."""
        starts, rows, p = self._lists
        slope = slopes.reshape(-1)[self._pairs]
        offset = np.minimum(offsets.reshape(-1)[self._pairs], 1.0)
        halves = slope[rows] * np.sqrt(np.maximum(p * (1.0 - p), 0.0)) + offset[rows]
        lowers = np.maximum(p - halves, 0.0)
        rooms = np.minimum(p + halves, 1.0) - lowers
        lists = Lists(starts, rows, lowers)
        iterate_intervals(task, lists, rooms, self._pairs, offset)
        return Plan.of(task)

    def solve_time_uniform(self, task: Iteration, doubt: float) -> Plan:
        """Run extended value iteration inside time-uniform intervals."""
        totals = self.totals.reshape(-1)
        entries = find_time_uniform(self._lists, totals[self._pairs], doubt)
        iterate_supports(task, self._lists, entries, self._pairs, slack(totals))
        return Plan.of(task)
