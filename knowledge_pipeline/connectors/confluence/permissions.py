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
from urllib.parse import quote

from knowledge_pipeline.config.connections import ConfluenceConnection
from knowledge_pipeline.connectors.confluence.client import ConfluenceClient, Json
from knowledge_pipeline.connectors.confluence.content import CONTENT_KINDS, MAX_IDS_PER_QUERY, search
from knowledge_pipeline.connectors.confluence.editions import iter_people, open_edition
from knowledge_pipeline.connectors.permissions import (
    EVERYONE,
    Audience,
    Member,
    Permissions,
    Readers,
    Unreadable,
    collect_permissions,
)
from knowledge_pipeline.connectors.service import split_batches
from knowledge_pipeline.text import descend, is_list, is_object, list_objects

_PAGE_SIZE = 200
_RESTRICTIONS = "restrictions.read.restrictions"
_EXPAND = [f"{_RESTRICTIONS}.user", f"{_RESTRICTIONS}.group"]


def read_page_permissions(connection: ConfluenceConnection, uris: Sequence[str]) -> Permissions:
    """The audiences of pages and blog posts, by the site's permissions of now."""
    with closing(ConfluenceClient(connection)) as client:
        kinds = {uri.partition("/")[2]: uri.partition("/")[0] for uri in uris}
        reader = _PermissionReader(client, kinds)
        pages = {f"{kind}/{page}": page for page, kind in kinds.items()}
        return collect_permissions(pages, reader.find_audience, reader.problems)


