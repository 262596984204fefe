import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from romdp.core.errors import InvalidInputError
from romdp.core.randomness import (
    alias_tables,
    as_uniform,
    generator,
    next_word,
    pick,
    seed_sequence,
    split_word,
    stream,
    xoshiro_state,
)

WORD = 2**64
words = st.integers(0, WORD - 1)


def rotated(word, k):
    return ((word << k) | (word >> (64 - k))) % WORD


def plain_next_word(state):
    """xoshiro256++ in whole numbers of any size, after its authors' description."""
    s0, s1, s2, s3 = state
    word = (rotated((s0 + s3) % WORD, 23) + s0) % WORD
    s2, s3 = s2 ^ s0, s3 ^ s1
    return word, (s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17) % WORD, rotated(s3, 45))


def compiled_next_word(state):
    word, *after = next_word(*(np.uint64(part) for part in state))
    return int(word), tuple(int(part) for part in after)


def law_of(keep, alias):
    """The law that a table draws from, in exact 64-bit arithmetic."""
    size = keep.size
    law = [0] * size
    for column in range(size):
        law[column] += int(keep[column])
        law[alias[column]] += WORD - int(keep[column])
    return np.array([weight / WORD / size for weight in law])


@given(st.tuples(words, words, words, words))
def test_xoshiro_agrees_with_whole_number_arithmetic(state):
    assert compiled_next_word(state) == plain_next_word(state)


def test_xoshiro_stays_on_course():
    plain = compiled = tuple(int(word) for word in xoshiro_state(3))
    for _ in range(1_000):
        (a, plain), (b, compiled) = plain_next_word(plain), compiled_next_word(compiled)
        assert a == b


def test_xoshiro_gives_the_published_numbers():
    """The first outputs from the state 1, 2, 3, 4, as other implementations test them."""
    state = (1, 2, 3, 4)
    drawn = []
    for _ in range(4):
        word, state = compiled_next_word(state)
        drawn.append(word)
    assert drawn == [41943041, 58720359, 3588806011781223, 3591011842654386]


@given(words)
def test_uniform_numbers_have_53_bits(word):
    assert as_uniform(np.uint64(word)) == (word >> 11) / 2**53


def test_uniform_numbers_never_reach_one():
    assert as_uniform(np.uint64(WORD - 1)) < 1.0
    assert as_uniform(np.uint64(0)) == 0.0


@given(words, st.integers(1, 2**32 - 1))
def test_split_word_is_a_128_bit_product(word, size):
    column, rest = split_word(np.uint64(word), np.uint64(size))
    assert (int(column), int(rest)) == divmod(word * size, WORD)


@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-12, 1.0)), min_size=1, max_size=50).filter(sum)
)
def test_alias_tables_hold_exactly_the_law(weights):
    law = np.array(weights) / np.sum(weights)
    keep, alias = alias_tables(law)
    found = law_of(keep, alias)
    assert found == pytest.approx(law, rel=0, abs=2e-15)
    assert (found[law == 0] < 1e-19).all()


@pytest.mark.parametrize("size", [1, 2, 1_000, 100_000])
def test_alias_tables_of_any_size(size):
    law = np.random.default_rng(size).dirichlet(np.full(size, 0.3))
    found = law_of(*alias_tables(law))
    assert found == pytest.approx(law, rel=0, abs=1e-14)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("n_zeros", [1, 7, 10_000])
