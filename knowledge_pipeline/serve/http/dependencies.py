"""What routes depend on: the state of the application, who sends a request, and how answers become JSON."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.openapi.models import HTTPBearer
from fastapi.responses import JSONResponse
from fastapi.security.base import SecurityBase
from pydantic_core import to_json

from knowledge_pipeline.contract.aliases import PREFIX as ALIAS_PREFIX
from knowledge_pipeline.contract.base import JsonResponse
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access, DeclaredSources
from knowledge_pipeline.serve.events import EventStreams
from knowledge_pipeline.serve.http.aliases import extend_answer
from knowledge_pipeline.serve.refreshes import RefreshQueue
from knowledge_pipeline.serve.service import Identity, Interface, Origin, Service
from knowledge_pipeline.serve.status import HealthCheck
from knowledge_pipeline.serve.tokens import Scope
from knowledge_pipeline.serve.webhooks import SeenDeliveries


class AnswerResponse(JSONResponse):
    """JSON by pydantic's encoder, which takes a quarter of the time of Python's own."""

    def render(self, content: Any) -> bytes:
        """UTF-8; a number that JSON has no word for is null."""
        return to_json(content, inf_nan_mode="null")


ResultT = TypeVar("ResultT")

_PROXY_HEADERS = frozenset(
    ("forwarded", "via", "x-real-ip", "x-client-ip", "true-client-ip", "cf-connecting-ip", "x-original-host")
)


@dataclass(frozen=True, slots=True)
class AppState:
    """What an application holds as long as it runs."""

    service: Service
    refreshes: RefreshQueue
    declared: DeclaredSources
    deliveries: SeenDeliveries
    health: HealthCheck
    streams: EventStreams


def get_app_state(request: Request) -> AppState:
    """The state of the application that answers a request."""
    return request.app.state.shared


CurrentState = Annotated[AppState, Depends(get_app_state)]


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request from a known sender."""

    request: Request
    state: AppState
    identity: Identity

    @property
    def service(self) -> Service:
        """The service of the application."""
        return self.state.service

    async def execute(
        self, operation: Callable[[AsyncKnowledgeBase, Access], Awaitable[ResultT]], *, scope: Scope = "query"
    ) -> ResultT:
        """The result of an operation with the sender's access; see `Service.execute`."""
        base, access = self.service.base, self.identity.access
        return await self.service.execute(self.identity, lambda: operation(base, access), scope=scope)

    async def respond(
        self,
        operation: Callable[[AsyncKnowledgeBase, Access], Awaitable[JsonResponse]],
        *,
        scope: Scope = "query",
        status: int = 200,
    ) -> JSONResponse:
        """The result of an operation as JSON."""
        return AnswerResponse(await self.load_json(operation, scope=scope), status)

    async def load_json(
        self,
        operation: Callable[[AsyncKnowledgeBase, Access], Awaitable[JsonResponse]],
        *,
        scope: Scope = "query",
    ) -> dict[str, Any]:
        """The result of an operation as JSON has it; below `aliases.PREFIX` with further names."""

        async def run(base: AsyncKnowledgeBase, access: Access) -> dict[str, Any]:
            answer = (await operation(base, access)).as_json()
            if self.request.scope["route"].path.startswith(ALIAS_PREFIX):
                return await extend_answer(answer, base, access, self.request.path_params)
            return answer

        return await self.execute(run, scope=scope)

    async def manage(self, operation: Callable[[Access], JsonResponse], *, status: int = 200) -> JSONResponse:
        """The result of an operation on the server itself, as JSON; it takes the scope `admin`."""

        async def run(_: object, access: Access) -> JsonResponse:
            return operation(access)

        return await self.respond(run, scope="admin", status=status)


def build_origin(request: Request, interface: Interface = "http") -> Origin:
    """Where a request comes from."""
    return Origin(
        interface,
        request.client.host if request.client else None,
        forwarded=any(name in _PROXY_HEADERS or name.startswith("x-forwarded-") for name in request.headers),
        host=request.url.hostname or "",
    )


class _Authentication(SecurityBase):
    """Who sends a request, and what OpenAPI says of tokens: one dependency, as each costs every request."""

    def __init__(self) -> None:
        self.model = HTTPBearer(description="A token made by `knowledge token create`.")
        self.scheme_name = "HTTPBearer"

    async def __call__(self, request: Request) -> RequestContext:
        """The request with its sender; raises `Unauthenticated`."""
        state = get_app_state(request)
        service, origin = state.service, build_origin(request)
        if service.identifies_at_once:  # takes less than handing it to a thread
            identity = service.identify_headers(request.headers, origin)
        else:
            identity = await run_in_threadpool(service.identify_headers, request.headers, origin)
        return RequestContext(request, state, identity)


CurrentContext = Annotated[RequestContext, Depends(_Authentication())]
