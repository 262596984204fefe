"""The manners of scikit-learn: parameters by name, a short ``repr``, its own kind of error."""

import inspect
import sys
from importlib import import_module
from typing import Any, Self

from numpy.typing import NDArray

from romdp.core.errors import InvalidInputError, MisuseError
from romdp.core.validation import choice


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


class Transformer(Estimator):
    """Base of what has ``transform`` as well: it returns a data frame to whoever asks for one."""

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns that ``transform`` returns."""
        raise NotImplementedError

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``transform`` returns: ``"default"``, an array, ``"pandas"`` or ``"polars"``.

        None changes nothing. Where nothing is chosen, ``sklearn.set_config`` decides.
        """
        if transform is not None:
            choice(transform, "transform", ("default", "pandas", "polars"))
            self._sklearn_output_config = {"transform": transform}  # a clone gets it by this name
        return self

    def _as_chosen(self, values: Any, given: Any) -> Any:
        """Return an array, or a frame of it; in pandas, rows are called as in the frame given."""
        chosen = getattr(self, "_sklearn_output_config", {}).get("transform")
        if chosen is None and "sklearn" in sys.modules:
            chosen = sys.modules["sklearn"].get_config()["transform_output"]
        if chosen in (None, "default"):
            return values
        names = list(self.get_feature_names_out())
        try:
            package = import_module(chosen)
        except ImportError as error:
            raise InvalidInputError(
                f"transform shall return a frame of {chosen}, which is not installed"
            ) from error
        if chosen == "polars":
            return package.DataFrame(values, schema=names, orient="row")
        rows = given.index if isinstance(given, package.DataFrame) else None
        return package.DataFrame(values, index=rows, columns=names)


def not_fitted(estimator: Estimator) -> MisuseError:
    """Make an error that is scikit-learn's own kind, too, where that is loaded to catch it."""
    message = f"this {type(estimator).__name__} is not fitted yet; call fit first"
    theirs = sys.modules.get("sklearn.exceptions")
    if theirs is None:
        return MisuseError(message)
    kind = type("NotFittedError", (MisuseError, theirs.NotFittedError), {})
    error: MisuseError = kind(message)
    return error
