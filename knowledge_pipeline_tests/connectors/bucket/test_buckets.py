"""Buckets of S3, against moto, and of Google and Azure, against small ones of our own."""

from __future__ import annotations

import builtins
import gzip
import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pathspec import GitIgnoreSpec
from pydantic import SecretStr

from knowledge_pipeline.config.sources import SourceConfig
from knowledge_pipeline.connectors.base import pausing_by
from knowledge_pipeline.connectors.buckets import NOT_UTF8_REASON, BucketTree
from knowledge_pipeline.connectors.files import FileSource, read_text
from knowledge_pipeline.connectors.patterns import SELECTION_DEFAULTS, FileSelection
from knowledge_pipeline.connectors.registry import WebLocation, build_web_location
from knowledge_pipeline.connectors.specifications import SpecificationTree
from knowledge_pipeline.errors import ConfigError, DocumentSkipped, SourceRefused, SourceUnavailable
from knowledge_pipeline.records import Document, Item
from knowledge_pipeline_tests.fakes.bucket import azure_server, gcs_server, s3_server
from knowledge_pipeline_tests.fakes.bucket.azure_server import ACCOUNT, AzureServer
from knowledge_pipeline_tests.fakes.bucket.gcs_server import GcsServer
from knowledge_pipeline_tests.fakes.bucket.s3_server import S3Bucket

Service = S3Bucket | GcsServer | AzureServer
FAKES: dict[type, Any] = {S3Bucket: s3_server, GcsServer: gcs_server, AzureServer: azure_server}


@pytest.fixture(autouse=True)
def no_waits() -> Iterator[None]:
    with pausing_by(lambda _: None):
        yield


@pytest.fixture
def gcs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GcsServer]:
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "nobody"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    with GcsServer(tmp_path) as server:
        yield server


@pytest.fixture
def azure(monkeypatch: pytest.MonkeyPatch) -> Iterator[AzureServer]:
    monkeypatch.setenv(
        "AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential"
    )  # and never a login of this machine
    with AzureServer(page_size=1000) as server:
        yield server


@pytest.fixture(params=["s3", "gcs", "azure"])
def service(request: pytest.FixtureRequest) -> Service:
    return request.getfixturevalue(request.param)


def selected(**patterns: list[str]) -> FileSelection:
    include, exclude = patterns.get("include"), patterns.get("exclude", [])
    chosen = GitIgnoreSpec.from_lines(include) if include else None
    return FileSelection(
        SELECTION_DEFAULTS["markdown"], chosen, GitIgnoreSpec.from_lines(exclude), frozenset(), False
    )


def source_of(service: Service, *, connection: Any = None, max_bytes: int = 1000, **patterns) -> FileSource:
    tree = BucketTree(connection or service.connection, selected(**patterns))
    return FileSource(tree, lambda _: True, read_text, lambda _: "1", max_bytes)


def listed(service: Service, **options) -> dict[str, Item]:
    with source_of(service, **options) as source:
        items = list(source.discover())
    assert len({item.uri for item in items}) == len(items)
    return {item.uri: item for item in items}


def read(service: Service, **options) -> dict[str, Document]:
    with source_of(service, **options) as source:
        return {item.uri: source.fetch(item) for item in source.discover() if item.skip is None}


def keys_of(s3: S3Bucket) -> dict[str, Any]:
    return {name: getattr(s3.connection, name) for name in ("access_key_id", "secret_access_key")}


def slow_down(service: Service, times: int = 1, **more: Any) -> None:
    service.fail_next(*[FAKES[type(service)].Fault(503, **more)] * times)


def test_every_wanted_file_is_listed_and_read(service):
    for key in ("guide.md", "docs/deep/README", "notes.txt", "docs/build.png", "node_modules/a/README.md"):
        service.create(key, f"# {key}\r\nText")
    documents = read(service)
    assert set(documents) == {"guide.md", "docs/deep/README"}
    found = documents["docs/deep/README"]
    assert (found.text, found.path) == ("# docs/deep/README\nText", "docs/deep/README")
    assert found.author is None and found.last_modified is not None
    assert found.last_modified.tzinfo is not None


