"""What is nearest to a value that does not exist is told of what a token may see alone."""

from __future__ import annotations

import json

import anyio
import pytest

from knowledge_pipeline_tests.serve.mcp_calls import over_http, text_of
from knowledge_pipeline_tests.serve.world import SOURCES, World

API = "/api/v1/knowledge"


def near_misses(world: World, hidden) -> list[dict[str, object]]:
    """Filters and paths that are one letter away from what a source has, and files of its folder."""
    word, folder = hidden.canary, (world.root / hidden.id).as_posix()
    package = hidden.id.partition("-")[0]
    return [
        {"filters": {"sources": [hidden.id[:-1]]}},
        {"filters": {"paths": [f"{word[:-1]}.py"]}},
        {"filters": {"paths": [f"guides/{word[:-1]}.md"]}},
        {"filters": {"paths": [f"{folder}/{package}/{word[:-1]}.py"]}},
        {"filters": {"repos": [hidden.id[:-1]], "languages": ["pyton"]}},
    ]


@pytest.mark.sampled
@pytest.mark.parametrize("seer", ["public", "acme", "gil"])
def test_nothing_near_is_named_that_the_token_may_not_see(asking, world, seer):
    seen = world.sources_of(seer)
    for hidden in (source for source in SOURCES if source not in seen):
        replies = [
            asking(seer).post(f"{API}/search", json={"query": "payment", **asked})
            for asked in near_misses(world, hidden)
        ]
        folder = (world.root / hidden.id).as_posix()
        replies += [
            asking(seer).post(f"{API}/search", json={"query": f"payment source:{hidden.id[:-1]}"}),
            asking(seer).post(f"{API}/similar", json={"path": f"{hidden.canary[:-1]}.py"}),
            asking(seer).post(f"{API}/graph/usages", json={"target": f"{hidden.canary[:-1]}.py"}),
            asking(seer).post(f"{API}/graph/usages", json={"target": f"{folder}/{hidden.canary[:-1]}.py:3"}),
        ]
        for reply in replies:
            assert reply.status_code in (200, 404), reply.text
            assert hidden.canary not in reply.text and hidden.id not in reply.text.replace(folder, "")


def test_what_the_token_may_see_is_named(asking, world):
    (own,) = (source for source in SOURCES if source.id == "acme-code")
    reply = asking("acme").post(f"{API}/search", json={"query": "payment", **near_misses(world, own)[0]})
    assert "acme-code" in reply.json()["notes"][0]


def test_an_absolute_path_is_that_of_a_source_whose_folder_the_token_may_know(asking, server, world):
    (own,) = (source for source in SOURCES if source.id == "acme-code")
    path = (world.root / "acme-code/acme" / f"{own.canary}.py").as_posix()
    found = asking("acme").post(f"{API}/similar", json={"path": path})
    assert found.status_code == 200
    assert asking("public").post(f"{API}/similar", json={"path": path}).status_code == 404
    for seer, is_found in (("acme", True), ("public", False)):

        async def read(seer: str = seer):
            async with over_http(server.url, world.tokens[seer]) as client:
                return await client.call_tool("get_document", {"id": f"{path}:1-3", "compact": ""})

        result = anyio.run(read)
        assert result.is_error != is_found, json.dumps(text_of(result))
        assert (own.canary in text_of(result).replace(path, "")) == is_found
