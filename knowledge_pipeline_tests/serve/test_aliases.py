"""Requests as they are sent to other systems have the answers of ours; what is unknown is refused."""

from __future__ import annotations

import anyio
import pytest

from knowledge_pipeline.contract import aliases, filters, requests
from knowledge_pipeline.contract.filters import FILTER_NAMES, Filters, build_filters
from knowledge_pipeline.errors import InvalidQuery
from knowledge_pipeline.query.access import Access
from knowledge_pipeline.records import hash_strings
from knowledge_pipeline.serve.http.queries import ContextParameters, SearchParameters
from knowledge_pipeline.serve.mcp import inputs
from knowledge_pipeline_tests.serve.mcp_calls import over_http, text_of
from knowledge_pipeline_tests.serve.test_http_search import API, refused, sources
from knowledge_pipeline_tests.serve.world import SEERS

V1 = aliases.PREFIX
CODE = "def put_payment(self, key, amount):\n    return (key, amount)"
CHANGING = {"query_id", "took_ms", "timings_ms", "cached", "searches"}

POSTED = {
    "search": (
        {"query": "payment", "type": "code", "filters": {"language": ["python"]}, "limit": 10},
        {"query": "payment", "type": "code", "filters": {"languages": ["python"]}, "limit": 10},
    ),
    "search: one repository and type of file": (
        {"query": "payment", "filters": {"repo": "shop-code", "fileType": ["py"], "sourceType": "code"}},
        {"query": "payment", "filters": {"repos": "shop-code", "extensions": ["py"], "source_types": "code"}},
    ),
    "search: camelCase": (
        {"query": "payment", "includeMetadata": False, "maxResults": 3, "filters": {"createdSince": "2001"}},
        {
            **{"query": "payment", "include_metadata": False, "limit": 3},
            "filters": {"created_since": "2001"},
        },
    ),
    "similar": (
        {"content": CODE, "type": "code", "limit": 5},
        {"text": CODE, "content_type": "code", "limit": 5},
    ),
    "similar: documents": (
        {"content": CODE, "contentType": "document"},
        {"text": CODE, "content_type": "document"},
    ),
    "query": (
        {"query": "charged twice", "org_id": "acme", "source_types": ["jira"], "top_k": 5},
        {"query": "charged twice", "org_id": "acme", "filters": {"source_types": ["jira"]}, "limit": 5},
    ),
    "query: camelCase": (
        {"query": "payment", "orgId": "acme", "sourceTypes": "code, docs", "topK": 4, "filters": None},
        {
            **{"query": "payment", "org_id": "acme", "limit": 4},
            "filters": {"source_types": ["code", "markdown"]},
        },
    ),
    "context": (
        {"task": "retry a payment", "maxTokens": 800, "includeText": True, "filters": {"language": "python"}},
        {
            **{"task": "retry a payment", "max_tokens": 800, "include_text": True},
            "filters": {"languages": ["python"]},
        },
    ),
    "graph/usages": (
        {"target": "Store.get_payment", "filters": {"repo": "shop-code"}, "maxResults": 3},
        {"target": "Store.get_payment", "filters": {"repos": ["shop-code"]}, "limit": 3},
    ),
}  # fmt: skip
"""Route -> a request as others write it, and ours."""

GOT = {
    "search?q=payment&language=python&topK=3": "search?query=payment&languages=python&limit=3",
    "semantic?q=payment&fileType=md": "search?query=payment&extensions=md",
    "context?prompt=retry+a+payment&maxTokens=800&repo=shop-code": (
        "context?task=retry+a+payment&max_tokens=800&repos=shop-code"
    ),
    "context?prompt=x&source=shop-code&file=shop/store.py": (
        "context?task=x&source=shop-code&file=shop/store.py"
    ),
}

CALLED = {
    "knowledge_query": (
        {"query": "payment", "sourceTypes": ["code"], "language": "python", "topK": 3, "orgId": "acme"},
        {"query": "payment", "source_types": ["code"], "languages": ["python"], "limit": 3, "org_id": "acme"},
    ),
    "search_code": (
        {"content": CODE, "type": "document", "repo": "shop-code"},
        {"query": CODE, "content_type": "document", "repos": ["shop-code"]},
    ),
    "build_context": (
        {"task": "retry a payment", "file": "shop/store.py", "maxTokens": 900},
        {"task": "retry a payment", "files": ["shop/store.py"], "max_tokens": 900},
    ),
}

