"""Every block of code in the README and the docs does what it says.

The python blocks of a page run in order in one namespace, its console blocks in order in a shell,
all in one empty folder that holds nothing but the scripts that lie beside the page. Text that
follows a block directly is what the block prints; ``python tests/doc_pages.py`` brings it up to
date. Indented blocks show long commands: they are not run, but their options must exist.
"""

import itertools
import json
import re
import shlex
import tomllib

import pytest
from doc_pages import (
    PAGES,
    ROOT,
    TEXT,
    alike,
    fences_of,
    indented_of,
    missing,
    name_of,
    refreshed,
    run_page,
)
from typer.main import get_command

from romdp.cli import app

DIRECTIVES = {
    *("toctree", "literalinclude", "include", "eval-rst", "note", "tip", "warning", "seealso"),
    *("autosummary", "figure", "image", "currentmodule", "list-table", "admonition"),
}
"""What Sphinx itself reads: no code of ours."""


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_are_well_formed(page):
    for block in fences_of(page):
        where = f"{name_of(page)}:{block.line}"
        directive = re.match(r"\{([a-z-]+)\}", block.language)
        if directive:
            assert directive[1] in DIRECTIVES, f"{where}: {block.language} is not run; use a fence"
        elif block.language == "python":
            compile(block.text, where, "exec")
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)
        else:
            known = {"console", *TEXT}
            assert block.language in known, f"{where}: nobody checks {block.language!r}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_headings_skip_no_level(page):
    """Sphinx refuses a page that goes from # to ###, but only after it has run all notebooks."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    levels = [len(marks) for marks in re.findall(r"^(#+) ", prose, flags=re.MULTILINE)]
    for level, deeper in itertools.pairwise(levels):
        assert deeper <= level + 1, f"{name_of(page)}: a heading of level {deeper} after {level}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_long_commands_exist(page):
    unchecked = [b.text for b in fences_of(page) if b.language in TEXT and not b.follows]
    for text in [*indented_of(page), *unchecked]:
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True) if is_command(line) else []
            if words[:1] == ["romdp"]:
                read_options(words[1:])
            elif words[:1] == ["python"] and words[1].endswith(".py"):
                assert (ROOT / words[1]).is_file(), line
            elif words[:1] == ["make"]:
                assert is_target(words[1]), line


def is_command(line: str) -> bool:
    return re.match(r"(romdp|python|make) [a-z]", line) is not None


def is_target(name: str) -> bool:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return re.search(rf"^{name}:", makefile, re.MULTILINE) is not None


def read_options(words: list[str]) -> None:
    """Let the command read its options, and do nothing."""
    command = get_command(app)
    context = command.make_context("romdp", list(words), resilient_parsing=True)
    name, rest = words[0], words[1:]
    inner = command.get_command(context, name)
    assert inner is not None, f"there is no command romdp {name}"
    if hasattr(inner, "commands"):  # generate
        name, *rest = rest
        inner = inner.get_command(context, name)
    inner.make_context(name, rest, parent=context)


def test_examples_in_the_help_can_be_read():
    main = get_command(app)
    commands = [main, *main.commands.values()]
    lines = [line for c in commands for line in (c.epilog or "").splitlines()]
    examples = [line for line in lines if line.startswith("romdp ")]
    assert len(examples) > 2 * len(main.commands) - 3
    for line in examples:
        read_options(shlex.split(line)[1:])
    assert all(c.epilog for c in commands)


@pytest.fixture
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))


def check_output(block, printed, where):
    line = missing(block.text, printed)
    assert line is None, f"{where}: not printed, or not in this order: {line!r}; it was\n{printed}"


@pytest.mark.slow
@pytest.mark.usefixtures("_in_an_empty_folder")
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_run(page):
    run_page(page, check_output)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_targets_of_make_exist(page):
    for name in re.findall(r"`make ([a-z-]+)", page.read_text(encoding="utf-8")):
        assert is_target(name), name


def test_numbers_may_round_and_words_may_not():
    assert alike("gain 0.512 of 1,000", "gain  0.511 of 1,000")
    assert alike("took 10.1 of ...", "took 10.2 of 3 seconds")
    assert not alike("gain 0.512", "gain 0.6")
    assert not alike("5 groups", "6 groups")
    assert not alike("5 groups", "5 states")


def test_shown_lines_must_come_in_order():
    assert missing("a 1\n...\nc 3", "a 1\nb 2\nc 3") is None
    assert missing("c 3\na 1", "a 1\nb 2\nc 3") == "a 1"


def test_numbers_are_refreshed_and_words_are_not():
    shown = "regret 10.0 after 5 ...\n...\nother words\n"
    printed = "regret 12.5 after 7 steps\nand 3 more\nnew words\n"
    assert refreshed(shown, printed) == "regret 12.5 after 7  ...\n...\nother words\n"


def test_unknown_options_are_found():
    read_options(["compare", "--out", "x", "--agents", "ucrl2"])
    with pytest.raises(Exception, match="no-such"):
        read_options(["compare", "--out", "x", "--no-such", "1"])
