"""Agents with a loop of their own, as yardsticks: DQN and average-reward Q-learning."""

from typing import TYPE_CHECKING

from romdp.core.lazy import lazy

if TYPE_CHECKING:
    from romdp.playing.baselines.by_name import BASELINES as BASELINES
    from romdp.playing.baselines.by_name import Baseline as Baseline
    from romdp.playing.baselines.by_name import baseline as baseline
    from romdp.playing.baselines.by_name import play_baseline as play_baseline
    from romdp.playing.baselines.dqn import DQN as DQN
    from romdp.playing.baselines.qlearning import QLearning as QLearning

__getattr__, __dir__, __all__ = lazy(__name__, __file__)
