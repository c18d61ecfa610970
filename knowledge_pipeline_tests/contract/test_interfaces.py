"""Every interface has the fields that the contract declares: one that is added is missing here otherwise."""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any, get_type_hints

import cogapp
import pytest
import typer
from pydantic import TypeAdapter

from knowledge_pipeline.cli.app import app
from knowledge_pipeline.client import AsyncKnowledgeClient, KnowledgeClient
from knowledge_pipeline.client import responses as client_responses
from knowledge_pipeline.config import file
from knowledge_pipeline.contract import requests
from knowledge_pipeline.contract.aliases import list_aliases
from knowledge_pipeline.contract.filters import FILTER_NAMES, Filters
from knowledge_pipeline.contract.operation import Collection, LastEvent, SourceState, StatusResponse
from knowledge_pipeline.contract.requests import GRAPH_OPERATIONS
from knowledge_pipeline.contract.responses import (
    Citation,
    ContextExcerpt,
    ContextResponse,
    ContextSection,
    GraphEdge,
    GraphNode,
    GraphResponse,
    OmittedChunk,
    RelatedDocument,
    Relation,
    RelationsResponse,
    SearchResponse,
    SearchResult,
    SearchRun,
)
from knowledge_pipeline.evaluation.golden import GoldenFilters
from knowledge_pipeline.query.graph_queries import AsyncGraph
from knowledge_pipeline.records import Mention
from knowledge_pipeline.serve.http.app import create_app
from knowledge_pipeline.serve.mcp.inputs import input_schema_of, output_schema_of
from knowledge_pipeline.serve.mcp.outputs import ToolResult
from knowledge_pipeline.serve.mcp.tools import TOOLS
from knowledge_pipeline.serve.page.results import PageQuery
from knowledge_pipeline.serve.service import Service

NOT_FOR_MODELS = {
    *("extensions", "branches", "tags", "channels", "symbols", "exports", "include_archived"),
    *("titles", "sections", "namespaces", "components", "fix_versions", "created_since", "created_until"),
}
"""Filters that no tool takes: a model has to read every argument, and other filters say nearly the same."""

PAGE_FILTERS = {"source_types", "sources", "languages", "record_kinds", "paths", "since"}
"""Filters with a field on the page; the others are written in the query: `author:ann`."""

NOT_OPTIONS = {"extensions"}
"""A filter without an option on the command line: `--language py` says the same."""

OF_OTHERS = {"org_id"}
"""What other clients send; ours has a token of the tenant."""

CLIENTS_OWN = "problem"
"""What a client adds to a response that it makes itself, where the server gave none."""

RESPONSES = (
    Citation,
    RelatedDocument,
    Relation,
    SearchResult,
    SearchResponse,
    GraphNode,
    GraphEdge,
    GraphResponse,
    ContextExcerpt,
    OmittedChunk,
    SearchRun,
    ContextSection,
    ContextResponse,
    RelationsResponse,
    StatusResponse,
    Mention,
)


INVENTORY = (Collection, SourceState, LastEvent)
"""What a server alone says of its sources."""


