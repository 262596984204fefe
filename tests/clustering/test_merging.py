from functools import partial

import numpy as np
import pytest
from hypothesis import given
from plain_blocks import kinds, plain_score, random_labels, seeds, walk

from romdp.clustering.likelihood.blockmodel import make_blocks, make_rule
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.merging import apply_merges, merge_greedily, merge_rise
from romdp.clustering.likelihood.rewardlaw import read_reward_law


def setting(seed, kind, n_groups=4):
    counts = walk(seed, rewards=kind)
    law = read_reward_law(counts)
    rule = make_rule(law, alpha=0.4)
    labels = random_labels(seed, 7, n_groups)
    blocks = make_blocks(Links.of(counts), law.parts, labels, n_groups)
    return rule, blocks, partial(plain_score, rule, counts, law.parts)


@given(seeds, kinds)
def test_rise_of_a_merge_is_the_score_difference(seed, kind):
    rule, blocks, plain = setting(seed, kind)
    merged = np.where(blocks.labels == 3, 1, blocks.labels)
    expected = plain(merged) - plain(blocks.labels)
    assert merge_rise(rule, blocks, 1, 3) == pytest.approx(expected, abs=1e-8)


@given(seeds, kinds)
def test_every_greedy_merge_reports_its_exact_rise(seed, kind):
    rule, blocks, plain = setting(seed, kind, n_groups=5)
    labels, before = blocks.labels.copy(), blocks.moves.copy()
    merges = merge_greedily(rule, blocks, 1, np.inf)
    np.testing.assert_array_equal(blocks.moves, before)
    assert len(merges.rise) == 4
    for k, m, rise in zip(*merges, strict=True):
        merged = np.where(labels == m, k, labels)
        assert rise == pytest.approx(plain(merged) - plain(labels), abs=1e-8)
        labels = merged


@given(seeds, kinds)
def test_each_merge_is_the_best_one(seed, kind):
    """Pairs are ranked with the number of groups that a row may lead to held fixed."""
    rule, blocks, plain = setting(seed, kind, n_groups=5)
    labels = blocks.labels.copy()
    for k, m, _ in zip(*merge_greedily(rule, blocks, 1, np.inf), strict=True):
        groups = np.unique(labels)
        pairs = [np.where(labels == q, p, labels) for p in groups for q in groups if p < q]
        merged = np.where(labels == m, k, labels)
        assert plain(merged, 5) == pytest.approx(max(plain(pair, 5) for pair in pairs), abs=1e-7)
        labels = merged


def test_merging_stops_where_it_is_told():
    rule, blocks, _ = setting(0, "bernoulli", n_groups=6)
    assert len(merge_greedily(rule, blocks, 4, np.inf).rise) == 2
    rises = merge_greedily(rule, blocks, 1, np.inf).rise
    totals = np.cumsum(rises)
    short = merge_greedily(rule, blocks, 1, 0.0).rise
    np.testing.assert_allclose(short, rises[: len(short)])
    if len(short) < len(rises):
        assert totals[len(short) - 1] < max(0.0, totals[: len(short)].max())


def test_apply_merges_compacts_the_labels():
    rule, blocks, _ = setting(3, "bernoulli", n_groups=5)
    merges = merge_greedily(rule, blocks, 1, np.inf)
    labels, n_groups = apply_merges(np.append(blocks.labels, -1), 5, merges, 2)
    assert n_groups == 3
    assert set(labels[:-1]) == {0, 1, 2}
    assert labels[-1] == -1
    together = blocks.labels[:, None] == blocks.labels[None, :]
    assert (labels[:-1, None] == labels[None, :-1])[together].all()
