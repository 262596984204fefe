"""Histories grouped by their futures: learning what to remember.

A code is (state before, action, observation). Codes that are followed alike become one state, by
the likelihood of single next observations, ends and rewards; with these states codes are formed
anew, and so on. So a state remembers one step more in every round, as far as that tells something
about the next step. What tells something only later, such as a cue at the entrance of a corridor,
is found by asking which observations, if the last of them were remembered, would make what follows
more probable.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import gammaln

from romdp.clustering.futures import group_rows
from romdp.core.arrays import Bools, Floats, Ints
from romdp.core.errors import InvalidInputError
from romdp.data.partition import Partition
from romdp.data.trajectory import Trajectory
from romdp.encoding.memory import Memory, outcomes, shifted

_MOST_LETTERS = 2000  # observations up to which each may be told apart from all others
_MOST_OUTCOMES = 512  # that are told apart as futures; rarer ones are one
_MOST_LEVELS = 5  # of rewards
_MOST_ROUNDS = 12  # of recursion; random machines of seven states settle in eight
_PATIENCE = 2  # rounds without a gain, after which the recursion ends
_MOST_KEPT = 48  # observations of which it is asked whether it helps to remember them
_HALF = 0.5  # the Dirichlet parameter of that question, and of an outcome that was never seen
_ASKED = 3  # of which it is tried whether held-out steps are predicted better
_CLEAR = 2.0  # standard errors
_SURE = 3.0  # the same before anything is remembered at all: agents ask that a dozen times
_ROUNDING = 1e-3  # nats: laws that are smoothed in different states differ that much
_HELD = 5  # every fifth part of a log is held out,
_STRETCH = 50  # of so many steps where episodes are fewer than
_FEWEST_EPISODES = 25
_FEW_VISITS = 5  # of a code
_PRICES = tuple(np.geomspace(3, 3e4, 9).tolist())  # of a state, in nats: three to each factor 30
_HALVINGS = 3  # of the distance between two of them


@dataclass(frozen=True)
class _Log:
    """A log as futures are counted.

    Attributes
    ----------
    seen, used, letters
        The log, the steps to learn from, and the letter of each observation.
    steps, columns
        What followed steps: outcomes and levels of rewards, by action.
    lists
        The list of each column: outcomes of each action, then rewards of each.
    """

    seen: Trajectory
    used: Bools
    letters: Ints
    steps: Ints
    columns: Ints
    lists: Ints

    @classmethod
    def of(cls, seen: Trajectory, used: Bools, letters: Ints) -> "_Log":
        after, n_actions = outcomes(seen), seen.n_actions
        spelled = np.append(letters, [letters.max() + 1, -1])[after]
        known = np.flatnonzero(spelled >= 0)
        often = np.bincount(spelled[known], minlength=1)
        rank = np.minimum(np.argsort(np.argsort(-often, kind="stable")), _MOST_OUTCOMES - 1)
        width = int(rank.max()) + 1
        steps, columns = [known], [seen.actions[known] * width + rank[spelled[known]]]
        lists = [np.repeat(np.arange(n_actions), width)]
        if not seen.pays_alike and seen.rewards is not None:
            cuts = np.unique(seen.rewards)
            if len(cuts) > _MOST_LEVELS:
                cuts = np.unique(np.quantile(cuts, np.arange(_MOST_LEVELS) / _MOST_LEVELS))
            level = np.searchsorted(cuts, seen.rewards, "right") - 1
            steps.append(np.arange(seen.n_steps))
            columns.append(n_actions * width + seen.actions * len(cuts) + level)
            lists.append(np.repeat(n_actions + np.arange(n_actions), len(cuts)))
        return cls(seen, used, letters, *map(np.concatenate, (steps, columns, lists)))

    @property
    def shown(self) -> Ints:
        """The letter of each step."""
        return self.letters[self.seen.observations]

    def table(self, rows: Ints) -> tuple[Ints, Ints, Ints]:
        """Count the columns that follow steps whose rows are given, in the steps to learn from."""
        used = self.used[self.steps]
        width = len(self.lists)
        cells = rows[self.steps[used]] * width + self.columns[used]
        names, counts = np.unique(cells, return_counts=True)
        return names // width, names % width, counts

    def group(self, codes: Ints, price: float = 0.0) -> Ints:
        """Group the codes of steps by their futures; returns the group of each step.

        Codes that were met in no step to learn from become what their letter becomes most.
        """
        names, numbers = np.unique(codes, return_inverse=True)
        rows, columns, counts = self.table(numbers)
        states: Ints = group_rows(rows, columns, counts, self.lists, len(names), price)[numbers]
        known = np.bincount(rows, minlength=len(names))[numbers] > 0
        if not known.all():
            tops = Memory.of(states, self.seen, known, self.letters).defaults
            states = np.where(known, states, tops[self.shown])
        return states

    def look_back(self, states: Ints, price: float = 0.0, leads: bool = True) -> Ints:
        """Return the states of one round more: of codes that are followed alike.

        If it counts where a code ``leads``, then the same observations must also lead to the same
        states: what matters only two steps on would be lost else.
        """
        codes = self.remembering(states)
        found = self.group(codes, price)
        if not leads:
            return found
        before = np.delete(np.arange(self.seen.n_steps), self.seen.starts + self.seen.lengths - 1)
        shown = self.seen.actions[before] * (self.shown.max() + 2) + self.shown[before + 1] + 1
        n = int(found.max()) + 1
        names, columns = np.unique(shown * n + found[before + 1], return_inverse=True)
        lists = np.unique(names // n, return_inverse=True)[1]
        further = replace(
            self,
            steps=np.concatenate([self.steps, before]),
            columns=np.concatenate([self.columns, len(self.lists) + columns]),
            lists=np.concatenate([self.lists, int(self.lists.max()) + 1 + lists]),
        )
        return further.group(codes, price)

    def machine(self, states: Ints) -> Memory:
        """Return the machine that follows states."""
        return Memory.of(states, self.seen, self.used, self.letters)

    def is_thin(self, codes: Ints) -> bool:
        """Whether codes are met too rarely to be compared."""
        return len(np.unique(codes)) * _FEW_VISITS > len(codes)

    def first(self, price: float = 0.0) -> Ints:
        """Return the states that rounds begin with: letters, or groups where letters are many."""
        if price or self.is_thin(self.remembering(self.shown)):
            return self.group(self.shown, price)
        return self.shown

    def remembering(self, states: Ints) -> Ints:
        """Return the codes of one round more."""
        before, did = shifted(states, self.seen, -1), shifted(self.seen.actions, self.seen, 0)
        n = int(self.letters.max()) + 1
        shown = np.where(self.shown < 0, n, self.shown)
        codes: Ints = ((before + 1) * self.seen.n_actions + did) * (n + 1) + shown
        return codes

    def surprise(self, machine: Memory) -> Floats:
        """Return the log probability of all that followed each step, by the steps to learn from.

        Each law has seen one step before, which was spread as in the whole log.
        """
        width, n_lists = len(self.lists), int(self.lists.max()) + 1
        states = machine.run_over(self.seen)
        rows, columns, counts = self.table(states)
        spread = np.bincount(columns, counts, width) + _HALF
        spread /= np.bincount(self.lists, spread)[self.lists]
        totals = np.bincount(
            rows * n_lists + self.lists[columns], counts, (states.max() + 1) * n_lists
        )
        keys, own = rows * width + columns, states[self.steps]
        asked = own * width + self.columns
        at = np.searchsorted(keys, asked)
        n = np.where(np.append(keys, -1)[at] == asked, np.append(counts, 0)[at], 0)
        chances = (n + spread[self.columns]) / (
            totals[own * n_lists + self.lists[self.columns]] + 1
        )
        found = np.bincount(self.steps, np.log(chances), self.seen.n_steps)
        after = self.seen.next_observations
        return np.asarray(found + np.where(after >= 0, np.log(machine.shares)[after], 0.0))


@dataclass(frozen=True)
class _Recipe:
    """How a machine is made: from which letters, in how many rounds, and what is kept for long.

    ``price`` is what each state must gain, in nats, ``leads`` says whether codes of a state must
    lead to the same states, and ``forgets`` whether states further back than the rounds are
    forgotten.
    """

    letters: Ints
    price: float = 0.0
    rounds: int = 0
    kept: tuple[tuple[int, ...], ...] = ()
    leads: bool = True
    forgets: bool = False

    def states(self, log: _Log) -> Ints:
        """Carry it out; returns the state of each step."""
        layers = [log.first(self.price)]
        for _ in range(self.rounds):
            layers.append(log.look_back(layers[-1], self.price, self.leads))
        states = layers[-1]
        if self.forgets and not self.price:
            layers[0] = log.shown
            states = np.unique(np.stack(layers), axis=1, return_inverse=True)[1].ravel()
        for letters in self.kept:
            states = _keep(log, log.machine(states).run_over(log.seen), letters, self.price)
        return states


@dataclass(frozen=True)
class _Found:
    """A recipe and its machine; ``logs`` is the log probability of each part that was held out."""

    recipe: _Recipe
    machine: Memory
    logs: Floats

    @property
    def remembers(self) -> bool:
        """Whether states look back at all."""
        return self.recipe.rounds > 0 or bool(self.recipe.kept)


@dataclass(frozen=True)
class _Judge:
    """Judges machines by the steps of a log that are held out, in parts: episodes or stretches."""

    part: Ints
    used: Bools

    @classmethod
    def of(cls, seen: Trajectory) -> "_Judge":
        """Hold out every fifth part."""
        if seen.n_episodes < _FEWEST_EPISODES:
            part = np.arange(seen.n_steps) // _STRETCH
        else:
            order = np.random.default_rng(0).permutation(seen.n_episodes)
            part = np.repeat(order, seen.lengths)
        used = part % _HELD != 0
        return cls(np.unique(part[~used], return_inverse=True)[1], used)

    def find(self, log: _Log, recipe: _Recipe, states: Ints) -> _Found:
        """Return what a recipe led to."""
        machine = log.machine(states)
        judged = log.surprise(machine)[~self.used]
        return _Found(recipe, machine, np.bincount(self.part, judged).astype(np.float64))

    def score(self, found: _Found) -> float:
        """Return the mean log probability of a held-out step."""
        return float(found.logs.sum() / len(self.part))

    def compare(self, first: _Found, second: _Found) -> tuple[float, float]:
        """By how much the first predicts a step better, and the standard error over parts."""
        sums, sizes = first.logs - second.logs, np.bincount(self.part)
        mean = float(sums.sum() / sizes.sum())
        if len(sums) < 2:
            return mean, float("inf")
        spread = ((sums - mean * sizes) ** 2).sum() * len(sums) / (len(sums) - 1)
        return mean, float(np.sqrt(spread) / sizes.sum())

    def is_better(self, first: _Found, second: _Found) -> bool:
        """Say whether the first predicts clearly better."""
        gain, error = self.compare(first, second)
        return gain > _CLEAR * error

    def choose(self, tried: list[_Found], n_states: int | None) -> _Found:
        """Return the one that predicts best, or one of fewer states within a standard error of it.

        If the number of states is given, none with more is taken as long as there is another.
        """
        few = [each for each in tried if n_states is None or each.machine.n_states <= n_states]
        best = max(few or tried, key=self.score)
        rivals = [best]
        for each in few if n_states is None else ():
            worse, error = self.compare(best, each)
            rivals += [each] * (worse < error)
        return min(rivals, key=lambda found: found.machine.n_states)


def learn_memory(
    seen: Trajectory,
    memory: int | None,
    partition: Partition | None = None,
    n_states: int | None = None,
) -> Memory | None:
    """Learn a state machine from a log.

    Parameters
    ----------
    seen
        What was seen, done and paid.
    memory
        How many states back a state may look, at least 1; None for no limit, where that pays.
    partition
        Observations that are alike where nothing is remembered, if that is known.
    n_states
        The most states; None for as many as help: the fewest that do not predict held-out steps
        clearly worse than others do.

    Returns
    -------
    Memory or None
        It was learned from four fifths of the episodes, or of stretches of steps, and its ``gain``
        and ``curve`` are measured on the others; then what follows its states was counted in all.
        None if there is no limit and
        no memory predicts them clearly better than single observations and groups of them do.
    """
    longest = int(seen.lengths.max()) - 1
    if memory is not None and memory > longest:
        raise InvalidInputError(
            f"memory is {memory}, but the longest episode has {longest + 1} steps, so that a state "
            f"can look {longest} steps back at most"
        )
    judge = _Judge.of(seen)
    alphabets = [np.arange(seen.n_observations)] if seen.n_observations <= _MOST_LETTERS else []
    if partition is not None and 0 < partition.n_clusters < seen.n_observations:
        alphabets.append(partition.labels)
    if memory is not None and alphabets and judge.used.all():
        log = _Log.of(seen, judge.used, alphabets[0])
        return log.machine(_Recipe(log.letters, rounds=memory, forgets=True).states(log))
    if not alphabets or judge.used.all() or not judge.used.any():
        return None
    tried: list[_Found] = []
    for letters in alphabets:
        tried += _path(_Log.of(seen, judge.used, letters), judge, memory, n_states)
    best = judge.choose([each for each in tried if memory is None or each.remembers], n_states)
    plain = judge.choose([each for each in tried if not each.remembers], n_states)
    gain, error = judge.compare(best, plain)
    if memory is None and not (best.remembers and gain > _SURE * error + _ROUNDING):
        return None
    curve = np.array(sorted((each.machine.n_states, judge.score(each)) for each in tried))
    curve = curve[np.append(True, np.diff(np.maximum.accumulate(curve[:, 1])) > 0)]
    log = _Log.of(seen, np.ones_like(judge.used), best.recipe.letters)
    machine = log.machine(best.machine.run_over(seen))
    return replace(machine, gain=gain, error=error, curve=curve)


def _path(log: _Log, judge: _Judge, memory: int | None, n_states: int | None) -> list[_Found]:
    """Find machines at rising prices, until they predict clearly worse or have few states."""
    found = _search(log, judge, memory, 0.0)
    if n_states is None and memory is not None:
        return found
    for price in _PRICES:
        last = found[-1]
        few = n_states is not None and last.machine.n_states <= n_states
        if few or (n_states is None and judge.is_better(max(found, key=judge.score), last)):
            break
        found += _search(log, judge, memory, price)
    if n_states is not None and len(found) > 2:  # which price leaves as many as there may be?
        low, high = (each.recipe.price for each in found[-3::2])
        for _ in range(_HALVINGS):
            middle = (low * high) ** 0.5 or high / 2
            found += _search(log, judge, memory, middle)
            few = found[-1].machine.n_states <= n_states
            low, high = (low, middle) if few else (middle, high)
    return found


def _search(log: _Log, judge: _Judge, memory: int | None, price: float) -> list[_Found]:
    """Find what predicts held-out steps best, at a price of states: without memory, and with."""
    recipe = _Recipe(log.letters, price)
    first = log.first(price)
    plain = best = judge.find(log, recipe, first)
    if memory is not None:
        recipe = replace(recipe, rounds=memory, forgets=True)
        return [plain, judge.find(log, recipe, recipe.states(log))]
    for leads in (False, True):
        states, last, top = first, 0, judge.score(plain)
        for done in range(1, _MOST_ROUNDS + 1):
            if log.is_thin(log.remembering(states)) or done > last + _PATIENCE:
                break
            states = log.look_back(states, price, leads)
            found = judge.find(log, replace(recipe, rounds=done, leads=leads), states)
            if judge.score(found) > top:
                last, top = done, judge.score(found)
            best = max(best, found, key=judge.score)
    while True:
        states, better = best.machine.run_over(log.seen), best
        for letters in _worth_keeping(log, states):
            recipe = replace(best.recipe, kept=(*best.recipe.kept, letters))
            found = judge.find(log, recipe, _keep(log, states, letters, price))
            cost = price * (found.machine.n_states - best.machine.n_states)
            pays = not cost or _fits(log, found) - _fits(log, best) > cost
            if pays and judge.score(found) > judge.score(better):
                better = found
        if not judge.is_better(better, best):
            return [plain, best]
        best = better


def _fits(log: _Log, found: _Found) -> float:
    """Return the log probability of what followed all states, laws integrated out."""
    states = found.machine.run_over(log.seen)
    return float(_evidence(log, states, int(states.max()) + 1).sum())


def _last_of(log: _Log, letters: tuple[int, ...]) -> Ints:
    """Return which of some letters was seen last in the episode, from 1 on; 0 for none."""
    number = np.zeros(int(log.letters.max()) + 2, np.int64)
    number[list(letters)] = np.arange(len(letters)) + 1
    fresh, at = number[log.shown], np.arange(log.seen.n_steps)
    begins = np.repeat(log.seen.starts, log.seen.lengths)
    last = np.maximum.accumulate(np.where(fresh > 0, at, -1))
    return np.where(last >= begins, fresh[last], 0)


def _worth_keeping(log: _Log, states: Ints) -> list[tuple[int, ...]]:
    """Return the sets of letters of which the last one seen tells most about what follows.

    Asked are single letters (was it seen in this episode?) and sets of the rarest ones.
    """
    often = np.bincount(log.shown[log.used & (log.shown >= 0)], minlength=log.letters.max() + 1)
    common = np.argsort(-often, kind="stable")[: min(_MOST_KEPT, np.count_nonzero(often))].tolist()
    rarest = common[::-1]
    sizes = np.unique(np.geomspace(2, max(len(common), 2), 12).astype(int)).tolist()
    asked = [*((letter,) for letter in common), *(tuple(rarest[:n]) for n in sizes)]
    width = int(states.max()) + 1
    plain, gains = _evidence(log, states, width), []
    for letters in asked:
        n_rows = (len(letters) + 1) * width
        split = _evidence(log, _last_of(log, letters) * width + states, n_rows)
        gains.append(np.maximum(split.reshape(-1, width).sum(axis=0) - plain, 0.0).sum())
    order = np.argsort(-np.array(gains), kind="stable")[:_ASKED]
    return [asked[i] for i in order if gains[i] > np.log(len(asked))]


def _evidence(log: _Log, rows: Ints, n_rows: int) -> Floats:
    """Return the log probability of what followed the steps of each row, laws integrated out."""
    found, columns, counts = log.table(rows)
    sizes = np.bincount(log.lists)
    totals = np.zeros((n_rows, len(sizes)))
    np.add.at(totals, (found, log.lists[columns]), counts)
    mass = _HALF * sizes
    lists = (gammaln(mass) - gammaln(totals + mass)).sum(axis=1)
    return np.asarray(lists + np.bincount(found, gammaln(counts + _HALF) - gammaln(_HALF), n_rows))


def _keep(log: _Log, states: Ints, letters: tuple[int, ...], price: float) -> Ints:
    """Split states by which of some letters was seen last, where that matters now or later.

    What matters at a state are differences between futures there, and those that matter at a state
    to which it leads without another of these letters being seen.
    """
    last, n_last = _last_of(log, letters), len(letters) + 1
    n_states = int(states.max()) + 1
    same = np.zeros((n_states, n_last), np.int64)
    grouped = _evidence(log, states, n_states)
    split = _evidence(log, states * n_last + last, n_states * n_last).reshape(n_states, n_last)
    for state in np.flatnonzero(split.sum(axis=1) > grouped + price):
        here = states == state
        inside = replace(log, used=log.used & here)
        rows, columns, counts = inside.table(last)
        same[state] = group_rows(rows, columns, counts, log.lists, n_last, price)
    going = np.ones(log.seen.n_steps, np.bool_)
    going[log.seen.starts] = False
    going &= ~np.isin(log.shown, letters)
    before = shifted(states, log.seen, 0)
    edges = np.unique(np.stack([before[going], states[going]]), axis=1).T
    changed = True
    while changed:
        changed = False
        for source, target in edges:
            both = same[source] * n_last + same[target]
            finer = np.unique(both, return_inverse=True)[1]
            if finer.max() > same[source].max():
                same[source], changed = finer, True
    kept: Ints = np.unique(states * n_last + same[states, last], return_inverse=True)[1]
    return kept
