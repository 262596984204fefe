"""A grouping over time: its story in words, and where blocks and ribbons lie."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_cases import make_groupings, make_record

from romdp.core.errors import InvalidInputError
from romdp.data.partition import Partition
from romdp.reports.experiment_data import describe_change, judge, tell
from romdp.reports.groupings import ALONE, UNSEEN, changed, lay_out, most_telling

labels_of_six = st.lists(st.integers(-1, 5), min_size=6, max_size=6)


@given(st.lists(labels_of_six, min_size=1, max_size=5), st.none() | st.just([0, 0, 1, 1, 2, 2]))
def test_blocks_and_ribbons_fit_together(rows, states):
    hidden = None if states is None else np.array(states)
    flow = lay_out(make_groupings(rows), hidden)
    unit = 0.7 / 6
    assert len(flow.columns) == len(rows)
    for column, row in zip(flow.columns, rows, strict=True):
        assert column.n_clusters == Partition(row).n_clusters
        assert sorted(m for block in column.blocks for m in block.members) == list(range(6))
        ends = [0.0] + [end for block in column.blocks for end in (block.top, block.bottom)] + [1.0]
        assert all(a <= b + 1e-9 for a, b in itertools.pairwise(ends))
        for block in column.blocks:
            assert {Partition(row).labels[m] for m in block.members} == {block.group}
            assert block.bottom - block.top == pytest.approx(unit * len(block.members))
    for number in range(len(rows) - 1):
        ribbons = [ribbon for ribbon in flow.strands if ribbon.column == number]
        assert sum(ribbon.size for ribbon in ribbons) == 6
        for side, column in (("left_top", number), ("right_top", number + 1)):
            pieces = sorted((getattr(r, side), r.thickness) for r in ribbons)
            blocks = [(b.top, b.bottom) for b in flow.columns[column].blocks]
            for (top, thickness), after in zip(pieces, [*pieces[1:], (2.0, 0)], strict=True):
                assert top + thickness <= after[0] + 1e-9  # no two pieces overlap
                assert any(
                    low - 1e-9 <= top and top + thickness <= high + 1e-9 for low, high in blocks
                )


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=7), st.booleans())
def test_groups_that_only_merge_never_cross(merges, known):
    rows, labels = [], np.arange(8)
    for a, b in merges:
        rows.append(labels)
        labels = np.where(labels == labels[a], labels[b], labels)
    rows.append(labels)
    flow = lay_out(make_groupings(rows), labels if known else None)
    for number in range(len(rows) - 1):
        ribbons = [ribbon for ribbon in flow.strands if ribbon.column == number]
        by_left = sorted(ribbons, key=lambda r: r.left_top)
        right = [ribbon.right_top for ribbon in by_left]
        assert right == sorted(right)


def test_ribbons_carry_the_hidden_state():
    groupings = make_groupings([[0, 1, 2, 3], [0, 0, 1, 1]])
    flow = lay_out(groupings, np.array([0, 1, 1, 1]))
    assert sorted((r.state, r.size) for r in flow.strands) == [(0, 1), (1, 1), (1, 1), (1, 1)]
    # Without the truth: the final group.
    assert sorted(r.state for r in lay_out(groupings).strands) == [0, 0, 1, 1]


def test_what_is_not_seen_lies_below():
    flow = lay_out(make_groupings([[-1, 0, 0, -1], [0, 0, 1, -1]]))
    assert flow.unmet == 0
    free = [-1] * 5  # most are never met: places of a vocabulary
    rest = lay_out(make_groupings([[*free, -1, 0, 0], [*free, 0, 0, 1]]))
    assert rest.unmet == 5
    assert [block.members for block in rest.columns[1].blocks] == [(5, 6), (7,)]
    assert [block.group for block in flow.columns[0].blocks] == [0, UNSEEN]
    assert flow.columns[1].blocks[-1].members == (3,)


def test_among_many_those_alone_share_a_block():
    many = np.arange(100)
    some = np.where(many < 40, 0, many)
    flow = lay_out(make_groupings([many, some]))
    assert [[block.group for block in column.blocks] for column in flow.columns] == [
        [ALONE],
        [0, ALONE],
    ]
    assert flow.columns[0].n_clusters == 100
    assert len(flow.strands) < 110


def test_of_many_groupings_the_first_the_last_and_the_largest_changes_are_kept():
    rows = [np.arange(12)]
    sizes = [2, 3, 8, 9, 12]  # the first `size` observations are together
    rows += [np.where(np.arange(12) < size, 0, np.arange(12)) for size in sizes]
    groupings = make_groupings(rows)
    assert [g.epoch for g in most_telling(groupings, 3)] == [1, 4, 6]
    flow = lay_out(groupings, max_columns=3)
    assert [column.epoch for column in flow.columns] == [1, 4, 6]
    assert flow.left_out == 3


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ([0, 1, 2], [0, 1, 2], 0),
        ([0, 0, 1], [2, 2, 5], 0),  # only other numbers
        ([0, 1, 2, 3], [0, 0, 1, 1], 2),
        ([0, 0, 0, 1], [0, 0, 1, 1], 2),  # one leaves, and joins another
        ([-1, -1, 0], [-1, 1, 0], 1),
    ],
)
def test_how_much_changed(before, after, count):
    assert changed(np.array(before), np.array(after)) == count


def test_bad_questions():
    with pytest.raises(InvalidInputError, match="groupings is empty"):
        lay_out(())
    with pytest.raises(InvalidInputError, match="max_columns"):
        lay_out(make_groupings([[0]]), max_columns=1)


def test_a_run_is_told_change_by_change():
    chapters = tell(make_record())
    assert [(c.epoch, c.step, c.n_clusters) for c in chapters] == [
        (1, 0, 4),
        (2, 10, 3),
        (3, 20, 2),
    ]
    assert [c.what for c in chapters] == [
        "every observation on its own",
        "2 groups became {0, 1}",
        "2 groups became {2, 3}",
    ]
    assert [c.verdict for c in chapters] == ["no mistake yet", "no mistake yet", "exact"]


def test_a_long_story_is_cut_to_its_largest_changes():
    rows = [np.where(np.arange(9) < size, 0, np.arange(9)) for size in range(1, 10)]
    record = make_record(groupings=make_groupings(rows), hidden_state=None)
    chapters = tell(record, most=4)
    assert len(chapters) == 4
    assert (chapters[0].epoch, chapters[-1].epoch) == (1, 9)
    assert chapters[-1].what.endswith("groups became {0, 1, 2, 3, 4, 5, 6, 7, 8}")
    assert {c.verdict for c in chapters} == {""}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ([0, 1, 1], [0, 1, 1], "nothing changed"),
        ([0, -1, 1], [0, 0, 1], "1 observation seen for the first time"),
        ([0, 0, 0], [0, 0, 1], "1 group came apart"),
        ([0, 0, 1, 1], [0, 1, 1, 1], "1 group came apart; 2 groups gave to {1, 2, 3}"),
        (range(20), [0] * 20, "20 groups became {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, … 20 in all}"),
        (range(10), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4], "and 2 more such groups"),
    ],
)
def test_changes_in_words(before, after, words):
    assert words in describe_change(Partition(list(before)), Partition(after))


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([0, 0, 1, 1], "exact"),
        ([0, 0, 1, 2], "no mistake yet"),
        ([0, 0, 1, -1], "no mistake yet"),
        ([0, 0, 0, 1], "1 observation in the wrong group"),
        ([0, 0, 0, 0], "2 observations in the wrong group"),
    ],
)
def test_verdicts(labels, words):
    assert judge(Partition(labels), np.array([0, 0, 1, 1])) == words
    assert judge(Partition(labels), None) == ""


def test_openings():
    record = make_record(groupings=make_groupings([[0, 0, 1, -1]]))
    assert tell(record)[0].what == (
        "starts with 2 groups; 1 observation alone; 1 observation not seen yet"
    )
