import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romdp.exact.romdp import ROMDP


def world_of(transition, labels=None, reward=None, chance=None):
    transition = np.array(transition, float)
    n_states, n_actions, _ = transition.shape
    labels = np.arange(n_states) if labels is None else labels
    reward = np.zeros((n_states, n_actions)) if reward is None else reward
    return ROMDP.from_labels(transition, reward, labels, chance)


def draw(seed, n_states, n_actions, more):
    """A random world, some of whose transitions are impossible."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(n_states), (n_states, n_actions))
    transition *= rng.random(transition.shape) < 0.7
    transition[np.arange(n_states), :, (np.arange(n_states) + 1) % n_states] += 0.2
    transition /= transition.sum(axis=-1, keepdims=True)
    labels = np.append(np.arange(n_states), rng.integers(n_states, size=more))
    chance = rng.random(labels.size) + 0.05
    chance /= np.bincount(labels, chance)[labels]
    return world_of(transition, labels, rng.random((n_states, n_actions)), chance)


def chains_of(world):
    """The transition matrix of every deterministic policy on the hidden states."""
    states = np.arange(world.n_states)
    for policy in product(range(world.n_actions), repeat=world.n_states):
        yield world.transition[states, policy]


def is_ergodic(chain):
    """Some power of the chain is positive everywhere (Wielandt's bound on the power)."""
    size = len(chain)
    return bool((np.linalg.matrix_power((chain > 0) + 0.0, (size - 1) ** 2 + 1) > 0).all())


def longest_return(world):
    """The largest mean return time over states and policies: one over the stationary law."""
    longest = 0.0
    for chain in chains_of(world):
        size = len(chain)
        equations = np.vstack([chain.T - np.eye(size), np.ones(size)])
        law = np.linalg.lstsq(equations, np.append(np.zeros(size), 1.0), rcond=None)[0]
        longest = max(longest, float((1 / law).max()))
    return longest


sizes = st.tuples(st.integers(0, 10**9), st.integers(1, 4), st.integers(1, 3), st.integers(0, 4))


@given(sizes)
def test_ergodicity_agrees_with_trying_every_policy(arguments):
    world = draw(*arguments)
    facts = world.assumptions()
    assert facts.ergodic == all(is_ergodic(chain) for chain in chains_of(world))
    if facts.ergodic:
        assert facts.return_time == pytest.approx(longest_return(world), rel=1e-6)


@given(sizes)
def test_diameters_agree_with_those_of_the_two_mdps(arguments):
    world = draw(*arguments)
    facts = world.assumptions()
    assert facts.hidden_diameter == world.hidden.diameter()
    assert facts.observable_diameter == pytest.approx(world.observable.diameter(), rel=1e-9)


@given(sizes)
def test_constants_by_their_definitions(arguments):
    world = draw(*arguments)
    facts = world.assumptions()
    assert (facts.n_states, facts.n_actions) == (world.n_states, world.n_actions)
    assert facts.n_observations == world.n_observations
    assert facts.gain == pytest.approx(world.hidden.gain)
    assert facts.smallest_emission == world.emission[world.emission > 0].min()
    for a in range(world.n_actions):
        singular = np.linalg.svd(world.transition[:, a], compute_uv=False)
        assert facts.singular_values[a] == pytest.approx(singular[-1], abs=1e-12)
        if singular[-1] > 1e-9:
            condition = np.linalg.cond(world.transition[:, a])
            assert facts.condition_numbers[a] == pytest.approx(condition, rel=1e-6)
    pairs = [(x, z) for x in range(world.n_states) for z in range(x)]
    if not pairs:
        assert facts.reward_gap == facts.transition_gap == np.inf
        return
    rewards = [[abs(world.reward[x, a] - world.reward[z, a]) for a in range(world.n_actions)]
               for x, z in pairs]  # fmt: skip
    moves = [np.abs(world.transition[x] - world.transition[z]).sum(axis=-1) for x, z in pairs]
    assert facts.reward_gap == pytest.approx(np.min(rewards))
    assert facts.reward_gap_best == pytest.approx(min(map(max, rewards)))
    assert facts.transition_gap == pytest.approx(np.min(moves))
    assert facts.transition_gap_best == pytest.approx(min(map(max, moves)))


SWAP = [[[0, 1]], [[1, 0]]]
POSITIVE = [[[0.5, 0.5]], [[0.25, 0.75]]]
ABSORBING = [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]
LAZY = [[[0.5, 0.5, 0]], [[0, 0, 1]], [[1, 0, 0]]]
CHOICE = [[[0, 1, 0], [0, 0.5, 0.5]], [[0, 0, 1], [0, 0, 1]], [[1, 0, 0], [1, 0, 0]]]


@pytest.mark.parametrize(
    ("transition", "ergodic", "why"),
    [
        (POSITIVE, True, "every transition has positive probability"),
        ([[[1]]], True, "every transition has positive probability"),
        (SWAP, False, "no state can be avoided, but some policy's chain is periodic"),
        (ABSORBING, False, "a policy can avoid hidden state 0 forever"),
        (LAZY, True, "no state can be avoided and no policy's chain is periodic"),
        (CHOICE, False, "no state can be avoided, but some policy's chain is periodic"),
    ],
    ids=["positive", "one state", "swap", "absorbing", "lazy", "periodic by choice"],
)
def test_ergodicity_of_worlds_made_by_hand(transition, ergodic, why):
    facts = world_of(transition).assumptions()
    assert (facts.ergodic, facts.ergodic_why) == (ergodic, why)


def test_too_many_policies_to_decide():
    """Four layers of five states in a ring, with shortcuts that only some actions take."""
    layers, width = 4, 5
    n_states = layers * width
    transition = np.zeros((n_states, 3, n_states))
    rng = np.random.default_rng(0)
    for x in range(n_states):
        first = (x // width + 1) % layers * width
        for a in range(3):
            transition[x, a, first : first + width] = 1 / width
            transition[x, a, first + a] += 1e-3
        ahead = (x // width + 2) % layers * width
        transition[x, 1 + rng.integers(2), ahead] = 0.1
    transition /= transition.sum(axis=-1, keepdims=True)
    facts = world_of(transition).assumptions()
    assert facts.ergodic is None
    assert "too many policies" in facts.ergodic_why
    assert "undecided" in str(facts)


def test_a_world_with_dependent_rows_is_not_full_rank():
    facts = world_of([[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.2, 0.8]]]).assumptions()
    assert not facts.full_rank
    assert facts.condition_numbers[0] == np.inf
    assert facts.condition_numbers[1] < 5
    assert facts.transition_gap == 0
    assert facts.transition_gap_best == pytest.approx(1.4)
    assert world_of(POSITIVE).assumptions().full_rank


def test_an_unreachable_state_makes_infinite_diameters():
    facts = world_of(ABSORBING, labels=[0, 1, 1]).assumptions()
    assert facts.hidden_diameter == facts.observable_diameter == facts.return_time == np.inf


def test_a_gain_that_depends_on_the_start_is_none():
    islands = world_of([[[1, 0]], [[0, 1]]], reward=[[0.0], [1.0]])
    facts = islands.assumptions()
    assert facts.gain is None
    assert facts.mixing_optimal is None
    assert "depends on the start" in str(facts)
    json.dumps(facts.to_dict(), allow_nan=False)


def test_mixing_is_that_of_the_hidden_chains():
    world = draw(1, 4, 2, 3)
    facts = world.assumptions()
    assert facts.mixing_uniform == world.hidden.mixing(np.full((4, 2), 0.5))
    assert facts.mixing_optimal == world.hidden.mixing(world.hidden.optimal_policy)
    assert world_of(SWAP).assumptions().mixing_uniform is None


def test_a_rare_observation_makes_a_long_way():
    """One state, two observations, one of chance 0.01: it takes 100 steps on average."""
    facts = world_of([[[1.0]]], labels=[0, 0], chance=[0.99, 0.01]).assumptions()
    assert facts.hidden_diameter == 0
    assert facts.observable_diameter == pytest.approx(100)


def test_the_table():
    lines = str(draw(2, 3, 2, 5).assumptions()).splitlines()
    assert len(lines) == 16
    assert lines[0].split() == ["hidden", "states", "X", "3"]
    column = lines[0].index("3")
    assert all(line[column - 1] == " " != line[column] for line in lines)  # one column of values
    for words in ("rho*", "O_min", "D_X", "D_Y", "tau_M", "full rank", "ergodic", "gap", "theta"):
        assert words in "\n".join(lines)


@pytest.mark.parametrize("transition", [POSITIVE, SWAP, ABSORBING, [[[1]]]])
def test_to_dict_is_json(transition):
    facts = world_of(transition).assumptions()
    content = json.loads(json.dumps(facts.to_dict(), allow_nan=False))
    assert content["n_states"] == facts.n_states
    assert content["ergodic"] is facts.ergodic
    assert content["singular_values"] == pytest.approx(facts.singular_values)
    infinite = facts.hidden_diameter == np.inf
    assert content["hidden_diameter"] == ("infinite" if infinite else facts.hidden_diameter)
    mixing = facts.mixing_uniform
    if mixing is None:
        assert content["mixing_uniform"] is None
    else:
        assert content["mixing_uniform"]["contraction"] == mixing.contraction
