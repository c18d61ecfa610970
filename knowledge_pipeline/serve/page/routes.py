"""All routes of the page."""

from __future__ import annotations

from fastapi import APIRouter

from knowledge_pipeline.serve.page import (
    documents,
    feedback,
    graph,
    progress,
    search,
    sessions,
    sources,
    static_files,
)

routes = APIRouter(include_in_schema=False)
for _module in (search, documents, graph, sources, progress, feedback, sessions, static_files):
    routes.routes.extend(_module.routes.routes)
