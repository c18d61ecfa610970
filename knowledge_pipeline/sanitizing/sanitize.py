"""Removes secrets and personal data from a text, and counts what it found.

A redacted text keeps the line breaks of the original, so line numbers stay right, and
sanitizing it again changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata

from knowledge_pipeline.config.sources import SanitizeSettings
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.plugins import load_plugin
from knowledge_pipeline.sanitizing.findings import REDACTION_PREFIX, Finding, merge_overlapping, redact
from knowledge_pipeline.sanitizing.personal_data import find_personal_data
from knowledge_pipeline.sanitizing.secrets import find_secrets

VERSION = 2
"""Raised when a detector changes: chunks are built again."""

_MAX_PASSES = 8  # a redaction may reveal another finding; two passes nearly always suffice


@dataclass(frozen=True, slots=True)
class SanitizedText:
    """A text fit to be embedded and indexed."""

    text: str  # empty if dropped
    findings_by_kind: Mapping[str, int] = field(default_factory=dict[str, int])  # "email", "github_token"
    dropped: bool = False


def redact_sentence(text: str, *, max_chars: int) -> str:
    """A message for others in one line, without secrets and personal data."""
    clean = " ".join(sanitize(text, SanitizeSettings(secrets="redact", personal_data="redact")).text.split())
    return clean if len(clean) <= max_chars else f"{clean[: max_chars - 1]}…"


def sanitize(text: str, settings: SanitizeSettings) -> SanitizedText:
    """Redact secrets and personal data, each `[REDACTED:kind]`, or drop the text, as configured.

    What custom sanitizers find is always redacted. A class of findings that is `off` is not looked for.

    Raises `ConfigError`, `SanitizerFailed`: a custom sanitizer cannot be loaded, or failed. None other.
    """
    detectors = [(find_secrets, settings.secrets), (find_personal_data, settings.personal_data)]
    counts: Counter[str] = Counter()
    for _ in range(_MAX_PASSES):
        findings: list[Finding] = []
        dropped = False
        for find, treatment in detectors:
            matches = list(find(text)) if treatment != "off" else []
            findings += matches
            dropped |= treatment == "drop" and bool(matches)
        findings += (finding for name in settings.custom for finding in _find_custom(name, text))
        findings = merge_overlapping(findings)
        if not findings:
            break
        counts.update(finding.kind for finding in findings)
        if dropped:
            return SanitizedText("", dict(counts), dropped=True)
        text = redact(text, findings)
    return SanitizedText(text, dict(counts))


def fingerprint(settings: SanitizeSettings) -> str:
    """Equal for settings and versions that treat every text alike."""
    own = [load_plugin("sanitizer", name, key=_KEY).fingerprint for name in settings.custom]
    if settings.secrets == settings.personal_data == "off":
        return ", ".join(["off", *own])
    parts = [f"sanitize {VERSION}", f"secrets {settings.secrets}", f"personal {settings.personal_data}"]
    if settings.personal_data != "off":
        parts += [
            f"{package} {metadata.version(package)}" for package in ("phonenumberslite", "python-stdnum")
        ]
    return ", ".join([*parts, *own])


CustomSanitizer = Callable[[str], Iterable[Finding]]
"""Finds in a text what is put out of sight: half-open spans in characters, each of one kind.

A kind is of small letters, digits and `_`. It gets its own result again, with `[REDACTED:kind]` in it.
"""

_KEY = "sanitize.custom"


class SanitizerFailed(Exception):
    """A custom sanitizer raised, or found what is no span of the text; `str(error)` names it."""


def _find_custom(name: str, text: str) -> Iterator[Finding]:
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
    for finding in findings:
        is_kind = finding.kind.replace("_", "a").isalnum() and finding.kind.isascii()
        if not (0 <= finding.start_char < finding.end_char <= len(text)) or not is_kind:
            raise SanitizerFailed(f"the sanitizer {name} found what is no span with a kind")
        if (
            REDACTION_PREFIX
            not in text[max(0, finding.start_char - len(REDACTION_PREFIX)) : finding.end_char]
        ):
            yield finding
