"""Agents that see vectors: codes learned while playing."""

import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import romdp
from romdp.clustering.states import find_states
from romdp.core.errors import StorageError
from romdp.core.storage import read_arrays, write_arrays
from romdp.data.trajectory import END, UNKNOWN
from romdp.encoding.encoder import make_steps
from romdp.encoding.vector_codes import VectorCodes
from romdp.playing.replay import CUT, ENDED, GOES_ON, Replay
from romdp.playing.vector_encoder import VectorEncoder


class Corridor(gymnasium.Env):
    """Five cells in a row, shown as noisy vectors; the last one pays and ends the episode."""

    action_space = spaces.Discrete(2)

    def __init__(self, keyed=False, shape=(6,)):
        box = spaces.Box(-10, 10, shape)
        self.keyed, self.shape = keyed, shape
        self.observation_space = spaces.Dict(a=box, b=spaces.Box(0, 1, (1,))) if keyed else box

    def _shown(self):
        vector = 0.1 * self.np_random.standard_normal(6)
        vector[self.cell] += 1
        shown = vector.astype(np.float32).reshape(self.shape)
        return {"a": shown, "b": np.zeros(1, np.float32)} if self.keyed else shown

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cell = 0
        return self._shown(), {}

    def step(self, action):
        self.cell = min(self.cell + 1, 4) if action else max(self.cell - 1, 0)
        ended = self.cell == 4
        return self._shown(), float(ended), ended, False, {}


class Pictures(Corridor):
    """The corridor as pictures of bytes, which repeat exactly unless there is noise."""

    def __init__(self, noise):
        super().__init__()
        self.noise = noise
        self.observation_space = spaces.Box(0, 255, (2, 3, 1), np.uint8)

    def _shown(self):
        picture = 100 + self.noise * self.np_random.standard_normal(6)
        picture[self.cell] += 100
        return picture.astype(np.uint8).reshape(2, 3, 1)


@pytest.mark.parametrize("noise", [0, 9])
def test_pictures_that_repeat_are_names_and_others_are_encoded(noise, tmp_path):
    env = Pictures(noise)
    online = romdp.Online(romdp.LCPSRL(objective="average"), env.observation_space, 2, seed=3)
    _, shown = steps(online, env, env.reset(seed=1)[0], 600)
    assert online.returns["length"][-20:].mean() < 6
    codes = online._encoder
    assert (codes.names is None) == (codes.decoder is not None) == bool(noise)
    online.save(tmp_path / "agent.npz")
    again = romdp.Online.load(tmp_path / "agent.npz")
    online.policy.save(tmp_path / "policy.npz")
    policy = romdp.load_policy(tmp_path / "policy.npz")
    for _ in range(4):
        assert online.act(shown) == again.act(shown)
        assert policy.act(shown) == online.policy.act(shown)
        shown, *_ = env.step(1)
        if env.cell == 4:
            break
    with pytest.raises(romdp.ROMDPError, match="cannot hold"):
        codes.encode(np.full((2, 3, 1), 0.5))


@pytest.mark.parametrize("env", [Corridor(), Corridor(keyed=True), Corridor(shape=(2, 3))])
def test_a_run_learns_codes_and_a_policy_for_vectors(env, tmp_path):
    run = romdp.play(romdp.LCPSRL(objective="average"), env, steps=1100, seed=0)
    lengths = run.returns["length"]
    assert lengths[-20:].mean() < 6  # the shortest way takes four steps
    policy = run.policy
    policy.save(tmp_path / "policy.npz")
    again = romdp.load_policy(tmp_path / "policy.npz")
    shown, _ = env.reset(seed=5)
    for _ in range(4):
        assert policy.act(shown) == again.act(shown) == 1
        shown, *_ = env.step(1)


def steps(online, env, shown, n):
    actions = []
    for _ in range(n):
        action = online.act(shown)
        shown, reward, ended, _, _ = env.step(action)
        online.observe(reward, None if ended else shown, terminated=ended)
        if ended:
            shown, _ = env.reset()
        actions.append(action)
    return actions, shown


@pytest.mark.parametrize("before", [120, 520])
def test_a_saved_agent_goes_on_to_the_bit(before, tmp_path):
    env = Corridor()
    online = romdp.Online(romdp.LCPSRL(), env.observation_space, 2, seed=3)
    _, shown = steps(online, env, env.reset(seed=1)[0], before)
    online.save(tmp_path / "agent.npz")
    again = romdp.Online.load(tmp_path / "agent.npz")
    place, state = env.cell, env.np_random.bit_generator.state
    first, _ = steps(online, env, shown, 450)
    env.cell, env.np_random.bit_generator.state = place, state
    second, _ = steps(again, env, shown, 450)
    assert first == second
    assert again.partition == online.partition


