"""Worlds by name or by file: random ones, and those that test one thing that these do not."""

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.core.randomness import Seed, generator
from romdp.core.storage import read_kind
from romdp.core.validation import check, check_memory, choice, real_number, whole_number
from romdp.exact.mdp import MDP
from romdp.exact.romdp import ROMDP

_HIDDEN, _DEALING, _EMISSION = range(3)  # streams: what Y changes must not touch the hidden MDP


def random_romdp(
    n_states: int = 5,
    n_actions: int = 4,
    n_observations: int = 30,
    seed: Seed = 0,
    *,
    concentration: float = 1.0,
    emission_concentration: float = 3.0,
    reward_bias: float = 0.5,
    reward_law: str = "bernoulli",
) -> ROMDP:
    """Draw a ROMDP as in the paper's experiments.

    Parameters
    ----------
    n_states, n_actions, n_observations
        The sizes X, A and Y; Y >= X. The same (n_states, n_actions, seed) gives the same
        hidden MDP whatever n_observations is, so that figures over Y compare like with like.
    seed
        The same arguments give the same world.
    concentration
        The parameter of the Dirichlet distribution of each transition row; small values make
        transitions nearly deterministic.
    emission_concentration
        The parameter of the Dirichlet distribution of each state's observation probabilities. The
        paper does not say which it used. At 1 some observations are so rare (one in 10^4 visits
        or less) that an optimistic agent on the observations chases them forever; at 3 this is
        rare.
    reward_bias
        In [0, 1]. A reward mean is ``bias[x] + u[x, a]`` with the state's bias uniform on
        [0, reward_bias] and u uniform on [0, 1 - reward_bias]: "uniform reward with
        different bias".
    reward_law
        How rewards fall around their mean; see `MDP`.

    Examples
    --------
    >>> small = random_romdp(n_observations=10, seed=3)
    >>> large = random_romdp(n_observations=100, seed=3)
    >>> small.hidden == large.hidden
    True
    """
    transition, reward = _random_model(n_states, n_actions, seed, concentration, reward_bias)
    labels = _deal(len(reward), n_observations, seed)
    conc = real_number(emission_concentration, "emission_concentration", 0, open_low=True)
    weights = generator(seed, _EMISSION).standard_gamma(conc, labels.size)
    weights = np.maximum(weights, np.finfo(np.float64).tiny)  # a tiny concentration underflows
    chance = weights / np.bincount(labels, weights)[labels]
    chance = np.maximum(chance, 1e-12)
    chance = chance / np.bincount(labels, chance)[labels]
    return ROMDP.from_labels(transition, reward, labels, chance, reward_law)


def random_mdp(
    n_states: int = 30,
    n_actions: int = 4,
    seed: Seed = 0,
    *,
    concentration: float = 1.0,
    reward_bias: float = 0.5,
    reward_law: str = "bernoulli",
) -> MDP:
    """Draw an MDP with no hidden structure, from the same distributions as `random_romdp`."""
    transition, reward = _random_model(n_states, n_actions, seed, concentration, reward_bias)
    return MDP(transition, reward, reward_law)


def deterministic_romdp(
    n_states: int = 5,
    n_actions: int = 3,
    n_observations: int = 20,
    seed: Seed = 0,
    *,
    reward_law: str = "bernoulli",
) -> ROMDP:
    """Draw a ROMDP whose hidden transitions are deterministic (the appendix `Aux:deter`).

    Action 0 walks a random cycle through all hidden states, so that every state can be reached
    from every other; each other action leads to a state drawn at random. Reward means are
    uniform; observations are dealt out as in `random_romdp` and are equally likely in their state.
    """
    size = whole_number(n_states, "n_states", 1)
    actions = whole_number(n_actions, "n_actions", 1)
    check_memory("a transition table (n_states, n_actions)", size, actions, size)
    rng = generator(seed, _HIDDEN)
    cycle = rng.permutation(size)
    target = rng.integers(size, size=(size, actions))
    target[cycle, 0] = np.roll(cycle, -1)
    transition = np.eye(size)[target]
    reward = rng.random((size, actions))
    labels = _deal(size, n_observations, seed)
    return ROMDP.from_labels(transition, reward, labels, reward_law=reward_law)


def _random_model(
    n_states: int, n_actions: int, seed: Seed, concentration: float, reward_bias: float
) -> tuple[Floats, Floats]:
    size = whole_number(n_states, "n_states", 1)
    actions = whole_number(n_actions, "n_actions", 1)
    alpha = real_number(concentration, "concentration", 0, open_low=True)
    spread = real_number(reward_bias, "reward_bias", 0, 1)
    check_memory("a transition table (n_states, n_actions)", size, actions, size)
    rng = generator(seed, _HIDDEN)
    transition = rng.dirichlet(np.full(size, alpha), (size, actions))
    bias = spread * rng.random(size)
    reward = bias[:, None] + (1.0 - spread) * rng.random((size, actions))
    return transition, reward


