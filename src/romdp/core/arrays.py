"""The arrays that everything is made of, by the names that signatures use."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
"""Whole numbers."""

Floats: TypeAlias = NDArray[np.float64]
"""Real numbers."""

Bools: TypeAlias = NDArray[np.bool_]
"""Flags."""
