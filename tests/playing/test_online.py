"""Online: an agent in somebody's own loop, hard to misuse and easy to put away."""

from dataclasses import dataclass

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import romdp
from romdp.core.errors import InvalidInputError, MisuseError, StorageError
from romdp.core.randomness import stream
from romdp.core.storage import read_arrays, write_arrays
from romdp.data.recorder import Recorder
from romdp.playing.online import Online
from romdp.worlds import random_romdp
from romdp.worlds.simulator import Simulator

WORLD = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1, reward_law="beta")
AGENTS = [
    romdp.UCRL2(),
    romdp.PSRL(),
    romdp.Oracle(WORLD.labels),
    romdp.Oracle(WORLD.labels, planner="posterior"),
]


def everything(online):
    """All that an agent in a loop holds, pending steps too."""
    arrays = {name: array.tobytes() for name, array in online._state.arrays().items()}
    return {**arrays, "streams": repr(online._streams)}


def moves(online):
    """The transitions counted so far, {(observation, action, next): count}; the end is "end"."""
    counts = online._state.recorder.counts.dense()
    ends = {(int(y), int(a), "end"): int(counts.ends[y, a]) for y, a in np.argwhere(counts.ends)}
    went = counts.transitions
    return {tuple(map(int, at)): int(went[tuple(at)]) for at in np.argwhere(went)} | ends


def starts(online):
    """How many episodes began with each observation."""
    return online._state.recorder.starts.tolist()


@pytest.mark.parametrize("agent", AGENTS, ids=[agent.name for agent in AGENTS])
def test_a_loop_of_ones_own_equals_compiled_play(agent):
    """The same stream of the world, step by step: same tables, actions, counts, float sums."""
    steps, seed = 800, 6
    playing = romdp.epochs(agent, WORLD, steps, seed)
    for _ in playing:
        pass
    online = Online(agent, 9, 2, seed)
    simulator = Simulator(WORLD, stream(seed, 0))
    for _ in range(steps):
        seen = simulator.observation
        action = online.act(seen)
        once = Recorder(9, 2)
        simulator.run(np.full(9, action), once, 1)
        online.observe(once.reward_sums[seen * 2 + action], simulator.observation)
    compiled = playing.state.arrays()
    for name, array in online._state.arrays().items():
        assert array.tobytes() == compiled[name].tobytes(), name
    assert online.n_steps == steps
    assert online.partition == playing.run.partition


@pytest.fixture
def online():
    """An agent in the middle of its life, just asked to act."""
    online = Online(romdp.PSRL(), 5, 3, seed=0)
    rng = np.random.default_rng(0)
    for _ in range(40):
        online.act(int(rng.integers(5)))
        online.observe(rng.random(), int(rng.integers(5)))
    online.act(2)
    return online


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o: o.act(5), "observation is 5"),
        (lambda o: o.act(-1), "observation is -1"),
        (lambda o: o.act(1.5), "whole number"),
        (lambda o: o.act("home"), "whole number"),
        (lambda o: o.act(None), "whole number"),
        (lambda o: o.observe(float("nan"), 1), "reward of step 41 is nan"),
        (lambda o: o.observe(1e151, 1), r"reward of step 41 is 1e\+151; .* at most 1e\+150"),
        (lambda o: o.observe(float("inf"), 1), "reward of step 41"),
        (lambda o: o.observe(1.2, 1), r"reward 1\.2 of step 41 lies outside \[0, 1\]"),
        (lambda o: o.observe("1", 1), "reward of step 41"),
        (lambda o: o.observe(None, 1), "reward of step 41"),
        (lambda o: o.observe(0.5, 5), "observation is 5"),
        (lambda o: o.observe(0.5, -1), "observation is -1"),
        (lambda o: o.observe(0.5), "next_observation is missing"),
        (lambda o: o.observe(0.5, 1, action=3), "action is 3"),
        (lambda o: o.observe(0.5, 1, action=-1), "action is -1"),
        (lambda o: o.observe(0.5, 9, terminated=True), "observation is 9"),
        (lambda o: o.reset(7), "observation is 7"),
        (lambda o: o.observe(0.5, 1, terminated=None), "terminated is None; pass True or False"),
        (lambda o: o.observe(0.5, 1, terminated=2), "terminated is 2"),
        (lambda o: o.observe(0.5, 1, truncated="no"), "truncated is 'no'"),
        (lambda o: o.observe(0.5, 1, truncated=float("nan")), "truncated is nan"),
    ],
)
def test_misuse_leaves_the_agent_as_it_was(online, call, message):
    before = everything(online)
    with pytest.raises(InvalidInputError, match=message):
        call(online)
    assert everything(online) == before
    online.observe(0.5, 1)  # and the step can still be told rightly
    assert online.n_steps == 41


