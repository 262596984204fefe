import numpy as np

from romdp.clustering.spectral.claims import settle
from romdp.clustering.spectral.report import Refusal


class _Test:
    """Symbols below 5 are alike, 8 is contradicted, nothing else is known."""

    def anchor(self, action, symbols):
        return int(symbols[0])

    def alike(self, action, symbols, anchor):
        return symbols < 5

    def contradicted(self, symbols, anchor):
        return symbols == 8


def _claims(*columns, n_symbols=10):
    claims = np.zeros((n_symbols, len(columns)), bool)
    for i, column in enumerate(columns):
        claims[list(column), i] = True
    return claims


def _settle(*columns, trusted=None, test=None):
    flags = np.ones(len(columns), bool) if trusted is None else np.array(trusted)
    return settle(_claims(*columns), flags, np.arange(10), 0, test)


def test_columns_become_groups_of_two_or_more():
    groups, refused = _settle((0, 1, 2), (3,), (), (4, 5))
    assert groups == ((0, 1, 2), (4, 5))
    assert refused == ()


def test_a_conflict_refuses_both_columns():
    groups, refused = _settle((0, 1, 2), (2, 3, 4), (5, 6))
    assert groups == ((5, 6),)
    assert [refusal.symbols for refusal in refused] == [(0, 1, 2), (2, 3, 4)]
    assert all("two columns claim (2,)" in refusal.reason for refusal in refused)


def test_where_groups_are_tested_a_conflict_refuses_the_symbol():
    groups, refused = _settle((0, 1, 2), (2, 3, 4), test=_Test())
    assert groups == ((0, 1), (3, 4))
    assert [refusal.symbols for refusal in refused] == [(2,), (2,)]


def test_columns_that_are_not_trusted_claim_nothing():
    groups, refused = _settle((0, 1), (1, 2), trusted=[True, False])
    assert groups == ((0, 1),)
    assert refused == (Refusal((1, 2), "the eigenvalue is not separated from the next"),)


def test_members_that_fail_are_dropped_with_the_reason():
    groups, refused = _settle((0, 3, 6, 8), test=_Test())
    assert groups == ((0, 3),)
    assert refused == (
        Refusal((8,), "other laws than symbol 0"),
        Refusal((6,), "not yet known to be like symbol 0"),
    )


def test_a_group_of_which_one_is_left_vanishes():
    groups, refused = _settle((0, 6, 8), test=_Test())
    assert groups == ()
    assert len(refused) == 2
