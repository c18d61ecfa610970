"""The fake Slack, asked by slack_sdk alone: its paging, its words for what is wrong, its limits."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError

from knowledge_pipeline_tests.fakes.slack.server import SlackServer


@pytest.fixture
def server() -> Iterator[SlackServer]:
    with SlackServer() as server:
        yield server


@pytest.fixture
def client(server) -> WebClient:
    return WebClient(server.token, base_url=server.url, retry_handlers=[])


def refused(call, **parameters) -> str:
    with pytest.raises(SlackApiError) as error:
        call(**parameters)
    return error.value.response["error"]


def test_slack_sdk_goes_through_all_pages_newest_first(server, client):
    times = [server.post(str(n)) for n in range(7)]
    pages = [page["messages"] for page in client.conversations_history(channel="C00000", limit=3)]
    assert [len(page) for page in pages] == [3, 3, 1]
    assert [message["ts"] for page in pages for message in page] == times[::-1]


def test_history_is_bounded_by_times_that_are_in_it_only_where_that_is_asked_for(server, client):
    times = [server.post(str(n)) for n in range(5)]
    ends = {"channel": "C00000", "oldest": times[1], "latest": times[3]}
    assert len(client.conversations_history(**ends)["messages"]) == 1
    assert len(client.conversations_history(**ends, inclusive=True)["messages"]) == 3


def test_replies_begin_with_their_root_on_every_page(server, client):
    root = server.post("root")
    replies = [server.post(str(n), thread=root) for n in range(5)]
    pages = [page["messages"] for page in client.conversations_replies(channel="C00000", ts=root, limit=3)]
    assert [[each["ts"] for each in page] for page in pages] == [
        [root, *replies[:2]],
        [root, *replies[2:4]],
        [root, *replies[4:]],
    ]
    [told] = client.conversations_history(channel="C00000")["messages"]
    assert (told["reply_count"], told["latest_reply"], told["thread_ts"]) == (5, replies[-1], root)


def test_archived_channels_are_taken_out_of_pages_that_they_still_fill(server, client):
    for n in range(4):
        server.channel(f"room-{n}", is_archived=n < 3)
    pages = [page["channels"] for page in client.conversations_list(limit=2, exclude_archived=True)]
    assert [[each["name"] for each in page] for page in pages] == [["general"], [], ["room-3"]]


def test_it_says_what_is_wrong_in_slacks_words(server, client):
    room = server.rooms[server.channel("closed", is_member=False)]
    assert refused(client.conversations_history, channel=room.id) == "not_in_channel"
    assert refused(client.conversations_history, channel="C9") == "channel_not_found"
    assert refused(client.conversations_history, channel="C00000", cursor="x") == "invalid_cursor"
    assert refused(client.conversations_history, channel="C00000", limit=1000) == "invalid_limit"
    assert refused(client.conversations_replies, channel="C00000", ts="1.2") == "thread_not_found"
    assert refused(client.users_info, user="U9") == "user_not_found"
    assert refused(client.reactions_list) == "unknown_method"
    server.scopes.remove("users:read")
    assert refused(client.users_list) == "missing_scope"
    server.token_state = "token_revoked"
    assert refused(client.auth_test) == "token_revoked"


def test_a_limit_comes_with_the_seconds_to_wait(server, client):
    server.limit(after=1, reset_s=3)
    assert client.auth_test()["ok"]
    with pytest.raises(SlackApiError) as error:
        client.auth_test()
    assert error.value.response.status_code == 429
    assert error.value.response.headers["Retry-After"] == "3"
