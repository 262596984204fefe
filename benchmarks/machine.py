"""What the figures were made with: the machine and the versions, not whose machine it is."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

from simulator import processor

import romdp

ROOT = Path(__file__).parent.parent
LIBRARIES = ("numpy", "numba", "scipy", "gymnasium", "pyarrow")


def about() -> str:
    """Return two lines for a page."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES)
    return (
        f"- Machine: {processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"{platform.system()}; load before it began {os.getloadavg()[0]:.1f}.\n"
        f"- Versions: romdp {romdp.__version__} ({commit()}), "
        f"Python {platform.python_version()}, {versions}.\n"
    )


def commit() -> str:
    """Name the commit, and whether the sources differ from it."""
    changed = ", with changes" if _git("status", "--porcelain", "src") else ""
    return f"commit {_git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}"


def _git(*arguments: str) -> str:
    """Return what git says of this checkout; nothing where there is none."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