def _deal(n_states: int, n_observations: int, seed: Seed) -> Ints:
    """Deal observations to states at random, at least one to each."""
    count = whole_number(n_observations, "n_observations", 1)
    if count < n_states:
        raise InvalidInputError(
            f"n_observations is {count}, fewer than the {n_states} hidden states; every "
            "hidden state needs an observation of its own"
        )
    check_memory("a list of observations", count, copies=8)
    rng = generator(seed, _DEALING)
    labels = np.concatenate([np.arange(n_states), rng.integers(n_states, size=count - n_states)])
    return rng.permutation(labels)


def _deal_evenly(n_states: int, n_observations: int) -> Ints:
    """Deal observations in turn, as evenly as the numbers allow."""
    count = whole_number(n_observations, "n_observations", 1)
    if count < n_states:
        raise InvalidInputError(
            f"n_observations is {count}, fewer than the {n_states} hidden states"
        )
    check_memory("a list of observations", count, copies=8)
    return np.arange(count) % n_states


def river_swim(n_states: int = 6, n_observations: int | None = None) -> ROMDP:
    """Make a river swim (Strehl and Littman 2008): swimming right is hard, but it pays.

    Action 0 swims left with the stream and always succeeds. Action 1 swims right against it: it
    moves one state on with probability 0.35 (0.6 from the left bank), one back with 0.05, and
    otherwise stays; at the right bank it stays with 0.6. Left pays 0.005 at the left bank, right
    pays 1 at the right bank. Observations are shared out evenly; by default each state has one.

    Examples
    --------
    >>> river_swim(6, 12)
    ROMDP(n_states=6, n_actions=2, n_observations=12, reward_law='bernoulli')
    """
    size = whole_number(n_states, "n_states", 2)
    check_memory("a transition table (n_states, n_actions)", size, 2, size)
    transition = np.zeros((size, 2, size))
    reward = np.zeros((size, 2))
    for x in range(size):
        transition[x, 0, max(x - 1, 0)] = 1.0
        transition[x, 1, max(x - 1, 0)] += 0.05
        transition[x, 1, x] += 0.6
        transition[x, 1, min(x + 1, size - 1)] += 0.35
    transition[0, 1] = 0.0
    transition[0, 1, :2] = 0.4, 0.6
    transition[-1, 1] = 0.0
    transition[-1, 1, -2:] = 0.4, 0.6
    reward[0, 0] = 0.005
    reward[-1, 1] = 1.0
    labels = _deal_evenly(size, size if n_observations is None else n_observations)
    return ROMDP.from_labels(transition, reward, labels, initial=np.eye(size)[0])


def combination_lock(
    horizon: int = 5, n_actions: int = 4, n_observations: int | None = None, seed: Seed = 0
) -> ROMDP:
    """Make a combination lock: only the right action at each dial leads to the prize.

    At each of ``horizon`` dials one secret action leads on; every other one leads back to the
    first dial. The right action at the last dial pays 1 and starts again, which makes 1 / horizon
    per step. Wrong actions at the first dial pay half of that, so that playing safe looks better
    than searching. Random search needs about ``n_actions ** horizon`` steps. Observations are
    shared out evenly; by default each state has one.
    """
    length = whole_number(horizon, "horizon", 1)
    actions = whole_number(n_actions, "n_actions", 2)
    check_memory("a transition table (horizon, n_actions)", length, actions, length)
    secret = generator(seed).integers(actions, size=length)
    transition = np.zeros((length, actions, length))
    transition[:, :, 0] = 1.0
    reward = np.zeros((length, actions))
    reward[0] = 0.5 / length
    for dial, action in enumerate(secret):
        transition[dial, action] = np.eye(length)[(dial + 1) % length]
        reward[dial, action] = float(dial == length - 1)
    labels = _deal_evenly(length, length if n_observations is None else n_observations)
    return ROMDP.from_labels(transition, reward, labels, initial=np.eye(length)[0])


_ROOM = (
    "........",
    "...#....",
    "...#....",
    ".###..#.",
    "......#.",
    "..#...#G",
)

_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # north, east, south, west


def neighbours(cells: Sequence[tuple[int, int]]) -> Ints:
    """Return the cell that each move leads to from each cell; a wall stops the move."""
    number = {cell: index for index, cell in enumerate(cells)}
    targets = [
        [number.get((i + di, j + dj), x) for di, dj in _MOVES] for (i, j), x in number.items()
    ]
    return np.array(targets)


