"""Damage for stored files: random at the level of bytes, aimed at the level of their fields."""

import hashlib
import io
import json
import random
import zipfile

import numpy as np

STRANGE = (
    None,
    True,
    -1,
    0,
    2**63,
    10**400,
    0.5,
    -1e300,
    1e309,
    "",
    "x",
    "\0",
    [],
    [[]],
    {},
    {"a": 1},
)


def damage_bytes(content, rng):
    """Return the content with one thing wrong, as disks, copies and editors make it."""
    if not content:
        return b"\0"
    at = rng.randrange(len(content))
    damaged = bytearray(content)
    match rng.randrange(7):
        case 0 | 1:
            damaged[at] ^= 1 << rng.randrange(8)
        case 2:
            del damaged[at:]
        case 3:
            del damaged[at : at + rng.randrange(1, 50)]
        case 4:
            damaged[at:at] = rng.randbytes(rng.randrange(1, 50))
        case 5:
            damaged[at : at + 512] = bytes(len(damaged[at : at + 512]))
        case 6:
            there = rng.randrange(len(content))
            damaged[at : at + 64] = content[there : there + 64]
    return bytes(damaged)


def damage_json(value, rng):
    """Return JSON with a field dropped or changed somewhere inside."""
    places = list(_places(value))
    *path, last = rng.choice(places)
    copy = json.loads(json.dumps(value))
    inside = copy
    for key in path:
        inside = inside[key]
    if rng.random() < 0.3:
        del inside[last]
    elif rng.random() < 0.1 and isinstance(inside, dict):
        inside["a field of tomorrow"] = 1
    else:
        inside[last] = rng.choice(STRANGE)
    return copy


def _places(value):
    """List the path to every field inside a JSON value."""
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, item in items:
        yield (key,)
        if isinstance(item, dict | list):
            yield from ((key, *path) for path in _places(item))


def damage_array(array, rng):
    """Return an array with another value, type or shape."""
    changed = np.array(array)
    match rng.randrange(6):
        case 0 if changed.size:
            changed.reshape(-1)[rng.randrange(changed.size)] = rng.choice(_values(changed.dtype))
        case 1:
            changed = changed.reshape(-1)[: rng.randrange(changed.size + 1)]
        case 2:
            changed = np.concatenate([changed.reshape(-1)] * 2)
        case 3 if changed.dtype.names is None:
            changed = changed.astype(rng.choice(("f8", "i8", "i4", "u1", "?", "c16", "U3")))
        case 4:
            changed = changed[None]
        case _:
            changed = np.zeros((), changed.dtype)
    return changed


def _values(dtype):
    if dtype.kind == "f":
        return (np.nan, np.inf, -np.inf, -1.0, 1e300, 0.0, 2.0)
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return (low, high, high // 2, 1, 0, 127)
    return (False, True)


def seal(archive):
    """Make the checksum of an archive fit, as its comment."""
    unsealed = archive[:-2] + (64).to_bytes(2, "little")
    return unsealed + hashlib.sha256(unsealed).hexdigest().encode()


def damage_npz(content, rng):
    """Drop or change an array or a fact of a sealed file, and seal it again."""
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    header = json.loads(arrays.pop("romdp").tobytes())
    name = rng.choice(sorted(arrays))
    match rng.randrange(4):
        case 0:
            del arrays[name]
        case 1 if header["facts"]:
            header["facts"] = damage_json(header["facts"], rng)
        case 2:
            arrays[rng.choice(sorted(arrays))] = arrays[name]
        case _:
            with np.errstate(all="ignore"):
                arrays[name] = damage_array(arrays[name], rng)
    out = io.BytesIO()
    np.savez(out, romdp=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
    return seal(out.getvalue())


def rezip(content, rng):
    """Write a sealed file anew: its members in another order, compressed, or one left out."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        rng.shuffle(names)
        for name in names[rng.randrange(2) :]:
            how = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            new.writestr(name, old.read(name), how)
    return seal(out.getvalue())


def generator(*seed):
    """Make a generator of its own for every test."""
    return random.Random(repr(seed))
