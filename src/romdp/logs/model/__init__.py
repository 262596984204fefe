"""What logs teach: `LatentModel`, its files and its checks."""

from romdp.logs.model.files import load_model
from romdp.logs.model.latent import LatentModel
from romdp.logs.model.text import model_facts

__all__ = ["LatentModel", "load_model", "model_facts"]
