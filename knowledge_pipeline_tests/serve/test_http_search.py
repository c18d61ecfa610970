"""Searching over HTTP."""

from __future__ import annotations

import pytest

from knowledge_pipeline_tests.serve.world import SEERS

SEARCH = "/api/v1/knowledge/search"


@pytest.mark.parametrize("seer", [*SEERS, "operator"])
def test_each_token_finds_exactly_the_sources_that_it_may_see(asking, world, seer):
    told = asking(seer).post(SEARCH, json={"query": "payment", "limit": 100}).json()
    found = {result["citation"]["source"] for result in told["results"]}
    assert found == {source.id for source in world.sources_of(seer)}
