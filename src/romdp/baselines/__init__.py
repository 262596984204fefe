"""Agents with a loop of their own, as yardsticks: DQN and average-reward Q-learning."""

from typing import TYPE_CHECKING

from romdp.lazy import lazy

if TYPE_CHECKING:
    from romdp.baselines.catalogue import BASELINES, Baseline, baseline, play_baseline
    from romdp.baselines.dqn import DQN
    from romdp.baselines.qlearning import QLearning

__all__ = ["BASELINES", "DQN", "Baseline", "QLearning", "baseline", "play_baseline"]

__getattr__, __dir__ = lazy(
    __name__,
    {
        "BASELINES": "catalogue",
        "Baseline": "catalogue",
        "baseline": "catalogue",
        "play_baseline": "catalogue",
        "DQN": "dqn",
        "QLearning": "qlearning",
    },
)