def test_observe_before_act_is_misuse(online):
    online.observe(0.5, 1)
    before = everything(online)
    with pytest.raises(MisuseError, match=r"call act\(observation\) first"):
        online.observe(0.5, 1)
    assert everything(online) == before
    with pytest.raises(MisuseError):
        Online(romdp.PSRL(), 5, 3).observe(0.5, 1)


def test_a_terminated_step_leads_to_the_end_and_another_episode_begins():
    online = Online(romdp.PSRL(), 5, 1)
    online.act(0)
    online.observe(1.0, 4, terminated=True)  # 4 is where the episode ended: nothing follows it
    assert online.n_steps == 1
    assert moves(online) == {(0, 0, "end"): 1}
    online.act(2)
    assert starts(online) == [1, 0, 1, 0, 0]
    online.observe(0.0, terminated=True)  # nothing need be seen at an end
    online.reset(3)  # what a reset shows is not acted on yet
    online.reset(1)
    online.act(1)
    assert starts(online) == [1, 1, 1, 0, 0]
    assert moves(online) == {(0, 0, "end"): 1, (2, 0, "end"): 1}
    assert online.n_steps == 2


def test_who_maximises_the_average_begins_again_after_an_end():
    online = Online(romdp.PSRL(objective="average"), 5, 1)
    for start in (3, 3, 3, 2):
        online.act(start)
        online.observe(1.0, terminated=True)
    again = online._state.recorder.counts.restarted()
    assert again[3, 0].tolist() == [0.0, 0.0, 0.75, 2.25, 0.0]


def test_a_truncated_step_counts_its_reward_and_no_transition():
    online = Online(romdp.PSRL(), 5, 1)
    for following in (None, 4):
        online.act(0)
        online.observe(1.0, following, truncated=True)
    assert online.n_steps == 2
    assert moves(online) == {}
    assert online._state.recorder.reward_sums.tolist() == [2.0, 0, 0, 0, 0]


def test_a_step_that_is_both_counts_as_terminated():
    online = Online(romdp.PSRL(), 5, 1)
    online.act(0)
    online.observe(1.0, terminated=True, truncated=True)
    assert moves(online) == {(0, 0, "end"): 1}


def test_another_action_can_have_been_taken():
    online = Online(romdp.PSRL(), 5, 3)
    other = (online.act(0) + 1) % 3
    online.observe(1.0, 2, action=other)
    assert moves(online) == {(0, other, 2): 1}
    third = (online.act(2) + 2) % 3
    online.observe(1.0, terminated=True, action=third)
    assert moves(online) == {(0, other, 2): 1, (2, third, "end"): 1}


def test_a_reset_forgets_an_action_that_was_not_observed(online):
    online.reset()
    assert online.n_steps == 40
    with pytest.raises(MisuseError):
        online.observe(0.5, 1)


def test_asking_twice_answers_for_the_last_observation(online):
    first = online.act(1)
    assert online.act(1) == first
    online.act(4)
    online.observe(0.0, 0)
    assert online._state.recorder.visits.reshape(5, 3).sum(axis=1)[4] >= 1
    assert online.n_steps == 41


