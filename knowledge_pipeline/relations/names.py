"""Lists the names of a document, and resolves what it writes to the name of another.

Two documents are related where one mentions a name of the other, so a name has one spelling: a
ticket's key, a repository's issue, a commit's first seven digits, a file of a repository, a page of a
wiki, or an address without the parts that do not tell pages apart.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from knowledge_pipeline.records import Metadata

KEY = r"[A-Z][A-Z0-9_]{1,9}-\d{1,7}"
SHA = r"[0-9a-f]{7,40}"
NUMBER = r"(?:[\w.-]+(?:/[\w.-]+)+)?[#!]\d{1,7}"
URL = r"https?://[^\s<>\"'`|\\^{}\[\]]+"

_KEY, _SHA, _NUMBER = (re.compile(rf"^{pattern}$") for pattern in (KEY, SHA, NUMBER))
_SHORT_SHA_CHARS = 7
_ISSUE_URL = re.compile(
    r"^(?P<repo>[^?#]+?)(?:/-)?/(?P<kind>issues|pull|merge_requests)/(?P<number>\d+)(?:/|$)"
)
_COMMIT_URL = re.compile(rf"^[^?#]+?(?:/-)?/commits?/(?P<sha>{SHA})(?:/|$)")
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
            f"Ground(source={self.source!r}, source_type={self.source_type!r}, path={self.path!r}, "
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
    """The name that a link, an id, a path or a title means, as written in a document.

    None if it means the document itself (`#section`) or nothing of any source (`mailto:`).
    """
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
    return _resolve_path(target, context)


@lru_cache(4_096)  # files have the same addresses again and again
def name_from_url(url: str) -> str:
    """The name of what an address shows, if its form tells; else the address itself."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2].lower()
    except ValueError:  # not an address after all: `http://[`
        return f"url:{url}"
    path, query = unquote(parts.path).strip("/"), parse_qs(parts.query)
    if found := _TICKET_URL.search(f"/{path}"):
        return f"key:{found['key']}"
    if found := _ISSUE_URL.match(path):
        mark = "!" if found["kind"] == "merge_requests" else "#"
        return f"issue:{found['repo']}{mark}{found['number']}".lower()
    if found := _COMMIT_URL.match(path):
        return f"commit:{found['sha'][:_SHORT_SHA_CHARS]}"
    if found := _FILE_URL.match(path):
        return f"file:{found['repo'].lower()}/{found['path']}"
    if found := _PAGE_URL.search(f"/{path}"):
        return f"page:{host}/{found['id']}"
    if path.endswith("viewpage.action") and "pageId" in query:
        return f"page:{host}/{query['pageId'][0]}"
    if found := _DISPLAY_URL.search(f"/{path}"):
        return f"page:{host}/{found['space']}/{found['title'].replace('+', ' ')}".lower()
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
        yield f"key:{name}" if _KEY.match(name) else f"called:{context.source}/{name}".lower()


def _resolve_path(target: str, context: DocumentContext) -> str:
    """A path from the document's folder or the top of its repository, or else the name of a record."""
    bare = unquote(re.split(r"[?#]", target, maxsplit=1)[0])
    if "/" not in bare and "." not in bare:
        return f"called:{context.source}/{target}".lower()
    if bare.startswith("/"):
        return _format_file_name(context, bare.lstrip("/"))
    path = posixpath.normpath(posixpath.join(posixpath.dirname(context.path), bare))
    return _format_file_name(context, path)


def _format_file_name(context: DocumentContext, path: str) -> str:
    return f"file:{(context.repo or context.source).lower()}/{path}"


def iter_spellings(name: str) -> Iterator[str]:
    """A name, and that of an issue in a clone on this machine, which knows its folder and no owner."""
    yield name
    kind, _, rest = name.partition(":")
    if kind == "issue" and "/" in rest:
        yield f"issue:{rest.rpartition('/')[2]}"
