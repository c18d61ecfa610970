"""The GraphQL of a fake GitHub: real queries, executed over the records by GitHub's rules.

A list wants `first`, from 1 to 100; a query costs points by how many lists it may have to read; a
cursor of pull requests or issues holds the place in their order, so that it stays right while they
change. Source: https://docs.github.com/en/graphql/overview/rate-limits-and-query-limits-for-the-graphql-api
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from graphql import (
    DocumentNode,
    FieldNode,
    GraphQLError,
    GraphQLSchema,
    SelectionSetNode,
    build_schema,
    execute_sync,
    parse,
    validate,
)
from graphql.utilities import value_from_ast_untyped

from knowledge_pipeline_tests.fakes.github.records import Record, Repository

MOST_NODES = 500_000
_TYPES = {
    "pullRequests": "PullRequest",
    "issues": "Issue",
    "discussions": "Discussion",
    "releases": "Release",
}


class Refused(GraphQLError):
    """An error with GitHub's `type`."""

    def __init__(self, kind: str, message: str, **extensions: Any) -> None:
        super().__init__(message, extensions=extensions)
        self.kind = kind


@lru_cache(1)
def schema() -> GraphQLSchema:
    return build_schema((Path(__file__).parent / "schema.graphql").read_text())


@lru_cache(100)
def _parsed(query: str) -> tuple[DocumentNode, list[GraphQLError]]:
    document = parse(query)
    return document, validate(schema(), document)


def cost(query: str, variables: Mapping[str, Any]) -> tuple[int, int]:
    """Points, and how many nodes it may ask for."""
    operation: Any = _parsed(query)[0].definitions[0]
    requests, nodes = _counted(operation.selection_set, dict(variables), 1)
    return max(1, round(requests / 100)), nodes


def _counted(selected: SelectionSetNode | None, variables: Record, times: int) -> tuple[int, int]:
    requests = nodes = 0
    selections: Any = selected.selections if selected else ()
    for field in selections:
        inner = times
        if isinstance(field, FieldNode):
            given = {
                each.name.value: value_from_ast_untyped(each.value, variables) for each in field.arguments
            }
            if "first" in given:
                requests, inner = requests + times, times * int(given["first"])
                nodes += inner
            elif field.name.value == "nodes" and "ids" in given:
                inner = len(given["ids"])
                nodes += inner
        below = _counted(field.selection_set, variables, inner)
        requests, nodes = requests + below[0], nodes + below[1]
    return requests, nodes


