"""``thm:regret`` for a finished run, with its own epochs, groups and diameters."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.core.validation import check, level, real_array, shown, takes
from romdp.data.partition import Partition
from romdp.exact.hitting import hitting_times
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP, as_romdp
from romdp.theory.regret import as_singletons, auxiliary_diameter, ucrl_bound
from romdp.theory.table import Magnitude, Row, Table

if TYPE_CHECKING:
    from romdp.playing.run import Run


@dataclass(frozen=True, slots=True)
class EpochStretch:
    """Epochs in a row with the same grouping.

    Attributes
    ----------
    first, last
        Their numbers, from 1.
    steps
        Their length together.
    n_groups
        S: groups and observations without one.
    diameter
        The diameter of the auxiliary MDP; None where the grouping mixes hidden states.
    bound
        Their part of the sum in ``thm:regret``.
    """

    first: int
    last: int
    steps: int
    n_groups: int
    diameter: float | None
    bound: Magnitude


@dataclass(frozen=True)
class RunBound(Table):
    """The answer of `run_bound`; prints as a table.

    Attributes
    ----------
    bound
        The sum of ``thm:regret``, with the constant 1 that the theorem is printed with.
    stretches
        Its parts.
    caveat
        Why the theorem is not about this run; empty if it is.
    """

    bound: Magnitude
    stretches: tuple[EpochStretch, ...]
    caveat: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and words, ready for JSON."""
        parts = [
            {
                "first_epoch": part.first,
                "last_epoch": part.last,
                "steps": part.steps,
                "n_groups": part.n_groups,
                "diameter": None
                if part.diameter is None
                else Magnitude.of(part.diameter).to_json(),
                "bound": part.bound.to_json(),
            }
            for part in self.stretches
        ]
        return {**super().to_dict(), "stretches": parts}


@takes(world=(ROMDP, MDP), agent=(None, "start"))
def run_bound(
    world: ROMDP | MDP,
    run: "Run",
    delta: float = 0.05,
    *,
    visits: Sequence[ArrayLike] | None = None,
    counts: Sequence[ArrayLike] | None = None,
    agent: Any = None,
) -> RunBound:
    """Evaluate ``thm:regret`` for a finished run, next to the regret that was measured.

    The sum over epochs k of ``D_k sqrt(S_k log(N_k / delta))`` times the sum over groups s and
    actions a of ``nu_k(s, a) / sqrt(N_k(s, a))``, where D_k is the diameter of the auxiliary MDP,
    S_k its number of states, N_k the steps before the epoch, nu_k(s, a) the visits in it and
    N_k(s, a) those before it; N_k and N_k(s, a) count as 1 at least.

    Parameters
    ----------
    world
        The world of the run; its hidden states are read.
    run
        Anything with ``epochs`` and ``groupings`` like those of `romdp.play`.
    delta
        The probability that the bound may fail.
    visits, counts
        nu_k(s, a) and N_k(s, a) for each epoch, each (S_k, A), as `epoch_counts` returns them.
        Without them the inner sum is replaced by its largest value under the doubling rule; see
        Notes.
    agent
        The `Agent` that played. The theorem is about confidence sets at full scale and about the
        paper's counting; where that is not so, or not known, the title says it.

    Notes
    -----
    Under the doubling rule nu <= max(1, N) for each (s, a). In an epoch of L steps a fixed table
    visits at most m = min(S, L) pairs, so the inner sum is at most the sum of sqrt(nu), at most
    sqrt(m L). Over a stretch of epochs with one grouping, of L steps together, it is at most
    (sqrt(2) + 1) sqrt(S A L) (Jaksch et al. 2010, lemma 19, and Jensen's inequality). The smaller
    of the two is taken for each stretch, with the largest logarithm in it for the second.

    Where a grouping mixes hidden states the theorem says nothing: these epochs enter with their
    length, as rewards lie in [0, 1].
    """
    world, delta = as_romdp(world), level(delta, "delta")
    if not hasattr(run, "epochs") or not hasattr(run, "groupings"):
        raise InvalidInputError(f"run is {shown(run)}; pass what romdp.play returned")
    given = _given(run, world.n_actions, visits, counts)
    times = hitting_times(world.transition)
    stretches = tuple(
        _stretch(world, times, run, delta, *part, given) for part in _parts(world, run)
    )
    bound = Magnitude.of(0)
    for part in stretches:
        bound += part.bound
    who = getattr(run, "agent", "an agent")
    caveat = _caveat(agent)
    title = f"thm:regret for a run of {who} in {world!r}, delta = {delta:g}. {caveat}".strip()
    rows = _rows(world, run, delta, bound, stretches, worst_case=given is None)
    return RunBound(title, tuple(rows), bound, stretches, caveat)


