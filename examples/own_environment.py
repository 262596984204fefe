"""Learn in a Gymnasium environment of your own.

Run ``python examples/own_environment.py``. A machine wears out in four hidden stages. A sensor
shows one of 100 codes that depend on the stage, and nobody knows which codes belong together. Any
environment with discrete observations and actions will do; the range of rewards must be known.
"""

from typing import Any

import gymnasium
import numpy as np

import romdp

STAGES, CODES = 4, 100
RUN, SERVICE, REPLACE = range(3)


class Machine(gymnasium.Env[int, int]):
    """Run it, service it, or replace it; a machine that breaks ends the episode."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Discrete(CODES)
        self.action_space = gymnasium.spaces.Discrete(3)
        self.stage_of = np.random.default_rng(0).permutation(np.arange(CODES) % STAGES)
        self.stage = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Put a new machine in place."""
        super().reset(seed=seed)
        self.stage = 0
        return self.code(), {}

    def code(self) -> int:
        """Draw one of the stage's sensor codes."""
        return int(self.np_random.choice(np.flatnonzero(self.stage_of == self.stage)))

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Earn by running, pay for service (one stage back) and for a new machine."""
        broken = False
        if action == RUN:
            reward = 1.0 - 0.2 * self.stage
            if self.np_random.random() < 0.3:  # it wears out by one stage or more
                broken = self.stage == STAGES - 1
                self.stage = int(self.np_random.integers(min(self.stage + 1, STAGES - 1), STAGES))
        else:
            reward = -0.3 if action == SERVICE else -1.5
            self.stage = max(self.stage - 1, 0) if action == SERVICE else 0
        return self.code(), reward - 4.0 * broken, broken, False, {}


def main() -> None:
    """Play the same machine with and without grouping."""
    steps, truth = 10_000, romdp.Partition(Machine().stage_of)
    for agent in (romdp.LCPSRL(), romdp.PSRL()):
        run = romdp.play(agent, Machine(), steps, seed=1, reward_range=(-4, 1))
        earned, groups = run.reward[-1] / steps, run.partition
        print(f"{run.agent}: {earned:.3f} per step, {groups.n_clusters} groups")
        if groups == truth:
            print("         which are the four stages exactly")


if __name__ == "__main__":
    main()
