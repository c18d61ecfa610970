from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from knowledge_pipeline.config.embedding import EmbeddingSettings
from knowledge_pipeline.config.model import SettingsModel
from knowledge_pipeline.config.organisations import MemberSource, OrganisationSettings
from knowledge_pipeline.config.problems import list_models
from knowledge_pipeline.config.settings import RerankSettings, Settings, compute_settings_digests
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import NotFound
from knowledge_pipeline_tests.config.sources.entries import source

DOCUMENTED = Path(__file__).parents[2] / "docs" / "configuration.md"


def models(base: type[SettingsModel] = SettingsModel) -> list[type[SettingsModel]]:
    return [model for own in base.__subclasses__() for model in (own, *models(own))]


def test_a_source_is_read_by_its_own_model_or_by_that_of_its_content_or_of_the_file():
    file = {"model": "text"}
    by_content = {"code": {"model": "code"}}
    settings = Settings.model_validate({"embedding": file, "embedding_by_content": by_content})

    def model(kind: str, **keys: object) -> str:
        return settings.resolve_embedding(source(kind, **keys)).model

    assert (model("code"), model("git_history"), model("jira")) == ("code", "code", "text")
    assert model("files", content_type="code") == "code"
    assert model("code", content_type="prose") == "text"
    assert model("code", embedding={"model": "own"}) == "own"


def test_the_content_of_a_source_chooses_the_model_of_a_profile():
    profile = Settings.model_validate({"embedding": {"profile": "balanced"}})
    code, prose = (
        profile.resolve_embedding(source("files", content_type=each)) for each in ("code", "prose")
    )
    assert code == profile.resolve_embedding(source("code"))
    assert prose == profile.resolve_embedding(source("files")) != code
    with pytest.raises(ValidationError, match="'code' or 'prose'"):
        source("files", content_type="pictures")


def test_depths_are_bounded_and_leave_stored_scores_alone():
    assert "depth" not in Settings().query.model_dump(by_alias=True), "scores are keyed by a dump of it"
    changed = Settings.model_validate({"query": {"depth": {"code": {"rerank_k": 60}}}})
    assert changed.query.model_dump()["depth"]["code"]["rerank_k"] == 60
    with pytest.raises(
        ValidationError, match=r"query\.depth\.code\.default_k \(90\) must be at most limits\.results"
    ):
        Settings.model_validate({"query": {"depth": {"code": {"default_k": 90}}}, "limits": {"results": 50}})
    with pytest.raises(ValidationError, match="greater than or equal to 10"):
        Settings.model_validate({"query": {"depth": {"code": {"candidates": 1}}}})


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_settings_are_frozen_and_refuse_unknown_keys(model):
    assert model.model_config["frozen"] and model.model_config["extra"] == "forbid"


def test_defaults_are_what_validation_makes_of_no_key():
    values = (
        field.default
        for model in models()
        for field in model.model_fields.values()
        if isinstance(field.default, SettingsModel)
    )
    kinds = {type(each) for each in values}
    assert len(kinds) > 20, "those of settings within settings too"
    for kind in kinds - {EmbeddingSettings}:  # whose validator names the models of a profile
        made = kind()
        assert (kind.defaults(), kind.defaults().model_fields_set) == (made, made.model_fields_set)
        assert kind.defaults().model_dump() == made.model_dump()


def test_two_sources_cannot_have_one_id():
    with pytest.raises(ValidationError, match="two sources have the id 'a'"):
        Settings(sources=(source("code"), source("files")))


def test_a_source_is_embedded_by_its_own_model_or_that_of_the_project():
    own = source("code", embedding={"model": "code-model"})
    settings = Settings(sources=(own,))
    assert settings.resolve_embedding(own).model == "code-model"
    assert settings.resolve_embedding(source("files")) == settings.embedding.resolve("files")


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ({"hyde": "true"}, "query.hyde"),
        ({"expansion": "llm"}, "query.expansion"),
        ({"decompose": "llm"}, "query.decompose"),
        ({"rerank": {"kind": "llm"}}, "query.rerank.kind"),
    ],
)
def test_what_needs_a_language_model_is_refused_without_one(query, key):
    with pytest.raises(ValidationError, match=rf"{key} needs a language model"):
        Settings.model_validate({"query": query})
    assert Settings.model_validate({"query": query, "language_model": {"model": "m"}}).language_model


