from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge_pipeline.chunking.registry import chunk_document
from knowledge_pipeline.records import Chunk
from knowledge_pipeline_tests.chunking.documents import assert_sound, document, source, tokenize
from knowledge_pipeline_tests.thoroughness import examples

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace", "query"}

PETSTORE = """\
# The pets.
openapi: 3.0.3
info:
  title: Pets
  version: "1"
servers:
  - url: https://pets.example.org
paths:
  /pets:
    parameters:
      - $ref: '#/components/parameters/Trace'
    # Lists them.
    get:
      operationId: listPets
      summary: List all pets
      tags: [pets]
      parameters:
        - name: limit
          in: query
          required: false
          schema: {type: integer}
      responses:
        "200":
          description: A page of pets
          content:
            application/json:
              schema:
                type: array
                items: {$ref: '#/components/schemas/Pet'}
        default: {$ref: '#/components/responses/Failed'}
    post:
      operationId: createPet
      deprecated: true
      requestBody:
        content:
          application/json:
            schema: {$ref: '#/components/schemas/Pet'}
      responses:
        "201": {description: Created}
  /pets/{id}:
    get:
      responses:
        "200": {$ref: 'https://example.org/remote.yaml#/x'}
components:
  parameters:
    Trace: {name: X-Trace, in: header, schema: {type: string}}
  responses:
    Failed:
      description: It failed
      content:
        application/json:
          schema: {$ref: '#/components/schemas/Error'}
  schemas:
    Pet:
      type: object
      required: [id]
      properties:
        id: {type: integer}
        parent: {$ref: '#/components/schemas/Pet'}
    Error:
      type: object
      properties:
        message: {type: string}
  securitySchemes:
    key: {type: apiKey, in: header, name: X-Key}
"""

SWAGGER = {
    "swagger": "2.0",
    "info": {"title": "Old pets", "version": "1"},
    "paths": {
        "/pets": {
            "post": {
                "operationId": "addPet",
                "parameters": [
                    {"name": "body", "in": "body", "schema": {"$ref": "#/definitions/Pet"}},
                    {"name": "dry", "in": "query", "type": "boolean"},
                ],
                "responses": {"200": {"description": "ok", "schema": {"$ref": "#/definitions/Pet"}}},
            }
        }
    },
    "definitions": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}},
}


def cut(text: str, path: str = "api/pets.yaml", **chunking: Any) -> dict[str, Chunk]:
    of = document(text, path, path.rpartition(".")[2])
    chunks = chunk_document(of, source("openapi", **chunking), tokenize=tokenize, model_tokens=1024)
    assert_sound(chunks, of)
    json.dumps([chunk.metadata for chunk in chunks], allow_nan=False)
    found: dict[str, Chunk] = {}
    for chunk in chunks:
        found.setdefault(chunk.anchor, chunk)
    return found


def test_each_operation_is_a_chunk_and_the_rest_of_the_file_is_kept():
    found = cut(PETSTORE, min_tokens=0)
    assert list(found) == [
        *("openapi", "info", "servers", "GET /pets", "POST /pets", "GET /pets/{id}"),
        *("components/parameters/Trace", "components/responses/Failed", "components/schemas/Pet"),
        *("components/schemas/Error", "components/securitySchemes/key"),
    ]
    assert found["POST /pets"].text.startswith("post:\n      operationId: createPet")
    assert found["POST /pets"].text.endswith('"201": {description: Created}')
    assert found["GET /pets"].text.startswith("paths:\n  /pets:\n    parameters:")


def test_small_parts_that_are_no_operations_join_their_siblings():
    found = cut(PETSTORE)
    assert list(found)[:3] == ["openapi", "GET /pets", "POST /pets"]
    assert found["openapi"].header.endswith("openapi, info, servers")
    names = "components/schemas/Pet, components/schemas/Error"
    assert found["components/schemas/Pet"].header.endswith(names)


def test_an_operation_tells_what_it_takes_and_gives_with_references_resolved():
    metadata = cut(PETSTORE)["GET /pets"].metadata
    assert (metadata["method"], metadata["path"]) == ("GET", "/pets")
    assert (metadata["operation_id"], metadata["tags"]) == ("listPets", ["pets"])
    assert [parameter["name"] for parameter in metadata["parameters"]] == ["X-Trace", "limit"]
    pet = metadata["response_schemas"]["200"]["items"]
    assert pet["$ref"] == "#/components/schemas/Pet"
    assert pet["properties"] == {"id": {"type": "integer"}, "parent": {"$ref": "#/components/schemas/Pet"}}
    assert metadata["response_schemas"]["default"]["properties"] == {"message": {"type": "string"}}
    assert cut(PETSTORE)["POST /pets"].metadata["deprecated"] is True


def test_the_header_of_an_operation_says_in_short_what_the_text_refers_to():
    assert cut(PETSTORE)["GET /pets"].header.splitlines() == [
        "api/pets.yaml",
        "Pets",
        "GET /pets",
        "List all pets",
        "listPets",
        "Parameters: X-Trace (header, string), limit (query, integer)",
        "Responses: 200 [Pet {id: integer, parent: Pet}]; default Error {message: string}",
    ]


def test_a_remote_reference_is_named_and_never_fetched():
    assert cut(PETSTORE)["GET /pets/{id}"].metadata["response_schemas"] == {"200": None}


@pytest.mark.parametrize("indent", [None, 2])
def test_swagger_2_is_read_from_json_with_or_without_lines(indent):
    found = cut(json.dumps(SWAGGER, indent=indent), "old.json", min_tokens=0)
    operation = found["POST /pets"].metadata
    assert [parameter["name"] for parameter in operation["parameters"]] == ["dry"]
    assert operation["request_schema"]["properties"] == {"name": {"type": "string"}}
    assert operation["response_schemas"]["200"]["properties"] == {"name": {"type": "string"}}
    assert found["POST /pets"].header.splitlines()[-2:] == [
        "Request: Pet {name: string}",
        "Responses: 200 Pet {name: string}",
    ]
    assert found["definitions/Pet"].text.startswith('"definitions"')


