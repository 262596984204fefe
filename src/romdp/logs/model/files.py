"""Models on disk: a directory with one sealed file, and perhaps the page beside it."""

import os
import re
import tempfile
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError, MisuseError, ROMDPError, StorageError, WriteError
from romdp.core.formats import Format, exact, fact, index, optional, part, real, whole
from romdp.core.storage import OLD, check_output, delete_leftovers, locked, read_kind
from romdp.core.validation import as_path, freeze
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.encoding.decoder import StateDecoder
from romdp.encoding.memory import Memory
from romdp.encoding.observations import encoder_from
from romdp.logs.model.latent import LatentModel
from romdp.logs.model.safety import Safety
from romdp.logs.remembering import StateMemory

FILE = "model.npz"
"""The name of the file in its directory."""

_OLD_FILE, _LOCK = "model.json", ".lock"
_LEFT = re.compile(rf"\{_LOCK}|\.{re.escape(FILE)}\..+\.tmp")  # by a kill
_FACTS = (
    *("reward_range", "method", "confidence", "delta", "rare", "n_rows", "n_episodes"),
    *("columns", "settings", "objective", "held_out"),
)
_FROZEN = ("visits", "log_odds", "certainty")
_KINDS = get_type_hints(LatentModel)
_SAFETY = Format(
    "safety",
    policy=real("states actions", 0, 1),
    asked=index("observations", of="actions", none=True),
    **{
        name: fact(kind)
        for name, kind in get_type_hints(Safety).items()
        if name not in ("asked", "policy")
    },
)
FORMAT = Format(
    "latent model",
    3,
    safety=part(Safety, _SAFETY),
    labels=index("observations", of="states", none=True),
    visits=whole("observations", 0),
    log_odds=real("observations", finite=False),
    certainty=real("observations", 0, 1, finite=False),
    counts=part(Counts.from_arrays),
    decoder=part(),
    space=fact(),
    codes=part(),
    plan=optional(index("states", of="actions")),
    memory=part(Memory.from_arrays),
    seen_names=optional(exact(np.uint8, "*")),
    observation_names=exact(np.uint8, "*"),
    action_names=exact(np.uint8, "*"),
    **{name: fact(_KINDS[name]) for name in _FACTS},
)


def save_model(model: LatentModel, path: str | os.PathLike[str]) -> None:
    """Write a model to a directory that is new or empty or holds a model, which is replaced.

    Files of other names are left alone.
    """
    target = check_model_directory(path)
    made = not target.exists()
    memory = model.memory
    content = {
        **{field.name: getattr(model, field.name) for field in fields(model)},
        "safety": model.judged,
        "memory": memory and memory.machine,
        "seen_names": memory and _pack_names(memory.names),
        "labels": model.partition.labels,
        "space": None if model.encoder is None else model.encoder.to_dict(),
        "codes": model.encoder,
        "observation_names": _pack_names(model.observation_names),
        "action_names": _pack_names(model.action_names),
    }
    try:
        target.mkdir(parents=True, exist_ok=True)
        with locked(target / _LOCK, f"another romdp is writing {path}; wait for it"):
            delete_leftovers(target, (FILE,))
            FORMAT.save(target / FILE, content)
    except OSError as error:
        if made:
            with suppress(OSError):  # only if nothing is in it
                target.rmdir()
        if isinstance(error, ROMDPError):
            raise
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error


def save_or_keep(model: LatentModel, path: str | os.PathLike[str]) -> None:
    """Write a model; where that fails, keep it in a temporary directory that the error names."""
    try:
        save_model(model, path)
    except (ROMDPError, OSError) as error:
        kept = Path(tempfile.mkdtemp(prefix="romdp-")) / "model"
        try:
            save_model(model, kept)
        except (ROMDPError, OSError):
            raise error from None
        raise WriteError(f"{error}. The model was kept in {kept}") from error


