"""Who may read a page: whom its space lets in, and whom each restriction on it and above it does.

A page's audience is that of the nearest restricted page above it, or itself, else that of its space. The
restrictions of a hundred pages come with one search, which reads them from the database.
Source: https://developer.atlassian.com/cloud/confluence/rest/v1/api-group-content-restrictions/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from knowledge_pipeline.config.connections import ConfluenceConnection
from knowledge_pipeline.connectors.confluence.client import ConfluenceClient, Json
from knowledge_pipeline.connectors.confluence.content import CONTENT_KINDS, Edition, PagePlace, split_batches
from knowledge_pipeline.connectors.confluence.editions import CloudEdition, ServerEdition
from knowledge_pipeline.connectors.confluence.search import MAX_IDS_PER_QUERY, search
from knowledge_pipeline.connectors.permissions import EVERYONE, Member, Permissions, Readers
from knowledge_pipeline.errors import SourceUnavailable
from knowledge_pipeline.text import is_list, is_object

_PAGE_SIZE = 200
_RESTRICTIONS = "restrictions.read.restrictions"
_EXPAND = [f"{_RESTRICTIONS}.user", f"{_RESTRICTIONS}.group"]


class _Unreadable(Exception):
    """The site does not show some permission; the message says which, and what to do."""


def read_page_permissions(connection: ConfluenceConnection, uris: Sequence[str]) -> Permissions:
    """The audiences of pages and blog posts, by the site's permissions of now."""
    with closing(ConfluenceClient(connection)) as client:
        return _PermissionReader(client).read(uris)


