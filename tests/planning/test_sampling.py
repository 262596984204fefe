"""Posterior draws, and priors learned from the data."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from scipy import stats

import romdp
from romdp.clustering.clusterer import Singletons
from romdp.data.counts import Counts
from romdp.exact.objectives import Objective
from romdp.planning import sampling
from romdp.planning.priors import MovePrior, RewardPrior
from romdp.planning.promises import _divide, _expected, _surprises, promising_plan
from romdp.planning.sampling import draw_dense, draw_sparse
from romdp.worlds import GaussianLock

Z = 5.5
N = 20_000
COUNTS = np.array([[3, 0, 1, 0, 0], [0, 0, 0, 0, 0], [40, 2, 0, 0, 8]])


def many_draws(kind, prior):
    """N draws of the three laws, (N, 3, 5): rows are independent, so they are drawn at once."""
    rng = np.random.default_rng(0)
    if kind == "dense":
        return draw_dense(np.broadcast_to(COUNTS, (N, *COUNTS.shape)), prior, rng)
    stacked = scipy.sparse.csr_array(np.tile(COUNTS, (N, 1)))
    return (
        draw_sparse(stacked, prior, rng)
        .to_scipy(stacked.shape[1])
        .toarray()
        .reshape(N, *COUNTS.shape)
    )


def check_mean(samples, expected):
    error = samples.std(axis=0) / np.sqrt(len(samples)) + 1e-6  # 1e-6 of a law may be undrawn
    np.testing.assert_array_less(np.abs(samples.mean(axis=0) - expected), Z * error)


@pytest.mark.parametrize("prior", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_moments_are_those_of_the_dirichlet_law(kind, prior):
    laws = many_draws(kind, prior)
    weight = COUNTS + prior / COUNTS.shape[1]
    total = weight.sum(axis=1, keepdims=True)
    mean = weight / total
    check_mean(laws, mean)  # unseen columns and the row without any count among them
    check_mean((laws - mean) ** 2, mean * (1 - mean) / (total + 1))
    # Two columns together: a sum of entries has a Beta law; one seen and one unseen.
    pair, of_pair = laws[:, :, [0, 1]].sum(axis=2), mean[:, [0, 1]].sum(axis=1)
    check_mean((pair - of_pair) ** 2, of_pair * (1 - of_pair) / (total[:, 0] + 1))
    # Two unseen columns: negative covariance.
    product = (laws[:, :, 3] - mean[:, 3]) * (laws[:, :, 1] - mean[:, 1])
    check_mean(product, -mean[:, 3] * mean[:, 1] / (total[:, 0] + 1))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_an_entry_has_a_beta_law(kind):
    laws = many_draws(kind, 1.0)
    weight = COUNTS + 1.0 / COUNTS.shape[1]
    for row, column in [(0, 0), (0, 1), (1, 2), (2, 1)]:
        rest = weight[row].sum() - weight[row, column]
        # Stops at 1e-6 of the mass, so look above that: where an entry is not all but zero.
        entries = laws[:, row, column]
        law = stats.beta(weight[row, column], rest)
        for quantile in (1e-4, 1e-2, 0.1, 0.5):
            expected = law.cdf(quantile)
            error = np.sqrt(expected * (1 - expected) / N) + 1e-4
            assert abs((entries <= quantile).mean() - expected) < Z * error


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_every_row_is_a_law(kind):
    laws = many_draws(kind, 1.0)
    assert (laws >= 0).all()
    # A prior that is due less than 1e-6 of the mass is left out; the planner divides by the total.
    np.testing.assert_allclose(laws.sum(axis=2), 1.0, atol=1e-6)


@pytest.mark.parametrize("n_states", [1, 2, 4])
def test_the_stick_has_exactly_the_law_of_the_prior(n_states):
    """Distinct columns, all in a random order, and size-biased pieces that sum to the mass."""
    prior, rng = 1.0, np.random.default_rng(1)
    draws = np.zeros((N, n_states))
    for draw in draws:
        columns, chances = np.empty(n_states, np.int64), np.empty(n_states)
        end = sampling._break_stick(columns, chances, 0, 1.0, prior / n_states, n_states, rng)
        assert len(set(columns[:end].tolist())) == end
        assert chances[:end].sum() == pytest.approx(1.0, abs=2e-6)
        draw[columns[:end]] = chances[:end]
    share = prior / n_states
    check_mean(draws, np.full(n_states, 1 / n_states))
    check_mean(draws**2, np.full(n_states, share * (share + 1) / (prior * (prior + 1))))
    check_mean(draws**3, share * (share + 1) * (share + 2) / (prior * (prior + 1) * (prior + 2)))
    if n_states > 1:
        product = draws[:, 0] * draws[:, 1]
        check_mean(product, share * share / (prior * (prior + 1)))


def test_many_states_and_few_sticks():
    """With far more states than pieces, each row stays short and still is a law."""
    n_states, n_rows = 5000, 50
    counts = scipy.sparse.csr_array((n_rows, n_states), dtype=np.int64)
    laws = draw_sparse(counts, 1.0, np.random.default_rng(2)).to_scipy(counts.shape[1])
    assert laws.nnz <= 64 * n_rows
    np.testing.assert_allclose(laws.sum(axis=1), 1.0, atol=2e-6)
    # A Dirichlet(a, ..., a) law with S a = 1 is near a Poisson-Dirichlet one: the sum of the
    # squares has mean (1 + a) / (1 + 1), and each is in [0, 1]: Hoeffding at 1e-6.
    squares = laws.power(2).sum(axis=1)
    assert abs(squares.mean() - 0.5) < np.sqrt(np.log(2e6) / (2 * n_rows))


def test_rows_without_any_weight_left_are_still_laws():
    """Shape parameters of 1e-9 underflow along the whole row."""
    laws = draw_dense(np.zeros((200, 3), np.int64), 3e-9, np.random.default_rng(3))
    np.testing.assert_allclose(laws.sum(axis=1), 1.0)
    corners = np.bincount(laws.argmax(axis=1), minlength=3)
    assert (corners > 30).all()  # each has 200 / 3 expected; chance of a false alarm below 1e-7


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_same_generator_gives_the_same_draw(kind):
    def draw(seed):
        rng = np.random.default_rng(seed)
        if kind == "dense":
            return draw_dense(COUNTS, 1.0, rng)
        return (
            draw_sparse(scipy.sparse.csr_array(COUNTS), 1.0, rng)
            .to_scipy(COUNTS.shape[1])
            .toarray()
        )

    np.testing.assert_array_equal(draw(5), draw(5))
    assert not np.array_equal(draw(5), draw(6))


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


def test_rewards_of_0_and_1_that_never_vary_are_known_after_a_few_tries():
    """A goal pays 1 and all else 0: a Beta prior would hope for ever that some step pays too."""
    counts = counts_of([[0.0] * 72] * 30 + [[1.0] * 20])
    prior = RewardPrior.learn(counts)
    assert not prior.binary
    rng = np.random.default_rng(0)
    draws = np.array([prior.draw(counts, rng)[0] for _ in range(200)])
    assert np.abs(draws[:, :30]).max() < 0.01
    assert np.abs(draws[:, 30] - 1.0).max() < 0.1


def test_a_constant_cost_is_as_large_as_it_is():
    """Sums of -0.01 are rounded, and their rounding is not the scale of the rewards."""
    counts = counts_of([[-0.01] * 1000, [-0.01] * 333, [-0.01], []])
    prior = RewardPrior.learn(counts)
    assert prior.constant
    assert prior.scale == pytest.approx(0.01)


def rows_of_tries(weight, rng, n_rows=400, places=400, tries=30):
    """Tries of pairs whose laws have a Dirichlet prior of known weight; weight 0 is certain."""
    rows = []
    for _ in range(n_rows):
        law = rng.gamma(weight / places, size=places) if weight else np.zeros(places)
        law = law / law.sum() if law.sum() > 0 else np.eye(places)[rng.integers(places)]
        rows.append(rng.multinomial(tries, law))
    return np.array(rows).reshape(n_rows, places)


@pytest.mark.parametrize("weight", [0.5, 2.0])
@pytest.mark.parametrize("n_certain", [0, 600])
def test_the_share_of_certain_pairs_and_the_weight_of_others_are_recovered(weight, n_certain):
    rng = np.random.default_rng(4)
    moves = np.concatenate((rows_of_tries(0.0, rng, n_certain), rows_of_tries(weight, rng)))
    share = n_certain / len(moves)
    found = MovePrior.learn(moves[:, None, :])
    assert found.weight == pytest.approx(weight, rel=0.3)
    assert found.certain == pytest.approx(share, abs=0.06)
    sparse = MovePrior.learn(scipy.sparse.csr_array(moves))
    assert (sparse.certain, sparse.weight) == pytest.approx((found.certain, found.weight))


def test_pairs_that_hardly_ever_surprise_are_expected_to_do_so_as_rarely():
    """A small weight and certain pairs look alike; what they lead to is recovered all the same."""
    moves = rows_of_tries(0.05, np.random.default_rng(4))
    found = MovePrior.learn(moves[:, None, :])
    alike = np.count_nonzero(np.count_nonzero(moves, axis=1) == 1) / len(moves)
    expected = found.certain / (1.0 - found.doubts(np.array([30]))[0])
    # Of pairs with 30 tries so many are expected to lead to one place; two standard errors.
    assert expected == pytest.approx(alike, abs=2 * np.sqrt(alike * (1 - alike) / 400))


def test_a_single_try_says_nothing_about_the_moves():
    assert MovePrior.learn(np.eye(3, dtype=int)[:, None, :]) == MovePrior(0.0, 0.1)


def test_pairs_that_never_surprised_are_hardly_doubted_where_most_are_certain():
    """Of 200 pairs five go astray; the others led to one place in all of their twenty tries."""
    moves = 20 * np.eye(200, dtype=int)[:, None, :]
    moves[:5, 0, :5] += 4
    prior = MovePrior.learn(moves)
    assert prior.certain > 0.9
    rng, n = np.random.default_rng(0), 300
    drawn = np.array([prior.draw_weights(moves, rng) for _ in range(n)])
    assert (drawn[:, :5] == prior.weight).all()  # they are known not to be certain
    expected = prior.doubts(np.array([20]))[0]
    assert expected < 0.01
    # 300 x 195 draws: four standard errors
    share = (drawn[:, 5:] == prior.weight).mean()
    assert share == pytest.approx(expected, abs=4 * np.sqrt(expected / (n * 195)))
    means = prior.mean_weights(moves)
    np.testing.assert_allclose(means[:5], prior.weight)
    elsewhere = expected * prior.weight / (prior.weight + 20)
    np.testing.assert_allclose(means[5:] / (means[5:] + 20), elsewhere)


def test_every_row_may_have_a_prior_of_its_own():
    """The chance of leading anywhere is w / (w + n) on average; four standard errors."""
    counts = np.tile(np.array([5, 0, 0, 0]), (4000, 1))
    weights = np.repeat([0.001, 3.0], 2000)
    for laws in (
        draw_dense(counts, weights, np.random.default_rng(1)),
        draw_sparse(scipy.sparse.csr_array(counts), weights, np.random.default_rng(1))
        .to_scipy(4)
        .toarray(),
    ):
        np.testing.assert_allclose(laws.sum(axis=1), 1.0, atol=1e-6)
        elsewhere = 1.0 - laws[:, 0]
        assert elsewhere[:2000].mean() < 0.001
        assert elsewhere[2000:].mean() == pytest.approx(0.75 * 3 / 8, abs=4 * 0.16 / np.sqrt(2000))


def test_rewards_that_never_varied_are_certain_where_few_do():
    """One pair of 40 pays by chance; the others have always paid nothing."""
    visits = np.full((20, 2), 3)
    sums, squares = np.zeros((20, 2)), np.zeros((20, 2))
    sums[0, 0], squares[0, 0] = 1.5, 1.0  # 0, 0.5 and 1, say
    counts = Counts(visits, np.zeros((20, 2, 20), int), sums, squares)
    prior = RewardPrior.learn(counts)
    assert prior.varying == 2 / 41
    drawn = prior.draw(counts, np.random.default_rng(0))
    assert np.abs(np.delete(drawn, 0)).max() < 0.6 * np.sqrt(prior.noise / 3)
    assert prior.means(counts)[0, 0] > 0.3  # far from the others, and taken at its word


def test_a_pair_that_pays_now_and_then_is_not_believed_at_once():
    """Twenty pairs pay 0.1 every other time; another paid it the only time it was tried."""
    visits = np.full((30, 2), 10)
    sums, squares = np.zeros((30, 2)), np.zeros((30, 2))
    sums[:20, 0], squares[:20, 0] = 0.5, 0.05
    visits[20, 0], sums[20, 0], squares[20, 0] = 1, 0.1, 0.01
    counts = Counts(visits, np.zeros((30, 2, 30), int), sums, squares)
    assert 0.04 < RewardPrior.learn(counts).means(counts)[20, 0] < 0.08
    sums[:20, 0], squares[:20, 0] = 1.0, 0.1  # now they always pay
    counts = Counts(visits, np.zeros((30, 2, 30), int), sums, squares)
    assert RewardPrior.learn(counts).means(counts)[20, 0] > 0.09


def promising(visits, moves, sums, drawn=None, squares=None):
    """Plan where every pair leads to one state; the last column of moves is the end."""
    squares = sums if squares is None else np.broadcast_to(squares, sums.shape)
    counts = Counts(visits, moves[..., :-1], sums, squares, ends=moves[..., -1]).sparse()
    rng, seen = np.random.default_rng(0), counts.outcomes()
    laws = draw_sparse(seen, 1e-6, rng)
    goal = Objective("episodic", 0.999)
    means = counts.reward_sums / np.maximum(counts.visits, 1)
    rewards = means if drawn is None else drawn
    return promising_plan(counts, seen, laws, rewards, means, 1e-6, goal, None, rng)


def test_kernels_of_promises_agree_with_their_plain_twins():
    rng = np.random.default_rng(5)
    moves = scipy.sparse.csr_array(rng.poisson(0.4, (30, 11)))
    laws = draw_sparse(moves, 0.5, rng)
    frequencies, chances, rest = _divide(moves.indptr, moves.data, laws.indptr, laws.data)
    for row, (first, end) in enumerate(pairwise(moves.indptr)):
        seen, drawn = moves.data[first:end], laws.data[laws.indptr[row] : laws.indptr[row + 1]]
        np.testing.assert_array_equal(frequencies[first:end], seen / seen.sum())
        mine, others = np.split(drawn, [end - first])
        np.testing.assert_allclose(chances[first:end], mine / mine.sum())
        assert rest[row] == pytest.approx(others.sum())

    values, uniform = rng.random(11), rng.random(30)
    places = moves.indptr, moves.indices, frequencies
    shares = scipy.sparse.csr_array((frequencies, moves.indices, moves.indptr), moves.shape)
    expected, each = shares @ values, np.diff(moves.indptr)
    np.testing.assert_allclose(_expected(*places, values), expected)
    several = np.repeat(each > 1, each)
    pool = (values[moves.indices] - np.repeat(expected, each))[several]
    edges = np.cumsum(frequencies[several])
    added = rest * pool[np.searchsorted(edges, edges[-1] * uniform)]
    found = _surprises(*places, values, rest, uniform)
    np.testing.assert_allclose(found, np.where(each > 0, added, 0.0), atol=1e-12)


def test_untried_pairs_are_tried_where_nothing_known_comes_close():
    """From 0 one gets to 1, where ending pays 1; 2 is a dead end, and 3 led only there so far."""
    moves = np.zeros((4, 3, 5), int)
    moves[0, 0, 1] = moves[0, 1, 2] = moves[1, 0, 4] = moves[1, 1, 2] = moves[3, 0, 2] = 5
    moves[2, :, 2] = 5
    sums = np.zeros((4, 3))
    sums[1, 0] = 5.0
    plan = promising(moves.sum(axis=2), moves, sums)
    assert plan.policy[[0, 1, 3]].tolist() == [0, 0, 1]
    np.testing.assert_allclose(plan.values[:3], [0.999, 1.0, 0.0], atol=1e-3)
    assert 0.97 < plan.values[3] < 1.0  # the promise


def test_the_promise_is_no_more_than_was_ever_paid():
    """The only pair that pays does so four times of five: mean plus deviation would be 1.2."""
    moves = np.zeros((2, 2, 3), int)
    moves[0, 0, 2] = moves[1, 0, 1] = 5
    plan = promising(moves.sum(axis=2), moves, np.array([[4.0, 0], [0, 0]]))
    assert 0.98 < plan.values[1] <= 1.0


def test_a_lucky_draw_does_not_lure_away_from_what_was_never_tried():
    """Of state 0 one action ends and pays now and then, the other leads to 1, not yet explored."""
    moves = np.zeros((2, 2, 3), int)
    moves[0, 0, 2] = moves[0, 1, 1] = 4
    sums, drawn = np.array([[2.0, 0], [0, 0]]), np.array([[1.0, 0], [0, 0]])
    plan = promising(moves.sum(axis=2), moves, sums, drawn)
    assert plan.policy[0] == 1
    np.testing.assert_allclose(plan.values[0], 0.999, atol=1e-3)


def test_draws_are_kept_where_every_return_is_a_loss():
    """Each of ten steps costs 1: the most that was paid is -1, the best return -10."""
    moves = np.zeros((10, 1, 11), int)
    moves[np.arange(10), 0, np.arange(1, 11)] = 5
    plan = promising(moves.sum(axis=2), moves, np.full((10, 1), -5.0), squares=5.0)
    np.testing.assert_allclose(plan.values, np.arange(-10, 0), rtol=0.01)


def test_a_way_that_leads_round_in_circles_is_no_way_to_a_promise():
    """At 0 one action stays, one ends and pays 0.4, one was never tried; 1 ends and pays 1."""
    moves = np.zeros((2, 3, 3), int)
    moves[0, 0, 0] = moves[0, 1, 2] = moves[1, :, 2] = 5
    sums = np.array([[0.0, 2, 0], [5, 5, 5]])
    plan = promising(moves.sum(axis=2), moves, sums, squares=sums * sums / 5)
    assert plan.policy[0] == 2
    moves[0, 0] = 0, 5, 0  # the same action leads to 1 now: nothing more can be hoped for
    plan = promising(moves.sum(axis=2), moves, sums, squares=sums * sums / 5)
    assert plan.policy[0] == 0


@pytest.mark.parametrize(("low", "unit"), [(0.0, 1.0), (-1.0, 1.0), (0.0, 1e-6), (3.0, 1e6)])
def test_hope_crosses_costs_where_nothing_seen_is_better_than_what_all_have(low, unit):
    """A sea of depth 3: left is free and right costs a little; its last cell was never reached."""
    moves = np.zeros((4, 2, 5), int)
    moves[0, 0, 1] = moves[0, 1, 2] = moves[1, :, 4] = moves[2, 0, 3] = moves[3, 0, 4] = 5
    rewards = unit * np.where(moves.sum(axis=2) > 0, low, 0.0)
    rewards[0, 1] -= 0.01 * unit
    visits = moves.sum(axis=2)
    counts = visits, moves, visits * rewards
    plan = promising(*counts, squares=visits * rewards**2)
    assert plan.policy[[0, 3]].tolist() == [1, 1]


def test_where_longer_episodes_pay_more_nothing_is_hoped_for():
    """Staying pays 1 each time; of the other actions one ends all, and one was never tried."""
    moves = np.zeros((1, 3, 2), int)
    moves[0, 0, 0] = moves[0, 1, 1] = 9
    sums = np.array([[9.0, 9.0, 0.0]])
    assert promising(moves.sum(axis=2), moves, sums).policy[0] == 0


def test_a_lock_is_opened_in_little_more_than_the_tries_it_takes():
    """Ten layers of two states, one of ten actions secret: 90 wrong tries on average."""
    env = GaussianLock(10, world_seed=3, reveal_hidden_state=True)
    agent = replace(romdp.LCPSRL(), clusterer=Singletons())
    online = romdp.Online(agent, 30, 10, seed=3)
    state, wins, episodes = env.reset(seed=3)[1]["hidden_state"], 0, 0
    while wins < 20 and episodes < 250:
        total, over, episodes = 0.0, False, episodes + 1
        while not over:
            _, reward, over, _, info = env.step(online.act(state))
            state = info["hidden_state"]
            online.observe(reward, None if over else state, terminated=over)
            total += reward
        state = env.reset()[1]["hidden_state"]
        wins = wins + 1 if total == 1.0 else 0
    assert wins == 20
