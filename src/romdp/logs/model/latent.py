"""`LatentModel`: the few hidden states behind what was seen, and what to do in them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError
from romdp.core.text import count
from romdp.core.validation import check, choice, freeze, shown, whole_number
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.vectors import are_vectors
from romdp.encoding.decoder import StateDecoder
from romdp.encoding.observations import ObservationEncoder
from romdp.exact.mdp import MDP
from romdp.logs.model.checks import Check, check_model
from romdp.logs.model.estimate import Bounds, Estimate, estimate, gain_bounds
from romdp.logs.model.evaluation import HeldOut
from romdp.logs.model.safety import Safety
from romdp.logs.model.values import Values, find_values
from romdp.logs.reading.names import join_names
from romdp.logs.remembering import StateMemory
from romdp.planning.confidence import Hoeffding

if TYPE_CHECKING:
    import pandas

    from romdp.agents.agent import Agent
    from romdp.logs.model.twomodels import Comparison
    from romdp.logs.scoring import Drift

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class LatentModel:
    """What was learned from a log or in a run, as a small MDP between hidden states.

    `romdp.fit` returns one, a run leaves one behind (``run.model``, ``online.model``), and
    `romdp.load_model` reads one. It never changes. States are numbered from 0; ``partition``,
    ``visits``, ``log_odds`` and ``certainty`` have one entry for each of ``observation_names``,
    ``policy`` one for each state. ``mdp`` has rewards scaled to [0, 1]; gains are in the reward's
    own units.

    Attributes
    ----------
    partition : Partition
        The hidden state of every observation.
    observation_names, action_names : tuple
        What the numbers stand for, as the log calls them.
    counts : Counts
        Counts on the hidden states, over all episodes, with their ends and starts; rewards are
        scaled to [0, 1].
    visits : ndarray of int64, shape (n_observations,)
        How often each observation was seen.
    reward_range : tuple of float, or None
        Smallest and largest reward; None if the log has none.
    log_odds, certainty : ndarray, shape (n_observations,)
        The margins: log odds of an observation's state against the second best, given all
        others, and the probability of the best.
    held_out : HeldOut or None
        What held-out episodes say about a model of the others.
    method : str
        How observations were grouped.
    confidence, delta
        The widths behind ``optimistic_gain`` and ``pessimistic_gain``, and the probability with
        which they may fail. They take the grouping as given.
    rare : int
        A pair that was tried less often than this counts as hardly ever tried.
    n_rows, n_episodes : int
        Size of the log.
    columns : mapping of str to str
        The names of its columns by what they are; empty for a trajectory.
    settings : mapping
        What else `romdp.fit` was told, and the versions that it ran with.
    decoder : StateDecoder or None
        For vectors: from a vector to its hidden state. ``observation_names`` are then numbers of
        states.
    memory : StateMemory or None
        If states look back: from the state before, the action and what is seen to the state.
        ``observation_names`` are then typical histories of the states, and ``memory.names`` what
        was seen.
    objective : str or float
        What `act` and ``value_lower`` are about: "average", "episodic" or a discount.
    encoder : ObservationEncoder or None
        In a model of a run: from the environment's own observations to their numbers. None:
        observations are names, or vectors for the ``decoder``.
    plan : ndarray of int64, or None
        The action in every state, where somebody planned already.
    safety : Safety, or a function that returns it, or None
        Where ``safe_policy`` and ``value_lower`` come from; use those. None, as in a model of a
        run: there is no bound, and `act` answers the ``plan``.
    """

    partition: Partition
    observation_names: tuple[Any, ...]
    action_names: tuple[Any, ...]
    counts: Counts
    visits: Ints
    reward_range: tuple[float, float] | None
    log_odds: Floats
    certainty: Floats
    held_out: HeldOut | None = None
    method: str = "likelihood"
    confidence: Hoeffding = field(default_factory=lambda: Hoeffding(constants="jaksch"))
    delta: float = 0.05
    rare: int = 30
    n_rows: int = 0
    n_episodes: int = 1
    columns: Mapping[str, str | None] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    decoder: StateDecoder | None = None
    memory: StateMemory | None = None
    objective: str | float = "average"
    safety: Safety | Callable[[], Safety] | None = None
    encoder: ObservationEncoder | None = None
    plan: Ints | None = None

    @property
    def named(self) -> bool:
        """Whether observations have names; vectors have codes only."""
        return self.decoder is None and not (self.encoder is not None and self.encoder.learns)

    @property
    def shown(self) -> str:
        """What was seen, in words: so many observations, or vectors of so many numbers."""
        if self.memory is not None and self.decoder is None:
            return f"histories of {len(self.memory.names):,} observations"
        if self.named:
            return f"{self.n_observations:,} observations"
        encoding: Any = self.encoder if self.decoder is None else self.decoder.encoding
        return f"vectors of {count(encoding.n_features, 'number')}"

    @property
    def n_states(self) -> int:
        """Number of hidden states."""
        return self.partition.n_clusters

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return len(self.action_names)

    @property
    def n_observations(self) -> int:
        """Number of observations."""
        return len(self.observation_names)

    @property
    def starts(self) -> Ints:
        """How many episodes began in each hidden state."""
        return self.counts.starts

    @cached_property
    def _estimate(self) -> Estimate:
        return estimate(self.counts, self.plan)

    @cached_property
    def _bounds(self) -> Bounds:
        return gain_bounds(self.counts, self._estimate, self.confidence, self.delta)

    @property
    def mdp(self) -> MDP:
        """The MDP between the hidden states, rewards scaled to [0, 1].

        A pair that was never tried stays where it is and pays 0.
        """
        return self._estimate.mdp

    @property
    def policy(self) -> Ints:
        """The number of the best action in every hidden state, among those that were tried.

        It maximises the average reward in ``mdp`` and is greedy: an action that was tried once and
        seemed the best is the best. `act` follows ``safe_policy``. In a model of a run it is the
        plan of ``run.policy`` (at the start of an episode, if that matters).
        """
        return self._estimate.policy

    @cached_property
    def judged(self) -> Safety:
        """What can be promised of `act`: bounds, risk of harm, tests, and what is missing."""
        if isinstance(self.safety, Safety):
            return self.safety
        if self.safety is not None:
            return self.safety()
        missing = (
            "a run keeps counts and not the steps by which a bound is judged: keep a log of it, "
            "and fit that"
        )
        asked = np.full(self.n_observations, -1)
        policy = np.full(self.counts.visits.shape, 1.0 / self.n_actions)
        if self.plan is not None:
            asked = np.append(self.plan, -1)[self.partition.labels]
            policy = np.eye(self.n_actions)[self.plan]
        lost, no = -np.inf, 0.0
        return Safety(asked, policy, lost, "none", lost, no, no, no, (), missing)

    @property
    def safe_policy(self) -> Floats:
        """(n_states, n_actions) probabilities of actions that following `act` comes to.

        Where `act` says None, they are those of whoever wrote the log, averaged over the
        observations of the state.
        """
        return self.judged.policy

    @property
    def value_lower(self) -> float:
        """A 95% lower bound of what following `act` earns, in the reward's own units.

        Per step for the average objective; else the (discounted) sum of an episode that begins as
        the log's do. It is about the world as it is at the end of the log, and assumes that whoever
        wrote the log acted on what is in it. ``value_basis`` says what it rests on. Minus infinity
        where the log cannot tell: ``judged.missing`` then says why.
        """
        return self.judged.value_lower

    @property
    def value_basis(self) -> str:
        """What ``value_lower`` rests on.

        "held-out episodes": policies found in one half of the episodes were judged by the other,
        without the assumption that hidden states are right. "model, tests passed": there are too
        few episodes in which the policy was followed; the model's own bound stands in, since the
        model has passed every test that it could have failed. "none": there is no bound.
        """
        return self.judged.value_basis

    @property
    def value_if_markov(self) -> float:
        """The model's own 95% lower bound of what following `act` earns.

        It counts doubt about which observations belong together, about where actions lead and
        about what they pay, and holds if the hidden states are right and Markov.
        """
        return self.judged.value_if_markov

    @cached_property
    def _worth(self) -> Values:
        return find_values(self.counts, self.reward_range, self.objective)

    @property
    def q_values(self) -> Floats:
        """What each action is worth in each state, shape (n_states, n_actions).

        The action is taken once, and the best policy among what was tried is followed from there
        on, best under ``objective``. In units of the reward; for the average objective the sum of
        what is earned above the average, relative to the states as the log visited them. A pair
        that was never tried is taken to stay where it is and to pay the least. NaN without rewards.
        """
        return self._worth.q_values

    @property
    def values(self) -> Floats:
        """What each state is worth: the largest of its ``q_values`` among what was tried."""
        return self._worth.values

    @property
    def q_errors(self) -> Floats:
        """Standard deviations of ``q_values``: doubt about moves and rewards, given the states."""
        return self._worth.q_errors

    @property
    def value_errors(self) -> Floats:
        """Standard deviations of ``values``; see ``q_errors``."""
        return self._worth.value_errors

    @property
    def reward_errors(self) -> Floats:
        """Standard deviations of ``rewards``, given the states."""
        return self._worth.reward_errors

    @property
    def gain(self) -> float:
        """Long-run average reward of the policy in ``mdp``, in the reward's own units.

        Where it depends on the start: on average over the states as the logs visited them.
        """
        share = self.counts.visits.sum(axis=1)
        return self.in_units(float(self._estimate.gains @ share / max(1, share.sum())))

    @property
    def optimistic_gain(self) -> float:
        """The best policy's gain in the best MDP inside the widths."""
        return self.in_units(self._bounds.optimistic_gain)

    @property
    def pessimistic_gain(self) -> float:
        """What the policy earns at least in every MDP inside the widths."""
        return self.in_units(self._bounds.pessimistic.gain)

    @property
    def cautious_policy(self) -> Ints:
        """The policy that earns most in its worst MDP inside the widths."""
        return self._bounds.cautious.policy

    @property
    def cautious_gain(self) -> float:
        """What the cautious policy earns at least in every MDP inside the widths."""
        return self.in_units(self._bounds.cautious.gain)

    @property
    def widths(self) -> tuple[Floats, Floats]:
        """Half widths of the mean rewards of ``mdp`` and L1 widths of its transition laws."""
        return self._bounds.reward_widths, self._bounds.transition_widths

    @property
    def share(self) -> Floats:
        """Share of the log's steps in each hidden state."""
        visits = self.counts.visits.sum(axis=1)
        share: Floats = visits / max(1, visits.sum())
        return share

    @property
    def rewards(self) -> Floats:
        """Mean reward of every state and action in its own units; NaN where never tried."""
        low, span = self._scale
        means = low + span * self.mdp.reward
        return np.where(self.counts.visits > 0, means, np.nan)

    @cached_property
    def rarely_tried(self) -> tuple[tuple[int, Any, int], ...]:
        """State, name of the action and visits of pairs below ``rare`` visits, rarest first."""
        visits = self.counts.visits
        states, actions = np.nonzero(visits < self.rare)
        order = np.argsort(visits[states, actions], kind="stable")
        pairs = zip(states[order].tolist(), actions[order].tolist(), strict=True)
        return tuple((s, self.action_names[a], int(visits[s, a])) for s, a in pairs)

    @cached_property
    def checks(self) -> tuple[Check, ...]:
        """The assumptions, checked on the data."""
        return check_model(self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against relying on the model, in words."""
        failed = [f"{check.name}? No: {check.text}" for check in self.checks if check.ok is False]
        of_vectors = self.decoder.notes if self.decoder else ()
        return (*failed, *of_vectors, *(self.held_out.notes if self.held_out else ()))

    @property
    def _scale(self) -> tuple[float, float]:
        low, high = self.reward_range or (0.0, 1.0)
        return low, high - low

    def in_units(self, value: float) -> float:
        """Turn a reward or gain of ``mdp`` into the units of the log."""
        low, span = self._scale
        return low + span * value

    @cached_property
    def _numbers(self) -> dict[Any, int]:
        return {name: i for i, name in enumerate(self.observation_names)}

    def predict(
        self,
        observations: Any,
        unknown: str = "mark",
        step: Any = 0,
        *,
        actions: Any = None,
        lengths: Any = None,
    ) -> Any:
        """Return the hidden state of each observation, given by name.

        If states look back (``memory``), observations are taken to follow one another.

        Parameters
        ----------
        observations
            A name, or a sequence, array or column of names; where names lie in several columns, a
            tuple for each. If the model was learned from vectors: vectors, shape (n, d), or a
            single one. Or a data frame that has the log's columns. For a model of a run:
            observations of the environment, one or a batch.
        unknown
            What to do with names that the log does not have, or has without a state:
            ``"mark"`` gives them the state -1, ``"error"`` raises.
        step
            In a model of a run: how many steps of the episode are over, one number or one for each
            observation. It matters where vectors do not show it; see `Policy.depends_on_step`.
        actions, lengths
            If states look back: what was done at each observation, by name, if that is known; and
            how many observations each episode has, by default one episode.

        Returns
        -------
        int or ndarray of int64
        """
        numbers, single = self.find(observations, step, actions, lengths)
        states = self._states(numbers, observations, single, unknown)
        return int(states[0]) if single else states

    def states_of(self, names: Sequence[Any]) -> Ints:
        """Return the hidden state of each name of ``observation_names``.

        This is `predict`, except where the model was learned from vectors: names are then what
        ``decoder`` calls its states.
        """
        numbers = np.array([self._numbers.get(name, -1) for name in names], np.int64)
        states: Ints = np.append(self.partition.labels, -1)[numbers]
        return states

    def _states(self, numbers: Ints, observations: Any, single: bool, unknown: str) -> Ints:
        """Return the hidden states of numbers that were found."""
        choice(unknown, "unknown", ("mark", "error"))
        states: Ints = np.append(self.partition.labels, -1)[numbers]
        if unknown == "error" and (states < 0).any():
            at = int(np.argmax(states < 0))
            shown = observations if single else list(observations)[at]
            shown = shown.item() if isinstance(shown, np.generic) else shown
            raise InvalidInputError(
                f"observations[{at}] is {shown!r}, which the log does not have, so its hidden "
                'state is unknown; pass unknown="mark" to get -1 for such'
            )
        return states

    def predict_proba(self, observations: Any) -> Floats:
        """Return how probable each hidden state is for each observation; rows sum to one.

        The state that `predict` answers has its ``certainty``, or that of the decoder; the others
        share the rest as often as the log visited them. So does everything for a name that the
        log does not have.
        """
        numbers, single = self.find(observations)
        states = np.append(self.partition.labels, -1)[numbers]
        sure = np.append(np.nan_to_num(self.certainty, nan=1.0), 0.0)[numbers]
        if self.decoder is not None:
            shown = _log_columns(observations, self.columns.get("observation"))
            sure = self.decoder.certainty([shown] if single else shown) if len(numbers) else sure
        known = np.flatnonzero(states >= 0)
        found = np.tile(self.share, (len(states), 1))
        found[known, states[known]] = 0.0
        total = found.sum(axis=1)
        rest = np.where(states < 0, 1.0, np.where(total > 0, 1.0 - sure, 0.0))
        found *= (rest / np.where(total > 0, total, 1.0))[:, None]
        found[known, states[known]] = 1.0 - rest[known]
        return np.asarray(found[0] if single else found)

    def act(self, observations: Any, unknown: str = "mark") -> Any:
        """Return what to do differently at each observation, given by name.

        Parameters
        ----------
        observations
            As for `predict`.
        unknown
            As for `predict`; ``"mark"`` answers None for unknown names.

        Returns
        -------
        The action's name, or None: go on as before. Or an array of these (of int64 if all are whole
        numbers, else of object).
        """
        numbers, single = self.find(observations)
        self._states(numbers, observations, single, unknown)
        asked = np.append(self.judged.asked, -1)[numbers]
        chosen = [None if a < 0 else self.action_names[a] for a in asked]
        answer: NDArray[Any] = np.empty(len(chosen), object)
        answer[:] = chosen
        if chosen and all(type(name) is int for name in chosen):
            answer = np.array(chosen, np.int64)
        return answer[0] if single else answer

    def find(
        self, observations: Any, step: Any = 0, actions: Any = None, lengths: Any = None
    ) -> tuple[Ints, bool]:
        """Return the numbers of observations, -1 for unknown ones, and whether it is a single one.

        The number is the place in ``observation_names``; the arguments are as for `predict`.
        """
        if self.encoder is not None:
            numbers, single = self.encoder.find_all(observations, step)
            return np.where(numbers < self.n_observations, numbers, -1), single
        names, single = self._names(observations)
        if self.memory is not None:
            done = None if actions is None else _names(actions)
            return self.memory.states(names, done, lengths), single
        return np.array([self._numbers.get(name, -1) for name in names], np.int64), single

    def asked_of(self, names: Sequence[Any]) -> Ints:
        """Return the number of the action that `act` answers for each name, -1 for None."""
        numbers = np.array([self._numbers.get(name, -1) for name in names], np.int64)
        asked: Ints = np.append(self.judged.asked, -1)[numbers]
        return asked

    def _names(self, observations: Any) -> tuple[Sequence[Any], bool]:
        """Return names of observations, and whether it is a single one.

        Names of vectors are the decoder's states.
        """
        column = self.columns.get("observation") or ""
        several = "," in column and isinstance(observations, tuple)  # one name in several columns
        observations = _log_columns(observations, column)
        if self.decoder is None:
            try:
                names = None if several else _names(observations)
                found = [observations] if names is None else names
                if found and isinstance(found[0], tuple | list):
                    found = join_names(found)
                hash(tuple(found))
            except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
                raise InvalidInputError(
                    f"observations is {shown(observations)}; pass the name of one, or a column of "
                    "names as the log has them"
                ) from error
            return found, names is None
        single = not are_vectors(observations)
        if single and np.ndim(observations) == 0:
            raise InvalidInputError(
                f"observations is {shown(observations)}; the model was learned from "
                "vectors: pass one row of numbers per observation, shape (n, d)"
            )
        if not len(observations):
            return [], False
        return self.decoder.predict([observations] if single else observations).tolist(), single

    def score(self, log: Any, **columns: Any) -> float:
        """Return how well the model foresees a log: nats per step, the larger the better.

        It is the mean log probability of what followed each step, given what was seen and done: the
        next observation, or the end of the episode where the model learned of ends. The last rows
        of episodes that were cut lead to nothing that is known, and are not scored.

        Parameters
        ----------
        log
            As for `romdp.fit`; a `Trajectory` has names that are numbers.
        columns
            The columns of the log and how it is read, as for `romdp.fit` (``observation``,
            ``action``, ``episode``, ``order``, ``terminated``, ``ends``, ``missing``, ``sort``),
            where they differ from those of the log that was learned from.
        """
        from romdp.logs.scoring import score

        return score(self, log, **columns)

    def drift(self, log: Any, **columns: Any) -> "Drift":
        """Say whether a new log still follows the model; printing it shows a sentence.

        Parameters
        ----------
        log, columns
            As for `score`, with a ``reward`` if there is one.
        """
        from romdp.logs.scoring import drift

        return drift(self, log, **columns)

    def compare(self, other: "LatentModel") -> "Comparison":
        """Say how another model, such as a refit, differs; printing it shows a few lines.

        States are matched so that as many steps as possible are in states that belong together.
        """
        from romdp.logs.model.twomodels import compare

        check(other, "other", LatentModel)
        return compare(self, other)

    def to_frame(self) -> "pandas.DataFrame":
        """Return a pandas data frame with one row per observation.

        Its columns are observation, hidden_state (-1 for none), certainty, visits, and act: what
        `act` answers.
        """
        from romdp.logs.model.exporting import to_frame

        return to_frame(self)

    def to_sql(self, answer: str = "act") -> str:
        """Return a CASE expression of SQL that answers what `act` or `predict` does.

        Parameters
        ----------
        answer
            ``"act"``, the action or NULL to go on as before; ``"state"``, the hidden state or NULL
            for what the log does not have.

        Raises
        ------
        MisuseError
            If observations are not names in columns of a log.
        """
        from romdp.logs.model.exporting import to_sql

        return to_sql(self, answer)

    def typical(self, state: int, most: int = 5) -> tuple[Any, ...]:
        """Return the names of the observations seen most in a state."""
        state = whole_number(state, "state", 0, self.n_states - 1)
        most = whole_number(most, "most", 0)
        members = np.flatnonzero(self.partition.labels == state)
        order = members[np.argsort(-self.visits[members], kind="stable")]
        return tuple(self.observation_names[i] for i in order[:most])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a directory, completely or not at all; no pickle."""
        from romdp.logs.model.files import save_model

        save_model(self, path)

    def to_agent(self) -> "Agent":
        """Make an agent that starts from what was learned and keeps learning online.

        It keeps the grouping, and starts from the counts of the hidden states. Play it with
        observations and actions numbered as in ``observation_names`` and ``action_names`` and
        with ``reward_range=model.reward_range``.
        """
        from romdp.logs.model.continuing import agent_of

        return agent_of(self)

    def __str__(self) -> str:
        from romdp.logs.model.text import table

        return table(self)

    def _repr_html_(self) -> str:
        from romdp.logs.model.text import html

        return html(self)

    def __repr__(self) -> str:
        return (
            f"LatentModel({self.n_observations:,} observations in {self.n_states} hidden states, "
            f"{self.n_actions} actions, {self.n_rows:,} rows, gain {self.gain:.4g})"
        )


