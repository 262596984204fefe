"""Wrong arguments: one clear error of ours that names the argument, and nothing is changed by it.

`make test` tries some of the calls of `entrances.py`, `make fuzz` all of them.
"""

import os
import random
from array import array

import numpy as np
import pytest
from entrances import WRONG, Toy, ToyVectors, attempt, entrances, pairs, single_calls, world
from entrances import model as fitted

import romdp
from romdp.core.errors import ROMDPError

ALL = float(os.environ.get("ROMDP_FUZZ_SECONDS", "0")) > 0
SAMPLE = 600  # calls in `make test`


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Some wrong values are names of files."""
    monkeypatch.chdir(tmp_path)


def test_every_public_callable_takes_what_is_right():
    """What is called here is compiled here, so that the next test measures nothing else."""
    wrong = [outcome for e in entrances() if (outcome := attempt(e, {})).kind != "returned"]
    assert not wrong, "\n".join(map(str, wrong))


def test_wrong_arguments_are_refused_by_name():
    found = entrances()
    calls = [*single_calls(found), *pairs(found, 3000)]
    if not ALL:
        calls = random.Random(0).sample(calls, SAMPLE)
    wrong = [outcome for call in calls if (outcome := attempt(*call)).fault]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: romdp.Online("lc-psrl", 3, 2), "agent is 'lc-psrl'; did you mean romdp.LCPSRL"),
        (lambda: romdp.play("ucrl2", world(), 9), "agent is .ucrl2.; did you mean romdp.UCRL2"),
        (lambda: romdp.Online(romdp.PSRL, 3, 2), "did you mean romdp.PSRL"),
        (lambda: romdp.UCRL2("hoeffding"), "did you mean romdp.Hoeffding"),
        (lambda: romdp.Optimism("time uniform"), "did you mean romdp.TimeUniform"),
        (lambda: romdp.SLUCRL(spectral="tensor"), "spectral is 'tensor'; pass a romdp.Spectral"),
        (lambda: romdp.SLUCRL(spectral=romdp.Spectral), "did you mean romdp.Spectral"),
        (lambda: romdp.Agent("likelihood"), "clusterer is 'likelihood'; did you mean romdp.Like"),
        (lambda: romdp.Agent(planner=romdp.Hoeffding()), "plan.. of Hoeffding"),
        (lambda: romdp.Online(romdp.PSRL(), 10**9, 2), "n_observations.* GiB"),
        (lambda: romdp.PSRL().start(2, 10**10), "n_actions.* GiB"),
        (lambda: romdp.worlds.random_mdp(10**6), "GiB"),
        (lambda: romdp.load_model(3), "path is 3; pass the name of a file or a folder"),
    ],
)
def test_what_was_probably_meant(call, words):
    with pytest.raises(ROMDPError, match=words):
        call()


# What is refused leaves everything as it was


def digest(value, known=None):
    """Write everything that an object is made of, to the bit."""
    known = {} if known is None else known
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.str, value.shape, value.tobytes()
    if value is None or isinstance(value, bool | int | str | bytes):
        return value
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, array):
        return value.tobytes()
    if id(value) in known:
        return known[id(value)][0]
    known[id(value)] = len(known), value  # kept, lest another object takes its place
    if isinstance(value, dict):
        return [(digest(k, known), digest(v, known)) for k, v in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [digest(each, known) for each in value]
    parts = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        names = getattr(kind, "__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if hasattr(value, name):
                parts[name] = getattr(value, name)
    return type(value).__name__, digest(parts, known)


def online(agent, observations, **settings):
    """Return an agent in the middle of an episode, with a second stream."""
    learner, rng = romdp.Online(agent, observations, 2, **settings), np.random.default_rng(0)
    is_box = observations is ToyVectors.observation_space
    str(observations)  # a Box keeps how its ends are written once it was printed
    for step in range(60):
        shown = rng.normal(size=2) if is_box else step % 3
        learner.act(shown, stream=step % 2)
        learner.observe(step % 5, shown, terminated=step % 9 > 6, stream=step % 2)
    learner.act(shown, stream=0)
    return learner


ONLINE = {
    "numbers": lambda: online(romdp.LCPSRL(), 3),
    "a space": lambda: online(romdp.LCPSRL(), Toy.observation_space),
    "vectors": lambda: online(romdp.LCPSRL(), ToyVectors.observation_space),
    "memory": lambda: online(romdp.LCPSRL(memory=2), 3),
    "a range": lambda: online(romdp.UCRL2(), 3, reward_range=(0, 4)),
    "q-learning": lambda: online(romdp.baselines.QLearning(), 3, reward_range=(0, 4)),
}


def calls_of(learner, value):
    """List every call of an `Online` with one wrong argument."""
    right = {"reward": 1.0, "next_observation": learner._encoder.example(0), "stream": 0}
    if right["next_observation"] is None:
        right["next_observation"] = 1
    for name in ("reward", "next_observation", "terminated", "truncated", "action", "stream"):
        yield lambda name=name: learner.observe(**{**right, name: value})
    yield lambda: learner.act(value, stream=0)
    yield lambda: learner.act(right["next_observation"], stream=value)
    yield lambda: learner.reset(value, stream=0)
    yield lambda: learner.reset(stream=value)
    yield lambda: learner.save(value)
    yield lambda: learner.require_spaces(value, 2)
    yield lambda: learner.require_spaces(3, value)


@pytest.mark.parametrize("kind", ONLINE)
def test_online_is_to_the_bit_as_it_was_after_a_refusal(kind):
    """Sixty wrong values for every argument of every method; what is taken is no refusal."""
    learner, refused = ONLINE[kind](), 0
    before = digest(learner)
    for name in WRONG:
        for call in calls_of(learner, WRONG[name]()):
            try:
                call()
            except ROMDPError:
                refused += 1
                assert digest(learner) == before, name
            else:
                learner = ONLINE[kind]() if digest(learner) != before else learner
                before = digest(learner)
    assert refused > 300


@pytest.mark.parametrize(
    ("thing", "methods"),
    [
        (lambda: romdp.play(romdp.LCPSRL(), Toy(), 300).policy, ("act", "state", "probabilities")),
        (lambda: online(romdp.LCPSRL(memory=2), 3).policy, ("act", "state", "predict")),
        (lambda: romdp.play(romdp.LCPSRL(), ToyVectors(), 300).policy, ("act", "predict")),
        (fitted, ("predict", "act", "predict_proba", "score", "typical")),
        (lambda: romdp.play(romdp.LCPSRL(), Toy(), 300).model, ("predict", "act")),
        (lambda: romdp.Vocabulary(4, ["a", "b"]), ("encode", "decode", "read")),
        (romdp.Likelihood, ("regroup",)),
    ],
    ids=["policy", "looks back", "of vectors", "model", "of a run", "vocabulary", "clusterer"],
)
def test_policies_and_models_are_as_they_were_after_a_refusal(thing, methods):
    made = thing()
    for method in methods:
        rest = (romdp.Partition.singletons(6), np.random.default_rng(0))
        rest = rest if method == "regroup" else ()
        for name in WRONG:
            before = digest(made)
            try:
                getattr(made, method)(WRONG[name](), *rest)
            except ROMDPError:
                assert digest(made) == before, (method, name)
