"""Who may read a ticket: whom its project lets browse and, of those, whom its security level lets in.

A project is an audience, and so is each of its security levels that a ticket has. Levels are read with all
tickets, not by a search for them: one that the search does not know yet would leave its ticket open.
Server and Data Center do not tell who is in a level, but who may view a ticket: there, each ticket with a
level is an audience.
Sources: https://developer.atlassian.com/cloud/jira/platform/rest/v3/api-group-permission-schemes/,
https://docs.atlassian.com/software/jira/docs/api/REST/9.12.0/#api/2/user-findUsersWithBrowsePermission
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC
from functools import cache, partial
from typing import Any
from urllib.parse import quote

from knowledge_pipeline.config.connections import JiraConnection
from knowledge_pipeline.connectors.jira.client import JiraClient, JiraRefused
from knowledge_pipeline.connectors.jira.query import TicketCriteria, build_clauses, build_jql
from knowledge_pipeline.connectors.jira.tickets import fetch_tickets, list_tickets
from knowledge_pipeline.connectors.permissions import (
    EVERYONE,
    Audience,
    Member,
    Permissions,
    Readers,
    Unreadable,
    collect_permissions,
)
from knowledge_pipeline.connectors.service import PageGuard
from knowledge_pipeline.text import descend, is_list, is_object, list_objects

_PAGE_SIZE = 50  # Jira's most, of members
_MAX_BY_ID = 100  # tickets; more are listed
_VIEWERS_PAGE_SIZE = 1000  # and of people who may view a ticket
_REMEDY = "give our account the permission that docs/sources/jira.md names"

_Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Scope:
    """What decides who may read a ticket."""

    project: str  # key
    level: str | None  # id; "": not shown whether it has one
    ticket: tuple[str, str] | None = None  # uri and key, where it decides, too


def read_ticket_permissions(
    connection: JiraConnection, criteria: TicketCriteria, uris: Sequence[str], *, by_name: bool = False
) -> Permissions:
    """The audiences of tickets that pass the filters, as they are now.

    With `by_name`, the tickets pass them, and are read one by one instead of listed.
    """
    fields = ("project", "security")
    ids = [uri.partition("/")[2] for uri in uris]
    with closing(JiraClient(connection)) as api:
        if by_name and 0 < len(ids) <= _MAX_BY_ID:
            listed: Iterable[_Json] = fetch_tickets(api, ids, fields)
        else:
            jql = build_jql(build_clauses(criteria), since=None, zone=UTC)
            listed = list_tickets(api, jql, fields=fields)
        scopes = {f"issue/{raw['id']}": _parse_scope(raw, is_cloud=api.is_cloud) for raw in listed}
        reader = _PermissionReader(api)
        scope_by_uri = {uri: scopes.get(uri) for uri in uris}
        return collect_permissions(scope_by_uri, reader.find_audience, reader.problems)


class _PermissionReader:
    def __init__(self, api: JiraClient) -> None:
        self._api = api
        self.problems = Counter[str]()
        self._hidden_viewers = ""  # why
        self.read_browsers = cache(self._read_browsers)  # of this reader, each once
        self.read_level = cache(self._read_level)
        self.read_scheme = cache(self._read_scheme)
        self.read_role = cache(self._read_role)
        self.read_group = cache(self._read_group)
        self.find_address = cache(self._find_address)

    def find_audience(self, scope: _Scope | None) -> Audience:
        """Raises Unreadable."""
        if scope is None:
            raise Unreadable("tickets that the source's filters do not find any more have no known readers")
        if scope.ticket:
            uri, key = scope.ticket
            return uri, [self._read_viewers(key)]
        browsers, level = self.read_browsers(scope.project), scope.level
        if level == "" and self.read_scheme(scope.project) is not None:
            raise Unreadable(f"security levels of tickets of {scope.project} are not shown: {_REMEDY}")
        if not level:
            return f"project/{scope.project}", [browsers]
        return f"project/{scope.project}/level/{level}", [browsers, self.read_level(scope.project, level)]

    def _read_browsers(self, project: str) -> Readers:
        what = f"the permission scheme of project {project} is not shown"
        path = f"project/{quote(project, safe='')}/permissionscheme"
        grants = descend(self._fetch_permission_data(what, path, expand="all")).get("permissions")
        if not is_list(grants):
            raise Unreadable(f"{what}: {_REMEDY}")
        holders = (grant.get("holder") for grant in grants if grant.get("permission") == "BROWSE_PROJECTS")
        return self._to_readers(holders, project)

    def _read_scheme(self, project: str) -> str | None:
        """The id of a project's scheme of security levels; None: it has none. Raises Unreadable."""
        try:
            scheme = self._api.get(f"project/{quote(project, safe='')}/issuesecuritylevelscheme")
        except JiraRefused as refusal:
            if refusal.status == 404:
                return None
            if refusal.status == 403:
                raise Unreadable(
                    f"the security scheme of project {project} is not shown: {_REMEDY}"
                ) from None
            raise
        return str(scheme.get("id") or "") if is_object(scheme) else None

    def _read_level(self, project: str, level: str) -> Readers:
        what = f"the members of security level {level} of project {project} are not shown"
        scheme = self.read_scheme(project)
        if scheme is None:
            raise Unreadable(f"{what}: {_REMEDY}")
        path = f"issuesecurityschemes/{quote(scheme, safe='')}/members"
        values = self._iter_values(what, path, issueSecurityLevelId=level, expand="all")
        mine = (value for value in values if str(value.get("issueSecurityLevelId", level)) == level)
        return self._to_readers([value.get("holder") for value in mine], project)

    def _read_viewers(self, ticket: str) -> Readers:
        """Who may view a ticket, its security level considered, on Server. Raises Unreadable."""
        if self._hidden_viewers:
            raise Unreadable(self._hidden_viewers)  # as of any other ticket
        what = "who may view tickets with a security level is not shown"
        # "." finds every name, nothing finds none
        query = {"username": ".", "issueKey": ticket, "maxResults": _VIEWERS_PAGE_SIZE}
        readers: set[Member] = set()
        seen: set[str] = set()
        start = 0
        while True:
            try:
                page = self._fetch_permission_data(what, "user/viewissue/search", startAt=start, **query)
            except Unreadable as reason:
                self._hidden_viewers = "" if reason.status == 404 else str(reason)  # 404: deleted meanwhile
                raise
            if not is_list(page):
                raise self._api.unavailable("returned no list of people")
            readers.update(self._to_people(page))
            if seen.issuperset(map(repr, page)):  # a shorter one is no end: Jira gives fewer where it likes
                break
            seen.update(map(repr, page))
            start += len(page)
        if not readers:  # we view it ourselves, so that people are hidden from us
            self._hidden_viewers = f"{what}: {_REMEDY}"
            raise Unreadable(self._hidden_viewers)
        return frozenset(readers)

    def _to_readers(self, holders: Iterable[Any], project: str) -> Readers:
        readers: set[Member] = set()
        for holder in filter(is_object, holders):
            kind, name = str(holder.get("type")), str(holder.get("parameter") or holder.get("value") or "")
            if kind == "anyone":
                readers.add(Member(EVERYONE))
            elif kind == "user":
                readers.update(self._to_people([holder.get("user") or {"accountId": name, "name": name}]))
            elif kind == "group":
                group = holder.get("group") or {"name": name, "groupId": holder.get("value")}
                readers |= self._to_group(group)
            elif kind == "projectRole":
                readers |= self.read_role(project, str(holder.get("value") or name))
            elif kind == "projectLead":
                path = f"project/{quote(project, safe='')}"
                shown = self._fetch_permission_data("the project's lead is not shown", path)
                readers.update(self._to_people([shown.get("lead")]))
            elif kind == "applicationRole":  # Jira does not say who may use it: a mapping may
                readers.add(Member.group(f"application:{name or 'any'}"))
            else:
                note = f"permissions by {kind} are not taken in: who has only those sees nothing"
                self.problems[note] += 1
        return frozenset(readers)

    def _read_role(self, project: str, role: str) -> Readers:
        path = f"project/{quote(project, safe='')}/role/{quote(role, safe='')}"
        shown = self._fetch_permission_data(f"role {role} of project {project} is not shown", path)
        readers: set[Member] = set()
        for actor in list_objects(shown.get("actors")):
            if "user" in str(actor.get("type")):
                readers.update(self._to_people([actor.get("actorUser") or {"name": actor.get("name")}]))
            else:
                readers |= self._to_group(actor.get("actorGroup") or {"name": actor.get("name")})
        return frozenset(readers)

    def _to_group(self, group: _Json) -> Readers:
        name, id_ = str(group.get("name") or ""), str(group.get("groupId") or "")
        return self.read_group(name, id_) | {Member.group(name or id_)}

    def _read_group(self, name: str, id_: str) -> Readers:
        """The members of a group; none where they are not shown: the group counts by its name alone."""
        which = {"groupId": id_} if id_ and self._api.is_cloud else {"groupname": name}
        what = f"the members of group {name or id_} are not shown"
        try:
            return frozenset(self._to_people(self._iter_values(what, "group/member", **which)))
        except Unreadable as reason:
            self.problems[str(reason)] += 1
            return frozenset()

    def _to_people(self, people: Iterable[Any]) -> Iterator[Member]:
        """Active ones, on Cloud by account id, on Server by user name."""
        for person in filter(is_object, people):
            account = str(person.get("accountId") or person.get("name") or "")
            if account and person.get("active") is not False:
                yield Member(account, person.get("emailAddress") or self.find_address(account))

    def _find_address(self, account: str) -> str | None:
        """The address of somebody who came without one, if Jira shows it."""
        try:
            which = {"accountId": account} if self._api.is_cloud else {"username": account}
            shown = self._api.get("user", **which)
        except JiraRefused as refusal:
            if refusal.status in (403, 404):
                return None
            raise
        is_active = is_object(shown) and shown.get("active") is not False
        return str(shown.get("emailAddress") or "") or None if is_active else None

    def _iter_values(self, what: str, path: str, **query: str) -> Iterator[_Json]:
        """All of a list that pages by offset. Raises Unreadable."""
        start, guard = 0, PageGuard(partial(self._api.unavailable, f"does not end the list at {path}"))
        while True:
            page = self._fetch_permission_data(what, path, startAt=start, maxResults=_PAGE_SIZE, **query)
            values = descend(page).get("values")
            if not is_list(values):
                raise self._api.unavailable(f"returned no list for {path}")
            yield from filter(is_object, values)
            start += len(values)
            if not values or page.get("isLast") is True:
                return
            guard.advance(map(repr, values))

    def _fetch_permission_data(self, what: str, path: str, **query: Any) -> Any:
        """Raises Unreadable where Jira forbids it or has no such thing."""
        try:
            return self._api.get(path, **query)
        except JiraRefused as refusal:
            if refusal.status in (403, 404):
                raise Unreadable(f"{what} ({refusal.status}): {_REMEDY}", refusal.status) from None
            raise


def _parse_scope(raw: _Json, *, is_cloud: bool) -> _Scope:
    fields = raw["fields"]
    project = str(descend(fields, "project").get("key") or str(raw.get("key")).rpartition("-")[0])
    if "security" not in fields:
        return _Scope(project, "")
    if not is_object(fields["security"]):
        return _Scope(project, None)
    ticket = None if is_cloud else (f"issue/{raw['id']}", str(raw.get("key")))
    return _Scope(project, str(fields["security"].get("id")), ticket)
