"""Codes of vectors, and the moments that directions are found from."""

import itertools

import numpy as np
import pytest
from cases import accuracy, chain

import romdp
from romdp.clustering.states import find_states
from romdp.encoding.apart import (
    _drop_fragments,
    _split_wide,
    codes_apart,
)
from romdp.encoding.choosing import Look, _after, _halved, count_moments, reduction
from romdp.encoding.codebook import Codebook, k_means, lead
from romdp.encoding.directions import (
    LinearMap,
    VectorMoments,
    action_directions,
    later_directions,
    mean_and_scale,
    whitening,
)
from romdp.encoding.encoder import Encoder, make_steps
from romdp.worlds import DistractedMazes, DistractedRing


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


def test_the_kernel_agrees_with_its_plain_twin_on_many_codes_of_many_numbers():
    rng = np.random.default_rng(3)
    centers = 3 * rng.standard_normal((150, 40))  # more than a tile of codes, and a stretch
    vectors = centers[rng.integers(150, size=2000)] + rng.standard_normal((2000, 40))
    for most in (64, 65, 800):
        points, sizes, codes, n = lead(vectors, 40.0, 49.0, most)
        twin = plain_lead(vectors, 40.0, 49.0, most)
        assert n == len(twin[0])
        np.testing.assert_allclose(points[:n], twin[0])
        np.testing.assert_array_equal(sizes[:n], twin[1])
        np.testing.assert_array_equal(codes[: len(twin[2])], twin[2])


def test_vectors_of_fragments_go_to_the_nearest_code_that_is_left():
    rng = np.random.default_rng(5)
    centers = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    space = centers[rng.integers(3, size=300)] + rng.standard_normal((300, 2))
    points = np.vstack([centers, centers[:1] + 0.3])  # the last is a fragment of the first
    codes, _ = Codebook(points, np.ones(4)).nearest(space)
    book = Codebook(points, np.bincount(codes).astype(float), 2.0, 11.0)
    rest, found = _drop_fragments(book, codes, space)
    assert rest.n_codes == book.without_fragments().n_codes == 3
    np.testing.assert_array_equal(found, rest.nearest(space)[0])
    np.testing.assert_array_equal(rest.sizes, np.bincount(found))


def test_a_diagonal_map_is_a_product_all_the_same():
    rng = np.random.default_rng(6)
    vectors, scales = rng.standard_normal((9, 4)).astype(np.float32), np.array([2.0, 0.0, 0.3, 1.0])
    for matrix in (np.diag(scales), np.diag(scales)[:, :3], np.diag(scales)[:, [1, 0, 2, 3]]):
        linear = LinearMap(np.arange(4.0), matrix)
        np.testing.assert_array_equal(linear(vectors), (vectors - np.arange(4.0)) @ matrix)


def test_the_nearest_code_is_the_nearest_point():
    rng = np.random.default_rng(0)
    book, vectors = Codebook(rng.standard_normal((7, 3)), np.ones(7)), rng.standard_normal((50, 3))
    codes, distances = book.nearest(vectors)
    squares = ((vectors[:, None] - book.points) ** 2).sum(axis=2)
    np.testing.assert_array_equal(codes, squares.argmin(axis=1))
    np.testing.assert_allclose(distances, squares.min(axis=1), atol=1e-9)


def test_one_vector_is_placed_as_many_are():
    rng = np.random.default_rng(1)
    points, sizes = rng.standard_normal((7, 3)), np.arange(7.0)
    book, vectors = Codebook(points, sizes, 0.5, 0.2), rng.standard_normal((50, 3))
    codes, distances = book.nearest(vectors)
    inside = book.covers(codes, distances)
    assert [book.place(v) for v in vectors] == list(
        zip(codes.tolist(), inside.tolist(), strict=True)
    )
    assert 0 < inside.sum() < 50


def test_vectors_that_repeat_exactly_belong_to_their_codes():
    """Products are rounded, so a vector seems to lie a little apart even from itself."""
    points = np.random.default_rng(0).uniform(0, 300, (400, 50))
    book = Codebook(points, np.full(400, 9.0), radius=1e-27)
    codes, distances = book.nearest(points)
    np.testing.assert_array_equal(codes, np.arange(400))
    assert distances.max() > book.radius
    assert book.covers(codes, distances).all()
    assert all(book.place(point)[1] for point in points)


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
    assert book.n_codes <= len(set(states)) + 1


