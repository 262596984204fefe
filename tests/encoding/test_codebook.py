import numpy as np
from encoding_worlds import chain

from romdp.encoding.codebook import Codebook, codes_apart, k_means, lead


def plain_lead(vectors, radius, slack, most):
    """The plain twin of `lead`."""
    points, sizes, codes = [], [], []
    for vector in vectors:
        distances = [((vector - point) ** 2).sum() for point in points]
        best = int(np.argmin(distances)) if points else -1
        if best < 0 or distances[best] > radius * (1 + 1 / sizes[best]) + slack:
            if len(points) == most:
                break
            points.append(vector.copy())
            sizes.append(1.0)
            best = len(points) - 1
        else:
            sizes[best] += 1
            points[best] += (vector - points[best]) / sizes[best]
        codes.append(best)
    return np.array(points), np.array(sizes), np.array(codes)


def test_the_kernel_agrees_with_its_plain_twin():
    vectors = chain(400).vectors
    for most in (3, 50):
        points, sizes, codes, n = lead(vectors, 0.1, 0.05, most)
        twin = plain_lead(vectors, 0.1, 0.05, most)
        np.testing.assert_allclose(points[:n], twin[0])
        np.testing.assert_array_equal(sizes[:n], twin[1])
        np.testing.assert_array_equal(codes[: len(twin[2])], twin[2])


def test_the_nearest_code_is_the_nearest_point():
    rng = np.random.default_rng(0)
    book, vectors = Codebook(rng.standard_normal((7, 3)), np.ones(7)), rng.standard_normal((50, 3))
    codes, distances = book.nearest(vectors)
    squares = ((vectors[:, None] - book.points) ** 2).sum(axis=2)
    np.testing.assert_array_equal(codes, squares.argmin(axis=1))
    np.testing.assert_allclose(distances, squares.min(axis=1), atol=1e-9)


def test_codes_that_are_apart_are_found_however_rare():
    rng = np.random.default_rng(0)
    chances = 0.8 ** np.arange(24)
    states = rng.choice(24, 3000, p=chances / chances.sum())
    vectors = np.eye(24)[states] + 0.1 * rng.standard_normal((3000, 24))
    vectors = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    fragments = k_means(vectors, 100, rng).nearest(vectors)[0]
    found = codes_apart(vectors, rng, [fragments])
    assert found is not None
    matrix, book = found
    codes, _ = book.nearest(vectors @ matrix)
    assert all(len(set(states[codes == code])) == 1 for code in set(codes))


def test_a_cloud_has_no_codes_that_are_apart():
    rng = np.random.default_rng(0)
    assert codes_apart(rng.standard_normal((2000, 4)), rng) is None


def test_a_grown_codebook_knows_one_vector_more():
    book = Codebook(np.zeros((1, 2)), np.ones(1), radius=1.0, slack=0.5)
    far = np.array([[5.0, 5.0]])
    assert book.grows
    assert not book.covers(*book.nearest(far)).any()
    assert book.grown(far[0]).covers(*book.grown(far[0]).nearest(far)).all()
    assert not k_means(np.random.default_rng(0).random((30, 2)), 3, np.random.default_rng(0)).grows
