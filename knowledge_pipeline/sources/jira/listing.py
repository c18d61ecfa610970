"""A complete listing of Jira's tickets, or an exception.

Tickets are listed in the order of creation. An edited ticket keeps its place, a new one comes last, and
one that is deleted, moved, or leaves the filter moves the others up. Cloud's pages begin after the last
ticket of the page before, so that this does no harm. Server's begin at an offset: each page begins some
tickets early, and must begin with a ticket that was seen. If not, more tickets may have moved past, and
it is read again from further back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from knowledge_pipeline.errors import SourceUnavailable
from knowledge_pipeline.json_values import is_list, is_object
from knowledge_pipeline.sources.jira.client import JiraClient

_CLOUD_PAGE_SIZE = 5000  # for Cloud, which gives fewer where it likes; the page says how many
_SERVER_PAGE_SIZE = 1000
_OVERLAP = 10


def list_tickets(
    api: JiraClient,
    jql: str,
    limit: int | None = None,
    *,
    fields: Sequence[str] = (),
    reconcile: Sequence[str] = (),
) -> Iterator[dict[str, Any]]:
    """Every ticket that a query finds, with `id`, `key`, `fields.updated` and more fields, each once.

    Cloud's index of tickets is seconds behind, but for those whose ids `reconcile` names, at most 50.

    Raises:
        SourceRefused: the query is refused.
        SourceUnavailable: it did not answer, or a page did not hold what it should.
    """
    columns = ["id", "key", "updated", *fields]
    pages = (
        _iter_cloud(api, jql, limit, columns, reconcile)
        if api.is_cloud
        else _iter_server(api, jql, limit, columns)
    )
    return islice(pages, limit)


def fetch_tickets(api: JiraClient, ids: Sequence[str], fields: Sequence[str]) -> list[dict[str, Any]]:
    """Those of at most a hundred tickets that are there and shown to us, in any order."""
    if api.is_cloud:
        answer = api.post("issue/bulkfetch", {"issueIdsOrKeys": list(ids), "fields": list(fields)})
    else:
        question = {"jql": f"id in ({', '.join(ids)})", "fields": list(fields), "maxResults": len(ids)}
        # not validated, or one that is gone would be an error of the whole question
        answer = api.post("search", {**question, "validateQuery": False})
    issues = answer.get("issues")
    if not is_list(issues):
        raise SourceUnavailable(f"{api.service} returned no list of tickets: try again later")
    return issues


def _iter_cloud(
    api: JiraClient, jql: str, limit: int | None, fields: Sequence[str], reconcile: Sequence[str]
) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    tokens: set[str] = set()
    question: dict[str, Any] = {"jql": jql, "fields": list(fields)}
    if reconcile:
        question["reconcileIssues"] = [int(id_) for id_ in reconcile]
    question["maxResults"] = min(_CLOUD_PAGE_SIZE, limit or _CLOUD_PAGE_SIZE)
    while True:
        page = api.post("search/jql", question)
        yield from _iter_unseen(_require_issues(api, page), seen)
        token = page.get("nextPageToken")
        if page.get("isLast") is True or (not token and page.get("isLast") is None):
            return
        if not token or token in tokens:
            raise _build_listing_error(api, "does not name the next one")
        tokens.add(token)
        question["nextPageToken"] = token


def _iter_server(
    api: JiraClient, jql: str, limit: int | None, fields: Sequence[str]
) -> Iterator[dict[str, Any]]:
    seen: set[str] = set()
    start, overlap = 0, _OVERLAP
    most = min(_SERVER_PAGE_SIZE, max(limit or _SERVER_PAGE_SIZE, 2 * _OVERLAP))
    while True:
        question = {"jql": jql, "fields": list(fields), "startAt": start, "maxResults": most}
        page = api.post("search", question)
        issues, total = _require_issues(api, page), page.get("total")
        most = min(most, page.get("maxResults") or most)  # Server cuts it down to its own limit
        if not isinstance(total, int) or (most < 2 < total) or len(issues) < min(most, total - start):
            raise _build_listing_error(api, f"gave {len(issues)} of {total} tickets from the {start}th")
        if start and (not issues or issues[0]["id"] not in seen):
            overlap = min(start, overlap * 4)
            start -= overlap
            continue
        read_to = start + len(issues)
        yield from _iter_unseen(issues, seen)
        if read_to >= total:
            return
        overlap = max(1, min(_OVERLAP, len(issues) - 1))
        start = read_to - overlap


def _require_issues(api: JiraClient, page: Any) -> list[dict[str, Any]]:
    issues = page.get("issues") if is_object(page) else None
    if not is_list(issues):
        raise _build_listing_error(api, "has no list of tickets")
    for issue in issues:
        fields = issue.get("fields") if is_object(issue) else None
        if not is_object(fields) or not fields.get("updated") or not issue.get("id"):
            raise _build_listing_error(api, "has no list of tickets")
    return issues


def _iter_unseen(issues: list[dict[str, Any]], seen: set[str]) -> Iterator[dict[str, Any]]:
    for issue in issues:
        if issue["id"] not in seen:
            seen.add(issue["id"])
            yield issue


def _build_listing_error(api: JiraClient, problem: str) -> SourceUnavailable:
    return SourceUnavailable(
        f"{api.service}: returned an incomplete list of tickets, a page {problem}: nothing is deleted, "
        "try again later"
    )
