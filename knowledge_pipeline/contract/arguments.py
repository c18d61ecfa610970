"""Reads arguments as people, programs and models write them, alike in every interface.

What is empty is not set, and a list may be one text, with commas between its values. A wrong name is never
dropped: a filter that is silently left out answers another question.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, cast

from knowledge_pipeline.contract.aliases import list_aliases, list_names, rename_aliases
from knowledge_pipeline.text import is_list

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema


_MAX_NAME_CHARS = 100  # of an unknown name that similar ones are looked for


def is_unset(value: object) -> bool:
    """Whether a value stands for none: models that must name every argument send an empty text."""
    return value is None or (isinstance(value, str) and not value.strip())


def drop_unset(values: Mapping[str, Any], required: Iterable[str] = ()) -> dict[str, Any]:
    """The arguments that are set; of those that are `required`, an empty text stays, to be refused."""
    kept = frozenset(required)
    return {
        name: value
        for name, value in values.items()
        if not is_unset(value) or (name in kept and value is not None)
    }


def split_values(value: Any, *, at_commas: bool = True) -> Any:
    """The values of a list, written as one text, as JSON, or as a list; blank ones are none.

    Anything else is returned as it is, for whoever refuses it.
    """
    if isinstance(value, str):
        value = _split_text(value, at_commas)
    if not isinstance(value, (list, tuple, set, frozenset)):
        return value
    items = cast("Iterable[Any]", value)
    values = [item.strip() if isinstance(item, str) else item for item in items]
    return tuple(item for item in values if item != "")


def _split_text(text: str, at_commas: bool) -> list[Any]:
    if text.lstrip().startswith("["):
        try:
            if is_list(values := json.loads(text)):
                return values
        except ValueError:
            pass
    return text.split(",") if at_commas and "{" not in text else [text]


def lenient_schema(cls: type[Any], handler: GetCoreSchemaHandler, normalize: Any) -> CoreSchema:
    """What pydantic checks a dataclass by, after its values were normalized."""
    from pydantic_core import core_schema  # what asks without a server starts without it

    def read(values: Any) -> Any:
        return normalize(cast("Mapping[str, Any]", values)) if isinstance(values, Mapping) else values

    return core_schema.no_info_before_validator_function(read, handler(cls))


def normalize_request(cls: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """What is set of the values for a request, a list of names written as one text as a list."""
    required = {str(it.metadata.get("alias", it.name)) for it in fields(cls) if not _has_default(it)}
    lists = {it.name for it in fields(cls) if it.default == () and it.name != "history"}
    return {
        name: split_values(value) if name in lists else value
        for name, value in rename_aliases(cls, drop_unset(values, required)).items()
    }


def suggest_name(name: str, request: type[Any]) -> str:
    """`; did you mean language?`, or nothing where no argument or alias is like the one that is unknown."""
    names = [*list_names(request), *list_aliases(request)]
    close = get_close_matches(name, names, n=1) if len(name) <= _MAX_NAME_CHARS else []
    return f"; did you mean {close[0]}?" if close else ""


def _has_default(field: Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING
