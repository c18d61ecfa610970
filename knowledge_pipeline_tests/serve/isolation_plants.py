"""Leaks to plant, each where one could be made by accident: the search for leaks must find them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from knowledge_pipeline.errors import Forbidden, NotFound
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query import documents, plan, visible_graph
from knowledge_pipeline.query import filters as query_filters
from knowledge_pipeline.query import logs as query_ids
from knowledge_pipeline.query.access import Access, DeclaredSources
from knowledge_pipeline.query.answer_cache import AnswerCache
from knowledge_pipeline.query.visible_graph import VisibleGraph
from knowledge_pipeline.serve.service import Identity, Origin, Service
from knowledge_pipeline.serve.tokens import Token
from knowledge_pipeline.store import filters

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Plant:
    """A leak, and who meets it where."""

    make: Callable[[Patch], None]
    caller: str
    door: str
    compared: bool = False  # nothing hidden is named: only the store without it tells


def _replace_filter(patch: Patch, widened: Callable[[Access], filters.Filter]) -> None:
    for module in (documents, query_filters, visible_graph):
        patch.setattr(module, "build_visibility_filter", widened)


def _filter(widened: Callable[[Access], filters.Filter]) -> Callable[[Patch], None]:
    return lambda patch: _replace_filter(patch, widened)


def _tenants_private(access: Access) -> filters.Filter:
    own = filters.eq("tenant", access.tenant) if access.tenant else filters.MATCH_NONE
    return filters.eq("visibility", "public") | own


def _other_tenants(_: Access) -> filters.Filter:
    return filters.eq("visibility", "public") | filters.eq("visibility", "tenant")


def _as_operator(method: str) -> Callable[[Patch], None]:
    """One method of the knowledge base forgets who asks."""
    asked = getattr(AsyncKnowledgeBase, method)

    def asking(base: object, *args: Any, access: Access | None = None, **how: Any) -> Any:
        del access
        return asked(base, *args, access=Access.operator(), **how)

    return lambda patch: patch.setattr(AsyncKnowledgeBase, method, asking)


def _graph(patch: Patch) -> None:
    made = VisibleGraph.for_access
    patch.setattr(VisibleGraph, "for_access", lambda reader, _: made(reader, Access.operator()))


def _cache(patch: Patch) -> None:
    get, put = AnswerCache.get, AnswerCache.put
    patch.setattr(AnswerCache, "get", lambda cache, release, key: get(cache, release, key[:-1]))
    patch.setattr(AnswerCache, "put", lambda cache, release, key, told: put(cache, release, key[:-1], told))


def _or(patch: Patch) -> None:
    where = plan.compile_filter

    def either(access: Access, *narrowed: Any) -> filters.Filter:
        widened = Access.operator() if any(each.sources or each.paths for each in narrowed) else access
        return where(widened, *narrowed)

    patch.setattr(plan, "compile_filter", either)


def _telling_error(patch: Patch) -> None:
    get = AsyncKnowledgeBase.get

    async def telling(base: AsyncKnowledgeBase, id: str, *, access: Access | None = None, **how: Any) -> Any:
        try:
            return await get(base, id, access=access, **how)
        except NotFound:
            await get(base, id, access=Access.operator(), **how)
            raise Forbidden("it is not yours") from None

    patch.setattr(AsyncKnowledgeBase, "get", telling)


def _explained(patch: Patch) -> None:
    search = AsyncKnowledgeBase.search

    async def telling(base: AsyncKnowledgeBase, *args: Any, access: Access | None = None, **how: Any) -> Any:
        answer = await search(base, *args, access=access, **how)
        every = await search(base, *args, access=Access.operator(), **how)
        dropped = [result.citation.path for result in every.results]
        return replace(answer, explain={**answer.explain, "dropped": dropped} if answer.explain else None)

    patch.setattr(AsyncKnowledgeBase, "search", telling)


def _managed(patch: Patch) -> None:
    patch.setattr(DeclaredSources, "list_managed", lambda declared, _: declared.sources())


def _ended(patch: Patch) -> None:
    patch.setattr(Token, "is_valid", lambda *_: True)


def _promote(is_promoted: Callable[[str | None, Origin], bool]) -> Callable[[Patch], None]:
    """Some callers are taken for the operator."""

    def plant(patch: Patch) -> None:
        resolve = Service._resolve_identity

        def promoting(service: Service, token: str | None, origin: Origin) -> Identity:
            identity = resolve(service, token, origin)
            operator = Access.operator(origin.interface)
            return replace(identity, access=operator) if is_promoted(token, origin) else identity

        patch.setattr(Service, "_resolve_identity", promoting)

    return plant


def _interface(interface: str) -> Callable[[Patch], None]:
    """One interface takes whoever has a token for the operator."""
    return _promote(lambda token, origin: token is not None and origin.interface == interface)


_anonymous = _promote(lambda token, _: token is None)


def judged_by_all(patch: Patch) -> None:
    """Everybody's questions can be judged by everybody."""
    patch.setattr(query_ids, "_identify_caller", lambda access: "anybody")


QUICK = {
    "one door's search forgets who asks": Plant(_as_operator("search"), "initech", "http"),
    "private is for the whole tenant": Plant(_filter(_tenants_private), "acme", "mcp"),
    "answers are kept without who asked": Plant(_cache, "globex", "http"),
    "the code graph forgets who asks": Plant(_graph, "public", "mcp"),
    "an ended token is taken": Plant(_ended, "revoked", "http"),
}
SLOW = {
    "an error tells that there is something": Plant(_telling_error, "acme", "http", compared=True),
    "an explanation tells what was left out": Plant(_explained, "gil", "http"),
    "everybody sees everything": Plant(_filter(lambda _: ~filters.MATCH_NONE), "ida", "python"),
    "a tenant's is for all tenants": Plant(_filter(_other_tenants), "anonymous", "page"),
    "like a file forgets who asks": Plant(_as_operator("similar"), "public", "http"),
    "by id forgets who asks": Plant(_as_operator("get"), "acme", "page"),
    "by id forgets who asks, for agents": Plant(_as_operator("get"), "acme", "mcp"),
    "related forgets who asks": Plant(_as_operator("related"), "globex", "http"),
    "contexts forget who asks": Plant(_as_operator("context"), "ann", "mcp"),
    "counts are of everything": Plant(_as_operator("status"), "acme", "http"),
    "the page's counts are of everything": Plant(_as_operator("status"), "public", "page"),
    "Python forgets who asks": Plant(_as_operator("search"), "acme", "python"),
    "a filter widens": Plant(_or, "public", "mcp"),
    "all sources can be managed": Plant(_managed, "admin", "http"),
    "MCP takes everybody for the operator": Plant(_interface("mcp"), "ida", "mcp"),
    "the page takes everybody for the operator": Plant(_interface("page"), "gil", "page"),
    "whoever has no token is taken for the operator": Plant(_anonymous, "anonymous", "mcp"),
}
