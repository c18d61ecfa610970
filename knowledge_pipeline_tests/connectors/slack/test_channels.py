"""Slack's connector against a small Slack that moves, limits and refuses."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from knowledge_pipeline.connectors.base import ApiSource, pausing_by
from knowledge_pipeline.connectors.slack.channels import OVERLAP, SlackChannels
from knowledge_pipeline.connectors.slack.threads import ChannelFilters
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document
from knowledge_pipeline.stages.context import Stats
from knowledge_pipeline_tests.fakes.slack.server import SlackServer

NOW = datetime.now(UTC).replace(microsecond=0)
NOON = NOW.replace(hour=12, minute=0, second=0) - timedelta(days=2)
DAY = timedelta(days=1)


@pytest.fixture
def server() -> Iterator[SlackServer]:
    with SlackServer() as server, pausing_by(lambda _: None):
        server.now = NOON
        yield server


def channels_of(server: SlackServer, **filters) -> SlackChannels:
    return SlackChannels(server.connection, ChannelFilters(**filters))


def listed(server: SlackServer, **filters) -> dict[str, str]:
    with channels_of(server, **filters) as channels:
        items = list(channels.discover())
    assert len({item.uri for item in items}) == len(items)
    return {item.uri: item.revision for item in items}


def updated(server: SlackServer, moment: datetime, **filters) -> dict[str, str]:
    with channels_of(server, **filters) as channels:
        return {item.uri: item.revision for item in channels.discover_updated(moment)}


def read(server: SlackServer, **filters) -> dict[str, Document | DocumentSkipped]:
    """Listed and read by one, and again by another, which was not there when they were listed."""
    with channels_of(server, **filters) as channels:
        items = list(channels.discover())
        found = {item.uri: document for item, document in channels.fetch_many(items)}
    with channels_of(server, **filters) as later:
        again = {item.uri: document for item, document in later.fetch_many(items)}
    assert {uri: str(each) for uri, each in again.items()} == {uri: str(each) for uri, each in found.items()}
    assert set(found) == {item.uri for item in items}
    return found


def day(moment: datetime = NOON, channel: str = "C00000") -> str:
    return f"day/{channel}/{moment.date().isoformat()}"


def said_in(document: Document | DocumentSkipped) -> list[str]:
    """What each turn says, without who and when."""
    assert isinstance(document, Document), document
    starts = [segment["start_char"] for segment in document.metadata["segments"]][1:]
    parts = [document.text[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]
    return [part.strip().partition("\n")[2] for part in parts]


def test_it_is_a_service_and_asks_nobody_before_it_is_asked(server):
    with channels_of(server) as channels:
        assert isinstance(channels, ApiSource)
    assert server.requests == []


def test_a_thread_is_one_document_and_all_else_of_a_day_another(server):
    root = server.post("who is *on call*? see <https://a.example|the rota>")
    server.post("first")
    server.post("I am", user="U0BOB", thread=root, at=NOON + timedelta(hours=30))
    server.post("second", user="U0BOB")
    found = read(server)
    thread = found[f"thread/C00000/{root}"]
    assert set(found) == {thread.uri, day()}
    date = NOON.date().isoformat()
    assert thread.text == (
        "#general: who is on call? see [the rota](https://a.example)\n\n"
        f"Message by Ada Lovelace, {date}:\nwho is *on call*? see [the rota](https://a.example)\n\n"
        f"Message by Bob, {(NOON + DAY).date().isoformat()}:\nI am"
    )
    assert thread.title == "#general: who is on call? see [the rota](https://a.example)"
    assert thread.path == f"#general/{date}/12:00:00"
    assert thread.url == f"https://example.slack.com/archives/C00000/p{root.replace('.', '')}"
    assert thread.author == "Ada Lovelace"
    assert thread.last_modified.replace(microsecond=0) == NOON + timedelta(hours=30)
    assert thread.metadata["participants"] == ["Ada Lovelace", "Bob"]
    assert (thread.metadata["channel"], thread.metadata["messages"]) == ("general", 2)
    reply = thread.metadata["segments"][2]
    assert reply["url"].endswith(f"?thread_ts={root}&cid=C00000")
    assert (reply["kind"], reply["author"]) == ("message", "Bob")
    assert said_in(found[day()]) == ["first", "second"]
    assert (found[day()].title, found[day()].path) == (f"#general on {date}", f"#general/{date}")


def test_days_are_those_of_utc_and_messages_ascend(server):
    midnight = NOON.replace(hour=0)
    server.post("b", at=midnight)
    server.post("c", at=midnight + DAY - timedelta(seconds=1))
    server.post("a", at=midnight - timedelta(seconds=1))
    found = read(server)
    assert said_in(found[day()]) == ["b", "c"]
    assert said_in(found[day(NOON - DAY)]) == ["a"]


def test_what_nobody_said_is_left_out_and_what_bots_said_is_taken(server):
    for subtype in ("channel_join", "channel_topic", "pinned_item", "bot_add"):
        server.post("has done so", subtype=subtype)
    assert listed(server) == {}
    server.post("", user=None, subtype="bot_message", username="Deploys", attachments=[{"text": "*done*"}])
    server.post("", files=[{"name": "plan.pdf"}])
    server.post("<@U0BOB> in <#C00000>", user="U0GONE", user_profile={"real_name": "Carol"})
    found = read(server)[day()]
    assert said_in(found) == ["*done*", "Files: plan.pdf", "@Bob in #general"]
    assert found.metadata["participants"] == ["Ada Lovelace", "Carol", "Deploys"]


def test_somebody_of_another_workspace_is_asked_for_by_name_once(server):
    server.person("U9EXT", "Eve Else", stranger=True)
    server.post("hello", user="U9EXT")
    server.post("<@U9EXT> <@U9NOBODY> <@U9NOBODY>")
    with channels_of(server) as channels:
        [(_, found)] = channels.fetch_many(list(channels.discover()))
    assert said_in(found) == ["hello", "@Eve Else @someone @someone"]
    assert server.calls["users.info"] == 2


def test_replies_to_a_deleted_root_and_to_a_joining_are_kept(server):
    gone = server.post("secret plan")
    server.post("good plan", thread=gone)
    server.remove(gone)
    joined = server.post("has joined the channel", subtype="channel_join")
    server.post("welcome", thread=joined)
    found = read(server)
    assert set(found) == {f"thread/C00000/{gone}", f"thread/C00000/{joined}"}
    assert said_in(found[f"thread/C00000/{gone}"]) == ["good plan"]
    assert found[f"thread/C00000/{gone}"].title == "#general: good plan"
    assert found[f"thread/C00000/{gone}"].author is None
    assert said_in(found[f"thread/C00000/{joined}"]) == ["welcome"]


def test_a_reply_that_was_also_sent_to_the_channel_is_of_its_thread_alone(server):
    root = server.post("question")
    server.post("answer", thread=root, subtype="thread_broadcast")
    found = read(server)
    assert set(found) == {f"thread/C00000/{root}"}
    assert said_in(found[f"thread/C00000/{root}"]) == ["question", "answer"]


@pytest.mark.parametrize("messages", [3, 4, 5, 9])
def test_pages_of_all_sizes_give_the_same(server, messages):
    roots = [server.post(f"root {n}", at=NOON - n * DAY) for n in range(messages)]
    for n, root in enumerate(roots):
        server.post(f"alone {n}", at=NOON - n * DAY)
        for reply in range(messages):
            server.post(f"reply {reply}", thread=root)
    whole = read(server)
    server.most_a_call = 2
    assert read(server) == whole
    assert said_in(whole[f"thread/C00000/{roots[0]}"]) == ["root 0", *(f"reply {n}" for n in range(messages))]
    assert len(whole) == 2 * messages


@pytest.mark.parametrize(
    "change",
    [
        lambda server, root, reply, alone: server.rewrite(alone, "other words"),
        lambda server, root, reply, alone: server.remove(alone),
        lambda server, root, reply, alone: server.post("one more"),
        lambda server, root, reply, alone: server.post("a reply", thread=alone),
    ],
)
def test_whatever_changes_a_day_changes_its_revision_alone(server, change):
    root = server.post("root")
    reply, alone, _ = server.post("reply", thread=root), server.post("alone"), server.post("more")
    before = listed(server)
    assert listed(server) == before
    change(server, root, reply, alone)
    after = listed(server)
    assert after[day()] != before[day()]
    assert after[f"thread/C00000/{root}"] == before[f"thread/C00000/{root}"]


@pytest.mark.parametrize(
    "change",
    [
        lambda server, root, reply: server.rewrite(root, "other words"),
        lambda server, root, reply: server.remove(root),
        lambda server, root, reply: server.remove(reply),
        lambda server, root, reply: server.post("one more", thread=root),
    ],
)
def test_whatever_changes_a_thread_changes_its_revision_alone(server, change):
    root, _ = server.post("root"), server.post("alone")
    reply, _ = server.post("reply", thread=root), server.post("another", thread=root)
    before, document = listed(server), read(server)[f"thread/C00000/{root}"]
    change(server, root, reply)
    after = listed(server)
    assert after[f"thread/C00000/{root}"] != before[f"thread/C00000/{root}"]
    assert after[day()] == before[day()]
    assert read(server)[f"thread/C00000/{root}"] != document


def test_a_renamed_channel_keeps_its_uris_and_gets_new_revisions(server):
    uri = server.create("a", "b")
    before = listed(server)
    server.rooms["C00000"].name = "lobby"
    after = listed(server)
    assert before.keys() == after.keys()
    assert before[uri] != after[uri]
    assert read(server)[uri].path.startswith("#lobby/")


def test_made_edited_deleted(server):
    uri = server.create("On call", "who wakes up")
    assert "who wakes up" in read(server)[uri].text
    server.edit(uri, "nobody")
    assert said_in(read(server)[uri])[0] == "On call\nnobody"
    server.delete(uri)
    assert listed(server) == {}


def test_without_names_the_public_channels_that_the_bot_is_in_are_read(server):
    server.post("here")
    server.post("not invited", server.channel("closed", is_member=False))
    server.post("private", server.channel("secret", is_private=True))
    server.post("old", server.channel("old", is_archived=True))
    assert set(listed(server)) == {day()}
    assert {request.parameters.get("types") for request in server.requests} <= {"public_channel", None}


def test_named_channels_are_read_archived_and_private_ones_too(server):
    server.post("here")
    private, old = server.channel("secret", is_private=True), server.channel("old", is_archived=True)
    server.post("private", private)
    server.post("old", old)
    assert set(listed(server, channels=("#Secret", old))) == {day(channel=private), day(channel=old)}
    with pytest.raises(SourceRefused, match=r"no channel elsewhere, nowhere: correct the source's channels"):
        listed(server, channels=("elsewhere", "nowhere"))
    server.scopes -= {"groups:read", "groups:history"}
    with pytest.raises(SourceRefused, match=r"no channel secret: .* groups:read"):
        listed(server, channels=("secret",))
    assert set(listed(server, channels=("general",))) == {day()}


def test_one_channel_by_its_id_needs_no_list_of_all(server):
    """Of an organisation's hundreds of channels each is a source of its own."""
    other = server.channel("other")
    server.post("plain")
    assert set(listed(server, channels=("C00000",))) == {day()}
    assert server.calls["conversations.info"] == 1 and not server.calls["conversations.list"]
    server.post(f"see <#{other}>")
    assert "see #other" in read(server, channels=("C00000",))[day()].text
    with pytest.raises(SourceRefused, match=r"no channel C0NOWHERE: correct the source's channels"):
        listed(server, channels=("C0NOWHERE",))


