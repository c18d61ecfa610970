"""A life under way: an origin, the project that reads it, and what a question should find."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.connectors.base import ApiSource
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.contract.filters import Filters
from knowledge_pipeline.errors import KnowledgeError
from knowledge_pipeline.knowledge_base import KnowledgeBase
from knowledge_pipeline_tests.conftest import Project, tables
from knowledge_pipeline_tests.stages.lives.origin import Origin

_WORDS = (
    *("albatross", "barnacle", "cormorant", "dolphin", "egret", "flounder", "gannet", "herring"),
    *("ibis", "jellyfish", "kittiwake", "lobster", "mackerel", "narwhal", "osprey", "plaice", "quahog"),
    *("razorbill", "sturgeon", "turbot", "urchin", "vendace", "whelk", "xerus", "yellowfin", "zander"),
)


class Life:
    """An origin, the project that reads it, and what a question should find."""

    def __init__(self, origin: Origin, root: Path, embedding: EmbeddingSettings) -> None:
        self.origin = origin
        self.project = Project(root / "project", embedding)
        self.texts: dict[str, str] = {}  # of the readable documents, by key
        self.unreadable = 0
        self.told: list[str] = []  # every error
        self._words, self._full = iter(_WORDS), 0
        self.configure()

    def configure(self, **more: Any) -> None:
        """Declare the source, with other settings than before."""
        self.project.sources["life"] = {"id": "life", **self.origin.declare(), **more}

    def write(self) -> str:
        """A text like no other."""
        return f"The {next(self._words)} keeper wakes at midnight."

    def create(self, title: str) -> str:
        """A new document of the origin, which a refresh should find."""
        text = self.write()
        key = self.origin.create(title, text)
        self.texts[key] = text
        return key

    def edit(self, key: str) -> str:
        """Give a document another text; its former one."""
        former, self.texts[key] = self.texts[key], self.write()
        self.origin.edit(key, self.texts[key])
        return former

    def rename(self, key: str, title: str) -> str:
        """Give a document another title; its key after that."""
        text = self.texts.pop(key)
        key = self.origin.rename(key, title)
        self.texts[key] = text
        return key

    def remove(self, key: str) -> str:
        """Delete a document; its former text."""
        self.origin.remove(key)
        return self.texts.pop(key)

    def refresh(self, *, due: bool = False, compared: bool = True) -> None:
        """Refresh, and see that every document is found and that nothing else was left than a full index.

        `due`: a service is listed in full, as it is periodically.
        """
        with self._full_listing() if due else nullcontext():
            outcome = self.project.refresh()
        for failure in outcome.failures.values():
            raise failure
        assert self.count_live() == (len(self.texts), self.unreadable)
        if compared:
            self.require_full_index()

    def require_full_index(self, *, archived: bool = False) -> None:
        """The tables are those of a new index of the same state; `archived`: with nothing archived either."""
        self._full += 1
        full = Project(self.project.root / f"full{self._full}", self.project.embedding)
        full.sources = self.project.sources
        for failure in full.refresh().failures.values():
            raise failure
        assert tables(self.project, archived=archived) == tables(full)

    def fail(self) -> KnowledgeError:
        """Refresh, which fails."""
        with self._full_listing():
            outcome = self.project.refresh()
        assert outcome.failures, "the refresh did not fail"
        error = outcome.failures["life"]
        self.told += [f"{error} {error!r} {error.__cause__!r} {error.__context__!r}"]
        return error

    def count_live(self) -> tuple[int, int]:
        """How many documents the snapshot has that are not archived: readable ones, and skipped ones."""
        rows = self._read_snapshot()
        live = [row for row in rows if not row["archived_at"]]
        skipped = sum(1 for row in live if row["skipped"])
        return len(live) - skipped, skipped

    def live_uris(self) -> set[str]:
        """The documents that are not archived."""
        return {row["uri"] for row in self._read_snapshot() if not row["archived_at"]}

    def require_found(self, *texts: str, archived: bool = False) -> None:
        """A question finds each text; without any: those of all documents."""
        for text, found in self._ask(texts or tuple(self.texts.values()), archived=archived).items():
            assert found, f"not found: {text}"

    def require_gone(self, *texts: str, archived: bool = False) -> None:
        """No question finds any of the texts."""
        for text, found in self._ask(texts, archived=archived).items():
            assert not found, f"still found: {text}"

    def _ask(self, texts: Sequence[str], *, archived: bool) -> dict[str, bool]:
        filters = Filters(include_archived=archived)
        with KnowledgeBase(self.project.settings) as knowledge:
            return {
                text: any(text in hit.content for hit in knowledge.search(text, filters=filters).results)
                for text in texts
            }

    def _read_snapshot(self) -> list[dict[str, Any]]:
        [source] = self.project.settings.sources
        table = self.project.lake.snapshot(source.type, source.id)
        return table.read_rows(["uri", "archived_at", "skipped"]).to_pylist()

    @contextmanager
    def _full_listing(self) -> Iterator[None]:
        """As if so much time had passed that a service is listed in full again."""
        [source] = self.project.settings.sources
        with open_source(source, cache=self.project.lake.cache) as opened:
            kind: Any = type(opened)
        if not issubclass(kind, ApiSource):
            yield
            return
        usual, kind.full_listing_interval = kind.full_listing_interval, timedelta(0)
        try:
            yield
        finally:
            kind.full_listing_interval = usual
