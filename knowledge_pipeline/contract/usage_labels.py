"""Labels of a request: for which session and project, and on whose behalf, it is sent.

Labels are only written to the logs, and decide which budget pays. Nobody sees more or less by them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from knowledge_pipeline.errors import InvalidQuery

MAX_LABEL_CHARS = 128
LABEL_PATTERN = r"^[A-Za-z0-9_.:/@+#=-]([A-Za-z0-9_.:/@+#= -]{0,126}[A-Za-z0-9_.:/@+#=-])?$"
"""Letters and digits of ASCII, as headers carry them, some marks, and spaces between them."""

_LABEL_REGEX = re.compile(LABEL_PATTERN)

_LABELS = ("session", "project", "on_behalf_of")
HEADER_NAMES = {name: f"X-Knowledge-{name.replace('_', '-').title()}" for name in _LABELS}
"""Of HTTP, by label."""

VARIABLE_NAMES = {name: f"KNOWLEDGE_{name.upper()}" for name in _LABELS}
"""Of the environment, by label."""

META_NAMES = {name: f"knowledge/{name}" for name in _LABELS}
"""Of `_meta` in a request of MCP, by label."""


def require_label(name: str, value: object) -> None:
    """Raise `InvalidQuery` for what is neither None nor a label."""
    if value is not None and not (isinstance(value, str) and _LABEL_REGEX.fullmatch(value)):
        raise InvalidQuery(
            f"{name} is not a label: give 1 to {MAX_LABEL_CHARS} ASCII letters, digits, inner spaces and "
            "characters of _.:/@+#=-"
        )


@dataclass(frozen=True, slots=True)
class UsageLabels:
    """The labels of one request; None: not labelled. Raises `InvalidQuery`: one is no label."""

    session: str | None = None  # of a user or agent
    project: str | None = None
    on_behalf_of: str | None = None  # the person or program that the caller works for

    def __post_init__(self) -> None:
        for name in HEADER_NAMES:
            require_label(name, getattr(self, name))


def read_labels(values: Mapping[str, object] | None, names: Mapping[str, str]) -> UsageLabels:
    """The labels among headers, variables or other values, by their names there; empty ones are not set.

    Raises `InvalidQuery`: a value is no label.
    """
    labels = {label: (values or {}).get(name) for label, name in names.items()}
    return UsageLabels(**{label: value or None for label, value in labels.items()})  # pyright: ignore[reportArgumentType]  # checked there


def merge_labels(labels: UsageLabels, others: UsageLabels) -> UsageLabels:
    """The labels, and where one is not set that of the others."""
    return UsageLabels(**{name: getattr(labels, name) or getattr(others, name) for name in HEADER_NAMES})
