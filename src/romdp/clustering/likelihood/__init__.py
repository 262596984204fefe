"""Grouping by the likelihood of a block model."""

from romdp.clustering.likelihood.clusterer import Likelihood, LikelihoodFit

__all__ = ["Likelihood", "LikelihoodFit"]
