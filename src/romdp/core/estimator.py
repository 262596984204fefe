"""What our estimators add to scikit-learn's, which is imported only where there is one."""

from typing import Any

from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import validate_data

from romdp.core.errors import InvalidInputError, MisuseError


class NotFittedYetError(MisuseError, NotFittedError):  # type: ignore[misc]  # it has no types
    """An estimator was asked before it was fitted."""

    def __init__(self, estimator: Any) -> None:
        super().__init__(f"this {type(estimator).__name__} is not fitted yet; call fit first")


def checked(estimator: Any, given: Any, **rules: Any) -> Any:
    """Check data by scikit-learn's rules (see ``validate_data``), in errors of our own kind."""
    try:
        return validate_data(estimator, given, **rules)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(str(error)) from error