@pytest.mark.parametrize("asked", [False, True], ids=["before acting", "after acting"])
def test_codes_that_were_just_opened_survive_saving(asked, tmp_path):
    """The mean of a young code moves with every vector: each must count once."""
    env = romdp.worlds.GaussianLock(6, world_seed=1)
    online = romdp.Online(romdp.LCPSRL(), env.observation_space, 10, seed=1)
    shown, _ = env.reset(seed=1)
    for _ in range(700):
        action = online.act(shown)
        shown, reward, over, _, _ = env.step(action)
        online.observe(reward, None if over else shown, terminated=over)
        shown = env.reset()[0] if over else shown
    assert (online._encoder.book.sizes < 20).any()
    book = online._encoder.book
    for strange in (9.0, 9.1):  # a state that was never met, twice
        vector = np.full(env.observation_space.shape, strange)
        action = online.act(vector) if asked else None
        online.save(tmp_path / "agent.npz")
        again = romdp.Online.load(tmp_path / "agent.npz")
        action = online.act(vector) if action is None else action
        if not asked:
            assert again.act(vector) == action
        for agent in (online, again):
            agent.observe(0.0, vector)
        ours, theirs = online._encoder.book, again._encoder.book
        np.testing.assert_array_equal(ours.points, theirs.points)
        np.testing.assert_array_equal(ours.sizes, theirs.sizes)
    assert ours.n_codes == book.n_codes + 1
    assert ours.sizes[-1] == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("replay_actions", 7),
        ("replay_over", 3),
        ("replay_before", 10**9),
        ("replay_before", 7),
        ("replay_streams", -1),
        ("replay_ages", -1),
        ("replay_numbers", 0),
        ("replay_rewards", np.nan),
        ("replay_vectors", np.inf),
    ],
)
def test_a_crafted_replay_is_refused(name, value, tmp_path):
    """What is kept is counted again by compiled code, which does not look at its bounds."""
    env = Corridor()
    online = romdp.Online(romdp.LCPSRL(), env.observation_space, 2, seed=3)
    steps(online, env, env.reset(seed=1)[0], 120)
    online.save(tmp_path / "agent.npz")
    arrays, facts = read_arrays(tmp_path / "agent.npz", "online agent", 4)
    arrays[name][5] = value
    write_arrays(tmp_path / "agent.npz", "online agent", 4, arrays, facts)
    with pytest.raises(StorageError, match="replay is damaged: .*" + name.removeprefix("replay_")):
        romdp.Online.load(tmp_path / "agent.npz")


def test_a_replay_is_bounded_and_keeps_the_last_vectors(monkeypatch):
    monkeypatch.setattr("romdp.playing.replay._MOST_NUMBERS", 1)
    memory = Replay(2)
    for t in range(9000):
        assert memory.see(np.array([t, 0], np.float32), age=t, before=t - 1) == t
        memory.finish(t, 0, 0.0, GOES_ON)
    assert memory.size <= memory.most == 4096
    last = np.arange(8000, 9000)
    rows = memory.rows(last)
    np.testing.assert_array_equal(memory.vectors[rows, 0], last)
    assert memory.rows(np.array([-1, 9000]))[0] == -1
    asked = np.array([-1, 0, 1, 70, 4000, 7500, 8999, 9000])
    assert [memory.row(number) for number in asked.tolist()] == memory.rows(asked).tolist()
    seen, kept, final = memory.steps(1)
    assert seen.n_steps == memory.size
    after = seen.next_observations
    np.testing.assert_array_equal(np.diff(seen.vectors[:, 0])[after[:-1] >= 0], 1)
    assert seen.first_observations.tolist() == [0]  # where stretches are missing nothing begins
    assert (final == -1).all()
    np.testing.assert_array_equal(memory.numbers[kept], seen.vectors[:, 0])


