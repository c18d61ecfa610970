"""The GraphQL of a fake GitLab: real queries, executed over the records by GitLab's rules.

A page has 100 entries at most, whatever is asked; a cursor holds a value and an id, so that it stays
right while documents change; merge requests are counted to 1,000; a query has a complexity, which is
limited. Source: https://docs.gitlab.com/api/graphql/#limits
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    TypeInfo,
    build_schema,
    execute_sync,
    get_named_type,
    parse,
    validate,
)
from graphql.utilities import value_from_ast_untyped

from knowledge_pipeline_tests.fakes.gitlab.records import Project, Record

MOST_A_PAGE = 100
MOST_COUNTED = 1000
COMPLEXITY = {"anonymous": 200, "known": 250}

_TYPES = {
    "mergeRequests": "merge_request",
    "issues": "issue",
    "releases": "release",
    "snippets": "snippet",
}
_RESOLVED = {"project", *_TYPES, "notes", "userNotesCount", "Issue.labels", "Snippet.blobs"}
_OWN = {
    "MergeRequest.mergedAt": 5,
    "MergeRequest.labels": 5,
    "MergeRequest.diffStats": 2,
    "Release.commit": 10,
}


@lru_cache(1)
def schema() -> GraphQLSchema:
    return build_schema((Path(__file__).parent / "schema.graphql").read_text())


@lru_cache(100)
def _parsed(query: str) -> tuple[DocumentNode, list[GraphQLError]]:
    document = parse(query)
    return document, validate(schema(), document)


def complexity(query: str, variables: Mapping[str, Any]) -> int:
    """As GitLab counts: 1 a field, more for some; lists found by a resolver cost 1 % more per entry."""
    operation: Any = _parsed(query)[0].definitions[0]
    return _complexity(operation.selection_set, schema().query_type, variables)


def _complexity(selected: Any, owner: Any, variables: Mapping[str, Any]) -> int:
    total = 0
    for field in selected.selections if selected else ():
        name = field.name.value
        below = _complexity(field.selection_set, get_named_type(owner.fields[name].type), variables)
        key = f"{owner.name}.{name}"
        given = {
            each.name.value: value_from_ast_untyped(each.value, dict(variables)) for each in field.arguments
        }
        if key in _OWN or not _RESOLVED.intersection((name, key)):
            total += _OWN.get(key, 1) + below
            continue
        sorts = name in _TYPES  # they have an order, asked for or not
        cost = below + 1 + sorts
        is_list = field.selection_set and name != "project"
        entries = min(given.get("first") or MOST_A_PAGE, MOST_A_PAGE) if is_list else 0
        total += int(cost + cost * (0 if given.get("iids") else 0.01 * entries))
    return total


class Answerer:
    """Answers queries about one project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.hidden = False  # as after losing access
        self.disabled: set[str] = set()  # "issues", "mergeRequests", "releases", "snippets"
        self.guest = False  # of a private project: sees no merge requests, though they are enabled
        self.missing: set[str] = set()  # fields of an older server: "Note.internal"
        self.miscounted = 0  # added to count

    def answer(self, query: str, variables: Record, *, known: bool) -> Record:
        document, wrong = _parsed(query)
        wrong = [*wrong, *self._unknown(document)]
        if wrong:
            return {
                "errors": [{"message": e.message, "extensions": {"code": "undefinedField"}} for e in wrong]
            }
        cost, most = complexity(query, variables), COMPLEXITY["known" if known else "anonymous"]
        if cost > most:
            told = f"Query has complexity of {cost}, which exceeds max complexity of {most}"
            return {"errors": [{"message": told}]}
        result = execute_sync(schema(), document, variable_values=variables, field_resolver=self._resolve)
        for error in result.errors or ():
            raise error.original_error or error  # a mistake of the fake itself
        return {"data": result.data}

    def _unknown(self, document: DocumentNode) -> list[GraphQLError]:
        from graphql import TypeInfoVisitor, Visitor, visit

        types, found = TypeInfo(schema()), list[GraphQLError]()
        missing = self.missing

        class Fields(Visitor):
            def enter_field(self, node: Any, *_: Any) -> None:
                parent = types.get_parent_type()
                if parent and f"{parent.name}.{node.name.value}" in missing:
                    told = f"Field '{node.name.value}' doesn't exist on type '{parent.name}'"
                    found.append(GraphQLError(told))

        visit(document, TypeInfoVisitor(types, Fields()))
        return found

    def _resolve(self, source: Record, info: Any, **arguments: Any) -> Any:
        name, owner = info.field_name, info.parent_type.name
        if owner == "Query":
            shown = not self.hidden and arguments["fullPath"] == self.project.full_path
            return {"id": "gid://gitlab/Project/1"} if shown else None
        if owner == "Project" and name.endswith("Enabled"):
            return name.removesuffix("Enabled") not in self.disabled
        if name in ("userPermissions", "readMergeRequest"):
            return {} if owner == "Project" else not self.guest
        if owner == "Project" and name in _TYPES:
            return self._listed(name, **arguments)
        if name == "count":
            limit = arguments.get("limit")
            return min(source["count"], limit + 1) if limit else source["count"]
        if name == "userNotesCount":
            return sum(not note["system"] for note in source["notes"])
        if name == "notes":
            return _page([note for note in source["notes"] if _shown(note, arguments["filter"])], **arguments)
        if owner == "Snippet" and name == "id":
            return f"gid://gitlab/ProjectSnippet/{source['id']}"
        if name == "blobs":
            return _page(source["blobs"], **arguments) | {"hasUnretrievableBlobs": source["unretrievable"]}
        value = source.get(name)
        if isinstance(value, list) and "first" in info.parent_type.fields[name].args:
            return _page(value, **arguments)
        return value

    def _listed(self, name: str, **asked: Any) -> Record:
        kind = _TYPES[name]
        state, iids = asked.get("state") or "all", asked.get("iids")
        since = datetime.fromisoformat(asked.get("updatedAfter") or "1970-01-01T00:00:00Z")
        records = [
            record
            for record in self.project.records.values()
            if record["kind"] == kind
            and name not in self.disabled
            and not (self.guest and kind == "merge_request")
            and state in ("all", record.get("state"))
            and datetime.fromisoformat(record["updatedAt"]) >= since
            and (iids is None or record["iid"] in iids)
        ]
        field, _, direction = (asked.get("sort") or "CREATED_DESC").rpartition("_")
        field = field.removesuffix("_AT").lower()
        key, down = f"{field}At", direction == "DESC"
        records.sort(key=lambda record: (record[key], record["id"]), reverse=down)
        total = len(records) + self.miscounted
        if after := asked.pop("after", None):
            place = tuple(json.loads(base64.b64decode(after)).values())
            records = [
                r for r in records if ((r[key], r["id"]) < place if down else (r[key], r["id"]) > place)
            ]
        page = _page(records, **asked)
        if page["nodes"]:
            last = page["nodes"][-1]
            page["pageInfo"]["endCursor"] = _cursor({f"{field}_at": last[key], "id": last["id"]})
        return page | {"count": total}


def _shown(note: Record, asked: str) -> bool:
    return asked == "ALL_NOTES" or note["system"] == (asked == "ONLY_ACTIVITY")


def _page(entries: list[Any], first: int | None = None, after: str | None = None, **_: Any) -> Record:
    """Entries of lists within a record have no value that orders them but their place, here."""
    start = json.loads(base64.b64decode(after))["id"] if after else 0
    end = min(start + min(first or MOST_A_PAGE, MOST_A_PAGE), len(entries))
    info = {"hasNextPage": end < len(entries), "endCursor": _cursor({"id": end}) if entries else None}
    return {"nodes": entries[start:end], "count": len(entries), "pageInfo": info}


def _cursor(place: Record) -> str:
    return base64.b64encode(json.dumps(place).encode()).decode()
