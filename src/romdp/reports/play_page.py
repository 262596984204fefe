"""The page of a run in an environment: its learning curve, its groups and its policy."""

import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from romdp.core.text import count, number
from romdp.exact.objectives import AVERAGE
from romdp.playing.episodes import learning_curve
from romdp.playing.policy import Policy
from romdp.playing.run import Run
from romdp.reports.portraits import BARS, drawing, is_picture
from romdp.reports.shell import (
    Html,
    asset,
    document,
    element,
    facts,
    section,
    table,
    tiles,
    write_page,
)

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 820, 300, 70, 40  # of a picture, and its margins
_MOST_GROUPS = 200
_MOST_DOTS = 3000


def write_play_page(run: Run, environment: str, path: str | os.PathLike[str]) -> Path:
    """Write the page of a run in a Gymnasium environment.

    Parameters
    ----------
    run
        What `romdp.play` returned.
    environment
        What the page calls the environment.
    path
        The file to write. It needs no network, no other file and no package for drawing.
    """
    steps = int(run.steps[-1])
    return write_page(
        Path(path),
        document(
            f"{run.agent} in {environment}",
            _tiles(run),
            _curve(run),
            _groups(run),
            _policy(run),
            section(
                "configuration",
                "What was done",
                facts(
                    {
                        "environment": environment,
                        "agent": run.agent,
                        "objective": objective_of(run),
                        "steps": f"{steps:,}",
                        "seed": run.seed,
                    }
                ),
            ),
            subtitle=f"{steps:,} steps, {len(run.returns):,} finished episodes; "
            f"objective: {objective_of(run)}.",
            style=asset("model.css"),
            plotly=False,
        ),
    )


def objective_of(run: Run) -> str:
    """Say what a run planned for, which need not be its objective as long as no episode ended."""
    if run.policy is None or run.policy.objective == str(run.objective):
        return str(run.objective)
    now = f"{run.policy.objective}, since no episode has terminated yet"
    return f"{now}; afterwards {run.objective}"


def _of_vectors(run: Run) -> bool:
    """Say whether what has a group is a code of vectors, not an observation."""
    return run.policy is not None and run.policy.reads_vectors


def _tiles(run: Run) -> Html:
    alike = "vectors" if _of_vectors(run) else "observations"
    found = [
        ("groups", f"{run.partition.n_clusters:,}", f"of {alike} that behave alike"),
        ("reward per step", number(run.reward[-1] / run.steps[-1]), "over the whole run"),
    ]
    if len(run.returns):
        found.insert(
            0, ("mean return", number(run.mean_return), "episodes in the last fifth of the steps")
        )
    if not np.isnan(run.success_rate):
        found.insert(1, ("success rate", f"{run.success_rate:.1%}", "of the same episodes"))
    return tiles(found)


def _curve(run: Run) -> Html:
    """Draw the return of episodes against the step."""
    if not len(run.returns):
        curve = run.reward / run.steps
        picture = _picture(run.steps, curve, None, None, "reward per step")
        return section(
            "curve", "How it learned", picture, note="No episode ended: the reward per step so far."
        )
    step, curve = learning_curve(run.returns)
    chosen = np.unique(np.linspace(0, len(run.returns) - 1, _MOST_DOTS).astype(np.int64))
    dots = run.returns[chosen]
    picture = _picture(step, curve, dots["step"], dots["return"], "return of an episode")
    note = "Line: the running mean over a twentieth of all episodes. Dots: single episodes"
    some = f", {len(chosen):,} of {len(run.returns):,}" if len(chosen) < len(run.returns) else ""
    return section("curve", "How it learned", picture, note=f"{note}{some}.")


