"""Objects and lists of parsed JSON, recognised with their types, which `isinstance` leaves unknown."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeIs


def is_object(value: object) -> "TypeIs[dict[str, Any]]":
    """Whether a value of parsed JSON is an object; its keys are text."""
    return isinstance(value, dict)


def is_list(value: object) -> "TypeIs[list[Any]]":
    """Whether a value of parsed JSON is a list."""
    return isinstance(value, list)
