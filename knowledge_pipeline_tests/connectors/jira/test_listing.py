"""What the Jira connector lists, of Cloud and Server alike, by the real client library."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from knowledge_pipeline.connectors.base import ApiSource
from knowledge_pipeline.errors import ConfigError, SourceUnavailable
from knowledge_pipeline_tests.connectors.jira.tickets import listing, many, refusal, tickets, uris
from knowledge_pipeline_tests.fakes.jira.server import JiraServer


@pytest.fixture(params=["cloud", "server"])
def jira(request) -> Iterator[JiraServer]:
    cloud = request.param == "cloud"
    with JiraServer(cloud=cloud, context="" if cloud else "/jira") as server:
        yield server


@pytest.fixture
def cloud() -> Iterator[JiraServer]:
    with JiraServer(cloud=True) as server:
        yield server


@pytest.fixture
def data_center() -> Iterator[JiraServer]:
    with JiraServer(cloud=False) as server:
        yield server


# listing


def test_every_ticket_is_listed_once_the_oldest_first(jira):
    jira.page_size = 30
    made = many(jira, 100)
    assert uris(listing(jira)) == made


def test_nothing_is_asked_before_the_listing(jira):
    with tickets(jira, projects=("PROJ",)) as source:
        assert isinstance(source, ApiSource)
    assert jira.requests == []


def test_a_listing_reads_no_contents(jira):
    jira.create("A ticket", "its text")
    listing(jira)
    searches = [request for request in jira.requests if request.path.startswith("search")]
    assert [request.asked["fields"] for request in searches] == [["id", "key", "updated"]]


@pytest.mark.parametrize("gone", [1, 29])
def test_tickets_deleted_between_pages_hide_no_others(jira, gone):
    jira.page_size = 30
    made = many(jira, 100)
    deleted = iter(made[:gone])

    def delete(page: int) -> None:
        if page == 2:
            for uri in deleted:
                jira.delete(uri)

    jira.before_page = delete
    assert set(made[gone:]) <= set(uris(listing(jira)))


def test_tickets_edited_and_moved_between_pages_are_listed_once(jira):
    jira.page_size = 30
    made = many(jira, 70)

    def change(page: int) -> None:
        jira.edit(made[40], "new text")
        jira.site.move(made[50 + page], "OTHER")

    jira.before_page = change
    assert uris(listing(jira)) == made


def test_a_short_page_is_not_the_end(data_center):
    many(data_center, 5)
    with tickets(data_center) as source:
        list(source.discover())
        data_center.answer_next({"startAt": 0, "maxResults": 1000, "total": 5, "issues": []})
        data_center.site.now += timedelta(days=1)
        with pytest.raises(SourceUnavailable, match="incomplete list of tickets"):
            list(source.discover())


@pytest.mark.parametrize(
    "page",
    [
        {"issues": [], "isLast": False},
        {"isLast": True},
        {"issues": [{"id": "1", "key": "A-1", "fields": {}}], "isLast": True},
        {},
    ],
)
def test_a_page_that_says_nothing_of_where_it_goes_on_is_not_the_end(cloud, page):
    with tickets(cloud) as source:
        list(source.discover())
        cloud.answer_next(page)
        with pytest.raises(SourceUnavailable):
            list(source.discover())


def test_a_page_token_that_comes_again_is_not_followed_for_ever(cloud):
    many(cloud, 2)
    with tickets(cloud) as source:
        list(source.discover())
        for _ in range(2):
            cloud.answer_next({"issues": [], "isLast": False, "nextPageToken": "again"})
        with pytest.raises(SourceUnavailable, match="incomplete list of tickets"):
            list(source.discover())


def test_pages_that_repeat_others_are_not_followed_for_ever(cloud):
    many(cloud, 2)
    ticket = {"id": "1", "key": "A-1", "fields": {"updated": "2026-03-01T10:00:00.000+0000"}}
    with tickets(cloud) as source:
        list(source.discover())
        for number in range(150):
            cloud.answer_next({"issues": [ticket], "isLast": False, "nextPageToken": str(number)})
        with pytest.raises(SourceUnavailable, match="incomplete list of tickets"):
            list(source.discover())


def test_a_server_that_knows_no_offsets_is_no_whole_listing(data_center):
    data_center.page_size = 20
    many(data_center, 65)
    route = data_center.route
    data_center.route = lambda verb, path, asked: route(verb, path, {**asked, "startAt": 0})
    with (
        tickets(data_center) as source,
        pytest.raises(SourceUnavailable, match="incomplete list of tickets, a page ends the list with 20 of"),
    ):
        list(source.discover())


def test_a_failure_in_the_middle_of_a_listing_is_an_error(jira):
    jira.page_size = 30
    many(jira, 70)
    jira.before_page = lambda page: jira.fail_next(1, status=403) if page == 1 else None
    assert "Browse Projects" in refusal(jira)


# filters


def test_all_filters_hold_together_and_values_are_quoted(jira):
    label = 'od"d, label)'
    fits = {"labels": [label], "status": "In Progress", "issuetype": "Bug"}
    wanted = jira.site.create("Wanted", **fits)
    for other in ({"labels": []}, {"status": "Done"}, {"issuetype": "Task"}):
        jira.site.create("Other", **fits | other)
    jira.site.create("Elsewhere", project="OTHER", **fits)
    filters = {"labels": (label,), "statuses": ("In Progress",), "issue_types": ("Bug", "Epic")}
    assert uris(listing(jira, projects=("PROJ",), **filters)) == [wanted]


def test_a_query_of_ones_own_stays_together_and_loses_its_order(jira):
    first, second = jira.create("First", "x"), jira.create("Second", "x")
    jira.site.create("First", project="OTHER")
    jql = 'summary ~ "first" OR summary ~ "order by second" or summary ~ second ORDER BY updated DESC'
    assert uris(listing(jira, projects=("PROJ",), jql=jql)) == [first, second]


@pytest.mark.parametrize("jql", ["a = 1) OR (b = 2", "(a = 1", 'a = "1', "a = '1"])
def test_a_query_that_would_not_stay_together_is_refused_before_anything_is_asked(jql):
    with JiraServer() as server, pytest.raises(ConfigError, match="jql"):
        tickets(server, jql=jql)


def test_a_since_that_is_no_date_is_refused_before_anything_is_asked():
    with JiraServer() as server, pytest.raises(ConfigError, match="since"):
        tickets(server, since="yesterday-ish")


def test_since_is_about_the_last_update(jira):
    old, edited = jira.create("Old", "x"), jira.create("Edited", "x")
    jira.site.tick(86_400 * 10)
    jira.edit(edited, "y")
    assert uris(listing(jira, since="2026-03-05")) == [edited]
    assert uris(listing(jira, since="2026-02-01")) == [old, edited]


def test_of_a_limited_number_the_latest_updated_are_taken(jira):
    made = many(jira, 45)
    jira.site.tick(86_400)
    jira.edit(made[0], "new")
    assert uris(listing(jira, max_results=3)) == [made[0], made[-1], made[-2]]
    with tickets(jira, max_results=3) as source:
        assert uris(source.discover_updated(jira.site.now)) == [made[0]]


def test_of_a_limited_number_none_is_lost_that_is_edited_between_pages(jira):
    jira.page_size = 30
    made = many(jira, 100)

    def edit(page: int) -> None:
        if page == 2:
            jira.edit(made[5], "new")

    jira.before_page = edit
    assert set(uris(listing(jira, max_results=90))) == {made[5], *made[-89:]}


# what was updated


@pytest.mark.parametrize(
    "zone", ["Asia/Tokyo", "America/Los_Angeles", "Asia/Kolkata", "UTC", "Europe/Berlin"]
)
@pytest.mark.parametrize("is_cloud", [True, False])
def test_what_was_updated_is_found_in_any_time_zone_of_the_account(zone, is_cloud):
    with JiraServer(cloud=is_cloud, zone=zone) as server:
        made = many(server, 30)
        server.site.tick(86_400)
        since = server.site.now
        server.edit(made[7], "new text")
        with tickets(server) as source:
            assert uris(source.discover_updated(since)) == [made[7]]


def test_what_was_updated_in_an_hour_that_the_clocks_show_twice_is_found(jira):
    uri = jira.create("A ticket", "x")
    jira.site.now = datetime(2026, 10, 25, 0, 40, tzinfo=UTC)  # 02:40 in Berlin, for the first time
    since = jira.site.now
    jira.edit(uri, "y")
    with tickets(jira) as source:
        assert uris(source.discover_updated(since)) == [uri]


def test_a_zone_that_this_machine_does_not_know_only_asks_for_more():
    with JiraServer() as server:
        uri = server.create("A ticket", "x")
        person = server.site.person("The Reader") | {"timeZone": "Mars/Olympus"}
        with tickets(server) as source:
            server.answer_next(person)
            assert uris(source.discover_updated(server.site.now)) == [uri]


def test_an_edit_a_comment_and_a_move_are_updates_and_change_the_revision(jira):
    uri = jira.create("A ticket", "x")
    seen = {listing(jira)[0].revision}
    for change in (
        lambda: jira.edit(uri, "y"),
        lambda: jira.site.comment(uri, "said"),
        lambda: jira.site.move(uri, "OTHER"),
    ):
        change()
        (item,) = listing(jira)
        assert item.uri == uri and item.revision not in seen
        seen.add(item.revision)


def test_a_revision_stays_while_nothing_changes_even_in_another_time_zone(jira):
    many(jira, 3)
    before = listing(jira)
    jira.site.zone_name = "Asia/Tokyo"
    assert listing(jira) == before


def test_other_custom_fields_make_other_revisions(jira):
    jira.create("A ticket", "x")
    assert listing(jira)[0].revision != listing(jira, custom_fields=("Team",))[0].revision
