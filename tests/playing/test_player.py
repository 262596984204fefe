"""Playing: figures, epochs, checkpoints, and going on to the bit after any interruption."""

import itertools
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import romdp
from romdp.core.errors import InvalidInputError, MisuseError, StorageError
from romdp.core.randomness import stream
from romdp.data.recorder import Recorder
from romdp.playing.run import log_spaced
from romdp.worlds import random_mdp, random_romdp
from romdp.worlds.environments import ROMDPEnv
from romdp.worlds.simulator import Simulator

WORLD = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1)
UNIFORM = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1, reward_law="uniform")
BETA = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1, reward_law="beta")
AGENTS = [
    romdp.UCRL2(),
    romdp.PSRL(),
    romdp.Oracle(WORLD.labels),
    romdp.Oracle(WORLD.labels, planner="posterior"),
]


def names(agents):
    return [agent.name for agent in agents]


def assert_same_run(one, other):
    for figure in ("steps", "reward", "regret", "pseudo_regret"):
        assert getattr(one, figure).tobytes() == getattr(other, figure).tobytes(), figure
    assert np.asarray(one.epochs).tobytes() == np.asarray(other.epochs).tobytes()
    assert one.partition == other.partition
    assert one.groupings == other.groupings
    assert (one.agent, one.seed) == (other.agent, other.seed)


# What the figures are


