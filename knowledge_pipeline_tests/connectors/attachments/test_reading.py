"""Which attachments are read, and what changes their revisions."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from knowledge_pipeline.config.sources import AttachmentSettings
from knowledge_pipeline.connectors import attachments
from knowledge_pipeline.connectors.attachments import AttachmentReader, attach, find_parent_uri
from knowledge_pipeline.connectors.base import ApiSource
from knowledge_pipeline.errors import ConfigError, DocumentSkipped
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


def test_attachments_of_other_formats_are_counted_by_their_endings():
    names = ["a.PNG", "b.png", "c.vsd", "plain", "fees.pdf", "left.out", ".hidden.vsd"]
    files = tuple(Attachment(name, name, f"https://jira/{name}") for name in names)
    reader = AttachmentReader("a", AttachmentSettings(exclude=("*.out",), max_count=1))
    for parent in (TICKET, replace(TICKET, uri="issue/2")):
        listed_files = list(reader.list_items(replace(parent, attachments=(*files, *files))))
        assert [attachment.name for _, attachment in listed_files] == ["fees.pdf"]
        assert listed_files[0][0].skip is None, "what is not read does not count"
    assert reader.notes == {"attachments of other formats (4 .png, 2 .vsd, 2 without an ending)": 8}
    chosen = AttachmentReader("a", AttachmentSettings(include=("*.pdf",)))
    assert len(list(chosen.list_items(replace(TICKET, attachments=files)))) == 1 and not chosen.notes


class Kept(ApiSource):
    """A service that has a file for each name."""

    def discover(self):
        return iter(())

    def discover_updated(self, since):
        return iter(())

    def close(self):
        pass

    def fetch_many(self, items):
        return iter(())

    def download(self, attachment, max_bytes):
        return b"%PDF-1.7 broken" if attachment.name.startswith("bad") else b"plain text"


UNREADABLE = """
import time
from knowledge_pipeline.errors import DocumentSkipped

def read(name, payload):
    if name.startswith("waits"):
        time.sleep(0.6)
    started_s = time.process_time()
    while name.startswith("works") and time.process_time() - started_s < 0.6:
        pass
    raise DocumentSkipped("not for us")
"""


def test_a_parser_that_waits_takes_nothing_of_the_time_in_vain(tmp_path, monkeypatch):
    """What others do on the machine meanwhile is not the files' fault."""
    (tmp_path / "unreadable.py").write_text(UNREADABLE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(attachments, "MAX_LOST_S", 0.5)
    names = ("waits1.txt", "waits2.txt", "works.txt", "last.txt")
    files = tuple(Attachment(name, name, f"https://jira/{name}") for name in names)
    reader = AttachmentReader("a", AttachmentSettings(), "unreadable:read")
    reasons = []
    with closing(reader):
        for item, attachment in reader.list_items(replace(TICKET, attachments=files)):
            with pytest.raises(DocumentSkipped) as skipped:
                reader.read(Kept(), item, attachment)
            reasons.append(str(skipped.value))
    assert reasons[:3] == ["not for us"] * 3
    assert "for 1 s in vain" in reasons[3]


def test_parsers_run_in_vain_for_so_long_and_no_longer(monkeypatch):
    """A source's hostile files do not hold its refresh for as long as there are some of them."""
    files = tuple(
        Attachment(name, name, f"https://jira/{name}") for name in ("bad1.pdf", "bad2.pdf", "a.txt")
    )
    reader = AttachmentReader("a", AttachmentSettings())
    listed_files = list(reader.list_items(replace(TICKET, attachments=files)))
    with closing(reader):
        for item, attachment in listed_files[:2]:
            with pytest.raises(DocumentSkipped) as skipped:
                reader.read(Kept(), item, attachment)
            assert "in vain" not in str(skipped.value)
        assert reader.read(Kept(), *listed_files[2]).text.strip() == "plain text"
        monkeypatch.setattr(attachments, "MAX_LOST_S", 1e-6)
        with pytest.raises(DocumentSkipped, match=r"in vain: exclude these, then run `knowledge reindex"):
            reader.read(Kept(), *listed_files[2])
