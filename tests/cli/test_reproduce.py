import dataclasses
import os

import pytest
from cases import execute, tables
from typer.testing import CliRunner

import romdp
from romdp.cli import app
from romdp.experiments import reproductions
from romdp.experiments.directory import RunDirectory
from romdp.experiments.executors import Here
from romdp.experiments.reproductions import REPRODUCTIONS, Effort
from romdp.experiments.specification import Experiment

pytestmark = pytest.mark.slow  # whole commands


@pytest.fixture
def small(monkeypatch):
    """Make every run short, of agents that think little, and do them in this process."""
    monkeypatch.setattr("romdp.cli.reproduce.make_executor", lambda workers, dask: Here())
    monkeypatch.setattr(reproductions, "FULL", Effort(100, 1))
    for name, paper in REPRODUCTIONS.items():
        agents = tuple(agent for agent in paper.agents if agent in ("ucrl2", "ucrl3", "oracle"))
        tiny = dataclasses.replace(paper, quick=Effort(100, 2), observations=(6,), agents=agents)
        monkeypatch.setitem(REPRODUCTIONS, name, tiny)


@pytest.fixture
def drawn(monkeypatch):
    """Draw nothing, which is quicker, and return the directories that would be drawn."""
    paths = []

    def note(path):
        paths.append(path)
        return path / "report.html"

    monkeypatch.setattr("romdp.reports.write_figures", lambda path: [])
    monkeypatch.setattr("romdp.reports.write_report", note)
    return paths


def run(*arguments):
    return CliRunner().invoke(app, ["reproduce", *(str(argument) for argument in arguments)])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("figure", REPRODUCTIONS)
def test_the_quick_version_leaves_tables_figures_and_a_page(tmp_path, figure):
    out = tmp_path / "x"
    result = run(figure, "--quick", "--out", out)
    assert result.exit_code == 0, result.output
    paper = REPRODUCTIONS[figure]
    assert result.stdout.startswith(f"The paper's {paper.label}: ")
    assert "time-uniform confidence sets, delta 0.05" in result.stdout
    assert "The paper does not say" not in result.stdout
    assert f"wrote {out / 'report.html'}" in result.stdout
    assert RunDirectory.open(out).experiment == paper.experiments(quick=True)[""]
    assert RunDirectory.open(out).missing == []
    assert (out / "summary.json").exists()
    for name in paper.figures:
        for ending in ("svg", "png"):
            assert (out / "figures" / f"{name}.{ending}").stat().st_size > 1000
    assert "</html>" in (out / "report.html").read_text()
    assert not (out / "paper-sets").exists()


@pytest.mark.usefixtures("small")
def test_the_full_version_has_the_papers_sets_in_a_folder_of_its_own(tmp_path, drawn):
    result = run("regret", "--out", tmp_path / "x", "--quiet")
    assert result.exit_code == 0, result.output
    assert "'paper' times 0.1" in result.stdout
    assert "The paper does not say by which factor" in result.stdout
    for folder in ("", "paper-sets"):
        path = tmp_path / "x" / folder
        directory = RunDirectory.open(path)
        assert directory.experiment.steps == 100
        assert directory.missing == []
        assert path in drawn
        assert f"wrote {path / 'report.html'}" in result.stdout


@pytest.mark.usefixtures("small")
def test_the_same_command_goes_on_where_it_was(tmp_path, drawn):
    out = tmp_path / "x"
    assert run("regret", "--quick", "--out", out).exit_code == 0
    before = tables(out)
    execute(out, "DELETE FROM runs WHERE number = 1")
    facts = "SELECT number, facts FROM runs WHERE number <> 1"
    kept = execute(out, facts)
    result = run("regret", "--quick", "--out", out)
    assert result.exit_code == 0, result.output
    assert tables(out) == before
    assert execute(out, facts) == kept  # none of these was done again
    assert drawn == [out, out]