def test_steps_of_several_streams_lie_together_and_know_where_they_led():
    memory = Replay(1)
    first = memory.see(np.zeros(1), stream=0)
    other = memory.see(np.ones(1), stream=1)
    memory.finish(first, 1, 0.5, GOES_ON)
    waiting = memory.see(np.full(1, 2.0), stream=0, age=1, before=first)
    memory.finish(other, 0, 1.0, ENDED)
    again = memory.see(np.full(1, 3.0), stream=1)
    memory.finish(again, 1, 0.0, CUT)
    seen, rows, final = memory.steps(2)
    assert seen.vectors.ravel().tolist() == [0.0, 1.0, 3.0]
    assert seen.lengths.tolist() == [1, 1, 1]
    assert seen.next_observations.tolist() == [UNKNOWN, END, UNKNOWN]
    assert (rows.tolist(), final.tolist()) == ([first, other, again], [waiting, -1, -1])


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_a_vector_equal_to_the_last_one_overwrites_no_step(dtype):
    """Doing nothing shows the same vector again: a step like any other."""
    space = gymnasium.spaces.Box(0, 9, (3,), dtype)
    online = romdp.Online(romdp.LCPSRL(), space, 2)
    shown = np.array([1, 2, 3], dtype)
    for _ in range(50):
        online.act(shown)
        online.observe(1.0, shown)
    seen, _, _ = online._replay.steps(2)
    assert seen.n_steps == online.n_steps == 50
    assert seen.rewards.sum() == 50.0
    assert (seen.next_observations[:-1] == np.arange(1, 50)).all()
    assert online._encoder.n_codes == 1


def filled(vectors):
    memory = Replay(vectors.shape[1])
    for vector in vectors:
        memory.see(vector)
    return memory


def test_codes_of_short_vectors_are_called_by_a_typical_one():
    """Two places of a plane: the names say where they are."""
    box = spaces.Box(-10, 10, (2,))
    codes = VectorEncoder(box)
    assert codes.name(0) == "code 0"
    rng = np.random.default_rng(0)
    places = np.array([[0.0, 3.0], [7.0, -2.0]])
    actions = rng.integers(0, 2, 600)
    states = np.append(0, actions.cumsum()[:-1]) % 2  # action 1 goes to the other place
    vectors = places[states] + 0.05 * rng.standard_normal((600, 2))
    seen = make_steps(vectors, actions, states.astype(float))
    memory = filled(vectors)
    for view in ("standard", "actions"):  # whether or not the view shows all there is
        codes.adopt(find_states(seen, romdp.Likelihood(), rng, romdp.Encoder(views=(view,))))
        codes.find_examples(memory)
        kept = codes.snapshot()
        assert kept.example(0) is None  # the name says it
        names = {kept.name(code) for code in range(kept.n_codes)}
        shown = np.array([[float(x) for x in name.split(": ")[1].split(",")] for name in names])
        np.testing.assert_allclose(shown[np.argsort(shown[:, 0])], places, atol=0.1)


def test_a_policy_keeps_a_vector_of_each_code_to_look_at(tmp_path):
    """Long vectors of two kinds; those that repeat are their own example."""
    rng = np.random.default_rng(0)
    kinds = rng.random((2, 16)) * 8
    states = rng.integers(0, 2, 600)  # action 1 leads to the other kind
    actions = np.append((states[1:] != states[:-1]).astype(int), 0)
    vectors = kinds[states] + 0.05 * rng.standard_normal((600, 16))
    codes = VectorEncoder(spaces.Box(-10, 10, (16,)))
    codes.adopt(find_states(make_steps(vectors, actions, None), romdp.Likelihood(), rng))
    codes.find_examples(filled(vectors))
    kept = codes.snapshot()
    for state in (0, 1):
        np.testing.assert_allclose(
            kept.example(kept.find_all(kinds[state])[0][0]), kinds[state], atol=0.3
        )
    assert kept.example(kept.n_codes + 5) is None
    again = VectorCodes(spaces.Box(-10, 10, (16,)))
    again.restore(kept.arrays())
    np.testing.assert_array_equal(again.example(0), kept.example(0))
    np.testing.assert_array_equal(again.snapshot().example(0), kept.example(0))
    broken = kept.arrays() | {"examples": np.full((2, 16), np.inf, np.float32)}
    with pytest.raises(StorageError, match="example"):
        VectorCodes(spaces.Box(-10, 10, (16,))).restore(broken)
    pictures = VectorEncoder(spaces.Box(0, 255, (4, 4), np.uint8))
    shown = rng.integers(0, 256, (4, 4)).astype(np.uint8)
    pictures.encode(shown)
    np.testing.assert_array_equal(pictures.snapshot().example(0), shown.ravel())


def test_bad_vectors_are_refused():
    codes = VectorEncoder(spaces.Box(-1, 1, (3,)))
    for bad, message in (
        ([1.0, 2.0], r"has 2 numbers; Box.* has 3$"),
        ([[np.nan]], r"has 1 numbers; Box.* has 3$"),
        ([0, np.nan, 0], "number 1 of the observation is nan"),
        ([0, 0, -np.inf], "number 2 of the observation is -inf"),
        ([1e300, 0, 0], r"number 0 .* is 1e\+300; .* fit into float32"),
        ("abc", "not in Box"),
        (None, "number|not in Box"),
    ):
        with pytest.raises(romdp.ROMDPError, match=message):
            codes.encode(bad)
    assert codes.find_all(np.zeros(3))[0] == [-1]
    with pytest.raises(romdp.ROMDPError, match=r"number 1 of the observations\[1\] is nan"):
        codes.find_all([[0, 0, 0], [0, np.nan, 0]])