class Answerer:
    """Answers queries about one repository, and lists those of `owners`."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.owners: dict[str, Record] = {}  # by login: organisations and users with their repositories
        self.hidden = False  # as after losing access
        self.single_sign_on = False
        self.forbidden: set[str] = set()  # uris that nobody may read
        self.unreadable: set[str] = set()  # fields: "PullRequest.closingIssuesReferences"
        self.readable: set[str] = set()  # uris for which those fields may be read all the same
        self.miscounted = 0  # added to totalCount

    def answer(self, query: str, variables: Record, rate_limit: Record | None) -> Record:
        document, wrong = _parsed(query)
        if wrong:
            return {"errors": [_undefined(error) for error in wrong]}
        result = execute_sync(
            schema(),
            document,
            root_value={"rateLimit": rate_limit},
            variable_values=variables,
            field_resolver=self._resolve,
        )
        answer: Record = {"data": result.data}
        if result.errors:
            answer["errors"] = [_formatted(error) for error in result.errors]
        return answer

    def _resolve(self, source: Record, info: Any, **arguments: Any) -> Any:
        name, owner = info.field_name, info.parent_type.name
        spared = any(source is self.repository.records.get(uri) for uri in self.readable)
        if f"{owner}.{name}" in self.unreadable and not spared:
            raise Refused("FORBIDDEN", "Resource not accessible by personal access token")
        if owner == "Query" and name != "rateLimit":
            return getattr(self, f"_{name}")(**arguments)
        if owner == "Repository" and f"{name}s" in _TYPES:
            return self._numbered(name, **arguments)
        if owner == "Repository" and name in _TYPES:
            return self._listed(name, **arguments)
        if name == "totalCommentsCount":
            return len(source["comments"]) + sum(len(each["comments"]) for each in source["reviewThreads"])
        value = source.get(name)
        if not isinstance(value, list) or "first" not in info.parent_type.fields[name].args:
            return value
        if _selected(info) == {"totalCount"}:  # needs no page
            return {"totalCount": len(value)}
        page = _page(value, **arguments)
        return page | {"totalCount": page["totalCount"] + self.miscounted}

    def _repository(self, owner: str, name: str) -> Record:
        if self.single_sign_on:
            told = "Resource protected by organization SAML enforcement. You must grant your token access."
            raise Refused("FORBIDDEN", told, saml_failure=True)
        if self.hidden or f"{owner}/{name}".lower() != self.repository.full_name.lower():
            told = f"Could not resolve to a Repository with the name '{owner}/{name}'."
            raise Refused("NOT_FOUND", told)
        facts = {
            "nameWithOwner": self.repository.full_name,
            "hasIssuesEnabled": self.repository.has_issues,
            "hasDiscussionsEnabled": self.repository.has_discussions,
        }
        return {"__typename": "Repository", "id": "R_1", **facts}

    def own(self, login: str, *names: str, kind: str = "Organization", **facts: Any) -> None:
        """Let an organisation or a user have more repositories, with the same facts, `topics` among them."""
        owner = self.owners.setdefault(
            login, {"__typename": kind, "id": login, "login": login, "repositories": []}
        )
        topics = [{"topic": {"name": each}} for each in facts.pop("topics", ())]
        for name in names:
            record = {"__typename": "Repository", "nameWithOwner": f"{login}/{name}", "description": None}
            flags = dict.fromkeys(("isArchived", "isEmpty", "isFork"), False)
            address = {"url": f"https://github.com/{login}/{name}", "repositoryTopics": topics}
            owner["repositories"].append(record | flags | address | facts)

    def list_owned(self) -> list[Record]:
        """The repositories of all owners."""
        return [each for owner in self.owners.values() for each in owner["repositories"]]

    def _repositoryOwner(self, login: str) -> Record | None:
        if self.single_sign_on:
            told = "Resource protected by organization SAML enforcement. You must grant your token access."
            raise Refused("FORBIDDEN", told, saml_failure=True)
        return self.owners.get(login.lower())

    def _search(self, query: str, type: str, **arguments: Any) -> Record:
        """Only by topic; no search shows more than its first thousand results."""
        topic = query.partition("topic:")[2].split()[0]
        wanted = {"topic": {"name": topic}}
        found = [each for each in self.list_owned() if wanted in each["repositoryTopics"]]
        return _page(found[:1000], **arguments) | {"repositoryCount": len(found)}

    def _numbered(self, kind: str, number: int) -> Record:
        uri = f"{'pull' if kind == 'pullRequest' else kind}/{number}"
        record = self.repository.records.get(uri)
        if record is None:
            kinds = {"pullRequest": "a PullRequest", "issue": "an Issue", "discussion": "a Discussion"}
            raise Refused("NOT_FOUND", f"Could not resolve to {kinds[kind]} with the number of {number}.")
        found = self._found(record["id"])
        if isinstance(found, Exception):
            raise found
        return found

    def _node(self, id: str) -> Record:
        found = self._found(id)
        if isinstance(found, Exception):
            raise found
        return found

    def _nodes(self, ids: list[str]) -> list[Any]:
        if len(ids) > 100:
            raise Refused("ARGUMENT_LIMIT", "You may not provide more than 100 node ids")
        return [self._found(each) for each in ids]

    def _found(self, node_id: str) -> Any:
        if node_id in self.repository.people:
            return self.repository.people[node_id]
        record = None if self.hidden else self.repository.by_id(node_id)
        if record is None:
            told = f"Could not resolve to a node with the global id of '{node_id}'"
            return Refused("NOT_FOUND", told)
        if any(record is self.repository.records.get(uri) for uri in self.forbidden):
            return Refused("FORBIDDEN", "Resource not accessible by personal access token")
        return record

    def _listed(self, name: str, **arguments: Any) -> Record:
        kind, repository = _TYPES[name], self.repository
        if (kind, True) in (
            ("Issue", not repository.has_issues),
            ("Discussion", not repository.has_discussions),
        ):
            return _page([], **{**arguments, "after": None}) | {"totalCount": 0}
        states, labels = arguments.get("states"), set(arguments.get("labels") or ())
        records = [
            record
            for record in self.repository.records.values()
            if record["__typename"] == kind
            and (states is None or record["state"] in states)
            and (not labels or labels & {label["name"] for label in record["labels"]})
        ]
        order = arguments["orderBy"]
        key = "updatedAt" if order["field"] == "UPDATED_AT" else "createdAt"
        down = order["direction"] == "DESC"
        records.sort(key=lambda record: (record[key], record["number"]), reverse=down)
        total = len(records)
        if after := arguments.pop("after", None):
            place = tuple(json.loads(base64.b64decode(after)))
            records = [
                r
                for r in records
                if ((r[key], r["number"]) < place) == down and place != (r[key], r["number"])
            ]
        page = _page(records, **arguments)
        if page["nodes"]:
            last = page["nodes"][-1]
            page["pageInfo"]["endCursor"] = _cursor([last[key], last["number"]])
        return page | {"totalCount": total + self.miscounted}


def _selected(info: Any) -> set[str]:
    [field] = info.field_nodes
    return {each.name.value for each in field.selection_set.selections}


def _page(entries: list[Any], first: int | None = None, after: str | None = None, **_: Any) -> Record:
    if first is None:
        raise Refused("MISSING_PAGINATION_BOUNDARIES", "You must provide a `first` or `last` value")
    if not 1 <= first <= 100:
        raise Refused("EXCESSIVE_PAGINATION", "Requesting more than 100 records exceeds the `first` limit")
    start = json.loads(base64.b64decode(after))[0] if after else 0
    end = min(start + first, len(entries))
    more = {"hasNextPage": end < len(entries), "endCursor": _cursor([end]) if entries else None}
    return {"nodes": entries[start:end], "totalCount": len(entries), "pageInfo": more}


def _cursor(place: list[Any]) -> str:
    return base64.b64encode(json.dumps(place).encode()).decode()


def _formatted(error: GraphQLError) -> Record:
    told: Record = {"path": error.path, "message": error.message}
    told["locations"] = [{"line": each.line, "column": each.column} for each in error.locations or ()]
    cause = error.original_error if isinstance(error.original_error, Refused) else error
    if not isinstance(cause, Refused):
        raise error.original_error or error  # a mistake of the fake itself
    if cause.extensions:
        told["extensions"] = cause.extensions
    return told | {"type": cause.kind}


def _undefined(error: GraphQLError) -> Record:
    return {"message": error.message, "extensions": {"code": "undefinedField"}, "path": ["query"]}
