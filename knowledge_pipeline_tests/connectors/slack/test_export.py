"""Slack exports: zip files and folders, whole, broken and hostile."""

from __future__ import annotations

import json
import os
import tracemalloc
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from knowledge_pipeline.config.connections import SlackExportConnection
from knowledge_pipeline.connectors.base import ApiSource
from knowledge_pipeline.connectors.slack import export as slack_export_files
from knowledge_pipeline.connectors.slack.channels import SlackChannels
from knowledge_pipeline.connectors.slack.export import SlackExport
from knowledge_pipeline.connectors.slack.threads import ChannelFilters
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline_tests.fakes.slack.server import SlackServer
from knowledge_pipeline_tests.fakes.slack.site import SlackSite, write_export, zipped
from knowledge_pipeline_tests.thoroughness import examples

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def site() -> SlackSite:
    site = SlackSite()
    site.now = NOON
    return site


@pytest.fixture(params=["folder", "zip", "zip with a folder"])
def export(request, site, tmp_path):
    """Writes the site as it is, one way or another."""

    def written() -> Path:
        folder = write_export(site, tmp_path / "export")
        if request.param == "folder":
            return folder
        return zipped(folder, "" if request.param == "zip" else "Example export/")

    return written


def opened(path: Path, **filters) -> SlackExport:
    return SlackExport(SlackExportConnection(type="slack_export", path=path), ChannelFilters(**filters))


def listed(path: Path, **filters) -> dict[str, Item]:
    with opened(path, **filters) as source:
        items = list(source.discover())
    assert len({item.uri for item in items}) == len(items)
    return {item.uri: item for item in items}


def read(path: Path, **filters) -> dict[str, Document]:
    with opened(path, **filters) as source:
        return {item.uri: source.fetch(item) for item in list(source.discover()) if not item.skip}


def test_an_export_holds_the_same_documents_as_the_api(export, tmp_path):
    del export
    with SlackServer() as server:
        server.now = NOON
        root = server.post("question for <@U0BOB>")
        server.post("answer in <#C00000>", user="U0BOB", thread=root, at=NOON + 40 * DAY)
        server.post("also to all", thread=root, subtype="thread_broadcast", at=NOON + DAY)
        server.post("alone", user=None, subtype="bot_message", username="Deploys")
        gone = server.post("gone")
        server.post("kept", thread=gone)
        server.remove(gone)
        server.post("has joined", subtype="channel_join")
        server.post("other", server.channel("other"), at=NOON.replace(hour=23))
        found = read(write_export(server, tmp_path / "same"))
        with SlackChannels(server.connection, ChannelFilters(since="2020-01-01")) as channels:
            told = {item.uri: document for item, document in channels.fetch_many(list(channels.discover()))}
    assert found.keys() == told.keys()
    assert len(found) == 4
    for uri, document in found.items():
        assert (document.text, document.title, document.path) == (
            told[uri].text,
            told[uri].title,
            told[uri].path,
        )
        assert document.last_modified == told[uri].last_modified
        assert document.metadata["participants"] == told[uri].metadata["participants"]


def test_a_zip_and_a_folder_are_read_alike(site, export):
    site.create("On call", "who wakes up")
    root = site.post("question")
    site.post("late answer", thread=root, at=NOON + 40 * DAY)
    site.post("alone")
    site.post("private", site.channel("secret", is_private=True))
    found = read(export())
    assert [document.title for document in found.values()] == [
        "#general: On call",
        "#general: question",
        "#general on 2026-03-01",
    ]
    thread = found[f"thread/C00000/{root}"]
    assert thread.text.endswith("Message by Ada Lovelace, 2026-04-10:\nlate answer")
    assert thread.url is None
    assert listed(export())[thread.uri].locator == "2026-03-01 2026-04-10"


def test_it_is_a_plain_source_and_opens_nothing_before_it_is_asked(tmp_path):
    with opened(tmp_path / "nowhere") as source:
        assert not isinstance(source, ApiSource)
        with pytest.raises(SourceRefused, match=r"does not exist: correct connection\.path"):
            list(source.discover())


def test_a_new_export_of_the_same_gives_the_same_and_changes_are_seen(site, export):
    uri = site.create("On call", "who wakes up")
    alone, root = site.post("alone"), site.post("root")
    reply = site.post("reply", thread=root, at=NOON + DAY)
    before = listed(export())
    assert listed(export()) == before
    site.rewrite(reply, "edited reply")
    after = listed(export())
    thread = f"thread/C00000/{root}"
    assert {each for each in after if after[each] != before[each]} == {thread}
    assert read(export())[thread].text.endswith("edited reply")
    site.rewrite(alone, "other words")
    site.delete(uri)
    assert listed(export())["day/C00000/2026-03-01"] != before["day/C00000/2026-03-01"]
    assert uri not in listed(export())
    site.person("U0ADA", "Ada King")
    assert read(export())[thread].author == "Ada King"
    assert listed(export())[thread] != after[thread]


