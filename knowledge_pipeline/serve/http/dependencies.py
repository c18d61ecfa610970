"""Who asks over HTTP, and how a route asks on their behalf."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from knowledge_pipeline.errors import Unauthenticated
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.query.knowledge_base import KnowledgeBase
from knowledge_pipeline.serve.service import Identity, Interface, Origin, Service
from knowledge_pipeline.serve.tokens import Scope

ResultT = TypeVar("ResultT")

_FORWARDING_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip")

_bearer = HTTPBearer(auto_error=False, description="A token made by `knowledge token create`.")
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


@dataclass(frozen=True, slots=True)
class RequestContext:
    """A request whose sender is known."""

    request: Request
    service: Service
    identity: Identity

    async def execute(
        self, operation: Callable[[KnowledgeBase, Access], Awaitable[ResultT]], *, scope: Scope = "query"
    ) -> ResultT:
        """What the knowledge base answers; see `Service.ask`."""
        base, access = self.service.base, self.identity.access
        return await self.service.execute(self.identity, lambda: operation(base, access), scope=scope)


def get_service(request: Request) -> Service:
    """The service that the application was made for."""
    return request.app.state.service


def build_origin(request: Request, interface: Interface = "http") -> Origin:
    """Where a request is from."""
    return Origin(
        interface,
        request.client.host if request.client else None,
        forwarded=any(name in request.headers for name in _FORWARDING_HEADERS),
        host=request.url.hostname or "",
    )


def authenticate(request: Request, credentials: _Credentials) -> Identity:
    """Who asks; raises `Unauthenticated`."""
    if credentials is None and "authorization" in request.headers:
        raise Unauthenticated("only tokens are taken here: send `Authorization: Bearer TOKEN`")
    token = credentials.credentials if credentials else None
    return get_service(request).identify(token, build_origin(request))


CurrentIdentity = Annotated[Identity, Depends(authenticate)]
CurrentService = Annotated[Service, Depends(get_service)]


def build_request_context(
    request: Request, identity: CurrentIdentity, service: CurrentService
) -> RequestContext:
    """The request with who sent it; raises `Unauthenticated`."""
    return RequestContext(request, service, identity)


CurrentContext = Annotated[RequestContext, Depends(build_request_context)]
