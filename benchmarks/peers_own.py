"""This project as a `Tool`: what `knowledge init` declares, by `stages.pipeline.refresh`.

    python -m benchmarks.peers_own --variant minilm-torch ...   (as `benchmarks.peers` calls it)

Vectors are looked up beneath `embed` and `embed_query` of the embedder, so that everything around them, the
tables of vectors and the log of what was embedded included, is done as ever. Answers are not cached, since
the same question is asked twice.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.peer_scripts.measuring import main
from benchmarks.peer_scripts.tool import Kind, Tool, Vectors
from knowledge_pipeline.config import file
from knowledge_pipeline.config.edit import write_initial_config
from knowledge_pipeline.embedding.registry import open_embedder
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline.stages import pipeline
from knowledge_pipeline.stages.upkeep import PostponedUpkeep
from knowledge_pipeline.store.lake import Lake

VARIANTS = {
    "minilm-torch": ("MiniLM by torch", "embedding: {model: all-MiniLM-L6-v2, backend: torch}\n"),
    "minilm-onnx": ("MiniLM by onnxruntime", "embedding: {model: all-MiniLM-L6-v2, backend: onnx}\n"),
    "minilm-int8": (
        "MiniLM in 8 bits by onnxruntime",
        "embedding: {model: all-MiniLM-L6-v2, backend: onnx-int8}\n",
    ),
    "default": ("default profile", "embedding: {profile: balanced}\n"),
}
"""Name, and what stands in `knowledge.yaml` beside what `knowledge init` writes there."""

_WAYS: dict[Kind, dict[str, Any]] = {"vector": {"vector_weight": 1.0, "feedback": 0.0}, "hybrid": {}}


class KnowledgePipeline(Tool):
    """One store at a time, in a running process."""

    packages = ("lancedb", "sentence-transformers", "onnxruntime", "torch")

    def __init__(self, variant: str, corpus: Path, model: Path, vectors: Vectors) -> None:
        super().__init__(corpus, model, vectors)
        self.name, self._embedding = VARIANTS[variant]
        self._bases: dict[Kind, KnowledgeBase] = {}

    def load(self) -> None:
        """See `Tool.load`; an export of the model that is missing is made here."""
        self._declare(self.corpus.parent / "warm")
        embedder = open_embedder(self._settings.embedding)
        embedder.embed(["warm"])
        _look_up(type(embedder), self.vectors)

    def _declare(self, place: Path) -> None:
        place.mkdir(parents=True)
        path = place / "knowledge.yaml"
        write_initial_config(path, self.corpus)
        path.write_text(path.read_text("utf-8") + self._embedding, "utf-8")
        self._settings = file.load_settings(path)

    def begin(self, place: Path) -> None:
        """See `Tool.begin`."""
        self.close()
        self._declare(place)
        self._lake, self._upkeep = Lake(self._settings.store), PostponedUpkeep()

    def refresh(self) -> None:
        """See `Tool.refresh`; the code graph, the checks and the release are part of it."""
        settings = self._settings
        outcome = pipeline.refresh(self._lake, settings, settings.sources, upkeep=self._upkeep)
        for failure in outcome.failures.values():
            raise failure
        self.close()  # what asks next asks what was released now

    def rest(self) -> None:
        """See `Tool.rest`; what `knowledge watch` does when nothing changes."""
        self._upkeep.run(self._lake, keep_releases=self._settings.releases.keep)

    def chunks(self) -> int:
        """See `Tool.chunks`."""
        return sum(self._lake.index(*space).count_rows() for space in self._lake.list_spaces().items())

    def search(self, text: str, kind: Kind, limit: int) -> list[str]:
        """The search `semantic` as its settings are, or by vectors alone."""
        if kind not in self._bases:
            query = self._settings.query.model_copy(
                update={
                    **_WAYS[kind],
                    "cache": self._settings.query.cache.model_copy(update={"ttl_minutes": 0}),
                }
            )
            self._bases[kind] = KnowledgeBase(self._settings.model_copy(update={"query": query}))
        answer = self._bases[kind].search(text, limit=limit)
        if answer.degraded:
            raise RuntimeError(f"asked without {answer.degraded}")
        return [result.citation.path for result in answer.results]

    def close(self) -> None:
        """See `Tool.close`."""
        for base in self._bases.values():
            base.close()
        self._bases = {}


def _look_up(embedder: Any, vectors: Vectors) -> None:
    """Have a class of embedders look vectors up; those of questions apart, which may have a prompt."""
    embed, embed_query = embedder.embed, embedder.embed_query

    def looked_up(self: Any, texts: Any) -> Any:
        before = self.usage.texts
        made = vectors.of(list(texts), lambda missing: embed(self, missing))
        for each in _list_models(self):  # noted as if they had been computed
            each.usage = replace(each.usage, texts=before + len(texts))
        return made

    asked: defaultdict[str, Vectors] = defaultdict(Vectors)  # by space

    def looked_up_query(self: Any, text: str) -> Any:
        known = asked[self.space.name]
        known.looked_up = vectors.looked_up
        return known.of([text], lambda _: embed_query(self, text)[None])[0]

    embedder.embed, embedder.embed_query = looked_up, looked_up_query


def _list_models(embedder: Any) -> list[Any]:
    """The models of an embedder, which may be several, or behind what shortens their texts."""
    inner = getattr(embedder, "_embedders", None) or [getattr(embedder, "_inner", embedder)]
    return inner if inner == [embedder] else [model for each in inner for model in _list_models(each)]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--variant", choices=VARIANTS, required=True)
    chosen = parser.parse_known_args()[0].variant
    main(lambda *given: KnowledgePipeline(chosen, *given))