@pytest.mark.parametrize("is_archived", [True, False])
def test_a_channel_that_can_no_longer_be_read_is_told_and_the_others_are_read(server, is_archived):
    server.post("here")
    old = server.channel("old")
    server.post("old", old)
    names = ("general", "old")
    assert set(listed(server, channels=names)) == {day(), day(channel=old)}
    server.rooms[old].is_member, server.rooms[old].is_archived = False, is_archived  # a bot leaves with it
    with channels_of(server, channels=names, max_results=1) as channels:
        for items in (
            channels.discover(),
            channels.discover_updated(NOON),
            channels.discover_named([day(channel=old)]),
        ):
            [item] = [item for item in items if item.uri != day()]
            assert item.uri == f"channel/{old}"
            assert item.keeps == (f"day/{old}/", f"thread/{old}/")
            assert "does not let the bot read #old (not_in_channel): invite it" in (item.skip or "")


@pytest.mark.slow
def test_documents_of_a_channel_that_can_no_longer_be_read_stay_while_others_change(server, project):
    def refresh(**options) -> Stats:
        outcome = project.refresh(**options)
        assert not outcome.failures
        return next(stats for stats in outcome.stats if stats.stage == "snapshot")

    def live() -> set[str]:
        rows = project.lake.snapshot("slack", "chat").read_rows(["uri", "archived_at", "skipped"]).to_pylist()
        return {row["uri"] for row in rows if row["archived_at"] is None and row["skipped"] is None}

    connection = {"type": "slack", "url": server.url, "token": server.token}
    project.sources["chat"] = {
        **{"id": "chat", "type": "slack", "connection": connection},
        "channels": ["general", "old"],
    }
    server.post("here")
    old = server.channel("old")
    server.post("decided long ago", old)
    refresh()
    assert live() == {day(), day(channel=old)}
    server.rooms[old].is_member, server.rooms[old].is_archived = False, True
    server.post("more", at=NOON + DAY)
    for options in ({"relist": True}, {}, {"full": True}):
        told = refresh(**options)
        assert live() == {day(), day(NOON + DAY), day(channel=old)}
        [reason] = told.skipped
        assert "#old (not_in_channel)" in reason
    server.rooms[old].is_member = True
    server.remove(next(iter(server.rooms[old].messages)), old)
    assert not refresh(relist=True).skipped
    assert live() == {day(), day(NOON + DAY)}
    server.rooms[old].is_member = server.rooms["C00000"].is_member = False
    [failure] = project.refresh(relist=True).failures.values()
    assert "#general (not_in_channel)" in str(failure)
    assert live() == {day(), day(NOON + DAY)}


