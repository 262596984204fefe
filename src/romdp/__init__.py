"""Learn the few hidden states behind many observations while acting, and act well because of it.

Everything public is reachable from here; a name is imported when it is first used, so that
``import romdp`` is quick.
"""

from typing import TYPE_CHECKING

from romdp.core.lazy import find_short_names, lazy
from romdp.worlds.registration import await_gymnasium

if TYPE_CHECKING:
    from romdp import encoding as encoding
    from romdp import experiments as experiments
    from romdp import reports as reports
    from romdp import theory as theory
    from romdp import worlds as worlds
    from romdp.agents.agent import Agent as Agent
    from romdp.agents.planners import Optimism as Optimism
    from romdp.agents.planners import Posterior as Posterior
    from romdp.agents.recipes import LCPSRL as LCPSRL
    from romdp.agents.recipes import LCUCRL as LCUCRL
    from romdp.agents.recipes import PSRL as PSRL
    from romdp.agents.recipes import SLUCRL as SLUCRL
    from romdp.agents.recipes import UCRL2 as UCRL2
    from romdp.agents.recipes import UCRL3 as UCRL3
    from romdp.agents.recipes import Oracle as Oracle
    from romdp.agents.recipes import TwoPhase as TwoPhase
    from romdp.agents.stopping import Doubling as Doubling
    from romdp.clustering.clusterer import Chain as Chain
    from romdp.clustering.clusterer import Evidence as Evidence
    from romdp.clustering.clusterer import Known as Known
    from romdp.clustering.clusterer import Singletons as Singletons
    from romdp.clustering.clusterer import Spaced as Spaced
    from romdp.clustering.exploring import UntilFound as UntilFound
    from romdp.clustering.exploring import UntilSure as UntilSure
    from romdp.clustering.homogeneity import Homogeneity as Homogeneity
    from romdp.clustering.likelihood import Likelihood as Likelihood
    from romdp.clustering.offline import cluster as cluster
    from romdp.clustering.overlap import Overlap as Overlap
    from romdp.clustering.spectral import Spectral as Spectral
    from romdp.core.errors import ROMDPError as ROMDPError
    from romdp.data.counts import Counts as Counts
    from romdp.data.partition import Partition as Partition
    from romdp.data.trajectory import Trajectory as Trajectory
    from romdp.data.triples import Triples as Triples
    from romdp.data.vocabulary import Vocabulary as Vocabulary
    from romdp.encoding.encoder import Encoder as Encoder
    from romdp.exact.mdp import MDP as MDP
    from romdp.exact.objectives import Objective as Objective
    from romdp.exact.romdp import ROMDP as ROMDP
    from romdp.experiments.directory import load_runs as load_runs
    from romdp.logs import HiddenStates as HiddenStates
    from romdp.logs import apply_model as apply_model
    from romdp.logs import evaluate as evaluate
    from romdp.logs import fit as fit
    from romdp.logs.model import LatentModel as LatentModel
    from romdp.logs.model import load_model as load_model
    from romdp.planning.confidence import Bernstein as Bernstein
    from romdp.planning.confidence import Hoeffding as Hoeffding
    from romdp.planning.timeuniform import TimeUniform as TimeUniform
    from romdp.playing import Online as Online
    from romdp.playing import Policy as Policy
    from romdp.playing import Run as Run
    from romdp.playing import baselines as baselines
    from romdp.playing import epochs as epochs
    from romdp.playing import evaluate_policy as evaluate_policy
    from romdp.playing import first_seed as first_seed
    from romdp.playing import load_policy as load_policy
    from romdp.playing import play as play
    from romdp.playing.checks import check_agent as check_agent
    from romdp.worlds.simulator import Simulator as Simulator
    from romdp.worlds.simulator import simulate as simulate

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy(__name__, __file__)

find_short_names()
await_gymnasium()