def test_codes_stay_pure_where_single_vectors_are_hard_to_tell_apart():
    """In 80 dimensions of noise two vectors of one kind are hardly closer than of two kinds."""
    rng = np.random.default_rng(0)
    states = rng.integers(0, 12, 2000)
    vectors = 12 * np.eye(12, 80)[states] + rng.standard_normal((2000, 80))
    fragments = k_means(vectors, 60, rng).nearest(vectors)[0]
    scale = vectors.std(axis=0)
    matrix, book = codes_apart((vectors - vectors.mean(axis=0)) / scale, rng, [fragments])
    codes, _ = book.nearest((vectors - vectors.mean(axis=0)) / scale @ matrix)
    assert book.n_codes == 12
    assert all(len(set(states[codes == code])) == 1 for code in range(12))


def test_a_code_between_two_kinds_is_split():
    rng = np.random.default_rng(0)
    space = np.where(np.arange(60) < 30, 0.0, 8.0)[:, None] + rng.standard_normal((60, 40)) * 0.9
    between = Codebook(space.mean(axis=0)[None], np.array([60.0]), 40.0, 50.0)
    halves = _split_wide(between, *between.nearest(space), space, rng).nearest(space)[0]
    assert len(set(halves[:30])) == len(set(halves[30:])) == 1
    assert halves[0] != halves[-1]


def test_fragments_of_a_code_are_left_out_and_codes_of_few_vectors_kept():
    points = np.array([[0.0, 0.0], [1.2, 0.0], [4.0, 0.0]])
    book = Codebook(points, np.array([50.0, 1.0, 2.0]), radius=1.0, slack=1.0)
    assert book.without_fragments().points.tolist() == [[0, 0], [4, 0]]


def test_vectors_that_are_far_from_all_codes_are_given_codes():
    book = Codebook(np.zeros((1, 2)), np.array([9.0]), radius=1.0, slack=1.0)
    far = np.array([[5.0, 0], [5.2, 0], [0, 5]])
    more = book.extended(far, 10)
    np.testing.assert_allclose(more.points, [[0, 0], [5.1, 0], [0, 5]])
    assert more.sizes.tolist() == [9, 2, 1]
    assert book.extended(far, 1) is book
    assert book.extended(far[:0], 10) is book


def test_a_young_code_becomes_the_mean_of_its_vectors():
    book = Codebook(np.zeros((1, 2)), np.ones(1), radius=1.0, slack=1.0)
    assert book.joined(0, np.array([1.0, 0])).points.tolist() == [[0.5, 0]]
    assert book.points.tolist() == [[0, 0]]


def test_a_cloud_has_no_codes_that_are_apart():
    rng = np.random.default_rng(0)
    assert codes_apart(rng.standard_normal((2000, 4)), rng) is None


def test_a_grown_codebook_knows_one_vector_more():
    book = Codebook(np.zeros((1, 2)), np.ones(1), radius=1.0, slack=0.5)
    far = np.array([[5.0, 5.0]])
    assert not book.covers(*book.nearest(far)).any()
    assert book.grown(far[0]).covers(*book.grown(far[0]).nearest(far)).all()


def moments_of(seen, seed=0):
    return count_moments(seen.steps, None, np.random.default_rng(seed))


def test_moments_of_two_blocks_are_those_of_both():
    seen = chain(600, n_noise=2)
    whole, halves = VectorMoments(6, 2), VectorMoments(6, 2)
    known, ended = np.ones(599, bool), np.zeros(599, bool)
    known[10], ended[10] = False, True
    before, after = seen.vectors[:-1], seen.vectors[1:]
    for moments, cuts in ((whole, [0, 599]), (halves, [0, 250, 599])):
        for low, high in itertools.pairwise(cuts):
            rows = slice(low, high)
            moments.add(
                *(before[rows], seen.actions[:-1][rows], seen.rewards[:-1][rows], after[rows]),
                *(known[rows], ended[rows], np.random.default_rng(0)),
            )
    assert whole.count == halves.count
    np.testing.assert_array_equal(whole.steps[0], halves.steps[0])
    for one, two in zip(mean_and_scale(whole), mean_and_scale(halves), strict=True):
        np.testing.assert_allclose(one, two)
    np.testing.assert_allclose(
        np.abs(whitening(whole).matrix), np.abs(whitening(halves).matrix), rtol=1e-6
    )


