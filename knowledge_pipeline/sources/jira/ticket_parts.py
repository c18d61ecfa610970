"""What hangs on a ticket beyond its fields: comments, work logs, links to other sites; each complete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.sources.jira.client import JiraClient, JiraRefused

_PAGE_SIZE = 1000  # Jira gives fewer where it likes
_MAX_READS = 3

Entries = Sequence[Mapping[str, Any]]


def fetch_comments(api: JiraClient, raw: Mapping[str, Any]) -> Entries:
    """The comments of a ticket, the oldest first. Raises as `fetch_worklogs`."""
    return _fetch_entries(api, raw, "comment", "comments", orderBy="created")


def fetch_worklogs(api: JiraClient, raw: Mapping[str, Any]) -> Entries:
    """The work logs of a ticket, the oldest first.

    Raises:
        JiraRefused: the ticket is gone, or hidden from us.
        SourceUnavailable: they could not be read as a whole.
    """
    return _fetch_entries(api, raw, "worklog", "worklogs")


def fetch_remote_links(api: JiraClient, raw: Mapping[str, Any]) -> Entries:
    """The links of a ticket to other sites, in the order of their creation.

    Raises:
        JiraRefused: the ticket is gone.
        SourceRefused: links are turned off in this Jira.
        SourceUnavailable: Jira returned no list.
    """
    try:
        links = api.get(f"issue/{raw['id']}/remotelink")
    except JiraRefused as refusal:
        if refusal.status != 403:
            raise
        raise SourceRefused(
            f"{api.service} does not show the remote links of {raw.get('key')}, which we may read: "
            "turn on issue linking, or leave remote_links out of the source's parts"
        ) from None
    if not is_list(links):
        raise SourceUnavailable(f"{api.service} returned no list of remote links: try again later")
    return sorted(filter(is_object, links), key=lambda link: _to_number(link.get("id")))


def _fetch_entries(api: JiraClient, raw: Mapping[str, Any], field: str, name: str, **query: str) -> Entries:
    """The entries of a field that comes with a ticket only in part.

    Those that came if that is all of them. Else they are paged by offset: when their number changes
    meanwhile, or one comes twice, another was deleted, and they are read anew.
    """
    listing: Mapping[str, Any] = (raw.get("fields") or dict[str, Any]()).get(field) or {}
    entries: Entries = listing.get(name) or []
    total = listing.get("total")
    if not isinstance(total, int) or len(entries) >= total:
        return sorted(entries, key=_sort_key)
    for _ in range(_MAX_READS):
        if (pages := _fetch_pages(api, f"issue/{raw['id']}/{field}", name, query)) is not None:
            return sorted(pages, key=_sort_key)
    raise SourceUnavailable(
        f"{api.service}: the {name} of {raw.get('key')} changed while they were read: try again later"
    )


def _fetch_pages(api: JiraClient, path: str, name: str, query: Mapping[str, str]) -> Entries | None:
    """Every page; None: they do not fit together."""
    entries: dict[str, Mapping[str, Any]] = {}
    total, read = -1, 0
    while total < 0 or read < total:
        page = api.get(path, startAt=read, maxResults=_PAGE_SIZE, **query)
        found, page_total = page.get(name) or (), page.get("total")
        if not isinstance(page_total, int) or total not in (-1, page_total):
            return None
        total = page_total
        if not found and read < total:
            return None
        read += len(found)
        entries |= {str(entry.get("id")): entry for entry in found}
    return list(entries.values()) if len(entries) == total else None


def _sort_key(entry: Mapping[str, Any]) -> tuple[str, int]:
    return str(entry.get("created")), _to_number(entry.get("id"))


def _to_number(value: Any) -> int:
    return int(value) if str(value).isdecimal() else 0
