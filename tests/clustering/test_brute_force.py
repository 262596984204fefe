"""The score and the search against everything there is, in worlds of seven observations."""

import math

import numpy as np
import pytest
from plain_blocks import make_rule, plain_score, walk
from scipy.special import logsumexp

import romdp
from romdp.clustering.likelihood import Likelihood
from romdp.clustering.likelihood.blockmodel import grouping_term, make_blocks
from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.rewardlaw import read_reward_law
from romdp.clustering.likelihood.rules import best_rule, make_rules
from romdp.data.counts import Counts
from romdp.data.partition import Partition


def all_partitions(n_observations):
    """List the labels of every way to group observations."""
    found = [[0]]
    for _ in range(n_observations - 1):
        found = [[*labels, new] for labels in found for new in range(max(labels) + 2)]
    return [np.array(labels) for labels in found]


def test_the_prior_of_groupings_is_one_for_each_number_of_groups():
    total = np.zeros(8)
    for labels in all_partitions(7):
        sizes = np.bincount(labels)
        term = grouping_term(7, len(sizes)) + sum(math.lgamma(n + 1) for n in sizes)
        total[len(sizes)] += math.exp(term)
    np.testing.assert_allclose(total[1:], 1.0)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_search_finds_the_best_of_all_groupings(seed):
    """From too few steps to tell to many; 877 groupings, each under the rule that suits it best."""
    world = romdp.worlds.random_romdp(
        3, 2, 7, seed=seed, emission_concentration=(1.0, 1e6)[seed % 2]
    )
    counts = Counts.from_trajectory(romdp.simulate(world, "uniform", 40 * 2**seed, seed=seed))
    law, links = read_reward_law(counts), Links.of(counts)
    rules = make_rules(law, links.in_totals())
    groupings = all_partitions(7)
    scores = [
        best_rule(rules, make_blocks(links, law.parts, labels, labels.max() + 1))[1]
        for labels in groupings
    ]
    best = Partition(groupings[int(np.argmax(scores))])
    found = Likelihood(choose_by_evidence=False).fit(counts, np.random.default_rng(seed))
    assert found.score == pytest.approx(max(scores), abs=1e-6)
    assert found.partition == best


@pytest.mark.parametrize("emission", [1, 4, 64])
def test_the_score_is_the_likelihood_of_worlds_drawn_from_the_prior(emission):
    """Worlds are drawn from the prior, and what was seen has a probability in each.

    Five standard errors are exceeded by chance once in a million times.
    """
    rng, labels = np.random.default_rng(emission), np.array([0, 0, 1, 1, 1])
    counts = walk(3, n_observations=5, n_actions=1, steps=14)
    law = read_reward_law(counts, "bernoulli")
    rule = make_rule(law, alpha=0.7, stays=2.0, emission=emission)
    n = counts.transitions[:, 0]
    paid, tries = counts.reward_sums[:, 0], counts.visits[:, 0]
    draws, c = 400_000, emission / 4
    value = np.zeros(draws)
    shown = np.empty((draws, 5))
    for group in range(2):
        mine = np.flatnonzero(labels == group)
        moves = rng.dirichlet(np.where(np.arange(2) == group, rule.stay, rule.alpha), draws)
        value += np.log(moves) @ np.array([n[mine][:, labels == t].sum() for t in range(2)])
        shown[:, mine] = rng.dirichlet(np.full(len(mine), c), draws)
        pays = rng.beta(law.prior[1], law.prior[0], draws)
        ones, zeros = paid[mine].sum(), (tries - paid)[mine].sum()
        value += ones * np.log(pays) + zeros * np.log1p(-pays)
    reached = n.sum(axis=0)
    value += np.log(shown) @ reached
    known = logsumexp(value) - math.log(draws)
    error = np.exp(value - value.max()).std() / np.exp(value - value.max()).mean() / draws**0.5
    prior = grouping_term(5, 2) + math.lgamma(3) + math.lgamma(4)
    each = sum(math.lgamma(r + c) - math.lgamma(c) for r in reached)
    score = plain_score(rule, counts, law.parts, labels) - prior + each
    assert score == pytest.approx(known, abs=5 * error)
    assert error < 0.05
