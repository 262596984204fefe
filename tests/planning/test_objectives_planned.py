"""Value iteration under discounted and episodic objectives, against exact solutions."""

from dataclasses import replace

import numpy as np
import planning_twins as twins
import pytest
import scipy.sparse

import romdp
from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.trajectory import Trajectory
from romdp.exact.objectives import AVERAGE, Objective
from romdp.planning import (
    extended_value_iteration,
    interval_value_iteration,
    support_value_iteration,
    value_iteration,
)
from romdp.planning.means import mean_plan
from romdp.planning.rows import discounted_iteration

OBJECTIVES = [
    Objective("discounted", 0.9),
    Objective("discounted", 0.9, zero_reward=0.7),
    Objective("episodic", 0.95, zero_reward=0.4),
    Objective("episodic", horizon=6),
    Objective("episodic", horizon=6, zero_reward=0.7),
]


def random_model(seed, n_states=5, n_actions=3):
    rng = np.random.default_rng(seed)
    laws = rng.dirichlet(np.full(n_states + 1, 0.5), (n_states, n_actions))
    return laws, rng.random((n_states, n_actions))


def both(laws):
    return laws, scipy.sparse.csr_array(laws.reshape(-1, laws.shape[-1]))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", range(3))
def test_value_iteration_finds_the_exact_solution(objective, seed):
    laws, rewards = random_model(seed)
    ending = laws[..., -1]
    mdp = romdp.MDP(laws[..., :-1] / (1 - ending)[..., None], rewards)
    values = mdp.values(objective, ending=ending)
    for transitions in both(laws):
        plan = value_iteration(transitions, rewards, 1e-11, objective=objective)
        assert plan.converged
        assert np.isnan(plan.gain)
        assert (plan.policy == mdp.best_policy(objective, ending=ending)).all()
        first = values if objective.horizon is None else values[0]
        assert plan.values == pytest.approx(first, abs=1e-8)
        assert plan.sweeps == objective.horizon or objective.horizon is None
        warm = value_iteration(transitions, rewards, 1e-11, start=plan.values, objective=objective)
        assert warm.sweeps <= 2 or objective.horizon is not None


def plain_sums(best_law, rewards, objective, sweeps):
    """The optimists' sweeps, one pair at a time; the end is the last entry of the values."""
    n_states, n_actions = rewards.shape
    values, policies = np.zeros(n_states + 1), []
    for _ in range(sweeps):
        totals = np.array(
            [
                [
                    rewards[s, a]
                    - objective.zero_reward
                    + objective.rate * best_law(s, a, values - values.min()) @ values
                    for a in range(n_actions)
                ]
                for s in range(n_states)
            ]
        )
        values = np.append(totals.max(axis=1), 0.0)
        policies.insert(0, totals.argmax(axis=1))
    return values[:-1], np.array(policies)


@pytest.mark.parametrize("objective", [goal for goal in OBJECTIVES if goal.horizon is None])
def test_sweeps_in_place_find_the_same(objective):
    laws, rewards = random_model(3)
    start = np.random.default_rng(0).normal(size=5)
    for begin in (None, start):
        arguments = {"start": begin, "objective": objective}
        plan = value_iteration(laws, rewards, 1e-12, **arguments)
        other = discounted_iteration(both(laws)[1], rewards, 1e-12, objective, start=begin)
        assert other.converged
        assert other.values == pytest.approx(plan.values, abs=1e-9)
        assert (other.policy == plan.policy).all()
        assert other.sweeps < plan.sweeps
        share = np.linspace(0.1, 0.9, rewards.size)
        each = share.reshape(*rewards.shape, 1)
        stray = both((1 - each) * laws)[1]
        mixed = (1 - each) * laws + each / laws.shape[2]
        plan = value_iteration(mixed, rewards, 1e-12, **arguments)
        other = discounted_iteration(stray, rewards, 1e-12, objective, start=begin, anywhere=share)
        assert other.values == pytest.approx(plan.values, abs=1e-9)
    short = discounted_iteration(both(laws)[1], rewards, 1e-12, objective, max_sweeps=2)
    assert not short.converged
    assert short.sweeps == 2


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("kind", ["balls", "intervals"])
def test_optimists_agree_with_their_plain_twins(objective, kind):
    rng = np.random.default_rng(1)
    counts = rng.integers(0, 20, (4, 2, 5))
    counts[2, 1] = 0
    rewards, widths = rng.random((4, 2)), rng.uniform(0, 1, (4, 2))
    sweeps = objective.horizon or 15
    for transitions in both(counts):
        if kind == "balls":

            def law(s, a, values):
                return twins.ball_law(counts[s, a], widths[s, a], values)

            plan = extended_value_iteration(
                transitions, rewards, widths, 1e-300, max_sweeps=sweeps, objective=objective
            )
        else:

            def law(s, a, values):
                return twins.interval_law(counts[s, a], 0.1, widths[s, a] / 5, values)

            plan = interval_value_iteration(
                transitions,
                rewards,
                np.full((4, 2), 0.1),
                widths / 5,
                1e-300,
                max_sweeps=sweeps,
                objective=objective,
            )
        values, policies = plain_sums(law, rewards, objective, sweeps)
        assert plan.values == pytest.approx(values)
        found = plan.policy if objective.horizon else plan.policy[None]
        assert (found == policies[: len(found)]).all()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_all_optimists_promise_at_least_the_truth(objective):
    laws, rewards = random_model(7)
    ending = laws[..., -1]
    mdp = romdp.MDP(laws[..., :-1] / (1 - ending)[..., None], rewards)
    truth = mdp.values(objective, ending=ending).reshape(-1, 5)[0]
    counts = np.round(laws * 2000).astype(int)
    for transitions in both(counts):
        plan = support_value_iteration(transitions, rewards, 4.0, 1e-9, objective=objective)
        assert (plan.values >= truth - 0.01).all()
    dense, sparse = (
        support_value_iteration(moves, rewards, 4.0, 1e-9, objective=objective)
        for moves in both(counts)
    )
    assert dense.values == pytest.approx(sparse.values)
    assert (dense.policy == sparse.policy).all()


