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
from knowledge_pipeline.serve.service import Asker, Door, Origin, Service
from knowledge_pipeline.serve.tokens import Scope

Answered = TypeVar("Answered")

_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip")

_bearer = HTTPBearer(auto_error=False, description="A token made by `knowledge token create`.")
_Credentials = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A request whose sender is known."""

    request: Request
    service: Service
    asker: Asker

    async def ask(
        self, question: Callable[[KnowledgeBase, Access], Awaitable[Answered]], *, scope: Scope = "query"
    ) -> Answered:
        """What the knowledge base answers; see `Service.ask`."""
        base, access = self.service.base, self.asker.access
        return await self.service.ask(self.asker, lambda: question(base, access), scope=scope)


def service_of(request: Request) -> Service:
    """The service that the application was made for."""
    return request.app.state.service


def origin_of(request: Request, door: Door = "http") -> Origin:
    """Where a request is from."""
    return Origin(
        door,
        request.client.host if request.client else None,
        forwarded=any(name in request.headers for name in _FORWARDED),
        host=request.url.hostname or "",
    )


def asker_of(request: Request, credentials: _Credentials) -> Asker:
    """Who asks; raises `Unauthenticated`."""
    if credentials is None and "authorization" in request.headers:
        raise Unauthenticated("only tokens are taken here: send `Authorization: Bearer TOKEN`")
    token = credentials.credentials if credentials else None
    return service_of(request).identify(token, origin_of(request))


Asking = Annotated[Asker, Depends(asker_of)]
Serving = Annotated[Service, Depends(service_of)]


def inquiry_of(request: Request, asker: Asking, service: Serving) -> Inquiry:
    """The request with who sent it; raises `Unauthenticated`."""
    return Inquiry(request, service, asker)


Asks = Annotated[Inquiry, Depends(inquiry_of)]
