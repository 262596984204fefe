"""From a vector to a hidden state with a certainty, and what the states look like.

A linear decoder is taught by the dynamics; portraits are kept of what it was taught from.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import StorageError
from romdp.core.formats import Format, exact, index, optional, part, real, whole
from romdp.core.storage import PathLike, read_arrays, write_arrays
from romdp.core.validation import freeze
from romdp.data.trajectory import END, Trajectory
from romdp.data.vectors import BLOCK
from romdp.encoding.directions import LinearMap
from romdp.encoding.scoring import RECENT, last_steps, vectors_of
from romdp.encoding.views import Encoding, cut

_MEMBERS = 4  # of each kind that are kept

PORTRAITS = Format(
    "portraits",
    rows=whole("states", 0),
    certainty=real("states", 0.0),
    means=real("states shown"),
    spread=real("shown", 0.0),
    typical=real("states members shown"),
    doubtful=real("states members shown"),
    state_of_code=index("codes", of="states"),
)


@dataclass(frozen=True, eq=False)
class Portraits:
    """What is kept of vectors to show the states behind them.

    Attributes
    ----------
    rows
        How many vectors of each state were looked at, shape (n_states,).
    certainty
        How sure their states are on average, shape (n_states,).
    means
        The mean vector of each state, shape (n_states, d).
    spread
        The standard deviation of every number over all vectors, shape (d,).
    typical, doubtful
        The members of each state nearest to its mean, and those placed least surely: shape
        (n_states, members, d). Where there are fewer, they repeat.
    state_of_code
        The state that most vectors of each code belong to, shape (n_codes,).
    """

    rows: Ints
    certainty: Floats
    means: Floats
    spread: Floats
    typical: Floats
    doubtful: Floats
    state_of_code: Ints

    @classmethod
    def of(
        cls,
        vectors: NDArray[Any],
        states: Ints,
        certainty: Floats,
        codes: Ints,
        n_states: int,
        n_codes: int,
    ) -> Self:
        """Take portraits from vectors whose states and codes are known."""
        d = vectors.shape[1]
        shown = vectors.astype(np.float64)
        spread = shown.std(axis=0)
        scale = np.where(spread > 0, spread, 1.0)
        most = min(_MEMBERS, max(1, BLOCK // max(1, 2 * n_states * d)))
        means = np.zeros((n_states, d))
        typical, doubtful = np.zeros((2, n_states, most, d))
        rows = np.bincount(states, minlength=n_states)
        for state in np.flatnonzero(rows):
            mine = np.flatnonzero(states == state)
            means[state] = shown[mine].mean(axis=0)
            far = (((shown[mine] - means[state]) / scale) ** 2).sum(axis=1)
            different = mine[np.unique(far, return_index=True)[1]]  # the nearest first
            typical[state] = shown[np.resize(different[:most], most)]
            order = np.argsort(certainty[different], kind="stable")[:most]
            doubtful[state] = shown[np.resize(different[order], most)]
        table = np.zeros((n_codes, n_states))
        np.add.at(table, (codes, states), 1.0)
        sure = np.bincount(states, certainty, n_states) / np.maximum(rows, 1)
        return cls(
            freeze(rows),
            freeze(sure),
            freeze(means),
            freeze(spread),
            freeze(typical),
            freeze(doubtful),
            freeze(table.argmax(axis=1)),
        )


_ROUNDS = 5
_STRETCH = 50  # steps in a row that belong to the same half
_PRIOR = 0.05  # steps before the first to each state

DECODER = Format(
    "state decoder",
    encoding=part(),
    states=index("codes", of="codes"),
    certainty_of_code=real("codes", 0.0),
    weights=optional(real("* decoded")),
    bias=optional(real("decoded")),
    notes=exact(np.uint8, "*"),
    portrait=part(Portraits, PORTRAITS),
)


@dataclass(frozen=True, eq=False)
class LinearDecoder:
    """Log odds of the states that are linear in the vector.

    Attributes
    ----------
    map
        Whitens vectors first.
    weights, bias
        The multinomial logit: shape (k, n_states) and (n_states,).
    """

    map: LinearMap
    weights: Floats
    bias: Floats

    def logits(self, vectors: Floats) -> Floats:
        """Return the log odds of the states, up to a constant per row."""
        odds: Floats = self.map(vectors) @ self.weights + self.bias
        return odds


def _neighbours(steps: Trajectory, states: Ints, n_states: int) -> Floats:
    """Return the log likelihood of each state given what happened before and after each step."""
    n, n_actions = steps.n_steps, steps.n_actions
    following, actions = steps.next_observations, steps.actions
    moved = np.flatnonzero(following >= 0)
    after = following[moved]
    law = np.full((n_states, n_actions, n_states + 1), _PRIOR)
    np.add.at(law, (states[moved], actions[moved], states[after]), 1.0)
    ended = np.flatnonzero(following == END)
    np.add.at(law[:, :, n_states], (states[ended], actions[ended]), 1.0)
    law = np.log(law / law.sum(axis=2, keepdims=True))
    odds = np.zeros((n, n_states))
    odds[moved] += law[:, actions[moved], states[after]].T
    odds[ended] += law[:, actions[ended], n_states].T
    odds[after] += law[states[moved], actions[moved], :n_states]
    if steps.rewards is not None:
        odds += _reward_odds(steps.rewards, actions, states, n_states, n_actions)
    return odds


def _reward_odds(
    rewards: Floats, actions: Ints, states: Ints, n_states: int, n_actions: int
) -> Floats:
    """Return the log likelihood of each reward in each state.

    Two values are Bernoulli, others normal with a variance of their own per state and action.
    """
    low, high = float(rewards.min()), float(rewards.max())
    if low == high:
        return np.zeros((len(rewards), n_states))
    unit = (rewards - low) / (high - low)
    cells = states * n_actions + actions
    n = np.bincount(cells, minlength=n_states * n_actions) + 2.0
    mean = (np.bincount(cells, unit, len(n)) + 2.0 * unit.mean()) / n
    mean = mean.reshape(n_states, n_actions)[:, actions].T
    if np.isin(unit, (0.0, 1.0)).all():
        chance = np.clip(mean, 1e-6, 1 - 1e-6)
        odds: Floats = np.where(unit[:, None] > 0.5, np.log(chance), np.log1p(-chance))
        return odds
    square = (np.bincount(cells, unit**2, len(n)) + 2.0 * (unit**2).mean()) / n
    variance = square.reshape(n_states, n_actions)[:, actions].T - mean**2
    variance = np.maximum(variance, 1e-4)
    normal: Floats = -0.5 * ((unit[:, None] - mean) ** 2 / variance + np.log(variance))
    return normal


def _draw(odds: Floats, rng: np.random.Generator) -> Ints:
    chance = np.exp(odds - odds.max(axis=1, keepdims=True))
    total = chance.cumsum(axis=1)
    drawn: Ints = (total > rng.random((len(odds), 1)) * total[:, -1:]).argmax(axis=1)
    return drawn


def _logit(space: Floats, states: Ints, n_states: int) -> tuple[Floats, Floats]:
    """Fit a multinomial logit; states that do not occur get no chance."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=0.06, max_iter=60, tol=1e-3)
    weights, bias = np.zeros((space.shape[1], n_states)), np.full(n_states, -1e3)
    seen = np.unique(states)
    if len(seen) == 1:
        bias[seen] = 0.0
        return weights, bias
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a decoder that has not quite converged is good enough
        model.fit(space, states)
    if len(seen) == 2:
        weights[:, seen[1]], bias[seen] = model.coef_[0], [0.0, model.intercept_[0]]
    else:
        weights[:, seen], bias[seen] = model.coef_.T, model.intercept_
    return weights, bias


