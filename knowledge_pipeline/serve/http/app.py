"""The application: every route, and what each request passes on its way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Route

from knowledge_pipeline.config.operation import Serve
from knowledge_pipeline.serve.declared_sources import Declared
from knowledge_pipeline.serve.http import (
    admin,
    context,
    documents,
    graph,
    health,
    inventory,
    metrics,
    search,
    tools,
    webhooks,
)
from knowledge_pipeline.serve.http.body_limit import Bodies
from knowledge_pipeline.serve.http.host_check import HostNames
from knowledge_pipeline.serve.http.problems import Problem, tell_problems
from knowledge_pipeline.serve.http.request_middleware import Requests
from knowledge_pipeline.serve.mcp import http_transport
from knowledge_pipeline.serve.page import routes as page
from knowledge_pipeline.serve.refresh_queue import Refreshes
from knowledge_pipeline.serve.service import Service
from knowledge_pipeline.serve.webhooks import MAX_BYTES, Deliveries

_DESCRIPTION = """
Questions go to the live release, and are answered with what the token's holder may see. An error is a
problem of RFC 9457: `detail` says in a sentence what was wrong and what to do, `code` is for programs, and
`request_id` is in the server's log.
"""
_TAGS = (
    ("search", "Passages that answer a question, and what an agent should read for a task."),
    ("code graph", "What uses, calls, extends and imports what."),
    ("documents", "Chunks and documents by id, and how documents are related."),
    ("holdings", "What there is, and how it is used."),
    ("operation", "Health; sources and their refreshes, for holders of the scope `admin`."),
    ("webhooks", "Pushes that start a refresh."),
)
_SHOWN_TO_PAGES = ["X-Request-ID", "Retry-After", "WWW-Authenticate", "Content-Disposition"]


def make_app(service: Service, refreshes: Refreshes | None = None) -> FastAPI:
    """The application that answers for a service, and closes it when it ends."""
    mcp = http_transport.Endpoint(service)
    refreshing = refreshes or Refreshes(service.config)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        warming = asyncio.create_task(service.warm())
        async with mcp.running():
            yield
        warming.cancel()
        await refreshing.close()
        service.close()

    app = FastAPIOffline(  # its Swagger UI asks nobody else for anything
        redoc_url=None,
        static_url="/swagger",
        title="knowledge_pipeline",
        version=version("knowledge-pipeline"),
        summary="Search a knowledge base, and see what each answer is from.",
        description=_DESCRIPTION,
        openapi_tags=[{"name": name, "description": said} for name, said in _TAGS],
        lifespan=lifespan,
        telemetry=service.traces.telemetry if service.traces else {"tracing": False},
    )
    app.state.service = service
    app.state.refreshes = refreshing
    app.state.declared = Declared(service.config)
    app.state.deliveries = Deliveries()
    app.state.checkup = health.Checkup(service.base)
    for module in (health, search, tools, context, graph, documents, inventory, admin, webhooks):
        app.include_router(module.routes)
    if service.metrics:
        service.metrics.include(refreshing)
        app.include_router(metrics.routes)
    app.include_router(page.routes)
    app.include_router(documents.by_id)  # last: ids could be taken for other routes
    app.router.routes.append(Route(http_transport.PATH, mcp, include_in_schema=False))
    tell_problems(app)
    _describe_problems(app)
    _pass_through(app, service.settings.serve)
    return app


def _pass_through(app: FastAPI, serve: Serve) -> None:
    """What a request passes before any route; the last one added is the first."""

    def max_bytes(path: str) -> int:
        return max(MAX_BYTES if path.startswith(webhooks.PREFIX) else 0, serve.max_body_bytes)

    app.add_middleware(Bodies, max_bytes=max_bytes, timeout_s=serve.timeout_s)
    if serve.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(serve.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["Authorization", "Content-Type", "X-Request-ID", *http_transport.HEADERS],
            expose_headers=_SHOWN_TO_PAGES,
        )
    app.add_middleware(HostNames, serve=serve)
    app.add_middleware(Requests)


def _describe_problems(app: FastAPI) -> None:
    """Put `Problem` among the schemas, which `problems` names."""
    described = app.openapi

    def openapi() -> dict[str, object]:
        schema = described()
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        made = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(made.pop("$defs", {}))
        schemas["Problem"] = made
        return schema

    app.openapi = openapi
