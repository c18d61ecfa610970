"""Findings of detectors: spans of a text, in characters, each of one kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

REDACTION_PREFIX = "[REDACTED:"  # no detector may match text that holds it, or redaction would not end

_LINE_BREAKS = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")


class Finding(NamedTuple):
    """A half-open span of a text that holds one thing of the named kind."""

    start_char: int
    end_char: int
    kind: str


def find_occurrences(text: str, needle: str) -> Iterator[int]:
    """Where the needle starts, without overlaps: the cheapest search there is."""
    at = text.find(needle)
    while at != -1:
        yield at
        at = text.find(needle, at + len(needle))


def merge_overlapping(findings: Iterable[Finding]) -> list[Finding]:
    """The findings in order; overlapping ones are united, named by the first given among the earliest."""
    whole: list[Finding] = []
    for item in sorted(findings, key=lambda finding: finding.start_char):
        if whole and item.start_char < whole[-1].end_char:
            whole[-1] = whole[-1]._replace(end_char=max(whole[-1].end_char, item.end_char))
        else:
            whole.append(item)
    return whole


def redact(text: str, findings: Iterable[Finding]) -> str:
    """Put `[REDACTED:kind]` for each finding, followed by the line breaks that it held.

    Args:
        findings: in order, none overlapping.
    """
    parts: list[str] = []
    at = 0
    for start_char, end_char, kind in findings:
        line_breaks = _LINE_BREAKS.findall(text, start_char, end_char)
        parts += [text[at:start_char], f"{REDACTION_PREFIX}{kind}]", *line_breaks]
        at = end_char
    return "".join([*parts, text[at:]])
