import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from romdp.core.errors import (
    InvalidInputError,
    ROMDPError,
    StorageError,
    TooLargeError,
    UnknownNameError,
    WriteError,
)
from romdp.core.storage import read_arrays, write_arrays
from romdp.exact.mdp import MDP, REWARD_LAWS
from romdp.exact.romdp import ROMDP, as_romdp

TRANSITION = [[[0.9, 0.1], [0.2, 0.8]], [[0.4, 0.6], [1.0, 0.0]]]
REWARD = [[0.0, 0.25], [1.0, 0.5]]
EMISSION = [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]]
GOOD = {"transition": TRANSITION, "reward": REWARD, "emission": EMISSION}


def draw(seed, n_states=3, n_actions=2, n_observations=7, reward_law="bernoulli"):
    """A random world, made without the library's own worlds."""
    rng = np.random.default_rng(seed)
    transition = rng.dirichlet(np.ones(n_states), (n_states, n_actions))
    labels = np.append(np.arange(n_states), rng.integers(n_states, size=n_observations - n_states))
    chance = rng.random(n_observations) + 0.01
    chance /= np.bincount(labels, chance)[labels]
    initial = rng.dirichlet(np.ones(n_states))
    reward = rng.random((n_states, n_actions))
    return ROMDP.from_labels(transition, reward, labels, chance, reward_law, initial)


def arrays_of(world):
    names = ("transition", "reward", "labels", "observation_chance", "initial", "emission")
    return {name: getattr(world, name) for name in names} | {"hidden": world.hidden.transition}


def same_bits(one, other):
    ours, theirs = arrays_of(one), arrays_of(other)
    return all(ours[name].tobytes() == theirs[name].tobytes() for name in ours)


def test_what_a_world_holds():
    world = ROMDP(**GOOD)
    assert (world.n_states, world.n_actions, world.n_observations) == (2, 2, 3)
    assert world.labels.tolist() == [0, 1, 0]
    assert world.labels.dtype == np.int64
    assert world.observation_chance.tolist() == [0.5, 1.0, 0.5]
    assert world.emission.tolist() == EMISSION
    assert world.transition.tolist() == TRANSITION
    assert world.reward.tolist() == REWARD
    assert world.initial.tolist() == [0.5, 0.5]
    assert world.hidden == MDP(TRANSITION, REWARD)
    assert repr(world) == (
        "ROMDP(n_states=2, n_actions=2, n_observations=3, reward_law='bernoulli')"
    )


def changed(name, index, value):
    array = np.array(GOOD[name])
    array[index] = value
    return {name: array}


