"""`fit`: from a log to the hidden states behind it, the MDP between them and its best policy."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from romdp import __version__
from romdp.clustering.clusterer import Clusterer, Singletons
from romdp.clustering.grouping import Grouped, group
from romdp.clustering.histories import learn_memory
from romdp.clustering.likelihood import Likelihood
from romdp.clustering.offline import METHODS, refuse_unrepeated
from romdp.core.errors import InvalidInputError, UnknownNameError
from romdp.core.randomness import Seed, generator, seed_sequence, stream
from romdp.core.validation import check, flag, function, real_number, whole_number
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.encoding.memory import check_memory
from romdp.exact.objectives import Objective
from romdp.logs.decoding import find_decoder
from romdp.logs.minari import is_minari, read_minari
from romdp.logs.model.evaluation import HeldOut, evaluate
from romdp.logs.model.latent import LatentModel, build
from romdp.logs.model.safety import Log, judge
from romdp.logs.parting import group_and_part
from romdp.logs.reading.closing import LogCounts, LogRows
from romdp.logs.reading.columns import Columns
from romdp.logs.reading.counting import check_columns, count_logs, read_rows
from romdp.logs.reading.forgotten import warn_of_forgotten
from romdp.logs.reading.sources import has_times, is_event_log, open_source
from romdp.logs.reading.tallies import read_counts
from romdp.logs.reading.xes import ACTIVITY, CASE, TIME
from romdp.logs.remembering import StateMemory
from romdp.planning.confidence import Hoeffding

if TYPE_CHECKING:
    from romdp.encoding.encoder import Encoder

_HOLDOUT, _, _, _TEST, _ENCODE = range(5)  # streams of the seed
_ALL = 1.0  # of the episodes are kept, as far as there is room: the bound is judged by them
_VERSIONS = ("numpy", "scipy", "numba")  # that a model depends on, bit by bit


def fit(
    data: Any,
    observation: str | Sequence[str] | None = None,
    action: str | None = None,
    reward: str | None = None,
    episode: str | None = None,
    order: str | None = None,
    n_states: int | None = None,
    method: str | Clusterer = "likelihood",
    seed: Seed = 0,
    *,
    reward_law: str | None = None,
    terminated: str | None = None,
    objective: str | float | None = None,
    propensity: str | None = None,
    counts: bool = False,
    memory: int | str = 0,
    holdout: float = 0.2,
    ends: str | None = None,
    missing: str = "error",
    sort: bool = False,
    confidence: Hoeffding | None = None,
    delta: float = 0.05,
    rare: int = 30,
    workers: int | None = None,
    max_observations: int = 1_000_000,
    progress: Callable[[int], object] | None = None,
    client: Any = None,
    stage: Callable[[str], object] | None = None,
    encoder: "Encoder | None" = None,
) -> LatentModel:
    """Find the hidden states behind logged decisions, the MDP between them and its best policy.

    Parameters
    ----------
    data
        Where the log is: a Parquet, CSV (separated by commas, semicolons or tabs), Arrow or
        JSON-lines file, a folder or a glob of them, or a list; an Arrow table, a pandas or polars
        frame, a mapping of columns; a `Trajectory`; a Minari dataset with
        discrete observations. Or an event log in XES, whose columns have their standard names by
        default: activities are the observations, cases the episodes.
    observation, action, reward
        Names of the columns: what was seen, what was then done, what that brought. Observations
        and actions may be text, whole numbers or any category, rewards any finite numbers.
        Several columns of numbers (a list of names) or one column of equally long lists (in a
        mapping also a 2-D array) are vectors: an `Encoder` finds codes for them first. If text is
        among several columns, they are one name together.
        Without ``action`` nobody could choose; without ``reward`` only the states are sought.
    episode
        The column that tells whose row it is. Rows of different episodes may be interleaved;
        those of one must be in order. None: all rows are one long episode.
    order
        A column that must not fall from row to row of an episode; None if there is none to check.
    n_states
        The number of hidden states, if known. Otherwise the data choose it. If what was done
        depends on the observation, those that were put together without being compared (no action
        was tried often enough in both) are parted again, so that no policy rests on a guess; see
        `romdp.logs.parting`. This is left out where rewards of many values shaped the states.
    method
        ``"likelihood"`` needs only the log: it uses forward distributions (where a pair leads,
        what it pays), which do not depend on who acted, so the behaviour may be anything and may
        change over time. ``"overlap"`` (the paper's minimal clustering) uses the same and needs
        ``n_states``. ``"tensor"`` and ``"matrix"`` use backward laws, which hold under one
        fixed policy only: they are refused here, see `romdp.cluster`. Or a clusterer that
        reads counts.
    seed
        The same seed and the same log give the same model.
    reward_law
        How the likelihood reads rewards: ``"bernoulli"``, ``"categorical"`` (up to three values),
        ``"hurdle"`` (how often more or less than the usual value was paid), ``"gaussian"``, or
        ``"none"``, which groups by transitions alone. None: as the data are; rewards of many values
        have a hurdle law if they are mostly the same, and else are read as Gaussian unless groups
        without them predict held-out transitions better.
    terminated
        The column that is true (or 1, or yes) in the last row of an episode that ended for good.
        For the average reward, its last step then leads to where episodes start. The last step of
        the other episodes leads nowhere that is known. Without an ``episode`` column, the row
        after such a row begins another episode. A `Trajectory` says itself which of its episodes
        terminated.
    objective
        What the safe policy and ``value_lower`` are about: ``"average"``, the reward per step;
        ``"episodic"``, the sum until the episode ends (kept finite by a discount of 0.999); or a
        discount such as 0.99. None: episodic if the log tells that some episode terminated, else
        average.
    propensity
        The column that holds the probability, in (0, 1], with which the action was chosen. None:
        the policy behind the log is estimated from how often it chose each action in each state.
    counts
        The data are a table of counts that somebody else made of a log, with columns of fixed
        names; see `romdp.logs.reading.tallies`. No column is named then, and nothing is held
        out.
    memory
        How far a state looks back where the last observation does not tell what follows. 0: not at
        all. A number k: a state is told by the last k + 1 observations and the actions between
        them, as far as they matter for what follows. ``"auto"``: there is no limit, and none is
        taken unless held-out episodes are clearly better predicted. ``n_states`` is then the
        largest number of states. See ``model.memory``.
    holdout
        Share of episodes set aside to judge the model (at most two million rows); the final
        model then learns from all of them.
    ends
        What the last row of an episode means where no column says it: ``"truncated"``, what it
        led to is unknown; ``"terminated"``, the episode ended for good; ``"restart"``, it did, and
        rewards count per step (`objective` is then average by default). Its reward always counts.
        None: truncated, but terminated in event logs, and where every episode has a single row:
        decisions one by one, as of a bandit.
    missing
        What a row without an observation is: ``"error"``, refused; ``"drop"``, left out, and the
        episode is cut there; ``"own"``, an observation like others, called None.
    sort
        Sort the rows of each episode by ``order`` first; rows of equal ``order`` stay as they are.
    confidence, delta, rare
        See `LatentModel`; by default UCRL2's widths.
    workers
        Threads that count; by default one for each core.
    max_observations
        More different observations are refused.
    progress
        Called with the number of rows whenever some were counted.
    client
        A ``distributed.Client``: files are then counted on its Dask cluster.
    stage
        Called with a few words whenever another stage begins, such as the grouping.
    encoder
        For vectors: how they are encoded; by default `Encoder` with the same seed.

    Returns
    -------
    LatentModel

    Raises
    ------
    InvalidInputError
        If a column is missing or cannot be used; the message names the row where there is one.

    Examples
    --------
    >>> import romdp
    >>> world = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)
    >>> seen = romdp.simulate(world, "uniform", steps=20_000, seed=0)
    >>> model = fit({"page": seen.observations, "offer": seen.actions, "paid": seen.rewards},
    ...             observation="page", action="offer", reward="paid")
    >>> model.n_states, model.partition.sizes.sum()
    (3, np.int64(12))
    >>> bool((model.act(range(12)) == world.hidden.optimal_policy[world.labels]).all())
    True
    """
    looks_back = check_memory(memory)
    check(method, "method", str, "regroup")
    if looks_back != 0 and counts:
        raise InvalidInputError(
            f"memory is {memory!r}, but a table of counts does not tell what came before; pass the "
            "rows of the log"
        )
    clusterer, name = _clusterer(method, None if looks_back != 0 else n_states, reward_law)
    whole_number(rare, "rare", 0)
    whole_number(max_observations, "max_observations", 1)
    real_number(holdout, "holdout", 0.0, 1.0, open_high=True)
    real_number(delta, "delta", 0, 1, open_low=True, open_high=True)
    if objective is not None:
        objective = read_objective(objective)
    if propensity is not None and action is None:
        raise InvalidInputError("propensity is the probability of an action; name the action, too")
    tell = stage if stage is not None else lambda _: None
    unsaid = ends is None and terminated is None
    word = int(stream(seed, _HOLDOUT).generate_state(1)[0])
    columns, rows = None, None
    if is_minari(data):
        data = read_minari(data)
    named = (action, reward, episode, order, terminated, propensity)
    for watching, called in (("progress", progress), ("stage", stage)):
        check(called, watching, None, function)
    check(client, "client", None, "submit")
    check(ends, "ends", None, str)
    flag(sort, "sort")
    if flag(counts, "counts"):
        if any(name is not None for name in (observation, *named)):
            raise InvalidInputError(
                "a table of counts has columns of fixed names; leave observation, action, reward, "
                "episode, order, terminated and propensity out"
            )
        ends = ends or "truncated"
        log = read_counts(data, ends)
    elif isinstance(data, Trajectory):
        if data.vectors is None and data.n_observations > max_observations:
            raise InvalidInputError(
                f"the trajectory has {data.n_observations:,} observations, more than "
                f"{max_observations:,}. Number those that occur from 0 on without gaps, make them "
                "coarser, or raise max_observations if so many are meant"
            )
        ends = ends or "truncated"
        rows = LogRows.of_trajectory(data, ends)
    else:
        pieces = open_source(data)
        if is_event_log(pieces):
            observation, episode = observation or ACTIVITY, episode or CASE
            if order is None and has_times(pieces):
                order, sort = TIME, True
            ends = ends or ("terminated" if terminated is None else None)
        ends = ends or "truncated"
        if observation is None:
            raise InvalidInputError(
                "observation is missing: name the column that holds what was seen (on the command "
                "line --observation COLUMN)"
            )
        named = (action, reward, episode, order, terminated, propensity)
        columns = Columns(observation, *named)
        reading: dict[str, Any] = {"ends": ends, "missing": missing, "sort": sort}
        reading |= {"workers": workers, "progress": progress}
        warn_of_forgotten(pieces, columns)
        if check_columns(pieces, columns) or looks_back != 0:
            rows = read_rows(pieces, columns, **reading)
        else:
            log = count_logs(
                pieces,
                columns,
                holdout=_ALL,
                seed=word,
                max_observations=max_observations,
                client=client,
                **reading,
            )
    if rows is not None:
        if rows.seen.vectors is not None:
            tell("encoding the vectors and grouping their codes")
            rng = generator(seed, _ENCODE)
            rows = rows.decoded(
                find_decoder(rows.seen, columns, clusterer, rng, encoder, seed, looks_back != 0)
            )
            clusterer = Singletons()
        if looks_back != 0:
            tell("finding what to remember")
            plain = group(rows.count(0).counts, generator(seed), clusterer).partition
            machine = learn_memory(rows.seen, looks_back, plain, n_states)
            if machine is None:
                clusterer, _ = _clusterer(method, n_states, reward_law)
            else:
                rows, clusterer = StateMemory.of(machine, rows).remembered(rows), Singletons()
                name += " with memory"
        log = rows.count(_ALL, seed=word)
    _refuse_pointless(log, columns, n_states)
    if unsaid and log.n_rows == log.n_episodes and not log.total.has_ends:
        log, ends = log.decided(), "terminated"
        name += " of decisions one by one"
    tells_ends = counts or terminated is not None or isinstance(data, Trajectory)
    tells_ends = ends == "terminated" or (tells_ends and ends == "truncated")
    model = fit_counts(
        log,
        clusterer,
        name=name,
        seed=seed,
        confidence=confidence,
        delta=delta,
        rare=rare,
        stage=tell,
        part_states=n_states is None,
        holdout=holdout,
        objective=objective or _default_objective(log, tells_ends),
    )
    settings = {
        "seed": str(seed),
        "n_states": n_states,
        "memory": memory,
        "holdout": holdout,
        "ends": ends,
        "missing": missing,
        "sort": sort,
        "reward_law": reward_law,
        "romdp": __version__,
        **{library: version(library) for library in _VERSIONS},
    }
    if columns is None:
        return replace(model, settings=settings)
    names = {**asdict(columns), "observation": columns.shown}
    return replace(model, columns=names, settings=settings)


def fit_counts(
    log: LogCounts,
    clusterer: Clusterer | None = None,
    *,
    name: str = "likelihood",
    seed: Seed = 0,
    confidence: Hoeffding | None = None,
    delta: float = 0.05,
    rare: int = 30,
    stage: Callable[[str], object] | None = None,
    part_states: bool = True,
    objective: str | float = "average",
    holdout: float = 0.2,
) -> LatentModel:
    """Fit a model to a log that was counted; see `fit`.

    A share ``holdout`` of the episodes that the log holds out judges the states. All of them
    judge what is promised.
    """
    seed_sequence(seed)
    tell = stage if stage is not None else lambda _: None
    observations = f"{len(log.observation_names):,} observations"
    may_part = part_states and log.reward_range is not None
    find = partial(group_and_part, clusterer=clusterer, may_part=may_part)
    held_out: HeldOut | None = None
    counts, held = log.hold_out(holdout, generator(seed, _HOLDOUT))
    if held is not None and counts.n_transitions:
        tell(f"grouping {observations} without the held-out episodes")
        first = find(counts, generator(seed)).partition
        if first.n_clusters:
            tell("evaluating on the held-out episodes")
            held_out = evaluate(
                counts,
                first,
                held,
                log.reward_range,
                generator(seed, _TEST),
            )
    total = log.total
    tell(f"grouping {observations} with all episodes")
    partition, log_odds, certainty, law, abstains = find(total, generator(seed))
    if abstains and partition.n_clusters == 1:
        name += " (too few rows to tell observations apart)"
    if law == "none" and log.reward_range is not None:
        name += " of transitions alone"
    safety = None
    if partition.n_clusters:
        rows = None
        if log.held_out is not None:
            regroup = partial(_regroup, find, seed)
            rows = Log(log.held_out, log.propensities, log.in_episodes, regroup)
        safety = partial(
            judge,
            total,
            partition,
            log.reward_range,
            objective,
            certainty,
            log.inverse_propensities,
            seed,
            rows,
        )
    return build(
        partition,
        total,
        log_odds,
        certainty,
        observation_names=log.observation_names,
        action_names=log.action_names,
        reward_range=log.reward_range,
        held_out=held_out,
        method=name,
        confidence=Hoeffding(constants="jaksch") if confidence is None else confidence,
        delta=delta,
        rare=rare,
        n_rows=log.n_rows,
        n_episodes=log.n_episodes,
        objective=objective,
        safety=safety,
        decoder=log.decoder,
        memory=log.memory,
    )


def _regroup(find: Callable[..., Grouped], seed: Seed, counts: Counts) -> Partition:
    """Find the hidden states of a part of a log; one if there are none."""
    found = find(counts, generator(seed)).partition
    return found if found.n_clusters else Partition(np.zeros(len(found.labels), np.int64))


def _default_objective(log: LogCounts, tells_ends: bool) -> str:
    return "episodic" if tells_ends and log.total.has_ends else "average"


def read_objective(value: str | float) -> str | float:
    """Read an objective that a policy which does not know the step of its episode can have."""
    found = Objective.parse(value)
    if found.horizon is not None:
        raise InvalidInputError(
            f"objective is {value!r}, but the policy of a log does not depend on the step of the "
            'episode; pass "episodic" or a discount'
        )
    return found.kind if found.discount is None else found.discount


def _clusterer(
    method: str | Clusterer, n_states: int | None, reward_law: str | None
) -> tuple[Clusterer, str]:
    name = method if isinstance(method, str) else type(method).__name__
    if reward_law is not None:
        if method != "likelihood":
            raise InvalidInputError(
                f"reward_law is {reward_law!r}, but method {name!r} knows no law of rewards; only "
                '"likelihood" does'
            )
        method = Likelihood(n_states, reward_law)
    if isinstance(method, str):
        if method not in METHODS:
            raise UnknownNameError("method", method, METHODS)
        method = METHODS[method](n_states)
    if "triples" in method.needs:
        raise InvalidInputError(
            f"method {name!r} reads triples and holds only under one fixed policy, which a log "
            'does not promise; use method="likelihood", or romdp.cluster on a Trajectory whose '
            "policy was fixed"
        )
    return method, name


def _look_measured(log: LogCounts) -> bool:
    """Say whether observations are numbers with fractions that mostly occur once."""
    names = log.observation_names
    if 2 * len(names) < log.n_rows:
        return False
    try:
        values = np.array(names, np.float64)
    except (TypeError, ValueError):
        return False
    return bool((values != np.floor(values)).any())


def _refuse_pointless(log: LogCounts, columns: Columns | None, n_states: int | None) -> None:
    """Refuse a log from which nothing can be learned that the caller asked for.

    Vectors that tell nothing are one state, of which a warning was given already.
    """
    plain = log.decoder is None and log.memory is None
    if plain and n_states is not None and n_states > len(log.observation_names):
        raise InvalidInputError(
            f"n_states is {n_states}, but there are only {len(log.observation_names)} different "
            "observations; there cannot be more hidden states"
        )
    if plain and len(log.observation_names) == 1:
        raise InvalidInputError(
            f"there is only one observation, {log.observation_names[0]!r}, in "
            f"{log.n_rows:,} rows: nothing can be grouped"
        )
    column = "the trajectory" if columns is None else f"column {columns.shown!r}"
    refuse_unrepeated(log.total, column)
    if plain and columns is not None and _look_measured(log):
        warnings.warn(
            f"{column} holds {len(log.observation_names):,} different numbers in {log.n_rows:,} "
            "rows, each read as a name of its own; if it is a measurement, pass it as a vector of "
            f"one number: observation=[{columns.shown!r}], or --observation "
            f"{columns.shown}, with a comma",
            UserWarning,
            stacklevel=3,
        )
    if log.n_rows == log.n_episodes and log.reward_range is None:
        raise InvalidInputError(
            "every episode has one row only and there are no rewards, so nothing is known of what "
            f"follows; is {columns.episode if columns else 'lengths'!r} right?"
        )
    if columns is not None and columns.action is not None and len(log.action_names) == 1:
        raise InvalidInputError(
            f"column {columns.action!r} always holds {log.action_names[0]!r}: with one action "
            "there is nothing to decide. Leave action out to seek the hidden states alone"
        )
    low, high = log.reward_range or (0.0, 1.0)
    if low == high:
        where = "the rewards are" if columns is None else f"column {columns.reward!r} is"
        gap = float(np.spacing(abs(low)))
        rounded = (
            f" (up to differences below {gap:g}, which a 64-bit float of this size cannot hold: if "
            "there are such, subtract a constant from the rewards first)"
        )
        raise InvalidInputError(
            f"{where} always {low!r}{rounded if gap >= 1e-3 else ''}: every policy earns the same. "
            "Leave the reward out to seek the hidden states alone"
        )
