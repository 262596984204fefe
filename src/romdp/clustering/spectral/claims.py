"""From the entries of V_2 that are non-zero with high probability to groups of symbols.

Each column claims symbols (``eq:estimated.cluster3``). Columns have no symbol in common, so one
that two of them claim is a conflict; and what a column claims must stand up to the counts.
"""

import numpy as np
from numpy.typing import NDArray

from romdp.clustering.homogeneity import Homogeneity
from romdp.clustering.spectral.report import Group, Refusal

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def settle(
    claims: Bools, trusted: Bools, symbols: Ints, action: int, test: Homogeneity | None
) -> tuple[tuple[Group, ...], tuple[Refusal, ...]]:
    """Decide which claims become groups.

    Where groups are tested, a symbol in conflict is refused and the rest of both columns may
    still prove itself; where they are not, neither column is believed.

    Parameters
    ----------
    claims : ndarray of bool, shape (n_symbols, n_columns)
        Which symbol each column claims.
    trusted : ndarray of bool, shape (n_columns,)
        Which columns may claim anything at all.
    symbols : ndarray of int64, shape (n_symbols,)
        The symbols behind the rows.
    action : int
        The action in whose moments the columns were found.
    test : Homogeneity, optional
        What a group must pass.

    Returns
    -------
    groups, refused
        Groups of two symbols or more, and what was refused, with the reason.

    Examples
    --------
    >>> claims = np.array([[True, False], [True, False], [False, True], [False, True]])
    >>> settle(claims, np.array([True, False]), np.array([4, 6, 7, 9]), 0, None)[0]
    ((4, 6),)
    """
    groups: list[Group] = []
    refused: list[Refusal] = []
    shared = claims[:, trusted].sum(axis=1) > 1
    for column in np.flatnonzero(claims.sum(axis=0) >= 2):
        claimed = claims[:, column]
        if not trusted[column]:
            reason = "the eigenvalue is not separated from the next"
            refused.append(Refusal(_group(symbols[claimed]), reason))
            continue
        conflict = claimed & shared
        if conflict.any():
            reason = f"two columns claim {_group(symbols[conflict])}"
            contested = claimed if test is None else conflict
            refused.append(Refusal(_group(symbols[contested]), reason))
            claimed = claimed & ~contested
        members = symbols[claimed]
        if test is not None and len(members) > 1:
            members, dropped = _tested(test, action, members)
            refused += dropped
        if len(members) > 1:
            groups.append(_group(members))
    return tuple(groups), tuple(refused)


def _tested(test: Homogeneity, action: int, members: Ints) -> tuple[Ints, list[Refusal]]:
    """Keep the members that are known to be like the one seen most often."""
    anchor = test.anchor(action, members)
    others = members[members != anchor]
    contradicted = test.contradicted(others, anchor)
    alike = test.alike(action, others, anchor)
    refused = [
        Refusal(_group(others[failed]), reason)
        for failed, reason in (
            (contradicted, f"other laws than symbol {anchor}"),
            (~contradicted & ~alike, f"not yet known to be like symbol {anchor}"),
        )
        if failed.any()
    ]
    return np.sort(np.append(others[alike & ~contradicted], anchor)), refused


def _group(symbols: Ints) -> Group:
    return tuple(int(symbol) for symbol in symbols)
