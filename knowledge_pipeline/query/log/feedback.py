"""Records what a reader thought of a result: rows of `feedback`, written in the background."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import get_args

from knowledge_pipeline.contract.types import Judgement
from knowledge_pipeline.errors import InvalidQuery, NotFound, StoreUnavailable
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.filters import replace_invalid_characters
from knowledge_pipeline.query.log.query_ids import QueryIds
from knowledge_pipeline.query.log.row_writer import FLUSH_INTERVAL_S, RowWriter
from knowledge_pipeline.store.journal import Journal
from knowledge_pipeline.store.lake import Lake

_MAX_ID_CHARS = 500


class FeedbackLog(RowWriter):
    """The table `feedback` of one store, for one process. Threads may share it.

    A row is on disk before `record` returns, and in the table seconds later.
    """

    def __init__(
        self, lake: Lake, query_ids: QueryIds, *, flush_interval_s: float = FLUSH_INTERVAL_S
    ) -> None:
        super().__init__(
            lake,
            "feedback",
            subject="judgements of results",
            identity=("query_id", "result_id", "judgement", "at"),
            flush_interval_s=flush_interval_s,
            journal=Journal(lake.folder / "logs" / "judgements"),
            required=True,
        )
        self._query_ids = query_ids

    def record(self, access: Access, *, query_id: str, result_id: str, judgement: str) -> None:
        """Record one judgement of one result, by the caller who was given the query's id.

        Raises:
            InvalidQuery: there is no such judgement, or an id is empty or too long.
            NotFound: nobody was given such an id, or another caller was.
            StoreUnavailable: the judgement cannot be written.
        """
        if judgement not in get_args(Judgement):
            raise InvalidQuery(
                f"found the judgement {judgement!r}; allowed: {', '.join(get_args(Judgement))}"
            )
        for name, id_ in (("query", query_id), ("result", result_id)):
            if not 0 < len(id_) <= _MAX_ID_CHARS:
                raise InvalidQuery(f"the {name} id has {len(id_)} characters; allowed: 1 to {_MAX_ID_CHARS}")
        if not self._query_ids.is_issued_to(query_id, access):
            raise NotFound(f"there is no query {query_id!r}: give the query_id of a response")
        self.start()
        try:
            self.add(
                {
                    "at": datetime.now(UTC),
                    "query_id": query_id,
                    "result_id": replace_invalid_characters(result_id),
                    "judgement": judgement,
                    "tenant": access.tenant,
                }
            )
        except StoreUnavailable as error:
            advice = "check the permissions and the space of the store"
            raise StoreUnavailable(f"the feedback cannot be written: {advice}") from error
