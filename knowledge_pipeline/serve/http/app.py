"""The application: every route, and what each request passes on its way.

Its own routes are health and readiness, for anybody and without content; the metadata of a protected
resource, which tell clients where to get a token; and the metrics, if they are enabled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import version
from operator import attrgetter
from typing import Annotated, Literal

from fastapi import APIRouter, FastAPI, Header, Response
from fastapi.responses import JSONResponse
from fastapi_offline import FastAPIOffline
from pydantic import BaseModel
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.routing import Route

from knowledge_pipeline.config.operation import OidcSettings
from knowledge_pipeline.contract.operation import HealthResponse, WatcherHealthResponse
from knowledge_pipeline.contract.usage_labels import HEADER_NAMES
from knowledge_pipeline.errors import Busy
from knowledge_pipeline.query.access import DeclaredSources
from knowledge_pipeline.serve.events import EventFollower, EventStreams, WebhookDeliveries
from knowledge_pipeline.serve.http import admin, events, queries
from knowledge_pipeline.serve.http.aliases import copy_routes
from knowledge_pipeline.serve.http.dependencies import AppState, CurrentContext, CurrentState, build_origin
from knowledge_pipeline.serve.http.limits import BodyLimitMiddleware, HostCheckMiddleware, RequestMiddleware
from knowledge_pipeline.serve.http.openapi import complete_openapi
from knowledge_pipeline.serve.http.problems import install_problem_handlers, problem_responses
from knowledge_pipeline.serve.mcp import http_transport
from knowledge_pipeline.serve.mcp.http_transport import PATH as MCP_PATH
from knowledge_pipeline.serve.page import graph, progress, rendering, sessions
from knowledge_pipeline.serve.page import queries as query_pages
from knowledge_pipeline.serve.refreshes import RefreshQueue
from knowledge_pipeline.serve.service import Service
from knowledge_pipeline.serve.status import HealthCheck, check_watchers
from knowledge_pipeline.serve.webhooks import MAX_BODY_BYTES, SeenDeliveries
from knowledge_pipeline.store.lake import Lake

_health_routes = APIRouter(tags=["operations"], generate_unique_id_function=attrgetter("name"))


class ReadyResponse(BaseModel):
    """The server answers queries."""

    status: Literal["ready"]


@_health_routes.get("/health", response_model=HealthResponse)
async def health(state: CurrentState) -> JSONResponse:
    """The state of each component. The status is always 200; `/ready` says whether to send queries."""
    return JSONResponse((await state.health.check()).as_json())


@_health_routes.get("/ready", response_model=ReadyResponse, responses=problem_responses(503))
async def ready(state: CurrentState) -> JSONResponse:
    """Whether the server can answer queries: there is a release, and it can be opened."""
    store = await state.health.check_store()
    if store.status != "ok":
        raise Busy(f"queries cannot be answered: {store.detail}")
    return JSONResponse({"status": "ready"})


@_health_routes.get(
    "/health/watcher",
    response_model=WatcherHealthResponse,
    responses={503: {"model": WatcherHealthResponse, "description": "One is unhealthy, or none runs."}},
)
async def watcher_health(request: Request, state: CurrentState) -> JSONResponse:
    """Whether `knowledge watch` runs on the store, looks for changes and does not hang; 503 if not."""
    folder, with_counts = Lake(state.service.settings.store).folder, False
    if "authorization" in request.headers:
        identify = state.service.identify_headers
        identity = await asyncio.to_thread(identify, request.headers, build_origin(request))
        with_counts = identity.access.everything or "metrics" in identity.scopes
    health = await asyncio.to_thread(check_watchers, folder, with_counts=with_counts)
    return JSONResponse(health.as_json(), 200 if health.status == "ok" else 503)


_WELL_KNOWN = "/.well-known/oauth-protected-resource"


def _build_resource_routes(settings: OidcSettings) -> APIRouter:
    """The documents of MCP and of the whole server; anybody may read them, web pages too.

    https://www.rfc-editor.org/rfc/rfc9728, which the specification of MCP asks for.
    """
    routes = APIRouter(include_in_schema=False)

    @routes.get(_WELL_KNOWN)
    @routes.get(f"{_WELL_KNOWN}{MCP_PATH}")
    def read_metadata(request: Request) -> JSONResponse:  # pyright: ignore[reportUnusedFunction]
        document = {
            "resource": f"{settings.origin}{request.url.path.removeprefix(_WELL_KNOWN)}",
            "resource_name": "knowledge",
            "authorization_servers": [settings.issuer],
            "bearer_methods_supported": ["header"],
            **({"scopes_supported": list(settings.required_scopes)} if settings.required_scopes else {}),
        }
        return JSONResponse(document, headers={"Access-Control-Allow-Origin": "*"})

    return routes


_metrics_routes = APIRouter(include_in_schema=False)


@_metrics_routes.get("/metrics")
async def metrics(ctx: CurrentContext, accept: Annotated[str, Header()] = "") -> Response:
    """Return what Prometheus scrapes, exempt from rate limits so that it works when they are reached.

    Metrics cover the whole server and have no content: a monitor's token has the scope `metrics` alone.
    """
    # Monitors of earlier versions have `admin` without a tenant, with which they manage nothing any more.
    if not ("admin" in ctx.identity.scopes and ctx.identity.access.tenant is None):
        ctx.service.require_scope(ctx.identity, "metrics")
    assert ctx.service.metrics, "the route exists if metrics are enabled"
    rendered, content_type = await asyncio.to_thread(ctx.service.metrics.render, accept)
    return Response(rendered, headers={"Content-Type": content_type})


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


def create_app(service: Service, refreshes: RefreshQueue | None = None) -> FastAPI:
    """The application that answers for a service, and closes it when it ends."""
    mcp = http_transport.McpEndpoint(service)
    lake = Lake(service.settings.store)
    refreshing = refreshes or RefreshQueue(service.config, lake.folder, state=service.state)

    follower = EventFollower(lake)
    deliveries = WebhookDeliveries(lake, service.event_targets, follower)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncGenerator[None]:
        warming = asyncio.gather(service.warm(), asyncio.to_thread(rendering.load_templates))
        refreshing.resume()
        deliveries.start()
        async with mcp.run():
            yield
        warming.cancel()
        await asyncio.gather(warming, return_exceptions=True)  # or its cancelling is logged as an error
        await deliveries.close()
        await refreshing.close()
        service.close()

    app = FastAPIOffline(  # its Swagger UI asks nobody else for anything
        redoc_url=None,
        static_url="/swagger",
        title="knowledge_pipeline",
        version=version("knowledge-pipeline"),
        license_info={"name": "Apache 2.0", "identifier": "Apache-2.0"},
        summary="Search a knowledge base, with citations.",
        description=_DESCRIPTION,
        openapi_tags=[{"name": name, "description": description} for name, description in _TAGS],
        lifespan=lifespan,
        telemetry=service.traces.telemetry if service.traces else {"tracing": False},
    )
    app.state.shared = AppState(
        service,
        refreshing,
        DeclaredSources(service.config),
        SeenDeliveries(service.state),
        HealthCheck(service.base),
        EventStreams(follower),
    )
    routers = [
        *(_health_routes, queries.routes, admin.inventory_routes, admin.routes, events.routes),
        events.webhook_routes,
    ]
    if service.metrics:
        service.metrics.register_refreshes(refreshing)
        routers.append(_metrics_routes)
    if service.settings.serve.oidc:
        routers += (_build_resource_routes(service.settings.serve.oidc), sessions.oidc_routes)
    routers += (page.routes for page in (query_pages, graph, progress, sessions, rendering))
    routers.append(queries.id_routes)  # last: ids could be taken for other routes
    of_api = [route for router in routers for route in router.routes]
    # to include them would build each route anew for the first request
    app.router.routes += [*of_api, *copy_routes(of_api, queries.PREFIX)]
    app.router.routes.append(Route(http_transport.PATH, mcp, include_in_schema=False))
    install_problem_handlers(app)
    described = app.openapi
    app.openapi = cache(lambda: complete_openapi(described(), service.settings))
    _add_middleware(app, service)
    return app


def _add_middleware(app: FastAPI, service: Service) -> None:
    """Add what a request passes before any route; the last one added is the first to run."""
    serve = service.settings.serve
    _add_body_limit(app, service)
    if serve.cors_origins:
        headers = ("Authorization", "Content-Type", "X-Request-ID")
        app.add_middleware(
            CORSMiddleware,
            allow_origins=list(serve.cors_origins),
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=[*headers, *HEADER_NAMES.values(), *http_transport.CORS_HEADERS],
            expose_headers=["X-Request-ID", "Retry-After", "WWW-Authenticate", "Content-Disposition"],
        )
    app.add_middleware(HostCheckMiddleware, serve=serve)
    resource = f' resource_metadata="{serve.oidc.origin}{_WELL_KNOWN}{MCP_PATH}"' if serve.oidc else ""
    app.add_middleware(RequestMiddleware, challenge=f"Bearer{resource}")


def _add_body_limit(app: FastAPI, service: Service) -> None:
    """Limit bodies. Those of webhooks may be large if their signature can be checked when they are there."""
    serve = service.settings.serve
    signed = events.list_signed_paths(serve.webhooks)

    def max_bytes(path: str) -> int:
        return max(MAX_BODY_BYTES if path in signed else 0, serve.max_body_bytes)

    def authenticate(request: Request) -> None:
        if request.url.path not in signed:
            cookie = rendering.read_cookie(request, rendering.TOKEN_COOKIE)
            service.identify_headers(request.headers, build_origin(request), cookie=cookie)

    app.add_middleware(
        BodyLimitMiddleware,
        max_bytes=max_bytes,
        max_total_bytes=max(serve.max_total_body_bytes, *map(max_bytes, ("/", *signed))),  # one always fits
        timeout_s=serve.timeout_s,
        authenticate=authenticate,
    )
