import numpy as np

from romdp.clustering.spectral.report import ActionReport, Refusal, SpectralReport
from romdp.data.partition import Partition


def _report(**changes):
    done = ActionReport(
        0,
        12_345,
        np.arange(5),
        rank=2,
        singular_values=np.array([0.5, 0.125, 0.001]),
        threshold=0.01,
        condition=40.0,
        residual=0.05,
        columns=np.full((5, 2), 0.2),
        bounds=np.full((5, 2), 0.03),
        groups=((0, 1),),
        refused=(Refusal((2, 3), "two columns claim (2,)"),),
    )
    idle = ActionReport(1, 0, np.arange(0), note="never taken")
    fields = {
        "actions": (done, idle),
        "partition": Partition([0, 0, 1, 2, 3]),
        "level": 1e-6,
        "description": "tensor method",
        "uses_truth": False,
    }
    return SpectralReport(**{**fields, **changes})


def test_it_prints_what_was_found_and_refused():
    text = str(_report())
    lines = text.splitlines()
    assert lines[0] == "Spectral learning: tensor method, level 1e-06"
    assert " ".join(lines[2].split()) == "0 12,345 5 2 0.125 0.01 40 0.05 0.03 1"
    assert " ".join(lines[3].split()) == "1 0 0 - - - - - - 0"
    assert "action 0: grouped {0, 1}" in lines
    assert "action 0: refused {2, 3}: two columns claim (2,)" in lines
    assert "action 1: never taken" in lines
    assert lines[-1].startswith("result: Partition(5 observations in 4 groups")
    assert "true world" not in text


def test_it_says_when_the_truth_was_used():
    assert "NOTE: the bounds use the true world" in str(_report(uses_truth=True))


def test_long_reports_are_cut():
    idle = tuple(ActionReport(i, 0, np.arange(0), note="never taken") for i in range(100))
    lines = str(_report(actions=idle)).splitlines()
    assert len(lines) < 60
    assert lines[-2].startswith("... and")


def test_groups_are_gathered_over_actions():
    assert _report().groups == ((0, 1),)
