"""Merging and splitting of groups against plain twins."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given
from plain_blocks import kinds, make_rule, plain_score, random_labels, score, seeds, walk

from romdp.clustering.clusterer import finish
from romdp.clustering.likelihood.blockmodel import make_blocks
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.merging import all_fewer, apply_merges, merge_greedily
from romdp.clustering.likelihood.rewardlaw import GAUSSIAN, read_reward_law
from romdp.clustering.likelihood.splitting import (
    add_slot,
    drop_slot,
    relabel,
    residuals,
    split_group,
    turn_to_leading,
    unsplit,
)
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.worlds.named import random_romdp
from romdp.worlds.simulator import simulate


@pytest.fixture(params=["bernoulli", "uniform"])
def data(request):
    world = random_romdp(3, 2, 18, seed=2, reward_law=request.param)
    counts = Counts.from_trajectory(simulate(world, "uniform", 20_000, seed=0))
    law = read_reward_law(counts)
    return world, Links.of(counts), law, make_rule(law)


def test_two_states_in_one_group_are_cut_apart(data):
    world, links, law, rule = data
    truth = Partition(world.labels).labels
    joined = np.where(truth == 2, 1, truth)
    blocks = make_blocks(links, law.parts, joined, 2)
    cut = add_slot(blocks)
    rise = finish(
        split_group(links, law, rule, cut, 1, np.random.default_rng(0), all_fewer(rule, cut, 3))
    )
    assert rise > 100
    assert Partition(cut.labels) == Partition(truth)
    assert score(rule, cut) - score(rule, blocks) == pytest.approx(rise, rel=1e-9)


def test_a_true_group_loses_by_a_cut_and_the_cut_can_be_taken_back(data):
    world, links, law, rule = data
    blocks = make_blocks(links, law.parts, Partition(world.labels).labels, 3)
    cut = add_slot(blocks)
    assert (
        finish(
            split_group(links, law, rule, cut, 0, np.random.default_rng(0), all_fewer(rule, cut, 4))
        )
        < 0
    )
    assert cut.size[3] > 0
    unsplit(links, law, cut, 0)
    for mine, theirs in zip(drop_slot(cut), blocks, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-6)


def test_a_single_observation_cannot_be_cut(data):
    _, links, law, rule = data
    blocks = add_slot(make_blocks(links, law.parts, np.minimum(np.arange(18), 1), 2))
    assert (
        finish(split_group(links, law, rule, blocks, 0, np.random.default_rng(0), 0.0)) == -np.inf
    )


def plain_excess(counts):
    law = counts.sum(axis=0) / max(counts.sum(), 1)
    expected = counts.sum(axis=1, keepdims=True) * law
    return (counts - expected) / np.sqrt(expected + 0.5)


@given(seeds, kinds)
def test_residuals_compare_members_with_their_group(seed, kind):
    counts = walk(seed, rewards=kind)
    law, labels = read_reward_law(counts), random_labels(seed, 7, 3)
    members = np.flatnonzero(labels == labels[0])
    transitions = counts.transitions.copy()
    transitions[np.arange(7), :, np.arange(7)] = 0
    member = np.eye(3)[labels]
    leads = np.einsum("yau,us->yas", transitions, member)[members]
    comes = np.einsum("uay,us->ysa", transitions, member)[members].reshape(len(members), -1)
    columns = [plain_excess(leads[:, a]) for a in range(2)] + [plain_excess(comes)]
    for a in range(2):
        pay = law.parts[members, a]
        if law.code == GAUSSIAN:
            mean = pay[:, 1].sum() / max(pay[:, 0].sum(), 1)
            columns.append(((pay[:, 1] - pay[:, 0] * mean) / np.sqrt(pay[:, 0] + 1))[:, None])
        elif law.code:
            columns.append(plain_excess(pay))
    plain = np.concatenate(columns, axis=1)
    blocks = make_blocks(Links.of(counts), law.parts, labels, 3)
    found = residuals(Links.of(counts), law.parts, law.code, blocks, members)
    # The order of the columns does not matter to the direction.
    np.testing.assert_allclose(found @ found.T, plain @ plain.T, atol=1e-9)


def test_a_vector_turns_to_the_leading_singular_vector():
    rng = np.random.default_rng(0)
    left, _ = np.linalg.qr(rng.standard_normal((8, 3)))
    right, _ = np.linalg.qr(rng.standard_normal((5, 3)))
    matrix = left @ np.diag([9.0, 2.0, 1.0]) @ right.T
    vector = rng.standard_normal(8)
    turn_to_leading(np.ascontiguousarray(matrix), vector)
    assert abs(vector @ left[:, 0]) == pytest.approx(1.0, abs=1e-9)


@given(seeds, kinds)
def test_relabel_keeps_the_blocks_right(seed, kind):
    counts = walk(seed, rewards=kind)
    law, links = read_reward_law(counts), Links.of(counts)
    labels = random_labels(seed, 7, 3)
    blocks = make_blocks(links, law.parts, labels, 3)
    relabel(links, law.parts, blocks, np.array([0, 3, 6]), 1)
    labels[[0, 3, 6]] = 1
    expected = make_blocks(links, law.parts, labels, 3)
    for mine, theirs in zip(blocks, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


def setting(seed, kind, n_groups=4):
    counts = walk(seed, rewards=kind)
    law = read_reward_law(counts)
    rule = make_rule(law, alpha=0.4, stays=4.0)
    labels = random_labels(seed, 7, n_groups)
    blocks = make_blocks(Links.of(counts), law.parts, labels, n_groups)
    return rule, blocks, partial(plain_score, rule, counts, law.parts)


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


@pytest.mark.parametrize("worthless", [np.nan, -np.inf])
def test_merging_ends_where_no_rise_is_a_number(worthless):
    """As with rewards whose squares overflow; it wrote past its arrays."""
    rule, blocks, _ = setting(0, "gaussian", n_groups=6)
    blocks.pay[:] = worthless
    assert len(merge_greedily(rule, blocks, 1, np.inf).rise) == 0


def test_apply_merges_compacts_the_labels():
    rule, blocks, _ = setting(3, "bernoulli", n_groups=5)
    merges = merge_greedily(rule, blocks, 1, np.inf)
    labels, n_groups = apply_merges(np.append(blocks.labels, -1), 5, merges, 2)
    assert n_groups == 3
    assert set(labels[:-1]) == {0, 1, 2}
    assert labels[-1] == -1
    together = blocks.labels[:, None] == blocks.labels[None, :]
    assert (labels[:-1, None] == labels[None, :-1])[together].all()
