"""A small Linear on a real socket: issues, comments and teams, by the queries of its public schema.

    with LinearServer() as server:
        server.create("Sign in fails", "It fails.")
        settings = LinearSettings(api_key=server.api_key, url=server.url)

Pages end at cursors, a query may cost 10,000 points, and who asks too often is answered as Linear answers.
"""

from __future__ import annotations

import json
import math
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from graphql import FieldNode, build_schema, graphql_sync, parse

SCHEMA = build_schema((Path(__file__).parent / "schema.graphql").read_text())
MAX_POINTS = 10_000

Record = dict[str, Any]


class LinearServer:
    """A context manager. Every change moves its clock on by an hour."""

    def __init__(self) -> None:
        self.api_key = "-".join(("lin", "api", "canary"))
        self.now = datetime(2026, 3, 1, 9, tzinfo=UTC)
        self.page_size = 250  # the most nodes of a page
        self.records: dict[str, Record] = {}  # issues by id
        self.remarks: dict[str, Record] = {}  # comments by id
        self.team_keys = ["ENG"]
        self.answers: list[
            tuple[int, Any, dict[str, str]]
        ] = []  # given to the next requests, whatever they ask
        self.costs: list[int] = []  # of each query, in points
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _build_handler(self))

    def __enter__(self) -> LinearServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/graphql"

    def create(self, title: str, text: str, *, team: str = "ENG", **fields: Any) -> str:
        """A new issue; its id."""
        number = len(self.records) + 1
        at = self._tick()
        issue = {
            **{"id": str(uuid.UUID(int=number)), "identifier": f"{team}-{number}", "title": title},
            **{"description": text, "url": f"https://linear.app/acme/issue/{team}-{number}"},
            **{"priorityLabel": "High", "createdAt": at, "updatedAt": at, "trashed": None, "parent": None},
            **{"state": {"id": "s", "name": "In Progress"}, "team": {"id": team, "key": team, "name": team}},
            **{"project": None, "creator": {"id": "u", "displayName": "Ada"}, "assignee": None, "tags": ()},
        }
        self.records[issue["id"]] = issue | fields
        return issue["id"]

    def edit(self, issue: str, **fields: Any) -> None:
        self.records[issue] |= fields | {"updatedAt": self._tick()}

    def comment(self, issue: str, text: str) -> str:
        """A new comment, which is no update of the issue; its id."""
        key = str(uuid.UUID(int=10_000 + len(self.remarks)))
        at, author = self._tick(), {"id": "g", "displayName": "Grace"}
        self.remarks[key] = {"id": key, "body": text, "createdAt": at, "updatedAt": at, "user": author}
        self.remarks[key]["issue"] = self.records[issue]
        return key

    @contextmanager
    def refusing(self, code: str, status: int = 400, **headers: str) -> Iterator[None]:
        """Answer every request with an error of this code."""
        error = {"message": f"{code} on purpose", "extensions": {"code": code}}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers = [(status, {"errors": [error]}, named)] * 1000
        yield
        self.answers = []

    def answer(self, authorization: str, asked: Record) -> tuple[int, Any, dict[str, str]]:
        if self.answers:
            return self.answers.pop(0)
        if authorization != self.api_key:
            error = {"message": "Authentication required", "extensions": {"code": "AUTHENTICATION_ERROR"}}
            return 401, {"errors": [error]}, {}
        variables = asked.get("variables") or {}
        self.costs.append(cost_of(asked["query"]))
        if self.costs[-1] > MAX_POINTS:
            error = {"message": "Query too complex", "extensions": {"code": "INPUT_ERROR"}}
            return 400, {"errors": [error]}, {}
        result = graphql_sync(SCHEMA, asked["query"], self, variable_values=variables)
        if result.errors:
            shown = [
                {"message": each.message, "extensions": {"code": "INPUT_ERROR"}} for each in result.errors
            ]
            return 400, {"errors": shown}, {}
        return 200, {"data": result.data}, {}

    def issues(self, _: Any, **asked: Any) -> Record:
        labels = {
            key: [{"id": tag, "name": tag} for tag in each["tags"]] for key, each in self.records.items()
        }
        shown = [
            each | {"labels": lambda _, key=key, **asked: self._page(labels[key], **asked)}
            for key, each in self.records.items()
            if _passes(each, asked.get("filter"))
        ]
        return self._page(shown, **asked)

    def comments(self, _: Any, **asked: Any) -> Record:
        kept = [each for each in self.remarks.values() if each["issue"]["id"] in self.records]
        return self._page([each for each in kept if _passes(each, asked.get("filter"))], **asked)

    def teams(self, _: Any, **asked: Any) -> Record:
        teams = [{"id": key, "key": key, "name": key} for key in self.team_keys]
        return self._page([each for each in teams if _passes(each, asked.get("filter"))], **asked)

    def _page(self, nodes: list[Record], *, first: int = 50, after: str | None = None, **_: Any) -> Record:
        """After the node whose id the cursor is, or would be."""
        ids = [each["id"] for each in nodes]
        start = 0 if after is None else sum(each <= after for each in ids)
        end = start + min(first, self.page_size)
        info = {"hasNextPage": end < len(nodes), "endCursor": ids[min(end, len(ids)) - 1] if ids else None}
        return {"nodes": nodes[start:end], "pageInfo": info}

    def _tick(self) -> str:
        self.now += timedelta(hours=1)
        return self.now.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def cost_of(query: str) -> int:
    """Points: 0.1 a property, 1 an object, a list times `first`.

    Source: https://linear.app/developers/rate-limiting
    """

    def count(field: FieldNode) -> float:
        if field.selection_set is None:
            return 0.1
        first = next((int(each.value.value) for each in field.arguments if each.name.value == "first"), 1)  # type: ignore[attr-defined]
        inner = sum(count(each) for each in field.selection_set.selections if isinstance(each, FieldNode))
        return first * inner if field.arguments else 1 + inner

    (operation,) = parse(query).definitions
    return math.ceil(sum(count(each) for each in operation.selection_set.selections))  # type: ignore[attr-defined]


def _passes(record: Record, wanted: Record | None) -> bool:
    for name, value in (wanted or {}).items():
        if "in" in value:
            passes = record[name] in value["in"]
        elif "gte" in value:
            passes = datetime.fromisoformat(record[name]) >= datetime.fromisoformat(value["gte"])
        else:
            passes = _passes(record[name], value)
        if not passes:
            return False
    return True


def _build_handler(server: LinearServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer, headers = server.answer(
                self.headers.get("Authorization", ""), json.loads(content)
            )
            body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    return Handler
