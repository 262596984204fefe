import math
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from romdp.core.errors import InvalidInputError
from romdp.theory.magnitude import Magnitude

numbers = st.floats(1e-100, 1e100)


@given(numbers, numbers, st.floats(-2, 2))
def test_arithmetic_is_that_of_plain_numbers(a, b, exponent):
    m, n = Magnitude.of(a), Magnitude.of(b)
    assert float(m * n) == pytest.approx(a * b, rel=1e-10)
    assert float(m * b) == float(b * m) == float(m * n)
    assert float(m / n) == pytest.approx(a / b, rel=1e-10)
    assert float(a / n) == pytest.approx(a / b, rel=1e-10)
    assert float(m + n) == float(m + b) == pytest.approx(a + b, rel=1e-10)
    assert float(m**exponent) == pytest.approx(a**exponent, rel=1e-10)
    assert float(m.sqrt()) == pytest.approx(math.sqrt(a), rel=1e-10)
    assert (m < n) == (m.log < n.log)


@given(st.floats(1, 1e6), st.floats(1, 1e6))
def test_minus_stops_at_zero(a, b):
    assert float(Magnitude.of(a).minus(b)) == pytest.approx(max(0.0, a - b), abs=1e-8 * a)


def test_what_is_large_is_not_infinite():
    large = Magnitude.of(1e300) ** 3
    assert large.overflows
    assert not large.is_infinite
    assert float(large) == math.inf
    assert repr(large) == "overflow (> 1e308): 10^900.0"
    assert large.to_json() == "overflow (> 1e308)"
    assert float(large / (Magnitude.of(1e290) ** 3)) == pytest.approx(1e30, rel=1e-9)


def test_the_largest_float_is_not_too_large():
    largest = Magnitude.of(sys.float_info.max)
    assert not largest.overflows
    assert float(largest) == pytest.approx(sys.float_info.max, rel=1e-10)


def test_infinity_and_zero():
    infinite, zero = Magnitude.of(math.inf), Magnitude.of(0)
    assert infinite.is_infinite
    assert not infinite.overflows
    assert infinite.to_json() == repr(infinite) == "infinite"
    assert 1 / zero == infinite == infinite + infinite == infinite + 1 == infinite * 2
    assert zero * math.inf == infinite * 0 == zero + 0 == 1 / infinite == zero
    assert infinite / infinite == zero
    assert float(zero) == 0.0
    assert infinite.minus(5) == infinite
    assert infinite.minus(infinite) == zero
    assert Magnitude.of(5).minus(0) == Magnitude.of(5)
    assert max(zero, infinite, Magnitude.of(1)) == infinite


@pytest.mark.parametrize("value", [-1.0, math.nan])
def test_refuses_what_has_no_magnitude(value):
    with pytest.raises(InvalidInputError, match="number >= 0"):
        Magnitude.of(value)
