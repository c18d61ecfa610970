"""Finds secrets: private keys, tokens, passwords in URLs and in assignments."""

from __future__ import annotations

import re
from collections.abc import Iterator

from knowledge_pipeline.sanitizing.assignments import find_assigned_secrets
from knowledge_pipeline.sanitizing.findings import Finding, find_occurrences
from knowledge_pipeline.sanitizing.token_formats import find_tokens

_KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_KEY_CHARS = 32_000  # the longest block looked at
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=]{40,}+")  # a line of it; code that only names the header has none
_BODY_LINES = re.compile(
    r"(?:[^\S\n]*+[\"'+>#*/]{0,3}+[^\S\n]*+[A-Za-z0-9+/=]{16,}+[^\n]{0,8}+(?:\n|\Z)|[^\n]{0,4}+\n)*+"
)

_URL_LOGIN = re.compile(
    r"://(?P<user>[^\s/:@'\"`<>{}$()\[\]?#]{0,100}+):(?P<password>[^\s/@'\"`<>{}$()\[\]?#]{3,200}+)@"
)
_NON_PASSWORD = re.compile(
    r"(?i:pass(?:word|wd|phrase)?|pw|pwd|secret|token|user(?:name)?|admin|root|guest|test|postgres|example|changeme"
    r"|your.*|my.?(?:pass|secret|token).*|.*(?:password|example|placeholder).*|(.)\1*|\*+|\.+|%\w|[A-Z_]+|\d{2,5})"
)


def find_secrets(text: str) -> Iterator[Finding]:
    """Every secret of a text, by kind; findings may overlap."""
    yield from _find_private_keys(text)
    yield from find_tokens(text)
    yield from _find_url_passwords(text)
    yield from find_assigned_secrets(text)


def _find_private_keys(text: str) -> Iterator[Finding]:
    """PEM and PGP blocks with all their lines; where the end is cut off, the lines that look like a key."""
    if "PRIVATE KEY" not in text:
        return
    begins = list(_KEY_BEGIN.finditer(text))
    for number, begin in enumerate(begins):
        limit = begins[number + 1].start() if number + 1 < len(begins) else len(text)
        stop = _find_key_end(text, begin.end(), min(limit, begin.end() + _KEY_CHARS))
        if stop:
            yield Finding(begin.start(), stop, "private_key")


def _find_key_end(text: str, start: int, limit: int) -> int | None:
    """Where a key that may begin at `start` ends; None where code or prose only names the header."""
    end = _KEY_END.search(text, start, limit)
    if end:
        body = sum(len(line) for line in _KEY_BODY.findall(text, start, end.start()))
        if body * 2 >= end.start() - start:
            return end.end()
    lines = _BODY_LINES.match(text, start, limit)
    return lines.end() if lines and _KEY_BODY.search(text, start, lines.end()) else None


def _find_url_passwords(text: str) -> Iterator[Finding]:
    for at in find_occurrences(text, "://"):
        match = _URL_LOGIN.match(text, at)
        if match and match["password"] != match["user"] and not _NON_PASSWORD.fullmatch(match["password"]):
            yield Finding(*match.span("password"), "url_password")
