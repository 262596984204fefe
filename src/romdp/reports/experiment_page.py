"""The page of an experiment: one HTML file that opens from disk and can be explored."""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from romdp.core.text import UNKNOWN, count, interval, number, shortened
from romdp.core.validation import as_path, check
from romdp.experiments.summary import legend, rows_of, summarise
from romdp.reports.experiment_data import page_data
from romdp.reports.figures import panel_title
from romdp.reports.reading import BANDS, Panel, Results, known_measures, read_results
from romdp.reports.shell import (
    Html,
    alert,
    asset,
    document,
    element,
    facts,
    folded,
    section,
    table,
    write_page,
)

_STYLE = "#summary :is(td, th):nth-child(n + 3) { text-align: right }"


def write_report(
    directory: str | os.PathLike[str] | Results,
    out: str | os.PathLike[str] | None = None,
    runs: Sequence[str] = (),
) -> Path:
    """Write the page of a run directory, finished or not.

    Parameters
    ----------
    directory
        What ``romdp compare`` wrote, or what `read_results` returned for it.
    out
        The file to write; by default ``report.html`` in the directory, and ``summary.json``
        is then brought up to date too.
    runs
        Names of runs whose story the page must tell, such as ``"ucrl2-grid-Y190-s3"``. It tells
        as many others as fit, a typical one of each agent in each world first.

    Returns
    -------
    Path
        Where the page is. It needs no network and no other file.

    Raises
    ------
    StorageError
        If the directory is missing, foreign, damaged, or has no finished run.
    """
    check(runs, "runs", list, tuple)
    for place, name in enumerate(runs):
        check(name, f"runs[{place}]", str)
    results = directory if isinstance(directory, Results) else read_results(directory)
    summary = summarise(results.directory)
    if out is None:
        results.directory.write_summary(summary)
    path = results.directory.path / "report.html" if out is None else as_path(out, "out")
    return write_page(path, report_page(results, summary, runs))


def report_page(results: Results, summary: Mapping[str, Any], runs: Sequence[str] = ()) -> str:
    """Return the page as text."""
    experiment = results.experiment
    worlds = ", ".join(spec.label for spec in experiment.worlds)
    sets = str(experiment.settings)
    data = page_data(results, runs) | {"limits": _limits(results, summary)}
    return document(
        f"Agents compared: {worlds}",
        _warnings(results, len(experiment.runs)),
        _controls(),
        section(
            "regret",
            "Learning curves",
            element("div", id="curves", class_="panels"),
            note=element("span", BANDS["mean"], id="band-note"),
        ),
        _bulbs() if "regret" in known_measures(results.records) else "",
        section("summary", "Final figures", *_summary(results, summary)),
        _story(len(data["runs"]), len(results.records)),
        section("configuration", "What was run", *_configuration(results)),
        subtitle=f"{count(len(experiment.agents), 'agent')}, {experiment.steps:,} steps, "
        f"{count(experiment.seeds, 'seed')}. {sets[:1].upper()}{sets[1:]}. Objective: "
        f"{experiment.objective}.",
        data=data,
        script=asset("experiment.js"),
        style=_STYLE,
    )


def _warnings(results: Results, n_runs: int) -> Html:
    """Say which runs are not in the page, and why."""
    boxes = []
    if results.damaged:
        lines = [f"{name}: {what}" for name, what in results.damaged]
        boxes.append(
            alert(
                element("p", f"{len(lines)} of {n_runs} runs are damaged and left out:"),
                _list(lines),
                element("p", "Repeat them with ", element("code", "romdp resume"), "."),
            )
        )
    if results.missing:
        boxes.append(
            alert(
                element("p", f"{len(results.missing)} of {n_runs} runs are missing:"),
                _list(results.missing),
                element("p", "Finish them with ", element("code", "romdp resume"), "."),
            )
        )
    if results.failures:
        lines = [f"{name}: {error}" for name, error in results.failures]
        boxes.append(alert(element("p", f"{len(lines)} of {n_runs} runs failed:"), _list(lines)))
    return element("div", *boxes, id="warnings")


def _list(lines: Iterable[str]) -> Html:
    return element("ul", *(element("li", line) for line in shortened(list(lines))))


def _controls() -> Html:
    def row(name: str, *content: object, **attributes: object) -> Html:
        return element(
            "div", element("span", name, class_="name"), *content, class_="row", **attributes
        )

    return element(
        "nav",
        row("agents", id="agents", role="group", aria_label="agents"),
        row("worlds", id="worlds", role="group", aria_label="worlds"),
        row("show", id="views", role="group", aria_label="what is shown"),
        class_="controls",
        aria_label="what is shown",
    )


def _bulbs() -> Html:
    return section(
        "groups",
        "Groups along the regret",
        element("div", id="bulbs", class_="panels"),
        note="One run per agent, the middle one by final regret. In the bulbs: how many groups "
        "of observations the agent plans on from there.",
    )