@pytest.mark.usefixtures("small")
def test_resume_goes_on_with_either_part(tmp_path, monkeypatch):
    monkeypatch.setattr("romdp.cli.experiments.make_executor", lambda workers, dask: Here())

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("romdp.experiments.running.run_experiment", interrupted)
        result = run("regret", "--out", tmp_path / "x")
    assert result.exit_code == 130
    assert f"go on with: romdp resume {tmp_path / 'x'}" in result.stderr
    assert f"again with: romdp reproduce regret --out {tmp_path / 'x'}\n" in result.stderr
    for folder in ("", "paper-sets"):
        path = tmp_path / "x" / folder
        assert len(RunDirectory.open(path).missing) == len(RunDirectory.open(path).experiment.runs)
        assert CliRunner().invoke(app, ["resume", str(path), "--quiet"]).exit_code == 0
        assert RunDirectory.open(path).missing == []


@pytest.mark.usefixtures("small")
def test_failed_runs_are_status_1_and_the_rest_is_done(tmp_path, monkeypatch, drawn):
    def broken(*_):
        raise RuntimeError("no luck")

    with monkeypatch.context() as patch:
        patch.setitem(romdp.experiments.agents.AGENTS, "oracle", broken)
        result = run("regret", "--out", tmp_path / "x", "--quiet")
    assert result.exit_code == 1
    assert result.stderr.count("runs failed") == 2  # in every part
    for folder in ("", "paper-sets"):
        missing = RunDirectory.open(tmp_path / "x" / folder).missing
        assert {run.agent for run in missing} == {"oracle"}
    assert drawn == []
    assert run("regret", "--out", tmp_path / "x", "--quiet").exit_code == 0
    assert drawn == [tmp_path / "x" / folder for folder in ("", "paper-sets")]


@pytest.mark.usefixtures("small", "drawn")
def test_a_directory_of_another_version_is_mentioned(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("romdp.experiments.specification.__version__", "0.0.1")
        RunDirectory.create(tmp_path / "x", REPRODUCTIONS["regret"].experiments(quick=True)[""])
    result = run("regret", "--quick", "--out", tmp_path / "x", "--quiet")
    assert result.exit_code == 0
    assert "begun with romdp 0.0.1" in result.stderr


@pytest.mark.usefixtures("small")
def test_without_out_it_says_where(tmp_path, monkeypatch, drawn):
    monkeypatch.chdir(tmp_path)
    result = run("random-mdps", "--quick", "--quiet")
    assert result.exit_code == 0, result.output
    assert "wrote reproduced/random-mdps-quick/report.html" in result.stdout
    assert [path.resolve() for path in drawn] == [tmp_path / "reproduced" / "random-mdps-quick"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("regrets",), "did you mean 'regret'"),
        (("regret", "--workers", "0"), "workers is 0"),
        (("regret", "--checkpoint-seconds", "nan"), "checkpoint_seconds is nan"),
        (("regret", "--dask", "127.0.0.1:1"), "no Dask scheduler answers"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_wrong_is_refused_and_nothing_written(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    result = run(*arguments, "--out", "x")
    assert isinstance(result.exception, romdp.ROMDPError), result.output
    assert message in str(result.exception)
    assert result.stdout == ""
    assert os.listdir(tmp_path) == []


def test_other_experiments_and_other_files_are_left_as_they_are(tmp_path):
    RunDirectory.create(tmp_path / "other", Experiment(("grid",), ("ucrl2",)))
    RunDirectory.create(tmp_path / "quick", REPRODUCTIONS["regret"].experiments(quick=True)[""])
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "letter.txt").write_text("dear")
    (tmp_path / "file").write_text("")
    for name, message in (
        ("other", "another experiment"),
        ("quick", "another experiment"),
        ("foreign", "not empty"),
        ("file", "is a file"),
    ):
        before = sorted(str(path) for path in tmp_path.rglob("*"))
        result = run("regret", "--out", tmp_path / name)
        assert isinstance(result.exception, romdp.ROMDPError), result.output
        assert message in str(result.exception)
        assert sorted(str(path) for path in tmp_path.rglob("*")) == before