CLASSES = [
    *(Filters, requests.QueryRequest, requests.SearchRequest, requests.SimilarRequest),
    *(requests.ContextRequest, requests.CallGraphRequest, requests.FeedbackRequest),
    *(SearchParameters, ContextParameters, inputs.KnowledgeSearchInput, inputs.SimilarCodeInput),
    *(inputs.ContextInput, inputs.TicketSearchInput, inputs.CallGraphInput),
]


def same(answer):
    assert answer.status_code == 200, answer.text
    return {name: value for name, value in answer.json().items() if name not in CHANGING}


@pytest.mark.parametrize("name", POSTED)
def test_a_request_as_others_send_it_has_our_answer(asking, name):
    theirs, ours = POSTED[name]
    path = name.partition(":")[0]
    expected = same(asking("ann").post(f"{API}/{path}", json=ours))
    assert any(expected.get(key) for key in ("results", "nodes", "excerpts"))
    assert same(asking("ann").post(f"{API}/{path}", json=theirs)) == expected
    below = asking("ann").post(f"{V1}/{path}", json=theirs)
    assert ids(same(below)) == ids(expected)


@pytest.mark.parametrize("theirs", GOT)
def test_an_address_as_others_write_it_has_our_answer(asking, theirs):
    expected = same(asking("ann").get(f"{API}/{GOT[theirs]}"))
    assert same(asking("ann").get(f"{API}/{theirs}")) == expected
    assert ids(same(asking("ann").get(f"{V1}/{theirs}"))) == ids(expected)


@pytest.mark.parametrize("tool", CALLED)
def test_a_call_as_others_write_it_has_our_answer(server, world, tool):
    async def call():
        async with over_http(server.url, world.tokens["ann"]) as client:
            return [await client.call_tool(tool, given) for given in CALLED[tool]]

    theirs, ours = anyio.run(call)
    assert not ours.is_error, text_of(ours)
    assert text_of(theirs) == text_of(ours)


def ids(told):
    return [each.get("id", each.get("chunks")) for each in told.get("results", told.get("excerpts", ()))]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_no_alias_is_an_argument_or_of_an_alias(cls):
    listed, names = aliases.list_aliases(cls), aliases.list_names(cls)
    assert not set(listed) & set(names)
    assert {name for name in listed.values() if name.partition(".")[0] not in names} == set()


def test_every_list_of_filters_may_be_named_in_the_singular():
    lists = set(filters.LIST_FILTERS)
    assert set(aliases.SINGULAR_FILTERS.values()) == lists
    for alias, name in aliases.SINGULAR_FILTERS.items():
        value = "jira" if name == "source_types" else "x"
        assert build_filters({alias: value}) == build_filters({name: [value]})


WRONG = [
    ("post", "search", {"query": "x", "filter": {}}, "did you mean filters?"),
    ("post", "search", {"query": "x", "filters": {"langauge": "go"}}, "did you mean language?"),
    ("post", "search", {"query": "x", "filters": {"language": "go", "languages": ["c"]}}, "mean the same"),
    (
        "post",
        "search",
        {"query": "x", "source_types": ["jira"], "filters": {"sourceTypes": ["code"]}},
        "mean the",
    ),
    ("post", "search", {"query": "x", "source_types": ["jira"], "filters": 3}, "filters"),
    ("post", "search", {"query": "x", "source_types": ["pages"]}, "source_types"),
    ("post", "search", {"query": "x", "content_type": "code"}, "unknown; allowed"),
    ("post", "search", {"query": "x", "org_id": "a\u0000b"}, "org_id"),
    ("post", "query", {"query": "x", "top_k": 2, "limit": 3}, "top_k 2, limit 3, which mean the same"),
    ("post", "query", {"query": "x", "type": "code"}, "unknown; allowed"),
    ("post", "similar", {"content": "x", "type": "prose"}, "content_type"),
    ("post", "similar", {"content": "x", "text": "y"}, "content x, text y, which mean the same"),
    ("post", "similar", {"contents": "x", "text": "y"}, "did you mean content?"),
    ("get", "search", {"q": "x", "query": "y"}, "mean the same"),
    ("get", "search", {"q": "", "limit": 2}, "query"),
    ("get", "semantic", {"quest": "x", "q": "x"}, "did you mean query?"),
    ("get", "context", {"promt": "x", "task": "x"}, "did you mean prompt?"),
    ("post", "query", {"query": "x", "sourceType": ["jira"]}, "did you mean sourceTypes?"),
]


