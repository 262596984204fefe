"""The story of a grouping in words."""

import numpy as np
import pytest
from report_cases import make_groupings, make_record

from romdp.data.partition import Partition
from romdp.reports.experiment_data import describe_change, judge, tell


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
