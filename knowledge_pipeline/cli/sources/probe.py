"""Read a source without storing anything: its listing, one of its documents, and what embeds them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from knowledge_pipeline.cli.exit_codes import SUCCESS, exit_code_of
from knowledge_pipeline.cli.render.sources import show_listing
from knowledge_pipeline.cli.session import Session
from knowledge_pipeline.errors import (
    ConfigError,
    DocumentSkipped,
    EmbeddingUnavailable,
    ModelError,
    SourceRefused,
)

if TYPE_CHECKING:
    from knowledge_pipeline.config.settings import EmbeddingSettings
    from knowledge_pipeline.config.sources.source import SourceConfig
    from knowledge_pipeline.records import Document, Item
    from knowledge_pipeline.sources.base import Source


PROBED_PERMISSIONS = 100  # documents


def probe_source(session: Session, source: SourceConfig) -> int:
    """List a source, read one document, and ask the endpoint that embeds it, if one does.

    Returns:
        The exit code: whether the source can be read, and be embedded.

    Raises:
        SourceRefused: it lists no document that can be read.
    """
    from knowledge_pipeline.sources.registry import open_source

    with open_source(source, cache=session.lake.cache) as opened:
        items = list(opened.discover())
        skipped = Counter(item.skip for item in items if item.skip)
        document = _read_first_document(source.id, opened, [item for item in items if not item.skip])
    permissions = None
    if source.access.visibility == "from_source":
        permissions = _probe_permissions(source, [item.uri for item in items[:PROBED_PERMISSIONS]])
    embedding, code = _probe_embedding(session.settings.resolve_embedding(source))
    show_listing(session.screen, source.id, len(items), skipped, document, permissions, embedding)
    return code


def _probe_embedding(settings: EmbeddingSettings) -> tuple[dict[str, Any] | None, int]:
    """Whether an endpoint has the model and answers, and the exit code; None for a model of this machine."""
    from knowledge_pipeline.embedding.registry import check_endpoint

    if settings.provider == "local":
        return None, SUCCESS
    model = {"provider": settings.provider, "model": settings.model}
    try:
        return {**model, "ready": True, "problem": None, "notes": check_endpoint(settings)}, SUCCESS
    except (ConfigError, ModelError, EmbeddingUnavailable) as error:
        return {**model, "ready": False, "problem": str(error), "notes": []}, exit_code_of(error)


def _probe_permissions(source: SourceConfig, uris: list[str]) -> dict[str, Any]:
    """Of how many documents the permissions can be read, and what cannot.

    Raises:
        SourceRefused: those of none can.
    """
    from knowledge_pipeline.sources.permission_readers import read_permissions

    found = read_permissions(source, uris)
    with_readers = len(uris) - found.count_closed(uris)
    if not with_readers:
        reason = next(iter(found.problems), "the source names nobody who may read them")
        raise SourceRefused(f"source {source.id!r}: no document has permissions that can be read: {reason}")
    problems = dict(found.problems.most_common())
    return {"documents": len(uris), "with_readers": with_readers, "problems": problems}


def _read_first_document(source: str, opened: Source, items: list[Item]) -> Document:
    reason = "it lists no document: check its connection, include and exclude"
    for item in items[:20]:
        try:
            return opened.fetch(item)
        except DocumentSkipped as skipped:
            reason = f"the first documents cannot be read ({item.uri}: {skipped})"
    raise SourceRefused(f"source {source!r}: {reason}")
