"""What cannot work is refused in one line before the work begins; what nobody expected too."""

import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import romdp
from romdp.cli import _one_line_warning, main

SMALL = ("--states", "3", "--actions", "2", "--observations", "6", "--agents", "ucrl2")
COMPARE = ("compare", *SMALL, "--steps", "50", "--seeds", "1", "--quiet")
GENERATE = ("generate", "river-swim")


@pytest.fixture
def command(monkeypatch, capsys):
    """Run the command in this process, with its outermost handler."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["romdp", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        done = capsys.readouterr()
        return end.value.code, done.out, done.err

    return run


def process(*arguments, **streams):
    """Run the real command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "romdp", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=300,
        **streams,
    )
    return done.returncode, "", done.stderr


def refused(done, status=2):
    """Return the one line that says why; nothing else is printed."""
    code, output, errors = done
    assert (code, output) == (status, ""), errors
    assert errors.startswith("romdp: ")
    assert errors.count("\n") == 1
    assert "Traceback" not in errors
    return errors


@pytest.fixture(autouse=True)
def _inside(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("out", ["", ".", "/", "..", "sub", "fifo", "/dev/null"])
def test_a_file_is_not_written_where_none_can_be(command, out):
    os.mkdir("sub")
    os.mkfifo("fifo")
    assert "cannot write" in refused(command(*GENERATE, "--out", out))
    assert sorted(os.listdir()) == ["fifo", "sub"]
    assert stat.S_ISFIFO(os.stat("fifo").st_mode)
    assert os.listdir("sub") == []


def test_a_link_is_written_through(command):
    os.mkdir("elsewhere")
    os.symlink("elsewhere/world.npz", "link.npz")
    assert command(*GENERATE, "--out", "link.npz")[0] == 0
    assert os.path.islink("link.npz")
    assert romdp.ROMDP.load("elsewhere/world.npz") == romdp.worlds.river_swim()


@pytest.mark.parametrize("out", ["", ".", "/", "..", "file", "fifo", "/dev/null"])
def test_a_comparison_does_not_begin_without_a_place(command, out):
    Path("file").write_text("mine")
    os.mkfifo("fifo")
    assert "cannot write" in refused(command(*COMPARE, "--out", out))
    assert sorted(os.listdir()) == ["fifo", "file"]
    assert Path("file").read_text() == "mine"


def test_agents_that_need_the_range_of_rewards_do_not_begin_without_it(command):
    cliff = ("--world", "gym:CliffWalking-v1", "--agents", "lc-psrl,psrl", "--steps", "50")
    said = refused(command("compare", *cliff, "--quiet", "--out", "x"))
    assert "agent 'psrl'" in said
    assert "--set 'reward_range=[LOW,HIGH]'" in said
    assert os.listdir() == []


@pytest.mark.parametrize("out", [".", "sub", "fifo"])
def test_a_page_is_not_written_where_none_can_be(command, out):
    os.mkdir("sub")
    os.mkfifo("fifo")
    assert "cannot write" in refused(command("report", "runs", "--out", out))
    assert sorted(os.listdir()) == ["fifo", "sub"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--states", 100_000, "--observations", 100_000), "GiB"),
        (("--observations", 10**18), "GiB"),
        (("--states", 10**18), "fewer than|GiB"),
        (("--observations", 10**19), f"n_observations is {10**19}; .* from 1 to {2**62}"),
        (("--states", 10**19), f"n_states is {10**19}; .* from 1 to {2**62}"),
    ],
)
def test_worlds_beyond_any_memory(command, arguments, words):
    message = refused(command("generate", "random-romdp", "--out", "w", *map(str, arguments)))
    assert re.search(words, message)
    assert os.listdir() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--steps", "1e19"), "steps is 10000000000000000000"),
        (("--seeds", str(2**63)), f"seeds is {2**63}"),
        (("--observations", "1e18"), "GiB"),
        (("--observations", "1e19"), f"--observations is {10**19}"),
        (("--states", "100000", "--observations", "100000"), "GiB"),
        (("--factor", "0"), "factor is 0"),
    ],
)
def test_comparisons_beyond_any_machine(command, arguments, words):
    assert words in refused(command(*COMPARE, *arguments, "--out", "x"))
    assert os.listdir() == []


