"""What the script of an experiment's page needs, as plain data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from romdp.data.partition import Partition
from romdp.exact.romdp import as_romdp
from romdp.experiments.specification import Experiment
from romdp.reports.bands import (
    BANDS,
    MEASURES,
    aligned,
    band,
    common_steps,
    known_measures,
    typical,
)
from romdp.reports.curves import change_places, panel_title
from romdp.reports.flow import Flow, lay_out
from romdp.reports.groupings import block_label, is_mixed
from romdp.reports.palette import STATE_COLOURS, UNSEEN_COLOUR, agent_styles
from romdp.reports.reading import Record, Results
from romdp.reports.story import tell

_MOST_EPOCHS = 200
_MOST_DRAWN = 1000  # observations of an emission picture
_MOST_NAMED = 12  # members of a group that are listed


def page_data(results: Results) -> dict[str, Any]:
    """Return everything the script draws; arrays may stay arrays."""
    panels, agents = results.panels, results.agents
    styles = agent_styles(agents)
    numbers = {id(record): number for number, record in enumerate(results.records)}
    series = []
    for p, panel in enumerate(panels):
        for a, agent in enumerate(agents):
            records = results.of(agent, panel)
            if records:
                example = numbers[id(typical(records))]
                series.append({"agent": a, "panel": p, "example": example, **_series(records)})
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
        "stateColours": STATE_COLOURS,
        "unseenColour": UNSEEN_COLOUR,
        "series": series,
        "runs": [
            {
                "agent": agents.index(record.agent),
                "panel": panels.index(record.panel),
                **_run(record, results.experiment),
            }
            for record in results.records
        ],
    }


def _series(records: tuple[Record, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {"step": common_steps(records), "seeds": [r.seed for r in records]}
    for measure in MEASURES:
        found[measure] = {"runs": aligned(records, measure)}
        for kind in BANDS:
            summary = band(records, measure, kind)
            found[measure][kind] = [summary.middle, summary.low, summary.high]
    return found


def _run(record: Record, experiment: Experiment) -> dict[str, Any]:
    epochs, left_out = _epochs(record)
    return {
        "seed": record.seed,
        "step": record.curves["step"],
        "regret": record.curves["regret"],
        "pseudo_regret": record.curves["pseudo_regret"],
        "n_clusters": record.curves["n_clusters"],
        "bulbs": change_places(record),
        "facts": {
            name: record.facts.get(name)
            for name in ("gain", "exact", "refines", "steps_to_exact", "seconds")
        },
        "known": record.hidden_state is not None,
        "epochs": epochs,
        "epochsLeftOut": left_out,
        "chapters": [[c.epoch, c.step, c.n_clusters, c.what, c.verdict] for c in tell(record)],
        "changes": len(record.groupings) - 1,
        "flow": _flow(lay_out(record.groupings, record.hidden_state), record.hidden_state),
        "emission": _emission(record, experiment),
    }


def _epochs(record: Record) -> tuple[NDArray[np.float64], int]:
    """Return the table of epochs; of very many, some that are spread evenly."""
    names = ("epoch", "start", "length", "n_clusters", "gain", "sweeps")
    rows = np.stack([np.asarray(record.epochs[name], np.float64) for name in names], axis=1)
    if len(rows) <= _MOST_EPOCHS:
        return rows, 0
    kept = np.unique(np.rint(np.linspace(0, len(rows) - 1, _MOST_EPOCHS)).astype(np.int64))
    return rows[kept], len(rows) - len(kept)


def _flow(flow: Flow, hidden: NDArray[np.int64] | None) -> dict[str, Any]:
    return {
        "columns": [
            {
                "epoch": column.epoch,
                "step": column.step,
                "groups": column.n_clusters,
                "blocks": [
                    {
                        "group": block.group,
                        "top": block.top,
                        "bottom": block.bottom,
                        "label": block_label(block),
                        "members": _members(block.members),
                        "mixed": is_mixed(block, hidden),
                    }
                    for block in column.blocks
                ],
            }
            for column in flow.columns
        ],
        "ribbons": [
            [r.column, r.state, r.left_top, r.right_top, r.thickness, r.size] for r in flow.ribbons
        ],
        "leftOut": flow.left_out,
    }


def _members(members: tuple[int, ...]) -> str:
    listed = ", ".join(str(m) for m in sorted(members)[:_MOST_NAMED])
    return listed if len(members) <= _MOST_NAMED else f"{listed}, …"


def _emission(record: Record, experiment: Experiment) -> dict[str, Any] | None:
    """Return what shows what; every observation has one state, so a list says it all."""
    if record.hidden_state is None or record.n_observations > _MOST_DRAWN:
        return None
    size = None if experiment.observations is None else record.n_observations
    world = as_romdp(experiment.world(record.world).make(size, record.seed))
    return {
        "state": record.hidden_state,
        "chance": world.emission.max(axis=0),
        "group": Partition(record.groupings[-1].labels).labels,
    }