@pytest.mark.parametrize("prefix", [API, V1])
@pytest.mark.parametrize(("method", "path", "given", "sentence"), WRONG, ids=str)
def test_what_is_wrong_is_refused_in_one_sentence(asking, prefix, method, path, given, sentence):
    sent = {"json": given} if method == "post" else {"params": given}
    answer = asking("ann").request(method, f"{prefix}/{path}", **sent)
    detail = refused(answer, 422, "InvalidQuery")
    assert sentence in detail and "\n" not in detail


def test_a_wrong_argument_of_a_tool_is_told_with_the_nearest():
    with pytest.raises(InvalidQuery, match=r"there is no argument 'langauge'.*did you mean language"):
        inputs.parse_input(inputs.KnowledgeSearchInput, {"query": "x", "langauge": "go"})
    with pytest.raises(InvalidQuery, match=r"there is no filter langauge.*did you mean language"):
        build_filters({"langauge": "go"})


@pytest.mark.parametrize("seer", ["public", *SEERS, "operator"])
@pytest.mark.parametrize("tenant", ["acme", "globex", "nobody"])
def test_an_organisation_narrows_and_never_widens(asking, world, seer, tenant):
    body = {"query": "payment", "limit": 100, "org_id": tenant}
    answer = same(asking(seer).post(f"{V1}/search", json=body))
    seen = {source.id for source in world.sources_of(seer) if source.tenant in (None, tenant)}
    assert sources(answer) == seen
    is_other = seer != "operator" and SEERS[seer][0] != tenant
    assert ("only what is public was searched" in str(answer["notes"])) == is_other


def test_what_is_within_a_tenant_is_said_to_the_store():
    assert Access.operator().within_tenant(None) == Access.operator()
    assert Access.public().within_tenant("acme") != Access.public()
    with pytest.raises(InvalidQuery, match="org_id"):
        Access.operator().within_tenant("")


def test_an_implementation_is_looked_for_where_the_question_says(asking):
    body = {"query": "function that retries a payment that is charged twice", "source_types": ["jira"]}
    told = same(asking("ann").post(f"{API}/query", json=body))
    assert {result["metadata"]["source_type"] for result in told["results"]} == {"jira"}


def test_the_api_answers_as_before(asking):
    told = same(asking("ann").post(f"{API}/search", json={"query": "payment"}))
    names = {"line_start", "content_hash", "embedding_model", "summary"}
    assert not any(names & set(result["metadata"]) for result in told["results"])
    assert "total_documents" not in asking("ann").get(f"{API}/status").json()
    one = same(asking("ann").get(f"{API}/{told['results'][0]['id']}"))
    assert "content" not in one


def test_results_have_the_names_that_others_have_for_them(asking):
    body = {"query": "payment", "limit": 100}
    told = same(asking("ann").post(f"{V1}/search", json=body))
    for result in told["results"]:
        metadata, lines = result["metadata"], result["citation"]["lines"]
        first, last = metadata["line_start"], metadata["line_end"]
        assert lines in (f"L{first}", f"L{first}-L{last}")
        assert metadata["content_hash"] == hash_strings(result["content"])
        assert metadata["embedding_model"] == "hashed-words"
        assert result["citation"]["path"].endswith(metadata["file_type"])
    by_type = {result["metadata"]["source_type"]: result["metadata"] for result in told["results"]}
    assert by_type["markdown"]["file_type"] == "md"
    ticket = by_type["jira"]
    assert ticket["summary"].startswith(("Double charge", "Early logout"))
    assert ticket["updated"] == ticket["last_modified"]
    left_out = same(asking("ann").post(f"{V1}/search", json={**body, "includeMetadata": False}))
    assert all(result["metadata"] == {} for result in left_out["results"])


