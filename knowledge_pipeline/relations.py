"""Names of documents, and their mentions of each other: ids, addresses, links and front matter. Pure.

Two documents are related where one mentions a name of the other, so a name has one spelling: a
ticket's key, a repository's issue, a commit's first seven digits, a file of a repository, a page of a
wiki, or an address without the parts that do not tell pages apart.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from unicodedata import normalize
from urllib.parse import parse_qs, unquote, urlsplit

from knowledge_pipeline.records import Mention, Metadata

KEY = r"[A-Z][A-Z0-9_]{1,9}-\d{1,7}"
SHA = r"[0-9a-f]{7,40}"
NUMBER = r"(?:[\w.-]+(?:/[\w.-]+)+)?[#!]\d{1,7}"
URL = r"https?://[^\s<>\"'`|\\^{}\[\]]+"

_WHOLE_SHA = r"[0-9a-f]{7,64}"  # of SHA-256, too, which in a text is of anything
_KEY, _SHA, _NUMBER = (re.compile(rf"^{pattern}$") for pattern in (KEY, _WHOLE_SHA, NUMBER))
_SHORT_SHA_CHARS = 7
_ISSUE_URL = re.compile(
    r"^(?P<repo>[^?#]+?)(?:/-)?/(?P<kind>issues|pull|merge_requests)/(?P<number>\d+)(?:/|$)"
)
_COMMIT_URL = re.compile(rf"^[^?#]+?(?:/-)?/commits?/(?P<sha>{_WHOLE_SHA})(?:/|$)")
_FILE_URL = re.compile(r"^(?P<repo>[^?#]+?)(?:/-)?/(?:blob|raw|blame)/[^/]+/(?P<path>.+)$")
_TICKET_URL = re.compile(rf"/(?:browse|issues|selectedIssue)/(?P<key>{KEY})(?:/|$)")
_PAGE_URL = re.compile(r"/spaces/[^/]+/(?:blog|pages)/(?:\d+/\d+/\d+/)?(?P<id>\d+)(?:/|$)")
_DISPLAY_URL = re.compile(r"/display/(?P<space>[^/]+)/(?P<title>[^/]+)$")


@dataclass(frozen=True, slots=True)
class DocumentContext:
    """Where a document is, which decides what a short name in it means."""

    source: str
    source_type: str
    path: str
    repo: str | None = None  # "owner/name" where it is hosted, else the folder's name
    host: str | None = None  # from where the source is read

    def fingerprint(self) -> str:
        """Equal for contexts in which names mean the same. Part of stored fingerprints: never reformat it."""
        return (
            f"Ground(source={self.source!r}, source_type={self.source_type!r}, "
            f"path={normalize('NFC', self.path)!r}, "  # other names since names are in NFC
            f"repo={self.repo!r}, host={self.host!r})"
        )


def list_names(
    context: DocumentContext, uri: str, *, url: str | None, title: str, metadata: Metadata
) -> list[str]:
    """Every name of a document, each once."""
    names = [name_from_url(url)] if url else []
    match context.source_type:
        case _ if "attached_to" in metadata:  # its document's names are not its own
            pass
        case "jira":
            names.append(f"key:{metadata.get('key', '')}")
        case "git_history":
            names.append(f"commit:{uri.removeprefix('commit/')[:_SHORT_SHA_CHARS]}")
        case "confluence":
            names.append(f"page:{context.host}/{uri.partition('/')[2]}".lower())
            if space := metadata.get("wiki_space"):
                names.append(f"page:{context.host}/{space}/{title}".lower())
        case "github_pr" | "github_issues" | "releases" | "snippets" | "slack":
            pass  # the address says it
        case "discussions":  # numbered like the issues of its repository
            names.append(f"issue:{context.repo}#{uri.partition('/')[2]}".lower())
        case _:
            names += _iter_file_names(context, title, metadata)
    return list(dict.fromkeys(spelling for name in names for spelling in iter_spellings(name)))


def resolve_name(reference: str, context: DocumentContext) -> str | None:
    """The name that a link, an id, a path or a title means, as written in a document, in NFC.

    None if it means the document itself (`#section`) or nothing of any source (`mailto:`).
    """
    name = _resolve_name(reference, context)
    return name and normalize("NFC", name)


def _resolve_name(reference: str, context: DocumentContext) -> str | None:
    target = reference.strip()
    if not target or target.startswith(("mailto:", "tel:", "data:", "javascript:")):
        return None
    if re.match(r"https?://", target):
        return name_from_url(target)
    if _KEY.match(target):
        return f"key:{target}"
    if _SHA.match(target):
        return f"commit:{target[:_SHORT_SHA_CHARS]}"
    if _NUMBER.match(target):
        written_repo, mark, number = re.split(r"([#!])", target)
        repo = written_repo or context.repo  # "#12" is of the document's own repository
        return f"issue:{repo}{mark}{number}".lower() if repo else None
    if target.startswith("#"):
        return None
    if context.source_type == "confluence":
        return f"page:{context.host}/{target.removeprefix('page/')}".lower()
    bare = unquote(re.split(r"[?#]", target, maxsplit=1)[0])
    if "/" not in bare and "." not in bare:
        return build_called_name(context.source, target)
    if bare.startswith("/"):
        return _format_file_name(context, bare.lstrip("/"))
    path = posixpath.normpath(posixpath.join(posixpath.dirname(context.path), bare))
    return _format_file_name(context, path)


@lru_cache(4_096)  # files have the same addresses again and again
def name_from_url(url: str) -> str:
    """The name of what an address shows, if its form tells; else the address itself."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2].lower()
    except ValueError:  # not an address after all: `http://[`
        return f"url:{url}"
    path, query = unquote(parts.path).strip("/"), parse_qs(parts.query)
    if match := _TICKET_URL.search(f"/{path}"):
        return f"key:{match['key']}"
    if match := _ISSUE_URL.match(path):
        mark = "!" if match["kind"] == "merge_requests" else "#"
        return f"issue:{match['repo']}{mark}{match['number']}".lower()
    if match := _COMMIT_URL.match(path):
        return f"commit:{match['sha'][:_SHORT_SHA_CHARS]}"
    if match := _FILE_URL.match(path):
        return f"file:{match['repo'].lower()}/{match['path']}"
    if match := _PAGE_URL.search(f"/{path}"):
        return f"page:{host}/{match['id']}"
    if path.endswith("viewpage.action") and "pageId" in query:
        return f"page:{host}/{query['pageId'][0]}"
    if match := _DISPLAY_URL.search(f"/{path}"):
        return f"page:{host}/{match['space']}/{match['title'].replace('+', ' ')}".lower()
    if "thread_ts" in query and (channel := path.rpartition("/p")[0]):  # a reply, in a thread of Slack
        path = f"{channel}/p{query['thread_ts'][0].replace('.', '')}"
    return f"url:{host}/{path}"


