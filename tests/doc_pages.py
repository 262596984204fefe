"""The pages of the docs as programs: their blocks of code, run as a reader would.

``python tests/doc_pages.py [PAGE...]`` runs pages and writes the numbers that they print now in
place of those that they show. Words are left alone: where they differ, a person has to look.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from markdown_it import MarkdownIt

from romdp.cli import app
from romdp.experiments.executors import Here

ROOT = Path(__file__).parent.parent
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts),
]

NOT_RUN = {
    "pip install": "needs the package index",
    "git clone": "needs the network",
    "make ": "runs all of this; .ci/run does each once",
    "sbatch": "needs Slurm",
    "from dask_jobqueue": "needs Slurm",
    "from stable_baselines3": "needs PyTorch",
    "from torch": "needs PyTorch",
    "from d3rlpy": "needs PyTorch",
    "from quantecon": "is no dependency",
    "import stormpy": "is no dependency",
}
"""What cannot run here, by how it begins, and why. Python is compiled all the same."""

TEXT = {"text", ""}
OURS = re.compile(r"romdp (?!.*--dask)[^|&;<>*$]*")  # a command that needs no shell
COLUMNS = "110"
PORT = "8786"  # of Dask in the docs; a free one is put in its place
RELATIVE = 0.02  # by which a printed number may differ: another machine rounds otherwise
NUMBER = re.compile(r"(?:(?<=[\s\[(])-)?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")

Heard = Callable[["Block", str, str], None]
"""Hears of every block of output: what is shown, what was printed, where it stands."""


@dataclass(frozen=True)
class Block:
    """A block of code: language, text, where it begins, whether it follows another directly."""

    language: str
    text: str
    line: int
    follows: bool = False


def fences_of(page: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    blocks = []
    for i, token in enumerate(tokens):
        if token.type == "fence" and token.map is not None:
            follows = i > 0 and tokens[i - 1].type == "fence"
            blocks.append(Block(token.info.strip(), token.content, token.map[0] + 1, follows))
    return blocks


def indented_of(page: Path) -> list[str]:
    """Return the indented blocks of a page."""
    tokens = MarkdownIt("commonmark").parse(page.read_text(encoding="utf-8"))
    return [token.content for token in tokens if token.type == "code_block"]


def is_run(text: str) -> bool:
    """Tell whether a block of python or a line of a console can run here."""
    return not text.startswith(tuple(NOT_RUN))


def name_of(page: Path) -> str:
    """Return the path of a page in the repository."""
    return str(page.relative_to(ROOT))


def run_page(page: Path, heard: Heard) -> str:
    """Run all blocks of a page in the present folder and return what they printed."""
    for script in page.parent.glob("*.py"):
        shutil.copy(script, ".")
    namespace: dict[str, object] = {"__name__": "page"}
    printed = [""]
    with Shell() as shell:
        for block in fences_of(page):
            where = f"{name_of(page)}:{block.line}"
            if block.language == "python" and is_run(block.text):
                printed.append(run_python(block, where, namespace))
            elif block.language == "console":
                printed.append(shell.run(block.text, where))
            elif block.language in TEXT and block.follows:
                heard(block, printed[-1], where)
    return "".join(printed)


def run_python(block: Block, where: str, namespace: dict[str, object]) -> str:
    """Run a block as if it stood in the page's own lines, so that a traceback names them."""
    code = compile("\n" * block.line + block.text, where, "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def run_here(line: str) -> str:
    """Run our own command in this process, which spares the time to import and load kernels."""
    with (
        contextlib.redirect_stdout(io.StringIO()) as printed,
        mock.patch.dict(os.environ, COLUMNS=COLUMNS),
        mock.patch("romdp.cli.experiments.make_executor", return_value=Here()),
    ):
        status = app(shlex.split(line)[1:], standalone_mode=False)
    assert not status, line
    return printed.getvalue()


class Shell:
    """Runs the console blocks of a page; what they leave in the background ends with it."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = str(free.getsockname()[1])
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.environment = os.environ | one | {"PATH": path, "COLUMNS": COLUMNS}

    def __enter__(self) -> "Shell":
        return self

    def run(self, text: str, where: str) -> str:
        """Run the lines after ``$ ``, or all if none has one; return what they printed."""
        lines = text.replace("\\\n", " ").splitlines()
        prompted = [line[2:] for line in lines if line.startswith("$ ")]
        commands = [line for line in prompted or lines if line.strip() and is_run(line)]
        return "".join(
            run_here(line) if OURS.fullmatch(line) else self.run_line(line, where)
            for line in commands
        )

    def run_line(self, line: str, where: str) -> str:
        """Run a line by bash and return what it printed."""
        script = line.replace(PORT, self.port)
        # Files and no pipes: what runs on in the background would keep a pipe open.
        with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
            process = subprocess.Popen(
                ["bash", "-c", script],
                env=self.environment,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
            self.groups.append(process.pid)
            status = process.wait(timeout=120)
            out.seek(0)
            err.seek(0)
            printed, said = out.read(), err.read()
        assert status == 0, f"{where}: status {status} of\n{script}\n{said}"
        return printed

    def __exit__(self, *error: object) -> None:
        for group in self.groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)


def missing(shown: str, printed: str) -> str | None:
    """Return the first shown line that was not printed, in this order; "..." is anything."""
    left = printed.splitlines()
    for line in shown.splitlines():
        if line.strip() in {"", "..."}:
            continue
        while left and not alike(line, left[0]):
            left.pop(0)
        if not left:
            return line
        left.pop(0)
    return None


def alike(shown: str, printed: str) -> bool:
    """Compare two lines: words to the letter, numbers nearly, "..." at the end with anything."""
    shown, printed = _cut(shown, printed)
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    pairs = zip(_numbers(shown), _numbers(printed), strict=True)
    return all(_near(a, b) for a, b in pairs)


def _cut(shown: str, printed: str) -> tuple[str, str]:
    words, said = shown.split(), printed.split()
    if words and words[-1].endswith("..."):
        words[-1] = words[-1].removesuffix("...")
        words = [word for word in words if word]
        said = said[: len(words)]
    return " ".join(words), " ".join(said)


def _numbers(line: str) -> list[float]:
    return [float(number.replace(",", "")) for number in NUMBER.findall(line)]


def _near(shown: float, printed: float) -> bool:
    if shown == int(shown) and abs(shown) < 100:  # a count
        return shown == printed
    return abs(shown - printed) <= max(RELATIVE * abs(shown), 0.005)


def refreshed(shown: str, printed: str) -> str:
    """Return what is shown with the numbers that were printed, where the words are the same."""
    left = printed.splitlines()
    lines = []
    for line in shown.splitlines():
        shape = NUMBER.sub("#", _cut(line, line)[0])
        found = next(
            (i for i, new in enumerate(left) if NUMBER.sub("#", _cut(line, new)[1]) == shape), None
        )
        if line.strip() in {"", "..."} or found is None:
            lines.append(line)
            continue
        new, left = left[found], left[found + 1 :]
        if line.rstrip().endswith("..."):  # as many words as are shown
            words = list(re.finditer(r"\S+", new))[: len(_cut(line, line)[0].split())]
            new = new[: words[-1].end()] + "  ..."
        lines.append(new.rstrip())
    return "\n".join(lines) + "\n"


def main(names: Iterable[str]) -> None:
    """Bring the numbers on pages up to date."""
    for page in [Path(name).resolve() for name in names] or PAGES:
        changes: list[tuple[str, str]] = []

        def note(
            block: Block, printed: str, where: str, changes: list[tuple[str, str]] = changes
        ) -> None:
            new = refreshed(block.text, printed)
            changes.append((block.text, new))
            if missing(new, printed) is not None:
                sys.stderr.write(f"{where}: the words differ\n{printed}\n")

        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            sys.path.insert(0, folder)
            run_page(page, note)
            sys.path.remove(folder)
        text = page.read_text(encoding="utf-8")
        for old, new in changes:
            text = text.replace(f"```text\n{old}```", f"```text\n{new}```")
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
