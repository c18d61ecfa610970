"""What a text says of other documents: ids, addresses and links in it, and the words before them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from knowledge_pipeline.records import Metadata
from knowledge_pipeline.relations.names import KEY, NUMBER, SHA, URL, Ground, name_of

VERSION = "1"  # of what is found in a text, and of how names are spelt
KINDS = ("closes", "implements", "supersedes", "duplicates", "changes", "references")
"""How one document may be related to another, the most telling first."""

MOST = 300  # found in one text, or told of one document
_MOST_CHARS = 500  # of a target

_FOUND = re.compile(
    rf"(?P<url>{URL})|(?<![\w/&.-])(?P<number>{NUMBER})\b|(?<![\w-])(?P<key>{KEY})(?![\w-])"
    rf"|(?<![\w./#-])(?P<sha>(?=[a-f]*\d)(?=\d*[a-f]){SHA})(?![\w-])"
)
_SAID = tuple(
    (kind, re.compile(rf"\b(?:{words})\b[\s:]*(?:(?:issue|ticket|bug|pr|pull request|the)\s+)*\(?$", re.I))
    for kind, words in (
        ("closes", "clos(?:e|es|ed|ing)|fix(?:es|ed|ing)?|resolv(?:e|es|ed|ing)"),
        ("implements", "implement(?:s|ed|ing)?"),
        ("supersedes", "supersed(?:e|es|ing)|replac(?:e|es|ing)"),
        ("duplicates", "duplicates?(?:\\s+of)?|dup(?:e)?\\s+of"),
    )
)
_SAID_CHARS = 40  # before a target, that may say how it is related
_LISTED = re.compile(r"^\)?\s*(?:,|;|&|and|,\s*and)\s*\(?$", re.I)
_NUMBERED = frozenset({"github_pr", "github_issues", "git_history", "markdown", "archive", "files"})
_WITHOUT_SHAS = frozenset({"code", "openapi"})
_NUMBER_IN_CODE = re.compile(r"(?:issue|bug|pr|pull request|gh-?|see|clos\w+|fix\w*|resolv\w+)[\s:(]*$", re.I)
_FRONT_MATTER = (*KINDS, "related")


@dataclass(frozen=True, slots=True)
class Mention:
    """One document says something of another."""

    kind: str  # one of `KINDS`
    target: str  # as it is written
    name: str  # what is meant: see `names`

    def as_json(self) -> dict[str, str]:
        """A plain dictionary."""
        return {"kind": self.kind, "target": self.target, "name": self.name}


def mentions_in(text: str, ground: Ground, links: Iterable[str] = ()) -> list[Mention]:
    """What a text mentions, and the targets of its links; each name once, by its most telling kind."""
    written = [*_written(text, ground), *(("references", link) for link in links)]
    return most_telling(_named(written, ground))


def mentions_told(metadata: Metadata, ground: Ground) -> list[Mention]:
    """What a document's service or its front matter says of others, and the files that a commit changed."""
    told = [(each["kind"], each["target"]) for each in _mappings(metadata.get("mentions"))]
    if ground.source_type in ("git_history", "github_pr"):
        told += [("changes", f"/{path}") for path in metadata.get("files") or ()]
    if commit := metadata.get("merge_commit"):
        told.append(("references", str(commit)))
    return most_telling(_named(told, ground))


def mentions_of_front_matter(matter: Mapping[str, Any], ground: Ground) -> list[Mention]:
    """The relations that a document's front matter names."""
    told = [
        ("references" if kind == "related" else kind, str(target))
        for kind in _FRONT_MATTER
        for target in _listed(matter.get(kind))
    ]
    return most_telling(_named(told, ground))


def _written(text: str, ground: Ground) -> Iterator[tuple[str, str]]:
    """Kind and target of every id and address, in the order of the text."""
    kind, end = "references", 0
    for found in _FOUND.finditer(text):
        before = text[max(end, found.start() - _SAID_CHARS) : found.start()]
        if _means(found, before, ground):
            kind = kind if end and _LISTED.match(text[end : found.start()]) else _kind(before)
            yield kind, found[0].rstrip(".,;:!?*_)") if found["url"] else found[0]
            end = found.end()


def _means(found: re.Match[str], before: str, ground: Ground) -> bool:
    """Whether what looks like a number or a commit is one, in a document of this type."""
    if found["number"] and "/" not in found["number"]:
        if ground.source_type == "code":  # or a colour, a preprocessor's line, an anchor
            return _NUMBER_IN_CODE.search(before) is not None
        return ground.source_type in _NUMBERED
    return not (found["sha"] and ground.source_type in _WITHOUT_SHAS)


def _kind(before: str) -> str:
    return next((kind for kind, said in _SAID if said.search(before)), "references")


def _named(told: Iterable[tuple[str, str]], ground: Ground) -> Iterator[Mention]:
    for kind, target in islice(told, MOST):
        if len(target) <= _MOST_CHARS and (name := name_of(target, ground)):
            yield Mention(kind if kind in KINDS else "references", target, name)


def most_telling(found: Iterable[Mention]) -> list[Mention]:
    """Each name by its most telling kind, in the order given."""
    best: dict[str, Mention] = {}
    for mention in found:
        known = best.get(mention.name)
        if known is None or KINDS.index(mention.kind) < KINDS.index(known.kind):
            best[mention.name] = mention
    return list(best.values())


def _mappings(value: Any) -> Iterator[Mapping[str, str]]:
    yield from (each for each in value or () if isinstance(each, dict) and {"kind", "target"} <= set(each))


def _listed(value: Any) -> list[Any]:
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value in (None, "") else [value]