def _iter_file_names(context: DocumentContext, title: str, metadata: Metadata) -> Iterator[str]:
    yield _format_file_name(context, context.path)
    stem = posixpath.basename(context.path).partition(".")[0]
    number = stem[: len(stem) - len(stem.lstrip("0123456789"))]  # "0007-lance": a decision's
    matter: dict[str, Any] | str | None = metadata.get("front_matter")
    ids = [metadata.get("id"), matter.get("id") if isinstance(matter, dict) else None]
    for name in filter(None, (stem, number, title, *map(str, filter(None, ids)))):
        yield f"key:{name}" if _KEY.match(name) else build_called_name(context.source, name)


def build_called_name(source: str, name: str) -> str:
    """What a document of a source calls itself: its id, its title, its file's name."""
    return f"called:{source}/{name}".lower()


def _format_file_name(context: DocumentContext, path: str) -> str:
    return f"file:{(context.repo or context.source).lower()}/{path}"


def iter_spellings(name: str) -> Iterator[str]:
    """A name, with its accents as mentions have them, and that of an issue in a clone on this machine.

    Such a clone knows its folder and no owner.
    """
    yield from dict.fromkeys((name, normalize("NFC", name)))
    kind, _, rest = name.partition(":")
    if kind == "issue" and "/" in rest:
        yield f"issue:{rest.rpartition('/')[2]}"


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
        (entry["kind"], entry["target"])
        for entry in entries
        if isinstance(entry, dict) and {"kind", "target"} <= entry.keys()
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
    for match in _TARGET.finditer(text) if hint.search(text) else ():
        before = text[max(end, match.start() - _KIND_WINDOW_CHARS) : match.start()]
        if _is_reference(match, before, context):
            if not (end and _LIST_SEPARATOR.match(text[end : match.start()])):
                kind = next((kind for kind, words in _KIND_WORDS if words.search(before)), "references")
            yield kind, match[0].rstrip(".,;:!?*_)") if match["url"] else match[0]
            end = match.end()


def _is_reference(match: re.Match[str], before: str, context: DocumentContext) -> bool:
    """Whether what looks like a number or a commit is one, in a document of this type."""
    if match["number"] and "/" not in match["number"]:
        if context.source_type == "code":  # else it is a colour, a preprocessor's line, an anchor
            return _NUMBER_IN_CODE.search(before) is not None
        return context.source_type in _NUMBERED_SOURCE_TYPES
    return not (match["sha"] and context.source_type in _SOURCE_TYPES_WITHOUT_SHAS)


def _resolve_mentions(targets: Sequence[tuple[str, str]], context: DocumentContext) -> list[Mention]:
    return keep_most_specific(
        Mention(kind if kind in KINDS else "references", target, name)
        for kind, target in targets[:MAX_MENTIONS]
        if len(target) <= _MAX_TARGET_CHARS and (name := resolve_name(target, context))
    )


def keep_most_specific(mentions: Iterable[Mention]) -> list[Mention]:
    """Each name once, by its most telling kind, in the order given."""
    best: dict[str, Mention] = {}
    for mention in mentions:
        current = best.get(mention.name)
        if current is None or KINDS.index(mention.kind) < KINDS.index(current.kind):
            best[mention.name] = mention
    return list(best.values())
