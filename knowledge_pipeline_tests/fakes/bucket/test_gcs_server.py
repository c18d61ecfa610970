"""The fake Google Cloud Storage keeps what its JSON API documents; google-auth itself gets the tokens."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from google.auth.exceptions import RefreshError
from google.auth.transport.requests import AuthorizedSession
from google.oauth2.service_account import Credentials

from knowledge_pipeline_tests.fakes.bucket.gcs_server import Fault, GcsServer

SCOPE = "https://www.googleapis.com/auth/devstorage.read_only"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GcsServer]:
    with GcsServer(tmp_path, page_size=2) as server:
        yield server


@pytest.fixture
def session(server: GcsServer) -> Iterator[AuthorizedSession]:
    """Signed in as Google's own library does it, from the key file."""
    with AuthorizedSession(Credentials.from_service_account_file(server.key_file, scopes=[SCOPE])) as session:
        yield session


def page(server: GcsServer, session: Any, **asked: str) -> requests.Response:
    return session.get(f"{server.url}/storage/v1/b/{server.bucket}/o", params=asked)


def media(server: GcsServer, session: Any, name: str, **headers: str) -> requests.Response:
    return session.get(
        f"{server.url}/download/storage/v1/b/{server.bucket}/o/{name}?alt=media", headers=headers
    )


# https://cloud.google.com/storage/docs/json_api/v1/objects/list


def test_a_listing_comes_in_pages_in_the_order_of_the_names(
    server: GcsServer, session: AuthorizedSession
) -> None:
    server.create_many("b", "a", "dir/c", "dir/d", "e")
    names, token, pages = [], "", 0
    while True:
        told = page(server, session, **({"pageToken": token} if token else {})).json()
        assert told["kind"] == "storage#objects"
        names += [item["name"] for item in told["items"]]
        token, pages = told.get("nextPageToken", ""), pages + 1
        if not token:
            break
    assert (names, pages) == (["a", "b", "dir/c", "dir/d", "e"], 3)


def test_a_listing_is_of_a_prefix_and_of_no_more_than_asked(
    server: GcsServer, session: AuthorizedSession
) -> None:
    server.create_many("dir/a", "dir/b", "directory", "other")
    told = page(server, session, prefix="dir/", maxResults="1").json()
    assert [item["name"] for item in told["items"]] == ["dir/a"] and told["nextPageToken"]
    assert [item["name"] for item in page(server, session, prefix="other").json()["items"]] == ["other"]


def test_an_empty_listing_has_neither_items_nor_a_next_page(
    server: GcsServer, session: AuthorizedSession
) -> None:
    assert page(server, session).json() == {"kind": "storage#objects"}


def test_what_is_written_behind_the_page_that_was_read_is_still_listed(
    server: GcsServer, session: AuthorizedSession
) -> None:
    server.create_many("b", "c", "d")
    first = page(server, session).json()
    server.create_many("a", "e")
    second = page(server, session, pageToken=first["nextPageToken"]).json()
    assert [item["name"] for item in second["items"]] == ["d", "e"]


# https://cloud.google.com/storage/docs/json_api/v1/objects#resource


def test_an_object_is_described_as_google_does(server: GcsServer, session: AuthorizedSession) -> None:
    server.create("a.md", "häh", encoding="gzip")
    [told] = page(server, session).json()["items"]
    generation, metageneration = b64decode(told["etag"]).decode().split(".")
    assert (told["generation"], told["metageneration"]) == (generation, metageneration)
    assert told["size"] == "4" and told["contentEncoding"] == "gzip" and told["bucket"] == server.bucket
    assert told["updated"].endswith("Z") and told["kind"] == "storage#object"


def test_writing_again_makes_a_newer_generation_with_another_etag(
    server: GcsServer, session: AuthorizedSession
) -> None:
    server.create("a.md", "same")
    [before] = page(server, session).json()["items"]
    server.edit("a.md", "same")
    [after] = page(server, session).json()["items"]
    assert int(after["generation"]) > int(before["generation"])
    assert after["etag"] != before["etag"] and after["updated"] > before["updated"]


# https://cloud.google.com/storage/docs/json_api/v1/objects/get


def test_media_are_given_whole_or_in_part_with_generation_and_etag(
    server: GcsServer, session: AuthorizedSession
) -> None:
    server.create("dir/a b.md", "0123456789")
    [told] = page(server, session).json()["items"]
    answer = media(server, session, "dir%2Fa%20b.md", Range="bytes=2-4")
    assert (answer.status_code, answer.content) == (206, b"234")
    assert answer.headers["Content-Range"] == "bytes 2-4/10"
    assert (answer.headers["ETag"], answer.headers["x-goog-generation"]) == (told["etag"], told["generation"])
    assert media(server, session, "dir%2Fa%20b.md").content == b"0123456789"
    assert media(server, session, "dir%2Fa%20b.md", Range="bytes=10-").status_code == 416


def test_what_is_not_there_is_a_404(server: GcsServer, session: AuthorizedSession) -> None:
    server.create("a.md", "text")
    server.delete("a.md")
    assert media(server, session, "a.md").status_code == 404
    elsewhere = session.get(f"{server.url}/storage/v1/b/another-bucket/o")
    assert elsewhere.status_code == 404 and elsewhere.json()["error"]["code"] == 404


# https://cloud.google.com/storage/docs/json_api/v1/status-codes


def test_nobody_is_refused_unless_the_bucket_is_public(server: GcsServer) -> None:
    with requests.Session() as nobody:
        assert page(server, nobody).status_code == 401
        server.public = True
        assert page(server, nobody).status_code == 200


def test_an_account_without_the_permission_is_forbidden(
    server: GcsServer, session: AuthorizedSession
) -> None:
    server.permitted = False
    answer = page(server, session)
    assert answer.status_code == 403 and answer.json()["error"]["code"] == 403


def test_an_account_that_is_unknown_gets_no_token(server: GcsServer, session: AuthorizedSession) -> None:
    server.known = False
    with pytest.raises(RefreshError, match="invalid_grant"):
        page(server, session)
    assert server.requests == []


def test_faults_are_used_up_one_a_request(server: GcsServer, session: AuthorizedSession) -> None:
    server.create("a.md", "0123456789")
    server.fail_next(Fault(404, only="/download/"), Fault(cut_off=True))
    assert page(server, session).status_code == 200, "the fault waits for a download"
    assert media(server, session, "a.md").status_code == 404
    with pytest.raises(requests.exceptions.ChunkedEncodingError):
        media(server, session, "a.md")
    assert media(server, session, "a.md").content == b"0123456789"
