"""An agent in a world: compiled for a ROMDP, stepped for a Gymnasium environment."""

from romdp.playing.evaluating import evaluate_policy
from romdp.playing.online import Online
from romdp.playing.places import first_seed
from romdp.playing.player import Epoch, Playing, epochs, play
from romdp.playing.policy import Policy, load_policy
from romdp.playing.run import Run

__all__ = [
    "Epoch",
    "Online",
    "Playing",
    "Policy",
    "Run",
    "epochs",
    "evaluate_policy",
    "first_seed",
    "load_policy",
    "play",
]
