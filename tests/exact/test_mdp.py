import pickle
import subprocess
import sys

import numpy as np
import pytest

from romdp.core.errors import InvalidInputError, StorageError, StructureError, UnknownNameError
from romdp.core.storage import write_arrays
from romdp.exact.chains import Mixing
from romdp.exact.mdp import MDP, REWARD_LAWS


def random_mdp(seed=0, n_states=5, n_actions=3):
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    return MDP(transition, rng.random((n_states, n_actions)))


def two_islands():
    """State 0 chooses between two states that are never left."""
    transition = np.zeros((3, 2, 3))
    transition[0, 0, 1] = transition[0, 1, 2] = 1.0
    transition[1, :, 1] = transition[2, :, 2] = 1.0
    return MDP(transition, [[0.0, 0.0], [0.2, 0.2], [0.7, 0.7]])


def test_sizes_and_repr():
    mdp = random_mdp()
    assert (mdp.n_states, mdp.n_actions, mdp.reward_law) == (5, 3, "bernoulli")
    assert repr(mdp) == "MDP(n_states=5, n_actions=3, reward_law='bernoulli')"
    assert (type(mdp.n_states), type(mdp.gain)) == (int, float)


def test_optimal_quantities_agree_with_each_other():
    mdp = random_mdp(1)
    ahead = mdp.reward + mdp.transition @ mdp.bias
    assert ahead.max(axis=1) == pytest.approx(mdp.gain + mdp.bias)
    assert np.array_equal(ahead.argmax(axis=1), mdp.optimal_policy)
    assert mdp.optimal_policy.dtype == np.int64
    assert mdp.policy_gain(mdp.optimal_policy) == pytest.approx(mdp.gain)
    assert mdp.stationary(mdp.optimal_policy) @ mdp.bias == pytest.approx(0.0, abs=1e-12)
    assert mdp.gain is mdp.gain  # solved once
    for actions in ([0] * 5, [1] * 5, [2, 1, 0, 1, 2]):
        assert mdp.policy_gain(actions) <= mdp.gain + 1e-12


def test_policies_as_actions_and_as_probabilities():
    mdp = random_mdp(2)
    actions = np.array([2, 0, 1, 1, 0])
    rows = np.eye(3)[actions]
    assert mdp.policy_gain(actions) == pytest.approx(mdp.policy_gain(rows))
    matrix, reward = mdp.chain(np.full((5, 3), 1 / 3))
    assert matrix == pytest.approx(mdp.transition.mean(axis=1))
    assert reward == pytest.approx(mdp.reward.mean(axis=1))
    law = mdp.stationary(np.full((5, 3), 1 / 3))
    assert law @ matrix == pytest.approx(law)
    assert law @ reward == pytest.approx(mdp.policy_gain(np.full((5, 3), 1 / 3)))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([0, 0, 0, 0], r"policy has shape \(4,\); it must be \(5,\)"),
        ([0, 0, 3, 0, 0], r"policy\[2\] is 3; entries must lie from 0 to 2"),
        ([0.5] * 5, "whole numbers"),
        (np.full((5, 3), 0.5), r"policy\[0, :\] sums to 1.5"),
        (np.full((5, 2), 0.5), r"policy has shape \(5, 2\); it must be \(5, 3\)"),
        ("uniform", "policy"),
        (None, "policy"),
    ],
)
def test_bad_policies(policy, message):
    with pytest.raises(InvalidInputError, match=message):
        random_mdp().policy_gain(policy)


def test_gains_that_depend_on_the_start_are_refused():
    mdp = two_islands()
    with pytest.raises(StructureError, match=r"optimal gain.*0\.7 from state 0.*0\.2 from state 1"):
        _ = mdp.gain
    assert mdp.optimal_policy[0] == 1  # still an answer
    with pytest.raises(StructureError, match="gain of this policy depends on the start"):
        mdp.policy_gain([0, 0, 0])
    with pytest.raises(StructureError, match="2 recurrent classes"):
        mdp.stationary([0, 0, 0])
    with pytest.raises(StructureError, match="2 recurrent classes"):
        mdp.mixing([0, 0, 0])
    assert mdp.diameter() == np.inf
    assert mdp.return_time() == np.inf


