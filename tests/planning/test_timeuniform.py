"""TimeUniform against twins that are written from its formulas, and against the truth."""

from dataclasses import replace

import numpy as np
import planning_twins as twins
import pytest
import scipy.sparse
from scipy.optimize import brentq
from scipy.special import betaln, xlogy

import romdp
from romdp.core.errors import InvalidInputError
from romdp.planning.backup import new_iteration, rank, slack, widen
from romdp.planning.bounds import ends, highest_mean, probability_radii

ETA = 1.12


def kl(p, x):
    """Divergence of two coins."""
    return xlogy(p, p / x) + xlogy(1 - p, (1 - p) / (1 - x))


def plain_chance(k, n, n_states, level):
    """Ends of the chance of a state that has followed k of n times, from the docstring."""
    own = 0.2 * level / n_states / 2
    if k == 0:
        return 0.0, 1 - own ** (1 / n)
    if k == n:
        return (0.6 * level) ** (1 / (n - 1)) if n > 1 else 0.0, 1.0
    x, p = np.linspace(0, 1, 400_001)[1:-1], k / n
    most = (np.log(1 / own) + np.log(np.pi * n / 2) / 2 + 1 / 8) / n
    middle = (p + 2 * x) / 3
    inside = (x - p) ** 2 <= 2 * most * middle * (1 - middle)
    assert inside[kl(p, x) <= most].all()  # what is solved for is never narrower
    low, high = x[inside][[0, -1]]
    return (low if low > 5e-6 else 0.0), (high if high < 1 - 5e-6 else 1.0)


def plain_highest_reward(total, n, level, variance):
    """Largest mean that no bound of the docstring excludes; the mixture's by bisection."""
    p, own = total / n, 0.15 * level / 3
    if p == 0:
        high = 1 - own ** (1 / n)
    else:
        most = (np.log(1 / own) + np.log(np.pi * n / 2) / 2 + 1 / 2) / n
        top = 1 - 1e-9
        high = 1.0 if p == 1 or kl(p, top) < most else brentq(lambda x: kl(p, x) - most, p, top)
    peeled = ETA * np.log(
        np.log(ETA * n) * np.log(ETA**2 * n) / (np.log(ETA) ** 2 * 0.05 * level / 3)
    )
    return min(high, p + np.sqrt(2 * variance * peeled / n) + 3 * peeled / n)


def make_counts(seed, n_states, n_actions, samples, alpha=0.3, sparse=False):
    """Counts of a random world with Bernoulli rewards; some pairs were never tried."""
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.full(n_states, alpha), size=(n_states, n_actions))
    visits = rng.integers(0, samples, (n_states, n_actions))
    moves = rng.multinomial(visits, laws)
    sums = rng.binomial(visits, rng.random((n_states, n_actions))).astype(float)
    kept = scipy.sparse.csr_array(moves.reshape(-1, n_states)) if sparse else moves
    return romdp.Counts(visits, kept, sums, sums)


