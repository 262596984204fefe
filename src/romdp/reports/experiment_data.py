"""What the script of an experiment's page needs, as plain data of bounded size.

The story of a run's grouping is told in words: what joined, what came apart, whether it is right.
"""

from collections.abc import Collection, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np

from romdp.core.arrays import Floats, Ints
from romdp.core.errors import UnknownNameError
from romdp.core.text import count
from romdp.data.partition import Partition
from romdp.exact.romdp import as_romdp
from romdp.experiments.specification import Experiment, RunSpec
from romdp.experiments.worlds import EnvironmentWorld
from romdp.reports.drawing import agent_styles
from romdp.reports.figures import panel_title
from romdp.reports.groupings import emission_picture, flow_note, flow_picture, lay_out, most_telling
from romdp.reports.reading import (
    BANDS,
    MEASURES,
    RETURN_NOTE,
    Record,
    Results,
    aligned,
    band,
    best_first,
    bulb_places,
    common_steps,
    known_measures,
    typical,
)
from romdp.reports.shell import as_json

_MOST_LINES = 300  # runs that are drawn one by one, in all panels together
_MOST_STORIES = 3_000_000  # characters of the stories of single runs
_MOST_EPOCHS = 200
_MOST_DRAWN = 1000  # observations of an emission picture
_MOST_NAMED = 3  # groups that are spelled out per chapter
_MOST_MEMBERS = 12  # observations that are listed per group


