import numpy as np
from plain_blocks import walk

from romdp.clustering.likelihood.links import Links
from romdp.clustering.likelihood.starts import embed, k_means
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.worlds.random import random_romdp
from romdp.worlds.simulator import simulate


def test_the_embedding_is_the_truncated_singular_value_decomposition():
    counts = walk(2, n_observations=9, steps=300)
    transitions = counts.transitions.astype(float)
    out = transitions.reshape(9, -1)
    into = transitions.reshape(-1, 9).T
    matrix = np.concatenate([out, into], axis=1)
    rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
    scale = 1 / np.sqrt(rows + rows.mean())
    across = np.where(columns > 0, 1 / np.sqrt(columns + columns[columns > 0].mean()), 0)
    left, values, _ = np.linalg.svd(scale[:, None] * matrix * across, full_matrices=False)
    expected = left[:, :9] * values[:9] * scale[:, None]
    found = embed(Links.of(counts), np.arange(9), 9, np.random.default_rng(0))
    # Equal up to the sign of each direction.
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-10)


def test_the_embedding_separates_hidden_states():
    world = random_romdp(3, 4, 30, seed=0, emission_concentration=20)
    counts = Counts.from_trajectory(simulate(world, "uniform", 50_000, seed=0))
    rng = np.random.default_rng(0)
    points = embed(Links.of(counts), np.arange(30), 3, rng)
    found = k_means(points, np.ones(30), 3, rng, restarts=5)
    assert Partition(found) == Partition(world.labels)


def test_k_means_finds_far_clusters_and_needs_no_more_points_than_groups():
    rng = np.random.default_rng(0)
    points = np.repeat(np.eye(4) * 10, 25, axis=0) + 0.1 * rng.standard_normal((100, 4))
    labels = k_means(points, np.ones(100), 4, rng, restarts=3)
    assert Partition(labels) == Partition(np.repeat(np.arange(4), 25))
    assert len(np.unique(k_means(points[:3], np.ones(3), 10, rng))) <= 3


def test_weights_pull_the_centres():
    points = np.array([[0.0], [1.0], [10.0], [11.0], [30.0]])
    heavy = k_means(points, np.array([1.0, 1.0, 1.0, 1.0, 1e-9]), 2, np.random.default_rng(1), 10)
    assert Partition(heavy[:4]) == Partition([0, 0, 1, 1])