def test_the_patterns_are_those_of_a_folder(service):
    for key in ("a.md", "b.txt", "docs/c.txt", "docs/d.txt", "vendor/README.md"):
        service.create(key, "text")
    assert set(listed(service, include=["*.txt"], exclude=["docs/c.*"])) == {"b.txt", "docs/d.txt"}
    assert set(listed(service, exclude=["!vendor/"])) == {"a.md", "vendor/README.md"}


def test_the_prefix_is_a_folder_and_no_part_of_the_names(service):
    for key in ("docs/a.md", "docs/sub/b.md", "docs-old/c.md", "d.md"):
        service.create(key, "text")
    for prefix in ("docs", "docs/"):
        connection = service.connection.model_copy(update={"prefix": prefix})
        assert set(read(service, connection=connection)) == {"a.md", "sub/b.md"}


def test_keys_that_stand_for_folders_are_no_files(service):
    service.create("README/", "")
    service.create("docs/README/", "text in a folder's name")
    service.create("docs/a.md", "text")
    assert set(listed(service)) == {"docs/a.md"}
    connection = service.connection.model_copy(update={"prefix": "docs/README"})
    assert listed(service, connection=connection) == {}


ODD = [
    "a//b.md",
    "../up.md",
    "/top.md",
    "q/../../r.md",
    "./d.md",
    "b\\c.md",
    "é.md",
    "100%25 a+b.md",
    "\x01.md",
]


def test_odd_keys_are_names_and_lead_nowhere(service, tmp_path, monkeypatch):
    inside = tmp_path / "one" / "two"
    inside.mkdir(parents=True)
    (tmp_path / "one" / "up.md").write_text("a file of this machine")
    monkeypatch.chdir(inside)
    for number, key in enumerate(ODD):
        service.create(key, f"number {number}")
    documents = read(service)
    assert sorted(document.text for document in documents.values()) == [
        f"number {n}" for n in range(len(ODD))
    ]
    assert documents["../up.md"].text == "number 1" and "100%2525 a+b.md" in documents
    connection = service.connection.model_copy(update={"prefix": "q/.."})
    assert set(read(service, connection=connection)) == {"../r.md"}


def test_excluded_folders_are_left_out_however_odd_the_key(service):
    for key in ("secret/a.md", "secret//b.md", "x/secret/../c.md", "d.md"):
        service.create(key, "text")
    assert set(listed(service, exclude=["secret/"])) == {"d.md"}


def test_nothing_is_asked_before_the_listing(service):
    before = len(service.requests)
    with source_of(service):
        pass
    assert len(service.requests) == before


@pytest.mark.sampled
def test_a_listing_costs_a_call_for_every_thousand_and_asks_for_no_object(service):
    service.create_many(*(f"{number:04}.md" for number in range(1100)))
    service.requests.clear()
    assert len(listed(service)) == 1100
    assert len(service.requests) == 2


@pytest.mark.slow
def test_what_is_there_all_the_time_is_listed_whatever_happens_between_the_pages(service):
    lasting = [f"lasting/{number:04}.md" for number in range(1500)]
    service.create_many(*lasting, *(f"a/{number:04}.md" for number in range(600)))
    hooked: Any = service.server if isinstance(service, S3Bucket) else service

    def meanwhile(page: int) -> None:
        if page == 1:
            for number in range(0, 300, 10):
                service.delete(f"a/{number:04}.md")
            service.create_many(*(f"a/{number:04}-new.md" for number in range(300)))

    hooked.before_page = meanwhile
    assert set(lasting) <= set(listed(service))


def test_a_revision_changes_with_the_object_and_only_then(service):
    service.create("a.md", "one")
    service.create("b.md", "one")
    before = listed(service)
    assert listed(service) == before
    service.edit("a.md", "two")
    after = listed(service)
    assert after["a.md"].revision != before["a.md"].revision
    assert after["b.md"] == before["b.md"]


