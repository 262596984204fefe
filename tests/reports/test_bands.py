"""Curves over seeds."""

import numpy as np
import pytest
from report_cases import make_record

from romdp.core.errors import InvalidInputError
from romdp.reports.bands import aligned, band, common_steps, curve, typical


def runs(*finals):
    return [
        make_record(seed=seed, regret=(0, final / 2, final)) for seed, final in enumerate(finals)
    ]


def test_measures_of_a_run():
    record = make_record()
    assert curve(record, "regret").tolist() == [1, 2, 3]
    assert curve(record, "pseudo_regret").tolist() == [2, 3, 4]
    assert curve(record, "n_clusters").tolist() == [4, 3, 2]
    assert curve(record, "reward_per_step").tolist() == [0.5, 0.5, 0.5]
    with pytest.raises(InvalidInputError, match="regret"):
        curve(record, "regrets")


def test_the_median_and_its_quartiles():
    summary = band(runs(1, 2, 3, 4, 100), kind="median")
    assert (summary.low[-1], summary.middle[-1], summary.high[-1]) == (2, 3, 4)
    assert summary.n_runs == 5


def test_the_mean_and_its_bootstrap_interval():
    """Against a plain bootstrap with other draws: 2,000 resamples fix an end to about 3%."""
    finals = np.array([1.0, 4.0, 6.0, 7.0, 20.0, 3.0])
    summary = band(runs(*finals))
    assert summary.middle[-1] == pytest.approx(finals.mean())
    rng = np.random.default_rng(5)
    means = [finals[rng.integers(6, size=6)].mean() for _ in range(20_000)]
    low, high = np.quantile(means, [0.025, 0.975])
    assert summary.low[-1] == pytest.approx(low, rel=0.1)
    assert summary.high[-1] == pytest.approx(high, rel=0.1)
    assert (summary.low <= summary.middle).all()
    assert (summary.middle <= summary.high).all()


def test_a_band_is_the_same_every_time():
    first, second = band(runs(1, 5, 9)), band(runs(1, 5, 9))
    np.testing.assert_array_equal(first.low, second.low)
    np.testing.assert_array_equal(first.high, second.high)


@pytest.mark.parametrize("kind", ["mean", "median"])
def test_one_run_has_no_band(kind):
    summary = band(runs(7), kind=kind)
    np.testing.assert_array_equal(summary.low, summary.middle)
    np.testing.assert_array_equal(summary.high, summary.middle)


def test_only_steps_that_all_runs_have_are_compared():
    records = [
        make_record(step=(1, 10, 100), regret=(1, 2, 3)),
        make_record(step=(1, 5, 10), regret=(5, 6, 7)),
    ]
    assert common_steps(records).tolist() == [1, 10]
    assert aligned(records, "regret").tolist() == [[1, 2], [5, 7]]


def test_the_typical_run_is_in_the_middle():
    assert typical(runs(9, 1, 5)).seed == 2
    assert typical(runs(9, 1, 5, 4)).seed == 3
    assert typical(runs(np.nan, 1)).seed == 1


def test_nothing_to_summarise():
    with pytest.raises(InvalidInputError, match="empty"):
        band([])
    with pytest.raises(InvalidInputError, match="empty"):
        typical([])
    with pytest.raises(InvalidInputError, match="median"):
        band(runs(1, 2), kind="medain")
