"""Records what a reader thought of a result."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, get_args

from knowledge_pipeline.contract.types import Judgement
from knowledge_pipeline.errors import InvalidQuery, NotFound, StoreError
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import replace_invalid_characters
from knowledge_pipeline.query.log.queries import QueryLog
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline.store.logs import append_rows

_MAX_ID_CHARS = 500


def record_judgement(
    lake: Lake, log: QueryLog | None, access: Access, *, query_id: str, result_id: str, judgement: str
) -> None:
    """Append one judgement of one result.

    The log must have the query, from the same caller; it is None where queries are not logged.

    Raises:
        InvalidQuery: there is no such judgement, or an id is empty or too long.
        NotFound: the log does not have the query.
        StoreError: the judgement cannot be written.
    """
    if judgement not in get_args(Judgement):
        raise InvalidQuery(f"found the judgement {judgement!r}; allowed: {', '.join(get_args(Judgement))}")
    for name, id_ in (("query", query_id), ("result", result_id)):
        if not 0 < len(id_) <= _MAX_ID_CHARS:
            raise InvalidQuery(f"the {name} id has {len(id_)} characters; allowed: 1 to {_MAX_ID_CHARS}")
    stored_id = replace_invalid_characters(query_id)
    if log is not None:
        query = log.find_query(stored_id)
        if query is None or not (access.everything or _is_same_caller(query, access)):
            raise NotFound(f"there is no query {query_id!r} in the log: give the query_id of a response")
    row = {
        "at": datetime.now(UTC),
        "query_id": stored_id,
        "result_id": replace_invalid_characters(result_id),
        "judgement": judgement,
        "tenant": access.tenant,
    }
    try:
        append_rows(lake, "feedback", [row])
    except (OSError, RuntimeError) as error:  # what LanceDB raises if a disk is full or read-only
        advice = "check the permissions and the space of the store"
        raise StoreError(f"the feedback cannot be written ({type(error).__name__}): {advice}") from error


def _is_same_caller(query: Mapping[str, Any], access: Access) -> bool:
    """By the token; without one, by what the caller may see and the interface."""
    if (query["tenant"], query["token"]) != (access.tenant, access.caller.token):
        return False
    return query["token"] is not None or (
        (query["interface"], sorted(query["principals"]))
        == (access.caller.interface, sorted(access.principals))
    )
