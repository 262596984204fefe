"""What every agent must satisfy, as a check that anyone can run on an agent of their own."""

from romdp.playing.checks.agent import check_agent
from romdp.playing.checks.case import CheckError

__all__ = ["CheckError", "check_agent"]
