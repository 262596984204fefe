"""The genie: places each observation knowing the true model and all other labels.

    python benchmarks/genie.py [--seeds N] [--steps N] [--observations Y ...] [--placing]

prints what the labels alone cost: the regret of a player who knows the transition law, the rewards,
and for every observation the labels of all others. It believes in each label as Bayes' rule says
(all states equally likely at first, each showing its observations equally often) and takes the
action that is best on average, without exploring: later on that costs, so look at the first few
visits. Regret is summed by gaps.

With ``--placing`` it prints instead what could be gained by acting on what is believed of each
observation. From the counts of `LCPSRL` it makes tables of actions in several ways and says what
each would lose per step: the table in use; one group; the best placing in five groups; one placing
drawn from its posterior; and the action with the best mean value over thirty such draws.

It uses the truth, so it belongs to benchmarks only. What it does not know is how often the
observation is shown by the state it is tried in; that is fitted, as it carries no information.
"""

import argparse

import numpy as np
from grid import interval
from numpy.typing import NDArray

import romdp

MARKS = (1_000, 2_000, 3_000, 4_000, 6_000, 10_000, 30_000)


def genie_labels(world: romdp.ROMDP, counts: romdp.Counts) -> NDArray[np.int64]:
    """Return the genie's label of every observation, given Bernoulli rewards."""
    size, actions, states = world.n_observations, world.n_actions, world.n_states
    moves = counts.matrix().astype(np.float64)
    member = np.eye(states)[world.labels]
    law = np.log(np.maximum(world.transition, 1e-300))
    loops = np.stack([moves[a::actions].diagonal() for a in range(actions)], axis=1)
    own = np.stack([law[x, :, x] for x in range(states)])  # both ends of a loop move with the label
    leads = (moves @ member).reshape(size, actions, states)
    comes = np.zeros((size, states, actions))
    taken = np.zeros((states, actions))
    for a in range(actions):
        rows = moves[a::actions]
        comes[:, :, a] = rows.T @ member
        taken[:, a] = member.T @ np.asarray(rows.sum(axis=1)).ravel()
    arrivals = comes.sum(axis=(1, 2))
    leads -= loops[:, :, None] * member[:, None, :]
    comes -= member[:, :, None] * loops[:, None, :]
    value = np.einsum("yat,xat->yx", leads, law) + np.einsum("ysa,sax->yx", comes, law)
    value += loops @ own.T
    value -= arrivals[:, None] * np.log(np.einsum("sa,sax->x", taken, world.transition))
    paid, unpaid = counts.reward_sums, counts.visits - counts.reward_sums
    means = np.clip(world.reward, 1e-300, 1 - 1e-16)
    value += paid @ np.log(means).T + unpaid @ np.log1p(-means).T
    return value.argmax(axis=1)


def misplaced(world: romdp.ROMDP, counts: romdp.Counts) -> int:
    """Count the observations met at least once that the genie places wrongly."""
    met = (counts.visits.sum(axis=1) > 0) | (np.asarray(counts.matrix().sum(axis=0)).ravel() > 0)
    return int(np.count_nonzero(met & (genie_labels(world, counts) != world.labels)))


def label_cost(observations: int, seed: int, steps: int) -> list[float]:
    """Play once; returns the regret at each of the marks."""
    from likelihood_agents import gaps  # which imports this file

    world = romdp.worlds.random_romdp(5, 4, observations, seed=seed)
    hidden, rng = world.hidden, np.random.default_rng(seed)
    worth = hidden.reward + hidden.transition @ hidden.bias
    gap = gaps(hidden)
    move, paid, unpaid = (
        np.log(np.maximum(law, 1e-300))
        for law in (hidden.transition, hidden.reward, 1.0 - hidden.reward)
    )
    ladder = hidden.transition.cumsum(axis=2)
    shown = world.emission.cumsum(axis=1)
    belief = np.zeros((observations, hidden.n_states))  # logs
    state, seen, lost, curve = 0, int(np.flatnonzero(world.labels == 0)[0]), 0.0, []
    for step in range(1, steps + 1):
        weight = np.exp(belief[seen] - belief[seen].max())
        action = int(np.argmax(weight @ worth))
        lost += gap[state, action]
        pays = rng.random() < hidden.reward[state, action]
        following = int(np.searchsorted(ladder[state, action], rng.random()))
        next_seen = int(np.searchsorted(shown[following], rng.random()))
        belief[seen] += (paid if pays else unpaid)[:, action] + move[:, action, following]
        belief[next_seen] += move[state, action]
        state, seen = following, next_seen
        if step in MARKS:
            curve.append(lost)
    return curve


