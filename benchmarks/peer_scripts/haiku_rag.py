"""haiku.rag: a folder by its client, cut by docling, embedded by its sentence-transformers provider.

Chunks are counted with the model's own tokenizer, since the default one is on a hub; 256 tokens is its
default. Images that a README links to are not fetched. `create_document_from_source` skips files that did
not change; documents whose file is gone are deleted by the client, as its ingester does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from haiku.rag.client import HaikuRAG
from haiku.rag.config import AppConfig
from haiku.rag.embeddings import EmbedderWrapper, get_embedder

from benchmarks.peer_scripts.measuring import main
from benchmarks.peer_scripts.tool import Kind, Tool, Vectors

_DIMENSIONS = 384


class Haiku(Tool):
    """One database at a time."""

    name = "haiku.rag"
    packages = ("haiku.rag-slim", "docling", "lancedb", "sentence-transformers", "torch")
    _client: HaikuRAG | None = None

    def load(self) -> None:
        """See `Tool.load`."""
        self._loop = asyncio.new_event_loop()
        model = {"provider": "sentence-transformers", "name": str(self.model), "vector_dim": _DIMENSIONS}
        self._config = AppConfig.model_validate(
            {
                "embeddings": {"model": model},
                "processing": {
                    "chunking_tokenizer": str(self.model),
                    "pictures": "none",
                    "conversion_options": {"fetch_remote_images": False},
                },
            }
        )
        embedder = get_embedder(self._config)
        self._wait(embedder.embed_documents(["warm"]))
        _look_up(embedder, self.vectors)

    def begin(self, place: Path) -> None:
        """See `Tool.begin`."""
        self.close()
        place.mkdir(parents=True)
        self._client = HaikuRAG(place / "haiku.lancedb", config=self._config, create=True)
        self._wait(self._client.__aenter__())

    def refresh(self) -> None:
        """See `Tool.refresh`."""
        self._wait(self._refresh())

    async def _refresh(self) -> None:
        client = self._get_client()
        await client.create_document_from_source(self.corpus)
        for document in await client.list_documents():
            if not self._path(document.uri).exists():
                await client.delete_document(document.id)

    def _get_client(self) -> Any:
        assert self._client is not None
        return self._client

    @staticmethod
    def _path(uri: str) -> Path:
        return Path(unquote(urlparse(uri).path))

    def chunks(self) -> int:
        """See `Tool.chunks`."""
        return self._wait(self._count())

    async def _count(self) -> int:
        return await self._get_client().store.chunks_table.count_rows()

    def search(self, text: str, kind: Kind, limit: int) -> list[str]:
        """By its search types."""
        found = self._wait(self._get_client().search(text, limit=limit, search_type=kind))
        return [self._path(hit.document_uri).relative_to(self.corpus).as_posix() for hit in found]

    def _wait(self, work: Any) -> Any:
        return self._loop.run_until_complete(work)

    def close(self) -> None:
        """See `Tool.close`."""
        if self._client is not None:
            self._wait(self._client.__aexit__(None, None, None))
            self._client = None


def _look_up(loaded: EmbedderWrapper, vectors: Vectors) -> None:
    """Have its embedders look vectors up, or have one that is loaded make them: each database has its own."""
    documents, query = EmbedderWrapper._embed_documents, EmbedderWrapper._embed_query

    async def looked_up(self: Any, texts: list[str]) -> list[list[float]]:
        if missing := vectors.missing(texts):
            vectors.keep(missing, await documents(loaded, missing))
        return vectors.rows(texts).tolist()

    async def looked_up_query(self: Any, text: str) -> list[float]:
        if missing := vectors.missing([text]):
            vectors.keep(missing, [await query(loaded, text)])
        return vectors.rows([text])[0].tolist()

    EmbedderWrapper._embed_documents = looked_up
    EmbedderWrapper._embed_query = looked_up_query


if __name__ == "__main__":
    main(Haiku)
