import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_blocks import kinds, make_rule, plain_score, random_labels, score, seeds, walk

from romdp.clustering.likelihood.blockmodel import make_blocks, row_terms
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.profiles import (
    REACHED,
    announce,
    clear,
    empty_profile,
    fill_profile,
    join_rises,
    shift,
)
from romdp.clustering.likelihood.rewardlaw import read_reward_law
from romdp.clustering.likelihood.rules import (
    best_rule,
    make_rules,
    place_of,
    rule_at,
)
from romdp.clustering.likelihood.sweeping import (
    EXACT_LIMIT,
    choose_sides,
    cool,
    draw_sweep,
    estimate_laws,
    measure_margins,
    sweep,
)


def climb_once(links, parts, rule, blocks, order):
    """Sweep once; returns what the sweep notes of each observation."""
    lead = np.full(len(blocks.labels), np.nan)
    sweep(links, parts, rule, blocks, estimate_laws(rule, blocks, len(blocks.labels)), order, lead)
    return lead


def setting(seed, n_observations, n_groups, kind="bernoulli", steps=60):
    counts = walk(seed, n_observations, steps=steps, rewards=kind)
    law = read_reward_law(counts)
    rule = make_rule(law, alpha=0.4, stays=4.0)
    labels = random_labels(seed, n_observations, n_groups)
    return counts, Links.of(counts), law.parts, rule, labels


def plain_sweep(rule, counts, parts, labels, order):
    """Place each observation where the score from its definition is highest."""
    labels = labels.copy()
    for y in order:
        if labels[y] >= 0 and (labels == labels[y]).sum() == 1:
            continue
        scores = []
        for group in np.unique(labels[labels >= 0]):
            there = labels.copy()
            there[y] = group
            scores.append(plain_score(rule, counts, parts, there))
        if labels[y] < 0 or max(scores) > scores[labels[y]] + 1e-7:
            labels[y] = int(np.argmax(scores))
    return labels


