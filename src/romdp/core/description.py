"""A frozen object as plain data: for fingerprints, checkpoints and experiment files."""

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np


def describe(value: Any) -> Any:
    """Turn a value into JSON-able data that is equal if and only if the value is.

    A dataclass becomes its name and fields, an array (and whatever has ``labels`` or
    ``transition`` arrays) its shape and a hash of its content; other objects their ``repr``, or
    their attributes where the ``repr`` would only tell where in memory they are.

    Examples
    --------
    >>> from romdp.planning.confidence import Hoeffding
    >>> describe(Hoeffding(scale=2.0))
    {'type': 'Hoeffding', 'scale': 2.0, 'constants': 'paper', 'reward_states': 'groups'}
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return {"shape": list(value.shape), "sha256": _digest(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"type": type(value).__name__, **fields}
    if isinstance(value, dict):
        return {str(name): describe(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [describe(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(describe(item) for item in value)
    parts = getattr(value, "__describe__", None)
    if parts is not None:
        return {"type": type(value).__name__, **describe(parts())}
    writes: object = type(value).__repr__
    if writes is object.__repr__ and hasattr(value, "__dict__"):
        return {"type": type(value).__name__, **describe(vars(value))}
    return repr(value)


def fingerprint(value: Any) -> str:
    """Return a short hash of `describe`: two values that differ have different ones."""
    text = json.dumps(describe(value), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _digest(array: np.ndarray[Any, Any]) -> str:
    content = np.ascontiguousarray(array)
    return hashlib.sha256(str(content.dtype).encode() + content.tobytes()).hexdigest()[:16]