def page_data(results: Results, told: Collection[str] = ()) -> dict[str, Any]:
    """Return everything the script draws; arrays may stay arrays.

    Parameters
    ----------
    results
        The run directory.
    told
        The names of runs whose story must be in the page; others follow as far as there is room.
    """
    panels, agents = results.panels, results.agents
    styles = agent_styles(agents)
    cells = [
        (a, p, records)
        for p, panel in enumerate(panels)
        for a, agent in enumerate(agents)
        if (records := results.of(agent, panel))
    ]
    n_lines = max(3, _MOST_LINES // len(cells))
    examples = {(a, p): typical(records) for a, p, records in cells}
    bulbs = {
        (agents.index(name), p): places
        for p in range(len(panels))
        for name, places in bulb_places(
            {agents[a]: record for (a, q), record in examples.items() if q == p}
        ).items()
    }
    stories = _stories(results, cells, told)
    return {
        "agents": [
            {
                "name": agent,
                "light": styles[agent].colour,
                "dark": styles[agent].dark_colour,
                "dash": styles[agent].page_dash,
                "symbol": styles[agent].page_symbol,
            }
            for agent in agents
        ],
        "panels": [panel_title(panel) for panel in panels],
        "measures": known_measures(results.records),
        "bands": BANDS,
        "returnNote": RETURN_NOTE,
        "series": [
            {
                "agent": a,
                "panel": p,
                "example": {
                    "seed": examples[a, p].seed,
                    "bulbs": bulbs[a, p],
                    **{
                        name: examples[a, p].curves[name]
                        for name in ("step", "regret", "n_clusters")
                    },
                },
                **_series(records, n_lines),
            }
            for a, p, records in cells
        ],
        "nRuns": len(results.records),
        "runs": stories,
    }


def _series(records: Sequence[Record], n_lines: int) -> dict[str, Any]:
    """Return the bands of runs of one agent in one panel, and some of the runs themselves."""
    shown = _spread(records, n_lines)
    found: dict[str, Any] = {
        "step": common_steps(records),
        "nRuns": len(records),
        "seeds": [record.seed for record in shown],
    }
    for measure in MEASURES:
        found[measure] = {"runs": aligned(shown, measure)}
        for kind in BANDS:
            summary = band(records, measure, kind)
            found[measure][kind] = [summary.middle, summary.low, summary.high]
    return found


def _spread(records: Sequence[Record], most: int) -> Sequence[Record]:
    """Return at most ``most`` runs, spread evenly from the best to the worst."""
    if len(records) <= most:
        return records
    ordered = best_first(records)
    places = np.rint(np.linspace(0, len(records) - 1, most)).astype(np.int64)
    return [ordered[i] for i in places]


def _stories(
    results: Results, cells: Sequence[tuple[int, int, Sequence[Record]]], told: Collection[str]
) -> list[dict[str, Any]]:
    """Tell as many runs as there is room for: those that are wanted, then the typical ones."""
    by_name = {run_name(record): record for record in results.records} if told else {}
    for name in told:
        if name not in by_name:
            raise UnknownNameError("run", name, by_name)
    places = {id(record): (a, p) for a, p, records in cells for record in records}
    stories: list[dict[str, Any]] = []
    room, seen = _MOST_STORIES, set()
    # The typical run of every agent in every panel, then the others in turn.
    turns = zip_longest(*((typical(records), *records) for _, _, records in cells))
    for record in chain((by_name[name] for name in told), *turns):
        if record is None or id(record) in seen:
            continue
        a, p = places[id(record)]
        story = {"agent": a, "panel": p, **_story(record, results.experiment)}
        room -= len(as_json(story))
        if room < 0 and len(stories) >= max(1, len(told)):
            break
        seen.add(id(record))
        stories.append(story)
    return sorted(stories, key=lambda story: (story["panel"], story["agent"], story["seed"]))


def run_name(record: Record) -> str:
    """Return the name that a run has in its directory."""
    return RunSpec(record.agent, record.world, record.n_observations, record.seed).id


def _story(record: Record, experiment: Experiment) -> dict[str, Any]:
    epochs, left_out = _epochs(record)
    flow = lay_out(record.groupings, record.hidden_state)
    return {
        "seed": record.seed,
        "final": {
            name: record.curves[name][-1]
            for name in ("regret", "pseudo_regret", "mean_return", "n_clusters")
        },
        "facts": {
            name: record.facts.get(name)
            for name in ("exact", "refines", "steps_to_exact", "seconds")
        },
        "known": record.hidden_state is not None,
        "epochs": epochs,
        "epochsLeftOut": left_out,
        "chapters": tell(record),
        "changes": len(record.groupings) - 1,
        "flow": flow_picture(flow, record.hidden_state).svg() if len(flow.columns) > 1 else None,
        "flowNote": flow_note(flow, record),
        "emission": _emission(record, experiment),
    }


def _epochs(record: Record) -> tuple[Floats, int]:
    """Return the table of epochs; of very many, some that are spread evenly."""
    names = ("epoch", "start", "length", "n_clusters", "gain", "sweeps")
    rows = np.stack([np.asarray(record.epochs[name], np.float64) for name in names], axis=1)
    if len(rows) <= _MOST_EPOCHS:
        return rows, 0
    kept = np.unique(np.rint(np.linspace(0, len(rows) - 1, _MOST_EPOCHS)).astype(np.int64))
    return rows[kept], len(rows) - len(kept)


def _emission(record: Record, experiment: Experiment) -> str | None:
    """Draw what every state shows, if that is known and can be drawn."""
    if record.hidden_state is None or record.n_observations > _MOST_DRAWN:
        return None
    spec = experiment.world(record.world)
    if isinstance(spec, EnvironmentWorld):
        return None
    size = None if experiment.observations is None else record.n_observations
    world = as_romdp(spec.make(size, record.seed))
    return emission_picture(world.emission, Partition(record.groupings[-1].labels)).svg()


class Chapter(NamedTuple):
    """One change of the grouping.

    Attributes
    ----------
    epoch, step
        When it came.
    n_clusters
        The number of groups from then on.
    what
        What happened, in words.
    verdict
        Against the truth: "exact", "no mistake yet" or "3 observations in the wrong group", or
        nothing where the truth is not known.
    """

    epoch: int
    step: int
    n_clusters: int
    what: str
    verdict: str


def tell(record: Record, most: int = 40) -> tuple[Chapter, ...]:
    """Tell how the grouping of a run came about, one chapter per change.

    Parameters
    ----------
    record
        The run.
    most
        If there are more groupings than this, those that changed the most are told, the first
        and the last among them; each chapter says what happened since the one before it.
    """
    chapters = []
    before: Partition | None = None
    for grouping in most_telling(record.groupings, most):
        after = Partition(grouping.labels)
        what = _opening(after) if before is None else describe_change(before, after)
        verdict = judge(after, record.hidden_state)
        chapters.append(Chapter(grouping.epoch, grouping.step, after.n_clusters, what, verdict))
        before = after
    return tuple(chapters)


def describe_change(before: Partition, after: Partition) -> str:
    """Say what happened between two groupings.

    Examples
    --------
    >>> describe_change(Partition([0, 1, 2, 3]), Partition([0, 0, 0, 1]))
    '3 groups became {0, 1, 2}'
    >>> describe_change(Partition([0, 0, 1]), Partition([0, 1, 1]))
    '1 group came apart; 2 groups gave to {1, 2}'
    """
    table = before.contingency(after).tocsr()
    parts = []
    seen = int(((before.labels < 0) & (after.labels >= 0)).sum())
    if seen:
        parts.append(f"{count(seen, 'observation')} seen for the first time")
    apart = int((np.diff(table.indptr) > 1).sum())
    if apart:
        parts.append(f"{count(apart, 'group')} came apart")
    columns = table.tocsc()
    sources = np.diff(columns.indptr)
    joined = np.flatnonzero(sources > 1)
    joined = joined[np.argsort(-after.sizes[joined], kind="stable")]
    for group in joined[:_MOST_NAMED]:
        rows = columns.indices[columns.indptr[group] : columns.indptr[group + 1]]
        whole = bool((before.sizes[rows] == columns[:, [group]].toarray()[rows, 0]).all())
        verb = "became" if whole else "gave to"
        parts.append(f"{count(int(sources[group]), 'group')} {verb} {_name(after, int(group))}")
    if len(joined) > _MOST_NAMED:
        parts.append(f"and {len(joined) - _MOST_NAMED} more such groups")
    return "; ".join(parts) or "nothing changed"


def judge(partition: Partition, hidden_state: Ints | None) -> str:
    """Say how a grouping stands against the truth."""
    if hidden_state is None:
        return ""
    truth = Partition(hidden_state)
    if partition == truth:
        return "exact"
    if partition.refines(truth):
        return "no mistake yet"
    table = partition.contingency(truth).toarray()
    wrong = int(table.sum() - table.max(axis=1).sum())
    return f"{count(wrong, 'observation')} in the wrong group"


def _opening(partition: Partition) -> str:
    unseen = int((partition.labels < 0).sum())
    alone = int((partition.sizes == 1).sum())
    if alone == partition.n_observations:
        return "every observation on its own"
    parts = [f"starts with {count(partition.n_clusters, 'group')}"]
    if alone:
        parts.append(f"{count(alone, 'observation')} alone")
    if unseen:
        parts.append(f"{count(unseen, 'observation')} not seen yet")
    return "; ".join(parts)


def _name(partition: Partition, group: int) -> str:
    members = [str(m) for m in partition.members[group]]
    if len(members) > _MOST_MEMBERS:
        return f"{{{', '.join(members[: _MOST_MEMBERS - 2])}, … {len(members)} in all}}"
    return f"{{{', '.join(members)}}}"
