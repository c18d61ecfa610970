"""Questions over HTTP: searches, contexts, the code graph, documents."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest

from knowledge_pipeline.config.settings import LimitSettings
from knowledge_pipeline.contract.filters import FILTER_NAMES
from knowledge_pipeline.query.filters import PATTERN_FIELDS
from knowledge_pipeline.serve.http.queries import wants_events
from knowledge_pipeline_tests.serve.world import SEERS

API = "/api/v1/knowledge"
GRAPH_FILTERS = {"languages", "sources", "source_types", "repos", "branches", "paths", "tags"}
TIMES = ("since", "until", "created_since", "created_until")
GRAPH = ("related", "usages", "references", "calls", "hierarchy", "dependencies", "impact")


def ask(client, path, /, **body):
    answer = client.post(f"{API}/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer, status, code):
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")
    told = answer.json()
    assert (told["status"], told["code"]) == (status, code)
    assert told["request_id"] == answer.headers["x-request-id"]
    return told["detail"]


def sources(told):
    return {result["citation"]["source"] for result in told["results"]}


@pytest.mark.parametrize("seer", [*SEERS, "operator"])
def test_each_token_finds_exactly_the_sources_that_it_may_see(asking, world, seer):
    told = ask(asking(seer), "search", query="payment", limit=100)
    assert sources(told) == {source.id for source in world.sources_of(seer)}


def test_an_answer_says_what_it_is_from_and_explains_itself_where_asked(asking):
    told = ask(asking("public"), "search", query="payments retried", limit=1, explain=True)
    assert told["degraded"] == [] and told["release"] == 2 and len(told["results"]) == 1
    assert told["results"][0]["explain"]["bm25_rank"] >= 1
    assert "explain" not in ask(asking("public"), "search", query="payments retried")


def test_filters_narrow_what_is_found(asking):
    client = asking("ann")
    narrowed = {"source_types": ["jira"], "statuses": ["done"], "projects": ["acme"]}
    told = ask(client, "search", query="sessions", filters=narrowed)
    assert {result["citation"]["path"] for result in told["results"]} == {"ACME/ACME-2"}
    since = ask(client, "search", query="payments", filters={"until": "2020-01-01"})
    assert since["results"] == []
    kept = {"sources": ["acme-records"], "include_archived": True}
    assert len(ask(client, "search", query="payments", filters=kept)["results"]) == 2


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("query/code", {"shop-code", "acme-code"}),
        ("query/tickets", {"shop-tickets", "acme-tickets"}),
        ("query/docs", {"shop-docs", "acme-docs", "acme-records"}),
    ],
)
def test_the_shortcuts_search_what_they_are_named_after(asking, path, expected):
    assert sources(ask(asking("ann"), path, query="payment", limit=100)) == expected


def test_a_shortcut_takes_no_other_types(asking):
    body = {"query": "payment", "filters": {"source_types": ["code"]}}
    answer = asking("ann").post(f"{API}/query/tickets", json=body)
    assert "'github_issues', 'github_pr', 'discussions' or 'jira'" in refused(answer, 422, "InvalidQuery")


def test_a_query_for_an_implementation_searches_code(asking):
    assert sources(ask(asking("ann"), "query", query="where is payment implemented", limit=20)) <= {
        "shop-code",
        "acme-code",
    }
    assert "shop-docs" in sources(ask(asking("ann"), "query", query="payments retried", limit=20))


def test_similar_takes_a_text_or_a_file_and_leaves_the_file_out(asking):
    client = asking("ann")
    by_path = ask(client, "similar", path="acme/canaryacmecode.py", limit=10)
    assert "shop/canaryshopcode.py" in {result["citation"]["path"] for result in by_path["results"]}
    assert "acme-code" not in sources(by_path)
    by_text = ask(client, "similar", text="def retry(send, times): ...")
    assert by_text["results"]
    refused(client.post(f"{API}/similar", json={}), 422, "InvalidQuery")
    refused(client.post(f"{API}/similar", json={"path": "no/such.py"}), 404, "NotFound")


def test_a_file_that_may_not_be_seen_is_like_one_that_does_not_exist(asking):
    hidden = asking("public").post(f"{API}/similar", json={"path": "acme/canaryacmecode.py"})
    absent = asking("public").post(f"{API}/similar", json={"path": "acme/canaryacmecodf.py"})
    detail = refused(hidden, 404, "NotFound").replace("canaryacmecode", "…")
    assert detail == refused(absent, 404, "NotFound").replace("canaryacmecodf", "…")


def test_a_context_is_a_prompt_with_citations(asking):
    told = ask(asking("acme"), "context", task="retry payments", kind="code_review", max_tokens=800)
    assert told["tokens"] <= told["max_tokens"] == 800 and "[1]" in told["text"]
    assert told["excerpts"][0]["citation"]["path"]


def test_a_context_repeats_nothing_of_its_prompt_unless_that_is_asked_for(asking):
    task = {"task": "retry payments", "kind": "question", "max_tokens": 2000}
    slim, whole = (
        ask(asking("acme"), "context", **task, include_text=wanted, include_metadata=wanted)["excerpts"]
        for wanted in (False, True)
    )
    by_default = ask(asking("acme"), "context", **task)
    assert by_default["excerpts"] == slim and len(slim) > 1
    assert [excerpt["citation"] for excerpt in whole] == [excerpt["citation"] for excerpt in slim]
    for excerpt in whole:
        assert excerpt["text"] in by_default["text"] and excerpt["metadata"]["source_type"]
    assert not [excerpt for excerpt in slim if "text" in excerpt or excerpt["metadata"]]
    got = asking("acme").get(f"{API}/context", params={**task, "include_text": "true"}).json()
    assert [excerpt["text"] for excerpt in got["excerpts"]] == [excerpt["text"] for excerpt in whole]


def test_templates_are_names_and_never_files(asking):
    for template in ("../../etc/passwd", "/etc/passwd", "no-such"):
        body = {"task": "retry", "template": template}
        refused(asking("acme").post(f"{API}/context", json=body), 422, "InvalidQuery")


@pytest.mark.parametrize("question", GRAPH)
def test_the_code_graph_answers_every_question(asking, question):
    told = ask(asking("acme"), f"graph/{question}", target="Store.get_payment")
    assert [node["name"] for node in told["nodes"] if node["role"] == "target"] == ["Store.get_payment"]


def test_usages_are_told_of_what_may_be_seen(asking, world):
    for seer, expected in (("public", {"shop-code"}), ("acme", {"shop-code", "acme-code"})):
        told = ask(asking(seer), "graph/usages", target="Store.get_payment")
        assert {node["source"] for node in told["nodes"] if node["role"] == "used_by"} == expected
        assert not any(word in json.dumps(told) for word in world.canaries_hidden_from(seer))


def test_an_unknown_target_and_a_senseless_walk_are_refused(asking):
    client = asking("public")
    refused(client.post(f"{API}/graph/usages", json={"target": "no_such_thing"}), 404, "NotFound")
    far = {"target": "Store.get_payment", "depth": 99}
    refused(client.post(f"{API}/graph/calls", json=far), 422, "InvalidQuery")
    other = {"target": "Store.get_payment", "filters": {"labels": ["x"]}}
    assert "labels" in refused(client.post(f"{API}/graph/usages", json=other), 422, "InvalidQuery")


def test_documents_tell_how_they_are_related(asking):
    told = ask(asking("ann"), "related", target="ACME-1")
    assert {relation["document"]["source"] for relation in told["relations"]} == {"acme-docs", "acme-tickets"}
    refused(asking("public").post(f"{API}/related", json={"target": "ACME-1"}), 404, "NotFound")


def test_a_chunk_and_its_document_are_given_by_id(asking, server, world):
    client = asking("acme")
    result = ask(client, "search", query="canaryacmedocs sessions signed", filters={"sources": ["acme-docs"]})
    id_ = result["results"][0]["id"]
    chunk = client.get(f"{API}/{id_}").json()
    assert [each["id"] for each in chunk["results"]] == [id_]
    name = "acme-docs:guides/canaryacmedocs.md"
    for written in (id_, name, quote(name, safe="")):
        told = client.get(f"{API}/docs/{written}").json()
        file = world.root / "acme-docs/guides/canaryacmedocs.md"
        assert (told["id"], told["text"].strip()) == (name, file.read_text().strip())
        assert told["complete"]
    every = client.get(f"{API}/{name}").json()
    assert [each["id"] for each in every["results"]] == [each["id"] for each in told["chunks"]]
    refused(asking("globex").get(f"{API}/{id_}"), 404, "NotFound")
    refused(asking("globex").get(f"{API}/docs/{name}"), 404, "NotFound")
    refused(asking("globex").get(f"{API}/docs/{name}/export"), 404, "NotFound")


def test_a_document_lists_its_headings(asking):
    document = asking("acme").get(f"{API}/docs/acme-docs:guides/canaryacmedocs.md").json()
    headings = [line.lstrip("# ") for line in document["text"].splitlines() if line.startswith("#")]
    assert document["metadata"]["headers"] == headings != []


def test_a_document_is_exported_as_a_file_of_text(asking, world):
    answer = asking("acme").get(f"{API}/docs/acme-docs:guides/canaryacmedocs.md/export")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''canaryacmedocs.md"
    assert answer.text.strip() == (world.root / "acme-docs/guides/canaryacmedocs.md").read_text().strip()


def test_an_id_that_ends_like_the_route_is_told_apart_by_its_slash(asking):
    answer = asking("acme").get(f"{API}/docs/" + quote("acme-docs:bin/export", safe=""))
    assert "bin/export" in refused(answer, 404, "NotFound")


def test_a_document_is_read_by_the_key_that_it_is_called_by(asking):
    for path in ("ACME-1", "docs/ACME-1"):
        answer = asking("ann").get(f"{API}/{path}")
        assert answer.status_code == 200 and "acme-tickets" in answer.text
        refused(asking("public").get(f"{API}/{path}"), 404, "NotFound")
    refused(asking("ann").get(f"{API}/ACME-999"), 404, "NotFound")


@pytest.mark.parametrize("id_", ["similar", "no-colon", "docs", "docs/x", "a/b:c"])
def test_what_can_be_no_id_is_no_route(asking, id_):
    assert asking("acme").get(f"{API}/{id_}").status_code in (404, 405)


@pytest.mark.parametrize(
    "id_", ["0" * 32, "acme-docs:no.md", "acme-docs:https://example.com/a?b#c", "x:..%2F..%2Fetc", "x:%00"]
)
def test_an_unknown_id_is_not_found(asking, id_):
    refused(asking("acme").get(f"{API}/{quote(id_, safe='%')}"), 404, "NotFound")


def test_results_are_streamed_one_by_one_where_asked_for(asking):
    body = {"query": "payments", "limit": 3}
    accept = {"Accept": "text/event-stream"}
    with asking("acme").stream("POST", f"{API}/search", json=body, headers=accept) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [event.split("\n") for event in answer.read().decode().strip().split("\n\n")]
    assert [event[0] for event in events] == [*["event: result"] * 3, "event: answer"]
    told = [json.loads(event[1].removeprefix("data: ")) for event in events]
    assert told[-1]["results"] == 3 and told[-1]["query_id"]
    plain = ask(asking("acme"), "search", **body)
    assert [each["id"] for each in told[:-1]] == [each["id"] for each in plain["results"]]


def test_a_stream_that_cannot_begin_is_a_problem(asking):
    sent = {"json": {"query": "x", "limit": 0}, "headers": {"Accept": "text/event-stream"}}
    refused(asking("acme").post(f"{API}/search", **sent), 422, "InvalidQuery")


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("text/event-stream", True),
        ("application/json, text/event-stream", False),
        ("text/event-stream, application/json;q=0.5", True),
        ("text/event-stream;q=0", False),
        ("text/event-stream; q=x", False),
    ],
)
def test_events_are_sent_to_those_who_prefer_them(accept, wanted):
    assert wants_events(accept) is wanted


@pytest.mark.sampled
@pytest.mark.parametrize(
    "field",
    [name for name in FILTER_NAMES if name not in (*TIMES, "include_archived")],
)
def test_as_many_values_as_are_allowed_can_be_searched_for(asking, field):
    limits = LimitSettings()
    count = limits.filter_patterns if field in PATTERN_FIELDS else limits.filter_values
    given = ["code"] * count if field == "source_types" else [f"x{number}/*" for number in range(count)]
    assert ask(asking("acme"), "search", query="payments", filters={field: given})["degraded"] == []
    if field in GRAPH_FILTERS:
        body = {"target": "Store.get_payment", "filters": {field: given}}
        assert asking("acme").post(f"{API}/graph/usages", json=body).status_code in (200, 404)


LIMITED = [
    ("search", "QueryRequest", "query", {}),
    ("search", "SearchRequest", "limit", {"query": "x"}),
    ("similar", "SimilarRequest", "text", {}),
    ("similar", "SimilarRequest", "path", {}),
    ("context", "ContextRequest", "snippet", {"task": "x"}),
    ("context", "ContextRequest", "files", {"task": "x"}),
    ("context", "ContextRequest", "max_tokens", {"task": "x"}),
    ("context", "ContextRequest", "task", {"max_tokens": 1_000_000}),
    ("related", "RelationsRequest", "target", {}),
    ("graph/usages", "GraphTargetRequest", "target", {}),
    ("graph/usages", "GraphTargetRequest", "limit", {"target": "x"}),
    ("graph/calls", "CallGraphRequest", "depth", {"target": "x"}),
    ("tools/search_knowledge_base", "KnowledgeQueryInput", "query", {}),
    ("tools/search_knowledge_base", "KnowledgeQueryInput", "limit", {"query": "x"}),
    ("tools/search_knowledge_base", "KnowledgeQueryInput", "languages", {"query": "x"}),
    ("search", "Filters", "repos", {}),
    ("search", "Filters", "tags", {}),
]


@pytest.mark.parametrize(("path", "schema", "field", "rest"), LIMITED, ids=str)
def test_what_the_schema_limits_is_refused_beyond_and_taken_up_to_it(asking, path, schema, field, rest):
    schemas = asking("acme").get("/openapi.json").json()["components"]["schemas"]
    of_field = schemas[schema]["properties"][field]
    (limited,) = [
        option
        for option in of_field.get("anyOf", [of_field])
        if {"maxLength", "maximum", "maxItems"} & set(option)
    ]

    def status(more: int) -> int:
        if "maximum" in limited:
            value = limited["maximum"] + more
        elif "maxItems" in limited:
            value = [f"x{number}" for number in range(limited["maxItems"] + more)]
        else:
            value = "x" * (limited["maxLength"] + more)
        body = {"query": "x", "filters": {field: value}} if schema == "Filters" else {**rest, field: value}
        return asking("acme").post(f"{API}/{path}", json=body).status_code

    assert status(1) == 422
    assert status(0) in (200, 404)


def test_each_value_of_a_filter_is_as_long_as_the_schema_says_at_most(asking):
    openapi = asking("acme").get("/openapi.json").json()
    values = openapi["components"]["schemas"]["Filters"]["properties"]["tags"]["items"]
    for more, status in ((0, 200), (1, 422)):
        body = {"query": "x", "filters": {"tags": ["x" * (values["maxLength"] + more)]}}
        assert asking("acme").post(f"{API}/search", json=body).status_code == status
    of_get = {
        parameter["name"]: parameter for parameter in openapi["paths"][f"{API}/search"]["get"]["parameters"]
    }
    assert of_get["tags"]["schema"]["items"]["maxLength"] == values["maxLength"]
    assert "x-limit" not in json.dumps(openapi)


def test_since_and_until_may_be_any_time(asking):
    for moment in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "1969-12-31"):
        for field in TIMES:
            answer = asking("acme").post(f"{API}/search", json={"query": "x", "filters": {field: moment}})
            assert answer.status_code in (200, 422), answer.text
