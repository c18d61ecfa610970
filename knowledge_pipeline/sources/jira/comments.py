"""All comments of a ticket: a bulk answer may have only some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from knowledge_pipeline.errors import SourceUnavailable
from knowledge_pipeline.sources.jira.client import JiraClient

_PAGE_SIZE = 1000  # Jira gives fewer where it likes
_MAX_READS = 3


def fetch_comments(api: JiraClient, raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The comments of a ticket, the oldest first.

    Those that came with it if that is all of them. Else they are paged by offset: when their number
    changes meanwhile, or one comes twice, another was deleted, and they are read anew.

    Raises:
        JiraRefused: the ticket is gone, or hidden from us.
        SourceUnavailable: they could not be read as a whole.
    """
    told = (raw.get("fields") or {}).get("comment") or {}
    came = told.get("comments") or []
    total = told.get("total")
    if not isinstance(total, int) or len(came) >= total:
        return sorted(came, key=_sort_key)
    for _ in range(_MAX_READS):
        comments = _fetch_pages(api, str(raw["id"]))
        if comments is not None:
            return sorted(comments, key=_sort_key)
    raise SourceUnavailable(
        f"{api.service}: the comments of {raw.get('key')} changed while they were read: refresh again"
    )


def _fetch_pages(api: JiraClient, ticket_id: str) -> list[Mapping[str, Any]] | None:
    """Every page; None: they do not fit together."""
    comments: dict[str, Mapping[str, Any]] = {}
    total, read = -1, 0
    while total < 0 or read < total:
        page = api.get(f"issue/{ticket_id}/comment", startAt=read, maxResults=_PAGE_SIZE, orderBy="created")
        found = page.get("comments") or []
        told = page.get("total")
        if not isinstance(told, int) or total not in (-1, told):
            return None
        total = told
        if not found and read < total:
            return None
        read += len(found)
        comments |= {str(comment.get("id")): comment for comment in found}
    return list(comments.values()) if len(comments) == total else None


def _sort_key(comment: Mapping[str, Any]) -> tuple[str, int]:
    number = str(comment.get("id"))
    return str(comment.get("created")), int(number) if number.isdecimal() else 0
