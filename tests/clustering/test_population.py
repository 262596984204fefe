import numpy as np
import pytest

from romdp.clustering.spectral.moments import Moments
from romdp.clustering.spectral.population import exact_views
from romdp.data.partition import Partition
from romdp.data.triples import Triples
from romdp.worlds import random_romdp, simulate


def _setting(seed=0):
    world = random_romdp(3, 2, 8, seed=seed)
    return world, np.random.default_rng(seed).integers(2, size=8)


def test_views_are_laws_and_the_second_lies_on_the_observations_of_the_state():
    world, policy = _setting()
    for action in range(2):
        views = exact_views(world, np.eye(2)[policy], action)
        for view in (views.first, views.second, views.third):
            np.testing.assert_allclose(view.sum(axis=0), 1)
        assert views.chance.sum() == pytest.approx(1)
        for i, state in enumerate(views.states):
            support = np.flatnonzero(views.second[:, i] > 0)
            assert set(support) == set(np.flatnonzero((world.labels == state) & (policy == action)))


def test_exact_moments_are_what_a_long_run_shows():
    world, policy = _setting()
    triples = Triples.from_trajectory(simulate(world, policy, 400_000, seed=1))
    for action in range(2):
        exact = exact_views(world, np.eye(2)[policy], action).moments()
        sampled = Moments.from_triples(triples, action)
        for p, q in ((2, 3), (1, 3), (2, 1)):
            full = np.zeros((8, 8))
            full[np.ix_(sampled.groups[p - 1], sampled.groups[q - 1])] = sampled.second(p, q)
            full = full[np.ix_(exact.groups[p - 1], exact.groups[q - 1])]
            # Entries below 0.2 from some 1e5 samples: six standard errors are 0.008.
            np.testing.assert_allclose(full, exact.second(p, q), atol=0.008)


def test_grouped_views_add_up_observations():
    world, policy = _setting()
    views = exact_views(world, np.eye(2)[policy], 0)
    partition = Partition([0, 0, 1, 2, 2, 2, -1, 3])
    grouped = views.grouped(partition)
    np.testing.assert_allclose(grouped.third[2], views.third[3:6].sum(axis=0))
    assert grouped.first.shape == (4, len(views.states))
