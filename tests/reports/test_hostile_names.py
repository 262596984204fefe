"""Pages whose every name is hostile, in a real browser: nothing runs, nothing overflows."""

import gymnasium
import numpy as np
import pytest
from report_cases import make_run_directory, problems, resize

import romdp
from romdp.experiments import RunDirectory
from romdp.reports import write_model_page, write_report

NAMES = (
    '<script>alert("x")</script>',
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "\" onmouseover=alert(1) '><svg onload=alert(1)>",
    "<!-- <script> ]]> &lt;b&gt; `${alert(1)}` {{alert(1)}} javascript:alert(1)",
    "\u202eright to left\u2066 and back",
    "W" * 10_000,
    "😀" * 300,
    "=HYPERLINK(A1)",
    "+1",
    "-1",
    "@SUM(A1)",
)
WORLD = romdp.worlds.random_romdp(
    n_states=4, n_actions=len(NAMES), n_observations=3 * len(NAMES), seed=3
)


class Corridor(gymnasium.Env):
    """Three places that are shown by hostile names."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {}

    def step(self, action):
        self.at = min(2, self.at + int(action))
        return self.at, float(self.at == 2), self.at == 2, False, {}


def model_page(folder):
    seen = romdp.simulate(WORLD, "uniform", 12_000, seed=0)
    log = {
        NAMES[0]: [f"{NAMES[y % len(NAMES)]} {y}" for y in seen.observations],
        NAMES[2]: [NAMES[a] for a in seen.actions],
        NAMES[3]: seen.rewards,
        NAMES[1]: np.arange(12_000) // 40,
    }
    return write_model_page(
        romdp.fit(log, NAMES[0], NAMES[2], NAMES[3], NAMES[1]), folder / "m.html"
    )


def run_page(folder):
    run = romdp.play(romdp.LCPSRL(), Corridor(), steps=600, seed=0)
    return write_model_page(run, folder / "r.html", environment=" ".join(NAMES))


def experiment_page(folder):
    agents = tuple(
        romdp.Agent(planner=romdp.Posterior(), name=name) for name in NAMES[:4] + NAMES[5:6]
    )
    WORLD.save(folder / f"{NAMES[2]}.npz")
    path = make_run_directory(
        folder / "x", agents=agents, worlds=(str(folder / f"{NAMES[2]}.npz"),), observations=None
    )
    directory = RunDirectory.open(path)
    with directory.store(writing=True) as store:
        store.put(directory.experiment.runs[1], {"error": " ".join(NAMES)}, {})
    return write_report(path, folder / "x.html")


@pytest.mark.page
@pytest.mark.parametrize("write", [model_page, run_page, experiment_page])
def test_nothing_runs_and_nothing_overflows(chromium, tmp_path, write):
    page = write(tmp_path)
    chromium.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {"source": "window.ran = []; window.alert = (x) => window.ran.push(x)"},
    )
    for width in (1280, 390):
        resize(chromium, width, 900, mobile=width < 500)
        chromium.get(page.as_uri())
        for box in chromium.find_elements("css selector", "input[type=search], #find, #filter"):
            box.send_keys("a")
        chromium.execute_script(
            """for (const fold of document.querySelectorAll("details")) fold.open = true;
            for (const kind of ["mouseover", "mousemove", "focus", "click"])
                for (const part of document.querySelectorAll("#graph *, td, label, button, .chip"))
                    part.dispatchEvent(new MouseEvent(kind, {bubbles: true}));"""
        )
        assert chromium.execute_script("return window.ran") == []
        listening = """return [...document.querySelectorAll("*")]
            .flatMap((part) => [...part.attributes].map((one) => one.name))
            .filter((name) => name.startsWith("on"))"""
        assert chromium.execute_script(listening) == []
        assert chromium.execute_script("return document.documentElement.scrollWidth") <= width
    assert "alert(" in chromium.page_source
    assert problems(chromium) == []