def test_the_channels_the_time_and_the_number_narrow_the_listing(site, export):
    other = site.channel("other")
    for age in range(4):
        site.post("here", at=NOON - age * DAY)
    site.post("there", other, at=NOON - 9 * DAY)
    assert set(listed(export(), channels=("#Other",))) == {f"day/{other}/2026-02-20"}
    assert set(listed(export(), channels=(other,))) == {f"day/{other}/2026-02-20"}
    assert set(listed(export(), since="2026-02-28")) == {"day/C00000/2026-03-01", "day/C00000/2026-02-28"}
    assert set(listed(export(), max_results=1)) == {"day/C00000/2026-03-01"}
    with pytest.raises(SourceRefused, match=r"no public channel nowhere: .* it has #general, #other$"):
        listed(export(), channels=("nowhere",))
    with pytest.raises(ConfigError, match="not a date"):
        opened(export(), since="soon")


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[" * 100_000, b'{"ok": true}', b""])
def test_a_broken_day_is_skipped_with_its_reason_and_the_others_are_read(site, tmp_path, content):
    for age in range(3):
        site.post(f"{age} days ago", at=NOON - age * DAY)
    folder = write_export(site, tmp_path / "export")
    (folder / "general" / "2026-02-28.json").write_bytes(content)
    for path in (folder, zipped(folder)):
        found = listed(path)
        assert "general/2026-02-28.json" in (found["day/C00000/2026-02-28"].skip or "")
        assert len(found) == 3
        assert len(read(path)) == 2


@pytest.mark.parametrize("form", ["folder", "zip", "zip with a folder"])
def test_channels_in_any_script_are_read_and_one_without_a_folder_is_told(site, tmp_path, form):
    names = ("équipe", "開発", "café")
    for name in names:
        site.post(f"words of {name}", site.channel(name))
    gone = site.channel("gone")
    site.channel("silent")
    path = write_export(site, tmp_path / "export")
    (path / "gone").rmdir()
    if form != "folder":
        path = zipped(path, "" if form == "zip" else "Été/")
    found = listed(path)
    assert found.pop(f"channel/{gone}").skip == "the export has no folder for #gone"
    assert {document.path for document in read(path).values()} == {f"#{name}/2026-03-01" for name in names}
    assert f"channel/{gone}" in listed(path, max_results=1)


def test_names_in_the_alphabet_of_old_zip_files_are_read_too(site, tmp_path):
    site.post("words", site.channel("équipe"))
    folder, path = write_export(site, tmp_path / "export"), tmp_path / "export.zip"

    class OldName(zipfile.ZipInfo):
        def _encodeFilenameFlags(self) -> tuple[bytes, int]:
            return self.filename.encode("cp437"), self.flag_bits

    with zipfile.ZipFile(path, "w") as archive:
        for file in sorted(folder.rglob("*.json")):
            archive.writestr(OldName(file.relative_to(folder).as_posix()), file.read_bytes())
    assert [document.path for document in read(path).values()] == ["#équipe/2026-03-01"]


def test_a_message_that_is_none_is_passed_over(site, tmp_path):
    site.post("kept")
    folder = write_export(site, tmp_path / "export")
    day = folder / "general" / "2026-03-01.json"
    odd = [None, 7, {}, {"ts": 1}, {"ts": "soon", "text": "x"}, {"ts": "1772366400.1", "text": None}]
    day.write_text(json.dumps([*odd, *json.loads(day.read_text())]))
    [document] = read(folder).values()
    assert document.text.endswith("\nkept")


MESSAGES = st.lists(
    st.dictionaries(
        st.sampled_from(
            ["text", "thread_ts", "reply_count", "user", "username", "edited", "subtype", "hidden"]
        ),
        st.none()
        | st.integers()
        | st.text(max_size=5)
        | st.sampled_from(["1772366400.000100", {"ts": "x"}, []]),
    ).map(lambda message: {"ts": "1772366400.000100", "text": "\ud800 words", **message}),
    max_size=4,
)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(60), deadline=None
)
@given(MESSAGES)
def test_whatever_a_day_holds_it_is_read_or_skipped(site, tmp_path, messages):
    folder = write_export(site, tmp_path / "export")
    (folder / "general").mkdir(exist_ok=True)
    (folder / "general" / "2026-03-01.json").write_text(json.dumps(messages))
    for document in read(folder).values():
        document.text.encode()
        json.dumps(document.metadata, ensure_ascii=False).encode()


def test_edits_and_deletions_of_an_export_with_their_log_are_told_once(site, tmp_path):
    site.post("as it is now", edited={"user": "U0ADA", "ts": "1772366500.000000"})
    site.post("before", subtype="message_deleted", original={"text": "before"})
    site.post("", subtype="message_changed", hidden=True, message={"text": "as it was"})
    [document] = read(write_export(site, tmp_path / "export")).values()
    assert document.text.count("Message by") == 1
    assert document.text.endswith("as it is now")
    assert document.last_modified == datetime.fromtimestamp(1772366500, UTC)


