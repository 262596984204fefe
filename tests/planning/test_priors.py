"""Priors that are learned from the counts."""

import numpy as np
import pytest
import scipy.sparse

from romdp.data.counts import Counts
from romdp.planning.priors import RewardPrior, learn_weight


def counts_of(rewards):
    """Counts of one state whose actions paid these lists of rewards."""
    visits = np.array([[len(r) for r in rewards]])
    sums = np.array([[float(sum(r)) for r in rewards]])
    squares = np.array([[float(sum(x * x for x in r)) for r in rewards]])
    return Counts(visits, visits[:, :, None], sums, squares)


def test_certain_rewards_are_known_after_a_few_tries():
    rng = np.random.default_rng(0)
    counts = counts_of([[-1.0] * 40, [-10.0] * 40, [20.0] * 3, [-1.0], []])
    prior = RewardPrior.learn(counts)
    assert not prior.binary
    assert not prior.constant
    assert prior.scale == 30.0
    draws = np.array([prior.draw(counts, rng)[0] for _ in range(200)])
    assert np.abs(draws[:, 2] - 20.0).max() < 5.0
    assert np.abs(draws[:, 0] + 1.0).max() < 0.5
    # An untried pair is like a tried one; one draw in five is of a reward that none has paid.
    near = (np.abs(draws[:, 4, None] - [-1.0, -10.0, 20.0]) < 5.0).any(axis=1)
    assert 0.6 < near.mean() < 1.0  # false alarm below 1e-6
    assert prior.means(counts)[0, 2] == pytest.approx(20.0, abs=1.0)


def test_noise_is_learned_from_pairs_that_were_tried_often():
    rng = np.random.default_rng(1)
    counts = counts_of([list(rng.normal(m, 2.0, 400)) for m in (0.0, 5.0, 9.0)] + [[3.0]])
    prior = RewardPrior.learn(counts)
    assert prior.noise == pytest.approx(4.0, rel=0.15)
    draws = np.array([prior.draw(counts, rng)[0, 3] for _ in range(400)])
    assert 1.0 < draws.std() < 3.0  # one try leaves a doubt of about 2


def test_rewards_of_0_and_1_have_a_beta_prior():
    rng = np.random.default_rng(2)
    even = counts_of([[1.0] * k + [0.0] * (100 - k) for k in range(0, 101, 10)])
    prior = RewardPrior.learn(even)
    assert prior.binary
    assert prior._beta() == pytest.approx((1.0, 1.0), abs=0.25)
    rare = counts_of([[0.0] * 20] * 30 + [[1.0, 0.0, 1.0]])
    prior = RewardPrior.learn(rare)
    draws = np.array([prior.draw(rare, rng)[0] for _ in range(100)])
    assert draws[:, 0].mean() < 0.02  # Beta(1, 21) would have 0.045
    assert 0.1 < draws[:, 30].mean() < 0.9


def test_where_nothing_is_at_stake_the_least_tried_is_best():
    counts = counts_of([[0.0] * 9, [0.0], []])
    prior = RewardPrior.learn(counts)
    assert prior.constant
    rng = np.random.default_rng(3)
    drawn = np.mean([prior.draw(counts, rng)[0] for _ in range(50)], axis=0)
    assert drawn[2] > drawn[1] > drawn[0]
    staked = np.mean([prior.draw(counts, rng, at_stake=True)[0] for _ in range(50)], axis=0)
    assert staked[0] < 0.1
    nothing = RewardPrior.learn(Counts.zeros(2, 2))
    assert nothing.constant
    assert np.isfinite(nothing.draw(Counts.zeros(2, 2), rng)).all()


@pytest.mark.parametrize("weight", [0.05, 0.5, 2.0])
def test_the_weight_of_the_prior_is_recovered(weight):
    """Rows of 30 draws from Dirichlet laws of known weight over 400 places, 400 rows."""
    rng = np.random.default_rng(4)
    rows = []
    for _ in range(400):
        law = rng.gamma(weight / 400, size=400)
        law = law / law.sum() if law.sum() > 0 else np.eye(400)[rng.integers(400)]
        rows.append(rng.multinomial(30, law))
    moves = np.array(rows).reshape(400, 1, 400)
    found = learn_weight(moves)
    assert found == pytest.approx(weight, rel=0.3)
    assert learn_weight(scipy.sparse.csr_array(moves.reshape(400, 400))) == pytest.approx(found)


def test_a_single_try_says_nothing_about_the_weight():
    assert learn_weight(np.eye(3, dtype=int)[:, None, :]) == 0.1
