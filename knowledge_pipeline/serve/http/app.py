"""The application: every route, and what each request passes on its way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import APIRouter, FastAPI
from fastapi_offline import FastAPIOffline
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.routing import Route

from knowledge_pipeline.config.identity import OidcSettings
from knowledge_pipeline.contract.usage_labels import HEADER_NAMES
from knowledge_pipeline.query.declared_sources import DeclaredSources
from knowledge_pipeline.serve.events.deliveries import WebhookDeliveries
from knowledge_pipeline.serve.events.follower import EventFollower
from knowledge_pipeline.serve.events.streams import EventStreams
from knowledge_pipeline.serve.health import HealthCheck
from knowledge_pipeline.serve.http import (
    admin,
    documents,
    events,
    get_forms,
    graph,
    health,
    inventory,
    metrics,
    resource_metadata,
    search,
    tools,
    webhooks,
)
from knowledge_pipeline.serve.http.body_limit import BodyLimitMiddleware
from knowledge_pipeline.serve.http.dependencies import AppState, build_origin
from knowledge_pipeline.serve.http.host_check import HostCheckMiddleware
from knowledge_pipeline.serve.http.problems import Problem, install_problem_handlers
from knowledge_pipeline.serve.http.request_middleware import RequestMiddleware
from knowledge_pipeline.serve.mcp import http_transport
from knowledge_pipeline.serve.page import routes as page
from knowledge_pipeline.serve.page.rendering import TOKEN_COOKIE, load_templates
from knowledge_pipeline.serve.refresh_queue import RefreshQueue
from knowledge_pipeline.serve.service import Service
from knowledge_pipeline.serve.webhooks.deliveries import MAX_BODY_BYTES, SeenDeliveries
from knowledge_pipeline.store.lake import Lake

_DESCRIPTION = """
Queries search the live release, and return what the holder of the token may see. An error is a problem of
RFC 9457: `detail` says in a sentence what was wrong and what to do, `code` is for programs, and
`request_id` is in the server's log.
"""
_TAGS = (
    ("search", "Results for a query, and context for an agent's task."),
    ("code graph", "What uses, calls, extends and imports what."),
    ("documents", "Chunks and documents by id, and how documents are related."),
    ("inventory", "What is indexed, and how it is used."),
    ("operations", "Health; sources and their refreshes, for tokens with the scope `admin`."),
    ("webhooks", "Events of services, which start a refresh."),
)
_EXPOSED_HEADERS = ["X-Request-ID", "Retry-After", "WWW-Authenticate", "Content-Disposition"]


def create_app(service: Service, refreshes: RefreshQueue | None = None) -> FastAPI:
    """The application that answers for a service, and closes it when it ends."""
    mcp = http_transport.McpEndpoint(service)
    lake = Lake(service.settings.store)
    refreshing = refreshes or RefreshQueue(service.config, lake.folder / "refreshes", state=service.state)

    follower = EventFollower(lake)
    deliveries = WebhookDeliveries(lake, service.event_targets, follower)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        warming = asyncio.gather(service.warm(), asyncio.to_thread(load_templates))
        refreshing.resume()
        deliveries.start()
        async with mcp.run():
            yield
        warming.cancel()
        await deliveries.close()
        await refreshing.close()
        service.close()

    app = FastAPIOffline(  # its Swagger UI asks nobody else for anything
        redoc_url=None,
        static_url="/swagger",
        title="knowledge_pipeline",
        version=version("knowledge-pipeline"),
        summary="Search a knowledge base, with citations.",
        description=_DESCRIPTION,
        openapi_tags=[{"name": name, "description": description} for name, description in _TAGS],
        lifespan=lifespan,
        telemetry=service.traces.telemetry if service.traces else {"tracing": False},
    )
    app.state.held = AppState(
        service,
        refreshing,
        DeclaredSources(service.config),
        SeenDeliveries(service.state),
        HealthCheck(service.base),
        EventStreams(follower),
    )
    for module in (health, search, get_forms, tools, graph, documents, inventory, admin, events, webhooks):
        _add_routes(app, module.routes)
    if service.metrics:
        service.metrics.register_refreshes(refreshing)
        _add_routes(app, metrics.routes)
    if service.settings.serve.oidc:
        _add_routes_of_oidc(app, service.settings.serve.oidc)
    _add_routes(app, page.routes)
    _add_routes(app, documents.id_routes)  # last: ids could be taken for other routes
    app.router.routes.append(Route(http_transport.PATH, mcp, include_in_schema=False))
    install_problem_handlers(app)
    _add_problem_schema(app)
    _add_middleware(app, service)
    return app


def _add_routes(app: FastAPI, router: APIRouter) -> None:
    """Add routes as they are. To include their router would build each anew for the first request."""
    app.router.routes.extend(router.routes)


def _add_routes_of_oidc(app: FastAPI, oidc: OidcSettings) -> None:
    """Add the routes of an identity server; without one, nothing of it is imported."""
    from knowledge_pipeline.serve.page import oidc_sign_in

    _add_routes(app, resource_metadata.build_routes(oidc))
    _add_routes(app, oidc_sign_in.routes)


def _add_middleware(app: FastAPI, service: Service) -> None:
    """Add what a request passes before any route; the last one added is the first to run."""
    serve = service.settings.serve
    _add_body_limit(app, service)
    if serve.cors_origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(serve.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "X-Request-ID",
                *HEADER_NAMES.values(),
                *http_transport.CORS_HEADERS,
            ],
            expose_headers=_EXPOSED_HEADERS,
        )
    app.add_middleware(HostCheckMiddleware, serve=serve)
    app.add_middleware(RequestMiddleware, challenge=resource_metadata.build_challenge(serve.oidc))


def _add_body_limit(app: FastAPI, service: Service) -> None:
    """Limit bodies. Those of webhooks may be large if their signature can be checked when they are there."""
    serve = service.settings.serve
    signed = webhooks.list_signed_paths(serve.webhooks)

    def max_bytes(path: str) -> int:
        return max(MAX_BODY_BYTES if path in signed else 0, serve.max_body_bytes)

    def authenticate(request: Request) -> None:
        if request.url.path not in signed:
            cookie = request.cookies.get(TOKEN_COOKIE)
            service.identify_headers(request.headers, build_origin(request), cookie=cookie)

    app.add_middleware(
        BodyLimitMiddleware,
        max_bytes=max_bytes,
        max_total_bytes=max(serve.max_total_body_bytes, *map(max_bytes, ("/", *signed))),  # one always fits
        timeout_s=serve.timeout_s,
        authenticate=authenticate,
    )


def _add_problem_schema(app: FastAPI) -> None:
    """Add `Problem` to the schemas, which `problem_responses` refers to."""
    described = app.openapi

    def openapi() -> dict[str, object]:
        schema = described()
        schemas = schema.setdefault("components", {}).setdefault("schemas", {})
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(problem.pop("$defs", {}))
        schemas["Problem"] = problem
        return schema

    app.openapi = openapi
