"""The paper's spectral step: moments of triples, their decomposition, groups."""

from romdp.clustering.spectral.method import Spectral

__all__ = ["Spectral"]
