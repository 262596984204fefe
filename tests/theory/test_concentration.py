from math import inf, log, sqrt

import numpy as np
import pytest
from cases import draw

from romdp.clustering.spectral.moments import Moments
from romdp.clustering.spectral.population import exact_views
from romdp.data.triples import Triples
from romdp.exact.chains import Mixing
from romdp.theory.concentration import (
    concentration_bound,
    condition_factor,
    decomposition_error,
    enough_samples,
    error_bound,
    error_constant,
    pair_error,
    rank_samples,
    triple_error,
)
from romdp.theory.views import View, mixing_speed
from romdp.worlds import simulate

# omega = 0.2, sigma = 0.3, G = 2, theta = 0.5, X^(l) = 3, Y = 10, delta = 0.1, nu = 1000.
VIEW = View(3, 0.2, 0.5, 0.3, 0.4, 0.05, Mixing(2.0, 0.5, 0.4))
Y, DELTA, NU = 10, 0.1, 1000
LOG = log(2 * Y**1.5 / DELTA)


def test_decomposition_error():
    e = 2.0 / 0.5 * (2 * sqrt(2) + 1) * sqrt(LOG / NU)
    by_hand = 2 * sqrt(2) * e / (sqrt(0.2) * 0.3) ** 3 + 64 * e / (0.3**2 * 0.2**1.5)
    assert float(decomposition_error(VIEW, Y, NU, DELTA)) == pytest.approx(by_hand)


EASY = View(2, 0.5, 1.0, 1.0, 1.0, 1.0, Mixing(1.0, 0.0, 0.0))


def test_concentration_bound():
    first = (4 * sqrt(2) + 2) / sqrt(0.5) * sqrt(log(2 * 2 * Y / DELTA) / NU)
    by_hand = first + 8 * float(decomposition_error(EASY, Y, NU, DELTA)) / 0.5
    assert float(concentration_bound(EASY, Y, NU, DELTA)) == pytest.approx(by_hand, rel=1e-10)
    first = 2.0 * (4 * sqrt(2) + 2) / (sqrt(0.2) * 0.5) * sqrt(log(2 * 2 * Y / DELTA) / NU)
    by_hand = first + 8 * float(decomposition_error(VIEW, Y, NU, DELTA)) / 0.2
    assert float(concentration_bound(VIEW, Y, NU, DELTA)) == pytest.approx(by_hand)


@pytest.mark.parametrize("samples", [1, 1e3, 1e12])
def test_the_constant_makes_both_forms_of_the_bound_agree(samples):
    constant = error_constant(VIEW, Y, DELTA)
    assert float(error_bound(constant, Y, samples, DELTA)) == pytest.approx(
        float(concentration_bound(VIEW, Y, samples, DELTA))
    )


def test_error_bound():
    assert float(error_bound(1.5, Y, NU, DELTA)) == pytest.approx(1.5 * sqrt(LOG / NU))


def test_condition_factor_takes_the_largest_of_three():
    direct = 2 * sqrt(2) * 3 / (0.2 * 0.3**2)
    assert float(condition_factor(VIEW, 1.0)) == pytest.approx(direct)
    assert float(condition_factor(EASY, 2.0)) == pytest.approx(16 * (2 / 0.5 / 4) ** (1 / 3))
    assert float(condition_factor(EASY, 1.0)) == pytest.approx(16 * 4 ** (1 / 3))
    assert float(condition_factor(EASY, 1000.0)) == pytest.approx(4)
    assert float(condition_factor(VIEW, 0.5)) == pytest.approx(4 * direct)


def test_enough_samples():
    theta = 2 * sqrt(2) * 3 / (0.2 * 0.3**2)
    by_hand = (4 / (0.2 * 0.3**2)) ** 2 * LOG * theta
    assert float(enough_samples(VIEW, Y, DELTA, 1.0)) == pytest.approx(by_hand)


def test_both_halves_of_the_moment_error():
    c = 1 / NU
    factor = 4.0 * (1 + 1 / (sqrt(2) * c * NU**1.5))
    pairs = factor * sqrt(8 * c**2 * NU * log(2 * Y / DELTA))
    assert pair_error(4.0, Y, NU, DELTA) == pytest.approx(pairs)
    triples = factor * sqrt(8 * c**2 * NU * LOG)
    assert triple_error(4.0, Y, NU, DELTA) == pytest.approx(triples)
    assert pair_error(4.0, Y, inf, DELTA) == triple_error(4.0, Y, inf, DELTA) == 0


