"""The manners of scikit-learn: parameters by name, a short ``repr``, its own kind of error."""

import inspect
import sys
from typing import Any, Self

from romdp.core.errors import InvalidInputError, MisuseError


class Estimator:
    """Base of what has ``fit``: the constructor keeps its arguments as they are given."""

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls.__init__).parameters)[1:]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name."""
        for name, value in params.items():
            if name not in self._names():
                raise InvalidInputError(
                    f"{type(self).__name__} has no parameter {name!r}; it has "
                    f"{', '.join(self._names())}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        given = [
            f"{name}={getattr(self, name)!r}"
            for name in self._names()
            if getattr(self, name) is not defaults[name].default
            and getattr(self, name) != defaults[name].default
        ]
        return f"{type(self).__name__}({', '.join(given)})"


def not_fitted(estimator: Estimator) -> MisuseError:
    """Make an error that is scikit-learn's own kind, too, where that is loaded to catch it."""
    message = f"this {type(estimator).__name__} is not fitted yet; call fit first"
    theirs = sys.modules.get("sklearn.exceptions")
    if theirs is None:
        return MisuseError(message)
    kind = type("NotFittedError", (MisuseError, theirs.NotFittedError), {})
    error: MisuseError = kind(message)
    return error
