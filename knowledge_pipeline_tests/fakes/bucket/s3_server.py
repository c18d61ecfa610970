"""S3 as moto speaks it, on a real socket, which goes wrong when a test says so.

    def test_something(s3):            # one server for the session, a bucket of its own for the test
        uri = s3.create("guide.md", "# Guide")
        tree = BucketTree(s3.connection, selection)

moto checks signatures and policies. What stands before it counts requests, refuses who does not sign, or who
writes to a bucket that requires encryption without it, and breaks answers.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs

import pytest
from pydantic import SecretStr

from knowledge_pipeline.config.connections import S3Connection

REGION = "us-east-1"
_POLICY = '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"s3:*","Resource":"*"}]}'


@dataclass(frozen=True, slots=True)
class Fault:
    """How one request goes wrong. Faults are used up in order, one a request."""

    status: int = 503
    code: str = "SlowDown"  # of S3's XML
    more: str = ""  # elements beside the code
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None  # this body, whatever it is
    cut_off: bool = False  # half of the true answer, then the connection is closed
    only: str = ""  # the next request whose path holds this

    @property
    def xml(self) -> bytes:
        head = '<?xml version="1.0" encoding="UTF-8"?>'
        return f"{head}<Error><Code>{self.code}</Code><Message>-</Message>{self.more}</Error>".encode()


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it arrived."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]


class S3Server:
    """moto on a socket; started once, and shared by buckets of different tests."""

    def __init__(self) -> None:
        from moto.server import DomainDispatcherApplication, create_backend_app
        from werkzeug.serving import make_server

        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._moto: Any = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.port}"
        self.requests: list[Request] = []
        self.faults: deque[Fault] = deque()
        self.public: set[str] = set()  # buckets that need no signature
        self.required_keys: dict[str, str] = {}  # bucket -> key of KMS, with which alone objects are uploaded
        self.before_page: Callable[[int], None] | None = None  # called with the number of pages so far
        self.after_put: Callable[[str], None] | None = None  # called with the path, before the answer
        self._pages = 0
        self._writing = threading.Lock()

    def __enter__(self) -> S3Server:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def reset(self) -> None:
        """As if no test had been before, but for the buckets."""
        self.requests.clear()
        self.faults.clear()
        self.before_page, self._pages, self.after_put = None, 0, None

    @cached_property
    def operator(self) -> Any:
        """Whoever makes the buckets and fills them."""
        return self.client()

    @cached_property
    def reader(self) -> tuple[str, str]:
        """The key and the secret of the user that most tests read with."""
        return self.user()

    def user(self, *, allowed: bool = True) -> tuple[str, str]:
        """The key and the secret of a new user, who may do everything or nothing."""
        iam, name = self.client("iam"), f"user-{uuid.uuid4().hex}"
        iam.create_user(UserName=name)
        if allowed:
            iam.put_user_policy(UserName=name, PolicyName="all", PolicyDocument=_POLICY)
        made = iam.create_access_key(UserName=name)["AccessKey"]
        return made["AccessKeyId"], made["SecretAccessKey"]

    def client(self, service: str = "s3") -> Any:
        """A client that the server does not check, nor count."""
        import botocore.session

        made = botocore.session.Session().create_client(
            service,
            region_name=REGION,
            endpoint_url=self.url,
            aws_access_key_id="unchecked",
            aws_secret_access_key="unchecked",
        )
        made.meta.events.register("before-sign", _as_operator)
        return made

    def _answer(self, environment: dict[str, Any], start: Any) -> Iterable[bytes]:
        if environment.get("HTTP_X_OPERATOR"):
            return self._of_moto(environment, start, checked=False)
        path = environment["PATH_INFO"]
        query = parse_qs(environment["QUERY_STRING"], keep_blank_values=True)
        headers = {name[5:].lower(): value for name, value in environment.items() if name[:5] == "HTTP_"}
        self.requests.append(Request(environment["REQUEST_METHOD"], path, query, headers))
        if "list-type" in query and self.before_page:
            self._pages += 1
            self.before_page(self._pages - 1)
        fault = self.faults.popleft() if self.faults and self.faults[0].only in path else None
        if fault and fault.cut_off:
            return self._cut_off(environment, start)
        if fault:
            return _refused(fault, start)
        public = path.strip("/").partition("/")[0] in self.public
        if not public and "authorization" not in headers:
            return _refused(Fault(403, "AccessDenied"), start)
        if self._lacks_encryption(environment["REQUEST_METHOD"], path, query, headers):
            return _refused(Fault(403, "AccessDenied"), start)
        answer = self._of_moto(environment, start, checked=not public)
        if self.after_put and environment["REQUEST_METHOD"] == "PUT":
            self.after_put(path)
        return answer

    def _lacks_encryption(
        self, method: str, path: str, query: dict[str, list[str]], headers: dict[str, str]
    ) -> bool:
        """What a policy that denies PutObject without SSE-KMS, or by another key, refuses.

        The parts of a multipart upload have what was said when it began.

        Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingKMSEncryption.html
        """
        bucket, _, key = path.strip("/").partition("/")
        begins = method == "POST" and "uploads" in query
        whole = method == "PUT" and "partNumber" not in query
        if not key or bucket not in self.required_keys or not (begins or whole):
            return False
        kind = headers.get("x_amz_server_side_encryption")
        used = headers.get("x_amz_server_side_encryption_aws_kms_key_id")
        return (kind, used) != ("aws:kms", self.required_keys[bucket])

    def _of_moto(self, environment: dict[str, Any], start: Any, *, checked: bool) -> Iterable[bytes]:
        from moto import settings
        from moto.core.authorization import ActionAuthenticatorMixin

        settings.INITIAL_NO_AUTH_ACTION_COUNT = 0 if checked else float("inf")
        ActionAuthenticatorMixin.request_count = 0
        if environment["REQUEST_METHOD"] != "PUT":
            return self._moto(environment, start)
        with self._writing:  # moto looks at a condition, and writes, in two steps
            return self._moto(environment, start)

    def _cut_off(self, environment: dict[str, Any], start: Any) -> Iterator[bytes]:
        whole = b"".join(self._of_moto(environment, start, checked=False))
        yield whole[: len(whole) // 2]
        with suppress(OSError):
            environment["werkzeug.socket"].close()


def _refused(fault: Fault, start: Any) -> Iterable[bytes]:
    body = fault.xml if fault.body is None else fault.body
    kind = "application/xml" if fault.body is None else "text/html"
    headers = [("Content-Type", kind), ("Content-Length", str(len(body))), *fault.headers]
    start(f"{fault.status} -", headers)
    return [body]


def _as_operator(request: Any, **_: Any) -> None:
    request.headers["x-operator"] = "yes"


@dataclass
class S3Bucket:
    """One bucket of the server, and a connection that may read it."""

    server: S3Server
    name: str = field(default_factory=lambda: f"bucket-{uuid.uuid4().hex[:12]}")

    def __post_init__(self) -> None:
        self.operator = self.server.operator
        self.operator.create_bucket(Bucket=self.name)
        key, secret = self.server.reader
        self.connection = self.connected(access_key_id=SecretStr(key), secret_access_key=SecretStr(secret))

    def connected(self, **more: Any) -> S3Connection:
        given = {"bucket": self.name, "endpoint_url": self.server.url, "region": REGION, **more}
        return S3Connection.model_validate({"type": "s3", **given})

    def create(self, title: str, text: str | bytes, **more: Any) -> str:
        """The key is the title."""
        self.operator.put_object(
            Bucket=self.name, Key=title, Body=text.encode() if isinstance(text, str) else text, **more
        )
        return title

    def create_many(self, *titles: str) -> None:
        """Short texts, many at once: past the socket."""
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        for title in titles:
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(self.name, title, b"text")

    edit = create

    def delete(self, uri: str) -> None:
        self.operator.delete_object(Bucket=self.name, Key=uri)

    def fail_next(self, *faults: Fault) -> None:
        self.server.faults.extend(faults)

    @property
    def requests(self) -> list[Request]:
        return self.server.requests


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One server for the whole session."""
    with S3Server() as server:
        yield server


@pytest.fixture
def s3(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> S3Bucket:
    """An empty bucket, on a machine that nobody has logged in on."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    bucket = S3Bucket(s3_server)
    s3_server.reset()
    return bucket