def test_a_column_of_weight_zero_is_never_drawn(n_zeros):
    rng = np.random.default_rng(n_zeros)
    law = np.concatenate([np.zeros(n_zeros), rng.dirichlet(np.ones(5)), np.zeros(n_zeros)])
    keep, alias = alias_tables(law)
    assert (keep[law == 0] == 0).all()
    assert (law[alias[keep < WORD - 1]] > 0).all()
    for word in (0, WORD - 1, WORD // 2, *rng.integers(0, WORD, 2_000, np.uint64).tolist()):
        assert law[pick(keep, alias, 0, law.size, np.uint64(word))] > 0


def test_alias_tables_take_laws_on_the_last_axis():
    laws = np.random.default_rng(0).dirichlet(np.ones(4), (2, 3))
    keep, alias = alias_tables(laws)
    assert keep.shape == alias.shape == laws.shape
    for index in np.ndindex(2, 3):
        assert law_of(keep[index], alias[index]) == pytest.approx(laws[index], abs=1e-15)
    swapped = np.asfortranarray(laws)
    assert np.array_equal(alias_tables(swapped)[0], keep)


@given(words, st.integers(1, 9), st.integers(0, 5))
def test_pick_agrees_with_its_plain_twin(word, size, first):
    rng = np.random.default_rng(size)
    keep, alias = alias_tables(rng.dirichlet(np.ones(size)))
    padded_keep = np.concatenate([np.zeros(first, np.uint64), keep])
    padded_alias = np.concatenate([np.full(first, -9, np.int32), alias])
    column, rest = divmod(word * size, WORD)
    expected = column if rest < int(keep[column]) else int(alias[column])
    assert pick(padded_keep, padded_alias, first, size, np.uint64(word)) == expected


def test_pick_draws_from_the_law():
    """Chi-square at a fixed seed; a false alarm had a chance of 1e-3 when it was chosen."""
    law = np.array([0.5, 0.0, 0.3, 0.15, 0.04, 0.01])
    keep, alias = alias_tables(law)
    state = tuple(xoshiro_state(11).tolist())
    counts = np.zeros(law.size, np.int64)
    for _ in range(20_000):
        word, state = compiled_next_word(state)
        counts[pick(keep, alias, 0, law.size, np.uint64(word))] += 1
    assert counts[1] == 0
    seen = law > 0
    assert chisquare(counts[seen], 20_000 * law[seen]).pvalue > 1e-3


@pytest.mark.parametrize(
    "seed",
    [-1, 1.0, 1.5, "7", b"7", None, True, np.True_, [], (), [1, -2], [1, 2.0], [[1]], {1}, [True]],
    ids=repr,
)
def test_wrong_seeds_are_errors(seed):
    with pytest.raises(InvalidInputError, match="seed is"):
        seed_sequence(seed)


@pytest.mark.parametrize("seed", [0, 10**40, np.int64(5), np.uint8(5), [1, 2], (3,), range(3)])
def test_a_seed_gives_the_stream_of_numpy(seed):
    drawn, same = (np.random.default_rng(s).random(3) for s in (seed_sequence(seed), seed))
    assert (drawn == same).all()


def test_equal_seeds_however_they_are_written():
    same = [7, np.int32(7), [7], (7,), np.random.SeedSequence(7)]
    assert len({tuple(xoshiro_state(seed)) for seed in same}) == 1


def test_a_seed_sequence_is_left_as_it_was():
    seed = np.random.SeedSequence(5, spawn_key=(2,))
    before = seed.state
    first = stream(seed, 1), generator(seed, 0).random()
    assert seed.state == before
    assert stream(seed, 1).state == first[0].state
    assert stream(seed, 1).spawn_key == (2, 1)
    assert generator(seed, 0).random() == first[1]


def test_streams_differ_by_seed_and_by_key():
    keys = [(), (0,), (1,), (0, 0), (0, 1), (1, 0)]
    states = {tuple(xoshiro_state(seed, *key)) for seed in (0, 1, (0, 1)) for key in keys}
    assert len(states) == 3 * len(keys)
    assert all(any(state) for state in states)


def test_what_one_stream_draws_does_not_shift_another():
    alone = generator(3, 1).random(5)
    first, second = generator(3, 0), generator(3, 1)
    first.random(1_000)
    assert np.array_equal(second.random(5), alone)


def test_nothing_global_is_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    generator(0).random(10)
    xoshiro_state(0)
    assert np.array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_another_process_has_the_same_streams():
    code = "from romdp.core.randomness import *; print(xoshiro_state((4, 2), 1).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(xoshiro_state((4, 2), 1).tolist())