@pytest.mark.slow
def test_what_is_written_again_with_other_headers_is_read_again(s3):
    s3.create("a.md", gzip.compress(b"text", mtime=0))
    [before] = listed(s3).values()
    time.sleep(1.1)  # S3 tells whole seconds
    s3.create("a.md", gzip.compress(b"text", mtime=0), ContentEncoding="gzip")
    [after] = listed(s3).values()
    assert before.revision != after.revision


def test_an_object_that_was_stored_compressed_is_read_unpacked_and_never_over_the_limit(service):
    name = "ContentEncoding" if isinstance(service, S3Bucket) else "encoding"
    service.create("a.md", gzip.compress(b"# Packed"), **{name: "gzip"})
    assert read(service)["a.md"].text == "# Packed"
    service.create("a.md", gzip.compress(b"x" * 100_000), **{name: "gzip"})
    with source_of(service) as source:
        [item] = source.discover()
        assert item.skip is None
        with pytest.raises(DocumentSkipped, match="larger than 1000 bytes"):
            source.fetch(item)


def test_empty_and_large_objects_are_skipped_by_their_listing_alone(service):
    service.create("empty.md", "")
    service.create("large.md", "x" * 1001)
    assert {uri: item.skip for uri, item in listed(service).items()} == {
        "empty.md": "empty",
        "large.md": "larger than 1000 bytes (1001)",
    }


def test_an_object_that_grew_vanished_or_was_emptied_since_is_skipped(service):
    for key in ("grown.md", "gone.md", "emptied.md"):
        service.create(key, "text")
    with source_of(service) as source:
        items = {item.uri: item for item in source.discover()}
        service.edit("grown.md", "x" * 5000)
        service.edit("emptied.md", "")
        service.delete("gone.md")
        for uri, why in {
            "grown.md": r"^larger than 1000 bytes \(1001\)$",
            "gone.md": "^deleted while it was read$",
            "emptied.md": "^empty$",
        }.items():
            with pytest.raises(DocumentSkipped, match=why):
                source.fetch(items[uri])


def test_a_file_is_searched_whole_to_see_what_it_is(service):
    service.create("api.yaml", "components: {}\n" * 20_000 + "openapi: 3.1.0\n")
    service.create("other.yaml", "a: 1\n")
    service.create("empty.yaml", "")
    tree = BucketTree(service.connection, selected(include=["*.yaml"]))
    specifications = SpecificationTree(tree, 1_000_000)
    with FileSource(specifications, lambda _: True, read_text, lambda _: "1", 1_000_000) as source:
        assert [item.uri for item in source.discover()] == ["api.yaml"]
        [entry] = [entry for entry in tree.list_entries() if entry.path == "api.yaml"]
        assert tree.read_head(entry, 20) == b"components: {}\ncompo"


def test_an_empty_bucket_lists_nothing(service):
    assert listed(service) == {}


@pytest.mark.sampled
def test_what_is_busy_for_a_moment_is_asked_again(service):
    service.create("a.md", "text")
    slow_down(service, 3)
    assert set(listed(service)) == {"a.md"}
    with source_of(service) as source:
        [item] = source.discover()
        slow_down(service, 3)
        assert source.fetch(item).text == "text"


def test_what_stays_busy_is_unavailable_and_no_empty_listing(service):
    service.create("a.md", "text")
    slow_down(service, 6)
    with pytest.raises(SourceUnavailable, match=r"(limits our calls|failed).*: try again later"):
        listed(service)
    assert not (service.server if isinstance(service, S3Bucket) else service).faults


def test_a_busy_second_page_ends_no_listing_early(service):
    service.create_many(*(f"{number:04}.md" for number in range(1100)))
    hooked: Any = service.server if isinstance(service, S3Bucket) else service
    hooked.before_page = lambda page: slow_down(service, 6) if page == 1 else None
    with pytest.raises(SourceUnavailable):
        listed(service)


def test_a_longer_wait_than_we_want_is_told(service):
    fake = FAKES[type(service)]
    pair = ("Retry-After", "3600")
    service.fail_next(fake.Fault(503, headers=(pair,) if fake is s3_server else dict([pair])))
    with pytest.raises(SourceUnavailable, match=r"limits our calls until \d{4}-.* UTC"):
        listed(service)