class _PermissionReader:
    def __init__(self, client: ConfluenceClient) -> None:
        self._client = client
        self._edition: Edition = (CloudEdition if client.is_cloud else ServerEdition)(client)
        self._problems = Counter[str]()
        self._group_ids: dict[str, str] = {}  # by name, on Cloud
        self.read_group = cache(self._read_group)  # of this reader, each group once
        self.read_space = cache(self._read_space)

    def read(self, uris: Sequence[str]) -> Permissions:
        kinds = {uri.partition("/")[2]: uri.partition("/")[0] for uri in uris}
        places = self._edition.locate_pages(kinds)
        ids = (id_ for page, location in places.items() for id_ in (*location.ancestors, page))
        restrictions = self._read_restrictions(list(dict.fromkeys(ids)))
        audiences: dict[str, Sequence[Readers]] = {}
        audience_by_uri: dict[str, str] = {}
        for page, kind in kinds.items():
            try:
                name, requires = self._find_audience(page, places.get(page), restrictions)
            except _Unreadable as reason:
                self._problems[str(reason)] += 1
            else:
                audiences[name], audience_by_uri[f"{kind}/{page}"] = requires, name
        return Permissions(audiences, audience_by_uri, self._problems)

    def _find_audience(
        self, page: str, location: PagePlace | None, restrictions: Mapping[str, Readers | _Unreadable]
    ) -> tuple[str, Sequence[Readers]]:
        """The audience's name and requirements. Raises _Unreadable."""
        if location is None:
            raise _Unreadable("the place of a page is not shown: let the owner of connection.token view it")
        requires, name = [self.read_space(location.space)], f"space/{location.space}"
        for content_id in (*location.ancestors, page):
            readers = restrictions[content_id]
            if isinstance(readers, _Unreadable):
                raise readers
            if readers:
                requires.append(self._with_group_members(readers))
                name = f"content/{content_id}"
        return name, requires

    def _read_restrictions(self, ids: Sequence[str]) -> Mapping[str, Readers | _Unreadable]:
        """Who may read, by id of a page or of what pages are under; nobody named: not restricted."""
        readers_by_id: dict[str, Readers | _Unreadable] = {}
        for several in split_batches(ids, MAX_IDS_PER_QUERY):
            cql = f"id in ({', '.join(several)}) and type in ({', '.join(CONTENT_KINDS)})"
            for content in search(self._client, cql, _EXPAND):
                restrictions = _descend(content, "restrictions", "read", "restrictions")
                if _is_complete(restrictions):
                    readers_by_id[str(content["id"])] = self._parse_members(restrictions)
        for content_id in ids:
            # a folder, not known to the search yet, or more readers than it shows
            if content_id not in readers_by_id:
                try:
                    readers_by_id[content_id] = self._read_restriction(content_id)
                except _Unreadable as reason:
                    readers_by_id[content_id] = reason
        return readers_by_id

    def _read_restriction(self, content: str) -> Readers:
        path, readers, start = f"rest/api/content/{content}/restriction/byOperation/read", set[Member](), 0
        while True:
            question = {"expand": "restrictions.user,restrictions.group", "start": start, "limit": _PAGE_SIZE}
            answer = self._client.get_or_status(path, question)
            restrictions = _descend(answer, "restrictions") if is_object(answer) else None
            if restrictions is None:
                status = answer if isinstance(answer, int) else "no list"
                raise _Unreadable(f"restrictions of what a page is under are not shown ({status}): {_ADVICE}")
            readers |= self._parse_members(restrictions)
            lists = [_descend(restrictions, kind) or Json() for kind in ("user", "group")]
            longest = max(len(members.get("results") or ()) for members in lists)
            if longest == 0 or all(_is_whole(members) for members in lists):
                return frozenset(readers)
            start += longest

    def _read_space(self, space: str) -> Readers:
        """Who may view a space. Raises _Unreadable."""
        readers = set(self._iter_cloud_space(space) if self._client.is_cloud else self._iter_space(space))
        if not readers:
            raise _Unreadable(f"permissions of space {space} name no reader that can be understood")
        return self._with_group_members(frozenset(readers))

    def _iter_cloud_space(self, space: str) -> Iterator[Member]:
        people: list[str] = []
        refusal = f"permissions of space {space} are not shown"
        for permission in self._iter_results(f"api/v2/spaces/{space}/permissions", {"limit": 250}, refusal):
            if not _is_view(permission):
                continue
            principal = permission.get("principal") or Json()
            kind, account = str(principal.get("type")).lower(), str(principal.get("id") or "")
            if kind == "user":
                people.append(account)
            elif kind == "group":
                yield self._find_group(account)
            elif account == "anonymous-users":
                yield Member(EVERYONE)
            elif account:
                yield Member.group(account)  # a role, or a class of users: who is in it, a mapping may say
        for several in split_batches(people, 100):
            answer = self._client.get_or_status("rest/api/user/bulk", {"accountId": several, "limit": 100})
            shown: list[Json] = answer.get("results") or [] if is_object(answer) else []
            members = {member.account: member for member in map(_to_person, shown) if member}
            yield from (members.get(account, Member(account)) for account in several)

    def _iter_space(self, space: str) -> Iterator[Member]:
        answer = self._client.get_or_status(f"rest/api/space/{quote(space)}", {"expand": "permissions"})
        permissions = answer.get("permissions") if is_object(answer) else None
        if not is_list(permissions):
            raise _Unreadable(
                f"permissions of space {space} are not shown: let the owner of connection.token administer it"
            )
        for permission in permissions:
            if is_object(permission) and _is_view(permission):
                if permission.get("anonymousAccess") is True:
                    yield Member(EVERYONE)
                yield from self._parse_members(_descend(permission, "subjects"))

    def _find_group(self, group: str) -> Member:
        """A group of Cloud by its id, which its members are listed by."""
        answer = self._client.get_or_status("rest/api/group/by-id", {"id": group})
        name = str(answer.get("name") or "") if is_object(answer) else ""
        self._group_ids[name or group] = group
        return Member.group(name or group)

    def _parse_members(self, listed: Json | None) -> Readers:
        """The people and groups of an object with `user` and `group` lists."""
        members = set[Member]()
        for raw in _results_of(listed, "user"):
            members.update(filter(None, (_to_person(raw),)))
        for raw in _results_of(listed, "group"):
            if name := str(raw.get("name") or raw.get("id") or ""):
                self._group_ids[name] = str(raw.get("id") or "")
                members.add(Member.group(name))
        return frozenset(members)

    def _with_group_members(self, readers: Readers) -> Readers:
        groups = (member for member in readers if member.is_group)
        return readers.union(*(self.read_group(group.account.partition(":")[2]) for group in groups))

    def _read_group(self, name: str) -> Readers:
        """The members of a group; none where they are not shown: the group counts by its name alone."""
        path = f"rest/api/group/{quote(name, safe='')}/member"
        refusal = f"members of group {name} are not shown"
        if self._client.is_cloud:
            path = f"rest/api/group/{quote(self._group_ids.get(name) or name, safe='')}/membersByGroupId"
        try:
            members = [
                _to_person(person)
                for person in self._iter_results(path, {"start": 0, "limit": _PAGE_SIZE}, refusal)
            ]
        except _Unreadable as reason:
            self._problems[str(reason)] += 1
            return frozenset()
        return frozenset(member for member in members if member)

    def _iter_results(self, path: str, query: Mapping[str, Any], refusal: str) -> Iterator[Json]:
        """All results of a listing by cursor, or by offset if the query has a start. Raises _Unreadable."""
        question = dict(query)
        while True:
            answer = self._client.get_or_status(path, question)
            if isinstance(answer, int):
                raise _Unreadable(f"{refusal} ({answer}): {_ADVICE}")
            results = answer.get("results")
            if not is_list(results):
                raise SourceUnavailable(
                    f"{self._client.service} answered a listing of permissions without results"
                )
            yield from filter(is_object, results)
            following = str((answer.get("_links") or Json()).get("next") or "")
            cursor = parse_qs(urlsplit(following).query).get("cursor", [""])[0]
            if ("start" not in question and not cursor) or not results:
                return
            if cursor and question.get("cursor") == cursor:
                raise SourceUnavailable(f"{self._client.service} does not end a listing of permissions")
            question |= {"cursor": cursor} if cursor else {"start": int(question["start"]) + len(results)}


