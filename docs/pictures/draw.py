"""Draw the pictures of the docs, with the figures of the library itself.

Run it where you like: ``python docs/pictures/draw.py``. The same versions give the same files.
"""

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
from romdp.reports.drawing import new_figure
from romdp.reports.palette import GREY, state_colour

HERE = Path(__file__).parent
FIRST = "--observations 30 --steps 1e5 --seeds 3 --agents lc-psrl,ucrl3,oracle"
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
    world = romdp.worlds.random_romdp(n_states=5, n_actions=4, n_observations=30, seed=0)
    for steps in (300, 3_000):
        seen = romdp.simulate(world, "uniform", steps=steps, seed=0)
        save(emission_figure(world.emission, romdp.cluster(seen)), f"emission-{steps}")
    draw_web_shop()


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
    # Two thousand columns would be a heavy drawing of nothing but hairlines: a small image will do.
    figure = emission_figure(emission, romdp.Partition(model.predict(shop.names)))
    save_figure(figure, HERE / "web-shop-emission", ("png",), dpi=90)
    browser = shutil.which("chromium")
    if browser is not None:
        with tempfile.TemporaryDirectory() as folder:
            page = romdp.reports.write_model_page(model, Path(folder, "page.html"))
            options = ["--headless", "--no-sandbox", "--hide-scrollbars", "--window-size=1100,1320"]
            photograph = f"--screenshot={HERE / 'web-shop-page.png'}"
            subprocess.run(
                [browser, *options, "--virtual-time-budget=5000", photograph, page.as_uri()],
                check=True,
                capture_output=True,
            )
        photo = Image.open(HERE / "web-shop-page.png").convert("RGB").quantize(64)
        photo.save(HERE / "web-shop-page.png", optimize=True)


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


if __name__ == "__main__":
    main()
