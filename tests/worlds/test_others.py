"""Environments of other packages, which the benchmarks use: each is played for a moment."""

import gymnasium
import icu_sepsis  # noqa: F401 - registers its environments
import minigrid  # noqa: F401 - registers its environments
import numpy as np
import pytest

import romdp


@pytest.mark.parametrize("name", ["MiniGrid-Empty-8x8-v0", "MiniGrid-DoorKey-5x5-v0"])
def test_a_grid_is_played_as_it_is_shown(name):
    run = romdp.play(romdp.LCPSRL(), gymnasium.make(name), 400, seed=0)
    shown, _ = gymnasium.make(name).reset(seed=5)
    assert run.policy.act(shown) in range(7)
    met = int(np.isfinite(run.policy.values).sum())
    assert 10 < met < 400  # pictures repeat


def test_patients_are_treated():
    env = gymnasium.make("Sepsis/ICU-Sepsis-v2")
    run = romdp.play(romdp.LCPSRL(), env, 400, seed=0)
    assert len(run.returns) > 10
    assert set(np.unique(run.returns["return"])) <= {0.0, 1.0}
    assert 0.0 <= run.success_rate <= 1.0
