"""Learn from a log, keep learning online, and survive a restart.

Run ``python examples/keep_learning.py [FOLDER]``. A short log gives a model, and `to_agent` makes
an agent that starts from it inside a loop of your own. Halfway through, the agent is saved to
FOLDER/agent.npz and goes on from there as if nothing had happened. For comparison, a second agent
starts from nothing.
"""

import sys
from pathlib import Path

import romdp

STEPS = 2_000


class Shop:
    """Your own system; here it is a simulated world, stepped once per action."""

    def __init__(self, world: romdp.ROMDP) -> None:
        self.env = romdp.worlds.ROMDPEnv(world)
        self.seen, _ = self.env.reset(seed=7)
        self.earned = 0.0

    def serve(self, online: romdp.Online, steps: int) -> None:
        """Let the agent act for some steps and tell it the outcome of each."""
        for _ in range(steps):
            action = online.act(self.seen)
            self.seen, reward, *_ = self.env.step(action)
            online.observe(reward, self.seen)
            self.earned += float(reward)


def main(folder: Path) -> None:
    """Learn from a log, then continue online."""
    folder.mkdir(parents=True, exist_ok=True)
    world = romdp.worlds.random_romdp(n_states=5, n_actions=4, n_observations=100, seed=2)
    log = romdp.simulate(world, "uniform", steps=20_000, seed=0)
    model = romdp.fit(log)
    print(f"log: {log.rewards.mean():.3f} per step; {model.n_states} hidden states behind it")

    # An agent deals in numbers, not names: 12 stands for model.observation_names[12]. This log has
    # all 100 pages and names them by number, so here both are the same.
    assert model.observation_names == tuple(range(world.n_observations))
    agents = {"from the log": model.to_agent(), "from nothing": romdp.LCPSRL()}
    for name, agent in agents.items():
        shop = Shop(world)
        online = romdp.Online(
            agent, model.n_observations, model.n_actions, reward_range=model.reward_range
        )
        shop.serve(online, STEPS // 2)
        online.save(folder / "agent.npz")
        online = romdp.Online.load(folder / "agent.npz", agent)  # as after a restart
        shop.serve(online, STEPS // 2)
        print(f"{name}: {shop.earned / STEPS:.3f} per step over {online.n_steps:,} steps")
    print(f"best possible: {world.hidden.gain:.3f} per step")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "online"))
