"""Downloads: our identity stays with the service, sizes are bounded, and no web page passes for a file."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest

from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.download import Downloader
from knowledge_pipeline.errors import DocumentSkipped, KnowledgeError, SourceRefused, SourceUnavailable
from knowledge_pipeline_tests.fakes.kept_files import SIGN_IN_PAGE, FileStore, KeptFile, KeptFiles
from knowledge_pipeline_tests.fakes.served import Asked, Sent, Served

IDENTITY = "Bearer kept-to-ourselves"


class Service(Served):
    """A service with files."""

    def __init__(self) -> None:
        super().__init__()
        self.files = KeptFiles()

    def send(self, asked: Asked) -> Sent:
        return self.files.send(asked, IDENTITY) or Sent(404, b"{}")


@pytest.fixture(scope="module")
def store() -> Iterator[FileStore]:
    with FileStore() as server:
        yield server


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with Service() as server, pausing_by(lambda _: None):
        yield server


def read(service: Service, file: KeptFile, name: str = "a.pdf", identity: str = IDENTITY) -> bytes:
    service.files.by_path["/a"] = file
    headers = {"Authorization": identity} if identity else {}
    downloader = Downloader("Files", [service.address], headers)
    try:
        return downloader.read(f"{service.address}/a", name, max_bytes=1000)
    finally:
        downloader.close()


def test_a_redirect_to_another_host_gets_no_identity(service, store):
    service.files.store = store
    try:
        assert read(service, KeptFile(b"%PDF")) == b"%PDF"
    finally:
        service.files.store = None
    assert store.identities == []
    away = Downloader("Files", [service.address], {"Authorization": IDENTITY})
    assert away.read(f"{store.address}/media/0", "a.pdf", 1000) == b"%PDF"
    assert store.identities == [], "nor does an address of another host"
    away.close()


CASES: dict[str, tuple[KeptFile, str, type[KnowledgeError], str]] = {
    "forbidden": (
        KeptFile(b"{}", status=403),
        "a.pdf",
        DocumentSkipped,
        r"forbids us to download it \(403\)",
    ),
    "gone": (KeptFile(b"{}", status=404), "a.pdf", DocumentSkipped, r"has no such file, or .* \(404\)"),
    "odd": (KeptFile(b"{}", status=204), "a.pdf", DocumentSkipped, "answered 204 instead of the file"),
    "failing": (KeptFile(b"{}", status=500), "a.pdf", SourceUnavailable, "answered 500 to every attempt"),
    "too large": (KeptFile(b"x" * 1001), "a.pdf", DocumentSkipped, r"larger than 1000 bytes \(1001\)"),
    "too large once it is unpacked": (
        KeptFile(gzip.compress(bytes(100_000)), headers={"Content-Encoding": "gzip"}),
        *("a.pdf", DocumentSkipped, "larger than 1000 bytes, whatever"),
    ),
    "cut off": (KeptFile(b"x" * 900, cut_off=True), "a.pdf", SourceUnavailable, "did not answer"),
    "a longer length": (
        KeptFile(b"x" * 90, headers={"Content-Length": "900", "Connection": "close"}),
        *("a.pdf", SourceUnavailable, "did not answer"),
    ),
    "a page by its type": (
        KeptFile(SIGN_IN_PAGE, "text/html"),
        "a.pdf",
        DocumentSkipped,
        "a sign-in page is",
    ),
    "a page by its text": (KeptFile(SIGN_IN_PAGE), "a.pdf", DocumentSkipped, "a sign-in page is"),
    "a page to sign in": (
        KeptFile(SIGN_IN_PAGE, "text/html"),
        "a.html",
        DocumentSkipped,
        "a sign-in page is",
    ),
    "led to sign in": (
        KeptFile(b"", status=302, headers={"Location": "/users/sign_in?to=a"}),
        *("a.html", DocumentSkipped, "a sign-in page is"),
    ),
    "in a circle": (
        KeptFile(b"", status=302, headers={"Location": "/a"}),
        *("a.pdf", DocumentSkipped, "redirects us more than 5 times"),
    ),
    "led to a file of ours": (
        KeptFile(b"", status=302, headers={"Location": "file:///etc/passwd"}),
        *("a.pdf", DocumentSkipped, "not encrypted"),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_no_file_is_refused_in_a_sentence(case, service):
    file, name, error, said = CASES[case]
    with pytest.raises(error, match=said) as refused:
        read(service, file, name)
    assert "kept-to-ourselves" not in str(refused.value)


def test_a_wrong_identity_ends_the_refresh_and_none_costs_the_file(service):
    with pytest.raises(SourceRefused, match="does not accept our token for attachments"):
        read(service, KeptFile(b"%PDF"), identity="Bearer wrong")
    with pytest.raises(DocumentSkipped, match=r"\(401\)"):
        read(service, KeptFile(b"%PDF"), identity="")


def test_pages_that_are_attached_are_read(service):
    assert read(service, KeptFile(b"<html>Fees</html>", "text/html"), "a.html") == b"<html>Fees</html>"
