"""What logs teach: `LatentModel`, its files and its checks."""

from romdp.model.facts import model_facts
from romdp.model.files import load_model
from romdp.model.latent import LatentModel

__all__ = ["LatentModel", "load_model", "model_facts"]
