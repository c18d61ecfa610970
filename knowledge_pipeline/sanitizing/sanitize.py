"""The one door: a text in, a text without secrets and personal data out, and what was found.

A redacted text has the line breaks of the original, so line numbers stay right, and
sanitizing it again changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata

from knowledge_pipeline.config.settings import SanitizeSettings
from knowledge_pipeline.sanitizing.findings import Finding, merge_overlapping, redact
from knowledge_pipeline.sanitizing.personal_data import find_personal_data
from knowledge_pipeline.sanitizing.secrets import find_secrets

VERSION = 1
"""Raised when a detector changes: chunks are made again."""

_MAX_PASSES = 8  # a redaction may bring a new finding to light; two rounds nearly always do

_Detector = Callable[[str], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class SanitizedText:
    """A text fit to be embedded and indexed."""

    text: str  # empty if dropped
    findings_by_kind: Mapping[str, int] = field(default_factory=dict)  # by kind: "github_token", "email"
    dropped: bool = False


def sanitize(text: str, settings: SanitizeSettings) -> SanitizedText:
    """Redact secrets and personal data, each `[REDACTED:kind]`, or drop the text, as configured.

    Never raises. A class of findings that is `off` is not looked for.
    """
    detectors = _list_detectors(settings)
    found: Counter[str] = Counter()
    for _ in range(_MAX_PASSES):
        findings = merge_overlapping(finding for find, _ in detectors for finding in find(text))
        if not findings:
            break
        found.update(finding.kind for finding in findings)
        if any(treatment == "drop" and next(find(text), None) for find, treatment in detectors):
            return SanitizedText("", dict(found), dropped=True)
        text = redact(text, findings)
    return SanitizedText(text, dict(found))


def fingerprint(settings: SanitizeSettings) -> str:
    """Equal for settings and versions that treat every text alike."""
    if settings.secrets == settings.personal_data == "off":
        return "off"
    parts = [f"sanitize {VERSION}", f"secrets {settings.secrets}", f"personal {settings.personal_data}"]
    if settings.personal_data != "off":
        parts += [f"{package} {metadata.version(package)}" for package in ("phonenumbers", "python-stdnum")]
    return ", ".join(parts)


def _list_detectors(settings: SanitizeSettings) -> list[tuple[_Detector, str]]:
    both = [(find_secrets, settings.secrets), (find_personal_data, settings.personal_data)]
    return [(find, treatment) for find, treatment in both if treatment != "off"]
