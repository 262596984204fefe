"""What a model of logs rests on, each checked on the data."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from romdp.core.text import count
from romdp.exact.chains import classes
from romdp.logs.model.independence import ALIKE, CHOICE, DRIFT, MEMORY

if TYPE_CHECKING:
    from romdp.encoding.decoder import StateDecoder
    from romdp.encoding.memory import Memory
    from romdp.logs.model.latent import LatentModel

_TESTED = {
    ALIKE: (
        "the observations of a state are alike",
        "Different states were put together, so what is predicted can be far too high: gather more "
        "rows. Only held-out episodes bear a bound now.",
    ),
    MEMORY: (
        "the hidden states are Markov",
        "Something that is not shown lasts from step to step: let states look back (memory=), or "
        "add the column that is missing. Only held-out episodes bear a bound now.",
    ),
    DRIFT: (
        "the world stayed the same",
        "Fit a shorter stretch of the log, or add a column that tells the times apart. There is no "
        "bound now.",
    ),
    CHOICE: (
        "whoever wrote the log chose by what was seen",
        "They seem to have acted on something else, too, and if that changes what follows, nobody "
        "can tell what their actions did: add the column that they looked at, or who it was. There "
        "is no bound now.",
    ),
}
"""What each kind of test asks, and what to do if it fails."""

SURE = 0.95
"""A placing that is less certain than this is doubtful."""

SURE_ENOUGH = 0.8
"""The same of vectors: a decoder is cautious and says some 95% even where states lie apart."""

_EQUALLY_GOOD = 1e-4  # nats per step: predictions this close
_LISTED = 3


@dataclass(frozen=True)
class Check:
    """One thing that was checked.

    Attributes
    ----------
    name : str
        What was asked.
    ok : bool or None
        The answer; None if the data do not tell.
    text : str
        The figures behind it, and what to do.
    """

    name: str
    ok: bool | None
    text: str

    def __str__(self) -> str:
        return f"{ {True: 'yes', False: 'NO', None: '?'}[self.ok]:<4}{self.name}: {self.text}"


def check_model(model: "LatentModel") -> tuple[Check, ...]:
    """Check the assumptions of a model."""
    common: tuple[Check, ...] = (_connected(model),)
    if model.n_actions > 1:  # else nobody chose
        chosen = _visited(model), _recommended(model)
        common = (*chosen, *common, _single(model))
    if model.memory is not None:
        return (_remembered(model.memory.machine), *common, *_tested(model, ALIKE))
    if model.decoder is not None:  # a vector occurs once: there is nothing to compare states with
        return (_decoded(model.decoder), *common, *_tested(model, ALIKE))
    return (_placed(model), *common, *_tested(model), _predictive(model))


def _decoded(decoder: "StateDecoder") -> Check:
    name, seen = "vectors are placed surely", decoder.portraits
    if seen is None or decoder.n_states == 1:
        return Check(name, None, "there is one state only")
    mean = float(np.average(seen.certainty, weights=seen.rows))
    least = float(seen.certainty[seen.rows > 0].min())
    text = f"their hidden state is {mean:.1%} certain on average, {least:.1%} in the worst state"
    return Check(name, mean >= SURE_ENOUGH, text)


def _placed(model: "LatentModel") -> Check:
    if np.isnan(model.certainty).all():
        return Check("observations are placed surely", None, f"{model.method} gives no margins")
    doubtful = np.flatnonzero(model.certainty < SURE)
    total = max(1, int(model.visits.sum()))
    share = model.visits[doubtful].sum() / total
    text = "every observation has a hidden state that is at least 95% certain"
    if len(doubtful):
        text = (
            f"{len(doubtful):,} of {len(model.visits):,} observations ({share:.1%} of the steps) "
            "are placed with less than 95% certainty; they were seen too rarely or fit nowhere"
        )
    return Check("observations are placed surely", bool(share < 0.05), text)


def _remembered(machine: "Memory") -> Check:
    name = "the past tells more than the last observation"
    if np.isnan(machine.gain):
        return Check(name, None, "no test: too few held-out steps")
    text = (
        f"{machine.gain:+.4f} nats per held-out step (standard error {machine.error:.4f}) beyond "
        "what the last observation tells of the next one, of ends and of rewards"
    )
    return Check(name, machine.gain > 0 if abs(machine.gain) > 2 * machine.error else None, text)


def _visited(model: "LatentModel") -> Check:
    rare = model.rarely_tried
    if not rare:
        return Check(
            "every action was tried in every state",
            True,
            f"each at least {model.counts.visits.min():,} times",
        )
    shown = "; ".join(f"{a!r} in state {s} ({count(n, 'time')})" for s, a, n in rare[:_LISTED])
    more = f" and {len(rare) - _LISTED} more" if len(rare) > _LISTED else ""
    return Check(
        "every action was tried in every state",
        False,
        f"hardly ever tried: {shown}{more}; nothing reliable is known of these",
    )


def _recommended(model: "LatentModel") -> Check:
    states = np.arange(model.n_states)
    visits = model.counts.visits[states, model.policy]
    weak = np.flatnonzero(visits < model.rare)
    text = f"each recommended action was tried at least {visits.min():,} times in its state"
    if len(weak):
        s = int(weak[0])
        name = model.action_names[model.policy[s]]
        text = (
            f"in {len(weak)} of {model.n_states} states the best action was hardly ever tried "
            f"(state {s}: {name!r}, {count(visits[s], 'time')}); see model.cautious_policy"
        )
    return Check("the policy rests on experience", not len(weak), text)


def _connected(model: "LatentModel") -> Check:
    transitions = model.counts.dense().transitions
    assert isinstance(transitions, np.ndarray)
    begun = np.outer(model.counts.ends.sum(axis=1), model.starts)  # another episode follows an end
    found = classes(transitions.sum(axis=1) + begun.astype(np.float64))
    name = "every state leads to every other"
    if len(found.recurrent) == 1 and not len(found.transient):
        return Check(name, True, "seen in the logs, under whoever acted then")
    if len(found.recurrent) == 1:
        return Check(
            name, False, f"the logs never come back to {len(found.transient)} of the states"
        )
    return Check(
        name,
        False,
        f"the states fall apart into {len(found.recurrent)} parts that the logs never leave; "
        "values are averages over these",
    )


def _single(model: "LatentModel") -> Check:
    states = np.arange(model.n_states)
    found = classes(model.mdp.transition[states, model.policy])
    n_parts = len(found.recurrent)
    text = "the policy ends up in one set of states from everywhere"
    if n_parts > 1:
        text = f"where the policy ends up depends on the start: {n_parts} sets of states"
    return Check("the policy has one long-run gain", n_parts == 1, text)


def _tested(model: "LatentModel", without: str = "") -> tuple[Check, ...]:
    """Report the tests that can fail, kind by kind."""
    found, held = [], model.held_out
    for kind, (name, advice) in _TESTED.items():
        consequence = advice
        if kind == without:
            continue
        if kind == MEMORY and model.memory is None and held is not None and held.memory is not None:
            consequence += (
                f' memory="auto" (on the command line --memory auto) predicts held-out steps '
                f"{held.memory:.4f} nats better."
            )
        tests = [test for test in model.judged.tests if test.kind == kind]
        failed = [test for test in tests if test.fails]
        if not tests:
            found.append(Check(name, None, "no test: too few steps or episodes"))
        elif failed:
            found.append(Check(name, False, f"{'; '.join(map(str, failed))}. {consequence}"))
        else:
            closest = min(tests, key=lambda test: test.p_value)
            found.append(Check(name, True, f"the most that was found: {closest}"))
    return tuple(found)


def _predictive(model: "LatentModel") -> Check:
    name = "hidden states predict better than single observations"
    found = None if model.held_out is None else model.held_out.prediction
    if found is None:
        return Check(name, None, "no test: too few held-out episodes")
    text = (
        f"{found.gain:+.4f} nats per held-out step (standard error {found.gain_error:.4f}): "
        f"{found.grouped:.4f} against {found.ungrouped:.4f}"
    )
    clear = abs(found.gain) > max(2 * found.gain_error, _EQUALLY_GOOD)
    return Check(name, found.gain > 0 if clear else None, text)
