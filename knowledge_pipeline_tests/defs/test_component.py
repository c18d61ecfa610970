"""The component, scaffolded and loaded by Dagster's own functions."""

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
import yaml
from dagster.components.core.package_entry import get_package_objects_in_module
from dagster.components.testing import DefsFolderSandbox, create_defs_folder_sandbox
from pydantic import ValidationError

import knowledge_pipeline
from knowledge_pipeline import KnowledgePipeline

TYPE = "knowledge_pipeline.KnowledgePipeline"

# Dagster's own code that reads a defs.yaml.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`parse_obj_as` is deprecated"),
    pytest.mark.filterwarnings("ignore:.* is currently in (beta|preview)"),
]

SOURCE = {"id": "docs", "type": "markdown", "connection": {"type": "local", "path": "docs"}}


@pytest.fixture
def sandbox() -> Iterator[DefsFolderSandbox]:
    with create_defs_folder_sandbox() as sandbox:
        yield sandbox


def write(sandbox: DefsFolderSandbox, name: str, attributes: dict[str, Any]) -> Path:
    """A `defs.yaml` as a user writes it, whose attributes begin on line 4."""
    folder = sandbox.defs_folder_path / name
    folder.mkdir()
    text = yaml.safe_dump(attributes, sort_keys=False)
    indented = "".join(f"  {line}\n" for line in text.splitlines())
    (folder / "defs.yaml").write_text(f"type: {TYPE}\n\nattributes:\n{indented}")
    return folder


@pytest.mark.slow
def test_scaffolded_components_load_beside_one_with_its_settings_inline(
    sandbox: DefsFolderSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "guide.md").write_text("# A\n")
    folder = sandbox.scaffold_component(KnowledgePipeline, "hand-book", {"folder": str(tmp_path)})
    assert yaml.safe_load((folder / "defs.yaml").read_text())["attributes"] == {
        "config": "knowledge.yaml",
        "key_prefix": "hand_book",
    }
    written = yaml.safe_load((folder / "knowledge.yaml").read_text())
    assert [source["type"] for source in written["sources"]] == ["markdown"]
    store = (folder / written["store"]).resolve()
    assert store == (sandbox.project_root / ".knowledge" / "hand_book").resolve()
    monkeypatch.setenv("PLACE", "docs")
    connection = {"type": "local", "path": "${PLACE}"}
    settings = {"owners": ["team:{{ env.PLACE }}"], "sources": [{**SOURCE, "connection": connection}]}
    attributes = {"key_prefix": ["team", "b"], "group_prefix": "shared", "settings": settings}
    inline = write(sandbox, "inline", attributes)
    in_python = sandbox.scaffold_component(
        KnowledgePipeline, "in_python", {"repository": "https://example.com/a/b.git"}, "python"
    )
    assert "config=" in (in_python / "component.py").read_text()
    with pytest.raises(SystemExit, match="nowhere is not a folder"):
        sandbox.scaffold_component(KnowledgePipeline, "other", {"folder": "/nowhere"})
    (sandbox.defs_folder_path / "other").rmdir()
    with sandbox.build_all_defs() as defs:
        dg.Definitions.validate_loadable(defs)
        prefixes = {key.path[0] for key in defs.resolve_all_asset_keys()}
        spec = defs.resolve_asset_graph().get(dg.AssetKey(["team", "b", "markdown", "index"]))
        project = defs.resources["team_b_project"]
        loaded = project.load_settings()
    assert prefixes == {"hand_book", "team", "in_python"}
    assert (spec.group_name, spec.owners) == ("shared/markdown", ["team:docs"])
    assert loaded.sources[0].connection.path == inline.resolve() / "docs"
    assert loaded.store == inline / ".knowledge"


TOKEN = "not-" + "a-real-token-at-all"
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"settings": {"sources": [{**SOURCE, "type": "cod"}]}},
        r"defs.yaml:7: settings: sources\[0\].type: fou",
    ),
    ({"settings": {"sources": [SOURCE, SOURCE]}}, "defs.yaml:4: settings: two sources have the id 'docs'"),
    (
        {"settings": {"store": "${UNSET_ONE}"}},
        "defs.yaml:5: settings: store: the environment variable UNSET_ONE",
    ),
    (
        {"settings": {"sources": [SOURCE]}, "translation": {"key": "mine"}},
        "translation makes .* mine: set key_prefix",
    ),
    ({"config": "nothing.yaml"}, "there is no .*nothing.yaml: run `knowledge init`"),
    ({"settings": {}, "key_prefix": "a-b"}, "'a-b' cannot be a prefix"),
    ({"confg": "x"}, r"attributes.confg at .*defs.yaml:4"),
    ({"key_prefix": "a"}, r"give either `config`"),
    ({"config": "x", "settings": {}}, r"give either `config`"),
    (
        {"settings": {"language_model": {"model": "m", "api_key": TOKEN}}},
        r"defs.yaml:7: settings: language_model.api_key: found a secret",
    ),
]


@pytest.mark.parametrize(("attributes", "problem"), WRONG)
def test_what_is_wrong_is_told_with_its_line(
    sandbox: DefsFolderSandbox, attributes: dict[str, Any], problem: str
) -> None:
    folder = write(sandbox, "wrong", attributes)
    with pytest.raises(Exception) as raised, sandbox.load_component_and_build_defs(folder):
        pass
    causes: list[BaseException] = [raised.value]
    while cause := causes[-1].__cause__:
        causes.append(cause)
    assert isinstance(causes[-1], dg.DagsterInvalidDefinitionError | ValidationError)
    assert re.search(problem, str(causes[-1]))
    assert not any(TOKEN in str(each) for each in causes)


def test_assets_are_translated_as_other_components_do_it(sandbox: DefsFolderSandbox) -> None:
    translation = {"group_name": "{{ spec.key.path[0] }}_of_search", "owners": ["team:search"]}
    attributes = {"settings": {"sources": [SOURCE]}, "translation": translation}
    with sandbox.load_component_and_build_defs(write(sandbox, "docs", attributes)) as (component, defs):
        dg.Definitions.validate_loadable(defs)
        specs = {spec.key.to_user_string(): spec for spec in defs.resolve_all_asset_specs()}
        jobs = {job.name for job in defs.resolve_all_job_defs()}
    assert isinstance(component, KnowledgePipeline)
    assert {specs[key].group_name for key in ("markdown/chunks", "markdown/index")} == {"markdown_of_search"}
    assert {tuple(spec.owners) for spec in specs.values()} == {("team:search",)}
    assert "refresh" in jobs


def test_the_schema_is_that_of_the_settings() -> None:
    schema = KnowledgePipeline.get_model_cls().model_json_schema()
    assert schema["properties"]["settings"]["$ref"] == "#/$defs/Settings"
    assert "markdown" in schema["$defs"]["SourceConfig"]["properties"]["type"]["enum"]
    assert schema["$defs"]["SourceConfig"]["additionalProperties"] is False
    assert set(schema["properties"]) == {
        *("config", "settings", "key_prefix", "group_prefix", "partitions", "translation")
    }


def test_dg_finds_the_component_and_the_package_stays_cheap() -> None:
    found = {name for name, _ in get_package_objects_in_module(knowledge_pipeline)}
    assert found == {"KnowledgePipeline"}
    mine = [each.value for each in entry_points(group="dagster_dg_cli.registry_modules")]
    assert "knowledge_pipeline" in mine or not mine  # none where the package was installed before it had one
    heavy = "dagster", "pydantic", "lancedb", "knowledge_pipeline.defs.code_location"
    program = (
        "import sys, knowledge_pipeline; dir(knowledge_pipeline); "
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