def epoch_counts(playing: Any) -> tuple[list[Ints], list[Ints]]:
    """Play a run to its end and return nu_k(s, a) and N_k(s, a) of every epoch.

    Parameters
    ----------
    playing
        What `romdp.epochs` returns, not yet begun; ``playing.run`` is the run afterwards.

    Returns
    -------
    visits, counts
        For each epoch two arrays of shape (S_k, A): the visits of the groups in the epoch, and
        those before it that count for them. Under the paper's counting these are the visits of
        the branch that was kept where groups merged.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=2, n_actions=2, n_observations=5, seed=0)
    >>> playing = romdp.epochs(romdp.SLUCRL(2, counting="paper"), world, steps=500, seed=0)
    >>> visits, counts = epoch_counts(playing)
    >>> sum(int(nu.sum()) for nu in visits)
    500
    >>> len(visits) == len(counts) == len(playing.run.epochs)
    True
    """
    visits: list[Ints] = []
    counts: list[Ints] = []
    if not hasattr(playing, "state"):
        raise InvalidInputError(f"playing is {shown(playing)}; pass what romdp.epochs returns")
    n_actions = playing.state.recorder.n_actions
    grouping, before = playing.state.partition, playing.state.recorder.visits.copy()
    for _ in playing:
        state = playing.state
        now = state.recorder.visits.reshape(-1, n_actions)
        rows = before.reshape(-1, n_actions)
        if len(now) == state.partition.n_observations:
            now, rows = _grouped(now, state.partition), _grouped(rows, state.partition)
        elif grouping != state.partition:
            rows = rows[_kept(rows, grouping, state.partition)]
        visits.append(now - rows)
        counts.append(rows.copy())
        grouping, before = state.partition, state.recorder.visits.copy()
    return visits, counts


def _grouped(rows: Ints, grouping: Partition) -> Ints:
    total = np.zeros((grouping.n_clusters, rows.shape[1]), np.int64)
    placed = grouping.labels >= 0
    np.add.at(total, grouping.labels[placed], rows[placed])
    return total


def _kept(rows: Ints, fine: Partition, coarse: Partition) -> Ints:
    """Return for each coarse group the fine one whose history is kept: the one visited most."""
    target = np.empty(fine.n_clusters, np.int64)
    target[fine.labels] = coarse.labels
    by_visits = np.argsort(rows.sum(axis=1), kind="stable")
    kept = np.empty(coarse.n_clusters, np.int64)
    kept[target[by_visits]] = by_visits  # the last one written has the most visits
    return kept


def _caveat(agent: Any) -> str:
    """Say why the theorem is not about a run; empty if it is."""
    if agent is None:
        return "Whether the theorem covers this run is not known: pass the agent."
    why = []
    if getattr(agent, "counting", None) != "paper":
        why.append("its counts are pooled")
    scale = getattr(getattr(agent.planner, "confidence", None), "scale", None)
    if scale is None:
        why.append("it has no confidence sets like the paper's")
    elif scale < 1:
        why.append(f"its confidence sets are scaled by {scale:g}")
    return f"THE THEOREM DOES NOT COVER THIS RUN: {' and '.join(why)}." if why else ""


def _parts(world: ROMDP, run: "Run") -> Iterator[tuple[int, int, Partition]]:
    """Yield (first row, row after the last, grouping) for each grouping in the table of epochs."""
    n_epochs = len(run.epochs)
    if not n_epochs or not run.groupings or run.groupings[0][0] != 1:
        raise InvalidInputError("the run has no epochs, or no grouping for its first one")
    starts = [number - 1 for number, _ in run.groupings] + [n_epochs]
    for i, (number, partition) in enumerate(run.groupings):
        if partition.n_observations != world.n_observations:
            raise InvalidInputError(
                f"the grouping of epoch {number} has {partition.n_observations} observations, the "
                f"world has {world.n_observations}; pass the world that the run was played in"
            )
        if starts[i] < starts[i + 1]:
            yield starts[i], starts[i + 1], partition


