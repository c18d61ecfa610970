"""All routes of the page."""

from __future__ import annotations

from fastapi import APIRouter

from knowledge_pipeline.serve.page import documents, graph, progress, rendering, search, sessions

routes = APIRouter(include_in_schema=False)
for _module in (search, documents, graph, progress, sessions, rendering):
    routes.routes.extend(_module.routes.routes)
