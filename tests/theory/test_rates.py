from math import log, log2, sqrt

import pytest

from romdp.theory.magnitude import Magnitude
from romdp.theory.rates import (
    all_found,
    epoch_length,
    epoch_length_solved,
    epochs_until,
    first_grouped,
    last_grouped,
    samples_to_group,
    samples_to_group_solved,
    separating_samples,
    separating_steps,
    steps_until,
)

# C = 3, f = 0.25, tau = 7, alpha = 0.1, X = 2, A = 3, Y = 5, delta = 0.1.
C, F, TAU, ALPHA, X, A, Y, DELTA = 3.0, 0.25, 7.0, 0.1, 2, 3, 5, 0.1


def test_samples():
    printed = samples_to_group(C, F, DELTA)
    assert float(printed) == pytest.approx(4 * C * log(1 / DELTA) / F**2)
    solved = float(samples_to_group_solved(C, F, Y, DELTA))
    assert 2 * C * sqrt(log(2 * Y**1.5 / DELTA) / solved) == pytest.approx(F)  # eq:BO is f / 2


def test_epoch_lengths():
    printed = epoch_length(50.0, TAU, ALPHA, X, A, DELTA)
    assert float(printed) == pytest.approx(4 * TAU / ALPHA * (50 + log(X * A / DELTA)))
    solved = float(epoch_length_solved(50.0, TAU, ALPHA, X, A, DELTA))
    left = solved * ALPHA / (4 * TAU) - sqrt(solved * ALPHA * log(X * A / DELTA) / (2 * TAU))
    assert left == pytest.approx(50)
    assert float(printed) < solved < 2 * float(printed)


def test_epochs_and_steps():
    length = Magnitude.of(1024)
    assert float(epochs_until(length, A, Y)) == pytest.approx(A * Y * log2(1024) + 1)
    assert float(epochs_until(Magnitude.of(0.5), A, Y)) == pytest.approx(1)
    assert float(steps_until(length, A, Y)) == pytest.approx(4 * A * Y * 1024)


def test_first_and_last():
    first = first_grouped(C, TAU, 0.05, 0.5, A, Y, DELTA)
    assert float(first) == pytest.approx(A * Y * TAU / 0.05 * C * log(1 / DELTA) / 0.5**2)
    last = last_grouped(C, TAU, 0.05, A, Y, DELTA)
    assert float(last) == pytest.approx(A * Y * TAU / 0.05**3 * C * log(1 / DELTA))


def test_separation():
    samples = separating_samples(56, 0.2, 4, A, 1000, DELTA)
    assert float(samples) == pytest.approx(56 * log(2 * 4 * A * 1000 / DELTA) / 0.2**2)
    steps = separating_steps(samples, TAU, ALPHA, A, Y, DELTA)
    by_hand = 4 * TAU / ALPHA * (float(samples) + log(Y * A / DELTA))
    assert float(steps) == pytest.approx(by_hand)
    assert separating_samples(56, 0.0, 4, A, 1000, DELTA).is_infinite


def test_the_factor_112_makes_the_two_widths_as_large_as_the_gap():
    visits = float(separating_samples(112, 0.2, 4, A, 1000, DELTA))
    assert 2 * sqrt(28 * log(2 * 4 * A * 1000 / DELTA) / visits) == pytest.approx(0.2)


def test_all_found_has_three_cases():
    unit = A * TAU / 0.2**2 * log(1 / DELTA)
    by_observations, by_groups = unit * Y**2, unit * 4**2
    for last, expected in (
        (1.0, by_groups),
        ((by_groups + by_observations) / 2, (by_groups + by_observations) / 2),
        (1e9, by_observations),
    ):
        found = all_found(0.2, TAU, Magnitude.of(last), 4, A, Y, DELTA)
        assert float(found) == pytest.approx(expected)


def test_an_unbounded_return_time_makes_everything_infinite():
    infinite = float("inf")
    assert epoch_length(50.0, infinite, ALPHA, X, A, DELTA).is_infinite
    assert epoch_length_solved(50.0, infinite, ALPHA, X, A, DELTA).is_infinite
    assert epochs_until(Magnitude.of(infinite), A, Y).is_infinite
    assert last_grouped(C, infinite, 0.05, A, Y, DELTA).is_infinite


def test_tiny_chances_overflow():
    assert last_grouped(C, TAU, 1e-110, A, Y, DELTA).overflows
