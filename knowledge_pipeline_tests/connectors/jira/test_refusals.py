"""What the Jira connector says and does when Jira refuses, fails, or limits it."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from knowledge_pipeline.connectors.jira.tickets import JiraTickets
from knowledge_pipeline.errors import SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Item
from knowledge_pipeline_tests.connectors.jira.tickets import listing, many, refusal, tickets, uris
from knowledge_pipeline_tests.fakes.jira.server import JiraServer


@pytest.fixture(params=["cloud", "server"])
def jira(request) -> Iterator[JiraServer]:
    cloud = request.param == "cloud"
    with JiraServer(cloud=cloud, context="" if cloud else "/jira") as server:
        yield server


def test_a_wrong_token_is_told(jira):
    jira.token = "another"
    connection = jira.connection()
    jira.token = "right"
    with JiraTickets(connection) as source, pytest.raises(SourceRefused, match=r"401.*connection\.token"):
        list(source.discover())


def test_a_wrong_token_that_is_let_in_as_a_guest_is_refused_as_well(jira):
    jira.create("Public", "x")
    connection = jira.connection()
    jira.token, jira.guests = "right", True
    with JiraTickets(connection) as source:
        for listed in (source.discover(), source.discover_updated(jira.site.now)):
            with pytest.raises(SourceRefused, match="401"):
                list(listed)


def test_a_redirect_to_a_login_page_is_told(jira):
    jira.to_login = True
    assert "login page: correct connection.token" in refusal(jira)


def test_a_page_instead_of_json_is_told(jira):
    jira.answer_next(b"<html>Welcome</html>")
    assert "a web page instead of JSON" in refusal(jira)


def test_an_empty_answer_is_no_empty_listing(jira):
    with tickets(jira) as source:
        list(source.discover())
        jira.answer_next(b"")
        with pytest.raises(SourceUnavailable, match="returned nothing"):
            list(source.discover())


def test_an_address_without_a_jira_is_told(jira):
    connection = jira.connection(url=f"{jira.url}/elsewhere")
    with JiraTickets(connection) as source, pytest.raises(SourceRefused, match=r"404.*connection\.url"):
        list(source.discover())


def test_a_project_that_cannot_be_seen_is_refused_not_emptied(jira):
    jira.create("A ticket", "x")
    listing(jira, projects=("PROJ",))
    del jira.site.projects["PROJ"]
    assert "no project 'PROJ', or our account may not see it" in refusal(jira, projects=("PROJ",))


def test_a_query_that_jira_does_not_understand_is_told_in_its_words(jira):
    said = refusal(jira, jql="project = NOWHERE")
    assert "The value 'NOWHERE' does not exist for the field 'project'" in said and "correct jql" in said


def test_failures_that_pass_are_asked_again(jira):
    made = many(jira, 3)
    jira.cut_off_next()
    jira.fail_next(2, status=503)
    jira.fail_next(1, status=429)
    assert uris(listing(jira)) == made


def test_failures_that_stay_are_told_as_such(jira):
    jira.fail_next(50, status=503)
    assert "failed (503)" in refusal(jira)
    assert jira.counted() < 10


def test_a_limit_is_waited_for(jira):
    jira.page_size = 30
    made = many(jira, 70)
    jira.limit(after=2, reset_s=1)
    assert uris(listing(jira)) == made
    assert [request.status for request in jira.requests].count(429) == 1


def test_a_long_limit_is_told_with_its_end(jira):
    jira.limit(after=0, reset_s=7200)
    with pytest.raises(SourceUnavailable, match=r"limits our calls until 20\d\d-\d\d-\d\d \d\d:\d\d UTC"):
        listing(jira)


def test_without_an_identity_jira_is_asked_what_it_is(jira):
    made = many(jira, 2)
    jira.guests = True
    with JiraTickets(jira.connection(email=None, token=None)) as source:
        assert uris(source.discover()) == made
        assert uris(source.discover_updated(jira.site.now)) == made
        assert source.fetch(Item(made[0], "1", "10001")).title == "PROJ-1 Ticket 0"


def test_a_secret_is_in_no_log_and_no_error(jira, caplog):
    caplog.set_level(logging.DEBUG)
    jira.create("A ticket", "x")
    listing(jira)
    jira.fail_next(1, status=400, body=f'{{"errorMessages": ["you sent {jira.token}"]}}'.encode())
    assert "***" in refusal(jira)
    jira.fail_next(1, status=401, body=jira.token.encode())
    refusal(jira)
    assert jira.token not in caplog.text and jira.token not in repr(tickets(jira).__dict__)
