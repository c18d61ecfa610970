"""The fake organisation holds what it says, of one seed always the same, and changes as it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from knowledge_pipeline.config.settings import Settings
from knowledge_pipeline.sources.organisations import confluence, github, jira, slack
from knowledge_pipeline_tests.fakes.organisation import Organisation
from knowledge_pipeline_tests.fakes.organisation_services import HOLDERS, MemberKind
from knowledge_pipeline_tests.sources.repositories import read

LISTINGS: dict[str, tuple[str, Any]] = {
    "code": ("repository", github.list_members),
    "tickets": ("project", jira.list_members),
    "wiki": ("space", confluence.list_members),
    "chat": ("channel", slack.list_members),
}


def read_texts(acme: Organisation, cache: Path) -> str:
    """Everything that the sources of all listed members read; the listings are those that it has."""
    texts: list[str] = []
    for organisation in Settings.model_validate({"organisations": acme.declare()}).organisations:
        kind, list_members = LISTINGS[organisation.id]
        members = list(list_members(organisation.connection))
        assert sorted(each.name for each in members) == sorted(acme.members[kind])
        for source in (source for member in members for source in organisation.build_sources(member)):
            texts += [document.text for document in read(source, cache).values()]
    return "\n".join(texts)


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
            assert (twin.members, twin.readers) == (acme.members, acme.readers)

        acme.remove_member("repository", acme.members["repository"][1])
        acme.rename_repository(acme.members["repository"][0], "renamed")
        acme.add_member("space", items)
        for kind in HOLDERS:
            acme.edit(acme.pick(kind))
            acme.create(kind, acme.members[HOLDERS[kind]][0])
            acme.delete(acme.pick(kind))
        texts = read_texts(acme, tmp_path / "cache")
        assert [word for word in acme.words.values() if word not in texts] == []
        assert acme.gone and [word for word in acme.gone if word in texts] == []
