"""Environments, clusterers, planners and agents of a user's own that misbehave.

Each ends in one error that says who did what, and what was learned until then is kept.
"""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import romdp
from romdp.core.errors import ROMDPError

WORLD = romdp.worlds.random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
LATE = 41  # steps after which something goes wrong


class Toy(gymnasium.Env):
    """Three observations and two actions; ``spoil`` changes what a step or a reset returns."""

    observation_space = spaces.Discrete(3)
    action_space = spaces.Discrete(2)

    def __init__(self, spoil=None, spoil_reset=None, **space):
        self.spoil, self.spoil_reset, self.age = spoil, spoil_reset, 0
        self.late = LATE
        vars(self).update(space)

    def shows(self):
        if isinstance(self.observation_space, spaces.Discrete):
            return self.age % 3
        return np.array([self.age % 3, 1.0])

    def reset(self, *, seed=None, options=None):
        answer = self.shows(), {}
        late = self.age >= self.late or self.spoil is None
        return self.spoil_reset(*answer) if self.spoil_reset and late else answer

    def step(self, action):
        self.age += 1
        answer = self.shows(), float(action), self.age % 4 == 0, False, {}
        return self.spoil(*answer) if self.spoil and self.age >= self.late else answer


class OldError(Exception):
    """What an environment may raise."""


def fail(error):
    def spoil(*_):
        raise error

    return spoil


def shows(value):
    return lambda _, *rest: (value, *rest)


def pays(value):
    return lambda seen, _, *rest: (seen, value, *rest)


def ends(value):
    return lambda seen, reward, _, *rest: (seen, reward, value, *rest)


def cuts(value):
    return lambda seen, reward, ended, _, info: (seen, reward, ended, value, info)