def _log_columns(observations: Any, column: str | None) -> Any:
    """Take the log's columns out of a data frame that has them, whatever their order there."""
    there = [name for name in getattr(observations, "columns", ()) if isinstance(name, str)]
    if column is not None and column in there:
        observations = observations[column]
    if not hasattr(observations, "columns"):  # a column of lists that is no array
        for method in ("to_pylist", "to_list"):
            if hasattr(observations, method):
                return getattr(observations, method)()
    if column is None or not there or column in there:
        return observations
    parts = [part for part in column.split(",") if part]
    missing = [part for part in parts if part not in there]
    if missing and "," in column:
        raise InvalidInputError(
            f"there is no column {missing[0]!r}; the model was learned from the columns "
            f"{', '.join(map(repr, parts))}"
        )
    return observations if missing else observations[parts]


def _names(observations: Any) -> list[Any] | None:
    """Return a list of names, or None for a single one; what is missing is None."""
    if isinstance(observations, str | bytes) or not isinstance(observations, Iterable):
        return None
    if hasattr(observations, "columns"):  # of names that belong together
        frame: Any = observations
        parts = [_names(frame[name]) or [] for name in frame.columns]
        return list(zip(*parts, strict=True))
    for method in ("to_pylist", "tolist", "to_list"):
        if hasattr(observations, method):
            observations = getattr(observations, method)()
            if not isinstance(observations, list):
                return None  # an array of no dimension
    plain = [name.item() if isinstance(name, np.generic) else name for name in observations]
    return [None if isinstance(name, float) and np.isnan(name) else name for name in plain]


def build(
    partition: Partition,
    total: Counts,
    log_odds: Floats,
    certainty: Floats,
    **facts: Any,
) -> LatentModel:
    """Make a model of counts of observations and how they are grouped."""
    return LatentModel(
        partition=partition,
        counts=total.group(partition),
        visits=freeze(total.visits.sum(axis=1)),
        log_odds=freeze(np.array(log_odds)),
        certainty=freeze(np.array(certainty)),
        **facts,
    )