def corridor(n_states=4, seed=0, n_episodes=60):
    """Random walks of which the last state's action 1 ends the episode; each step costs 1."""
    rng = np.random.default_rng(seed)
    seen, taken, lengths = [], [], []
    for _ in range(n_episodes):
        state, length = 0, 0
        while True:
            action = int(rng.integers(2))
            seen.append(state)
            taken.append(action)
            length += 1
            if state == n_states - 1 and action == 1:
                break
            state = min(state + 1, n_states - 1) if action else max(state - 1, 0)
        lengths.append(length)
    return Trajectory(
        seen,
        taken,
        np.zeros(len(seen)),
        lengths,
        np.zeros(n_episodes, int),
        terminated=np.ones(n_episodes, bool),
    )


@pytest.mark.parametrize(
    "planner",
    [
        romdp.Posterior(),
        romdp.Optimism(romdp.Hoeffding(0.05)),
        romdp.Optimism(romdp.Bernstein(0.1)),
        romdp.Optimism(romdp.TimeUniform()),
    ],
    ids=["posterior", "hoeffding", "bernstein", "time-uniform"],
)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    "objective",
    [Objective("episodic", 0.99, zero_reward=1.0), Objective("episodic", None, 12, 1.0)],
)
def test_planners_go_for_the_end_where_steps_cost(planner, sparse, objective):
    counts = Counts.from_trajectory(corridor(n_episodes=400), sparse=sparse)
    told = replace(planner, objective=objective)
    plan = told.plan(counts, counts.n_steps + 1, np.random.default_rng(0), None, 4)
    first = plan.policy if objective.horizon is None else plan.policy[0]
    assert first.tolist() == [1, 1, 1, 1]
    assert plan.policy.shape == ((4,) if objective.horizon is None else (12, 4))


def test_the_mean_plan_leaves_out_what_was_never_tried():
    counts = Counts.from_trajectory(corridor())
    goal = Objective("episodic", 0.9, zero_reward=1.0)
    plan = mean_plan(counts, goal)
    steps = np.arange(4, 0, -1)
    assert plan.policy.tolist() == [1, 1, 1, 1]
    assert plan.values == pytest.approx(-(1 - 0.9**steps) / 0.1, abs=0.05)
    staged = mean_plan(counts, Objective("episodic", horizon=9, zero_reward=1.0))
    assert staged.policy.shape == (9, 4)
    assert staged.values == pytest.approx(-steps)
    # A third action that nobody tried, and a state where nobody tried anything.
    wide = np.zeros((5, 3, 5), int)
    wide[:4, :2, :4] = counts.transitions
    wide[3, 1, 0] = counts.ends[3, 1]  # begin again
    visits = wide.sum(axis=2)
    pay = np.zeros((5, 3))
    pay[:4, 1] = visits[:4, 1]
    plan = mean_plan(Counts(visits, wide, pay, pay), AVERAGE)
    assert (plan.policy[:4] == 1).all()
    assert mean_plan(Counts.zeros(3, 2)).policy.tolist() == [0, 0, 0]


@pytest.mark.parametrize("objective", [AVERAGE, *OBJECTIVES])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_mean_plan_has_the_prior_in_it(objective, sparse):
    """The same as planning on counts to which the prior's weight was added by hand."""
    rng = np.random.default_rng(1)
    moves = rng.integers(0, 4, (5, 2, 5)) + np.eye(5, dtype=int)[:, None]
    counts = Counts(moves.sum(axis=2), moves, *rng.random((2, 5, 2)))
    if sparse:
        counts = counts.sparse()
    wide = moves if objective.is_average else np.append(moves, np.zeros((5, 2, 1), int), axis=2)
    rewards = rng.random((5, 2))
    plan = mean_plan(counts, objective, rewards=rewards, weights=np.full(10, 3.0))
    told = value_iteration(wide + 3.0 / wide.shape[2], rewards, 1e-10, objective=objective)
    assert (plan.policy == told.policy).all()
    assert plan.values == pytest.approx(told.values, abs=0.02 * np.abs(told.values).max())
    bare = mean_plan(counts, objective, rewards=rewards)
    assert np.abs(bare.values - told.values).max() > 0.05 * np.abs(told.values).max()


def test_what_went_well_once_is_not_the_best():
    """One action never failed in its only try, the other failed once in a hundred."""
    goal = Objective("episodic", 0.99)
    seen = np.array([[[99, 0, 1], [1, 0, 0]], [[0, 10, 40], [0, 10, 40]]])
    ones = seen.sum(axis=2).astype(float)
    counts = Counts(seen.sum(axis=2), seen[..., :2], ones, ones, ends=seen[..., 2])
    assert mean_plan(counts, goal).policy[0] == 1
    assert mean_plan(counts, goal, weights=np.ones(counts.visits.size)).policy[0] == 0


def test_transitions_must_have_a_column_for_the_end():
    with pytest.raises(InvalidInputError, match=r"must be \(S, A, S \+ 1\)"):
        value_iteration(np.ones((2, 2, 2)), np.ones((2, 2)), 0.1, objective=OBJECTIVES[0])