def test_an_operation_that_is_too_long_is_cut_at_its_keys():
    responses = "".join(f'        "{n}": {{description: Answer number {n}}}\n' for n in range(200, 260))
    text = PETSTORE.replace('        "201": {description: Created}\n', responses)
    of = document(text, "a.yaml", "yaml")
    chunks = chunk_document(of, source("openapi", max_tokens=150), tokenize=tokenize, model_tokens=256)
    assert_sound(chunks, of, 102)
    parts = [chunk for chunk in chunks if chunk.anchor == "POST /pets"]
    assert len(parts) > 3
    assert all(chunk.text.startswith(('"', "post:", "responses:")) for chunk in parts)
    assert "request_schema" in parts[0].metadata
    assert parts[1].metadata == parts[-1].metadata


def test_references_in_circles_end():
    text = """\
openapi: 3.1.0
paths:
  /a:
    get:
      parameters: [{$ref: '#/components/parameters/A'}]
      responses:
        "200": {content: {application/json: {schema: {$ref: '#/components/schemas/A'}}}}
        "404": {$ref: '#/components/responses/Me'}
components:
  parameters: {A: {$ref: '#/components/parameters/B'}, B: {$ref: '#/components/parameters/A'}}
  responses: {Me: {$ref: '#/components/responses/Me'}}
  schemas:
    A: {allOf: [{$ref: '#/components/schemas/B'}, {$ref: '#/components/schemas/A'}]}
    B: {properties: {a: {$ref: '#/components/schemas/A'}, b: {items: {$ref: '#/components/schemas/B'}}}}
"""
    metadata = cut(text)["GET /a"].metadata
    assert metadata["response_schemas"]["200"]["allOf"][1] == {"$ref": "#/components/schemas/A"}


def test_schemas_that_grow_without_end_stay_bounded():
    schemas = {
        f"S{n}": {"properties": {f"p{m}": {"$ref": f"#/components/schemas/S{(n + m) % 9}"} for m in range(9)}}
        for n in range(9)
    }
    answer = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S0"}}}}
    root = {"openapi": "3.0.0", "paths": {"/a": {"get": {"responses": {"200": answer}}}}}
    found = cut(json.dumps({**root, "components": {"schemas": schemas}}), "a.json")
    assert len(json.dumps(found["GET /a"].metadata)) < 30_000
    assert len(found["GET /a"].header) < 1_000


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: 1\n", "not an OpenAPI 3 or Swagger 2 file"),
        ("openapi: 3.0.0\npaths: [\n", "not valid YAML"),
        ("a: &a [1]\n" + "".join(f"b{n}: &b{n} [*a, *a]\n" for n in range(3)), "not an OpenAPI"),
        ("openapi: 3.0.0\nx: " + "[" * 3_000 + "]" * 3_000, "nested too deep"),
    ],
)
def test_what_cannot_be_read_is_cut_otherwise_and_the_reason_is_noted(text, reason):
    for chunk in cut(text).values():
        assert reason in chunk.metadata["note"]


@pytest.mark.parametrize(
    "text",
    [
        "openapi: 3.0.0\npaths: {/a: [1], /b: {get: 5, post: {parameters: x, responses: [1]}}, 5: ~}\n",
        "openapi: 3.0.0\ninfo: [x]\ncomponents: 7\npaths: nothing\n",
        "swagger: 2.0\npaths: {/a: {get: {responses: {200: {schema: {type: [a, b], items: [1]}}}}}}\n",
        "openapi: 3.0.0\npaths: {/a: {get: {responses: {200: {content: {x: {schema: true}}}}}}}\n",
    ],
)
def test_files_that_break_the_specification_are_taken_all_the_same(text):
    assert all("note" not in chunk.metadata for chunk in cut(text).values())


_KEYS = st.sampled_from(
    [
        "get",
        "post",
        "parameters",
        "responses",
        "schema",
        "properties",
        "items",
        "allOf",
        "$ref",
        "200",
        "x",
        "type",
    ]
) | st.text(max_size=4)
_ANY = st.recursive(
    st.none() | st.booleans() | st.integers(0, 99) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=15,
)


@settings(max_examples=examples(150), deadline=None)
@given(
    paths=st.dictionaries(
        st.sampled_from(["/a", "/b/{c}", "d"]), st.dictionaries(_KEYS, _ANY, max_size=4) | _ANY
    ),
    components=_ANY | st.just({"schemas": {"A": {"$ref": "#/paths"}}}),
    write=st.sampled_from([json.dumps, lambda root: json.dumps(root, indent=1), yaml.safe_dump]),
    max_tokens=st.sampled_from([16, 60, 400]),
)
def test_any_file_that_says_it_is_openapi_is_cut_soundly(paths, components, write, max_tokens):
    text = write({"openapi": "3.1.0", "paths": paths, "components": components})
    of = document(text, "a.yaml", "yaml")
    chunks = chunk_document(of, source("openapi", max_tokens=max_tokens), tokenize=tokenize, model_tokens=256)
    assert_sound(chunks, of, max_tokens - min(48, max_tokens // 3))
    json.dumps([chunk.metadata for chunk in chunks], allow_nan=False)
    operations = {chunk.anchor for chunk in chunks if "method" in chunk.metadata}
    given_operations = {
        f"{key.upper()} {path}"
        for path, owner in paths.items()
        for key in (owner if isinstance(owner, dict) else ())
        if key.lower() in METHODS
    }
    assert operations == given_operations