@pytest.mark.parametrize("n", [1, 2, 3, 8, 60, 1000, 10**6])
@pytest.mark.parametrize("level", [1e-2, 1e-7])
def test_the_ends_are_those_of_the_formulas(n, level):
    allowed = probability_radii(float(n), 7, -np.log(level))
    for k in sorted({0, 1, n // 10, n // 3, n // 2, n - 1, n}):
        found = ends(k / n, allowed)
        assert found == pytest.approx(plain_chance(k, n, 7, level), abs=6e-6)


@pytest.mark.parametrize("n", [1, 2, 5, 60, 1000, 10**5])
def test_the_largest_rewards_are_those_of_the_formulas(n):
    """Never too narrow, and from some dozen samples on at most 2% too wide."""
    slack = 0.02 if n >= 60 else 1.0
    for mean in (0.0, 0.004, 0.3, 0.5, 0.97, 1.0):
        for share in (0.0, 0.01, 1.0):  # of a coin's variance
            variance = share * mean * (1 - mean)
            squares = n * (variance + mean**2)
            found = highest_mean(float(n), n * mean, squares, -np.log(1e-4))
            plain = plain_highest_reward(n * mean, n, 1e-4, variance)
            assert plain - 1e-9 <= found <= min(1.0, plain + slack * (plain - mean)) + 1e-9


def test_the_mixture_of_krichevsky_and_trofimov_is_no_smaller():
    """log of the largest likelihood minus log of the mixture; whole numbers of ones, and sums."""

    def regret(k, n):
        mixture = betaln(k + 0.5, n - k + 0.5) - np.log(np.pi)
        return xlogy(k, k / n) + xlogy(n - k, 1 - k / n) - mixture - np.log(np.pi * n / 2) / 2

    for n in (1, 2, 3, 4, 7, 30, 1000, 10**6):
        ones = np.unique(np.geomspace(1, n, 50).astype(int))
        assert (regret(ones[ones < n], n) <= 1 / 8).all()
        assert (regret(np.linspace(0, n, 2001), n) <= 1 / 2).all()


def test_intervals_of_counts():
    counts = make_counts(0, 4, 2, 200)
    level = 0.05 / (4 * 2)
    found = romdp.TimeUniform().intervals(counts, t=1000, delta=0.05)
    for pair in np.ndindex(4, 2):
        n = counts.visits[pair]
        if n == 0:
            assert (found.lowest_rewards[pair], found.highest_rewards[pair]) == (0, 1)
            assert (found.highest_probabilities[pair] == 1).all()
            continue
        total = counts.reward_sums[pair]
        variance = total / n - (total / n) ** 2
        high = plain_highest_reward(total, n, level, variance)
        low = 1 - plain_highest_reward(n - total, n, level, variance)
        assert found.highest_rewards[pair] == pytest.approx(high, abs=0.01)
        assert found.lowest_rewards[pair] == pytest.approx(low, abs=0.01)
        for following in range(4):
            low, high = plain_chance(counts.transitions[pair][following], n, 4, level)
            assert found.lowest_probabilities[pair][following] == pytest.approx(low, abs=6e-6)
            assert found.highest_probabilities[pair][following] == pytest.approx(high, abs=6e-6)


def test_certain_rewards_are_learned_faster_than_coins():
    """1,000 rewards of exactly 0.3 leave 3 l / n at most; coins of the same mean far more."""
    moves, n = [[[1000]]], [[1000]]
    certain = romdp.Counts(n, moves, [[300.0]], [[90.0]])
    coins = romdp.Counts(n, moves, [[300.0]], [[300.0]])
    high = [
        romdp.TimeUniform().intervals(c, 1001, 0.05).highest_rewards[0, 0] for c in (certain, coins)
    ]
    assert high[0] < 0.3 + 0.06 < high[1]


def best_law_on_support(counts, pair, ends, values, share):
    """UCRL3's near-optimistic law of one pair, by adding one state after the other."""
    row = counts[pair]
    n_states = len(values)
    order = twins.rank(values)
    if row.sum() == 0:
        return np.eye(n_states)[order[0]]
    low, high = ends[0][pair], ends[1][pair]
    support = set(np.flatnonzero(row)) | {order[0]}
    allowed = share * (values.max() - values.min()) * np.count_nonzero(row)
    narrow = None  # what the first support expects
    while True:
        law = np.where(np.isin(np.arange(n_states), list(support)), low, 0.0)
        left = 1 - law.sum()
        outside, spare = 0.0, 1.0
        for state in order:
            if state in support:
                moved = min(high[state] - law[state], left)
                law[state] += moved
                left -= moved
            else:
                moved = min(high[state], spare)
                spare -= moved
                outside += moved * (values[state] - values.min())
        narrow = law @ (values - values.min()) if narrow is None else narrow
        if outside <= min(allowed, narrow):
            assert left <= 1e-12  # what was seen has room for everything
            return law
        support.add(next(state for state in order if state not in support))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_a_plan_is_that_of_the_plain_twin(seed, sparse):
    rng = np.random.default_rng(seed)
    n_states, samples = int(rng.integers(1, 9)), int(rng.choice([5, 60, 2000]))
    counts = make_counts(seed, n_states, 3, samples)
    dense = counts.transitions
    stored = make_counts(seed, n_states, 3, samples, sparse=sparse)
    sets = romdp.TimeUniform()
    found = sets.plan(stored, t=2000, delta=0.05)
    ends = sets.intervals(counts, t=2000, delta=0.05)
    share = slack(dense.sum(axis=-1).astype(float))
    policy, low, high, values, sweeps = twins.iterate(
        lambda s, a, v: best_law_on_support(dense, (s, a), ends[2:], v, share),
        ends.highest_rewards,
        1 / np.sqrt(2000),
    )
    assert (found.sweeps, found.policy.tolist()) == (sweeps, policy.tolist())
    assert found.gain == pytest.approx((low + high) / 2, abs=1e-9)
    assert found.values == pytest.approx(values, abs=1e-8)


@pytest.mark.parametrize("alpha", [0.02, 0.3])
def test_dense_and_sparse_plans_agree_on_many_states(alpha):
    one = romdp.TimeUniform().plan(make_counts(3, 60, 3, 40, alpha), 1500, 0.05)
    other = romdp.TimeUniform().plan(make_counts(3, 60, 3, 40, alpha, sparse=True), 1500, 0.05)
    assert one.policy.tolist() == other.policy.tolist()
    assert one.gain == pytest.approx(other.gain, abs=1e-10)


def test_a_support_is_widened_where_unseen_states_matter():
    """The state that was seen is worth nothing, so the unseen ones may not be left out."""
    row, n_states = np.array([20, 0, 0, 0, 0, 0]), 6
    values = np.array([0.0, 1.0, 0.9, 0.8, 0.7, 0.6])
    rare = 1 - np.exp(-9.0 / 20)
    low = np.array([1 - rare, 0, 0, 0, 0, 0])
    high = np.array([1.0, *[rare / 2] * 5])  # half: there is room for two of them
    ends = low[None, None], high[None, None]
    law = best_law_on_support(row[None, None], (0, 0), ends, values, 0.05)
    assert law[2] == pytest.approx(rare / 2)
    task = new_iteration(np.zeros((n_states, 1)), values, 1.0, 1)
    rank(values, task.order)
    room = np.where(row > 0, high - low, 0)
    narrow = low @ values + rare / 2 * 1.0  # with the best state alone
    added, extra = widen(task, room, rare / 2, rare, 0.05, 0)
    assert (narrow + added, extra) == (pytest.approx(law @ values), n_states - 1)
    assert widen(task, room, rare / 2, rare, 10.0, 0) == (0.0, 1)
    # Counts so large that nothing fits at any other state: one divided by that is no number.
    assert widen(task, room, 0.0, rare, 0.05, 0) == (0.0, 1)
    # Of five small chances three must be in: the last two are worth less than these together.
    tiny, allowed = rare / 18, rare / 18 * 1.31  # 0.7 + 0.6, and some rounding
    added, extra = widen(task, room, tiny, rare, allowed, 0)
    assert (added, extra) == (pytest.approx(tiny * (0.9 + 0.8)), 3)
    added, extra = widen(task, room, tiny, rare, allowed, 5)  # as an earlier sweep needed
    assert (added, extra) == (pytest.approx(tiny * (0.9 + 0.8 + 0.7 + 0.6)), 5)


def test_plans_do_not_go_round_in_circles():
    """UCRL3 with 30 observations: where supports could shrink again, 1 to 3% never ended."""
    converged = []
    for seed in range(72000, 72004):
        world = romdp.worlds.random_romdp(5, 4, 30, seed=seed)
        playing = romdp.epochs(romdp.UCRL3(), world, 300_000, seed=seed)
        converged += [playing.state.converged for _ in playing]
    assert len(converged) > 2000
    assert all(converged)


@pytest.mark.parametrize("p", [0.5, 0.9, 0.02])
def test_the_truth_stays_inside(p):
    """2,000 runs of 3,000 samples of a coin, whose two chances share the level 0.1.

    The truth is outside at some time in a share of at most 0.1 of the runs. At most 280 may be:
    with a share of 0.1 more would be six standard deviations above the mean (chance below 1e-8).
    """
    rng = np.random.default_rng(1)
    sums = np.cumsum(rng.random((2000, 3000)) < p, axis=1)
    outside = np.zeros(2000, bool)
    for n in np.unique(np.geomspace(1, 3000, 120).astype(int)):
        allowed = probability_radii(float(n), 2, -np.log(0.1))
        low, high = np.array([ends(k / n, allowed) for k in range(n + 1)]).T
        k = sums[:, n - 1]
        outside |= (p < low[k]) | (p > high[k]) | (1 - p < low[n - k]) | (1 - p > high[n - k])
    assert outside.sum() <= 280


@pytest.mark.parametrize("mean", [0.02, 0.3])
@pytest.mark.parametrize("law", ["coin", "beta", "certain"])
def test_the_mean_reward_stays_inside(law, mean):
    """As above for 1,000 runs of 1,000 rewards, on the upper side: fewer than 160 outside.

    With a share of 0.1 that is six standard deviations above the mean.
    """
    rng = np.random.default_rng(2)
    shape = (1000, 1000)
    rewards = {
        "coin": lambda: (rng.random(shape) < mean).astype(float),
        "beta": lambda: rng.beta(mean, 1 - mean, shape),
        "certain": lambda: np.full(shape, mean),
    }[law]()
    sums, squares = np.cumsum(rewards, axis=1), np.cumsum(rewards**2, axis=1)
    outside = np.zeros(1000, bool)
    for n in np.unique(np.geomspace(1, 1000, 60).astype(int)):
        pairs = zip(sums[:, n - 1], squares[:, n - 1], strict=True)
        outside |= [mean > highest_mean(float(n), *pair, -np.log(0.1)) + 1e-12 for pair in pairs]
    assert outside.sum() < 160


def test_a_state_that_always_follows_is_bounded_without_a_union_over_states():
    """Two next states of chance 0.9 and 0.1: the bound on the first fails with chance at most d.

    It fails if the first n steps lead to one state whose chance to the power n - 1 is below d, and
    then it is outside; the chance of that is computed exactly, for states of any chances.
    """
    rng = np.random.default_rng(3)
    for d in (0.3, 0.01):
        for law in rng.dirichlet(np.full(6, 0.3), 50):
            chance = sum(x ** next(n for n in range(2, 10**6) if x ** (n - 1) < d) for x in law)
            assert chance <= d


def test_ucrl3_is_ucrl2_inside_these_sets():
    agent = romdp.UCRL3(delta=0.1)
    assert agent.name == "ucrl3"
    assert agent.planner == romdp.Optimism(romdp.TimeUniform(), 0.1)
    assert agent.stopping == replace(romdp.UCRL2().stopping, growth=1.25, slack=1 / 128)


def test_it_learns_where_the_papers_sets_do_not():
    """Mean of three worlds, 30,000 steps; the paper's sets at full scale are still uniform."""
    regret = {}
    for name, agent in (
        ("ucrl3", romdp.UCRL3()),
        ("paper", romdp.UCRL2(romdp.Hoeffding())),
    ):
        runs = [
            romdp.play(agent, romdp.worlds.random_romdp(5, 4, 5, seed=seed), 30_000, seed=seed)
            for seed in range(3)
        ]
        regret[name] = np.mean([run.pseudo_regret[-1] for run in runs])
    assert regret["ucrl3"] < 0.4 * regret["paper"]


def test_bad_delta_is_named():
    with pytest.raises(InvalidInputError, match="delta is 2"):
        romdp.TimeUniform().plan(make_counts(0, 3, 2, 9), t=10, delta=2.0)