BAD = [
    # shapes
    ({"transition": [[0.5, 0.5]]}, r"transition has shape \(1, 2\); it must be \(n_states, n_act"),
    ({"transition": np.full((2, 2, 3), 1 / 3)}, r"transition has shape \(2, 2, 3\)"),
    (
        {"transition": np.empty((0, 2, 0))},
        r"transition has shape \(0, 2, 0\); no axis may be empty",
    ),
    (
        {"transition": np.empty((2, 0, 2))},
        r"transition has shape \(2, 0, 2\); no axis may be empty",
    ),
    ({"transition": []}, r"transition has shape \(0,\)"),
    ({"transition": 1.0}, r"transition has shape \(\)"),
    ({"reward": [0.5, 0.5]}, r"reward has shape \(2,\); it must be \(2, 2\)"),
    ({"reward": np.zeros((2, 3))}, r"reward has shape \(2, 3\); it must be \(2, 2\)"),
    ({"emission": np.eye(3)}, r"emission has shape \(3, 3\); it must be \(2, n_observations\)"),
    ({"emission": np.empty((2, 0))}, r"emission has shape \(2, 0\); no axis may be empty"),
    ({"initial": [0.5, 0.25, 0.25]}, r"initial has shape \(3,\); it must be \(2,\)"),
    ({"initial": []}, r"initial has shape \(0,\)"),
    # sums
    (changed("transition", (1, 0, 1), 0.5), r"transition\[1, 0, :\] sums to 0.9; .* must sum to 1"),
    (changed("transition", (0, 1), 0.0), r"transition\[0, 1, :\] sums to 0;"),
    (changed("transition", (0, 1), 1e308), r"transition\[0, 1, :\] sums to inf;"),
    (changed("emission", (1, 1), 0.5), r"emission\[1, :\] sums to 0.5"),
    ({"initial": [0.5, 0.4]}, r"initial\[:\] sums to 0.9"),
    # signs
    (changed("transition", (0, 0), [1.5, -0.5]), r"transition\[0, 0, 1\] is -0.5; .* negative"),
    (changed("emission", 0, [1.5, 0.0, -0.5]), r"emission\[0, 2\] is -0.5"),
    ({"initial": [1.5, -0.5]}, r"initial\[1\] is -0.5"),
    # not numbers, not finite
    (changed("transition", (0, 0, 1), np.nan), r"transition\[0, 0, 1\] is nan"),
    (changed("reward", (1, 0), np.nan), r"reward\[1, 0\] is nan"),
    (changed("emission", (1, 1), np.inf), r"emission\[1, 1\] is inf"),
    ({"initial": [np.nan, 1.0]}, r"initial\[0\] is nan"),
    # rewards outside [0, 1]
    (
        changed("reward", (1, 0), 1.7),
        r"reward\[1, 0\] is 1.7; rewards must lie in \[0, 1\]. Rescale",
    ),
    (changed("reward", (0, 1), -0.1), r"reward\[0, 1\] is -0.1"),
    # observations of two states or of none
    (
        {"emission": [[0.5, 0.0, 0.5], [0.0, 0.5, 0.5]]},
        r"observation 2 is shown by hidden states \[0, 1\]; .* emission\[:, 2\] must have one pos",
    ),
    (
        {"emission": [[0.5, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]]},
        r"observation 3 is shown by no hidden state; each observation belongs to exactly one",
    ),
    # other types
    ({"transition": "abc"}, "transition holds <U3 entries; pass an array of real numbers"),
    ({"transition": None}, "transition holds object entries"),
    ({"transition": [[[1.0]], [[0.5, 0.5]]]}, "transition is not an array: it is not rect"),
    ({"reward": [["0", "1"], ["1", "0"]]}, "reward holds <U1 entries"),
    ({"reward": [[0.0], [1.0, 0.5]]}, "reward is not an array: it is not rect"),
    ({"reward": np.array(REWARD, complex)}, "reward holds complex128 entries"),
    ({"reward": np.array(REWARD, object)}, "reward holds object entries"),
    ({"emission": np.array(EMISSION, bool)}, "emission holds bool entries"),
    ({"initial": "first"}, "initial holds <U5 entries"),
    ({"initial": [True, False]}, "initial holds bool entries"),
    # reward laws
    ({"reward_law": "bernouli"}, "unknown reward_law 'bernouli': did you mean 'bernoulli'"),
    ({"reward_law": 1}, "reward_law is 1; choose from bernoulli, beta"),
    ({"reward_law": None}, "reward_law is None"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_worlds(arguments, message):
    """Warnings are errors in these tests: none may come before ours."""
    with pytest.raises(ROMDPError, match=message):
        ROMDP(**{**GOOD, **arguments})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": [0, 2, 0]}, r"labels\[1\] is 2; entries must lie from 0 to 1"),
        ({"labels": [0, -1, 0]}, r"labels\[1\] is -1"),
        ({"labels": [0, 0, 0]}, "hidden state 1 has no observation in labels"),
        ({"labels": [0.0, 1.0, 0.0]}, "labels holds float64 entries; pass whole numbers"),
        ({"labels": [[0, 1, 0]]}, r"labels has shape \(1, 3\)"),
        ({"labels": []}, r"labels has shape \(0,\); no axis may be empty"),
        ({"labels": "010"}, "labels holds"),
        (
            {"observation_chance": [0.5, 0.5]},
            r"observation_chance has shape \(2,\); it must be \(3",
        ),
        ({"observation_chance": [1.0, 1.0, 0.0]}, r"observation_chance\[2\] is 0; .* positive"),
        ({"observation_chance": [1.5, 1.0, -0.5]}, r"observation_chance\[2\] is -0.5"),
        ({"observation_chance": [0.5, 1.0, 0.4]}, "of hidden state 0 sums to 0.9, not to 1"),
        ({"observation_chance": [1e308, 1.0, 1e308]}, "of hidden state 0 sums to inf"),
        ({"observation_chance": [0.5, np.nan, 0.5]}, r"observation_chance\[1\] is nan"),
        ({"reward_law": "gauss"}, "unknown reward_law 'gauss'"),
        ({"initial": [1.0]}, r"initial has shape \(1,\)"),
    ],
)
def test_bad_labels(arguments, message):
    good = {"transition": TRANSITION, "reward": REWARD, "labels": [0, 1, 0]}
    with pytest.raises(ROMDPError, match=message):
        ROMDP.from_labels(**{**good, **arguments})