@pytest.mark.slow
@pytest.mark.parametrize("by_id", [True, False])
def test_documents_of_a_named_channel_that_is_not_listed_any_more_stay_while_others_change(
    server, project, by_id
):
    """A private channel that the bot left is in no list, and found by no id."""

    def refresh(**options) -> Stats:
        outcome = project.refresh(**options)
        assert not outcome.failures
        return next(stats for stats in outcome.stats if stats.stage == "snapshot")

    def live() -> set[str]:
        rows = project.lake.snapshot("slack", "chat").read_rows(["uri", "archived_at", "skipped"]).to_pylist()
        return {row["uri"] for row in rows if row["archived_at"] is None and row["skipped"] is None}

    secret = server.channel("secret", is_private=True)
    connection = {"type": "slack", "url": server.url, "token": server.token}
    project.sources["chat"] = {
        **{"id": "chat", "type": "slack", "connection": connection},
        "channels": ["general", secret if by_id else "#Secret"],
    }
    first = server.post("here")
    server.post("decided among few", secret)
    refresh()
    assert live() == {day(), day(channel=secret)}
    room = server.rooms.pop(secret)
    server.remove(first)
    server.post("more", at=NOON + DAY)
    for options in ({"relist": True}, {}, {"full": True}, {"documents": (f"chat/{day(channel=secret)}",)}):
        told = refresh(**options)
        assert live() == {day(NOON + DAY), day(channel=secret)}, options
        [reason] = told.skipped
        assert f"shows no channel {secret if by_id else '#Secret'}: correct the source's" in reason
    server.rooms[secret] = room
    assert not refresh(relist=True).skipped
    assert live() == {day(NOON + DAY), day(channel=secret)}