def _summary(results: Results, summary: Mapping[str, Any]) -> list[Html]:
    """Make the tables that the command prints, and one that compares all agents in pairs."""
    panels = list(results.panels)
    tables: dict[Sequence[str], list[tuple[Sequence[object], Mapping[str, object]]]] = {}
    pairs: list[list[object]] = []
    for cell in summary["cells"]:
        panel: Panel = (cell["world"], cell["n_observations"])
        headings, rows = rows_of(cell)
        for agent, row in zip(cell["agents"], rows, strict=True):
            mark = {"data_agent": agent["agent"], "data_panel": panels.index(panel)}
            tables.setdefault(headings, []).append(([panel_title(panel), *row], mark))
        pairs += [
            [
                panel_title(panel),
                f"{pair['agents'][0]} - {pair['agents'][1]}",
                pair["pairs"],
                _interval(pair["pseudo_regret"]),
                f"{pair['first_is_better']} of {pair['pairs']}",
            ]
            for pair in cell["differences"]
            if "mean_return" not in cell["agents"][0]
        ]
    meaning = summary["meaning"]
    note = f"{legend(summary)} Intervals: {meaning['interval']}. C log N: {meaning['limit']}."
    parts = [table(["world", *names], *zip(*rows, strict=True)) for names, rows in tables.items()]
    parts.append(element("p", note, class_="note"))
    if pairs:
        parts.append(
            folded(
                "Agents in pairs",
                element("p", f"Pseudo-regret, {meaning['differences']}.", class_="note"),
                table(["world", "agents", "pairs", "difference [95%]", "first is better"], pairs),
            )
        )
    return parts


def _limits(results: Results, summary: Mapping[str, Any]) -> list[float | None]:
    """Return C, such that the limit after N steps is C log N, of every panel that has one."""
    log_steps = math.log(max(summary["steps"], 2))
    found = {(cell["world"], cell["n_observations"]): cell["limit"] for cell in summary["cells"]}
    return [limit and limit / log_steps for limit in map(found.get, results.panels)]


def _interval(spread: Mapping[str, Any]) -> str:
    ends = interval(spread["mean_interval"])
    return number(spread["mean"]) + ("" if ends == UNKNOWN else f" {ends}")


def _story(n_told: int, n_runs: int) -> Html:
    """Leave the places that the script fills for the run that is chosen."""
    note = "Choose a run; the grouping is told change by change."
    if n_told < n_runs:
        note += (
            f" The page has {n_told:,} of {n_runs:,} runs, the middle one of each agent in each "
            "world first; add another with `romdp report DIR --run NAME`."
        )
    return section(
        "story",
        "The story of one run",
        element("div", id="choose", class_="row"),
        element("p", id="run-facts"),
        element("h3", "How the observations flowed into groups", id="flow-title"),
        element("p", id="flow-note", class_="note"),
        element("div", id="flow", class_="scroll card"),
        element("h3", "What every state shows, and the groups found", id="emission-title"),
        element("p", id="emission-note", class_="note"),
        element("div", id="emission", class_="scroll card"),
        element("h3", "Epoch by epoch"),
        element("div", id="chapters", class_="scroll tall", tabindex="0"),
        element(
            "details",
            element("summary", "All epochs"),
            element("p", id="epochs-note", class_="note"),
            element("div", id="epochs", class_="scroll tall", tabindex="0"),
        ),
        note=note,
    )


def _configuration(results: Results) -> list[Html]:
    experiment = results.experiment
    content = experiment.to_dict() | {"romdp": results.directory.romdp}
    worlds = [spec.to_dict() for spec in experiment.worlds]
    sizes = experiment.observations
    return [
        facts(
            {
                "worlds": worlds[0] if len(worlds) == 1 else worlds,
                "numbers of observations": "the worlds' own" if sizes is None else list(sizes),
                "agents": ", ".join(experiment.agents),
                "confidence sets of all optimistic agents": str(experiment.settings),
                "objective": experiment.objective,
                "steps": f"{experiment.steps:,}",
                "seeds": experiment.seeds,
                "seed of the experiment": experiment.seed,
                "written by romdp": results.directory.romdp,
                "versions": _distinct(results, "versions"),
                "machines": _distinct(results, "machine"),
            }
        ),
        folded(
            "experiment.json", element("pre", json.dumps(content, indent=2, ensure_ascii=False))
        ),
    ]


def _distinct(results: Results, name: str) -> str:
    """Collect a fact over all runs: they may have been made on several machines."""
    found: dict[str, int] = {}
    for record in results.records:
        value = record.facts.get(name)
        if isinstance(value, Mapping):
            value = ", ".join(f"{key} {entry}" for key, entry in value.items())
        text = "not recorded" if value is None else str(value)
        found[text] = found.get(text, 0) + 1
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{text} ({count} runs)" for text, count in found.items())
