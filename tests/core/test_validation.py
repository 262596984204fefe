"""Checks of arguments and of stored content: what is refused, and in which words."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from romdp.core.errors import InvalidInputError, UnknownNameError
from romdp.core.validation import (
    choice,
    divisors,
    entry,
    first_index,
    freeze,
    laws,
    real_array,
    real_number,
    refuse,
    whole_array,
    whole_number,
)


@pytest.mark.parametrize("value", [5, 5.0, 1e6, np.int8(3), np.float32(2), Fraction(4, 2)])
def test_whole_numbers(value):
    number = whole_number(value, "n")
    assert (number, type(number)) == (value, int)


@pytest.mark.parametrize(
    "value",
    [1.5, np.nan, np.inf, "3", None, True, np.True_, 1j, [1], np.array([1]), b"1"],
    ids=repr,
)
def test_what_is_no_whole_number(value):
    with pytest.raises(InvalidInputError, match=r"^steps is .*; pass a whole number$"):
        whole_number(value, "steps")


@pytest.mark.parametrize(
    ("value", "low", "high", "message"),
    [
        (-1, 0, None, "n is -1; pass a whole number >= 0"),
        (0, 1, None, "n is 0; pass a whole number >= 1"),
        (7, 1, 6, "n is 7; pass a whole number from 1 to 6"),
    ],
)
def test_whole_numbers_outside_their_range(value, low, high, message):
    with pytest.raises(InvalidInputError) as caught:
        whole_number(value, "n", low, high)
    assert str(caught.value) == message


def test_whole_number_takes_its_ends():
    assert [whole_number(value, "n", 2, 4) for value in (2, 4)] == [2, 4]


@pytest.mark.parametrize("value", ["1", None, True, 1j, [0.5], np.array(0.5)], ids=repr)
def test_what_is_no_number(value):
    with pytest.raises(InvalidInputError, match=r"^delta is .*; pass a number$"):
        real_number(value, "delta")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 10**400, -(10**400)])
def test_numbers_that_are_not_finite(value):
    with pytest.raises(InvalidInputError, match=r"^delta is .* a finite number"):
        real_number(value, "delta")


def test_real_number_and_its_ends():
    assert real_number(np.float32(0.5), "d", 0, 1) == 0.5
    assert real_number(0, "d", 0, 1) == 0.0
    assert type(real_number(1, "d")) is float
    for value, options, asked in [
        (0, {"open_low": True}, "above 0 and at most 1"),
        (1, {"open_high": True}, "at least 0 and below 1"),
    ]:
        assert real_number(value, "d", 0, 1) == value
        with pytest.raises(InvalidInputError, match=f"d is {value}; pass a finite number {asked}"):
            real_number(value, "d", 0, 1, **options)
    with pytest.raises(InvalidInputError) as caught:
        real_number(2, "d", 0, 1, open_low=True)
    assert str(caught.value) == "d is 2; pass a finite number above 0 and at most 1"


def test_choice():
    assert choice("beta", "law", ["beta", "uniform"]) == "beta"
    with pytest.raises(UnknownNameError, match="unknown law 'betta': did you mean 'beta'"):
        choice("betta", "law", ["beta", "uniform"])
    with pytest.raises(InvalidInputError, match="law is 3; choose from beta, uniform"):
        choice(3, "law", ["uniform", "beta"])


def test_entry_and_first_index():
    mask = np.zeros((2, 3), bool)
    mask[1, 1:] = True
    assert first_index(mask) == (1, 1)
    assert entry("reward", first_index(mask)) == "reward[1, 1]"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[1.0], [1.0, 2.0]], "p is not an array: it is not rectangular, rows differ in length"),
        ("hello", "p holds <U5 entries; pass an array of real numbers"),
        ([["a", "b"]], "p holds <U1 entries"),
        (None, "p holds object entries"),
        ([[None, 1.0]], "p holds object entries"),
        ([[True, False]], "p holds bool entries"),
        ([[1j, 0]], "p holds complex128 entries"),
        ([[10**400, 0]], "p holds object entries"),
        ([["2024-01-01"]], "p holds <U10 entries"),
        ({1: 2}, "p holds object entries"),
        (0.5, r"p has shape \(\); it must be \(n, 2\)"),
        ([0.5, 0.5], r"p has shape \(2,\); it must be \(n, 2\)"),
        ([[0.5, 0.5, 0.5]], r"p has shape \(1, 3\); it must be \(n, 2\)"),
        (np.empty((0, 2)), r"p has shape \(0, 2\); no axis may be empty"),
        ([[0.5, np.nan]], r"p\[0, 1\] is nan; every entry must be a finite number"),
        ([[0.5, 0.5], [-np.inf, 1]], r"p\[1, 0\] is -inf"),
        (np.full((1, 2), np.longdouble("1e400")), r"p\[0, 0\] is inf"),
    ],
)
def test_bad_real_arrays(value, message):
    with pytest.raises(InvalidInputError, match=message):
        real_array(value, "p", ("n", 2))


def test_axes_of_one_name_must_agree():
    with pytest.raises(InvalidInputError, match=r"p has shape \(2, 3\); it must be \(n, n\)"):
        real_array(np.ones((2, 3)), "p", ("n", "n"))


@pytest.mark.parametrize("dtype", [np.int8, np.uint64, np.float16, np.float32, np.float64])
def test_real_arrays_are_contiguous_copies(dtype):
    given_array = np.asfortranarray(np.ones((2, 3), dtype))
    array = real_array(given_array, "p", ("n", "m"))
    assert array.dtype == np.float64
    assert array.flags.c_contiguous  # kernels are compiled for one layout
    array[0, 0] = 5
    assert given_array[0, 0] == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([0.0, 1.0], "labels holds float64 entries; pass whole numbers"),
        ([True, False], "labels holds bool entries"),
        (["a", "b"], "labels holds <U1 entries"),
        ([0, [1]], "labels is not an array"),
        ([0, 3], r"labels\[1\] is 3; entries must lie from 0 to 2"),
        ([-1, 3], r"labels\[0\] is -1"),
        (np.array([0, 2**64 - 1], np.uint64), r"labels\[1\] is 18446744073709551615"),
        ([0, 2**70], "labels holds object entries"),
        ([[0, 1]], r"labels has shape \(1, 2\); it must be \(n,\)"),
        ([], r"labels has shape \(0,\); no axis may be empty"),
    ],
)
def test_bad_whole_arrays(value, message):
    with pytest.raises(InvalidInputError, match=message):
        whole_array(value, "labels", ("n",), 0, 2)


def test_whole_arrays_are_copies_of_int64():
    given_array = np.array([0, 2], np.uint8)
    array = whole_array(given_array, "labels", ("n",), 0, 2)
    assert array.dtype == np.int64
    array[0] = 1
    assert given_array[0] == 0
    assert whole_array([], "labels", (0,), 0, 2).dtype == np.int64


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([[0.5, 0.4]], r"p\[0, :\] sums to 0.9; the last axis is the outcome and must sum to 1"),
        ([[1.0, 0.0], [1.5, -0.5]], r"p\[1, 1\] is -0.5; probabilities must not be negative"),
        ([[1.0, 0.0], [0.5, 0.5 + 2e-8]], r"p\[1, :\] sums to 1.00000002"),
        ([[0.0, 0.0]], r"p\[0, :\] sums to 0;"),
        ([[1e308, 1e308]], r"p\[0, :\] sums to inf"),
    ],
)
def test_bad_laws(value, message):
    with pytest.raises(InvalidInputError, match=message):
        laws(np.array(value), "p")


def test_sums_a_little_off_are_made_exact():
    law = laws(np.array([[0.5, 0.5 + 5e-9], [0.25, 0.75]]), "p")
    assert law.sum(axis=-1) == pytest.approx([1.0, 1.0], abs=1e-15)
    assert law[1].tolist() == [0.25, 0.75]


@given(
    hnp.arrays(
        np.float64,
        st.tuples(st.integers(1, 4), st.integers(1, 40)),
        elements=st.floats(0, 1, allow_subnormal=False),
    ),
    st.floats(-9e-9, 9e-9),
)
def test_laws_change_nothing_the_second_time(weights, off):
    weights[:, 0] += 0.1
    given_laws = weights / weights.sum(axis=-1, keepdims=True)
    kept = laws(given_laws, "p")
    assert kept.tobytes() == given_laws.tobytes()
    exact = laws(given_laws * (1 + off), "p")
    assert laws(exact, "p").tobytes() == exact.tobytes()
    assert exact == pytest.approx(given_laws, rel=1e-7)


def test_long_laws_change_nothing_the_second_time():
    rng = np.random.default_rng(0)
    for _ in range(20):
        exact = laws((law := rng.random(100_000)) / law.sum() * (1 + 1e-9), "p")
        for view in (exact, exact[::-1], np.asfortranarray(np.stack([exact, exact]))[0]):
            assert laws(view, "p").tobytes() == view.tobytes()


def test_divisors_are_one_within_rounding():
    eps = np.finfo(float).eps
    sums = np.array([1.0, 1 + 16 * eps, 1 - 16 * eps, 1 + 17 * eps, 0.5])
    assert divisors(sums, 3).tolist() == [1.0, 1.0, 1.0, 1 + 17 * eps, 0.5]
    assert divisors(sums, np.array([3, 3, 3, 100, 3])).tolist() == [1.0, 1.0, 1.0, 1.0, 0.5]


def test_negative_zeros_are_taken_out():
    assert laws(np.array([-0.0, 1.0]), "p").tobytes() == np.array([0.0, 1.0]).tobytes()


def test_freeze():
    array = freeze(np.zeros(3))
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1


@pytest.mark.parametrize("kind", [int, float])
def test_the_first_bad_entry_is_named(kind):
    array = np.array([[0, 1], [-3, -4]], kind)
    refuse(array < -9, "visits", array, "anything")
    with pytest.raises(InvalidInputError, match=r"visits\[1, 0\] is -3; no debts"):
        refuse(array < 0, "visits", array, "no debts")
