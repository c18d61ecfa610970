"""Tickets of Jira, Cloud or Server: one document a ticket, with its comments and, where configured, more."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from knowledge_pipeline.config.connections import JiraConnection
from knowledge_pipeline.config.sources import DEFAULT_PARTS
from knowledge_pipeline.connectors.base import DELETED_REASON
from knowledge_pipeline.connectors.conversations import is_incomplete
from knowledge_pipeline.connectors.jira.client import JiraClient, JiraRefused
from knowledge_pipeline.connectors.jira.document import Ticket, build_ticket_document, parse_time
from knowledge_pipeline.connectors.jira.query import (
    SiteFields,
    TicketCriteria,
    build_clauses,
    build_jql,
    compute_oldest_update,
    resolve_site_fields,
)
from knowledge_pipeline.connectors.service import PageGuard, ServiceSource, split_batches
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.text import descend, is_list, is_object

OVERLAP = timedelta(hours=2)
"""How much before a moment `updated` asks: a minute for JQL, which has no seconds, some for an index
that is behind, and an hour that the clocks of the account's time zone may show twice."""

_FORMAT_VERSION = "3"  # of the documents that `document` makes
_BATCH_SIZE = 100  # tickets a call; the most that Cloud takes
_NAMED_BATCH_SIZE = 50  # tickets by name; the most that Cloud looks up in spite of its index
_EARLIEST_ZONE = timezone(timedelta(hours=-12))  # no clock is behind this one
_MIN_TIME = datetime.min.replace(tzinfo=UTC)
_CLOUD_PAGE_SIZE = 5000  # for Cloud, which gives fewer where it likes; the page says how many
_SERVER_PAGE_SIZE = 1000
_SERVER_OVERLAP = 10  # tickets of the page before, with which one of Server begins
_PAGE_SIZE = 1000  # Jira gives fewer where it likes
_MAX_READS = 3

_Entries = Sequence[Mapping[str, Any]]


