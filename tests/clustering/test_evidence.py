import pytest

from romdp.clustering.clusterer import Evidence, group_counts, group_triples
from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.data.triples import Triples

SEEN = Trajectory([0, 1, 2, 3, 0, 1, 2], [0, 1, 0, 1, 0, 1, 0], n_observations=4)
GROUPS = Partition([0, 0, 1, 1])


def test_observations_and_groups_are_both_understood():
    counts, triples = Counts.from_trajectory(SEEN), Triples.from_trajectory(SEEN)
    fine = Evidence(counts, triples)
    coarse = Evidence(counts.group(GROUPS), triples.relabel(GROUPS))
    assert group_counts(fine, GROUPS) == group_counts(coarse, GROUPS)
    assert group_triples(fine, GROUPS) == group_triples(coarse, GROUPS)
    assert group_triples(fine, GROUPS).n_observations == 2


def test_other_sizes_are_refused():
    evidence = Evidence(Counts.from_trajectory(SEEN), Triples.from_trajectory(SEEN))
    for read in (group_counts, group_triples):
        with pytest.raises(InvalidInputError, match="have 4 observations"):
            read(evidence, Partition([0, 1, 1]))


def test_missing_triples_are_an_error():
    with pytest.raises(InvalidInputError, match="no triples"):
        group_triples(Evidence(Counts.from_trajectory(SEEN)), GROUPS)