def test_the_files_of_a_forwarded_message_hang_on_the_one_that_forwards_it(server):
    file = {"id": "F7", "name": "trace.txt", "size": 3, "url_private": "https://files.example/F7"}
    share = {"is_share": True, "from_url": "https://example.slack.com/archives/C1/p1", "text": "it hangs"}
    server.post("who knows?", attachments=[{**share, "files": [file]}])
    preview = {"from_url": "https://a.example", "title": "A site", "files": [{**file, "id": "F8"}]}
    server.post("see <https://a.example>", attachments=[preview])
    found = read(server)[day()]
    assert isinstance(found, Document)
    assert [(attached.id, attached.name) for attached in found.attachments] == [("F7", "trace.txt")]
    assert "it hangs" in found.text and "A site" not in found.text


def test_channels_of_many_pages_are_all_found(server, monkeypatch):
    monkeypatch.setattr("knowledge_pipeline.connectors.slack.channels._WORKSPACE_PAGE_SIZE", 3)
    for n in range(20):  # some pages of the list are empty: what is archived is taken out of them
        channel = server.channel(f"room-{n:02}", is_archived=3 <= n < 15)
        server.person(f"U{n:04}", f"Person {n}")
        server.post("hello", channel, user=f"U{n:04}")
    found = read(server)
    assert {document.metadata["participants"][0] for document in found.values()} == {
        f"Person {n}" for n in (*range(3), *range(15, 20))
    }


