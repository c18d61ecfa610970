"""Specifications of APIs in several files: each part at its place, and nothing from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.chunking.registry import chunk_document
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.records import Chunk
from knowledge_pipeline_tests.chunking.documents import tokenize
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.connectors.repositories import (
    Repository,
    listed,
    over_folder,
    over_git,
    read,
)

ROOT = """\
openapi: 3.0.3
info: {title: Pet shop, version: "1"}
paths:
  /pets:
    get: {$ref: 'paths/pets_list.yml'}
  /pets/{id}: {$ref: 'paths/pet.yml'}
  /owners: {$ref: 'paths/all.yml#/~1owners'}
components:
  schemas:
    Pet: {$ref: models/pet.yml}
"""
PARTS = {
    "paths/pets_list.yml": """\
operationId: listPets
summary: List the pets of the shop
parameters:
  - {$ref: '../shared/parameters.yml#/Limit'}
responses:
  "200":
    content:
      application/json:
        schema: {type: array, items: {$ref: '../models/pet.yml'}}
""",
    "paths/pet.yml": """\
parameters:
  - {name: id, in: path, required: true, schema: {type: integer}}
get:
  summary: Look at one pet
  responses: {"200": {$ref: '../shared/answers.json#/Found'}}
delete:
  summary: Give a pet away
  responses: {"204": {description: Gone}}
""",
    "paths/all.yml": "/owners:\n  post:\n    summary: Register an owner\n    responses: {}\n",
    "shared/parameters.yml": "Limit: {name: limit, in: query, schema: {type: integer}}\n",
    "shared/answers.json": json.dumps(
        {
            "Found": {
                "content": {"application/json": {"schema": {"$ref": "../models/pet.yml"}}},
            }
        }
    ),
    "models/pet.yml": """\
type: object
properties:
  name: {type: string}
  mother: {$ref: '#'}
  owner: {$ref: './owner.yml#/Owner'}