@pytest.mark.slow
def test_answers_that_are_cut_off_are_asked_for_again(service):
    service.create("a.md", "text" * 100)
    fake = FAKES[type(service)]
    service.fail_next(fake.Fault(cut_off=True), fake.Fault(cut_off=True))
    assert set(listed(service)) == {"a.md"}
    with source_of(service) as source:
        [item] = source.discover()
        service.fail_next(fake.Fault(cut_off=True), fake.Fault(cut_off=True))
        assert source.fetch(item).text == "text" * 100


LOGIN = b"<html><head><title>Log in</title></head><body><form>Name</form></body></html>"
CUT = b'<EnumerationResults ContainerName="the-container"><Blobs/></EnumerationResults>'


@pytest.mark.sampled
@pytest.mark.parametrize("body", [LOGIN, b"", b"[]", b"{}", b"<ListBucketResult/>", CUT])
def test_a_login_page_or_another_service_is_no_empty_bucket(service, body):
    service.create("a.md", "text")
    fake = FAKES[type(service)]
    service.fail_next(*[fake.Fault(200, body=body)] * 6)
    with pytest.raises(SourceRefused, match=r"something other than .*: correct connection\.endpoint_url"):
        listed(service)


def test_a_missing_bucket_is_refused(service):
    service.create("a.md", "text")
    key = "container" if isinstance(service, AzureServer) else "bucket"
    connection = service.connection.model_copy(update={key: "no-such-bucket"})
    with pytest.raises(SourceRefused, match=rf"has no {key} 'no-such-bucket': correct connection\.{key}"):
        listed(service, connection=connection)


def test_a_host_that_does_not_answer_is_unavailable(service):
    connection = service.connection.model_copy(update={"endpoint_url": "http://127.0.0.1:9"})
    with pytest.raises(SourceUnavailable, match=r"did not answer .*connection\.endpoint_url"):
        listed(service, connection=connection)


def test_an_object_that_is_not_for_us_is_skipped_and_the_others_are_read(service):
    service.create("a.md", "text")
    service.create("b.md", "text")
    code = {S3Bucket: {"code": "AccessDenied"}, AzureServer: {"code": "AuthorizationFailure"}}
    denied = FAKES[type(service)].Fault(403, only="a.md", **code.get(type(service), {}))
    with source_of(service) as source:
        first, second = source.discover()
        service.fail_next(denied)
        with pytest.raises(DocumentSkipped, match=r"^the service forbids us to read it"):
            source.fetch(first)
        assert source.fetch(second).text == "text"


def test_a_public_bucket_needs_no_keys_and_a_private_one_says_so(service):
    service.create("a.md", "text", **({"ACL": "public-read"} if isinstance(service, S3Bucket) else {}))
    connection = service.connected(anonymous=True)
    with pytest.raises(SourceRefused, match=r"leave out connection\.anonymous"):
        listed(service, connection=connection)
    if isinstance(service, S3Bucket):
        service.server.public.add(service.name)
    else:
        service.public = True
    assert set(read(service, connection=connection)) == {"a.md"}


def test_where_nobody_is_logged_in_it_says_what_to_set(service):
    with pytest.raises(SourceRefused, match=r"needs an identity.*set connection\.(access|cred|account_key)"):
        listed(service, connection=service.connected())


def test_the_identity_of_the_machine_is_used_where_no_keys_are_given(s3, monkeypatch):
    s3.create("a.md", "text")
    given = s3.connection
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", given.access_key_id.get_secret_value())
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", given.secret_access_key.get_secret_value())
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    assert set(read(s3, connection=s3.connected(region=None))) == {"a.md"}


def test_the_identity_of_the_machine_is_used_for_google_too(gcs, monkeypatch):
    gcs.create("a.md", "text")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(gcs.key_file))
    assert set(read(gcs, connection=gcs.connected())) == {"a.md"}


