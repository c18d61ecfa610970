"""Every key of a source with every type: it is read, or refused; none is accepted and ignored."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from knowledge_pipeline.chunking.registry import fingerprint
from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import (
    AttachmentSettings,
    ChunkingSettings,
    MetadataSettings,
    SourceConfig,
    dump_filters,
    resolve_sanitize,
    resolve_trigger,
)
from knowledge_pipeline.connectors.attachments import open_attachment_reader
from knowledge_pipeline.connectors.registry import open_source
from knowledge_pipeline.contract.filters import SourceType
from knowledge_pipeline.defs.metadata import list_upstream_assets
from knowledge_pipeline.stages.snapshot import is_up_to_date
from knowledge_pipeline.store.lake import Lake
from knowledge_pipeline_tests.connections import connection

TYPES = get_args(SourceType)
FILES = ("code", "markdown", "openapi", "files", "archive")
TICKETS = ("github_pr", "github_issues", "discussions", "jira")
CONVERSATIONS = (*TICKETS, "confluence", "slack")
SERVICES = (*CONVERSATIONS, "releases")

READ_BY: dict[str, tuple[object, tuple[str, ...]]] = {
    "include": (["src/"], (*FILES, "git_history", "github_pr")),
    "exclude": (["vendor/"], (*FILES, "git_history", "github_pr")),
    "encoding": ("windows-1252", (*FILES, "git_history", *CONVERSATIONS)),
    "max_bytes": (100, (*FILES, "snippets", "confluence", "table", "custom", "push")),
    "languages": (["python"], ("code",)),
    "depth": (10, ("git_history",)),
    "since": ("30 days", ("git_history", *SERVICES)),
    "max_results": (3, SERVICES),
    "state": ("all", ("github_pr", "github_issues", "discussions", "releases")),
    "parts": (["description", "comments"], ("github_pr", "jira")),
    "labels": (["bug"], (*TICKETS, "confluence")),
    "projects": (["OPS"], ("jira",)),
    "jql": ("priority = High", ("jira",)),
    "issue_types": (["Bug"], ("jira",)),
    "statuses": (["Done"], ("jira",)),
    "custom_fields": (["Team"], ("jira",)),
    "spaces": (["OPS"], ("confluence",)),
    "comments": (False, ("confluence",)),
    "exclude_labels": (["old"], ("confluence",)),
    "content_types": (["page"], ("confluence",)),
    "channels": (["general"], ("slack",)),
    "columns": ({"text": "body"}, ("table",)),
    "attachments": ({"include": ["*.pdf"]}, CONVERSATIONS),
    "files": (
        {"extractor": "knowledge_pipeline_tests.connectors.test_keys:shout"},
        ("files", *CONVERSATIONS),
    ),
    "branches": (["release/*"], ("code", "markdown", "openapi")),
    "retention": ({"session": "180d"}, ("archive",)),
    "content_type": ("code", TYPES),
    "chunking": ({"max_tokens": 99}, TYPES),
    "embedding": ({"profile": "fast"}, TYPES),
    "metadata": ({"tags": ["ours"]}, TYPES),
    "sanitize": ({"secrets": "drop"}, TYPES),
    "refresh": ({"trigger": "hourly"}, TYPES),
    "upstream": (["sql/report"], TYPES),
}
"""Each key with a value, and the types that read it."""

OF_ATTACHMENTS = ("attachments", "files", "encoding")
"""Keys that are about attachments, and that an export of Slack, which has none, refuses."""

IN_GIT: dict[str, object] = {"type": "git", "url": "https://example.org/app.git"}

OTHER_PLACES: dict[str, dict[str, object]] = {
    "github_pr": {"type": "gitlab", "project": "ann/app"},
    "github_issues": {"type": "gitlab", "project": "ann/app"},
    "releases": {"type": "gitlab", "project": "ann/app"},
    "slack": {"type": "slack", "token": "t0ken"},
    "git_history": IN_GIT,
    "code": IN_GIT,
    "markdown": IN_GIT,
    "openapi": IN_GIT,
}

OF_ALL = {"id", "type", "namespace", "connection", "access"}
"""Keys that every type has, each tested by what it does: names, partitions, filters, permissions."""


class RecordedSource(SourceConfig):
    """Settings that tell which of their keys were read."""

    def __getattribute__(self, name: str) -> Any:
        if name in READ_BY:
            _READ.add(name)
        return super().__getattribute__(name)


_READ: set[str] = set()


def source_of(
    source_type: str, folder: Path, model: type[SourceConfig] = SourceConfig, **keys: object
) -> Any:
    """Settings of a source over the type's usual connection, unless `keys` has another."""
    usual = {"id": "a", "type": source_type, "connection": connection(source_type, str(folder))}
    return model.model_validate(usual | keys)


def test_every_key_of_a_source_is_in_the_table():
    assert set(READ_BY) | OF_ALL == set(SourceConfig.model_fields)