@given(seeds, kinds)
def test_a_sweep_is_its_plain_twin(seed, kind):
    counts, links, parts, rule, labels = setting(seed, 7, 3, kind)
    labels[np.flatnonzero(np.bincount(labels)[labels] > 1)[:1]] = -1  # one to be placed
    order = np.random.default_rng(seed).permutation(7)
    blocks = make_blocks(links, parts, labels, 3)
    climb_once(links, parts, rule, blocks, order)
    expected = plain_sweep(rule, counts, parts, labels, order)
    np.testing.assert_array_equal(blocks.labels, expected)
    recounted = make_blocks(links, parts, expected, 3)
    for mine, theirs in zip(blocks, recounted, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


@given(seeds, kinds)
def test_with_many_groups_the_score_still_never_falls_and_no_group_vanishes(seed, kind):
    n_groups = EXACT_LIMIT + 4
    _, links, parts, rule, labels = setting(seed, 30, n_groups, kind, steps=200)
    blocks = make_blocks(links, parts, labels, n_groups)
    before = score(rule, blocks)
    for _ in range(3):
        climb_once(links, parts, rule, blocks, np.arange(30))
        after = score(rule, make_blocks(links, parts, blocks.labels, n_groups))
        assert after >= before - 1e-7
        before = after
    assert (blocks.size > 0).all()


@given(seeds, kinds)
def test_sides_are_chosen_between_two_groups_alone(seed, kind):
    counts, links, parts, rule, labels = setting(seed, 7, 3, kind)
    blocks = make_blocks(links, parts, labels, 3)
    members = np.flatnonzero(labels != 1)
    choose_sides(links, parts, rule, blocks, members, 0, 2, 20)
    np.testing.assert_array_equal(blocks.labels[labels == 1], 1)
    settled = plain_score(rule, counts, parts, blocks.labels)
    assert settled >= plain_score(rule, counts, parts, labels) - 1e-7
    for y in members[np.bincount(blocks.labels)[blocks.labels[members]] > 1]:
        there = blocks.labels.copy()
        there[y] = 2 - there[y]
        assert plain_score(rule, counts, parts, there) <= settled + 1e-7
    for mine, theirs in zip(blocks, make_blocks(links, parts, blocks.labels, 3), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


def test_margins_are_score_differences_and_nothing_moves():
    counts, links, parts, rule, labels = setting(7, 7, 3)
    blocks = make_blocks(links, parts, labels, 3)
    margins = np.full((7, 2), np.nan)
    measure_margins(links, parts, rule, blocks, np.arange(7), np.arange(3), margins)
    lead = climb_once(links, parts, rule, make_blocks(links, parts, labels, 3), np.arange(1))
    np.testing.assert_array_equal(blocks.labels, labels)
    shared = np.flatnonzero(np.bincount(labels)[labels] > 1)
    for y in shared:
        scores = []
        for group in range(3):
            there = labels.copy()
            there[y] = group
            scores.append(plain_score(rule, counts, parts, there))
        ordered = np.sort(scores)
        assert margins[y, 0] == pytest.approx(ordered[-1] - ordered[-2], abs=1e-7)
        if y == 0:
            stays = scores[labels[0]] == ordered[-1]
            assert lead[0] == pytest.approx(margins[0, 0] if stays else 0.0, abs=1e-7)
        assert margins[y, 1] == pytest.approx(1 / np.exp(scores - ordered[-1]).sum(), abs=1e-7)


def test_hot_sweeps_draw_from_the_posterior():
    """The last observation is drawn 2000 times; all others keep their labels.

    A share is off by 5 standard deviations with a chance below 1e-6.
    """
    counts, links, parts, rule, labels = setting(11, 7, 2, steps=12)
    blocks = make_blocks(links, parts, labels, 2)
    y = int(np.flatnonzero(np.bincount(labels)[labels] > 1)[0])
    draws = np.random.default_rng(0).random(2000)
    scores = []
    for group in range(2):
        there = labels.copy()
        there[y] = group
        scores.append(plain_score(rule, counts, parts, there))
    chance = 1 / (1 + np.exp((scores[0] - scores[1]) / 2.0))
    assert 0.05 < chance < 0.95
    ones = 0
    for draw in draws:
        draw_sweep(links, parts, rule, blocks, np.array([y]), 2.0, np.array([draw]))
        ones += blocks.labels[y]
    assert abs(ones / 2000 - chance) < 5 * np.sqrt(chance * (1 - chance) / 2000)


@given(seeds, kinds)
def test_cooling_is_a_sweep_per_temperature_and_the_best_rule_after_each(seed, kind):
    counts = walk(seed, rewards=kind)
    law, links = read_reward_law(counts), Links.of(counts)
    rules = make_rules(law, links.in_totals())
    labels, rng = random_labels(seed, 7, 3), np.random.default_rng(seed)
    orders = np.array([rng.permutation(7) for _ in range(4)])
    draws, temperatures, scores = rng.random((4, 7)), np.array([9.0, 2.0, 1.0, 0.5]), np.empty(4)
    cooled, swept = (make_blocks(links, law.parts, labels.copy(), 3) for _ in range(2))
    rule = rule_at(rules, 2, 1, 3)
    at = cool(links, law.parts, rules, (2, 1, 3), cooled, orders, temperatures, draws, scores)
    for k in range(4):
        draw_sweep(links, law.parts, rule, swept, orders[k], temperatures[k], draws[k])
        rule, value = best_rule(rules, swept, rule)
        assert scores[k] == value
    assert at == place_of(rule)
    np.testing.assert_array_equal(cooled.labels, swept.labels)


def with_short_tables(rule):
    """Look up counts below 3 alone."""
    table, stay_table, gammas = (part[:3] for part in (rule.table, rule.stay_table, rule.gammas))
    rewards = np.ascontiguousarray(rule.reward_table[:, :3])
    return rule._replace(table=table, stay_table=stay_table, gammas=gammas, reward_table=rewards)


@given(seeds, kinds, st.booleans(), st.booleans())
def test_rise_differences_are_score_differences(seed, kind, placed, looked_up):
    counts = walk(seed, rewards=kind)
    law, links = read_reward_law(counts), Links.of(counts)
    rule = make_rule(law, alpha=0.4, stays=4.0)
    labels = random_labels(seed, 7, 3)
    y = int(np.flatnonzero(np.bincount(labels)[labels] > 1)[0])
    start = labels.copy()
    start[y] = labels[y] if placed else -1
    blocks = make_blocks(links, law.parts, start, 3)
    profile = empty_profile(3, 2)
    fill_profile(links, law.parts, blocks.labels, y, profile)
    if placed:
        shift(blocks, law.parts, y, labels[y], -1, profile)
    else:
        announce(blocks, profile)
    known = rule if looked_up else with_short_tables(rule)
    rows, groups, rises, scores = row_terms(known, 3, 99), np.arange(3), np.empty(3), []
    join_rises(known, rows, blocks, law.parts, y, groups, 3, profile, rises)
    for group in range(3):
        there = labels.copy()
        there[y] = group
        scores.append(score(rule, make_blocks(links, law.parts, there, 3)))
    np.testing.assert_allclose(np.diff(rises), np.diff(scores), atol=1e-8)


def test_clear_leaves_nothing():
    counts, no_parts = walk(1), np.zeros((7, 2, 1))
    profile = empty_profile(3, 2)
    fill_profile(Links.of(counts), no_parts, random_labels(1, 7, 3), 2, profile)
    assert profile.leads.sum() > 0
    clear(profile)
    for array in (profile.leads, profile.comes, profile.loops, profile.led):
        assert not array.any()


def test_the_profile_counts_how_often_it_was_reached():
    counts, no_parts = walk(1), np.zeros((7, 2, 1))
    profile = empty_profile(3, 2)
    fill_profile(Links.of(counts), no_parts, random_labels(1, 7, 3), 2, profile)
    assert profile.totals[REACHED] == counts.transitions[:, :, 2].sum()
    assert profile.led.sum() == pytest.approx(counts.transitions[2].sum())
