"""Formats of stored classes: what is written comes back, and what does not fit is named."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest

from romdp.core.errors import InvalidInputError, StorageError
from romdp.core.formats import Format, conform, exact, fact, index, optional, part, real, whole
from romdp.core.storage import read_arrays, write_arrays


@dataclass(frozen=True)
class Width:
    scale: float
    law: Literal["beta", "normal"] = "beta"
    bounds: tuple[float, float] | None = None

    def __post_init__(self):
        if self.scale < 0:
            raise InvalidInputError("scale is negative")


@dataclass(eq=False)
class Inner:
    numbers: Any

    def arrays(self):
        return {"numbers": self.numbers}


@dataclass(eq=False)
class Thing:
    means: Any
    labels: Any
    counts: Any
    kind: Any
    step: int
    sure: bool
    gain: float
    inner: Any
    places: Any
    name: str
    width: Width
    columns: Mapping[str, str | None]
    extra: Any = None


@dataclass(eq=False)
class Places:
    points: Any
    reach: float


PLACES = Format("places", points=real("places states"), reach=fact(float))
THING = Format(
    "thing",
    4,
    means=real("states 2", 0, 1),
    labels=index("observations", of="states", none=True),
    counts=whole("* states", 0, 10),
    kind=exact([("a", np.int64), ("b", np.float64)], "states"),
    step=whole("", 0),
    sure=exact(np.bool_),
    gain=real(finite=False),
    inner=part(),
    places=part(Places, PLACES),
    name=fact(str),
    width=fact(Width),
    columns=fact(Mapping[str, str | None]),
    extra=optional(real("states")),
)


def thing(**changes):
    content = {
        "means": np.array([[0.0, 1.0], [0.5, 0.5]]),
        "labels": np.array([0, 1, -1]),
        "counts": np.ones((3, 2), np.int64),
        "kind": np.array([(1, 2.0), (3, 4.0)], [("a", np.int64), ("b", np.float64)]),
        "step": 7,
        "sure": True,
        "gain": np.nan,
        "inner": Inner(np.arange(2)),
        "places": Places(np.ones((4, 2)), 0.5),
        "name": "Ä",
        "width": Width(2.0, "normal", (float("-inf"), 1.0)),
        "columns": {"action": None, "reward": "paid"},
    }
    return Thing(**{**content, **changes})


def build(inner, **found):
    return Thing(inner=Inner(**inner), **found)


def test_what_is_saved_comes_back(tmp_path):
    first = thing()
    THING.save(tmp_path / "f", first)
    again = THING.load(tmp_path / "f", build, states=2)
    for name in ("means", "labels", "counts", "kind"):
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
        assert getattr(again, name).dtype == getattr(first, name).dtype
    np.testing.assert_array_equal(again.inner.numbers, [0, 1])
    assert [type(again.step), type(again.sure), type(again.gain)] == [int, bool, float]
    np.testing.assert_array_equal(again.places.points, np.ones((4, 2)))
    assert again.places.reach == 0.5
    assert (again.step, again.sure, again.extra) == (7, True, None)
    assert (again.name, again.width, again.columns) == (first.name, first.width, first.columns)


def test_a_part_may_be_missing():
    found = THING.read(*THING.pack(thing(inner=None, places=None)))
    assert (found["inner"], found["places"]) == (None, None)


def test_what_comes_back_is_a_copy():
    arrays, facts = THING.pack(thing(extra=np.zeros(2)))
    found = THING.read(arrays, facts)
    found["means"][:] = 9.0
    assert arrays["means"].max() == 1.0
    assert found["extra"].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"means": np.zeros((2, 2), np.float32)},
            "means holds float32 entries; they must be float",
        ),
        ({"means": np.zeros((2, 3))}, r"means has shape \(2, 3\); it must be \('states', 2\)"),
        ({"means": np.zeros(4)}, r"means has shape \(4,\)"),
        ({"means": np.full((2, 2), np.nan)}, "means must hold finite numbers"),
        ({"means": np.full((2, 2), 1.5)}, r"means holds 1.5; it must lie in \[0, 1\]"),
        ({"labels": np.array([0, 2, 0])}, r"labels holds 2; it must lie in \[-1, 1\]"),
        ({"labels": np.array([-2])}, "labels holds -2"),
        ({"counts": np.full((1, 2), 11)}, r"counts holds 11; it must lie in \[0, 10\]"),
        ({"counts": np.ones((1, 3), np.int64)}, r"counts has shape \(1, 3\); it must be \(None, 2"),
        ({"kind": np.zeros(2)}, "kind holds float64 entries"),
        ({"step": np.array([1])}, r"step has shape \(1,\); it must be \(\)"),
        ({"sure": np.array(1)}, "sure holds int64 entries; they must be bool"),
        ({"labels": None}, "'labels' is missing"),
        ({"more": np.zeros(1)}, "more does not belong there"),
        ({"places_points": np.ones((4, 3))}, r"points has shape \(4, 3\)"),
        ({"places_more": np.zeros(1)}, "more does not belong there"),
        ({"places": {"reach": "far"}}, "reach is 'far'"),
        ({"places": {}}, "'reach' is missing"),
        ({"name": 3}, "name is 3; it must be str"),
        ({"name": None}, "name is None; it must be str"),
        ({"columns": ["paid"]}, r"columns is \['paid'\]; it must be"),
        ({"columns": {"reward": 3}}, "columns.reward is 3"),
        ({"width": {"scale": 1.0}}, "width is {'scale': 1.0}; it must be Width"),
        ({"width": {"scale": "x", "law": "beta", "bounds": None}}, "width.scale is 'x'"),
        ({"width": {"scale": 1, "law": "cauchy", "bounds": None}}, "width.law is 'cauchy'"),
        ({"width": {"scale": 1, "law": "beta", "bounds": [1]}}, r"width.bounds is \[1\]"),
        ({"width": {"scale": -1, "law": "beta", "bounds": None}}, "scale is negative"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(tmp_path, changes, message):
    arrays, facts = THING.pack(thing())
    for name, value in changes.items():
        is_array = name in arrays or isinstance(value, np.ndarray)
        (arrays if is_array else facts)[name] = value
    arrays = {name: array for name, array in arrays.items() if array is not None}
    write_arrays(tmp_path / "f", "thing", 4, arrays, facts)
    with pytest.raises(StorageError, match=f"f: the thing is damaged: .*{message}"):
        THING.load(tmp_path / "f", build)


def test_lengths_that_are_given_must_agree():
    arrays, facts = THING.pack(thing())
    with pytest.raises(StorageError, match=r"means has shape \(2, 2\); it must be \(3, 2\)"):
        THING.read(arrays, facts, states=3)


def test_a_file_of_another_format_is_refused(tmp_path):
    THING.save(tmp_path / "f", thing())
    with pytest.raises(StorageError, match="holds a thing, not a portrait"):
        Format("portrait", 4).load(tmp_path / "f", dict)
    with pytest.raises(StorageError, match="has format version 4; this romdp reads version 5"):
        Format("thing", 5).load(tmp_path / "f", dict)


def test_what_a_class_refuses_is_a_damaged_file(tmp_path):
    THING.save(tmp_path / "f", thing())
    read_arrays(tmp_path / "f", "thing", 4)

    def refuse(**_):
        raise LookupError("no such state")

    with pytest.raises(StorageError, match="f is damaged: no such state"):
        THING.load(tmp_path / "f", refuse)


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (float, 1, 1.0),
        (float, "nan", None),
        (int | str, "a", "a"),
        (tuple[int, ...], [1, 2], (1, 2)),
        (dict[str, Any], {"a": [1]}, {"a": [1]}),
        (None | Literal[3], 3, 3),
    ],
)
def test_plain_data_takes_the_type_that_is_asked_for(kind, value, found):
    if found is None:
        assert np.isnan(conform(kind, value, "x"))
    else:
        assert conform(kind, value, "x") == found
        assert type(conform(kind, value, "x")) is type(found)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, True),
        (int, 1.0),
        (float, "much"),
        (float, True),
        (str, None),
        (tuple[int, ...], (1,)),
        (tuple[int, int], [1]),
        (bool, 1),
        (int | None, "x"),
        (Literal[1], 2),
    ],
)
def test_plain_data_of_other_types_is_refused(kind, value):
    with pytest.raises(ValueError, match=r"x(\[0\])? is"):
        conform(kind, value, "x")