_ADVICE = "see the permissions that docs/sources/confluence.md names"


def _is_view(permission: Json) -> bool:
    """Whether a permission is that to view the space."""
    operation = permission.get("operation") or Json()
    name = operation.get("key") or operation.get("operation") or operation.get("operationKey")
    return name == "read" and operation.get("targetType", "space") == "space"


def _to_person(person: Json) -> Member | None:
    """On Cloud by account id, on Server by user name."""
    account = str(person.get("accountId") or person.get("username") or "")
    return Member(account, str(person.get("email") or "") or None) if account else None


def _descend(value: Any, *names: str) -> Json | None:
    """The object within objects at these names; None where one is missing."""
    for name in names:
        value = value.get(name) if is_object(value) else None
    return value if is_object(value) else None


def _results_of(listed: Json | None, kind: str) -> list[Json]:
    results: Any = (_descend(listed, kind) or Json()).get("results")
    return [result for result in results if is_object(result)] if is_list(results) else []


def _is_complete(restrictions: Json | None) -> bool:
    """Whether people and groups are both there, with no more on a next page."""
    lists = [_descend(restrictions, kind) for kind in ("user", "group")]
    return all(part is not None and is_list(part.get("results")) and _is_whole(part) for part in lists)


def _is_whole(listed: Json) -> bool:
    """Whether a list ends with this page: it is shorter than it may be, and names no next one."""
    count, limit = len(listed.get("results") or ()), listed.get("limit")
    return not (listed.get("_links") or Json()).get("next") and (
        count == 0 or (isinstance(limit, int) and count < limit)
    )