def test_wrong_keys_are_told_apart_and_never_shown(s3, caplog):
    caplog.set_level("DEBUG", logger="knowledge_pipeline")
    key = s3.connection.access_key_id
    wrong = SecretStr("-".join(("canary", "of", "a", "secret")))
    for more, said in (
        ({"access_key_id": wrong, "secret_access_key": wrong}, r"correct connection\.access_key_id"),
        ({"access_key_id": key, "secret_access_key": wrong}, r"correct connection\.secret_access_key"),
    ):
        with pytest.raises(SourceRefused, match=said) as refused:
            listed(s3, connection=s3.connected(**more))
        for secret in (wrong.get_secret_value(), key.get_secret_value()):
            assert secret not in f"{refused.value!r} {refused.value.__cause__!r} {caplog.text}"


@pytest.mark.slow
def test_a_user_without_permission_is_told_which_one(s3):
    s3.create("a.md", "text")
    key, secret = s3.server.user(allowed=False)
    connection = s3.connected(access_key_id=SecretStr(key), secret_access_key=SecretStr(secret))
    with pytest.raises(SourceRefused, match=r"does not let us list .*AccessDenied.*s3:ListBucket"):
        listed(s3, connection=connection)


@pytest.mark.parametrize(
    ("configured", "of_the_machine", "expected"),
    [("ap-south-1", "eu-west-3", "ap-south-1"), (None, "eu-west-3", "eu-west-3"), (None, None, "us-east-1")],
)
def test_requests_are_signed_for_the_configured_region_or_the_machines(
    s3, monkeypatch, configured, of_the_machine, expected
):
    s3.create("a.md", "text")
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    if of_the_machine:
        monkeypatch.setenv("AWS_DEFAULT_REGION", of_the_machine)
    s3.requests.clear()
    read(s3, connection=s3.connected(**keys_of(s3), region=configured))
    assert s3.requests
    assert all(f"/{expected}/s3/" in request.headers["authorization"] for request in s3.requests)


MOVED = s3_server.Fault(301, "PermanentRedirect", headers=(("x-amz-bucket-region", "eu-west-3"),))


def test_a_bucket_of_another_region_is_followed_there(s3):
    s3.create("a.md", "text")
    s3.fail_next(MOVED)
    assert set(read(s3, connection=s3.connected(**keys_of(s3), region="ap-south-1"))) == {"a.md"}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (s3_server.Fault(400, "ExpiredToken"), "has expired: log in again"),
        (s3_server.Fault(403, "RequestTimeTooSkewed"), "clock of this machine is wrong"),
        (
            s3_server.Fault(400, "AuthorizationHeaderMalformed", more="<Region>eu-west-3</Region>"),
            r"in the region eu-west-3: correct connection\.region",
        ),
        (MOVED, r"in the region eu-west-3: correct connection\.region"),
        (s3_server.Fault(405, "MethodNotAllowed"), r"refuses to answer \(MethodNotAllowed\): correct"),
        (s3_server.Fault(404, "404", body=b"not found"), r"correct connection\.bucket"),
    ],
)
def test_other_refusals_of_s3_name_what_to_correct(s3, fault, said):
    s3.fail_next(*[fault] * 6)
    with pytest.raises(SourceRefused, match=said):
        listed(s3)


def test_a_name_that_no_bucket_can_have_is_refused_without_asking(s3):
    before = len(s3.requests)
    with pytest.raises(
        SourceRefused, match=r"'no/such' is not the name of a bucket: correct connection\.bucket"
    ):
        listed(s3, connection=s3.connection.model_copy(update={"bucket": "no/such"}))
    assert len(s3.requests) == before


def test_one_key_without_the_other_is_told(s3):
    with pytest.raises(ValueError, match="access_key_id without secret_access_key: give both, or none"):
        s3.connected(access_key_id="only")
    with pytest.raises(ValueError, match="secret_access_key without access_key_id: give both, or none"):
        s3.connected(secret_access_key="only")


