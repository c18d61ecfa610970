"""A commit is seen at the next tick where a host has few repositories; many, or a silent one, wait longer."""

import pytest

from knowledge_pipeline.defs.commit_sensors import (
    MAX_INTERVAL_S,
    CommitCursor,
    HostState,
    find_host,
    is_due,
    update_hosts,
)


def seconds_until_due(host: str, repositories: int, silences: int = 0) -> int:
    state = (1000.0, silences)
    return next(second for second in range(2000) if is_due(host, repositories, state, 1000.0 + second))


@pytest.mark.parametrize(
    ("repository", "host"),
    [
        ("https://github.com/org/shop", "github.com"),
        ("git@GitHub.com:org/shop.git", "github.com"),
        ("ssh://git@git.example.com:2222/shop?1a2b", "git.example.com"),
        ("file:///srv/shop", ""),
        ("/srv/shop", ""),
    ],
)
def test_a_repositorys_name_names_its_host(repository: str, host: str) -> None:
    assert find_host(repository) == host


def test_few_repositories_are_asked_at_every_tick_and_many_every_half_minute() -> None:
    assert [seconds_until_due("github.com", count) for count in (1, 10, 50, 100, 5000)] == [0, 0, 15, 30, 30]
    assert [seconds_until_due("", count) for count in (1, 200, 5000)] == [0, 0, MAX_INTERVAL_S]


def test_a_host_that_does_not_answer_is_asked_half_as_often_each_time_to_ten_minutes() -> None:
    pauses = [seconds_until_due("github.com", 10, silences) for silences in range(10)]
    assert pauses == [0, 0, 10, 20, 40, 80, 160, 320, 600, 600]


def test_one_answer_ends_the_pause_of_a_host() -> None:
    hosts: dict[str, HostState] = {}
    names = ["https://a.example/one", "https://a.example/two", "https://b.example/three"]
    for now_s in (1.0, 2.0):
        update_hosts(hosts, dict.fromkeys(names, False), [], now_s)
    assert hosts == {"a.example": (2.0, 2), "b.example": (2.0, 2)}
    update_hosts(hosts, {names[0]: False, names[1]: True}, [], 9.0)
    assert hosts == {"a.example": (9.0, 0), "b.example": (2.0, 2)}


def test_a_host_of_which_some_had_no_turn_is_due_at_once() -> None:
    names = [f"https://a.example/{number:03}" for number in range(100)]
    cursor = CommitCursor()
    assert cursor.list_due_repositories(names, 100.0) == names
    update_hosts(cursor.hosts, dict.fromkeys(names[:60], True), names[60:], 100.0)
    assert cursor.list_due_repositories(names, 105.0) == names
    update_hosts(cursor.hosts, dict.fromkeys(names, True), [], 105.0)
    assert cursor.list_due_repositories(names, 110.0) == []
    assert cursor.list_due_repositories(names, 135.0) == names


def test_a_clock_that_was_set_back_stops_nobody() -> None:
    assert is_due("github.com", 100, (1e9, 5), 1e9 - 3600)