@pytest.fixture(scope="module")
def openapi(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    config = tmp_path_factory.mktemp("contract") / "knowledge.yaml"
    config.write_text("version: 1\nsources: []\n")
    service = Service(file.load_settings(config), config=config)
    try:
        return create_app(service).openapi()
    finally:
        service.close()


def json_fields(cls: type[Any]) -> set[str]:
    """The fields of a response that its JSON has."""
    return {each.name for each in fields(cls) if "exclude" not in each.metadata}


def test_openapi_has_every_filter_with_a_description(openapi):
    properties = openapi["components"]["schemas"]["Filters"]["properties"]
    assert set(properties) == {*FILTER_NAMES, *list_aliases(Filters)}
    assert [name for name, each in properties.items() if "description" not in each] == []


def test_openapi_says_of_each_operation_whether_it_takes_a_token(tmp_path):
    config = tmp_path / "knowledge.yaml"
    config.write_text("version: 1\nsources: []\n")
    by_setting: dict[str, dict[str, Any]] = {}
    for anonymous in ("loopback", "off"):
        settings = file.load_settings(config)
        serve = settings.serve.model_copy(update={"anonymous": anonymous})
        service = Service(settings.model_copy(update={"serve": serve}), config=config)
        app = create_app(service)
        assert app.openapi() is app.openapi()  # and is completed once
        by_setting[anonymous] = {
            operation["operationId"]: operation["security"]
            for of_path in app.openapi()["paths"].values()
            for operation in of_path.values()
        }
        service.close()
    required, optional = [{"HTTPBearer": []}], [{"HTTPBearer": []}, {}]
    expected = {
        **{
            "search": optional,
            "context_by_get": optional,
            "graph_usages": optional,
            "get_document": optional,
        },
        **{"status": optional, "feedback": optional, "watcher_health": optional},
        **{"start_refresh": required, "add_source": required, "follow_events": required},
        **{"report_model_call": required, "push_document": required, "delete_document": required},
        **{"health": [], "github_webhook": []},
    }
    assert {name: by_setting["loopback"][name] for name in expected} == expected
    assert by_setting["off"]["search"] == required and by_setting["off"]["watcher_health"] == optional


def test_every_search_over_http_takes_all_filters(openapi):
    schemas = openapi["components"]["schemas"]
    searches = {"QueryRequest", "SearchRequest", "SimilarRequest", "ContextRequest", "GraphTargetRequest"}
    for name in searches:
        assert schemas[name]["properties"]["filters"]["$ref"].endswith("/Filters"), name
    for name in ("TicketFilters", "DocumentFilters"):
        assert set(schemas[name]["properties"]) == {*FILTER_NAMES, *list_aliases(Filters)}


@pytest.mark.parametrize("cls", (*RESPONSES, *INVENTORY), ids=lambda cls: cls.__name__)
def test_openapi_has_every_field_of_a_response(openapi, cls):
    assert set(openapi["components"]["schemas"][cls.__name__]["properties"]) == json_fields(cls)


@pytest.mark.parametrize("cls", RESPONSES, ids=lambda cls: cls.__name__)
def test_the_client_types_every_field_of_a_response(cls):
    typed = getattr(client_responses, f"{cls.__name__}Dict")
    own = {CLIENTS_OWN} - json_fields(cls)
    assert (typed.__required_keys__ | typed.__optional_keys__) - own == json_fields(cls)


def test_the_clients_types_are_what_the_contract_says():
    assert cogapp.Cog().main(["cog", "--check", client_responses.__file__]) == 0


def test_openapi_has_no_hidden_field(openapi):
    hidden = {each.name for cls in RESPONSES for each in fields(cls) if "exclude" in each.metadata}
    assert hidden == {"span", "steps", "results", "ranking"}
    assert "span" not in str(openapi["components"]["schemas"]["SearchResult"]["properties"].keys())


@pytest.mark.parametrize(
    ("method", "request_type"),
    [
        ("search", requests.SearchRequest),
        ("similar", requests.SimilarRequest),
        ("context", requests.ContextRequest),
        ("related", requests.RelationsRequest),
        ("graph", requests.CallGraphRequest),
        ("feedback", requests.FeedbackRequest),
    ],
)
def test_the_client_has_a_parameter_for_every_field_of_a_request(method, request_type):
    asked = set(TypeAdapter(request_type).json_schema()["properties"])
    for client in (AsyncKnowledgeClient, KnowledgeClient):
        parameters = set(inspect.signature(getattr(client, method)).parameters)
        assert parameters - {"self", "method"} == asked - OF_OTHERS


def test_tools_together_take_every_filter_but_those_that_models_are_spared():
    taken = {name for tool in TOOLS.values() for name in input_schema_of(tool.input_model)["properties"]}
    assert set(FILTER_NAMES) - taken == NOT_FOR_MODELS


def test_tools_describe_every_field_of_what_they_answer():
    for name, tool in TOOLS.items():
        schema = output_schema_of(tool.page)
        assert set(schema["properties"]) == json_fields(tool.page), name
        assert {"notes", "next_offset"} <= set(schema["properties"]), name
    result = output_schema_of(TOOLS["knowledge_query"].page)["$defs"]["ToolResult"]
    assert set(result["properties"]) == json_fields(ToolResult)


def test_golden_questions_take_every_filter():
    assert set(GoldenFilters.model_fields) == set(FILTER_NAMES)


def test_the_page_has_the_fields_that_it_shows():
    filters = PageQuery(
        source_type=("a",),
        source=("b",),
        language=("c",),
        record_kind=("e",),
        path=("d",),
        since="2024-01-31",
    ).to_filters()
    assert {name for name in FILTER_NAMES if getattr(filters, name)} == PAGE_FILTERS


def test_the_command_line_has_an_option_for_every_filter():
    (search,) = (each for name, each in typer.main.get_command(app).commands.items() if name == "search")
    options = {parameter.name for parameter in search.params}
    singular = {
        "statuses": "status",
        "source_types": "source_type",
        "branches": "branch",
        "include_archived": "archived",
        "classes": "class_",
        "imports": "import_",
    }
    names = {name: singular.get(name, name.removesuffix("s")) for name in FILTER_NAMES}
    assert {name for name, option in names.items() if not options & {name, option}} <= NOT_OPTIONS


def test_the_code_graph_has_a_method_a_tool_and_a_route_for_every_operation(openapi):
    for method, operation in GRAPH_OPERATIONS.items():
        (arguments,) = get_type_hints(getattr(AsyncGraph, method))["arguments"].__args__
        parameters = get_type_hints(arguments)
        assert ("depth" in parameters) == (operation.default_depth is not None)
        assert ("direction" in parameters) == operation.has_direction
        assert method in TOOLS
        assert f"/api/v1/knowledge/graph/{operation.path}" in openapi["paths"]


def test_no_schema_has_a_name_of_the_old_dialect(openapi):
    assert [name for name in openapi["components"]["schemas"] if name.endswith(("Told", "Asked"))] == []