def test_a_bot_in_no_channel_is_told_to_be_invited(server):
    server.rooms["C00000"].is_member = False
    with pytest.raises(SourceRefused, match=r"in no public channel of Slack at 127\.0\.0\.1: invite it"):
        listed(server)


def test_a_channel_that_the_bot_was_removed_from_is_not_one_that_is_empty(server):
    server.post("here")
    with channels_of(server, channels=("general",)) as channels:
        items = list(channels.discover())
    server.rooms["C00000"].is_member = False
    with pytest.raises(SourceRefused, match=r"#general \(not_in_channel\): invite it .* nothing is deleted"):
        listed(server, channels=("general",))
    with (
        channels_of(server, channels=("general",)) as channels,
        pytest.raises(SourceRefused, match="#general"),
    ):
        list(channels.fetch_many(items))


def test_since_takes_whole_days_and_a_year_is_the_default(server):
    for age in (0, 10, 300, 400):
        server.post(f"{age} days ago", at=NOON - age * DAY)
    assert set(listed(server)) == {day(NOON - age * DAY) for age in (0, 10, 300)}
    assert len(listed(server, since="2000-01-01")) == 4
    early, late = NOON.replace(hour=1), NOON.replace(hour=23)
    server.post("early", at=early)
    server.post("late", at=late)
    assert said_in(read(server, since=NOON.isoformat())[day()]) == ["early", "0 days ago", "late"]
    with pytest.raises(ConfigError, match="not a date"):
        channels_of(server, since="soon")


def test_the_most_recent_are_taken_where_a_number_is_given(server):
    old = server.post("old root", at=NOON - 30 * DAY)
    for age in range(1, 5):
        server.post("hello", at=NOON - age * DAY)
    server.post("new reply", thread=old)
    assert set(listed(server, max_results=2)) == {f"thread/C00000/{old}", day(NOON - DAY)}


def test_a_refresh_lists_the_days_since_whole_and_no_more(server):
    for age in range(10):
        server.post(f"{age} days ago", at=NOON - age * DAY)
    assert set(updated(server, NOON)) == {day(NOON - age * DAY) for age in range(OVERLAP.days + 1)}
    everything = listed(server)
    assert all(everything[uri] == revision for uri, revision in updated(server, NOON).items())
    oldest = updated(server, NOON, since=(NOON - DAY).isoformat())
    assert set(oldest) == {day(), day(NOON - DAY)}


def test_a_refresh_sees_edits_deletions_and_replies_within_the_overlap(server):
    edited = server.post("edited", at=NOON - 2 * DAY)
    root = server.post("root", at=NOON - 2 * DAY)
    before = updated(server, NOON)
    server.rewrite(edited, "new words")
    after = updated(server, NOON)
    assert after.keys() == before.keys()
    assert after != before
    server.post("reply", thread=root)
    assert f"thread/C00000/{root}" in updated(server, NOON)


def test_a_refresh_asks_once_a_channel_and_reads_only_what_is_new(server):
    for name in ("one", "two"):
        channel = server.channel(name)
        for n in range(30):
            server.post(f"message {n}", channel, at=NOON - n * DAY)
    root = server.post("root", at=NOON)
    before = listed(server)
    server.post("a reply", thread=root)
    server.requests.clear()
    with channels_of(server) as channels:
        items = [item for item in channels.discover_updated(NOON) if before.get(item.uri) != item.revision]
        [(item, found)] = channels.fetch_many(items)
    assert said_in(found) == ["root", "a reply"]
    assert item.uri == f"thread/C00000/{root}"
    assert server.calls == {
        "conversations.list": 1,
        "conversations.history": 3,
        "conversations.replies": 1,
        "users.list": 1,
        "auth.test": 1,
    }