@pytest.mark.parametrize("world", [WORLD, UNIFORM, BETA], ids=["bernoulli", "uniform", "beta"])
def test_figures_equal_a_plain_recomputation(world):
    """Replay the tables over the same stream and add everything up step by step."""
    playing = romdp.epochs(romdp.PSRL(), world, 700, seed=3)
    tables = [(playing.state.table.copy(), epoch.length) for epoch in playing]
    simulator = Simulator(world, stream(3, 0))
    total, pseudo, rewards, expected = 0.0, 0.0, [], []
    for table, length in tables:
        for _ in range(length):
            action = int(table[simulator.observation])
            mean = world.reward[simulator.hidden_state, action]
            once = Recorder(world.n_observations, world.n_actions)
            simulator.run(np.full(world.n_observations, action), once, 1)
            total += once.reward_sums.sum()
            pseudo += world.hidden.gain - mean
            rewards.append(total)
            expected.append(pseudo)
    run = playing.run
    at = run.steps - 1
    np.testing.assert_allclose(run.reward, np.array(rewards)[at], rtol=1e-12)
    np.testing.assert_allclose(
        run.regret, run.steps * world.hidden.gain - np.array(rewards)[at], rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(run.pseudo_regret, np.array(expected)[at], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("agent", AGENTS, ids=names(AGENTS))
def test_figures_do_not_depend_on_where_the_run_ends(agent):
    long = romdp.play(agent, UNIFORM, 1000, seed=0)
    short = romdp.play(agent, UNIFORM, 137, seed=0)
    grid = log_spaced(137)
    assert short.steps.tolist() == [*grid, 137]
    for figure in ("steps", "reward", "regret", "pseudo_regret"):
        np.testing.assert_array_equal(
            getattr(short, figure)[: len(grid)], getattr(long, figure)[: len(grid)]
        )


def test_the_last_step_is_always_a_figure_and_never_twice():
    assert romdp.play(AGENTS[1], WORLD, 100).steps[-2:].tolist() == [89, 100]
    assert romdp.play(AGENTS[1], WORLD, 101).steps[-2:].tolist() == [100, 101]
    assert romdp.play(AGENTS[1], WORLD, 1).steps.tolist() == [1]


def test_an_mdp_is_played_like_a_romdp():
    mdp = random_mdp(n_states=4, n_actions=2, seed=0)
    one = romdp.play(romdp.PSRL(), mdp, 500)
    assert_same_run(one, romdp.play(romdp.PSRL(), romdp.ROMDP.from_mdp(mdp), 500))
    assert one.regret[-1] == pytest.approx(500 * mdp.gain - one.reward[-1])


def test_a_world_without_a_single_gain_has_no_regret():
    apart = romdp.ROMDP(
        np.eye(2)[:, None, :].repeat(2, axis=1), [[0.0, 0.0], [1.0, 1.0]], np.eye(2)
    )
    run = romdp.play(romdp.UCRL2(), apart, 20)
    assert np.isnan(run.regret).all()
    assert np.isnan(run.pseudo_regret).all()
    assert np.isfinite(run.reward).all()


# Epochs and listeners


def test_epochs_tile_the_run():
    playing = romdp.epochs(romdp.UCRL2(), WORLD, 2000, seed=0)
    seen = list(playing)
    assert [epoch.number for epoch in seen] == list(range(1, len(seen) + 1))
    for one, following in itertools.pairwise(seen):
        assert one.finished
        assert one.start + one.length == following.start
        assert one.regret == pytest.approx(following.start * WORLD.hidden.gain - one.reward)
    assert sum(epoch.length for epoch in seen) == 2000
    table = playing.run.epochs
    for column in ("start", "length", "n_clusters", "gain", "sweeps", "converged"):
        np.testing.assert_array_equal(table[column], [getattr(epoch, column) for epoch in seen])
    assert seen[-1].regret == playing.run.regret[-1]
    assert seen[-1].pseudo_regret == playing.run.pseudo_regret[-1]


def test_iterating_can_be_left_and_taken_up_again():
    playing = romdp.epochs(romdp.PSRL(), WORLD, 300, seed=0)
    for epoch in playing:
        if epoch.number == 7:
            break
    assert playing.run.steps[-1] == epoch.start + epoch.length < 300
    for _ in playing:
        pass
    assert_same_run(playing.run, romdp.play(romdp.PSRL(), WORLD, 300, seed=0))
    assert list(playing) == []  # it is over


def test_a_run_that_has_not_begun_has_no_figures():
    run = romdp.epochs(romdp.PSRL(), WORLD, 300).run
    assert len(run.steps) == len(run.epochs) == len(run.groupings) == 0


def test_the_callback_hears_every_epoch():
    heard = []
    run = romdp.play(romdp.PSRL(), WORLD, 300, callback=heard.append)
    assert [epoch.start for epoch in heard] == run.epochs.start.tolist()
    assert not heard[-1].finished or heard[-1].start + heard[-1].length == 300


# Going on


@pytest.mark.parametrize("world", [WORLD, UNIFORM, BETA], ids=["bernoulli", "uniform", "beta"])
@pytest.mark.parametrize("agent", AGENTS, ids=names(AGENTS))
def test_going_on_equals_never_having_stopped(agent, world, tmp_path):
    whole = romdp.play(agent, world, 300, seed=5)
    for cuts in ([10, 20], [1, 2, 3, 7, 64, 65], [100, 100, 299]):
        path = tmp_path / f"{len(cuts)}.npz"
        for steps in cuts:
            piece = romdp.play(agent, world, steps, seed=5, checkpoint=path)
            assert_same_run(piece, romdp.play(agent, world, steps, seed=5))
        assert_same_run(romdp.play(agent, world, 300, seed=5, checkpoint=path), whole)


def test_triples_go_on_too(tmp_path):
    class Watches:
        needs = frozenset({"counts", "triples"})

        def regroup(self, evidence, previous, rng):
            if evidence.triples is not None:
                total = int((evidence.triples.count * (evidence.triples.next + 1)).sum())
                return romdp.Partition((np.arange(9) * (1 + total % 5)) // 5)
            return previous

    agent = romdp.Agent(Watches(), romdp.Posterior(), romdp.Doubling(grow=1))
    whole = romdp.play(agent, WORLD, 300, seed=5)
    assert len(whole.groupings) > 3
    path = tmp_path / "run.npz"
    for steps in (3, 30, 31, 150, 300):
        run = romdp.play(agent, WORLD, steps, seed=5, checkpoint=path)
    assert_same_run(run, whole)


def test_a_finished_run_is_read_back(tmp_path):
    path = tmp_path / "run.npz"
    run = romdp.play(romdp.UCRL2(), WORLD, 100, checkpoint=path)
    written = path.read_bytes()
    heard = []
    again = romdp.play(romdp.UCRL2(), WORLD, 100, checkpoint=path, callback=heard.append)
    assert_same_run(again, run)
    assert heard == []
    assert len(path.read_bytes()) == len(written)
    with pytest.raises(InvalidInputError, match="already played 100 steps"):
        romdp.play(romdp.UCRL2(), WORLD, 50, checkpoint=path)


def test_every_kind_of_seed_goes_on(tmp_path):
    for number, seed in enumerate([[1, 2], np.random.SeedSequence(3, spawn_key=(4,)), 2**70]):
        path = tmp_path / f"{number}.npz"
        romdp.play(romdp.PSRL(), WORLD, 40, seed, path)
        assert_same_run(
            romdp.play(romdp.PSRL(), WORLD, 90, seed, path),
            romdp.play(romdp.PSRL(), WORLD, 90, seed),
        )


PLAYER = textwrap.dedent(
    """
    import sys, romdp
    from romdp.worlds import random_romdp
    world = random_romdp(n_states=3, n_actions=2, n_observations=9, seed=1, reward_law="beta")
    romdp.play(romdp.PSRL(), world, int(sys.argv[2]), 7, sys.argv[1], checkpoint_seconds=0)
    """
)


@pytest.mark.slow
def test_a_killed_run_ends_as_an_uninterrupted_one(tmp_path):
    """Killed after some checkpoints and a moment more: often in the middle of writing one."""
    steps, rng = 6_000, np.random.default_rng(0)
    path = tmp_path / "run.npz"
    reached = [0]
    for _ in range(2):
        command = [sys.executable, "-c", PLAYER, str(path), str(steps)]
        with subprocess.Popen(command) as child:
            for _ in range(rng.integers(1, 12)):
                wait_for_another(path, child)
            time.sleep(rng.uniform(0, 0.005))
            child.send_signal(signal.SIGKILL)
        reached.append(romdp.epochs(romdp.PSRL(), BETA, steps, 7, checkpoint=path).state.step)
    assert (np.diff(reached) > 0).all()
    assert reached[-1] < steps
    run = romdp.play(romdp.PSRL(), BETA, steps, 7, path)
    assert_same_run(run, romdp.play(romdp.PSRL(), BETA, steps, 7))


def wait_for_another(path, child):
    """Wait until a checkpoint is written: each is a file of its own under the same name."""

    def stamp():
        return path.stat().st_mtime_ns if path.exists() else None

    before = stamp()
    while stamp() == before:
        assert child.poll() is None, "the run ended before it could be killed"
        time.sleep(0.0005)


def test_a_run_cut_by_an_exception_goes_on(tmp_path):
    """The same as a kill, at every place where a listener can be."""
    path = tmp_path / "run.npz"

    def interrupt(epoch):
        if epoch.number % 5 == 0:
            raise KeyboardInterrupt

    interruptions = 0
    while True:
        try:
            run = romdp.play(
                romdp.PSRL(), UNIFORM, 300, 2, path, checkpoint_seconds=0, callback=interrupt
            )
            break
        except KeyboardInterrupt:
            interruptions += 1
    assert interruptions > 3
    assert_same_run(run, romdp.play(romdp.PSRL(), UNIFORM, 300, 2))


# What is refused


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("agent", {"agent": romdp.PSRL(prior=2.0)}),
        ("agent", {"agent": romdp.UCRL2()}),
        ("world", {"world": UNIFORM}),
        ("world", {"world": random_romdp(n_states=3, n_actions=2, n_observations=9, seed=2)}),
        ("world", {"world": random_romdp(n_states=3, n_actions=2, n_observations=12, seed=1)}),
        ("seed", {"seed": 1}),
        ("seed", {"seed": [0, 0]}),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(part, change, tmp_path):
    path = tmp_path / "run.npz"
    same = {"agent": romdp.PSRL(), "world": WORLD, "steps": 50, "seed": 0, "checkpoint": path}
    romdp.play(**same)
    written = path.read_bytes()
    with pytest.raises(StorageError, match=f"another {part}"):
        romdp.play(**{**same, **change})
    assert path.read_bytes() == written


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "foreign"])
def test_a_damaged_checkpoint_is_a_clear_error_and_the_last_good_one_is_kept(damage, tmp_path):
    path = tmp_path / "run.npz"
    for steps in (50, 60):
        romdp.play(romdp.PSRL(), WORLD, steps, checkpoint=path)
    good = path.read_bytes()
    middle = len(good) // 2
    bad = {
        "empty": b"",
        "cut": good[:middle],
        "flipped": good[:middle]
        + bytes(255 - b for b in good[middle : middle + 300])
        + good[middle + 300 :],
        "text": b"a letter to the editor",
    }
    if damage == "foreign":
        WORLD.save(path)
    else:
        path.write_bytes(bad[damage])
    kept = path.read_bytes()
    before = tmp_path / "run.npz.previous"
    assert before.exists()
    with pytest.raises(StorageError, match=r"run\.npz.*previous"):
        romdp.play(romdp.PSRL(), WORLD, 100, checkpoint=path)
    assert path.read_bytes() == kept  # nothing was overwritten
    os.replace(before, path)  # as the message says
    run = romdp.play(romdp.PSRL(), WORLD, 100, checkpoint=path)
    assert_same_run(run, romdp.play(romdp.PSRL(), WORLD, 100))


def test_a_damaged_checkpoint_with_nothing_before_it(tmp_path):
    path = tmp_path / "run.npz"
    path.write_bytes(b"nothing")
    with pytest.raises(StorageError, match="delete it, or choose another path"):
        romdp.play(romdp.PSRL(), WORLD, 100, checkpoint=path)


def test_places_where_nothing_can_be_written_are_refused_before_playing(tmp_path):
    with pytest.raises(StorageError, match="directory does not exist"):
        romdp.play(romdp.PSRL(), WORLD, 10, checkpoint=tmp_path / "no" / "run.npz")
    with pytest.raises(StorageError):
        romdp.play(romdp.PSRL(), WORLD, 10, checkpoint=tmp_path)


def test_an_environment_has_no_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    with pytest.raises(MisuseError, match="cannot be saved"):
        romdp.play(romdp.PSRL(), ROMDPEnv(WORLD), 10, checkpoint=path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": "ucrl2"}, "did you mean romdp.UCRL2"),
        ({"steps": 0}, "steps is 0"),
        ({"steps": 2.5}, "steps"),
        ({"seed": -1}, "seed"),
        ({"world": 5}, "world|ROMDP"),
        ({"checkpoint_seconds": -1}, "checkpoint_seconds"),
        ({"reward_range": (0, 2)}, "reward_range is for Gymnasium"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(InvalidInputError, match=message):
        romdp.play(**{"agent": romdp.PSRL(), "world": WORLD, "steps": 10, "seed": 0, **change})


def test_what_is_no_agent_or_no_world_is_told_what_was_meant():
    world = romdp.worlds.random_romdp(2, 2, 4, seed=0)
    with pytest.raises(
        InvalidInputError, match=r"agent is <function LCPSRL .*did you mean romdp.LCPSRL\(\)"
    ):
        romdp.play(romdp.LCPSRL, world, 10)
    with pytest.raises(InvalidInputError, match=r"agent is 'ucrl2'; did you mean romdp\.UCRL2"):
        romdp.play("ucrl2", world, 10)
    with pytest.raises(
        InvalidInputError, match=r"world is a str; .* gymnasium.make\('FrozenLake-v1'\)"
    ):
        romdp.play(romdp.UCRL2(), "FrozenLake-v1", 10)
    with pytest.raises(InvalidInputError, match=r"world is a dict; .* or a Gymnasium environment"):
        romdp.play(romdp.UCRL2(), {}, 10)
