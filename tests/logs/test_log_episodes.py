import numpy as np

from romdp.logs.reading.episodes import Episodes


def test_numbers_are_those_of_a_dictionary():
    rng = np.random.default_rng(0)
    episodes, plain = Episodes(), {}
    for _ in range(20):
        digests = rng.integers(0, 5000, 700) * 2**40  # their low bits are all the same
        found = episodes.number(digests)
        expected = [plain.setdefault(int(d), len(plain)) for d in digests]
        np.testing.assert_array_equal(found, expected)
    assert len(episodes) == len(plain)
    np.testing.assert_array_equal(episodes.digests, list(plain))


def test_open_rows_survive_growth():
    episodes = Episodes()
    (number,) = episodes.number(np.array([7]))
    episodes.last[number], episodes.first[number] = 42, 3
    episodes.number(np.arange(100, 100_000))
    assert (episodes.last[number], episodes.first[number]) == (42, 3)
    assert (episodes.last[1 : len(episodes)] == -1).all()
