"""Models of logs on disk: a directory of JSON, arrays and Parquet tables; no pickle.

``model.json`` holds the SHA-256 of the tables beside it, and of itself. A new model in the place of
an old one is written in three steps: the tables under names of their own (``counts.npz.new``), then
``model.json``, then the tables get their names. The second step is a single rename and
decides: whenever the writing stops, the directory holds the old model or the new one. `load_model`
finds the tables under either name.
"""

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from romdp.core import schema
from romdp.core.errors import (
    InvalidInputError,
    MisuseError,
    ROMDPError,
    StorageError,
    WriteError,
)
from romdp.core.storage import (
    check_output,
    file_checksum,
    locked_directory,
    open_regular,
    read_arrays,
    read_json,
    sync_directory,
    unseal,
    write_arrays,
    write_atomic,
    write_sealed,
)
from romdp.core.text import plain
from romdp.core.validation import freeze
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.encoding.decoder import StateDecoder
from romdp.logs.model.evaluation import HeldOut, PermutationTest, PolicyValue, Prediction
from romdp.logs.model.latent import LatentModel
from romdp.logs.model.safety import Safety
from romdp.planning.confidence import Hoeffding

KIND, VERSION = "latent model", 2
_OLDER = 1  # of romdp 0.1: without checksums
_COUNTS_VERSION = 1
_FACTS = "model.json"
_COUNTS = "counts.npz"
_OBSERVATIONS = "observations.parquet"
_ACTIONS = "actions.parquet"
_TABLES = (_COUNTS, _OBSERVATIONS, _ACTIONS)
_DECODER = "decoder.npz"  # only of models of vectors
_NEW = ".new"


def save_model(model: LatentModel, path: str | os.PathLike[str]) -> None:
    """Write a model to a directory that is new or empty or holds a model, which is replaced.

    Files of other names are left alone.
    """
    target = check_model_directory(path)
    made = not target.exists()
    try:
        target.mkdir(parents=True, exist_ok=True)
        with locked_directory(target, exclusive=True):
            _settle(target)
            try:
                _write(model, target)
            finally:
                with suppress(OSError):  # whoever reads or writes next can do it too
                    _settle(target)
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
    if not target.exists() or not any(not _is_leftover(item) for item in target.iterdir()):
        return target
    if not (target / _FACTS).is_file():
        raise InvalidInputError(
            f"cannot write {path}: the directory holds other files; name a new one"
        )
    try:
        _facts(target)
    except StorageError as error:
        raise InvalidInputError(
            f"cannot write {path}: the {_FACTS} in it is not that of a model which this romdp can "
            f"read ({error}); name a new directory"
        ) from error
    return target


def _is_leftover(path: Path) -> bool:
    """Recognise what an interrupted `save_model` leaves: its own names with an ending."""
    name = path.name
    new = [f"{table}{_NEW}" for table in (*_TABLES, _DECODER)]
    return name in new or (
        name.endswith(".tmp") and any(name.startswith(f".{known}.") for known in (*new, _FACTS))
    )


def is_model(path: str | os.PathLike[str]) -> bool:
    """Tell whether a directory looks like one that `save_model` wrote."""
    return (Path(path) / _FACTS).is_file()


def _settle(folder: Path) -> None:
    """Finish what an interrupted save began, or take it back: see the top of this file."""
    leftovers = [item for item in folder.iterdir() if _is_leftover(item)]
    if not leftovers:
        return
    checksums: Mapping[str, str] = {}
    with suppress(StorageError):
        checksums = _facts(folder)[0].get("files", {})
    for item in leftovers:
        table = item.name.removesuffix(_NEW)
        wanted = checksums.get(table)
        if wanted is not None and not _fits(folder / table, wanted) and _fits(item, wanted):
            os.replace(item, folder / table)
        else:
            item.unlink()
    sync_directory(folder)


def _fits(path: Path, checksum: str) -> bool:
    return path.is_file() and file_checksum(path) == checksum