def rarely_crossed(rare):
    """Two states that are hardly ever left; action 1 leaves them sooner."""
    leave = rare * np.array([[1, 2], [1, 3]])
    transition = np.stack([1 - leave, leave], axis=2)
    transition[1] = transition[1, :, ::-1]
    return MDP(transition, [[0.1, 0.5], [1.0, 0.9]])


def test_a_solution_that_rounding_makes_uncertain_is_refused():
    assert rarely_crossed(1e-9).gain == pytest.approx((2 * 1.0 + 0.5) / 3)
    with pytest.raises(StructureError, match="optimality equations hold only up to"):
        _ = rarely_crossed(1e-14).gain


def test_diameter_and_return_time():
    ring = MDP(np.roll(np.eye(6), 1, axis=1)[:, None, :], np.zeros((6, 1)))
    assert ring.diameter() == 5.0
    assert ring.return_time() == 6.0
    assert MDP([[[1.0]]], [[0.5]]).diameter() == 0.0
    assert MDP([[[1.0]]], [[0.5]]).return_time() == 1.0
    coin = MDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1)))
    assert coin.diameter() == pytest.approx(2.0)
    # Two actions: state 0 is left with chance 0.5 or 0.1, state 1 with chance 0.25.
    lazy = MDP([[[0.5, 0.5], [0.9, 0.1]], [[0.25, 0.75], [0.25, 0.75]]], np.zeros((2, 2)))
    assert lazy.diameter() == pytest.approx(4.0)  # from 1 to 0
    assert lazy.return_time() == pytest.approx(1 + 0.75 * 0 + 0.25 * 10)  # of state 1, dawdling


def test_mixing_of_a_policy():
    mixing = MDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1))).mixing([0, 0])
    assert mixing == Mixing(1.0, 0.0, pytest.approx(0.0))


@pytest.mark.parametrize(
    ("transition", "reward", "message"),
    [
        (np.ones((2, 2)), np.zeros((2, 2)), r"transition has shape \(2, 2\)"),
        (np.full((2, 1, 3), 1 / 3), np.zeros((2, 1)), r"transition has shape \(2, 1, 3\)"),
        (np.zeros((0, 1, 0)), np.zeros((0, 1)), "no axis may be empty"),
        (np.full((2, 1, 2), 0.4), np.zeros((2, 1)), r"transition\[0, 0, :\] sums to 0.8"),
        ([[[1.5, -0.5]], [[1, 0]]], np.zeros((2, 1)), r"transition\[0, 0, 1\] is -0.5"),
        ([[[np.nan, 0.5]], [[1, 0]]], np.zeros((2, 1)), r"transition\[0, 0, 0\] is nan"),
        ([[["a"]]], [[0]], "real numbers"),
        ([[[1.0, 0.0]], [[1.0]]], [[0], [0]], "rectangular"),
        (np.full((2, 1, 2), 0.5), np.zeros((2, 2)), r"reward has shape \(2, 2\)"),
        (np.full((2, 1, 2), 0.5), [[0.0], [np.inf]], r"reward\[1, 0\] is inf"),
        (np.full((2, 1, 2), 0.5), [[0.0], [-0.2]], r"reward\[1, 0\] is -0.2"),
        (np.full((2, 1, 2), 0.5), None, "reward"),
    ],
)
def test_bad_arrays(transition, reward, message):
    with pytest.raises(InvalidInputError, match=message):
        MDP(transition, reward)


def test_a_reward_outside_the_range_says_how_to_rescale():
    reward = np.zeros((5, 3))
    reward[3, 1] = 1.7
    with pytest.raises(InvalidInputError) as caught:
        MDP(random_mdp().transition, reward)
    assert str(caught.value) == (
        "reward[3, 1] is 1.7; rewards must lie in [0, 1]. "
        "Rescale them with (reward - low) / (high - low)"
    )


def test_reward_laws():
    transition, reward = random_mdp().transition, random_mdp().reward
    assert {MDP(transition, reward, law).reward_law for law in REWARD_LAWS} == set(REWARD_LAWS)
    with pytest.raises(UnknownNameError, match="did you mean 'bernoulli'"):
        MDP(transition, reward, "bernouli")
    with pytest.raises(InvalidInputError, match="reward_law is 3"):
        MDP(transition, reward, 3)  # type: ignore[arg-type]


