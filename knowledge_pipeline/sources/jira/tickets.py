"""Tickets of Jira, Cloud or Server: one document a ticket, with its comments."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from knowledge_pipeline.config.connections import JiraConnection
from knowledge_pipeline.errors import DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline.sources.base import Service
from knowledge_pipeline.sources.jira.client import JiraApi, JiraRefused
from knowledge_pipeline.sources.jira.comments import all_comments
from knowledge_pipeline.sources.jira.document import Ticket, moment, ticket_document
from knowledge_pipeline.sources.jira.fields import SiteFields, site_fields
from knowledge_pipeline.sources.jira.listing import listed
from knowledge_pipeline.sources.jira.query import TicketFilters, oldest_update, query, restrictions

__all__ = ["OVERLAP", "JiraTickets", "TicketFilters"]

OVERLAP = timedelta(hours=2)
"""How much before a moment `updated` asks: a minute for JQL, which has no seconds, some for an index
that is behind, and an hour that the clocks of the account's time zone may show twice."""

_FORMAT = "1"  # of the documents that `document` makes
_BATCH = 100  # tickets a call; the most that Cloud takes
_EARLIEST_ZONE = timezone(timedelta(hours=-12))  # no clock is behind this one
_NEVER = datetime.min.replace(tzinfo=UTC)
_GONE = "deleted while it was read"