def grid(room: Sequence[str] = _ROOM, views: int = 5, slip: float = 0.1, seed: Seed = 0) -> ROMDP:
    """Make a room with walls and a goal, with several views per cell.

    Parameters
    ----------
    room
        Rows of equal length: ``.`` a free cell, ``#`` a wall, ``G`` the one goal. A move into
        a wall or out of the room stays where it is. Any action at the goal pays 1 and leads
        to a free cell drawn at random; everything else pays 0.
    views
        Observations per cell, equally likely, numbered at random.
    slip
        Probability that a move goes in a direction drawn at random.
    seed
        Decides the numbering.
    """
    check(room, "room", list, tuple)
    rows = [str(row) for row in room]
    if not rows or len({len(row) for row in rows}) != 1 or not rows[0]:
        raise InvalidInputError("room must be rows of one length, such as ['..#', '..G']")
    signs = np.array([list(row) for row in rows])
    if (unknown := ~np.isin(signs, list(".#G"))).any():
        sign = str(signs[unknown][0])
        raise InvalidInputError(f"room has the sign {sign!r}; use '.', '#' and one 'G'")
    if (signs == "G").sum() != 1 or (signs == ".").sum() == 0:
        raise InvalidInputError("room must have exactly one goal 'G' and a free cell '.'")
    chance = real_number(slip, "slip", 0, 1)
    per_cell = whole_number(views, "views", 1)
    cells = [(int(i), int(j)) for i, j in np.argwhere(signs != "#")]
    size = len(cells)
    check_memory("a list of observations (cells x views)", size * per_cell, copies=8)
    goal = next(index for index, cell in enumerate(cells) if signs[cell] == "G")
    step = np.eye(size)[neighbours(cells)]
    transition = (1.0 - chance) * step + chance * step.mean(axis=1, keepdims=True)
    others = np.arange(size) != goal
    transition[goal] = others / others.sum()
    reward = np.zeros((size, len(_MOVES)))
    reward[goal] = 1.0
    labels = generator(seed).permutation(np.repeat(np.arange(size), per_cell))
    return ROMDP.from_labels(transition, reward, labels)


def symmetric_block(n_observations: int = 100, eta: float = 4.0) -> ROMDP:
    """Two hidden states, three actions, no reward: the test world of grouping methods.

    Action 0 stays with probability eta / (1 + eta), action 1 leaves with the same probability, and
    action 2 does either with probability one half. The observations are split evenly and are
    equally likely.
    """
    count = whole_number(n_observations, "n_observations", 2)
    ratio = real_number(eta, "eta", 0, open_low=True)
    stay = np.array([[ratio, 1.0], [1.0, ratio]]) / (1.0 + ratio)
    transition = np.stack([stay, stay[::-1], np.full((2, 2), 0.5)], axis=1)
    return ROMDP.from_labels(transition, np.zeros((2, 3)), _deal_evenly(2, count))


def twins(
    n_states: int = 6,
    n_actions: int = 4,
    n_observations: int = 60,
    mixing: float = 0.2,
    seed: Seed = 0,
) -> ROMDP:
    """Draw a random world whose last two hidden states are hardly different: hard to group.

    The world is that of `random_romdp` with the same sizes and seed, with all differences between
    its last two states multiplied by ``mixing``: in where they lead, in what they pay, and in how
    often each of them is reached from elsewhere.

    Examples
    --------
    >>> twins(mixing=1.0, seed=3) == random_romdp(6, 4, 60, seed=3)
    True
    """
    size = whole_number(n_states, "n_states", 2)
    share = 0.5 + 0.5 * real_number(mixing, "mixing", 0, 1)
    plain = random_romdp(size, n_actions, n_observations, seed)
    blend = np.eye(size)
    blend[-2:, -2:] = [[share, 1.0 - share], [1.0 - share, share]]
    alike = np.einsum("xw,way->xay", blend, plain.transition @ blend)
    return ROMDP(alike, blend @ plain.reward, plain.emission)


WORLDS: dict[str, Callable[..., ROMDP | MDP]] = {
    "random-romdp": random_romdp,
    "random-mdp": random_mdp,
    "deterministic-romdp": deterministic_romdp,
    "river-swim": river_swim,
    "combination-lock": combination_lock,
    "grid": grid,
    "symmetric-block": symmetric_block,
    "twins": twins,
}
"""What makes each world, by the name that the command and the Gymnasium registry know."""


def make(name: str, **arguments: Any) -> ROMDP | MDP:
    """Make a world by its name.

    Examples
    --------
    >>> make("river-swim", n_states=4)
    ROMDP(n_states=4, n_actions=2, n_observations=4, reward_law='bernoulli')
    """
    maker = WORLDS[choice(name, "world", WORLDS)]
    try:
        return maker(**arguments)
    except TypeError as error:
        raise InvalidInputError(f"world {name!r}: {error}") from None


def load_world(path: str | os.PathLike[str]) -> ROMDP | MDP:
    """Read a world file, whichever of the two kinds it holds."""
    return MDP.load(path) if read_kind(path) == "mdp" else ROMDP.load(path)