class JiraTickets(ServiceSource[JiraClient]):
    """The tickets of a Jira that pass the filters.

    API: Cloud https://developer.atlassian.com/cloud/jira/platform/rest/v3/, Server and Data Center
    https://developer.atlassian.com/server/jira/platform/rest/
    """

    full_listing_interval = timedelta(days=3)

    def __init__(self, connection: JiraConnection, filters: TicketCriteria = TicketCriteria()) -> None:  # noqa: B008
        """Sends nothing yet. Raises ConfigError: `jql` or `since` cannot be read."""
        super().__init__(JiraClient(connection))
        self._filters = filters
        self._clauses = build_clauses(filters)
        self._format_version = _FORMAT_VERSION
        if filters.custom_fields:  # other ones make other documents
            self._format_version += f".{_digest(filters.custom_fields)}"
        if filters.parts != DEFAULT_PARTS:  # and so do other parts
            self._format_version += f".{_digest(sorted(filters.parts))}"
        self._zone: tzinfo | None = None
        self._fields: SiteFields | None = None
        compute_oldest_update(filters)  # an invalid one is refused before anything is read

    def close(self) -> None:
        """Close the connections."""
        super().close()
        self._zone = self._fields = None

    def discover(self) -> Iterator[Item]:
        """Every ticket that passes the filters, the oldest first; with `max_results` the latest updated."""
        if self._client.is_authenticated:
            self._load_account_zone()  # fails where we count as a guest, who would see fewer tickets
        for key in self._filters.projects:
            try:
                self._client.get(f"project/{quote(key, safe='')}")
            except JiraRefused as refusal:
                if refusal.status not in (403, 404):
                    raise
                raise SourceRefused(
                    f"{self._client.service} has no project {key!r}, or our account may not see it: correct "
                    "projects, or give the account the permission Browse Projects there"
                ) from None
        yield from map(self._to_item, self._list_wanted(compute_oldest_update(self._filters)))

    def discover_updated(self, since: datetime) -> Iterator[Item]:
        """The tickets that pass the filters and were updated since, or up to `OVERLAP` before."""
        oldest = compute_oldest_update(self._filters)
        begin = max(since - OVERLAP, oldest) if oldest else since - OVERLAP
        yield from map(self._to_item, self._list_wanted(begin))

    def discover_named(self, uris: Sequence[str]) -> Iterator[Item]:
        """Those of the tickets that are there and pass the filters, by their ids."""
        if self._client.is_authenticated:
            self._load_account_zone()  # a guest would not see tickets that are there
        ids = [id_ for kind, _, id_ in (uri.partition("/") for uri in uris) if kind == "issue"]
        ids = [id_ for id_ in ids if id_.isascii() and id_.isdecimal()]
        for several in split_batches(ids, _NAMED_BATCH_SIZE):
            tickets = fetch_tickets(self._client, several, ["updated"])
            yield from map(self._to_item, self._filter_named(tickets))

    def _filter_named(self, tickets: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that the filters want; only Jira itself can tell what passes a query."""
        oldest = compute_oldest_update(self._filters)
        wanted = [raw for raw in tickets if not oldest or (_parse_updated(raw) or _MIN_TIME) >= oldest]
        if not self._clauses or not wanted:
            return wanted
        ids = [str(raw["id"]) for raw in wanted]
        jql = build_jql([*self._clauses, f"id in ({', '.join(ids)})"], since=None, zone=UTC)
        passing = {str(raw["id"]) for raw in list_tickets(self._client, jql, reconcile=ids)}
        return [raw for raw in wanted if str(raw["id"]) in passing]

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """A hundred a call; many comments or work logs, and remote links, take calls of their own."""
        for several in split_batches(items, _BATCH_SIZE):
            wanted = {item.locator: item for item in several}
            tickets = fetch_tickets(self._client, list(wanted), self._list_field_ids())
            while tickets:
                raw = tickets.pop()
                item = wanted.pop(str(raw.get("id")), None)
                if item is not None:
                    yield item, self._build_document(raw)
            for item in wanted.values():  # deleted, hidden, or only late
                try:
                    fields = ",".join(self._list_field_ids())
                    raw = self._client.get(f"issue/{item.locator}", fields=fields)
                except JiraRefused as refusal:
                    yield item, _to_skipped(refusal)
                else:
                    yield item, self._build_document(raw)

    def _list_wanted(self, since: datetime | None) -> Iterator[dict[str, Any]]:
        """The tickets that were updated since; with `max_results` so many of them."""
        most = self._filters.max_results
        if most is None:
            return self._list_since(since)
        tickets = {raw["id"]: raw for raw in self._list_since(since)}
        if latest := max((at for raw in tickets.values() if (at := _parse_updated(raw))), default=None):
            # tickets edited during the listing moved to the front, which was read before
            tickets |= {raw["id"]: raw for raw in self._list_since(latest)}
        newest = sorted(tickets.values(), key=lambda raw: _parse_updated(raw) or _MIN_TIME, reverse=True)
        return iter(newest[:most])

    def _list_since(self, since: datetime | None) -> Iterator[dict[str, Any]]:
        most = self._filters.max_results
        zone = self._load_account_zone() if since is not None else UTC
        jql = build_jql(self._clauses, since=since, zone=zone, latest_first=most is not None)
        return list_tickets(self._client, jql, most)

    def _to_item(self, raw: Mapping[str, Any]) -> Item:
        at = _parse_updated(raw)  # in UTC: Jira writes it in the account's zone, which may change
        when = at.isoformat() if at else raw["fields"]["updated"]
        return Item(f"issue/{raw['id']}", f"{when}:{self._format_version}", str(raw["id"]))

    def _load_account_zone(self) -> tzinfo:
        """The time zone that JQL reads dates in: the account's; for a guest, the server's."""
        if self._zone is None:
            own = self._client.is_authenticated
            answer = self._client.get("myself" if own else "serverInfo")
            zone: tzinfo | None = None
            with suppress(ZoneInfoNotFoundError, ValueError, OSError):  # this machine may have no such zone
                if own:
                    zone = ZoneInfo(str(answer.get("timeZone")))
                else:
                    zone = datetime.fromisoformat(str(answer.get("serverTime"))).tzinfo
            self._zone = zone or _EARLIEST_ZONE
        return self._zone

    def _load_site_fields(self) -> SiteFields:
        if self._fields is None:
            definitions = self._client.get("field")
            self._fields = resolve_site_fields(definitions, self._filters.custom_fields, self._client.service)
        return self._fields

    def _list_field_ids(self) -> list[str]:
        worklogs = ["worklog"] if "worklogs" in self._filters.parts else []
        return [*self._load_site_fields().requested_ids, *worklogs]

    def _build_document(self, raw: Mapping[str, Any]) -> Document | DocumentSkipped:
        parts, fields, api = self._filters.parts, self._load_site_fields(), self._client
        comments: _Entries = ()
        worklogs: _Entries = ()
        try:
            if "comments" in parts:
                comments = _fetch_entries(api, raw, "comment", "comments", orderBy="created")
            if "worklogs" in parts:
                worklogs = _fetch_entries(api, raw, "worklog", "worklogs")
            links = _fetch_remote_links(api, raw) if "remote_links" in parts else ()
        except JiraRefused as refusal:
            return _to_skipped(refusal)
        has_text = "description" in parts
        return build_ticket_document(
            Ticket(raw, comments, api.url, api.is_cloud, fields, has_text, worklogs, links)
        )


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _parse_updated(raw: Mapping[str, Any]) -> datetime | None:
    return parse_time(raw["fields"]["updated"])


def _to_skipped(refusal: JiraRefused) -> DocumentSkipped:
    """Why a refused ticket is skipped, if it is this alone. Cloud reports hidden tickets as deleted."""
    if refusal.status == 404:
        return DocumentSkipped(DELETED_REASON)
    if refusal.status == 403:
        return DocumentSkipped("our account may no longer see it")
    raise refusal


def list_tickets(
    api: JiraClient,
    jql: str,
    limit: int | None = None,
    *,
    fields: Sequence[str] = (),
    reconcile: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """Every ticket that a query finds, with `id`, `key`, `fields.updated` and more fields, each once.

    In the order of creation, an edited ticket keeps its place, a new one comes last, and one that is
    deleted, moved, or leaves the filter moves the others up. Cloud's pages begin after the last ticket of
    the page before, so that this does no harm. Server's begin at an offset: each page begins some tickets
    early, and must begin with a ticket that was seen. If not, more tickets may have moved past, and it is
    read again from further back.

    Cloud's index of tickets is seconds behind, but for those whose ids `reconcile` names, at most 50.
    """
    columns = ["id", "key", "updated", *fields]
    pages = (
        _iter_cloud(api, jql, limit, columns, reconcile)
        if api.is_cloud
        else _iter_server(api, jql, limit, columns)
    )
    return islice(pages, limit)


def fetch_tickets(api: JiraClient, ids: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
    """Those of at most a hundred tickets that are there and shown to us, in any order."""
    if api.is_cloud:
        answer = api.post("issue/bulkfetch", {"issueIdsOrKeys": list(ids), "fields": list(fields)})
    else:
        question = {"jql": f"id in ({', '.join(ids)})", "fields": list(fields), "maxResults": len(ids)}
        # not validated, or one that is gone would be an error of the whole question
        answer = api.post("search", {**question, "validateQuery": False})
    issues = answer.get("issues")
    if not is_list(issues):
        raise api.unavailable("returned no list of tickets")
    return issues


def _iter_cloud(
    api: JiraClient, jql: str, limit: int | None, fields: Sequence[str], reconcile: Sequence[str]
) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    guard = PageGuard(partial(_build_listing_error, api, "does not name the next one"))
    question: dict[str, Any] = {"jql": jql, "fields": list(fields)}
    if reconcile:
        question["reconcileIssues"] = [int(id_) for id_ in reconcile]
    question["maxResults"] = min(_CLOUD_PAGE_SIZE, limit or _CLOUD_PAGE_SIZE)
    while True:
        page = api.post("search/jql", question)
        issues = _require_issues(api, page)
        yield from _iter_unseen(issues, seen)
        token = page.get("nextPageToken")
        if page.get("isLast") is True or (not token and page.get("isLast") is None):
            return
        guard.advance((issue["id"] for issue in issues), token or "")
        question["nextPageToken"] = token


def _iter_server(
    api: JiraClient, jql: str, limit: int | None, fields: Sequence[str]
) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    start, overlap = 0, _SERVER_OVERLAP
    most = min(_SERVER_PAGE_SIZE, max(limit or _SERVER_PAGE_SIZE, 2 * _SERVER_OVERLAP))
    while True:
        question = {"jql": jql, "fields": list(fields), "startAt": start, "maxResults": most}
        page = api.post("search", question)
        issues, total = _require_issues(api, page), page.get("total")
        most = min(most, page.get("maxResults") or most)  # Server cuts it down to its own limit
        if not isinstance(total, int) or (most < 2 < total) or len(issues) < min(most, total - start):
            raise _build_listing_error(api, f"gave {len(issues)} of {total} tickets from the {start}th")
        if start and (not issues or issues[0]["id"] not in seen):
            overlap = min(start, overlap * 4)
            start -= overlap
            continue
        read_to = start + len(issues)
        yield from _iter_unseen(issues, seen)
        if read_to >= total:
            if is_incomplete(len(seen), total):  # the same tickets again
                raise _build_listing_error(api, f"ends the list with {len(seen)} of {total}")
            return
        overlap = max(1, min(_SERVER_OVERLAP, len(issues) - 1))
        start = read_to - overlap


def _require_issues(api: JiraClient, page: Any) -> list[dict[str, Any]]:
    issues = descend(page).get("issues")
    if not is_list(issues) or not all(
        descend(issue, "fields").get("updated") and issue.get("id") for issue in issues
    ):
        raise _build_listing_error(api, "has no list of tickets")
    return issues


def _iter_unseen(issues: list[dict[str, Any]], seen: set[str]) -> Iterator[dict[str, Any]]:
    for issue in issues:
        if issue["id"] not in seen:
            seen.add(issue["id"])
            yield issue


def _build_listing_error(api: JiraClient, problem: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"{api.service}: returned an incomplete list of tickets, a page {problem}: nothing is deleted, "
        "try again later"
    )


def _fetch_remote_links(api: JiraClient, raw: Mapping[str, Any]) -> _Entries:
    """The links of a ticket to other sites, the oldest first. Raises JiraRefused: it is gone."""
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
        raise api.unavailable("returned no list of remote links")
    return sorted(filter(is_object, links), key=lambda link: _to_number(link.get("id")))


def _fetch_entries(api: JiraClient, raw: Mapping[str, Any], field: str, name: str, **query: str) -> _Entries:
    """The entries of a field that may come with a ticket only in part, the oldest first.

    Those that came if that is all of them. Else they are paged by offset: when their number changes
    meanwhile, or one comes twice, another was deleted, and they are read anew.

    Raises `JiraRefused`: the ticket is gone, or hidden from us.
    """
    listing = descend(raw, "fields", field)
    entries: _Entries = listing.get(name) or []
    total = listing.get("total")
    if not isinstance(total, int) or len(entries) >= total:
        return sorted(entries, key=_sort_key)
    for _ in range(_MAX_READS):
        if (pages := _fetch_pages(api, f"issue/{raw['id']}/{field}", name, query)) is not None:
            return sorted(pages, key=_sort_key)
    raise SourceUnavailable(
        f"{api.service}: the {name} of {raw.get('key')} changed while they were read: try again later"
    )


def _fetch_pages(api: JiraClient, path: str, name: str, query: Mapping[str, str]) -> _Entries | None:
    """Every page; None: they do not fit together."""
    entries: dict[str, Mapping[str, Any]] = {}
    total, read = -1, 0
    while total < 0 or read < total:
        page = api.get(path, startAt=read, maxResults=_PAGE_SIZE, **query)
        page_entries, page_total = page.get(name) or (), page.get("total")
        if not isinstance(page_total, int) or total not in (-1, page_total):
            return None
        total = page_total
        if not page_entries and read < total:
            return None
        read, count = read + len(page_entries), len(entries)
        entries |= {str(entry.get("id")): entry for entry in page_entries}
        if count == len(entries) < total:  # the same again
            return None
    return list(entries.values()) if len(entries) == total else None


def _sort_key(entry: Mapping[str, Any]) -> tuple[str, int]:
    return str(entry.get("created")), _to_number(entry.get("id"))


def _to_number(value: Any) -> int:
    return int(value) if str(value).isdecimal() else 0
