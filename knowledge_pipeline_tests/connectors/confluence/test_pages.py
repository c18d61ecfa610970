"""Confluence's connector against a small Confluence that speaks both editions' protocols."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import SecretStr

from knowledge_pipeline.connectors import http_retry
from knowledge_pipeline.connectors.base import ApiSource
from knowledge_pipeline.connectors.confluence.pages import ConfluencePages, PageFilters
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document
from knowledge_pipeline_tests.fakes.confluence.server import ConfluenceServer

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture(params=["cloud", "server"])
def server(request, monkeypatch) -> Iterator[ConfluenceServer]:
    monkeypatch.setattr(http_retry, "_BASE_BACKOFF_S", 0.001)
    monkeypatch.setattr(http_retry, "_MAX_BACKOFF_S", 0.002)
    with ConfluenceServer(request.param) as server:
        yield server


def pages_of(server: ConfluenceServer, **filters) -> ConfluencePages:
    return ConfluencePages(server.connection, PageFilters(**filters))


def listed(server: ConfluenceServer, **filters) -> dict[str, str]:
    with pages_of(server, **filters) as pages:
        items = list(pages.discover())
    assert len({item.uri for item in items}) == len(items)
    return {item.uri: item.revision for item in items}


def updated(server: ConfluenceServer, since: datetime, **filters) -> dict[str, str]:
    with pages_of(server, **filters) as pages:
        return {item.uri: item.revision for item in pages.discover_updated(since)}


def read(server: ConfluenceServer, **filters) -> dict[str, Document | DocumentSkipped]:
    with pages_of(server, **filters) as pages:
        return {item.uri: document for item, document in pages.fetch_many(list(pages.discover()))}


def document(server: ConfluenceServer, uri: str, **filters) -> Document:
    found = read(server, **filters)[uri]
    assert isinstance(found, Document), found
    return found


def test_excluded_labels_and_other_types_of_content_are_left_out(server):
    kept = server.create("kept", "words", labels=("x",))
    server.create("old", "words", labels=("x", "old"))
    post = server.create("news", "words", kind="blogpost")
    assert set(listed(server, exclude_labels=("old",))) == {kept, post}
    assert set(listed(server, labels=("x",), exclude_labels=("old", "older"))) == {kept}
    assert set(listed(server, content_types=("blogpost",))) == {post}
    assert set(updated(server, NOON, content_types=("blogpost",))) <= {post}


def test_a_page_over_the_limit_is_skipped_with_its_size(server):
    short, long = server.create("short", "words"), server.create("long", "äöü" * 100)
    documents = read(server, max_bytes=200)
    assert isinstance(documents[short], Document)
    assert str(documents[long]) == "larger than 200 bytes (600)"
    assert isinstance(document(server, long, max_bytes=600), Document)
    assert listed(server, max_bytes=600)[long] != listed(server, max_bytes=200)[long], "it is read again"


def test_it_is_a_service_and_asks_nothing_before_it_lists(server):
    with pages_of(server) as pages:
        assert isinstance(pages, ApiSource)
    assert server.requests == []


def test_a_page_is_a_document_with_its_place_in_the_tree(server):
    home = server.create("Operations Home")
    handbook = server.create("Handbook", "read me", under=home)
    uri = server.create("On call / rota", "who wakes up", under=handbook, labels=("rota", "night"))
    found = document(server, uri)
    assert found.text == "who wakes up"
    assert found.path == "OPS/Operations Home/Handbook/On call - rota"
    assert (found.title, found.author) == ("On call / rota", "Ada Lovelace")
    assert found.url == f"{server.url}/spaces/OPS/pages/{uri.partition('/')[2]}"
    assert found.last_modified is not None
    assert found.last_modified.tzinfo is not None
    metadata = dict(found.metadata)
    assert metadata == {
        "wiki_space": "OPS",
        "labels": ["night", "rota"],
        "version": 1,
        "ancestors": ["Operations Home", "Handbook"],
        "status": "current",
        "page_type": "page",
        "mentions": [],
    }


def test_blog_posts_are_documents_too(server):
    uri = server.create("We moved", "to the new hall", kind="blogpost")
    assert uri.startswith("blogpost/")
    assert document(server, uri).path == "OPS/blog/We moved"


def test_files_are_named_at_the_end_and_comments_come_last(server):
    uri = server.create("Plan", "the plan")
    server.attach(uri, "b.png")
    server.attach(uri, "a.pdf")
    server.person("u-bob", "Bob")
    server.comment(uri, "is it done?", author="u-bob", about="the plan")
    comment = server.comment(uri, "nearly")
    found = document(server, uri)
    today = datetime.now(UTC).date().isoformat()
    assert found.text == (
        "the plan\n\nAttachments: a.pdf, b.png\n\n# Comments\n\n"
        f"Comment by Bob on “the plan”, {today}:\nis it done?\n\nComment by Ada Lovelace, {today}:\nnearly"
    )
    assert found.last_modified == server.site.content[comment.partition("/")[2]].updated.replace(
        microsecond=found.last_modified.microsecond
    )
    assert document(server, uri, comments=False).text == "the plan\n\nAttachments: a.pdf, b.png"


def test_people_are_named_and_who_is_unknown_is_left_out(server):
    attribute = "account-id" if server.edition == "cloud" else "userkey"
    mention = '<p>ask <ac:link><ri:user ri:{}="{}" /></ac:link></p>'
    known = server.create("Known", storage=mention.format(attribute, "u-ada"))
    unknown = server.create("Unknown", storage=mention.format(attribute, "u-gone"), author="u-gone")
    found = read(server)
    assert found[known].text == "ask @Ada Lovelace"
    assert found[unknown].text == "ask @someone"
    assert found[unknown].author is None


def test_what_a_page_refers_to_is_in_its_metadata(server):
    jira = '<ac:structured-macro ac:name="jira">'
    jira += '<ac:parameter ac:name="key">OPS-12</ac:parameter></ac:structured-macro>'
    link = '<ac:link><ri:page ri:content-title="Rota" /></ac:link>'
    uri = server.create("Links", storage=f'<p>{jira} {link} <a href="{server.url}/pages/77">it</a></p>')
    assert [each["target"] for each in document(server, uri).metadata["mentions"]] == [
        "OPS-12",
        "OPS/Rota",
        "page/77",
    ]


def test_an_empty_page_is_skipped_as_such(server):
    uri = server.create("Nothing", storage="<p> &nbsp; </p>")
    assert str(read(server)[uri]) == "empty"


@pytest.mark.parametrize(
    "change",
    [
        lambda server, uri: server.edit(uri, "other words"),
        lambda server, uri: server.rename(uri, "Other title"),
        lambda server, uri: server.move(uri, server.create("Elsewhere")),
        lambda server, uri: server.rename("page/1003", "Renamed parent"),
        lambda server, uri: server.label(uri, "new"),
        lambda server, uri: server.comment(uri, "so?"),
        lambda server, uri: server.attach(uri, "new.pdf"),
        lambda server, uri: server.edit("comment/1005", "edited"),
        lambda server, uri: server.delete("comment/1005"),
    ],
)
def test_whatever_changes_a_document_changes_its_revision_and_nothing_else_does(server, change):
    grandparent = server.create("Top")
    parent = server.create("Parent", under=grandparent)
    assert parent == "page/1003"
    uri = server.create("Child", "words", under=parent)
    assert server.comment(uri, "first") == "comment/1005"
    before, document_before = listed(server), document(server, uri)
    assert listed(server) == before
    change(server, uri)
    after = listed(server)
    assert after[uri] != before[uri]
    assert after[grandparent] == before[grandparent]
    assert document(server, uri) != document_before


def test_what_is_deleted_archived_or_hidden_leaves_the_listing(server):
    kept, deleted, archived, hidden = (server.create(name, "words") for name in ("a", "b", "c", "d"))
    server.delete(deleted)
    server.archive(archived)
    server.hide(hidden)
    assert list(listed(server)) == [kept]


def test_only_the_named_spaces_are_read(server):
    server.space("ENG", "Engineering")
    server.space("OLD", "Old", status="archived")
    ours = server.create("ours", "words")
    theirs = server.create("theirs", "words", space="ENG")
    old = server.create("old", "words", space="OLD")
    assert set(listed(server)) == {ours, theirs}
    assert set(listed(server, spaces=("ENG",))) == {theirs}
    assert set(listed(server, spaces=("OLD", "OPS"))) == {old, ours}


def test_a_space_that_is_not_there_is_no_empty_one(server):
    server.create("ours", "words")
    with (
        pages_of(server, spaces=("OPS", "NOPE")) as pages,
        pytest.raises(SourceRefused, match="no space NOPE"),
    ):
        list(pages.discover())


def test_labels_since_and_the_newest_narrow_the_listing(server):
    server.now = NOON - timedelta(days=400)
    old = server.create("old", "words", labels=("keep",))
    server.now = NOON
    new = server.create("new", "words")
    server.now = NOON + timedelta(hours=1)
    newest = server.create("newest", "words", labels=("keep", "also"))
    assert set(listed(server, labels=("keep",))) == {old, newest}
    assert set(listed(server, since="2026-01-01")) == {new, newest}
    assert set(listed(server, max_results=2)) == {new, newest}
    with pytest.raises(ConfigError, match="not a date"):
        pages_of(server, since="yesterday")


def test_only_what_changed_is_asked_for_and_its_revision_is_that_of_a_whole_listing(server):
    server.now = NOON - timedelta(days=30)
    top = server.create("Top", "words")
    under = server.folder("Folder") if server.edition == "cloud" else top
    unchanged, edited, commented, attached = (
        server.create(name, "words", under=under, labels=("x",)) for name in ("a", "b", "c", "d")
    )
    server.now = NOON
    server.edit(edited, "other")
    server.comment(commented, "so?")
    server.attach(attached, "new.pdf")
    found = updated(server, NOON - timedelta(minutes=5))
    whole = listed(server)
    assert found == {uri: whole[uri] for uri in (edited, commented, attached)}
    assert unchanged in whole
    assert updated(server, NOON + timedelta(days=3)) == {}


@pytest.mark.parametrize("server", ["cloud", "server"], indirect=True)
@pytest.mark.parametrize("utc_offset_h", [-12, 0, 14])
def test_a_change_is_found_in_whatever_time_zone_the_query_is_read(server, utc_offset_h):
    server.utc_offset_h = utc_offset_h
    server.now = NOON + timedelta(seconds=20)
    uri = server.create("new", "words")
    assert list(updated(server, NOON + timedelta(seconds=20))) == [uri]


def test_folders_are_part_of_the_path():
    with ConfluenceServer("cloud") as server:
        folder = server.folder("Runbooks", under=server.folder("Team"))
        uri = server.create("Disk full", "clean up", under=folder)
        assert document(server, uri).path == "OPS/Team/Runbooks/Disk full"
        server.hide(folder)
        assert document(server, uri).path == "OPS/Disk full"


def test_whiteboards_and_databases_are_documents_where_they_are_asked_for():
    with ConfluenceServer("cloud") as server:
        server.now = NOON
        folder = server.folder("Plans")
        board = server.create("Retro", kind="whiteboard", under=folder, labels=("team",))
        base = server.create("Services", kind="database")
        below = server.create("Notes", "words", under=board)
        server.comment(board, "Shall we keep it?")
        server.attach(board, "photo.png")
        kinds = ("page", "whiteboard", "database")
        assert set(listed(server)) == {below} == set(updated(server, NOON))
        first = listed(server, content_types=kinds)
        assert set(first) == {below, board, base}
        assert updated(server, NOON, content_types=kinds) == first, "comments of a board are updates of it"
        assert set(listed(server, content_types=kinds, labels=("team",))) == {board}
        retro = document(server, board, content_types=kinds)
        assert retro.text == (
            "Whiteboard in OPS / Plans\n\nAttachments: photo.png\n\n# Comments\n\n"
            "Comment by Ada Lovelace, 2026-03-01:\nShall we keep it?"
        )
        assert (retro.path, retro.title) == ("OPS/Plans/Retro", "Retro")
        assert retro.url == f"{server.url}/spaces/OPS/{board}"
        assert document(server, base, content_types=kinds).text == "Database in OPS"
        assert document(server, below, content_types=kinds).path == "OPS/Plans/Retro/Notes"
        server.rename(board, "Retro 2")
        server.move(base, under=folder)
        again = listed(server, content_types=kinds)
        assert all(again[uri] != first[uri] for uri in first), "titles and places are in the revisions"
        server.delete(board)
        server.hide(base)
        assert set(listed(server, content_types=kinds)) == {below}


def test_whiteboards_of_a_server_are_refused():
    with ConfluenceServer("server") as server:
        with pytest.raises(
            ConfigError, match="content_types has whiteboard, which only Confluence Cloud has"
        ):
            pages_of(server, content_types=("page", "whiteboard"))
        assert server.requests == []


def test_a_long_listing_is_whole_and_every_page_comes_once(server):
    server.space("ENG", "Engineering")
    wanted = {server.create(f"page {number}", "w", space=("OPS", "ENG")[number % 2]) for number in range(620)}
    wanted |= {server.create(f"post {number}", "w", kind="blogpost") for number in range(30)}
    assert set(listed(server)) == wanted
    assert set(read(server)) == wanted


@pytest.mark.sampled
@pytest.mark.parametrize("gone", [1, 9, 40, 150])
def test_pages_deleted_and_made_while_it_is_listed_lose_no_other(server, gone):
    uris = [server.create(f"page {number}", "w") for number in range(610)]
    calls = []

    def disturb(path: str) -> None:
        calls.append(path)
        if len(calls) - calls.index(calls[-1]) == 2:  # the second page of it
            for uri in uris[:gone]:
                server.delete(uri)
            uris.append(server.create("made meanwhile", "w"))

    with pages_of(server) as pages:
        server.before_page = disturb
        found = {item.uri for item in pages.discover()}
    assert len(uris) > 610
    assert set(uris[gone:]) - found <= {uris[-1]}
    assert found <= set(uris)


@pytest.mark.parametrize("count", [199, 200, 201, 450])
def test_a_server_that_does_not_say_that_more_follows_is_asked_all_the_same(count):
    with ConfluenceServer("server") as server:
        server.names_next = False
        uris = [server.create(f"page {number}", "w") for number in range(count)]
        for uri in uris:
            server.comment(uri, "so?")
        assert set(listed(server)) == set(uris)
        assert all("so?" in found.text for found in read(server).values())


@pytest.mark.parametrize("count", [249, 250, 251, 500])
def test_a_search_of_cloud_ends_where_it_names_no_next_page_and_goes_by_its_cursor(count):
    with ConfluenceServer("cloud") as server:
        uri = server.create("page", "w", labels=("x",))
        comments = [server.comment(uri, f"comment {number}.") for number in range(count - 1)]
        server.attach(uri, "a.pdf")
        listing = listed(server, labels=("x",))
        assert set(listing) == {uri}
        assert listing == updated(server, NOON, labels=("x",))
        text = document(server, uri).text
        assert all(f"comment {number}.\n" in f"{text}\n" for number in range(len(comments)))
        assert not [asked for asked in server.requests if "start" in asked.query], "only Server has offsets"
        assert len(server.requests) < 40


@pytest.mark.parametrize("cap", [1, 50])
def test_a_server_that_gives_fewer_results_than_asked_for_is_read_to_the_end(cap):
    with ConfluenceServer("server") as server:
        server.page_cap = cap
        uris = [server.create(f"page {number}", "w") for number in range(460 if cap > 1 else 12)]
        for uri in uris:
            server.comment(uri, "so?")
        assert set(listed(server)) == set(uris)
        assert set(updated(server, NOON)) == set(uris)
        assert all("so?" in found.text for found in read(server).values())


@pytest.mark.parametrize("cap", [None, 50])
@pytest.mark.parametrize("count", [228, 400])
def test_a_server_that_gives_the_last_records_again_is_read_once(count, cap):
    with ConfluenceServer("server") as server:
        uris = [server.create(f"page {number}", "w") for number in range(count)]
        server.repeats, server.page_cap = "last", cap
        assert set(listed(server)) == set(uris)
        assert len(server.requests) < 30


def test_a_next_page_that_never_has_results_is_given_up(server):
    server.create("page", "w")
    server.ends = False
    with (
        pages_of(server) as pages,
        pytest.raises(SourceUnavailable, match=r"does not end .* nothing is deleted"),
    ):
        list(pages.discover())
    assert len(server.requests) < 150


def test_a_server_that_knows_no_offsets_is_no_listing_of_its_first_page():
    with ConfluenceServer("server") as server:
        for number in range(450):
            server.create(f"page {number}", "w")
        server.repeats = "first"
        with pages_of(server) as pages, pytest.raises(SourceUnavailable, match="does not end"):
            list(pages.discover())


def test_an_offset_passes_over_long_stretches_that_may_not_be_seen():
    with ConfluenceServer("server") as server:
        uris = [server.create(f"page {number}", "w") for number in range(900)]
        for uri in uris[150:650]:
            server.hide(uri)
        assert set(listed(server)) == {*uris[:150], *uris[650:]}


def test_a_page_that_a_listing_leaves_out_is_found_by_the_search():
    with ConfluenceServer("cloud") as server:
        listed_one, left_out = server.create("a", "w"), server.create("b", "w")
        server.requests.clear()

        def hide_from_the_listing(path: str) -> None:
            first = len([each for each in server.requests if each.path == "/api/v2/pages"]) == 0
            server.hide(left_out, 404 if path == "/api/v2/pages" and first else None)

        server.before_page = lambda path: hide_from_the_listing(path.removeprefix("/wiki"))
        assert set(listed(server)) == {listed_one, left_out}


def test_what_the_search_does_not_know_yet_is_listed_and_read_all_the_same(server):
    uri = server.create("new", "words", labels=("x",))
    known = listed(server, labels=("x",))
    server.forget(uri)
    assert listed(server, labels=("x",)) == known
    assert document(server, uri).text == "words"


def test_gone_and_hidden_are_told_apart_when_a_page_is_read(server):
    kept, gone, hidden = (server.create(name, "words") for name in "abc")
    with pages_of(server) as pages:
        items = list(pages.discover())
        server.delete(gone)
        server.hide(hidden, 403)
        found = {item.uri: read for item, read in pages.fetch_many(items)}
        assert found[kept].text == "words"
        assert str(found[gone]) == "deleted while it was read"
        assert str(found[hidden]) == "the token may not read it any more"
        with pytest.raises(DocumentSkipped, match="deleted"):
            pages.fetch(next(item for item in items if item.uri == gone))


def test_failures_limits_and_cut_off_answers_are_waited_out(server):
    uri = server.create("a", "words")
    server.fail_next(2, status=503)
    server.cut_off_next()
    server.fail_next(1, status=429, Retry_After="0")
    assert document(server, uri).text == "words"


def test_a_limit_is_waited_for(server):
    uri = server.create("a", "words")
    server.limit(after=2, reset_s=1)
    assert document(server, uri).text == "words"
    assert 429 in {each.status for each in server.requests}


def test_a_long_limit_says_until_when(server):
    server.create("a", "words")
    server.limit(after=1, reset_s=3600)
    with pages_of(server) as pages, pytest.raises(SourceUnavailable, match=r"limits our calls until \d{4}-"):
        list(pages.discover())


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("status", "error", "said"),
    [
        (500, SourceUnavailable, "answered 500"),
        (401, SourceRefused, "does not accept the token"),
        (403, SourceRefused, "forbids what the source reads"),
        (404, SourceRefused, "correct the|ends in /wiki"),
        (400, SourceRefused, "refused the query with 400"),
        (302, SourceRefused, "redirects us"),
    ],
)
@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_refusal_anywhere_in_a_listing_is_an_error_never_an_end(server, status, error, said, after):
    for number in range(300):
        server.create(f"page {number}", "w")
    calls = []

    def fail(path: str) -> None:
        calls.append(path)
        if len(calls) == after + 1:
            server.fail_next(20, status=status)

    if after:
        server.before_page = fail
    else:
        server.fail_next(20, status=status)
    with pages_of(server) as pages, pytest.raises(error, match=said):
        list(pages.discover())


@pytest.mark.parametrize("body", [b"<html>log in</html>", b"[]", b'"x"'])
def test_a_page_for_people_is_no_answer(server, body):
    server.create("a", "words")
    server.answer_next(body, "text/html")
    with pages_of(server) as pages, pytest.raises(SourceRefused, match="instead of data"):
        list(pages.discover())


@pytest.mark.parametrize("body", [b"{}", b'{"results": null}', b'{"message": "so"}'])
def test_an_answer_without_results_is_no_empty_listing(server, body):
    server.create("a", "words")
    server.answer_next(body)
    with pages_of(server) as pages, pytest.raises(SourceUnavailable, match="without results"):
        list(pages.discover())


def test_a_listing_that_never_ends_is_given_up(server):
    server.create("a", "words")
    following = b"cursor=YQ" if server.edition == "cloud" else b"start=0"
    for _ in range(3):
        server.answer_next(
            b'{"results": [{"id": 1, "key": "OPS"}], "_links": {"next": "/x?' + following + b'"}}'
        )
    with pages_of(server) as pages, pytest.raises(SourceUnavailable, match="does not end"):
        list(pages.discover())


def test_a_wrong_token_names_the_keys_to_correct_and_is_never_told(server, caplog):
    secret = "-".join(("another", "canary", "secret"))
    connection = server.connection.model_copy(update={"token": SecretStr(secret)})
    caplog.set_level(logging.DEBUG)
    pages = ConfluencePages(connection, PageFilters())
    with pages, pytest.raises(SourceRefused, match=r"connection\.token") as raised:
        list(pages.discover())
    assert secret not in f"{raised.value!r} {pages!r} {vars(pages)} {caplog.text}"
    assert raised.value.__cause__ is None


def test_a_token_that_cannot_be_sent_is_refused_without_being_told(server):
    secret = "\n".join(("two", "lines", "\u2014"))
    connection = server.connection.model_copy(update={"token": SecretStr(secret)})
    with ConfluencePages(connection, PageFilters()) as pages, pytest.raises(SourceRefused) as raised:
        list(pages.discover())
    assert secret not in repr(raised.value)


def test_nobody_listening_is_said_with_the_service_not_the_address(monkeypatch):
    with ConfluenceServer("server") as server:
        connection = server.connection
    monkeypatch.setattr(http_retry, "_BASE_BACKOFF_S", 0.001)
    monkeypatch.setattr(http_retry, "_MAX_BACKOFF_S", 0.002)
    with ConfluencePages(connection, PageFilters()) as pages, pytest.raises(SourceUnavailable) as raised:
        list(pages.discover())
    assert "Confluence at 127.0.0.1 did not answer" in str(raised.value)


def test_a_wiki_at_the_wrong_address_is_refused_with_the_address_to_use(server):
    connection = server.connection.model_copy(update={"url": server.url.replace(server.context, "")})
    with (
        ConfluencePages(connection, PageFilters()) as pages,
        pytest.raises(SourceRefused, match="ends in /wiki"),
    ):
        list(pages.discover())


def test_many_pages_are_read_in_few_calls(server):
    uris = [server.create(f"page {number}", "w", author=f"u-{number}") for number in range(200)]
    server.comment(uris[0], "so?")
    with pages_of(server) as pages:
        items = list(pages.discover())
        server.requests.clear()
        assert all(isinstance(found, Document) for _, found in pages.fetch_many(items))
    calls = Counter(each.path for each in server.requests)
    if server.edition == "cloud":
        assert calls == {"/api/v2/pages": 4, "/rest/api/content/search": 1, "/rest/api/user/bulk": 4}
    else:
        assert calls == {"/rest/api/content/search": 5}
