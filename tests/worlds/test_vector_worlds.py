"""The worlds that show vectors: moves, vectors and best values, each from its description."""

import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import hadamard

from romdp.core.errors import InvalidInputError, MisuseError, ROMDPError
from romdp.exact.mdp import MDP
from romdp.worlds import CoinLock, DistractedMazes, DistractedRing, GaussianLock, grid
from romdp.worlds.environments import VectorWorld

FALSE_ALARM = 1e-6  # chance that a test of a law fails on a right world, at a fresh seed

WORLDS = [
    lambda **kw: GaussianLock(6, **kw),
    lambda **kw: GaussianLock(6, variable_latent=True, **kw),
    lambda **kw: CoinLock(6, switch=0.2, **kw),
    lambda **kw: DistractedRing(5, 40, stray=0.1, **kw),
    lambda **kw: DistractedMazes(3, **kw),
]


def course(env: VectorWorld, steps: int, seed: int | None, action_seed: int = 0) -> list[Any]:
    """Walk along random actions, with restarts; returns everything seen, as plain numbers."""
    observation, info = env.reset(seed=seed)
    seen: list[Any] = [observation.tolist(), info]
    actions = np.random.default_rng(action_seed).integers(env.action_space.n, size=steps)
    for action in actions.tolist():
        observation, reward, terminated, truncated, info = env.step(action)
        seen.append((observation.tolist(), reward, terminated, truncated, info))
        if terminated:
            observation, info = env.reset()
            seen.append((observation.tolist(), info))
    return seen


def moves(env: VectorWorld, steps: int, seed: int) -> list[tuple[int, int, float, int]]:
    """Act at random; returns hidden state, action, reward and next hidden state of each step."""
    actions = np.random.default_rng(seed).integers(env.action_space.n, size=steps)
    state = env.reset(seed=seed)[1]["hidden_state"]
    seen = []
    for action in actions.tolist():
        _, reward, terminated, _, info = env.step(action)
        seen.append((state, action, reward, info["hidden_state"]))
        state = (env.reset()[1] if terminated else info)["hidden_state"]
    return seen


def chance_of(counts: np.ndarray, law: np.ndarray) -> float:
    """p-value of counts under a law; an outcome of probability zero must not occur at all."""
    assert counts[law == 0].sum() == 0
    possible = law > 0
    if possible.sum() == 1:
        return 1.0
    return float(stats.chisquare(counts[possible], counts.sum() * law[possible]).pvalue)


def restarting(transition: np.ndarray, reward: np.ndarray, initial: np.ndarray) -> MDP:
    """Make an MDP of layers whose last column, the end, is read as a restart."""
    tables = transition[..., :-1] + transition[..., -1:] * initial
    return MDP(tables, reward)


