"""What the OpenAPI document says beyond what routes declare: limits, who needs a token, what problems are.

The limits are settings: each field of a request names the one that `query.limits` holds it to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

from knowledge_pipeline.config.settings import LimitSettings, Settings
from knowledge_pipeline.contract import aliases, filters, requests
from knowledge_pipeline.contract.filters import FILTER_NAMES, LIMIT_KEY
from knowledge_pipeline.query.filters import PATTERN_FIELDS
from knowledge_pipeline.serve.http.problems import Problem
from knowledge_pipeline.serve.http.queries import PREFIX, ContextParameters, SearchParameters
from knowledge_pipeline.serve.service import answers_this_machine
from knowledge_pipeline.text import is_list, is_object

_SCHEMAS = "#/components/schemas/"
_KEYWORDS = {"string": "maxLength", "integer": "maximum", "array": "maxItems"}
_TOKEN_TAGS, _TOKEN_OPERATIONS = ("operations",), ("report_model_call",)
_OPTIONAL_TOKEN_PATHS = ("/health/watcher",)
_FILTER_SCHEMAS = ("Filters", "TicketFilters", "DocumentFilters", "KnowledgeQueryInput")
_TOOL_LIMITS = {"query": "query_chars", "limit": "results"}
"""Of the tool's arguments: models read their schema, which says of limits nothing."""


def complete_openapi(schema: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """The document, with what follows from the settings."""
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template=f"{_SCHEMAS}{{model}}")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    schemas.pop("Step", None)  # of traces: no response has it
    schema["servers"] = [{"url": "/"}]
    _add_limits(schema, settings.limits)
    # An optional text may be empty: then it is not set
    for node in _iter_objects(schema):
        options = node.get("anyOf", ())
        if any(option.get("type") == "null" for option in options):
            for option in options:
                option.pop("minLength", None)
    _add_aliases(schema)
    serve = settings.serve
    _add_security(schema, is_anonymous=serve.anonymous == "public" or answers_this_machine(serve))
    return schema


def _add_limits(schema: dict[str, Any], limits: LimitSettings) -> None:
    schemas = schema["components"]["schemas"]
    for name, of_field in schemas.get("KnowledgeQueryInput", {}).get("properties", {}).items():
        if name in _TOOL_LIMITS:
            of_field[LIMIT_KEY] = [_TOOL_LIMITS[name]]
    for name in _FILTER_SCHEMAS:
        for filter_name, of_filter in schemas.get(name, {}).get("properties", {}).items():
            if filter_name in FILTER_NAMES:
                _limit_filter(filter_name, of_filter, limits)
    for operation in _iter_operations(schema):
        for parameter in operation.get("parameters", ()):
            if parameter["name"] in FILTER_NAMES:
                _limit_filter(parameter["name"], parameter["schema"], limits)
    for node in list(_iter_objects(schema)):
        for part, key in zip((node, node.get("items", {})), node.pop(LIMIT_KEY, ()), strict=False):
            _limit(part, getattr(limits, key))


def _add_aliases(schema: dict[str, Any]) -> None:
    """Describe every alias of an argument beside it, and the routes whose answers have further names."""
    paths, schemas = schema["paths"], schema["components"]["schemas"]
    types = {**vars(filters), **vars(requests)}
    for name, of_request in schemas.items():
        if isinstance(types.get(name), type) and (own := of_request.get("properties")):
            for alias, argument in aliases.list_aliases(types[name]).items():
                outer, _, inner = argument.rpartition(".")
                described = schemas["Filters"]["properties"] if outer else own
                own[alias] = {**described[inner], "description": f"The same as `{argument}`."}
    for kind, *routes in ((SearchParameters, "search", "semantic"), (ContextParameters, "context")):
        for route in routes:
            parameters: list[dict[str, Any]] = paths[f"{PREFIX}/{route}"]["get"]["parameters"]
            by_name = {parameter["name"]: parameter for parameter in parameters}
            for alias, argument in aliases.list_aliases(kind).items():
                by_name[argument]["required"] = False  # one of its names is
                description = f"The same as `{argument}`."
                parameters.append({**by_name[argument], "name": alias, "description": description})
    further: dict[str, str] = {}
    for name, described in aliases.ANSWER_FIELDS.items():
        properties = {field: {"description": description} for field, description in described.items()}
        of_results = f"Metadata of results have {aliases.METADATA_FIELDS} as well."
        schemas[f"{name}Extended"] = {
            "description": of_results,
            "allOf": [{"$ref": f"{_SCHEMAS}{name}"}],
            "properties": properties,
        }
        further[f"{_SCHEMAS}{name}"] = f"{_SCHEMAS}{name}Extended"
    for path in [path for path in paths if path.startswith(f"{PREFIX}/")]:
        paths[f"{aliases.PREFIX}{path.removeprefix(PREFIX)}"] = copied = deepcopy(paths[path])
        for operation in copied.values():
            operation["operationId"] = f"v1_{operation['operationId']}"
            for node in _iter_objects(operation["responses"]):
                if "$ref" in node:
                    node["$ref"] = further.get(node["$ref"], node["$ref"])


def _limit_filter(name: str, schema: dict[str, Any], limits: LimitSettings) -> None:
    if schema.get("type") == "array":
        _limit(schema, limits.filter_patterns if name in PATTERN_FIELDS else limits.filter_values)
        if "enum" not in schema["items"]:
            _limit(schema["items"], limits.name_chars)


def _limit(schema: dict[str, Any], most: int) -> None:
    """Say how long a text or a list is at most, or how large a number; `null` has no limit."""
    for option in schema.get("anyOf", [schema]):
        if keyword := _KEYWORDS.get(option.get("type", "")):
            option[keyword] = most


def _add_security(schema: dict[str, Any], *, is_anonymous: bool) -> None:
    """Say of each operation whether it takes a token, and whether it may do without."""
    names = schema["components"].get("securitySchemes", {})
    schemes: list[dict[str, list[str]]] = [{name: []} for name in names]
    for path, of_path in schema["paths"].items():
        for operation in of_path.values():
            if path in _OPTIONAL_TOKEN_PATHS:
                operation["security"] = [*schemes, {}]
            elif "security" not in operation:
                operation["security"] = []
            elif is_anonymous and not _requires_token(operation):
                operation["security"] = [*operation["security"], {}]


def _requires_token(operation: Mapping[str, Any]) -> bool:
    is_named = operation.get("operationId") in _TOKEN_OPERATIONS
    return is_named or bool(set(_TOKEN_TAGS).intersection(operation.get("tags", ())))


def _iter_operations(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for of_path in schema["paths"].values():
        yield from of_path.values()


def _iter_objects(value: Any) -> Iterator[dict[str, Any]]:
    if is_object(value):
        yield value
    for inner in value.values() if is_object(value) else value if is_list(value) else ():
        yield from _iter_objects(inner)
