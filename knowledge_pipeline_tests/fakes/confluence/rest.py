"""The REST APIs of a fake Confluence: which question is answered with what, and how it is paged."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlencode

from knowledge_pipeline_tests.fakes.confluence.content import BadQuery, Content, Site, Space

Query = dict[str, list[str]]
Answer = tuple[int, Any, dict[str, str]]  # status, body, headers
_V2_KINDS = {"pages": "page", "blogposts": "blogpost"}
_MOST_V2, _MOST_V1, _MOST_WITH_BODY, _MOST_SPACES = 250, 200, 50, 100
_MOST_SEARCH = 250  # of Cloud


class Rest:
    """Answers for one site, as Cloud (v2, and v1's search) or as Server."""

    url: str

    def __init__(self, edition: str, utc_offset_h: int) -> None:
        self.edition = edition
        self.utc_offset_h = utc_offset_h  # of the token's owner, in whose zone queries are read
        self.site = Site(edition)
        self.forbidden: dict[str, int] = {}  # the status of paths that end so: "/permissions"
        self.names_next = True  # else a page by offset does not say that another follows, as with old servers
        self.page_cap: int | None = (
            None  # results that a page by offset has at most, whatever its next one says
        )
        # of a list of more than 200, in place of what begins beyond its end (CONFSERVER-95272)
        self.repeats: str | None = None  # "last" results, or the "first" ones from whatever offset
        self.ends = True  # else there is a next page after the last one, and it is empty
        self.has_space_permissions = True  # of a server: 9.1 and later; else JSON-RPC has them
        self.before_page: Callable[[str], None] | None = None  # called before a listing is answered

    @property
    def context(self) -> str:
        return "/wiki" if self.edition == "cloud" else "/confluence"

    def routed(self, path: str, query: Query, content: bytes = b"") -> Answer:
        """Status, body and headers of the answer to a request."""
        if not path.startswith(self.context):
            return 404, {"message": "nothing here"}, {}
        path = path.removeprefix(self.context)
        parts = path.strip("/").split("/")
        if status := next((status for end, status in self.forbidden.items() if path.endswith(end)), None):
            return status, {"statusCode": status, "message": "on purpose"}, {}
        try:
            if self.edition == "cloud" and parts[:2] == ["api", "v2"]:
                return self._v2(parts[2:], path, query)
            if self.edition == "server" and parts == ["rpc", "json-rpc", "confluenceservice-v2"]:
                return self._rpc(json.loads(content))
            if parts[:2] == ["rest", "api"]:
                return self._v1(parts[2:], path, query)
        except BadQuery as error:
            return 400, {"statusCode": 400, "message": f"Could not parse cql : {error}"}, {}
        return 404, {"statusCode": 404, "message": f"null for uri: {path}"}, {}

    def _v2(self, parts: list[str], path: str, query: Query) -> Answer:
        match parts:
            case ["spaces"]:
                keys = [key for given in query.get("keys", []) for key in given.split(",")]
                return self._by_cursor(
                    path, query, lambda: self._spaces(keys, query), self.site.space, _MOST_V2
                )
            case ["spaces", number, "permissions"]:
                space = next(each for each in self.site.spaces.values() if each.id == number)
                grants = [SimpleNamespace(id=str(at), reader=each) for at, each in enumerate(space.readers)]
                grants.append(SimpleNamespace(id="admin", reader="administrator"))
                return self._by_cursor(path, query, lambda: grants, self._grant, self.site.list_size)
            case ["pages" | "blogposts" as kinds]:
                body = "body-format" in query
                return self._by_cursor(
                    path,
                    query,
                    lambda: self._v2_pages(_V2_KINDS[kinds], query),
                    lambda each: self.site.v2(each, body=body),
                    _MOST_V2,
                )
            case ["pages" | "blogposts" as kinds, number]:
                return self._v2_one(number, _V2_KINDS[kinds], body="body-format" in query)
            case ["folders" | "whiteboards" | "databases" as kinds, number]:
                return self._v2_one(number, kinds.removesuffix("s"), body=False)
            case ["pages" | "blogposts", number, "labels"]:
                labels = [SimpleNamespace(id=each) for each in self.site.content[number].labels]
                shape = lambda each: {"id": each.id, "name": each.id, "prefix": "global"}  # noqa: E731
                return self._by_cursor(path, query, lambda: labels, shape, _MOST_V2)
        return 404, {"errors": [{"status": 404, "title": "Not Found"}]}, {}

    def _spaces(self, keys: list[str], query: Query) -> list[Space]:
        """Archived ones too, unless a status is asked for."""
        wanted = query.get("status", ["current", "archived"])
        spaces = [each for each in self.site.spaces.values() if not keys or each.key in keys]
        return [each for each in spaces if each.status in wanted]

    def _v2_pages(self, kind: str, query: Query) -> list[Content]:
        """Archived ones too, unless a status is asked for."""
        wanted = query.get("status", ["current", "archived"])
        spaces, ids = query.get("space-id"), query.get("id")
        if len(spaces or ()) > 100 or len(ids or ()) > 250:
            raise BadQuery("too many ids")
        return [
            each
            for each in self.site.seen(kind)
            if each.status in wanted
            and (spaces is None or self.site.spaces[each.space].id in spaces)
            and (ids is None or each.id in ids)
        ]

    def _v2_one(self, number: str, kind: str, *, body: bool) -> Answer:
        """One of any status, trash included."""
        found = self.site.content.get(number)
        if found is None or found.kind != kind or found.hidden is not None:
            status = (found.hidden if found else None) or 404
            return status, {"errors": [{"status": status, "code": "NOT_FOUND", "title": "Not Found"}]}, {}
        return 200, self.site.v2(found, body=body), {}

    def _v1(self, parts: list[str], path: str, query: Query) -> Answer:
        expand = {each for given in query.get("expand", []) for each in given.split(",")}
        match parts:
            case ["content", "search"]:
                cql = query["cql"][0]
                most = _MOST_WITH_BODY if "body.storage" in expand else _MOST_V1

                def found() -> list[Content]:
                    return self.site.found(cql, self.utc_offset_h)

                if self.edition == "cloud":
                    return self._by_cursor(
                        path,
                        query,
                        lambda: self._visible(found()),
                        lambda each: self.site.v1(each, expand),
                        _MOST_WITH_BODY if most == _MOST_WITH_BODY else _MOST_SEARCH,
                        is_search=True,
                    )
                return self._by_offset(path, query, found, lambda each: self.site.v1(each, expand), most)
            case ["user", "bulk"] if self.edition == "cloud":
                known = (each for each in query["accountId"] if each in self.site.people)
                people = [self.site.person(account) for account in known]
                return 200, {"results": people, "start": 0, "limit": 200, "size": len(people)}, {}
        start = int(query.get("start", ["0"])[0])
        match parts:
            case ["content", number, "restriction", "byOperation", "read"]:
                found = self.site.content.get(number)
                if found is None or found.hidden is not None:
                    return 404, {"statusCode": 404, "message": "No content found"}, {}
                return 200, self.site.restriction(found, start), {}
            case ["group", "by-id"] if self.edition == "cloud":
                return 200, self.site.group(query["id"][0].removeprefix("id-")), {}
            case ["group", id_, "membersByGroupId"] if self.edition == "cloud":
                return self._members(unquote(id_).removeprefix("id-"), start)
            case ["group", name, "member"] if self.edition == "server":
                return self._members(unquote(name), start)
        return self._server_only(parts, path, query, expand)

    def _members(self, group: str, start: int) -> Answer:
        members = [self.site.person(each) for each in self.site.groups.get(group, [])]
        return 200, self.site.listed(members, start), {}

    @staticmethod
    def _grant(grant: SimpleNamespace) -> dict[str, Any]:
        """Of a space, as v2 shows it; the last one is to administer."""
        reader, admin = grant.reader, grant.id == "admin"
        principal = {"type": "user", "id": reader}
        if reader == "*":
            principal = {"type": "access_class", "id": "anonymous-users"}
        elif reader.startswith("group:"):
            principal = {"type": "group", "id": f"id-{reader[6:]}"}
        operation = {"key": "administer" if admin else "read", "targetType": "space"}
        return {"id": grant.id, "principal": principal, "operation": operation}

    def _server_only(self, parts: list[str], path: str, query: Query, expand: set[str]) -> Answer:
        gone = 404, {"statusCode": 404, "message": "No content found"}, {}
        if self.edition == "cloud":
            return gone
        match parts:
            case ["space"]:
                keys = query.get("spaceKey", [])
                return self._by_offset(
                    path, query, lambda: self._spaces(keys, query), self.site.space, _MOST_SPACES
                )
            case ["space", key] if key in self.site.spaces:
                return 200, self.site.space(self.site.spaces[key]), {}
            case ["space", key, "permissions", *of] if self.has_space_permissions and key in self.site.spaces:
                return 200, list(self._space_permissions(self.site.spaces[key], is_anonymous=bool(of))), {}
            case ["content"]:
                keys, kind, status = query.get("spaceKey"), query["type"][0], query["status"][0]
                return self._by_offset(
                    path,
                    query,
                    lambda: [
                        each
                        for each in sorted(self.site.content.values(), key=lambda each: int(each.id))
                        if each.kind == kind and each.status == status and (not keys or each.space in keys)
                    ],
                    lambda each: self.site.v1(each, expand),
                    _MOST_V1,
                )
            case ["content", number]:
                found = self.site.content.get(number)
                if found is None or found.hidden is not None or found.status == "trashed":
                    return (found.hidden if found and found.hidden else 404), gone[1], {}
                return 200, self.site.v1(found, expand), {}
            case ["user"] if (account := query["key"][0].removeprefix("key-")) in self.site.people:
                return 200, {**self.site.person(account), "userKey": query["key"][0]}, {}
        return gone

    def _space_permissions(self, space: Space, *, is_anonymous: bool) -> Iterator[dict[str, Any]]:
        """As Data Center 9.1 and later list them, people by key."""
        for reader in (*space.readers, "administrator"):
            if (reader == "*") != is_anonymous:
                continue
            subject = {"type": "user", "userKey": f"key-{reader}"}
            if reader.startswith("group:"):
                subject = {"type": "group", "name": reader.removeprefix("group:")}
            operation = {"targetType": "space", "operationKey": "read"}
            if reader == "administrator":
                operation["operationKey"] = "administer"
            shown = {"operation": operation, "spaceKey": space.key, "spaceId": int(space.id)}
            yield shown if is_anonymous else {**shown, "subject": subject}

    def _rpc(self, call: dict[str, Any]) -> Answer:
        """The one call that has a space's permissions before 9.1; an anonymous caller's names nobody."""
        [key], method = call["params"], call["method"]
        answer = {"jsonrpc": "2.0", "id": call["id"]}
        if method != "getSpacePermissionSets" or key not in self.site.spaces:
            return 200, {**answer, "error": {"code": 500, "message": "no such space"}}, {}
        permissions = {"VIEWSPACE": self.site.spaces[key].readers, "SETSPACEPERMISSIONS": ["administrator"]}
        return (
            200,
            {
                **answer,
                "result": [
                    {
                        "type": kind,
                        "spacePermissions": [
                            {
                                "type": kind,
                                "userName": None if reader == "*" or ":" in reader else reader,
                                "groupName": reader.partition(":")[2] or None,
                            }
                            for reader in readers
                        ],
                    }
                    for kind, readers in permissions.items()
                ],
            },
            {},
        )

    def _by_cursor(
        self,
        path: str,
        query: Query,
        listed: Callable[[], list[Any]],
        shape: Callable[[Any], Any],
        most: int,
        *,
        is_search: bool = False,  # which shows an offset too, and names paths without the site's
    ) -> Answer:
        """A page after the cursor's id, whatever happened before it; told by `_links` and by a header."""
        self._about_to_page(path)
        results = listed()
        limit = min(int(query.get("limit", ["25"])[0]), most)
        after = urlsafe_b64decode(query["cursor"][0]).decode() if "cursor" in query else ""
        place = next((at for at, each in enumerate(results) if each.id == after), -1)
        if place < 0 and after:  # the one that the cursor names is gone
            place = sum(1 for each in results if int(each.id) < int(after)) - 1
        page, links, headers = results[place + 1 : place + 1 + limit], {"base": self.url}, {}
        offset = {"start": place + 1, "limit": limit, "size": len(page)} if is_search else {}
        if place + 1 + limit < len(results) or not self.ends:
            cursor = urlsafe_b64encode((page[-1].id if page else f"{after}0").encode()).decode()
            rest = {**query, "cursor": [cursor], "limit": [str(limit)]}
            rest |= {"start": [str(place + 1 + limit)], "next": ["true"]} if is_search else {}
            links["next"] = f"{'' if is_search else self.context}{path}?{urlencode(rest, doseq=True)}"
            headers["Link"] = f'<{links["next"]}>; rel="next"'
        return 200, {"results": [shape(each) for each in page], **offset, "_links": links}, headers

    def _by_offset(
        self,
        path: str,
        query: Query,
        results: Callable[[], list[Any]],
        shape: Callable[[Any], Any],
        most: int,
    ) -> Answer:
        """A page from an offset on; what may not be seen is taken out of it afterwards."""
        self._about_to_page(path)
        found = results()
        start, limit = int(query.get("start", ["0"])[0]), min(int(query.get("limit", ["25"])[0]), most)
        given = min(limit, self.page_cap or limit)
        repeats = self.repeats if len(found) > 200 else None
        first = {"first": 0, "last": max(0, min(start, len(found) - given)), None: start}[repeats]
        page = [shape(each) for each in self._visible(found[first : first + given])]
        links = {"base": self.url, "context": self.context}
        is_lie = repeats or not self.ends
        if is_lie or (self.names_next and start + given < len(found)):
            rest = urlencode({**query, "start": [str(start + limit)], "limit": [str(limit)]}, doseq=True)
            links["next"] = f"{path}?{rest}"
        return 200, {"results": page, "start": start, "limit": limit, "size": len(page), "_links": links}, {}

    def _visible(self, found: list[Any]) -> list[Any]:
        return [each for each in found if isinstance(each, Space) or not self.site.is_hidden(each)]

    def _about_to_page(self, path: str) -> None:
        if self.before_page is not None:
            self.before_page(path)