def test_a_reward_that_cannot_be_squared_is_refused_and_nothing_is_learned():
    online = Online(romdp.LCPSRL(), 5, 3, seed=0)
    online.act(2)
    for reward in (1e151, -1e300):
        with pytest.raises(
            InvalidInputError, match=r"of step 1 is .*; pass a finite number .* at most 1e\+150"
        ):
            online.observe(reward, 1)
    assert online.n_steps == 0


def test_rewards_are_rescaled():
    online = Online(romdp.PSRL(), 2, 1, reward_range=(-10, 10))
    online.act(0)
    online.observe(5, 1)
    assert online._state.recorder.reward_sums.tolist() == [0.75, 0.0]
    online.act(1)
    with pytest.raises(InvalidInputError, match=r"outside \[-10, 10\]"):
        online.observe(11, 0)


@settings(max_examples=25)
@given(
    agent=st.sampled_from([romdp.UCRL2(), romdp.PSRL()]),
    events=st.lists(
        st.tuples(
            st.integers(0, 4),
            st.sampled_from(["on", "terminated", "truncated", "reset", "other"]),
            st.booleans(),
            st.booleans(),
        ),
        max_size=40,
    ),
)
def test_saving_and_loading_at_any_moment_changes_nothing(agent, events, tmp_path_factory):
    path = tmp_path_factory.mktemp("online") / "agent.npz"
    kept = Online(agent, 5, 2, seed=[3, 4], reward_range=(0, 2))
    loaded = Online(agent, 5, 2, seed=[3, 4], reward_range=(0, 2))

    def put_away(one):
        one.save(path)
        return Online.load(path, agent)

    seen = 0
    for following, event, early, late in events:
        assert kept.act(seen) == loaded.act(seen)
        if early:
            loaded = put_away(loaded)  # between act and observe
        for one in (kept, loaded):
            if event == "reset":
                one.reset()
            elif event in ("terminated", "truncated"):
                one.observe(following / 2, **{event: True})
            else:
                one.observe(following / 2, following, action=0 if event == "other" else None)
        if late:
            loaded = put_away(loaded)  # between observe and act
        assert everything(kept) == everything(loaded)
        seen = following


def test_loading_needs_the_same_agent(online, tmp_path):
    path = tmp_path / "agent.npz"
    online.save(path)
    with pytest.raises(StorageError, match="another agent than 'ucrl2'"):
        Online.load(path, romdp.UCRL2())
    with pytest.raises(StorageError, match="another agent"):
        Online.load(path, romdp.PSRL(prior=2.0))
    assert everything(Online.load(path, romdp.PSRL())) == everything(online)


