"""A retriever for LangChain, over a knowledge base on this machine or behind a server.

    retriever = KnowledgeRetriever(base=KnowledgeBase.open("."), k=4)
    retriever = KnowledgeRetriever(base=KnowledgeClient("https://knowledge.example.org", token))
    documents = retriever.invoke("how are sessions signed")

https://reference.langchain.com/python/langchain_core/retrievers
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from knowledge_pipeline.client import AsyncKnowledgeClient, KnowledgeClient
from knowledge_pipeline.contract.filters import Filters, SearchMode, SearchType
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.query.access import Access

_NO_FILTERS = Filters()


class KnowledgeRetriever(BaseRetriever):
    """Results as documents, best first.

    The text of a document begins with its citation, `[src/store.py:10-24]` on a line of its own, because most
    chains and `create_retriever_tool` show a model the text alone; `cite=False` leaves it out.

    The metadata of a document is that of the result, with `citation` ("src/store.py:10-24"), `source`,
    `path`, `lines`, `title`, `url`, `score`, `query_id` (for `feedback`), `release`, `degraded`, the
    steps that were skipped, and `notes` on how the query was read. `id` is the result's. `invoke` and
    `ainvoke` take `k` and `filters` as well.

    Raises (when invoked):
        KnowledgeError: the query is invalid, nothing is released, or a server does not answer.
    """

    base: KnowledgeBase | KnowledgeClient
    k: int | None = Field(default=None, ge=1, le=100)  # None: as many as the search type gives
    type: SearchType = "semantic"
    mode: SearchMode = "hybrid"
    filters: Filters = _NO_FILTERS
    cite: bool = True  # begin the text of each document with its citation
    access: Access | None = None  # whose query it is; a client has that of its token

    model_config = ConfigDict(arbitrary_types_allowed=True)

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,
        k: int | None = None,
        filters: Filters | None = None,
    ) -> list[Document]:
        options = self._choose_options(k, filters)
        if isinstance(self.base, KnowledgeClient):
            return self._to_documents(self.base.search(query, **options))
        return self._to_documents(self.base.search(query, **options, access=self.access).as_json())

    async def _aget_relevant_documents(
        self,
        query: str,
        *,
        run_manager: AsyncCallbackManagerForRetrieverRun,
        k: int | None = None,
        filters: Filters | None = None,
    ) -> list[Document]:
        options = self._choose_options(k, filters)
        if isinstance(self.base, KnowledgeClient):
            return self._to_documents(await self.base.run(AsyncKnowledgeClient.search, query, **options))
        response = await self.base.asynchronous.search(query, **options, access=self.access)
        return self._to_documents(response.as_json())

    def _choose_options(self, k: int | None, filters: Filters | None) -> dict[str, Any]:
        return {
            "type": self.type,
            "filters": filters or self.filters,
            "limit": k or self.k,
            "mode": self.mode,
        }

    def _to_documents(self, answer: Mapping[str, Any]) -> list[Document]:
        shared = {name: answer[name] for name in ("query_id", "release", "degraded")}
        shared["notes"] = answer.get("notes", [])  # an earlier server has none
        documents = list[Document]()
        for result in answer["results"]:
            citation = result["citation"]
            cited = f"{citation['path'] or citation['url']}:{citation['lines'].replace('L', '')}"
            metadata = {
                **result["metadata"],
                **citation,
                "citation": cited,
                "score": result["score"],
                **shared,
            }
            text = f"[{cited}]\n{result['content']}" if self.cite else result["content"]
            documents.append(Document(id=result["id"], page_content=text, metadata=metadata))
        return documents