def teach(
    steps: Trajectory,
    states: Ints,
    n_states: int,
    white: LinearMap,
    rng: np.random.Generator,
    regroup: Callable[[Trajectory, Ints], Ints],
) -> tuple[LinearDecoder, Ints]:
    """Teach a decoder what the neighbours in time say about each vector.

    States are drawn in turn from (what the decoder says) times (what the neighbours in time and
    the reward say), and the decoder is fitted to them again. A state that a decoder fitted to one
    half of the steps does not recognise in the other half is memory, not a state: it is dropped.

    Parameters
    ----------
    steps
        What was seen; the last steps suffice if there are many, and they show what is new.
    states
        The hidden state of each row so far.
    n_states
        How many there are.
    white
        Maps vectors to the space in which the decoder is linear.
    rng
        Draws states.
    regroup
        Merges states that behave alike: takes steps and the states of their rows, returns new ones.

    Returns
    -------
    decoder
        What was learned.
    judged
        The states of the last rows, each decoded by a decoder that was not fitted to it.
    """
    steps = last_steps(steps, RECENT)
    states = states[-steps.n_steps :]
    space = white(vectors_of(steps))
    weights, bias = _logit(space, states, n_states)
    for round_ in range(_ROUNDS):
        odds = _neighbours(steps, states, n_states) + space @ weights + bias
        states = _draw(odds, rng) if round_ < _ROUNDS - 1 else odds.argmax(axis=1)
        if round_ >= _ROUNDS - 2:
            states = regroup(steps, states)
            n_states = int(states.max()) + 1
        weights, bias = _logit(space, states, n_states)
        states = (space @ weights + bias).argmax(axis=1)
    judged = _decode_other_half(space, states, n_states)
    size = np.maximum(np.bincount(states, minlength=n_states), 1)
    known = np.bincount(states[judged == states], minlength=n_states) >= 0.5 * size
    if not known.all() and known.any():
        odds = space @ weights + bias
        odds[:, ~known] = -np.inf
        states = regroup(steps, odds.argmax(axis=1))
        n_states = int(states.max()) + 1
        weights, bias = _logit(space, states, n_states)
        judged = _decode_other_half(space, states, n_states)
    return LinearDecoder(white, freeze(weights), freeze(bias)), judged


