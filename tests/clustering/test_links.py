import numpy as np
from hypothesis import given
from plain_blocks import seeds, walk

from romdp.clustering.likelihood.links import Links


@given(seeds)
def test_both_directions_hold_all_transitions(seed):
    counts = walk(seed)
    links = Links.of(counts)
    n_observations, n_actions = counts.visits.shape
    out = np.zeros((n_observations, n_actions, n_observations), np.int64)
    into = np.zeros_like(out)
    for cell in range(n_observations * n_actions):
        for i in range(links.out_start[cell], links.out_start[cell + 1]):
            out[cell // n_actions, cell % n_actions, links.out_target[i]] += links.out_count[i]
    for y in range(n_observations):
        for i in range(links.in_start[y], links.in_start[y + 1]):
            y1, a = divmod(links.in_cell[i], n_actions)
            into[y1, a, y] += links.in_count[i]
    np.testing.assert_array_equal(out, counts.transitions)
    np.testing.assert_array_equal(into, counts.transitions)


def test_sparse_and_dense_counts_give_the_same_links():
    counts = walk(3)
    for mine, theirs in zip(Links.of(counts), Links.of(counts.sparse()), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_totals():
    counts = walk(5)
    links = Links.of(counts)
    np.testing.assert_array_equal(links.in_totals(), counts.transitions.sum(axis=(0, 1)))
    np.testing.assert_array_equal(links.out_totals(), counts.transitions.sum(axis=(1, 2)))
    assert links.n_observations == counts.n_observations
