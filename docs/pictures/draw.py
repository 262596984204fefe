"""Draw the pictures of the docs, with the figures of the library itself.

Run it where you like: ``python docs/pictures/draw.py``. The same versions give the same files.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from PIL import Image

import romdp
from romdp.reports import emission_figure, flow_figure, read_results, regret_figure, save_figure
from romdp.reports.drawing import GREY, new_figure, state_colour

HERE = Path(__file__).parent
FIRST = "--observations 30 --steps 2e4 --seeds 3 --agents lc-psrl,ucrl3,oracle"
GROWING = "--observations 10,30,100 --steps 1e5 --seeds 3 --agents lc-psrl,ucrl3,oracle"


def main() -> None:
    """Write all pictures beside this file."""
    with tempfile.TemporaryDirectory() as folder:
        first = compare(FIRST, Path(folder, "first"))
        save(regret_figure(first), "first")
        growing = compare(GROWING, Path(folder, "growing"))
        save(regret_figure(growing), "growing")
        (run,) = [r for r in first.of("lc-psrl", first.panels[0]) if r.seed == 0]
        save(flow_figure(run, max_columns=6), "flow")
    save(what_a_romdp_is(), "romdp")
    save(how_episodes_are_counted(), "episodes")
    save_figure(how_pictures_become_states(), HERE / "vectors", ("png",), dpi=130)
    world = romdp.worlds.random_romdp(n_states=5, n_actions=4, n_observations=30, seed=0)
    for steps in (300, 3_000):
        seen = romdp.simulate(world, "uniform", steps=steps, seed=0)
        save(emission_figure(world.emission, romdp.cluster(seen)), f"emission-{steps}")
    save(classes_of_tokens(), "sequences")
    draw_web_shop()


def classes_of_tokens() -> Any:
    """Draw which class follows which, for the model of the guide to sequences."""
    page = (HERE.parent / "guides" / "sequences.md").read_text()
    found: dict[str, Any] = {}
    exec(re.findall("```python\n(.*?)```", page, re.DOTALL)[0], found)
    model, often = found["model"], found["often"]
    follows = model.counts.transitions[:, 0]
    share = follows / follows.sum(axis=1, keepdims=True)
    state = {word: int(model.predict([word])[0]) for word, _ in often}
    names = [
        "  ".join([word for word, at in state.items() if at == s][:6]) for s in range(len(share))
    ]
    figure = new_figure(7.2, 3.6)
    axes = figure.subplots()
    axes.imshow(share, cmap="Greys", vmin=0, vmax=0.8, aspect="auto")
    axes.set_yticks(range(len(names)), names, fontsize=8, family="monospace")
    axes.set_xticks(range(len(names)), [name.split()[0] for name in names], fontsize=8)
    axes.set_xlabel("class that follows, by its most frequent member", fontsize=8)
    axes.tick_params(length=0)
    return figure


def draw_web_shop() -> None:
    """Draw the pages of the tutorial's shop by intent and state, and photograph its model."""
    sys.path.insert(0, str(HERE.parent / "tutorials"))
    import webshop

    shop = webshop.open_shop()
    log = webshop.keep_log(shop)
    columns = {"observation": "page", "action": "offer", "reward": "euros", "episode": "visit"}
    model = romdp.fit(
        log.filter(pc.field("day") < 88),
        **columns,
        order="click",
        ends="restart",
        reward_law="none",
    )
    emission = shop.world(*model.reward_range).emission
    figure = emission_figure(emission, romdp.Partition(model.predict(shop.names)))
    browser = shutil.which("chromium")
    if browser is not None:
        with tempfile.TemporaryDirectory() as folder:
            # Two thousand columns are a heavy drawing of nothing but hairlines: an image will do.
            (drawn,) = save_figure(figure, Path(folder, "emission"))
            page = romdp.reports.write_model_page(model, Path(folder, "page.html"))
            photograph(browser, drawn, HERE / "web-shop-emission.png", "1000,340")
            photograph(browser, page, HERE / "web-shop-page.png", "1100,1500")
        photo = Image.open(HERE / "web-shop-page.png").convert("RGB")
        photo = photo.crop((0, 0, 1100, 1390)).quantize(64)  # the browser keeps some of the height
        photo.save(HERE / "web-shop-page.png", optimize=True)


def photograph(browser: str, page: Path, image: Path, size: str) -> None:
    """Let a browser show a page and keep what it shows."""
    options = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--window-size={size}"]
    options += ["--virtual-time-budget=5000", f"--screenshot={image}", page.as_uri()]
    subprocess.run([browser, *options], check=True, capture_output=True)


def compare(options: str, out: Path) -> Any:
    """Run the command that the pages show."""
    command = [sys.executable, "-m", "romdp", "compare", *options.split()]
    subprocess.run([*command, "--quiet", "--out", str(out)], check=True, capture_output=True)
    return read_results(out)


def save(figure: Any, name: str) -> None:
    """Write one picture."""
    save_figure(figure, HERE / name, ("svg",))