def test_the_kind_of_error_is_an_ordinary_one_too():
    with pytest.raises(ValueError, match="reward"):
        ROMDP(TRANSITION, [[2.0, 0.0], [0.0, 0.0]], EMISSION)
    with pytest.raises(UnknownNameError):
        ROMDP(**GOOD, reward_law="betta")


def test_from_labels_is_the_constructor():
    by_labels = ROMDP.from_labels(TRANSITION, REWARD, [0, 1, 0])
    assert by_labels == ROMDP(**GOOD)
    for seed in range(5):
        world = draw(seed)
        model = world.transition, world.reward, world.emission, world.reward_law, world.initial
        assert ROMDP(*model) == world
        assert same_bits(ROMDP(*model), world)


@given(st.integers(0, 10**9), st.integers(1, 4), st.integers(0, 300))
def test_a_world_built_from_its_own_arrays_is_the_same_bit_by_bit(seed, n_states, more):
    world = draw(seed, n_states, 2, n_states + more)
    model = world.transition, world.reward
    again = ROMDP.from_labels(*model, world.labels, world.observation_chance, initial=world.initial)
    assert same_bits(again, world)
    assert again == world
    assert hash(again) == hash(world)


def test_a_large_world_built_from_its_own_arrays_is_the_same():
    world = draw(0, 3, 1, 200_000)
    again = ROMDP.from_labels(
        world.transition, world.reward, world.labels, world.observation_chance
    )
    assert np.array_equal(again.observation_chance, world.observation_chance)


def test_from_mdp():
    mdp = MDP(TRANSITION, REWARD, "beta")
    world = ROMDP.from_mdp(mdp)
    assert world.hidden == mdp
    assert world.observable == mdp
    assert world.labels.tolist() == [0, 1]
    assert as_romdp(mdp) == world
    assert as_romdp(world) is world
    with pytest.raises(
        InvalidInputError, match=r"world is 'grid'; pass a romdp\.ROMDP or romdp\.MDP"
    ):
        as_romdp("grid")


@given(st.integers(0, 10**9), st.integers(1, 4), st.integers(1, 3), st.integers(0, 6))
def test_hidden_and_observable_have_one_gain(seed, n_states, n_actions, more):
    world = draw(seed, n_states, n_actions, n_states + more)
    assert world.observable.gain == pytest.approx(world.hidden.gain, abs=1e-9)
    policy = world.hidden.optimal_policy[world.labels]
    assert world.observable.policy_gain(policy) == pytest.approx(world.hidden.gain, abs=1e-9)


def test_the_observable_mdp_by_its_definition():
    world = draw(4, reward_law="uniform")
    found = world.observable
    assert found.reward_law == "uniform"
    for y in range(world.n_observations):
        for a in range(world.n_actions):
            law = world.transition[world.labels[y], a] @ world.emission
            assert found.transition[y, a] == pytest.approx(law, abs=1e-15)
            assert found.reward[y, a] == world.reward[world.labels[y], a]
    assert world.observable is found  # made once


def test_worlds_are_equal_when_everything_is():
    world = draw(1)
    assert world == draw(1)
    assert hash(world) == hash(draw(1))
    assert world != draw(2)
    assert world != "a world"
    assert world != world.hidden
    model = {
        "transition": world.transition,
        "reward": world.reward,
        "labels": world.labels,
        "observation_chance": world.observation_chance,
        "reward_law": world.reward_law,
        "initial": world.initial,
    }
    rng = np.random.default_rng(0)
    differences = {
        "transition": rng.permuted(world.transition, axis=-1),
        "reward": 1.0 - world.reward,
        "labels": np.roll(world.labels, 1),
        "observation_chance": None,
        "reward_law": "beta",
        "initial": None,
    }
    for name, value in differences.items():
        other = {**model, name: value}
        if name == "labels":
            other["observation_chance"] = np.roll(world.observation_chance, 1)
        assert ROMDP.from_labels(**other) != world, name
    assert len({world, draw(1), draw(2)}) == 2


def test_negative_zeros_make_no_difference():
    with_minus = [[[1.0, -0.0]], [[-0.0, 1.0]]]
    one = ROMDP(with_minus, [[-0.0], [0.0]], [[1.0, -0.0], [-0.0, 1.0]], initial=[1.0, -0.0])
    other = ROMDP(np.abs(with_minus), [[0.0], [0.0]], np.eye(2), initial=[1.0, 0.0])
    assert one == other
    assert hash(one) == hash(other)