def test_days_that_lie_together_are_read_together(server, monkeypatch):
    monkeypatch.setattr("knowledge_pipeline.connectors.slack.channels._MAX_CACHED_MESSAGES", 10)
    for n in range(300):
        server.post(f"message {n}", at=NOON - (n // 10) * DAY)
    server.post("long ago", at=NOON - 90 * DAY)
    with channels_of(server) as channels:
        items = list(channels.discover())
        asked = len(server.requests)
        found = dict(channels.fetch_many(items))
    assert asked == 3
    assert len(found) == 31
    assert all(isinstance(document, Document) for document in found.values())
    assert server.calls["conversations.history"] == 2 + 3  # 200 and 90 messages, and the old day


def test_what_is_kept_of_a_listing_is_what_was_listed(server):
    ts = server.post("as listed")
    with channels_of(server) as channels:
        [item] = channels.discover()
        server.rewrite(ts, "edited since")
        assert said_in(channels.fetch(item)) == ["as listed"]
        assert said_in(channels.fetch(item)) == ["edited since"]


def test_what_is_deleted_while_it_is_read_is_skipped_as_such(server):
    uri, kept = server.create("a", "b"), server.post("kept", at=NOON - DAY)
    alone = server.post("alone", at=NOON - 30 * DAY)
    no_more, reply = server.post("root"), None
    reply = server.post("only reply", thread=no_more)
    with channels_of(server) as channels:
        items = list(channels.discover())
    server.delete(uri)
    server.remove(alone)
    server.remove(reply)
    with channels_of(server) as channels:
        found = {item.uri: document for item, document in channels.fetch_many(items)}
        with pytest.raises(DocumentSkipped, match="deleted while it was read"):
            channels.fetch(next(item for item in items if item.uri == uri))
    gone = {uri, day(NOON - 30 * DAY), f"thread/C00000/{no_more}"}
    assert {each for each, found in found.items() if str(found) == "deleted while it was read"} == gone
    assert said_in(found[day(NOON - DAY)]) == ["kept"]
    assert kept


def test_a_thread_in_which_nobody_said_anything_is_empty(server):
    root = server.post("has joined", subtype="channel_join")
    server.post("pinned", subtype="pinned_item", thread=root)
    assert {str(document) for document in read(server).values()} == {"empty"}


def test_nothing_is_lost_while_messages_come_and_go_between_pages(server):
    server.most_a_call = 3
    times = [server.post(f"message {n}", at=NOON - timedelta(hours=n)) for n in range(30)]
    kept = listed(server)
    doomed = iter(times[::7])

    def meanwhile(method: str, parameters: dict[str, str]) -> None:
        if method == "conversations.history":
            server.post("new", at=NOW)
            if (ts := next(doomed, None)) is not None:
                server.remove(ts)

    server.before_page = meanwhile
    assert set(listed(server)) >= kept.keys()
    server.before_page = lambda method, parameters: None
    said = [text for document in read(server).values() for text in said_in(document)]
    assert sorted(each for each in said if each != "new") == sorted(
        f"message {n}" for n, ts in enumerate(times) if ts not in times[::7]
    )


def test_failures_and_limits_are_waited_for(server):
    uri = server.create("a", "b")
    for trouble in (
        lambda: server.fail_next(4, status=503),
        lambda: server.fail_next(4, status=429, Retry_After="1"),
        lambda: server.cut_off_next(4),
        lambda: server.answer_next(b'{"ok": false, "error": "internal_error"}'),
        lambda: server.answer_next(b'{"ok": false, "error": "ratelimited"}'),
        lambda: server.limit(after=1, reset_s=1),
    ):
        trouble()
        assert set(listed(server)) == {uri}
    assert server.calls["conversations.list"] > 6 + 12


def test_a_limit_is_waited_for_as_long_as_slack_says(server):
    server.create("a", "b")
    waited: list[float] = []
    server.limit(after=1, reset_s=7)
    with SlackChannels(server.connection, ChannelFilters()) as channels, pausing_by(waited.append):
        assert list(channels.discover())
    assert waited == [7.0]


def test_a_long_limit_says_until_when_and_what_was_read_is_kept(server):
    for n in range(3):
        server.create(str(n), "b")
    with channels_of(server) as channels:
        items = list(channels.discover())
        server.limit(after=4, reset_s=3600)  # names, the address, and two threads
        found: list[str] = []
        with pytest.raises(SourceUnavailable, match=r"limits our calls until \d{4}-\d\d-\d\d \d\d:\d\d UTC"):
            found.extend(item.uri for item, _ in channels.fetch_many(items))
    assert len(found) == 2


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (lambda server: server.fail_next(9, status=503), "answered 503 to every attempt"),
        (lambda server: server.cut_off_next(9), "did not answer"),
        (lambda server: server.answer_next(b'{"ok": true}'), "without channels"),
        (lambda server: server.answer_next(b'{"ok": true, "channels": [7]}'), "without channels"),
        (lambda server: server.answer_next(b'{"ok": tru'), "something other than JSON"),
        (
            lambda server: server.answer_next(b'{"ok": true, "channels": [], "has_more": true}'),
            "does not end",
        ),
        (
            lambda server: [
                server.answer_next(
                    b'{"ok": true, "channels": [], "response_metadata": {"next_cursor": "same"}}'
                )
                for _ in range(3)
            ],
            "does not end",
        ),
        (
            lambda server: [
                server.answer_next(
                    b'{"ok": true, "channels": [], "response_metadata": {"next_cursor": "%d"}}' % number
                )
                for number in range(150)
            ],
            "does not end .*: nothing is deleted",
        ),
        (
            lambda server: [server.answer_next(b'{"ok":false,"error":"fatal_error"}') for _ in range(9)],
            "failed at",
        ),
    ],
)
def test_no_listing_that_is_not_whole_is_taken_for_one(server, trouble, message):
    server.create("a", "b")
    trouble(server)
    with pytest.raises(SourceUnavailable, match=message):
        listed(server)