def what_a_romdp_is() -> Any:
    """Draw three hidden states, where an action leads, and what each state can show."""
    from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

    figure = new_figure(7.2, 3.15)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-3.1, 12.2)
    axes.set_ylim(-2.1, 4.5)
    centres = np.array([1.5, 5.5, 9.5])
    shown = [[0, 3, 7, 9], [1, 4, 8, 11], [2, 5, 6, 10]]
    for state, centre in enumerate(centres):
        colour = state_colour(state)
        for place, number in enumerate(shown[state]):
            x = centre + 0.95 * (place - 1.5)
            axes.plot([centre, x], [2.4, -0.2], color=colour, linewidth=1.2, zorder=1)
            axes.add_patch(
                Rectangle((x - 0.4, -1), 0.8, 0.8, facecolor=colour, alpha=0.28, edgecolor="none")
            )
            axes.add_patch(Rectangle((x - 0.4, -1), 0.8, 0.8, facecolor="none", edgecolor=colour))
            axes.text(x, -0.6, str(number), ha="center", va="center_baseline", fontsize=9)
        axes.add_patch(Circle((centre, 2.4), 0.75, facecolor="white", edgecolor=colour, lw=2.5))
        axes.text(centre, 2.4, f"state {state}", ha="center", va="center_baseline", fontsize=8)
    for left, right, bend in ((0, 1, -0.35), (1, 2, -0.35), (2, 0, 0.4), (1, 0, -0.35)):
        axes.add_patch(
            FancyArrowPatch(
                (centres[left], 2.4),
                (centres[right], 2.4),
                connectionstyle=f"arc3,rad={bend}",
                arrowstyle="-|>",
                mutation_scale=13,
                shrinkA=25,
                shrinkB=25,
                color=GREY,
                linewidth=1.4,
            )
        )
    words = {
        2.4: "hidden:\nactions move you\nand pay",
        0.9: "each state shows\none of its own",
        -0.6: "seen:\nonly a number",
    }
    for y, text in words.items():
        axes.text(-3.05, y, text, va="center", fontsize=8, color="#444444")
    axes.text(
        5.5,
        -1.85,
        "Two numbers of one colour mean the same thing. Nobody tells you the colours.",
        ha="center",
        fontsize=8,
        color="#444444",
    )
    return figure


def how_episodes_are_counted() -> Any:
    """Draw a corridor that ends, and beside it the counts with the end as one more column."""
    from matplotlib.patches import Circle, FancyArrowPatch, Rectangle

    figure = new_figure(7.2, 2.3)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_aspect("equal")
    axes.set_xlim(-1, 18.2)
    axes.set_ylim(-1.4, 4.4)
    for state in range(3):
        circle = Circle((2.6 * state, 1.5), 0.7, fc="white", ec=state_colour(state), lw=2.5)
        axes.add_patch(circle)
        axes.text(2.6 * state, 1.5, f"{state}", ha="center", va="center_baseline", fontsize=9)
    axes.add_patch(Rectangle((7.1, 0.9), 1.5, 1.2, fc="#dddddd", ec="#444444"))
    axes.text(7.85, 1.5, "end", ha="center", va="center_baseline", fontsize=9)
    for left in range(3):
        x = 2.6 * left
        axes.add_patch(
            FancyArrowPatch((x + 0.75, 1.5), (x + 1.85, 1.5), arrowstyle="-|>", mutation_scale=12)
        )
    axes.text(3.9, -0.6, "each step costs 1", ha="center", fontsize=8, color="#444444")
    counts = [[0, 9, 0, 0], [0, 0, 8, 0], [0, 0, 0, 7]]
    for column, name in enumerate(("0", "1", "2", "end")):
        axes.text(12.6 + 1.4 * column, 3.55, name, ha="center", fontsize=8, color="#444444")
    for row, line in enumerate(counts):
        y = 2.3 - 1.2 * row
        axes.text(11.3, y + 0.4, f"{row}", fontsize=8, color="#444444")
        for column, count in enumerate(line):
            fill = "#dddddd" if column == 3 else "white"
            axes.add_patch(Rectangle((11.9 + 1.4 * column, y), 1.4, 1.1, fc=fill, ec=GREY))
            x = 12.6 + 1.4 * column
            axes.text(x, y + 0.5, str(count), ha="center", va="center_baseline", fontsize=9)
    axes.text(14.7, -0.9, "what followed what, and what ended", ha="center", fontsize=8)
    return figure


def how_pictures_become_states() -> Any:
    """Draw pictures as they were shown, where they lie in the learned view, and their states."""
    from sklearn.manifold import TSNE

    sys.path.insert(0, str(HERE.parents[1] / "examples"))
    from digits_log import make_log

    log = make_log(20_000)
    shown = log["picture"]
    model = romdp.fit(log, observation="picture", action="action", reward="reward")
    states = model.predict(shown)

    figure = new_figure(9.0, 3.0, layout=None)
    for place in range(12):
        x, y = 0.015 + 0.065 * (place % 4), 0.62 - 0.25 * (place // 4)
        axes = figure.add_axes((x, y, 0.055, 0.18))
        axes.imshow(shown[place].reshape(8, 8), cmap="gray_r")
        axes.set_title(f"action {log['action'][place]}", fontsize=6, pad=1)
        axes.set_axis_off()
    axes = figure.add_axes((0.31, 0.03, 0.33, 0.8))
    flat = TSNE(random_state=0).fit_transform(model.decoder.encoding.teaching_map(shown[:1500]))
    axes.scatter(*flat.T, s=4, c=[f"C{state}" for state in states[:1500]])
    axes.set_axis_off()
    for state in range(model.n_states):
        x, y = 0.665 + 0.066 * (state % 5), 0.47 - 0.37 * (state // 5)
        axes = figure.add_axes((x, y, 0.06, 0.25))
        axes.imshow(shown[states == state].mean(axis=0).reshape(8, 8), cmap="gray_r")
        axes.set_title(f"state {state}", fontsize=6, pad=2, color=f"C{state}")
        axes.set_axis_off()
    titles = ("what the agent sees", "the view it learns, laid flat", "the states it finds")
    for x, title in zip((0.14, 0.475, 0.825), titles, strict=True):
        figure.text(x, 0.91, title, ha="center", fontsize=9)
    return figure


if __name__ == "__main__":
    main()