def _given(
    run: "Run",
    n_actions: int,
    visits: Sequence[ArrayLike] | None,
    counts: Sequence[ArrayLike] | None,
) -> Floats | None:
    """Return the inner sum of every epoch, or None where the arrays are not given."""
    for name, value in (("visits", visits), ("counts", counts)):
        check(value, name, Sequence, np.ndarray, None)
    if visits is None and counts is None:
        return None
    n_epochs = len(run.epochs)
    if visits is None or counts is None or not len(visits) == len(counts) == n_epochs:
        raise InvalidInputError(
            f"the run has {n_epochs} epochs; pass both visits and counts, with an array for each"
        )
    sums = []
    for k, (now, before) in enumerate(zip(visits, counts, strict=True)):
        nu = real_array(now, f"visits[{k}]", ("n_clusters", n_actions))
        n = real_array(before, f"counts[{k}]", nu.shape)
        sums.append(float((nu / np.sqrt(np.maximum(n, 1.0))).sum()))
    return np.array(sums)


def _stretch(
    world: ROMDP,
    times: Floats,
    run: "Run",
    delta: float,
    start: int,
    end: int,
    partition: Partition,
    given: Floats | None,
) -> EpochStretch:
    starts, lengths = run.epochs.start[start:end], run.epochs.length[start:end]
    steps = int(lengths.sum())
    n_groups = as_singletons(partition).n_clusters
    if not as_singletons(partition).refines(Partition(world.labels)):
        return EpochStretch(start + 1, end, steps, n_groups, None, Magnitude.of(steps))
    diameter = auxiliary_diameter(world, partition, times)
    logs = np.log(np.maximum(1, starts)) - math.log(delta)
    weights = np.sqrt(n_groups * logs)
    if given is not None:
        total = float(weights @ given[start:end])
    else:
        apart = float(weights @ np.sqrt(np.minimum(n_groups, lengths) * lengths))
        pairs = n_groups * world.n_actions
        together = float(weights.max()) * (math.sqrt(2) + 1) * math.sqrt(pairs * steps)
        total = min(apart, together)
    # A single group has diameter 0 and is still a bandit problem.
    bound = Magnitude.of(max(diameter, 1.0)) * total
    return EpochStretch(start + 1, end, steps, n_groups, diameter, bound)


def _rows(
    world: ROMDP,
    run: "Run",
    delta: float,
    bound: Magnitude,
    stretches: Sequence[EpochStretch],
    *,
    worst_case: bool,
) -> list[Row]:
    row = partial(Row, "Regret")
    steps = sum(part.steps for part in stretches)
    inner = "worst case under the doubling rule" if worst_case else "with the counts given"
    mixed = sum(part.steps for part in stretches if part.diameter is None)
    spread = Magnitude.of(0)
    for part in stretches:
        spread += Magnitude.of(part.diameter if part.diameter is not None else 1.0) * part.steps
    singletons = Partition.singletons(world.n_observations)
    wide, narrow = auxiliary_diameter(world, singletons), world.hidden.diameter()
    sizes = world.n_observations, world.n_states
    rows = [
        row("thm:regret", bound, "thm:regret", f"constant 1 as printed; {inner}"),
        row("sqrt(sum D nu)", spread.sqrt(), "thm:regret", "what its proof adds, constant 1"),
        row(
            "UCRL2 on observations",
            ucrl_bound(wide, sizes[0], world.n_actions, steps, delta),
            "cor:regret",
        ),
        row(
            "UCRL2 on hidden states",
            ucrl_bound(narrow, sizes[1], world.n_actions, steps, delta),
            "cor:regret",
        ),
    ]
    for name in ("regret", "pseudo_regret"):
        figures = getattr(run, name, None)
        if figures is not None and np.isfinite(figures[-1]):
            note = "measured" if figures[-1] >= 0 else "measured; negative, better than rho*"
            rows.append(row(name, float(figures[-1]), "", note))
    epochs = partial(Row, "The run")
    rows += [
        epochs("steps", steps),
        epochs("epochs", len(run.epochs)),
        epochs("groupings", len(stretches)),
        epochs(
            "steps with mixed groups", mixed, "cor:partial.cluster.est", "bounded by themselves"
        ),
    ]
    shown = [*stretches[:5], *stretches[-5:]] if len(stretches) > 10 else stretches
    for part in shown:
        which = f"epochs {part.first} to {part.last}"
        size = "mixed groups" if part.diameter is None else f"D = {part.diameter:.4g}"
        note = f"{part.steps:,} steps, S = {part.n_groups}, {size}"
        rows.append(Row("The sum, stretch by stretch", which, part.bound, "thm:regret", note))
    return rows