def _write(model: LatentModel, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    observations = pa.table(
        {
            "observation": names_column(model.observation_names),
            "state": model.partition.labels,
            "visits": model.visits,
            "log_odds": model.log_odds,
            "certainty": model.certainty,
        }
    )
    actions = pa.table({"action": names_column(model.action_names)})
    judged = model.judged
    arrays = {**model.counts.arrays(), "starts": model.starts, "safe_policy": judged.policy}
    new = {name: folder / f"{name}{_NEW}" for name in _TABLES}
    write_atomic(new[_OBSERVATIONS], lambda file: pq.write_table(observations, file))
    write_atomic(new[_ACTIONS], lambda file: pq.write_table(actions, file))
    write_arrays(new[_COUNTS], KIND, _COUNTS_VERSION, arrays)
    if model.decoder is not None:
        new[_DECODER] = folder / f"{_DECODER}{_NEW}"
        model.decoder.save(new[_DECODER])
    confidence = model.confidence
    facts = {
        "kind": KIND,
        "version": VERSION,
        "files": {name: file_checksum(file) for name, file in new.items()},
        "reward_range": model.reward_range,
        "method": model.method,
        "confidence": {
            "scale": confidence.scale,
            "constants": confidence.constants,
            "reward_states": confidence.reward_states,
        },
        "delta": model.delta,
        "objective": model.objective,
        "safety": {name: getattr(judged, name) for name in (*_BOUNDS, "tries", "missing")},
        "rare": model.rare,
        "n_rows": model.n_rows,
        "n_episodes": model.n_episodes,
        "columns": dict(model.columns),
        "settings": dict(model.settings),
        "held_out": None if model.held_out is None else asdict(model.held_out),
    }
    write_sealed(folder / _FACTS, plain(facts, str))  # infinity as a word, which JSON can hold


def names_column(names: tuple[Any, ...]) -> Any:
    """Put names into an Arrow array, whole numbers up to 2^64 too."""
    import pyarrow as pa

    try:
        return pa.array(names)
    except OverflowError:
        return pa.array(names, pa.uint64())


def _numbers(kind: Any, **others: schema.Schema) -> schema.Schema:
    """Declare a record of numbers, one for each field of a dataclass, infinite ones as words."""
    some = {field.name: schema.number(infinite=True) for field in fields(kind)}
    return schema.nullable(schema.record({**some, **others}))


_BOUNDS = ("value_lower", "harm", "logged_value")
_TEST = _numbers(PermutationTest, n_steps=schema.whole(0))
_MODEL = schema.record(
    {
        "kind": schema.one_of(KIND),
        "version": schema.one_of(_OLDER, VERSION),
        "reward_range": schema.nullable(schema.listed(schema.number(), 2)),
        "method": schema.text(),
        "confidence": schema.record(
            {
                "scale": schema.number(0),
                "constants": schema.text(),
                "reward_states": schema.text(),
            }
        ),
        "delta": schema.number(0, 1),
        "rare": schema.whole(0),
        "n_rows": schema.whole(0),
        "n_episodes": schema.whole(0),
        "columns": schema.mapped(schema.nullable(schema.text())),
        "held_out": schema.nullable(
            schema.record(
                {
                    "n_episodes": schema.whole(0),
                    "n_steps": schema.whole(0),
                    "prediction": _numbers(Prediction),
                    "value": _numbers(PolicyValue),
                    "markov": _TEST,
                    "notes": schema.listed(schema.text()),
                },
                optional={"alike": _TEST},
            )
        ),
    },
    optional={
        "objective": schema.anything(),
        "safety": schema.record(
            {name: schema.number(infinite=True) for name in _BOUNDS},
            optional={"tries": schema.whole(0), "missing": schema.text()},
        ),
        "settings": schema.mapped(schema.anything()),
        "files": schema.record(
            dict.fromkeys(_TABLES, schema.text()), optional={_DECODER: schema.text()}
        ),
    },
)


def _facts(folder: Path) -> tuple[dict[str, Any], bool]:
    """Read and check ``model.json``; say whether it carries checksums."""
    path = folder / _FACTS
    content = read_json(path)
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise StorageError(f"{folder} holds no model of romdp")
    if content.get("version") not in (_OLDER, VERSION):
        raise StorageError(
            f"{folder} has format version {content.get('version')!r}; this romdp reads {VERSION}"
        )
    sealed, verified = unseal(content, path)
    facts: dict[str, Any] = schema.check(sealed, _MODEL, path)
    if facts["version"] == VERSION and not (verified and "files" in facts):
        raise StorageError(f"{path} is damaged: its checksums are missing")
    return facts, verified and "files" in facts


def load_model(path: str | os.PathLike[str], *, features: Any = None) -> LatentModel:
    """Read a model that `LatentModel.save` wrote.

    Models written by romdp 0.1 carry no checksums; ``verified`` is then False.

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
    folder = Path(path)
    if not (folder / _FACTS).is_file():
        raise StorageError(f"{folder} holds no model: there is no {_FACTS} in it")
    try:
        with locked_directory(folder, exclusive=False):
            facts, verified = _facts(folder)
            found = _find_tables(folder, facts.get("files"))
            arrays, _ = read_arrays(found[_COUNTS], KIND, _COUNTS_VERSION)
            observations = _columns(found[_OBSERVATIONS])
            actions = _columns(found[_ACTIONS])
            decoder = _decoder(found[_DECODER], features) if _DECODER in found else None
        return replace(_build(facts, arrays, observations, actions, verified), decoder=decoder)
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
        raise StorageError(f"{folder} is damaged: {error}") from error
    except OSError as error:
        if isinstance(error, ROMDPError):
            raise
        raise StorageError(f"cannot read {folder}: {error.strerror or error}") from error


def _find_tables(folder: Path, checksums: Mapping[str, str] | None) -> dict[str, Path]:
    """Find the tables that belong to ``model.json``, also those that have no final name yet."""
    if checksums is None:
        return {name: folder / name for name in _TABLES}
    found = {}
    for name, checksum in checksums.items():
        candidates = (folder / name, folder / f"{name}{_NEW}")
        fitting = [candidate for candidate in candidates if _fits(candidate, checksum)]
        if not fitting:
            state = "damaged or was edited" if candidates[0].exists() else "missing"
            raise StorageError(f"{candidates[0]} is {state}: {_FACTS} lists another checksum")
        found[name] = fitting[0]
    return found


def _build(
    facts: dict[str, Any],
    arrays: dict[str, Any],
    observations: Any,
    actions: Any,
    verified: bool,
) -> LatentModel:
    starts, safe = arrays.pop("starts"), arrays.pop("safe_policy", None)
    labels = _array(observations, "state", np.int64)
    partition = Partition(labels)
    counts = Counts.from_arrays(arrays)
    low_high = facts["reward_range"]
    model = LatentModel(
        partition=partition,
        observation_names=_names(observations, "observation"),
        action_names=_names(actions, "action"),
        counts=counts,
        visits=freeze(_array(observations, "visits", np.int64)),
        starts=freeze(starts),
        reward_range=None if low_high is None else (low_high[0], low_high[1]),
        log_odds=freeze(_array(observations, "log_odds", np.float64)),
        certainty=freeze(_array(observations, "certainty", np.float64)),
        held_out=_held_out(facts["held_out"]),
        method=facts["method"],
        confidence=Hoeffding(**facts["confidence"]),
        delta=facts["delta"],
        rare=facts["rare"],
        n_rows=facts["n_rows"],
        n_episodes=facts["n_episodes"],
        columns=facts["columns"],
        settings=facts.get("settings", {}),
        verified=verified,
        objective=_objective(facts.get("objective", "average")),
        safety=_safety(facts.get("safety"), safe),
    )
    agree = {
        "states": np.array_equal(partition.labels, labels),
        "sizes": counts.visits.shape == (model.n_states, model.n_actions),
        "starts": starts.shape == (model.n_states,) and starts.dtype == np.int64,
        "visits": bool((model.visits >= 0).all())
        and np.array_equal(counts.visits.sum(axis=1), _grouped(model.visits, labels)),
        "certainty": not ((model.certainty < 0) | (model.certainty > 1)).any(),
        "reward_range": low_high is None or low_high[0] <= low_high[1],
        "delta": 0 < model.delta < 1,
        "safe_policy": safe is None or _are_laws(safe, counts.visits.shape),
    }
    wrong = [name for name, right in agree.items() if not right]
    if wrong or (starts < 0).any():
        raise ValueError(f"its files do not belong together ({', '.join(wrong) or 'starts'})")
    return model


def _safety(facts: dict[str, Any] | None, policy: Any) -> Safety | None:
    if facts is None or policy is None:
        return None
    numbers = {name: float(facts[name]) for name in _BOUNDS}
    return Safety(
        policy=freeze(policy),
        tries=facts.get("tries", 0),
        missing=facts.get("missing", ""),
        **numbers,
    )


def _objective(value: Any) -> str | float:
    if value in ("average", "episodic") or (isinstance(value, float) and 0 < value < 1):
        kept: str | float = value
        return kept
    raise ValueError(f"objective is {value!r}")


def _are_laws(policy: Any, shape: tuple[int, ...]) -> bool:
    return (
        policy.shape == shape
        and policy.dtype == np.float64
        and bool((policy >= 0).all())
        and bool(np.allclose(policy.sum(axis=1), 1.0, rtol=0, atol=1e-9))
    )


def _grouped(visits: Any, labels: Any) -> Any:
    return np.bincount(labels[labels >= 0], visits[labels >= 0]).astype(np.int64)


def _decoder(path: Path, features: Any) -> StateDecoder:
    try:
        return StateDecoder.load(path, features)
    except StorageError:
        raise
    except InvalidInputError as error:  # the files are as they should be
        raise MisuseError(f"{path.parent}: {error}") from None


def _columns(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with open_regular(path) as file:
        content = file.read()
    try:
        return pq.ParquetFile(pa.BufferReader(content)).read()
    except (pa.ArrowException, OSError) as error:
        raise StorageError(f"{path} is damaged: {error}") from error


def _array(table: Any, column: str, dtype: Any) -> Any:
    values = table.column(column)
    array = values.to_numpy()
    if values.null_count or array.dtype != dtype:
        raise ValueError(f"column {column!r} has missing values or is of the wrong type")
    return array.copy()


def _names(table: Any, column: str) -> tuple[Any, ...]:
    names = tuple(table.column(column).to_pylist())
    if None in names or len(set(names)) != len(names) or not names:
        raise ValueError(f"column {column!r} is empty, or has missing values or a name twice")
    return names


def _held_out(facts: dict[str, Any] | None) -> HeldOut | None:
    if facts is None:
        return None
    kinds = {
        "prediction": Prediction,
        "value": PolicyValue,
        "markov": PermutationTest,
        "alike": PermutationTest,
    }
    parts = {
        name: None if facts.get(name) is None else kind(**facts[name])
        for name, kind in kinds.items()
    }
    return HeldOut(**{**facts, **parts, "notes": tuple(facts["notes"])})
