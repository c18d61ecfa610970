"""A pass over many sources asks each thing once, and only whether it has changed since the pass before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.http_retry import mount_retries, reuse_responses
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served


class Site(Served):
    """Answers every path with its content, tagged."""

    def __init__(self) -> None:
        super().__init__()
        self.contents: dict[str, str] = {"/group": "ada, bén"}
        self.statuses: list[int] = []
        self.is_tagged = True

    def send(self, asked: Asked) -> Sent:
        body = f"{self.contents.get(asked.path, '')} for {asked.authorization}".encode()
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        status = 304 if asked.headers.get("If-None-Match") == tag else 200
        self.statuses.append(status)
        headers = {"ETag": tag, "Link": '<next>; rel="next"'} if self.is_tagged else {}
        return Sent(status, b"" if status == 304 else body, headers)


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as served, pausing_by(lambda _: None):
        yield served


def ask(site: Site, token: str = "one") -> requests.Response:
    session = mount_retries(requests.Session(), "the site")
    return session.get(f"{site.address}/group", headers={"Authorization": token})


def test_what_one_source_was_told_another_is_not_told_again(site: Site, tmp_path: Path):
    with reuse_responses(tmp_path / "kept.json") as reuse:
        first = ask(site)
        reuse.asked.clear()
        second = ask(site)
        assert first.text == second.text == "ada, bén for one"
        assert ask(site, token="other").text == "ada, bén for other"
        assert site.statuses == [200, 200]
        site.contents["/group"] = "ada"
        assert ask(site).text == "ada for one"  # the same source means it
        assert len(site.statuses) == 3
    ask(site)
    assert len(site.statuses) == 4  # outside of a pass all is asked


def test_the_next_pass_asks_only_whether_it_changed(site: Site, tmp_path: Path):
    path = tmp_path / "folder" / "kept.json"
    for _ in range(3):
        with reuse_responses(path):
            response = ask(site)
        assert (response.status_code, response.text) == (200, "ada, bén for one")
        assert response.links["next"]["url"] == "next"
    assert site.statuses == [200, 304, 304]
    assert path.stat().st_mode & 0o77 == 0
    site.contents["/group"] = "ada"
    with reuse_responses(path):
        assert ask(site).text == "ada for one"
        assert ask(site, token="other").text == "ada for other"
    assert site.statuses[3:] == [200, 200]


def test_a_file_that_is_broken_or_a_site_without_tags_costs_requests_alone(site: Site, tmp_path: Path):
    path = tmp_path / "kept.json"
    path.write_text("{")
    site.is_tagged = False
    for _ in range(2):
        with reuse_responses(path):
            assert ask(site).text == "ada, bén for one"
    assert site.statuses == [200, 200]
