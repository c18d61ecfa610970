"""An organisation's knowledge, reconciled stage by stage into LanceDB tables that agents can trust."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge_pipeline.contract.filters import Filters as Filters
    from knowledge_pipeline.contract.requests import ChatTurn as ChatTurn
    from knowledge_pipeline.contract.requests import Task as Task
    from knowledge_pipeline.defs.code_location import build_defs as build_defs
    from knowledge_pipeline.defs.component import KnowledgePipeline as KnowledgePipeline
    from knowledge_pipeline.defs.resources import KnowledgeBaseResource as KnowledgeBaseResource
    from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase as AsyncKnowledgeBase
    from knowledge_pipeline.knowledge_base import KnowledgeBase as KnowledgeBase
    from knowledge_pipeline.query.access import Access as Access

__version__ = "0.1.0"

_LAZY_EXPORTS = {
    "Access": "knowledge_pipeline.query.access",
    "AsyncKnowledgeBase": "knowledge_pipeline.knowledge_base",
    "ChatTurn": "knowledge_pipeline.contract.requests",
    "Filters": "knowledge_pipeline.contract.filters",
    "KnowledgeBase": "knowledge_pipeline.knowledge_base",
    "KnowledgeBaseResource": "knowledge_pipeline.defs.resources",
    "KnowledgePipeline": "knowledge_pipeline.defs.component",
    "Task": "knowledge_pipeline.contract.requests",
    "build_defs": "knowledge_pipeline.defs.code_location",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used, so that importing the package stays cheap."""
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY_EXPORTS[name]), name)


def __dir__() -> list[str]:
    """The names of the module, with the component where Dagster is installed, whose `dg` finds it here."""
    from importlib.util import find_spec

    return sorted({*globals(), *(["KnowledgePipeline"] if find_spec("dagster") else [])})
