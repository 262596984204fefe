"""The block model: its links, its laws of rewards and its score against plain twins."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_blocks import kinds, make_rule, plain_score, random_labels, score, seeds, walk

from romdp.clustering.likelihood.blockmodel import cell_term, log_gamma, make_blocks
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import CATEGORICAL, GAUSSIAN, NO_REWARD, read_reward_law
from romdp.clustering.likelihood.rules import (
    ALPHAS,
    EMISSIONS,
    STAYS,
    best_rule,
    make_rules,
    place_of,
    rule_at,
)
from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.trajectory import Trajectory

REACHED = np.zeros(7, np.int64)


@given(st.floats(1e-4, 1e9))
def test_log_gamma(x):
    assert log_gamma(x) == pytest.approx(math.lgamma(x), rel=1e-12, abs=1e-12)


@given(seeds, kinds, st.sampled_from(ALPHAS), st.sampled_from(STAYS), st.sampled_from(EMISSIONS),
       st.integers(0, 2))  # fmt: skip
def test_score_is_its_definition(seed, kind, alpha, stays, emission, unplaced):
    counts = walk(seed, rewards=kind)
    law = read_reward_law(counts)
    rule = make_rule(law, alpha, stays, emission)
    labels = random_labels(seed, 7, 3, unplaced)
    blocks = make_blocks(Links.of(counts), law.parts, labels, 3)
    expected = plain_score(rule, counts, law.parts, labels)
    assert score(rule, blocks) == pytest.approx(expected, rel=1e-10)
    brief = rule._replace(gammas=rule.gammas[:3], table=rule.table[:3])  # nothing to look up
    brief = brief._replace(reward_table=np.ascontiguousarray(rule.reward_table[:, :3]))
    assert score(brief, blocks) == pytest.approx(expected, rel=1e-10)


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
    rules = make_rules(law, REACHED)
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


@given(seeds)
def test_the_best_rule_is_the_top_of_its_alpha_and_its_stay(seed):
    counts = walk(seed)
    law = read_reward_law(counts)
    rules = make_rules(law, counts.transitions.sum(axis=(0, 1)))
    labels = random_labels(seed, 7, 4)
    blocks = make_blocks(Links.of(counts), law.parts, labels, 4)
    rule, value = best_rule(rules, blocks)
    i, j, e = place_of(rule)
    assert value == pytest.approx(plain_score(rule, counts, law.parts, labels), rel=1e-10)
    last = max(k for k, alpha in enumerate(ALPHAS) if k == 0 or 4 * alpha >= 1.0)
    assert i <= last

    def along(places):
        return [plain_score(rule_at(rules, *at), counts, law.parts, labels) for at in places]

    assert i == np.argmax(along((k, 0, e) for k in range(last + 1)))
    assert value == pytest.approx(max(along((i, k, e) for k in range(len(STAYS)))), rel=1e-10)
    assert value == pytest.approx(max(along((i, j, k) for k in range(len(EMISSIONS)))), rel=1e-10)


@pytest.mark.parametrize(("shares", "expected"), [
    (np.full(40, 1 / 40), 1024),
    (np.random.default_rng(0).dirichlet(np.ones(40)), 4),
    (np.random.default_rng(1).dirichlet(np.full(40, 0.25)), 1),
])  # fmt: skip
def test_emission_follows_the_data(shares, expected):
    """The parameter that drew the shares is found, up to a factor of two, from 4,000 arrivals."""
    counts = Counts.zeros(40, 1)
    law, reached = read_reward_law(counts), np.random.default_rng(2).multinomial(4_000, shares)
    blocks = make_blocks(Links.of(counts), law.parts, np.zeros(40, np.int64), 1)
    blocks = blocks._replace(into=np.array([4_000]))
    rule, _ = best_rule(make_rules(law, reached), blocks)
    assert expected / 2 <= rule.emission <= 2 * expected


def test_staying_has_a_parameter_of_its_own():
    law = read_reward_law(walk(0, rewards="none"))
    blocks = make_blocks(Links.of(walk(0)), law.parts, np.arange(7), 7)
    moves = np.zeros_like(blocks.moves)
    moves[np.arange(7), 0, np.arange(7)] = 5  # the first action never leads anywhere
    moves[np.arange(7), 1, (np.arange(7) + 2) % 7] = 5
    out, into = moves.sum(axis=2), moves.sum(axis=(0, 1))
    rule, _ = best_rule(make_rules(law, REACHED), blocks._replace(moves=moves, out=out, into=into))
    assert rule.stay >= 4 * rule.alpha


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


def counts_of(rewards, n_observations=4, seed=0):
    rng = np.random.default_rng(seed)
    size = len(rewards)
    observations, actions = rng.integers(n_observations, size=size), rng.integers(2, size=size)
    seen = Trajectory(observations, actions, rewards, n_observations=n_observations, n_actions=2)
    return Counts.from_trajectory(seen), observations, actions


@pytest.mark.parametrize("levels", [(0.0, 1.0), (-10.0, -1.0, 20.0), (-100.0, -1.0), (0.1, 0.7)])
def test_levels_are_counted_exactly(levels):
    rewards = np.random.default_rng(1).choice(levels, size=40)
    counts, observations, actions = counts_of(rewards, n_observations=12)
    law = read_reward_law(counts)
    assert law.code == CATEGORICAL
    np.testing.assert_allclose(law.levels, levels)
    expected = np.zeros((12, 2, len(levels)))
    np.add.at(expected, (observations, actions, np.searchsorted(levels, rewards)), 1)
    np.testing.assert_array_equal(law.parts, expected)


def test_bernoulli_is_found_when_no_pair_is_pure():
    counts, _, _ = counts_of(np.tile([0.0, 1.0, 1.0], 400))
    assert (counts.reward_sums < counts.visits).all()
    assert (counts.reward_sums > 0).all()
    assert read_reward_law(counts).name == "bernoulli"


def test_equal_rewards_carry_no_information():
    assert read_reward_law(counts_of(np.full(50, 0.3))[0]).code == NO_REWARD
    assert read_reward_law(counts_of(np.full(50, 0.3))[0], "gaussian").code == NO_REWARD
    assert read_reward_law(walk(0), "none").code == NO_REWARD


def test_other_rewards_are_gaussian_with_standardised_parts():
    rewards = 5.0 + 3.0 * np.random.default_rng(2).standard_normal(300)
    law = read_reward_law(counts_of(rewards)[0])
    assert law.code == GAUSSIAN
    visits, sums, squares = law.parts.sum(axis=(0, 1))
    assert visits == 300
    assert sums == pytest.approx(0.0, abs=1e-9)
    assert squares == pytest.approx(300)


def test_rewards_that_are_mostly_the_same_are_counted_as_more_or_less():
    rng = np.random.default_rng(3)
    kind = rng.choice(3, p=[0.9, 0.06, 0.04], size=400)
    rewards = np.where(kind == 0, 2.0, np.where(kind == 1, 5.0, -4.0 - 0.01 * rng.random(400)))
    counts, observations, actions = counts_of(rewards, n_observations=60)
    law = read_reward_law(counts)
    assert law.name == "hurdle"
    expected = np.zeros((60, 2, 3))
    np.add.at(expected, (observations, actions, kind), 1)
    pure = (expected[:, :, 1:] > 0).sum(axis=2) < 2  # what is more and less cancels in the others
    np.testing.assert_array_equal(law.parts[pure], expected[pure])
    assert pure.mean() > 0.9
    often = counts_of(np.where(observations < 30, 0.0, rng.random(400)), n_observations=60)[0]
    assert (
        read_reward_law(often).name == "gaussian"
    )  # states that pay differ from those that do not
    assert read_reward_law(often, "hurdle").name == "hurdle"


def test_a_law_that_does_not_fit_is_refused():
    counts, _, _ = counts_of(np.random.default_rng(0).random(60))
    with pytest.raises(InvalidInputError, match="not bernoulli"):
        read_reward_law(counts, "bernoulli")
    with pytest.raises(InvalidInputError, match="not categorical"):
        read_reward_law(counts, "categorical")
    with pytest.raises(InvalidInputError, match="not hurdle"):
        read_reward_law(counts, "hurdle")
    with pytest.raises(InvalidInputError, match="did you mean 'gaussian'"):
        read_reward_law(counts, "gausian")
