"""How a run went, for its page: its learning curve, and its groups as they were found."""

import numpy as np

from romdp.core.arrays import Floats, Ints
from romdp.core.text import count, number
from romdp.playing.episodes import learning_curve, shown_range
from romdp.playing.run import Run
from romdp.reports.shell import Html, element, section

_WIDTH, _HEIGHT, _LEFT, _BOTTOM = 820, 300, 70, 40  # of a picture, and its margins
_MOST_DOTS = 3000


def objective_of(run: Run) -> str:
    """Say what a run planned for, which need not be its objective as long as no episode ended."""
    if run.policy is None or run.policy.objective == str(run.objective):
        return str(run.objective)
    now = f"{run.policy.objective}, since no episode has terminated yet"
    return f"{now}; afterwards {run.objective}"


def run_tiles(run: Run) -> list[tuple[str, str, str]]:
    """Say how well a run went: what each figure is, its value, and a line below it."""
    found = [("reward per step", number(run.reward[-1] / run.steps[-1]), "over the whole run")]
    if not np.isnan(run.success_rate):
        found.insert(0, ("success rate", f"{run.success_rate:.1%}", "of the same episodes"))
    if len(run.returns):
        more = "episodes in the last fifth of the steps"
        found.insert(0, ("mean return", number(run.mean_return), more))
        if not np.isnan(run.policy_value):
            more = "an episode without exploring, by what was learned"
            found.insert(1, ("policy's return", number(run.policy_value), more))
    if run.warning:
        found.insert(1, ("warning", "too little progress", run.warning))
    return found


def curve_section(run: Run) -> Html:
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
    step: Ints,
    curve: Floats,
    dot_step: Ints | None,
    dot_value: Floats | None,
    label: str,
    least: float = 0.0,
) -> Html:
    """Draw a line, and dots behind it, as SVG; marks of the axis are ``least`` apart, or more.

    Neither a few dots far out nor what came before anything was learned squeezes the line; what
    lies outside the range of the axis is cut.
    """
    low, high = shown_range(step, curve, dot_step, dot_value)
    if high - low < 1e-12:
        low, high = low - 0.5, high + 0.5
    last = max(int(step[-1]), 1)
    wide, tall = _WIDTH - _LEFT - 10, _HEIGHT - _BOTTOM - 10

    def place(x: Ints, y: Floats) -> Floats:
        down = (high - y) / (high - low)
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
    frame = f'x="{_LEFT}" y="6" width="{wide}" height="{tall + 8}"'
    window = f'viewBox="{_LEFT} 6 {wide} {tall + 8}"'
    parts = [f"<svg {frame} {window}>", *parts, "</svg>"]
    for value in _round_values(low, high, least):
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


def _round_values(low: float, high: float, least: float = 0.0) -> list[float]:
    """Return at most six round numbers from ``low`` to ``high``, for an axis."""
    power = 10.0 ** np.floor(np.log10((high - low) / 5))
    step = max(least, next(power * k for k in (1, 2, 5, 10) if high - low <= 5 * power * k))
    return [
        float(k * step) for k in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)
    ]


def groups_section(run: Run) -> Html:
    """Draw the number of groups as they were found."""
    numbers = np.array([epoch for epoch, _ in run.groupings])
    counts = np.array([float(partition.n_clusters) for _, partition in run.groupings])
    if not numbers.size:
        return section("groups", "The groups", note="Nothing was grouped.")
    start = run.epochs.start[numbers - 1]
    last = np.append(start[1:], run.steps[-1])
    steps = np.column_stack([start, last]).ravel()
    picture = _picture(steps, np.repeat(counts, 2), None, None, "number of groups", 1.0)
    placed = int((run.partition.labels >= 0).sum())
    what = count(placed, "observation")
    if run.policy is not None and run.policy.observations.learns:
        what = f"{count(placed, 'code')} of vectors"
    note = (
        f"The grouping changed {count(len(numbers) - 1, 'time')}. At the end: "
        f"{what} in {count(run.partition.n_clusters, 'group')}."
    )
    return section("groups", "The groups", picture, note=note)
