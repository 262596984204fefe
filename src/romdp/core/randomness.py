"""Seeds, streams, and the compiled generator that the simulator draws from.

A seed is spread into independent streams by stateless spawn keys, so that what one stream
draws never shifts another. Kernels use xoshiro256++ (Blackman and Vigna 2021) on four words of
state that the caller owns, and alias tables (Walker 1977, built as by Vose 1991), which draw
from any discrete law in constant time.
"""

from collections.abc import Sequence
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from romdp.core.arrays import Floats
from romdp.core.compiled import kernel
from romdp.core.errors import InvalidInputError
from romdp.core.validation import shown

Seed = int | Sequence[int] | np.random.SeedSequence
"""What every ``seed`` argument takes."""


def seed_sequence(seed: Seed, name: str = "seed") -> np.random.SeedSequence:
    """Check a seed, which the caller calls ``name``, and wrap it.

    Examples
    --------
    >>> seed_sequence(7).entropy
    7
    """
    if isinstance(seed, np.random.SeedSequence):
        return seed
    words = seed if isinstance(seed, Sequence) and not isinstance(seed, str | bytes) else [seed]
    for word in words:
        if not isinstance(word, Integral) or isinstance(word, bool) or word < 0:
            raise InvalidInputError(
                f"seed is {shown(seed)}; pass a whole number >= 0, a sequence of them, "
                "or a numpy.random.SeedSequence"
            )
    if not words:
        raise InvalidInputError("seed is an empty sequence; pass at least one whole number")
    entropy = [int(word) for word in words]
    return np.random.SeedSequence(entropy[0] if len(entropy) == 1 else entropy)


def stream(seed: Seed, *key: int) -> np.random.SeedSequence:
    """Derive the stream named by ``key`` from a seed, the same one at every call."""
    parent = seed_sequence(seed)
    return np.random.SeedSequence(
        parent.entropy, spawn_key=(*parent.spawn_key, *key), pool_size=parent.pool_size
    )


def generator(seed: Seed, *key: int) -> np.random.Generator:
    """Make a NumPy generator on the stream named by ``key``."""
    return np.random.Generator(np.random.PCG64(stream(seed, *key)))


def xoshiro_state(seed: Seed, *key: int) -> NDArray[np.uint64]:
    """Make the four words of state for the compiled generator on the stream named by ``key``."""
    return stream(seed, *key).generate_state(4, np.uint64).astype(np.uint64)


@kernel
def next_word(
    s0: np.uint64, s1: np.uint64, s2: np.uint64, s3: np.uint64
) -> tuple[np.uint64, np.uint64, np.uint64, np.uint64, np.uint64]:
    """Draw 64 random bits with xoshiro256++; returns them and the new state.

    The state is passed by value so that a loop keeps it in registers.
    """
    total = s0 + s3
    word = ((total << np.uint64(23)) | (total >> np.uint64(41))) + s0
    shifted = s1 << np.uint64(17)
    s2 ^= s0
    s3 ^= s1
    s1 ^= s2
    s0 ^= s3
    s2 ^= shifted
    s3 = (s3 << np.uint64(45)) | (s3 >> np.uint64(19))
    return word, s0, s1, s2, s3


@kernel
def as_uniform(word: np.uint64) -> float:
    """Turn 64 random bits into a float in [0, 1) with 53 bits."""
    return float(word >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@kernel
def split_word(word: np.uint64, size: np.uint64) -> tuple[np.int64, np.uint64]:
    """Turn 64 random bits into a column below ``size`` (< 2^32) and the 64 bits that remain.

    ``word * size`` is a 128-bit product: its high half is uniform on the columns (up to
    2^-64 * size) and its low half is the position inside the column.
    """
    low = (word & np.uint64(0xFFFFFFFF)) * size
    high = (word >> np.uint64(32)) * size + (low >> np.uint64(32))
    return np.int64(high >> np.uint64(32)), word * size


@kernel
def pick(
    keep: NDArray[np.uint64], alias: NDArray[np.int32], first: int, size: int, word: np.uint64
) -> int:
    """Draw from the law whose flat alias table has ``size`` columns from ``first`` on.

    Written without a branch: which way it would go is random, so it could not be predicted.
    """
    column, rest = split_word(word, np.uint64(size))
    slot = first + column
    drawn: int = column + (alias[slot] - column) * np.int64(rest >= keep[slot])
    return drawn


@kernel
def _fill_alias(laws: Floats, keep: NDArray[np.uint64], alias: NDArray[np.int32]) -> None:
    """Build the table of each row: stay in column i if the remaining bits are below keep[i]."""
    n_laws, size = laws.shape
    scaled = np.empty(size)
    small = np.empty(size, np.int32)
    large = np.empty(size, np.int32)
    for row in range(n_laws):
        total = laws[row].sum()
        n_small = 0
        n_large = 0
        for i in range(size):
            scaled[i] = laws[row, i] / total * size
            alias[row, i] = i
            keep[row, i] = np.uint64(0xFFFFFFFFFFFFFFFF)
            if scaled[i] < 1.0:
                small[n_small] = i
                n_small += 1
            else:
                large[n_large] = i
                n_large += 1
        while n_small > 0 and n_large > 0:
            n_small -= 1
            poor = small[n_small]
            rich = large[n_large - 1]
            keep[row, poor] = np.uint64(scaled[poor] * 18446744073709551616.0)
            alias[row, poor] = rich
            scaled[rich] -= 1.0 - scaled[poor]
            if scaled[rich] < 1.0:
                n_large -= 1
                small[n_small] = rich
                n_small += 1


def alias_tables(laws: Floats) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Build alias tables for laws on the last axis; both results have the shape of ``laws``.

    Cost is linear in the number of entries. A column of weight zero is never drawn.
    """
    rows = np.ascontiguousarray(laws, np.float64).reshape(-1, laws.shape[-1])
    keep = np.empty(rows.shape, np.uint64)
    alias = np.empty(rows.shape, np.int32)
    _fill_alias(rows, keep, alias)
    return keep.reshape(laws.shape), alias.reshape(laws.shape)
