from experiment_cases import small

from romdp.experiments.directory import RunDirectory
from romdp.experiments.printing import format_summary
from romdp.experiments.running import run_experiment
from romdp.experiments.summary import summarise


def test_one_table_a_world_with_aligned_columns(tmp_path):
    directory = RunDirectory.create(tmp_path / "x", small(steps=200))
    run_experiment(directory)
    summary = summarise(directory)
    text = format_summary(summary)
    lines = text.splitlines()
    assert lines[0].startswith("8 of 8 runs of 200 steps; Hoeffding")
    assert "for all optimistic agents" in lines[0]
    for size, cell in zip((6, 9), summary["cells"], strict=True):
        place = lines.index(f"random-romdp, {size} observations")
        header, ucrl2, oracle = lines[place + 1 : place + 4]
        assert len(header) == len(ucrl2) == len(oracle)
        assert header.startswith("agent")
        assert ucrl2.startswith("ucrl2 (2)")
        regret = f"{cell['agents'][1]['regret']['mean']:,.1f}"
        assert regret in oracle
        assert "100%" in oracle
        assert "paired by seed" in lines[place + 4]
        assert lines[place + 5].startswith("  ucrl2 - oracle: ")
        assert lines[place + 5].endswith("of 2")


def test_what_is_not_known_is_a_dash(tmp_path):
    directory = RunDirectory.create(tmp_path / "x", small(steps=50, seeds=1, agents=("ucrl2",)))
    assert "no run is finished" in format_summary(summarise(directory))
    run_experiment(directory)
    text = format_summary(summarise(directory))
    assert "None" not in text
    assert "nan" not in text
    assert " - " in text
    assert "paired by seed" not in text
