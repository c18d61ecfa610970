"""Tickets of Jira, Cloud or Server: one document a ticket, with its comments and, where asked, more."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from knowledge_pipeline.config.connections.services import JiraConnection
from knowledge_pipeline.config.sources.filters import DEFAULT_PARTS
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused
from knowledge_pipeline.records import Attachment, Document, Item
from knowledge_pipeline.sources.base import DELETED_REASON, ApiSource
from knowledge_pipeline.sources.jira.client import JiraClient, JiraRefused
from knowledge_pipeline.sources.jira.document import Ticket, build_ticket_document, parse_time
from knowledge_pipeline.sources.jira.fields import SiteFields, resolve_site_fields
from knowledge_pipeline.sources.jira.listing import fetch_tickets, list_tickets
from knowledge_pipeline.sources.jira.query import (
    TicketCriteria,
    build_clauses,
    build_jql,
    compute_oldest_update,
)
from knowledge_pipeline.sources.jira.ticket_parts import (
    fetch_comments,
    fetch_remote_links,
    fetch_worklogs,
)

__all__ = ["OVERLAP", "JiraTickets", "TicketCriteria"]

OVERLAP = timedelta(hours=2)
"""How much before a moment `updated` asks: a minute for JQL, which has no seconds, some for an index
that is behind, and an hour that the clocks of the account's time zone may show twice."""

_FORMAT_VERSION = "2"  # of the documents that `document` makes
_BATCH_SIZE = 100  # tickets a call; the most that Cloud takes
_NAMED_BATCH_SIZE = 50  # tickets by name; the most that Cloud looks up in spite of its index
_EARLIEST_ZONE = timezone(timedelta(hours=-12))  # no clock is behind this one
_MIN_TIME = datetime.min.replace(tzinfo=UTC)


