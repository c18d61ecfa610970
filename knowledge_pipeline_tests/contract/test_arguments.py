"""What callers write for filters is read alike, as mappings and as the class."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from pydantic import TypeAdapter

from knowledge_pipeline.contract import requests
from knowledge_pipeline.contract.filters import FILTER_NAMES, Filters, build_filters
from knowledge_pipeline.errors import InvalidQuery


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"languages": "python"}, Filters(languages=("python",))),
        ({"languages": "python, go"}, Filters(languages=("python", "go"))),
        ({"languages": '["python", "go"]'}, Filters(languages=("python", "go"))),
        ({"languages": ["python", "", " "]}, Filters(languages=("python",))),
        ({"authors": "Doe, Ann"}, Filters(authors=("Doe, Ann",))),
        ({"paths": "*.{ts,tsx}"}, Filters(paths=("*.{ts,tsx}",))),
        ({"source_types": ["docs", "ticket", "jira"]}, Filters(source_types=("markdown", "jira", "jira"))),
        ({"source_types": "pull request"}, Filters(source_types=("github_pr",))),
        ({"since": "2024", "until": ""}, Filters(since=datetime(2024, 1, 1, tzinfo=UTC))),
        ({"since": date(2024, 1, 31)}, Filters(since=datetime(2024, 1, 31))),
        ({"include_archived": "true"}, Filters(include_archived=True)),
        ({name: "" for name in FILTER_NAMES}, Filters()),
        ({name: None for name in FILTER_NAMES}, Filters()),
        (Filters(languages=["python"]), Filters(languages=("python",))),
        (None, Filters()),
    ],
)  # fmt: skip
def test_filters_are_read_as_people_and_models_write_them(given, expected):
    filters = build_filters(given)
    assert filters == expected
    assert hash(filters) == hash(expected)  # what was asked before is found by it


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"langs": ["python"]}, ("langs", *FILTER_NAMES)),
        ({"source_types": ["pages"]}, ("source_types 'pages'", "markdown", "jira")),
        ({"languages": 3}, ("languages 3", "a list of texts")),
        ({"since": "soon"}, ("since:soon", "30d")),
        ({"include_archived": "perhaps"}, ("include_archived perhaps", "true, false")),
        ("python", ("the filters are str", "mapping")),
    ],
)
def test_a_wrong_filter_is_refused_in_one_sentence_that_lists_the_known(given, named):
    with pytest.raises(InvalidQuery) as refusal:
        build_filters(given)
    assert [word for word in named if word not in str(refusal.value)] == []


@pytest.mark.parametrize(
    "request_type",
    [requests.SearchRequest, requests.SimilarRequest, requests.ContextRequest, requests.CallGraphRequest,
     requests.TicketQueryRequest, requests.RelationsRequest],
)  # fmt: skip
def test_an_empty_text_is_not_set_in_every_optional_argument_of_a_request(request_type):
    adapter = TypeAdapter(request_type)
    schema = adapter.json_schema()
    required = {
        name: "x"
        for name in (
            *schema.get("required", ()),
            *(["text"] if request_type is requests.SimilarRequest else []),
        )
    }
    empty = dict.fromkeys(set(schema["properties"]) - set(required), "")
    assert adapter.validate_python({**empty, **required}) == adapter.validate_python(required)
    nested = {"filters": dict.fromkeys(FILTER_NAMES, "")} if "filters" in schema["properties"] else {}
    assert adapter.validate_python({**required, **nested}) == adapter.validate_python(required)


def test_what_is_required_is_refused_where_it_is_empty():
    with pytest.raises(ValueError, match="at least 1 character"):
        TypeAdapter(requests.SearchRequest).validate_python({"query": ""})


def test_a_task_takes_a_mapping():
    assert requests.Task("x", filters={"languages": "go"}).filters == Filters(languages=("go",))
