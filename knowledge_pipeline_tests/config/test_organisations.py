"""One entry for an organisation is a source for each of its members, by the last listing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.connections import GitConnection, GithubConnection
from knowledge_pipeline.config.file import load_settings, read_stamp
from knowledge_pipeline.config.organisations import (
    LISTINGS,
    OrganisationListing,
    OrganisationMember,
    write_listing,
)
from knowledge_pipeline.config.settings import Settings, compute_settings_digests
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.errors import ConfigError

GITHUB = {"type": "github_organisation", "organisation": "Acme", "token": "${ACME_TOKEN}"}
SLACK = {"type": "slack_channels", "token": "${ACME_TOKEN}"}


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_TOKEN", "gh0-not-shown")


def write(folder: Path, *, sources: Any = ({"type": "code"},), **changed: Any) -> Path:
    """A file with one organisation; JSON is YAML."""
    import json

    entry = {"id": "acme", "connection": GITHUB, "sources": list(sources), **changed}
    path = folder / "knowledge.yaml"
    path.write_text(json.dumps({"version": 1, "organisations": [entry]}))
    return path


def listed(
    folder: Path, *members: OrganisationMember | str, location: str = "https://github.com/Acme"
) -> None:
    whole = tuple(OrganisationMember(each) if isinstance(each, str) else each for each in members)
    listing = OrganisationListing(location, "2026-01-01T00:00:00+00:00", whole)
    write_listing(folder / ".knowledge" / LISTINGS, "acme", listing)


def ids(path: Path) -> list[str]:
    return [source.id for source in load_settings(path).sources]


def test_each_member_has_the_sources_that_fit_it(tmp_path: Path) -> None:
    templates = [
        {"type": "code", "exclude": ["vendor/"]},
        {"type": "code", "members": ["acme/BIG-*"], "languages": ["python"]},
        {"type": "github_pr", "members": ["acme/api"], "state": "open"},
    ]
    path = write(tmp_path, sources=templates, exclude=["*/secret"], topics=["pay"])
    of_topic = {"topics": ("pay",)}
    listed(
        tmp_path,
        OrganisationMember("Acme/api", **of_topic),
        OrganisationMember("Acme/big-one", **of_topic),
        OrganisationMember("Acme/secret", **of_topic),
        OrganisationMember("Acme/old", archived=True, **of_topic),
        OrganisationMember("Acme/copy", fork=True, **of_topic),
        "Acme/other",
    )
    settings = load_settings(path)
    assert settings.unlisted_organisations == ()
    code, pulls, big = settings.sources
    assert [code.id, pulls.id, big.id] == ["acme-api-code", "acme-api-github_pr", "acme-big-one-code"]
    assert (code.exclude, code.languages, big.exclude, big.languages) == (("vendor/",), (), (), ("python",))
    assert isinstance(code.connection, GitConnection)
    assert code.connection.url == "https://github.com/Acme/api.git"
    assert isinstance(pulls.connection, GithubConnection) and pulls.state == "open"
    assert code.permission_connection == pulls.connection == pulls.permission_connection

    alone = SourceConfig.model_validate(
        {"id": "x", "type": "code", "exclude": ["vendor/"], "connection": code.connection}
    )
    assert compute_settings_digests(settings, code) == compute_settings_digests(settings, alone)


def test_ids_are_stable_short_and_do_not_collide(tmp_path: Path) -> None:
    path = write(tmp_path, sources=[{"type": "github_issues"}, {"type": "code"}])
    names = ["Acme/api", "Acme/Api.js", "Acme/api-js", "Acme/.github", f"Acme/{'long-' * 30}a", "Acme/日本"]
    listed(tmp_path, *names, f"Acme/{'long-' * 30}b")
    found = ids(path)
    assert len(set(found)) == 14
    assert all(SourceConfig.model_fields["id"].metadata and len(each) <= 64 for each in found)
    assert [found[0], found[4]] == ["acme-api-github_issues", "acme-api-js-github_issues"]
    listed(tmp_path, "acme/API", "Acme/日本")  # GitHub's names are the same in upper and lower case
    assert ids(path) == [*found[:2], *found[10:12]]


def test_a_channel_is_known_by_its_name(tmp_path: Path) -> None:
    path = write(tmp_path, connection=SLACK, sources=[{"type": "slack"}], include=["pay-*"])
    channels = OrganisationMember("C01", title="pay-team"), OrganisationMember("C02", title="random")
    listed(tmp_path, *channels, location="https://slack.com/api/")
    assert [(each.id, each.channels) for each in load_settings(path).sources] == [
        ("acme-c01-slack", ("C01",))
    ]


def test_what_is_not_listed_is_not_taken_for_nothing(tmp_path: Path) -> None:
    path = write(tmp_path)
    before = load_settings(path)
    assert (before.sources, before.unlisted_organisations) == ((), ("acme",))
    listed(tmp_path, "Acme/api")
    assert before.stamp != read_stamp(path, before)
    settings = load_settings(path)
    assert settings.stamp == read_stamp(path, settings) and len(settings.sources) == 1
    listed(tmp_path, "Acme/api", location="https://github.com/another")  # as before an edit of the connection
    assert load_settings(path).unlisted_organisations == ("acme",)
    (tmp_path / ".knowledge" / LISTINGS / "acme.json").write_text('{"location": ')
    assert load_settings(path).unlisted_organisations == ("acme",)
    assert "gh0-not-shown" not in repr(settings)


def test_an_id_that_is_taken_is_told(tmp_path: Path) -> None:
    path = write(tmp_path)
    listed(tmp_path, "Acme/api")
    local = 'sources: [{id: acme-api-code, type: code, connection: {type: local, path: "."}}]'
    path.write_text(f"{path.read_text()[:-1]}, {local[:7]}: {local[9:]}}}")
    with pytest.raises(ConfigError, match="acme-api-code' has the id of a source of organisation 'acme'"):
        load_settings(path)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"sources": []}, "allowed: a list that is not empty"),
        ({"sources": [{"type": "jira"}]}, "'jira' is not read from members of 'github_organisation'"),
        ({"sources": [{"type": "code", "depth": 3}]}, "depth does not apply to type 'code'"),
        ({"sources": [{"type": "code", "id": "x"}]}, "unknown key"),
        ({"connection": SLACK, "sources": [{"type": "slack", "channels": ["a"]}]}, "member's own"),
        ({"connection": {**GITHUB, "user": "ann"}}, "one of organisation, user and topic"),
        ({"connection": {"type": "github_organisation", "user": "ann"}}, "a token or an app"),
        ({"include": [""]}, "not empty"),
        ({"id": "a" * 33}, "at most 32 characters"),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_written(
    tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        load_settings(write(tmp_path, **changed))


def test_ids_of_organisations_do_not_begin_alike() -> None:
    entry = {"connection": {"type": "checkouts", "path": "."}, "sources": [{"type": "code"}]}
    with pytest.raises(ValueError, match="begin with it and '-'"):
        Settings.model_validate({"organisations": [{"id": "a", **entry}, {"id": "a-b", **entry}]})
