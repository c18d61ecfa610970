"""The names that a document answers to, and the name that is meant where another one is written.

Two documents of different sources meet where a name of one equals what the other mentions, so a
name has one spelling: a ticket's key, a repository's issue, a commit's first seven digits, a file
of a repository, a page of a wiki, or an address without what does not tell pages apart.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from knowledge_pipeline.records import Metadata

KEY = r"[A-Z][A-Z0-9_]{1,9}-\d{1,7}"
SHA = r"[0-9a-f]{7,40}"
NUMBER = r"(?:[\w.-]+(?:/[\w.-]+)+)?[#!]\d{1,7}"
URL = r"https?://[^\s<>\"'`|\\^{}\[\]]+"

_KEY, _SHA, _NUMBER = (re.compile(rf"^{pattern}$") for pattern in (KEY, SHA, NUMBER))
_SHA_CHARS = 7
_ISSUE = re.compile(r"^(?P<repo>[^?#]+?)(?:/-)?/(?P<kind>issues|pull|merge_requests)/(?P<number>\d+)(?:/|$)")
_COMMIT = re.compile(rf"^[^?#]+?(?:/-)?/commits?/(?P<sha>{SHA})(?:/|$)")
_FILE = re.compile(r"^(?P<repo>[^?#]+?)(?:/-)?/(?:blob|raw|blame)/[^/]+/(?P<path>.+)$")
_TICKET = re.compile(rf"/(?:browse|issues|selectedIssue)/(?P<key>{KEY})(?:/|$)")
_PAGE = re.compile(r"/spaces/[^/]+/(?:blog|pages)/(?:\d+/\d+/\d+/)?(?P<id>\d+)(?:/|$)")
_DISPLAY = re.compile(r"/display/(?P<space>[^/]+)/(?P<title>[^/]+)$")


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a document stands, and so what a short name in it means."""

    source: str
    source_type: str
    path: str
    repo: str | None = None  # "owner/name" where it is hosted, else the folder's name
    host: str | None = None  # that the source is read from


def names_of(ground: Ground, uri: str, *, url: str | None, title: str, metadata: Metadata) -> list[str]:
    """Every name of a document, each once."""
    found = [name_of_url(url)] if url else []
    match ground.source_type:
        case "jira":
            found.append(f"key:{metadata.get('key', '')}")
        case "git_history":
            found.append(f"commit:{uri.removeprefix('commit/')[:_SHA_CHARS]}")
        case "confluence":
            found += _page_names(ground, uri, title, metadata)
        case "github_pr" | "github_issues" | "slack":
            pass  # the address says it
        case _:
            found += _file_names(ground, title, metadata)
    return list(dict.fromkeys(name for each in found for name in spellings(each)))


def name_of(written: str, ground: Ground) -> str | None:
    """The name that is meant by a link, an id, a path or a title, as written in a document.

    None where it means the document itself (`#section`) or nothing of any source (`mailto:`).
    """
    target = written.strip()
    if not target or target.startswith(("mailto:", "tel:", "data:", "javascript:")):
        return None
    if re.match(r"https?://", target):
        return name_of_url(target)
    if _KEY.match(target):
        return f"key:{target}"
    if _SHA.match(target):
        return f"commit:{target[:_SHA_CHARS]}"
    if _NUMBER.match(target):
        return _numbered(target, ground)
    if target.startswith("#"):
        return None
    if ground.source_type == "confluence":
        return f"page:{ground.host}/{target.removeprefix('page/')}".lower()
    return _place(target, ground)


def name_of_url(url: str) -> str:
    """The name of what an address shows, if its form tells; else the address itself."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2].lower()
    except ValueError:  # no address after all: `http://[`
        return f"url:{url}"
    path, asked = unquote(parts.path).strip("/"), parse_qs(parts.query)
    if found := _TICKET.search(f"/{path}"):
        return f"key:{found['key']}"
    if found := _ISSUE.match(path):
        mark = "!" if found["kind"] == "merge_requests" else "#"
        return f"issue:{found['repo']}{mark}{found['number']}".lower()
    if found := _COMMIT.match(path):
        return f"commit:{found['sha'][:_SHA_CHARS]}"
    if found := _FILE.match(path):
        return f"file:{found['repo'].lower()}/{found['path']}"
    if number := _page_number(path, asked):
        return f"page:{host}/{number}"
    if found := _DISPLAY.search(f"/{path}"):
        return f"page:{host}/{found['space']}/{found['title'].replace('+', ' ')}".lower()
    if "thread_ts" in asked and (at := path.rpartition("/p")[0]):  # a reply, in a thread of Slack
        path = f"{at}/p{asked['thread_ts'][0].replace('.', '')}"
    return f"url:{host}/{path}"


def _page_number(path: str, asked: dict[str, list[str]]) -> str | None:
    """The id of a page of Confluence, Cloud or Server."""
    if found := _PAGE.search(f"/{path}"):
        return found["id"]
    return asked["pageId"][0] if path.endswith("viewpage.action") and "pageId" in asked else None


def _page_names(ground: Ground, uri: str, title: str, metadata: Metadata) -> Iterator[str]:
    yield f"page:{ground.host}/{uri.partition('/')[2]}".lower()
    if space := metadata.get("wiki_space"):
        yield f"page:{ground.host}/{space}/{title}".lower()


def _file_names(ground: Ground, title: str, metadata: Metadata) -> Iterator[str]:
    yield _file(ground, ground.path)
    stem = posixpath.basename(ground.path).partition(".")[0]
    number = stem[: len(stem) - len(stem.lstrip("0123456789"))]  # "0007-lance": a decision's
    matter: Any = metadata.get("front_matter")
    ids = [metadata.get("id"), matter.get("id") if isinstance(matter, dict) else None]
    for called in filter(None, (stem, number, title, *map(str, filter(None, ids)))):
        yield f"key:{called}" if _KEY.match(called) else f"called:{ground.source}/{called}".lower()


def _numbered(target: str, ground: Ground) -> str | None:
    """ "#12" is of the document's own repository, "owner/name#12" of another one."""
    repo = target[: re.search(r"[#!]", target).start()] or ground.repo  # pyright: ignore[reportOptionalMemberAccess]
    return f"issue:{repo}{target[len(target.rstrip('0123456789')) - 1 :]}".lower() if repo else None


def _place(target: str, ground: Ground) -> str:
    """A path beside the document or from the top of its repository, or else what a record is called."""
    bare = unquote(re.split(r"[?#]", target, maxsplit=1)[0])
    if "/" not in bare and "." not in bare:
        return f"called:{ground.source}/{target}".lower()
    if bare.startswith("/"):
        return _file(ground, bare.lstrip("/"))
    return _file(ground, posixpath.normpath(posixpath.join(posixpath.dirname(ground.path), bare)))


def _file(ground: Ground, path: str) -> str:
    return f"file:{(ground.repo or ground.source).lower()}/{path}"


def spellings(name: str) -> Iterator[str]:
    """A name, and what a clone on this machine calls an issue: it knows its folder's name, no owner."""
    yield name
    kind, _, rest = name.partition(":")
    if kind == "issue" and "/" in rest:
        yield f"issue:{rest.rpartition('/')[2]}"