def test_a_history_out_of_order_is_not_believed(server):
    server.create("a", "b")
    with channels_of(server) as channels:
        server.before_page = lambda method, parameters: server.answer_next(
            b'{"ok": true, "messages": [{"type": "message", "ts": "1512085950.000216", "text": "a"},'
            b' {"type": "message", "ts": "1612085950.000216", "text": "b"}]}'
        )
        with pytest.raises(SourceUnavailable, match="out of order"):
            list(channels.discover())


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (
            lambda server: setattr(server, "token", "other"),
            r"does not accept connection\.token \(invalid_auth\)",
        ),
        (
            lambda server: setattr(server, "token_state", "token_revoked"),
            r"\(token_revoked\): install the app",
        ),
        (lambda server: setattr(server, "token_state", "account_inactive"), r"\(account_inactive\)"),
        (
            lambda server: setattr(server, "token_state", "ekm_access_denied"),
            r"refused .* \(ekm_access_denied\)",
        ),
        (lambda server: server.scopes.clear(), r"lacks the scope channels:read .* install the app again"),
        (lambda server: server.scopes.remove("channels:history"), r"lacks the scope channels:history"),
        (lambda server: server.answer_next(b"<html>sign in</html>"), r"no API at connection\.url .*web page"),
        (lambda server: server.answer_next(b"", 404), r"no API at connection\.url .*status 404"),
        (
            lambda server: server.answer_next(b"", 302, Location="https://elsewhere.example/"),
            r"no API at connection\.url .*status 302",
        ),
    ],
)
def test_a_refusal_says_what_to_correct(server, trouble, message):
    server.create("a", "b")
    channels = channels_of(server)
    trouble(server)
    with channels, pytest.raises(SourceRefused, match=message) as refused:
        list(channels.discover())
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_a_missing_scope_for_names_is_told_when_names_are_needed(server):
    server.create("a", "b")
    server.scopes.remove("users:read")
    with pytest.raises(SourceRefused, match="lacks the scope users:read"):
        read(server)


def test_a_token_that_cannot_be_sent_is_told_without_it(server):
    for wrong in ("xoxb\nline", "xoxb-\N{SNOWMAN}"):
        connection = server.connection.model_copy(update={"token": SecretStr(wrong)})
        with (
            SlackChannels(connection, ChannelFilters()) as channels,
            pytest.raises(SourceRefused, match="characters that cannot be sent") as refused,
        ):
            list(channels.discover())
        assert wrong not in str(refused.value)


def test_nobody_answers_at_all(server):
    connection = server.connection.model_copy(update={"url": "http://127.0.0.1:9/api/"})
    channels = SlackChannels(connection, ChannelFilters())
    with channels, pytest.raises(SourceUnavailable, match=r"Slack at 127\.0\.0\.1 did not answer"):
        list(channels.discover())


def test_the_token_is_in_no_message_and_no_log(server, caplog):
    server.create("a", "words that are nobody else's")
    caplog.set_level(logging.DEBUG)
    assert read(server)
    server.token_state = "token_expired"
    with channels_of(server) as channels, pytest.raises(SourceRefused) as refused:
        list(channels.discover())
    chain = [refused.value, refused.value.__cause__, refused.value.__suppress_context__]
    told = caplog.text + repr(server.connection) + repr(chain) + repr(vars(channels))
    assert server.token not in told
    assert "nobody else's" not in caplog.text
