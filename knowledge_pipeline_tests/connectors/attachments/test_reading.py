"""Which attachments are read, and what changes their revisions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from knowledge_pipeline.config.sources import AttachmentSettings
from knowledge_pipeline.connectors.attachments import AttachmentReader, attach, find_parent_uri
from knowledge_pipeline.errors import ConfigError
from knowledge_pipeline.records import Attachment, Document

TICKET = Document(
    "issue/1", "Fees", path="PROJ/PROJ-1", title="PROJ-1 Fees", url="https://jira/browse/PROJ-1"
)


def listed(*attachments: Attachment, **settings: object) -> dict[str, str | None]:
    """Why each is skipped, by uri."""
    reader = AttachmentReader("a", AttachmentSettings.model_validate(settings))
    document = replace(TICKET, attachments=attachments)
    return {item.uri: item.skip for item, _ in reader.list_items(document)}


def test_attachments_are_chosen_by_name_and_limited_by_size_and_number():
    fees = Attachment("7", "fees.pdf", "https://jira/7", size_bytes=100)
    odd = Attachment("../8", "folder/Notes.TXT", "https://jira/8")
    far = Attachment("9", "far.pdf", "https://jira/9", skip="kept by another service")
    picture = Attachment("10", "a.png", "https://jira/10")
    ours = "issue/1/attachments"
    assert listed(fees, odd, far, picture, fees) == {
        f"{ours}/7": None,
        f"{ours}/..%2F8": None,
        f"{ours}/9": "kept by another service",
    }
    assert find_parent_uri("jira", f"{ours}/..%2F8") == "issue/1"
    assert find_parent_uri("files", "docs/attachments/a.pdf") is None, "a folder of that name is a folder"
    assert listed(fees, max_bytes=99) == {f"{ours}/7": "larger than 99 bytes (100)"}
    assert listed(fees, odd, max_count=1)[f"{ours}/..%2F8"] == "more than 1 attachments at one document"
    assert list(listed(fees, odd, picture, include=["*.png", "fees*"], exclude=["fees*"])) == [f"{ours}/10"]
    with pytest.raises(ConfigError, match=r"attachments\.include has the pattern"):
        listed(include=["!"])


def test_a_revision_changes_with_the_file_and_the_reader_with_its_settings():
    def revision(**changes: object) -> str:
        file = replace(Attachment("7", "fees.pdf", "https://jira/7", "1"), **changes)
        [(item, _)] = AttachmentReader("a", AttachmentSettings()).list_items(
            replace(TICKET, attachments=(file,))
        )
        return item.revision

    same = {revision(), revision(address="https://other/7")}
    assert len(same) == 1 and len(same | {revision(revision="2"), revision(name="b.pdf")}) == 3
    read = [
        AttachmentReader("a", each).version
        for each in (AttachmentSettings(), AttachmentSettings(max_count=2))
    ]
    assert read[0] != read[1]


def test_hanging_again_on_the_same_document_changes_nothing():
    own = Document("issue/1/attachments/7", "Free", path="fees.pdf", title="fees.pdf", metadata={"pages": 2})
    ticket = replace(TICKET, metadata={"project": "PROJ", "status": "Done", "key": "PROJ-1"})
    hung = attach(own, ticket)
    assert attach(hung, ticket) == hung
    assert (hung.path, hung.title) == ("PROJ/PROJ-1/fees.pdf", "fees.pdf (attached to PROJ-1 Fees)")
    assert hung.metadata["project"] == "PROJ" and hung.metadata["pages"] == 2 and "key" not in hung.metadata
    assert "status" not in attach(hung, TICKET).metadata