def test_an_archived_object_is_skipped_with_what_to_do(s3):
    s3.create("a.md", "text", StorageClass="GLACIER")
    with source_of(s3) as source:
        [item] = source.discover()
        with pytest.raises(DocumentSkipped, match="has to be restored"):
            source.fetch(item)


def test_a_key_that_is_not_utf8_is_skipped_by_name(s3):
    page = (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{s3.name}</Name><KeyCount>2</KeyCount><EncodingType>url</EncodingType>"
        "<IsTruncated>false</IsTruncated>"
        + "".join(
            f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
            "<ETag>&quot;e&quot;</ETag><Size>1</Size></Contents>"
            for key in ("caf%E9.md", "caf%E8.md")
        )
        + "</ListBucketResult>"
    )
    s3.fail_next(s3_server.Fault(200, body=page.encode()))
    found = listed(s3)
    assert {uri: item.skip for uri, item in found.items()} == dict.fromkeys(
        ["caf%E9.md", "caf%E8.md"], NOT_UTF8_REASON
    )


@pytest.mark.slow
def test_a_listing_that_goes_in_circles_is_not_believed(s3):
    page = (
        '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
        f"<Name>{s3.name}</Name><KeyCount>0</KeyCount><IsTruncated>true</IsTruncated>"
        "<NextContinuationToken>again</NextContinuationToken></ListBucketResult>"
    )
    s3.fail_next(*[s3_server.Fault(200, body=page.encode())] * 9)
    with pytest.raises(SourceUnavailable, match="repeats a page of a listing"):
        listed(s3)


ENDLESS = {
    S3Bucket: (
        '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>{name}</Name><KeyCount>0</KeyCount>'
        "<IsTruncated>true</IsTruncated><NextContinuationToken>{number}</NextContinuationToken></ListBucketResult>"
    ),
    GcsServer: '{{"kind": "storage#objects", "nextPageToken": "{number}"}}',
    AzureServer: (
        '<EnumerationResults ContainerName="the-container"><Blobs/><NextMarker>{number}</NextMarker>'
        "</EnumerationResults>"
    ),
}


def test_pages_without_objects_are_not_followed_for_ever(service):
    service.create("a.md", "text")
    fake, name = FAKES[type(service)], getattr(service, "name", "")
    pages = [ENDLESS[type(service)].format(name=name, number=number) for number in range(150)]
    service.fail_next(*[fake.Fault(200, body=page.encode()) for page in pages])
    with pytest.raises(SourceUnavailable, match="repeats a page of a listing: try again later"):
        listed(service)


def test_google_s_refusals_name_what_to_correct(gcs, tmp_path):
    gcs.create("a.md", "text")
    gcs.permitted = False
    with pytest.raises(SourceRefused, match=r"does not let us list .*Storage Object Viewer"):
        listed(gcs)
    gcs.known = False
    with pytest.raises(SourceRefused, match=r"does not accept the identity.*connection\.credentials"):
        listed(gcs)
    for content, why in ((None, "No such file"), ("{}", "not the key of a service account")):
        place = tmp_path / "other.json"
        if content:
            place.write_text(content)
        with pytest.raises(SourceRefused, match=rf"connection\.credentials names .*{why}"):
            listed(gcs, connection=gcs.connected(credentials=place))


def test_no_secret_of_google_is_in_an_error(gcs):
    gcs.known = False
    key = json.loads(gcs.key_file.read_text())["private_key"].splitlines()[3]
    with pytest.raises(SourceRefused) as refused:
        listed(gcs)
    assert key not in repr(refused.value) and gcs.token not in repr(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("name", "needed"), [("s3", "botocore"), ("gcs", "google.auth"), ("azure", "azure.identity")]
)
def test_a_missing_client_is_told_with_the_command_that_installs_it(request, monkeypatch, name, needed):
    service = request.getfixturevalue(name)
    imported = builtins.__import__

    def without(module: str, *rest: Any, **more: Any) -> Any:
        if module.startswith(needed):
            raise ImportError(module)
        return imported(module, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=rf"pip install 'knowledge-pipeline\[{name}\]'"):
        listed(service, connection=service.connected())