class _PermissionReader:
    def __init__(self, client: ConfluenceClient, kind_by_id: Mapping[str, str]) -> None:
        self._client = client
        self._group_ids: dict[str, str] = {}  # by name, on Cloud
        self.problems = Counter[str]()
        self.read_group = cache(self._read_group)  # of this reader, each group once
        self.read_space = cache(self._read_space)
        self.find_person = cache(self._find_person)
        self._places = open_edition(client).locate_pages(kind_by_id)
        ids = (id_ for page, location in self._places.items() for id_ in (*location.ancestors, page))
        self._restrictions = self._read_restrictions(list(dict.fromkeys(ids)))

    def find_audience(self, page: str) -> Audience:
        """Raises Unreadable."""
        location = self._places.get(page)
        if location is None:
            raise Unreadable("the place of a page is not shown: let the owner of connection.token view it")
        requires, name = [self.read_space(location.space)], f"space/{location.space}"
        for content_id in (*location.ancestors, page):
            readers = self._restrictions[content_id]
            if isinstance(readers, Unreadable):
                raise readers
            if readers:
                requires.append(self._with_group_members(readers))
                name = f"content/{content_id}"
        return name, requires

    def _read_restrictions(self, ids: Sequence[str]) -> Mapping[str, Readers | Unreadable]:
        """Who may read, by id of a page or of what pages are under; nobody named: not restricted."""
        readers_by_id: dict[str, Readers | Unreadable] = {}
        for several in split_batches(ids, MAX_IDS_PER_QUERY):
            cql = f"id in ({', '.join(several)}) and type in ({', '.join(CONTENT_KINDS)})"
            for content in search(self._client, cql, _EXPAND):
                restrictions = descend(content, "restrictions", "read", "restrictions")
                lists = [descend(restrictions, kind) for kind in ("user", "group")]
                if all(is_list(part.get("results")) and _is_whole(part) for part in lists):  # no next page
                    readers_by_id[str(content["id"])] = self._parse_members(restrictions)
        for content_id in ids:
            # a folder, not known to the search yet, or more readers than it shows
            if content_id not in readers_by_id:
                try:
                    readers_by_id[content_id] = self._read_restriction(content_id)
                except Unreadable as reason:
                    readers_by_id[content_id] = reason
        return readers_by_id

    def _read_restriction(self, content: str) -> Readers:
        path, readers, start = f"rest/api/content/{content}/restriction/byOperation/read", set[Member](), 0
        while True:
            question = {"expand": "restrictions.user,restrictions.group", "start": start, "limit": _PAGE_SIZE}
            answer = self._client.get_or_status(path, question)
            restrictions = answer.get("restrictions") if is_object(answer) else None
            if not is_object(restrictions):
                status = answer if isinstance(answer, int) else "no list"
                raise Unreadable(f"restrictions of what a page is under are not shown ({status}): {_ADVICE}")
            before = len(readers)
            readers |= self._parse_members(restrictions)
            lists = [descend(restrictions, kind) for kind in ("user", "group")]
            counts = [len(members.get("results") or ()) for members in lists if not _is_whole(members)]
            if not any(counts) or len(readers) == before:  # or the last ones again
                return frozenset(readers)
            start += min(filter(None, counts))

    def _read_space(self, space: str) -> Readers:
        """Who may view a space. Raises Unreadable."""
        readers = set(self._iter_cloud_space(space) if self._client.is_cloud else self._iter_space(space))
        if not readers:
            raise Unreadable(f"permissions of space {space} name no reader that can be understood")
        return self._with_group_members(frozenset(readers))

    def _iter_cloud_space(self, space: str) -> Iterator[Member]:
        people: list[str] = []
        refusal = f"permissions of space {space} are not shown"
        for permission in self._iter_results(f"api/v2/spaces/{space}/permissions", {"limit": 250}, refusal):
            if not _is_view(permission):
                continue
            principal = descend(permission, "principal")
            kind, account = str(principal.get("type")).lower(), str(principal.get("id") or "")
            if kind == "user":
                people.append(account)
            elif kind == "group":
                answer = self._client.get_or_status("rest/api/group/by-id", {"id": account})
                name = str(answer.get("name") or "") if is_object(answer) else ""
                self._group_ids[name or account] = account  # which its members are listed by
                yield Member.group(name or account)
            elif account == "anonymous-users":
                yield Member(EVERYONE)
            elif account:
                yield Member.group(account)  # a role, or a class of users: who is in it, a mapping may say
        shown = filter(None, map(_to_person, iter_people(self._client, people)))
        members = {member.account: member for member in shown}
        yield from (members.get(account, Member(account)) for account in people)

    def _iter_space(self, space: str) -> Iterator[Member]:
        """Of Data Center: as 9.1 and later show it, else by JSON-RPC. Raises Unreadable."""
        path = f"rest/api/space/{quote(space, safe='')}/permissions"
        grants = self._client.list_or_status(path, _REFUSALS)
        if grants == 404:
            yield from self._iter_space_by_rpc(space)
            return
        if isinstance(grants, int):
            raise _build_unshown(space, grants)
        for grant in filter(_is_view, list_objects(grants)):
            yield from self._iter_subject(descend(grant, "subject"))
        anonymous = self._client.list_or_status(f"{path}/anonymous", _REFUSALS)
        if isinstance(anonymous, int):
            self.problems[f"whether anybody may view space {space} is not shown ({anonymous})"] += 1
        elif any(map(_is_view, list_objects(anonymous))):
            yield Member(EVERYONE)

    def _iter_subject(self, subject: Json) -> Iterator[Member]:
        """A group by name, a person by a key that is looked up (CONFSERVER-100505)."""
        kind, name, key = (str(subject.get(field) or "") for field in ("type", "name", "userKey"))
        if kind == "group" and name:
            yield Member.group(name)
        elif kind == "user" and key:
            if person := self.find_person(key):
                yield person
            else:
                self.problems["people of a space are not shown: let connection.token view profiles"] += 1
        else:
            self.problems[f"permissions of a space by {kind} are not taken in"] += 1

    def _find_person(self, key: str) -> Member | None:
        person = self._client.get_or_status("rest/api/user", {"key": key})
        return _to_person(person) if is_object(person) else None

    def _iter_space_by_rpc(self, space: str) -> Iterator[Member]:
        sets = self._client.call_or_status("getSpacePermissionSets", space, _REFUSALS)
        if not is_list(sets):
            raise _build_unshown(space, sets if isinstance(sets, int) else 404)
        views = (one for one in list_objects(sets) if one.get("type") == "VIEWSPACE")
        for permission in (grant for view in views for grant in list_objects(view.get("spacePermissions"))):
            if name := str(permission.get("userName") or ""):
                yield Member(name)
            elif group := str(permission.get("groupName") or ""):
                yield Member.group(group)
            else:
                yield Member(EVERYONE)

    def _parse_members(self, listed: Json) -> Readers:
        people = map(_to_person, list_objects(descend(listed, "user").get("results")))
        members = {person for person in people if person}
        for raw in list_objects(descend(listed, "group").get("results")):
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
            people = self._iter_results(path, {"start": 0, "limit": _PAGE_SIZE}, refusal)
            return frozenset(filter(None, map(_to_person, people)))
        except Unreadable as reason:
            self.problems[str(reason)] += 1
            return frozenset()

    def _iter_results(self, path: str, query: Mapping[str, Any], refusal: str) -> Iterator[Json]:
        """All results of a listing. Raises Unreadable."""
        return self._client.iter_results(
            path, query, lambda status: Unreadable(f"{refusal} ({status}): {_ADVICE}")
        )


_REFUSALS = frozenset({401, 403, 404, 405, 500, 501})
"""Of the permissions of a space; 500 is one for 403 (CONFSERVER-99908)."""
_ADVICE = "see the permissions that docs/sources/confluence.md names"


def _build_unshown(space: str, status: int) -> Unreadable:
    return Unreadable(
        f"permissions of space {space} are not shown ({status}): let the owner of connection.token "
        "administer it and, before Confluence 9.1, switch on its Remote API; or say who may read with "
        "access.visibility and access.principals",
        status,
    )


def _is_view(permission: Json) -> bool:
    operation = descend(permission, "operation") or permission
    name = operation.get("key") or operation.get("operation") or operation.get("operationKey")
    return name == "read" and operation.get("targetType", "space") == "space"


def _to_person(person: Json) -> Member | None:
    account = str(person.get("accountId") or person.get("username") or "")
    return Member(account, str(person.get("email") or "") or None) if account else None


def _is_whole(listed: Json) -> bool:
    """Whether a list ends with this page: it is shorter than it may be, and names no next one."""
    count, limit = len(listed.get("results") or ()), listed.get("limit")
    is_last = not descend(listed, "_links").get("next")
    return is_last and (count == 0 or (isinstance(limit, int) and count < limit))
