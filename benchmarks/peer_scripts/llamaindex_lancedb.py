"""LlamaIndex: its ingestion pipeline with a document store, upserts and deletes, into LanceDB.

Sentences are packed to 256 tokens, which is what the model reads; the splitter's default of 1,024 would be
cut. Its cache of transformations is off, since the document store tells already what changed; the document
store is written after every run, as its documentation has it. Its table deletes by a filter in double quotes,
which LanceDB takes for a column's name, so that every edit ends in an error; here it is quoted right.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from llama_index.core import SimpleDirectoryReader
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.core.vector_stores.types import VectorStoreQuery
from llama_index.embeddings.huggingface import HuggingFaceEmbedding
from llama_index.vector_stores.lancedb import LanceDBVectorStore

from benchmarks.peer_scripts.measuring import main
from benchmarks.peer_scripts.tool import Kind, Tool, Vectors

_TOKENS, _OVERLAP = 256, 32

logging.raiseExceptions = False  # the store logs one of its lines with an argument too many
VECTORS = Vectors()  # a model of pydantic takes no attribute of its own


class LookedUpEmbedding(HuggingFaceEmbedding):
    """Its own embedding, looked up where it is known."""

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return VECTORS.of(texts, super()._get_text_embeddings).tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        compute = super()._get_query_embedding
        return VECTORS.of([query], lambda missing: [compute(text) for text in missing])[0].tolist()


class DeletingStore(LanceDBVectorStore):
    """Its store, which can delete."""

    def delete(self, ref_doc_id: str, **given: Any) -> None:
        """Delete the nodes of a document."""
        quoted = ref_doc_id.replace("'", "''")
        self.table.delete(f"{self.doc_id_key} = '{quoted}'")


class LlamaIndex(Tool):
    """One table at a time."""

    name = "LlamaIndex to LanceDB"
    packages = (
        "llama-index-core",
        "llama-index-vector-stores-lancedb",
        "llama-index-embeddings-huggingface",
        "lancedb",
        "sentence-transformers",
        "torch",
    )

    def load(self) -> None:
        """See `Tool.load`."""
        self._embedding = LookedUpEmbedding(model_name=str(self.model))
        self._embedding.get_text_embedding("warm")

    def begin(self, place: Path) -> None:
        """See `Tool.begin`."""
        place.mkdir(parents=True)
        self._place = place
        self._store = DeletingStore(uri=str(place / "lancedb"))
        self._pipeline = IngestionPipeline(
            transformations=[
                SentenceSplitter(chunk_size=_TOKENS, chunk_overlap=_OVERLAP),
                self._embedding,
            ],
            vector_store=self._store,
            docstore=SimpleDocumentStore(),
            docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
            disable_cache=True,
        )

    def refresh(self) -> None:
        """See `Tool.refresh`."""
        reader = SimpleDirectoryReader(
            str(self.corpus), recursive=True, required_exts=[".py", ".md"], filename_as_id=True
        )
        self._pipeline.run(documents=reader.load_data())
        self._pipeline.persist(str(self._place / "pipeline"))

    def chunks(self) -> int:
        """See `Tool.chunks`."""
        return self._table().count_rows()

    def _table(self) -> Any:
        return self._store.client.open_table("vectors")

    def search(self, text: str, kind: Kind, limit: int) -> list[str]:
        """By the vector store's own query types."""
        vector = self._embedding.get_query_embedding(text)
        query = VectorStoreQuery(query_embedding=vector, query_str=text, similarity_top_k=limit)
        found = self._store.query(query, query_type=kind)
        return [
            Path(node.metadata["file_path"]).relative_to(self.corpus).as_posix() for node in found.nodes or []
        ]


def open_tool(corpus: Path, model: Path, vectors: Vectors) -> Tool:
    """The tool, with its vectors where its embedding finds them."""
    del vectors
    return LlamaIndex(corpus, model, VECTORS)


if __name__ == "__main__":
    main(open_tool)