def test_files_nested_without_end(command):
    Path("e.toml").write_text(f"steps = {'[' * 5000}{']' * 5000}")
    Path("e.json").write_text("[" * 50_000 + "]" * 50_000)
    for name in ("e.toml", "e.json"):
        assert "nested too deeply" in refused(command("compare", "--config", name, "--out", "x"))
    assert sorted(os.listdir()) == ["e.json", "e.toml"]


@pytest.mark.parametrize("arguments", [("inspect",), (*GENERATE, "--out"), (*COMPARE, "--out")])
def test_names_that_are_not_utf8(command, arguments):
    assert "not valid UTF-8" in refused(command(*arguments, os.fsdecode(b"w\xff.npz")))
    assert os.listdir() == []


def test_names_with_newlines_stay_on_their_line(command):
    romdp.worlds.river_swim(3).save("a\nb.npz")
    code, output, _ = command("inspect", "a\nb.npz", "--brief")
    assert code == 0
    assert output.splitlines()[0] == "a\\nb.npz"


def script(body, *arguments):
    """Run the command with something changed in it."""
    start = f"import sys; sys.argv = ['romdp', *{list(arguments)}]"
    code = f"{start}\n{body}\nfrom romdp.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_the_unexpected_is_one_line_and_a_traceback_in_a_file(command, monkeypatch, tmp_path):
    def broken(path):
        raise KeyError("two\nlines")

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("romdp.worlds.named.load_world", broken)
    message = refused(command("inspect", "w.npz"), 1)
    assert "unexpected KeyError: 'two" in message
    (file,) = tmp_path.glob("romdp-traceback-*.txt")
    assert str(file) in message
    assert "in broken" in file.read_text()


def test_an_interrupt_is_status_130(command, monkeypatch):
    def stop(path):
        raise KeyboardInterrupt

    monkeypatch.setattr("romdp.worlds.named.load_world", stop)
    status, output, errors = command("inspect", "w.npz")
    assert (status, output) == (130, "")
    assert "Traceback" not in errors


def test_an_interrupt_during_imports_is_status_130():
    body = """
class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == "romdp.cli.experiments":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Stop())
"""
    assert script(body, "--help") == (130, "", "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("arguments", [("--version",), ("inspect", "w.npz", "--brief")])
def test_a_full_disk_behind_stdout(arguments):
    romdp.worlds.river_swim(3).save("w.npz")
    with open("/dev/full", "w") as full:
        done = process(*arguments, stdout=full)
    assert "No space left" in refused(done, 1)


def test_a_reader_that_leaves_early_hears_nothing():
    romdp.worlds.river_swim(3).save("w.npz")
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as pipe:
        assert process("inspect", "w.npz", "--brief", stdout=pipe) == (1, "", "")


def test_a_warning_is_one_line_without_the_place_in_our_code(tmp_path):
    steps = range(60)
    rows = [f"{step % 3},4,{step % 2},{step % 3 // 2}" for step in steps]
    (tmp_path / "log.csv").write_text("\n".join(["x,y,do,paid", *rows]))
    columns = ("--observation", "x,y", "--action", "do", "--reward", "paid")
    code, _, errors = process("fit", str(tmp_path / "log.csv"), *columns, "--quiet")
    assert code == 0, errors
    assert "romdp: column 'y' is always 4: it tells nothing\n" in errors
    assert "UserWarning" not in errors


def test_a_coloured_warning_loses_its_colour():
    coloured = "\x1b[33mWARN: two\nlines\x1b[0m"
    assert _one_line_warning(coloured, UserWarning, "f.py", 1) == "romdp: WARN: two\\nlines\n"
    assert _one_line_warning("odd", RuntimeWarning, "f.py", 1) == "f.py:1: RuntimeWarning: odd\n"