class JiraTickets(ApiSource):
    """The tickets of a Jira that pass the filters.

    API: Cloud https://developer.atlassian.com/cloud/jira/platform/rest/v3/, Server and Data Center
    https://developer.atlassian.com/server/jira/platform/rest/
    """

    full_listing_interval = timedelta(days=3)

    def __init__(self, connection: JiraConnection, filters: TicketCriteria = TicketCriteria()) -> None:  # noqa: B008
        """Sends nothing yet.

        Raises:
            ConfigError: `jql` or `since` cannot be read.
        """
        self._api = JiraClient(connection)
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
        """Free what was opened."""
        self._api.close()
        self._zone = self._fields = None

    def discover(self) -> Iterator[Item]:
        """Every ticket that passes the filters, the oldest first; with `max_results` the latest updated.

        A named project that is hidden is refused: its tickets are not deleted.
        """
        if self._api.is_authenticated:
            self._load_account_zone()  # fails where we count as a guest, who would see fewer tickets
        for key in self._filters.projects:
            self._require_project(key)
        yield from map(self._to_item, self._list_wanted(compute_oldest_update(self._filters)))

    def discover_updated(self, since: datetime) -> Iterator[Item]:
        """The tickets that pass the filters and were updated since, or up to `OVERLAP` before."""
        oldest = compute_oldest_update(self._filters)
        begin = max(since - OVERLAP, oldest) if oldest else since - OVERLAP
        yield from map(self._to_item, self._list_wanted(begin))

    def discover_named(self, uris: Sequence[str]) -> Iterator[Item]:
        """Those of the tickets that are there and pass the filters, by their ids."""
        if self._api.is_authenticated:
            self._load_account_zone()  # a guest would not see tickets that are there
        ids = [id_ for kind, _, id_ in (uri.partition("/") for uri in uris) if kind == "issue"]
        ids = [id_ for id_ in ids if id_.isascii() and id_.isdecimal()]
        for start in range(0, len(ids), _NAMED_BATCH_SIZE):
            found = fetch_tickets(self._api, ids[start : start + _NAMED_BATCH_SIZE], ["updated"])
            yield from map(self._to_item, self._filter_named(found))

    def _filter_named(self, tickets: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """Those that the filters want; only Jira itself can tell what passes a query."""
        oldest = compute_oldest_update(self._filters)
        wanted = [raw for raw in tickets if not oldest or (_parse_updated(raw) or _MIN_TIME) >= oldest]
        if not self._clauses or not wanted:
            return wanted
        ids = [str(raw["id"]) for raw in wanted]
        jql = build_jql([*self._clauses, f"id in ({', '.join(ids)})"], since=None, zone=UTC)
        passing = {str(raw["id"]) for raw in list_tickets(self._api, jql, reconcile=ids)}
        return [raw for raw in wanted if str(raw["id"]) in passing]

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read tickets, a hundred a call.

        Many comments or work logs, and remote links, take calls of their own.
        """
        for start in range(0, len(items), _BATCH_SIZE):
            wanted = {item.locator: item for item in items[start : start + _BATCH_SIZE]}
            found = fetch_tickets(self._api, list(wanted), self._list_field_ids())
            while found:
                raw = found.pop()
                item = wanted.pop(str(raw.get("id")), None)
                if item is not None:
                    yield item, self._build_document(raw)
            for item in wanted.values():
                yield item, self._fetch_one(item.locator)

    def download(self, attachment: Attachment, max_bytes: int) -> bytes:
        """A ticket's file; raises as `Downloader.read`."""
        return self._api.download(attachment, max_bytes)

    def _list_wanted(self, since: datetime | None) -> Iterator[dict[str, Any]]:
        """The tickets that were updated since; with `max_results` so many of them."""
        most = self._filters.max_results
        if most is None:
            return self._list_since(since)
        found = {raw["id"]: raw for raw in self._list_since(since)}
        if latest := max((at for raw in found.values() if (at := _parse_updated(raw))), default=None):
            # tickets edited during the listing moved to the front, which was read before
            found |= {raw["id"]: raw for raw in self._list_since(latest)}
        newest = sorted(found.values(), key=lambda raw: _parse_updated(raw) or _MIN_TIME, reverse=True)
        return iter(newest[:most])

    def _list_since(self, since: datetime | None) -> Iterator[dict[str, Any]]:
        most = self._filters.max_results
        zone = self._load_account_zone() if since is not None else UTC
        jql = build_jql(self._clauses, since=since, zone=zone, latest_first=most is not None)
        return list_tickets(self._api, jql, most)

    def _to_item(self, raw: Mapping[str, Any]) -> Item:
        at = _parse_updated(raw)  # in UTC: Jira writes it in the account's zone, which may change
        when = at.isoformat() if at else raw["fields"]["updated"]
        return Item(f"issue/{raw['id']}", f"{when}:{self._format_version}", str(raw["id"]))

    def _load_account_zone(self) -> tzinfo:
        """The time zone that JQL reads dates in: the account's; for a guest, the server's."""
        if self._zone is None:
            own = self._api.is_authenticated
            answer = self._api.get("myself" if own else "serverInfo")
            zone: tzinfo | None = None
            with suppress(ZoneInfoNotFoundError, ValueError, OSError):  # this machine may have no such zone
                if own:
                    zone = ZoneInfo(str(answer.get("timeZone")))
                else:
                    zone = datetime.fromisoformat(str(answer.get("serverTime"))).tzinfo
            self._zone = zone or _EARLIEST_ZONE
        return self._zone

    def _require_project(self, key: str) -> None:
        try:
            self._api.get(f"project/{quote(key, safe='')}")
        except JiraRefused as refusal:
            if refusal.status not in {403, 404}:
                raise
            raise SourceRefused(
                f"{self._api.service} has no project {key!r}, or our account may not see it: correct "
                "projects, or give the account the permission Browse Projects there"
            ) from None

    def _load_site_fields(self) -> SiteFields:
        if self._fields is None:
            definitions = self._api.get("field")
            self._fields = resolve_site_fields(definitions, self._filters.custom_fields, self._api.service)
        return self._fields

    def _list_field_ids(self) -> list[str]:
        worklogs = ["worklog"] if "worklogs" in self._filters.parts else []
        return [*self._load_site_fields().requested_ids, *worklogs]

    def _fetch_one(self, ticket_id: str) -> Document | DocumentSkipped:
        """A ticket that did not come with the others: deleted, hidden, or only late."""
        try:
            raw = self._api.get(f"issue/{ticket_id}", fields=",".join(self._list_field_ids()))
        except JiraRefused as refusal:
            return _to_skipped(refusal)
        return self._build_document(raw)

    def _build_document(self, raw: Mapping[str, Any]) -> Document | DocumentSkipped:
        parts, fields = self._filters.parts, self._load_site_fields()
        try:
            ticket = Ticket(
                raw,
                fetch_comments(self._api, raw) if "comments" in parts else (),
                self._api.url,
                self._api.is_cloud,
                fields,
                has_description="description" in parts,
                worklogs=fetch_worklogs(self._api, raw) if "worklogs" in parts else (),
                remote_links=fetch_remote_links(self._api, raw) if "remote_links" in parts else (),
            )
        except JiraRefused as refusal:
            return _to_skipped(refusal)
        return build_ticket_document(ticket)


def _digest(names: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(names).encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _parse_updated(raw: Mapping[str, Any]) -> datetime | None:
    return parse_time(raw["fields"]["updated"])


def _to_skipped(refusal: JiraRefused) -> DocumentSkipped:
    """Why a refused ticket is skipped. Cloud reports hidden tickets as deleted.

    Raises:
        JiraRefused: it does not concern this ticket alone.
    """
    if refusal.status == 404:
        return DocumentSkipped(DELETED_REASON)
    if refusal.status == 403:
        return DocumentSkipped("our account may no longer see it")
    raise refusal