def check_model_directory(path: str | os.PathLike[str]) -> Path:
    """Refuse to write a model anywhere but into a new or empty directory, or over a model."""
    target = check_output(path, "directory")
    if not target.exists() or all(_LEFT.fullmatch(name) for name in os.listdir(target)):
        return target
    if not (target / FILE).is_file():
        raise InvalidInputError(
            f"cannot write {path}: the directory holds other files; name a new one"
        )
    try:
        kind = read_kind(target / FILE)
    except StorageError as error:
        kind = str(error)
    if kind != FORMAT.kind:
        raise InvalidInputError(
            f"cannot write {path}: the {FILE} in it is not that of a model which this romdp can "
            f"read ({kind}); name a new directory"
        )
    return target


def is_model(path: str | os.PathLike[str]) -> bool:
    """Tell whether a directory looks like one that `save_model` wrote."""
    return any((Path(path) / name).is_file() for name in (FILE, _OLD_FILE))


def load_model(path: str | os.PathLike[str], *, features: Any = None) -> LatentModel:
    """Read a model that `LatentModel.save` wrote.

    Parameters
    ----------
    path
        The directory.
    features
        The object that the `Encoder` was given as ``features``, if there was one: no file holds it.

    Raises
    ------
    StorageError
        If it is missing, damaged, foreign or of another format version.
    MisuseError
        If ``features`` is missing, or there was none.
    """
    folder = as_path(path)
    if not (folder / FILE).exists():
        if (folder / _OLD_FILE).is_file():
            raise StorageError(f"{folder} {OLD}")
        raise StorageError(f"{folder} holds no model: there is no {FILE} in it")

    def build(**found: Any) -> LatentModel:
        names, actions = (
            _unpack_names(found.pop(name)) for name in ("observation_names", "action_names")
        )
        labels, (policy, asked) = (
            found.pop("labels"),
            (found["safety"].policy, found["safety"].asked),
        )
        sizes = len(labels), *policy.shape, policy.shape[1]
        if (len(names), *found["counts"].visits.shape, len(actions)) != sizes:
            raise ValueError("its parts are of different sizes")
        found["encoder"] = _encoder(found.pop("space"), found.pop("codes"), len(labels))
        found["decoder"] = _decoder(found["decoder"], features, folder)
        seen, machine = found.pop("seen_names"), found["memory"]
        if machine is not None:
            found["memory"] = StateMemory.read(machine, _unpack_names(seen), actions, names)
        for array in (policy, asked, *(found[name] for name in _FROZEN)):
            freeze(array)
        if found["plan"] is not None:
            freeze(found["plan"])
        partition = Partition(labels)
        return LatentModel(
            partition=partition, observation_names=names, action_names=actions, **found
        )

    return FORMAT.load(folder / FILE, build)


def _encoder(space: Any, codes: dict[str, NDArray[Any]] | None, size: int) -> Any:
    if space is None:
        return None
    encoder = encoder_from(space, "observation")
    encoder.restore(codes or {})
    if encoder.size < size:
        raise ValueError("it knows more observations than there are")
    return encoder


def _decoder(
    arrays: dict[str, NDArray[Any]] | None, features: Any, folder: Path
) -> StateDecoder | None:
    if arrays is None:
        return None
    try:
        return StateDecoder.from_arrays(arrays, features)
    except StorageError:
        raise
    except InvalidInputError as error:  # the file is as it should be
        raise MisuseError(f"{folder}: {error}") from None


def names_column(names: tuple[Any, ...]) -> Any:
    """Put names into an Arrow array, whole numbers up to 2^64 too."""
    import pyarrow as pa

    try:
        return pa.array(names)
    except OverflowError:
        return pa.array(names, pa.uint64())


def _pack_names(names: tuple[Any, ...]) -> NDArray[np.uint8]:
    """Write names, which may be dates or bytes as well as text, in Arrow's format."""
    import pyarrow as pa

    batch = pa.record_batch([names_column(names)], ["name"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return np.frombuffer(sink.getvalue(), np.uint8)


def _unpack_names(content: NDArray[np.uint8]) -> tuple[Any, ...]:
    import pyarrow as pa

    table = pa.ipc.open_stream(content.tobytes()).read_all()
    table.validate(full=True)
    names = tuple(table["name"].to_pylist())
    if len(set(names)) != len(names) or not names:  # None is what was missing
        raise ValueError("there are no names, or one occurs twice")
    return names