class JiraTickets(Service):
    """The tickets of a Jira that pass the filters.

    API: Cloud https://developer.atlassian.com/cloud/jira/platform/rest/v3/, Server and Data Center
    https://developer.atlassian.com/server/jira/platform/rest/
    """

    whole_listing_every = timedelta(days=3)

    def __init__(self, connection: JiraConnection, filters: TicketFilters = TicketFilters()) -> None:  # noqa: B008
        """Nothing is asked yet.

        Raises:
            ConfigError: `jql` or `since` cannot be read.
        """
        self._api = JiraApi(connection)
        self._filters = filters
        self._clauses = restrictions(filters)
        self._format = _format_of(filters)
        self._zone: tzinfo | None = None
        self._fields: SiteFields | None = None
        oldest_update(filters)  # a wrong one is told before anything is read

    def close(self) -> None:
        """Free what was opened."""
        self._api.close()
        self._zone = self._fields = None

    def discover(self) -> Iterator[Item]:
        """Every ticket that passes the filters, the oldest first; with `max_results` the latest updated.

        A project that is named and cannot be seen is refused: its tickets are not gone.
        """
        if self._api.identified:
            self._account_zone()  # fails where we are taken for a guest, who would see fewer tickets
        for key in self._filters.projects:
            self._see_project(key)
        yield from map(self._item, self._wanted(oldest_update(self._filters)))

    def updated(self, since: datetime) -> Iterator[Item]:
        """The tickets that pass the filters and were updated since, or up to `OVERLAP` before."""
        oldest = oldest_update(self._filters)
        begin = max(since - OVERLAP, oldest) if oldest else since - OVERLAP
        yield from map(self._item, self._wanted(begin))

    def fetch_many(self, items: Sequence[Item]) -> Iterator[tuple[Item, Document | DocumentSkipped]]:
        """Read tickets, a hundred a call; those with many comments take calls of their own."""
        for start in range(0, len(items), _BATCH):
            wanted = {item.locator: item for item in items[start : start + _BATCH]}
            found = self._bulk(list(wanted))
            while found:
                raw = found.pop()
                item = wanted.pop(str(raw.get("id")), None)
                if item is not None:
                    yield item, self._document(raw)
            for item in wanted.values():
                yield item, self._alone(item.locator)

    def _wanted(self, since: datetime | None) -> Iterator[dict[str, Any]]:
        """The tickets that were updated since; with `max_results` so many of them."""
        most = self._filters.max_results
        if most is None:
            return self._listed(since)
        found = {raw["id"]: raw for raw in self._listed(since)}
        if latest := max((at for raw in found.values() if (at := _updated(raw))), default=None):
            # what was edited while the pages were read went to the front, where nobody looked again
            found |= {raw["id"]: raw for raw in self._listed(latest)}
        return iter(sorted(found.values(), key=lambda raw: _updated(raw) or _NEVER, reverse=True)[:most])

    def _listed(self, since: datetime | None) -> Iterator[dict[str, Any]]:
        most = self._filters.max_results
        zone = self._account_zone() if since is not None else UTC
        jql = query(self._clauses, since=since, zone=zone, latest_first=most is not None)
        return listed(self._api, jql, most)

    def _item(self, raw: Mapping[str, Any]) -> Item:
        at = _updated(raw)  # in UTC: it is told in the account's zone, which may be set to another
        when = at.isoformat() if at else raw["fields"]["updated"]
        return Item(f"issue/{raw['id']}", f"{when}:{self._format}", str(raw["id"]))

    def _account_zone(self) -> tzinfo:
        """The time zone that JQL reads dates in: the account's; for a guest, the server's."""
        if self._zone is None:
            if self._api.identified:
                self._zone = _zone(str(self._api.get("myself").get("timeZone")))
            else:
                told = str(self._api.get("serverInfo").get("serverTime"))
                self._zone = _offset(told)
        return self._zone

    def _see_project(self, key: str) -> None:
        try:
            self._api.get(f"project/{quote(key, safe='')}")
        except JiraRefused as refusal:
            if refusal.status not in {403, 404}:
                raise
            raise SourceRefused(
                f"{self._api.service} has no project {key!r}, or our account may not see it: correct "
                "projects, or give the account the permission Browse Projects there"
            ) from None

    def _site_fields(self) -> SiteFields:
        if self._fields is None:
            self._fields = site_fields(self._api.get("field"), self._filters.custom_fields, self._api.service)
        return self._fields

    def _bulk(self, ids: list[str]) -> list[dict[str, Any]]:
        """Those of the tickets that Jira gives at once, in any order."""
        asked = self._site_fields().asked
        if self._api.cloud:
            answer = self._api.post("issue/bulkfetch", {"issueIdsOrKeys": ids, "fields": asked})
        else:
            question = {"jql": f"id in ({', '.join(ids)})", "fields": asked, "maxResults": len(ids)}
            # not validated, or one that is gone would be an error of the whole question
            answer = self._api.post("search", {**question, "validateQuery": False})
        issues = answer.get("issues")
        if not isinstance(issues, list):
            raise SourceUnavailable(f"{self._api.service} gave no tickets where they belong: refresh again")
        return issues

    def _alone(self, ticket_id: str) -> Document | DocumentSkipped:
        """A ticket that did not come with the others: gone, hidden from us, or only late."""
        try:
            raw = self._api.get(f"issue/{ticket_id}", fields=",".join(self._site_fields().asked))
        except JiraRefused as refusal:
            return _skipped(refusal)
        return self._document(raw)

    def _document(self, raw: Mapping[str, Any]) -> Document | DocumentSkipped:
        try:
            comments = all_comments(self._api, raw)
        except JiraRefused as refusal:
            return _skipped(refusal)
        return ticket_document(Ticket(raw, comments, self._api.url, self._api.cloud, self._site_fields()))


def _updated(raw: Mapping[str, Any]) -> datetime | None:
    return moment(raw["fields"]["updated"])


def _skipped(refusal: JiraRefused) -> DocumentSkipped:
    """What became of a ticket that is refused. Cloud tells those that are hidden from us as gone.

    Raises:
        JiraRefused: it is no matter of this ticket.
    """
    if refusal.status == 404:
        return DocumentSkipped(_GONE)
    if refusal.status == 403:
        return DocumentSkipped("our account may no longer see it")
    raise refusal


def _format_of(filters: TicketFilters) -> str:
    """A version of the documents: it differs where other custom fields are read."""
    if not filters.custom_fields:
        return _FORMAT
    named = "\0".join(filters.custom_fields).encode("utf-8", "surrogatepass")
    return f"{_FORMAT}.{hashlib.sha256(named).hexdigest()[:8]}"


def _zone(name: str) -> tzinfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # this machine has no such zone
        return _EARLIEST_ZONE


def _offset(server_time: str) -> tzinfo:
    try:
        return datetime.fromisoformat(server_time).tzinfo or _EARLIEST_ZONE
    except ValueError:
        return _EARLIEST_ZONE
