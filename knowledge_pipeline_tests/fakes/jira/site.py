"""What a fake Jira holds: tickets, comments, links, people, fields; and how it shows them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from knowledge_pipeline_tests.fakes.jira.jql import JqlError, Query, parsed

FIELDS = [
    {"id": "summary", "name": "Summary", "custom": False, "schema": {"type": "string", "system": "summary"}},
    {"id": "status", "name": "Status", "custom": False, "schema": {"type": "status", "system": "status"}},
    {"id": "issuekey", "name": "Key", "custom": False},
    *(
        {"id": field, "name": name, "custom": True, "schema": {"type": kind, "custom": custom}}
        for field, name, kind, custom in (
            ("customfield_10020", "Sprint", "array", "com.pyxis.greenhopper.jira:gh-sprint"),
            ("customfield_10014", "Epic Link", "any", "com.pyxis.greenhopper.jira:gh-epic-link"),
            (
                "customfield_10030",
                "Team",
                "option",
                "com.atlassian.jira.plugin.system.customfieldtypes:select",
            ),
            (
                "customfield_10031",
                "Notes",
                "string",
                "com.atlassian.jira.plugin.system.customfieldtypes:textarea",
            ),
        )
    ),
]


def adf(text: str) -> dict[str, Any]:
    """Plain text as a document of paragraphs."""
    paragraphs = [
        {"type": "paragraph", "content": [{"type": "text", "text": part}]}
        for part in text.split("\n\n")
        if part
    ]
    return {"type": "doc", "version": 1, "content": paragraphs}


class JiraSite:
    """Tickets by id; every change moves the clock on by a second, and the ticket's `updated` with it."""

    def __init__(self, *, cloud: bool, zone: str) -> None:
        self.cloud = cloud
        self.zone_name = zone
        self.now = datetime(2026, 3, 1, 9, 0, 0, tzinfo=UTC)
        self.tickets: dict[str, dict[str, Any]] = {}
        self.projects: dict[str, int] = {"PROJ": 0}  # key -> number of the last ticket
        self.administered: set[str] = set()  # keys of projects that the account sees, and may not browse
        self.project_facts: dict[str, dict[str, Any]] = {}  # by key, what is not as usual: name, archived
        self.emails: dict[str, str] = {}  # by display name; who hides theirs is missing
        self.inactive: set[str] = set()  # display names
        self.groups: dict[str, list[str]] = {}  # display names by name
        self.browsers: dict[str, list[dict[str, Any]]] = {}  # holders of Browse Projects, by project
        self.roles: dict[str, list[str]] = {}  # display names and "group:NAME", by id of the role
        self.levels: dict[str, list[dict[str, Any]]] = {}  # holders by id; some: projects have a scheme
        self.forbidden: dict[str, int] = {}  # status by what a path ends with
        self.hidden: set[str] = set()  # ids of tickets that the account may not see
        self.links_are_off = False
        self._next_id = 10001
        self._next_comment = 50001

    @property
    def zone(self) -> tzinfo:
        return ZoneInfo(self.zone_name)

    def tick(self, seconds: float = 1.0) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def person(self, name: str) -> dict[str, Any]:
        """A person by display name; the account's id is made of it."""
        user = re.sub(r"\W", "", name).lower()
        told = {"displayName": name, "active": name not in self.inactive, "timeZone": self.zone_name}
        if name in self.emails:
            told["emailAddress"] = self.emails[name]
        return told | (
            {"accountId": f"712020:{user}"} if self.cloud else {"name": user, "key": f"JIRAUSER{len(user)}"}
        )

    def account(self, name: str) -> str:
        """What a person is known by in permissions."""
        return self.person(name)["accountId" if self.cloud else "name"]

    def group(self, name: str) -> dict[str, Any]:
        return {"name": name, **({"groupId": f"id-{name}"} if self.cloud else {})}

    def project(self, key: str) -> dict[str, Any]:
        """As it is listed."""
        usual = {"key": key, "id": str(10000 + int.from_bytes(key.encode())), "name": f"The project {key}"}
        return {**usual, "projectTypeKey": "software", **self.project_facts.get(key, {})}

    def add_project(self, key: str, **facts: Any) -> None:
        """A project without tickets; `name`, `archived`, `projectCategory`."""
        self.projects.setdefault(key, 0)
        self.project_facts[key] = facts

    def browse(self, *holders: str, project: str = "PROJ") -> None:
        """Who may browse a project: display names, "group:NAME", "role:ID", or a type of holder."""
        self.browsers[project] = [self.holder(each) for each in holders]

    def holder(self, who: str) -> dict[str, Any]:
        kind, _, name = who.partition(":")
        if kind == "group":
            shown = self.group(name)
            return {"type": "group", "parameter": name, "value": shown.get("groupId", name), "group": shown}
        if kind == "role":
            return {"type": "projectRole", "parameter": name, "value": name}
        if kind in ("anyone", "reporter", "projectLead", "applicationRole"):
            return {"type": kind, **({"parameter": name} if name else {})}
        account = self.account(who)
        return {"type": "user", "parameter": account, "value": account, "user": self.person(who)}

    def viewers(self, ticket: dict[str, Any]) -> list[str]:
        """Active people who may view a ticket: who browses its project and is in its level, by name."""
        seen = self._people(self.browsers.get(ticket["project"], []), ticket)
        if level := ticket["more"].get("security"):
            seen &= self._people(self.levels[level["id"]], ticket)
        return sorted(seen - self.inactive)

    def _people(self, holders: list[dict[str, Any]], ticket: dict[str, Any]) -> set[str]:
        """Who they are, by display name."""
        found: set[str] = set()
        for holder in holders:
            kind, name = holder["type"], holder.get("parameter", "")
            members = {"group": self.groups.get(name, []), "reporter": [ticket["reporter"]]}
            members |= {"projectLead": ["The Lead"], "projectRole": self.roles.get(name, [])}
            members["user"] = [holder["user"]["displayName"]] if "user" in holder else []
            for each in members.get(kind, self.emails):  # others are everybody
                found.update(self.groups.get(each[6:], []) if each.startswith("group:") else [each])
        return found

    def rich(self, text: Any) -> Any:
        return adf(text) if self.cloud and isinstance(text, str) else text

    def create(self, title: str, text: Any = "", *, project: str = "PROJ", **fields: Any) -> str:
        """A new ticket; its uri. `fields`: of the API; status, issuetype, priority by name."""
        self.projects[project] = self.projects.get(project, 0) + 1
        now = self.tick()
        ticket = {
            "id": str(self._next_id),
            "key": f"{project}-{self.projects[project]}",
            "project": project,
            "summary": title,
            "description": self.rich(text) if text else None,
            "issuetype": "Task",
            "status": "To Do",
            "priority": "Medium",
            "labels": [],
            "created": now,
            "updated": now,
            "comments": [],
            "worklogs": [],
            "remote links": [],
            "reporter": "Ada Lovelace",
            "more": {},
        }
        self._next_id += 1
        self.tickets[ticket["id"]] = ticket
        self._set(ticket, fields)
        return f"issue/{ticket['id']}"

    def edit(self, uri: str, text: Any) -> None:
        self.change(uri, description=self.rich(text))

    def change(self, uri: str, **fields: Any) -> None:
        ticket = self.of(uri)
        self._set(ticket, fields)
        ticket["updated"] = self.tick()

    def delete(self, uri: str) -> None:
        del self.tickets[self.of(uri)["id"]]

    def move(self, uri: str, project: str) -> None:
        """To another project: the key changes, the id does not."""
        self.projects[project] = self.projects.get(project, 0) + 1
        self.change(uri, project=project, key=f"{project}-{self.projects[project]}")

    def hide(self, uri: str) -> None:
        """Take from the account the permission to see a ticket."""
        self.hidden.add(self.of(uri)["id"])

    def comment(self, uri: str, text: Any, *, author: str = "Grace Hopper", **more: Any) -> str:
        """A new comment; its id."""
        ticket, at = self.of(uri), self.tick()
        stamp = self.stamp(at)
        self._next_comment += 1
        told = {"id": str(self._next_comment), "author": self.person(author), "body": self.rich(text)}
        ticket["comments"].append(told | {"created": stamp, "updated": stamp, "jsdPublic": True, **more})
        ticket["updated"] = at
        return told["id"]

    def log_work(
        self, uri: str, spent: str, text: Any = "", *, author: str = "Grace Hopper", **more: Any
    ) -> None:
        """A new work log, started when it is written."""
        ticket, at = self.of(uri), self.tick()
        stamp = self.stamp(at)
        self._next_comment += 1
        told = {"id": str(self._next_comment), "author": self.person(author), "timeSpent": spent}
        told |= {"comment": self.rich(text)} if text or not self.cloud else {}
        ticket["worklogs"].append(told | {"created": stamp, "updated": stamp, "started": stamp, **more})
        ticket["updated"] = at

    def link_remotely(self, uri: str, title: str, url: str, relationship: str | None = None) -> None:
        """A link to another site, which is no update of the ticket."""
        links = self.of(uri)["remote links"]
        to = {"title": title, "url": url}
        told = {"id": 100 + len(links), "globalId": f"system={url}", "application": {}, "object": to}
        links.append(told | ({"relationship": relationship} if relationship else {}))

    def link(self, uri: str, other: str, outward: str = "blocks", inward: str = "is blocked by") -> None:
        """`uri` blocks `other`."""
        kind = {"name": outward.capitalize(), "outward": outward, "inward": inward}
        here, there = self.of(uri), self.of(other)
        for ticket, side, key in ((here, "outwardIssue", there["key"]), (there, "inwardIssue", here["key"])):
            ticket["more"].setdefault("issuelinks", []).append({"type": kind, side: {"key": key}})
        here["updated"] = there["updated"] = self.tick()

    def of(self, uri: str) -> dict[str, Any]:
        """The fake's own record of a ticket, by uri, id or key."""
        name = uri.removeprefix("issue/")
        return (
            self.tickets.get(name)
            or next((each for each in self.tickets.values() if each["key"] == name), None)
            or _no_ticket(name)
        )

    def found(self, jql: str, *, validated: bool = True) -> list[dict[str, Any]]:
        """The tickets that a query finds, in its order."""
        query: Query = parsed(
            jql, zone=self.zone, known=lambda field, value: not validated or self._has(field, value)
        )
        if query.passes is None and self.cloud:
            raise JqlError(
                "Unbounded JQL queries are not allowed here. Please add a search restriction to your query."
            )
        seen = [ticket for key, ticket in self.tickets.items() if key not in self.hidden]
        tickets = [ticket for ticket in seen if query.passes is None or query.passes(ticket)]
        for field, descending in reversed(query.order or [("created", True)]):
            tickets.sort(key=lambda ticket: sort_value(ticket, field), reverse=descending)
        return tickets

    def shown(self, ticket: dict[str, Any], fields: list[str], comments: int | None) -> dict[str, Any]:
        """A ticket as the API shows it; `comments`: how many of them come with it."""
        every = self._fields(ticket, comments)
        told = (
            every
            if not fields or "*all" in fields
            else {name: every[name] for name in fields if name in every}
        )
        return {"id": ticket["id"], "key": ticket["key"], "expand": "", "fields": told}

    def entries(self, ticket: dict[str, Any], name: str, start: int, most: int) -> dict[str, Any]:
        """A page of comments, or of worklogs."""
        page = ticket[name][start : start + most]
        return {"startAt": start, "maxResults": most, "total": len(ticket[name]), name: page}

    def stamp(self, moment: datetime) -> str:
        local = moment.astimezone(self.zone)
        return f"{local:%Y-%m-%dT%H:%M:%S}.{local.microsecond // 1000:03d}{local:%z}"

    def _fields(self, ticket: dict[str, Any], comments: int | None) -> dict[str, Any]:
        most = len(ticket["comments"]) if comments is None else comments
        return {
            **{field["id"]: None for field in FIELDS if field["custom"]},
            "summary": ticket["summary"],
            "description": ticket["description"],
            "project": {"key": ticket["project"], "name": f"The project {ticket['project']}"},
            **{name: {"name": ticket[name]} for name in ("issuetype", "status", "priority")},
            "labels": ticket["labels"],
            "created": self.stamp(ticket["created"]),
            "updated": self.stamp(ticket["updated"]),
            "creator": self.person(ticket["reporter"]),
            "reporter": self.person(ticket["reporter"]),
            "assignee": None,
            "resolution": None,
            "issuelinks": [],
            "attachment": [],
            "comment": self.entries(ticket, "comments", 0, most),
            "worklog": self.entries(ticket, "worklogs", 0, 20),
            **({"security": None} if self.levels else {}),
            **ticket["more"],
        }

    def _set(self, ticket: dict[str, Any], fields: dict[str, Any]) -> None:
        for name, value in fields.items():
            place = ticket if name in ticket else ticket["more"]
            place[name] = value

    def _has(self, field: str, value: str) -> bool:
        if field == "project":
            return value.upper() in self.projects
        if field in {"id", "key", "issuekey"}:
            return any(value in (ticket["id"], ticket["key"]) for ticket in self.tickets.values())
        return True


def sort_value(ticket: dict[str, Any], field: str) -> Any:
    """What a ticket is sorted by; keys by project and number."""
    if field in {"key", "id", "issuekey"}:
        project, _, number = ticket["key"].rpartition("-")
        return project, int(number)
    return ticket[field]


def _no_ticket(name: str) -> dict[str, Any]:
    raise KeyError(name)