def loss_per_step(world: romdp.ROMDP, table: NDArray[np.int64]) -> float:
    """Return what a table of actions loses per step in the long run, by gaps."""
    from likelihood_agents import gaps

    hidden = world.hidden
    chosen = np.zeros((world.n_states, world.n_actions))
    np.add.at(chosen, (world.labels, table), world.emission[world.labels, range(len(table))])
    moves = np.einsum("xa,xay->xy", chosen, hidden.transition)
    return float(np.linalg.matrix_power(moves, 300)[0] @ (chosen * gaps(hidden)).sum(axis=1))


def worth_of(
    counts: romdp.Counts, labels: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the value of every action in each group by the mean model, and the groups' visits."""
    blocks = counts.group(romdp.Partition(labels))
    size, visits = blocks.n_observations, blocks.visits
    moves = blocks.matrix().toarray().reshape(size, -1, size)
    law = (moves + 1.0 / size) / (moves.sum(axis=2, keepdims=True) + 1.0)
    pay, value = (blocks.reward_sums + 0.5) / (visits + 1.0), np.zeros(size)
    for _ in range(300):
        value = (pay + law @ value).max(axis=1)
        value -= value[0]
    return pay + law @ value, visits.sum(axis=1)


def table_of(
    counts: romdp.Counts, placings: list[NDArray[np.int64]], met: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Act by the mean value over placings of those met; any other may be of any group."""
    worth = np.zeros((len(met), counts.n_actions))
    for labels in placings:
        value, visits = worth_of(counts, labels)
        mean = visits @ value / visits.sum()
        worth += mean
        worth[met] += value[romdp.Partition(labels).labels] - mean
    return worth.argmax(axis=1)


def placing_cost(observations: int, seed: int, marks: tuple[int, ...]) -> NDArray[np.float64]:
    """Play `LCPSRL`; returns what each way to act would lose per step, at each mark."""
    from romdp.clustering.likelihood.search import Search

    world = romdp.worlds.random_romdp(5, 4, observations, seed=seed)
    playing = romdp.epochs(romdp.LCPSRL(), world, marks[-1] + 1, seed=seed)
    found: list[list[float]] = []
    for _ in playing:
        if len(found) == len(marks) or playing.state.step < marks[len(found)]:
            continue
        counts = playing.state.recorder.counts
        met = np.asarray(counts.visits.any(axis=1))
        inner = counts.group(romdp.Partition(np.where(met, range(observations), -1)))
        search: Search = romdp.Likelihood()._search(inner, np.random.default_rng(seed))
        placing, _ = search.temper(world.n_states)
        best, draws = placing.labels.copy(), []
        for number in range(40):
            placing = search._draw(placing, 1.0)
            if number >= 10:
                draws.append(placing.labels.copy())
        ways = [[np.zeros_like(best)], [best], draws[-1:], draws]
        tables = [playing.state.table, *(table_of(inner, way, met) for way in ways)]
        found.append([loss_per_step(world, table) for table in tables])
    return np.array(found)


def main() -> None:
    """Print the mean regret and its interval at each mark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=MARKS[-1])
    parser.add_argument("--observations", type=int, nargs="*", default=[300, 1000, 3000])
    parser.add_argument("--placing", action="store_true", help="what beliefs would gain")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    if arguments.placing:
        for y in arguments.observations:
            marks = tuple(y * visits // 2 for visits in (2, 4, 5, 6, 8, 12))
            lost = np.array([placing_cost(y, seed, marks) for seed in seeds])
            print("| steps | as played | one group | best placing | one draw | mean of draws |")
            for mark, row in zip(marks, lost.mean(axis=0), strict=True):
                print(f"| {mark:,} | " + " | ".join(f"{value:.3f}" for value in row) + " |")
        return
    for y in arguments.observations:
        curves = np.array([label_cost(y, seed, arguments.steps) for seed in seeds])
        for mark, column in zip(MARKS, curves.T, strict=False):
            mean, low, high = interval(column.tolist())
            print(f"Y = {y:,}, {mark:>6,} steps: {mean:.0f} [{low:.0f}, {high:.0f}]", flush=True)


if __name__ == "__main__":
    main()
