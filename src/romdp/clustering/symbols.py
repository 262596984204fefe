"""The evidence in the groups found so far, which are the symbols that methods regroup."""

from romdp.clustering.evidence import Evidence
from romdp.core.errors import InvalidInputError
from romdp.data.counts import Counts
from romdp.data.partition import Partition
from romdp.data.triples import Triples


def symbol_counts(evidence: Evidence, previous: Partition) -> Counts:
    """Return the pair counts of the groups, whether those of observations or of groups came."""
    counts = evidence.counts
    if counts.n_observations == previous.n_clusters:
        return counts
    _check_size("counts", counts.n_observations, previous)
    return counts.group(previous)


def symbol_triples(evidence: Evidence, previous: Partition) -> Triples:
    """Return the triples of the groups, whether those of observations or of groups came."""
    triples = evidence.triples
    if triples is None:
        raise InvalidInputError(
            "the evidence holds no triples, which spectral learning reads; count them, as an "
            'agent does for a clusterer whose needs name "triples"'
        )
    if triples.n_observations == previous.n_clusters:
        return triples
    _check_size("triples", triples.n_observations, previous)
    return triples.relabel(previous)


def _check_size(what: str, size: int, previous: Partition) -> None:
    if size != previous.n_observations:
        raise InvalidInputError(
            f"the {what} are of {size} observations, but the grouping before has "
            f"{previous.n_observations} observations in {previous.n_clusters} groups; "
            "the evidence must be of the one or of the other"
        )
