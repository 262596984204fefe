"""Numbers that somebody decided: what they are, and what depends on them.

    python benchmarks/constants.py --list            # all of them, and how many there are
    python benchmarks/constants.py --out table.md    # halve and double each and run the guard
    python benchmarks/constants.py --rooms encoding --budget 60    # one package, in an hour

A number counts if it is given to a name in a module or in a class body, alone or in a tuple or a
dict, or as the default of a private function. Zero and one do not: they are rarely a choice; nor do
versions of formats, and columns of tables.

Each number of the rooms that steer what is found (clustering, encoding, planning, logs, agents,
playing) is halved and doubled, and the quick rows of the guard that its room can move are run in a
copy of the sources. A row moves if its figure is another one; seeds are the same. A number that
moves no row should go, and one that moves a single row was perhaps made for one world. All of them
take a day on two cores: ``--budget`` says after how many minutes no other is begun. What was
measured is kept in ``benchmarks/out`` and not measured again: the next call goes on from there.
"""

import argparse
import ast
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "romdp"
ROWS = {  # the rows of the guard that a room can move, by what their names begin with
    "clustering": ("grouping", "regret: lc-psrl exact", "paper", "vectors: digits", "logs"),
    "encoding": ("vectors",),
    "planning": ("regret", "returns", "paper", "vectors: lock"),
    "agents": ("regret", "returns", "vectors: lock"),
    "playing": ("returns", "vectors"),
    "logs": ("logs",),
}
_FORMATS = ("_VERSION", "_KIND")


@dataclass(frozen=True)
class Number:
    """A number in a source file, and where it stands."""

    file: str
    name: str
    line: int
    start: int
    end: int
    text: str

    @property
    def room(self) -> str:
        """The package."""
        return self.file.partition("/")[0]

    @property
    def value(self) -> float:
        """The number itself."""
        return float(ast.literal_eval(self.text))

    def changed(self, factor: float) -> str:
        """Write the number halved or doubled; a whole number stays one, and is at least 1."""
        value = ast.literal_eval(self.text)
        if isinstance(value, int):
            return str(max(1, round(value * factor)))
        return repr(value * factor)


def numbers_in(path: Path) -> Iterator[Number]:
    """Find the numbers of a file."""
    tree, file = ast.parse(path.read_text()), str(path.relative_to(SOURCE))
    for owner in ast.walk(tree):
        if isinstance(owner, ast.Module | ast.ClassDef):
            for statement in owner.body:
                yield from _assigned(statement, file)
        elif isinstance(owner, ast.FunctionDef) and _is_private(owner.name):
            spare = owner.args.args[len(owner.args.args) - len(owner.args.defaults) :]
            pairs = [*zip(spare, owner.args.defaults, strict=True)]
            pairs += [*zip(owner.args.kwonlyargs, owner.args.kw_defaults, strict=True)]
            for argument, default in pairs:
                name = f"{owner.name}({argument.arg})"
                yield from _found(default, name, file)


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _assigned(statement: ast.stmt, file: str) -> Iterator[Number]:
    if isinstance(statement, ast.Assign):
        targets, value = statement.targets, statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        targets, value = [statement.target], statement.value
    else:
        return
    name = ast.unparse(targets[0])
    if not any(part in name for part in _FORMATS):
        yield from _found(value, name, file)


def _found(value: ast.expr | None, name: str, file: str) -> Iterator[Number]:
    """Yield the numbers of a value: one, or those in a tuple, a list or a dict."""
    if isinstance(value, ast.Tuple | ast.List):
        for part in value.elts:
            yield from _found(part, name, file)
    elif isinstance(value, ast.Dict):
        for part in value.values:
            yield from _found(part, name, file)
    elif isinstance(value, ast.Constant) and type(value.value) in (int, float):
        if value.value not in (0, 1):
            assert value.end_col_offset is not None
            at = (value.lineno, value.col_offset, value.end_col_offset)
            yield Number(file, name, *at, repr(value.value))
    elif isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow):
        yield from _found(value.right, name, file)  # of 2**24 the exponent
    elif isinstance(value, ast.BinOp):
        yield from _found(value.left, name, file)
        yield from _found(value.right, name, file)


