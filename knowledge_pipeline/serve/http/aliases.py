"""The routes below `contract.aliases.PREFIX`: those of the API, whose answers have further names."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, compile_path

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract import aliases
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline.knowledge_base import AsyncKnowledgeBase
from knowledge_pipeline.query.access import Access


def copy_routes(routes: Iterable[BaseRoute], prefix: str) -> Iterator[APIRoute]:
    """The routes of a prefix below that of aliases: the same handlers, built once."""
    for route in routes:
        if isinstance(route, APIRoute) and route.path.startswith(prefix):
            copied = copy(route)
            copied.path = f"{aliases.PREFIX}{route.path.removeprefix(prefix)}"
            copied.path_regex, copied.path_format, copied.param_convertors = compile_path(copied.path)
            copied.include_in_schema = False  # `complete_openapi` describes it
            yield copied


async def extend_answer(
    answer: dict[str, Any], base: AsyncKnowledgeBase, access: Access, params: dict[str, Any]
) -> dict[str, Any]:
    """Add the further names to an answer; `params` are those of the request's path."""
    if "by_space" in answer:
        aliases.extend_status(answer, await base.count_documents(access=access))
    elif "chunks" in answer and "text" in answer:
        answer["content"] = answer["text"]
    results: Sequence[dict[str, Any]] = answer.get("results", answer.get("excerpts", ()))
    models = _list_models(base.settings, results)
    aliases.extend_results(results, models, await _find_positions(results, base, access))
    if "results" in answer and "id" in params:
        aliases.extend_document(answer, params["id"])
    return answer


def _list_models(settings: Settings, results: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The embedding model of each source that results are from; of one that is not declared, the default."""
    models = {result["citation"]["source"]: settings.embedding.model for result in results}
    declared = (source for source in settings.sources if source.id in models)
    return models | {source.id: settings.resolve_embedding(source).model for source in declared}


async def _find_positions(
    results: Iterable[dict[str, Any]], base: AsyncKnowledgeBase, access: Access
) -> dict[str, int]:
    """The number of each chunk within its page, from 0, of the wiki pages that the results are from."""
    metadata = (result["metadata"] for result in results)
    of_pages = (own for own in metadata if own.get("source_type") == "confluence")
    ids = dict.fromkeys(f"{own['source']}:{own['uri']}" for own in of_pages)

    async def number_chunks(id: str) -> dict[str, int]:
        with suppress(NotFound):  # it is gone by now
            page = await base.get(id, access=access.unlogged)
            return {result.id: at for at, result in enumerate(page.results)}
        return {}

    numbers = await asyncio.gather(*map(number_chunks, ids))
    return {id: at for of_page in numbers for id, at in of_page.items()}
