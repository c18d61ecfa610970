"""Builds contexts for one knowledge base; what that takes is imported with the first of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from knowledge_pipeline.config.operation import ContextSettings
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.search import Engine
from knowledge_pipeline.query.working_tree import Blame

if TYPE_CHECKING:
    from knowledge_pipeline.contract.requests import Task
    from knowledge_pipeline.contract.responses import ContextResponse


@dataclass(frozen=True, slots=True)
class ContextBuilder:
    """What contexts are made of."""

    engine: Engine
    blame: Blame
    settings: ContextSettings

    async def build(
        self, access: Access, task: Task, *, max_tokens: int | None, template: str | Path | None
    ) -> ContextResponse:
        """See `get_context`; that of a review says who last changed the lines."""
        from knowledge_pipeline.context.build import get_context  # most processes only search

        return await get_context(
            self.engine,
            access,
            task,
            self.settings,
            max_tokens=max_tokens,
            template=template,
            blame=self.blame if task.kind == "code_review" else None,
        )