@pytest.mark.parametrize(
    "name", ["../outside/2026-03-01.json", "/etc/2026-03-01.json", "a\\..\\..\\b.json", "C:\\b.json"]
)
def test_a_zip_that_leads_out_of_itself_is_refused(site, tmp_path, name):
    path = zipped(write_export(site, tmp_path / "export"))
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, "[]")
    with pytest.raises(SourceRefused, match="holds a file that leads out of it"):
        listed(path)


def test_a_link_in_a_zip_is_refused(site, tmp_path):
    path = zipped(write_export(site, tmp_path / "export"))
    entry = zipfile.ZipInfo("general/2026-03-01.json")
    entry.external_attr = 0o120777 << 16
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(SourceRefused, match="leads out of it"):
        listed(path)


def test_a_folder_is_not_left_by_a_link_or_a_channels_name(site, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "2026-03-01.json").write_text('[{"ts": "1772366400.0", "text": "secret"}]')
    folder = write_export(site, tmp_path / "export")
    (folder / "general").rmdir()
    os.symlink(outside, folder / "general")
    with pytest.raises(SourceRefused, match="leads out of its folder"):
        listed(folder)
    (folder / "general").unlink()
    for name in ("../outside", "..", "a/b"):
        (folder / "channels.json").write_text(json.dumps([{"id": "C1", "name": name}]))
        with pytest.raises(SourceRefused, match=r"names a channel .* which leads out of it"):
            listed(folder)


@pytest.mark.parametrize("content", [b"no zip at all", b"PK\x05\x06" + b"\0" * 18, b""])
def test_what_is_no_export_is_refused_in_a_sentence(tmp_path, content):
    path = tmp_path / "export.zip"
    path.write_bytes(content)
    with pytest.raises(SourceRefused, match=r"is not a readable zip file|is not a Slack export"):
        listed(path)


def test_a_folder_without_channels_is_no_export_and_broken_lists_are_told(site, tmp_path):
    with pytest.raises(SourceRefused, match=r"not a Slack export: it has no channels\.json"):
        listed(tmp_path)
    folder = write_export(site, tmp_path / "export")
    (folder / "channels.json").write_text("{")
    with pytest.raises(SourceRefused, match=r"is broken \(channels.json is not valid JSON\)"):
        listed(folder)
    (folder / "channels.json").write_text('[{"name": "general"}]')
    with pytest.raises(SourceRefused, match="not a Slack export"):
        listed(folder)


def test_without_users_people_are_named_as_their_messages_do(site, tmp_path):
    site.post("hello <@U0BOB>", user_profile={"display_name": "ada"})
    folder = write_export(site, tmp_path / "export")
    (folder / "users.json").unlink()
    [document] = read(folder).values()
    assert document.metadata["participants"] == ["ada"]
    assert document.text.endswith("hello @someone")


def test_a_day_that_is_damaged_in_the_zip_or_too_large_is_skipped(site, tmp_path, monkeypatch):
    site.post("words " * 50)
    site.post("few", at=NOON + DAY)
    path = zipped(write_export(site, tmp_path / "export"))
    monkeypatch.setattr(slack_export_files, "MAX_FILE_BYTES", 280)
    found = listed(path)
    assert found["day/C00000/2026-03-01"].skip == "general/2026-03-01.json is larger than 280 bytes"
    assert found["day/C00000/2026-03-02"].skip is None
    monkeypatch.undo()
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo("general/2026-03-01.json").header_offset + 60
    content = bytearray(path.read_bytes())
    content[start : start + 8] = b"\xff" * 8
    path.write_bytes(content)
    assert "cannot be unpacked" in (listed(path)["day/C00000/2026-03-01"].skip or "")


def test_what_is_removed_while_it_is_read_is_skipped_as_such(site, tmp_path):
    site.post("here")
    folder = write_export(site, tmp_path / "export")
    with opened(folder) as source:
        [item] = source.discover()
    (folder / "general" / "2026-03-01.json").unlink()
    with opened(folder) as source, pytest.raises(DocumentSkipped, match="deleted while it was read"):
        source.fetch(item)
    (folder / "channels.json").write_text("[]")
    with opened(folder) as source, pytest.raises(DocumentSkipped, match="deleted while it was read"):
        source.fetch(item)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_export(tmp_path):
    peaks: list[int] = []
    for days in (10, 40):
        site = SlackSite()
        for day in range(days):
            for n in range(50):
                site.post("some words " * 40, at=NOON - day * DAY + timedelta(minutes=n))
        path = zipped(write_export(site, tmp_path / f"export{days}"))
        tracemalloc.start()
        with opened(path) as source:
            size = sum(len(source.fetch(item).text) for item in source.discover())
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert size > 900_000
    assert peaks[1] < 1.6 * peaks[0]
