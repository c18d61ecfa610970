"""An organisation's knowledge, reconciled stage by stage into LanceDB tables that agents can trust."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knowledge_pipeline.contract.filters import Filters as Filters
    from knowledge_pipeline.contract.requests import Task as Task
    from knowledge_pipeline.query.access import Access as Access
    from knowledge_pipeline.query.knowledge_base import AsyncKnowledgeBase as AsyncKnowledgeBase
    from knowledge_pipeline.query.knowledge_base import KnowledgeBase as KnowledgeBase

__version__ = "0.1.0"

_LAZY_EXPORTS = {
    "Access": "knowledge_pipeline.query.access",
    "AsyncKnowledgeBase": "knowledge_pipeline.query.knowledge_base",
    "Filters": "knowledge_pipeline.contract.filters",
    "KnowledgeBase": "knowledge_pipeline.query.knowledge_base",
    "Task": "knowledge_pipeline.contract.requests",
}


def __getattr__(name: str) -> object:
    """Import a name when it is first used, so that importing the package stays cheap."""
    if name not in _LAZY_EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY_EXPORTS[name]), name)
