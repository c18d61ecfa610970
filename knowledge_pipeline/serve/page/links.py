"""Addresses on the page, and web addresses of sources."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote, urlencode, urlsplit

from knowledge_pipeline.contract.responses.documents import RelatedDocument
from knowledge_pipeline.contract.responses.search import Citation, SearchResult
from knowledge_pipeline.serve.page.markdown_html import LinkResolver

_LINES = re.compile(r"L(\d+)(?:-L(\d+))?")


def document_url(source: str, uri: str, lines: str = "", **more: str) -> str:
    """Where a whole document is shown, at some lines: "L10-L24"."""
    params = {"id": f"{source}:{uri}", **more, **({"lines": lines} if lines else {})}
    first = lines.partition("-")[0]
    return f"/doc?{urlencode(params)}{f'#{first}' if first else ''}"


def document_url_of(result: SearchResult, **more: str) -> str:
    """Where the document of a result is shown, at the result's lines."""
    return document_url(result.citation.source, result.span.uri, result.citation.lines, **more)


def related_url(document: RelatedDocument) -> str:
    """Where a related document is shown."""
    return document_url(document.source, document.uri)


def line_url(citation: Citation, line: int) -> str | None:
    """Where the source itself shows one line; None if it has no addresses of lines."""
    url = web_url_of(citation.url)
    if url is None or not url.endswith(f"#{citation.lines}"):
        return None
    return f"{url.removesuffix(citation.lines)}L{line}"


def web_url_of(url: str | None) -> str | None:
    """An address on the web, else None."""
    return url if url and url.lower().startswith(("http://", "https://")) else None


def parse_line_range(lines: str) -> tuple[int, int] | None:
    """The first and last line of "L10-L24" or "L10"; None where it is neither."""
    match = _LINES.fullmatch(lines)
    return (int(match[1]), int(match[2] or match[1])) if match and len(lines) < 30 else None


def build_link_resolver(source: str, path: str) -> LinkResolver:
    """Resolves relative links of a document to other documents of its source."""

    def resolve(href: str) -> str | None:
        try:
            parts = urlsplit(href)
        except ValueError:
            return None
        if parts.scheme or parts.netloc or not parts.path or ":" in parts.path.partition("/")[0]:
            return None
        joined = posixpath.normpath(posixpath.join(posixpath.dirname(path), unquote(parts.path))).lstrip("/")
        return None if joined.startswith("..") else document_url(source, joined)

    return resolve
