import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_blocks import kinds, plain_score, random_labels, seeds, walk

from romdp.clustering.likelihood.blockmodel import (
    ALPHAS,
    best_rule,
    cell_term,
    log_gamma,
    make_blocks,
    make_rule,
    make_rules,
    score,
)
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import read_reward_law


@given(st.floats(1e-4, 1e9))
def test_log_gamma(x):
    assert log_gamma(x) == pytest.approx(math.lgamma(x), rel=1e-12, abs=1e-12)


@given(seeds, kinds, st.sampled_from(ALPHAS), st.integers(0, 2))
def test_score_is_its_definition(seed, kind, alpha, unplaced):
    counts = walk(seed, rewards=kind)
    law = read_reward_law(counts)
    rule = make_rule(law, alpha)
    labels = random_labels(seed, 7, 3, unplaced)
    blocks = make_blocks(Links.of(counts), law.parts, labels, 3)
    expected = plain_score(rule, counts, law.parts, labels)
    assert score(rule, blocks) == pytest.approx(expected, rel=1e-10)


@given(seeds, st.permutations(range(4)))
def test_score_does_not_depend_on_the_numbers_of_groups(seed, names):
    counts = walk(seed)
    law = read_reward_law(counts)
    rule = make_rule(law)
    links, labels = Links.of(counts), random_labels(seed, 7, 4)
    renamed = np.array(names)[labels]
    first = score(rule, make_blocks(links, law.parts, labels, 4))
    # Empty groups do not count either.
    second = score(rule, make_blocks(links, law.parts, renamed, 6))
    assert first == pytest.approx(second, rel=1e-12)


def test_cells_beyond_the_table_follow_the_same_formula():
    rule = make_rule(read_reward_law(walk(0)), alpha=0.3)
    shorter = rule._replace(table=rule.table[:10])
    for n in (1, 10, 500, 4000):
        assert cell_term(rule, n) == pytest.approx(cell_term(shorter, n), rel=1e-12)


def test_alpha_follows_the_data_but_not_below_one_over_the_number_of_groups():
    rng = np.random.default_rng(0)
    law = read_reward_law(walk(0, rewards="none"))
    rules = make_rules(law)
    blocks = make_blocks(Links.of(walk(0)), law.parts, np.arange(7), 7)
    certain, even = blocks.moves.copy(), blocks.moves.copy()
    certain[:] = 0
    certain[np.arange(7), :, (np.arange(7) * 3) % 7] = 50
    even[:] = rng.multinomial(350, np.full(7, 1 / 7), size=(7, 2))

    def fitted(moves):
        out, into = moves.sum(axis=2), moves.sum(axis=(0, 1))
        return best_rule(rules, blocks._replace(moves=moves, out=out, into=into))[0].alpha

    assert fitted(even) == 1.0
    assert 1 / 7 <= fitted(certain) < 0.25


def test_the_score_is_a_probability_of_the_data():
    """For one group of two observations all data of three steps must have total probability 1."""
    total = 0.0
    for code in range(2**3):
        path = [0] + [(code >> i) & 1 for i in range(3)]
        transitions = np.zeros((2, 1, 2), np.int64)
        np.add.at(transitions, (path[:-1], 0, path[1:]), 1)
        counts = walk(0, 2, 1, 1, "none")
        counts = type(counts)(
            transitions.sum(axis=2), transitions, np.zeros((2, 1)), np.zeros((2, 1))
        )
        law = read_reward_law(counts)
        blocks = make_blocks(Links.of(counts), law.parts, np.zeros(2, np.int64), 1)
        # The score leaves out the part of the emission that no grouping changes.
        reached = transitions.sum(axis=(0, 1))
        constant = sum(math.lgamma(n + 1) for n in reached)
        total += math.exp(score(make_rule(law), blocks) + constant)
    assert total == pytest.approx(1.0)