def test_whitened_vectors_have_covariance_one():
    seen = chain(5000, n_noise=3, rotate=True)
    white = whitening(moments_of(seen))(seen.vectors)
    covariance = np.cov(white.T)
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
    assert (np.diag(covariance) <= 1.001).all()  # the ridge takes a little off small ones
    assert np.diag(covariance)[0] > 0.99


def test_a_constant_column_is_dropped_by_whitening():
    seen = chain(500)
    seen.vectors = np.hstack([seen.vectors, np.full((500, 1), 7.0)])
    assert np.isfinite(whitening(moments_of(seen)).matrix).all()


def test_directions_are_those_that_actions_move_and_not_the_noise():
    seen = chain(8000, n_noise=6, rotate=True)
    found = action_directions(moments_of(seen), whitening(moments_of(seen)))
    assert 2 <= found.rank <= 4
    shown = found.map(seen.vectors)
    centered = np.eye(4)[seen.states] - np.eye(4)[seen.states].mean(axis=0)
    fit, *_ = np.linalg.lstsq(centered, shown, rcond=None)
    explained = 1 - ((shown - centered @ fit) ** 2).sum() / (shown**2).sum()
    assert explained > 0.7  # the noise has no part in them


def test_where_actions_do_nothing_there_is_no_direction():
    rng = np.random.default_rng(5)  # a false alarm has a chance of a few per cent
    seen = chain(4000, n_noise=4)
    seen.actions, seen.rewards = rng.integers(2, size=4000), np.zeros(4000)
    assert action_directions(moments_of(seen), whitening(moments_of(seen))).rank == 0


