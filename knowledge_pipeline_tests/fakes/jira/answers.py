"""How a fake Jira answers each path of its REST API; it is told nothing of HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from knowledge_pipeline_tests.fakes.jira.jql import JqlError
from knowledge_pipeline_tests.fakes.jira.site import FIELDS, JiraSite, sort_value

_CLOUD_ALL, _CLOUD_FIELDS, _SERVER_PAGE = 5000, 100, 1000
_COMMENTS_PAGE = 100


class JiraAnswers:
    """Answers from a site, page by page."""

    def __init__(self, site: JiraSite) -> None:
        self.site = site
        self.page_size: int | None = None  # the most tickets a page has; None: as the service
        self.embedded_comments = 20 if site.cloud else None  # how many come with a ticket; of work logs 20
        self.before_page: Callable[[int], None] | None = None  # the page of a search; 0: comments
        self._pages = 0

    def route(self, method: str, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
        """The status and the content that a request is answered with; `path` is below `/rest/api/N/`."""
        first, _, rest = path.partition("/")
        try:
            if path in {"search", "search/jql"}:
                return self._search(path, asked)
            if path == "issue/bulkfetch" and method == "POST" and self.site.cloud:
                return self._bulk(asked)
            if first == "issue" and rest:
                return self._issue(rest, asked)
            return self._known(path, first, rest, asked)
        except JqlError as error:
            return 400, {"errorMessages": [str(error)], "warningMessages": []}

    def _permissions(self, path: str, asked: dict[str, Any]) -> Any:
        """What tells who may read; None for other paths, and for what there is not."""
        site = self.site
        match path.split("/"):
            case ["project", key, "permissionscheme"] if key in site.projects:
                granted = [*site.browsers.get(key, []), {"type": "user", "parameter": "x"}]
                names = ["BROWSE_PROJECTS"] * (len(granted) - 1) + ["ADMINISTER_PROJECTS"]
                pairs = zip(names, granted, strict=True)
                return {
                    "id": 1,
                    "permissions": [{"permission": name, "holder": each} for name, each in pairs],
                }
            case ["project", key, "role", role] if key in site.projects and role in site.roles:
                return {
                    "id": role,
                    "name": "Role",
                    "actors": [self._actor(each) for each in site.roles[role]],
                }
            case ["project", key, "issuesecuritylevelscheme"] if key in site.projects and site.levels:
                return {"id": 7, "levels": [{"id": each} for each in site.levels]}
            case ["issuesecurityschemes", "7", "members"] if site.cloud:
                level = asked["issueSecurityLevelId"]
                held = [{"issueSecurityLevelId": level, "holder": each} for each in site.levels[level]]
                return self._values(held, asked)
            case ["group", "member"]:
                name = asked.get("groupname") or asked["groupId"].removeprefix("id-")
                return self._values([site.person(each) for each in site.groups.get(name, [])], asked)
            case ["user", "viewissue", "search"] if not site.cloud:
                start, most = int(asked["startAt"]), min(int(asked["maxResults"]), self.page_size or 1000)
                names = site.viewers(site.of(asked["issueKey"])) if asked.get("username") else []
                return [site.person(each) for each in names[start : start + most]]
            case ["user"]:
                every = {each for names in (site.emails, *site.groups.values()) for each in names}
                account = asked.get("accountId") or asked.get("username")
                return next((site.person(each) for each in every if site.account(each) == account), None)
        return None

    def _actor(self, who: str) -> dict[str, Any]:
        """Of a role; only Cloud shows more than a name."""
        if who.startswith("group:"):
            shown = {"type": "atlassian-group-role-actor", "name": who[6:]}
            return shown | ({"actorGroup": self.site.group(who[6:])} if self.site.cloud else {})
        shown = {"type": "atlassian-user-role-actor", "displayName": who}
        account = self.site.account(who)
        return shown | ({"actorUser": {"accountId": account}} if self.site.cloud else {"name": account})

    @staticmethod
    def _values(every: list[Any], asked: dict[str, Any]) -> dict[str, Any]:
        start, most = int(asked["startAt"]), min(int(asked["maxResults"]), 50)
        page = every[start : start + most]
        shown = {"startAt": start, "maxResults": most, "total": len(every), "values": page}
        return shown | {"isLast": start + len(page) >= len(every)}

    def _known(self, path: str, first: str, rest: str, asked: dict[str, Any]) -> tuple[int, Any]:
        site = self.site
        if status := next((status for end, status in site.forbidden.items() if path.endswith(end)), None):
            return status, said("You do not have permission.")
        if (permissions := self._permissions(path, asked)) is not None:
            return 200, permissions
        if path == "myself":
            return 200, site.person("The Reader")
        if path == "field":
            return 200, FIELDS
        if path == "serverInfo":
            kind = "Cloud" if site.cloud else "Server"
            return 200, {
                "deploymentType": kind,
                "serverTime": site.stamp(site.now),
                "versionNumbers": [10, 3, 0],
            }
        if path == ("project/search" if site.cloud else "project"):
            return 200, self._projects(asked)
        if first == "project" and rest in site.projects:
            return 200, site.project(rest) | {"lead": site.person("The Lead")}
        if first == "project":
            return 404, said(f"No project could be found with key '{rest}'.")
        return 404, said("null for uri")

    def _projects(self, asked: dict[str, Any]) -> Any:
        """Cloud's pages by offset, in the order of keys; Server's whole list."""
        self._pages += 1
        if self.before_page:
            self.before_page(self._pages)
        archived = "archived" in asked.get("status", "") or asked.get("includeArchived") == "true"
        every = [self.site.project(key) for key in sorted(self.site.projects)]
        every = [each for each in every if archived or not each.get("archived")]
        if asked.get("action") == "browse" or not self.site.cloud:
            every = [each for each in every if each["key"] not in self.site.administered]
        if not self.site.cloud:
            return every
        start, most = int(asked.get("startAt", 0)), min(int(asked.get("maxResults", 50)), 100)
        page = every[start : start + min(most, self.page_size or most)]
        shown = {"startAt": start, "maxResults": most, "total": len(every), "values": page}
        return shown | {"isLast": start + len(page) >= len(every)}

    def _search(self, path: str, asked: dict[str, Any]) -> tuple[int, Any]:
        if (path == "search/jql") != self.site.cloud:
            gone = "The requested API has been removed. Please migrate to the /rest/api/3/search/jql API."
            return (410, said(gone)) if self.site.cloud else (404, said("null for uri"))
        self._pages += 1
        if self.before_page:
            self.before_page(self._pages)
        if self.site.cloud:
            return 200, self._page_by_token(asked)
        tickets = self.site.found(asked["jql"], validated=asked.get("validateQuery", True) is not False)
        start = asked.get("startAt", 0)
        most = min(asked.get("maxResults", 50), self.page_size or _SERVER_PAGE)
        page = [
            self.site.shown(each, asked.get("fields", []), self.embedded_comments)
            for each in tickets[start : start + most]
        ]
        return 200, {"startAt": start, "maxResults": most, "total": len(tickets), "issues": page}

    def _page_by_token(self, asked: dict[str, Any]) -> dict[str, Any]:
        """A token holds what the last ticket of its page was sorted by, as Cloud's does."""
        tickets, fields = self.site.found(asked["jql"]), asked.get("fields", [])
        by = "updated" if "ORDER BY updated" in asked["jql"] else "created"
        if "nextPageToken" in asked:
            last = json.loads(base64.b64decode(asked["nextPageToken"]))
            descending = f"ORDER BY {by} DESC" in asked["jql"]
            tickets = [each for each in tickets if _place(each, by) != last]
            tickets = [each for each in tickets if (_place(each, by) < last) == descending]
        few = set(fields) <= {"id", "key"}
        most = min(asked.get("maxResults", 50), self.page_size or (_CLOUD_ALL if few else _CLOUD_FIELDS))
        page = [self.site.shown(each, fields, self.embedded_comments) for each in tickets[:most]]
        if len(tickets) <= most:
            return {"issues": page, "isLast": True}
        token = base64.b64encode(json.dumps(_place(tickets[most - 1], by)).encode()).decode()
        return {"issues": page, "isLast": False, "nextPageToken": token}

    def _bulk(self, asked: dict[str, Any]) -> tuple[int, Any]:
        names = asked["issueIdsOrKeys"]
        if len(names) > 100:
            return 400, said("The number of issues requested exceeds the limit of 100.")
        wanted = {name for name in names if name in self.site.tickets and name not in self.site.hidden}
        shown = [
            self.site.shown(self.site.tickets[name], asked.get("fields", []), self.embedded_comments)
            for name in sorted(wanted, reverse=True)
        ]
        return 200, {"expand": "", "issues": shown, "issueErrors": []}

    def _issue(self, rest: str, asked: dict[str, Any]) -> tuple[int, Any]:
        name, _, part = rest.partition("/")
        try:
            ticket = self.site.of(name)
        except KeyError:
            return 404, said("Issue does not exist or you do not have permission to see it.")
        if ticket["id"] in self.site.hidden:  # only Server tells the two apart
            hidden = "You do not have the permission to see the specified issue."
            return (404 if self.site.cloud else 403), said(hidden)
        if part in ("comment", "worklog"):
            if self.before_page:
                self.before_page(0)
            most = min(int(asked.get("maxResults", 50)), _COMMENTS_PAGE)
            return 200, self.site.entries(ticket, f"{part}s", int(asked.get("startAt", 0)), most)
        if part == "remotelink":
            if self.site.links_are_off:
                return 403, said("Issue linking is currently disabled.")
            return 200, ticket["remote links"]
        fields = [name for name in asked.get("fields", "").split(",") if name]
        return 200, self.site.shown(ticket, fields, self.embedded_comments)


def _place(ticket: dict[str, Any], by: str) -> list[Any]:
    """Where a ticket stands in an order by a time, and by key."""
    return [ticket[by].isoformat(), *sort_value(ticket, "key")]


def said(message: str) -> dict[str, Any]:
    """An error as Jira words it."""
    return {"errorMessages": [message], "errors": {}}
