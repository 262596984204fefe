"""Numbers that somebody decided: what they are, and what depends on them.

    python benchmarks/constants.py --list            # all of them, and how many there are
    python benchmarks/constants.py --out table.md    # halve and double each and run the guard
    python benchmarks/constants.py --rooms encoding --budget 60    # one package, in an hour

A number counts if it is given to a name in a module or in a class body, alone or in a tuple or a
dict, or as the default of a private function. Zero and one do not: they are rarely a choice; nor do
versions of formats, and columns of tables.

Each number of the rooms that steer what is found (clustering, encoding, planning, logs, agents,
playing) is halved and doubled, and rows of the guard that its files can move are run, one seed or
a few of each. A row moves if its figure is another one. The first row that moves is enough: the
number matters. One that moves no row, halved or doubled, should go unless it only bounds time or
memory. Defaults of parameters and numbers inside compiled code are listed and not tried.
``--budget`` says after how many minutes no other is begun. What was measured is kept in
``benchmarks/out`` and not measured again: the next call goes on from there.
"""

import argparse
import ast
import functools
import importlib
import json
import math
import re
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import guard

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "romdp"
ROWS = {  # files, by what their paths begin with: rows by what their names begin with, and seeds
    "clustering/spectral": {"regret: sl-ucrl of ucrl3, Y = 10": 1, "paper: sl-ucrl": 1},
    "clustering/homogeneity": {"regret: sl-ucrl of ucrl3, Y = 10": 1, "paper: sl-ucrl": 1},
    "clustering/overlap": {"regret: sl-ucrl of ucrl3, Y = 10": 1},
    "clustering/futures": {"memory: a cue, a corridor of 5": 1, "memory: where": 1},
    "clustering/histories": {"memory: a cue, a corridor of 5": 1, "memory: where": 1},
    "clustering": {"grouping": 2, "regret: lc-psrl exact from, Y = 30": 1, "logs: act": 1},
    "encoding/memory": {"memory: a cue, a corridor of 5": 1},
    "encoding": {"vectors: lock, H = 25": 1, "vectors: digits": 1},
    "planning": {
        "paper: time": 2,
        "paper: plans": 1,
        "regret: lc-psrl exact from, Y = 30": 1,
        "regret: lc-ucrl": 1,
        "returns: cliff": 1,
        "returns: deep sea": 1,
    },
    "agents": {"regret: lc-ucrl": 1, "regret: sl-ucrl of ucrl3, Y = 10": 1, "returns: cliff": 1},
    "playing": {"returns: cliff": 1, "vectors: lock, H = 25": 1, "vectors: digits": 1},
    "logs": {"logs": 1},
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
    def statement(self) -> ast.stmt | None:
        """The assignment in the module that has it; None if it stands in a class or a function."""
        body = ast.parse((SOURCE / self.file).read_text()).body
        found = (each for each in body if each.lineno <= self.line <= (each.end_lineno or 0))
        return next((each for each in found if isinstance(each, ast.Assign | ast.AnnAssign)), None)

    @property
    def can_be_tried(self) -> bool:
        """Whether the modules read it when they run: it is not compiled, nor a default."""
        if self.statement is None:
            return False
        words = set(re.findall(r"\w+", self.name))
        return not any(
            isinstance(part, ast.Name) and part.id in words
            for path in SOURCE.rglob("*.py")
            for function in ast.walk(ast.parse(path.read_text()))
            if isinstance(function, ast.FunctionDef)
            and any(ast.unparse(each) == "kernel" for each in function.decorator_list)
            and (not self.name.lstrip("(").startswith("_") or path == SOURCE / self.file)
            for part in ast.walk(function)
        )

    def assignment(self, factor: float) -> str:
        """Write its statement with it halved or doubled; whole numbers stay so, at least 1."""
        value = ast.literal_eval(self.text)
        new = str(max(1, round(value * factor))) if isinstance(value, int) else repr(value * factor)
        lines = (SOURCE / self.file).read_bytes().splitlines(keepends=True)
        line = lines[self.line - 1]
        lines[self.line - 1] = line[: self.start] + new.encode() + line[self.end :]
        statement = self.statement
        assert statement is not None
        return b"".join(lines[statement.lineno - 1 : statement.end_lineno]).decode()


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


def rows_of(file: str) -> dict[guard.Row, int]:
    """List the rows that are run for a file, the shortest first, and the seeds of each."""
    wanted = next(rows for start, rows in ROWS.items() if file.startswith(start))
    found = {
        row: seeds
        for row in guard.read_rows().values()
        for start, seeds in wanted.items()
        if row.name.startswith(start) and row.repeats[0]
    }
    return dict(sorted(found.items(), key=lambda item: item[0].seconds * item[1]))


@functools.cache
def figure_of(row: guard.Row, seeds: int) -> str:
    """Return the figures of a row as the sources are."""
    return measured(row, seeds)


def measured(row: guard.Row, seeds: int) -> str:
    """Run a row; what breaks has no figure."""
    try:
        return repr([guard.measure(row, guard.FIRST + seed)[0] for seed in range(seeds)])
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def first_moved(number: Number, factor: float) -> str:
    """Change one number in all modules that have it; returns the first row that moves, or none."""
    module = importlib.import_module(f"romdp.{number.file.removesuffix('.py').replace('/', '.')}")
    rows = {row: (figure_of(row, seeds), seeds) for row, seeds in rows_of(number.file).items()}
    before = dict(vars(module))
    exec(number.assignment(factor), vars(module))
    changed = {n: v for n, v in vars(module).items() if n not in before or v is not before[n]}
    users = [m for name, m in sys.modules.items() if name.startswith("romdp.")]
    undo = [(m, n, vars(m)[n]) for m in users for n in changed if vars(m).get(n) is before[n]]
    for user, name, _ in undo:
        setattr(user, name, changed[name])
    try:
        for row, (figure, seeds) in rows.items():
            if measured(row, seeds) != figure:
                return row.name
        return ""
    finally:
        for user, name, value in [*undo, *((module, n, before[n]) for n in changed)]:
            setattr(user, name, value)


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
        found = [number for number in found if number.file.startswith(tuple(options.rooms))]
    if options.list:
        for number in found:
            print(f"{number.file}:{number.line} {number.name} {number.text}")
        print(f"{len(found)} numbers in {len({number.file for number in found})} files")
        return 0
    kept = ROOT / "benchmarks" / "out" / "constants.jsonl"
    kept.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    known = {(row["file"], row["name"], row["text"]): row["moved"] for row in rows}
    steering = [number for number in found if number.file.startswith(tuple(ROWS))]
    began = time.monotonic()
    warnings.simplefilter("ignore")
    for number in steering:
        key = (number.file, number.name, number.text)
        if key in known or not number.can_be_tried:
            continue
        if time.monotonic() - began > 60 * options.budget:
            print("the time is over")
            break
        known[key] = first_moved(number, 0.5) or first_moved(number, 2.0)
        with kept.open("a") as file:
            row = dict(zip(("file", "name", "text"), key, strict=True)) | {"moved": known[key]}
            file.write(json.dumps(row) + "\n")
        print(f"{number.file} {number.name} {number.text}: {known[key] or 'nothing'}", flush=True)
    options.out.write_text(table(steering, known))
    return 0


def table(steering: list[Number], known: dict[tuple[str, str, str], str]) -> str:
    """Write for each file which numbers move nothing, which matter, which were not tried."""
    lines = ["| file | move nothing | matter | not tried |", "|---|---|---|---|"]
    for file in dict.fromkeys(number.file for number in steering):
        cells: tuple[list[str], ...] = ([], [], [])
        for number in (number for number in steering if number.file == file):
            moved = known.get((number.file, number.name, number.text))
            cells[2 if moved is None else int(bool(moved))].append(f"{number.name} {number.text}")
        lines.append(f"| {file} | {' | '.join(', '.join(cell) for cell in cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
