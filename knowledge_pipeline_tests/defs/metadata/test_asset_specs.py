"""What the assets say of themselves: complete, true to the tables, and cheap to make."""

from typing import get_args

import dagster as dg
import pytest

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.metadata import (
    COLUMN_DESCRIPTIONS,
    arrow_schema,
    build_code_references,
    build_column_lineage,
    build_stage_metadata,
    build_stage_specs,
    list_kinds,
    list_upstream,
    table_schema,
)
from knowledge_pipeline.defs.settings_assets import SOURCES, build_freshness_policy
from knowledge_pipeline.stages import index
from knowledge_pipeline.stages.context import RefreshContext, Stats
from knowledge_pipeline.stages.pipeline import STAGES, select_stages
from knowledge_pipeline_tests.conftest import Project
from knowledge_pipeline_tests.connections import connection

TYPES: tuple[SourceType, ...] = get_args(SourceType)


def settings(*sources: dict, **rest) -> Settings:
    declared = [
        {"id": f"s{n}", "type": "code", "connection": connection(each.get("type", "code"), "/folder"), **each}
        for n, each in enumerate(sources)
    ]
    return Settings.model_validate({"sources": declared, "store": "/store", **rest})


@pytest.mark.parametrize("stage", STAGES)
def test_every_column_has_its_sentence_and_no_sentence_is_left_over(stage: str) -> None:
    assert set(COLUMN_DESCRIPTIONS[stage]) == set(arrow_schema(stage).names)
    for sentence in COLUMN_DESCRIPTIONS[stage].values():
        assert sentence[0].isupper()
        assert sentence.endswith(".")


def test_a_schema_shows_types_in_words_and_constraints() -> None:
    columns = {column.name: column for column in table_schema("index").columns}
    shown = {
        name: columns[name].type
        for name in ("id", "text", "vector", "tags", "page", "archived", "updated_at")
    }
    assert shown == {
        "id": "string",
        "text": "text",
        "vector": "vector of 32-bit floats",
        "tags": "list of strings",
        "page": "integer",
        "archived": "boolean",
        "updated_at": "time (UTC)",
    }
    assert [name for name, column in columns.items() if column.constraints.unique] == ["id"]
    assert not columns["text"].constraints.nullable
    assert columns["page"].constraints.nullable


@pytest.mark.parametrize("source_type", TYPES)
@pytest.mark.parametrize("stage", STAGES)
def test_column_lineage_names_columns_that_exist_of_assets_that_are_upstream(source_type, stage) -> None:
    lineage = build_column_lineage(source_type, stage).deps_by_column
    assert set(lineage) <= set(arrow_schema(stage).names)
    for deps in lineage.values():
        assert deps
        for dep in deps:
            type_, before = dep.asset_key.path
            assert type_ == source_type
            assert dep.asset_key in list_upstream(source_type, stage)
            assert dep.column_name in arrow_schema(before).names


def test_only_what_a_stage_adds_itself_comes_from_no_column() -> None:
    def without(stage: str) -> set[str]:
        return set(arrow_schema(stage).names) - set(build_column_lineage("code", stage).deps_by_column)

    assert without("chunks") == set()
    assert without("embeddings") == set()
    by_configuration = {"source", "source_type", "repo", "branch", "visibility", "tenant", "principals"}
    assert without("index") == by_configuration | {"indexed_at", "updated_at", "unembedded"}


def test_columns_that_the_index_copies_are_those_that_its_stage_copies() -> None:
    lineage = build_column_lineage("code", "index").deps_by_column
    changed = {"url"}  # made of path where the source tells none
    for name in set(index.CHUNK_COLUMNS) - changed:
        assert [dep.column_name for dep in lineage[name]] == [name]