def test_sampled_moments_are_within_both_bounds_and_not_far_below():
    """At delta = 0.1 each bound fails in one run of ten at most; it does in none of 20.

    The bounds are for any chain of the same mixing, so they are loose: but within a factor of 40.
    """
    world = draw(3, n_states=2, n_actions=1, n_observations=5)
    views = exact_views(world, np.ones((5, 1)), 0)
    exact, speed = views.moments(), mixing_speed(views.mixing)
    joint = np.zeros((5, 5, 5))
    np.add.at(joint, exact.places, exact.weights)
    for seed in range(20):
        triples = Triples.from_trajectory(simulate(world, "uniform", 2000, seed=seed))
        moments = Moments.from_triples(triples, 0)
        seen = np.zeros((5, 5, 5))
        np.add.at(seen, moments.places, moments.weights)
        nu = moments.n_samples
        pairs = np.linalg.norm((seen - joint).sum(axis=0), 2)
        assert pair_error(speed, 5, nu, 0.1) / 40 < pairs < pair_error(speed, 5, nu, 0.1)
        unfolded = np.linalg.norm((seen - joint).reshape(5, 25), 2)
        assert triple_error(speed, 5, nu, 0.1) / 40 < unfolded < triple_error(speed, 5, nu, 0.1)


def rank_conditions(samples, g, epsilon):
    """Error of K_23, threshold and signal, as ``eq:rankcondition`` orders them."""
    c = 1 / samples
    error = 2.0 * (1 + 1 / (sqrt(2) * c * samples**1.5)) / 0.5
    error *= sqrt(8 * c**2 * samples * log(2 * Y / DELTA))
    return error <= g / samples ** (0.5 - epsilon) <= 0.5 * VIEW.sigma_pairs


@pytest.mark.parametrize(
    ("g", "epsilon"),
    [(1.0, 0.25), (1000.0, 0.25), (30.0, 0.1), (0.1, 0.4), (25.0, 0.01), (40.0, 0.4)],
)
def test_rank_samples_is_where_the_conditions_begin_to_hold(g, epsilon):
    needed = float(rank_samples(VIEW, Y, DELTA, g, epsilon))
    assert needed >= 1
    assert rank_conditions(needed * (1 + 1e-6), g, epsilon)
    assert rank_conditions(needed * 1000, g, epsilon)
    assert not rank_conditions(needed * (1 - 1e-6), g, epsilon)


def test_bounds_fall_with_samples_and_rise_with_difficulty():
    harder = View(3, 0.1, 0.5, 0.3, 0.4, 0.01, Mixing(2.0, 0.6, 0.4))
    assert concentration_bound(VIEW, Y, 2 * NU, DELTA) < concentration_bound(VIEW, Y, NU, DELTA)
    assert error_constant(VIEW, Y, DELTA) < error_constant(harder, Y, DELTA)
    assert enough_samples(VIEW, Y, DELTA, 1.0) < enough_samples(harder, Y, DELTA, 1.0)
    assert enough_samples(VIEW, Y, DELTA, 1.0) < enough_samples(VIEW, Y, DELTA / 2, 1.0)
    assert rank_samples(VIEW, Y, DELTA, 1, 0.25) < rank_samples(harder, Y, DELTA, 1, 0.25)


def test_what_no_float_holds_overflows_and_what_never_holds_is_infinite():
    tiny = View(3, 1e-60, 1e-60, 1.0, 1.0, 1e-60, Mixing(1.0, 0.0, 0.0))
    assert enough_samples(tiny, Y, DELTA, 1.0).overflows
    assert rank_samples(tiny, Y, DELTA, 1.0, 0.49).overflows
    assert concentration_bound(tiny, Y, NU, DELTA).overflows
    periodic = View(3, 0.2, 0.5, 0.3, 0.4, 0.05, None)
    assert concentration_bound(periodic, Y, NU, DELTA).is_infinite
    assert rank_samples(periodic, Y, DELTA, 1.0, 0.25).is_infinite