@pytest.mark.parametrize("source_type", TYPES)
@pytest.mark.parametrize("key", READ_BY)
def test_a_key_is_read_or_refused(key, source_type, tmp_path):
    value, types = READ_BY[key]
    if source_type not in types:
        with pytest.raises(ValidationError, match=f"{key} does not apply to type '{source_type}'") as refused:
            source_of(source_type, tmp_path, **{key: value})
        instead = str(refused.value).rpartition(": use ")[2].split(" [")[0].split(", ")
        own = [name for name in instead if source_type in READ_BY[name][1]]
        assert instead == own != [], "what it names instead is of the type"
        return
    of_attachments = key in ("files", "encoding") and source_type in CONVERSATIONS
    more = {"attachments": True} if of_attachments else {}
    for place in (connection(source_type, str(tmp_path)), OTHER_PLACES.get(source_type)):
        has_it = place is not None and (key != "branches" or place is IN_GIT)
        if has_it and not (key in OF_ATTACHMENTS and place["type"] == "slack_export"):
            source = source_of(
                source_type, tmp_path, RecordedSource, connection=place, **{key: value}, **more
            )
            assert key in read_keys(source, tmp_path), place


def read_keys(source: RecordedSource, cache: Path) -> set[str]:
    """What a refresh reads of the settings before it reads a document."""
    _READ.clear()
    open_source(source, cache=cache).close()
    with open_attachment_reader(source):
        pass
    fingerprint(source, model_tokens=256, tokenizer="")
    resolve_sanitize(source)
    resolve_trigger(source)
    is_up_to_date(Lake(cache / "store"), source, [])
    list_upstream_assets(source.type, Settings.model_construct(sources=(source,)))
    Settings().resolve_embedding(source)
    return set(_READ)


def test_a_part_that_a_type_does_not_have_is_refused(tmp_path):
    with pytest.raises(
        ValidationError, match="parts diff do not apply to type 'jira': use description, comm"
    ):
        source_of("jira", tmp_path, parts=["description", "diff"])
    with pytest.raises(ValidationError, match="parts worklogs do not apply to type 'github_pr'"):
        source_of("github_pr", tmp_path, parts=["worklogs"])


SYNTAX_KEYS: dict[str, object] = {
    "granularity": "class",
    "include_imports": False,
    "include_comments": False,
    "preserve_signatures": False,
}


@pytest.mark.parametrize("source_type", TYPES)
@pytest.mark.parametrize("key", SYNTAX_KEYS)
def test_how_code_is_cut_is_refused_where_no_code_is_cut(key, source_type, tmp_path):
    chunking = {key: SYNTAX_KEYS[key]}
    if source_type in ("code", "snippets", "files", "custom", "push"):
        source_of(source_type, tmp_path, chunking=chunking)
    else:
        said = rf"chunking\.{key} does not apply to type '{source_type}': use max_tokens"
        with pytest.raises(ValidationError, match=said):
            source_of(source_type, tmp_path, chunking=chunking)
    source_of(source_type, tmp_path, chunking={**chunking, "strategy": "ast_aware"})
    with pytest.raises(ValidationError, match=r"with chunking\.strategy 'sentence'"):
        source_of(source_type, tmp_path, chunking={**chunking, "strategy": "sentence"})


def test_a_coverage_report_is_refused_where_no_code_is_cut(tmp_path):
    with pytest.raises(
        ValidationError, match=r"metadata\.coverage does not apply to type 'jira', only to code"
    ):
        source_of("jira", tmp_path, metadata={"coverage": "coverage.xml"})
    source_of("code", tmp_path, metadata={"coverage": "coverage.xml"})


def test_attachments_are_switched_limited_and_refused_in_an_export(tmp_path):
    assert source_of("jira", tmp_path).attachments is None
    assert source_of("jira", tmp_path, attachments=False).attachments is None
    assert source_of("jira", tmp_path, attachments=True).attachments == AttachmentSettings()
    limited = source_of("jira", tmp_path, attachments={"max_count": 2}).attachments
    assert limited == AttachmentSettings(max_count=2)
    with pytest.raises(ValidationError, match="not part of a Slack export: remove the key"):
        source_of("slack", tmp_path, attachments=True)
    with pytest.raises(ValidationError, match="max_counts"):
        source_of("jira", tmp_path, attachments={"max_counts": 2})
    assert "attachments" not in dump_filters(source_of("jira", tmp_path)), "others keep their hashes"


def shout(name: str, payload: bytes) -> str:
    return f"{name}: {payload.decode().upper()}"


def test_the_keys_of_cutting_are_known_here():
    of_any = {"strategy", "custom", "max_tokens", "min_tokens", "overlap_tokens", "max_section_depth"}
    assert set(ChunkingSettings.model_fields) == of_any | set(SYNTAX_KEYS)
    assert set(MetadataSettings.model_fields) == {
        *("standard", "code", "documents", "custom", "tags", "coverage"),
    }