def test_a_bucket_has_pages_where_it_is_the_service_s_own(s3, gcs, azure):
    blobs = f"https://{ACCOUNT}.blob.core.windows.net/the-container/my%20docs/"
    public = {"prefix": "my docs", "endpoint_url": None, "anonymous": True}
    own = {"bucket": "the-bucket", "prefix": "my docs", "endpoint_url": None}
    for connection, page in (
        (s3.connection, None),
        (gcs.connection, None),
        (s3.connected(**own), "https://console.aws.amazon.com/s3/object/the-bucket?prefix=my%20docs/"),
        (gcs.connected(**own), "https://storage.cloud.google.com/the-bucket/my%20docs/"),
        (azure.connection, None),
        (azure.connected(**public), blobs),
        (azure.connected(**public | {"anonymous": False}), None),
    ):
        source = SourceConfig(id="kept", type="markdown", connection=connection)
        assert build_web_location(source) == WebLocation(web_prefix=page)


def test_times_are_those_of_the_service(s3):
    s3.create("a.md", "text")
    last_modified = read(s3)["a.md"].last_modified
    assert last_modified is not None
    assert abs(last_modified - datetime.now(UTC)) < timedelta(minutes=5)


def test_a_container_is_read_with_a_key_a_shared_signature_or_the_identity_of_the_machine(azure, monkeypatch):
    azure.create("dir/a b é.md", "text")
    for given in ({"account_key": azure.key}, {"sas_token": azure.sas}, {"sas_token": f"?{azure.sas}"}):
        assert set(read(azure, connection=azure.connected(prefix="dir", **given))) == {"a b é.md"}
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "ManagedIdentityCredential")
    for name, value in azure.identity.items():
        monkeypatch.setenv(name, value)
    assert set(read(azure, connection=azure.connected())) == {"dir/a b é.md"}
    assert azure.requests[-1].authorization == f"Bearer {azure.token}"
    for given in ({"account_key": azure.key, "anonymous": True}, {"account_key": "k", "sas_token": "s"}):
        with pytest.raises(ValueError, match="exclude each other: give one, or none"):
            azure.connected(**given)


def test_a_folder_of_a_hierarchical_account_is_no_file_and_an_archived_blob_is_skipped(azure):
    azure.create("README", "", kind="directory")
    azure.create("README/a.md", "text")
    azure.create("\uffff.md", "an odd name")
    assert {document.text for document in read(azure).values()} == {"text", "an odd name"}
    with source_of(azure) as source:
        first, *_ = source.discover()
        azure.fail_next(azure_server.Fault(409, "BlobArchived"))
        with pytest.raises(DocumentSkipped, match="has to be rehydrated"):
            source.fetch(first)


@pytest.mark.parametrize(
    ("given", "fault", "said"),
    [
        ({"account_key": "b3RoZXI="}, None, r"AuthenticationFailed\): correct .*connection\.account_key"),
        ({"account_key": "no key"}, None, "is not the key of an account"),
        ({"sas_token": "sv=1&sig=canary"}, None, r"make a new SAS for connection\.sas_token"),
        ({}, (403, "AuthorizationPermissionMismatch"), "does not let us list .*Storage Blob Data Reader"),
        ({}, (403, "KeyBasedAuthenticationNotPermitted"), r"takes no account keys: leave out"),
        ({"anonymous": True}, (409, "PublicAccessNotPermitted"), r"leave out connection\.anonymous"),
        ({}, (400, "InvalidResourceName"), r"refuses to answer \(InvalidResourceName\): correct"),
        ({}, (302, "Found"), r"refuses to answer"),
    ],
)
def test_azure_s_refusals_name_what_to_correct_and_no_secret(azure, given, fault, said):
    if fault:
        azure.fail_next(azure_server.Fault(*fault))
    with pytest.raises(SourceRefused, match=said) as refused:
        listed(azure, connection=azure.connected(**given) if given else None)
    secrets = [azure.key, *(value for value in given.values() if isinstance(value, str))]
    assert refused.value.__cause__ is None and not [each for each in secrets if each in repr(refused.value)]