def test_nothing_asks_a_language_model_by_default():
    assert Settings().query.list_language_model_keys() == ()
    Settings.model_validate({"query": {"decompose": "rules"}})


def test_a_language_model_gets_more_time_to_rerank_than_a_cross_encoder():
    budgets = [
        RerankSettings.model_validate(given).budget_s
        for given in ({}, {"kind": "cross_encoder"}, {"kind": "llm"}, {"kind": "llm", "budget_s": None})
    ]
    assert budgets == [0.4, 0.4, 8.0, 8.0]
    assert RerankSettings.model_validate({"kind": "llm", "budget_s": "2"}).budget_s == 2
    with pytest.raises(ValidationError, match="kind"):
        RerankSettings.model_validate({"kind": "other"})


def keys(model: type[SettingsModel], above: str = "") -> list[str]:
    found = []
    for name, field in model.model_fields.items():
        found.append(above + name)
        if (above + name) not in (
            "sources",
            "organisations",
            "embedding_by_content.code",
            "embedding_by_content.prose",
            "chunking.code",
            "chunking.documentation",
            "connection.object",
        ):
            found += [
                key for inner in list_models(field.annotation) for key in keys(inner, f"{above}{name}.")
            ]
    return found


_DOCUMENTED_MODELS = (Settings, SourceConfig, OrganisationSettings, MemberSource)


@pytest.mark.parametrize("key", dict.fromkeys(sum(map(keys, _DOCUMENTED_MODELS), list[str]())))
def test_the_reference_names_every_key(key):
    shown = DOCUMENTED.read_text(encoding="utf-8")
    assert f"| `{key}` |" in shown


def test_only_models_that_compute_here_are_spread_over_a_cluster():
    assert EmbeddingSettings.model_validate({"ray": {"workers": 2}}).ray is not None
    endpoint = {"provider": "openai", "model": "m", "dimensions": 8}
    with pytest.raises(ValidationError, match="ray spreads models that compute here"):
        EmbeddingSettings.model_validate({**endpoint, "ray": {"workers": 2}})


def test_words_of_other_systems_mean_what_ours_do():
    connection = {"type": "github", "repository": "octo/engine", "token": "t"}
    parts = ["title", "description", "comments", "review_comments", "diff_context"]
    pulls = {"connection": connection, "include_labels": ["bug"], "patterns": ["src/"]}
    read = source("github_pr", **pulls, parts=parts, refresh="hourly")
    assert (read.labels, read.include, read.refresh.trigger) == (("bug",), ("src/",), "hourly")
    assert read.parts == source("github_pr", connection=connection).parts, "the default, in other words"
    assert source("github_pr", connection=connection, parts=["title"]).parts == ("title",)
    assert source("documentation", connection={"type": "local", "path": "."}).type == "markdown"


def test_the_schema_for_editors_knows_the_other_words():
    keys = Settings.model_json_schema()["$defs"]["SourceConfig"]["properties"]
    assert keys["patterns"] == keys["include"] and keys["include_labels"] == keys["labels"]
    assert "documentation" in keys["type"]["enum"] and "review_comments" in keys["parts"]["items"]["enum"]
    assert any("on_commit" in choice.get("enum", ()) for choice in keys["refresh"]["anyOf"])


CHUNKING = {"code": {"max_tokens": 200, "granularity": "class"}, "documentation": {"min_tokens": 20}}