def test_damaged_and_foreign_files_are_clear_errors(online, tmp_path):
    path = tmp_path / "agent.npz"
    online.save(path)
    written = path.read_bytes()
    path.write_bytes(written[: len(written) // 2])
    with pytest.raises(StorageError, match="damaged"):
        Online.load(path, romdp.PSRL())
    romdp.play(romdp.PSRL(), WORLD, 10, checkpoint=tmp_path / "run.npz")
    with pytest.raises(StorageError, match=r"not an? online agent"):
        Online.load(tmp_path / "run.npz", romdp.PSRL())
    with pytest.raises(StorageError, match="cannot read"):
        Online.load(tmp_path / "nothing.npz", romdp.PSRL())


def test_a_file_tells_what_it_is(online, tmp_path):
    path = tmp_path / "agent.npz"
    online.save(path)
    _, facts = read_arrays(path, "online agent", 4)
    assert facts["observations"] == {"numbers": 5}
    assert facts["actions"] == {"numbers": 3}
    assert facts["reward_range"] == [0.0, 1.0]


def test_observations_that_nobody_announced():
    """With a vocabulary in front, names may come up at any time, also after a load."""
    vocabulary = romdp.Vocabulary(capacity=50)
    online = Online(romdp.PSRL(), 50, 2, seed=0)
    rng = np.random.default_rng(0)
    seen = "page 0"
    for t in range(300):
        action = online.act(vocabulary.encode(seen))
        assert action in (0, 1)
        seen = f"page {int(rng.integers(min(45, 1 + t // 5)))}"
        online.observe(float(rng.random()), vocabulary.encode(seen))
    assert 30 < len(vocabulary) <= 45
    visits = online._state.recorder.visits.reshape(50, 2).sum(axis=1)
    assert visits.sum() == online.n_steps == 300
    assert (visits[len(vocabulary) :] == 0).all()


def test_a_vocabulary_and_an_agent_go_on_together(tmp_path):
    vocabulary, online = romdp.Vocabulary(capacity=8), Online(romdp.PSRL(), 8, 2, seed=0)
    for name in "abacabad":
        online.act(vocabulary.encode(name))
        online.observe(0.5, terminated=True)
    online.save(tmp_path / "agent.npz")
    vocabulary.save(tmp_path / "names.json")
    again = Online.load(tmp_path / "agent.npz", romdp.PSRL())
    names = romdp.Vocabulary.load(tmp_path / "names.json")
    for name in "dcbaefgh":
        assert again.act(names.encode(name)) == online.act(vocabulary.encode(name))
        again.observe(1.0, terminated=True)
        online.observe(1.0, terminated=True)
    assert everything(again) == everything(online)
    with pytest.raises(InvalidInputError, match="full"):
        names.encode("one too many")


def test_one_agent_can_live_many_lives():
    agent = romdp.PSRL()
    lives = [Online(agent, 4, 2, seed=seed) for seed in (0, 0, 1)]
    rng = np.random.default_rng(0)
    acted = []
    for _ in range(60):
        seen, reward = int(rng.integers(4)), rng.random()
        acted.append([online.act(seen) for online in lives])
        for online in lives:
            online.observe(reward, int(seen), action=0)
    one, same, other = np.array(acted).T
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()


def test_it_prints_where_it_stands(online):
    assert repr(online) == "Online(agent='psrl', n_steps=40, n_clusters=5)"


def test_sizes_and_ranges_are_checked():
    with pytest.raises(InvalidInputError, match="n_observations"):
        Online(romdp.PSRL(), 0, 2)
    with pytest.raises(InvalidInputError, match="reward_range"):
        Online(romdp.PSRL(), 2, 2, reward_range=(1, 0))
    with pytest.raises(InvalidInputError, match="seed"):
        Online(romdp.PSRL(), 2, 2, seed=-1)


def test_an_observe_that_belongs_to_no_act_is_refused(online):
    online.reset()
    steps = online.n_steps
    for seen in range(4):
        online.act(seen)
    online.observe(0.5, 1)
    with pytest.raises(MisuseError, match=r"belongs to no act.*name them"):
        online.observe(0.5, 2)
    assert online.n_steps == steps + 1


def test_streams_do_not_mix():
    online = Online(romdp.PSRL(), 5, 2, seed=0)
    actions = [online.act(y, stream=y) for y in range(4)]
    for y in (2, 0, 3, 1):
        online.observe(y / 4, y + 1, stream=y)
    with pytest.raises(MisuseError, match="of stream 2 belongs to no act"):
        online.observe(0.0, 1, stream=2)
    with pytest.raises(InvalidInputError, match="stream is"):
        online.act(0, stream=(1, 2))
    counts = online._state.recorder.counts.dense()
    for y, action in enumerate(actions):
        assert counts.transitions[y, action, y + 1] == 1
        assert counts.reward_sums[y, action] == y / 4


def test_a_stream_ends_without_the_others(tmp_path):
    online = Online(romdp.PSRL(), 5, 2, seed=0)
    for name in ("a", "b"):
        online.act(0, stream=name)
    online.observe(1.0, terminated=True, stream="a")
    online.observe(0.25, 3, stream="b")
    online.act(3, stream="b")
    online.save(tmp_path / "agent.npz")
    for one in (online, Online.load(tmp_path / "agent.npz")):
        one.act(4, stream="a")  # the restart
        one.observe(0.5, truncated=True, stream="b")
        assert one.returns["return"].tolist() == [1.0, 0.75]
        assert one.returns["length"].tolist() == [1, 2]
        assert starts(one) == [2, 0, 0, 0, 1]
        counts = one._state.recorder.counts.dense()
        assert counts.ends[0].sum() == counts.transitions[0, :, 3].sum() == 1


def test_spaces_instead_of_numbers(tmp_path):
    env = gymnasium.make("Blackjack-v1")
    online = Online(
        romdp.LCPSRL(), env.observation_space, env.action_space, seed=0, reward_range=(-1, 1)
    )
    for seed in range(60):
        shown, _ = env.reset(seed=seed)
        over = False
        while not over:
            shown, reward, over, *_ = env.step(online.act(shown))
            online.observe(reward, shown, terminated=over)
    online.save(tmp_path / "agent.npz")
    again = Online.load(tmp_path / "agent.npz")
    assert len(again.returns) == 60
    for hand in [(12, 3, 0), (20, 10, 1), (5, 5, 0)]:
        assert again.policy.act(hand) == online.policy.act(hand)
        assert env.action_space.contains(again.act(hand))
    with pytest.raises(InvalidInputError, match="not in Tuple"):
        online.act((40, 3, 0))


@pytest.mark.parametrize(
    "agent",
    [
        romdp.LCPSRL(growth=1.5),
        romdp.SLUCRL(2, romdp.Hoeffding(0.1)),
        romdp.TwoPhase(),
        romdp.Oracle([0, 1, 0, 1, 1], planner="posterior"),
        romdp.LCUCRL(n_states=2),
        romdp.UCRL3(),
    ],
    ids=lambda agent: agent.name,
)
def test_a_file_knows_its_agent(agent, tmp_path):
    online = Online(agent, 5, 2, seed=0)
    online.save(tmp_path / "agent.npz")
    assert Online.load(tmp_path / "agent.npz")._agent == agent


def test_a_file_cannot_describe_parts_of_others_making(tmp_path):
    @dataclass(frozen=True)
    class Mine(romdp.Singletons):
        pass

    agent = romdp.Agent(clusterer=Mine())
    Online(agent, 5, 2).save(tmp_path / "agent.npz")
    with pytest.raises(StorageError, match="pass the agent"):
        Online.load(tmp_path / "agent.npz")
    assert Online.load(tmp_path / "agent.npz", agent).n_steps == 0


@pytest.mark.parametrize(
    "description",
    [
        {"type": "Path", "arguments": {}},
        {"type": "Agent", "arguments": {"name": "x", "exec": 1}},
        {"type": "Singletons", "arguments": {}},
        {"type": "Agent", "arguments": {"planner": {"type": "Posterior", "arguments": [1]}}},
        "psrl",
        {"type": "Agent", "arguments": {"name": "another"}},
    ],
)
def test_a_crafted_description_is_refused(description, online, tmp_path):
    path = tmp_path / "agent.npz"
    online.save(path)
    arrays, facts = read_arrays(path, "online agent", 4)
    write_arrays(path, "online agent", 4, arrays, facts | {"description": description})
    with pytest.raises(StorageError):
        Online.load(path)


def test_observations_that_never_repeat_are_warned_about():
    online = Online(romdp.Oracle(np.zeros(2_000, int)), 2_000, 2, seed=0)  # it thinks quickly
    for step in range(1_000):
        online.act(step)
        if step < 999:
            online.observe(0.0, step + 1)
    with pytest.warns(UserWarning, match=r"hardly ever repeat.*bins"):
        online.observe(0.0, 0)


def test_numbers_beside_a_text_are_names_and_the_advice_is_to_leave_the_text_out(monkeypatch):
    monkeypatch.setattr("romdp.playing.episodes._FIRST_LOOK", 40)
    space = spaces.Dict(numbers=spaces.Box(-1, 1, (2,)), text=spaces.Text(5))
    online = Online(romdp.PSRL(), space, 2, seed=0)
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match=r"hardly ever repeat.*leave out texts"):  # noqa: PT031
        for _ in range(41):
            shown = {"numbers": rng.random(2).astype(np.float32), "text": "same"}
            online.act(shown)
            online.observe(0.0, shown)
