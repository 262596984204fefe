import json
import math

import pytest

from romdp.core.errors import UnknownNameError
from romdp.theory.magnitude import Magnitude
from romdp.theory.table import Row, Table

TABLE = Table(
    "A title",
    (
        Row("One", "n", 12_345, "", "a count"),
        Row("One", "gap", 0.125, "cor:regret"),
        Row("Two", "huge", Magnitude.of(1e200) ** 2, "eq:BO", "too large"),
        Row("Two", "never", math.inf),
        Row("Two", "each", (0.5, None, Magnitude.of(math.inf))),
        Row("Two", "less", -3.5),
        Row("Two", "many", tuple(range(9))),
    ),
)


def test_prints_with_labels_in_a_column():
    assert str(TABLE).splitlines() == [
        "A title",
        "",
        "One",
        "  n      12,345                                    a count",
        "  gap    0.125                         cor:regret",
        "",
        "Two",
        "  huge   overflow (> 1e308): 10^400.0  eq:BO       too large",
        "  never  infinite",
        "  each   0.5, -, infinite",
        "  less   -3.5",
        "  many   0, 1, 2, 3, 4, 5, 6, 7, ...",
    ]


def test_json_has_no_nan_and_no_infinity():
    content = json.loads(json.dumps(TABLE.to_dict(), allow_nan=False))
    quantities = content["quantities"]
    assert quantities["n"] == {"value": 12_345, "label": "", "note": "a count"}
    assert quantities["huge"]["value"] == "overflow (> 1e308)"
    assert quantities["huge"]["log10"] == pytest.approx(400)
    assert quantities["never"]["value"] == "infinite"
    assert quantities["each"]["value"] == [0.5, None, "infinite"]


def test_lookup_suggests_the_nearest_name():
    assert TABLE["gap"] == 0.125
    with pytest.raises(UnknownNameError, match="did you mean 'gap'"):
        TABLE["gep"]