""",
    "models/owner.yml": "Owner:\n  type: object\n  properties: {pets: {$ref: 'pet.yml'}}\n",
}
OTHERS = {"models/unused.yml": "type: string\n", "compose.yml": "services: {}\n"}


def cut(source: SourceConfig, cache: Path) -> dict[tuple[str, str], Chunk]:
    """The first chunk of each place, by its file and anchor."""
    chunks = dict[tuple[str, str], Chunk]()
    for document in read(source, cache).values():
        for chunk in chunk_document(document, source, tokenize=tokenize, model_tokens=512):
            chunks.setdefault((document.path, chunk.anchor), chunk)
    return chunks


@pytest.mark.parametrize("over", [over_folder, over_git])
def test_each_part_is_a_document_that_knows_its_place_in_the_whole(
    repository: Repository, cache: Path, over: Any
) -> None:
    repository.write({"api.yml": ROOT, **PARTS, **OTHERS}).commit()
    source = over("openapi", repository.root)
    assert set(listed(source, cache)) == {"api.yml", *PARTS}
    chunks = cut(source, cache)
    lines = chunks["paths/pets_list.yml", "GET /pets"].header.splitlines()
    assert lines[:6] == [
        "paths/pets_list.yml",
        "Pet shop",
        "GET /pets",
        "List the pets of the shop",
        "listPets",
        "Parameters: limit (query, integer)",
    ]
    assert lines[6].startswith("Responses: 200 [pet {name: string, mother: pet, owner: {")
    assert chunks["api.yml", "GET /pets"].header.splitlines()[1:4] == ["Pet shop", "GET /pets", lines[3]]
    facts = chunks["paths/pet.yml", "GET /pets/{id}"].metadata
    assert (facts["method"], facts["path"]) == ("GET", "/pets/{id}")
    assert [parameter["name"] for parameter in facts["parameters"]] == ["id"]
    assert facts["response_schemas"]["200"]["properties"]["name"] == {"type": "string"}
    assert chunks["paths/pet.yml", "DELETE /pets/{id}"].text.startswith("delete:")
    assert "Register an owner" in chunks["paths/all.yml", "POST /owners"].header
    assert "components/schemas/Pet" in chunks["models/pet.yml", "components/schemas/Pet"].header
    assert ("models/owner.yml", "Owner") in chunks


def test_all_paths_can_be_in_a_file_of_their_own(repository: Repository, cache: Path) -> None:
    paths = "/pets:\n  get: {summary: List, responses: {}}\n/owners: {$ref: owners/all.json}\n"
    repository.write(
        {
            "api/openapi.yaml": "openapi: 3.1.0\ninfo: {title: T}\npaths: {$ref: ./paths/_index.yaml}\n",
            "api/paths/_index.yaml": paths,
            "api/paths/owners/all.json": '{"post": {"summary": "Register"}}',
        }
    )
    chunks = cut(over_folder("openapi", repository.root), cache)
    assert ("api/paths/_index.yaml", "GET /pets") in chunks
    assert ("api/paths/owners/all.json", "POST /owners") in chunks


@pytest.mark.parametrize("over", [over_folder, over_git])
@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("../outside.yml", "a way out of the source"),
        ("a/../../outside.yml", "a way out of the source"),
        ("..%2Foutside.yml", "a way out of the source"),
        ("/etc/hosts.yml", "an absolute path"),
        ("https://example.org/api.yml", "an address"),
        ("file:///etc/hosts.yml", "an address"),
        ("link.yml", "symbolic link, not followed"),
        ("folder/outside.yml", "no such file in the source"),
        (".git/config.yml", "no such file in the source"),
        ("gone.yml#/a", "no such file in the source"),
        ("part.yml#/b", "nothing is there"),
        ("broken.yml", "not valid YAML"),
    ],
)
def test_what_is_not_in_the_source_is_noted_and_never_read(
    repository: Repository, cache: Path, tmp_path: Path, over: Any, reference: str, reason: str
) -> None:
    (tmp_path / "outside.yml").write_text("title: hidden\n")
    root = repository.root
    repository.write({"a/part.yml": "a: 1\n", "part.yml": "a: 1\n", "broken.yml": "a: [\n"})
    repository.write({"api.yml": f"openapi: 3.0.0\npaths:\n  /a: {{get: {{$ref: '{reference}'}}}}\n"})
    (root / "link.yml").symlink_to(tmp_path / "outside.yml")
    (root / "folder").symlink_to(tmp_path, target_is_directory=True)
    repository.commit()
    documents = read(over("openapi", root), cache)
    assert "hidden" not in str(documents)
    note = documents["api.yml"].metadata["note"]
    assert note.startswith(f"1 reference is not followed: {reference} (") and reason in note
    assert set(documents) - {"part.yml", "broken.yml"} == {"api.yml"}


def test_circles_and_files_that_refer_to_all_others_stay_bounded(repository: Repository, cache: Path) -> None:
    names = [f"{number}.yml" for number in range(60)]
    everything = "".join(f"  p{at}: {{$ref: '{name}'}}\n" for at, name in enumerate(names))
    files = dict.fromkeys(names, f"type: object\nproperties:\n{everything}")
    repository.write({**files, "api.yml": "openapi: 3.0.0\ncomponents:\n  schemas:\n" + everything})
    documents = read(over_folder("openapi", repository.root), cache)
    assert len(documents) == 61
    assert all(len(str(document.metadata)) < 1_000_000 for document in documents.values())
    assert not any("note" in document.metadata for document in documents.values())


def test_an_edit_of_a_part_refreshes_what_refers_to_it(project: Project, tmp_path: Path) -> None:
    folder = Repository(tmp_path / "repo").write({"api.yml": ROOT, **PARTS, **OTHERS})
    folder.write({"other.yml": "openapi: 3.0.0\ninfo: {title: Other}\npaths: {}\n"})
    project.declare("api", "openapi", folder.root)
    assert project.refresh().failures == {}
    table = project.lake.chunks("openapi", "api")

    def operation(uri: str) -> dict[str, Any]:
        rows = table.read_rows(["uri", "anchor", "metadata"]).to_pylist()
        [row] = [row for row in rows if (row["uri"], row["anchor"]) == (uri, "GET /pets/{id}")]
        return json.loads(row["metadata"])

    fields = operation("paths/pet.yml")["response_schemas"]["200"]["properties"]
    assert set(fields) == {"name", "mother", "owner"} and "specification" not in operation("paths/pet.yml")
    assert not any(stats.has_changes for stats in project.refresh().stats)
    folder.write({"models/pet.yml": "type: object\nproperties:\n  color: {type: string}\n"})
    outcome = project.refresh()
    snapshot = next(stats for stats in outcome.stats if stats.stage == "snapshot")
    assert (snapshot.changed, snapshot.removed) == (5, 1)  # no owner any more; /owners and others stay
    assert set(operation("paths/pet.yml")["response_schemas"]["200"]["properties"]) == {"color"}


def test_a_secret_of_a_part_stays_out_of_what_refers_to_it(project: Project, tmp_path: Path) -> None:
    key = "AKIA" + "Q3EGRCU7L2XJ5MNP"
    folder = Repository(tmp_path / "repo").write({"api.yml": ROOT, **PARTS})
    folder.write({"shared/parameters.yml": f"Limit: {{name: limit, in: query, example: {key}}}\n"})
    project.declare("api", "openapi", folder.root)
    assert project.refresh().failures == {}
    table = project.lake.chunks("openapi", "api")
    rows = table.read_rows(table.schema.names).to_pylist()
    assert key not in str(rows)
    assert any("Parameters: limit (query" in row["header"] for row in rows)
