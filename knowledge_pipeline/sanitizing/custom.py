"""Sanitizers of other packages: functions that find what else must not be indexed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.plugins import load_plugin
from knowledge_pipeline.sanitizing.findings import REDACTION_PREFIX, Finding

CustomSanitizer = Callable[[str], Iterable[Finding]]
"""Finds in a text what is put out of sight: half-open spans in characters, each of one kind.

A kind is of small letters, digits and `_`. It gets its own result again, with `[REDACTED:kind]` in it.
"""

_KEY = "sanitize.custom"


class SanitizerFailed(Exception):
    """A custom sanitizer raised, or found what is no span of the text; `str(error)` names it."""


def find_custom(name: str, text: str) -> Iterator[Finding]:
    """What a custom sanitizer finds in a text, but for redactions.

    Raises:
        ConfigError: it cannot be loaded.
        SanitizerFailed: it raised, or found no span. The text must then not be used.
    """
    find: CustomSanitizer = load_plugin("sanitizer", name, key=_KEY).value
    try:
        findings = [Finding(int(start), int(end), str(kind)) for start, end, kind in find(text)]
    except ConfigError:
        raise
    except Exception as error:  # whatever a foreign function does
        raise SanitizerFailed(f"the sanitizer {name} failed: {type(error).__name__}") from error
    for found in findings:
        is_kind = found.kind.replace("_", "a").isalnum() and found.kind.isascii()
        if not (0 <= found.start_char < found.end_char <= len(text)) or not is_kind:
            raise SanitizerFailed(f"the sanitizer {name} found what is no span with a kind")
        if REDACTION_PREFIX not in text[max(0, found.start_char - len(REDACTION_PREFIX)) : found.end_char]:
            yield found


def fingerprint_sanitizer(name: str) -> str:
    """Changes with its module; raises ConfigError if it cannot be loaded."""
    return load_plugin("sanitizer", name, key=_KEY).fingerprint
