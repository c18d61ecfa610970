"""What a fake Confluence holds, and how its APIs show it: `v1` (Server, and Cloud's search), `v2` (Cloud).

Field names: those that atlassian-python-api reads, and the examples of Atlassian's reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any
from urllib.parse import quote

_CLAUSE = re.compile(
    r"\s*(?P<field>\w+)\s+(?:in\s*\((?P<many>(?:\"(?:[^\"\\]|\\.)*\"|[^()\"])*)\)|>=\s*\"(?P<time>[^\"]*)\")\s*"
)
_VALUE = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|([^\s,]+)")


class BadQuery(ValueError):
    """A query that Confluence would answer with 400."""


@dataclass
class Content:
    """A page, blog post, whiteboard, database, comment, attachment or folder."""

    id: str
    kind: str
    space: str
    title: str
    body: str
    created: datetime
    updated: datetime
    author: str  # account id
    parent: str | None = None
    version: int = 1
    status: str = "current"
    labels: list[str] = field(default_factory=list)
    container: str | None = None  # of a comment or an attachment: the page's id
    about: str | None = None  # of an inline comment: the words it is about
    hidden: int | None = None  # answered with this status where it is asked for, and listed nowhere
    indexed: bool = True  # whether the search knows it yet
    readers: list[str] = field(default_factory=list)  # account ids and "group:NAME"; none: not restricted
    size: int = 0  # of a file, in bytes


@dataclass
class Space:
    """A space; `status` is current or archived."""

    id: str
    key: str
    name: str
    status: str = "current"
    type: str = "global"  # or personal
    readers: list[str] = field(default_factory=lambda: ["group:everybody"])  # "*": anonymous callers, too


@dataclass
class Site:
    """Everything that a site holds."""

    edition: str = "cloud"
    content: dict[str, Content] = field(default_factory=dict)
    spaces: dict[str, Space] = field(default_factory=dict)
    people: dict[str, str] = field(default_factory=dict)  # display names by account id
    emails: dict[str, str] = field(default_factory=dict)  # by account id; who hides theirs is missing
    groups: dict[str, list[str]] = field(default_factory=dict)  # account ids by name
    repeats_last: bool = False  # of such a list, in place of what is beyond its end
    list_size: int = 100  # readers of a restriction, or members of a group, that one answer holds

    def seen(self, *kinds: str) -> list[Content]:
        """What a token sees of these kinds, by id, trash and archive included."""
        found = [each for each in self.content.values() if each.kind in kinds and not self.is_hidden(each)]
        return sorted(found, key=lambda each: int(each.id))

    def is_hidden(self, content: Content) -> bool:
        """Whether it, or the page that it is at, may not be seen."""
        above = self.content.get(content.container) if content.container else None
        return content.hidden is not None or (above is not None and above.hidden is not None)

    def found(self, cql: str, utc_offset_h: int) -> list[Content]:
        """What a query finds, the oldest first; only `and` of `in` and `lastmodified >=`."""
        query, _, order = cql.partition(" order by ")
        if order.strip() not in ("", "created asc"):
            raise BadQuery(f"order by {order}")
        tests = list(_tests(query, utc_offset_h))
        return [
            each
            for each in sorted(self.content.values(), key=lambda each: (each.created, int(each.id)))
            if each.kind != "folder"
            and each.indexed
            and each.status == "current"
            and self._container_is_current(each)
            and all(test(each) for test in tests)
        ]

    def _container_is_current(self, content: Content) -> bool:
        above = self.content.get(content.container) if content.container else None
        return above is None or above.status == "current"

    def v1(self, content: Content, expand: set[str]) -> dict[str, Any]:
        """As `/rest/api/content` shows it: only what is expanded."""
        shown: dict[str, Any] = {
            "id": content.id,
            "type": content.kind,
            "status": content.status,
            "title": content.title,
            "_links": {"webui": f"/spaces/{content.space}/pages/{content.id}"},
        }
        creator = {
            "type": "known",
            "accountId": content.author,
            "displayName": self.people.get(content.author),
        }
        version = {"number": content.version, "when": _written(content.updated), "by": creator}
        parts: dict[str, Any] = {
            "version": version,
            "ancestors": [{"id": each.id, "title": each.title} for each in self._above(content)],
            "space": {"id": int(self.spaces[content.space].id), "key": content.space},
            "history": {"createdBy": creator, "createdDate": _written(content.created)},
        }
        shown |= {name: part for name, part in parts.items() if name in expand}
        if "metadata.labels" in expand:
            labels = [{"prefix": "global", "name": label, "id": label} for label in content.labels]
            shown["metadata"] = {"labels": {"results": labels, "start": 0, "limit": 200, "size": len(labels)}}
        if "body.storage" in expand:
            shown["body"] = {"storage": {"value": content.body, "representation": "storage"}}
        if "restrictions.read.restrictions.user" in expand:
            shown["restrictions"] = {"read": self.restriction(content, 0)}
        if content.container and "container" in expand:
            above = self.content[content.container]
            shown["container"] = {"id": above.id, "type": above.kind, "title": above.title}
        if content.kind == "attachment":
            path = (
                f"/download/attachments/{content.container}/{quote(content.title)}?version={content.version}"
            )
            shown["_links"]["download"] = path
            shown["extensions"] = {"mediaType": "application/octet-stream", "fileSize": content.size}
        if content.about and "extensions.inlineProperties" in expand:
            shown["extensions"] = {"inlineProperties": {"originalSelection": content.about}}
        return shown

    def restriction(self, content: Content, start: int) -> dict[str, Any]:
        """A page of who may read something, as `/restriction/byOperation/read` shows it."""
        people = [self.person(each) for each in content.readers if not each.startswith("group:")]
        groups = [self.group(each[6:]) for each in content.readers if each.startswith("group:")]
        lists = {"user": people, "group": groups}
        return {
            "operation": "read",
            "restrictions": {kind: self.listed(every, start) for kind, every in lists.items()},
        }

    def listed(self, every: list[Any], start: int) -> dict[str, Any]:
        if self.repeats_last:
            start = max(0, min(start, len(every) - self.list_size))
        page = every[start : start + self.list_size]
        return {"results": page, "start": start, "limit": self.list_size, "size": len(page)}

    def person(self, account: str) -> dict[str, Any]:
        """Cloud names people by account id, Server by user name; only Cloud shows addresses."""
        shown = {"type": "known", "displayName": self.people.get(account)}
        if self.edition == "server":
            return shown | {"username": account, "userKey": account}
        return shown | {"accountId": account, "email": self.emails.get(account, "")}

    def group(self, name: str) -> dict[str, Any]:
        return {"type": "group", "name": name, **({"id": f"id-{name}"} if self.edition == "cloud" else {})}

    def v2(self, content: Content, *, body: bool) -> dict[str, Any]:
        """As `/api/v2/pages` shows it."""
        shown: dict[str, Any] = {
            "id": content.id,
            "status": content.status,
            "title": content.title,
            "spaceId": self.spaces[content.space].id,
            "authorId": content.author,
            "createdAt": _written(content.created),
            "version": {
                "number": content.version,
                "createdAt": _written(content.updated),
                "minorEdit": False,
            },
            "body": {"storage": {"value": content.body, "representation": "storage"}} if body else {},
            "_links": {"webui": f"/spaces/{content.space}/pages/{content.id}"},
        }
        if content.kind in ("whiteboard", "database"):
            shown["_links"] = {"base": "https://example.atlassian.net/wiki"}
            del shown["body"]
        if content.kind != "blogpost":
            parent = self.content.get(content.parent) if content.parent else None
            shown |= {"parentId": content.parent, "parentType": parent.kind if parent else None}
        return shown

    def space(self, space: Space) -> dict[str, Any]:
        """As both APIs list it; Server's ids are numbers."""
        cloud = self.edition == "cloud"
        return {
            "id": space.id if cloud else int(space.id),
            "key": space.key,
            "name": space.name,
            "type": space.type,
            "status": space.status,
            "_links": {"webui": f"/{'spaces' if cloud else 'display'}/{space.key}"},
        }

    def _above(self, content: Content) -> list[Content]:
        above: list[Content] = []
        while content.parent and content.parent not in {each.id for each in above}:
            content = self.content[content.parent]
            above.append(content)
        return [each for each in above[::-1] if each.hidden is None]


def _written(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _tests(query: str, utc_offset_h: int):
    """The clauses of a query as functions; Confluence reads times to the minute, in the asker's zone."""
    at = 0
    while True:
        clause = _CLAUSE.match(query, at)
        if clause is None:
            raise BadQuery(query[at:])
        yield _test(clause, utc_offset_h)
        at = clause.end()
        if at == len(query):
            return
        if not query.startswith("and", at):
            raise BadQuery(query[at:])
        at += 3


def _test(clause: re.Match[str], utc_offset_h: int):
    name = clause["field"].lower()
    if clause["time"] is not None:
        zone = timezone(timedelta(hours=utc_offset_h))
        oldest = datetime.strptime(clause["time"], "%Y-%m-%d %H:%M").replace(tzinfo=zone)
        if name != "lastmodified":
            raise BadQuery(name)
        return lambda each: each.updated.replace(second=0, microsecond=0) >= oldest
    values = {re.sub(r"\\(.)", r"\1", quoted) or bare for quoted, bare in _VALUE.findall(clause["many"])}
    fields = {"id": "id", "type": "kind", "space": "space", "container": "container"}
    if name not in fields or not values:
        raise BadQuery(name)
    return lambda each: getattr(each, fields[name]) in values