@pytest.mark.parametrize("source_type", TYPES)
def test_every_asset_of_a_type_says_what_it_is(source_type: SourceType) -> None:
    made = build_stage_specs(source_type, settings({"type": source_type}, owners=["team:search"]))
    for spec in made:
        assert (spec.description or "").startswith("One row per ")
        assert 2 <= (spec.description or "").count(". ") + 1 <= 6
        assert spec.owners == ["team:search"]
        assert spec.group_name == source_type
        assert 1 <= len(spec.kinds) <= 3
    stages = select_stages(source_type)
    assert [spec.key.path for spec in made[: len(stages)]] == [[source_type, stage] for stage in stages]
    root = dg.AssetKey(SOURCES)
    assert {dep.asset_key for spec in made for dep in spec.deps} <= {root, *(spec.key for spec in made)}
    assert all(root in {dep.asset_key for dep in spec.deps} for spec in made)
    assert ("graph" in stages) == (source_type == "code")


def test_types_differ_in_what_one_row_is() -> None:
    first = {build_stage_specs(type_, settings())[0].description.split(",")[0] for type_ in TYPES}
    assert len(first) == len(TYPES)
    assert "One row per commit" in first


def test_the_embeddings_show_who_makes_the_vectors() -> None:
    endpoint = {"provider": "openai", "dimensions": 8}
    assert list_kinds("code", "embeddings", settings({}, {"embedding": endpoint})) == {
        "lancedb",
        "huggingface",
        "openai",
    }
    assert list_kinds("code", "embeddings", settings({}, embedding=endpoint)) == {"lancedb", "openai"}
    several = [
        {"embedding": {**endpoint, "provider": provider}} for provider in ("vertex", "ollama", "openai")
    ]
    kinds = list_kinds("code", "embeddings", settings(*several))
    assert len(kinds) == 3 and {"lancedb", "googlecloud"} < kinds  # Dagster takes no more


def test_code_references_lead_to_the_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    stage, asset = build_code_references("chunks").code_references
    with open(stage.file_path) as file:
        assert file.read().splitlines()[stage.line_number - 1].startswith("def refresh(")
    assert asset.file_path.endswith("assets.py")
    monkeypatch.setenv("KNOWLEDGE_CODE_URL", "https://example.com/team/repo/blob/main/")
    stage, _ = build_code_references("chunks").code_references
    assert stage.url.startswith(
        "https://example.com/team/repo/blob/main/knowledge_pipeline/stages/chunks.py#L"
    )


def test_freshness_follows_the_tightest_trigger() -> None:
    def hours(policy: dg.FreshnessPolicy) -> tuple[float, float]:
        assert policy.warn_window
        return tuple(
            w.to_timedelta().total_seconds() / 3600 for w in (policy.warn_window, policy.fail_window)
        )

    weekly, hourly = ({"refresh": {"trigger": trigger}} for trigger in ("weekly", "hourly"))
    history = {"type": "git_history"}
    assert hours(build_freshness_policy(settings({}), "code")) == (26, 50)
    assert hours(build_freshness_policy(settings(weekly, hourly), "code")) == (1.25, 3)
    assert hours(build_freshness_policy(settings(hourly, history), "git_history")) == (8 * 24, 15 * 24)
    assert hours(build_freshness_policy(settings(hourly, history))) == (1.25, 3)
    by_hand = {"refresh": {"trigger": "manual"}}
    assert build_freshness_policy(settings(by_hand), "code") is None
    assert hours(build_freshness_policy(settings(by_hand, hourly), "code")) == (1.25, 3)
    specs = build_stage_specs("code", settings({}))
    assert [spec.key.path[-1] for spec in specs if spec.freshness_policy] == ["index"]


def test_a_materialization_leads_to_its_table(project: Project, tmp_path) -> None:
    (tmp_path / "a.md").write_text("# Title\n\nWords.\n")
    project.declare("docs", "markdown", tmp_path, include=["a.md"])
    project.refresh()
    table = project.lake.chunks("markdown", "docs")
    ctx = RefreshContext(project.lake, project.settings, project.settings.sources[0])
    shown = build_stage_metadata(ctx, Stats("chunks", "docs"))
    assert shown["table"] == dg.MetadataValue.path(str(table.path))
    assert shown["table_version"] == table.version
    assert table.path.is_dir()
