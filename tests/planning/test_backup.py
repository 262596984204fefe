import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from planning_twins import rank as plain_rank

from romdp.planning.backup import rank

values_lists = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]), min_size=1, max_size=40)


@given(values_lists, st.randoms(use_true_random=False))
def test_rank_sorts_by_value_then_index_from_any_order(values, random):
    order = list(range(len(values)))
    random.shuffle(order)
    found = np.array(order)
    rank(np.array(values), found)
    assert found.tolist() == plain_rank(values)


def test_rank_is_the_same_by_insertion_and_by_merging():
    values = np.random.default_rng(0).integers(0, 50, 2000).astype(float)
    shuffled = np.arange(2000)  # far from sorted: insertion runs out of its budget
    rank(values, shuffled)
    nearly = np.array(plain_rank(values))
    nearly[[10, 11]] = nearly[[11, 10]]
    rank(values, nearly)
    assert shuffled.tolist() == nearly.tolist() == plain_rank(values)
