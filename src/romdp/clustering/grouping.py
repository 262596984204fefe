"""From counts to hidden states: the one call behind `cluster`, `fit`, vectors and evaluation."""

from typing import NamedTuple

import numpy as np

from romdp.clustering.clusterer import Clusterer, Evidence
from romdp.clustering.likelihood import Likelihood
from romdp.core.arrays import Floats
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.triples import Triples


class Grouped(NamedTuple):
    """A grouping, and how sure each placing is; see `LikelihoodFit`.

    Only grouping by likelihood says how sure it is; under other methods that is NaN.
    ``reward_law`` says how it read rewards, and is empty under other methods; ``abstains``, whether
    all is one group for want of data.
    """

    partition: Partition
    log_odds: Floats
    certainty: Floats
    reward_law: str = ""
    abstains: bool = False


def group(
    counts: Counts,
    rng: np.random.Generator,
    clusterer: Clusterer | None = None,
    triples: Triples | None = None,
) -> Grouped:
    """Group observations of which nothing but the counts is known.

    Parameters
    ----------
    counts
        What was seen; it must not be empty.
    rng
        The same counts and generator state give the same grouping.
    clusterer
        By default `Likelihood`.
    triples
        For clusterers that read them.
    """
    clusterer = Likelihood() if clusterer is None else clusterer
    if isinstance(clusterer, Likelihood):
        fit = clusterer.fit(counts, rng)
        return Grouped(fit.partition, fit.log_odds, fit.certainty, fit.reward_law, fit.abstains)
    evidence = Evidence(counts, triples, step=counts.n_steps + 1)
    found = clusterer.regroup(evidence, Partition.singletons(counts.n_observations), rng)
    unknown = np.full(counts.n_observations, np.nan)
    return Grouped(found, unknown, unknown)
