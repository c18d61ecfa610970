"""The fake organisation holds what it says, of one seed always the same, and changes as it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.registry import list_members, read_permissions
from knowledge_pipeline_tests.connectors.repositories import read
from knowledge_pipeline_tests.fakes.organisation import Organisation
from knowledge_pipeline_tests.fakes.organisation_services import HOLDERS, MemberKind

LISTED: dict[str, MemberKind] = {
    "code": "repository",
    "tickets": "project",
    "wiki": "space",
    "chat": "channel",
}


def read_texts(acme: Organisation, cache: Path) -> str:
    """Everything that the sources of all members read; each member has the readers that it should have."""
    texts: list[str] = []
    declared = {"organisations": acme.declare(access={"visibility": "from_source", "tenant": "acme"})}
    for organisation in Settings.model_validate(declared).organisations:
        kind = LISTED[organisation.id]
        members = list(list_members(organisation.connection))
        assert sorted(each.name for each in members) == sorted(acme.members[kind])
        for member in members:
            for source in organisation.build_sources(member):
                documents = read(source, cache)
                texts += [document.text for document in documents.values()]
                assert read_readers(source, list(documents)) == {
                    f"{login}@acme.example" for login in acme.list_readers(kind, member.name)
                }
    return "\n".join(texts)


def read_readers(source: SourceConfig, uris: list[str]) -> set[str]:
    """The addresses of who may read, as the service says; Slack's Bob shows none."""
    permissions = read_permissions(source, uris)
    assert not permissions.count_closed(uris)
    audiences = permissions.audiences.values()
    found = {member.email for audience in audiences for readers in audience for member in readers}
    return {email for email in found if email}


@pytest.mark.slow
def test_it_is_read_whole_and_changes_as_it_is_told(tmp_path: Path) -> None:
    sizes: dict[MemberKind, int] = {"repository": 2, "project": 1, "space": 1, "channel": 1}
    items = dict.fromkeys(HOLDERS, 2)
    with Organisation(tmp_path / "one", sizes=sizes, items=items) as acme:
        texts = read_texts(acme, tmp_path / "cache")
        assert len(acme.words) == 2 * 3 * 2 + 3 * 2
        assert [word for word in acme.words.values() if word not in texts] == []
        with Organisation(tmp_path / "two", sizes=sizes, items=items) as twin:
            assert list(twin.words.values()) == list(acme.words.values())
            assert len(acme.files) == 3 and twin.files == acme.files
            assert (twin.members, twin.readers) == (acme.members, acme.readers)

        acme.remove_member("repository", acme.members["repository"][1])
        acme.rename_repository(acme.members["repository"][0], "renamed")
        acme.add_member("space", items)
        for kind in HOLDERS:
            acme.edit(acme.pick(kind))
            acme.create(kind, acme.members[HOLDERS[kind]][0])
            acme.delete(acme.pick(kind))
        for (kind, member), logins in acme.readers.items():
            acme.revoke(kind, member, logins[0])
        texts = read_texts(acme, tmp_path / "cache")
        assert [word for word in acme.words.values() if word not in texts] == []
        assert acme.gone and [word for word in acme.gone if word in texts] == []