def gaussian_tables(env: GaussianLock) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Write down the moves of the lock once more, in another way than the world does."""
    horizon, actions = env.horizon, int(env.action_space.n)
    transition = np.zeros((3 * horizon, actions, 3 * horizon + 1))
    reward = np.zeros((3 * horizon, actions))
    for h, kind, a in itertools.product(range(horizon), range(3), range(actions)):
        opens = kind < 2 and a == env.secret[h, kind % 2]
        if h == horizon - 1:
            transition[3 * h + kind, a, -1] = 1.0
        elif opens:
            transition[3 * h + kind, a, 3 * h + 3 : 3 * h + 5] = 0.5
        else:
            transition[3 * h + kind, a, 3 * h + 5] = 1.0
        if kind < 2:
            reward[3 * h + kind, a] = float(h == horizon - 1) if opens else 0.05
    initial = np.zeros(3 * horizon)
    initial[:2] = 0.5
    return transition, reward, initial


def coin_tables(env: CoinLock, switch: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    horizon = env.horizon
    transition = np.zeros((3 * horizon, 4, 3 * horizon + 1))
    reward = np.zeros((3 * horizon, 4))
    for h, kind, a in itertools.product(range(horizon), range(3), range(4)):
        row = transition[3 * h + kind, a]
        good = kind < 2 and a in env.good[h, kind % 2]
        reward[3 * h + kind, a] = 0.5 * (good and h == horizon - 1)
        if h == horizon - 1:
            row[-1] = 1.0
        elif good:
            target = kind if a == env.good[h, kind, 0] else 1 - kind
            row[3 * h + 3 + target] = 1.0 - switch
            row[3 * h + 3 + (1 - target)] = switch
        else:
            row[3 * h + 5] = 1.0
    return transition, reward, np.eye(3 * horizon)[0]


@pytest.mark.parametrize("horizon", [1, 2, 7, 25])
def test_gaussian_lock_best_value(horizon: int) -> None:
    env = GaussianLock(horizon, world_seed=horizon)
    assert env.optimal_value == pytest.approx(1.0)
    assert restarting(*gaussian_tables(env)).gain * horizon == pytest.approx(env.optimal_value)


@pytest.mark.parametrize("switch", [0.0, 0.3])
def test_coin_lock_best_value(switch: float) -> None:
    env = CoinLock(8, switch=switch, world_seed=3)
    assert restarting(*coin_tables(env, switch)).gain * 8 == pytest.approx(env.optimal_value)


@pytest.mark.parametrize("stray", [0.0, 0.05, 1.0])
def test_ring_best_value(stray: float) -> None:
    env = DistractedRing(7, 20, stray=stray, prize=0.6, world_seed=1)
    step, reward = np.zeros((7, 2, 7)), np.zeros((7, 2))
    for x in range(7):
        step[x, env.right[x], (x + 1) % 7] = step[x, 1 - env.right[x], 0] = 1.0
    reward[6, env.right[6]] = 0.6
    mdp = MDP((1 - stray) * step + stray / 7, reward)
    assert mdp.gain == pytest.approx(env.optimal_value)
    assert DistractedRing(7).optimal_value == 0.0


def redrawn_value(env: GaussianLock, draws: int) -> float:
    """Plan backwards with drawn vectors in place of integrals, trying every action."""
    noise = np.random.default_rng(0).normal(0, 0.1, (draws, 3))
    odds = np.exp((np.eye(3)[:, None] + noise) / 0.2)
    odds /= odds.sum(axis=2, keepdims=True)  # [shown, draw, state]
    values = np.zeros(3)
    for h in reversed(range(env.horizon)):
        worth = np.zeros((env.action_space.n, draws, 3)).swapaxes(1, 2)  # [action, shown, draw]
        for a in range(env.action_space.n):
            for state in range(3):
                following = values[2]
                if state < 2 and a == env.secret[h, state]:
                    following = float(h == env.horizon - 1) + values[:2].mean()
                elif state < 2:
                    following = 0.05 + values[2]
                worth[a] += odds[:, :, state] * following
        values = worth.max(axis=0).mean(axis=1)
    return float(values[:2].mean())


def test_variable_latent_best_value() -> None:
    env = GaussianLock(8, n_actions=3, variable_latent=True, world_seed=2)
    same = (env.secret[:, 0] == env.secret[:, 1]).sum()
    assert 0 < same < 8  # both kinds of layers occur
    # The standard deviation of a softmax entry is below 0.02, so the mean of 300,000 is off by
    # less than 4e-5 per layer, 3e-4 over the eight layers: five times that is allowed.
    assert redrawn_value(env, 300_000) == pytest.approx(env.optimal_value, abs=1.5e-3)
    assert 0.8 < env.optimal_value < 0.95


def test_variable_latent_best_value_far_from_the_prize() -> None:
    # More than a hundred layers away it is best to fall on purpose, again and again. The error
    # per layer is below 0.02 / sqrt(20,000) = 1.4e-4, and is forgotten after some fifty layers.
    env = GaussianLock(200, n_actions=3, variable_latent=True)
    assert redrawn_value(env, 20_000) == pytest.approx(env.optimal_value, abs=0.005)


def test_variable_latent_best_policy_earns_the_best_value() -> None:
    env = GaussianLock(6, variable_latent=True, world_seed=1)
    inverse = hadamard(16) / 16
    env.reset(seed=0)
    returns = []
    for _ in range(6_000):
        observation, _ = env.reset()
        total, is_over = 0.0, False
        while not is_over:
            coordinates = observation @ inverse
            layer = int(coordinates[3:].argmax())
            observation, reward, is_over, _, _ = env.step(
                env.secret[layer, coordinates[:2].argmax()]
            )
            total += reward
        returns.append(total)
    error = np.std(returns) / np.sqrt(len(returns))
    assert np.mean(returns) == pytest.approx(env.optimal_value, abs=5 * error)  # alarm: 6e-7


@pytest.mark.parametrize("kind", ["gaussian", "coin"])
def test_locks_move_as_described(kind: str) -> None:
    if kind == "gaussian":
        env: Any = GaussianLock(3, 3, world_seed=4, reveal_hidden_state=True)
        transition, reward, initial = gaussian_tables(env)
    else:
        env = CoinLock(3, switch=0.3, world_seed=4, reveal_hidden_state=True)
        transition, reward, initial = coin_tables(env, 0.3)
    seen = moves(env, 60_000, seed=1)
    chances = []
    for x, a in itertools.product(range(env.n_states), range(env.action_space.n)):
        following = [x2 for x1, b, _, x2 in seen if (x1, b) == (x, a)]
        if following:
            counts = np.bincount([x2 % 10 for x2 in following], minlength=10)  # -1 is 9
            chances.append(chance_of(counts, transition[x, a]))
            paid = np.array([r for x1, b, r, _ in seen if (x1, b) == (x, a)])
            if kind == "gaussian" and 0 < reward[x, a] < 1:
                assert set(paid) == {0.0, 0.1}
                paid = paid / 0.1
                chances.append(stats.binomtest(int(paid.sum()), paid.size, 0.5).pvalue)
            elif kind == "coin" and reward[x, a] > 0:
                assert set(paid) == {0.0, 1.0}
                chances.append(stats.binomtest(int(paid.sum()), paid.size, 0.5).pvalue)
            else:
                assert (paid == reward[x, a]).all()
    starts = [x1 for x1, *_ in seen if x1 < 3]
    chances.append(chance_of(np.bincount(starts, minlength=9), initial))
    assert len(chances) > 20
    assert min(chances) > FALSE_ALARM / len(chances)


def test_gaussian_vectors() -> None:
    env = GaussianLock(5, world_seed=0, reveal_hidden_state=True)
    assert env.observation_space.shape == (16,)
    assert [GaussianLock(h).observation_space.shape[0] for h in (12, 13, 100)] == [16, 32, 128]
    rows, states = [], []
    env.reset(seed=0)
    for _ in range(2_000):
        vector, info = env.reset()
        rows.append(vector)
        states.append(info["hidden_state"])
    coordinates = np.array(rows) @ hadamard(16) / 16
    assert abs(coordinates[:, 8:]).max() < 1e-12  # drawn on horizon + 3 coordinates only
    coordinates[np.arange(2_000), states] -= 1.0
    coordinates[:, 3] -= 1.0
    assert stats.kstest(coordinates[:, :8].ravel() / 0.1, "norm").pvalue > FALSE_ALARM
    steps = coordinates[:-1, :8].ravel(), coordinates[1:, :8].ravel()
    assert stats.pearsonr(*steps).pvalue > FALSE_ALARM  # drawn afresh each time


def test_variable_latent_states_are_drawn_from_what_is_shown() -> None:
    env = GaussianLock(2, variable_latent=True, reveal_hidden_state=True)
    env.reset(seed=0)
    starts = [env.reset() for _ in range(20_000)]
    states = np.array([info["hidden_state"] for _, info in starts])
    coordinates = np.array([vector for vector, _ in starts]) @ hadamard(8) / 8
    odds = np.exp(coordinates[:, :3] / 0.2)
    odds /= odds.sum(axis=1, keepdims=True)
    for state in range(3):
        mean, spread = odds[:, state].sum(), np.sqrt((odds * (1 - odds))[:, state].sum())
        assert abs((states == state).sum() - mean) < 5 * spread  # false alarm: 6e-7 each
    seems = coordinates[:, :3].argmax(axis=1)
    assert 0.005 < (seems != states).mean() < 0.03
    assert (states == 2).any()


def test_coin_vectors() -> None:
    env = CoinLock(30, world_seed=0, reveal_hidden_state=True)
    vector, info = env.reset(seed=0)
    rows = []
    for action in np.random.default_rng(0).integers(4, size=3_000).tolist():
        assert vector[:3].tolist() == np.eye(3)[info["hidden_state"] % 3].tolist()
        rows.append(vector[3:])
        vector, _, is_over, _, info = env.step(action)
        if is_over:
            vector, info = env.reset()
    coins = np.array(rows)
    assert set(coins.ravel()) == {0, 1}
    assert stats.binomtest(int(coins.sum()), coins.size).pvalue > FALSE_ALARM
    repeated = int((coins[1:] == coins[:-1]).sum())
    assert stats.binomtest(repeated, coins[1:].size).pvalue > FALSE_ALARM


def test_ring_moves_as_described() -> None:
    env = DistractedRing(6, 30, prize=1.0, world_seed=5, reveal_hidden_state=True)
    for x, action, reward, x2 in moves(env, 3_000, seed=0):
        is_right = action == env.right[x]
        assert x2 == ((x + 1) % 6 if is_right else 0)
        assert reward == float(is_right and x == 5)
    assert {x for x, *_ in moves(env, 3_000, seed=0)} == set(range(6))


def test_ring_moves_go_astray() -> None:
    env = DistractedRing(4, 30, stray=0.4, world_seed=5, reveal_hidden_state=True)
    seen = moves(env, 20_000, seed=0)
    chances = []
    for x, a in itertools.product(range(4), range(2)):
        law = np.full(4, 0.1)
        law[(x + 1) % 4 if a == env.right[x] else 0] += 0.6
        following = [x2 for x1, b, _, x2 in seen if (x1, b) == (x, a)]
        chances.append(chance_of(np.bincount(following, minlength=4), law))
    assert min(chances) > FALSE_ALARM / 8


def test_ring_bits() -> None:
    env = DistractedRing(5, 60, world_seed=2, reveal_hidden_state=True)
    vectors, states = [], []
    vector, info = env.reset(seed=1)
    for action in np.random.default_rng(1).integers(2, size=20_000).tolist():
        vectors.append(vector)
        states.append(info["hidden_state"])
        vector, _, _, _, info = env.step(action)
    bits = np.array(vectors)
    assert (bits[:, env.indicators] == np.eye(5)[states]).all()
    others = np.setdiff1d(np.arange(60), env.indicators)
    before, after = bits[:-1, others], bits[1:, others]
    up = after[before == 0].mean()
    rates = np.array(
        [
            [after[before[:, j] == 0, j].mean(), 1 - after[before[:, j] == 1, j].mean()]
            for j in range(55)
        ]
    )
    assert rates.min() > 0.08
    assert rates.max() < 0.92
    assert stats.kstest(rates.ravel(), "uniform", (0.1, 0.8)).pvalue > FALSE_ALARM
    assert 0.3 < up < 0.7
    # A bit's flips, given the bit, do not depend on what it was before: it is a Markov chain.
    for j in (0, 1, 2):
        tables = [
            np.bincount(2 * bits[:-2, others[j]][now] + bits[2:, others[j]][now], minlength=4)
            for now in (bits[1:-1, others[j]] == value for value in (0, 1))
        ]
        for table in tables:
            assert stats.chi2_contingency(table.reshape(2, 2)).pvalue > FALSE_ALARM


def test_ring_noise_goes_on_over_a_reset() -> None:
    env = DistractedRing(3, 400)
    env.reset(seed=0)
    first = env.step(0)[0]
    again, _ = env.reset()
    assert (first != again).sum() <= 2  # only the bits of the states may differ
    other, _ = env.reset(seed=1)
    assert (first != other).sum() > 100


def maze_of(vector: np.ndarray, maze: int) -> tuple[int, int]:
    """Return where somebody stands in a maze."""
    bits = vector.reshape(-1, 11, 11)[maze]
    assert bits.sum() == 1
    return tuple(int(i) for i in np.argwhere(bits)[0])


def test_mazes_move_as_described() -> None:
    env = DistractedMazes(3, prize=1.0, world_seed=1, reveal_hidden_state=True)
    vector, info = env.reset(seed=0)
    assert maze_of(vector, env.obeying) == (1, 1)
    free = {maze_of(row, env.obeying) for row in env.show(range(68), seed=0)}
    assert len(free) == 68
    ways = ((-1, 0), (0, 1), (1, 0), (0, -1))
    walks: list[list[int]] = [[], []]
    others = [maze for maze in range(3) if maze != env.obeying]
    for action in np.random.default_rng(0).integers(4, size=8_000).tolist():
        i, j = maze_of(vector, env.obeying)
        target = (i + ways[action][0], j + ways[action][1])
        before = vector
        vector, reward, _, _, info = env.step(action)
        assert maze_of(vector, env.obeying) == (target if target in free else (i, j))
        assert (env.show([info["hidden_state"]], 0)[0].reshape(3, -1)[env.obeying]).argmax() == (
            vector.reshape(3, -1)[env.obeying].argmax()
        )
        assert reward == float((i, j) == (9, 9))
        for walk, maze in zip(walks, others, strict=True):
            (i, j), (i2, j2) = maze_of(before, maze), maze_of(vector, maze)
            around = [(i + di, j + dj) in free for di, dj in ways]
            if all(around):
                walk.append(ways.index((i2 - i, j2 - j)))
    for walk in walks:
        assert stats.chisquare(np.bincount(walk, minlength=4)).pvalue > FALSE_ALARM


def test_mazes_rooms_and_best_value() -> None:
    env = DistractedMazes(prize=0.3)
    cells = {maze_of(row, env.obeying) for row in env.show(range(68), seed=0)}
    doors = [cell for cell in cells if 5 in cell]
    assert sorted(doors) == [(3, 5), (5, 2), (5, 8), (7, 5)]
    rows = ["".join("." if (i, j) in cells else "#" for j in range(11)) for i in range(11)]
    rows[9] = rows[9][:9] + "G" + rows[9][10:]
    hidden = grid(rows, views=1, slip=0.0).hidden
    transition, reward = hidden.transition.copy(), np.zeros((68, 4))
    transition[67] = 0.0
    transition[67, range(4), [59, 67, 67, 66]] = 1.0  # the goal itself is left as any cell is
    reward[67] = 0.3
    assert MDP(transition, reward).gain == pytest.approx(env.optimal_value)
    # A random walk with these moves has the same probability everywhere in the long run.
    assert np.allclose(transition.mean(axis=1).sum(axis=0), 1.0)


@pytest.mark.parametrize("make", WORLDS)
def test_shown_for_scoring_as_in_the_world(make: Any) -> None:
    env = make(reveal_hidden_state=True)
    vectors, states = [], []
    vector, info = env.reset(seed=0)
    for action in np.random.default_rng(0).integers(env.action_space.n, size=6_000).tolist():
        vectors.append(vector.astype(float))
        states.append(info["hidden_state"])
        vector, _, is_over, _, info = env.step(action)
        if is_over:
            vector, info = env.reset()
    state = int(np.bincount(states).argmax())
    seen = np.array(vectors)[np.array(states) == state]
    drawn = env.show([state] * 2_000, seed=0)
    assert drawn.dtype == env.observation_space.dtype
    assert env.observation_space.contains(drawn[0])
    # Noise is correlated in time: a bit of the ring by up to 0.8, the walkers for longer.
    spread = seen.std(axis=0) * np.sqrt(100 / len(seen) + 1 / 2_000) + 1e-9
    assert (abs(seen.mean(axis=0) - drawn.mean(axis=0)) < 5 * spread + 0.02).all()
    assert (env.show([state] * 5, seed=3) == env.show([state] * 5, seed=3)).all()
    with pytest.raises(InvalidInputError, match="states"):
        env.show([env.n_states], seed=0)


@pytest.mark.parametrize("make", WORLDS)
def test_seeds(make: Any) -> None:
    one, two = make(reveal_hidden_state=True), make(reveal_hidden_state=True)
    first = course(one, 700, seed=6)  # more than a block of noise
    assert course(two, 700, seed=6) == first
    assert course(one, 700, seed=6) == first
    assert course(one, 700, seed=None) != first
    assert course(one, 700, seed=7) != first
    assert course(make(world_seed=1, reveal_hidden_state=True), 700, seed=6) != first


@pytest.mark.parametrize("make", WORLDS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_copies_go_on_alike(make: Any, copied: Any) -> None:
    env = make()
    course(env, 20, seed=1)
    other = copied(env)
    assert course(env, 300, seed=None) == course(other, 300, seed=None)


@pytest.mark.parametrize("make", WORLDS)
def test_the_hidden_state_stays_hidden_unless_asked_for(make: Any) -> None:
    env = make()
    _, info = env.reset(seed=0)
    assert info == {}
    assert env.step(0)[-1] == {}
    known = make(reveal_hidden_state=True)
    assert 0 <= known.reset(seed=0)[1]["hidden_state"] < known.n_states


def test_the_end_of_an_episode() -> None:
    env = GaussianLock(2, reveal_hidden_state=True)
    with pytest.raises(MisuseError, match="reset"):
        env.step(0)
    env.reset(seed=0)
    assert env.step(0)[2] is False
    observation, _, terminated, truncated, info = env.step(np.int64(0))
    assert (terminated, truncated, info) == (True, False, {"hidden_state": -1})
    assert not observation.any()
    with pytest.raises(MisuseError, match="reset"):
        env.step(0)


@pytest.mark.parametrize("action", [-1, 2, 0.5, "a", [0, 1], None])
def test_wrong_actions(action: Any) -> None:
    env = DistractedRing(3, 10)
    env.reset(seed=0)
    with pytest.raises(ROMDPError, match="action"):
        env.step(action)
    env.step(np.array([1]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianLock(0), "horizon is 0"),
        (lambda: GaussianLock(10**9), "Hadamard"),
        (lambda: GaussianLock(5, n_actions=2), "n_actions is 2"),
        (lambda: CoinLock(5, switch=1.5), "switch is 1.5"),
        (lambda: DistractedRing(20, 10), "n_bits is 10, fewer than the 20 states"),
        (lambda: DistractedRing(20, stray=-0.1), "stray is -0.1"),
        (lambda: DistractedRing(20, prize=2), "prize is 2"),
        (lambda: DistractedRing(20, world_seed=-1), "seed is -1"),
        (lambda: DistractedMazes(0), "n_mazes is 0"),
    ],
)
def test_bad_arguments(make: Any, message: str) -> None:
    with pytest.raises(ROMDPError, match=message):
        make()


def test_the_truth_is_read_only() -> None:
    for array in (GaussianLock(2).secret, CoinLock(2).good, DistractedRing(3, 9).right):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
