"""Searches and contexts by GET, and the names that other clients use."""

from __future__ import annotations

import pytest

from knowledge_pipeline_tests.serve.test_http_search import API, ask, refused, sources


def got(client, path, **parameters):
    answer = client.get(f"{API}/{path}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def ids(told):
    return [each["id"] for each in told["results"]]


def test_a_search_by_get_is_that_by_post_with_its_filters(asking):
    client = asking("ann")
    filters = {"source_types": ["code", "markdown"], "languages": ["python"]}
    posted = ask(client, "search", query="payment", limit=3, explain=True, filters=filters)
    told = got(client, "search", query="payment", limit=3, explain="true", **filters)
    assert ids(told) == ids(posted) and len(ids(told)) > 1
    assert told["results"][0]["explain"] == posted["results"][0]["explain"]


def test_a_context_by_get_is_that_by_post(asking):
    body = {"task": "retry a payment", "kind": "code_review", "max_tokens": 800}
    posted = ask(asking("ann"), "context", **body)
    assert got(asking("ann"), "context", **body)["text"] == posted["text"]


def test_who_may_not_see_a_source_does_not_find_it_by_get(asking, world):
    told = got(asking("public"), "search", query="payment", limit=100)
    assert sources(told) == {source.id for source in world.sources_of("public")}


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({}, "query"),
        ({"query": "x", "limit": "many"}, "limit"),
        ({"query": "x", "langauge": "python"}, "langauge"),
        ({"query": "x", "since": "soon"}, "since"),
        ({"query": "x", "limit": 2, "top_k": 3}, "limit 2, top_k 3, which mean the same"),
    ],
)
def test_wrong_parameters_are_named(asking, parameters, sentence):
    answer = asking("ann").get(f"{API}/search", params=parameters)
    assert sentence in refused(answer, 422, "InvalidQuery")


@pytest.mark.parametrize("name", ["limit", "top_k", "max_results"])
def test_a_limit_has_the_names_that_other_clients_use(asking, name):
    assert len(ids(ask(asking("ann"), "search", query="payment", **{name: 2}))) == 2


def test_metadata_are_left_out_where_they_are_not_wanted(asking):
    told = ask(asking("ann"), "search", query="payment", include_metadata=False)
    assert told["results"] and all(each["metadata"] == {} for each in told["results"])
    assert all(each["citation"]["source"] for each in told["results"])