class Melody(gymnasium.Env):
    """Four notes in a fixed order, one per step; a wrong one is heard until the end.

    Noisy vectors show whether a note was wrong, and not the step. The right melody pays 1.
    """

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-10, 10, (2,))
    notes = (1, 0, 0, 1)

    def _shown(self):
        vector = 0.1 * self.np_random.standard_normal(2)
        vector[int(self.wrong)] += 1
        return vector.astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age, self.wrong = 0, False
        return self._shown(), {}

    def step(self, action):
        self.wrong |= action != self.notes[self.age]
        self.age += 1
        ended = self.age == len(self.notes)
        return self._shown(), float(ended and not self.wrong), ended, False, {}


def test_where_the_step_matters_and_is_not_shown_there_is_a_code_for_every_step(tmp_path):
    env = Melody()
    online = romdp.Online(romdp.LCPSRL(), env.observation_space, 2, seed=3)
    _, shown = steps(online, env, env.reset(seed=1)[0], 1001)
    codes = online._encoder
    assert codes.n_codes == 7  # right at four steps, wrong at three
    assert {codes.name(code).split(":")[0][-6:] for code in range(7)} == {
        f"step {age}" for age in range(4)
    }
    online.save(tmp_path / "agent.npz")
    online.policy.save(tmp_path / "policy.npz")
    again = romdp.Online.load(tmp_path / "agent.npz")
    place, state = (env.age, env.wrong), env.np_random.bit_generator.state
    first, _ = steps(online, env, shown, 300)
    (env.age, env.wrong), env.np_random.bit_generator.state = place, state
    second, _ = steps(again, env, shown, 300)
    assert first == second
    assert online.returns["return"][-50:].mean() > 0.9
    policy = romdp.load_policy(tmp_path / "policy.npz")
    assert policy.depends_on_step
    shown, _ = env.reset(seed=5)
    for age, note in enumerate(Melody.notes):
        assert policy.act(shown, age) == note
        shown, *_ = env.step(note)


def test_environments_side_by_side_count_their_own_steps():
    env = gymnasium.vector.SyncVectorEnv([Melody, Melody], autoreset_mode="SameStep")
    run = romdp.play(romdp.LCPSRL(), env, steps=1100, seed=2)
    assert run.returns["return"][-50:].mean() > 0.9
    shown, _ = Melody().reset(seed=5)
    assert [run.policy.act(shown, age) for age in range(4)] == list(Melody.notes)


def test_streams_count_their_own_steps_and_keep_what_followed():
    online = romdp.Online(romdp.LCPSRL(), Melody.observation_space, 2, seed=2)
    envs = [Melody() for _ in range(3)]
    seen = [env.reset(seed=name)[0] for name, env in enumerate(envs)]
    for t in range(40):
        for name, env in enumerate(envs[: 1 + t]):  # each begins a step later than the last
            action, age = online.act(seen[name], stream=name), env.age
            replay, number = online._replay, online._streams[name].kept
            assert replay.ages[replay.row(number)] == age
            seen[name], reward, ended, _, _ = env.step(action)
            online.observe(reward, None if ended else seen[name], terminated=ended, stream=name)
            seen[name] = env.reset()[0] if ended else seen[name]
    kept, _, final = replay.steps(2)
    after = np.flatnonzero(kept.next_observations >= 0)
    np.testing.assert_array_equal(kept.next_observations[after], after + 1)  # as they lie
    np.testing.assert_array_equal(kept.ages[after] + 1, kept.ages[after + 1])
    assert (kept.next_observations == UNKNOWN).sum() <= 3  # where streams are now
    assert (final == -1).all()


def test_vectors_that_tell_nothing_are_warned_about_once():
    rng = np.random.default_rng(0)
    online = romdp.Online(romdp.LCPSRL(), spaces.Box(-9.0, 9.0, (3,)), 2, seed=0)
    shown, said = rng.standard_normal(3), []
    for _ in range(4_200):
        online.act(shown)
        shown = rng.standard_normal(3)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            online.observe(float(rng.integers(2)), shown)
        said += [str(warning.message) for warning in caught]
    assert len(said) == 1
    assert "No signal in the vectors of 4,000 steps" in said[0]