BOX = spaces.Box(-9, 9, (2,), np.float64)
STEPS = {
    "four": (lambda *answer: answer[:4], "five"),
    "six": (lambda *answer: (*answer, 1), "five"),
    "two": (lambda *answer: answer[:2], "five"),
    "nothing": (lambda *_: None, "five"),
    "a number": (lambda *_: 3, "five"),
    "a text": (lambda *_: "abcde", "five"),
    "a dict": (lambda *_: dict.fromkeys(range(5)), "five"),
    "reward None": (pays(None), "reward"),
    "reward text": (pays("1"), "reward"),
    "reward NaN": (pays(float("nan")), "reward"),
    "reward infinite": (pays(float("inf")), "reward"),
    "reward 1e151": (pays(1e151), "reward"),
    "reward -1e300": (pays(-1e300), "reward"),
    "reward long": (pays(10**400), "reward"),
    "reward complex": (pays(1j), "reward"),
    "rewards": (pays(np.array([1.0, 2.0])), "reward"),
    "terminated None": (ends(None), "terminated"),
    "terminated 1": (ends(1), "terminated"),
    "terminated 2": (ends(2), "terminated"),
    "terminated text": (ends("no"), "terminated"),
    "terminated NaN": (ends(float("nan")), "terminated"),
    "terminated array": (ends(np.array([True])), "terminated"),
    "truncated None": (cuts(None), "truncated"),
    "truncated text": (cuts("False"), "truncated"),
    "observation 3": (shows(3), "observation"),
    "observation -1": (shows(-1), "observation"),
    "observation 1.5": (shows(1.5), "observation"),
    "observation None": (shows(None), "observation"),
    "observation text": (shows("1"), "observation"),
    "observation NaN": (shows(float("nan")), "observation"),
    "observation list": (shows([1, 2]), "observation"),
    "observation dict": (shows({}), "observation"),
}
VECTORS = {
    "NaN": np.array([np.nan, 0.0]),
    "infinite": np.array([np.inf, 0.0]),
    "1e300": np.array([1e300, 0.0]),
    "shorter": np.array([1.0]),
    "longer": np.array([1.0, 2.0, 3.0]),
    "deeper": np.ones((2, 2)),
    "empty": np.array([]),
    "texts": np.array(["a", "b"]),
    "complex": np.array([1j, 0.0]),
    "objects": np.array([None, object()], object),
    "a number": 1.0,
    "None": None,
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_that_are_none(name):
    spoil, word = STEPS[name]
    with pytest.raises(ROMDPError, match=word) as caught:
        romdp.play(romdp.LCPSRL(), Toy(spoil), 200)
    assert caught.value.run.steps[-1] == LATE - 1
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", VECTORS)
def test_vectors_that_are_none(name):
    env = Toy(shows(VECTORS[name]), observation_space=BOX)
    with pytest.raises(ROMDPError, match="observation") as caught:
        romdp.play(romdp.LCPSRL(), env, 200)
    assert caught.value.run.steps[-1] == LATE - 1


@pytest.mark.parametrize(
    "spoil",
    [lambda seen, _: seen, lambda *_: None, lambda seen, info: (seen, info, 1), lambda *_: (7, {})],
    ids=["no info", "nothing", "three", "far"],
)
@pytest.mark.parametrize("late", [False, True])
def test_resets_that_are_none(spoil, late):
    env = Toy((lambda *answer: answer) if late else None, spoil)
    with pytest.raises(ROMDPError, match=r"reset\(\)|observation") as caught:
        romdp.play(romdp.LCPSRL(), env, 200)
    assert hasattr(caught.value, "run") == late


@pytest.mark.parametrize(
    ("space", "word"),
    [
        ({"observation_space": None}, "observation"),
        ({"observation_space": "Discrete"}, "observation"),
        ({"observation_space": spaces.Box(0, 1, (0,))}, "no numbers"),
        ({"observation_space": spaces.Box(0, 1, (3, 0))}, "no numbers"),
        ({"action_space": None}, "action"),
        ({"action_space": BOX}, "action"),
        ({"action_space": spaces.Text(5)}, "action"),
        ({"action_space": spaces.MultiBinary(40)}, "action"),
    ],
)
def test_spaces_that_are_none(space, word):
    with pytest.raises(ROMDPError, match=word):
        romdp.play(romdp.LCPSRL(), Toy(**space), 200)


@pytest.mark.parametrize(
    "error",
    [ValueError("gone"), OldError("gone"), KeyboardInterrupt(), MemoryError(), SystemExit(1)],
)
def test_an_exception_after_an_hour_hands_back_what_was_learned(error):
    with pytest.raises(type(error)) as caught:
        romdp.play(romdp.LCPSRL(), Toy(fail(error)), 200)
    run = caught.value.run
    assert run.steps[-1] == LATE - 1
    assert run.policy.act(1) in (0, 1)


def test_an_environment_that_shows_the_same_array_again_and_again():
    """It changes what it has shown before; a copy was kept."""

    class Reusing(Toy):
        room = np.zeros(2)

        def shows(self):
            self.room[:] = super().shows()
            return self.room

    runs = [romdp.play(romdp.LCPSRL(), kind(observation_space=BOX), 300) for kind in (Toy, Reusing)]
    assert runs[0].reward.tolist() == runs[1].reward.tolist()
    assert runs[0].policy.table.tolist() == runs[1].policy.table.tolist()


def returns(value):
    return lambda *_, **__: value


class Anything:
    """An object whose methods return whatever they are told."""

    needs = frozenset()
    eager = True

    def __init__(self, **methods):
        vars(self).update(methods)


@pytest.mark.parametrize(
    "returned", [None, 3, [0] * 9, np.zeros(9, np.int64), romdp.Partition([0, 1])], ids=type
)
def test_clusterers_that_group_nothing(returned):
    agent = romdp.Agent(Anything(regroup=returns(returned)))
    with pytest.raises(ROMDPError, match=r"regroup\(\) of Anything .* 9 observations"):
        romdp.play(agent, WORLD, 100)


def plan(policy, values):
    return romdp.planning.backup.Plan(policy, 0.0, 0.0, 1, values, converged=True, gap=0.0)


@pytest.mark.parametrize(
    ("policy", "values"),
    [
        (np.zeros(4, np.int64), np.zeros(9)),
        (np.full(9, 2), np.zeros(9)),
        (np.full(9, -1), np.zeros(9)),
        (np.full(9, 2**40), np.zeros(9)),
        (np.zeros(9), np.zeros(9)),
        (np.zeros(9, np.int64), np.zeros(3)),
        (np.zeros((2, 2, 9), np.int64), np.zeros(9)),
        (None, None),
    ],
)
def test_planners_whose_plan_is_none(policy, values):
    """An action that is not there would have a compiled loop read past its arrays."""
    agent = romdp.Agent(planner=Anything(plan=returns(plan(policy, values))))
    with pytest.raises(ROMDPError, match=r"plan\(\) of Anything .* 9 groups and 2 actions"):
        romdp.play(agent, WORLD, 100)


@pytest.mark.parametrize("budget", [None, np.zeros((9, 2), np.int64), np.ones(3, np.int64), "x"])
def test_stopping_rules_that_never_let_anything_happen(budget):
    rule = Anything(budget=returns(budget), longest=returns(10), unseen_budget=returns(1))
    with pytest.raises(ROMDPError, match=r"budget\(\) of Anything"):
        romdp.play(romdp.Agent(stopping=rule), WORLD, 100)


@pytest.mark.parametrize("longest", [0, -1, None, 2.5])
def test_stopping_rules_whose_epochs_have_no_steps(longest):
    rule = Anything(budget=np.ones_like, longest=returns(longest), unseen_budget=returns(1))
    with pytest.raises(ROMDPError, match=r"longest\(\) of Anything"):
        romdp.play(romdp.Agent(stopping=rule), WORLD, 100)


def test_a_clusterer_that_fails_leaves_the_agent_as_it_was():
    """The next call tries again, and goes on as if nothing had happened."""
    fails = []

    class Failing(romdp.Singletons):
        def regroup(self, evidence, previous, rng):
            if fails:
                raise fails.pop()
            return previous

    one, other = (romdp.Online(romdp.Agent(Failing()), 3, 2) for _ in range(2))
    for step in range(30):
        fails += [OSError("the network is gone")] * (step % 7 == 3)
        try:
            action = one.act(step % 3)
        except OSError:
            action = one.act(step % 3)
        fails.clear()
        assert action == other.act(step % 3)
        for online in (one, other):
            online.observe(float(action), (step + 1) % 3)
    assert one.n_steps == other.n_steps == 30


@pytest.mark.parametrize("state", [None, 3, "state", object()], ids=type)
def test_agents_whose_state_is_none(state):
    agent = Anything(name="mine", start=returns(state))
    with pytest.raises(ROMDPError, match=r"start\(\) of Anything"):
        romdp.play(agent, WORLD, 100)
    with pytest.raises(ROMDPError, match=r"start\(\) of Anything"):
        romdp.Online(agent, 3, 2)


# Rewards of any size


@pytest.mark.parametrize("space", [spaces.Discrete(3), BOX], ids=["discrete", "vectors"])
@pytest.mark.parametrize("unit", [1e-150, 1e-100, 1e-12, 1.0, 1e12, 1e100, 1e149])
def test_rewards_of_any_size_are_learned_from(space, unit):
    """The second action is always better, wherever one is."""

    def scaled(seen, reward, _, *rest):
        place = np.ravel(seen)[0]
        return seen, unit * (3 * reward - 0.25 * (place == 1)), bool(place == 0), *rest

    env = Toy(scaled, observation_space=space, late=0)
    policy = romdp.play(romdp.LCPSRL(), env, 1000).policy
    shown = [[0, 1], [1, 1], [2, 1]] if space is BOX else range(3)
    assert [policy.act(each) for each in shown] == [1, 1, 1]


def test_larger_rewards_are_refused_at_every_entrance():
    far = 2e150
    online = romdp.Online(romdp.LCPSRL(), 3, 2)
    online.act(0)
    visits, moves = [[1], [1]], [[[1, 0]], [[0, 1]]]
    for call in (
        lambda: online.observe(far, 1),
        lambda: online.observe(-far, 1),
        lambda: romdp.Online(romdp.UCRL2(), 3, 2, reward_range=(0, far)),
        lambda: romdp.MDP(moves, [[far], [0]]),
        lambda: romdp.Trajectory([0, 1], [0, 0], [far, 0]),
        lambda: romdp.Counts(visits, moves, [[far], [0]], [[1], [1]]),
        lambda: romdp.Counts(visits, moves, [[1], [1]], [[far**2], [0]]),
        lambda: romdp.planning.value_iteration(np.array(moves, float), [[far], [0]], 0.1),
        lambda: romdp.Objective("episodic", zero_reward=far),
    ):
        with pytest.raises(ROMDPError, match="reward"):
            call()
    assert online.n_steps == 0
