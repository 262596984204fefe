"""The story of a run's grouping in words: what joined, what came apart, and whether it is right."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from romdp.data.partition import Partition
from romdp.reports.flow import most_telling
from romdp.reports.reading import Record

_NAMED = 3  # groups that are spelled out per chapter
_LISTED = 12  # observations that are listed per group


@dataclass(frozen=True, slots=True)
class Chapter:
    """One change of the grouping.

    Attributes
    ----------
    epoch, step
        When it came.
    n_clusters
        The number of groups from then on.
    what
        What happened, in words.
    verdict
        Against the truth: "exact", "no mistake yet" or "3 observations in the wrong group", or
        nothing where the truth is not known.
    """

    epoch: int
    step: int
    n_clusters: int
    what: str
    verdict: str


def tell(record: Record, most: int = 40) -> tuple[Chapter, ...]:
    """Tell how the grouping of a run came about, one chapter per change.

    Parameters
    ----------
    record
        The run.
    most
        If there are more groupings than this, those that changed the most are told, the first
        and the last among them; each chapter says what happened since the one before it.
    """
    chapters = []
    before: Partition | None = None
    for grouping in most_telling(record.groupings, most):
        after = Partition(grouping.labels)
        what = _opening(after) if before is None else describe_change(before, after)
        verdict = judge(after, record.hidden_state)
        chapters.append(Chapter(grouping.epoch, grouping.step, after.n_clusters, what, verdict))
        before = after
    return tuple(chapters)


def describe_change(before: Partition, after: Partition) -> str:
    """Say what happened between two groupings.

    Examples
    --------
    >>> describe_change(Partition([0, 1, 2, 3]), Partition([0, 0, 0, 1]))
    '3 groups became {0, 1, 2}'
    >>> describe_change(Partition([0, 0, 1]), Partition([0, 1, 1]))
    '1 group came apart; 2 groups gave to {1, 2}'
    """
    table = before.contingency(after).tocsr()
    parts = []
    seen = int(((before.labels < 0) & (after.labels >= 0)).sum())
    if seen:
        parts.append(f"{_count(seen, 'observation')} seen for the first time")
    apart = int((np.diff(table.indptr) > 1).sum())
    if apart:
        parts.append(f"{_count(apart, 'group')} came apart")
    columns = table.tocsc()
    sources = np.diff(columns.indptr)
    joined = np.flatnonzero(sources > 1)
    joined = joined[np.argsort(-after.sizes[joined], kind="stable")]
    for group in joined[:_NAMED]:
        rows = columns.indices[columns.indptr[group] : columns.indptr[group + 1]]
        whole = bool((before.sizes[rows] == columns[:, [group]].toarray()[rows, 0]).all())
        verb = "became" if whole else "gave to"
        parts.append(f"{_count(int(sources[group]), 'group')} {verb} {_name(after, int(group))}")
    if len(joined) > _NAMED:
        parts.append(f"and {len(joined) - _NAMED} more such groups")
    return "; ".join(parts) or "nothing changed"


def judge(partition: Partition, hidden_state: NDArray[np.int64] | None) -> str:
    """Say how a grouping stands against the truth."""
    if hidden_state is None:
        return ""
    truth = Partition(hidden_state)
    if partition == truth:
        return "exact"
    if partition.refines(truth):
        return "no mistake yet"
    table = partition.contingency(truth).toarray()
    wrong = int(table.sum() - table.max(axis=1).sum())
    return f"{_count(wrong, 'observation')} in the wrong group"


def _opening(partition: Partition) -> str:
    unseen = int((partition.labels < 0).sum())
    alone = int((partition.sizes == 1).sum())
    if alone == partition.n_observations:
        return "every observation on its own"
    parts = [f"starts with {_count(partition.n_clusters, 'group')}"]
    if alone:
        parts.append(f"{_count(alone, 'observation')} alone")
    if unseen:
        parts.append(f"{_count(unseen, 'observation')} not seen yet")
    return "; ".join(parts)


def _name(partition: Partition, group: int) -> str:
    members = [str(m) for m in partition.members[group]]
    if len(members) > _LISTED:
        return f"{{{', '.join(members[: _LISTED - 2])}, … {len(members)} in all}}"
    return f"{{{', '.join(members)}}}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
