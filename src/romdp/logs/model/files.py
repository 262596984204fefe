"""Models of logs on disk: a directory of JSON, arrays and Parquet tables; no pickle."""

import os
import secrets
import shutil
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from romdp.core.errors import InvalidInputError, ROMDPError, StorageError, WriteError
from romdp.core.storage import read_arrays, read_json, write_arrays, write_json
from romdp.core.text import plain
from romdp.core.validation import freeze
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.logs.model.evaluation import HeldOut, PolicyValue, Prediction
from romdp.logs.model.independence import PermutationTest
from romdp.logs.model.latent import LatentModel
from romdp.planning.confidence import Hoeffding

KIND, VERSION = "latent model", 1
_FACTS = "model.json"
_COUNTS = "counts.npz"
_OBSERVATIONS = "observations.parquet"
_ACTIONS = "actions.parquet"


def save_model(model: LatentModel, path: str | os.PathLike[str]) -> None:
    """Write a model to a directory; an older model there is replaced in one move."""
    target = Path(path)
    refuse_foreign(target)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.mkdir(parents=True)
        _write(model, temporary)
        _exchange(temporary, target)
    except OSError as error:
        if isinstance(error, WriteError):
            raise
        raise WriteError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            shutil.rmtree(temporary)


def refuse_foreign(target: Path) -> None:
    """Refuse to write over anything but a model or an empty directory."""
    if not target.exists():
        return
    if not target.is_dir():
        raise InvalidInputError(f"cannot write {target}: it is a file; name a directory")
    if any(target.iterdir()) and not (target / _FACTS).is_file():
        raise InvalidInputError(
            f"cannot write {target}: the directory holds other files; name a new one"
        )


def is_model(path: str | os.PathLike[str]) -> bool:
    """Tell whether a directory looks like one that `save_model` wrote."""
    return (Path(path) / _FACTS).is_file()


def _exchange(new: Path, target: Path) -> None:
    if not target.exists():
        os.replace(new, target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    os.replace(target, old)
    os.replace(new, target)
    with suppress(OSError):
        shutil.rmtree(old)


def _write(model: LatentModel, folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "observation": pa.array(model.observation_names),
        "state": model.partition.labels,
        "visits": model.visits,
        "log_odds": model.log_odds,
        "certainty": model.certainty,
    }
    pq.write_table(pa.table(columns), folder / _OBSERVATIONS)
    pq.write_table(pa.table({"action": pa.array(model.action_names)}), folder / _ACTIONS)
    write_arrays(folder / _COUNTS, KIND, VERSION, {**model.counts.arrays(), "starts": model.starts})
    confidence = model.confidence
    facts = {
        "kind": KIND,
        "version": VERSION,
        "reward_range": model.reward_range,
        "method": model.method,
        "confidence": {
            "scale": confidence.scale,
            "constants": confidence.constants,
            "reward_states": confidence.reward_states,
        },
        "delta": model.delta,
        "rare": model.rare,
        "n_rows": model.n_rows,
        "n_episodes": model.n_episodes,
        "columns": dict(model.columns),
        "settings": dict(model.settings),
        "held_out": None if model.held_out is None else plain(asdict(model.held_out), str),
    }
    write_json(folder / _FACTS, facts)  # last: with it the directory is a model


def load_model(path: str | os.PathLike[str]) -> LatentModel:
    """Read a model that `LatentModel.save` wrote.

    Parameters
    ----------
    path
        The directory.

    Raises
    ------
    StorageError
        If it is missing, damaged, foreign or of another format version.
    """
    folder = Path(path)
    if not (folder / _FACTS).is_file():
        raise StorageError(f"{folder} holds no model: there is no {_FACTS} in it")
    facts = read_json(folder / _FACTS)
    if not isinstance(facts, dict) or facts.get("kind") != KIND:
        raise StorageError(f"{folder} holds no model of romdp")
    if facts.get("version") != VERSION:
        raise StorageError(
            f"{folder} has format version {facts.get('version')}; this romdp reads {VERSION}"
        )
    arrays, _ = read_arrays(folder / _COUNTS, KIND, VERSION)
    observations = _columns(folder / _OBSERVATIONS)
    actions = _columns(folder / _ACTIONS)
    try:
        starts = arrays.pop("starts")
        low_high = facts["reward_range"]
        model = LatentModel(
            partition=Partition(np.array(observations["state"], np.int64)),
            observation_names=tuple(observations["observation"]),
            action_names=tuple(actions["action"]),
            counts=Counts.from_arrays(arrays),
            visits=freeze(np.array(observations["visits"], np.int64)),
            starts=freeze(starts),
            reward_range=None if low_high is None else (low_high[0], low_high[1]),
            log_odds=freeze(np.array(observations["log_odds"], np.float64)),
            certainty=freeze(np.array(observations["certainty"], np.float64)),
            held_out=_held_out(facts["held_out"]),
            method=facts["method"],
            confidence=Hoeffding(**facts["confidence"]),
            delta=facts["delta"],
            rare=facts["rare"],
            n_rows=facts["n_rows"],
            n_episodes=facts["n_episodes"],
            columns=dict(facts["columns"]),
            settings=dict(facts.get("settings", {})),
        )
    except (KeyError, TypeError, ValueError, IndexError, ROMDPError) as error:
        raise StorageError(f"{folder} is damaged: {error}") from error
    sizes = (model.counts.n_observations, model.counts.n_actions, len(model.starts))
    if sizes != (model.n_states, model.n_actions, model.n_states):
        raise StorageError(f"{folder} is damaged: its files do not belong together")
    return model


def _columns(path: Path) -> dict[str, Sequence[Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error}") from error
    except pa.ArrowException as error:
        raise StorageError(f"{path} is damaged: {error}") from error
    return {name: table.column(name).to_pylist() for name in table.column_names}


def _held_out(facts: dict[str, Any] | None) -> HeldOut | None:
    if facts is None:
        return None
    return HeldOut(
        n_episodes=facts["n_episodes"],
        n_steps=facts["n_steps"],
        prediction=_part(Prediction, facts["prediction"]),
        value=_part(PolicyValue, facts["value"]),
        markov=_part(PermutationTest, facts["markov"]),
        notes=tuple(facts["notes"]),
        alike=_part(PermutationTest, facts.get("alike")),
    )


def _part(kind: Any, facts: dict[str, Any] | None) -> Any:
    if facts is None:
        return None
    return kind(**{name: float(x) if isinstance(x, str) else x for name, x in facts.items()})