def _picture(
    step: NDArray[np.int64],
    curve: NDArray[np.float64],
    dot_step: NDArray[np.int64] | None,
    dot_value: NDArray[np.float64] | None,
    label: str,
) -> Html:
    """Draw a line, and dots behind it, as SVG; a few dots far out do not squeeze the line."""
    values = curve if dot_value is None else np.append(curve, np.quantile(dot_value, [0.02, 0.98]))
    low, high = float(values.min()), float(values.max())
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    last = max(int(step[-1]), 1)

    def place(x: NDArray[np.int64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        down = np.clip((high - y) / (high - low), 0.0, 1.0)
        wide, tall = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - 10
        return np.column_stack([_LEFT + x / last * wide, 10 + down * tall]).round(1)

    parts = []
    if dot_step is not None and dot_value is not None:
        parts += [
            f'<circle cx="{x:g}" cy="{y:g}" r="1.3" fill="currentColor" opacity="0.25"/>'
            for x, y in place(dot_step, dot_value).tolist()
        ]
    line = " ".join(f"{x:g},{y:g}" for x, y in place(step, curve).tolist())
    parts.append(
        f'<polyline points="{line}" fill="none" stroke="var(--accent, #c0392b)" stroke-width="2"/>'
    )
    for value in _round_values(low, high):
        y = place(np.array([0]), np.array([value]))[0, 1]
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{y}" y2="{y}" stroke="currentColor" '
            f'opacity="0.15"/><text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{value:,.6g}'
            "</text>"
        )
    for at in _round_values(0.0, last):
        x = place(np.array([at]), np.array([low]))[0, 0]
        anchor = "end" if at == last else "middle"
        parts.append(
            f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="{anchor}">{at:,.0f}</text>'
        )
    parts.append(
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 4}" text-anchor="middle">step</text>'
        f'<text x="{_LEFT}" y="-2" font-weight="bold">{label}</text>'
    )
    drawn = (
        f'<svg viewBox="0 -12 {_WIDTH} {_HEIGHT + 12}" role="img" aria-label="{label} by step" '
        f'font-size="11" fill="currentColor" style="width:100%;height:auto">{"".join(parts)}</svg>'
    )
    return element("div", Html(drawn), class_="card")


def _round_values(low: float, high: float) -> list[float]:
    """Return at most six round numbers from ``low`` to ``high``, for an axis."""
    power = 10.0 ** np.floor(np.log10((high - low) / 5))
    step = next(power * k for k in (1, 2, 5, 10) if high - low <= 5 * power * k)
    return [
        float(k * step) for k in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)
    ]


def _groups(run: Run) -> Html:
    """Draw the number of groups as they were found."""
    numbers = np.array([epoch for epoch, _ in run.groupings])
    counts = np.array([float(partition.n_clusters) for _, partition in run.groupings])
    if not numbers.size:
        return section("groups", "The groups", note="Nothing was grouped.")
    start = run.epochs.start[numbers - 1]
    last = np.append(start[1:], run.steps[-1])
    steps = np.column_stack([start, last]).ravel()
    picture = _picture(steps, np.repeat(counts, 2), None, None, "number of groups")
    placed = int((run.partition.labels >= 0).sum())
    what = count(placed, "observation")
    if _of_vectors(run):
        what = f"{count(placed, 'code')} of vectors"
    note = (
        f"The grouping changed {count(len(numbers) - 1, 'time')}. At the end: "
        f"{what} in {count(run.partition.n_clusters, 'group')}."
    )
    return section("groups", "The groups", picture, note=note)


def _policy(run: Run) -> Html:
    """List the groups with what to do in each."""
    policy = run.policy
    if policy is None:
        return section("policy", "The policy", note="This agent has no table of actions.")
    labels, sizes = run.partition.labels, run.partition.sizes
    met = np.flatnonzero((labels >= 0) & ~np.isnan(policy.values))
    groups, first = np.unique(labels[met], return_index=True)
    order = np.argsort(-policy.values[met[first]], kind="stable")[:_MOST_GROUPS]
    looks, bars = _looks(policy, met[first[order]])
    rows = [
        [
            int(groups[i]),
            int(sizes[groups[i]]),
            str(policy.action_of(int(met[first[i]]))),
            float(policy.values[met[first[i]]]),
            element("span", looks.get(int(met[first[i]]), ""), policy.name_of(int(met[first[i]]))),
        ]
        for i in order
    ]
    some = "" if len(groups) <= _MOST_GROUPS else f" The best {_MOST_GROUPS} of {len(groups):,}."
    meaning = f"what is expected from there on ({policy.objective})"
    if policy.objective == str(AVERAGE):
        meaning = "what it is worth to be there and not in the worst group (average)"
    note = (
        "What to do by the mean of what was learned, without exploring, the best group first. "
        f"Values: {meaning}.{some}{bars}"
    )
    members = "codes" if policy.reads_vectors else "observations"
    headings = ["group", members, "action", "value", "one of them"]
    return section("policy", "The policy", table(headings, rows), note=note)


def _looks(policy: Policy, codes: NDArray[np.int64]) -> tuple[dict[int, Html], str]:
    """Draw a typical vector of each code, where there is one, and say what bars mean."""
    found = {code: policy.example_of(code) for code in codes.tolist()}
    vectors = {code: vector.astype(float) for code, vector in found.items() if vector is not None}
    if not vectors:
        return {}, ""
    every = np.array(list(vectors.values()))
    show = drawing(float(every.min()), float(every.max()), every.mean(axis=0), every.std(axis=0))
    drawn = {code: show(vector) for code, vector in vectors.items()}
    return drawn, "" if is_picture(every.shape[1]) else f" {BARS}"