def test_chunking_is_said_once_for_all_that_holds_the_same_and_a_source_has_the_last_word():
    own = {"strategy": "fixed_size", "max_tokens": 99}
    named = {
        "code": source("code"),
        "own": source("code", chunking=own),
        "docs": source("markdown", chunking={"max_tokens": 77}),
        "notebooks": source("files", content_type="code"),
        "commits": source("git_history"),
        "tickets": source("jira"),
    }
    entries = tuple(entry.model_copy(update={"id": id}) for id, entry in named.items())
    settings = Settings.model_validate({"sources": entries, "chunking": CHUNKING})
    set_by_source = {entry.id: entry.chunking.model_dump(exclude_unset=True) for entry in settings.sources}
    assert set_by_source == {
        "code": CHUNKING["code"],
        "own": own,
        "docs": {"max_tokens": 77, "min_tokens": 20},
        "notebooks": CHUNKING["code"],
        "commits": {},
        "tickets": {},
    }
    assert Settings.model_validate(dict(settings)) == settings


def test_chunking_of_the_file_is_for_members_of_organisations_and_marks_nothing_but_chunks():
    code, tickets = source("code"), source("jira").model_copy(update={"id": "tickets"})
    settings = Settings.model_validate({"chunking": CHUNKING, "sources": [tickets]})
    completed = settings.with_members([code], []).sources[-1]
    assert completed.chunking.max_tokens == 200
    before, after = (compute_settings_digests(settings, each) for each in (code, completed))
    assert {kind for kind in before if before[kind] != after[kind]} == {"chunking"}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"documentation": {"granularity": "class"}}, "documentation.granularity is for code"),
        (
            {"documentation": {"min_tokens": 80}},
            r"chunking of 'docs' .* must be smaller than max_tokens",
        ),
        ({"code": {"min_tokens": 80, "max_tokens": 70}}, "must be smaller than max_tokens"),
    ],
)
def test_chunking_that_contradicts_itself_is_refused(values, problem):
    docs = source("markdown", chunking={"max_tokens": 77}).model_copy(update={"id": "docs"})
    with pytest.raises(ValidationError, match=problem):
        Settings.model_validate({"chunking": values, "sources": [docs]})


def test_sizes_of_answers_are_said_once_and_a_type_of_search_has_the_last_word():
    retrieval = {"default_k": 7, "rerank_k": 40, "max_context_tokens": 9000}
    query = {"depth": {"code": {"default_k": 3}}}
    settings = Settings.model_validate({"retrieval": retrieval, "query": query})
    assert settings.context.max_tokens == 9000
    depths = {name: (depth.default_k, depth.rerank_k) for name, depth in settings.query.depth}
    assert depths == dict.fromkeys(("semantic", "similar", "historical"), (7, 40)) | {"code": (3, 40)}
    assert Settings.model_validate({"query": {"floor": 0.1}}).query.depth.is_default


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"retrieval": {"default_k": 90}, "limits": {"results": 50}}, r"retrieval\.default_k \(90\) must be"),
        (
            {"retrieval": {"max_context_tokens": 9}, "context": {"max_tokens": 8}},
            r"retrieval\.max_context_tokens and context\.max_tokens are one setting",
        ),
        ({"retrieval": {"max_context_tokens": 9_000_000}}, r"retrieval\.max_context_tokens \(9000000\) must"),
    ],
)
def test_sizes_of_answers_that_contradict_the_rest_are_refused(values, problem):
    with pytest.raises(ValidationError, match=problem):
        Settings.model_validate(values)


def test_sources_are_selected_by_id_or_by_type_and_an_id_wins():
    ids = {"docs": "markdown", "code": "jira", "lib": "code"}
    entries = tuple(source(kind).model_copy(update={"id": id}) for id, kind in ids.items())
    settings = Settings(sources=entries)

    def select(*names: str, or_types: bool = True) -> list[str]:
        return [entry.id for entry in settings.select_sources(names, or_types=or_types)]

    assert select("code") == ["code"] and select("documentation", "docs") == ["docs"]
    assert select("jira", "markdown") == ["code", "docs"] and select() == list(ids)
    with pytest.raises(NotFound, match="there is no source 'jira'"):
        select("jira", or_types=False)
