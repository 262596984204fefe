"""Install what `make dist` built into empty environments and try it outside the source tree.

``python .ci/smoke.py dist``; needs the package registry. The wheel must hold every file of
src/romdp, the sdist all that is needed to test, document and measure romdp again.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IN_SDIST = (
    *("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "LICENSE"),
    *("Makefile", "constraints.txt", ".ci/smoke.py", "docs/index.md", "examples/README.md"),
    *("benchmarks/table.py", "tests/conftest.py", "src/romdp/py.typed"),
)

TRY = """
import pathlib, romdp
home = pathlib.Path(romdp.__file__).parent
assert "site-packages" in home.parts, home
assert (home / "py.typed").is_file()
world = romdp.worlds.random_romdp(n_states=5, n_actions=4, n_observations=30, seed=0)
run = romdp.play(romdp.LCPSRL(), world, steps=20_000, seed=0)
assert run.partition == romdp.Partition(world.labels), run
print("      ", run)
"""
COMMANDS = """
romdp --version
romdp generate random-romdp --observations 12 --out world.npz
romdp inspect --brief world.npz
romdp compare --observations 10 --steps 2000 --seeds 2 --agents lc-psrl,ucrl2 --out runs --quiet
romdp report runs
"""


def check_contents(wheel: Path, sdist: Path) -> None:
    """Look for what must be inside, and for what must not."""
    sources = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "romdp").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == sources, f"the wheel differs from src: {sorted(packed ^ sources)}"
    with tarfile.open(sdist) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    missing = [name for name in IN_SDIST if name not in held]
    assert not missing, f"the sdist lacks {missing}"
    built = [name for name in held if "__pycache__" in name or name.startswith("docs/_build")]
    assert not built, f"the sdist holds built files: {built[:5]}"


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command without what this checkout puts into the environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def install(archive: Path, extra: str, folder: Path) -> Path:
    """Make an environment that holds nothing but the archive; return its programs' folder."""
    venv.create(folder / "env", with_pip=True)
    programs = folder / "env" / "bin"
    pip = (programs / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
    pinned = ("--no-compile", "--constraint", ROOT / "constraints.txt")
    run(*pip, *pinned, f"{archive}[{extra}]", cwd=folder)
    return programs


def play(programs: Path, folder: Path) -> None:
    """Import and play; this compiles the kernels anew."""
    print(run(programs / "python", "-W", "error", "-c", TRY, cwd=folder), end="", flush=True)


def run_commands(programs: Path, folder: Path) -> None:
    """Run the command as a user does; the report needs the page's own files."""
    for line in COMMANDS.strip().splitlines():
        name, *arguments = line.split()
        run(programs / name, *arguments, cwd=folder)
    page = (folder / "runs" / "report.html").read_text(encoding="utf-8")
    for asset in ("shell.css", "shell.js", "experiment.js"):
        text = (ROOT / "src" / "romdp" / "reports" / "assets" / asset).read_text(encoding="utf-8")
        assert text.strip() in page, f"{asset} is not in the report"


def run_tests(sdist: Path, programs: Path, folder: Path) -> None:
    """Collect all tests of the sdist and run a few, against the installed package."""
    with tarfile.open(sdist) as opened:
        opened.extractall(folder, filter="data")
    (tree,) = folder.glob("romdp-*")
    pytest = (programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    found = run(*pytest, "--collect-only", "tests", cwd=tree).splitlines()[-1]
    few = ("tests/test_packaging.py", "tests/core/test_lazy.py", "tests/data/test_partition.py")
    done = run(*pytest, *few, cwd=tree).splitlines()[-1]
    print(f"       its tests: {found}; some of them: {done}", flush=True)


def main() -> None:
    """Try the wheel, then the sdist and its tests."""
    built = Path(sys.argv[1]).resolve()
    (wheel,), (sdist,) = built.glob("*.whl"), built.glob("*.tar.gz")
    check_contents(wheel, sdist)
    for archive, extra in ((wheel, "plot"), (sdist, "test")):
        print(f"{archive.name} in an empty environment", flush=True)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            programs = install(archive, extra, folder)
            if archive == wheel:
                play(programs, folder)
                run_commands(programs, folder)
            else:
                run_tests(sdist, programs, folder)
    print("both can be installed and used")


if __name__ == "__main__":
    main()