def belts(n, seed):
    """Six belts of six places; at the end of mine, and nowhere else, the action matters.

    Episodes are short, so that belts are not in step with each other.
    """
    rng = np.random.default_rng(seed)
    places, actions = rng.integers(6, size=(n, 6)), rng.integers(2, size=(n, 6))
    for t in np.flatnonzero(np.arange(n) % 20):
        places[t] = np.where(places[t - 1] == 5, actions[t - 1], places[t - 1] + 1)
    vectors = np.eye(6)[places].reshape(n, 36)
    return make_steps(vectors, actions[:, 0], None, np.full(n // 20, 20)), places[:, 0]


def test_codes_of_two_clouds_are_halved_where_these_lead_elsewhere_and_only_there():
    """Three places in turn; the pictures of two of them have one code."""
    rng, places = np.random.default_rng(3), np.arange(900) % 3
    vectors = np.array([-0.5, 0.5, 5.0])[places][:, None] + 0.1 * rng.standard_normal((900, 1))
    steps = make_steps(vectors, np.zeros(900, int))
    plain = LinearMap(np.zeros(1), np.eye(1))
    mixed = Codebook(np.array([[0.0], [5.0]]), np.array([600.0, 300.0]))
    halved = _halved(Look.at(steps, "plain", plain, mixed), steps, rng)
    assert sorted(halved.points.ravel().round(1).tolist()) == [-0.5, 0.5, 5.0]
    assert sorted(halved.sizes.tolist()) == [300.0, 300.0, 300.0]
    steps = make_steps(rng.permutation(vectors), np.zeros(900, int))  # lead anywhere
    assert _halved(Look.at(steps, "plain", plain, mixed), steps, rng).n_codes == 2


def test_what_matters_only_some_steps_later_is_looked_at_too():
    steps, places = belts(4000, seed=1)
    actions = Encoder("actions")
    decoder = find_states(steps, romdp.Likelihood(), np.random.default_rng(1), actions)
    assert decoder.n_states == 6
    assert decoder.encoding.rank > 2  # what an action moves at once has two directions
    assert accuracy(decoder.predict(steps.vectors), places) == 1.0


def test_later_directions_tell_what_a_state_does_not_and_nothing_else():
    steps, places = belts(4000, seed=2)
    white = whitening(count_moments(steps, None, np.random.default_rng(0)))
    rows = np.flatnonzero(steps.next_observations >= 0)

    def look(states):
        ways, rng = 2 * states + steps.actions, np.random.default_rng(0)
        space = white(steps.vectors)
        return later_directions(white, space, rows, rows + 1, states, ways, rng)

    assert look(places).rank == 0  # these are Markov
    found = look(np.array([0, 1, 2, 2, 2, 3])[places])
    assert 1 <= found.rank <= 3
    mine, others = np.split(found.map(np.eye(36)), [6])
    assert np.ptp(mine[2:5], axis=0).max() > 10 * np.ptp(others[:6], axis=0).max()


def test_what_was_met_once_or_twice_does_not_hide_the_other_directions():
    """Dealt out at random, the actions of a state met twice may look like a strong effect."""
    env = DistractedRing(20, n_bits=256, world_seed=2, reveal_hidden_state=True)
    rng = np.random.default_rng(2)
    (shown, info), vectors, actions, states = env.reset(seed=2), [], [], []
    for _ in range(6000):
        wise = rng.random() < 0.3
        action = int(env.right[info["hidden_state"]] if wise else rng.integers(2))
        vectors.append(shown)
        actions.append(action)
        states.append(info["hidden_state"])
        shown, *_, info = env.step(action)
    visits = np.bincount(states)
    assert (visits[-3:] <= 3).all()
    steps = make_steps(np.array(vectors), actions, None)
    for seed in range(6):
        moments = count_moments(steps, None, np.random.default_rng(seed))
        found = action_directions(moments, whitening(moments))
        assert found.rank >= (visits > 3).sum() - 1


def test_columns_that_never_vary_do_not_make_vectors_long():
    rng = np.random.default_rng(0)
    vectors = np.full((300, 1500), 7.0, np.float32)
    vectors[:, 100:400] = rng.standard_normal((300, 300))
    steps = make_steps(vectors, rng.integers(2, size=300))
    short = reduction(steps, rng)
    np.testing.assert_array_equal(short(vectors), vectors[:, 100:400])
    assert reduction(make_steps(vectors[:, :1024], np.zeros(300, int)), rng) is None
    other = rng.standard_normal((300, 1500)).astype(np.float32)  # all of them vary
    parts = reduction(make_steps(other, np.zeros(300, int)), rng).matrix
    assert parts.shape == (1500, 256)
    np.testing.assert_allclose(parts.T @ parts, np.eye(256), atol=1e-9)
    beyond = _after(short, LinearMap(np.arange(300.0), 2.0 * np.eye(300)))
    np.testing.assert_allclose(beyond(vectors), 2.0 * (vectors[:, 100:400] - np.arange(300.0)))


@pytest.mark.slow
def test_the_cell_in_the_maze_that_obeys_is_found_among_nine():
    """68 cells behind 1,089 bits of which eight ninths are distractions, in 5,000 random steps."""
    env = DistractedMazes(world_seed=0, reveal_hidden_state=True)
    rng = np.random.default_rng(0)
    (shown, info), vectors, cells = env.reset(seed=0), np.zeros((5_000, 1_089), np.float32), []
    actions = rng.integers(4, size=5_000)
    for t, action in enumerate(actions):
        vectors[t], _ = shown, cells.append(info["hidden_state"])
        shown, _, _, _, info = env.step(action)
    decoder = find_states(make_steps(vectors, actions), romdp.Likelihood(), rng)
    assert abs(decoder.n_states - len(set(cells))) <= 2
    states = np.repeat(np.unique(cells), 5)
    assert accuracy(decoder.predict(env.show(states, seed=1)), states) > 0.97


@pytest.mark.parametrize(("n_outliers", "found"), [(3, True), (20, False)])
def test_codes_of_single_vectors_are_outliers_where_they_are_many(n_outliers, found):
    """Of 2,000 vectors 20 are less than three in a hundred, but more codes than the 12 kinds."""
    rng = np.random.default_rng(0)
    states = rng.integers(0, 12, 2000)
    vectors = 12 * np.eye(12, 80)[states] + rng.standard_normal((2000, 80))
    for number in range(n_outliers):
        vectors[100 * number, 12 + number] += 60.0
    fragments = k_means(vectors, 60, rng).nearest(vectors)[0]
    codes = codes_apart((vectors - vectors.mean(axis=0)) / vectors.std(axis=0), rng, [fragments])
    assert (codes is not None) == found
    if found:
        assert codes[1].n_codes == 12 + n_outliers
