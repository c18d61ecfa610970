"""Finds what a text says of other documents: ids, addresses and links, and the words before them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from knowledge_pipeline.records import Mention, Metadata
from knowledge_pipeline.relations.names import KEY, NUMBER, SHA, URL, DocumentContext, resolve_name

VERSION = "1"  # of what is found in a text, and of how names are spelled
KINDS = ("closes", "implements", "supersedes", "duplicates", "changes", "attached_to", "references")
"""How one document may be related to another, the most telling first."""

MAX_MENTIONS = 300  # of one text, or of one document's metadata
_MAX_TARGET_CHARS = 500  # of a target
_MAX_KEPT_CHARS = 4_000  # of a text whose mentions are kept

_TARGET = re.compile(
    rf"(?P<url>{URL})|(?<![\w/&.-])(?P<number>{NUMBER})\b|(?<![\w-])(?P<key>{KEY})(?![\w-])"
    rf"|(?<![\w./#-])(?P<sha>(?=[a-f]*\d)(?=\d*[a-f]){SHA})(?![\w-])"
)
_TARGET_HINT = r"://|[#!]\d|[A-Z0-9_]-\d"  # what every target but a commit holds
_HINT, _HINT_OF_ANY = re.compile(_TARGET_HINT), re.compile(rf"{_TARGET_HINT}|[0-9a-f]{{7}}")
_KIND_WORDS = tuple(
    (kind, re.compile(rf"\b(?:{words})\b[\s:]*(?:(?:issue|ticket|bug|pr|pull request|the)\s+)*\(?$", re.I))
    for kind, words in (
        ("closes", "clos(?:e|es|ed|ing)|fix(?:es|ed|ing)?|resolv(?:e|es|ed|ing)"),
        ("implements", "implement(?:s|ed|ing)?"),
        ("supersedes", "supersed(?:e|es|ing)|replac(?:e|es|ing)"),
        ("duplicates", "duplicates?(?:\\s+of)?|dup(?:e)?\\s+of"),
    )
)
_KIND_WINDOW_CHARS = 40  # before a target, that may say how it is related
_LIST_SEPARATOR = re.compile(r"^\)?\s*(?:,|;|&|and|,\s*and)\s*\(?$", re.I)
_NUMBERED_SOURCE_TYPES = (
    *("github_pr", "github_issues", "discussions", "releases", "snippets"),
    *("git_history", "markdown", "archive", "files"),
)
_SOURCE_TYPES_WITHOUT_SHAS = frozenset({"code", "openapi"})
_NUMBER_IN_CODE = re.compile(r"(?:issue|bug|pr|pull request|gh-?|see|clos\w+|fix\w*|resolv\w+)[\s:(]*$", re.I)


def extract_mentions(text: str, context: DocumentContext, links: Iterable[str] = ()) -> Sequence[Mention]:
    """What a text mentions, and the targets of its links; each name once, by its most telling kind."""
    find = _recall_mentions if len(text) <= _MAX_KEPT_CHARS else _find_mentions
    return find(text, context, tuple(links))


def _find_mentions(text: str, context: DocumentContext, links: tuple[str, ...]) -> tuple[Mention, ...]:
    targets = [*_iter_targets(text, context), *(("references", link) for link in links)]
    return tuple(_resolve_mentions(targets, context))


_recall_mentions = lru_cache(2_048)(_find_mentions)  # most chunks of a file that is edited are as they were


def extract_metadata_mentions(metadata: Metadata, context: DocumentContext) -> list[Mention]:
    """What a document's service or its front matter says of others, and the files that a commit changed."""
    entries: list[dict[str, str] | str] = metadata.get("mentions") or []
    targets = [
        (each["kind"], each["target"])
        for each in entries
        if isinstance(each, dict) and {"kind", "target"} <= each.keys()
    ]
    if context.source_type in ("git_history", "github_pr"):
        targets += [("changes", f"/{path}") for path in metadata.get("files") or ()]
    if commit := metadata.get("merge_commit"):
        targets.append(("references", str(commit)))
    return _resolve_mentions(targets, context)


def extract_front_matter_mentions(matter: Mapping[str, Any], context: DocumentContext) -> list[Mention]:
    """The relations that a document's front matter names."""
    targets: list[tuple[str, str]] = []
    for kind in (*KINDS, "related"):
        value: Sequence[Any] | None = matter.get(kind)
        values = value if isinstance(value, (list, tuple)) else [] if value in (None, "") else [value]
        targets += [("references" if kind == "related" else kind, str(target)) for target in values]
    return _resolve_mentions(targets, context)


def _iter_targets(text: str, context: DocumentContext) -> Iterator[tuple[str, str]]:
    """Kind and target of every id and address, in the order of the text."""
    kind, end = "references", 0
    hint = _HINT if context.source_type in _SOURCE_TYPES_WITHOUT_SHAS else _HINT_OF_ANY
    for found in _TARGET.finditer(text) if hint.search(text) else ():
        before = text[max(end, found.start() - _KIND_WINDOW_CHARS) : found.start()]
        if _is_reference(found, before, context):
            if not (end and _LIST_SEPARATOR.match(text[end : found.start()])):
                kind = next((kind for kind, words in _KIND_WORDS if words.search(before)), "references")
            yield kind, found[0].rstrip(".,;:!?*_)") if found["url"] else found[0]
            end = found.end()


def _is_reference(found: re.Match[str], before: str, context: DocumentContext) -> bool:
    """Whether what looks like a number or a commit is one, in a document of this type."""
    if found["number"] and "/" not in found["number"]:
        if context.source_type == "code":  # else it is a colour, a preprocessor's line, an anchor
            return _NUMBER_IN_CODE.search(before) is not None
        return context.source_type in _NUMBERED_SOURCE_TYPES
    return not (found["sha"] and context.source_type in _SOURCE_TYPES_WITHOUT_SHAS)


def _resolve_mentions(targets: Sequence[tuple[str, str]], context: DocumentContext) -> list[Mention]:
    return keep_most_specific(
        Mention(kind if kind in KINDS else "references", target, name)
        for kind, target in targets[:MAX_MENTIONS]
        if len(target) <= _MAX_TARGET_CHARS and (name := resolve_name(target, context))
    )


def keep_most_specific(found: Iterable[Mention]) -> list[Mention]:
    """Each name once, by its most telling kind, in the order given."""
    best: dict[str, Mention] = {}
    for mention in found:
        known = best.get(mention.name)
        if known is None or KINDS.index(mention.kind) < KINDS.index(known.kind):
            best[mention.name] = mention
    return list(best.values())
