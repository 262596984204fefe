"""Event logs in XES, the standard of process mining, as tables: one row for each event.

Columns have the names that XES gives to attributes, ``concept:name`` for the activity and
``time:timestamp`` for when it happened; those of the case begin with ``case:``. The file is read in
one pass and no entity in it is expanded.
"""

import gzip
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.parsers import expat

from romdp.core.errors import InvalidInputError

ACTIVITY, CASE, TIME = "concept:name", "case:concept:name", "time:timestamp"
"""The columns that hold what was seen, whose it was, and when."""

_KINDS: dict[str, Any] = {
    "string": str,
    "id": str,
    "date": datetime.fromisoformat,
    "int": int,
    "float": float,
    "boolean": lambda text: text.lower() == "true",
}


def read_xes(path: Path) -> Any:
    """Read an XES file, packed by gzip or not, into an Arrow table.

    A case that has no name is called by its place in the file.
    """
    import pyarrow as pa

    reader = _Reader(str(path))
    try:
        with gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb") as file:
            reader.parser.ParseFile(file)
    except (expat.ExpatError, EOFError, gzip.BadGzipFile) as error:
        raise InvalidInputError(
            f"{path} is not an XES file as its name says, or it is damaged: {error}"
        ) from error
    table: dict[str, Any] = {}
    for name, column in reader.columns.items():
        values = column + [None] * (reader.n_events - len(column))
        try:
            table[name] = pa.array(values)
        except (pa.ArrowException, OverflowError):  # a mixture of kinds
            table[name] = pa.array([None if x is None else str(x) for x in values])
    if not reader.n_events:
        raise InvalidInputError(f"{path} holds no events; there is nothing to learn from")
    return pa.table(table)


class _Reader:
    """What is read so far: columns, and the attributes of the trace and event that are open."""

    def __init__(self, label: str) -> None:
        self.label, self.n_events, self.n_cases = label, 0, 0
        self.columns: dict[str, list[Any]] = {}
        self._open: list[str] = []
        self._case: dict[str, Any] = {}
        self._event: dict[str, Any] = {}
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._refuse

    def _refuse(self, *_: Any) -> None:
        raise InvalidInputError(
            f"{self.label} declares a document type, which an XES file does not need and which may "
            "hide entities; delete the declaration <!DOCTYPE ...>"
        )

    def _start(self, tag: str, given: dict[str, str]) -> None:
        tag = tag.rpartition(":")[2]
        where = self._open[-1] if self._open else ""
        self._open.append(tag)
        if tag == "trace":
            self._case = {CASE: f"case {self.n_cases}"}
            self.n_cases += 1
        elif tag == "event":
            self._event = {}
        elif where in ("trace", "event") and tag in _KINDS and given.keys() >= {"key", "value"}:
            line = self.parser.CurrentLineNumber
            try:
                value = _KINDS[tag](given["value"])
            except ValueError:
                raise InvalidInputError(
                    f"line {line} of {self.label}: {given['value']!r} is no {tag}"
                ) from None
            if where == "trace":
                self._case[f"case:{given['key']}"] = value
            else:
                self._event[given["key"]] = value

    def _end(self, tag: str) -> None:
        self._open.pop()
        if tag.rpartition(":")[2] != "event":
            return
        for name, value in (self._case | self._event).items():
            column = self.columns.setdefault(name, [])
            column += [None] * (self.n_events - len(column))
            column.append(value)
        self.n_events += 1
