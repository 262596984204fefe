import json

import pytest

from romdp.core import schema
from romdp.core.errors import StorageError
from romdp.core.storage import read_json

RUN = schema.record(
    {
        "agent": schema.text(),
        "seed": schema.whole(0),
        "gains": schema.listed(schema.number(0, 1)),
        "bounds": schema.nullable(schema.listed(schema.number(infinite=True), 2)),
        "law": schema.one_of("beta", 1),
    },
    optional={"more": schema.mapped(schema.whole())},
)
GOOD = {"agent": "ucrl2", "seed": 3, "gains": [0, 0.5], "bounds": ["-inf", 1], "law": 1}


def read(tmp_path, content):
    (tmp_path / "f.json").write_text(json.dumps(content), encoding="utf-8")
    return schema.check(read_json(tmp_path / "f.json"), RUN, tmp_path / "f.json")


def test_what_fits_comes_back_with_its_numbers_as_floats(tmp_path):
    found = read(tmp_path, GOOD)
    assert found == {**GOOD, "bounds": [-float("inf"), 1.0]}
    assert [type(x) for x in found["gains"]] == [float, float]
    assert read(tmp_path, {**GOOD, "bounds": None, "more": {"a": 1}})["more"] == {"a": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agent": 1}, "agent is 1; it must be text"),
        ({"seed": -1}, "seed is -1; it must be a whole number from 0 to"),
        ({"seed": 2**64}, "seed is 18446744073709551616; it must be a whole number"),
        ({"seed": 1.0}, "seed is 1.0; it must be a whole number"),
        ({"seed": True}, "seed is True; it must be a whole number"),
        ({"gains": [0.5, 1.5]}, r"gains\[1\] is 1.5; it must be a number from 0 to 1"),
        ({"gains": [[]]}, r"gains\[0\] is \[\]; it must be a finite number"),
        ({"gains": ["inf"]}, r"gains\[0\] is 'inf'; it must be a finite number"),
        ({"gains": {"a": 1}}, "it must be a list"),
        ({"gains": [10**400]}, r"gains\[0\] is 10000"),
        ({"bounds": [1]}, "it must be a list of 2"),
        ({"law": True}, "law is True; it must be 'beta' or 1"),
        ({"law": ["x" * 100]}, r"law is \['x+\.\.\.; it must be"),
        ({"more": {"a": "b"}}, "more.a is 'b'; it must be a whole number"),
        ({"more": []}, r"more is \[\]; it must be an object"),
        ({"line\nbreak": 1}, r"'line\\nbreak' is unknown"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path, change, message):
    with pytest.raises(StorageError, match=f"f.json is damaged: .*{message}"):
        read(tmp_path, {**GOOD, **change})


def test_what_is_missing_is_named(tmp_path):
    for key in GOOD:
        with pytest.raises(StorageError, match=f"f.json is damaged: {key} is missing"):
            read(tmp_path, {k: v for k, v in GOOD.items() if k != key})
    for content in ([], "x", None, 3):
        with pytest.raises(StorageError, match=r"the content is .*; it must be an object"):
            read(tmp_path, content)
