"""Every script in examples/ runs as its docstring says, and shows what it claims to show."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, folder: Path, *arguments: str) -> str:
    """Run a script in a folder of its own and return what it prints; warnings are errors."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def numbers(pattern: str, text: str) -> list[float]:
    """Return the numbers that a pattern captures."""
    return [float(found.replace(",", "")) for found in re.findall(pattern, text)]


def test_every_example_has_a_line_in_the_readme_and_a_test():
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    listed = set(re.findall(r"python examples/(\w+)\.py", (EXAMPLES / "README.md").read_text()))
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert len(scripts) == 5
    assert listed == scripts
    assert scripts <= tested


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_to_run_it(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    assert f"python examples/{path.name}" in text.split('"""')[1]


@pytest.mark.slow
def test_compare_agents(tmp_path):
    printed = run("compare_agents", tmp_path)
    ours, ucrl3, oracle = (
        numbers(rf"\b{name} ([\d,]+)", printed) for name in ("lc-psrl", "ucrl3", "oracle")
    )
    assert len(ours) == len(ucrl3) == len(oracle) == 3
    assert ucrl3[0] < ucrl3[1] < ucrl3[2]  # it pays for every observation
    assert ucrl3[2] > 1.7 * oracle[2]
    assert max(ours) < min(oracle)  # posterior sampling beats optimism that is told the states
    assert (tmp_path / "compared" / "regret.png").stat().st_size > 20_000
    # What is there is not done again.
    assert run("compare_agents", tmp_path) == printed


@pytest.mark.slow
def test_own_environment(tmp_path):
    printed = run("own_environment", tmp_path)
    ours, plain = numbers(r"psrl: ([\d.]+) per step", printed)
    assert ours > plain + 0.05
    assert "4 groups\n" in printed
    assert printed.count("which are the four stages exactly") == 1


@pytest.mark.slow
def test_logs_to_policy(tmp_path):
    printed = run("logs_to_policy", tmp_path)
    assert printed.startswith("6 hidden states behind 200 observations")
    assert "'page': 'page-007', 'hidden_state': 3" in printed
    assert "'page': 'never-seen', 'hidden_state': None" in printed
    ((best, worth),) = re.findall(
        r"best possible ([\d.]+) euros per page, the model's ([\d.]+)", printed
    )
    assert 0.99 * float(best) < float(worth) <= float(best)
    assert {path.name for path in (tmp_path / "shop").iterdir()} == {
        "answers.parquet",
        "log.parquet",
        "model",
    }
    # The command of the docstring says the same.
    text = (EXAMPLES / "logs_to_policy.py").read_text(encoding="utf-8")
    fit = re.search(r"romdp (fit .*?--out) model", text, re.DOTALL).group(1)
    arguments = [*fit.replace("\\", "").split(), "by-command", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "romdp", *arguments],
        cwd=tmp_path / "shop",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("6 hidden states behind 200 observations")


@pytest.mark.slow
def test_own_clusterer(tmp_path):
    printed = run("own_clusterer", tmp_path)
    mine, plain, oracle = numbers(r"pseudo-regret +([\d,]+)", printed)
    assert oracle < 2 * mine
    assert mine < plain / 2
    assert re.search(r"ward-psrl: .* 5 groups, the hidden states exactly", printed)


@pytest.mark.slow
def test_keep_learning(tmp_path):
    printed = run("keep_learning", tmp_path)
    logged, informed, fresh, best = numbers(r": (0\.\d+) per step", printed)
    assert "5 hidden states" in printed
    assert logged < fresh < informed
    assert informed > 0.95 * best  # it begins with what the log taught
    assert (tmp_path / "online" / "agent.npz").exists()
