"""A warning where observations hardly ever repeat: an agent that counts then learns nothing."""

import warnings

from romdp.agents.agent import AgentState

_FIRST = 1000  # steps after which it is looked at; then whenever they have doubled
_SHARE = 0.95  # observations met for each step, from which on it is hopeless


class Novelty:
    """Looks now and then whether what an agent meets has been met before, and warns once."""

    def __init__(self) -> None:
        self._due = _FIRST

    def look(self, state: AgentState) -> None:
        """Look, if it is time, at the observations that were met."""
        if state.step < self._due:
            return
        self._due *= 2
        recorder = state.recorder
        if recorder.owners is not None:  # groups are counted, and they repeat
            return
        visits = recorder.visits.reshape(-1, recorder.n_actions)
        met = int(visits.any(axis=1).sum())
        if met >= _SHARE * state.step:
            self._due = 2**62
            warnings.warn(
                f"{met:,} different observations in {state.step:,} steps: they hardly ever repeat, "
                "and nothing can be learned about what is seen once. Make observations coarser "
                "before the agent sees them: round numbers into bins, or use the label of a "
                "classifier",
                UserWarning,
                stacklevel=2,
            )
