"""The ``romdp`` command: it only calls the other packages."""

from romdp.cli.command import app, main

__all__ = ["app", "main"]
