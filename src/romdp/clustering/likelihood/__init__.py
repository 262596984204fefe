"""Grouping by the likelihood of a block model."""

from romdp.clustering.likelihood.method import Likelihood, LikelihoodFit

__all__ = ["Likelihood", "LikelihoodFit"]