def check_frozen(world):
    for name, array in arrays_of(world).items():
        with pytest.raises(ValueError, match="read-only"):
            array.flat[0] = 0
        assert array.flags.c_contiguous, name
    for name in ("transition", "labels", "hidden", "new"):
        with pytest.raises(AttributeError, match=f"cannot (set|delete) {name}: a ROMDP"):
            setattr(world, name, 1)
    with pytest.raises(AttributeError, match="never changes"):
        del world.labels


def test_a_world_is_frozen():
    check_frozen(ROMDP(**GOOD))
    check_frozen(draw(0))
    check_frozen(ROMDP(*(np.asfortranarray(value) for value in GOOD.values())))


def test_a_world_does_not_share_the_callers_arrays():
    given_arrays = {name: np.array(value) for name, value in GOOD.items()}
    world = ROMDP(**given_arrays)
    for array in given_arrays.values():
        array[:] = 7
    assert world == ROMDP(**GOOD)


@pytest.mark.parametrize(
    "again",
    [lambda world: pickle.loads(pickle.dumps(world)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_copies_are_equal_and_frozen(again):
    world = draw(3, reward_law="beta")
    _ = world.observable, world.hidden.gain  # what was computed must not get in the way
    copied = again(world)
    assert same_bits(copied, world)
    assert copied == world
    assert copied.reward_law == "beta"
    check_frozen(copied)


@pytest.mark.parametrize("reward_law", REWARD_LAWS)
def test_save_and_load(tmp_path, reward_law):
    world = draw(5, 4, 3, 50, reward_law)
    world.save(tmp_path / "w.npz")
    loaded = ROMDP.load(tmp_path / "w.npz")
    assert loaded == world
    assert same_bits(loaded, world)
    assert hash(loaded) == hash(world)
    check_frozen(loaded)


def saved(tmp_path, **changes):
    """A world file in which some entries were changed, or left out where they are None."""
    path = tmp_path / "w.npz"
    draw(0).save(path)
    arrays, facts = read_arrays(path, "romdp world", 1)
    header = {"kind": "romdp world", "version": 1} | {
        name: changes.pop(name) for name in ("kind", "version") if name in changes
    }
    arrays |= changes
    kept = {name: array for name, array in arrays.items() if array is not None}
    write_arrays(path, header["kind"], header["version"], kept, facts)
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "has format version 2; this romdp reads version 1"),
        ({"kind": "counts"}, "holds a counts, not a romdp world"),
        ({"reward": np.full((3, 2), 2.0)}, r"is damaged: reward\[0, 0\] is 2"),
        ({"labels": np.zeros(7, np.int64)}, "is damaged: hidden state 1 has no observation"),
        ({"labels": np.zeros(7)}, "is damaged: labels holds float64"),
        ({"transition": None}, "is damaged: .*transition"),
        ({"more": np.zeros(1)}, "is damaged: .*more"),
    ],
)
def test_files_that_do_not_hold_a_world(tmp_path, changes, message):
    with pytest.raises(StorageError, match=message):
        ROMDP.load(saved(tmp_path, **changes))


def test_damaged_missing_and_foreign_files(tmp_path):
    path = saved(tmp_path)
    content = path.read_bytes()
    for part in (content[:-30], content[: len(content) // 2], content[:100], b"", b"hello"):
        path.write_bytes(part)
        with pytest.raises(StorageError, match=r"w\.npz is (damaged|not a file of romdp)"):
            ROMDP.load(path)
    with pytest.raises(StorageError, match="cannot read"):
        ROMDP.load(tmp_path / "none.npz")
    MDP(TRANSITION, REWARD).save(path)
    with pytest.raises(StorageError, match="holds a mdp, not a romdp world"):
        ROMDP.load(path)


def test_where_a_world_cannot_be_written(tmp_path):
    with pytest.raises(WriteError, match="cannot write"):
        draw(0).save(tmp_path / "no" / "w.npz")


def test_a_large_world_takes_no_square_array():
    """Y = 100,000, X = 50: the emission matrix is the caller's (40 MB); no Y x Y is made."""
    size, states = 100_000, 50
    rng = np.random.default_rng(0)
    transition = rng.dirichlet(np.ones(states), (states, 4))
    labels = rng.permutation(np.arange(size) % states)
    tracemalloc.start()
    world = ROMDP.from_labels(transition, rng.random((states, 4)), labels)
    assert world.n_observations == size
    assert world.assumptions().observable_diameter > 0
    with pytest.raises(TooLargeError, match=r"100000 observations .* ask world.hidden"):
        _ = world.observable
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 50e6
    again = ROMDP(transition, world.reward, world.emission)
    assert again == world
    assert 0 < world.hidden.gain < 1