def all_numbers() -> list[Number]:
    """List the numbers of all files."""
    files = sorted(SOURCE.rglob("*.py"))
    found = {number for path in files for number in numbers_in(path)}
    return sorted(found, key=lambda number: (number.file, number.line, number.start))


def figures(copy: Path, rows: tuple[str, ...]) -> dict[str, str]:
    """Run the quick rows of the guard on the sources in ``copy``; returns the figure of each."""
    out = copy / "figures.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "guard.py"), "--quick", "--only", *rows]
    environment = {**os.environ, "PYTHONPATH": str(copy)}
    done = subprocess.run(
        [*command, "--workers", "1", "--out", str(out)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=1800,
    )
    if not out.exists():
        return {"failed": done.stderr.strip().splitlines()[-1] if done.stderr else "failed"}
    found = json.loads(out.read_text())
    return {name: json.dumps([numbers for numbers, _ in each]) for name, each in found.items()}


def measure(number: Number, factor: float) -> dict[str, str]:
    """Change one number in a copy of the sources and run the rows of its room."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(SOURCE, copy / "romdp")
        path = copy / "romdp" / number.file
        lines = path.read_text().splitlines(keepends=True)
        line = lines[number.line - 1].encode()
        lines[number.line - 1] = (
            line[: number.start] + number.changed(factor).encode() + line[number.end :]
        ).decode()
        path.write_text("".join(lines))
        return figures(copy, ROWS[number.room])


def main() -> int:
    """List the numbers, or measure what depends on them and write a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="only say what there is")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/out/constants.md"))
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--rooms", nargs="*", help="packages, by default all")
    parser.add_argument("--budget", type=float, default=math.inf, help="minutes that it may take")
    options = parser.parse_args()
    found = [number for number in all_numbers() if options.only in number.file]
    if options.rooms:
        found = [number for number in found if number.room in options.rooms]
    if options.list:
        for number in found:
            print(f"{number.file}:{number.line} {number.name} {number.text}")
        print(f"{len(found)} numbers in {len({number.file for number in found})} files")
        return 0
    kept = ROOT / "benchmarks" / "out" / "constants.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    known = {}
    if kept.exists():
        rows = [json.loads(line) for line in kept.read_text().splitlines()]
        known = {(row["file"], row["name"], row["text"], row["factor"]): row for row in rows}
    steering = [number for number in found if number.room in ROWS]
    wanted = [(number, factor) for number in steering for factor in (0.5, 2.0)]
    began, base = time.monotonic(), dict[str, dict[str, str]]()
    for done, (number, factor) in enumerate(wanted, start=1):
        key = (number.file, number.name, number.text, factor)
        if key in known:
            continue
        if time.monotonic() - began > 60 * options.budget:
            print(f"the time is over: {len(wanted) - done + 1} of {len(wanted)} are left")
            break
        if number.room not in base:
            base[number.room] = _base(number.room)
        after = measure(number, factor)
        moved = sorted(
            name for name in base[number.room] if after.get(name) != base[number.room][name]
        )
        row = {"file": number.file, "name": number.name, "text": number.text, "factor": factor}
        known[key] = {**row, "moved": ["failed"] if "failed" in after else moved}
        with kept.open("a") as file:
            file.write(json.dumps(known[key]) + "\n")
        print(f"{done}/{len(wanted)} {number.file} {number.name} x {factor}: {moved}", flush=True)
    options.out.write_text(table(steering, known))
    return 0


def _base(room: str) -> dict[str, str]:
    """Return the figures of the rows of a room as the sources are."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(SOURCE, copy / "romdp")
        return figures(copy, ROWS[room])


def table(steering: list[Number], known: dict[tuple[str, str, str, float], dict]) -> str:
    """Write a row for each number that was measured: what moves when it is halved or doubled."""
    lines = ["| file | number | value | halved moves | doubled moves |", "|---|---|--:|---|---|"]
    left = []
    for number in steering:
        rows = [known.get((number.file, number.name, number.text, factor)) for factor in (0.5, 2.0)]
        if None in rows:
            left.append(f"{number.file} `{number.name}` {number.text}")
            continue
        moves = [", ".join(row["moved"]) or "nothing" for row in rows]
        lines.append(f"| {number.file} | {number.name} | {number.text} | {' | '.join(moves)} |")
    if left:
        lines += ["", f"Not measured: {'; '.join(left)}."]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