def test_an_mdp_cannot_be_changed():
    transition, reward = np.full((2, 1, 2), 0.5), np.zeros((2, 1))
    mdp = MDP(transition, reward)
    transition[0, 0] = [1.0, 0.0]
    reward[0] = 1.0
    assert mdp.gain == 0.0
    assert mdp.transition[0, 0, 0] == 0.5
    for array in (mdp.transition, mdp.reward, mdp.bias, mdp.optimal_policy):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    with pytest.raises(AttributeError, match="never changes"):
        mdp.reward = reward
    with pytest.raises(AttributeError, match="never changes"):
        mdp.extra = 1
    with pytest.raises(AttributeError, match="never changes"):
        del mdp.reward


def test_equality_and_hash_are_by_content():
    one, same, other = random_mdp(0), random_mdp(0), random_mdp(1)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != MDP(one.transition, one.reward, "beta")
    assert one != "an MDP"
    assert len({one, same, other}) == 2
    zero = MDP([[[0.0, 1.0]], [[1.0, 0.0]]], [[0.0], [0.0]])
    minus = MDP([[[-0.0, 1.0]], [[1.0, 0.0]]], [[-0.0], [0.0]])
    assert zero == minus
    assert hash(zero) == hash(minus)


@pytest.mark.parametrize("seed", range(20))
def test_saving_copying_and_rebuilding_keep_every_bit(seed, tmp_path):
    mdp = random_mdp(seed, n_states=30)
    mdp.save(tmp_path / "mdp.npz")
    loaded = MDP.load(tmp_path / "mdp.npz")
    copied = pickle.loads(pickle.dumps(mdp))
    rebuilt = MDP(mdp.transition, mdp.reward, mdp.reward_law)
    for twin in (loaded, copied, rebuilt):
        assert twin == mdp
        assert twin.transition.tobytes() == mdp.transition.tobytes()
        assert not twin.transition.flags.writeable


def test_laws_off_by_little_are_made_exact():
    mdp = MDP([[[0.3 + 1e-9, 0.7]], [[0.5, 0.5]]], np.zeros((2, 1)))
    assert mdp.transition.sum(axis=2) == pytest.approx(1.0, abs=1e-15)


def test_damaged_files_are_refused(tmp_path):
    path = tmp_path / "mdp.npz"
    with pytest.raises(StorageError, match="cannot read"):
        MDP.load(path)
    good = {"transition": np.full((2, 1, 2), 0.5), "reward": np.zeros((2, 1))}
    write_arrays(path, "mdp", 1, {"reward": good["reward"]}, {"reward_law": "beta"})
    with pytest.raises(StorageError, match="'transition' is missing"):
        MDP.load(path)
    write_arrays(path, "mdp", 1, {**good, "reward": np.full((2, 1), 9.0)}, {"reward_law": "beta"})
    with pytest.raises(StorageError, match=r"damaged.*rewards must lie"):
        MDP.load(path)
    write_arrays(path, "mdp", 1, good, {"reward_law": "cauchy"})
    with pytest.raises(StorageError, match="cauchy"):
        MDP.load(path)
    write_arrays(path, "romdp", 1, good, {"reward_law": "beta"})
    with pytest.raises(StorageError, match="holds a romdp, not a mdp"):
        MDP.load(path)
    write_arrays(path, "mdp", 2, good, {"reward_law": "beta"})
    with pytest.raises(StorageError, match="version 2"):
        MDP.load(path)


def test_building_an_mdp_solves_nothing_and_imports_no_solver_library():
    code = (
        "import sys; from romdp.exact.mdp import MDP; m = MDP([[[1.0]]], [[0.5]]); repr(m); "
        "assert 'scipy.sparse' not in sys.modules; assert set(vars(m)) == "
        "{'transition', 'reward', 'reward_law'}"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_gain_beyond_the_precision_of_floats_is_called_so():
    """Version 0.1 said that it depends on the start state, which is not true."""
    transition = np.array([[[1 - 1e-15, 1e-15], [1, 0]], [[0, 1], [0, 1]]])
    mdp = MDP(transition, [[0.2, 0.3], [0.8, 0.1]])
    with pytest.raises(StructureError, match=r"precision of 64-bit floats: .* probability 1e-15"):
        _ = mdp.gain
    apart = MDP([[[1.0, 0.0]], [[0.0, 1.0]]], [[0.2], [0.8]])
    with pytest.raises(StructureError, match="depends on the start state"):
        _ = apart.gain