def _decode_other_half(space: Floats, states: Ints, n_states: int) -> Ints:
    """Decode each half of the steps, in alternating blocks, by a decoder of the other half."""
    half = (np.arange(len(states)) // _STRETCH) % 2
    judged = np.zeros_like(states)
    for own in (0, 1):
        weights, bias = _logit(space[half != own], states[half != own], n_states)
        judged[half == own] = (space[half == own] @ weights + bias).argmax(axis=1)
    return judged


@dataclass(frozen=True, eq=False)
class StateDecoder:
    """From a vector to its hidden state. It never changes.

    Attributes
    ----------
    encoding
        From a vector to a code.
    states
        The hidden state of each code.
    certainty_of_code
        How sure the state of each code is.
    linear
        The decoder that the dynamics taught, which then answers in place of the codes; None where
        it predicts held-out steps no better than the codes.
    notes
        What speaks against relying on the states, in words.
    portraits
        What the states look like, for a page.
    """

    encoding: Encoding
    states: Ints
    certainty_of_code: Floats
    linear: LinearDecoder | None = None
    notes: tuple[str, ...] = ()
    portraits: Portraits | None = None

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return int(self.states.max()) + 1 if self.linear is None else len(self.linear.bias)

    def predict(self, vectors: ArrayLike) -> Ints:
        """Return the hidden state of each vector."""
        return self.decode(vectors)[0]

    def certainty(self, vectors: ArrayLike) -> Floats:
        """Return how sure the hidden state of each vector is, as a probability."""
        return self.decode(vectors)[1]

    def decode(self, vectors: ArrayLike) -> tuple[Ints, Floats]:
        """Return the hidden state of each vector, and how sure it is."""
        return self.decode_prepared(self.encoding.prepare(vectors))

    def decode_prepared(self, rows: NDArray[Any]) -> tuple[Ints, Floats]:
        """Decode vectors that were checked and went through ``features`` already."""
        parts = [self._decode_block(block.astype(np.float64)) for block in cut(rows)]
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])

    def _decode_block(self, rows: Floats) -> tuple[Ints, Floats]:
        if self.linear is None:
            codes = self.encoding.codes(rows)
            return self.states[codes], self.certainty_of_code[codes]
        odds = self.linear.logits(rows)
        chance = np.exp(odds - odds.max(axis=1, keepdims=True))
        return odds.argmax(axis=1), chance.max(axis=1) / chance.sum(axis=1)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything as arrays, for a file."""
        return DECODER.pack(
            {
                "encoding": self.encoding,
                "states": self.states,
                "certainty_of_code": self.certainty_of_code,
                "weights": None if self.linear is None else self.linear.weights,
                "bias": None if self.linear is None else self.linear.bias,
                "notes": np.frombuffer("\n".join(self.notes).encode(), np.uint8),
                "portrait": self.portraits,
            }
        )[0]

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], features: Any = None) -> Self:
        """Read what `arrays` returned; what does not fit together is a `StorageError`.

        ``features`` is the object that the `Encoder` was given, if there was one.
        """
        found = DECODER.read(arrays)
        encoding = Encoding.from_arrays(found["encoding"], features)
        weights, bias = found["weights"], found["bias"]
        taught = encoding.teaching_map.matrix.shape[1]
        if len(found["states"]) != encoding.n_codes or (
            weights is not None and weights.shape != (taught, len(bias))
        ):
            raise StorageError("the decoder is damaged: it does not fit its encoder")
        linear = None
        if weights is not None:
            linear = LinearDecoder(encoding.teaching_map, freeze(weights), freeze(bias))
        notes = found["notes"].tobytes().decode(errors="replace")
        states, certainty = freeze(found["states"]), freeze(found["certainty_of_code"])
        portraits = found["portrait"]
        decoder = cls(
            encoding,
            states,
            certainty,
            linear,
            tuple(notes.split("\n")) if notes else (),
            portraits,
        )
        if portraits is not None and (
            len(portraits.rows) != decoder.n_states
            or len(portraits.state_of_code) != encoding.n_codes
            or (features is None and len(portraits.spread) != encoding.n_features)
        ):
            raise StorageError("the decoder is damaged: its portraits are of something else")
        return decoder

    def save(self, path: PathLike) -> None:
        """Write the decoder to one ``.npz`` file."""
        write_arrays(path, DECODER.kind, DECODER.version, self.arrays())

    @classmethod
    def load(cls, path: PathLike, features: Any = None) -> Self:
        """Read what `save` wrote; ``features`` as for `from_arrays`."""
        return cls.from_arrays(read_arrays(path, DECODER.kind, DECODER.version)[0], features)

    def __repr__(self) -> str:
        how = "codes" if self.linear is None else "a decoder that the dynamics taught"
        return (
            f"StateDecoder({self.encoding.n_features} numbers to {self.n_states} states by {how}; "
            f"view {self.encoding.view!r}, {self.encoding.n_codes} codes)"
        )