def test_a_wiki_page_has_the_names_that_others_have_for_it(asking):
    told = same(asking("gil").post(f"{V1}/query/docs", json={"query": "pager", "space": None}))
    [page] = [it["metadata"] for it in told["results"] if it["metadata"]["source_type"] == "confluence"]
    assert page["page_title"] == page["title"] and page["space"] == page["wiki_space"]
    assert page["page_id"] and page["uri"].endswith(f"/{page['page_id']}") and page["chunk_index"] == 0


def test_one_id_has_its_content_its_source_and_its_metadata(asking):
    found = same(asking("ann").post(f"{V1}/search", json={"query": "payment", "limit": 1}))["results"][0]
    one = same(asking("ann").get(f"{V1}/{found['id']}"))
    assert (one["id"], one["content"]) == (found["id"], found["content"])
    assert one["source"] == found["citation"]["source"]
    assert one["metadata"]["content_hash"] == found["metadata"]["content_hash"]
    whole = same(asking("ann").get(f"{V1}/docs/{found['id']}"))
    assert whole["content"] == whole["text"]
    assert asking("public").get(f"{V1}/acme-docs:README.md").status_code == 404


@pytest.mark.parametrize("seer", ["public", "ann", "operator"])
def test_the_status_counts_what_the_caller_may_see(asking, seer):
    told = asking(seer).get(f"{V1}/status").json()
    found = same(asking(seer).post(f"{API}/search", json={"query": "payment sessions", "limit": 100}))
    documents = {(it["citation"]["source"], it["citation"]["path"]) for it in found["results"]}
    assert len(documents) <= told["total_documents"] <= told["rows"] == sum(told["by_type"].values())
    assert told["last_updated"] == told["released_at"] and told["indexing_status"] == "complete"


def test_a_stream_has_the_same_names(asking):
    body, headers = {"query": "payment", "limit": 1}, {"Accept": "text/event-stream"}
    streamed = asking("ann").post(f"{V1}/search", json=body, headers=headers).text
    assert "event: answer" in streamed and '"line_start"' in streamed


def test_the_same_tokens_limits_and_scopes_hold(server, world, asking):
    for path in ("search", "similar", "context", "query", "related"):
        assert server.client("wrong").post(f"{V1}/{path}", json={}).status_code == 401
    assert asking("admin").post(f"{V1}/search", json={"query": "x"}).status_code == 403
    assert asking("ann").post(f"{V1}/sync", json={}).status_code == 403
    large = server.client("wrong").post(f"{V1}/search", content=b" " * 20_000)
    assert large.status_code == 401
    most = server.service.settings.serve.max_body_bytes
    assert asking("ann").post(f"{V1}/search", content=b" " * (most + 1)).status_code == 413
    assert asking("ann").get(f"{V1}/nothing").status_code == 404
    statuses = [asking("slow").get(f"{prefix}/status").status_code for prefix in (API, V1) * 2]
    assert 429 in statuses
    assert asking("ann").put(f"{V1}/search").status_code == 405


def test_openapi_shows_every_alias_and_every_route(asking):
    openapi = asking("ann").get("/openapi.json").json()
    paths, schemas = openapi["paths"], openapi["components"]["schemas"]
    below = {path.removeprefix(API) for path in paths if path.startswith(f"{API}/")}
    assert {path.removeprefix(V1) for path in paths if path.startswith(f"{V1}/")} == below
    operations = [operation["operationId"] for of in paths.values() for operation in of.values()]
    assert len(set(operations)) == len(operations)
    for cls in CLASSES[:7]:
        properties = schemas[cls.__name__]["properties"]
        for alias, name in aliases.list_aliases(cls).items():
            assert properties[alias]["description"] == f"The same as `{name}`."
    for path, cls in (
        ("search", SearchParameters),
        ("semantic", SearchParameters),
        ("context", ContextParameters),
    ):
        names = [parameter["name"] for parameter in paths[f"{API}/{path}"]["get"]["parameters"]]
        assert set(names) == {*aliases.list_names(cls), *aliases.list_aliases(cls)} and len(
            set(names)
        ) == len(names)
    of_status = paths[f"{V1}/status"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    described = schemas[of_status["$ref"].rpartition("/")[2]]["properties"]
    assert set(described) == {"total_documents", "last_updated", "indexing_status"}
    assert set(FILTER_NAMES) <= set(schemas["Filters"]["properties"])
